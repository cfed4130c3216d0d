"""The choice of a rank by reversible jumps: settings and results.

The chain has sweeps that keep the rank, jumps that change it, a temperature, and hyper-parameters that are tuned.

First it cools down to T = 1; there hyper-parameters are tuned, and then fixed; the draws that follow are those of the
posterior; finally, if requested, it cools towards 0, which only optimises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, InvalidParameterError
from tastespace.inference.drivers import Schedule, ascend, sample
from tastespace.inference.samplers.annealing import Cooling, Geometric
from tastespace.inference.samplers.reversible_jump import Bridge, Jumped, MovePair, bridged_jump, jump
from tastespace.inference.samplers.stochastic_approximation import Adam, Memory
from tastespace.inference.transition import Stats
from tastespace.models.factorization.rank import target as rank_target
from tastespace.models.factorization.rank.births import AnnealedBirth, BlindBirth, InformedBirth
from tastespace.models.factorization.rows import Factors, score_pairs
from tastespace.parameters import check_declared, check_int
from tastespace.progress import Observer, silent
from tastespace.randomness import generator

LOWEST, HIGHEST = np.log(1e-4), np.log(1e8)  # if ratings have no errors, the precision of the noise has no maximum


@dataclass(frozen=True, eq=False)
class Tuning:
    """Hyper-parameters by empirical Bayes, while the chain runs at T = 1: the state of Adam, and the mean so far.

    With n entries of precision lam and sum of squares S, d log p / d log lam = n / 2 - lam S / (2 T), whose information
    is n / 2: the gradient in units of that is 1 - lam S / (T n). Dey and Jhamb 2018 (eq. 10) leave out the first term,
    so that every precision can only fall. Only the product lam_u lam_v is identified: the two are one parameter here.

    At a temperature T the maximum is at T times the precisions of T = 1, for p_T with precisions lam is p_1 with
    lam / T: tuning would undo the temperature. So precisions are tuned only at T = 1, and are fixed at other
    temperatures.
    """

    memory: Memory = field(default_factory=lambda: Memory.none(4))
    total: DoubleArray = field(default_factory=lambda: np.zeros(4))
    n: int = 0


def logarithms(precisions: rank_target.Precisions) -> DoubleArray:
    """The logarithms of the tuned precisions: of factors, noise, and biases of users and items."""
    return np.log([precisions.users, precisions.noise, precisions.user_biases, precisions.item_biases])


def precisions_of(logs: DoubleArray) -> rank_target.Precisions:
    """The precisions from their logarithms."""
    factors, noise, of_users, of_items = (float(value) for value in np.exp(np.clip(logs, LOWEST, HIGHEST)))
    return rank_target.Precisions(factors, factors, noise, of_users, of_items)


def gradient(target: rank_target.RankTarget, state: rank_target.RankState) -> DoubleArray:
    """The gradient of log p_T by the logarithms, divided by their information; 0 for missing biases."""
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
    target: rank_target.RankTarget, state: rank_target.RankState, tuning: Tuning, adam: Adam, *, counts: bool
) -> tuple[rank_target.RankState, Tuning]:
    """A step of the hyper-parameters; `counts` if it is one of those that are averaged."""
    change, memory = adam.step(gradient(target, state), tuning.memory)
    logs = np.clip(logarithms(state.precisions) + change, LOWEST, HIGHEST)
    total, n = (tuning.total + logs, tuning.n + 1) if counts else (tuning.total, tuning.n)
    return replace(state, precisions=precisions_of(logs)), Tuning(memory, total, n)


def with_tuned_mean(state: rank_target.RankState, tuning: Tuning) -> rank_target.RankState:
    """The state with the mean of the later steps."""
    return state if tuning.n == 0 else replace(state, precisions=precisions_of(tuning.total / tuning.n))


START_SD = 0.3
COLDEST = 1e-3


@dataclass(frozen=True)
class Plan:
    """The numbers of steps of each phase."""

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
                "reached 1 by then (and stays there): the posterior over the rank is read at T = 1"
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
        """Whether the tuned values of this step count for the mean."""
        return step >= self.warmup + self.tuning // 2


@dataclass(frozen=True, eq=False)
class Walker:
    """The state of a running chain."""

    state: rank_target.RankState
    tuning: Tuning
    step: int = 0


@dataclass(frozen=True, eq=False)
class JumpSampler:
    """The transition."""

    settings: ReversibleJump
    target: rank_target.RankTarget
    pairs: Sequence[MovePair[rank_target.RankState, Any, Any]]
    within: rank_target.WithinMove
    bridge: Bridge[rank_target.RankState] | None  # tried once per step at T = 1, if there is one
    plan: Plan
    unit: float  # of the figures: the scale of the ratings

    def init(self, rng: Generator) -> Walker:
        """Few factors with small random rows, and no biases."""
        rank = min(self.settings.start_rank, self.target.max_rank)

        def points(n: int) -> Factors:
            return Factors(START_SD * rng.standard_normal((n, rank)), np.zeros(n) if self.settings.biases else None)

        users, items = points(self.target.n_users), points(self.target.n_items)
        state = rank_target.RankState(users, items, rank_target.Precisions(), self.plan.temperature(0))
        return Walker(state, Tuning())

    def step(self, state: Walker, rng: Generator) -> tuple[Walker, Stats]:
        step, plan, tuning = state.step, self.plan, state.tuning
        now = replace(state.state, temperature=plan.temperature(step))
        if step == plan.before_draws:
            now = with_tuned_mean(now, tuning)
        for _ in range(self.settings.sweeps):
            now = self.within.moved(self.target, now, rng)
        tried: list[Jumped[rank_target.RankState]] = []
        for _ in range(self.settings.jumps):
            tried.append(jump(self.pairs, self.target.log_density, now, rng))
            now = tried[-1].state
        if self.bridge is not None and now.temperature == 1:  # too slow for phases without draws
            tried.append(bridged_jump(self.bridge, now, rng))
            now = tried[-1].state
        figures = self._figures(now, tried)
        if plan.tunes(step):
            now, tuning = tuned(self.target, now, tuning, Adam(), counts=plan.averages(step))
        return Walker(now, tuning, step + 1), figures

    def _figures(self, state: rank_target.RankState, tried: Sequence[Jumped[rank_target.RankState]]) -> Stats:
        n, own = len(self.target.observed), state.precisions
        squares = self.target.squares(state)
        # Energy over alpha / 2 per rating: the loss as Dey and Jhamb (2018) write it, in units of ratings.
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


BirthName = Literal["informed", "blind", "annealed"]
WithinName = Literal["gibbs", "heavy-tailed"]


@dataclass(frozen=True, kw_only=True)
class ReversibleJump:
    """Infer the number of factors: reversible jumps inside simulated annealing.

    A chain starts hot and with `start_rank` factors, cools to temperature 1 in `warmup` steps (`cooling`), tunes the
    precisions of factors, noise and biases by empirical Bayes for `tuning` steps, and then draws the rank together with
    everything else, `draws` times. A `quench` of this number of steps then cools further, towards the minimum of the
    loss. A step is `sweeps` of moves that keep the rank, "gibbs" or "heavy-tailed", and `jumps`, with births that are
    "informed" or "blind".

    With births that are "annealed", a step at temperature 1 also has one try by a bridge of `bridge` sweeps, in which
    the new factor is added gradually: slow, but it works with so many ratings that no single jump is accepted any more.
    """

    births: BirthName = "informed"
    within: WithinName = "gibbs"
    cooling: Cooling | None = None  # None: from 4 to 1, geometrically
    warmup: int = 40
    tuning: int = 120
    draws: int = 240
    quench: int = 40
    sweeps: int = 2
    jumps: int = 2
    biases: bool = True
    start_rank: int = 1
    bridge: int = 100

    def check(self) -> None:
        """Raise an error for invalid parameters."""
        check_declared(self)
        for name in ("warmup", "tuning", "draws", "quench", "sweeps", "jumps", "start_rank", "bridge"):
            check_int(name, getattr(self, name), least=0 if name in ("warmup", "tuning", "quench") else 1)

    def plan(self) -> Plan:
        """The numbers of steps of each phase, and the temperatures."""
        self.check()
        cooling = self.cooling
        if cooling is None:
            cooling = Geometric.over(max(self.warmup, 1), 4.0 if self.warmup else 1.0)
        return Plan(cooling, self.warmup, self.tuning, self.draws, self.quench)

    def run(
        self,
        observed: Ratings,
        max_rank: int,
        *,
        seed: int,
        asked: tuple[IntArray, IntArray] | None = None,
        threads: int = 1,
        observer: Observer = silent,
    ) -> JumpRun:
        """The posterior over the rank given these ratings, and its predictions for the pairs `asked`."""
        plan = self.plan()
        check_int("max_rank", max_rank, least=1)
        if not observed.standard_deviation:
            raise DataError(
                f"all ratings are {observed.values[0]:g}: there is nothing to factor", expected="ratings that differ"
            )
        # The rank is at most the number of rows or columns.
        max_rank = min(max_rank, observed.n_users, observed.n_items)
        target = rank_target.RankTarget.of(observed, max_rank)
        bridge = AnnealedBirth(target, threads, self.bridge) if self.births == "annealed" else None
        within = rank_target.within_move(self.within, threads)
        sampler = JumpSampler(self, target, self._pairs(target), within, bridge, plan, observed.standard_deviation)
        kept, rng = _Predictions(observed, asked, threads), generator(seed)
        schedule = Schedule(1, plan.before_draws, plan.draws)
        (chain,) = sample(
            sampler, rng, schedule, keeps=[kept], phase="jumping", reported=["rank"], threads=1, observer=observer
        )
        last, cooled = chain.last, list[Stats]()
        if plan.quench:
            last, cooled = ascend(sampler, last, rng, steps=plan.quench, phase="cooling", observer=observer)
        steps = [*chain.trace, *cooled]
        trace = {name: np.array([stats[name] for stats in steps]) for name in steps[0]}
        return JumpRun(np.array(chain.draws), max_rank, trace, plan, last.state.precisions, kept.mean())

    def _pairs(self, target: rank_target.RankTarget) -> Sequence[MovePair[rank_target.RankState, Any, Any]]:
        if self.births != "blind":
            return [InformedBirth(target)]
        # k' is uniform on 1 ... k_max: all differences are equally likely, and none goes beyond the ends.
        return [BlindBirth(target, columns) for columns in range(1, max(target.max_rank, 2))]


@dataclass(frozen=True, eq=False)
class JumpRun:
    """The result of a chain."""

    ranks: IntArray  # of the draws at T = 1
    max_rank: int
    trace: Mapping[str, DoubleArray]  # one entry per step, of all phases
    plan: Plan
    precisions: rank_target.Precisions
    predicted: FloatArray | None  # the posterior mean of each queried pair

    @property
    def posterior(self) -> dict[int, float]:
        """The share of the draws with each rank that occurred."""
        values, times = np.unique(self.ranks, return_counts=True)
        return {int(value): float(n) / len(self.ranks) for value, n in zip(values, times, strict=True)}

    @property
    def rank(self) -> int:
        """The most frequent rank; the smallest in case of ties."""
        posterior = self.posterior
        return max(posterior, key=lambda rank: (posterior[rank], -rank))

    @property
    def cooled_rank(self) -> int | None:
        """The rank at the end of cooling to nearly 0, which only optimises."""
        return int(self.trace["rank"][-1]) if self.plan.quench else None


@dataclass(eq=False)
class _Predictions:
    """Sums the predictions of draws, so that none has to be kept."""

    observed: Ratings
    asked: tuple[IntArray, IntArray] | None
    threads: int
    total: DoubleArray = field(default_factory=lambda: np.zeros(0))
    n: int = 0

    def __call__(self, walker: Walker, number: int) -> int:
        state = walker.state
        if self.asked is not None:
            users, items = self.asked
            scores = score_pairs(state.users, users, state.items, items, 0.0, self.threads).astype(np.float64)
            self.total = scores if self.n == 0 else self.total + scores
            self.n += 1
        return state.rank

    def mean(self) -> FloatArray | None:
        """The mean predictions in units of the ratings, within their range."""
        if self.asked is None:
            return None
        mean = self.observed.mean + self.observed.standard_deviation * self.total / self.n
        return np.clip(mean, *self.observed.range).astype(np.float32)
