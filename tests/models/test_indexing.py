"""Queries of a fitted model, and an index tuned for them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, BPMF, ItemKNN, load, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError, NotFittedError
from tastespace.evaluation.retrieval import item_vectors, sampled_queries, tune_index
from tastespace.models.base.posterior import People
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

RATINGS = tastes(60, 90, rng=generator(0))[0]


def als():
    return ALS(n_factors=3, regularization=0.1, seed=0).fit(RATINGS)


def bpmf():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BPMF(n_factors=2, warmup=3, draws=5, seed=0).fit(RATINGS)


@pytest.mark.parametrize("make", [als, bpmf])
def test_users_and_new_users(make):
    model = make()
    asked = sampled_queries(model, users=20, strangers=15, seed=3)
    assert (asked.n_users, asked.n_strangers) == (20, 15)
    assert asked.vectors.shape == (35, model.posterior_.item_vectors.shape[1])
    assert np.isfinite(asked.vectors).all()
    assert asked.notes == ()
    # The first are users as the model knows them, each once.
    everybody = believed(model, range(60)).queries.vectors
    known = [np.flatnonzero((np.abs(everybody - row) < 1e-6).all(axis=1)) for row in asked.vectors[:20]]
    assert len({int(rows[0]) for rows in known}) == 20
    # Strangers are not: they are folded in from a part of their ratings.
    distances = np.abs(asked.vectors[20:, None] - everybody[None]).max(axis=2).min(axis=1)
    assert (distances > 1e-6).sum() >= 10


def test_the_same_seed_the_same_queries():
    model = als()
    first, again, other = (sampled_queries(model, users=9, strangers=9, seed=seed).vectors for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_new_user_with_all_of_a_part_is_what_a_history_gives(monkeypatch):
    """Folded in as a request would be."""
    from tastespace.evaluation import retrieval as indexing

    model = als()
    monkeypatch.setattr(indexing, "KNOWN_SHARE", (1.0, 1.0 + 1e-9))
    asked = sampled_queries(model, users=0, strangers=60)
    expected = model.posterior_.believe(People.new_users(RATINGS.by_user), 1).queries.vectors
    assert_allclose(np.sort(asked.vectors, axis=0), np.sort(expected, axis=0), rtol=1e-5, atol=1e-6)


def test_small_models_have_fewer():
    asked = sampled_queries(als())
    assert (asked.n_users, asked.n_strangers) == (60, 60)


def test_without_ratings_there_are_users_only(tmp_path):
    save(als(), tmp_path / "als", with_ratings=False)
    model = load(tmp_path / "als")
    asked = sampled_queries(model)
    assert (asked.n_users, asked.n_strangers) == (60, 0)
    tuned = tune_index(model, seconds=0.2)
    assert tuned.notes == asked.notes
    assert "only known users" in tuned.notes[0]


def test_a_model_that_needs_its_ratings_has_no_users_without(tmp_path):
    save(bpmf(), tmp_path / "bpmf", with_ratings=False)
    with pytest.raises(InvalidParameterError, match="BPMF was saved without its ratings.*expected a model saved with"):
        tune_index(load(tmp_path / "bpmf"))


def test_a_model_without_item_vectors_is_refused():
    with pytest.raises(InvalidParameterError, match="ItemKNN has no item vectors.*expected a model that scores by"):
        tune_index(ItemKNN().fit(RATINGS))
    with pytest.raises(NotFittedError):
        item_vectors(ALS())


@pytest.mark.parametrize("make", [als, bpmf])
def test_the_tuned_index_is_of_the_model(make):
    model = make()
    tuned = tune_index(model, accuracy=0.8, seconds=0.3, threads=1)
    assert (tuned.index.n_items_, tuned.index.n_dimensions_) == item_vectors(model).shape
    assert tuned.target.accuracy == 0.8
    assert tuned.notes == ()
    model.index_ = tuned
    assert len(model.recommend(RATINGS.users.ids[:3], n=4, index=tuned.index).item_ids) > 0
