"""How many factors? Reversible jumps, shrinking priors, or a grid: each on the same training ratings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from tastespace import threads as thread_counts
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split, random_split
from tastespace.errors import DataError, InvalidParameterError
from tastespace.evaluation.rank_choice import RankChoice, RankChoices, RankTrace, mean_over_chains
from tastespace.evaluation.rating import rmse
from tastespace.inference.trace import NOISE
from tastespace.models import BPMF
from tastespace.models.factorization.jump.run import ReversibleJump
from tastespace.models.parameters import choice, whole_number
from tastespace.progress import Observer, Progress, silent
from tastespace.randomness import resolve

RankMethod = Literal["reversible-jump", "shrinkage", "ard", "grid"]
METHODS: tuple[RankMethod, ...] = get_args(RankMethod)
PRIORS: Mapping[str, str] = {"shrinkage": "cumulative", "ard": "ard"}
GRID = (1, 2, 4, 8, 16, 32, 64)
MAX_RANK = 50
SHARE = 0.1
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
    share: float = SHARE,
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
    share: float = SHARE,
    seed: int = 0,
    threads: int | None = None,
    observer: Observer = silent,
) -> RankChoices:
    """Choose the number of factors in several ways (by default all) on the same split; see `choose_rank`."""
    wanted = available_methods() if methods is None else methods
    for method in wanted:
        choice("method", method, METHODS)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidParameterError(f"methods is {list(wanted)!r}; expected some of {', '.join(METHODS)}, each once")
    whole_number("max_rank", max_rank, least=1)
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
        whole_number("ranks", rank, least=1)
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
    inner = random_split(question.split.train, SHARE, seed=question.seed)
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
