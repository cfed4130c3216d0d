"""Geweke's test: does a transition keep the posterior of its model invariant?

Parameters and ratings can be drawn together in two ways (Geweke 2004, "Getting it right"):

- apart: parameters from the prior, ratings given them; every pair independent of the others;
- in a chain: one step of the transition on the current ratings, then new ratings given the new parameters.

If the transition is correct, both draw from the same joint distribution, so that every function of parameters and
ratings has the same mean. The prior, the likelihood and the step are three pieces of code, and an error in one of them
almost always makes the two disagree. The posterior need not be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.transition import Model, Transition
from tastespace.parameters import check_int

Params = TypeVar("Params")
Functionals = Mapping[str, Callable[[Params, Ratings], float]]
Bind = Callable[[Ratings], Transition[Params]]

# Fewer effective draws prove nothing: a chain that hardly moves agrees with everything.
MIN_EFFECTIVE = 100
FALSE_ALARMS = 1e-6  # how often a correct program fails
# Results of arithmetic with huge numbers. Other exceptions are errors of the caller, and are raised.
OVERFLOWS = (ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Compared:
    """One function of parameters and ratings, drawn in both ways."""

    name: str
    apart: float  # its mean over independent draws
    chained: float  # its mean over the chain
    standard_error: float  # of their difference
    effective: float  # effective sample size of the chain
    z: float  # the difference in standard errors

    @property
    def p_value(self) -> float:
        """The two-sided p-value of z; 0 if something is not finite."""
        return float(2 * ndtr(-abs(self.z))) if not math.isnan(self.z) else 0.0


class HasPValue(Protocol):
    """The result for one function."""

    @property
    def p_value(self) -> float: ...


Row = TypeVar("Row", bound=HasPValue)


@dataclass(frozen=True, repr=False)
class SamplerResult(Generic[Row]):
    """The result of a test of a sampler, by function; shown as a table."""

    claim: ClassVar[str]  # the claim of a failed test

    rows: tuple[Row, ...]
    n: int  # draws of each kind, or data sets
    failure: str | None = None  # why there is no result: something is not finite, or the chain does not move

    @property
    def p_value(self) -> float:
        """The p-value of all functions together, by Bonferroni; 0 after a failure."""
        if self.failure is not None:
            return 0.0
        return min(1.0, len(self.rows) * min(row.p_value for row in self.rows))

    def assert_passes(self, alpha: float = FALSE_ALARMS) -> None:
        """Raise an AssertionError with the table if the p-value is below alpha."""
        if not self.p_value >= alpha:
            raise AssertionError(f"{self.claim} (alpha {alpha:g})\n{self!r}")


@dataclass(frozen=True, repr=False)
class GewekeResult(SamplerResult[Compared]):
    """The comparison of both ways of drawing."""

    claim = "the transition does not keep the joint distribution"

    @property
    def worst(self) -> float:
        """The largest distance in standard errors; infinite after a failure."""
        if self.failure is not None:
            return math.inf
        return max(abs(row.z) for row in self.rows)

    def __repr__(self) -> str:
        width = max(len("function"), *(len(row.name) for row in self.rows))
        lines = [f"Geweke's test of {self.n} draws each way: p = {self.p_value:.3g} ({len(self.rows)} functions)"]
        if self.failure is not None:
            lines.append(f"failed: {self.failure}")
        lines.append(f"{'function':{width}} {'apart':>11} {'in a chain':>11} {'error':>10} {'effective':>10} {'z':>8}")
        lines += [
            f"{row.name:{width}} {row.apart:11.4g} {row.chained:11.4g} {row.standard_error:10.2g} "
            f"{row.effective:10.0f} {row.z:8.2f}"
            for row in self.rows
        ]
        return "\n".join(lines)


def geweke(
    model: Model[Params],
    bind: Bind[Params],
    where: Ratings,
    functionals: Functionals[Params],
    *,
    n: int,
    rng: Generator,
) -> GewekeResult:
    """Compare n independent draws of parameters and ratings with n draws of a chain of steps and simulations.

    `bind` makes the transition for given ratings; its states are the params of the model. `where` has the rated pairs;
    its values are not used. Functionals should be light-tailed (the logarithm of a precision rather than the
    precision), because a mean without a variance has no standard error, and should not depend on what the model does
    not identify.

    Infinite values and NaN are a failure with p = 0, and so is a chain that does not move; nothing is raised.
    """
    check_int("n", n, least=MIN_EFFECTIVE)
    if not functionals:
        raise InvalidParameterError("functionals is empty; expected at least one function of params and ratings")
    with np.errstate(all="ignore"):  # Overflows are reported as a failure, not as a warning.
        apart, failure = _draw_apart(model, where, functionals, n, rng)
        chained = np.full_like(apart, np.nan)
        if failure is None:
            chained, failure = _draw_chain(model, bind, where, functionals, n, rng)
        rows = tuple(_compare(name, apart[:, k], chained[:, k]) for k, name in enumerate(functionals))
    return GewekeResult(rows, n, failure or _find_stuck(rows))


def effective_size(chain: DoubleArray) -> float:
    """The number of independent draws that estimate the mean as well as this chain; at most its length.

    The variance of the mean of n draws is s^2 t / n with t = 1 + 2 sum of the autocorrelations. At large lags
    these are noise, so the sum must be cut: sums of two neighbors are positive and decrease in a reversible chain, so
    the sum ends at the first estimate that is not positive, and one that increases is replaced by the one before
    (Geyer 1992, the initial monotone sequence). The effective size is n / t; 1 for a chain that does not move.
    """
    n = len(chain)
    if n < 4 or not np.ptp(chain) > 0:
        return 1.0
    length = next_fast_len(2 * n, real=True)  # long enough that the ends do not overlap
    spectrum = rfft(chain - chain.mean(), length)
    covariances = irfft(np.abs(spectrum) ** 2, length)[: n - n % 2]
    pairs = covariances[0::2] + covariances[1::2]
    is_noise = pairs <= 0
    end = int(np.argmax(is_noise)) if is_noise.any() else len(pairs)
    time = 2 * float(np.minimum.accumulate(pairs[:end]).sum()) / float(covariances[0]) - 1
    return n / max(time, 1.0)


def _draw_apart(
    model: Model[Params], where: Ratings, functionals: Functionals[Params], n: int, rng: Generator
) -> tuple[DoubleArray, str | None]:
    """The functionals of independent draws, n x functionals, and an error message."""
    values = np.full((n, len(functionals)), np.nan)
    for k in range(n):
        params = model.sample_prior(where, rng)
        values[k] = evaluate_functionals(functionals, params, model.simulate(params, where, rng))
        if (wrong := find_not_finite(functionals, values[k])) is not None:
            return values, f"draw {k + 1} of the prior: {wrong}"
    return values, None


def _draw_chain(
    model: Model[Params], bind: Bind[Params], where: Ratings, functionals: Functionals[Params], n: int, rng: Generator
) -> tuple[DoubleArray, str | None]:
    """The functionals along the chain, n x functionals, and an error message."""
    values = np.full((n, len(functionals)), np.nan)
    # The first pair comes from the joint distribution itself, so that no warm-up is needed.
    params = model.sample_prior(where, rng)
    for k in range(n):
        try:
            ratings = model.simulate(params, where, rng)
            if not np.isfinite(ratings.values).all():
                return values, f"step {k + 1}: the simulated ratings are not finite"
            params, _ = bind(ratings).step(params, rng)
        except OVERFLOWS as error:
            return values, f"step {k + 1}: {type(error).__name__}: {error}"
        # Before new ratings are drawn: the new parameters must be consistent with the old ratings, too; new ones would
        # be consistent with any step.
        values[k] = evaluate_functionals(functionals, params, ratings)
        if (wrong := find_not_finite(functionals, values[k])) is not None:
            return values, f"step {k + 1}: {wrong}"
    return values, None


def evaluate_functionals(functionals: Functionals[Params], params: Params, ratings: Ratings) -> DoubleArray:
    """The functionals at one point; NaN for those that cannot be computed."""
    values = np.full(len(functionals), np.nan)
    for k, function in enumerate(functionals.values()):
        with suppress(*OVERFLOWS):
            values[k] = function(params, ratings)
    return values


def find_not_finite(functionals: Functionals[Params], values: DoubleArray) -> str | None:
    """A message about the first functional that is infinite or NaN; None if all are finite."""
    named = zip(functionals, values, strict=True)
    return next((f"{name} is {value}" for name, value in named if not math.isfinite(value)), None)


def _compare(name: str, apart: DoubleArray, chained: DoubleArray) -> Compared:
    """Compare the two means."""
    n, effective = len(apart), effective_size(chained)
    # If the transition is correct, both have the same variance. The independent draws estimate it better, and do not
    # underestimate it where the chain happens to stay among low values that are close to one another.
    variance = 0.0 if np.ptp(apart) == 0 else float(apart.var())  # exactly 0 for a constant, whatever its rounding
    error = math.sqrt(variance * (1 / n + 1 / effective))
    difference = float(chained.mean() - apart.mean())
    is_same = bool((apart == chained[0]).all() and (chained == chained[0]).all())  # such as a fixed noise
    z = 0.0 if is_same else math.copysign(math.inf, difference) if error == 0 else difference / error
    return Compared(name, float(apart.mean()), float(chained.mean()), error, n if is_same else effective, z)


def _find_stuck(rows: Sequence[Compared]) -> str | None:
    """A message about the first functional with too few effective draws; None if there is none."""
    for row in rows:
        if row.effective < MIN_EFFECTIVE and math.isfinite(row.z):
            return (
                f"the chain has only {row.effective:.0f} effective draws of {row.name}; expected at least "
                f"{MIN_EFFECTIVE}: a larger n, or a transition that moves"
            )
    return None
