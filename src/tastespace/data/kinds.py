"""The feedback type of ratings: how much something was liked, yes or no, how often, or only that it was chosen.

    stars      how much someone liked something: levels, or any numbers, such as 0 to 100 or -10 to 10
    yes-no     1 for yes, 0 for no
    counts     how often something was chosen (clicked, played, bought) or for how long (hours, seconds), above 0
    one-class  that something was chosen; what was not chosen is absent, and the values carry no information

It need not be declared as long as the guess of `guess_kind` is right.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError

Kind = Literal["stars", "yes-no", "counts", "one-class"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CHOICES: tuple[Kind, ...] = ("counts", "one-class")  # implicit feedback: only the things chosen, no dislikes

SKEW = 10  # the largest count is more than this many times the median; no scale of stars is as long
MEAN_RATINGS = 5.0  # the weight of the mean of all ratings in that of a user, in ratings
MOSTLY_ONE = 0.9  # a scale with nine of ten ratings at its lowest value would be almost uninformative
HIGHEST_STAR = 100  # scales of ratings end here at the latest
MOST_STARS = 11  # levels of the usual scales, 0 to 10; on a finer one, hardly anyone gives the lowest
OFTEN_LOWEST = 0.25
FEW_EQUAL = 10  # with fewer values, that all are the same is chance


def liked_from(history: CSR, mean: float) -> DoubleArray:  # one per row
    """The rating from which each user likes something: their own mean, shrunk to that of all ratings.

        m_i = (n_i mean_i + 5 mean) / (n_i + 5)

    The one definition of what is liked: lists are ordered by it and judged by it. In single precision, as ratings are,
    so that what is rated like everything else is liked.
    """
    sums = np.bincount(history.rows(), history.values.astype(np.float64), minlength=len(history))
    return ((sums + MEAN_RATINGS * mean) / (history.counts + MEAN_RATINGS)).astype(np.float32).astype(np.float64)


class Guess(NamedTuple):
    """A guessed feedback type, and the reason."""

    kind: Kind
    reason: str


def guess_kind(values: NDArray[Any]) -> Guess:
    """The kind of values, by the first of these rules that holds:

    1. all are 1, or at least ten are the same number above 0: one-class;
    2. some are negative, or all are the same: stars;
    3. all are 0 or 1, and both occur: yes-no;
    4. the largest is above 100, or more than 10 times the median of those above 0: counts;
    5. all are whole numbers from 1 on, and at least nine of ten are 1: counts;
    6. there are more than 11 different values, and at least a quarter of those above 0 are the lowest: counts;
    7. otherwise: stars.
    """
    if not len(values):
        return Guess("stars", "there are no values")
    low, high = float(values.min()) + 0.0, float(values.max()) + 0.0  # -0 is 0
    if low == high:
        is_one_class = low == 1 or (low > 0 and len(values) >= FEW_EQUAL)
        some = "" if is_one_class or low <= 0 else f" (only {len(values)} of them)"
        return Guess("one-class" if is_one_class else "stars", f"all values are {low:g}{some}")
    stars = Guess("stars", f"values from {low:g} to {high:g}")
    if low < 0:
        return stars
    is_whole = are_whole(values)
    if (low, high) == (0, 1) and is_whole:
        return Guess("yes-no", "all values are 0 or 1")
    above = values[values > 0]
    median, numbers = float(np.median(above)), "whole numbers" if is_whole else f"numbers from {low:g}"
    high = float(str(values.max()))  # as it was typed: 149.1, not 149.1000061, the nearest in single precision
    if high > SKEW * median:
        return Guess("counts", f"{numbers} up to {high:,.10g}, more than {SKEW} times their median of {median:g}")
    if high > HIGHEST_STAR:
        return Guess("counts", f"{numbers} up to {high:,.10g}, more than any scale of ratings has")
    lowest = float(above.min())
    share = np.count_nonzero(above == lowest) / len(above)
    if is_whole and low == 1 and share >= MOSTLY_ONE:
        return Guess("counts", f"whole numbers, {share:.1%} of them 1")
    if share >= OFTEN_LOWEST:
        levels = distinct(values)
        if levels is None or len(levels) > MOST_STARS:
            return Guess("counts", f"{numbers} up to {high:g}, and {share:.0%} of them are {lowest:g}, the lowest")
    return stars


def check_kind(kind: Any) -> None:
    """Raise an error unless this is a known kind."""
    if kind not in KINDS:
        raise InvalidParameterError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")


def impossible(values: NDArray[Any], kind: Kind) -> tuple[BoolArray, str, str]:
    """The values that cannot be of this kind, what is wrong with them, and what was expected instead."""
    if kind == "yes-no":
        wrong = (values != 0) & (values != 1)
        expected = "0 (no) and 1 (yes) alone; stars need no kind, or become yes and no by Ratings.at_least"
        return wrong, "neither 0 nor 1", expected
    if kind in CHOICES:
        expected = "how often something was chosen: leave out pairs that were not"
        return ~(values > 0), "not above 0", expected
    return np.zeros(len(values), np.bool_), "", ""


def are_whole(values: NDArray[Any]) -> bool:
    """Whether all are whole numbers."""
    return bool((values == np.floor(values)).all())


MOST_LEVELS = 101  # 0 to 100
BLOCK = 1 << 16
SAME_LEVEL = 1e-4  # of the smallest step
TOLERANCE = 1e-3  # of a step: ratings are kept in single precision


def levels_of(values: NDArray[Any]) -> DoubleArray | None:
    """The levels in use, ascending, if there are two to 101 and they lie on an evenly spaced scale; else None."""
    levels = distinct(values)
    if levels is None or len(levels) < 2:
        return None
    steps = (levels - levels[0]) / np.diff(levels).min()
    is_even = np.abs(steps - steps.round()).max() < TOLERANCE and steps[-1] < MOST_LEVELS
    return levels if is_even else None


def level_names(levels: DoubleArray | None) -> list[str]:
    """The levels as text, "1" and "1.5"; empty where there are none."""
    return [] if levels is None else list(_names_of(tuple(levels.tolist())))


@lru_cache(64)  # Every list of a service asks for them.
def _names_of(levels: tuple[float, ...]) -> tuple[str, ...]:
    # Levels come from single precision: its shortest text is what was in the file.
    return tuple(np.format_float_positional(np.float32(level), trim="-") for level in levels)


def strange(values: NDArray[Any], levels: DoubleArray) -> NDArray[np.bool_]:
    """Which values are none of these levels, up to the rounding of single precision."""
    nearest = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, values)]
    rounding = np.maximum(SAME_LEVEL * np.diff(levels).min(), np.spacing(np.abs(nearest).astype(np.float32)))
    return np.asarray(np.abs(nearest - values) > rounding)


def distinct(values: NDArray[Any]) -> DoubleArray | None:
    """The values in use, ascending, at any distances; None if there are more than 101."""
    levels = np.zeros(0, values.dtype)
    for start in range(0, len(values), BLOCK):  # in parts: no copy of all, and an early stop
        levels = np.union1d(levels, values[start : start + BLOCK])
        if len(levels) > MOST_LEVELS:
            return None
    return levels.astype(np.float64)
