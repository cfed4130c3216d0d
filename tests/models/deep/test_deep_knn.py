"""Neighbors by learned features: the filled matrix, the formula, refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tastespace import DeepKNN, load, save
from tastespace.errors import InvalidParameterError, MissingExtraError
from tastespace.models.base.posterior import People
from tastespace.models.composed.deep_knn import FilledRows
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def ratings():
    return tastes(40, 30, rng=generator(3))[0]


def test_known_ratings_stay_and_others_are_filled(ratings):
    model = DeepKNN(features="filled", n_factors=4, seed=1).fit(ratings)
    low, high = ratings.range
    people = People.known(np.arange(ratings.n_users, dtype=np.int32), ratings.by_user)
    rows = FilledRows.of(model.posterior_.factors, people, ratings.n_items, low, high, 1)
    whole = rows.take(np.arange(40, dtype=np.int32)) * (high - low) + low
    np.testing.assert_allclose(whole[ratings.user_rows, ratings.item_rows], ratings.values, atol=1e-4)
    predicted = model.posterior_.factors.believe(people, 1).scores(np.arange(40, dtype=np.int32))
    others = np.ones_like(whole, bool)
    others[ratings.user_rows, ratings.item_rows] = False
    np.testing.assert_allclose(whole[others], np.clip(predicted, low, high)[others], atol=1e-4)
    np.testing.assert_allclose(rows.take(np.array([7], np.int32))[0] * (high - low) + low, whole[7], atol=1e-5)


def test_predictions_are_the_formula(ratings):
    model = DeepKNN(n_features=5, n_factors=4, epochs=5, n_neighbors=6, bandwidth=0.4, damping=0.3, seed=1).fit(ratings)
    posterior = model.posterior_
    x = posterior.features.astype(float)
    distances = np.abs(x[:, None] - x[None]).sum(axis=2)
    similarity = np.exp(-distances / (0.4 * distances.mean()))
    user_bias, item_bias = posterior.baseline.user_bias(ratings.by_user), posterior.baseline.item_bias
    left = np.full((40, 30), np.nan)
    bias = ratings.mean + user_bias[:, None] + item_bias
    left[ratings.user_rows, ratings.item_rows] = ratings.values - bias[ratings.user_rows, ratings.item_rows]
    for user, item in [(0, 0), (13, 20)]:
        raters = np.flatnonzero(~np.isnan(left[:, item]))
        near = raters[np.argsort(-similarity[user, raters], kind="stable")[:6]]
        weights = similarity[user, near]
        expected = bias[user, item] + weights @ left[near, item] / (weights.sum() + 0.3)
        found = model.predict([ratings.users.ids[user]], [ratings.items.ids[item]]).unclipped[0]
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("features", ["rbm", "dbn", "filled"])
def test_every_kind_of_features_is_saved(features, ratings, tmp_path):
    model = DeepKNN(features=features, n_features=4, n_hidden=8, n_factors=4, epochs=3, seed=1).fit(ratings)
    assert model.posterior_.features.shape == (40, 30 if features == "filled" else 4)
    save(model, tmp_path / "model")
    history = {ratings.items.ids[0]: ratings.range[1]}
    expected = model.recommend(history=history).scores
    np.testing.assert_array_equal(load(tmp_path / "model").recommend(history=history).scores, expected)


def test_without_torch_the_command_that_installs_it(ratings, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tastespace\[deep\]'"):
        DeepKNN(features="autoencoder").fit(ratings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 0) for name in ("n_features", "n_hidden", "epochs", "n_factors", "n_neighbors", "bandwidth")),
        *(("damping", -1.0), ("features", "sums"), ("user_damping", -1.0)),
    ],
)
def test_senseless_parameters_are_refused(name, value, ratings):
    with pytest.raises(InvalidParameterError, match=name):
        DeepKNN(**{name: value}).fit(ratings)
