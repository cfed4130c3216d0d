"""The model that suits what ratings say, why, and what is said of one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import ALS, BPMF, EASE, DampedBias, ImplicitALS, ItemKNN, Joint, Popular, Ratings, suitable_model
from tastespace.errors import InvalidParameterError
from tastespace.models import MODELS
from tastespace.models.registry import misfit


def ratings(values):
    n = len(values)
    return Ratings.from_arrays(np.arange(n) // 4, np.arange(n) % 4, values)


STARS, ANSWERS = ratings([1, 2, 3, 4, 5, 5, 4, 3]), ratings([0, 1, 1, 0, 1, 1, 0, 1])
COUNTS, CHOSEN = ratings([1, 1, 2, 3, 1, 1, 7, 90]), ratings([1] * 8)


@pytest.mark.parametrize(
    ("observed", "model", "reason"),
    [
        (STARS, Joint(), "the values are stars: values from 1 to 5"),
        (ANSWERS, BPMF(likelihood="logistic"), "the values are yes-no: all values are 0 or 1"),
        (
            COUNTS,
            ImplicitALS(),
            "the values are counts: whole numbers up to 90, more than 10 times their median of 1.5",
        ),
        (CHOSEN, ImplicitALS(), "the values are one-class: all values are 1"),
        (STARS.with_kind("counts"), ImplicitALS(), "the values are counts: as declared"),
        (COUNTS.with_kind("stars"), Joint(), "the values are stars: as declared"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_suits(observed, model, reason):
    found = suitable_model(observed)
    assert type(found.recommender) is type(model)
    assert found.recommender.get_params() == model.get_params()
    assert found.reason == reason
    assert not found.recommender.is_fitted
    assert misfit(found.recommender, observed) is None


def test_it_can_be_fitted_and_lists():
    model, _ = suitable_model(COUNTS, seed=3)
    assert model.seed == 3
    assert model.fit(COUNTS).recommend(0, 2).item_rows.shape == (1, 2)


def test_only_ratings_will_do():
    with pytest.raises(InvalidParameterError, match="suitable_model got list; expected Ratings"):
        suitable_model([1, 2])


@pytest.mark.parametrize("model", [BPMF(), ALS(), DampedBias(), ItemKNN()], ids=lambda model: type(model).__name__)
def test_models_of_stars_do_not_suit_choices(model):
    name = type(model).__name__
    assert misfit(model, CHOSEN).startswith(
        f"all ratings are 1: their values say nothing, and neither will predictions of {name}"
    )
    assert "implicit-als would suit" in misfit(model, CHOSEN)
    assert misfit(model, COUNTS).startswith("the values are counts (whole numbers up to 90")
    assert "implicit-als would suit" in misfit(model, COUNTS)
    assert misfit(model, STARS) is misfit(model, ANSWERS) is None


def test_values_that_are_all_alike_and_no_choices():
    assert "implicit-als" not in misfit(BPMF(), ratings([0, 0, 0]))
    assert "all ratings are 0" in misfit(BPMF(), ratings([0, 0, 0]))


@pytest.mark.parametrize("model", [ImplicitALS(), EASE()], ids=lambda model: type(model).__name__)
def test_models_of_choices_do_not_suit_stars(model):
    assert "even the lowest; joint would suit" in misfit(model, STARS)
    assert misfit(model, COUNTS) is misfit(model, CHOSEN) is None


@pytest.mark.parametrize("observed", [STARS, ANSWERS, COUNTS, CHOSEN])
def test_popular_suits_all_kinds(observed):
    assert misfit(Popular(), observed) is None


@pytest.mark.parametrize("name", MODELS)
def test_something_can_be_said_of_every_model(name):
    for observed in (STARS, ANSWERS, COUNTS, CHOSEN):
        doubt = misfit(MODELS[name](), observed)
        assert doubt is None or "\n" not in doubt
