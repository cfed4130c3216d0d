"""Gibbs sampling: draw one block after another, each given all others.

The position can be of any type: an array, a mapping, a dataclass. A conditional takes all of it and returns all of it
with its own block drawn again. Every order preserves the density:

- systematic: in the given order, every time;
- shuffled: each once, in a new order every time;
- random: as many as there are, each picked at random, so that some come twice and some not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.random import Generator

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.transition import Stats

Values = TypeVar("Values")
Order = Literal["systematic", "shuffled", "random"]
Conditional = Callable[[Values, Generator], Values]


@dataclass(frozen=True, eq=False)
class State(Generic[Values]):
    """The current draw, and the blocks of the last scan in order."""

    position: Values
    drawn: tuple[str, ...] = ()

    def stats(self) -> Stats:
        """Every draw is accepted; the figure is how many blocks were drawn."""
        return {"acceptance": 1.0, "drawn": float(len(self.drawn))}


def init(position: Values) -> State[Values]:
    """Start here."""
    _check_finite(position, "the start")
    return State(position)


def step(
    state: State[Values], rng: Generator, conditionals: Mapping[str, Conditional[Values]], order: Order = "systematic"
) -> State[Values]:
    """One scan over the blocks."""
    if not conditionals:
        raise InvalidParameterError("conditionals is empty; expected at least one block to draw, by name")
    names, n = tuple(conditionals), len(conditionals)
    orders: dict[str, Callable[[], Iterable[int]]] = {
        "systematic": lambda: range(n),
        "shuffled": lambda: rng.permutation(n),
        "random": lambda: rng.integers(n, size=n),
    }
    if order not in get_args(Order):
        raise InvalidParameterError(f"order is {order!r}; expected one of {', '.join(map(repr, orders))}")
    drawn, position = tuple(names[place] for place in orders[order]()), state.position
    for name in drawn:
        position = conditionals[name](position, rng)
        _check_finite(position, f"the draw of {name}")
    return State(position, drawn)


def _check_finite(position: Any, what: str) -> None:
    """Check arrays and numbers; other types are not checked."""
    values = position.values() if isinstance(position, Mapping) else [position]
    for value in values:
        if isinstance(value, np.ndarray | float) and not np.all(np.isfinite(value)):
            raise NonFiniteStateError(f"{what} is not finite; expected numbers: look at that conditional")
