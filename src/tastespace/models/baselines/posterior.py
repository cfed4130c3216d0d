"""What the baselines conclude: a mean and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.models.biases import Baseline, taken


@dataclass(frozen=True, eq=False)
class BiasPosterior:
    """rating = mean + user bias + item bias; items are ranked by their appeal."""

    mean: float
    user_bias: FloatArray
    item_bias: FloatArray
    item_appeal: FloatArray  # what `recommend` orders by, and shows
    user_damping: float  # a user's bias is a sum over his ratings, divided by their number plus this

    def known(self, user_rows: IntArray, threads: int = 1) -> FloatArray:
        """The bias of each user; a stranger has none."""
        return taken(self.user_bias, user_rows)

    def fold_in(self, history: Compressed, threads: int) -> FloatArray:
        return Baseline(self.mean, self.item_bias, self.user_damping).user_bias(history)

    def predict(self, belief: FloatArray, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        return (self.mean + belief[belief_rows] + taken(self.item_bias, item_rows)).astype(np.float32)

    def choose(self, which: BoolArray, one: FloatArray, other: FloatArray) -> FloatArray:
        return np.where(which, one, other)

    def query_vectors(self, belief: FloatArray) -> FloatMatrix:
        return np.ones((len(belief), 1), np.float32)

    def item_vectors(self) -> FloatMatrix:
        return self.item_appeal[:, None]

    def offsets(self, belief: FloatArray) -> FloatArray:
        return belief

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "constants": np.array([self.mean, self.user_damping]),
            "user_bias": self.user_bias,
            "item_bias": self.item_bias,
            "item_appeal": self.item_appeal,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BiasPosterior:
        mean, damping = (float(value) for value in arrays["constants"])
        return cls(mean, arrays["user_bias"], arrays["item_bias"], arrays["item_appeal"], damping)
