"""The chain: sweeps that keep the rank, jumps that change it, a temperature, and hyper-parameters on their way.

First it cools down to T = 1; there hyper-parameters are tuned, and then kept; the draws that follow are those of the
posterior; at last, if wanted, it cools on towards 0, which only optimises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.errors import InvalidParameterError
from tastespace.inference.annealing import Cooling, Geometric
from tastespace.inference.reversible_jump import Bridge, Jumped, MovePair, bridged_jump, jump
from tastespace.inference.stochastic_approximation import Adam
from tastespace.inference.transition import Stats
from tastespace.models.factorization.jump.target import Precisions, RankState, RankTarget
from tastespace.models.factorization.jump.tuning import Tuning, settled, tuned
from tastespace.models.factorization.jump.within import WithinMove
from tastespace.models.factorization.rows import Points

START_SD = 0.3
COLDEST = 1e-3


@dataclass(frozen=True)
class Plan:
    """How many steps of what."""

    cooling: Cooling
    warmup: int  # down to T = 1
    tuning: int
    draws: int
    quench: int = 0  # from 1 down to nearly 0

    def __post_init__(self) -> None:
        end = self.cooling.temperature(self.warmup)
        if not isclose(end, 1, rel_tol=1e-9):
            raise InvalidParameterError(
                f"the temperature after the {self.warmup} steps of the warm-up is {end:g}; expected a cooling that has "
                "come to 1 by then (and stays there): the posterior over the rank is read at T = 1"
            )

    @property
    def before_draws(self) -> int:
        return self.warmup + self.tuning

    @property
    def until_quench(self) -> int:
        return self.before_draws + self.draws

    def temperature(self, step: int) -> float:
        if step < self.warmup:
            return self.cooling.temperature(step)
        if step < self.until_quench:
            return 1.0
        return Geometric.over(max(self.quench, 1), 1.0, COLDEST).temperature(step - self.until_quench + 1)

    def tunes(self, step: int) -> bool:
        return self.warmup <= step < self.before_draws

    def averages(self, step: int) -> bool:
        """Whether what is tuned at this step counts for the mean."""
        return step >= self.warmup + self.tuning // 2


@dataclass(frozen=True, eq=False)
class Walker:
    """A chain on its way."""

    state: RankState
    tuning: Tuning
    step: int = 0


@dataclass(frozen=True, eq=False)
class JumpSampler:
    """The transition."""

    target: RankTarget
    pairs: Sequence[MovePair[RankState, Any, Any]]
    within: WithinMove
    bridge: Bridge[RankState] | None  # gone over once a step at T = 1, where there is one
    plan: Plan
    sweeps: int = 1  # a step
    jumps: int = 1  # a step
    unit: float = 1.0  # of the figures: the scale of the ratings
    start: Precisions = Precisions()
    has_biases: bool = True
    start_rank: int = 1
    adam: Adam = Adam()

    def init(self, rng: Generator) -> Walker:
        """Few factors, of small random rows, and no biases."""

        def points(n: int) -> Points:
            return Points(
                START_SD * rng.standard_normal((n, min(self.start_rank, self.target.most))),
                np.zeros(n) if self.has_biases else None,
            )

        state = RankState(points(self.target.n_users), points(self.target.n_items), self.start)
        return Walker(replace(state, temperature=self.plan.temperature(0)), Tuning.begun())

    def step(self, state: Walker, rng: Generator) -> tuple[Walker, Stats]:
        step, plan, tuning = state.step, self.plan, state.tuning
        now = replace(state.state, temperature=plan.temperature(step))
        if step == plan.before_draws:
            now = settled(now, tuning)
        for _ in range(self.sweeps):
            now = self.within.moved(self.target, now, rng)
        tried: list[Jumped[RankState]] = []
        for _ in range(self.jumps):
            tried.append(jump(self.pairs, self.target.log_density, now, rng))
            now = tried[-1].state
        if self.bridge is not None and now.temperature == 1:  # too slow for where nothing is read
            tried.append(bridged_jump(self.bridge, now, rng))
            now = tried[-1].state
        figures = self._figures(now, tried)
        if plan.tunes(step):
            now, tuning = tuned(self.target, now, tuning, self.adam, counts=plan.averages(step))
        return Walker(now, tuning, step + 1), figures

    def _figures(self, state: RankState, tried: Sequence[Jumped[RankState]]) -> Stats:
        n, own = len(self.target.observed), state.precisions
        squares = self.target.squares(state)
        # Energy over alpha / 2 a rating: the loss as Dey and Jhamb (2018) write it, in units of ratings.
        loss = 2 * self.target.loss(state) / (own.noise * n) if own.noise > 0 else 0.0
        went = {up: [jumped.acceptance for jumped in tried if jumped.went_up is up] for up in (True, False)}
        return {
            "rank": float(state.rank),
            "loss": self.unit**2 * loss,
            "train rmse": self.unit * float(np.sqrt(squares / n)),
            "temperature": state.temperature,
            "births": float(np.mean(went[True])) if went[True] else 0.0,
            "deaths": float(np.mean(went[False])) if went[False] else 0.0,
            "factor precision": own.users,
            "noise sd": self.unit / own.noise**0.5 if own.noise > 0 else float("inf"),
        }
