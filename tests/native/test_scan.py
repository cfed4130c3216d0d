"""The exact scan equals its twin, filters included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import scan as reference

from tastespace import _native
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.search import Excluded, panels_of
from tastespace.index.structures.exact import Exact


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 120),
    n_queries=st.integers(1, 70),
    n_dimensions=st.integers(1, 40),
    k=st.integers(1, 30),
    has_exclusions=st.booleans(),
    has_filter=st.booleans(),
    threads=st.integers(1, 3),
)
def test_equals_its_twin(seed, n_items, n_queries, n_dimensions, k, has_exclusions, has_filter, threads):
    rng = np.random.default_rng(seed)
    # Small integers are exact in float, so that ties are ties in both.
    vectors = rng.integers(-3, 4, (n_items, n_dimensions)).astype(np.float32)
    queries = rng.integers(-3, 4, (n_queries, n_dimensions)).astype(np.float32)
    lists = [np.flatnonzero(rng.random(n_items) < 0.3).astype(np.int32) for _ in range(n_queries)]
    offsets = np.concatenate([[0], np.cumsum([len(entry) for entry in lists])]).astype(np.int64)
    excluded = Excluded(offsets, np.concatenate(lists)) if has_exclusions else None
    allowed = rng.random(n_items) < 0.5 if has_filter else None
    found = Exact(threads=threads).build(vectors).search(queries, k, excluded=excluded, allowed=allowed)
    items, scores = reference.search(vectors, queries, k, lists if has_exclusions else None, allowed)
    np.testing.assert_array_equal(found.items, items)
    np.testing.assert_array_equal(found.scores, scores)


@pytest.mark.parametrize("n_queries", [1, 3, 37, 70])
def test_the_same_bytes_with_any_number_of_threads_and_in_any_company(rng, n_queries):
    vectors, queries = (rng.standard_normal((n, 301)).astype(np.float32) for n in (90, n_queries))
    one = Exact(threads=1).build(vectors)
    found = one.search(queries, 7)
    for threads in (2, 3, 8):
        again = Exact(threads=threads).build(vectors).search(queries, 7)
        np.testing.assert_array_equal(again.items, found.items)
        np.testing.assert_array_equal(again.scores, found.scores)
    alone = np.vstack([one.search(query[None], 7).scores for query in queries])
    np.testing.assert_array_equal(alone, found.scores)


def moments(items, queries, offsets, weights, threads=1):
    found = np.full((2, len(queries), len(items)), np.nan, np.float32)
    panels = panels_of(items.reshape(len(items), items.shape[1] * items.shape[2]))
    _native.scan_moments(panels, queries, len(items), offsets, weights, *found, threads=threads)
    return found


def drawn(rng, n_items, n_queries, n_draws, width):
    """Items, queries, offsets, and weights whose sum is 1."""
    shapes = (n_items, n_draws, width), (n_queries, n_draws, width), (n_queries, n_draws)
    items, queries, offsets = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return items, queries, offsets, rng.dirichlet(np.ones(n_draws), n_queries).astype(np.float32)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(0, 90),
    n_queries=st.integers(0, 40),
    n_draws=st.integers(1, 5),
    width=st.integers(1, 18),
)
def test_moments_equal_their_twin(seed, n_items, n_queries, n_draws, width):
    given = drawn(np.random.default_rng(seed), n_items, n_queries, n_draws, width)
    np.testing.assert_allclose(moments(*given), reference.moments(*given), rtol=1e-4, atol=1e-4)


def test_moments_are_the_same_bytes_with_any_number_of_threads_and_in_any_company(rng):
    items, *asked = drawn(rng, 75, 37, 6, 9)
    found = moments(items, *asked)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(moments(items, *asked, threads=threads), found)
    alone = [moments(items, *(part[q : q + 1] for part in asked))[:, 0] for q in range(37)]
    np.testing.assert_array_equal(np.stack(alone, axis=1), found)
    # A plausible mistake would be noticed: the square of the weighted score.
    queries, offsets, weights = asked
    wrong = np.einsum("qns,qs->qn", np.einsum("nsw,qsw->qns", items, queries) + offsets[:, None], weights) ** 2
    assert np.abs(wrong - found[1]).max() > 0.1


def test_moments_refuse_what_does_not_fit(rng):
    items, queries, offsets, weights = drawn(rng, 20, 3, 4, 5)
    with pytest.raises(ValueError, match="panels"):
        moments(items[:, :3], queries, offsets, weights)
    with pytest.raises(ValueError, match="offsets and weights"):
        moments(items, queries, offsets[:, :3], weights)


def test_never_an_item_that_is_not_a_number(rng):
    vectors = rng.standard_normal((40, 5)).astype(np.float32)
    exact = Exact().build(vectors)
    vectors[[3, 20]] = np.nan
    content = exact.state_.content._replace(built=(panels_of(vectors),))  # which `build` would refuse
    exact.state_ = replace(exact.state_, content=content)
    found = exact.search(rng.standard_normal((9, 5)).astype(np.float32), 40)
    assert not np.isin(found.items, [3, 20]).any()
    assert ((found.items >= 0).sum(1) == 38).all()


def test_an_empty_index_finds_nothing():
    found = Exact().build(np.zeros((0, 3), np.float32)).search(np.ones((2, 3), np.float32), 4)
    assert (found.items == -1).all()
    assert found.items.shape == (2, 4)


def test_no_query_no_answer():
    assert Exact().build(np.ones((5, 3), np.float32)).search(np.ones((0, 3), np.float32), 4).items.shape == (0, 4)


@pytest.mark.parametrize("queries", [np.ones((2, 4)), np.ones(3)])
def test_queries_of_another_dimension_are_refused(queries):
    with pytest.raises(InvalidParameterError, match="shape"):
        Exact().build(np.ones((5, 3), np.float32)).search(queries, 2)


def test_senseless_questions_are_refused():
    index = Exact().build(np.ones((5, 3), np.float32))
    with pytest.raises(InvalidParameterError, match="k is 0"):
        index.search(np.ones((1, 3), np.float32), 0)
    with pytest.raises(NonFiniteStateError, match="query"):
        index.search(np.full((1, 3), np.nan, np.float32), 1)
