"""How many factors? Reversible jumps, shrinking priors, or a grid: each on the same training ratings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from tastespace import threads as thread_counts
from tastespace.arrays import DoubleArray
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split, random_split
from tastespace.errors import DataError, InvalidParameterError
from tastespace.evaluation.metrics.rating import rmse
from tastespace.evaluation.tables import UNDEFINED, Table, figure
from tastespace.inference.trace import NOISE
from tastespace.models import BPMF
from tastespace.models.base.parameters import check_int, check_option
from tastespace.models.factorization.rank.reversible_jump import ReversibleJump
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve


@dataclass(frozen=True, eq=False)
class RankTrace:
    """The way there, one entry a step."""

    loss: DoubleArray  # a rating: squared error, with the penalty of the factors where the method has one
    rank: DoubleArray
    temperature: DoubleArray | None = None
    first: int = 0  # the first step that counts
    last: int | None = None  # the first that counts no longer

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {"loss": self.loss.tolist(), "rank": self.rank.tolist(), "first": self.first}
        found |= {} if self.last is None else {"last": self.last}
        return found | ({} if self.temperature is None else {"temperature": self.temperature.tolist()})


@dataclass(frozen=True, eq=False)
class RankChoice:
    """The number of factors that a method takes, and what that is worth."""

    method: str
    rank: int
    rmse: float  # on the held-out ratings
    seconds: float
    posterior: Mapping[int, float] | None = None  # over the rank, where the method has one
    tried: Mapping[int, float] | None = None  # RMSE of each rank on a part of the training ratings, of a grid
    cooled_rank: int | None = None  # where cooling on towards 0 led, which only optimises
    trace: RankTrace | None = None

    @property
    def probability(self) -> float | None:
        """Of the rank, where the method has a posterior."""
        return None if self.posterior is None else self.posterior.get(self.rank, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {
            "method": self.method,
            "rank": self.rank,
            "rmse": self.rmse,
            "seconds": self.seconds,
        }
        for name in ("posterior", "tried"):
            shares: Mapping[int, float] | None = getattr(self, name)
            if shares is not None:
                found[name] = {str(rank): value for rank, value in sorted(shares.items())}
        if self.cooled_rank is not None:
            found["cooled_rank"] = self.cooled_rank
        return found if self.trace is None else found | {"trace": self.trace.to_dict()}

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" (probability {self.probability:.2f})"
        return f"{self.method}: rank {self.rank}{sure}, RMSE {self.rmse:.4f}, {self.seconds:.1f} s"


@dataclass(frozen=True, eq=False)
class RankChoices(Sequence[RankChoice]):
    """Several methods on the same split."""

    entries: tuple[RankChoice, ...]
    n_train: int
    n_test: int

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[RankChoice]:
        return iter(self.entries)

    def __getitem__(self, which: Any) -> Any:
        """By its place, or by the name of the method."""
        if not isinstance(which, str):
            return self.entries[which]
        for entry in self.entries:
            if entry.method == which:
                return entry
        raise InvalidParameterError(
            f"there is no method {which!r} among these; expected one of "
            f"{', '.join(entry.method for entry in self.entries)}"
        )

    @property
    def best(self) -> RankChoice:
        """The one with the least error on held-out ratings."""
        return min(self.entries, key=lambda entry: entry.rmse)

    def table(self) -> Table:
        """Chosen rank, how sure that is, error, seconds."""
        rows = tuple(
            (
                entry.method,
                str(entry.rank),
                UNDEFINED if entry.probability is None else f"{entry.probability:.2f}",
                figure(entry.rmse),
                f"{entry.seconds:.1f}",
            )
            for entry in self.entries
        )
        title = f"the number of factors, chosen on {self.n_train:,} ratings; errors on {self.n_test:,} others"
        return Table(title, ("method", "rank", "probability", "RMSE", "seconds"), rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": [entry.to_dict() for entry in self], "train": self.n_train, "test": self.n_test}

    def __str__(self) -> str:
        return str(self.table())


def mean_over_chains(values: DoubleArray) -> DoubleArray:
    """One number a sweep."""
    return np.asarray(np.mean(values, axis=0), np.float64)


RankMethod = Literal["reversible-jump", "shrinkage", "ard", "grid"]
METHODS: tuple[RankMethod, ...] = get_args(RankMethod)
PRIORS: Mapping[str, str] = {"shrinkage": "cumulative", "ard": "ard"}
GRID = (1, 2, 4, 8, 16, 32, 64)
MAX_RANK = 50
RANK_SHARE = 0.1
ACTIVE = "active factors"  # what a shrinking prior tells of each sweep


@dataclass(frozen=True, eq=False)
class _Question:
    """What every method is given."""

    split: Split
    max_rank: int
    ranks: Sequence[int]
    jumps: ReversibleJump
    seed: int
    threads: int | None
    observer: Observer


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
    """The number of factors that ratings have use for, and the error on held-out ratings that goes with it.

    `ratings` are split at random, a `share` of them being held out; or they are a `Split` already. What is held out is
    measured on, and never chosen by. `method` is

    - "reversible-jump": the rank is an unknown like all others, and has a posterior, whose mode is taken; the error is
      that of the posterior mean over all draws, whatever their rank. `jumps` has its parameters (`ReversibleJump`).
    - "shrinkage", "ard": BPMF with `n_factors="auto"`, cumulative shrinkage or automatic relevance determination.
    - "grid": BPMF with each of `ranks` (powers of two up to `max_rank`), the best on a tenth of the training ratings
      taken, and fitted again to all of them.
    """
    return compare_ranks(
        ratings,
        [method],
        max_rank=max_rank,
        ranks=ranks,
        jumps=jumps,
        share=share,
        seed=seed,
        threads=threads,
        observer=observer,
    ).entries[0]


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
    """Choose the number of factors in several ways (by default all) on the same split; see `choose_rank`."""
    wanted = available_methods() if methods is None else methods
    for method in wanted:
        check_option("method", method, METHODS)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidParameterError(f"methods is {list(wanted)!r}; expected some of {', '.join(METHODS)}, each once")
    check_int("max_rank", max_rank, least=1)
    jumps = ReversibleJump() if jumps is None else jumps
    jumps.plan()  # A mistake is told before other methods have run.
    split = _split(ratings, share, seed)
    question = _Question(split, max_rank, _grid(ranks, max_rank, split.train), jumps, resolve(seed), threads, observer)
    return RankChoices(
        tuple(_timed(method, question) for method in wanted), n_train=len(split.train), n_test=len(split.test)
    )


def available_methods() -> tuple[RankMethod, ...]:
    """All that can be asked for: shrinking priors where BPMF has them."""
    shrinks = "prior" in {field.name for field in fields(BPMF)}
    return tuple(method for method in METHODS if shrinks or method not in PRIORS)


def _split(ratings: Ratings | Split, share: float, seed: int) -> Split:
    if not isinstance(ratings, Ratings | Split):
        raise InvalidParameterError(f"ratings are {type(ratings).__name__}; expected Ratings or a Split of them")
    split = ratings if isinstance(ratings, Split) else random_split(ratings, share, seed=resolve(seed))
    if split.train.kind in CHOICES:
        raise DataError(
            f"the ratings are {split.train.kind}: who did not choose is not known to dislike",
            expected="ratings such as stars, or yes and no",
        )
    return split


def _grid(ranks: Sequence[int] | None, max_rank: int, train: Ratings) -> list[int]:
    most = min(max_rank, train.n_users, train.n_items)
    if ranks is None:
        return [rank for rank in GRID if rank <= most]
    for rank in ranks:
        check_int("ranks", rank, least=1)
    if not ranks or max(ranks) > most:
        raise InvalidParameterError(f"ranks is {list(ranks)!r}; expected numbers of factors from 1 to {most}")
    return sorted(set(ranks))


def _timed(method: RankMethod, question: _Question) -> RankChoice:
    ways: dict[str, Callable[[str, _Question], RankChoice]] = {
        "reversible-jump": _by_jumps,
        "shrinkage": _by_shrinkage,
        "ard": _by_shrinkage,
        "grid": _by_grid,
    }
    begun = time.perf_counter()
    found = ways[method](method, replace(question, observer=_named(method, question.observer)))
    return replace(found, seconds=time.perf_counter() - begun)


def _by_jumps(method: str, question: _Question) -> RankChoice:
    train, test = question.split.train, question.split.test
    asked = train.users.rows_of(test.user_ids()), train.items.rows_of(test.item_ids())
    run = question.jumps.run(
        train,
        question.max_rank,
        seed=question.seed,
        asked=asked,
        threads=thread_counts.resolve(question.threads),
        observer=question.observer,
    )
    assert run.predicted is not None
    trace = RankTrace(
        run.trace["loss"], run.trace["rank"], run.trace["temperature"], run.plan.before_draws, run.plan.until_quench
    )
    return RankChoice(
        method,
        run.rank,
        rmse(run.predicted, test.values),
        0.0,
        posterior=run.posterior,
        cooled_rank=run.cooled_rank,
        trace=trace,
    )


def _by_shrinkage(method: str, question: _Question) -> RankChoice:
    if method not in available_methods():
        raise InvalidParameterError(
            f"method is {method!r}, and BPMF has no shrinking priors; expected one of {', '.join(available_methods())}"
        )
    model = BPMF(seed=question.seed, threads=question.threads)
    model.set_params(n_factors="auto", most_factors=question.max_rank, prior=PRIORS[method])
    model.fit(question.split.train, observer=question.observer)
    found = cast(Any, model).rank_
    return RankChoice(
        method,
        int(found.n_factors),
        _error(model, question.split.test),
        0.0,
        posterior=dict(found.posterior),
        trace=_trace(model, int(found.n_factors)),
    )


def _by_grid(method: str, question: _Question) -> RankChoice:
    inner = random_split(question.split.train, RANK_SHARE, seed=question.seed)
    tried = {rank: _error(_fitted(rank, inner.train, question), inner.test) for rank in question.ranks}
    best = min(tried, key=lambda rank: (tried[rank], rank))
    model = _fitted(best, question.split.train, question)
    error = _error(model, question.split.test)
    return RankChoice(method, best, error, 0.0, tried=tried, trace=_trace(model, best))


def _fitted(rank: int, train: Ratings, question: _Question) -> BPMF:
    model = BPMF(n_factors=rank, seed=question.seed, threads=question.threads)
    return model.fit(train, observer=_named(f"{rank} factors", question.observer))


def _error(model: BPMF, test: Ratings) -> float:
    return rmse(model.predict(test.user_ids(), test.item_ids()).mean, test.values)


def _trace(model: BPMF, rank: int) -> RankTrace | None:
    """The variance of the noise is the loss a rating; the rank, where it does not change, is the same all the way."""
    trace = getattr(model.posterior_, "trace", None)
    if trace is None:
        return None
    loss = mean_over_chains(trace.quantities[NOISE] ** 2)
    ranks = np.full(len(loss), float(rank))
    if ACTIVE in trace.quantities:
        ranks = mean_over_chains(trace.quantities[ACTIVE])
    return RankTrace(loss, ranks, first=trace.warmup)


def _named(name: str, observer: Observer) -> Observer:
    """Phases of different methods have different names."""

    def named(event: Progress) -> None:
        observer(replace(event, phase=f"{name}: {event.phase}"))

    return named
