"""A new model from the database: it knows what came, forgets what went, and is no worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from service.conftest import small_ratings

from tastespace import ALS, Joint, Popular, Ratings, artifact, choose
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
    return ALS(n_factors=2, regularization=0.1, seed=3, threads=1).fit(before), stored(all_ratings, new=new)


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
    old = ALS(n_factors=2, regularization=0.1, seed=3, threads=1).fit(all_ratings)
    found = retrain(old, stored(all_ratings))
    assert found.comparison is None
    assert found.n_new == 0


def test_a_few_ratings_are_not_enough_to_judge_by(all_ratings):
    latest = np.arange(len(all_ratings) - 25, len(all_ratings))
    before = all_ratings.take(np.arange(len(all_ratings) - 25))
    old = ALS(n_factors=2, regularization=0.1, seed=3, threads=1).fit(before)
    found = retrain(old, stored(all_ratings, new=latest))
    assert (found.n_new, found.n_test, found.comparison) == (25, 5, None)
    assert len(found.recommender.ratings_) == len(all_ratings)


def test_a_model_of_choices_is_compared_by_its_lists(all_ratings):
    new = np.arange(0, len(all_ratings), 5)
    before = all_ratings.take(np.setdiff1d(np.arange(len(all_ratings)), new))
    old = Popular(seed=1).fit(before.with_kind("one-class"))
    found = retrain(old, stored(all_ratings, new=new), force=True)
    assert found.comparison.measure == "ndcg@10"
    assert found.recommender.ratings_.kind == "one-class"


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_a_model_of_choices_and_ratings_is_refused_for_its_lists_alone():
    """Two groups of users choose different items; ratings are chance, and a list by them is one, too."""
    rng = generator(6)
    pairs = [(user, int(item)) for user in range(120) for item in rng.permutation(30)[:20] + 30 * (user % 2)]
    users, items = map(np.array, zip(*pairs, strict=True))
    ratings = Ratings.from_arrays(users, items, rng.integers(1, 6, len(users)).astype(float))
    new = np.flatnonzero(rng.random(len(ratings)) < 0.3)
    before = ratings.take(np.setdiff1d(np.arange(len(ratings)), new))
    old = Joint(n_factors=2, warmup=10, draws=20, chains=1, weight=0.0, seed=1, threads=1).fit(before)
    assert retrain(old, stored(ratings, new=new)).comparison.loss < 0.005
    old.set_params(weight=float("inf"))  # What is fitted next makes lists by ratings alone.
    with pytest.raises(WorseModelError, match=r"the new model is worse: ndcg@10"):
        retrain(old, stored(ratings, new=new))


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


def plays(seed=0):
    """What was played, and when: all of it known to have a time."""
    rng = generator(seed)
    tastes = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40))
    users, items = np.nonzero(tastes + rng.standard_normal(tastes.shape) > 0.5)
    seconds = 1_700_000_000 + 86_400 * rng.permutation(len(users))
    frame = pl.DataFrame({"user": users, "item": items, "rating": np.ceil(np.exp(4 * rng.random(len(users)) ** 2))})
    return frame.with_columns(time=pl.Series(seconds))


def as_counts(frame):
    return Ratings.from_frame(frame.with_columns(pl.from_epoch("time", "s")), kind="counts")


def as_stored(frame):
    return frame.with_columns(pl.col("user", "item").cast(pl.String))


def test_what_was_chosen_stays_chosen():
    frame = plays()
    chosen = choose(as_counts(frame[:-100]), fixed={"n_factors": 2}, seed=3, threads=1, half_lives=())
    chosen = replace(chosen, taken=replace(chosen.taken, half_life=100.0))
    old = chosen.fit(as_counts(frame[:-100]))
    found = retrain(old, as_stored(frame), force=True).recommender
    assert type(found) is type(old)
    assert found.get_params() == old.get_params()
    assert found.choice_ == old.choice_
    faded = as_counts(frame).decayed(100.0)
    assert found.ratings_.values.sum() == pytest.approx(faded.values.sum(), rel=1e-5)
    without = as_stored(frame).with_columns(time=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise("time"))
    assert retrain(old, without, force=True).recommender.ratings_.values.sum() == frame["rating"].sum()


def test_a_model_can_be_chosen_again():
    frame = plays()
    old = Popular(seed=3, threads=1).fit(as_counts(frame[:-200]))
    found = retrain(old, as_stored(frame), choose_again=True)
    assert found.recommender.choice_["model"] != "popular"
    assert found.recommender.seed_ == 3
    assert len(found.recommender.ratings_) == frame.height
    assert found.comparison.new > found.comparison.old
    # What is held out to compare the two has no say in the choice.
    assert found.recommender.choice_["held_out"] <= 0.2 * (frame.height - found.comparison.n_test) + 80
    guessed = retrain(old, as_stored(frame), choose_again=True, budget=0, force=True).recommender
    assert guessed.choice_["tried"] == []


def test_an_index_is_chosen_again(small_model, all_ratings, tmp_path):
    from tastespace.evaluation.retrieval import tune_index

    old = artifact.load(small_model)
    old.index_ = tune_index(old, accuracy=0.5, seconds=1, structures=["inverted-file"])
    found = retrain(old, stored(all_ratings), index_seconds=1)
    assert found.recommender.index_ is not None
    assert found.recommender.index_.target.accuracy == 0.5
