"""A point estimate of factors and biases, and how a new user is placed among the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.compressed import Compressed
from tastespace.models.factorization.rows import Points, RowPrior, Side, solve_rows


@dataclass(frozen=True)
class Weighting:
    """How a row's penalty grows with its ratings: per_rating * n + base.

    Weighted-lambda is n (Zhou et al. 2008), plain is 1; n + base does better than either: like plain, it holds
    rows with few ratings back, like weighted-lambda, it does not let go of those with many.
    """

    per_rating: float
    base: float

    def of(self, counts: NDArray[Any]) -> NDArray[Any]:
        """The weight of each row; a row without ratings has that of one, so that its answer is the prior's."""
        return np.asarray(self.per_rating * np.maximum(counts, 1) + self.base)


@dataclass(frozen=True)
class Strengths:
    """How strongly each block is pulled to zero."""

    users: float
    items: float
    user_bias: float
    item_bias: float

    @classmethod
    def tied(cls, strength: float) -> Strengths:
        """The same strength for all blocks."""
        return cls(strength, strength, strength, strength)


@dataclass(frozen=True)
class Penalty:
    """The regularisation of a factorization: strengths, times the weight of a row."""

    strengths: Strengths
    weighting: Weighting

    def prior(self, of: str, n_factors: int, counts: NDArray[Any], dtype: Any) -> RowPrior:
        """The prior of one side, "users" or "items"."""
        strengths = self.strengths
        factors, bias = (
            (strengths.users, strengths.user_bias) if of == "users" else (strengths.items, strengths.item_bias)
        )
        return RowPrior(
            precision=factors * np.eye(n_factors, dtype=dtype),
            linear=np.zeros((1, n_factors), dtype),
            bias_precision=bias,
            scale=self.weighting.of(counts).astype(dtype),
        )


@dataclass(frozen=True, eq=False)
class PointPosterior:
    """rating = mean + user bias + item bias + user . item (no biases: None)."""

    mean: float
    users: Points
    items: Points
    penalty: Penalty
    losses: DoubleArray  # after each sweep of the final fit

    def known(self, user_rows: IntArray) -> Points:
        stranger = user_rows < 0
        factors = self.users.factors[np.maximum(user_rows, 0)]
        factors[stranger] = 0
        if self.users.bias is None:
            return Points(factors)
        bias = self.users.bias[np.maximum(user_rows, 0)]
        bias[stranger] = 0
        return Points(factors, bias)

    def fold_in(self, history: Compressed, threads: int) -> Points:
        """The same update that training makes for a user: a training user with his own ratings stays in place."""
        dtype = self.items.factors.dtype
        side = Side(history.offsets, history.columns, (history.values - self.mean).astype(dtype))
        prior = self.penalty.prior("users", self.items.factors.shape[1], history.counts, dtype)
        return solve_rows(side, self.items, prior, name="user", threads=threads).points

    def predict(self, belief: Points, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        out = np.empty(len(belief_rows), np.float32)
        users, items = _single(belief), _single(self.items)
        _native.score_pairs(
            contiguous(belief_rows, np.int32),
            contiguous(item_rows, np.int32),
            users.factors,
            items.factors,
            users.bias,
            items.bias,
            self.mean,
            out,
            threads,
        )
        return out

    def query_vectors(self, belief: Points) -> FloatMatrix:
        ones = np.ones((len(belief.factors), 0 if self.items.bias is None else 1), np.float32)
        return np.hstack([belief.factors, ones]).astype(np.float32)

    def item_vectors(self) -> FloatMatrix:
        if self.items.bias is None:
            return contiguous(self.items.factors, np.float32)
        return np.hstack([self.items.factors, self.items.bias[:, None]]).astype(np.float32)

    def offsets(self, belief: Points) -> FloatArray:
        bias = np.zeros(len(belief.factors), np.float32) if belief.bias is None else belief.bias
        return (bias + self.mean).astype(np.float32)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "mean": np.array([self.mean]),
            "strengths": np.array(astuple(self.penalty.strengths)),
            "weighting": np.array(astuple(self.penalty.weighting)),
            "losses": self.losses,
            "user_factors": self.users.factors,
            "item_factors": self.items.factors,
        }
        if self.users.bias is not None and self.items.bias is not None:
            arrays |= {"user_bias": self.users.bias, "item_bias": self.items.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PointPosterior:
        return cls(
            mean=float(arrays["mean"][0]),
            users=Points(arrays["user_factors"], arrays.get("user_bias")),
            items=Points(arrays["item_factors"], arrays.get("item_bias")),
            penalty=Penalty(
                Strengths(*(float(value) for value in arrays["strengths"])),
                Weighting(*(float(value) for value in arrays["weighting"])),
            ),
            losses=arrays["losses"],
        )


def _single(points: Points) -> Points:
    """In single precision, as scores are computed."""
    bias = None if points.bias is None else contiguous(points.bias, np.float32)
    return Points(contiguous(points.factors, np.float32), bias)
