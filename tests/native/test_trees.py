"""The searches in trees against the same written out in Python, and what their bindings refuse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from reference import trees

from tastespace import _native
from tastespace.index.search import Excluded
from tastespace.index.structures.kd_forest import KdForest
from tastespace.index.structures.kmeans_tree import KMeansTree
from tastespace.randomness import generator

LEAVES = {"forest": trees.forest_leaves, "clusters": trees.cluster_leaves}
BOTH = pytest.mark.parametrize("kind", LEAVES)


def world(n_items=900, n_dimensions=7, norms=False, seed=2):
    rng = generator(seed)
    items = rng.standard_normal((n_items, n_dimensions))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    if norms:
        items *= rng.uniform(0.5, 2, (n_items, 1))
    return items.astype(np.float32), rng.standard_normal((12, n_dimensions)).astype(np.float32)


def built(kind, items, **options):
    if kind == "forest":
        return KdForest(n_trees=3, leaf_size=16, candidates=3, **options).build(items)
    return KMeansTree(branching=20, leaf_size=20, **options).build(items)


@BOTH
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("budget", [1, 40, 300, 900])
def test_the_nearest_leaves_are_looked_at(kind, norms, budget):
    items, queries = world(norms=norms)
    index = built(kind, items, budget=budget)
    found = index.search(queries, 8).items
    for query, row in zip(queries, found, strict=True):
        looked = trees.looked_at(LEAVES[kind](index, query), max(budget, 8))
        assert row.tolist() == trees.best(items, query, looked, 8)


@BOTH
def test_only_what_may_be_found_counts(kind):
    items, queries = world()
    rng = generator(3)
    index = built(kind, items, budget=60)
    allowed = rng.random(len(items)) < 0.3
    lists = [np.flatnonzero(rng.random(len(items)) < 0.2).astype(np.int32) for _ in queries]
    lists[4] = lists[4][:0]
    excluded = Excluded(np.concatenate([[0], np.cumsum([len(rows) for rows in lists])]), np.concatenate(lists))
    for flags in (None, allowed):
        found = index.search(queries, 5, excluded=excluded, allowed=flags).items
        for query, row, mine in zip(queries, found, lists, strict=True):
            forbidden = set(mine.tolist()) | (set() if flags is None else set(np.flatnonzero(~flags).tolist()))
            looked = trees.looked_at(LEAVES[kind](index, query), 60, forbidden)
            assert row.tolist() == trees.best(items, query, looked, 5)


@BOTH
def test_nothing_is_left_of_the_search_before(kind):
    """The memory of a thread is used again, also for another index."""
    items, queries = world()
    index = built(kind, items, budget=100)
    other = built(kind, items[:50], budget=10)
    expected, few = index.search(queries, 5).items, other.search(queries, 5).items
    everything = Excluded(np.array([0, len(items)]), np.arange(len(items), dtype=np.int32))
    for _ in range(3):
        assert (index.search(queries[:1], 5, excluded=everything).items == -1).all()
        assert_array_equal(index.search(queries, 5).items, expected)
        assert_array_equal(other.search(queries, 5).items, few)


def test_excluded_items_that_there_are_not_do_no_harm():
    items, queries = world()
    excluded = Excluded(np.array([0, 3]), np.array([-5, 10**6, 2**31 - 1], np.int32))
    for kind in LEAVES:
        index = built(kind, items, budget=1000)
        found = index.search(queries[:1], 5, excluded=excluded).items
        assert_array_equal(found, index.search(queries[:1], 5).items)


def test_the_shape_of_a_tree():
    branches = np.empty(2 * 11 - 1, np.int32)
    _native.shape_tree(branches)

    def leaves(node):
        if branches[node] < 0:
            return [-1 - branches[node]]
        return leaves(node + 1) + leaves(branches[node])

    assert leaves(0) == list(range(11))


def test_arguments_that_do_not_fit_are_refused():
    items, queries = world()
    forest, tree = built("forest", items), built("clusters", items)
    found, scores = np.empty((12, 3), np.int32), np.empty((12, 3), np.float32)

    def search_forest(**changed):
        arguments = {
            "branches": forest.built_.branches,
            "dimensions": forest.built_.dimensions,
            "thresholds": forest.built_.thresholds,
            "panels": forest.built_.panels,
            "members": forest.built_.members,
            "queries": queries,
            "n_items": len(items),
            "budget": 50,
            "leaf_size": 16,
            "out_items": found,
            "out_scores": scores,
        }
        _native.search_forest(**arguments | changed)

    def search_clusters(**changed):
        arguments = {
            "nodes": tree.built_.nodes,
            "centres": tree.built_.centres,
            "panels": tree.built_.panels,
            "members": tree.built_.members,
            "queries": queries,
            "n_items": len(items),
            "budget": 50,
            "out_items": found,
            "out_scores": scores,
        }
        _native.search_clusters(**arguments | changed)

    search_forest()
    search_clusters()
    for wrong, message in (
        ({"budget": 0}, "n_items and budget"),
        ({"queries": np.zeros((12, 6), np.float32)}, "panels"),
        ({"out_items": np.empty((11, 3), np.int32)}, "out: one row of k per query"),
        ({"allowed": np.ones(5, np.uint8)}, "allowed: one per item"),
        ({"excluded": np.ones(5, np.int32)}, "excluded: offsets and rows together"),
    ):
        for search in (search_forest, search_clusters):
            with pytest.raises(ValueError, match=message):
                search(**wrong)
    for wrong, message in (
        ({"n_items": 500}, "members: the leaves of all trees"),
        ({"leaf_size": 32}, "members: the leaves of all trees"),
        ({"leaf_size": 15}, "leaf_size: panels"),
        ({"thresholds": forest.built_.thresholds[:2]}, "dimensions and thresholds"),
    ):
        with pytest.raises(ValueError, match=message):
            search_forest(**wrong)
    for wrong, message in (
        ({"centres": tree.built_.centres[16:]}, "centres"),
        ({"nodes": tree.built_.nodes[:-1]}, "nodes: in panels"),
    ):
        with pytest.raises(ValueError, match=message):
            search_clusters(**wrong)


def test_groups_that_do_not_fit_are_refused():
    points = np.ones((10, 3), np.float32)
    good = {
        "points": points,
        "begins": np.array([0, 5]),
        "ends": np.array([4, 10]),
        "parts": np.array([0, 2, 4]),
        "iterations": 2,
        "by_order": False,
        "key": 1,
        "order": np.arange(10, dtype=np.int32),
        "centres": np.empty((4, 2), np.float32),
        "sizes": np.empty(4, np.int64),
    }
    _native.split_groups(**good)
    assert good["sizes"].tolist() == [2, 2, 3, 2]  # all the same: parted as they come
    for wrong, message in (
        ({"ends": np.array([6, 10])}, "one after the other"),
        ({"ends": np.array([4, 11])}, "one after the other"),
        ({"ends": np.array([1, 10])}, "no more than its points"),
        ({"parts": np.array([0, 2, 5])}, "parts: from 0 to the number of parts"),
        ({"order": np.full(10, 10, np.int32)}, "order: rows of points"),
        ({"centres": np.empty((4, 3), np.float32)}, "centres: one per part"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.split_groups(**good | wrong)
