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

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.annealing import Cooling, Geometric
from tastespace.inference.samplers.reversible_jump import Bridge, Jumped, MovePair, bridged_jump, jump
from tastespace.inference.samplers.stochastic_approximation import Adam, Memory
from tastespace.inference.transition import Stats
from tastespace.models.factorization.rank.target import Precisions, RankState, RankTarget
from tastespace.models.factorization.rank.within import WithinMove
from tastespace.models.factorization.rows import Factors

LOWEST, HIGHEST = np.log(1e-4), np.log(1e8)  # of ratings that have no errors the precision of the noise has no maximum


@dataclass(frozen=True, eq=False)
class Tuning:
    """Hyper-parameters by empirical Bayes, while the chain runs at T = 1: what Adam remembers, and the mean so far.

    With n entries of precision lam and sum of squares S, d log p / d log lam = n / 2 - lam S / (2 T), whose information
    is n / 2: the gradient in units of that is 1 - lam S / (T n). Dey and Jhamb 2018 (eq. 10) leave out the first term,
    so that every precision can only fall. Only the product lam_u lam_v is identified: the two are one parameter here.

    At a temperature T the maximum is at T times the precisions of T = 1, for p_T with precisions lam is p_1 with
    lam / T: tuning would undo the temperature. So precisions are tuned at T = 1 only, and stay as they are when it is
    hotter or colder.
    """

    memory: Memory
    total: DoubleArray
    n: int = 0

    @classmethod
    def begun(cls) -> Tuning:
        return cls(Memory.none(4), np.zeros(4))


def logarithms(precisions: Precisions) -> DoubleArray:
    """The logarithms of what is tuned: precisions of factors, noise, and biases of users and items."""
    return np.log([precisions.users, precisions.noise, precisions.user_biases, precisions.item_biases])


def precisions_of(logs: DoubleArray) -> Precisions:
    """The other way."""
    factors, noise, of_users, of_items = (float(value) for value in np.exp(np.clip(logs, LOWEST, HIGHEST)))
    return Precisions(factors, factors, noise, of_users, of_items)


def gradient(target: RankTarget, state: RankState) -> DoubleArray:
    """The gradient of log p_T by the logarithms, over their information; 0 for biases that are not there."""
    users, items, own = state.users, state.items, state.precisions
    entries: list[tuple[float, int, list[AnyFloats | None]]] = [
        (own.users, (target.n_users + target.n_items) * state.rank, [users.factors, items.factors]),
        (own.noise, len(target.observed), [target.errors(state)]),
        (own.user_biases, target.n_users, [users.bias]),
        (own.item_biases, target.n_items, [items.bias]),
    ]
    found = []
    for precision, n, arrays in entries:
        there = [array for array in arrays if array is not None]
        square = sum(float(np.vdot(array, array)) for array in there)
        found.append(1 - precision * square / (state.temperature * n) if there else 0.0)
    return np.array(found)


def tuned(
    target: RankTarget, state: RankState, tuning: Tuning, adam: Adam, *, counts: bool
) -> tuple[RankState, Tuning]:
    """A step of the hyper-parameters; `counts` if it is one of those that are averaged."""
    change, memory = adam.step(gradient(target, state), tuning.memory)
    logs = np.clip(logarithms(state.precisions) + change, LOWEST, HIGHEST)
    total, n = (tuning.total + logs, tuning.n + 1) if counts else (tuning.total, tuning.n)
    return replace(state, precisions=precisions_of(logs)), Tuning(memory, total, n)


def with_tuned_mean(state: RankState, tuning: Tuning) -> RankState:
    """The mean of the later steps, for good."""
    return state if tuning.n == 0 else replace(state, precisions=precisions_of(tuning.total / tuning.n))


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

        def points(n: int) -> Factors:
            return Factors(
                START_SD * rng.standard_normal((n, min(self.start_rank, self.target.max_rank))),
                np.zeros(n) if self.has_biases else None,
            )

        state = RankState(points(self.target.n_users), points(self.target.n_items), self.start)
        return Walker(replace(state, temperature=self.plan.temperature(0)), Tuning.begun())

    def step(self, state: Walker, rng: Generator) -> tuple[Walker, Stats]:
        step, plan, tuning = state.step, self.plan, state.tuning
        now = replace(state.state, temperature=plan.temperature(step))
        if step == plan.before_draws:
            now = with_tuned_mean(now, tuning)
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
