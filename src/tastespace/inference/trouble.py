"""What makes predictions untrustworthy, and what to do about it: the words of a warning."""

from __future__ import annotations

import math

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.inference.diagnosis import NOT_FINITE, NOT_SETTLED, Diagnosis, Pairs
from tastespace.inference.figures import Figures, root_mean_square
from tastespace.inference.limits import (
    FEWEST_A_CHAIN,
    FEWEST_IN_ALL,
    LARGEST_ERROR,
    LARGEST_MOVE,
    LARGEST_RHAT,
    LARGEST_SHARE,
)
from tastespace.inference.mixing import halves, rhat
from tastespace.inference.trace import NOISE


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
