"""How rows of one side are moved given the other: what a Gibbs sweep, a start and an update ask for.

Rows with a normal prior are drawn outright. `sphere` has rows that are confined to a sphere, and take moves that leave
their distribution alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Protocol

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.errors import NonFiniteStateError
from tastespace.inference.dual_averaging import DualAveraging
from tastespace.inference.transition import Stats
from tastespace.models.factorization.likelihoods import Responses
from tastespace.models.factorization.populations import Population, Sphere
from tastespace.models.factorization.rows import Points, RowPrior, Side, solve_rows


@dataclass(frozen=True, eq=False)
class Moved:
    """Rows after a move."""

    points: Points
    squares: DoubleArray  # the squared errors that they leave, one a row
    tuning: DualAveraging | None
    stats: Stats


class RowMoves(Protocol):
    """Of all rows of one side."""

    @property
    def sphere(self) -> Sphere | None:
        """That rows lie on, if they do."""
        ...

    def solved(self, side: Side, other: Points, prior: RowPrior, rows: Points, name: str, threads: int) -> Points:
        """Where the energy of each row is least; `rows` are where they are now."""
        ...

    def drawn(
        self,
        responses: Responses,
        other: Points,
        population: Population,
        rows: Points,
        name: str,
        rng: Generator,
        threads: int,
    ) -> tuple[Points, DoubleArray]:
        """From their distribution, whatever they were before, and the squared errors that they leave."""
        ...

    def moved(
        self,
        responses: Responses,
        other: Points,
        population: Population,
        rows: Points,
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

    def solved(self, side: Side, other: Points, prior: RowPrior, rows: Points, name: str, threads: int) -> Points:
        return solve_rows(side, other, prior, name=name, threads=threads).points

    def drawn(
        self,
        responses: Responses,
        other: Points,
        population: Population,
        rows: Points,
        name: str,
        rng: Generator,
        threads: int,
    ) -> tuple[Points, DoubleArray]:
        return draw_rows(responses, other, population, name, rng, threads)

    def moved(
        self,
        responses: Responses,
        other: Points,
        population: Population,
        rows: Points,
        tuning: DualAveraging | None,
        rng: Generator,
        threads: int,
    ) -> Moved:
        return Moved(*self.drawn(responses, other, population, rows, "item", rng, threads), None, {})


NORMAL_ROWS = NormalRows()


def draw_rows(
    responses: Responses, other: Points, population: Population, name: str, rng: Generator, threads: int
) -> tuple[Points, DoubleArray]:
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
