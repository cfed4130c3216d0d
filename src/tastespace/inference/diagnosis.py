"""The diagnosis of chains, as a table and in words, and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import polars as pl

from tastespace.errors import InvalidParameterError
from tastespace.inference.transition import NOISE
from tastespace.tables import TextTable

# A half-chain at this limit has 2.3 effective draws: it has hardly moved, and it is unknown whether it is stuck or
# slow. The usual 1.01 or 1.05 needs 100 or 10 in each half, many hundreds of draws in all, while a recommender keeps 50
# to 100: its predictions would be no better for them (see MAX_ERROR).
MAX_RHAT = 1.2
# With this many draws the mean is known to a fifth of the standard deviation, the latter itself to a seventh.
MIN_ESS = 25
# Monte Carlo error of predictions, root mean square, in units of the noise sd, or of the spread of predictions where a
# model has no noise sd. Its square adds to those of noise and belief, so 0.15 makes the RMSE at most 1.1 % larger
# than infinitely many draws would. In practice it is less: besides the noise there is the uncertainty of the belief,
# and predictions average expectations of users given items, which scatter less than the watched draws of users. BPMF
# with its defaults is at 0.05 to 0.1 on MovieLens 100K and movielens-demo.
MAX_ERROR = 0.15
# The share of pairs with a large R-hat. By chance alone independent draws give it to one pair in eleven at 10 draws in
# each of two chains, and to one in three hundred at 25.
MAX_SHARE = 0.25
# The share of pairs that a wanted error applies to. The rest are often a few pairs with a bimodal posterior: chains
# rarely switch from one mode to the other, and no practical number of draws makes their mean exact.
SHARE_OF_PAIRS = 0.9
# The allowed difference of the noise sd between halves of chains if its R-hat is large. Where it was still drifting
# in trials, it had about twice as far to go; 10 % of the noise sd is 3 points of coverage of a 90 % interval.
MAX_MOVE = 0.05
# Halves of fewer than 5 draws have no lags to estimate correlations from: whatever was drawn, the ESS would be
# excellent. A single chain has two halves only, and needs longer ones for an R-hat that means anything.
MIN_DRAWS_A_CHAIN, MIN_DRAWS = 10, 20
MIN_FOR_RHAT = 4  # two in each half


MEDIAN, WORST = "predictions, median", "predictions, worst"
FINE, FEW, NOT_CONVERGED = "fine", "few effective draws", "not converged"
CONSTANT, TOO_FEW, NOT_FINITE = "constant", "too few draws", "not finite"
WORDS = {FEW: "rough", NOT_CONVERGED: "drifting"}  # verdicts on quantities that predictions need not wait for
_FIGURES = ("yardstick", "held_out_rmse", "wanted_error", "acceptance", "energy_error")
_HEAD = ("quantity", "mean", "sd", "R-hat", "bulk ESS", "tail ESS", "MCSE", "verdict")


@dataclass(frozen=True)
class Row:
    """The figures of one quantity; None for those that cannot be computed."""

    quantity: str
    mean: float | None
    sd: float | None
    rhat: float | None
    ess_bulk: float | None
    ess_tail: float | None
    mcse: float | None
    verdict: str

    def figures(self) -> dict[str, Any]:
        """All figures but the name; an infinite R-hat, which JSON cannot represent, is null (see the verdict)."""
        return {
            name: None if value == math.inf else value for name, value in asdict(self).items() if name != "quantity"
        }


@dataclass(frozen=True)
class Pairs:
    """Summary figures of the watched predictions."""

    n: int
    above_rhat: float  # share of pairs with R-hat above the limit
    below_ess: float | None  # share of pairs with few effective draws; None, like errors, if there are too few draws
    error: float | None  # root mean square of their Monte Carlo errors, in rating units
    relative_error: float | None  # the same as a multiple of the yardstick
    error_of_most: float | None  # multiple of the yardstick that the errors of nine pairs in ten do not exceed
    worst: int  # position of the pair with the fewest effective draws


@dataclass(frozen=True)
class Diagnosis:
    """Convergence diagnostics of the kept draws of all chains; `diagnosis["noise sd"]` is one row."""

    chains: int
    warmup: int
    draws: int  # kept per chain
    thin: int
    rows: tuple[Row, ...]
    pairs: Pairs | None  # None if no predictions were watched
    yardstick: float | None  # the scale of errors: the noise sd, or without one the sd of predictions
    held_out_rmse: float | None  # of one chain's averaged predictions, mean over chains; None if nothing was held out
    trouble: str | None  # the text of a warning; None if there is none
    wanted_error: float | None = None  # of most pairs, as a multiple of the yardstick: the stopping target
    acceptance: float | None = None  # of moves with proposals, if the model has any
    energy_error: float | None = None  # mean energy error of trajectories, if there are any

    def __getitem__(self, quantity: str) -> Row:
        rows = {row.quantity: row for row in self.rows}
        if quantity not in rows:
            raise InvalidParameterError(f"{quantity!r} was not watched; expected one of {', '.join(rows)}")
        return rows[quantity]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """One row per quantity: quantity, mean, sd, rhat, ess_bulk, ess_tail, mcse, verdict."""
        kinds = [pl.String, *[pl.Float64] * 6, pl.String]
        schema = dict(zip(Row.__dataclass_fields__, kinds, strict=True))
        return pl.DataFrame([asdict(row) for row in self.rows], schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis for JSON; null for figures that cannot be computed."""
        return {
            "schedule": {name: getattr(self, name) for name in ("chains", "warmup", "draws", "thin")},
            "quantities": {row.quantity: row.figures() for row in self.rows},
            "predictions": None if self.pairs is None else asdict(self.pairs),
            **{name: getattr(self, name) for name in _FIGURES},
            "limits": {
                "rhat": MAX_RHAT,
                "ess": MIN_ESS,
                "relative_error": MAX_ERROR,
                "share_above_rhat": MAX_SHARE,
                "noise_move": MAX_MOVE,
            },
            "warning": self.trouble,
        }

    def table(self) -> TextTable:
        """What hyper-parameters and other quantities do; predictions need not wait for them."""
        rows = tuple(_cells(row) for row in self.rows if row.quantity not in (MEDIAN, WORST))
        drifting = any(row.verdict in (FEW, NOT_CONVERGED) for row in self.rows if row.quantity not in (MEDIAN, WORST))
        note = (
            "drifting, rough: do not read much into these values; predictions may be exact all the same, see above. "
            "The usual limits for reading off parameters are R-hat 1.01 and 400 effective draws"
        )
        return TextTable("What hyper-parameters do", _HEAD, rows, note if drifting else "")

    def predictions_table(self) -> TextTable | None:
        """What predictions need, and what was found; None if no predictions were watched."""
        if self.pairs is None:
            return None
        pairs, n = self.pairs, self.draws * self.chains
        least = max(MIN_DRAWS, MIN_DRAWS_A_CHAIN * self.chains)
        rows = [("draws of all chains", f"{n:,}", f"at least {least}", _yes(n >= least))]
        if pairs.below_ess is not None:
            enough = pairs.above_rhat <= MAX_SHARE
            share = f"pairs with R-hat above {MAX_RHAT:g}"
            rows.append((share, f"{100 * pairs.above_rhat:.0f} %", f"at most {100 * MAX_SHARE:.0f} %", _yes(enough)))
        for name, error, limit in (
            ("Monte Carlo error", pairs.relative_error, MAX_ERROR),
            ("the same, of nine pairs in ten", pairs.error_of_most, self.wanted_error),
        ):
            if error is not None and limit is not None:
                rows.append((f"{name} / {self.unit}", f"{error:.3f}", f"at most {limit:g}", _yes(error <= limit)))
        title = f"What predictions need, by {pairs.n} watched pairs"
        return TextTable(title, ("", "found", "needed", "reached"), tuple(rows))

    def meaning(self) -> str:
        """The conclusion in words."""
        watched = [] if self.pairs is None else [self._about_predictions(self.pairs)]
        return "\n".join([*watched, *self._conclusions()])

    def _conclusions(self) -> list[str]:
        sentences = []
        if self.pairs is not None and self.wanted_error is not None and self.pairs.error_of_most is not None:
            sentences.append(
                f"Draws were taken until nine of ten had an error of at most {self.wanted_error:g} times the "
                f"{self.unit}: it is {self.pairs.error_of_most:.3f}."
            )
        if self.held_out_rmse is not None:
            sentences.append(f"Held-out RMSE of what one chain predicts on average: {self.held_out_rmse:.4f}.")
        if self.acceptance is not None:
            error = self.energy_error
            missed = "" if error is None else f"; trajectories missed their energy by {error:.2g}"
            sentences.append(f"{self.acceptance:.0%} of the moves were accepted{missed}.")
        if self.trouble is not None:
            sentences.append(f"Not good enough: {self.trouble}.")
        else:
            sentences.append("Good enough for predictions.")
        return sentences

    def _about_predictions(self, pairs: Pairs) -> str:
        if pairs.below_ess is None:
            return f"{pairs.n} watched predictions, of too few draws to judge them by."
        text = (
            f"{pairs.n} watched predictions: {pairs.above_rhat:.0%} have R-hat above {MAX_RHAT:g}, "
            f"{pairs.below_ess:.0%} fewer than {MIN_ESS} effective draws."
        )
        if pairs.error is None or pairs.relative_error is None:
            return text
        return (
            f"{text}\nWith infinitely many draws they would change by about {pairs.error:.2g}, which is "
            f"{pairs.relative_error:.2g} times the {self.unit} (at most {MAX_ERROR:g} expected)."
        )

    def __str__(self) -> str:
        of_predictions = self.predictions_table()
        parts = [self.schedule(), *([] if of_predictions is None else [str(of_predictions)])]
        return "\n\n".join([*parts, "\n".join(self._conclusions()), str(self.table())])

    def _repr_html_(self) -> str:
        of_predictions = self.predictions_table()
        tables = [*([] if of_predictions is None else [of_predictions]), self.table()]
        words = " ".join([f"{self.schedule()}.", *self._conclusions()])
        return f"<p>{escape(words)}</p>" + "".join(map(TextTable.to_html, tables))

    @property
    def unit(self) -> str:
        """The name of the yardstick."""
        return NOISE if any(row.quantity == NOISE for row in self.rows) else "spread of the predictions"

    def schedule(self) -> str:
        """The lengths of the chains in words."""
        chains, each = ("1 chain", "") if self.chains == 1 else (f"{self.chains} chains", " each")
        draws = "1 kept draw" if self.draws == 1 else f"{self.draws:,} kept draws"
        every = "" if self.thin == 1 else f", one every {self.thin} sweeps"
        return f"{chains}: {self.warmup:,} sweeps of warm-up, then {draws}{each}{every}"


def _cells(row: Row) -> tuple[str, ...]:
    def cell(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    of_mean = ",.4g" if row.mean is not None and abs(row.mean) < 1e4 else ",.0f"
    values = (row.mean, row.sd, row.rhat, row.ess_bulk, row.ess_tail, row.mcse)
    figures = map(cell, values, (of_mean, ".3g", ".2f", ",.0f", ",.0f", ".2g"))
    return row.quantity, *figures, WORDS.get(row.verdict, row.verdict)


def _yes(is_reached: bool) -> str:
    return "yes" if is_reached else "no"
