"""Convergence diagnostics: R-hat, effective draws and Monte Carlo errors of the watched quantities.

They are computed from the kept draws, which predictions are made of, with each chain split into halves, so that one
chain that still drifts disagrees with itself just as two chains in different places do. With W the mean variance within
the halves of n draws each, and V that of their means,

    R-hat = sqrt((n - 1)/n + V/W)

of normal scores of the ranks; the larger of that of the draws and that of their distances from the median (Vehtari et
al. 2021). A half with k effective draws has a mean with variance W/k, so that R-hat is about sqrt(1 + 1/k). For N draws
in all

    ESS  = N / (1 + 2 sum of correlations at lags 1, 2 ...)     bulk: of normal scores of the ranks; tail: the lesser of
                                                                those of the 5 % and the 95 % quantile
    MCSE = sd / sqrt(ESS of the mean)                           how far their mean is from that of infinitely many

Warnings are about predictions alone. A log joint or a hyper-parameter that mixes slowly is shown in the table, and does
not matter for recommendations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference import diagnosis as limits
from tastespace.inference.diagnosis import Diagnosis, Pairs, Row
from tastespace.inference.transition import ACCEPTANCE, ENERGY_ERROR, HELD_OUT, LOG_JOINT, NOISE, Trace


def trouble(diagnosis: Diagnosis, figures: Figures, drawn: DoubleArray, noise: DoubleArray | None) -> str | None:
    """The first reason not to trust predictions; later ones are only meaningful if the earlier do not apply."""
    if names := [row.quantity for row in diagnosis.rows if row.verdict == limits.NOT_FINITE]:
        return f"{', '.join(names)}: not finite; check the ratings for extreme values, and fit again"
    if diagnosis.draws < limits.MIN_DRAWS_A_CHAIN or diagnosis.draws * diagnosis.chains < limits.MIN_DRAWS:
        return _too_few(diagnosis)
    unsettled = None if diagnosis.pairs is None else _unsettled_pairs(diagnosis, diagnosis.pairs, figures)
    if unsettled is not None:
        return _not_settled(diagnosis, "predictions", _who_disagrees(figures, drawn) + unsettled)
    if noise is not None and diagnosis[NOISE].verdict == limits.NOT_CONVERGED:
        move = float(np.ptp(halves(noise).mean(axis=1)) / noise.mean())
        if move > limits.MAX_MOVE:
            found = f"its R-hat is {diagnosis[NOISE].rhat:.2f}, and it differs by {move:.0%} between halves of chains"
            return _not_settled(diagnosis, NOISE, f"{found} (at most {limits.MAX_MOVE:.0%} expected)")
    return None if diagnosis.pairs is None else _inexact(diagnosis, diagnosis.pairs)


def _inexact(diagnosis: Diagnosis, pairs: Pairs) -> str | None:
    """The message about errors that are too large, or larger than the target of the chains."""
    of_most = "the maximum number of draws was taken, and the Monte Carlo error of nine in ten is"
    for found, error, limit in (
        ("their Monte Carlo error is", pairs.relative_error, limits.MAX_ERROR),
        (of_most, pairs.error_of_most, diagnosis.wanted_error),
    ):
        if error is not None and limit is not None and error > limit:
            now, wanted = diagnosis.draws, math.ceil(diagnosis.draws * (error / limit) ** 2)  # It falls with the root.
            return (
                f"predictions are not exact enough: {found} {error:.3f} times the {diagnosis.unit} (at most {limit:g} "
                f"expected); about {wanted - now} more draws per chain are needed: set draws={wanted} (now {now})"
            )
    return None


def _who_disagrees(figures: Figures, drawn: DoubleArray) -> str:
    """Say whether chains disagree with one another, each of them stable, or a chain with its own past."""
    chains = drawn.shape[1]
    unsettled = drawn[figures.rhat > limits.MAX_RHAT]
    if chains == 1 or not len(unsettled):
        return ""
    is_steady = np.all([rhat(unsettled[:, [chain]]) <= limits.MAX_RHAT for chain in range(chains)], axis=0)
    found = f"the {chains} chains disagree, each of them stable in a different region: "
    return found if is_steady.mean() >= 0.5 else ""


def _unsettled_pairs(diagnosis: Diagnosis, pairs: Pairs, figures: Figures) -> str | None:
    """The message if chains disagree about too many pairs, or about a few by too much."""
    spread, yardstick = root_mean_square(figures.sd), diagnosis.yardstick
    if spread is None or not yardstick or spread <= limits.MAX_ERROR * yardstick:
        return None  # Draws that scatter less than the allowed error are each exact enough.
    found = f"{pairs.above_rhat:.0%} of the watched pairs have R-hat above {limits.MAX_RHAT:g}"
    if pairs.above_rhat > limits.MAX_SHARE:
        return f"{found} (at most {limits.MAX_SHARE:.0%} expected)"
    known = root_mean_square(figures.mcse[~(figures.rhat > limits.MAX_RHAT)])
    is_exact = known is None or known <= limits.MAX_ERROR * yardstick
    if pairs.relative_error is not None and pairs.relative_error > limits.MAX_ERROR and is_exact:
        return (
            f"{found}, and make the Monte Carlo error of all {pairs.relative_error:.3f} times the {diagnosis.unit} "
            f"(at most {limits.MAX_ERROR:g} expected)"
        )
    return None


def _too_few(diagnosis: Diagnosis) -> str:
    wanted = max(limits.MIN_DRAWS_A_CHAIN, math.ceil(limits.MIN_DRAWS / diagnosis.chains))
    now = diagnosis.draws
    return (
        f"predictions are averages of {now * diagnosis.chains} draws, too few to judge them by: at least "
        f"{wanted - now} more per chain are needed; set draws={wanted} or more (now {now})"
    )


def _not_settled(diagnosis: Diagnosis, quantity: str, found: str) -> str:
    """The message that chains, or a chain and its own past, disagree: more draws alone would not help."""
    have = "has" if quantity == NOISE else "have"
    # Twice zero is zero: then the kept draws should have been warm-up.
    now, longer = diagnosis.warmup, max(2 * diagnosis.warmup, diagnosis.draws * diagnosis.thin)
    what = "double the warm-up" if longer == 2 * now else "let chains warm up longer" if now else "let chains warm up"
    return f"{quantity} {have} not converged: {found}; {what}: set warmup={longer} (now {now})"


def diagnose(trace: Any) -> Diagnosis:
    """Judge the kept draws of every quantity and of the watched predictions.

    `trace` is a fitted model that samples, such as `BPMF`, or the trace of its chains.

    Running averages, such as the held-out RMSE, are not series of draws and have no row, nor have statistics of the
    moves.
    """
    trace = getattr(getattr(trace, "posterior_", None), "trace", trace)
    if not isinstance(trace, Trace):
        raise InvalidParameterError(
            f"diagnose got {type(trace).__name__}; expected a fitted model that samples, such as BPMF, or its trace"
        )
    quantities = {name: kept(trace, trace.quantities[name]) for name in names_of(trace)}
    rows = tuple(measured(values[None]).row(name) for name, values in quantities.items())
    drawn = np.moveaxis(kept(trace, trace.predictions), 2, 0)  # pairs x chains x draws
    yardstick, figures = _yardstick(quantities, drawn), measured(drawn)
    held_out = trace.quantities.get(HELD_OUT)
    if len(drawn):
        median = _of_all(figures, limits.MEDIAN, np.median, np.median)
        worst = _of_all(figures, limits.WORST, np.max, np.min)  # of each column: it need not belong to one pair
        rows = (*rows, median, worst)
    diagnosis = Diagnosis(
        chains=int(drawn.shape[1]),
        warmup=trace.warmup,
        draws=int(drawn.shape[2]),
        thin=trace.thin,
        rows=rows,
        pairs=summary(figures, yardstick) if len(drawn) else None,
        yardstick=yardstick,
        held_out_rmse=None if held_out is None or not held_out.size else number(float(held_out[:, -1].mean())),
        trouble=None,
        wanted_error=trace.wanted_error,
        acceptance=_mean_of(trace, ACCEPTANCE),
        energy_error=_mean_of(trace, ENERGY_ERROR),
    )
    return replace(diagnosis, trouble=trouble(diagnosis, figures, drawn, quantities.get(NOISE)))


def check_convergence(trace: Trace) -> str | None:
    """The message of a ConvergenceWarning, or None: which predictions cannot be trusted yet, and what to do."""
    return diagnose(trace).trouble


def monte_carlo_errors(trace: Trace) -> DoubleArray | None:
    """The errors of watched predictions, as multiples of the yardstick; None if they cannot be computed.

    The same that `diagnose` summarizes, without the rest: for a stopping rule that is called repeatedly.
    """
    quantities = {name: kept(trace, trace.quantities[name]) for name in (NOISE,) if name in trace.quantities}
    drawn = np.moveaxis(kept(trace, trace.predictions), 2, 0)
    yardstick = _yardstick(quantities, drawn)
    if not len(drawn) or drawn.shape[2] < limits.MIN_DRAWS_A_CHAIN or not yardstick or not np.isfinite(drawn).all():
        return None
    sd = drawn.std(axis=(1, 2), ddof=1)
    return np.asarray(np.where(sd > 0, sd / np.sqrt(effective_for_mean(drawn)), 0.0) / yardstick)


def names_of(trace: Trace) -> list[str]:
    """The quantities that are series of draws, in an order that saving and loading does not change."""
    first = [name for name in (NOISE, LOG_JOINT) if name in trace.quantities]
    return first + sorted(set(trace.quantities) - {NOISE, LOG_JOINT, HELD_OUT, ACCEPTANCE, ENERGY_ERROR})


def kept(trace: Trace, values: Any) -> DoubleArray:
    """The kept draws of a series with all sweeps (chains x sweeps ...), in double."""
    first = trace.warmup + trace.thin - 1
    return np.asarray(values[:, first :: trace.thin], np.float64)


def _mean_of(trace: Trace, name: str) -> float | None:
    """The mean over all kept draws, if it was watched."""
    if name not in trace.quantities:
        return None
    values = kept(trace, trace.quantities[name])
    return number(float(values.mean())) if values.size else None


def _yardstick(quantities: dict[str, DoubleArray], drawn: DoubleArray) -> float | None:
    """The scale of errors: the noise, or without one the spread of predictions."""
    noise = quantities.get(NOISE)
    if noise is not None and noise.size:
        return number(noise.mean())
    return number(drawn.std()) if drawn.size else None


@dataclass(frozen=True)
class Exactness:
    """A stopping rule: chains run, block by block, until the Monte Carlo errors of watched predictions are small.

    Nine pairs in ten must have an error of at most `error`, in units of the noise sd (or, without one, of the spread of
    the predictions), and together they must not trigger a warning. Chains that disagree have large errors: they run to
    the maximum of the schedule.
    """

    error: float
    block: int  # draws of each chain between two checks, and the minimum number

    def is_met(self, trace: Trace) -> bool:
        errors = monte_carlo_errors(trace)
        if errors is None:
            return False
        return of_most(errors) <= self.error and float(np.sqrt(np.mean(errors**2))) <= limits.MAX_ERROR


# Figures of series


def halves(series: DoubleArray) -> DoubleArray:
    """Both halves of every chain, as chains; with an odd number of draws the middle one is left out."""
    half = series.shape[-1] // 2
    return np.concatenate([series[..., :half], series[..., -half:]], axis=-2)


def rhat(series: DoubleArray) -> DoubleArray:
    """R-hat of series x chains x draws; one chain is enough, because it has two halves."""
    cut = halves(series)
    folded = np.abs(cut - np.median(cut, axis=(1, 2), keepdims=True))
    # Folded draws may all be equal (two values only), which is uninformative: fmax takes the other.
    return np.fmax(_disagreement(_normal_scores(cut)), _disagreement(_normal_scores(folded)))


def correlations(values: DoubleArray, lags: int) -> DoubleArray:
    """Correlations of a series (chains x sweeps) with itself, at lags 0, 1 ... `lags`.

    Against the mean and variance of all chains together, as in the ESS: a chain that stays in a region of its own is
    correlated with itself at every lag.
    """
    centred = values - values.mean()
    variance = np.mean(centred**2)
    n = values.shape[1]
    return np.array([np.mean(centred[:, : n - lag] * centred[:, lag:]) / variance for lag in range(lags + 1)])


def _normal_scores(series: DoubleArray) -> DoubleArray:
    """The ranks among all draws of a series, as quantiles of the normal (Blom 1958)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(series.reshape(len(series), -1), axis=1).reshape(series.shape)
    return np.asarray(ndtri((ranks - 3 / 8) / (series[0].size + 1 / 4)))


def _disagreement(chains: DoubleArray) -> DoubleArray:
    """R-hat by the formula above."""
    n = chains.shape[-1]
    within = chains.var(axis=-1, ddof=1).mean(axis=-1)
    between = chains.mean(axis=-1).var(axis=-1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # Constant chains with different values: infinite.
        return np.asarray(np.sqrt((n - 1) / n + between / within))


TAIL = 0.05
SAME = 1e-12  # relative: a quantity that changes by less is constant up to rounding


@dataclass(frozen=True, eq=False)
class Figures:
    """Figures of several series at once, one entry each; NaN for those that cannot be computed."""

    mean: DoubleArray
    sd: DoubleArray
    rhat: DoubleArray
    ess_bulk: DoubleArray
    ess_tail: DoubleArray
    mcse: DoubleArray
    verdicts: tuple[str, ...]

    def row(self, quantity: str, place: int = 0) -> Row:
        own = {name: number(column[place]) for name, column in vars(self).items() if name != "verdicts"}
        return Row(quantity, verdict=self.verdicts[place], **own)


def measured(series: DoubleArray) -> Figures:
    """Figures of series x chains x draws."""
    n_series, chains, draws = series.shape
    if not series.size:
        none = np.full(n_series, np.nan)
        return Figures(none, none, none, none, none, none, (limits.TOO_FEW,) * n_series)
    finite: BoolArray = np.asarray(np.isfinite(series).all(axis=(1, 2)))
    series = np.where(finite[:, None, None], series, 0.0)
    reach: DoubleArray = np.ptp(series, axis=(1, 2))
    constant = (reach <= SAME * np.abs(series).max(axis=(1, 2))) & (chains * draws > 1)
    able = finite & ~constant
    mean, sd = series.mean(axis=(1, 2)), np.zeros(n_series)
    if chains * draws > 1:
        sd[able] = series[able].std(axis=(1, 2), ddof=1)
    split_rhat, bulk, tail, middle = (np.full(n_series, np.nan) for _ in range(4))
    if draws >= limits.MIN_FOR_RHAT and able.any():
        split_rhat[able] = rhat(series[able])
    if draws >= limits.MIN_DRAWS_A_CHAIN and able.any():
        bulk[able], tail[able] = _ess(series[able], method="bulk"), _ess(series[able], method="tail", prob=TAIL)
        middle[able] = effective_for_mean(series[able])
    mcse = np.where(constant, 0.0, sd / np.sqrt(middle))
    for figures in (mean, sd, mcse):
        figures[~finite] = np.nan
    verdicts = tuple(
        limits.NOT_FINITE if not is_finite else limits.CONSTANT if is_constant else _verdict(own_rhat, own_bulk)
        for is_finite, is_constant, own_rhat, own_bulk in zip(finite, constant, split_rhat, bulk, strict=True)
    )
    return Figures(mean, sd, split_rhat, bulk, tail, mcse, verdicts)


def _verdict(rhat: float | None, ess_bulk: float | None) -> str:
    """The verdict; the tail ESS is ignored: predictions are mixtures, whose tails do not depend on rare draws."""
    if ess_bulk is None or math.isnan(ess_bulk):
        return limits.TOO_FEW
    if rhat is not None and rhat > limits.MAX_RHAT:
        return limits.NOT_CONVERGED
    return limits.FEW if ess_bulk < limits.MIN_ESS else limits.FINE


def effective_for_mean(series: DoubleArray) -> DoubleArray:
    """The number of independent draws with an equally exact mean."""
    return _ess(series, method="mean")


def _ess(series: DoubleArray, **options: Any) -> DoubleArray:
    from arviz_stats.base.array import array_stats  # The import takes a second: only when needed.

    ess: Callable[..., DoubleArray] = array_stats.ess
    return ess(series, **options)


def _of_all(figures: Figures, name: str, upward: Any, downward: Any) -> Row:
    """One row for all pairs; those without figures are left out, unless they are not finite."""
    if limits.NOT_FINITE in figures.verdicts:
        return Row(name, None, None, None, None, None, None, limits.NOT_FINITE)

    def of(values: DoubleArray, how: Any) -> float | None:
        known = values[~np.isnan(values)]
        return number(float(how(known))) if len(known) else None

    rhat, bulk = of(figures.rhat, upward), of(figures.ess_bulk, downward)
    is_constant = set(figures.verdicts) == {limits.CONSTANT}
    verdict = limits.CONSTANT if is_constant else _verdict(rhat, bulk)
    tail, mcse = of(figures.ess_tail, downward), of(figures.mcse, upward)
    return Row(name, None, of(figures.sd, upward), rhat, bulk, tail, mcse, verdict)


def summary(figures: Figures, yardstick: float | None) -> Pairs:
    """Summary figures of all pairs."""
    error = root_mean_square(figures.mcse)
    bulk = np.where(np.isnan(figures.ess_bulk), np.inf, figures.ess_bulk)
    return Pairs(
        n=len(bulk),
        above_rhat=float(np.mean(figures.rhat > limits.MAX_RHAT)),
        below_ess=None if limits.TOO_FEW in figures.verdicts else float(np.mean(bulk < limits.MIN_ESS)),
        error=error,
        relative_error=None if error is None or not yardstick else error / yardstick,
        error_of_most=None if error is None or not yardstick else of_most(figures.mcse / yardstick),
        worst=int(bulk.argmin()),
    )


def of_most(errors: DoubleArray) -> float:
    """The value that nine in ten of them do not exceed; unknown ones are ignored."""
    return float(np.nanquantile(errors, limits.SHARE_OF_PAIRS))


def root_mean_square(values: DoubleArray) -> float | None:
    """The root mean square of the values that are known; None if none is."""
    known = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else None


def number(value: float) -> float | None:
    """The value, or None if it is NaN."""
    return None if math.isnan(value) else float(value)
