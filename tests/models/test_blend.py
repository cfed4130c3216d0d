"""Blend adds the scores of a linear model and of a factorization: closed forms, and a weight where it is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import EASE, Blend, ImplicitALS, Ratings, load, save
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.composed.blend import USUAL_REGULARIZATION, USUAL_WEIGHT, WEIGHTS, LinearSide, ndcg
from tastespace.models.composed.choice import ITEM_SHARE, POPULAR_RATINGS
from tastespace.randomness import generator

FIXED = {"n_factors": 3, "strength": 8.0, "regularization": 1.0, "linear_regularization": 5.0, "seed": 1, "threads": 1}


def world(n_users=120, n_items=40, *, seed=0):
    """Counts with heavy tails, of what two tastes like."""
    rng = generator(seed)
    logits = -1 + 2 * rng.standard_normal((n_users, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(rng.random(logits.shape) < 1 / (1 + np.exp(-logits)))
    return Ratings.from_arrays(users, items, np.ceil(np.exp(2 * rng.random(len(users)) ** 2))).with_kind("counts")


def scores_of(model, users):
    ratings = model.ratings_
    people = People.known(ratings.users.rows_of(users), ratings.by_user)
    return model.posterior_.believe(people, 1).scores(np.arange(len(users), dtype=np.int32))


@pytest.fixture(scope="module")
def ratings():
    return world()


def test_scores_are_those_of_both_sides(ratings):
    """The formula, written once more with dense matrices."""
    users = ratings.users.ids[:9]
    found = scores_of(Blend(weight=0.3, **FIXED).fit(ratings), users)
    logs = np.zeros((ratings.n_users, ratings.n_items))
    logs[ratings.user_rows, ratings.item_rows] = np.log2(1 + ratings.values)
    has, seen = logs > 0, np.log2(1 + ratings.values.astype(float))
    usual = (logs.sum(1) + 5 * seen.mean()) / (has.sum(1) + 5)
    weights = has * (1 + np.clip((logs - usual[:, None]) / seen.std(), -2, 2) / 4)
    gram = weights.T @ weights
    inverse = np.linalg.inv(gram + np.diag(5.0 + ITEM_SHARE * np.diag(gram)))
    linear = weights - weights @ inverse / np.diag(inverse)
    n = has.sum(1)[:, None]
    propensity = (n * np.maximum(linear, 0) + POPULAR_RATINGS * has.mean(0)) / (n + POPULAR_RATINGS)
    of_factors = {key: value for key, value in FIXED.items() if key != "linear_regularization"}
    factors = scores_of(ImplicitALS(**of_factors).fit(ratings), users)
    assert_allclose(found, 0.7 * propensity[:9] + 0.3 * factors, atol=2e-4)  # Weights are stored in steps.
    only = scores_of(Blend(weight=1.0, **FIXED).fit(ratings), users)
    assert_allclose(only, factors, rtol=1e-6)


@pytest.mark.parametrize("count", [1.0, 5.0, 3.7])
def test_equal_counts_all_weigh_one(ratings, count):
    equal = Ratings.from_arrays(ratings.user_rows, ratings.item_rows, np.full(len(ratings), count)).with_kind("counts")
    assert_allclose(LinearSide.of(equal).weights.data, 1, rtol=1e-6)


def test_what_was_not_chosen_has_no_weight(ratings):
    """Explanations ask what would be without a choice: a count of 0."""
    side = LinearSide.of(ratings)
    asked = CSR(np.array([0, 3]), np.array([1, 4, 7], np.int32), np.array([2, 0, 5], np.float32))
    left = CSR(np.array([0, 2]), np.array([1, 7], np.int32), np.array([2, 5], np.float32))
    assert_array_equal(side.weigh(asked).toarray(), side.weigh(left).toarray())


def test_ndcg_by_hand():
    scores = np.array([[3, 2, 1, 0], [3, 2, 1, 0], [3, -np.inf, 1, 0]], np.float32)
    wanted = np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0]], bool)
    second, fourth = 1 / np.log2(3), 1 / np.log2(5)
    assert_allclose(ndcg(scores, wanted), [1, (second + fourth) / (1 + second), 0])


def pairs_world(rng):
    """Items of forty pairs: who has one has the other, and nothing else is known of anyone."""
    n_users, n_pairs = 400, 40
    chosen = rng.random((n_users, n_pairs)) < 0.15
    has = np.repeat(chosen, 2, axis=1) & (rng.random((n_users, 2 * n_pairs)) < 0.9)
    return Ratings.from_arrays(*np.nonzero(has), np.ones(np.count_nonzero(has))).with_kind("one-class")


def test_where_items_go_in_pairs_the_linear_side_decides():
    """Two factors cannot hold forty pairs."""
    found = Blend(n_factors=2, seed=0, threads=1).fit(pairs_world(generator(3)))
    assert found.weight_ <= 0.2
    assert found.weight_ in WEIGHTS


def test_where_the_linear_side_is_held_to_nothing_factors_decide(ratings):
    """Weights between items near zero leave popularity, which is the same for everybody."""
    found = Blend(n_factors=2, linear_regularization=1e9, seed=0, threads=1).fit(ratings)
    assert found.weight_ > 0


def test_what_was_found_is_what_it_is_fitted_with(ratings, tmp_path):
    found = Blend(n_factors=3, seed=1, threads=1).fit(ratings)
    names = ("strength", "regularization", "linear_regularization", "weight")
    settings = {name: getattr(found, f"{name}_") for name in names}
    assert all(isinstance(value, float) for value in settings.values())
    again = Blend(n_factors=3, seed=1, threads=1, **settings).fit(ratings)
    users = ratings.users.ids[:20]
    assert_allclose(scores_of(again, users), scores_of(found, users), atol=0.05)  # Another start of the factors.
    save(found, tmp_path / "m")
    kept = load(tmp_path / "m")
    assert {name: getattr(kept, f"{name}_") for name in names} == settings
    assert_array_equal(kept.recommend(users).scores, found.recommend(users).scores)


def test_nothing_to_hold_out():
    tiny = Ratings.from_arrays([0, 1, 2], [0, 0, 1], [1.0, 1.0, 1.0]).with_kind("one-class")
    found = Blend(n_factors=2, seed=0).fit(tiny)
    assert (found.weight_, found.linear_regularization_) == (USUAL_WEIGHT, USUAL_REGULARIZATION)
    assert found.recommend(0, 1).item_rows.tolist() == [[1]]


def test_a_new_user_gets_what_is_popular(ratings):
    model = Blend(**FIXED, weight=0.5).fit(ratings)
    counts = ratings.by_item.counts
    listed = model.recommend(["nobody"], 5, exclude=None).item_rows[0]
    assert counts[listed].min() > np.median(counts)
    alone = Blend(**FIXED, weight=0.0).fit(ratings).recommend(["nobody"], 5, exclude=None).item_rows[0]
    assert_array_equal(counts[alone], np.sort(counts)[:-6:-1])


def test_company_changes_nothing(ratings):
    model = Blend(weight=0.4, **FIXED).fit(ratings)
    belief = model.posterior_.believe(People.known(np.arange(5, dtype=np.int32), ratings.by_user), 1)
    pairs = Pairs(np.array([3, 0, 3, 4], np.int32), np.array([1, 2, -1, 5], np.int32))
    together = belief.mean(pairs)
    alone = [belief.mean(Pairs(pairs.rows[[k]], pairs.items[[k]]))[0] for k in range(4)]
    assert_array_equal(together, alone)
    assert_allclose(together[[0, 1, 3]], belief.scores(np.arange(5, dtype=np.int32))[[3, 0, 4], [1, 2, 5]], rtol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weight": -0.1}, "weight is -0.1"),
        ({"weight": 1.5}, "weight is 1.5; expected a number from 0 to 1"),
        ({"weight": "much"}, "weight is 'much'"),
        ({"linear_regularization": 0}, "linear_regularization is 0"),
        ({"strength": -1}, "strength is -1"),
    ],
)
def test_bad_parameters(ratings, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        Blend(**parameters).fit(ratings)


def test_the_share_of_items_in_the_regularization_of_ease(ratings):
    """By items and by users, against the closed form."""
    few = ratings.take(np.flatnonzero(ratings.user_rows < 15))
    for part in (ratings, few):
        model = EASE(regularization=4.0, item_share=0.5).fit(part)
        has = np.zeros((part.n_users, part.n_items))
        has[part.user_rows, part.item_rows] = 1
        inverse = np.linalg.inv(has.T @ has + np.diag(4 + 0.5 * has.sum(0)))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0)
        assert_allclose(model.posterior_.weights.matrix, weights, atol=1e-6)
        assert_allclose(model.posterior_.weights.unexplained, 4 * np.diag(inverse), rtol=1e-5)
    with pytest.raises(InvalidParameterError, match="item_share is -1"):
        EASE(item_share=-1.0).fit(ratings)
