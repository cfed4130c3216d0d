"""Have chains run long enough? R-hat, effective draws and Monte Carlo errors of what was watched.

Judged are the kept draws, of which answers are made, each chain cut into halves. R-hat says whether the halves agree
(see `tastespace.inference.diagnosis`). For N draws in all (Vehtari et al. 2021)

    ESS  = N / (1 + 2 sum of correlations at lags 1, 2 ...)     bulk: of normal scores of the ranks; tail: the lesser of
                                                                those of the 5 % and the 95 % quantile
    MCSE = sd / sqrt(ESS of the mean)                           how far their mean is from that of endlessly many

Warnings are about predictions alone. A log joint or a hyper-parameter that mixes slowly is shown in the table, and
disturbs nobody who asks for recommendations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.diagnosis import (
    FEWEST_A_CHAIN,
    FEWEST_IN_ALL,
    LARGEST_ERROR,
    LARGEST_MOVE,
    LARGEST_RHAT,
    LARGEST_SHARE,
    NOT_FINITE,
    NOT_SETTLED,
    Diagnosis,
    Figures,
    Pairs,
    effective_for_mean,
    halves,
    measured,
    median_row,
    number,
    of_most,
    rhat,
    root_mean_square,
    summary,
    worst_row,
)
from tastespace.inference.trace import ACCEPTANCE, ENERGY_ERROR, HELD_OUT, LOG_JOINT, NOISE, Trace


def trouble(diagnosis: Diagnosis, figures: Figures, drawn: DoubleArray, noise: DoubleArray | None) -> str | None:
    """The first thing that makes predictions untrustworthy: without the earlier ones, the later mean nothing."""
    if any(row.verdict == NOT_FINITE for row in diagnosis):
        names = ", ".join(row.quantity for row in diagnosis if row.verdict == NOT_FINITE)
        return f"{names}: not finite; check the ratings for extreme values, and fit again"
    if diagnosis.draws < FEWEST_A_CHAIN or diagnosis.draws * diagnosis.chains < FEWEST_IN_ALL:
        return _too_few(diagnosis)
    unsettled = None if diagnosis.pairs is None else _unsettled_pairs(diagnosis, diagnosis.pairs, figures)
    if unsettled is not None:
        return _not_settled(diagnosis, "predictions", _who_disagrees(figures, drawn) + unsettled)
    if noise is not None and diagnosis[NOISE].verdict == NOT_SETTLED:
        move = float(np.ptp(halves(noise).mean(axis=1)) / noise.mean())
        if move > LARGEST_MOVE:
            found = f"its R-hat is {diagnosis[NOISE].rhat:.2f}, and it differs by {move:.0%} between halves of chains"
            return _not_settled(diagnosis, NOISE, f"{found} (at most {LARGEST_MOVE:.0%} expected)")
    return None if diagnosis.pairs is None else _inexact(diagnosis, diagnosis.pairs)


def _inexact(diagnosis: Diagnosis, pairs: Pairs) -> str | None:
    """Errors that are too large, or larger than what chains went on for."""
    error, most, wanted = pairs.relative_error, pairs.error_of_most, diagnosis.wanted_error
    if error is not None and error > LARGEST_ERROR:
        return _not_exact(diagnosis, f"their Monte Carlo error is {error:.3f}", error, LARGEST_ERROR)
    if most is not None and wanted is not None and most > wanted:
        found = f"the most draws were taken, and the Monte Carlo error of nine in ten is {most:.3f}"
        return _not_exact(diagnosis, found, most, wanted)
    return None


def _who_disagrees(figures: Figures, drawn: DoubleArray) -> str:
    """Whether it is chains with one another, each of them at rest, or a chain with its own past."""
    chains = drawn.shape[1]
    unsettled = drawn[figures.rhat > LARGEST_RHAT]
    if chains == 1 or not len(unsettled):
        return ""
    at_rest = np.all([rhat(unsettled[:, [chain]]) <= LARGEST_RHAT for chain in range(chains)], axis=0)
    if at_rest.mean() < 0.5:
        return ""
    return f"the {chains} chains disagree, each of them at rest in a place of its own: "


def _unsettled_pairs(diagnosis: Diagnosis, pairs: Pairs, figures: Figures) -> str | None:
    """What is wrong if chains disagree about too many pairs, or about a few by too much."""
    spread, yardstick = root_mean_square(figures.sd), diagnosis.yardstick
    if spread is None or not yardstick or spread <= LARGEST_ERROR * yardstick:
        return None  # Draws that scatter less than the error allowed are exact enough, each of them.
    found = f"{pairs.above_rhat:.0%} of the watched pairs have R-hat above {LARGEST_RHAT:g}"
    if pairs.above_rhat > LARGEST_SHARE:
        return f"{found} (at most {LARGEST_SHARE:.0%} expected)"
    settled = root_mean_square(figures.mcse[~(figures.rhat > LARGEST_RHAT)])
    is_exact = settled is None or settled <= LARGEST_ERROR * yardstick
    if pairs.relative_error is not None and pairs.relative_error > LARGEST_ERROR and is_exact:
        return (
            f"{found}, and make the Monte Carlo error of all {pairs.relative_error:.3f} times the {diagnosis.unit} "
            f"(at most {LARGEST_ERROR:g} expected)"
        )
    return None


def _too_few(diagnosis: Diagnosis) -> str:
    wanted = max(FEWEST_A_CHAIN, math.ceil(FEWEST_IN_ALL / diagnosis.chains))
    now = diagnosis.draws
    return (
        f"predictions are averages of {now * diagnosis.chains} draws, too few to judge them by: at least "
        f"{wanted - now} more a chain are needed; set draws={wanted} or more (now {now})"
    )


def _not_settled(diagnosis: Diagnosis, quantity: str, found: str) -> str:
    """Chains, or a chain and its own past, disagree: more of the same would only average the wrong with the right."""
    have = "has" if quantity == NOISE else "have"
    # Twice nothing is nothing: then what was kept should have been warm-up.
    now, longer = diagnosis.warmup, max(2 * diagnosis.warmup, diagnosis.draws * diagnosis.thin)
    what = "double the warm-up" if longer == 2 * now else "let chains warm up longer" if now else "let chains warm up"
    return f"{quantity} {have} not settled: {found}; {what}: set warmup={longer} (now {now})"


def _not_exact(diagnosis: Diagnosis, found: str, error: float, limit: float) -> str:
    """The error falls with the square root of the draws."""
    now = diagnosis.draws
    wanted = math.ceil(now * (error / limit) ** 2)
    return (
        f"predictions are not exact enough: {found} times the {diagnosis.unit} (at most {limit:g} expected); about "
        f"{wanted - now} more draws a chain are needed: set draws={wanted} (now {now})"
    )


def diagnose(trace: Trace) -> Diagnosis:
    """Judge the kept draws of every quantity and of the watched predictions.

    What is averaged while a chain runs, such as the held-out RMSE, is no series of draws and has no row, nor has what
    tells how moves went.
    """
    if not isinstance(trace, Trace):
        raise InvalidParameterError(
            f"diagnose got {type(trace).__name__}; expected a trace, such as model.posterior_.trace of a BPMF"
        )
    quantities = {name: kept(trace, trace.quantities[name]) for name in names_of(trace)}
    rows = tuple(measured(values[None]).row(name) for name, values in quantities.items())
    drawn = np.moveaxis(kept(trace, trace.predictions), 2, 0)  # pairs x chains x draws
    yardstick = _yardstick(quantities, drawn)
    held_out = trace.quantities.get(HELD_OUT)
    diagnosis = Diagnosis(
        chains=trace.chains,
        warmup=trace.warmup,
        draws=int(drawn.shape[2]),
        thin=trace.thin,
        rows=rows,
        pairs=None,
        yardstick=yardstick,
        held_out_rmse=None if held_out is None or not held_out.size else number(float(held_out[:, -1].mean())),
        trouble=None,
        wanted_error=trace.wanted_error,
        acceptance=_mean_of(trace, ACCEPTANCE),
        energy_error=_mean_of(trace, ENERGY_ERROR),
    )
    figures = measured(drawn)
    if len(drawn):
        pairs = summary(figures, yardstick)
        diagnosis = replace(diagnosis, rows=(*rows, median_row(figures), worst_row(figures)), pairs=pairs)
    return replace(diagnosis, trouble=trouble(diagnosis, figures, drawn, quantities.get(NOISE)))


def check_convergence(trace: Trace) -> str | None:
    """The message of a ConvergenceWarning, or None: predictions that cannot be trusted yet, and what is missing."""
    return diagnose(trace).trouble


def monte_carlo_errors(trace: Trace) -> DoubleArray | None:
    """Of each watched prediction, as multiples of the yardstick; None if they cannot be said.

    The same as those that `diagnose` sums up, without all the rest: for a rule that asks again and again.
    """
    quantities = {name: kept(trace, trace.quantities[name]) for name in (NOISE,) if name in trace.quantities}
    drawn = np.moveaxis(kept(trace, trace.predictions), 2, 0)
    yardstick = _yardstick(quantities, drawn)
    if not len(drawn) or drawn.shape[2] < FEWEST_A_CHAIN or not yardstick or not np.isfinite(drawn).all():
        return None
    sd = drawn.std(axis=(1, 2), ddof=1)
    return np.asarray(np.where(sd > 0, sd / np.sqrt(effective_for_mean(drawn)), 0.0) / yardstick)


def names_of(trace: Trace) -> list[str]:
    """The quantities that are series of draws, in an order that saving and loading does not change."""
    first = [name for name in (NOISE, LOG_JOINT) if name in trace.quantities]
    return first + sorted(set(trace.quantities) - {NOISE, LOG_JOINT, HELD_OUT, ACCEPTANCE, ENERGY_ERROR})


def kept(trace: Trace, values: Any) -> DoubleArray:
    """Of a series with all sweeps (chains x sweeps ...) the kept draws, in double."""
    first = trace.warmup + trace.thin - 1
    return np.asarray(values[:, first :: trace.thin], np.float64)


def _mean_of(trace: Trace, name: str) -> float | None:
    """Of all kept draws, if it was watched."""
    if name not in trace.quantities:
        return None
    values = kept(trace, trace.quantities[name])
    return number(float(values.mean())) if values.size else None


def _yardstick(quantities: dict[str, DoubleArray], drawn: DoubleArray) -> float | None:
    """What an error is small against: the noise, or where a model has none the differences between predictions."""
    noise = quantities.get(NOISE)
    if noise is not None and noise.size:
        return number(float(noise.mean()))
    return number(float(drawn.std())) if drawn.size else None


@dataclass(frozen=True)
class Exactness:
    """Chains go on, a block of draws at a time, until the Monte Carlo errors of watched predictions are small.

    Nine pairs in ten must have an error of at most `error`, in units of the noise sd (where there is none, of the
    spread of the predictions), and all together must not make the diagnostics warn. Chains that disagree have large
    errors: they go on to the most that the schedule allows.
    """

    error: float
    block: int  # draws of each chain between two looks, and the least that are taken

    def is_met(self, trace: Trace) -> bool:
        errors = monte_carlo_errors(trace)
        if errors is None:
            return False
        return of_most(errors) <= self.error and float(np.sqrt(np.mean(errors**2))) <= LARGEST_ERROR
