"""Content profiles: users as the weighted means of the features of what they rated."""

from __future__ import annotations

import numpy as np
import pytest

import tastespace as ts
from tastespace.models.registry import misfit


def shared(n_users: int = 60, n_items: int = 80, *, seed: int = 0) -> ts.Ratings:
    """Half of the users like genre a, the others genre b; the sound of an item says nothing."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n_users, 2500), rng.integers(0, n_items, 2500)
    likes = users % 2 == items % 2
    ratings = ts.Ratings.from_arrays(users, items, np.where(likes, 4, 2) + rng.integers(0, 2, 2500))
    return ratings.with_item_features(
        {item: {"genre": "ab"[item % 2], "sound": rng.normal()} for item in range(n_items)}
    )


def test_cold_items_are_ranked_by_their_features() -> None:
    split = ts.held_out_items(shared(), 0.2, seed=1)
    model = ts.ContentProfile(seed=0).fit(split.train)
    grown = model.with_items(split.test.item_features)
    pairs = split.test.user_ids(), split.test.item_ids()
    error = np.sqrt(np.mean((grown.predict(*pairs).mean - split.test.values) ** 2))
    plain = np.sqrt(np.mean((ts.DampedBias().fit(split.train).predict(*pairs).mean - split.test.values) ** 2))
    assert error < 0.75 < 1 < plain
    top = grown.recommend([0], 5, only=split.test.items.ids)
    assert all(item % 2 == 0 for item in top.item_ids)


def test_a_prediction_by_hand() -> None:
    """Two items alike and one unlike: what was given to the first is expected of the second."""
    ratings = ts.Ratings.from_arrays(["u", "u", "v", "v"], ["a", "c", "b", "c"], [5, 1, 4, 2])
    features = {"a": {"kind": "x"}, "b": {"kind": "x"}, "c": {"kind": "y"}}
    model = ts.ContentProfile(seed=0, damping=1.0, bias_damping=0.0).fit(ratings.with_item_features(features))
    posterior = model.posterior_
    np.testing.assert_allclose(posterior.items.toarray()[:, 0] != 0, [True, False, True])  # a, c, b
    # u: mean 3, deviations +2 and -2; the profile is 2 / (4 + 1) of kind x, less the same of kind y.
    belief = model.about(["u"]).belief
    np.testing.assert_allclose(belief.profiles.toarray()[0], [0.4, -0.4], rtol=1e-6)
    expected = 3 + posterior.slope * 0.4
    np.testing.assert_allclose(model.predict("u", "b").unclipped, [expected], rtol=1e-5)


def test_the_slope_does_not_see_the_rating_itself() -> None:
    """Features that say nothing have a slope near 0, though each rating is in the profile of its user."""
    rng = np.random.default_rng(5)
    noise = shared().with_item_features(None).with_item_features(rng.normal(size=(80, 30)), ids=range(80), name="noise")
    model = ts.ContentProfile(seed=0).fit(noise)
    predicted = model.predict(noise.user_ids(), noise.item_ids()).mean
    assert abs(np.corrcoef(predicted, noise.values)[0, 1]) < 0.6
    test = ts.random_split(noise, 0.2, seed=0)
    report = ts.evaluate(ts.ContentProfile(seed=0).fit(test.train), test.test, bootstrap=0, ranking=False)
    plain = ts.evaluate(ts.DampedBias().fit(test.train), test.test, bootstrap=0, ranking=False)
    assert report.rating["rmse"] < plain.rating["rmse"] + 0.15


def test_without_features_it_says_so() -> None:
    plain = ts.random_split(shared().with_item_features(None), 0.1).train
    problem = misfit(ts.ContentProfile(), plain)
    assert problem is not None
    assert "there are none; expected item features" in problem
    assert misfit(ts.ContentProfile(), shared()) is None


@pytest.mark.parametrize("kind", ["counts", "one-class"])
def test_implicit_feedback_is_ranked(kind: str) -> None:
    ratings = shared()
    liked = ratings.masked(ratings.values >= 4).with_kind(kind)  # type: ignore[arg-type]
    model = ts.ContentProfile(seed=0).fit(liked)
    top = model.recommend([0, 1], 5)
    assert all(item % 2 == 0 for item in top.of(0)["item"])
    assert all(item % 2 == 1 for item in top.of(1)["item"])
