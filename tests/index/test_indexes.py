"""What every index must do: find the best items, never one that must not be found, and always the same."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tastespace import ALS
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index import described, restored
from tastespace.index.reduction import Reduced, Vote
from tastespace.index.search import Excluded
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.graph import Graph
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.structures.kd_forest import KdForest
from tastespace.index.structures.kmeans_tree import KMeansTree
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

INDEXES = {
    "exact": Exact,
    "inverted file": lambda **options: InvertedFile(n_cells=20, probes=6, **options),
    "inverted file, all cells": lambda **options: InvertedFile(probes=10_000, **options),
    "k-d forest": lambda **options: KdForest(n_trees=3, leaf_size=16, budget=500, **options),
    "k-d forest, all items": lambda **options: KdForest(budget=10_000, **options),
    "k-means tree": lambda **options: KMeansTree(branching=8, leaf_size=32, budget=400, **options),
    "k-means tree, all items": lambda **options: KMeansTree(budget=10_000, **options),
    "reduced": lambda **options: Reduced(n_coordinates=8, candidates=50, inner=InvertedFile(n_cells=20), **options),
    "reduced, all candidates": lambda **options: Reduced(n_coordinates=3, candidates=10_000, **options),
    "vote": lambda **options: Vote(n_parts=3, candidates=150, **options),
    "growing": lambda **options: InvertedFile(n_cells=20, probes=6, rebuild_at=0.2, **options),
}
if find_spec("faiss") is not None:  # the extra [graph]
    INDEXES["graph"] = lambda **options: Graph(effort=30, **options)
LEAST_RECALL = {
    "exact": 1.0,
    "inverted file": 0.8,
    "inverted file, all cells": 1.0,
    "k-d forest": 0.8,
    "k-d forest, all items": 1.0,
    "k-means tree": 0.8,
    "k-means tree, all items": 1.0,
    "reduced": 0.7,
    "reduced, all candidates": 1.0,
    "vote": 0.5,
    "growing": 0.8,
    "graph": 0.9,
}


def world(n_items=1500, n_dimensions=12, n_queries=60, seed=1):
    """Items around some directions, as tastes are, of one length; and queries."""
    rng = generator(seed)
    kinds = rng.standard_normal((15, n_dimensions))
    items = kinds[rng.integers(15, size=n_items)] + 0.6 * rng.standard_normal((n_items, n_dimensions))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    return items.astype(np.float32), rng.standard_normal((n_queries, n_dimensions)).astype(np.float32)


ITEMS, QUERIES = world()
ALL = pytest.mark.parametrize("name", INDEXES)


def best(items, query, k, forbidden=()):
    scores = (items @ query).astype(np.float64)
    scores[list(forbidden)] = -np.inf
    order = np.lexsort((np.arange(len(items)), -scores))
    return [row for row in order[:k] if scores[row] > -np.inf]


@ALL
def test_the_best_are_found(name):
    found = INDEXES[name]().build(ITEMS).search(QUERIES, 10)
    recall = np.mean(
        [len(set(best(ITEMS, query, 10)) & set(row)) / 10 for query, row in zip(QUERIES, found.items, strict=True)]
    )
    assert recall >= LEAST_RECALL[name]
    scores = np.einsum("qd,qkd->qk", QUERIES, ITEMS[found.items])
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5, atol=1e-6)
    assert (np.diff(found.scores, axis=1) <= 0).all()


@ALL
def test_the_same_whatever_the_threads_and_seeds_repeat(name):
    expected = INDEXES[name](threads=1).build(ITEMS).search(QUERIES, 7)
    for threads in (2, 3):
        found = INDEXES[name](threads=threads).build(ITEMS).search(QUERIES, 7)
        assert_array_equal(found.items, expected.items)
        assert_array_equal(found.scores, expected.scores)


@ALL
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_never_what_must_not_be_found(name, data):
    rng = generator(data.draw(st.integers(0, 1000)))
    allowed = rng.random(len(ITEMS)) < data.draw(st.sampled_from([0.0, 0.01, 0.5, 1.0]))
    lists = [np.flatnonzero(rng.random(len(ITEMS)) < 0.3).astype(np.int32) for _ in range(3)]
    excluded = Excluded(np.concatenate([[0], np.cumsum([len(rows) for rows in lists])]), np.concatenate(lists))
    k = data.draw(st.integers(1, 30))
    found = BUILT[name].search(QUERIES[:3], k, excluded=excluded, allowed=allowed)
    for row, mine in zip(found.items, lists, strict=True):
        shown = row[row >= 0]
        assert allowed[shown].all()
        assert not set(shown) & set(mine)
        assert len(set(shown)) == len(shown)
        assert (row[len(shown) :] == -1).all()
        if LEAST_RECALL[name] == 1:
            assert len(shown) == min(k, np.count_nonzero(allowed) - np.count_nonzero(allowed[mine]))


BUILT = {name: make().build(ITEMS) for name, make in INDEXES.items()}


@ALL
@pytest.mark.parametrize("n_items", [0, 1, 2, 17])
def test_few_items(name, n_items):
    found = INDEXES[name]().build(ITEMS[:n_items]).search(QUERIES[:2], 5)
    assert found.items.shape == (2, 5)
    for query, row, scores in zip(QUERIES, found.items, found.scores, strict=False):
        n = int((row >= 0).sum())
        assert (row[n:] == -1).all()
        assert (scores[n:] == -np.inf).all()
        if LEAST_RECALL[name] == 1:
            assert row[:n].tolist() == best(ITEMS[:n_items], query, 5)


@ALL
def test_items_that_are_the_same_and_items_that_are_nothing(name):
    twins = np.tile(ITEMS[:1], (40, 1))
    found = INDEXES[name]().build(twins).search(QUERIES[:1], 10)
    if LEAST_RECALL[name] == 1:
        assert found.items[0].tolist() == list(range(10))  # of equal scores the lower item
    assert len(set(found.items[0])) == 10
    nothing = INDEXES[name]().build(np.zeros((30, 12), np.float32)).search(QUERIES[:1], 4)
    assert (nothing.scores == 0).all()


@ALL
def test_bad_queries_are_refused(name):
    index = BUILT[name]
    with pytest.raises(InvalidParameterError, match=r"queries have the shape \(2, 5\); expected \(n, 12\)"):
        index.search(np.zeros((2, 5), np.float32), 3)
    with pytest.raises(InvalidParameterError, match="k is 0; expected a whole number of at least 1"):
        index.search(QUERIES, 0)
    with pytest.raises(NonFiniteStateError, match="a query has infinite or missing coordinates"):
        index.search(np.full((1, 12), np.nan, np.float32), 3)
    assert index.search(np.zeros((0, 12), np.float32), 3).items.shape == (0, 3)


@ALL
def test_filters_and_items_that_do_not_fit_are_refused(name):
    index = BUILT[name]
    for n in (len(ITEMS) - 100, len(ITEMS) + 100):
        few = np.zeros(n, bool)
        few[:3] = True
        with pytest.raises(InvalidParameterError, match=f"expected true or false for each of {len(ITEMS)} items"):
            index.search(QUERIES[:2], 3, allowed=few)
    lists = Excluded(np.array([0, 1]), np.array([5], np.int32))
    with pytest.raises(
        InvalidParameterError, match="1 lists of what is excluded for 2 queries; expected one per query"
    ):
        index.search(QUERIES[:2], 3, excluded=lists)
    with pytest.raises(InvalidParameterError, match=r"k is 1\.5; expected a whole number"):
        index.search(QUERIES[:2], 1.5)
    for wrong in (np.nan, np.inf):
        bad = ITEMS.copy()
        bad[7, 3] = wrong
        with pytest.raises(NonFiniteStateError, match="an item has infinite or missing coordinates"):
            INDEXES[name]().build(bad)
    for shape in ((12,), (5, 0)):
        with pytest.raises(InvalidParameterError, match="item vectors have the shape"):
            INDEXES[name]().build(np.zeros(shape, np.float32))


@ALL
def test_searches_at_the_same_time(name):
    index = BUILT[name]
    expected = [index.search(QUERIES[k : k + 1], 10).items for k in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: index.search(QUERIES[k : k + 1], 10).items, range(40)))
    assert_array_equal(found, expected)


def test_more_probes_find_more():
    def recall(probes):
        found = InvertedFile(n_cells=40, probes=probes).build(ITEMS).search(QUERIES, 10).items
        return np.mean([len(set(best(ITEMS, query, 10)) & set(row)) for query, row in zip(QUERIES, found, strict=True)])

    found = [recall(probes) for probes in (1, 4, 12, 40)]
    assert found == sorted(found)
    assert found[0] < 9 < found[3] == 10


def test_memory_is_reported_and_bad_numbers_are_refused():
    built = InvertedFile(n_cells=10).build(ITEMS)
    assert ITEMS.nbytes < built.n_bytes < 1.5 * ITEMS.nbytes
    assert InvertedFile().build(ITEMS[:0]).n_bytes == 0
    for wrong in ({"n_cells": 0}, {"probes": 0}):
        with pytest.raises(InvalidParameterError, match="expected a whole number of at least 1"):
            InvertedFile(**wrong).build(ITEMS)


def test_lists_by_an_index_are_those_of_the_scan():
    """Where it looks into every cell."""
    ratings = tastes(60, 40, rng=generator(1))[0]
    model = ALS(n_factors=4, regularization=0.1, seed=0).fit(ratings)
    index = InvertedFile(n_cells=6, probes=6).build(model.posterior_.item_vectors)
    expected, found = model.recommend(range(20), 5), model.recommend(range(20), 5, index=index)
    assert_array_equal(found.item_rows, expected.item_rows)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


@ALL
def test_what_was_saved_finds_the_same(name):
    built = BUILT[name]
    again = restored(json.loads(json.dumps(described(built))), dict(built.arrays()), ITEMS)
    assert_array_equal(again.search(QUERIES, 10).items, built.search(QUERIES, 10).items)
    assert again.description == built.description
    assert again.n_bytes == built.n_bytes


def test_what_was_saved_for_other_items_is_refused():
    built = InvertedFile(n_cells=10).build(ITEMS)
    with pytest.raises(ValueError, match="1500 items in cells, 1400 of the model"):
        restored(described(built), built.arrays(), ITEMS[:1400])
    bad = dict(built.arrays()) | {"members": np.where(built.built_.members == 7, 5000, built.built_.members)}
    with pytest.raises(ValueError, match="items in cells that the model does not have"):
        restored(described(built), bad, ITEMS)
