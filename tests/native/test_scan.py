"""The exact scan equals its twin, filters included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import scan as reference

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index.search import Excluded, panels_of
from tastespace.index.structures.exact import Exact


@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 120),
    n_queries=st.integers(1, 20),
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
