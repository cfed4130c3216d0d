"""Measures of an index for a model's users; timings are there, and not tested."""

from __future__ import annotations

import json

import pytest

from tastespace import ALS
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.retrieval import retrieval
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import StoredIndex, Target, Trial
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = tastes(80, 400, rng=generator(0))[0]


@pytest.fixture(scope="module")
def model():
    return ALS(n_factors=4, regularization=0.1, seed=0, threads=1).fit(RATINGS)


def measured(model, index=None, **options):
    return retrieval(model, index, users=40, strangers=20, seconds=0.01, **options)


def test_the_exact_scan_misses_nothing(model):
    report = measured(model, Exact().build(model.posterior_.item_vectors))
    assert report.accuracy == report.acceptance == 1.0
    assert report.worst == report.worst_99 == report.worst_median == 10
    assert (report.n_users, report.n_strangers, report.n_items) == (40, 20, 400)


def test_an_index_that_looks_at_little_misses_some(model):
    index = InvertedFile(n_cells=40, probes=1).build(model.posterior_.item_vectors)
    report = measured(model, index, k=5, n_th=6)
    assert 0 < report.accuracy < 1
    assert report.acceptance < 1
    assert report.worst > 6
    assert report.worst_median <= report.worst_99 <= report.worst
    assert measured(model, index, k=5, n_th=400).acceptance == 1.0
    more = InvertedFile(n_cells=40, probes=20).build(model.posterior_.item_vectors)
    assert measured(model, more, k=5).accuracy > report.accuracy


def test_the_stored_index_is_the_default(model):
    with pytest.raises(InvalidParameterError, match="no index; expected one as an argument"):
        measured(model)
    index = InvertedFile(n_cells=10, probes=4).build(model.posterior_.item_vectors)
    trial = Trial("inverted-file", "", {}, 1.0, 1.0, 10, 10, 1.0, 1.0, 1.0, 0.0, 0)
    model.index_ = StoredIndex(index, trial, (), Target(0.9))
    try:
        assert measured(model).index == index.description
    finally:
        model.index_ = None


def test_the_report_says_what_it_was_measured_against(model):
    report = measured(model, Exact().build(model.posterior_.item_vectors))
    shown = repr(report)
    assert shown.startswith("scan of all items: the best 10 of 400 items for 40 users and 20 new users\n")
    assert shown.endswith("baseline: numpy: vectors @ query, argpartition, sort; one thread, processor time")
    content = json.loads(json.dumps(report.to_dict()))
    assert content["accuracy"] == 1.0
    assert content["baseline"].startswith("numpy")
    assert min(content[name] for name in ("speedup", "speedup_over_exact", "batched_speedup", "microseconds")) > 0


@pytest.mark.parametrize("wrong", [{"k": 0}, {"n_th": 0}, {"users": 0}, {"strangers": -1}, {"seconds": 0}], ids=str)
def test_bad_parameters(model, wrong):
    with pytest.raises(InvalidParameterError, match="expected"):
        retrieval(model, Exact().build(model.posterior_.item_vectors), **wrong)


def test_an_index_of_something_else_is_refused(model):
    with pytest.raises(InvalidParameterError, match="400 items in 7 dimensions; expected the model's 400 in 5"):
        measured(model, Exact().build(generator(0).standard_normal((400, 7))))
