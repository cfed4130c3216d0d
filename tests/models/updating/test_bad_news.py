"""News that cannot be taken are refused with what is wrong, and tables of any kind are taken."""

from __future__ import annotations

import copy

import numpy as np
import polars as pl
import pytest
from models.updating.world import fitted, parts, small_news

from tastespace import ALS, BPMF, DampedBias, Ratings, load, save
from tastespace.errors import DataError, InvalidParameterError, NotFittedError


@pytest.mark.parametrize(
    ("news", "error", "told"),
    [
        ({0: 5.0}, DataError, "has no users"),
        (pl.DataFrame({"item": [0], "rating": [5.0]}), DataError, "no column for the user"),
        (pl.DataFrame({"who": [0], "what": [1], "how": [5.0]}), DataError, "no column for the user.*among who, what"),
        (pl.DataFrame({"user": [], "item": [], "rating": []}), DataError, "no ratings"),
        (pl.DataFrame({"user": [0], "item": [1], "rating": [float("nan")]}), DataError, "not a rating"),
        (pl.DataFrame({"user": [0], "item": [1], "rating": [None]}), DataError, "not a rating"),
        (pl.DataFrame({"user": [None], "item": [1], "rating": [3.0]}), DataError, "user"),
        (pl.DataFrame({"user": [7], "item": [1], "rating": [9.0]}), DataError, "7 rated item 1 with 9; expected .*5.5"),
        (pl.LazyFrame({"user": [7], "item": [1], "rating": [-1.0]}), DataError, "user 7 rated item 1 with -1"),
        ("ratings.csv", InvalidParameterError, "update got str"),
        (None, InvalidParameterError, "update got NoneType"),
        ([(0, 1, 3.0)], InvalidParameterError, "update got list"),
    ],
)  # fmt: skip
def test_bad_news_are_refused(model, news, error, told):
    with pytest.raises(error, match=told):
        model.update(news)


def test_no_ratings_at_all_are_refused(model):
    with pytest.raises(DataError, match="no new ratings"):
        model.update(model.ratings_.masked(np.zeros(len(model.ratings_), bool)))


def test_tables_of_any_kind_are_taken(model):
    pandas = pytest.importorskip("pandas")
    table = small_news(model.ratings_).to_polars()
    expected = model.update(small_news(model.ratings_)).ratings_.fingerprint()
    for news in (table, table.lazy(), pandas.DataFrame(table.to_dict(as_series=False))):
        assert model.update(news).ratings_.fingerprint() == expected


@pytest.mark.parametrize(("kind", "value"), [("ordinal", 2.5), ("probit", 2.0), ("logistic", 0.5)])
def test_what_is_no_level_is_refused(kind, value):
    before = fitted(kind)
    with pytest.raises(DataError, match=f"user 0 rated item 1 with {value:g}; expected one of its levels"):
        before.update(Ratings.from_arrays([0], [1], [value]))


@pytest.mark.parametrize("sweeps", [-1, 1.5, True, "many", None])
def test_sweeps_that_make_no_sense_are_refused(model, late, sweeps):
    with pytest.raises(InvalidParameterError, match="sweeps is .*or 'auto'"):
        model.update(late, sweeps=sweeps)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_factors", 3), ("chains", 3), ("biases", False), ("likelihood", "ordinal"), ("likelihood", "heteroscedastic")],
)
def test_parameters_changed_since_the_fit_are_refused(model, late, name, value):
    before = copy.copy(model).set_params(**{name: value})
    with pytest.raises(InvalidParameterError, match=f"{name} is .*fitted with"):
        before.update(late)


def test_without_its_ratings_a_model_cannot_be_updated(model, late, tmp_path):
    for before in (model, DampedBias().fit(parts()[0]), ALS(n_factors=2, seed=0).fit(parts()[0])):
        save(before, tmp_path / "model", with_ratings=False)
        bare = load(tmp_path / "model")
        assert bare.seen_ == before.seen_
        with pytest.raises(InvalidParameterError, match="saved without its ratings"):
            bare.update(late)


def test_an_unfitted_model_cannot_be_updated(late):
    with pytest.raises(NotFittedError):
        BPMF().update(late)
