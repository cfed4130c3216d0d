"""Temperatures of simulated annealing: a density to the power 1 / T, T falling from step to step.

At T = 1 a chain draws from the density itself; only those draws are samples of it. Above, it crosses valleys that it
would not cross at 1; below, it moves towards the mode, and at T -> 0 it optimises.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Protocol

from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.target import count, positive


class Cooling(Protocol):
    """The temperature of each step, counted from 0."""

    def temperature(self, step: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """Never cools."""

    value: float = 1.0

    def __post_init__(self) -> None:
        positive("value", self.value)

    def temperature(self, step: int) -> float:
        return _at(self.value, step)


@dataclass(frozen=True)
class Geometric:
    """T_n = start factor^n, but never below `least`."""

    start: float
    factor: float
    least: float = 1.0

    def __post_init__(self) -> None:
        _check_ends(self.start, self.least)
        if not 0 < positive("factor", self.factor) < 1:
            raise InvalidParameterError(
                f"factor is {self.factor!r}; expected a number between 0 and 1, or Constant, which never cools"
            )

    @classmethod
    def over(cls, steps: int, start: float, least: float = 1.0) -> Geometric | Constant:
        """The schedule that cools from one temperature to the other in this number of steps."""
        count("steps", steps, least=1)
        _check_ends(start, least)
        return Constant(least) if start == least else cls(start, (least / start) ** (1 / steps), least)

    def temperature(self, step: int) -> float:
        # A large power of a small factor is rounded to 0, which is below `least`, too.
        return _at(max(self.start * self.factor**step, self.least), step)


@dataclass(frozen=True)
class Logarithmic:
    """T_n = start log 2 / log(2 + n), but never below `least`: so slow that in theory nothing is missed."""

    start: float
    least: float = 1.0

    def __post_init__(self) -> None:
        _check_ends(self.start, self.least)

    def temperature(self, step: int) -> float:
        return _at(max(self.start * log(2) / log(2 + step), self.least), step)


def _check_ends(start: float, least: float) -> None:
    if positive("start", start) < positive("least", least):
        raise InvalidParameterError(f"start is {start!r}, below the final {least!r}; expected the larger first")


def _at(temperature: float, step: int) -> float:
    count("step", step, least=0)
    return temperature
