"""Joint and Blend with features: items that nobody has rated get a propensity, and reach the default list."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import Joint, Ratings, load, save
from tastespace.models.composed import choice, described
from tastespace.models.composed.choice import ChoiceModel, LowRank
from tastespace.models.composed.described import DescribedItems
from tastespace.progress import silent
from tastespace.randomness import generator

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
SHORT = {"n_factors": 2, "warmup": 20, "draws": 20, "thin": 1, "seed": 1, "weight": 0.5}
N_USERS, N_KNOWN, N_ITEMS = 120, 48, 60


def camps(seed=3):
    """Items of two kinds: even users mostly rate even items, odd users odd ones; the first ones are rated most."""
    rng = generator(seed)
    likes = (np.arange(N_USERS)[:, None] % 2) == (np.arange(N_ITEMS) % 2)
    chosen = rng.random(likes.shape) < np.where(likes, 0.4, 0.04) * np.where(np.arange(N_ITEMS) < 4, 2, 1)
    users, items = np.nonzero(chosen)
    values = np.clip(np.round(3 + likes[users, items] + rng.standard_normal(len(users))), 1, 5)
    return Ratings.from_arrays(users, items, values)


def kinds(items):
    return {int(item): {"kind": "ab"[int(item) % 2], "length": float(int(item) * 7 % 11)} for item in items}


TRAIN = camps().take(np.flatnonzero(camps().item_ids().to_numpy() < N_KNOWN)).with_item_features(kinds(range(N_KNOWN)))


@pytest.fixture(scope="module")
def fitted():
    return Joint(**SHORT).fit(TRAIN)


@pytest.fixture(scope="module")
def grown(fitted):
    return fitted.with_items(kinds(range(N_KNOWN, N_ITEMS)))


def regressed(features, linear, is_had, strength=described.STRENGTH):
    """c of items that nobody has, by a ridge regression of the others for each user, as the module writes it."""
    x, new = features.matrix.toarray().astype(float)[is_had], features.matrix.toarray().astype(float)[~is_had]
    of_groups = [np.full(len(g), (x[:, g.columns] ** 2).sum() / len(x)) for g in features.groups]
    penalty = np.diag(np.append(strength * np.concatenate(of_groups), 1.0))
    x, new = (np.column_stack([part, np.ones(len(part))]) for part in (x, new))
    return (new @ np.linalg.solve(x.T @ x + penalty, x.T @ linear[:, is_had].T)).T


@pytest.mark.parametrize("how", ["few features", "many features", "many items"])
def test_the_weights_are_a_ridge_regression_for_each_user(grown, monkeypatch, how):
    features, is_had = grown.ratings_.item_features, np.arange(N_ITEMS) < N_KNOWN
    if how == "many features":
        monkeypatch.setattr(described, "CHOLESKY_FEATURES", 1)  # by conjugate gradients
    if how == "many items":
        monkeypatch.setattr(described, "MOST_WEIGHTS", 5 * N_ITEMS)
    found = DescribedItems.of(features, is_had)
    assert (found.features is None) == (how != "many items")
    found = DescribedItems.found_in(found.arrays())
    linear = generator(1).standard_normal((5, N_ITEMS)).astype(np.float32)
    expected = regressed(features, linear, is_had)
    found.fill(linear)
    np.testing.assert_allclose(linear[:, ~is_had], expected, atol=1e-4)
    weaker = regressed(features, linear, is_had, strength=0.01)
    assert np.abs(weaker - expected).max() > 0.01


def test_new_items_are_in_the_default_list_of_those_whom_they_suit(fitted, grown):
    places = np.zeros((N_USERS, N_ITEMS))
    for user in range(0, 40):
        order = grown.recommend([user], N_ITEMS, include_seen=True).item_ids.to_numpy().astype(int)
        places[user, order] = np.arange(N_ITEMS)
    new = np.arange(N_KNOWN, N_ITEMS)
    for user in range(0, 40):
        suits = new[new % 2 == user % 2]
        others = np.setdiff1d(np.arange(N_KNOWN), np.arange(user % 2, N_KNOWN, 2))
        assert places[user, suits].mean() < places[user, others].mean() - 10
    assert (places[:40, new].min(axis=1) < 24).mean() > 0.9
    # Without features they are last.
    plain = Joint(**SHORT).fit(TRAIN.with_item_features(None)).with_items({60: {"title": "x"}})
    assert plain.recommend([0], N_ITEMS, include_seen=True).item_ids.to_list()[N_KNOWN] == 60


def test_all_else_stays_as_it_was(fitted, grown):
    known = list(range(N_KNOWN))
    before, after = (model.recommend([0, 1, "new"], 20, only=known) for model in (fitted, grown))
    np.testing.assert_array_equal(before.item_ids.to_numpy(), after.item_ids.to_numpy())
    np.testing.assert_allclose(before.scores, after.scores, rtol=1e-5)


def test_growing_is_what_learning_again_would_find(fitted, grown):
    """The choice side with new items, and one learned of the same ratings and all items."""
    again = ChoiceModel.of(grown.ratings_, fitted.regularization_, silent)
    histories = TRAIN.by_user.take(np.arange(10, dtype=np.int32))
    np.testing.assert_allclose(
        grown.posterior_.choice.propensities(histories), again.propensities(histories), rtol=1e-3, atol=1e-6
    )
    # In steps, too.
    steps = fitted.with_items(kinds([50, 48, 49])).with_items(kinds(range(51, N_ITEMS)))
    one, two = (model.recommend([3], 5, only=[52, 54, 55]).to_polars() for model in (steps, grown))
    assert one["item"].to_list() == two["item"].to_list()


def test_someone_without_ratings_gets_what_is_popular_among_such_items(grown):
    shares = grown.posterior_.choice.shares
    new = shares[N_KNOWN:]
    assert (new > 0).all()
    assert abs(new.mean() - shares[:N_KNOWN].mean()) < 0.1
    found = grown.recommend(["new"], N_ITEMS)
    assert set(range(N_KNOWN, N_ITEMS)) <= set(found.item_ids.to_list())


def test_saved_models_answer_the_same(tmp_path, grown):
    save(grown, tmp_path / "model")
    loaded = load(tmp_path / "model")
    one, two = (model.recommend([0, 1, "new"], 30) for model in (grown, loaded))
    np.testing.assert_array_equal(one.item_rows, two.item_rows)
    np.testing.assert_array_equal(one.scores, two.scores)
    again = loaded.with_items({77: {"kind": "a", "length": 1.0}})
    assert again.recommend([0], 1, only=[77]).item_ids.to_list() == [77]


def test_what_each_rating_does_to_a_new_item(grown):
    belief = grown.about([0]).belief
    history = belief.history
    items = np.array([48, 49], np.int32)
    told = belief.choice_contributions(0, items)
    whole = grown.posterior_.choice.linear(grown.posterior_.choice.pairs.weigh(history, N_ITEMS))[0, items]
    np.testing.assert_allclose(told.sum(axis=1), whole, atol=0.02)  # The mean of the regression is not of any rating.
    assert told[0].sum() > told[1].sum()


def test_a_low_rank_gives_them_vectors(monkeypatch, grown):
    monkeypatch.setattr(choice, "MOST_ROWS", 10)
    model = ChoiceModel.of(grown.ratings_, 30.0, silent)
    assert isinstance(model.inverse, LowRank)
    histories = TRAIN.by_user.take(np.arange(6, dtype=np.int32))
    whole = model.propensities(histories)
    rows, items = np.divmod(np.arange(6 * N_ITEMS), N_ITEMS)
    some = model.propensities_of(histories, rows.astype(np.int32), items.astype(np.int32)).reshape(6, N_ITEMS)
    unseen = np.ones((6, N_ITEMS), bool)
    unseen[histories.rows(), histories.columns] = False
    np.testing.assert_allclose(
        some[:, :N_KNOWN][unseen[:, :N_KNOWN]], whole[:, :N_KNOWN][unseen[:, :N_KNOWN]], atol=1e-5
    )
    # c of items that a user has is as if they had them not; by vectors it is what was left of them. So nearly the same.
    assert np.corrcoef(some[:, N_KNOWN:].ravel(), whole[:, N_KNOWN:].ravel())[0, 1] > 0.9
    queries, vectors = model.queries(histories), model.vectors()
    positive = (queries[:, :-1] @ vectors[:, :-1].T > 0) & unseen
    assert positive[:, N_KNOWN:].any()
    np.testing.assert_allclose((queries @ vectors.T)[positive], some[positive], rtol=1e-3, atol=1e-5)


def test_rated_by_nobody_in_training():
    """Items of the vocabulary without ratings are described ones, too."""
    whole = camps().with_item_features(kinds(range(N_ITEMS)))
    rest = whole.masked(whole.item_rows % 10 != 3)
    model = ChoiceModel.of(rest, 100.0, silent)
    assert model.described.rows.tolist() == list(range(3, N_ITEMS, 10))
    assert (model.propensities(whole.by_user.take(np.array([1], np.int32)))[0, 3::10] > 1e-6).all()
