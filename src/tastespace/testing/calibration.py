"""Simulation-based calibration: are posteriors as wide as they should be, and in the right place?

Draw parameters from the prior, ratings given them, and then the posterior given those ratings, as a fit would. The
parameters drawn first are one more draw of that posterior. So the rank of any function of them among its L posterior
draws is uniform on 0 ... L, averaged over many such data sets (Talts et al. 2018; Modrak et al. 2023 let the function
depend on the ratings, too). Ranks in the middle too often mean posteriors that are too wide, ranks at both ends too
narrow ones, at one end a bias. Unlike Geweke's test, this one also detects a bad start or too short a warm-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats

from tastespace.arrays import DoubleArray, OffsetArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.drivers import Schedule, sample
from tastespace.inference.transition import Model, Transition
from tastespace.parameters import check_int, check_number
from tastespace.progress import silent
from tastespace.testing.geweke import OVERFLOWS, Bind, Functionals, SamplerResult, evaluate_functionals, find_not_finite

Params = TypeVar("Params")

# Shift, width, skewness and heaviness of tails: typical errors of posteriors. Further degrees would dilute these.
DEGREES = 4
# Sums of fewer ranks are not yet normal so far out. At 200 data sets p-values of 1e-5 come up to twice too often.
MIN_DATA_SETS = 100
SHOWN = (0.5, 0.9)  # coverages in the table


@dataclass(frozen=True)
class Coverage:
    """How often intervals contained the true value."""

    n_inside: int
    n: int
    expected: float  # the nominal coverage

    @property
    def share(self) -> float:
        return self.n_inside / self.n

    @property
    def p_value(self) -> float:
        """The p-value of the exact two-sided binomial test that the coverage is nominal."""
        return float(stats.binomtest(self.n_inside, self.n, self.expected).pvalue)


def coverage(true_values: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, expected: float) -> Coverage:
    """The share of true values within their intervals, ends included; values that are not finite are outside.

    The p-value assumes independent values. Those of one data set are not quite: they share its parameters.
    """
    check_number("expected", expected, above=0, below=1)
    true_values, low, high = (np.asarray(array, np.float64) for array in (true_values, low, high))
    if not true_values.shape == low.shape == high.shape or true_values.ndim != 1 or not len(true_values):
        shapes = ", ".join(str(array.shape) for array in (true_values, low, high))
        raise InvalidParameterError(
            f"values, lower and upper ends have shapes {shapes}; expected three equal ones, not empty"
        )
    is_inside = np.isfinite(true_values) & (low <= true_values) & (true_values <= high)
    return Coverage(int(is_inside.sum()), len(true_values), expected)


@dataclass(frozen=True)
class Ranked:
    """One function of parameters and ratings: the ranks of the truth among its posterior draws."""

    name: str
    ranks: OffsetArray  # one per data set, 0 ... n_draws
    n_draws: int
    correlation: float  # of neighboring draws; far from 0 the ranks are not uniform even for a correct sampler

    @property
    def p_value(self) -> float:
        """The p-value of the test that the ranks are uniform."""
        return uniformity(self.ranks, self.n_draws)

    def coverage(self, level: float) -> Coverage:
        """Coverage of the central intervals nearest to this level; their nominal coverage is exact."""
        check_number("level", level, above=0, below=1)
        n_ranks = self.n_draws + 1
        tail = min(round(n_ranks * (1 - level) / 2), (n_ranks - 1) // 2)  # ranks cut off at either end
        is_inside = (self.ranks >= tail) & (self.ranks < n_ranks - tail)
        return Coverage(int(is_inside.sum()), len(self.ranks), (n_ranks - 2 * tail) / n_ranks)


@dataclass(frozen=True, repr=False)
class CalibrationResult(SamplerResult[Ranked]):
    """Whether ranks are uniform."""

    claim = "the posteriors are not calibrated"

    def __getitem__(self, name: str) -> Ranked:
        return {row.name: row for row in self.rows}[name]

    def __repr__(self) -> str:
        head = f"Calibration on {self.n} data sets: p = {self.p_value:.3g}"
        if self.failure is not None:
            return f"{head}\nfailed: {self.failure}"
        width = max(len("function"), *(len(row.name) for row in self.rows))
        columns = [f"{100 * row.expected:.0f} % holds" for row in (self.rows[0].coverage(level) for level in SHOWN)]
        lines = [
            f"{head} ({len(self.rows)} functions, {self.rows[0].n_draws} draws each)",
            f"{'function':{width}} {'mean rank':>10} {columns[0]:>11} {columns[1]:>11} {'correlation':>12} {'p':>9}",
        ]
        for row in self.rows:
            held = [f"{100 * row.coverage(level).share:9.1f} %" for level in SHOWN]
            mean = row.ranks.mean() / row.n_draws
            lines.append(
                f"{row.name:{width}} {mean:10.3f} {held[0]} {held[1]} {row.correlation:12.2f} {row.p_value:9.2g}"
            )
        return "\n".join(lines)


def simulation_based_calibration(
    model: Model[Params],
    bind: Bind[Params],
    where: Ratings,
    functionals: Functionals[Params],
    *,
    n: int,
    draws: int,
    warmup: int,
    thin: int,
    rng: Generator,
) -> CalibrationResult:
    """Rank true values among posterior draws on n data sets drawn from the model.

    One chain per data set starts at the transition's `init`, steps `warmup` times, and then `thin` times for each of
    its draws. `thin` should make neighboring draws almost independent; the table shows their correlation. Equal values
    are ranked at random, so that constants do no harm. Functionals as for `geweke`. Infinite values and NaN are a
    failure with p = 0; nothing is raised.
    """
    check_int("n", n, least=MIN_DATA_SETS)
    check_int("draws", draws, least=DEGREES + 1)
    check_int("warmup", warmup, least=0)
    check_int("thin", thin, least=1)
    if not functionals:
        raise InvalidParameterError("functionals is empty; expected at least one function of params and ratings")
    schedule = Schedule(chains=1, warmup=warmup, draws=draws, thin=thin)
    ranks = np.zeros((n, len(functionals)), np.int64)
    sampled = np.zeros((n, draws, len(functionals)))
    with np.errstate(all="ignore"):  # Overflows are reported as a failure, not as a warning.
        for k in range(n):
            params = model.sample_prior(where, rng)
            observed = model.simulate(params, where, rng)
            truth = evaluate_functionals(functionals, params, observed)
            wrong = find_not_finite(functionals, truth)
            if wrong is None:
                sampled[k], wrong = _sample(bind(observed), functionals, observed, schedule, rng)
            if wrong is not None:
                return CalibrationResult((), n, f"data set {k + 1}: {wrong}")
            n_equal = (sampled[k] == truth).sum(0)
            ranks[k] = (sampled[k] < truth).sum(0) + rng.integers(0, n_equal, endpoint=True)
    correlations = _correlations(sampled)
    rows = (Ranked(name, ranks[:, k], draws, float(correlations[k])) for k, name in enumerate(functionals))
    return CalibrationResult(tuple(rows), n)


def uniformity(ranks: NDArray[Any], n_draws: int) -> float:
    """The p-value of Neyman's smooth test that ranks are uniform on 0 ... n_draws.

    The means of polynomials that are orthonormal under that distribution are independent and, times the root of the
    number of ranks, standard normal. The sum of squares of the first four has a chi-square distribution. This detects
    shifted, too wide and too narrow posteriors with far fewer ranks than a test on bins.
    """
    places = np.linspace(-1.0, 1.0, n_draws + 1)
    orthonormal, _ = np.linalg.qr(np.vander(places, DEGREES + 1, increasing=True))
    polynomials = math.sqrt(n_draws + 1) * orthonormal[:, 1:]  # the first is the constant
    sums = polynomials[np.asarray(ranks)].sum(0)
    return float(stats.chi2.sf(float((sums**2).sum()) / len(ranks), DEGREES))


def _sample(
    transition: Transition[Params],
    functionals: Functionals[Params],
    observed: Ratings,
    schedule: Schedule,
    rng: Generator,
) -> tuple[DoubleArray, str | None]:
    """The functionals of posterior draws, draws x functionals, and an error message if something is not finite."""
    try:
        chains = sample(
            transition,
            rng,
            schedule,
            keeps=[lambda state, _: evaluate_functionals(functionals, state, observed)] * schedule.chains,
            phase="calibration",
            threads=1,
            observer=silent,
        )
    except OVERFLOWS as error:
        return np.full((schedule.draws, len(functionals)), np.nan), f"{type(error).__name__}: {error}"
    sampled = np.stack(chains[0].draws)
    wrong = (
        f"draw {k}: {text}" for k, values in enumerate(sampled, 1) if (text := find_not_finite(functionals, values))
    )
    return sampled, next(wrong, None)


def _correlations(sampled: DoubleArray) -> DoubleArray:
    """The correlation of neighboring draws, one per functional, over all data sets."""
    n_draws = sampled.shape[1]
    centred = sampled - sampled.mean(1, keepdims=True)
    products = (centred[:, 1:] * centred[:, :-1]).sum((0, 1))
    squares = (centred**2).sum((0, 1))
    # Centering at their own mean makes independent draws appear correlated by -1 / draws.
    return np.where(squares > 0, products / np.where(squares > 0, squares, 1.0) + 1 / n_draws, 0.0)
