"""Parameters of models: how they are checked, and what `tune` may search of them, declared in a model's own class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from tastespace.errors import InvalidParameterError
from tastespace.errors import check_int as check_int

if TYPE_CHECKING:
    from tastespace.data.ratings import Ratings

Unit = Callable[[Any], float]  # of ratings: what the numbers of a setting are multiples of


def check_int_or_auto(name: str, value: Any, *, least: int) -> None:
    """The value is an integer of at least this size, or "auto" if it is to be found."""
    if not isinstance(value, str):
        check_int(name, value, least=least)
    elif value != "auto":
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}, or 'auto'")


def check_number(
    name: str, value: Any, *, above: float | None = None, least: float | None = None, below: float = math.inf
) -> None:
    """The value is a finite number within its bounds."""
    good = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if good and (above is None or value > above) and (least is None or value >= least) and value < below:
        return
    bounds = [f"above {above:g}" if above is not None else "", f"of at least {least:g}" if least is not None else ""]
    bounds.append(f"below {below:g}" if below < math.inf else "")
    expected = " and ".join(bound for bound in bounds if bound) or "that is finite"
    raise InvalidParameterError(f"{name} is {value!r}; expected a number {expected}")


def check_ascending(name: str, values: Any, *, least: int, most: int) -> None:
    """Finite numbers, each larger than the one before, and not too few or too many of them."""
    good = isinstance(values, Sequence) and not isinstance(values, str)
    good = good and all(
        isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) for value in values
    )
    if good and least <= len(values) <= most and all(a < b for a, b in zip(values, values[1:], strict=False)):
        return
    raise InvalidParameterError(f"{name} is {values!r}; expected a list of {least} to {most} numbers, ascending")


def check_option(name: str, value: Any, options: Sequence[Any]) -> None:
    """The value is one of a few."""
    if not any(isinstance(value, type(option)) and value == option for option in options):
        raise InvalidParameterError(f"{name} is {value!r}; expected one of {', '.join(map(repr, options))}")


def check_declared(settings: Any) -> None:
    """Every field that is declared as yes or no, or as one of a few words, is one of these."""
    try:
        hints = get_type_hints(type(settings))
    except NameError:  # A class from outside the package may name types that are there for a type checker only.
        return
    for name in (field.name for field in fields(settings)):
        if hints[name] is bool or get_origin(hints[name]) is Literal:
            check_option(name, getattr(settings, name), get_args(hints[name]) or (True, False))


def is_word(value: Any, *words: str) -> bool:
    """Whether the value is one of these words, and not a number; arrays, too, are asked without a complaint."""
    return isinstance(value, str) and value in words


def no_unit(ratings: Ratings) -> float:
    """The unit of a setting that means the same whatever the ratings are."""
    return 1.0


def spread(ratings: Ratings) -> float:
    """The unit of what is measured in ratings: their standard deviation."""
    return float(np.std(ratings.values, dtype=np.float64)) or 1.0


def thousand_users(ratings: Ratings) -> float:
    """The unit of what is held against the number of users who have rated an item."""
    return ratings.n_users / 1000


def cells(ratings: Ratings) -> float:
    """The unit of what is held against a whole row of users or of items."""
    return float(np.sqrt(ratings.n_users * ratings.n_items))


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, in multiples of the unit; tried evenly on a logarithmic scale."""

    low: float
    high: float
    whole: bool = False
    unit: Unit = no_unit

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < np.inf:
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected numbers above 0, the lower one first"
            )
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected whole numbers for this setting"
            )

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is given for these ratings: to three digits, so that it can be written down as it was tried."""
        return int(searched) if self.whole else float(f"{searched * self.unit(ratings):.3g}")

    def between(self, low: float, high: float, ratings: Ratings) -> Range:
        """The same setting with other ends: what a model would be given for these ratings."""
        unit = self.unit(ratings)
        return Range(low / unit, high / unit, self.whole, self.unit)

    def describe(self, ratings: Ratings) -> str:
        """Both ends, for these ratings."""
        return f"{self.value(self.low, ratings):g}..{self.value(self.high, ratings):g}"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is given: the same for all ratings."""
        return searched

    def describe(self, ratings: Ratings) -> str:
        """All values."""
        return ", ".join(map(str, self.values))


SearchSpace = Mapping[str, Range | Choice]  # by the name of the parameter

FACTORS = Range(4, 128, whole=True)
MANY_FACTORS = Range(8, 256, whole=True)
