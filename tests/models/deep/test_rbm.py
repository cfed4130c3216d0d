"""The recommender made of a Boltzmann machine: refusals, and that it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import RBM, DampedBias, random_split
from tastespace.errors import DataError, InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def stars(n_users, n_items, **ways):
    ratings = tastes(n_users, n_items, **ways)[0]
    return replace(ratings, values=np.clip(np.round(ratings.values), 1, 5))


def test_it_knows_more_than_biases():
    split = random_split(stars(500, 60, density=0.5, rng=generator(5)), 0.2, seed=1)
    errors = []
    for model in (RBM(n_hidden=20, learning_rate=0.02, weight_decay=0.001, seed=1), DampedBias()):
        found = model.fit(split.train).predict(split.test.user_ids(), split.test.item_ids())
        errors.append(float(np.sqrt(np.mean((found.mean - split.test.values) ** 2))))
        if found.is_uncertain:
            assert 0.87 < found.rating.contains(split.test.values, [0.9]).mean() < 0.97
    assert errors[0] < 0.85 * errors[1]


def test_continuous_ratings_are_refused_before_training():
    with pytest.raises(DataError, match="RBM learns the probability of each.*use autorec or bpmf"):
        RBM().fit(tastes(40, 30, rng=generator(1))[0])


def test_implicit_feedback_is_refused_before_training():
    ratings = stars(10, 8, rng=generator(1))
    chosen = replace(ratings, values=np.ones_like(ratings.values)).with_kind("one-class")
    with pytest.raises(DataError, match="RBM learns from their values alone"):
        RBM().fit(chosen)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 0) for name in ("n_hidden", "steps", "epochs", "batch_size", "patience", "learning_rate")),
        *(("momentum", 1.0), ("weight_decay", -1.0), ("validation_share", 1.0), ("chains", "long")),
    ],
)
def test_senseless_parameters_are_refused(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        RBM(**{name: value}).fit(stars(10, 8, rng=generator(1)))
