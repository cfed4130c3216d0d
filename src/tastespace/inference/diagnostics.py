"""Have chains run long enough? R-hat, effective draws and Monte Carlo errors of what was watched.

Judged are the kept draws, of which answers are made, each chain cut into halves. R-hat says whether the halves agree
(see `tastespace.inference.mixing`). For N draws in all (Vehtari et al. 2021)

    ESS  = N / (1 + 2 sum of correlations at lags 1, 2 ...)     bulk: of normal scores of the ranks; tail: the lesser of
                                                                those of the 5 % and the 95 % quantile
    MCSE = sd / sqrt(ESS of the mean)                           how far their mean is from that of endlessly many

Warnings are about predictions alone. A log joint or a hyper-parameter that mixes slowly is shown in the table, and
disturbs nobody who asks for recommendations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.diagnosis import Diagnosis
from tastespace.inference.figures import (
    effective_for_mean,
    measured,
    median_row,
    number,
    summary,
    worst_row,
)
from tastespace.inference.limits import FEWEST_A_CHAIN
from tastespace.inference.trace import ACCEPTANCE, ENERGY_ERROR, HELD_OUT, LOG_JOINT, NOISE, Trace
from tastespace.inference.trouble import trouble


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
