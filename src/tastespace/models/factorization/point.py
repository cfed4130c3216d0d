"""A point estimate of factors and biases, and how a new user is placed among the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.compressed import Compressed
from tastespace.models.factorization.rows import Points, RowPrior, Side, solve_rows


@dataclass(frozen=True)
class Strengths:
    """How strongly each block is pulled to zero; with `weighted`, times the number of ratings of its row."""

    users: float
    items: float
    user_bias: float
    item_bias: float
    weighted: bool = True

    def prior(self, of: str, n_factors: int, counts: NDArray[Any], dtype: Any) -> RowPrior:
        """The prior of one side, "users" or "items". A row without ratings keeps a prior of one rating's weight."""
        strength = self.users if of == "users" else self.items
        bias_strength = self.user_bias if of == "users" else self.item_bias
        return RowPrior(
            precision=strength * np.eye(n_factors, dtype=dtype),
            linear=np.zeros((1, n_factors), dtype),
            bias_precision=bias_strength,
            scale=np.maximum(counts, 1).astype(dtype) if self.weighted else None,
        )


@dataclass(frozen=True, eq=False)
class PointPosterior:
    """rating = mean + user bias + item bias + user . item (no biases: None)."""

    mean: float
    users: Points
    items: Points
    strengths: Strengths
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
        prior = self.strengths.prior("users", self.items.factors.shape[1], history.counts, dtype)
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
        strengths = self.strengths
        arrays: dict[str, NDArray[Any]] = {
            "mean": np.array([self.mean]),
            "strengths": np.array([strengths.users, strengths.items, strengths.user_bias, strengths.item_bias]),
            "weighted": np.array([strengths.weighted], np.uint8),
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
            strengths=Strengths(*(float(value) for value in arrays["strengths"]), weighted=bool(arrays["weighted"][0])),
            losses=arrays["losses"],
        )


def _single(points: Points) -> Points:
    """In single precision, as scores are computed."""
    bias = None if points.bias is None else contiguous(points.bias, np.float32)
    return Points(contiguous(points.factors, np.float32), bias)
