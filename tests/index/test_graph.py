"""The graph: reproducible, finds enough under any filter, and does not trust what was saved."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.index import described, restored
from tastespace.index.search import Excluded
from tastespace.index.structures import graph as graph_module
from tastespace.index.structures.graph import Graph
from tastespace.randomness import generator

N_ITEMS = 3000


def vectors(n, seed, n_dimensions=10):
    """Of any length, as those of a model with popular items are."""
    rng = generator(seed)
    lengths = np.exp(0.4 * rng.standard_normal((n, 1)))
    return (lengths * rng.standard_normal((n, n_dimensions))).astype(np.float32)


ITEMS, QUERIES = vectors(N_ITEMS, 1), vectors(20, 2)
SCORES = QUERIES @ ITEMS.T
ORDERS = np.argsort(-SCORES, axis=1)


@pytest.fixture(scope="module")
def faiss():
    return pytest.importorskip("faiss", reason="needs the extra [graph]")


@pytest.fixture(scope="module")
def built(faiss):
    return Graph().build(ITEMS)


def recall(found, expected):
    return np.mean([np.isin(mine, row).mean() for mine, row in zip(expected, found.items, strict=True)])


def lists_of(lists):
    return Excluded(np.cumsum([0, *map(len, lists)]), np.concatenate(lists).astype(np.int32))


def test_the_best_are_found_though_lengths_differ(built):
    assert recall(built.search(QUERIES, 10), ORDERS[:, :10]) > 0.97


def test_the_same_graph_whatever_the_threads_another_by_another_seed(faiss):
    some = ITEMS[:1000]
    expected = Graph(threads=1).build(some).arrays()["graph"]
    assert expected.dtype == np.uint8
    for threads in (2, 3):
        assert_array_equal(Graph(threads=threads).build(some).arrays()["graph"], expected)
    other = Graph(seed=1).build(some).arrays()["graph"]
    assert other.shape != expected.shape or (other != expected).any()


def test_more_effort_finds_more(built, monkeypatch):
    found = []
    for effort in (1, 20, 200):
        monkeypatch.setattr(built, "effort", effort)  # A search looks at what it is now, as a tuner wants.
        found.append(recall(built.search(QUERIES, 5), ORDERS[:, :5]))
    assert found == sorted(found)
    assert recall(Graph(effort=1).build(ITEMS).search(QUERIES, 5), ORDERS[:, :5]) == found[0]
    assert found[0] < 0.95 < found[2]


@pytest.mark.parametrize("share", [0.002, 0.01, 0.2, 0.7])
def test_enough_is_found_under_any_filter(built, share):
    allowed = generator(3).random(N_ITEMS) < share
    found = built.search(QUERIES, 10, allowed=allowed)
    expected = [row[allowed[row]][:10] for row in ORDERS]
    assert allowed[found.items[found.items >= 0]].all()
    assert (np.count_nonzero(found.items >= 0, axis=1) == min(10, np.count_nonzero(allowed))).all()
    assert recall(found, expected) > 0.95


def test_enough_is_found_where_all_the_best_are_excluded(built):
    """In one batch with queries of which little or nothing is."""
    lists = [np.sort(row[: (500, 12, 0)[q % 3]]) for q, row in enumerate(ORDERS)]
    found = built.search(QUERIES, 10, excluded=lists_of(lists))
    expected = [row[(500, 12, 0)[q % 3] :][:10] for q, row in enumerate(ORDERS)]
    assert (found.items >= 0).all()
    assert not any(np.isin(row, mine).any() for row, mine in zip(found.items, lists, strict=True))
    assert recall(found, expected) > 0.95
    one = built.search(QUERIES[:1], 10, excluded=lists_of(lists[:1]))
    assert_array_equal(one.items, found.items[:1])


@pytest.mark.parametrize("n_excluded", [0, 10, 30])
def test_walks_under_filters_find_as_much(built, monkeypatch, n_excluded):
    """In a large catalogue a scan would take too long: here it would fail."""
    monkeypatch.setattr(graph_module, "SCANNED", 1)
    content = built.state_.content
    without = content._replace(built=content.built._replace(panels=None))
    monkeypatch.setattr(built, "state_", replace(built.state_, content=without))
    found = built.search(QUERIES, 10, excluded=lists_of([np.sort(row[:n_excluded]) for row in ORDERS]))
    assert recall(found, ORDERS[:, n_excluded : n_excluded + 10]) > 0.97
    allowed = generator(4).random(N_ITEMS) < 0.4
    found = built.search(QUERIES, 10, allowed=allowed)
    assert recall(found, [row[allowed[row]][:10] for row in ORDERS]) > 0.97


def test_no_walk_goes_so_far_that_it_misses_much(built, monkeypatch):
    """Of items far down, walks find less: those are scanned, in a large catalogue too."""
    monkeypatch.setattr(graph_module, "SCANNED", 1)
    found = built.search(QUERIES, 10, excluded=lists_of([np.sort(row[:100]) for row in ORDERS]))
    assert_array_equal(found.items, ORDERS[:, 100:110])


def test_long_lists_take_more_effort(faiss):
    """The library would give more items of a walk as short as before."""
    built = Graph(effort=10).build(ITEMS)
    faiss.cvar.hnsw_stats.reset()
    built.search(QUERIES, 10)
    short = faiss.cvar.hnsw_stats.ndis
    faiss.cvar.hnsw_stats.reset()
    assert recall(built.search(QUERIES, 200), ORDERS[:, :200]) > 0.8
    assert faiss.cvar.hnsw_stats.ndis > 2 * short


def test_filters_that_do_not_fit_are_refused(built):
    with pytest.raises(InvalidParameterError, match=r"allowed has the shape \(7,\) .* each of 3000 items"):
        built.search(QUERIES, 3, allowed=np.ones(7, bool))
    with pytest.raises(InvalidParameterError, match="2 lists of what is excluded for 20 queries"):
        built.search(QUERIES, 3, excluded=lists_of([np.arange(3), np.arange(2)]))


def test_the_threads_of_the_library_are_left_alone(faiss, built):
    before = faiss.omp_get_max_threads()
    Graph(threads=before + 2).build(ITEMS[:50]).search(QUERIES, 3)
    assert faiss.omp_get_max_threads() == before


FORKED = """
import os, signal, sys
import numpy as np
from tastespace.index.structures.graph import Graph

items = np.random.default_rng(0).standard_normal((2000, 8)).astype(np.float32)
index = Graph(threads=2).build(items)
expected = index.search(items[:100], 5).items
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if (index.search(items[:100], 5).items == expected).all() else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_child_of_a_fork_searches_too(faiss):
    """The library's own threads would not be there, and it would wait for them."""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], timeout=120).returncode == 0


def test_memory_is_reported(built):
    links = built.arrays()["graph"].nbytes
    assert links + 2 * ITEMS.nbytes - 2000 < built.n_bytes <= links + 2 * ITEMS.nbytes + 16 * 4 * 10


@pytest.mark.parametrize("wrong", [{"neighbours": 1}, {"build_effort": 0}, {"effort": 0}])
def test_bad_numbers_are_refused(faiss, wrong):
    with pytest.raises(InvalidParameterError, match="expected a whole number of at least"):
        Graph(**wrong).build(ITEMS[:10])


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    graph_module._library.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'tastespace\[graph\]'"):
        Graph().build(ITEMS[:0])
    graph_module._library.cache_clear()


def test_what_was_saved_for_other_items_is_refused(built):
    saved = described(built)
    with pytest.raises(ValueError, match="3000 items in the graph, 2999 of the model"):
        restored(saved, built.arrays(), ITEMS[:-1])
    with pytest.raises(ValueError, match="10 dimensions in the graph, 9 of the model"):
        restored(saved, built.arrays(), ITEMS[:, :9])
    with pytest.raises(ValueError, match="it lacks 'graph'"):
        restored(saved, {}, ITEMS)


def test_a_damaged_graph_is_refused(faiss, built):
    saved, whole = described(built), built.arrays()["graph"]
    for bad in (whole[:-40], whole[:0], np.zeros(100, np.uint8)):
        with pytest.raises(ValueError, match="its graph cannot be read"):
            restored(saved, {"graph": bad}, ITEMS)
    flat = faiss.IndexFlatIP(10)
    flat.add(ITEMS)
    with pytest.raises(ValueError, match="its graph is one of another kind"):
        restored(saved, {"graph": faiss.serialize_index(flat)}, ITEMS)


def test_links_that_lead_nowhere_are_refused(faiss, built):
    def elsewhere(links):
        faiss.copy_array_to_vector(np.full(links.neighbors.size(), N_ITEMS, np.int32), links.neighbors)

    def no_start(links):
        links.entry_point = N_ITEMS

    def too_high(links):
        levels = faiss.vector_to_array(links.levels)
        faiss.copy_array_to_vector(levels + 1, links.levels)

    for change in (elsewhere, no_start, too_high):
        bad = restored(described(built), built.arrays(), ITEMS)
        change(bad.built_.graph.hnsw)
        with pytest.raises(ValueError, match="the index does not fit"):
            restored(described(bad), bad.arrays(), ITEMS)
