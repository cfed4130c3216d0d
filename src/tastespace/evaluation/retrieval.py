"""Quality and speed of an index for the users of a recommender, compared with scans of all items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tastespace import threads as thread_counts
from tastespace.arrays import FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.resampling import counted
from tastespace.index.index import Index
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import BASELINE, N_TH, Truth, time_batch, time_single
from tastespace.index.tuner import Tuned, tune
from tastespace.models.base.posterior import Belief, People
from tastespace.models.base.recommender import Recommender
from tastespace.parameters import check_int, check_number
from tastespace.progress import Observer, silent
from tastespace.randomness import generator
from tastespace.tables import ShownAsText, TextTable

USERS, STRANGERS = 1000, 500  # at most
BLOCK = 1 << 22  # coordinates of queries made at once
KNOWN_SHARE = (0.1, 0.9)  # of a user's ratings, as a new user's history


@dataclass(frozen=True, eq=False)
class SampledQueries:
    """Query vectors of users known from training, then of new users with a history."""

    vectors: FloatMatrix
    n_users: int
    n_strangers: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about these queries."""
        if self.n_strangers:
            return ()
        return ("the model was saved without ratings to make new users from, so only known users were measured",)


def item_vectors(recommender: Recommender) -> FloatMatrix:
    """The vectors that an index is built over; a model with other scores raises an error."""
    recommender.require_fitted()
    vectors = recommender.posterior_.item_vectors
    if vectors is None:
        raise InvalidParameterError(f"{type(recommender).__name__} {recommender.posterior_.no_index}")
    return vectors


def sampled_queries(
    recommender: Recommender, *, users: int = USERS, strangers: int = STRANGERS, seed: int = 0
) -> SampledQueries:
    """Realistic queries: of known users, and of new ones, which are other users with some of their ratings.

    `users` and `strangers` are maxima. A model without its ratings has no new users; one that also needs them to answer
    for known users raises an error.
    """
    n_dimensions, posterior = item_vectors(recommender).shape[1], recommender.posterior_
    ratings, rng = recommender.ratings_, generator(seed)
    if not posterior.keeps_users and not len(ratings):
        raise InvalidParameterError(
            f"this {type(recommender).__name__} was saved without its ratings, so there are no users to measure; "
            "expected a model saved with them"
        )
    order = rng.permutation(ratings.n_users).astype(np.int32)
    known = np.sort(order[:users])
    # Other users than those above, as long as there are any.
    met = np.sort(np.roll(order, -users)[:strangers]) if len(ratings) else order[:0]
    people = [People.known(rows, ratings.by_user) for rows in _blocks(known, n_dimensions)]
    people += [People.new_users(_part_of(ratings.by_user.take(rows), rng)) for rows in _blocks(met, n_dimensions)]
    beliefs = (posterior.believe(some, thread_counts.resolve(recommender.threads)) for some in people)
    return SampledQueries(np.concatenate([_query_vectors(belief) for belief in beliefs]), len(known), len(met))


def tune_index(
    recommender: Recommender,
    *,
    accuracy: float | None = None,
    acceptance: float | None = None,
    k: int = 10,
    n_th: int = N_TH,
    latency_ms: float | None = None,
    seconds: float = 60.0,
    structures: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
    observer: Observer = silent,
) -> Tuned:
    """The fastest index that is accurate enough for the users of this recommender and for new users (see `tune`).

    Assign it to `recommender.index_`, or keep it beside a saved model with `tastespace.artifact.save_index`.
    """
    queries = sampled_queries(recommender, seed=seed)
    tuned = tune(
        item_vectors(recommender),
        queries.vectors,
        accuracy=accuracy,
        acceptance=acceptance,
        k=k,
        n_th=n_th,
        latency_ms=latency_ms,
        seconds=seconds,
        structures=structures,
        seed=seed,
        threads=threads,
        observer=observer,
    )
    return replace(tuned, notes=queries.notes)


def _query_vectors(belief: Belief) -> FloatMatrix:
    queries = belief.queries if belief.chosen is None else belief.chosen.queries_of_choices
    assert queries is not None  # There are item vectors.
    return np.asarray(queries.vectors, np.float32)


def _blocks(rows: IntArray, n_dimensions: int) -> list[IntArray]:
    """A block of users at a time: beliefs of many draws are large."""
    step = max(1, BLOCK // max(n_dimensions, 1))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _part_of(ratings: CSR, rng: np.random.Generator) -> CSR:
    """A random part of each row, small for some users and large for others."""
    rows = ratings.rows()
    shares = rng.uniform(*KNOWN_SHARE, len(ratings))
    return ratings.masked(rng.random(len(rows)) < shares[rows])


@dataclass(frozen=True, repr=False)
class RetrievalReport(ShownAsText):
    """Accuracy of an index on the true best k items of known and new users, and its speed-up over scans.

    Speed-ups are medians of ratios, with all contenders taking turns on one thread: over numpy's scan, and over the
    exact scan (`_over_exact`); for single queries, and for many in one call (`batched_`).
    """

    index: str  # description
    n_items: int
    n_dimensions: int
    n_users: int
    n_strangers: int
    k: int
    n_th: int
    accuracy: float  # the share of the true best k that is found
    acceptance: float  # the share of queries whose worst suggestion is one of the true best n_th
    worst: int  # the largest true position of a worst suggestion
    worst_99: int  # 99 of 100 queries are at most here
    worst_median: int
    microseconds: float  # of a single query
    speedup: float
    speedup_over_exact: float
    batched_microseconds: float
    batched_speedup: float
    batched_speedup_over_exact: float
    n_bytes: int  # of the index, without the item vectors
    baseline: str = BASELINE

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def table(self) -> TextTable:
        """All figures, one per line."""
        rows = {
            "accuracy": f"{self.accuracy:.4f}",
            f"acceptance (within the best {self.n_th})": f"{self.acceptance:.4f}",
            "worst suggestion: median position": f"{self.worst_median:,}",
            "worst suggestion: position of 99 %": f"{self.worst_99:,}",
            "worst suggestion: largest position": f"{self.worst:,}",
            "one query": f"{self.microseconds:.1f} µs",
            "one query, times faster than numpy": f"{self.speedup:.2f}",
            "one query, times faster than the exact scan": f"{self.speedup_over_exact:.2f}",
            "one of many queries": f"{self.batched_microseconds:.1f} µs",
            "one of many, times faster than numpy": f"{self.batched_speedup:.2f}",
            "one of many, times faster than the exact scan": f"{self.batched_speedup_over_exact:.2f}",
            "memory of the index": f"{self.n_bytes / 1e6:,.1f} MB",
        }
        who = f"{counted(self.n_users, 'user')} and {counted(self.n_strangers, 'new user')}"
        title = f"{self.index}: the best {self.k} of {self.n_items:,} items for {who}"
        return TextTable(title, ("measure", "value"), tuple(rows.items()), f"baseline: {self.baseline}")


def retrieval(
    recommender: Recommender,
    index: Index | None = None,
    *,
    users: int = 500,
    strangers: int = 250,
    k: int = 10,
    n_th: int = N_TH,
    seconds: float = 2.0,
    seed: int = 1,
) -> RetrievalReport:
    """Measure an index, by default the one stored with the recommender, for a number of known and new users.

    New users are other users with a random part of their ratings. `seconds` is how long searches are timed, for single
    and for batched ones each. The tuner draws its queries with the seed 0: another one here gives other queries.
    """
    for name, count, least in (("k", k, 1), ("n_th", n_th, 1), ("users", users, 1), ("strangers", strangers, 0)):
        check_int(name, count, least=least)
    check_number("seconds", seconds, above=0)
    vectors = contiguous(item_vectors(recommender), np.float32)
    index = _stored(recommender) if index is None else index
    if (index.n_items_, index.n_dimensions_) != vectors.shape:
        raise InvalidParameterError(
            f"the index is of {index.n_items_} items in {index.n_dimensions_} dimensions; expected the model's "
            f"{vectors.shape[0]} in {vectors.shape[1]}"
        )
    asked = sampled_queries(recommender, users=users, strangers=strangers, seed=seed)
    # Single queries are timed in this order, mixed at any time.
    queries = asked.vectors[generator(seed).permutation(len(asked.vectors))]
    exact = Exact(threads=recommender.threads).build(vectors)
    found = Truth.of(exact, vectors, queries, k).judge(index.search(queries, k).items)
    timed = {"": time_single, "batched_": time_batch}
    timings = {prefix: time(index, exact, vectors, queries, k, seconds) for prefix, time in timed.items()}
    return RetrievalReport(
        index=index.description,
        n_items=len(vectors),
        n_dimensions=vectors.shape[1],
        n_users=asked.n_users,
        n_strangers=asked.n_strangers,
        k=k,
        n_th=n_th,
        accuracy=found.accuracy,
        acceptance=found.acceptance(n_th),
        worst=int(found.worst.max()),
        worst_99=int(np.quantile(found.worst, 0.99, method="higher")),
        worst_median=int(np.quantile(found.worst, 0.5, method="higher")),
        n_bytes=index.n_bytes,
        **{f"{prefix}{name}": value for prefix, timing in timings.items() for name, value in vars(timing).items()},
    )


def _stored(recommender: Recommender) -> Index:
    if recommender.index_ is None:
        raise InvalidParameterError(
            "this model has no index; expected one as an argument, or a model indexed with 'tastespace index'"
        )
    return recommender.index_.index
