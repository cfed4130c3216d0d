"""Implicit feedback as weighted least squares over all cells, and its rows given the other side.

    E = 1/2 sum_ij c_ij (p_ij - s_ij)^2 + 1/2 sum_i l_i |x_i|^2 + 1/2 sum_j l_j |y_j|^2

p is 1 where something was chosen and 0 elsewhere, c the confidence, which is 1 elsewhere, and s = u.v, with biases
u.v + c_i + d_j; a row x is (u, c). There are too many cells to iterate over, but those not chosen enter only through
sums over all rows of the other side (Hu, Koren and Volinsky 2008). With z_j = (v_j, 1) and w = c - 1, row i minimises

    1/2 x^T (Z^T Z + l_i) x + x.Z^T d + sum_k [w_k/2 (x.z_k)^2 - (1 + w_k - w_k d_k) x.z_k]

over what it chose. `descend` uses conjugate gradients, in coordinates in which Z^T Z is diagonal: a step then costs no
more than a pass over the chosen cells. `solve` factors a matrix per row.

Where users or items have features, l_i |x_i - m_i|^2 takes the place of l_i |x_i|^2 (`feature_means`), and rows without
any choices are in no sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, NonFiniteStateError
from tastespace.inference.transition import Stats
from tastespace.models.factorization.implicit.feature_means import Coefficients, FeatureMeans, is_described
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, row_scores, solve_rows

Growth = Literal["log", "linear", "none"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)
GROWTH_FUNCTIONS: dict[Growth, np.ufunc] = {"log": np.log1p, "linear": np.positive, "none": np.sign}


@dataclass(frozen=True)
class Confidence:
    """The confidence in cells: 1 for a cell that was not chosen, 1 + strength * f(count) for a chosen one.

    f is log(1 + count) ("log"), the count ("linear") or 1 ("none"), after Hu, Koren and Volinsky (2008). A thousand
    plays are not a thousand times as informative as one: hence the logarithm.
    """

    strength: float
    growth: Growth = "log"

    def beyond_one(self, counts: NDArray[Any]) -> FloatArray:
        """strength * f(count), one per cell; 0 for a count of 0."""
        values: DoubleArray = GROWTH_FUNCTIONS[self.growth](np.asarray(counts, np.float64))
        with np.errstate(over="ignore"):  # The caller reports values that are too large.
            return (self.strength * values).astype(np.float32)


MAX_WEIGHT = 1e15  # Beyond this, squares of sums overflow in single precision.
MIN_WEIGHT = np.float32(1e-6)  # A target is a pull divided by a weight: it must not be infinite.


@dataclass(frozen=True, eq=False)
class Chosen:
    """The choices of each row, and their confidence beyond 1."""

    offsets: OffsetArray
    columns: IntArray
    weights: FloatArray  # w

    @classmethod
    def of(cls, ratings: CSR, confidence: Confidence) -> Chosen:
        weights = confidence.beyond_one(ratings.values)
        if len(weights) and not weights.max() <= MAX_WEIGHT:
            worst = int(np.argmax(~(weights <= MAX_WEIGHT)))
            raise DataError(
                f"a count of {ratings.values[worst]:g} has a confidence of {weights[worst]:g} with growth="
                f"{confidence.growth!r} and strength={confidence.strength:g}, beyond what can be computed with",
                expected=f"at most {MAX_WEIGHT:g}: smaller counts, growth='log', or a smaller strength",
            )
        return cls(contiguous(ratings.offsets, np.int64), contiguous(ratings.columns, np.int32), weights)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def total_weights(self) -> DoubleArray:
        """The total weight of each row."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return np.bincount(rows, self.weights, minlength=len(self)).astype(np.float64)

    def pulls(self, other: Others) -> FloatArray:
        """The pull of each choice: its confidence, minus the part that the other side's bias explains.

        A choice without weight counts as not chosen, as `explain` needs it.
        """
        pulls = 1 + self.weights
        if other.bias is not None:
            pulls -= self.weights * other.bias[self.columns]
        return np.where(self.weights > 0, pulls, np.float32(0))


@dataclass(frozen=True, eq=False)
class Others:
    """The other side: z, its Gram matrix, and its biases."""

    points: FloatMatrix  # n x W: z
    gram: DoubleArray  # W x W
    bias: FloatArray | None  # n: d
    linear: DoubleArray  # W: -Z^T d

    @classmethod
    def of(cls, points: FloatMatrix, has_biases: bool, threads: int, is_counted: BoolArray | None = None) -> Others:
        """The other side, given its rows (factors, bias); those that are not counted are in no sum."""
        bias = None
        if has_biases:
            bias = contiguous(points[:, -1], np.float32)
            points = points.copy()
            points[:, -1] = 1
        if is_counted is not None and not is_counted.all():
            points = points * is_counted[:, None].astype(np.float32)
            bias = None if bias is None else bias * is_counted.astype(np.float32)
        linear = np.zeros(points.shape[1])
        if bias is not None:
            linear -= np.sum(points * bias[:, None], axis=0, dtype=np.float64)
        return cls(points, _gram(points, threads), bias, linear)


def solve(
    chosen: Chosen, other: Others, ridge: FloatArray, threads: int, means: FloatMatrix | None = None
) -> FloatMatrix:
    """The minimum of each row; in double, since with more factors than columns only the ridge regularizes it."""
    weights = np.maximum(chosen.weights, MIN_WEIGHT).astype(np.float64)
    side = RatingBlock(chosen.offsets, chosen.columns, chosen.pulls(other) / weights, weights=weights)
    width = other.points.shape[1]
    linear = other.linear.reshape(1, width)
    if means is not None:
        linear = linear + ridge[:, None].astype(np.float64) * means
    prior = RowPrior(precision=other.gram, linear=linear, ridge=contiguous(ridge, np.float64))
    points = Factors(other.points.astype(np.float64))
    try:
        solved = solve_rows(side, points, prior, name="row", threads=threads)
    except NonFiniteStateError as error:
        raise NonFiniteStateError(
            "no minimum was found for a row of choices; expected counts of ordinary size: try a larger "
            "regularization, fewer n_factors, or growth='log'"
        ) from error
    return contiguous(solved.points.factors, np.float32)


def descend(
    chosen: Chosen,
    other: Others,
    ridge: FloatArray,
    start: FloatMatrix,
    steps: int,
    threads: int,
    means: FloatMatrix | None = None,
) -> FloatMatrix:
    """A few conjugate-gradient steps from the start."""
    diagonal, turn = np.linalg.eigh(other.gram)
    forth = contiguous(turn, np.float32)
    rows, points = np.empty_like(start), np.empty_like(other.points)
    _native.rotate_rows(start, forth, rows, threads)
    _native.rotate_rows(other.points, forth, points, threads)
    linear = (other.linear @ turn).astype(np.float32).reshape(1, -1)
    if means is not None:
        turned = np.empty_like(start)
        _native.rotate_rows(contiguous(means, np.float32), forth, turned, threads)
        linear = linear + ridge[:, None] * turned
    _native.descend_rows(
        chosen.offsets,
        chosen.columns,
        chosen.weights,
        chosen.pulls(other),
        points,
        np.maximum(diagonal, 0).astype(np.float32),
        contiguous(ridge, np.float32),
        rows,
        linear=contiguous(linear, np.float32),
        steps=steps,
        threads=threads,
    )
    back = np.empty_like(rows)
    _native.rotate_rows(rows, contiguous(turn.T, np.float32), back, threads)
    return back


def scores_of(chosen: Chosen, users: FloatMatrix, items: FloatMatrix, has_biases: bool, threads: int) -> FloatArray:
    """The scores s of the chosen cells."""
    side = RatingBlock(chosen.offsets, chosen.columns, chosen.weights)
    rows, others = _points(users, has_biases), _points(items, has_biases)
    return contiguous(row_scores(side, rows, others, threads=threads), np.float32)


def errors(
    chosen: Chosen,
    users: FloatMatrix,
    items: FloatMatrix,
    has_biases: bool,
    threads: int,
    are_counted: tuple[BoolArray | None, BoolArray | None] = (None, None),
) -> float:
    """sum c (p - s)^2 over all cells: s^2 of all, by sums over rows, corrected for the chosen ones."""
    of_users, of_items = users, items
    if has_biases:  # Rows whose inner products are scores: (u, c, 1) and (v, 1, d).
        of_users = np.hstack([users, np.ones((len(users), 1), np.float32)])
        of_items = np.hstack([items[:, :-1], np.ones((len(items), 1), np.float32), items[:, -1:]])
    of_users, of_items = (
        rows if counted is None else rows[counted]
        for rows, counted in zip((of_users, of_items), are_counted, strict=True)
    )
    everywhere = float(np.sum(_gram(of_users, threads) * _gram(of_items, threads)))
    scores = scores_of(chosen, users, items, has_biases, threads).astype(np.float64)
    return everywhere + float(np.sum((1 + chosen.weights.astype(np.float64)) * (1 - scores) ** 2 - scores**2))


def _gram(points: FloatMatrix, threads: int) -> DoubleArray:
    """The Gram matrix of the rows."""
    width = points.shape[1]
    total, gram = np.empty(width), np.empty((width, width))
    _native.moments(points, total, gram, threads)
    return gram


def _points(rows: FloatMatrix, has_biases: bool) -> Factors:
    if not has_biases:
        return Factors(rows)
    return Factors(contiguous(rows[:, :-1], np.float32), contiguous(rows[:, -1], np.float32))


START = 0.01  # The largest initial factor: scores start slightly above 0, near where almost all belong.
Solver = Literal["conjugate", "cholesky"]


@dataclass(frozen=True)
class Ridge:
    """The penalty of rows: l = strength * (1 + weights / columns), or the strength alone.

    The second factor is the mean confidence of a row's cells: an item that many chose is regularized more (Rendle,
    Krichene, Zhang and Koren 2021).
    """

    strength: float
    is_weighted: bool

    def of(self, chosen: Chosen, n_columns: int) -> FloatArray:
        """The penalty of each row."""
        ridge = np.full(len(chosen), float(self.strength))
        if self.is_weighted:
            ridge *= 1 + chosen.total_weights() / max(n_columns, 1)
        return ridge.astype(np.float32)


@dataclass(frozen=True, eq=False)
class ImplicitState:
    """A state: rows of factors and, in the last column, the bias, if there is one."""

    users: FloatMatrix
    items: FloatMatrix
    of_users: Coefficients | None = None  # of their features, if they have any
    of_items: Coefficients | None = None


@dataclass(frozen=True, eq=False)
class AlternatingChoices:
    """One sweep: items given users, then users given items, so that users equal their fold-in.

    Coefficients of features are found from the new items, and from the users of the last sweep.
    """

    observed: Ratings
    confidence: Confidence
    ridge: Ridge
    n_factors: int
    has_biases: bool
    solver: Solver
    steps: int
    threads: int
    feature_strength: float = 1.0

    @cached_property
    def by_user(self) -> Chosen:
        return Chosen.of(self.observed.by_user, self.confidence)

    @cached_property
    def by_item(self) -> Chosen:
        return Chosen.of(self.observed.by_item, self.confidence)

    @cached_property
    def ridges(self) -> tuple[FloatArray, FloatArray]:
        """The penalties of users and of items."""
        n_users, n_items = (
            int(np.count_nonzero(pairs.counts)) if is_described(features) else len(pairs)
            for pairs, features in (
                (self.observed.by_user, self.observed.user_features),
                (self.observed.by_item, self.observed.item_features),
            )
        )
        return self.ridge.of(self.by_user, n_items), self.ridge.of(self.by_item, n_users)

    @cached_property
    def means(self) -> tuple[FeatureMeans | None, FeatureMeans | None]:
        """The features of users and of items."""
        observed, (of_users, of_items) = self.observed, self.ridges
        how = self.feature_strength, self.threads
        return (
            FeatureMeans.of(observed.user_features, observed.by_user, observed.n_items, of_users, *how),
            FeatureMeans.of(observed.item_features, observed.by_item, observed.n_users, of_items, *how),
        )

    @cached_property
    def are_counted(self) -> tuple[BoolArray | None, BoolArray | None]:
        """Which users and which items have choices, where others would be seen by their features."""
        of_users, of_items = (None if side is None or side.is_counted.all() else side.is_counted for side in self.means)
        return of_users, of_items

    def init(self, rng: Generator) -> ImplicitState:
        """Small positive factors, no biases."""

        def points(n: int) -> FloatMatrix:
            rows = np.float32(START) * rng.random((n, self.n_factors + self.has_biases), np.float32)
            if self.has_biases:
                rows[:, -1] = 0
            return rows

        users, items = points(len(self.by_user)), points(len(self.by_item))
        of_users, of_items = (None if side is None else side.start(users.shape[1]) for side in self.means)
        return ImplicitState(users, items, of_users, of_items)

    def step(self, state: ImplicitState, rng: Generator) -> tuple[ImplicitState, Stats]:
        state = self.moved(state)
        with np.errstate(over="ignore", invalid="ignore"):  # It is checked below.
            loss = self.loss(state)
        if not math.isfinite(loss):
            raise NonFiniteStateError(
                f"the loss after a sweep is {loss}; expected a number: try smaller counts, growth='log', or a larger "
                "regularization"
            )
        return state, {"loss": loss}

    def moved(self, state: ImplicitState) -> ImplicitState:
        (users, items), (of_users, of_items) = (state.users, state.items), (state.of_users, state.of_items)
        features_of_users, features_of_items = self.means
        items = self._rows(1, items, of_items, users)
        if features_of_items is not None and of_items is not None:
            of_items = features_of_items.found(items, of_items)
            items = features_of_items.placed(items, of_items)
        if features_of_users is not None and of_users is not None:
            of_users = features_of_users.found(users, of_users)
        users = self._rows(0, users, of_users, items)
        return ImplicitState(users, items, of_users, of_items)

    def loss(self, state: ImplicitState) -> float:
        """E."""
        own = (state.users, state.of_users), (state.items, state.of_items)
        total = errors(self.by_user, state.users, state.items, self.has_biases, self.threads, self.are_counted)
        for (rows, at), ridge, means in zip(own, self.ridges, self.means, strict=True):
            total += held_back(rows, ridge) if means is None or at is None else means.held_back(rows, at)
        return 0.5 * total

    def _rows(self, side: int, rows: FloatMatrix, at: Coefficients | None, other: FloatMatrix) -> FloatMatrix:
        """The rows of a side given the other one, and the coefficients of their features."""
        chosen, ridge, features = (self.by_user, self.by_item)[side], self.ridges[side], self.means[side]
        others = Others.of(other, self.has_biases, self.threads, self.are_counted[1 - side])
        means = None if features is None or at is None else features.means(at)
        if self.solver == "cholesky":
            rows = solve(chosen, others, ridge, self.threads, means)
        else:
            rows = descend(chosen, others, ridge, rows, self.steps, self.threads, means)
        return rows if features is None or at is None else features.placed(rows, at)


def held_back(points: FloatMatrix, ridge: FloatArray) -> float:
    """sum of l |x|^2 over rows."""
    squares: DoubleArray = np.einsum("nw,nw->n", points, points, dtype=np.float64)
    return float(np.sum(squares * ridge))
