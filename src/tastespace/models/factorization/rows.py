"""Rows of one side given the other: the interface to the row kernel, moves of rows, their moments, and scores of pairs.

Rows with a normal prior are drawn at once. `sphere` has rows on a sphere, which take moves that leave their
distribution invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import AnyFloats, BoolArray, DoubleArray, FloatArray, IntArray, OffsetArray
from tastespace.data import csr
from tastespace.data.csr import CSR, Grouped, Part
from tastespace.errors import NonFiniteStateError

if TYPE_CHECKING:
    from tastespace.inference.samplers.hamiltonian import DualAveraging
    from tastespace.inference.transition import Stats
    from tastespace.models.factorization.priors.normal_wishart import Population, Sphere

WHERE_IT_PAYS = -1  # rows with few ratings are drawn by solving a system of that size


@dataclass(frozen=True, eq=False)
class RatingBlock(Grouped):
    """Ratings grouped by the rows to be solved; inner products are fitted to (targets - offset) / scale.

    The kernel takes offset and scale with each rating: a hundred million are not copied for them.
    """

    offsets: OffsetArray
    columns: IntArray
    targets: AnyFloats
    weights: AnyFloats | None = None  # one per rating; None for 1
    column_weights: AnyFloats | None = None  # one per row of the other side, times the weights
    offset: float = 0.0
    scale: float = 1.0
    part: Part | None = None  # where these rows belong; None if they are all

    @property
    def n_entries(self) -> int:
        """The number of ratings of the side, which are mostly those that are here."""
        return len(self.columns) if self.part is None else super().n_entries

    @classmethod
    def of(cls, ratings: CSR, dtype: Any, offset: float, scale: float = 1.0) -> RatingBlock:
        values = np.ascontiguousarray(ratings.values, dtype)
        return cls(ratings.offsets, ratings.columns, values, offset=offset, scale=scale, part=ratings.part)


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of a side for a hyper-prior: sums and sums of products over all rows, in double."""

    n: int
    total: DoubleArray  # D
    gram: DoubleArray  # D x D
    has_bias: bool = False
    bias_total: float = 0.0
    bias_squares: float = 0.0


@dataclass(frozen=True, eq=False)
class Factors:
    """One side's factors and biases."""

    factors: AnyFloats  # n x D
    bias: AnyFloats | None = None  # n

    @cached_property
    def moments(self) -> Moments:
        n, n_factors = self.factors.shape
        total, gram = np.zeros(n_factors), np.zeros((n_factors, n_factors))
        of_total, of_gram = np.empty_like(total), np.empty_like(gram)
        for first in range(0, n, csr.BLOCK_ROWS):
            block = slice(first, first + csr.BLOCK_ROWS)
            _native.moments(self.factors[block], of_total, of_gram)
            total += of_total
            gram += of_gram
        if self.bias is None:
            return Moments(n, total, gram)
        bias = self.bias.astype(np.float64)
        return Moments(n, total, gram, True, sum_of_rows(bias), sum_of_rows(bias**2))

    @cached_property
    def average(self) -> Factors:
        """The average row, for users about whom nothing is known if zero would be unsuitable."""
        bias = None if self.bias is None else self.bias.mean(keepdims=True, dtype=np.float64).astype(self.bias.dtype)
        return Factors(self.factors.mean(axis=0, keepdims=True, dtype=np.float64).astype(self.factors.dtype), bias)

    def each(self, function: Callable[..., AnyFloats], *others: Factors) -> Factors:
        """Apply a function to the factors, and to the biases if there are any, together with those of others."""
        factors = function(self.factors, *(other.factors for other in others))
        return Factors(factors, None if self.bias is None else function(self.bias, *(other.bias for other in others)))

    def where(self, which: BoolArray, others: Factors) -> Factors:
        """These rows where `which` is true, those of the others elsewhere."""
        factors = np.where(which[:, None], self.factors, others.factors)
        if self.bias is None or others.bias is None:
            return Factors(factors)
        return Factors(factors, np.where(which, self.bias, others.bias))

    def averaged(self, where: BoolArray, others: Factors) -> Factors:
        """These rows, with those of a mask replaced by the average of others."""
        return self.where(~where, others.average) if where.any() else self

    def masked(self, keep: BoolArray | IntArray | slice) -> Factors:
        """Some of the rows, by a mask or their places."""
        return Factors(self.factors[keep], None if self.bias is None else self.bias[keep])


@dataclass(frozen=True, eq=False)
class RowPrior:
    """Gaussian prior of a row's factors, N(mean, precision^-1), and of its bias, times an optional scale per row."""

    precision: AnyFloats  # D x D
    linear: AnyFloats  # 1 x D or n x D: precision @ mean
    bias_precision: float = 0.0
    bias_linear: float = 0.0  # bias_precision * mean
    scale: AnyFloats | None = None  # n
    ridge: AnyFloats | None = None  # n: added to the precision of every factor
    bias_linears: AnyFloats | None = None  # n: in place of bias_linear, where rows have means of their own

    def of_rows(self, rows: slice) -> RowPrior:
        """The prior of some of the rows."""
        linear = self.linear if len(self.linear) == 1 else self.linear[rows]
        scale, ridge, biases = (
            None if array is None else array[rows] for array in (self.scale, self.ridge, self.bias_linears)
        )
        return replace(self, linear=linear, scale=scale, ridge=ridge, bias_linears=biases)


def kernel_arguments(side: RatingBlock, other: Factors, prior: RowPrior, out: Factors) -> dict[str, Any]:
    """The arguments of every kernel of rows; rows are returned in `out`."""
    return {
        "offsets": side.offsets,
        "columns": side.columns,
        "targets": side.targets,
        "target_offset": side.offset,
        "target_scale": side.scale,
        "weights": side.weights,
        "other_weights": side.column_weights,
        "other": other.factors,
        "other_bias": other.bias,
        "prior_linear": np.ascontiguousarray(prior.linear, other.factors.dtype),
        "prior_scale": prior.scale,
        "bias_precision": prior.bias_precision,
        "bias_linear": prior.bias_linear,
        "out": out.factors,
        "out_bias": out.bias,
    }


@dataclass(frozen=True, eq=False)
class Solved:
    """The new points of a side, and the minimum of each row's energy (without the prior's constant)."""

    points: Factors
    minimum: DoubleArray  # n
    squares: DoubleArray | None = None  # n: weighted squared errors at the new points, if they were drawn

    def gathered(self, part: Part) -> Solved:
        """All rows of the side, from those that are here."""
        own = (self.points.factors, self.points.bias, self.minimum, self.squares)
        found = iter(part.gather(*(array for array in own if array is not None)))
        factors, bias, minimum, squares = (None if array is None else next(found) for array in own)
        assert factors is not None
        assert minimum is not None
        return Solved(Factors(factors, bias), minimum, squares)


def solve_rows(
    side: RatingBlock,
    other: Factors,
    prior: RowPrior,
    *,
    name: str,
    alpha: float = 1.0,
    noise: AnyFloats | None = None,
    bias_noise: AnyFloats | None = None,
    threads: int = 1,
) -> Solved:
    """Minimise each row's energy or, given standard normal noise, draw from exp(-energy).

    The energy of row i with ratings k is
    alpha/2 sum_k w_k (y_k - d_k - x.v_k - c)^2 + s_i/2 (x^T L x - 2 x.h + l c^2 - 2 c m) + r_i/2 |x|^2,
    y_k the scaled target and r the ridge.
    """
    n_rows, n_factors = len(side.offsets) - 1, other.factors.shape[1]
    dtype, prior = other.factors.dtype, prior if side.part is None else prior.of_rows(side.part.rows)
    has_bias = other.bias is not None
    solved = Solved(
        Factors(np.empty((n_rows, n_factors), dtype), np.empty(n_rows, dtype) if has_bias else None),
        np.empty(n_rows, np.float64),
        None if noise is None else np.empty(n_rows, np.float64),
    )
    failed = _native.solve_rows(
        **kernel_arguments(side, other, prior, solved.points),
        prior_precision=np.ascontiguousarray(prior.precision, dtype),
        ridge=prior.ridge,
        bias_linears=prior.bias_linears,
        alpha=alpha,
        noise=noise,
        bias_noise=bias_noise,
        minimum=solved.minimum,
        squares=solved.squares,
        few=WHERE_IT_PAYS if noise is not None else 0,
        threads=threads,
    )
    if failed >= 0:
        raise NonFiniteStateError(
            f"the {name} update failed at row {side.here.start + failed}: its precision matrix is not positive "
            "definite; expected finite ratings of ordinary size; try precision='float64' (and for ALS a larger "
            "regularization)"
        )
    return solved if side.part is None else solved.gathered(side.part)


Axis = Literal["user", "item"]


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The current rows of one side, the other side, and the responses for their moves.

    Responses are normal around the scores with precision alpha, times weights, times the row's own.
    """

    axis: Axis
    side: RatingBlock
    rows: Factors
    other: Factors
    threads: int = 1
    alpha: float = 1.0
    row_precision: AnyFloats | None = None  # one per row

    def scores(self, offset: float = 0.0) -> AnyFloats:
        """The scores of each rating at the current rows."""
        return row_scores(self.side, self.rows.masked(self.side.here), self.other, offset, self.threads)

    def responding(self, targets: AnyFloats, offset: float, weights: AnyFloats | None = None) -> GivenRows:
        """The same with latent responses for the ratings, around offset + score, of precision 1 times the weights."""
        side = self.side
        block = RatingBlock(side.offsets, side.columns, targets, weights=weights, offset=offset, part=side.part)
        return replace(self, side=block)


@dataclass(frozen=True, eq=False)
class Moved:
    """Rows after a move."""

    points: Factors
    squares: DoubleArray  # the squared errors, one per row
    tuning: DualAveraging | None
    stats: Stats


class RowMoves(Protocol):
    """Moves of all rows of one side."""

    @property
    def sphere(self) -> Sphere | None:
        """The sphere of the rows, if there is one."""

    def solved(self, given: GivenRows, prior: RowPrior) -> Factors:
        """The minimum of the energy of each row."""

    def drawn(self, given: GivenRows, population: Population, rng: Generator) -> tuple[Factors, DoubleArray]:
        """Independent draws from their distribution, and the squared errors."""

    def moved(self, given: GivenRows, population: Population, tuning: DualAveraging | None, rng: Generator) -> Moved:
        """Rows after one move that leaves their distribution invariant."""


@dataclass(frozen=True)
class NormalRows:
    """Rows with a normal prior: a move is a new draw."""

    sphere: None = None

    def solved(self, given: GivenRows, prior: RowPrior) -> Factors:
        return solve_rows(given.side, given.other, prior, name=given.axis, threads=given.threads).points

    def drawn(self, given: GivenRows, population: Population, rng: Generator) -> tuple[Factors, DoubleArray]:
        return draw_rows(given, population.prior(given.other.factors.dtype), rng)

    def moved(self, given: GivenRows, population: Population, tuning: DualAveraging | None, rng: Generator) -> Moved:
        return Moved(*self.drawn(given, population, rng), None, {})


NORMAL_ROWS = NormalRows()


def sum_of_rows(values: AnyFloats) -> float:
    """Sum over rows block by block, in their order: the same wherever the blocks were computed."""
    firsts = range(0, len(values), csr.BLOCK_ROWS)
    return float(sum([float(values[first : first + csr.BLOCK_ROWS].sum()) for first in firsts]))


def row_noise(
    rng: Generator, n_rows: int, n_factors: int, dtype: Any, *, has_bias: bool, here: slice | None = None
) -> tuple[AnyFloats, AnyFloats | None]:
    """Standard normals for the factors of rows and, if there are any, their biases; of the rows `here`, or of all.

    Each block of rows has a child of the chain's generator. Children are counted, and every sweep has as many, so that
    one is keyed by (seed, chain, sweep, side, block): the noise of a block can be generated without the others.
    """
    here = slice(0, n_rows) if here is None else here
    n_here, firsts = here.stop - here.start, range(0, n_rows, csr.BLOCK_ROWS)
    noise, bias_noise = np.empty((n_here, n_factors), dtype), np.empty(n_here, dtype) if has_bias else None
    for first, own in zip(firsts, rng.spawn(len(firsts)), strict=True):
        if not here.start <= first < here.stop:
            continue
        place, size = first - here.start, min(csr.BLOCK_ROWS, n_rows - first)
        noise[place : place + size] = own.standard_normal((size, n_factors), dtype)
        if bias_noise is not None:
            bias_noise[place : place + size] = own.standard_normal(size, dtype)
    return noise, bias_noise


def draw_rows(given: GivenRows, prior: RowPrior, rng: Generator) -> tuple[Factors, DoubleArray]:
    """Rows of one side drawn given the other, and their squared errors."""
    side, other, own = given.side, given.other, given.row_precision
    here = None if side.part is None else side.part.rows
    n_rows = len(side.offsets) - 1 if side.part is None else side.n_rows
    noise, bias_noise = row_noise(
        rng, n_rows, other.factors.shape[1], other.factors.dtype, has_bias=other.bias is not None, here=here
    )
    if own is not None:
        # a (errors) + prior is a times (errors + prior / a), and a draw spreads as 1 / sqrt(a) of that.
        prior, root = replace(prior, scale=1 / own), np.sqrt(own if here is None else own[here])
        noise /= root[:, None]
        bias_noise = None if bias_noise is None else bias_noise / root
    name, threads = given.axis, given.threads
    solved = solve_rows(
        side, other, prior, name=name, alpha=given.alpha, noise=noise, bias_noise=bias_noise, threads=threads
    )
    require_finite(f"{name} factors", float(solved.points.moments.gram.trace()))
    assert solved.squares is not None
    return solved.points, solved.squares


def require_finite(what: str, figure: float) -> None:
    """Raise an error if a figure of a chain is not finite."""
    if not isfinite(figure):
        raise NonFiniteStateError(
            f"the {what} became {figure}; expected finite numbers: check the ratings for extreme values, or try "
            "precision='float64' or start='random'"
        )


def row_scores(side: RatingBlock, rows: Factors, other: Factors, offset: float = 0.0, threads: int = 1) -> AnyFloats:
    """offset + biases + inner product of each rating, in the order and type of the side."""
    out = np.empty(len(side.columns), rows.factors.dtype)
    biases: dict[str, Any] = {"row_bias": rows.bias, "other_bias": other.bias}
    _native.score_rows(
        side.offsets, side.columns, rows.factors, other.factors, out, **biases, offset=offset, threads=threads
    )
    return out


def score_pairs(
    users: Factors, user_rows: IntArray, items: Factors, item_rows: IntArray, offset: float, threads: int
) -> FloatArray:
    """offset + biases + inner product of each pair, in single precision; row -1 contributes nothing."""
    out = np.empty(len(user_rows), np.float32)
    users, items = _single(users), _single(items)
    pairs = np.ascontiguousarray(user_rows, np.int32), np.ascontiguousarray(item_rows, np.int32)
    _native.score_pairs(*pairs, users.factors, items.factors, users.bias, items.bias, offset, out, threads)
    return out


def _single(points: Factors) -> Factors:
    """The points in single precision, as scores are computed."""
    bias = None if points.bias is None else np.ascontiguousarray(points.bias, np.float32)
    return Factors(np.ascontiguousarray(points.factors, np.float32), bias)
