"""Items that come and go: what is found is always what a scan of those that are there would find."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tastespace.errors import InvalidParameterError
from tastespace.index import described, restored
from tastespace.index.reduction import Reduced
from tastespace.index.search import Excluded
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.graph import Graph
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.randomness import generator

N_DIMENSIONS = 4


def whole(n, rng):
    """Small whole numbers: scores are exact, many are equal."""
    return rng.integers(-3, 4, (n, N_DIMENSIONS)).astype(np.float32)


class Twin:
    """The same by brute force."""

    def __init__(self, vectors):
        self.vectors, self.alive = vectors, np.ones(len(vectors), bool)

    def add(self, vectors):
        self.vectors = np.concatenate([self.vectors, vectors])
        self.alive = np.concatenate([self.alive, np.ones(len(vectors), bool)])

    def remove(self, rows):
        self.alive[rows] = False

    def best(self, query, k, excluded, allowed):
        may = self.alive.copy() if allowed is None else self.alive & allowed
        may[excluded] = False
        scores = np.where(may, self.vectors @ query, -np.inf)
        order = np.argsort(-scores, kind="stable")[:k]
        items = np.where(np.isneginf(scores[order]), -1, order)
        return np.concatenate([items, np.full(k - len(items), -1)])


def a_search(index, twin, rng, data):
    queries, k = whole(3, rng), data.draw(st.integers(1, 12))
    n_rows = len(twin.vectors)
    allowed, excluded, lists = None, None, [np.zeros(0, np.int32)] * 3
    if data.draw(st.booleans()):
        allowed = rng.random(n_rows) < data.draw(st.sampled_from([0.0, 0.1, 0.6, 1.0]))
    if data.draw(st.booleans()):
        lists = [np.flatnonzero(rng.random(n_rows) < 0.3).astype(np.int32) for _ in range(3)]
        excluded = Excluded(np.cumsum([0, *map(len, lists)]), np.concatenate(lists))
    found = index.search(queries, k, excluded=excluded, allowed=allowed)
    expected = [twin.best(query, k, mine, allowed) for query, mine in zip(queries, lists, strict=True)]
    return found, expected, allowed, lists


def random_life(make, data, look):
    """Adding, removing, saving and searching in any order."""
    rng = generator(data.draw(st.integers(0, 10_000)))
    vectors = whole(data.draw(st.sampled_from([0, 1, 40])), rng)
    index, twin = make().build(vectors), Twin(vectors)
    for action in data.draw(st.lists(st.sampled_from(["add", "add one", "remove", "search", "save"]), max_size=14)):
        if action in ("add", "add one"):
            new = whole(1 if action == "add one" else int(rng.integers(30)), rng)
            assert index.add(new).tolist() == list(range(len(twin.vectors), len(twin.vectors) + len(new)))
            twin.add(new)
        elif action == "remove":
            rows = np.flatnonzero(twin.alive & (rng.random(len(twin.alive)) < 0.2))
            index.remove(rng.permutation(rows))
            twin.remove(rows)
        elif action == "save":
            index = restored(json.loads(json.dumps(described(index))), dict(index.arrays()), twin.vectors)
        look(index, twin, *a_search(index, twin, rng, data))


@pytest.mark.parametrize("rebuild_at", [None, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("inner", [Exact, partial(InvertedFile, n_cells=5, probes=5)], ids=["exact", "all cells"])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_the_same_as_by_brute_force(inner, rebuild_at, data):
    def look(index, twin, found, expected, allowed, lists):
        assert_array_equal(found.items, expected)
        assert index.n_items_ == len(twin.vectors)

    random_life(lambda: inner(rebuild_at=rebuild_at), data, look)


@pytest.mark.parametrize("rebuild_at", [None, 0.3])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_never_what_is_gone_or_must_not_be_found(rebuild_at, data):
    def look(index, twin, found, expected, allowed, lists):
        for row, mine in zip(found.items, lists, strict=True):
            shown = row[row >= 0]
            assert twin.alive[shown].all()
            assert allowed is None or allowed[shown].all()
            assert not np.isin(shown, mine).any()
            assert len(set(shown)) == len(shown)

    random_life(lambda: InvertedFile(n_cells=6, probes=2, rebuild_at=rebuild_at), data, look)


def reduced():
    return Reduced(n_coordinates=6, inner=InvertedFile(n_cells=8), rebuild_at=0.3)


def graph():
    pytest.importorskip("faiss", reason="needs the extra [graph]")
    return Graph(rebuild_at=0.3)


@pytest.mark.parametrize("inner", [reduced, graph])
def test_any_structure_can_grow(inner):
    items = generator(5).standard_normal((600, 8)).astype(np.float32)
    index, twin = inner().build(items[:300]), Twin(items[:300])
    for start in range(300, 600, 50):
        for each in (index, twin):
            each.add(items[start : start + 50])
            each.remove(np.arange(start - 300, start - 290))
    found = index.search(items, 1).items[:, 0]
    expected = [twin.best(query, 1, [], None)[0] for query in items]
    assert np.mean(found == expected) > 0.9


def test_built_again_when_more_than_the_share_has_changed():
    items = whole(100, generator(1))
    index = InvertedFile(n_cells=4, probes=4, rebuild_at=0.2).build(items)
    first = index.built_
    index.add(items[:15])
    index.remove(range(5))
    assert (index.n_added_, index.n_removed_) == (15, 5)  # exactly the share: not more
    assert index.built_ is first
    assert "15 added since, 5 removed" in index.description
    index.remove([103])
    assert (index.n_added_, index.n_removed_, index.n_items_) == (0, 0, 115)
    assert index.built_ is not first
    assert np.count_nonzero(index.built_.members >= 0) == 109
    never = InvertedFile().build(items)
    never.add(np.tile(items, (5, 1)))
    assert never.n_added_ == 500


def test_enough_is_found_where_most_of_the_best_are_gone():
    items = generator(11).standard_normal((100, 8)).astype(np.float32)
    order = np.argsort(-(items @ items[0]))
    index = Exact().build(items)
    index.remove(order[:50])
    queries = np.stack([items[0], -items[0]])  # The other one has lost none of its best.
    assert_array_equal(index.search(queries, 3).items, [order[50:53], order[:-4:-1]])
    seen = Excluded(np.array([0, 2, 2]), np.sort(order[50:52]).astype(np.int32))
    assert_array_equal(index.search(queries, 3, excluded=seen).items, [order[52:55], order[:-4:-1]])


def test_nothing_left():
    index = InvertedFile(rebuild_at=0.5).build(whole(3, generator(2)))
    index.remove([0, 2])
    index.remove(1)
    assert index.search(np.ones((2, N_DIMENSIONS)), 2).items.tolist() == [[-1, -1], [-1, -1]]
    assert index.add(np.ones((1, N_DIMENSIONS))).tolist() == [3]
    assert index.search(np.ones((2, N_DIMENSIONS)), 2).items.tolist() == [[3, -1], [3, -1]]


def test_as_built_the_structure_is_asked_straight():
    index = Exact(rebuild_at=0.2, threads=2).build(whole(20, generator(3)))
    queries, allowed, asked = whole(2, generator(4)), np.ones(20, bool), []
    index._search = lambda content, search: asked.append(search)
    index.search(queries, 7, allowed=allowed)
    assert len(asked) == 1
    assert (asked[0].k, asked[0].excluded, asked[0].threads) == (7, None, 2)
    assert asked[0].allowed is allowed


def test_rows_that_cannot_be_removed_are_named():
    index = InvertedFile().build(whole(10, generator(4)))
    index.add(whole(2, generator(4)))
    index.remove([3, 11])
    for rows, message in (
        ([12], "are unknown: 12; expected some of the 12 ever indexed"),
        ([-1, 2], "are unknown: -1"),
        ([3, 4], "were removed before: 3; expected rows that are present"),
        ([11], "were removed before: 11"),
        ([5, 6, 5], "are named twice: 5; expected each once"),
        ([0.5], "are float64 of the shape"),
        (np.ones(12, bool), r"are bool of the shape \(12,\); expected a list of whole numbers"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            index.remove(rows)
    assert index.n_removed_ == 2  # Nothing of what was refused was done.
    index.remove([])
    with pytest.raises(InvalidParameterError, match=r"vectors have the shape \(4,\); expected \(n, 4\)"):
        index.add(np.ones(4))
    with pytest.raises(InvalidParameterError, match=r"allowed has the shape \(10,\) .* each of 12 items"):
        index.search(np.ones((1, 4)), 1, allowed=np.ones(10, bool))


@pytest.mark.parametrize("share", [0, -1.0, np.inf, np.nan, True, "often"])
def test_a_bad_share_is_refused(share):
    with pytest.raises(InvalidParameterError, match="expected a share above 0, or None for never"):
        InvertedFile(rebuild_at=share).build(whole(3, generator(0)))


def test_one_by_one_does_not_move_what_is_there_each_time():
    index = Exact().build(whole(3, generator(6)))
    rooms = {id(index.state_.tail.panels): index.state_.tail.panels}
    for vector in whole(1000, generator(7)):
        index.add(vector[None])
        rooms[id(index.state_.tail.panels)] = index.state_.tail.panels
    assert len(rooms) <= 9
    assert index.n_bytes >= index.state_.tail.panels.nbytes


def test_a_failed_rebuild_changes_nothing(monkeypatch):
    items = whole(20, generator(8))
    index = InvertedFile(n_cells=2, rebuild_at=0.1).build(items)
    monkeypatch.setattr(InvertedFile, "_build", lambda self, vectors, queries: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.add(np.full((5, N_DIMENSIONS), 9, np.float32))
    assert index.n_items_ == 20
    assert (index.search(np.ones((1, N_DIMENSIONS)), 30).items < 20).all()


def test_searches_meanwhile_see_all_of_a_change_or_nothing():
    """Two items come together, and the two before them go; each pair is better than all before it."""
    index = Exact(rebuild_at=0.5, threads=1).build(np.zeros((40, N_DIMENSIONS), np.float32))
    done = Event()

    def changing():
        for step in range(400):
            index.add(np.full((2, N_DIMENSIONS), 1 + step, np.float32))
            if step % 3 == 0:
                index.remove(np.arange(2) + index.n_items_ - 2)
        done.set()

    def searching(_):
        mixed = 0
        while not done.is_set():
            found = index.search(np.ones((1, N_DIMENSIONS), np.float32), 2)
            first, second = found.items[0].tolist()
            mixed += second != first + 1 or found.scores[0, 0] != found.scores[0, 1]
        return mixed

    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(searching, number) for number in range(3)]
        pool.submit(changing).result()
        assert [search.result() for search in searches] == [0, 0, 0]


def test_what_was_saved_for_other_items_is_refused():
    items = whole(30, generator(9))
    index = Exact().build(items[:20])
    index.add(items[20:])
    index.remove([4, 25])
    arrays, saved = dict(index.arrays()), described(index)
    again = restored(saved, arrays, items)
    assert (again.n_added_, again.n_removed_) == (10, 2)
    for change, vectors, message in (
        ({}, items[:10], "20 items built, 10 of the model"),
        ({}, items[:22], "removed are not ascending rows of the model"),
        ({"removed": np.array([5, 4], np.int32)}, items, "removed are not ascending rows"),
        ({"gaps": np.array([3], np.int32)}, items, "gaps that were not removed"),
        ({"n_built": np.array([-1])}, items, "-1 items built"),
        ({"n_built": np.array([1, 2])}, items, "is not one number"),
    ):
        with pytest.raises(ValueError, match=message):
            restored(saved, arrays | change, vectors)


def test_the_names_of_the_first_edition():
    """There a structure of its own, called growing, wrapped any other: its artifacts load, and are still written so."""
    items = whole(30, generator(9))
    index = InvertedFile(n_cells=3, probes=3).build(items[:20])
    index.add(items[20:])
    index.remove([4, 25])
    saved = {
        "structure": "growing",
        "parameters": {
            "inner": {"structure": "inverted-file", "parameters": {"n_cells": 3, "probes": 3, "seed": 0}},
            "rebuild_at": None,
        },
    }
    own = InvertedFile(n_cells=3).build(items[:20]).arrays()
    arrays = {f"inner.{name}": array for name, array in own.items()}
    arrays |= {"n_built": np.array([20]), "gaps": np.zeros(0, np.int32), "removed": np.array([4, 25], np.int32)}
    assert described(index) == saved
    assert index.arrays().keys() == arrays.keys()
    for name, array in index.arrays().items():
        assert_array_equal(array, arrays[name])
    queries = whole(9, generator(10))
    assert_array_equal(restored(saved, arrays, items).search(queries, 30).items, index.search(queries, 30).items)
