"""Figures of series of draws: mean, sd, R-hat, effective numbers, Monte Carlo errors, and a verdict on each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.inference.diagnosis import (
    CONSTANT,
    FEW,
    FINE,
    MEDIAN,
    NOT_FINITE,
    NOT_SETTLED,
    TOO_FEW,
    WORST,
    Pairs,
    Row,
)
from tastespace.inference.limits import (
    FEWEST_A_CHAIN,
    FEWEST_EFFECTIVE,
    FEWEST_FOR_RHAT,
    LARGEST_RHAT,
    MOST_PAIRS,
)
from tastespace.inference.mixing import rhat

TAIL = 0.05
SAME = 1e-12  # relative: a quantity that changes by less is a constant, written in another way


@dataclass(frozen=True, eq=False)
class Figures:
    """Of several series at once, one entry each; NaN is what cannot be said."""

    mean: DoubleArray
    sd: DoubleArray
    rhat: DoubleArray
    ess_bulk: DoubleArray
    ess_tail: DoubleArray
    mcse: DoubleArray
    verdicts: tuple[str, ...]

    def row(self, quantity: str, place: int = 0) -> Row:
        columns = (self.mean, self.sd, self.rhat, self.ess_bulk, self.ess_tail, self.mcse)
        mean, sd, rhat, ess_bulk, ess_tail, mcse = (number(column[place]) for column in columns)
        return Row(quantity, mean, sd, rhat, ess_bulk, ess_tail, mcse, self.verdicts[place])


def measured(series: DoubleArray) -> Figures:
    """Figures of series x chains x draws."""
    n_series, chains, draws = series.shape
    if not series.size:
        none = np.full(n_series, np.nan)
        return Figures(none, none, none, none, none, none, (TOO_FEW,) * n_series)
    finite: BoolArray = np.asarray(np.isfinite(series).all(axis=(1, 2)))
    series = np.where(finite[:, None, None], series, 0.0)
    reach: DoubleArray = np.ptp(series, axis=(1, 2))
    constant = (reach <= SAME * np.abs(series).max(axis=(1, 2))) & (chains * draws > 1)
    able = finite & ~constant
    mean, sd = series.mean(axis=(1, 2)), np.zeros(n_series)
    if chains * draws > 1:
        sd[able] = series[able].std(axis=(1, 2), ddof=1)
    split_rhat, bulk, tail, middle = (np.full(n_series, np.nan) for _ in range(4))
    if draws >= FEWEST_FOR_RHAT and able.any():
        split_rhat[able] = rhat(series[able])
    if draws >= FEWEST_A_CHAIN and able.any():
        bulk[able], tail[able], middle[able] = _effective(series[able])
    mcse = np.where(constant, 0.0, sd / np.sqrt(middle))
    for figures in (mean, sd, mcse):
        figures[~finite] = np.nan
    verdicts = tuple(
        NOT_FINITE if not is_finite else CONSTANT if is_constant else _verdict(own_rhat, own_bulk)
        for is_finite, is_constant, own_rhat, own_bulk in zip(finite, constant, split_rhat, bulk, strict=True)
    )
    return Figures(mean, sd, split_rhat, bulk, tail, mcse, verdicts)


def _verdict(rhat: float, ess_bulk: float) -> str:
    """Not by the tail ESS: answers are mixtures of normals, whose tails do not hang on a rare draw."""
    if math.isnan(ess_bulk):
        return TOO_FEW
    if rhat > LARGEST_RHAT:
        return NOT_SETTLED
    return FEW if ess_bulk < FEWEST_EFFECTIVE else FINE


def _effective(series: DoubleArray) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """The effective number of draws in the bulk, in the tails, and for the mean."""
    from arviz_stats.base.array import array_stats  # Takes a second: only where it is needed.

    ess: Callable[..., DoubleArray] = array_stats.ess
    return ess(series, method="bulk"), ess(series, method="tail", prob=TAIL), effective_for_mean(series)


def effective_for_mean(series: DoubleArray) -> DoubleArray:
    """Of so many independent draws the mean would be as exact."""
    from arviz_stats.base.array import array_stats

    ess: Callable[..., DoubleArray] = array_stats.ess
    return ess(series, method="mean")


def median_row(figures: Figures) -> Row:
    """The median of each column."""
    return _of_all(figures, MEDIAN, np.median, np.median)


def worst_row(figures: Figures) -> Row:
    """The worst of each column, which need not be of one pair."""
    return _of_all(figures, WORST, np.max, np.min)


def _of_all(figures: Figures, name: str, upward: Any, downward: Any) -> Row:
    """One row for all pairs; those that cannot be judged are left out, unless it is for not being finite."""
    if NOT_FINITE in figures.verdicts:
        return Row(name, None, None, None, None, None, None, NOT_FINITE)

    def of(values: DoubleArray, how: Any) -> float | None:
        known = values[~np.isnan(values)]
        return number(float(how(known))) if len(known) else None

    rhat, bulk = of(figures.rhat, upward), of(figures.ess_bulk, downward)
    is_constant = set(figures.verdicts) == {CONSTANT}
    verdict = (
        CONSTANT if is_constant else _verdict(math.nan if rhat is None else rhat, math.nan if bulk is None else bulk)
    )
    tail, mcse = of(figures.ess_tail, downward), of(figures.mcse, upward)
    return Row(name, None, of(figures.sd, upward), rhat, bulk, tail, mcse, verdict)


def summary(figures: Figures, yardstick: float | None) -> Pairs:
    """All pairs together."""
    error = root_mean_square(figures.mcse)
    bulk = np.where(np.isnan(figures.ess_bulk), np.inf, figures.ess_bulk)
    return Pairs(
        n=len(bulk),
        above_rhat=float(np.mean(figures.rhat > LARGEST_RHAT)),
        below_ess=None if TOO_FEW in figures.verdicts else float(np.mean(bulk < FEWEST_EFFECTIVE)),
        error=error,
        relative_error=None if error is None or not yardstick else error / yardstick,
        error_of_most=None if error is None or not yardstick else of_most(figures.mcse / yardstick),
        worst=int(bulk.argmin()),
    )


def of_most(errors: DoubleArray) -> float:
    """What nine in ten of them do not exceed; those that are not known do not count."""
    return float(np.nanquantile(errors, MOST_PAIRS))


def root_mean_square(values: DoubleArray) -> float | None:
    """Of those that are known; None if none is."""
    known = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else None


def number(value: float) -> float | None:
    """None for what cannot be said."""
    return None if math.isnan(value) else float(value)
