"""Settings of empirical Bayes, as an object or as text: `empirical-bayes:steps=adam,draws=100`.

Rows move at given precisions by one of three moves that leave the same normal distribution invariant.

Given the other side, a row x (factors and bias) has the prior N(0, T^2), T diagonal, and the likelihood
exp(-alpha/2 |errors|^2).

gibbs           x' from that distribution itself
crank-nicolson  x' = a x + sqrt(1 - a^2) T z: leaves the prior invariant, so that the ratio is that of the likelihoods
                (Cotter et al. 2013)
autoregressive  x' = a x + sigma z, sigma free (Somani and Gupta 2017, equation 3.24). It leaves N(0, s^2) invariant,
with
                s^2 = sigma^2 / (1 - a^2), and is *not* symmetric: the ratio is
                likelihood x prior x N(x; 0, s^2) / N(x'; 0, s^2)

The last two have one a per row, parametrized as the cosine of an angle: small angles are small moves. Angles are tuned
while precisions are learned, and fixed while draws are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.inference.samplers.stochastic_approximation import Adam, RobbinsMonro, Steps
from tastespace.models.factorization import rows as row_kernel
from tastespace.models.factorization.likelihoods.base import squared_errors
from tastespace.parameters import check_declared, check_int, check_number
from tastespace.settings import Settings, settings_of

FIRST_ANGLE, MIN_ANGLE, MAX_ANGLE = 0.3, 1e-3, np.pi / 2
WANTED = 0.3  # share of proposals to be accepted: near the best for many dimensions
TransitionName = Literal["gibbs", "crank-nicolson", "autoregressive"]


@dataclass(frozen=True, eq=False)
class MovedRows:
    """Rows after a move."""

    points: row_kernel.Factors
    squares: float  # of all errors
    angles: DoubleArray | None = None  # one per row
    acceptance: float | None = None


@dataclass(frozen=True, eq=False)
class Conditional:
    """The conditional of the rows of one side: ratings, the other side, their prior and the precision of the noise."""

    side: row_kernel.RatingBlock
    other: row_kernel.Factors
    prior: row_kernel.RowPrior
    alpha: float
    name: str
    threads: int

    def solve(self, **noise: Any) -> row_kernel.Solved:
        """The mean of the rows, or a draw around it with this noise."""
        return row_kernel.solve_rows(
            self.side, self.other, self.prior, name=self.name, alpha=self.alpha, threads=self.threads, **noise
        )


class RowMove(Protocol):
    """A move of all rows of one side; `gain` is how strongly angles adapt to the acceptance, 0 for not at all."""

    def moved(
        self, given: Conditional, rows: row_kernel.Factors, angles: DoubleArray | None, gain: float, rng: Generator
    ) -> MovedRows: ...


@dataclass(frozen=True)
class GibbsMove:
    """An exact draw, independent of the previous rows."""

    def moved(
        self, given: Conditional, rows: row_kernel.Factors, angles: DoubleArray | None, gain: float, rng: Generator
    ) -> MovedRows:
        n, n_factors = rows.factors.shape
        noise, bias_noise = row_kernel.row_noise(rng, n, n_factors, rows.factors.dtype, has_bias=rows.bias is not None)
        solved = given.solve(noise=noise, bias_noise=bias_noise)
        assert solved.squares is not None
        total = row_kernel.sum_of_rows(solved.squares)
        row_kernel.require_finite(f"squared error of the {given.name}s", total)
        return MovedRows(solved.points, total)


@dataclass(frozen=True)
class CrankNicolsonMove:
    """Several proposals for each row, one after the other."""

    proposals: int = 10

    def moved(
        self, given: Conditional, rows: row_kernel.Factors, angles: DoubleArray | None, gain: float, rng: Generator
    ) -> MovedRows:
        matrix = _matrix(rows)
        n = len(matrix)
        angles = np.full(n, FIRST_ANGLE) if angles is None else angles
        widths = _prior_widths(given.prior, rows)
        spread = self.spread(widths)
        squares, accepted = squared_errors(given.side, rows, given.other), 0
        for _ in range(self.proposals):
            noise, _ = row_kernel.row_noise(rng, n, matrix.shape[1], np.float64, has_bias=False)
            proposed = np.cos(angles)[:, None] * matrix + np.sin(angles)[:, None] * spread * noise
            of_proposed = squared_errors(given.side, _points(proposed, rows), given.other)
            log_ratio = -given.alpha / 2 * (of_proposed - squares) + self.log_ratio(matrix, proposed, widths, spread)
            is_taken = self.takes(log_ratio, rng)
            matrix, squares = np.where(is_taken[:, None], proposed, matrix), np.where(is_taken, of_proposed, squares)
            angles = np.clip(angles * np.exp(gain * (is_taken - WANTED)), MIN_ANGLE, MAX_ANGLE)
            accepted += int(is_taken.sum())
        total = row_kernel.sum_of_rows(squares)
        row_kernel.require_finite(f"squared error of the {given.name}s", total)
        return MovedRows(_points(matrix, rows), total, angles, accepted / (n * self.proposals))

    def spread(self, widths: DoubleArray) -> DoubleArray:
        """Standard deviations of the distribution that proposals leave invariant; rows x (factors, bias)."""
        return widths

    def log_ratio(
        self, before: DoubleArray, after: DoubleArray, widths: DoubleArray, spread: DoubleArray
    ) -> DoubleArray:
        """The log ratio of prior and proposals, one per row; with Crank-Nicolson they cancel."""
        return np.zeros(len(before))

    def takes(self, log_ratio: DoubleArray, rng: Generator) -> BoolArray:
        return np.asarray(np.log1p(-rng.random(len(log_ratio))) < log_ratio)


@dataclass(frozen=True)
class AutoregressiveMove(CrankNicolsonMove):
    """Crank-Nicolson with a spread that is not the prior's: s is `share` of the typical row's prior."""

    share: float = 0.7

    def spread(self, widths: DoubleArray) -> DoubleArray:
        return np.broadcast_to(self.share * np.median(widths, axis=0), widths.shape)

    def log_ratio(
        self, before: DoubleArray, after: DoubleArray, widths: DoubleArray, spread: DoubleArray
    ) -> DoubleArray:
        """log prior(x') / prior(x) + log N(x; 0, s^2) / N(x'; 0, s^2)"""
        excess = widths**-2 - spread**-2
        return np.asarray(-0.5 * np.sum(excess * (after**2 - before**2), axis=1))


TRANSITIONS: dict[TransitionName, RowMove] = {
    "gibbs": GibbsMove(),
    "crank-nicolson": CrankNicolsonMove(),
    "autoregressive": AutoregressiveMove(),
}


def _matrix(rows: row_kernel.Factors) -> DoubleArray:
    """Factors and, in the last column, biases."""
    factors = rows.factors.astype(np.float64)
    return factors if rows.bias is None else np.column_stack([factors, rows.bias.astype(np.float64)])


def _points(matrix: DoubleArray, like: row_kernel.Factors) -> row_kernel.Factors:
    n_factors, dtype = like.factors.shape[1], like.factors.dtype
    bias = None if like.bias is None else np.ascontiguousarray(matrix[:, n_factors], dtype)
    return row_kernel.Factors(np.ascontiguousarray(matrix[:, :n_factors], dtype), bias)


def _prior_widths(prior: row_kernel.RowPrior, rows: row_kernel.Factors) -> DoubleArray:
    """Standard deviations of the prior of each number; rows x (factors, bias)."""
    precision = np.diag(prior.precision).astype(np.float64)
    if rows.bias is not None:
        precision = np.append(precision, prior.bias_precision)
    scale = np.ones(len(rows.factors)) if prior.scale is None else prior.scale.astype(np.float64)
    return np.asarray((scale[:, None] * precision) ** -0.5)


STEPS: dict[str, Steps] = {"robbins-monro": RobbinsMonro(), "adam": Adam()}
EXTREME = 1e6  # of a start: far beyond any plausible precision


@dataclass(frozen=True)
class EmpiricalBayes(Settings):
    """Learn the regularization from the ratings, and predict with the posterior mean at the learned values.

    `steps` are how the precisions follow their gradients ("robbins-monro" or "adam"), `transition` how factors are
    drawn meanwhile ("gibbs", "crank-nicolson" or "autoregressive": see
    `tastespace.models.factorization.empirical_bayes.settings`). Learning ends when the precisions have converged,
    after at most `most_steps`; then `draws` are kept. `tied` gives users and items one precision; only the product of
    two is identified. `start` is the initial strength of all blocks, as in `ALS`; None is a weak one that suits any
    scale.
    """

    name: ClassVar[str] = "empirical-bayes"

    steps: Literal["robbins-monro", "adam"] = "robbins-monro"
    transition: TransitionName = "gibbs"
    draws: int = 40
    most_steps: int = 100
    tied: bool = True
    start: float | None = None

    def check(self) -> None:
        check_declared(self)
        check_int("draws", self.draws, least=1)
        check_int("most_steps", self.most_steps, least=1)
        if self.start is not None:
            check_number("start", self.start, above=1 / EXTREME, below=EXTREME)


def empirical_bayes_of(regularization: Any) -> EmpiricalBayes | None:
    """Return the settings from an object or a text that starts with their name; None for any other regularization."""
    is_meant = isinstance(regularization, EmpiricalBayes)
    if isinstance(regularization, str):
        is_meant = regularization.partition(":")[0] == EmpiricalBayes.name
    if not is_meant:
        return None
    found: EmpiricalBayes = settings_of(regularization, {EmpiricalBayes.name: EmpiricalBayes}, "regularization")
    return found
