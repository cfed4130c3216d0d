"""What is searched of each model: parameters that it has, values that it takes."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from tastespace import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models import MODELS
from tastespace.parameters import Choice, Range, cells, spread, thousand_users
from tastespace.randomness import generator
from tastespace.selection.tune import space_of, tunable_models
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def ratings():
    return tastes(40, 30, rng=generator(0))[0]


@pytest.mark.parametrize("model", MODELS)
def test_models_take_all_that_is_tried(model, ratings):
    known = {field.name for field in fields(MODELS[model])}
    space = MODELS[model].search_space
    assert space.keys() <= known
    for ends in ("first", "last"):
        settings = {
            name: part.value(
                part.values[0 if ends == "first" else -1]
                if isinstance(part, Choice)
                else (part.low if ends == "first" else part.high),
                ratings,
            )
            for name, part in space.items()
        }
        MODELS[model](**settings).check()


def test_defaults_that_are_numbers_are_within_the_ends():
    """On ratings of a common size: 5,000 users, 3,000 items, a standard deviation of about one."""
    rng = generator(1)
    users, items = rng.permutation(5_000), np.arange(5_000) % 3_000
    common = Ratings.from_arrays(users, items, rng.integers(1, 6, 5_000) * 0.7)
    for model in MODELS.values():
        usual = model().get_params()
        for name, part in model.search_space.items():
            if isinstance(part, Range) and isinstance(usual[name], int | float):
                low, high = part.value(part.low, common), part.value(part.high, common)
                assert low <= usual[name] <= high, (model, name)
            elif isinstance(part, Choice):
                assert usual[name] in part.values


def test_models_that_learn_the_rest_have_only_the_number_of_factors_left():
    for model in ("vb", "bpmf", "sphere"):
        assert list(MODELS[model].search_space) == ["n_factors"]
    with pytest.raises(InvalidParameterError, match="the model popular has nothing to tune; expected one of bias"):
        space_of("popular", None, {})


def test_units_follow_the_ratings(ratings):
    some = ratings.take(np.flatnonzero(ratings.user_rows < 10))
    assert (thousand_users(ratings), thousand_users(some)) == (0.04, 0.01)
    assert cells(ratings) == pytest.approx(np.sqrt(40 * 30))
    assert spread(ratings) == pytest.approx(ratings.values.std(), rel=1e-6)
    assert spread(Ratings.from_arrays([0, 1], [0, 1], [3.0, 3.0])) == 1
    shrinkage = MODELS["item-knn"].search_space["shrinkage"]
    assert shrinkage.value(100, ratings) == 4 * shrinkage.value(100, some) == 4


def test_values_can_be_written_down_as_they_were_tried(ratings):
    assert Range(0.001, 1).value(0.0123456789, ratings) == 0.0123
    assert Range(4, 64, whole=True).value(17, ratings) == 17


def test_other_ends_are_passed_to_a_model(ratings):
    space = space_of("item-knn", ratings, {"similarity": "pearson"}, {"shrinkage": (2, 8), "n_neighbours": (3, 9)})
    assert list(space) == ["n_neighbours", "shrinkage", "damping"]
    assert space["shrinkage"].describe(ratings) == "2..8"
    assert space["n_neighbours"].describe(ratings) == "3..9"


@pytest.mark.parametrize(
    ("fixed", "ranges", "message"),
    [
        (
            {},
            {"similarity": (1, 2)},
            "not a number in the search space of item-knn; expected one of n_neighbours, shrinkage",
        ),
        ({}, {"colour": (1, 2)}, "'colour', which is not a number"),
        ({}, {"damping": (2, 1)}, "goes from 2 to 1; expected numbers above 0, the lower one first"),
        ({}, {"damping": (0, 1)}, "goes from 0 to 1; expected numbers above 0"),
        ({}, {"n_neighbours": (1.5, 3)}, "goes from 1.5 to 3; expected whole numbers"),
        ({"damping": 1}, {"damping": (1, 2)}, "damping is fixed, but a range is given for it"),
        (dict.fromkeys(MODELS["item-knn"].search_space, 1), {}, "the whole search space of item-knn is fixed"),
    ],
)
def test_what_cannot_be_searched(fixed, ranges, message, ratings):
    with pytest.raises(InvalidParameterError, match=message):
        space_of("item-knn", ratings, fixed, ranges)


def test_all_models_but_two_have_something_to_search():
    """A model without a space would be refused as one with nothing to be tuned."""
    assert set(MODELS) - set(tunable_models()) == {"mean", "popular"}
