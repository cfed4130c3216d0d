"""A new model from the database: it knows what came, forgets what went, and is no worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from service.conftest import small_ratings

from tastespace import ALS, Popular, artifact
from tastespace.errors import DataError
from tastespace.randomness import generator
from tastespace.service.retraining import Comparison, WorseModelError, convert, retrain


@pytest.fixture(scope="module")
def all_ratings():
    return small_ratings(120, 40)


def stored(ratings, *, new=()) -> pl.DataFrame:
    """As a database has them: those of the old model without a time."""
    times = np.full(len(ratings), -1)
    times[list(new)] = 1_700_000_000 + generator(4).permutation(len(new))
    return pl.DataFrame(
        {
            "user": ratings.user_ids().cast(pl.String),
            "item": ratings.item_ids().cast(pl.String),
            "rating": ratings.values.astype(float),
            "time": pl.Series(times).replace(-1, None),
        }
    )


@pytest.fixture(scope="module")
def old_and_new(all_ratings):
    # Some users have come since.
    new = np.flatnonzero(np.isin(all_ratings.user_ids(), np.arange(20)))
    new = np.sort(generator(1).permutation(new)[:300])
    before = all_ratings.take(np.setdiff1d(np.arange(len(all_ratings)), new))
    return ALS(n_factors=2, regularisation=0.1, seed=3, threads=1).fit(before), stored(all_ratings, new=new)


def test_the_new_model_has_seen_everything(all_ratings, old_and_new):
    old, frame = old_and_new
    found = retrain(old, frame)
    assert len(found.recommender.ratings_) == len(all_ratings)
    assert (found.n_new, found.n_gone) == (300, 0)
    assert found.comparison.n_test == 60
    assert found.comparison.measure == "rmse"
    assert found.recommender.ratings_.items.ids.dtype == pl.Int64  # as the old model has them
    assert found.recommender.ratings_.item_titles is not None
    assert found.recommender.ratings_.item_attributes.columns == ["genre"]


def test_what_is_gone_is_not_learned_from(all_ratings, old_and_new):
    old, frame = old_and_new
    found = retrain(old, frame.filter(pl.col("user") != "3"), force=True)
    assert "3" not in found.recommender.ratings_.users.ids.cast(pl.String)
    assert found.n_gone == int((old.ratings_.user_ids() == 3).sum())


def test_a_worse_model_is_refused_unless_forced(old_and_new):
    old, frame = old_and_new
    # All others have thrown dice since.
    thrown = pl.Series(generator(2).integers(1, 6, frame.height).astype(float))
    turned = frame.with_columns(rating=pl.when(pl.col("user").cast(pl.Int64) < 20).then("rating").otherwise(thrown))
    with pytest.raises(WorseModelError, match="the new model is worse"):
        retrain(old, turned)
    forced = retrain(old, turned, force=True)
    assert forced.comparison.loss > 0.005


def test_chance_alone_is_no_reason_to_refuse():
    few = Comparison("rmse", old=0.85, new=0.87, n_test=30, p_value=0.4)
    assert not few.is_worse(0.005)
    assert replace(few, p_value=0.01).is_worse(0.005)
    assert not replace(few, p_value=0.01, new=0.852).is_worse(0.005)
    lists = Comparison("ndcg@10", old=0.3, new=0.2, n_test=300, p_value=0.001)
    assert lists.is_worse(0.005)  # larger is better


def test_nothing_new_is_nothing_to_compare_on(all_ratings):
    old = ALS(n_factors=2, regularisation=0.1, seed=3, threads=1).fit(all_ratings)
    found = retrain(old, stored(all_ratings))
    assert found.comparison is None
    assert found.n_new == 0


def test_a_model_of_choices_is_compared_by_its_lists(all_ratings):
    new = np.arange(0, len(all_ratings), 5)
    before = all_ratings.take(np.setdiff1d(np.arange(len(all_ratings)), new))
    old = Popular(seed=1).fit(before.with_kind("one-class"))
    found = retrain(old, stored(all_ratings, new=new), force=True)
    assert found.comparison.measure == "ndcg@10"
    assert found.recommender.ratings_.kind == "one-class"


def test_new_items_have_no_title_yet(all_ratings, old_and_new):
    old, frame = old_and_new
    more = pl.concat([frame, pl.DataFrame({"user": ["3"], "item": ["999"], "rating": [5.0], "time": [1_800_000_000]})])
    ratings = convert(more, old)
    row = ratings.items.rows_of([999])
    assert ratings.title_of(row).to_list() == [None]
    assert ratings.item_attributes[int(row[0])]["genre"].to_list() == [None]


def test_an_empty_database(old_and_new):
    old, frame = old_and_new
    with pytest.raises(DataError, match="no ratings"):
        retrain(old, frame.clear())


def test_an_index_is_chosen_again(small_model, all_ratings, tmp_path):
    from tastespace.evaluation.retrieval import tune_index

    old = artifact.load(small_model)
    old.index_ = tune_index(old, accuracy=0.5, seconds=1, structures=["inverted-file"])
    found = retrain(old, stored(all_ratings), index_seconds=1)
    assert found.recommender.index_ is not None
    assert found.recommender.index_.target.accuracy == 0.5
