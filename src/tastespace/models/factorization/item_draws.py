"""Kept draws of the items, with all that a user can be folded in by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.models.factorization.gibbs import GibbsState
from tastespace.models.factorization.priors import Population

if TYPE_CHECKING:
    from tastespace.models.factorization.beliefs import Belief


@dataclass(frozen=True, eq=False)
class Populations:
    """The hyper-parameters of one side, a draw each."""

    means: DoubleArray  # S x D
    precisions: DoubleArray  # S x D x D
    bias_means: DoubleArray  # S
    bias_precisions: DoubleArray  # S: 0 without biases

    @classmethod
    def of(cls, drawn: Sequence[Population]) -> Populations:
        return cls(
            np.stack([population.mean for population in drawn]),
            np.stack([population.precision for population in drawn]),
            np.array([population.bias_mean for population in drawn]),
            np.array([population.bias_precision for population in drawn]),
        )

    # As the kernels take them.
    @cached_property
    def precision(self) -> FloatArray:
        return contiguous(self.precisions, np.float32)

    @cached_property
    def linear(self) -> FloatMatrix:
        return contiguous(np.einsum("sij,sj->si", self.precisions, self.means), np.float32)

    @property
    def bias_precision(self) -> DoubleArray:
        return self.bias_precisions

    @cached_property
    def bias_linear(self) -> DoubleArray:
        return self.bias_precisions * self.bias_means

    @cached_property
    def log_determinant(self) -> DoubleArray:
        """Of the precision of factors and bias together."""
        of_bias = np.where(
            self.bias_precisions > 0, np.log(np.where(self.bias_precisions > 0, self.bias_precisions, 1)), 0
        )
        return np.asarray(np.linalg.slogdet(self.precisions)[1] + of_bias)

    @cached_property
    def constant(self) -> DoubleArray:
        """The part of twice the prior's energy that does not depend on the row."""
        of_factors = np.einsum("si,sij,sj->s", self.means, self.precisions, self.means)
        return np.asarray(of_factors + self.bias_precisions * self.bias_means**2)

    def arrays(self, side: str) -> dict[str, NDArray[Any]]:
        return {
            f"{side}_means": self.means,
            f"{side}_precisions": self.precisions,
            f"{side}_bias_means": self.bias_means,
            f"{side}_bias_precisions": self.bias_precisions,
        }

    @classmethod
    def from_arrays(cls, side: str, arrays: Mapping[str, NDArray[Any]]) -> Populations:
        names = ("means", "precisions", "bias_means", "bias_precisions")
        return cls(*(contiguous(arrays[f"{side}_{name}"], np.float64) for name in names))


@dataclass(frozen=True, eq=False)
class Hyper:
    """What is kept of a state besides the items."""

    user_population: Population
    item_population: Population
    alpha: float


class Keeper:
    """Keeps draws of the items in their final place, so that they take no more room than that."""

    def __init__(self, n_draws: int, n_items: int, width: int, stored: Any) -> None:
        self.items = np.empty((n_items, n_draws, width), np.float32)
        self.stored = stored  # the type they are written as: what is lost then is lost now, for the same answers

    def keep(self, state: GibbsState, place: int) -> Hyper:
        """The items of a state, at a place of their own."""
        n_factors = state.items.factors.shape[1]
        self.items[:, place, :n_factors] = state.items.factors.astype(self.stored)
        if state.items.bias is not None:
            self.items[:, place, n_factors] = state.items.bias.astype(self.stored)
        return Hyper(state.user_population, state.item_population, state.alpha)


@dataclass(frozen=True, eq=False)
class ItemDraws:
    """The draws, all that a user can be folded in by: S of them, M items, W numbers each."""

    items: FloatArray  # M x S x W: factors and, last, the bias, if there is one
    users: Populations
    new_items: Populations  # what items never seen are drawn from
    alpha: DoubleArray  # S
    has_biases: bool
    offset: float
    scale: float

    @classmethod
    def of(
        cls, items: FloatArray, hyper: Sequence[Hyper], *, has_biases: bool, offset: float, scale: float
    ) -> ItemDraws:
        return cls(
            items=items,
            users=Populations.of([draw.user_population for draw in hyper]),
            new_items=Populations.of([draw.item_population for draw in hyper]),
            alpha=np.array([draw.alpha for draw in hyper]),
            has_biases=has_biases,
            offset=offset,
            scale=scale,
        )

    @property
    def n_factors(self) -> int:
        return int(self.items.shape[2]) - self.has_biases

    @cached_property
    def unknown_item(self) -> FloatMatrix:
        """The expected item that nobody has rated; S x W."""
        means = self.new_items.means
        return contiguous(
            np.hstack([means, self.new_items.bias_means[:, None]]) if self.has_biases else means, np.float32
        )

    @cached_property
    def unknown_item_roots(self) -> DoubleArray:
        """Roots of the covariance of such an item's factors: covariance = root^T root; S x D x D."""
        return np.linalg.inv(np.linalg.cholesky(self.new_items.precisions))

    def unknown_item_variance(self, belief: Belief, row: int) -> DoubleArray:
        """What not knowing an item adds to the variance of its score for a user, a figure a draw.

        E[(u.(v - mean))^2] over u and v: mean and covariance of u through the covariance of v.
        """
        n_factors = self.n_factors
        through_mean = np.einsum("sij,sj->si", self.unknown_item_roots, belief.means[row, :, :n_factors])
        through_root = self.unknown_item_roots @ belief.roots[row, :, :n_factors].astype(np.float64)
        variance = np.sum(through_mean**2, axis=1) + np.sum(through_root**2, axis=(1, 2))
        return np.asarray(variance + (1 / self.new_items.bias_precisions if self.has_biases else 0.0))
