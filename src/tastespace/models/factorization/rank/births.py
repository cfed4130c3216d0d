"""Births and deaths of factors.

`BlindBirth` draws new columns from the prior, and maps all of them by the Helmert matrix; almost none is accepted if
there is much to explain. `InformedBirth` draws the column of one side near what the errors suggest, the other side's
given it exactly, and rotates the new factor into a random direction; its death removes a direction with little
variance.

The density of a state does not change when users and items are rotated together, (U, V) -> (U Q, V Q) with Q^T Q = I.
So a map of columns decides only which direction is the last, which a death removes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray, IntArray, OffsetArray
from tastespace.models.factorization.rank.target import RankState, RankTarget, Side, Which, log_normal
from tastespace.models.factorization.rows import Factors

POWER_STEPS = 15
ITERATIONS = 10


@dataclass(frozen=True, eq=False)
class Guide:
    """The proposal of a new column: normals around plus or minus a mean, each sign with probability 1/2."""

    mean: DoubleArray
    precision: DoubleArray

    def draw(self, rng: Generator) -> DoubleArray:
        sign = 1.0 if rng.integers(2) else -1.0
        return np.asarray(sign * self.mean + rng.standard_normal(len(self.mean)) / np.sqrt(self.precision))

    def log_density(self, column: DoubleArray) -> float:
        constant = 0.5 * float(np.log(self.precision / (2 * pi)).sum())
        plus, minus = (-0.5 * float(self.precision @ (column - sign * self.mean) ** 2) for sign in (1.0, -1.0))
        return constant + float(np.logaddexp(plus, minus)) - log(2)


@dataclass(frozen=True, eq=False)
class Leftover:
    """Errors as a sparse matrix (rows of a, columns of b), and an estimate of one more factor for them.

    By variational Bayes of rank one: for errors e_ij = a_i b_j + noise, with normal a and b, the closest product of
    normals to the posterior has

        1 / var a_i = lam_a + alpha sum_j E b_j^2,   mean a_i = var a_i alpha sum_j e_ij mean b_j,

    and the same for b: iterated from the leading singular vector of the errors. It is a function of the errors and the
    precisions alone, so that a death can compute what the reverse birth would have drawn.
    """

    errors: Any  # a sparse matrix
    mask: Any  # 1 where there is an error

    @classmethod
    def of(cls, errors: DoubleArray, columns: IntArray, offsets: OffsetArray, n_columns: int) -> Leftover:
        shape = (len(offsets) - 1, n_columns)
        return cls(
            *(scipy.sparse.csr_matrix((values, columns, offsets), shape) for values in (errors, np.ones(len(errors))))
        )

    def guide(self, a_precision: float, b_precision: float, noise: float) -> Guide:
        """The proposal of b, with a unknown as well."""
        by_column, column_mask = self.errors.T, self.mask.T
        mean, variance = _leading(self.errors, by_column), np.zeros(self.errors.shape[1])
        precision = np.full(self.errors.shape[1], b_precision)
        for _ in range(ITERATIONS):
            of_a = a_precision + noise * (self.mask @ (mean**2 + variance))
            a = noise * (self.errors @ mean) / of_a
            precision = b_precision + noise * (column_mask @ (a**2 + 1 / of_a))
            mean, variance = noise * (by_column @ a) / precision, 1 / precision
        return Guide(mean, precision)

    def given(self, b: DoubleArray, a_precision: float, noise: float) -> tuple[DoubleArray, DoubleArray]:
        """Exact mean and precision of the normals of a, given b."""
        precision = a_precision + noise * (self.mask @ b**2)
        return noise * (self.errors @ b) / precision, precision


def _leading(errors: Any, by_column: Any) -> DoubleArray:
    """The leading right singular vector by the power method, of length sqrt(its singular value)."""
    # Any deterministic start will do that is not orthogonal to the solution.
    found: DoubleArray = np.asarray(by_column @ np.cos(np.arange(errors.shape[0])))
    value = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(found))
        if length == 0:
            return found
        left = errors @ (found / length)
        value = float(np.linalg.norm(left))
        found = np.asarray(by_column @ left)
    length = float(np.linalg.norm(found))
    return found if length == 0 else np.asarray(found * np.sqrt(value) / length)


def helmert(n: int) -> DoubleArray:
    """The orthogonal matrix with a constant first row, whose row i (from 1) contrasts entry i with those before.

    Row i is (1, ..., 1, -i, 0, ..., 0) / sqrt(i (i + 1)); Dey and Jhamb 2018, section 3.2, call it Gram-Chalier.
    """
    rows = np.tril(np.ones((n, n)), -1)
    rows[np.arange(n), np.arange(n)] = -np.arange(n)
    rows[0] = 1.0
    found: DoubleArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def reflection(direction: DoubleArray) -> DoubleArray:
    """The symmetric orthogonal matrix that exchanges a unit vector and the last axis (Householder)."""
    n = len(direction)
    normal = direction - np.eye(n)[-1]
    square = float(normal @ normal)
    # The vector is the axis already.
    return np.eye(n) if square < 1e-300 else np.eye(n) - 2 * np.outer(normal, normal) / square


def draw_direction(inverse: DoubleArray, rng: Generator) -> DoubleArray:
    """x / |x| of x ~ N(0, inverse^-1): an angular central Gaussian; the identity for a uniform direction."""
    lower = np.linalg.cholesky(inverse)
    drawn = np.linalg.solve(lower.T, rng.standard_normal(len(inverse)))
    return np.asarray(drawn / np.linalg.norm(drawn))


def log_direction(inverse: DoubleArray, direction: DoubleArray) -> float:
    """log of |S|^(-1/2) (w^T S^-1 w)^(-n/2), S^-1 the inverse: its density, relative to a uniform direction."""
    n = len(direction)
    log_determinant = 2 * float(np.log(np.diag(np.linalg.cholesky(inverse))).sum())
    return 0.5 * log_determinant - 0.5 * n * log(float(direction @ inverse @ direction))


def spare_directions(users: AnyFloats, items: AnyFloats, power: float) -> DoubleArray:
    """The matrix of a distribution that prefers directions with little variance, for deaths.

    (A / tr A + B / tr B)^power of the Gram matrices of both sides: it rotates with the factors.
    """
    total = np.zeros((users.shape[1], users.shape[1]))
    for factors in (users, items):
        gram = factors.T @ factors
        total += gram / np.trace(gram)
    values, vectors = np.linalg.eigh(total)
    # Rounded to zero or below, a direction would be certain, and its density NaN.
    values = np.maximum(values, 1e-6 * values[-1]) ** power
    return np.asarray((vectors * values) @ vectors.T)


POWER = 4.0  # of the preference for directions with little variance: chosen for acceptance on synthetic ratings


@dataclass(frozen=True, eq=False)
class Columns:
    """New columns of both sides, and the direction that a single one is rotated into."""

    users: DoubleArray  # N x d
    items: DoubleArray  # M x d
    direction: DoubleArray = field(default_factory=lambda: np.zeros(0))  # k + 1

    @classmethod
    def of(cls, state: RankState, first: int, *direction: DoubleArray) -> Columns:
        """The columns from `first` on."""
        users, items = (side.factors[:, first:].astype(np.float64, copy=False) for side in (state.users, state.items))
        return cls(users, items, *direction)


@dataclass(frozen=True, eq=False)
class BlindBirth:
    """(U, A) H and (V, B) H, new columns A and B from the prior: Dey and Jhamb 2018, with g and the inverse right."""

    target: RankTarget
    columns: int = 1

    @property
    def name(self) -> str:
        return f"blind births of {self.columns}"

    def can_go_up(self, state: RankState) -> bool:
        return state.rank + self.columns <= self.target.max_rank

    def can_go_down(self, state: RankState) -> bool:
        return state.rank > self.columns

    def draw_up(self, state: RankState, rng: Generator) -> Columns:
        precisions = state.tempered
        return Columns(
            rng.standard_normal((self.target.n_users, self.columns)) / precisions.users**0.5,
            rng.standard_normal((self.target.n_items, self.columns)) / precisions.items**0.5,
        )

    def log_up(self, state: RankState, up: Columns) -> float:
        precisions = state.tempered
        return log_normal(up.users, precisions.users) + log_normal(up.items, precisions.items)

    def up(self, state: RankState, up: Columns) -> tuple[RankState, None, float]:
        return state.widened(up.users, up.items).turned(helmert(state.rank + self.columns)), None, 0.0

    def draw_down(self, state: RankState, rng: Generator) -> None:
        """Nothing is drawn: the last columns are removed."""

    def log_down(self, state: RankState, down: None) -> float:
        return 0.0

    def down(self, state: RankState, down: None) -> tuple[RankState, Columns, float]:
        back, left = state.turned(helmert(state.rank).T), state.rank - self.columns
        return back.narrowed(left), Columns.of(back, left), 0.0


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The errors of a state, and the proposal of a new factor."""

    leftover: Leftover  # rows are those of the longer side
    guide: Guide  # of the shorter column
    long: float  # precision of the longer column
    noise: float


@dataclass(frozen=True, eq=False)
class _OneFactor:
    """Jumps between k and k + 1 factors, whose death removes a direction with little variance."""

    target: RankTarget
    power: float = field(default=POWER, kw_only=True)

    def can_go_up(self, state: RankState) -> bool:
        return state.rank < self.target.max_rank

    def can_go_down(self, state: RankState) -> bool:
        return state.rank > 1

    def _spare(self, state: RankState) -> DoubleArray:
        return spare_directions(state.users.factors, state.items.factors, self.power)


@dataclass(frozen=True, eq=False)
class InformedBirth(_OneFactor):
    """The shorter column b from its proposal, the longer a | b exactly, then a rotation into any direction.

    A death draws the direction from the law of `spare_directions`; rotated to the last axis, it is removed.
    """

    # A jump needs it twice for the same state.
    known: WeakKeyDictionary[RankState, Knowledge] = field(default_factory=WeakKeyDictionary, repr=False)

    name = "informed births"

    def draw_up(self, state: RankState, rng: Generator) -> Columns:
        known = self._known(state)
        b = known.guide.draw(rng)
        mean, precision = known.leftover.given(b, known.long, known.noise)
        a = mean + rng.standard_normal(len(mean)) / np.sqrt(precision)
        users, items = (a, b) if self._items_are_shorter else (b, a)
        direction = draw_direction(np.eye(state.rank + 1), rng)
        return Columns(users[:, None], items[:, None], direction)

    def log_up(self, state: RankState, up: Columns) -> float:
        """log q(b) + log p(a | b); all directions are equally likely."""
        known = self._known(state)
        users, items = up.users[:, 0], up.items[:, 0]
        a, b = (users, items) if self._items_are_shorter else (items, users)
        mean, precision = known.leftover.given(b, known.long, known.noise)
        of_a = 0.5 * float(np.log(precision / (2 * pi)).sum() - precision @ (a - mean) ** 2)
        return known.guide.log_density(b) + of_a

    def up(self, state: RankState, up: Columns) -> tuple[RankState, DoubleArray, float]:
        return state.widened(up.users, up.items).turned(reflection(up.direction)), up.direction, 0.0

    def draw_down(self, state: RankState, rng: Generator) -> DoubleArray:
        return draw_direction(self._spare(state), rng)

    def log_down(self, state: RankState, down: DoubleArray) -> float:
        return log_direction(self._spare(state), down)

    def down(self, state: RankState, down: DoubleArray) -> tuple[RankState, Columns, float]:
        turned, left = state.turned(reflection(down)), state.rank - 1
        return turned.narrowed(left), Columns.of(turned, left, down), 0.0

    @property
    def _items_are_shorter(self) -> bool:
        """Whether b is the items: its proposal is only approximate, so b is the side with fewer rows."""
        return self.target.n_items <= self.target.n_users

    def _known(self, state: RankState) -> Knowledge:
        if state not in self.known:
            side, own = self.target.observed.by_user, state.tempered
            leftover = Leftover.of(self.target.errors(state), side.columns, side.offsets, self.target.n_items)
            long, short = own.users, own.items
            if not self._items_are_shorter:
                leftover, long, short = Leftover(leftover.errors.T, leftover.mask.T), short, long
            self.known[state] = Knowledge(leftover, leftover.guide(long, short, own.noise), long, own.noise)
        return self.known[state]


@dataclass(frozen=True, eq=False)
class AnnealedBirth(_OneFactor):
    """The bridge between k and k + 1 factors: the new one, the last column, is added gradually.

    All others adapt to it on the way:

        r_t = p_T(U, V, a, b) with the errors of U V^T + gamma_t a b^T,   gamma_t = t / n

    At gamma = 0 the new columns a, b have no effect and follow the prior; at gamma = 1 they are a factor like any
    other. In between rows are drawn by the same kernel, with the column of the other side times gamma.
    """

    threads: int = 1
    steps: int = 100

    name = "annealed births"

    def widened(self, state: RankState, rng: Generator) -> RankState:
        new = BlindBirth(self.target).draw_up(state, rng)
        return state.widened(new.users, new.items)

    def narrowed(self, state: RankState) -> RankState:
        return state.narrowed(state.rank - 1)

    def log_weight(self, state: RankState, start: int, end: int) -> float:
        """-alpha / (2 T) times the difference of the squared errors, which are quadratic in gamma."""
        without = self.target.errors(self.narrowed(state))
        new = without - self.target.errors(state)  # a_i b_j
        cross, square = float(without @ new), float(new @ new)
        low, high = start / self.steps, end / self.steps
        return -state.tempered.noise / 2 * ((high**2 - low**2) * square - 2 * (high - low) * cross)

    def moved(self, state: RankState, step: int, rng: Generator, *, backwards: bool) -> RankState:
        """Items, then users; backwards users, then items."""
        order: tuple[Which, ...] = ("users", "items") if backwards else ("items", "users")
        for which in order:
            other = _scaled(state.items if which == "users" else state.users, step / self.steps)
            rows = Side.of(self.target, state, which, other).draw(rng, self.threads)
            state = replace(state, users=rows) if which == "users" else replace(state, items=rows)
        return state

    def left(self, state: RankState, rng: Generator) -> tuple[RankState, float]:
        """The state rotated into any direction, and the log density of the direction in a death."""
        direction = draw_direction(np.eye(state.rank), rng)
        turned = state.turned(reflection(direction))
        return turned, log_direction(self._spare(turned), direction)

    def entered(self, state: RankState, rng: Generator) -> tuple[RankState, float]:
        """The state with a direction of little variance rotated to the last axis."""
        law = self._spare(state)
        direction = draw_direction(law, rng)
        return state.turned(reflection(direction)), log_direction(law, direction)


def _scaled(points: Factors, gamma: float) -> Factors:
    """The factors with the last column times gamma."""
    factors = np.array(points.factors)
    factors[:, -1] *= gamma
    return Factors(factors, points.bias)
