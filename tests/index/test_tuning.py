"""The tuner: what it chooses reaches the target, it keeps its time, and it says what it did. Speeds are not tested."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.index import structure_type, tuner
from tastespace.index.index import unbuilt, with_threads
from tastespace.index.structures import graph
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import Quality, Target, Timing, Trial, Truth, numpy_batch, numpy_scan, time_single
from tastespace.index.tuner import GRIDS, designs, tune
from tastespace.randomness import generator


def world(n_items=3000, n_dimensions=8, n_queries=120, seed=1):
    rng = generator(seed)
    kinds = rng.standard_normal((20, n_dimensions))
    items = kinds[rng.integers(20, size=n_items)] + 0.5 * rng.standard_normal((n_items, n_dimensions))
    return items.astype(np.float32), rng.standard_normal((n_queries, n_dimensions)).astype(np.float32)


@pytest.fixture
def clock(monkeypatch):
    """Speeds that do not depend on the machine: what a search costs is given by a function of the index."""

    def use(cost):
        def timed(index, exact, vectors, queries, k, seconds):
            return Timing(cost(index), 2 * cost(exact) / cost(index), cost(exact) / cost(index))

        monkeypatch.setattr(tuner, "time_single", timed)
        monkeypatch.setattr(tuner, "time_batch", timed)

    return use


def by_probes(index):
    """A scan takes a millisecond, a probe ten microseconds; more cells take a little longer."""
    return 1000.0 if isinstance(index, Exact) else 10.0 * index.probes + 0.1 * index.n_cells


ITEMS, QUERIES = world()


def test_the_fastest_that_reaches_the_target_is_chosen(clock):
    clock(by_probes)
    tuned = tune(ITEMS, QUERIES, accuracy=0.9, seconds=60, structures=["inverted-file"], seed=3)
    assert tuned.chosen.structure == "inverted-file"
    assert tuned.is_complete
    assert tuned.nearest is None
    assert tuned.chosen.accuracy >= 0.9  # on other queries than those that chose
    assert tuned.reached
    assert (tuned.n_choosing, tuned.n_held_out) == (60, 60)
    reaching = [trial for trial in tuned.trials if trial.structure != "exact" and trial.accuracy >= 0.95]
    assert all(trial.speedup <= tuned.chosen.speedup for trial in reaching)
    # The least effort, not any that is enough: what is just below was tried, and was too little.
    probes, n_cells = tuned.index.probes, tuned.index.n_cells
    same = [trial for trial in tuned.trials if trial.parameters.get("n_cells") == n_cells]
    below = max((trial for trial in same if trial.parameters["probes"] < probes), key=lambda one: one.accuracy)
    assert probes - below.parameters["probes"] <= max(1, 0.15 * probes)
    assert below.accuracy < 0.95


def test_what_falls_short_on_held_out_queries_looks_longer(clock, monkeypatch):
    """Without a margin, the least effort is often too little for other queries."""
    clock(by_probes)
    monkeypatch.setattr(tuner, "MARGIN", -3.0)
    for seed in range(4):
        tuned = tune(ITEMS, QUERIES, accuracy=0.9, seconds=60, structures=["inverted-file"], seed=seed)
        assert tuned.reached
        assert tuned.chosen.accuracy >= 0.9
        assert tuned.index.probes == tuned.chosen.parameters["probes"]


def test_the_figures_are_those_of_the_index(clock):
    clock(by_probes)
    tuned = tune(ITEMS, QUERIES, accuracy=0.8, seconds=60, structures=["inverted-file"])
    again = InvertedFile(**tuned.chosen.parameters).build(ITEMS)
    assert_array_equal(again.search(QUERIES, 10).items, tuned.index.search(QUERIES, 10).items)
    assert tuned.chosen.description == tuned.index.description
    assert tuned.chosen.n_bytes == tuned.index.n_bytes
    assert tuned.chosen.worst == tuned.worst_positions.max()
    assert len(tuned.worst_positions) == tuned.n_held_out
    assert json.loads(json.dumps(tuned.chosen.to_dict()))["structure"] == "inverted-file"


def test_the_exact_scan_stays_where_nothing_is_faster(clock):
    clock(lambda index: 10.0 if isinstance(index, Exact) else 10.0 * index.probes)
    tuned = tune(ITEMS, QUERIES, accuracy=0.9, seconds=60, structures=["inverted-file"])
    assert isinstance(tuned.index, Exact)
    assert tuned.chosen.structure == "exact"
    assert tuned.chosen.accuracy == 1.0
    assert tuned.chosen.worst == 10
    assert tuned.reached


def test_what_misses_nothing_is_not_given_up_for_a_few_percent(clock):
    clock(lambda index: 10.0 if isinstance(index, Exact) else 9.5)
    assert tune(ITEMS, QUERIES, accuracy=0.1, seconds=60, structures=["inverted-file"]).chosen.structure == "exact"


def test_an_unreachable_latency_is_reported(clock):
    clock(by_probes)
    tuned = tune(ITEMS, QUERIES, accuracy=0.9, latency_ms=0.001, seconds=60, structures=["inverted-file"])
    assert isinstance(tuned.index, Exact)
    assert not tuned.reached
    assert tuned.nearest.structure == "inverted-file"
    assert tuned.nearest.microseconds > 1


def test_a_latency_that_can_be_reached(clock):
    clock(by_probes)
    tuned = tune(ITEMS, QUERIES, accuracy=0.5, latency_ms=0.9, seconds=60, structures=["inverted-file"])
    assert tuned.reached
    assert tuned.chosen.microseconds <= 900


def test_acceptance_as_a_target(clock):
    clock(by_probes)
    low = tune(ITEMS, QUERIES, acceptance=0.9, seconds=60, structures=["inverted-file"])
    assert low.target.accuracy is None
    assert low.chosen.acceptance >= 0.85
    both = tune(ITEMS, QUERIES, acceptance=0.9, accuracy=0.95, seconds=60, structures=["inverted-file"])
    assert both.chosen.accuracy > low.chosen.accuracy


def test_everything_must_be_found_where_that_is_the_target(clock):
    clock(by_probes)
    tuned = tune(ITEMS, QUERIES, accuracy=1.0, seconds=60, structures=["inverted-file"])
    assert tuned.reached
    assert tuned.chosen.accuracy == 1.0
    assert tuned.nearest is None


def test_without_time_there_is_still_the_exact_scan():
    tuned = tune(ITEMS, QUERIES, seconds=1e-6)
    assert tuned.chosen.structure == "exact"
    assert not tuned.is_complete
    assert len(tuned.trials) == 1


def test_a_shared_reduction_is_that_of_a_build_alone():
    items, queries = world(n_dimensions=40)
    found = [one for one in designs(items, queries, 10, structures=["reduced"], seed=2, threads=1)]
    ours = next(one for one in found if one.structure == "reduced inverted-file")
    built = [ours.build(items, queries)[0] for _ in range(2)]
    alone = unbuilt(ours.prototype).build(items, queries)
    for index in built:
        assert_array_equal(index.search(queries, 5).scores, alone.search(queries, 5).scores)
        assert index.arrays().keys() == alone.arrays().keys()
    assert built[0].built_.reduction.mean is built[1].built_.reduction.mean


def test_a_build_that_would_take_too_long_is_not_begun(monkeypatch):
    """That of a part tells how long that of all will take."""
    sizes, build = [], tuner.Design.build

    def slow(self, vectors, queries):
        sizes.append(len(vectors))
        return build(self, vectors, queries)[0], 1e-3 * len(vectors)  # three seconds for all of them

    monkeypatch.setattr(tuner, "LARGE", 1000)
    monkeypatch.setattr(tuner.Design, "build", slow)
    monkeypatch.setitem(tuner.GRIDS, "inverted-file", replace(GRIDS["inverted-file"], is_slow=True))
    tuned = tune(ITEMS, QUERIES, seconds=1.5, structures=["inverted-file"])
    assert sizes == [150]
    assert not tuned.is_complete
    assert tuned.chosen.structure == "exact"


def test_real_clocks_and_everything_that_is_there():
    events = []
    tuned = tune(ITEMS, QUERIES, accuracy=0.8, seconds=1.0, threads=1, observer=events.append)
    assert tuned.index.search(QUERIES, 5).items.shape == (120, 5)
    assert tuned.index.threads == 1
    assert tuned.chosen.microseconds > 0
    assert tuned.chosen.batched_speedup > 0
    assert events[-1].phase == "indexing"
    assert all(event.step <= event.total for event in events)


def test_wide_vectors_are_searched_in_fewer_coordinates(clock, monkeypatch):
    monkeypatch.setattr(tuner, "REDUCTIONS", ((6, 5),))
    monkeypatch.setattr(tuner, "GRIDS", {"inverted-file": GRIDS["inverted-file"]})
    clock(lambda index: 1000.0 if isinstance(index, Exact) else 10.0)
    items, queries = world(n_dimensions=6)
    turn = generator(0).standard_normal((6, 48))
    items, queries = (items @ turn).astype(np.float32), (queries @ np.linalg.pinv(turn).T).astype(np.float32)
    tuned = tune(items, queries, seconds=30, structures=["reduced"])
    assert tuned.chosen.structure.startswith("reduced ")
    assert tuned.chosen.accuracy >= 0.9
    assert (tuned.n_choosing, tuned.n_held_out) == (30, 30)  # the others taught the reduction
    assert json.dumps(tuned.chosen.to_dict())


def test_queries_that_agree_in_a_coordinate_have_a_search_without_it():
    queries = np.hstack([QUERIES, np.ones((len(QUERIES), 1), np.float32)])
    items = np.hstack([ITEMS, np.zeros((len(ITEMS), 1), np.float32)])
    options = {"structures": None, "seed": 0, "threads": 1}
    assert any(design.structure == "reduced inverted-file" for design in designs(items, queries, 10, **options))
    assert not any(design.structure.startswith("reduced") for design in designs(ITEMS, QUERIES, 10, **options))


@pytest.mark.parametrize("name", GRIDS)
def test_searches_obey_the_effort_at_once(name):
    """The tuner does not build again to look longer."""
    design = next(one for one in designs(ITEMS, QUERIES, 10, structures=[name], seed=0, threads=1))
    try:
        index, _ = design.build(ITEMS, QUERIES)
    except ImportError:
        pytest.skip("not installed")
    truth = Exact(threads=1).build(ITEMS).search(QUERIES, 10).items
    recalls = []
    for effort in (design.least, len(ITEMS)):
        design.set_effort(index, effort)
        found = index.search(QUERIES, 10).items
        recalls.append(np.mean([len(set(row) & set(best)) / 10 for row, best in zip(found, truth, strict=True)]))
    assert recalls[1] >= 0.97  # a walk through a graph may not meet all, however long it is
    assert recalls[0] < recalls[1]


def test_a_structure_that_is_not_installed_is_left_out_unless_it_was_asked_for(clock, monkeypatch):
    clock(lambda index: 1000.0 if isinstance(index, Exact) else 10.0)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(graph, "_library", graph._library.__wrapped__)
    first = {name: replace(grid, options=lambda n, grid=grid: grid.options(n)[:1]) for name, grid in GRIDS.items()}
    monkeypatch.setattr(tuner, "GRIDS", first)
    monkeypatch.setattr(tuner, "REDUCTIONS", ((6, 5),))
    items, queries = world(n_items=500, n_dimensions=40)
    options = {"accuracy": 0.5, "seconds": 60}
    # Reductions are tried, but for the one over what is missing.
    for structures in (None, ["reduced"], ["reduced", "inverted-file"]):
        tuned = tune(items, queries, structures=structures, **options)
        tried = {trial.structure for trial in tuned.trials}
        assert "reduced inverted-file" in tried
        assert not any("graph" in name for name in tried)
        assert tuned.is_complete
    for structures in (["graph"], ["reduced", "graph"]):
        with pytest.raises(MissingExtraError, match=r"tastespace\[graph\]"):
            tune(items, queries, structures=structures, **options)


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(QUERIES[:2], id="one chooses"),
        pytest.param(QUERIES[:3], id="one of three chooses"),
        pytest.param(np.repeat(QUERIES[:1], 50, axis=0), id="all the same"),
    ],
)
@pytest.mark.parametrize("n_dimensions", [1, 8])
def test_queries_that_agree_in_everything_have_no_search_without_it(clock, queries, n_dimensions):
    clock(lambda index: 1000.0 if isinstance(index, Exact) else 10.0)
    items, queries = ITEMS[:300, :n_dimensions], queries[:, :n_dimensions]
    choosing = queries[: len(queries) // 2]
    found = designs(items, choosing, 10, structures=None, seed=0, threads=1)
    assert found
    assert not any(design.structure.startswith("reduced") for design in found)
    tuned = tune(items, queries, seconds=60, threads=1)
    assert tuned.reached
    assert tuned.is_complete


def test_an_acceptance_that_no_list_can_have_is_refused():
    with pytest.raises(InvalidParameterError, match="k is 101, and acceptance asks for the true best 100 only.*expect"):
        tune(ITEMS, QUERIES, acceptance=0.9, k=101)
    with pytest.raises(InvalidParameterError, match="expected k of at most 5"):
        tune(ITEMS, QUERIES, acceptance=0.9, accuracy=0.5, k=6, n_th=5)
    # Of few items all may be suggested, and without an acceptance it does not matter.
    assert tune(ITEMS[:100], QUERIES, acceptance=1.0, k=500, seconds=0.1).reached
    assert tune(ITEMS, QUERIES, accuracy=0.9, k=101, seconds=0.1).reached


def test_a_target_that_the_scan_itself_misses_is_reported(monkeypatch):
    def misses(self, items):
        return Quality(np.full(len(items), 0.5), np.full(len(items), 20))

    monkeypatch.setattr(Truth, "judge", misses)
    for latency_ms in (None, 1e-9):
        tuned = tune(ITEMS, QUERIES, latency_ms=latency_ms, seconds=0.2, structures=["exact"])
        assert tuned.chosen.structure == "exact"
        assert not tuned.reached
        assert tuned.nearest is None  # which finds enough


@pytest.mark.parametrize("n_items", [0, 1, 5])
def test_small_catalogues(n_items):
    tuned = tune(ITEMS[:n_items], QUERIES, seconds=0.2)
    assert tuned.index.search(QUERIES, 10).items.shape == (120, 10)
    assert tuned.chosen.accuracy == 1.0
    assert tuned.reached


@pytest.mark.parametrize(
    "wrong",
    [
        {"accuracy": 0},
        {"accuracy": 1.5},
        {"accuracy": float("nan")},
        {"acceptance": -1},
        {"accuracy": True},
        {"latency_ms": 0},
        {"seconds": 0},
        {"k": 0},
        {"n_th": 0},
        {"structures": ["wishful"]},
    ],
    ids=str,
)
def test_bad_parameters(wrong):
    with pytest.raises(InvalidParameterError, match="expected"):
        tune(ITEMS, QUERIES, **wrong)


def test_one_query_is_too_few():
    with pytest.raises(InvalidParameterError, match="1 queries; expected at least 2"):
        tune(ITEMS, QUERIES[:1])


def test_numpy_finds_the_same():
    expected = Exact(threads=1).build(ITEMS).search(QUERIES, 7).items
    assert_array_equal(np.stack([numpy_scan(ITEMS, query, 7) for query in QUERIES]), expected)
    assert_array_equal(numpy_batch(ITEMS, QUERIES, 7), expected)
    assert sorted(numpy_scan(ITEMS[:4], QUERIES[0], 7)) == [0, 1, 2, 3]
    assert numpy_batch(ITEMS[:4], QUERIES, 7).shape == (120, 4)


def test_timing_gives_threads_back():
    index, exact = InvertedFile(n_cells=10, threads=2).build(ITEMS), Exact(threads=None).build(ITEMS)
    timing = time_single(index, exact, ITEMS, QUERIES, 10, 0.01)
    assert min(timing.microseconds, timing.speedup, timing.speedup_over_exact) > 0
    assert (index.threads, exact.threads) == (2, None)


def test_threads_of_structures_inside():
    nested = structure_type("reduced")(inner=InvertedFile(n_cells=3))
    assert with_threads(nested, 5).inner.threads == 5


def test_target_and_trial_as_json():
    target = Target(0.95, None, 2.0)
    assert Target.from_dict(json.loads(json.dumps(target.to_dict())) | {"of tomorrow": 1}) == target
    assert str(target) == "accuracy 0.95 and at most 2 ms"
    trial = Trial("exact", "a scan", {}, 1.0, 1.0, 10, 10, 1.2, 1.0, 50.0, 0.1, 123)
    assert trial.to_dict()["bytes"] == 123
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial
    assert target.is_reached_by(trial)
    assert not target.is_reached_by(replace(trial, accuracy=0.9))
    assert not target.is_reached_by(replace(trial, microseconds=2001.0))
