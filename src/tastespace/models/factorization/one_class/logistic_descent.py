"""Logistic factorization of choices by stochastic gradients: a transition.

    P(chosen) = 1 / (1 + exp(-s_ij)),   s_ij = g + c_i + d_j + u_i . v_j

    E = sum over chosen of b_ij log(1 + exp(-s_ij)) + sum over not chosen of w_ij log(1 + exp(s_ij))
        + l/2 (sum |u_i|^2 + sum |v_j|^2 + sum c_i^2 + sum d_j^2)

(Johnson 2014). b is 1 + strength * f(count), w that of `negatives`, and g a constant, the logarithm of sum b / sum w:
what a cell has of which nothing is known. An epoch takes one step of all items given the users, and one of all users
given the items. The gradient of a row is that of what it chose, all of it, and of cells drawn for this step; each of
its coordinates has a step size of its own (AdaGrad: Duchi, Hazan and Singer 2011). A row moves by what the other side
was before, and draws from a stream of its own: so rows can be moved in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.compressed import Compressed
from tastespace.data.ratings import Ratings
from tastespace.inference.transition import Stats
from tastespace.models.factorization.one_class.confidence import Confidence
from tastespace.models.factorization.one_class.negatives import Drawing, Unchosen

START_SD = 0.1


@dataclass(frozen=True, eq=False)
class Shown:
    """What each row of a side chose, with what weight, and what it is shown besides."""

    offsets: OffsetArray
    columns: IntArray
    weights: FloatArray  # b
    drawing: Drawing

    @classmethod
    def of(cls, chosen: Compressed, confidence: Confidence, drawing: Drawing) -> Shown:
        return cls(
            contiguous(chosen.offsets, np.int64),
            contiguous(chosen.columns, np.int32),
            1 + confidence.beyond_one(chosen.values),
            drawing,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False)
class Rows:
    """One side: factors, biases if there are any, and the squares of all gradients so far."""

    factors: FloatMatrix
    bias: FloatArray | None
    squares: FloatMatrix
    bias_squares: FloatArray | None

    @classmethod
    def start(cls, n: int, n_factors: int, has_biases: bool, rng: Generator) -> Rows:
        """Small random factors, no biases."""
        factors = np.float32(START_SD) * rng.standard_normal((n, n_factors), np.float32)
        nothing = np.zeros(n, np.float32) if has_biases else None
        return cls(factors, nothing, np.zeros_like(factors), nothing)

    def copied(self) -> Rows:
        bias = None if self.bias is None else self.bias.copy()
        bias_squares = None if self.bias_squares is None else self.bias_squares.copy()
        return Rows(self.factors.copy(), bias, self.squares.copy(), bias_squares)

    def points(self) -> FloatMatrix:
        """Rows of factors and, last, the bias, if there is one."""
        return self.factors if self.bias is None else np.hstack([self.factors, self.bias[:, None]])

    def squared(self) -> float:
        """Of all numbers together."""
        return float(np.sum(np.square(self.points(), dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class LogisticState:
    """A state: where both sides are."""

    users: Rows
    items: Rows


@dataclass(frozen=True, eq=False)
class LogisticDescent:
    """One epoch: items given users, then users given items."""

    by_user: Shown
    by_item: Shown
    offset: float  # g
    ridge: float  # l
    rate: float
    n_factors: int
    has_biases: bool
    threads: int

    @classmethod
    def bind(
        cls,
        observed: Ratings,
        confidence: Confidence,
        unchosen: Unchosen,
        *,
        ridge: float,
        rate: float,
        n_factors: int,
        biases: bool,
        threads: int,
    ) -> LogisticDescent:
        """The transition for these choices."""
        of_users, of_items = unchosen.drawings()
        by_user = Shown.of(observed.by_user, confidence, of_users)
        by_item = Shown.of(observed.by_item, confidence, of_items)
        chosen = float(by_user.weights.sum(dtype=np.float64))
        offset = float(np.log(chosen / unchosen.n_draws))
        return cls(by_user, by_item, offset, ridge, rate, n_factors, biases, threads)

    def init(self, rng: Generator) -> LogisticState:
        users = Rows.start(len(self.by_user), self.n_factors, self.has_biases, rng)
        return LogisticState(users, Rows.start(len(self.by_item), self.n_factors, self.has_biases, rng))

    def step(self, state: LogisticState, rng: Generator) -> tuple[LogisticState, Stats]:
        items, _ = self.moved(self.by_item, state.items, state.users, int(rng.integers(1 << 63)))
        users, loss = self.moved(self.by_user, state.users, items, int(rng.integers(1 << 63)))
        return LogisticState(users, items), {"loss": loss}

    def moved(self, shown: Shown, rows: Rows, other: Rows, key: int) -> tuple[Rows, float]:
        """One step of all rows, and E before it, as the cells drawn for the step have it."""
        after, energies, drawing = rows.copied(), np.empty(len(shown)), shown.drawing
        _native.step_choices(
            offsets=shown.offsets,
            columns=shown.columns,
            weights=shown.weights,
            drawn_offsets=drawing.offsets,
            row_weights=drawing.row_weights,
            column_weights=drawing.column_weights,
            table=drawing.chances.table,
            other=other.factors,
            other_bias=other.bias,
            offset=self.offset,
            ridge=self.ridge,
            bias_ridge=self.ridge,
            rate=self.rate,
            key=key,
            out=after.factors,
            out_bias=after.bias,
            squares=after.squares,
            bias_squares=after.bias_squares,
            energies=energies,
            threads=self.threads,
        )
        return after, float(energies.sum()) + 0.5 * self.ridge * other.squared()
