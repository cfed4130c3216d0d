"""Select the number of factors: by reversible jumps, shrinkage priors, or a grid, on the same training ratings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from tastespace import threads as thread_counts
from tastespace.arrays import DoubleArray
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split, random_split
from tastespace.errors import DataError, InvalidParameterError
from tastespace.evaluation.metrics.rating import rmse
from tastespace.evaluation.resampling import UNDEFINED, figure
from tastespace.inference.transition import NOISE
from tastespace.models import Recommender
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.rank.reversible_jump import ReversibleJump
from tastespace.parameters import check_int, check_option
from tastespace.progress import Observer, silent
from tastespace.randomness import resolve
from tastespace.selection.trials import Outcome, Task, renamed, run
from tastespace.tables import TableResult, TextTable

RankMethod = Literal["reversible-jump", "shrinkage", "ard", "grid"]
METHODS: tuple[RankMethod, ...] = get_args(RankMethod)
PRIORS: Mapping[str, str] = {"shrinkage": "cumulative", "ard": "ard"}
GRID = (1, 2, 4, 8, 16, 32, 64)
MAX_RANK = 50
RANK_SHARE = 0.1
ACTIVE = "active factors"  # statistic of a shrinkage prior in each sweep


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The trace of a method, one entry per step."""

    loss: DoubleArray  # per rating: squared error, with the penalty of the factors where the method has one
    rank: DoubleArray
    temperature: DoubleArray | None = None
    first: int = 0  # the first step that counts
    last: int | None = None  # the first step that no longer counts

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        found: dict[str, Any] = {"loss": self.loss.tolist(), "rank": self.rank.tolist(), "first": self.first}
        found |= {} if self.last is None else {"last": self.last}
        return found | ({} if self.temperature is None else {"temperature": self.temperature.tolist()})


@dataclass(frozen=True, eq=False)
class RankChoice:
    """The number of factors that a method selects, and its error."""

    method: str
    rank: int
    rmse: float  # on the held-out ratings
    seconds: float
    posterior: Mapping[int, float] | None = None  # over the rank, if the method has one
    tried: Mapping[int, float] | None = None  # RMSE of each rank on a part of the training ratings, for a grid
    cooled_rank: int | None = None  # the rank after cooling on towards 0, which only optimizes
    trace: RankTrace | None = None

    @property
    def probability(self) -> float | None:
        """The probability of the rank, if the method has a posterior."""
        return None if self.posterior is None else self.posterior.get(self.rank, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        found: dict[str, Any] = {name: getattr(self, name) for name in ("method", "rank", "rmse", "seconds")}
        for name, shares in (("posterior", self.posterior), ("tried", self.tried)):
            if shares is not None:
                found[name] = {str(rank): value for rank, value in sorted(shares.items())}
        if self.cooled_rank is not None:
            found["cooled_rank"] = self.cooled_rank
        return found if self.trace is None else found | {"trace": self.trace.to_dict()}

    def __str__(self) -> str:
        probability = "" if self.probability is None else f" (probability {self.probability:.2f})"
        return f"{self.method}: rank {self.rank}{probability}, RMSE {self.rmse:.4f}, {self.seconds:.1f} s"


@dataclass(frozen=True, eq=False, repr=False)
class RankChoices(TableResult[RankChoice]):
    """Several methods on the same split; `choices["grid"]` is one of them."""

    key: ClassVar[str] = "method"

    n_train: int
    n_test: int

    @property
    def best(self) -> RankChoice:
        """The choice with the smallest error on held-out ratings."""
        return min(self.entries, key=lambda entry: entry.rmse)

    def records(self) -> list[dict[str, Any]]:
        """One row per method."""
        return [entry.to_dict() for entry in self]

    def schema(self) -> dict[str, Any]:
        """Method, rank, rmse, seconds."""
        return {"method": pl.String, "rank": pl.Int64, "rmse": pl.Float64, "seconds": pl.Float64}

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {**super().to_dict(), "train": self.n_train, "test": self.n_test}

    def table(self) -> TextTable:
        """Selected rank, its probability, error, seconds."""

        def row(entry: RankChoice) -> tuple[str, ...]:
            likely = UNDEFINED if entry.probability is None else f"{entry.probability:.2f}"
            return entry.method, str(entry.rank), likely, figure(entry.rmse), f"{entry.seconds:.1f}"

        title = f"the number of factors, chosen on {self.n_train:,} ratings; errors on {self.n_test:,} others"
        return TextTable(title, ("method", "rank", "probability", "RMSE", "seconds"), tuple(map(row, self)))


def choose_rank(
    ratings: Ratings | Split,
    method: RankMethod = "reversible-jump",
    *,
    max_rank: int = MAX_RANK,
    ranks: Sequence[int] | None = None,
    jumps: ReversibleJump | None = None,
    share: float = RANK_SHARE,
    seed: int = 0,
    threads: int | None = None,
    observer: Observer = silent,
) -> RankChoice:
    """Estimate the number of factors of ratings, with the error on held-out ratings.

    `ratings` are split at random, with a `share` of them held out; or they are a `Split` already. Held-out ratings are
    only used to measure the error, never to choose. `method` is

    - "reversible-jump": the rank is a parameter like all others, and has a posterior, whose mode is taken; the error is
      that of the posterior mean over all draws, whatever their rank. `jumps` has its parameters (`ReversibleJump`).
    - "shrinkage", "ard": BPMF with `n_factors="auto"`, cumulative shrinkage or automatic relevance determination.
    - "grid": BPMF with each of `ranks` (powers of two up to `max_rank`), the best on a tenth of the training ratings
      taken, and fitted again to all of them.
    """
    options: dict[str, Any] = {"max_rank": max_rank, "ranks": ranks, "jumps": jumps, "share": share, "seed": seed}
    return compare_ranks(ratings, [method], threads=threads, observer=observer, **options).entries[0]


def compare_ranks(
    ratings: Ratings | Split,
    methods: Sequence[RankMethod] | None = None,
    *,
    max_rank: int = MAX_RANK,
    ranks: Sequence[int] | None = None,
    jumps: ReversibleJump | None = None,
    share: float = RANK_SHARE,
    seed: int = 0,
    threads: int | None = None,
    observer: Observer = silent,
) -> RankChoices:
    """Select the number of factors by several methods (by default all) on the same split; see `choose_rank`."""
    wanted = METHODS if methods is None else methods
    for method in wanted:
        check_option("method", method, METHODS)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidParameterError(f"methods is {list(wanted)!r}; expected some of {', '.join(METHODS)}, each once")
    check_int("max_rank", max_rank, least=1)
    jumps = ReversibleJump() if jumps is None else jumps
    jumps.plan()  # A mistake is reported before other methods have run.
    split = _split(ratings, share, seed)
    chooser = _Chooser(split, max_rank, _grid(ranks, max_rank, split.train), jumps, resolve(seed), threads, observer)
    return RankChoices(tuple(map(chooser.choice, wanted)), len(split.train), len(split.test))


def _split(ratings: Ratings | Split, share: float, seed: int) -> Split:
    if not isinstance(ratings, Ratings | Split):
        raise InvalidParameterError(f"ratings are {type(ratings).__name__}; expected Ratings or a Split of them")
    split = ratings if isinstance(ratings, Split) else random_split(ratings, share, seed=resolve(seed))
    if split.train.kind in CHOICES:
        raise DataError(
            f"the ratings are {split.train.kind}: an item that was not chosen need not be disliked",
            expected="ratings such as stars, or yes and no",
        )
    return split


def _grid(ranks: Sequence[int] | None, max_rank: int, train: Ratings) -> list[int]:
    highest = min(max_rank, train.n_users, train.n_items)
    if ranks is None:
        return [rank for rank in GRID if rank <= highest]
    for rank in ranks:
        check_int("ranks", rank, least=1)
    if not ranks or max(ranks) > highest:
        raise InvalidParameterError(f"ranks is {list(ranks)!r}; expected numbers of factors from 1 to {highest}")
    return sorted(set(ranks))


@dataclass(frozen=True, eq=False)
class _Chooser:
    """The arguments of every method."""

    split: Split
    max_rank: int
    ranks: Sequence[int]
    jumps: ReversibleJump
    seed: int
    threads: int | None
    observer: Observer

    def choice(self, method: RankMethod) -> RankChoice:
        """The choice of a method, and its time."""
        begun, observer = time.perf_counter(), renamed(method, self.observer)
        others = {"reversible-jump": self._by_jumps, "grid": self._by_grid}
        found = others[method](observer) if method in others else self._by_shrinkage(method, observer)
        return replace(found, seconds=time.perf_counter() - begun)

    def _by_jumps(self, observer: Observer) -> RankChoice:
        train, test = self.split.train, self.split.test
        asked = train.users.rows_of(test.user_ids()), train.items.rows_of(test.item_ids())
        threads = thread_counts.resolve(self.threads)
        made = self.jumps.run(train, self.max_rank, seed=self.seed, asked=asked, threads=threads, observer=observer)
        assert made.predicted is not None
        path, plan = made.trace, made.plan
        trace = RankTrace(path["loss"], path["rank"], path["temperature"], plan.before_draws, plan.until_quench)
        error = rmse(made.predicted, test.values)
        return RankChoice(
            "reversible-jump", made.rank, error, 0.0, made.posterior, cooled_rank=made.cooled_rank, trace=trace
        )

    def _by_shrinkage(self, method: str, observer: Observer) -> RankChoice:
        settings = {"n_factors": "auto", "prior": f"{PRIORS[method]}:max_factors={self.max_rank}"}
        outcome = self._fitted(self.split, observer, **settings)
        assert isinstance(outcome.recommender, BPMF)
        found = outcome.recommender.rank_
        rank = int(found.n_factors)
        return RankChoice(method, rank, outcome.value, 0.0, dict(found.posterior), trace=_trace(outcome, rank))

    def _by_grid(self, observer: Observer) -> RankChoice:
        inner = random_split(self.split.train, RANK_SHARE, seed=self.seed)
        tried = {rank: self._with_rank(rank, inner, observer).value for rank in self.ranks}
        best = min(tried, key=lambda rank: (tried[rank], rank))
        outcome = self._with_rank(best, self.split, observer)
        return RankChoice("grid", best, outcome.value, 0.0, tried=tried, trace=_trace(outcome, best))

    def _with_rank(self, rank: int, split: Split, observer: Observer) -> Outcome:
        return self._fitted(split, renamed(f"{rank} factors", observer), n_factors=rank)

    def _fitted(self, split: Split, observer: Observer, **settings: Any) -> Outcome:
        task = Task(BPMF, {"seed": self.seed, "threads": self.threads, **settings}, _error)
        return run(task, split, observer)


def _error(model: Recommender, split: Split, observer: Observer = silent) -> float:
    return rmse(model.predict(split.test.user_ids(), split.test.item_ids()).mean, split.test.values)


def _trace(outcome: Outcome, rank: int) -> RankTrace | None:
    """The trace: the noise variance is the loss per rating, and a fixed rank is the same throughout."""
    assert outcome.recommender is not None
    trace = getattr(outcome.recommender.posterior_, "trace", None)
    if trace is None:
        return None
    loss = _mean_over_chains(trace.quantities[NOISE] ** 2)
    active = trace.quantities.get(ACTIVE)
    ranks = np.full(len(loss), float(rank)) if active is None else _mean_over_chains(active)
    return RankTrace(loss, ranks, first=trace.warmup)


def _mean_over_chains(values: DoubleArray) -> DoubleArray:
    """One number per sweep."""
    return np.asarray(np.mean(values, axis=0), np.float64)
