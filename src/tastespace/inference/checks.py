"""Checks of what samplers are given: one sentence that says what was got, what was expected."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from tastespace.errors import InvalidParameterError


def positive(name: str, value: Any) -> float:
    """The value as a number, which must be finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InvalidParameterError(f"{name} is {value!r}; expected a finite number above 0")
    return float(value)


def share(name: str, value: Any, *, most: float = 1.0) -> float:
    """The value as a number, which must be at least 0 and below `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < most:
        raise InvalidParameterError(f"{name} is {value!r}; expected a number of at least 0 and below {most:g}")
    return float(value)


def count(name: str, value: Any, *, least: int) -> int:
    """The value as a whole number of at least this size."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")
    return int(value)
