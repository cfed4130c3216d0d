"""What both neighbourhood models keep and answer: a baseline, the ratings, and what neighbours add."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.biases import Baseline
from tastespace.models.neighbors.kernels import Rule, Targets


@dataclass(frozen=True, eq=False)
class Histories(Belief):
    """What is believed about users: that they rate as they did. Ratings (columns are item rows) and biases."""

    posterior: NeighbourPosterior
    ratings: CSR
    bias: FloatArray  # one a user
    threads: int

    def __len__(self) -> int:
        return len(self.bias)

    def take(self, rows: IntArray) -> Histories:
        return Histories(self.posterior, self.ratings.take(rows), self.bias[rows], self.threads)

    def mean(self, pairs: Pairs) -> FloatArray:
        order = np.argsort(pairs.rows, kind="stable")
        rows, starts = np.unique(pairs.rows[order], return_index=True)
        targets = Targets(np.append(starts, len(order)).astype(np.int64), pairs.items[order])
        adjustments = np.empty(len(order), np.float32)
        adjustments[order] = self.posterior.adjustments(self.take(rows), targets)
        return self.posterior.baseline.ratings(self.bias[pairs.rows], pairs.items) + adjustments

    def scores(self, rows: IntArray) -> FloatMatrix:
        adjustments = self.posterior.adjustments_of_all(self.take(rows))
        items = np.arange(self.posterior.n_items, dtype=np.int32)
        return self.posterior.baseline.ratings(self.bias[rows, None], items) + adjustments


@dataclass(frozen=True, eq=False)
class NeighbourPosterior(Posterior):
    """rating = baseline + what the neighbours say; a subclass asks its kind of neighbours."""

    baseline: Baseline
    ratings: CSR  # of the training users: they are asked about like anybody else
    rule: Rule

    @abstractmethod
    def adjustments(self, belief: Histories, targets: Targets) -> FloatArray:
        """What neighbours add to the baseline, for each item that each user of the belief is asked about."""

    @abstractmethod
    def adjustments_of_all(self, belief: Histories) -> FloatMatrix:
        """The same for every item, one row a user of the belief."""

    @property
    def n_items(self) -> int:
        return len(self.baseline.item_bias)

    def believe(self, people: People, threads: int) -> Histories:
        return Histories(self, people.history, self.baseline.user_bias(people.history), threads)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "constants": np.array([self.baseline.mean, self.baseline.user_damping]),
            "rule": self.rule.array(),
            "item_bias": self.baseline.item_bias,
            "offsets": self.ratings.offsets,
            "columns": self.ratings.columns,
            "values": self.ratings.values,
        }


def shared_parts(arrays: Mapping[str, NDArray[Any]]) -> tuple[Baseline, CSR, Rule]:
    """What `arrays` of the base class has written; parts that do not fit together are refused."""
    mean, damping = (float(value) for value in arrays["constants"])
    ratings = CSR(arrays["offsets"], arrays["columns"], arrays["values"])
    require_rows("ratings", ratings, len(arrays["item_bias"]))
    return Baseline(mean, arrays["item_bias"], damping), ratings, Rule.from_array(arrays["rule"])


def require_rows(name: str, rows: CSR, n_columns: int) -> None:
    """Refuse compressed rows that are none: the kernels rely on them."""
    offsets, columns = rows.offsets, rows.columns
    whole = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(columns) == len(rows.values)
    if not whole or (np.diff(offsets) < 0).any():
        raise ValueError(f"the offsets of the {name} do not fit them")
    if len(columns) and not 0 <= columns.min() <= columns.max() < n_columns:
        raise ValueError(f"the {name} do not fit the items")
