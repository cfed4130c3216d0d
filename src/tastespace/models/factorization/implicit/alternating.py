"""Alternating least squares on one-class data: a transition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix
from tastespace.data.ratings import Ratings
from tastespace.errors import NonFiniteStateError
from tastespace.inference.transition import Stats
from tastespace.models.factorization.implicit.cells import Chosen, Confidence, Others, descend, errors, solve

START = 0.01  # The largest: scores start near 0, where nearly all belong, and above it, as choices are.
Solver = Literal["conjugate", "cholesky"]


@dataclass(frozen=True)
class Ridge:
    """What holds rows back: l = strength * (1 + weights / columns), or the strength alone.

    The second factor is the mean confidence of a row's cells: an item that many chose is held back more (Rendle,
    Krichene, Zhang and Koren 2021).
    """

    strength: float
    is_weighted: bool

    def of(self, chosen: Chosen, n_columns: int) -> FloatArray:
        """One a row."""
        ridge = np.full(len(chosen), float(self.strength))
        if self.is_weighted:
            ridge *= 1 + chosen.total_weights() / max(n_columns, 1)
        return ridge.astype(np.float32)


@dataclass(frozen=True, eq=False)
class ImplicitState:
    """A state: rows of factors and, last, the bias, if there is one."""

    users: FloatMatrix
    items: FloatMatrix


@dataclass(frozen=True, eq=False)
class AlternatingChoices:
    """One sweep: items given users, then users given items, so that users end where a fold-in would put them."""

    by_user: Chosen
    by_item: Chosen
    user_ridge: FloatArray
    item_ridge: FloatArray
    n_factors: int
    has_biases: bool
    solver: Solver
    steps: int
    threads: int

    @classmethod
    def bind(
        cls,
        observed: Ratings,
        confidence: Confidence,
        ridge: Ridge,
        *,
        n_factors: int,
        biases: bool,
        solver: Solver,
        steps: int,
        threads: int,
    ) -> AlternatingChoices:
        """The transition for these ratings."""
        by_user, by_item = Chosen.of(observed.by_user, confidence), Chosen.of(observed.by_item, confidence)
        return cls(
            by_user,
            by_item,
            ridge.of(by_user, observed.n_items),
            ridge.of(by_item, observed.n_users),
            n_factors,
            biases,
            solver,
            steps,
            threads,
        )

    def init(self, rng: Generator) -> ImplicitState:
        """Small factors above 0, no biases."""

        def points(n: int) -> FloatMatrix:
            rows = np.float32(START) * rng.random((n, self.n_factors + self.has_biases), np.float32)
            if self.has_biases:
                rows[:, -1] = 0
            return rows

        return ImplicitState(points(len(self.by_user)), points(len(self.by_item)))

    def step(self, state: ImplicitState, rng: Generator) -> tuple[ImplicitState, Stats]:
        state = self.moved(state)
        with np.errstate(over="ignore", invalid="ignore"):  # It is looked at below.
            loss = self.loss(state)
        if not math.isfinite(loss):
            raise NonFiniteStateError(
                f"the loss after a sweep is {loss}; expected a number: try smaller counts, growth='log', or a larger "
                "regularisation"
            )
        return state, {"loss": loss}

    def moved(self, state: ImplicitState) -> ImplicitState:
        items = self._rows(self.by_item, state.users, self.item_ridge, state.items)
        return ImplicitState(self._rows(self.by_user, items, self.user_ridge, state.users), items)

    def loss(self, state: ImplicitState) -> float:
        """E."""
        of_cells = errors(self.by_user, state.users, state.items, self.has_biases, self.threads)
        return 0.5 * (of_cells + held_back(state.users, self.user_ridge) + held_back(state.items, self.item_ridge))

    def _rows(self, chosen: Chosen, other: FloatMatrix, ridge: FloatArray, start: FloatMatrix) -> FloatMatrix:
        others = Others.of(other, self.has_biases, self.threads)
        if self.solver == "cholesky":
            return solve(chosen, others, ridge, self.threads)
        return descend(chosen, others, ridge, start, self.steps, self.threads)


def held_back(points: FloatMatrix, ridge: FloatArray) -> float:
    """sum of l |x|^2 over rows."""
    squares: DoubleArray = np.einsum("nw,nw->n", points, points, dtype=np.float64)
    return float(np.sum(squares * ridge))
