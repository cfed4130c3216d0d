"""What an update does for users: their ratings count at once, the old model stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models.updating.world import KINDS, N_ITEMS, N_NEW, N_USERS, SMALL, fitted, parts, silently, updated
from numpy.testing import assert_array_equal

from tastespace import BPMF, Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models import MODELS
from tastespace.models.base.update import TrainingSummary


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.extra is None and name != "rbm"])
def test_an_update_with_nothing_new_changes_no_prediction(name):
    old = parts()[0]
    small = SMALL if "chains" in MODELS[name]().get_params() else {}
    before = fitted("gaussian") if name == "bpmf" else silently(lambda: MODELS[name](**{"seed": 1, **small}).fit(old))
    after = before.update(old.take(np.arange(30)))
    assert after.news_.how == "nothing new"
    assert (after.news_.ratings, after.news_.unchanged, after.seen_.updates) == (0, 30, 1)
    users, items = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    assert_array_equal(after.predict(users, items).mean, before.predict(users, items).mean)
    assert_array_equal(after.recommend(range(20)).item_ids, before.recommend(range(20)).item_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_users_count_at_once_as_by_a_history(kind):
    """The same bytes: known users with news, and new ones; old items."""
    before, (_, news) = fitted(kind), parts(kind)
    news = news.take(np.flatnonzero(news.item_ids().to_numpy() < N_ITEMS - N_NEW))
    assert (news.user_ids() >= N_USERS - 2).all()
    known = Ratings.from_arrays([0, 1], [before.ratings_.items.ids[0]] * 2, before.ratings_.values[:2])
    both = Ratings.from_arrays(
        [*news.user_ids(), *known.user_ids()],
        [*news.item_ids(), *known.item_ids()],
        [*news.values, *known.values],
    )
    after = updated(before, both, sweeps=0)
    users = np.repeat([0, 1, 5, N_USERS - 2, N_USERS - 1], 20)
    items = np.tile(before.ratings_.items.ids.to_numpy()[:20], 5)
    asked, told = after.predict(users, items), before.predict(users, items, history=both)
    assert_array_equal(asked.mean, told.mean)
    assert_array_equal(asked.belief_sd, told.belief_sd)
    assert not asked.cold.any()
    own = set(both.item_ids().filter(both.user_ids() == N_USERS - 1))
    assert not own & set(after.recommend([N_USERS - 1]).item_ids)


def test_the_old_model_is_untouched(model, late):
    before = model.predict([0, 1], [2, 3]).mean, model.seen_, len(model.ratings_), model.posterior_
    updated(model, late, sweeps=1)
    assert_array_equal(model.predict([0, 1], [2, 3]).mean, before[0])
    assert (model.seen_, len(model.ratings_), model.posterior_) == before[1:]
    assert model.news_ is None


def test_parameters_and_seed_stay(model, late):
    after = updated(model, late, sweeps=0)
    assert after.get_params() == model.get_params()
    assert after.seed_ == model.seed_
    unseeded = fitted("gaussian", seed=None)
    again = [updated(unseeded, late).posterior_.draws.items for _ in range(2)]
    assert_array_equal(*again)


def test_noise_of_users_and_items_keeps_up():
    news = parts("uneven")[1]
    before = fitted("uneven")
    after = updated(before, news, sweeps=0)
    kept = after.posterior_.draws.noise
    assert len(kept["user_noise"]) == N_USERS
    assert kept["item_noise"].shape == (N_ITEMS, 4)
    assert kept["item_precision"].shape == (N_ITEMS, 20)
    assert np.isfinite(kept["user_noise"]).all()
    assert (kept["item_precision"] > 0).all()
    touched = set(after.ratings_.users.rows_of(news.users.ids))
    moved = np.flatnonzero(
        (kept["user_noise"][: N_USERS - 2] != before.posterior_.draws.noise["user_noise"]).any(axis=1)
    )
    assert set(moved) <= touched
    assert len(moved) > 10
    assert len(after.erratic_users(N_USERS)) == N_USERS
    assert len(after.divisive_items(N_ITEMS)) == N_ITEMS


def test_a_declared_level_may_come_late():
    ratings = parts("ordinal")[0]
    ratings = replace(ratings, values=np.clip(ratings.values, 2, 5))
    before = silently(lambda: BPMF(**SMALL, likelihood="ordinal:levels=1,2,3,4,5").fit(ratings))
    assert before.ratings_.range == (2, 5)
    after = updated(before, Ratings.from_arrays(["x"] * 9, range(9), [1.0] * 9), sweeps=0)
    assert after.rating_range_ == (1, 5)
    assert after.predict(["x"], [0]).mean[0] < before.predict(["x"], [0]).mean[0]


@pytest.mark.parametrize(
    "name",
    [name for name, model in MODELS.items() if model.extra is None and name != "rbm" and not issubclass(model, BPMF)],
)
def test_models_without_draws_are_fitted_again(name, late):
    before = MODELS[name](seed=3).fit(parts()[0])
    after = before.update(late)
    assert after.news_.how == "fitted again"
    assert after.seen_ == replace(TrainingSummary.of(after.ratings_), updates=1)
    again = MODELS[name](seed=3).fit(after.ratings_)
    users, items = np.arange(40), np.arange(40)
    assert_array_equal(after.predict(users, items).mean, again.predict(users, items).mean)
    with pytest.raises(InvalidParameterError, match="no chains to continue"):
        before.update(late, sweeps=0)
