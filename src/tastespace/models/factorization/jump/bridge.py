"""A birth by degrees: the new factor comes in little by little, and all others make room for it.

    r_t = p_T(U, V, a, b) with the errors of U V^T + gamma_t a b^T,   gamma_t = t / n

At gamma = 0 the new columns a, b have no effect and are those of the prior; at gamma = 1 they are a factor like any
other. In between rows are drawn by the same kernel, with the column of the other side times gamma.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.models.factorization.jump.births import POWER, BlindBirth
from tastespace.models.factorization.jump.target import RankState, RankTarget
from tastespace.models.factorization.jump.turning import draw_direction, log_direction, reflection, spare_directions
from tastespace.models.factorization.jump.within import GibbsRows
from tastespace.models.factorization.rows import Points


@dataclass(frozen=True, eq=False)
class AnnealedBirth:
    """The bridge between k and k + 1 factors; the new one is the last column on the way."""

    target: RankTarget
    gibbs: GibbsRows
    steps: int = 100
    power: float = POWER

    name = "annealed births"

    def can_go_up(self, state: RankState) -> bool:
        return state.rank < self.target.most

    def can_go_down(self, state: RankState) -> bool:
        return state.rank > 1

    def widened(self, state: RankState, rng: Generator) -> RankState:
        new = BlindBirth(self.target).draw_up(state, rng)
        users = np.hstack([state.users.factors, new.users])
        return state.with_factors(users, np.hstack([state.items.factors, new.items]))

    def narrowed(self, state: RankState) -> RankState:
        return state.with_factors(state.users.factors[:, :-1], state.items.factors[:, :-1])

    def log_weight(self, state: RankState, start: int, end: int) -> float:
        """-alpha / (2 T) times the difference of the squared errors, which are quadratic in gamma."""
        without = self.target.errors(self.narrowed(state))
        new = without - self.target.errors(state)  # a_i b_j
        cross, square = float(without @ new), float(new @ new)
        low, high = start / self.steps, end / self.steps
        return -state.tempered.noise / 2 * ((high**2 - low**2) * square - 2 * (high - low) * cross)

    def moved(self, state: RankState, step: int, rng: Generator, *, backwards: bool) -> RankState:
        """Items, then users; backwards users, then items."""
        gamma = step / self.steps
        for which in ("users", "items") if backwards else ("items", "users"):
            if which == "items":
                state = replace(state, items=self.gibbs.items(self.target, state, _scaled(state.users, gamma), rng))
            else:
                state = replace(state, users=self.gibbs.users(self.target, state, _scaled(state.items, gamma), rng))
        return state

    def left(self, state: RankState, rng: Generator) -> tuple[RankState, float]:
        """Turned into any direction; a death would have to find it."""
        direction = draw_direction(np.eye(state.rank), rng)
        turned = self._turned(state, direction)
        return turned, log_direction(self._spare(turned), direction)

    def entered(self, state: RankState, rng: Generator) -> tuple[RankState, float]:
        """A direction of which there is little turned to be the last."""
        law = self._spare(state)
        direction = draw_direction(law, rng)
        return self._turned(state, direction), log_direction(law, direction)

    def _turned(self, state: RankState, direction: DoubleArray) -> RankState:
        turn = reflection(direction)
        return state.with_factors(state.users.factors @ turn, state.items.factors @ turn)

    def _spare(self, state: RankState) -> DoubleArray:
        return spare_directions(state.users.factors, state.items.factors, self.power)


def _scaled(points: Points, gamma: float) -> Points:
    """With the last column times gamma."""
    factors = np.array(points.factors)
    factors[:, -1] *= gamma
    return Points(factors, points.bias)
