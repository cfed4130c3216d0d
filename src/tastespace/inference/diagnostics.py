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

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.mixing import halves, rhat
from tastespace.inference.trace import Trace

# Names that mean something here; any other is just a quantity.
NOISE, LOG_JOINT, HELD_OUT = "noise sd", "log joint", "held-out rmse"
MEDIAN, WORST = "predictions, median", "predictions, worst"

# A half-chain at this limit has 2.3 effective draws: it has hardly moved away from where it was, and nobody can say
# whether it is stuck or slow. The usual 1.01 or 1.05 wants 100 or 10 in each half, many hundreds of draws in all, where
# a recommender keeps 50 to 100: its predictions would be no better for them (see LARGEST_ERROR).
LARGEST_RHAT = 1.2
# Of so many the mean is known to a fifth of the standard deviation, the standard deviation itself to a seventh.
FEWEST_EFFECTIVE = 25
# Monte Carlo error of predictions, root mean square, in units of the noise sd. It adds to noise and belief in the
# square, so that 0.15 makes the RMSE at most 1.1 % larger than endlessly many draws would. In truth it is less: beside
# the noise there is the uncertainty of the belief, and answers average expectations of users given items, which scatter
# less than the drawn users that are watched. BPMF as it comes is at 0.05 to 0.1 on MovieLens 100K and movielens-demo.
LARGEST_ERROR = 0.15
# Of the pairs, those with a large R-hat. By mere chance independent draws give it to one pair in eleven at 10 draws in
# each of two chains, and to one in three hundred at 25.
LARGEST_SHARE = 0.25
# The share of pairs that a wanted error is about. The rest are often a few pairs of which ratings tell two stories:
# chains go from one to the other now and then, and no number of draws that anybody would take makes their mean exact.
MOST_PAIRS = 0.9
# What the noise sd may differ between halves of chains once its R-hat is large. Where it still travelled in trials, it
# had about twice as far to go; 10 % of the noise sd is 3 points of coverage of a 90 % interval.
LARGEST_MOVE = 0.05
# Halves of fewer than 5 draws have no lags to estimate correlations from: whatever was drawn, the ESS would be
# excellent. A single chain has two halves only, and needs longer ones for an R-hat that means anything.
FEWEST_A_CHAIN, FEWEST_IN_ALL = 10, 20
FEWEST_FOR_RHAT = 4  # two in each half
TAIL = 0.05
SAME = 1e-12  # relative: a quantity that changes by less is a constant, written in another way

FINE, FEW, NOT_SETTLED = "fine", "few effective draws", "not settled"
CONSTANT, TOO_FEW, NOT_FINITE = "constant", "too few draws", "not finite"
_HEAD = ("quantity", "mean", "sd", "R-hat", "bulk ESS", "tail ESS", "MCSE", "verdict")


@dataclass(frozen=True)
class Row:
    """One quantity; None is what cannot be said of it."""

    quantity: str
    mean: float | None
    sd: float | None
    rhat: float | None
    ess_bulk: float | None
    ess_tail: float | None
    mcse: float | None
    verdict: str


@dataclass(frozen=True)
class Pairs:
    """The watched predictions together."""

    n: int
    above_rhat: float  # share of pairs with R-hat above the limit
    below_ess: float | None  # share of pairs with few effective draws; None, as are errors, if there are too few at all
    error: float | None  # root mean square of their Monte Carlo errors, in rating units
    relative_error: float | None  # the same as a multiple of the yardstick
    error_of_most: float | None  # multiple of the yardstick that the errors of nine pairs in ten do not exceed
    worst: int  # position of the pair with the fewest effective draws


@dataclass(frozen=True)
class Diagnosis:
    """What the kept draws of all chains say of themselves; `diagnosis["noise sd"]` is one row."""

    chains: int
    warmup: int
    draws: int  # kept a chain
    thin: int
    rows: tuple[Row, ...]
    pairs: Pairs | None  # None if no predictions were watched
    yardstick: (
        float | None
    )  # what errors are small against: the noise sd, or where there is none the spread of predictions
    held_out_rmse: float | None  # of one chain's averaged predictions, mean over chains; None if nothing was held out
    trouble: str | None  # what a warning says; None if there is nothing to warn of
    wanted_error: float | None = None  # of most pairs, as a multiple of the yardstick: chains went on for it

    def __getitem__(self, quantity: str) -> Row:
        for row in self.rows:
            if row.quantity == quantity:
                return row
        raise InvalidParameterError(
            f"{quantity!r} was not watched; expected one of {', '.join(row.quantity for row in self.rows)}"
        )

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """One row a quantity: quantity, mean, sd, rhat, ess_bulk, ess_tail, mcse, verdict."""
        kinds = [pl.String, *[pl.Float64] * 6, pl.String]
        schema = dict(zip(Row.__dataclass_fields__, kinds, strict=True))
        return pl.DataFrame([asdict(row) for row in self.rows], schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; null for what cannot be said."""
        return {
            "schedule": {name: getattr(self, name) for name in ("chains", "warmup", "draws", "thin")},
            "quantities": {row.quantity: _without_name(row) for row in self.rows},
            "predictions": None if self.pairs is None else asdict(self.pairs),
            "yardstick": self.yardstick,
            "held_out_rmse": self.held_out_rmse,
            "wanted_error": self.wanted_error,
            "limits": {
                "rhat": LARGEST_RHAT,
                "ess": FEWEST_EFFECTIVE,
                "relative_error": LARGEST_ERROR,
                "share_above_rhat": LARGEST_SHARE,
                "noise_move": LARGEST_MOVE,
            },
            "warning": self.trouble,
        }

    def table(self) -> str:
        """The rows as text."""
        lines = [_HEAD, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(_HEAD))]
        aligned = (
            [line[0].ljust(widths[0]), *(line[place].rjust(widths[place]) for place in range(1, 7)), line[7]]
            for line in lines
        )
        return "\n".join("  ".join(cells) for cells in aligned)

    def meaning(self) -> str:
        """What it comes to, in words."""
        sentences = [] if self.pairs is None else [self._about_predictions(self.pairs)]
        if self.pairs is not None and self.wanted_error is not None and self.pairs.error_of_most is not None:
            sentences.append(
                f"Draws were taken until nine of ten had an error of at most {self.wanted_error:g} times the "
                f"{self.unit}: it is {self.pairs.error_of_most:.3f}."
            )
        if self.held_out_rmse is not None:
            sentences.append(f"Held-out RMSE of what one chain predicts on average: {self.held_out_rmse:.4f}.")
        if self.trouble is not None:
            sentences.append(f"Not good enough: {self.trouble}.")
        elif any(row.verdict in (FEW, NOT_SETTLED) for row in self.rows if row.quantity not in (MEDIAN, WORST)):
            sentences.append("Good enough for predictions; do not read much into the quantities that are not fine.")
        else:
            sentences.append("Good enough.")
        return "\n".join(sentences)

    def _about_predictions(self, pairs: Pairs) -> str:
        if pairs.below_ess is None:
            return f"{pairs.n} watched predictions, of too few draws to judge them by."
        text = (
            f"{pairs.n} watched predictions: {pairs.above_rhat:.0%} have R-hat above {LARGEST_RHAT:g}, "
            f"{pairs.below_ess:.0%} fewer than {FEWEST_EFFECTIVE} effective draws."
        )
        if pairs.error is None or pairs.relative_error is None:
            return text
        return (
            f"{text}\nWith endlessly many draws they would change by about {pairs.error:.2g}, which is "
            f"{pairs.relative_error:.2g} times the {self.unit} (at most {LARGEST_ERROR:g} expected)."
        )

    def __str__(self) -> str:
        return f"{self.schedule()}\n\n{self.table()}\n\n{self.meaning()}"

    @property
    def unit(self) -> str:
        """What the yardstick is."""
        return NOISE if any(row.quantity == NOISE for row in self.rows) else "spread of the predictions"

    def schedule(self) -> str:
        """How long the chains ran."""
        chains = "1 chain" if self.chains == 1 else f"{self.chains} chains"
        each = "" if self.chains == 1 else " each"
        draws = "1 kept draw" if self.draws == 1 else f"{self.draws:,} kept draws"
        every = "" if self.thin == 1 else f", one every {self.thin} sweeps"
        return f"{chains}: {self.warmup:,} sweeps of warm-up, then {draws}{each}{every}"


@dataclass(frozen=True, eq=False)
class _Figures:
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
        mean, sd, rhat, ess_bulk, ess_tail, mcse = (_number(column[place]) for column in columns)
        return Row(quantity, mean, sd, rhat, ess_bulk, ess_tail, mcse, self.verdicts[place])


def diagnose(trace: Trace) -> Diagnosis:
    """Judge the kept draws of every quantity and of the watched predictions.

    What is averaged while a chain runs, such as the held-out RMSE, is no series of draws and has no row.
    """
    if not isinstance(trace, Trace):
        raise InvalidParameterError(
            f"diagnose got {type(trace).__name__}; expected a trace, such as model.posterior_.trace of a BPMF"
        )
    quantities = {name: kept(trace, trace.quantities[name]) for name in names_of(trace)}
    rows = tuple(_measured(values[None]).row(name) for name, values in quantities.items())
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
        held_out_rmse=None if held_out is None or not held_out.size else _number(float(held_out[:, -1].mean())),
        trouble=None,
        wanted_error=trace.wanted_error,
    )
    figures = _measured(drawn)
    if len(drawn):
        pairs = _summary(figures, yardstick)
        diagnosis = replace(diagnosis, rows=(*rows, _middle(figures), _worst(figures)), pairs=pairs)
    return replace(diagnosis, trouble=_trouble(diagnosis, figures, drawn, quantities.get(NOISE)))


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
    return np.asarray(np.where(sd > 0, sd / np.sqrt(_effective_for_mean(drawn)), 0.0) / yardstick)


def of_most(errors: DoubleArray) -> float:
    """What nine in ten of them do not exceed; those that are not known do not count."""
    return float(np.nanquantile(errors, MOST_PAIRS))


def names_of(trace: Trace) -> list[str]:
    """The quantities that are series of draws, in an order that saving and loading does not change."""
    first = [name for name in (NOISE, LOG_JOINT) if name in trace.quantities]
    return first + sorted(set(trace.quantities) - {NOISE, LOG_JOINT, HELD_OUT})


def kept(trace: Trace, values: Any) -> DoubleArray:
    """Of a series with all sweeps (chains x sweeps ...) the kept draws, in double."""
    first = trace.warmup + trace.thin - 1
    return np.asarray(values[:, first :: trace.thin], np.float64)


def _measured(series: DoubleArray) -> _Figures:
    """Figures of series x chains x draws."""
    n_series, chains, draws = series.shape
    if not series.size:
        none = np.full(n_series, np.nan)
        return _Figures(none, none, none, none, none, none, (TOO_FEW,) * n_series)
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
    return _Figures(mean, sd, split_rhat, bulk, tail, mcse, verdicts)


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
    return ess(series, method="bulk"), ess(series, method="tail", prob=TAIL), _effective_for_mean(series)


def _effective_for_mean(series: DoubleArray) -> DoubleArray:
    from arviz_stats.base.array import array_stats

    ess: Callable[..., DoubleArray] = array_stats.ess
    return ess(series, method="mean")


def _middle(figures: _Figures) -> Row:
    """The median of each column."""
    return _of_all(figures, MEDIAN, np.median, np.median)


def _worst(figures: _Figures) -> Row:
    """The worst of each column, which need not be of one pair."""
    return _of_all(figures, WORST, np.max, np.min)


def _of_all(figures: _Figures, name: str, upward: Any, downward: Any) -> Row:
    """One row for all pairs; those that cannot be judged are left out, unless it is for not being finite."""
    if NOT_FINITE in figures.verdicts:
        return Row(name, None, None, None, None, None, None, NOT_FINITE)

    def of(values: DoubleArray, how: Any) -> float | None:
        known = values[~np.isnan(values)]
        return _number(float(how(known))) if len(known) else None

    rhat, bulk = of(figures.rhat, upward), of(figures.ess_bulk, downward)
    is_constant = set(figures.verdicts) == {CONSTANT}
    verdict = (
        CONSTANT if is_constant else _verdict(math.nan if rhat is None else rhat, math.nan if bulk is None else bulk)
    )
    tail, mcse = of(figures.ess_tail, downward), of(figures.mcse, upward)
    return Row(name, None, of(figures.sd, upward), rhat, bulk, tail, mcse, verdict)


def _summary(figures: _Figures, yardstick: float | None) -> Pairs:
    error = _root_mean_square(figures.mcse)
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


def _yardstick(quantities: dict[str, DoubleArray], drawn: DoubleArray) -> float | None:
    """What an error is small against: the noise, or where a model has none the differences between predictions."""
    noise = quantities.get(NOISE)
    if noise is not None and noise.size:
        return _number(float(noise.mean()))
    return _number(float(drawn.std())) if drawn.size else None


def _trouble(diagnosis: Diagnosis, figures: _Figures, drawn: DoubleArray, noise: DoubleArray | None) -> str | None:
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


def _who_disagrees(figures: _Figures, drawn: DoubleArray) -> str:
    """Whether it is chains with one another, each of them at rest, or a chain with its own past."""
    chains = drawn.shape[1]
    unsettled = drawn[figures.rhat > LARGEST_RHAT]
    if chains == 1 or not len(unsettled):
        return ""
    at_rest = np.all([rhat(unsettled[:, [chain]]) <= LARGEST_RHAT for chain in range(chains)], axis=0)
    if at_rest.mean() < 0.5:
        return ""
    return f"the {chains} chains disagree, each of them at rest in a place of its own: "


def _unsettled_pairs(diagnosis: Diagnosis, pairs: Pairs, figures: _Figures) -> str | None:
    """What is wrong if chains disagree about too many pairs, or about a few by too much."""
    spread, yardstick = _root_mean_square(figures.sd), diagnosis.yardstick
    if spread is None or not yardstick or spread <= LARGEST_ERROR * yardstick:
        return None  # Draws that scatter less than the error allowed are exact enough, each of them.
    found = f"{pairs.above_rhat:.0%} of the watched pairs have R-hat above {LARGEST_RHAT:g}"
    if pairs.above_rhat > LARGEST_SHARE:
        return f"{found} (at most {LARGEST_SHARE:.0%} expected)"
    settled = _root_mean_square(figures.mcse[~(figures.rhat > LARGEST_RHAT)])
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


def _root_mean_square(values: DoubleArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _without_name(row: Row) -> dict[str, Any]:
    """Under its name already; an infinite R-hat, which JSON does not know, is null, and the verdict tells."""
    content = asdict(row)
    del content["quantity"]
    return {name: None if value == math.inf else value for name, value in content.items()}


def _cells(row: Row) -> tuple[str, ...]:
    def cell(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    return (
        row.quantity,
        *(cell(row.mean, ",.4g" if row.mean is not None and abs(row.mean) < 1e4 else ",.0f"), cell(row.sd, ".3g")),
        cell(row.rhat, ".2f"),
        *(cell(row.ess_bulk, ",.0f"), cell(row.ess_tail, ",.0f"), cell(row.mcse, ".2g")),
        row.verdict,
    )
