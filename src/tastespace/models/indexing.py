"""An index for a fitted recommender: which queries it will get, and the tuner's choice for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace import randomness
from tastespace import threads as thread_counts
from tastespace.arrays import FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.errors import InvalidParameterError
from tastespace.index.measures import N_TH
from tastespace.index.tuning import Tuned, tune
from tastespace.models.posterior import InnerProduct, Posterior, Remembers, Reweighs
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer, silent

USERS, STRANGERS = 1000, 500  # at most
BLOCK = 1 << 22  # coordinates of queries made at once
KNOWN_SHARE = (0.1, 0.9)  # of a user's ratings, as a stranger's history


@dataclass(frozen=True, eq=False)
class SampledQueries:
    """Query vectors of users as training knows them, then of strangers with a history."""

    vectors: FloatMatrix
    n_users: int
    n_strangers: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about them."""
        if self.n_strangers:
            return ()
        return ("the model has no ratings to make strangers of, so that only known users were asked about",)


def item_vectors(recommender: Recommender) -> FloatMatrix:
    """What an index is built over; a model that scores otherwise is an error."""
    recommender.require_fitted()
    posterior = recommender.posterior_
    if not isinstance(posterior, InnerProduct):
        raise InvalidParameterError(
            f"{type(recommender).__name__} has no item vectors, so that no index can search them; expected a model "
            "that scores by inner products, such as ALS, BPMF or ImplicitALS"
        )
    return posterior.item_vectors()


def sampled_queries(
    recommender: Recommender, *, users: int = USERS, strangers: int = STRANGERS, seed: int = 0
) -> SampledQueries:
    """Queries as they will come: of users, and of strangers, who are other users with a random part of their ratings.

    At most so many of each. A model without its ratings has no strangers, and one that answers from them nobody at all,
    which is an error.
    """
    item_vectors(recommender)
    posterior: Posterior[Any] = recommender.posterior_
    ratings, rng = recommender.ratings_, randomness.generator(seed)
    if isinstance(posterior, Remembers) and not len(ratings):
        raise InvalidParameterError(
            f"this {type(recommender).__name__} was saved without its ratings, so that there is nobody to ask about; "
            "expected a model saved with them"
        )
    order = rng.permutation(ratings.n_users).astype(np.int32)
    threads = thread_counts.resolve(recommender.threads)
    known = np.sort(order[:users])
    parts = [_query_vectors(posterior, posterior.known(rows, threads)) for rows in _blocks(known, posterior)]
    # Others than those above, as long as there are any.
    met = np.sort(np.roll(order, -users)[:strangers]) if len(ratings) else order[:0]
    for rows in _blocks(met, posterior):
        history = _part_of(ratings.by_user.take(rows), rng)
        belief = posterior.fold_in(history, threads)
        if isinstance(posterior, Reweighs):
            belief = posterior.reweighed(belief, _nothing(len(rows)))
        parts.append(_query_vectors(posterior, belief))
    return SampledQueries(np.concatenate(parts), len(known), len(met))


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
    """The fastest index that finds enough for users of this recommender and for strangers (see `tune`).

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


def _query_vectors(posterior: Any, belief: Any) -> FloatMatrix:
    vectors: FloatMatrix = np.asarray(posterior.query_vectors(belief), np.float32)
    return vectors


def _blocks(rows: IntArray, posterior: Any) -> list[IntArray]:
    """Some users at a time: beliefs of many draws are large."""
    step = max(1, BLOCK // max(posterior.item_vectors().shape[1], 1))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _nothing(n: int) -> Compressed:
    """What training has seen of strangers."""
    return Compressed(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def _part_of(ratings: Compressed, rng: Generator) -> Compressed:
    """A random part of each row, some users' small and others' large."""
    rows = ratings.rows()
    shares = rng.uniform(*KNOWN_SHARE, len(ratings))
    kept = rng.random(len(rows)) < shares[rows]
    counts = np.bincount(rows[kept], minlength=len(ratings))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Compressed(offsets, ratings.columns[kept], ratings.values[kept])
