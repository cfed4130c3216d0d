"""How alike items are by who rated them: common raters / sqrt(raters of one * raters of the other).

That is the cosine of two columns of the training matrix, rated = 1 and not rated = 0. No model is needed to know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray
from tastespace.data.compressed import Compressed


@dataclass(frozen=True, eq=False)
class RaterBits:
    """Who rated each of some items, one bit a user, so that common raters are counted 64 at a time."""

    bits: NDArray[np.uint64]  # one row an item
    lengths: FloatArray  # root of the number of raters of each

    @classmethod
    def of(cls, raters: Compressed, n_users: int) -> RaterBits:
        """`raters` has one row an item, whose users ascend."""
        bits = np.zeros((len(raters), n_words(n_users)), np.uint64)
        if len(raters.columns):
            words = raters.rows().astype(np.int64) * bits.shape[1] + raters.columns // 64
            starts = np.flatnonzero(np.diff(words, prepend=-1))  # where another word begins
            flags = np.uint64(1) << (raters.columns % 64).astype(np.uint64)
            bits.reshape(-1)[words[starts]] = np.bitwise_or.reduceat(flags, starts)
        return cls(bits, np.sqrt(raters.counts).astype(np.float32))

    def cosines(self, one: NDArray[Any], other: NDArray[Any]) -> FloatArray:
        """Of pairs of these items, positions that broadcast; 0 with an item that nobody rated."""
        common = np.bitwise_count(self.bits[one] & self.bits[other]).sum(axis=-1, dtype=np.int64)
        scale = self.lengths[one] * self.lengths[other]
        return np.asarray(common / np.where(scale > 0, scale, 1), np.float32)


def n_words(n_users: int) -> int:
    """How many numbers of 64 bits have one for each user."""
    return -(-n_users // 64)
