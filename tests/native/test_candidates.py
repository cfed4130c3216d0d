"""The ranking of candidates and the products of queries, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import _native
from tastespace.randomness import generator


def ranked(vectors, query, candidates, k, excluded=()):
    """What the kernel should find: best first, of equal scores the lower item, padded."""
    rows = np.array([row for row in candidates if row >= 0 and row not in excluded], np.int64)
    scores = vectors[rows].astype(np.float64) @ query
    order = np.lexsort((rows, -scores))[:k]
    items, values = np.full(k, -1), np.full(k, -np.inf)
    items[: len(order)], values[: len(order)] = rows[order], scores[order]
    return items, values


@given(
    seed=st.integers(0, 999),
    n_dimensions=st.sampled_from([1, 7, 16, 20, 33, 200]),
    k=st.integers(1, 12),
    threads=st.integers(1, 3),
    shared=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_best_candidates(seed, n_dimensions, k, threads, shared):
    rng = generator(seed)
    # Whole numbers: their sums are exact, and many of them equal.
    vectors = rng.integers(-2, 3, (60, n_dimensions)).astype(np.float32)
    queries = rng.integers(-2, 3, (20, n_dimensions)).astype(np.float32)
    lists = [rng.choice(60, rng.integers(0, 30), replace=False).astype(np.int32) for _ in queries]
    lists = [np.where(rng.random(len(rows)) < 0.1, -1, rows).astype(np.int32) for rows in lists]
    if shared:
        lists = [lists[0]] * len(queries)
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in lists])])
    forbidden = [np.flatnonzero(rng.random(60) < 0.2).astype(np.int32) for _ in queries]
    items, scores = np.empty((20, k), np.int32), np.empty((20, k), np.float32)
    _native.rank_candidates(
        vectors,
        queries,
        lists[0] if shared else np.concatenate(lists),
        items,
        scores,
        candidate_offsets=None if shared else offsets,
        excluded_offsets=np.concatenate([[0], np.cumsum([len(rows) for rows in forbidden])]),
        excluded=np.concatenate(forbidden),
        threads=threads,
    )
    for row, query in enumerate(queries):
        expected_items, expected_scores = ranked(vectors, query, lists[row], k, set(forbidden[row].tolist()))
        assert_array_equal(items[row], expected_items)
        assert_array_equal(scores[row], expected_scores)


@given(n=st.sampled_from([1, 3, 20, 200]), n_out=st.sampled_from([1, 5, 16, 20, 64, 77]), threads=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_products(n, n_out, threads):
    rng = generator(n * 100 + n_out)
    queries, matrix = rng.standard_normal((37, n), np.float32), rng.standard_normal((n, n_out), np.float32)
    found = np.empty((37, n_out), np.float32)
    _native.project(queries, matrix, found, threads=threads)
    assert_allclose(found, queries.astype(np.float64) @ matrix, rtol=1e-4, atol=1e-4)
    alone = np.empty((1, n_out), np.float32)
    _native.project(queries[5:6], matrix, alone)
    assert_array_equal(alone[0], found[5])  # the same, whoever asks beside


def test_what_does_not_fit_is_refused():
    vectors, queries = np.zeros((5, 3), np.float32), np.zeros((2, 3), np.float32)
    items, scores = np.empty((2, 4), np.int32), np.empty((2, 4), np.float32)

    def rank(candidates, **more):
        _native.rank_candidates(vectors, queries, np.array(candidates, np.int32), items, scores, **more)

    with pytest.raises(ValueError, match="candidates: rows of vectors"):
        rank([0, 5])
    with pytest.raises(ValueError, match="offsets: one more than rows"):
        rank([0, 1], candidate_offsets=np.array([0, 2]))
    with pytest.raises(ValueError, match="out: one row per query"):
        _native.project(queries, np.zeros((3, 2), np.float32), np.empty((2, 3), np.float32))


@given(n=st.integers(0, 100), share=st.sampled_from([0.0, 0.02, 0.5, 1.0]), room=st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_rows_of_flags(n, share, room):
    flags = generator(n).random(n) < share
    out = np.full(room, -7, np.int32)
    found = _native.set_rows(flags.view(np.uint8), out)
    expected = np.flatnonzero(flags)
    if len(expected) > room:
        assert found == -1
    else:
        assert_array_equal(out[:found], expected)
        assert (out[found:] == -7).all()
