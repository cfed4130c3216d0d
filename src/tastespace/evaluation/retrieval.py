"""How good and how fast an index is for the users of a recommender, against scans of all items."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tastespace.arrays import contiguous
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.tables import Table, counted
from tastespace.index.exact import Exact
from tastespace.index.index import Index
from tastespace.index.measures import N_TH
from tastespace.index.timing import BASELINE, time_batch, time_single
from tastespace.index.truth import Truth
from tastespace.models.indexing import item_vectors, sampled_queries
from tastespace.models.parameters import number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.randomness import generator


@dataclass(frozen=True)
class RetrievalReport:
    """What an index finds of the true best k items of users and strangers, and how much faster than scans.

    Speed-ups are medians of ratios, all contenders taking turns on one thread: over numpy's scan, and over the exact
    scan (`_over_exact`); of single queries, and of many in one call (`batched_`).
    """

    index: str  # in words
    n_items: int
    n_dimensions: int
    n_users: int
    n_strangers: int
    k: int
    n_th: int
    accuracy: float  # the share of the true best k that is found
    acceptance: float  # the share of queries whose worst suggestion is one of the true best n_th
    worst: int  # the largest true position of a worst suggestion
    worst_99: int  # 99 of 100 queries have none beyond
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

    def table(self) -> Table:
        """All figures, one a line."""
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
        who = f"{counted(self.n_users, 'user')} and {counted(self.n_strangers, 'stranger')}"
        title = f"{self.index}: the best {self.k} of {self.n_items:,} items for {who}"
        return Table(title, ("measure", "value"), tuple(rows.items()), f"baseline: {self.baseline}")

    def __repr__(self) -> str:
        return str(self.table())


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
    """Measure an index, by default the one that is stored with the recommender, for so many users and strangers.

    Strangers are other users with a random part of their ratings. `seconds` is how long searches are timed, single
    ones and batched ones each. The tuner draws its queries with the seed 0: another one here gives other queries.
    """
    whole_number("k", k, least=1)
    whole_number("n_th", n_th, least=1)
    whole_number("users", users, least=1)
    whole_number("strangers", strangers, least=0)
    number("seconds", seconds, above=0)
    vectors = contiguous(item_vectors(recommender), np.float32)
    index = _stored(recommender) if index is None else index
    if (index.n_items_, index.n_dimensions_) != vectors.shape:
        raise InvalidParameterError(
            f"the index is of {index.n_items_} items in {index.n_dimensions_} dimensions; expected the model's "
            f"{vectors.shape[0]} in {vectors.shape[1]}"
        )
    asked = sampled_queries(recommender, users=users, strangers=strangers, seed=seed)
    # Single ones are timed in this order, some of each kind at any time.
    queries = asked.vectors[generator(seed).permutation(len(asked.vectors))]
    exact = Exact(threads=recommender.threads).build(vectors)
    judged = Truth.of(exact, vectors, queries, k).judge(index.search(queries, k).items)
    single = time_single(index, exact, vectors, queries, k, seconds)
    batched = time_batch(index, exact, vectors, queries, k, seconds)
    return RetrievalReport(
        index=index.description,
        n_items=len(vectors),
        n_dimensions=vectors.shape[1],
        n_users=asked.n_users,
        n_strangers=asked.n_strangers,
        k=k,
        n_th=n_th,
        accuracy=judged.accuracy,
        acceptance=judged.acceptance(n_th),
        worst=int(judged.worst.max()),
        worst_99=int(np.quantile(judged.worst, 0.99, method="higher")),
        worst_median=int(np.quantile(judged.worst, 0.5, method="higher")),
        microseconds=single.microseconds,
        speedup=single.speedup,
        speedup_over_exact=single.speedup_over_exact,
        batched_microseconds=batched.microseconds,
        batched_speedup=batched.speedup,
        batched_speedup_over_exact=batched.speedup_over_exact,
        n_bytes=index.n_bytes,
    )


def _stored(recommender: Recommender) -> Index:
    if recommender.index_ is None:
        raise InvalidParameterError(
            "this model has no index; expected one as an argument, or a model that 'tastespace index' has made one for"
        )
    return recommender.index_.index
