"""Checks of parameters: one sentence that says what was got, what was expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from tastespace.errors import InvalidParameterError


def check_int(name: str, value: Any, *, least: int) -> None:
    """The value is an integer of at least this size."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")


def check_int_or_auto(name: str, value: Any, *, least: int) -> None:
    """The same, or "auto" for one that is found."""
    if isinstance(value, str):
        if value != "auto":
            raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}, or 'auto'")
        return
    check_int(name, value, least=least)


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


def is_word(value: Any, *words: str) -> bool:
    """Whether the value is one of these words, and not a number; arrays, too, are asked without a complaint."""
    return isinstance(value, str) and value in words
