"""How rows of one side are moved given the other: what a Gibbs sweep, a start and an update ask for.

Rows with a normal prior are drawn outright. `sphere` has rows that are confined to a sphere, and take moves that leave
their distribution alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.errors import NonFiniteStateError
from tastespace.inference.samplers.hamiltonian import DualAveraging
from tastespace.inference.transition import Stats
from tastespace.models.factorization.likelihoods.base import Noise, Responses
from tastespace.models.factorization.likelihoods.binary import EDGE, Logistic
from tastespace.models.factorization.likelihoods.ordinal import CutPoints, OrderedProbit
from tastespace.models.factorization.priors.normal_wishart import Population, Sphere
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, row_scores, solve_rows


@dataclass(frozen=True, eq=False)
class Moved:
    """Rows after a move."""

    points: Factors
    squares: DoubleArray  # the squared errors that they leave, one a row
    tuning: DualAveraging | None
    stats: Stats


class RowMoves(Protocol):
    """Of all rows of one side."""

    @property
    def sphere(self) -> Sphere | None:
        """That rows lie on, if they do."""
        ...

    def solved(
        self, side: RatingBlock, other: Factors, prior: RowPrior, rows: Factors, name: str, threads: int
    ) -> Factors:
        """Where the energy of each row is least; `rows` are where they are now."""
        ...

    def drawn(
        self,
        responses: Responses,
        other: Factors,
        population: Population,
        rows: Factors,
        name: str,
        rng: Generator,
        threads: int,
    ) -> tuple[Factors, DoubleArray]:
        """From their distribution, whatever they were before, and the squared errors that they leave."""
        ...

    def moved(
        self,
        responses: Responses,
        other: Factors,
        population: Population,
        rows: Factors,
        tuning: DualAveraging | None,
        rng: Generator,
        threads: int,
    ) -> Moved:
        """By a move that leaves their distribution alone: one of many."""
        ...


@dataclass(frozen=True)
class NormalRows:
    """Rows with a normal prior: a move is a new draw."""

    sphere: None = None

    def solved(
        self, side: RatingBlock, other: Factors, prior: RowPrior, rows: Factors, name: str, threads: int
    ) -> Factors:
        return solve_rows(side, other, prior, name=name, threads=threads).points

    def drawn(
        self,
        responses: Responses,
        other: Factors,
        population: Population,
        rows: Factors,
        name: str,
        rng: Generator,
        threads: int,
    ) -> tuple[Factors, DoubleArray]:
        return draw_rows(responses, other, population, name, rng, threads)

    def moved(
        self,
        responses: Responses,
        other: Factors,
        population: Population,
        rows: Factors,
        tuning: DualAveraging | None,
        rng: Generator,
        threads: int,
    ) -> Moved:
        return Moved(*self.drawn(responses, other, population, rows, "item", rng, threads), None, {})


NORMAL_ROWS = NormalRows()


def draw_rows(
    responses: Responses, other: Factors, population: Population, name: str, rng: Generator, threads: int
) -> tuple[Factors, DoubleArray]:
    """Rows of one side given the other, and the squared errors that they leave."""
    n_rows, n_factors, dtype = len(responses.side.offsets) - 1, other.factors.shape[1], other.factors.dtype
    noise: AnyFloats = rng.standard_normal((n_rows, n_factors), dtype)
    bias_noise: AnyFloats | None = rng.standard_normal(n_rows, dtype) if other.bias is not None else None
    prior, own = population.prior(dtype), responses.row_precision
    if own is not None:
        # a (errors) + prior is a times (errors + prior / a), and a draw spreads as 1 / sqrt(a) of that.
        prior, root = replace(prior, scale=1 / own), np.sqrt(own)
        noise /= root[:, None]
        bias_noise = None if bias_noise is None else bias_noise / root
    solved = solve_rows(
        responses.side,
        other,
        prior,
        name=name,
        alpha=responses.alpha,
        noise=noise,
        bias_noise=bias_noise,
        threads=threads,
    )
    require_finite(f"{name} factors", float(solved.points.moments.gram.trace()))
    assert solved.squares is not None
    return solved.points, solved.squares


def require_finite(what: str, figure: float) -> None:
    """Stop a chain that has left the numbers."""
    if not isfinite(figure):
        raise NonFiniteStateError(
            f"the {what} became {figure}; expected finite numbers: check the ratings for extreme values, or try "
            "precision='float64' or start='random'"
        )


LEAST_CURVATURE, LEAST_CHANCE = 1e-4, 1e-280


def touching(
    likelihood: OrderedProbit | Logistic, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, threads: int
) -> RatingBlock:
    """Weighted responses: their squared errors are the parabolas that touch the log likelihood at the scores."""
    if isinstance(likelihood, Logistic):
        offset = likelihood.offset
        scores = row_scores(side, rows, other, offset, threads).astype(np.float64)
        slope, curvature = _logistic(scores, side.targets > EDGE)
    else:
        assert isinstance(noise, CutPoints)
        offset = 0.0
        scores = row_scores(side, rows, other, offset, threads).astype(np.float64)
        ends = np.concatenate([[-np.inf], noise.cuts, [np.inf]])
        level = np.searchsorted(likelihood.edges, side.targets)
        slope, curvature = _between(ends[level] - scores, ends[level + 1] - scores)
    dtype = other.factors.dtype
    targets = (scores + slope / curvature).astype(dtype)
    return RatingBlock(side.offsets, side.columns, targets, weights=curvature.astype(dtype), offset=offset)


def _between(low: DoubleArray, high: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """Slope and curvature of log(Phi(high) - Phi(low)), which falls on both sides; ends are above the score."""
    is_turned = low > 0  # the lower tail has more digits
    from_, to = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    chance = ndtr(to) - ndtr(from_)
    is_told = chance > LEAST_CHANCE
    safe = np.where(is_told, chance, 1)
    at_low, at_high = _density(low), _density(high)
    slope = np.where(is_told, (at_low - at_high) / safe, np.where(low > 0, low, high))  # else straight to the end
    bend = (_times(high, at_high) - _times(low, at_low)) / safe
    return slope, np.where(is_told, np.clip(slope**2 + bend, LEAST_CURVATURE, 1), 1.0)


def _logistic(scores: DoubleArray, is_yes: NDArray[np.bool_]) -> tuple[DoubleArray, DoubleArray]:
    """Slope and curvature; on the wrong side of 0 that of a bound from below, as the true one is next to nothing."""
    chance, half = expit(scores), np.maximum(0.5 * np.abs(scores), 1e-4)
    curvature = np.where((scores > 0) == is_yes, chance * (1 - chance), np.tanh(half) / (4 * half))
    return is_yes - chance, np.maximum(curvature, LEAST_CURVATURE)


def _density(standard: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.exp(-0.5 * standard**2) / np.sqrt(2 * np.pi))


def _times(end: DoubleArray, density: DoubleArray) -> DoubleArray:
    """Their product, which is 0 at an infinite end."""
    return np.where(np.isinf(end), 0.0, np.where(np.isinf(end), 0.0, end) * density)
