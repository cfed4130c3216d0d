"""What is special about trees: leaves that part the items, a budget, items of any norm, and items that all are one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.index import described, restored
from tastespace.index.search import Excluded
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.kd_forest import KdForest, lifted
from tastespace.index.structures.kmeans_tree import PANEL, KMeansTree
from tastespace.randomness import generator

TREES = pytest.mark.parametrize("structure", [KdForest, KMeansTree])


def world(n_items=3000, n_dimensions=10, spread=0.0, seed=4):
    """Items of norms that are one, or spread around it."""
    rng = generator(seed)
    items = rng.standard_normal((n_items, n_dimensions)) * np.linspace(1, 0.3, n_dimensions)
    items *= np.exp(spread * rng.standard_normal((n_items, 1))) / np.linalg.norm(items, axis=1, keepdims=True)
    return items.astype(np.float32), rng.standard_normal((50, n_dimensions)).astype(np.float32)


def recall(index, items, queries):
    expected = Exact().build(items).search(queries, 10).items
    found = index.search(queries, 10).items
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(expected, found, strict=True)])


def cluster_leaves(tree):
    """The items of each leaf, found from the root, and its depth."""
    waiting, leaves = [(0, 0)], []
    while waiting:
        node, depth = waiting.pop()
        first, n = tree.built_.nodes[node]
        if n > 0:
            waiting += [(child, depth + 1) for child in range(first * PANEL, first * PANEL + n)]
        else:
            leaves.append((tree.built_.members[first * PANEL : first * PANEL - n], depth))
    return leaves


def test_the_leaves_of_every_k_d_tree_part_the_items_at_its_splits():
    items, _ = world(spread=0.3)
    points = lifted(items)
    forest = KdForest(n_trees=3, leaf_size=32).build(items)
    members = forest.built_.members.reshape(3, -1, 32)

    def below(tree, node):
        if forest.built_.branches[node] < 0:
            leaf = members[tree, -1 - forest.built_.branches[node]]
            return leaf[leaf >= 0].tolist()
        left, right = below(tree, node + 1), below(tree, forest.built_.branches[node])
        values = points[:, forest.built_.dimensions[tree, node]]
        assert values[left].max() <= forest.built_.thresholds[tree, node] <= values[right].min()
        assert abs(len(left) - len(right)) <= 2 * 32
        return left + right

    for tree in range(3):
        assert sorted(below(tree, 0)) == list(range(len(items)))
    assert not (members[0] == members[1]).all()


def test_the_leaves_of_a_k_means_tree_part_the_items_by_nearness():
    items, _ = world()
    tree = KMeansTree(branching=6, leaf_size=40).build(items)
    leaves = [leaf for leaf, _ in cluster_leaves(tree)]
    assert sorted(np.concatenate(leaves)) == list(range(len(items)))
    assert max(map(len, leaves)) <= 40
    assert np.mean([len(leaf) for leaf in leaves]) > 15
    within = np.mean([items[leaf].var(axis=0).sum() for leaf in leaves])
    assert within < 0.5 * items.var(axis=0).sum()


def test_centres_are_means_of_what_is_below_with_a_term_for_the_distance():
    items, _ = world(n_items=500)
    tree = KMeansTree(branching=5, leaf_size=400).build(items)
    first, n = tree.built_.nodes[0]
    centres = tree.built_.centres.reshape(-1, 11, PANEL).transpose(0, 2, 1).reshape(-1, 11)
    for child in range(first * PANEL, first * PANEL + n):
        place, size = tree.built_.nodes[child]
        mean = lifted(items)[tree.built_.members[place * PANEL : place * PANEL - size]].mean(axis=0)
        assert_allclose(centres[child, :10], mean, atol=1e-6)
        assert_allclose(centres[child, 10], -0.75 * mean @ mean, atol=1e-6)


@TREES
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_a_larger_budget_finds_more_and_one_of_all_items_everything(structure, spread):
    items, queries = world(spread=spread)
    index = structure(seed=1).build(items)
    found = []
    for budget in (30, 150, 600, 1500, 3000):
        index.budget = budget
        found.append(recall(index, items, queries))
    assert found == sorted(found)
    assert found[0] < 0.8 < found[3]
    assert found[4] == 1


@TREES
def test_scores_are_those_of_the_scan_to_the_bit(structure):
    items, queries = world(spread=0.5)
    expected = Exact().build(items).search(queries, 20)
    found = structure(budget=3000).build(items).search(queries, 20)
    assert_array_equal(found.items, expected.items)
    assert_array_equal(found.scores, expected.scores)


@TREES
def test_only_items_that_may_be_found_count_against_the_budget(structure):
    items, queries = world()
    index = structure(budget=20).build(items)
    allowed = np.zeros(len(items), bool)
    allowed[generator(1).choice(len(items), 200, replace=False)] = True
    found = index.search(queries, 20, allowed=allowed).items
    assert (found >= 0).all()
    rest = np.flatnonzero(~allowed).astype(np.int32)
    excluded = Excluded(np.array([0, len(rest)]), rest)
    for row, query in enumerate(queries[:5]):
        assert_array_equal(index.search(query[None], 20, excluded=excluded).items[0], found[row])


@TREES
def test_a_budget_below_k_is_k(structure):
    items, queries = world()
    assert (structure(budget=1).build(items).search(queries, 200).items >= 0).all()


@TREES
def test_items_that_are_all_the_same(structure):
    """Leaves stay small, and of equal items the lower ones are found, if all are looked at."""
    twins = np.ones((5000, 3), np.float32)
    index = structure(budget=5000).build(twins)
    assert index.search(twins[:1], 5).items[0].tolist() == [0, 1, 2, 3, 4]
    index.budget = 100
    assert len(set(index.search(twins[:1], 50).items[0])) == 50


def test_clusters_of_items_that_are_the_same_are_parted_as_they_come():
    leaves = cluster_leaves(KMeansTree(branching=4, leaf_size=50).build(np.ones((5000, 3), np.float32)))
    assert max(len(leaf) for leaf, _ in leaves) <= 50
    assert max(depth for _, depth in leaves) <= 5


def test_outliers_of_outliers_end_somewhere():
    """Norms of which every one is a hundredth of the one before: k-means would part off a few a level."""
    items = np.zeros((2000, 2), np.float32)
    items[:, 0] = np.logspace(0, -36, 2000)
    index = KMeansTree(branching=2, leaf_size=4, budget=2000).build(items)
    leaves = cluster_leaves(index)
    assert max(depth for _, depth in leaves) <= 24 + 11
    assert index.search(np.ones((1, 2), np.float32), 3).items[0].tolist() == [0, 1, 2]


@TREES
def test_the_same_arrays_whatever_the_threads(structure):
    """Also where a group of items is so large that threads share it."""
    items, _ = world(n_items=70_000, n_dimensions=4, spread=0.1)
    one, three = (structure(threads=threads).build(items).arrays() for threads in (1, 3))
    other = structure(seed=1).build(items).arrays()
    for name, array in one.items():
        assert array.tobytes() == three[name].tobytes()
    assert one["panels"].tobytes() != other["panels"].tobytes()


def test_items_are_lifted_to_the_sphere_where_norms_differ():
    items, queries = world(spread=0.5)
    points = lifted(items)
    assert points.shape == (3000, 11)
    assert_allclose(np.linalg.norm(points, axis=1), 1, rtol=1e-6)
    query = np.append(queries[0] / np.linalg.norm(queries[0]), 0)
    assert np.argmin(((points - query) ** 2).sum(axis=1)) == np.argmax(items @ queries[0])
    level = world()[0] * np.float32(7)
    assert lifted(level).shape == (3000, 10)
    assert_allclose(np.linalg.norm(lifted(level), axis=1), 1, rtol=1e-5)
    assert_array_equal(lifted(np.zeros((4, 2), np.float32)), 0)
    assert lifted(items[:0]).shape == (0, 10)


@TREES
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_items_that_are_no_numbers_are_refused(structure, wrong):
    items, _ = world(n_items=40)
    items[7, 3] = wrong
    with pytest.raises(NonFiniteStateError, match="an item has infinite or missing coordinates"):
        structure().build(items)


@TREES
def test_queries_of_any_length_are_one(structure):
    items, queries = world()
    index = structure(budget=200).build(items)
    expected = index.search(queries, 10).items
    for factor in (1e-3, 1e4):
        assert np.mean(index.search(queries * np.float32(factor), 10).items == expected) > 0.99
    assert (index.search(np.zeros((1, 10), np.float32), 10).scores == 0).all()
    assert (index.search(np.full((1, 10), 1e-44, np.float32), 10).items >= 0).all()


@TREES
def test_memory_is_reported_and_bad_numbers_are_refused(structure):
    items, _ = world()
    index = structure().build(items)
    copies = getattr(index, "n_trees", 1)
    assert copies * items.nbytes < index.n_bytes < 1.6 * copies * items.nbytes
    assert structure().build(items[:0]).n_bytes == 0
    assert "1000 of 3000 items looked at" in structure(budget=1000).build(items).description
    for wrong in ({"budget": 0}, {"leaf_size": 0}, {"leaf_size": 2.5}):
        with pytest.raises(InvalidParameterError, match="expected a whole number of at least 1"):
            structure(**wrong).build(items)


def test_parameters_of_their_own_are_refused():
    items, _ = world(n_items=40)
    with pytest.raises(InvalidParameterError, match="branching is 1; expected a whole number of at least 2"):
        KMeansTree(branching=1).build(items)
    with pytest.raises(InvalidParameterError, match="leaf_size is 40; expected a multiple of 16"):
        KdForest(leaf_size=40).build(items)


@TREES
def test_what_was_saved_for_other_items_is_refused(structure):
    items, _ = world()
    built = structure().build(items)
    arrays = dict(built.arrays())
    assert restored(described(structure().build(items[:0])), {}, items[:0]).n_bytes == 0

    def refused(message, vectors=items, **changed):
        with pytest.raises(ValueError, match=message):
            restored(described(built), arrays | changed if changed else arrays, vectors)

    refused("of the model|places in leaves|trees of", vectors=items[:1400])
    refused("dimensions", vectors=items[:, :4])
    refused("it has arrays where there are no items", vectors=items[:0])
    members = arrays["members"]
    refused("items in leaves that the model does not have", members=np.where(members == 7, 5000, members))
    refused("items in leaves that the model does not have", members=np.where(members == 7, -1, members))
    refused("places in leaves", members=members[16:])
    refused("items of another number of dimensions", panels=arrays["panels"][16:])
    if structure is KdForest:
        refused("splits at dimensions that the model does not have", dimensions=arrays["dimensions"] + 11)
        refused("expected 4 trees of", thresholds=arrays["thresholds"][:2])
    else:
        refused("centres of another number of dimensions", centres=arrays["centres"][16:])
        refused("places of nodes", counts=np.append(arrays["counts"], np.zeros(16, np.int32)))
        refused("nodes that are their own children", counts=arrays["counts"][::-1])
        refused("items in leaves, 3000 of the model", counts=np.where(arrays["counts"] < 0, -1, arrays["counts"]))
