"""Reversible jumps: Metropolis-Hastings between spaces of different dimension (Green 1995).

A pair of moves goes up, from a state x of the smaller space to x' of the larger, and down again. Up draws variables u
with the density g_up(u | x), down draws variables w with the density g_down(w | x'); u has more dimensions than w by
the difference of the spaces, and (x, u) <-> (x', w) is a smooth map, one to one, of Jacobian J = |d(x', w) / d(x, u)|.
Up is accepted with the probability min(1, A), down with min(1, 1 / A),

    A = p(x') g_down(w | x') / (p(x) g_up(u | x)) J.

Both are tried with probability 1/2, whatever the state; a move that a state cannot make (up from the largest
space, down from the smallest) leaves it unchanged, so that these probabilities cancel.

If no g_up is close enough to the density on the larger space, a bridge leads there (Karagiannis and Andrieu 2013):
densities r_0 = p(x) g_up(u), r_1, ..., r_n = p(x') on the larger space, and moves that leave each invariant. A jump up
draws z_0 = (x, u), goes to z_t by a move that leaves r_t invariant, t = 1 ... n - 1, and is accepted by

    A = r_1(z_0) / r_0(z_0)  r_2(z_1) / r_1(z_1) ...  r_n(z_(n-1)) / r_(n-1)(z_(n-1))  g_down(w | z_(n-1)),

the way down by 1 / A of the same points in reverse, with each move reversed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, isnan
from typing import Any, Generic, Protocol, TypeVar

from numpy.random import Generator

from tastespace.errors import InvalidParameterError, NonFiniteStateError

State = TypeVar("State")
Mover = TypeVar("Mover", contravariant=True)
Up = TypeVar("Up")
Down = TypeVar("Down")


class Jumping(Protocol[Mover]):
    """A birth and death move."""

    @property
    def name(self) -> str:
        """The name for messages and figures."""

    def can_go_up(self, state: Mover) -> bool:
        """Whether there is a larger space."""

    def can_go_down(self, state: Mover) -> bool:
        """Whether there is a smaller space."""


class MovePair(Jumping[State], Protocol[State, Up, Down]):
    """Birth and death, each the exact inverse of the other."""

    def draw_up(self, state: State, rng: Generator) -> Up:
        """The variables of a move up."""

    def log_up(self, state: State, up: Up) -> float:
        """The log of their density."""

    def up(self, state: State, up: Up) -> tuple[State, Down, float]:
        """Where they lead, the variables of the way back, and log |Jacobian|."""

    def draw_down(self, state: State, rng: Generator) -> Down:
        """The variables of a move down."""

    def log_down(self, state: State, down: Down) -> float:
        """The log of their density."""

    def down(self, state: State, down: Down) -> tuple[State, Up, float]:
        """Where they lead, the variables of the way back, and log |Jacobian|."""


@dataclass(frozen=True, eq=False)
class Proposal(Generic[State]):
    """The state after a proposed jump, and the log of its acceptance ratio."""

    state: State
    log_ratio: float

    @property
    def acceptance(self) -> float:
        """The acceptance probability."""
        return exp(min(self.log_ratio, 0.0))


@dataclass(frozen=True, eq=False)
class Jumped(Generic[State]):
    """The state after an attempted jump."""

    state: State
    pair: str
    went_up: bool  # or would have
    acceptance: float  # 0 if there is no such space
    accepted: bool


def proposal_up(
    pair: MovePair[State, Up, Down], log_target: Callable[[State], float], state: State, variables: Up
) -> Proposal[State]:
    """The jump to the larger space that these variables make."""
    larger, back, log_jacobian = pair.up(state, variables)
    forward = log_target(state) + pair.log_up(state, variables)
    backward = log_target(larger) + pair.log_down(larger, back)
    return Proposal(larger, _ratio(backward - forward + log_jacobian, pair.name))


def proposal_down(
    pair: MovePair[State, Up, Down], log_target: Callable[[State], float], state: State, variables: Down
) -> Proposal[State]:
    """The jump to the smaller space that these variables make."""
    smaller, back, log_jacobian = pair.down(state, variables)
    forward = log_target(state) + pair.log_down(state, variables)
    backward = log_target(smaller) + pair.log_up(smaller, back)
    return Proposal(smaller, _ratio(backward - forward + log_jacobian, pair.name))


def jump(
    pairs: Sequence[MovePair[State, Any, Any]], log_target: Callable[[State], float], state: State, rng: Generator
) -> Jumped[State]:
    """Try one of the pairs, up or down."""
    if not pairs:
        raise InvalidParameterError("there are no moves to jump by; expected at least one pair")
    pair, goes_up = pairs[int(rng.integers(len(pairs)))], bool(rng.integers(2))

    def propose() -> Proposal[State]:
        if goes_up:
            return proposal_up(pair, log_target, state, pair.draw_up(state, rng))
        return proposal_down(pair, log_target, state, pair.draw_down(state, rng))

    return _tried(pair, goes_up, propose, state, rng)


def _tried(
    moves: Jumping[State], goes_up: bool, propose: Callable[[], Proposal[State]], state: State, rng: Generator
) -> Jumped[State]:
    if not (moves.can_go_up(state) if goes_up else moves.can_go_down(state)):
        return Jumped(state, moves.name, goes_up, 0.0, accepted=False)
    proposed = propose()
    accepted = bool(rng.random() < proposed.acceptance)
    return Jumped(proposed.state if accepted else state, moves.name, goes_up, proposed.acceptance, accepted)


class Bridge(Jumping[State], Protocol[State]):
    """A birth and death move through intermediate densities."""

    @property
    def steps(self) -> int:
        """The number of steps from 0, where the new part has no effect, to the last, the density itself."""

    def widened(self, state: State, rng: Generator) -> State:
        """The state with the new part, drawn from the density at step 0."""

    def narrowed(self, state: State) -> State:
        """The state without the new part."""

    def log_weight(self, state: State, start: int, end: int) -> float:
        """log of the density at one step over that at another."""

    def moved(self, state: State, step: int, rng: Generator, *, backwards: bool) -> State:
        """The state after a move that leaves the density at this step invariant, or after the reversed move."""

    def left(self, state: State, rng: Generator) -> tuple[State, float]:
        """The upper end of a bridge as an ordinary state, and log g_down of the way back."""

    def entered(self, state: State, rng: Generator) -> tuple[State, float]:
        """The upper end of a way down, and its log g_down."""


def bridged_jump(bridge: Bridge[State], state: State, rng: Generator) -> Jumped[State]:
    """Try to cross a bridge, up or down."""
    goes_up = bool(rng.integers(2))
    way = _over if goes_up else _back
    return _tried(bridge, goes_up, lambda: way(bridge, state, rng), state, rng)


def _over(bridge: Bridge[State], state: State, rng: Generator) -> Proposal[State]:
    there, total = bridge.widened(state, rng), 0.0
    for step in range(1, bridge.steps + 1):
        total += bridge.log_weight(there, step - 1, step)
        if step < bridge.steps:
            there = bridge.moved(there, step, rng, backwards=False)
    there, log_down = bridge.left(there, rng)
    return Proposal(there, _ratio(total + log_down, bridge.name))


def _back(bridge: Bridge[State], state: State, rng: Generator) -> Proposal[State]:
    there, log_down = bridge.entered(state, rng)
    total = 0.0
    for step in range(bridge.steps, 0, -1):
        total += bridge.log_weight(there, step, step - 1)
        if step > 1:
            there = bridge.moved(there, step - 1, rng, backwards=True)
    return Proposal(bridge.narrowed(there), _ratio(total - log_down, bridge.name))


def _ratio(log_ratio: float, name: str) -> float:
    if isnan(log_ratio) or log_ratio == inf:
        raise NonFiniteStateError(
            f"a jump by {name} is accepted by a ratio of exp({log_ratio}); expected densities that are numbers: check "
            "the ratings for extreme values"
        )
    return log_ratio
