"""Choosing a rank by reversible jumps: what there is to set, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.errors import DataError
from tastespace.inference.drivers import Schedule, ascend, never, sample
from tastespace.inference.samplers.annealing import Cooling, Geometric
from tastespace.inference.samplers.reversible_jump import MovePair
from tastespace.inference.transition import Stats
from tastespace.models.base.parameters import check_int, check_option
from tastespace.models.factorization.rank.births import AnnealedBirth, BlindBirth, InformedBirth
from tastespace.models.factorization.rank.sampler import JumpSampler, Plan, Walker
from tastespace.models.factorization.rank.target import Precisions, RankState, RankTarget
from tastespace.models.factorization.rank.within import GibbsRows, within_move
from tastespace.models.factorization.rows import score_pairs
from tastespace.progress import Observer, silent
from tastespace.randomness import generator

BirthName = Literal["informed", "blind", "annealed"]
WithinName = Literal["gibbs", "heavy-tailed"]


@dataclass(frozen=True, kw_only=True)
class ReversibleJump:
    """The number of factors as one of the unknowns: reversible jumps inside simulated annealing.

    A chain starts hot and with `start_rank` factors, cools to temperature 1 in `warmup` steps (`cooling`), tunes the
    precisions of factors, noise and biases by empirical Bayes for `tuning` steps, and then draws the rank with all
    else, `draws` times. A `quench` of so many steps then cools on, towards the least loss. A step is `sweeps` of moves
    that keep the rank, "gibbs" or "heavy-tailed", and `jumps`, with births that are "informed" or "blind".

    With births that are "annealed", a step at temperature 1 has besides one try by way of a bridge of `bridge` sweeps,
    in which the new factor comes in little by little: slow, but it leads on where ratings are so many that no single
    jump is accepted any longer.
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
        """Refuse what makes no sense."""
        check_option("births", self.births, ["informed", "blind", "annealed"])
        check_option("within", self.within, ["gibbs", "heavy-tailed"])
        check_option("biases", self.biases, [True, False])
        for name, least in (
            ("warmup", 0),
            ("tuning", 0),
            ("draws", 1),
            ("quench", 0),
            ("sweeps", 1),
            ("jumps", 1),
            ("start_rank", 1),
            ("bridge", 1),
        ):
            check_int(name, getattr(self, name), least=least)

    def plan(self) -> Plan:
        """How many steps of what, at which temperatures."""
        self.check()
        cooling = (
            Geometric.over(max(self.warmup, 1), 4.0 if self.warmup else 1.0) if self.cooling is None else self.cooling
        )
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
        """The posterior over the rank given these ratings, and what it predicts for the pairs that are `asked`."""
        plan = self.plan()
        check_int("max_rank", max_rank, least=1)
        if not observed.standard_deviation:
            raise DataError(
                f"all ratings are {observed.values[0]:g}: there is nothing to factor", expected="ratings that differ"
            )
        # A matrix has no more factors than rows or columns.
        max_rank = min(max_rank, observed.n_users, observed.n_items)
        target = RankTarget.of(observed, max_rank)
        sampler = JumpSampler(
            target,
            self._pairs(target),
            within_move(self.within, threads),
            AnnealedBirth(target, GibbsRows(threads), self.bridge) if self.births == "annealed" else None,
            plan,
            self.sweeps,
            self.jumps,
            unit=observed.standard_deviation,
            has_biases=self.biases,
            start_rank=self.start_rank,
        )
        kept = _Predictions(observed, asked, threads)
        rng = generator(seed)
        schedule = Schedule(1, plan.before_draws, plan.draws)
        (chain,) = sample(
            sampler, rng, schedule, keeps=[kept], phase="jumping", reported=["rank"], threads=1, observer=observer
        )
        last, cooled = chain.last, list[Stats]()
        if plan.quench:
            last, cooled = ascend(
                sampler, chain.last, rng, steps=plan.quench, stop=never, phase="cooling", observer=observer
            )
        return JumpRun(
            ranks=np.array(chain.draws),
            max_rank=max_rank,
            trace=_by_name([*chain.trace, *cooled]),
            plan=plan,
            precisions=last.state.precisions,
            predicted=kept.mean(),
        )

    def _pairs(self, target: RankTarget) -> Sequence[MovePair[RankState, Any, Any]]:
        if self.births != "blind":
            return [InformedBirth(target)]
        # k' is uniform on 1 ... k_max: any difference as often as another, and none beyond the ends.
        return [BlindBirth(target, columns) for columns in range(1, max(target.max_rank, 2))]


@dataclass(frozen=True, eq=False)
class JumpRun:
    """What a chain found."""

    ranks: IntArray  # of the draws at T = 1
    max_rank: int
    trace: Mapping[str, DoubleArray]  # one entry a step, of all phases
    plan: Plan
    precisions: Precisions
    predicted: FloatArray | None  # the posterior mean of each pair asked

    @property
    def posterior(self) -> dict[int, float]:
        """The share of the draws with each rank that occurred."""
        values, times = np.unique(self.ranks, return_counts=True)
        return {int(value): float(n) / len(self.ranks) for value, n in zip(values, times, strict=True)}

    @property
    def rank(self) -> int:
        """The most frequent; of equals the smallest."""
        posterior = self.posterior
        return max(posterior, key=lambda rank: (posterior[rank], -rank))

    @property
    def cooled_rank(self) -> int | None:
        """Where cooling to nearly 0 ended, which only optimises."""
        return int(self.trace["rank"][-1]) if self.plan.quench else None


@dataclass(eq=False)
class _Predictions:
    """Adds up what draws predict, so that none has to be kept."""

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
        """In units of the ratings, within their range."""
        if self.asked is None:
            return None
        mean = self.observed.mean + self.observed.standard_deviation * self.total / self.n
        return np.clip(mean, *self.observed.range).astype(np.float32)


def _by_name(trace: Sequence[Stats]) -> dict[str, DoubleArray]:
    return {name: np.array([stats[name] for stats in trace]) for name in trace[0]}
