"""Joint orders by what is chosen and liked: closed forms of the choice side, the search, lists and policies."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from math import inf

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import BPMF, Joint, Ratings, Thompson, load, save
from tastespace.errors import ConvergenceWarning, DataError, InvalidParameterError
from tastespace.models.base.posterior import Pairs
from tastespace.models.base.similarity import top_k
from tastespace.models.composed import choice, joint
from tastespace.models.composed.choice import ByItems, ByUsers, ChoiceModel, LowRank, PairWeights, inverse_of, without
from tastespace.models.composed.joint import (
    LEAST_LIKED,
    REGULARIZATIONS,
    USUAL_REGULARIZATION,
    USUAL_WEIGHT,
    WEIGHTS,
    ChoiceCurve,
    JointBelief,
    Search,
    list_values,
)
from tastespace.models.registry import misfit
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
SHORT = {"n_factors": 3, "warmup": 20, "draws": 20, "thin": 1, "seed": 1}
N_ITEMS = 50


def world(n_users=150, n_items=N_ITEMS, *, chooses=2.0, likes=1.0, noise=0.3, seed=0):
    """Tastes decide what is chosen, others how it is rated; without the first, a random half of all is rated."""
    rng = generator(seed)

    def tastes():
        return rng.standard_normal((n_users, 2)) @ rng.standard_normal((2, n_items))

    logits = -0.8 + chooses * tastes() + rng.standard_normal(n_items) if chooses else np.zeros((n_users, n_items))
    has = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
    has[np.arange(n_users), rng.integers(0, n_items, n_users)] = True
    has[rng.integers(0, n_users, n_items), np.arange(n_items)] = True
    truth = 3 + likes * (0.7 * tastes() + 0.5 * rng.standard_normal(n_items))
    values = np.clip(truth + noise * rng.standard_normal(has.shape), 0, 6)
    return Ratings.from_arrays(*np.nonzero(has), values[has])


@pytest.fixture(scope="module")
def ratings():
    return world()


@pytest.fixture(scope="module")
def fitted(ratings):
    return Joint(**SHORT).fit(ratings)


def weighed(shape, seed=0, density=0.4):
    """F, and D as of a regularization of 3."""
    rng = generator(seed)
    dense = np.where(rng.random(shape) < density, rng.uniform(0.5, 1.5, shape), 0)
    return sp.csr_array(dense), 3 + 0.3 * (dense**2).sum(axis=0)


def inverted(weights, penalties):
    return np.linalg.inv((weights.T @ weights).toarray() + np.diag(penalties))


def everything(fitted, user):
    """log C, P(liked) and the distribution of every item for a user, the slow way."""
    belief, rows = believed(fitted), fitted.ratings_
    pairs = Pairs.of_one(user, np.arange(rows.n_items, dtype=np.int32))
    model = fitted.posterior_.choice
    propensity = model.propensities(rows.by_user.take(np.array([user])))[0]
    return propensity, belief.liked(pairs), belief, pairs


def unseen_order(fitted, user, scores, n):
    scores = np.array(scores, np.float64)
    history = fitted.ratings_.by_user.take(np.array([user]))
    scores[history.columns] = -np.inf
    return np.argsort(-scores, kind="stable")[:n]


# The choice side


@pytest.mark.parametrize("shape", [(6, 30), (30, 6), (1, 5), (5, 1), (9, 9)])
def test_the_inverse_is_the_same_from_users_and_from_items(shape):
    weights, penalties = weighed(shape, seed=shape[0])
    exact = weights.toarray() @ inverted(weights, penalties)
    by_users = ByUsers.of(weights, penalties, silent)
    assert_allclose(by_users.diagonal, np.diagonal(inverted(weights, penalties)), rtol=1e-12)
    assert_allclose(by_users.times(weights), exact, rtol=1e-10, atol=1e-13)
    # Weights between items are kept in single precision, in steps of 1 / 32 767 of the largest.
    for by_items in (ByItems.of(inverted(weights, penalties).astype(np.float32)), by_users.by_items()):
        assert_allclose(by_items.diagonal, by_users.diagonal, rtol=1e-6)
        assert_allclose(by_items.times(weights), exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
        assert_allclose(by_items.linear(weights), by_users.linear(weights), atol=1e-4)
        stored = {"diagonal": by_items.diagonal, **by_items.arrays()}
        assert_array_equal(ByItems.from_arrays(stored).matrix, by_items.matrix)
    # With a plausible mistake, D in place of its inverse, nothing is the same.
    assert np.abs(replace(by_users, penalties=1 / penalties).times(weights) - exact).max() > 0.1 * np.abs(exact).max()


@pytest.mark.parametrize(("shape", "kind"), [((5, 30), ByUsers), ((20, 30), ByItems), ((30, 20), ByItems)])
def test_the_smaller_matrix_is_kept(shape, kind):
    weights, penalties = weighed(shape)
    found = inverse_of(weights.astype(np.float32), 3.0, silent)
    assert type(found) is kind
    assert_allclose(found.diagonal, np.diagonal(inverted(weights, penalties)), rtol=1e-6)


def refitted(weights, penalties, user, rest):
    """c of a user after G is made with the rest in place of their row; D as it was."""
    changed = weights.toarray()
    changed[user] = rest
    inverse = np.linalg.inv(changed.T @ changed + np.diag(penalties))
    return rest - (rest @ inverse) / np.diagonal(inverse)


@pytest.mark.parametrize("shape", [(6, 30), (40, 12)])
def test_leaving_ratings_out_equals_fitting_without_them(shape):
    weights, penalties = weighed(shape)
    rng = generator(5)
    kept = weights.toarray() * (rng.random(shape) < 0.7) * rng.uniform(0.9, 1.1, shape)  # The mean moves, too.
    expected = np.stack([refitted(weights, penalties, user, kept[user]) for user in range(shape[0])])
    by_users = ByUsers.of(weights, penalties, silent)
    rest = sp.csr_array(kept)
    assert_allclose(without(by_users, weights, rest), expected, rtol=1e-6, atol=1e-7)
    assert_allclose(without(by_users.by_items(), weights, rest), expected, atol=1e-3)
    # With what was held out left in the matrix, it is something else: what was held out is seen again.
    naive = kept - by_users.times(rest) / by_users.diagonal
    assert np.abs(naive - expected).max() > 0.1


def test_with_all_directions_a_low_rank_is_exact():
    weights, penalties = weighed((30, 12))
    rng = generator(5)
    rest = sp.csr_array(weights.toarray() * (rng.random(weights.shape) < 0.7))
    low, exact = LowRank.of(weights, penalties), ByUsers.of(weights, penalties, silent)
    assert_allclose(low.diagonal, exact.diagonal, rtol=1e-5)
    assert_allclose(low.linear(weights), exact.linear(weights), atol=1e-5)
    assert_allclose(without(low, weights, rest), without(exact, weights, rest), atol=1e-4)


def test_leaving_ratings_out_of_a_low_rank_equals_replacing_the_row(monkeypatch):
    monkeypatch.setattr(choice, "RANK", 4)
    weights, penalties = weighed((40, 12))
    rest = sp.csr_array(weights.toarray() * (generator(5).random(weights.shape) < 0.7))
    low = LowRank.of(weights, penalties)
    # The same with matrices: F as the four directions leave it, one row of it replaced by the rest, as they leave that.
    roots = np.sqrt(penalties)
    directions = low.vectors * roots[:, None]
    assert_allclose(directions.T @ directions, np.eye(4), atol=1e-5)
    kept, kept_rest = ((part.toarray() / roots) @ directions @ directions.T * roots for part in (weights, rest))
    singular = np.linalg.svd(weights.toarray() / roots, compute_uv=False)[:4] ** 2
    assert_allclose(low.explained, singular / (1 + singular), rtol=1e-4)
    for user in (0, 17):
        changed = kept.copy()
        changed[user] = kept_rest[user]
        inverse = np.linalg.inv(changed.T @ changed + np.diag(penalties))
        own = rest.toarray()[user]
        expected = own - (own @ inverse) / np.diagonal(inverse)
        assert_allclose(without(low, weights, rest)[user], expected, atol=1e-4)


def test_a_catalogue_too_large_for_matrices(ratings, monkeypatch, tmp_path):
    monkeypatch.setattr(choice, "MOST_ROWS", 40)
    model = Joint(**SHORT).fit(ratings)
    assert isinstance(model.posterior_.choice.inverse, LowRank)
    save(model, tmp_path / "model")
    for asked in ({"user_ids": [0, 1]}, {"history": {3: 5.0, 4: 1.0}}, {"user_ids": ["new"]}):
        lists = [one.recommend(**asked).to_polars() for one in (model, load(tmp_path / "model"))]
        assert lists[0].equals(lists[1])


def test_a_pair_counts_more_if_it_was_liked(ratings):
    pairs, by_user = PairWeights.of(ratings), ratings.by_user
    own = by_user.take(np.array([3]))
    mean = (own.values.sum(dtype=np.float64) + 5 * ratings.values.mean(dtype=np.float64)) / (len(own.values) + 5)
    assert_allclose(pairs.liked_from(own), [mean], rtol=1e-6)
    sd = ratings.values.astype(np.float64).std()
    expected = 1 + np.clip((own.values - mean) / sd, -2, 2) / 4
    assert_allclose(pairs.weigh(own, ratings.n_items).data, expected, rtol=1e-5)


def test_the_propensity_falls_back_to_popularity(ratings):
    model = ChoiceModel.of(ratings, 30.0, silent)
    popularity = ratings.by_item.counts / ratings.n_users
    history = ratings.by_user.take(np.array([-1, 0], np.int32))  # nobody, and the first user
    found = model.propensities(history)
    assert_allclose(found[0], popularity, rtol=1e-6)
    n, linear = history.counts[1], model.inverse.linear(model.pairs.weigh(history, ratings.n_items))[1]
    assert_allclose(found[1], (n * np.maximum(linear, 0) + 0.3 * popularity) / (n + 0.3), rtol=1e-5)


# How likely a choice is


def test_probabilities_of_choices_increase_and_average_to_the_base_rate(ratings, fitted):
    curve = fitted.posterior_.curve
    assert (np.diff(curve.logs) > 0).all()
    assert (np.diff(curve.probabilities) > 0).all()
    assert (curve.probabilities >= 0).all()
    assert (curve.probabilities <= 1).all()
    # By hand: three users, four items; the last two of each are unseen, one of them is held out.
    of = Ratings.from_arrays([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1.0] * 6)
    held = Ratings.from_arrays([0, 1, 2], [3, 3, 2], [1.0] * 3)
    held_by_user = replace(of.by_user, offsets=np.arange(4), columns=held.items.ids.to_numpy()[held.item_rows])
    logs = np.log(np.tile([0.9, 0.9, 0.1, 0.5], (3, 1)).astype(np.float32))
    curve = ChoiceCurve.of(logs, of.by_user, replace(held_by_user, values=held.values))
    assert curve.base_rate == 0.5
    assert_allclose(curve.of_logs(np.log([0.1, 0.5])), [1 / 3, 2 / 3], rtol=1e-6)
    # The average over all that is unseen is the base rate.
    assert_allclose(curve.of_logs(logs[:, 2:]).mean(), curve.base_rate, rtol=1e-6)


def test_the_value_of_lists_by_hand():
    scores = np.array([[3.0, 2, 1], [1, 2, 3], [1, 2, 3]])
    wanted = np.array([[True, False, False], [True, True, False], [False, False, False]])  # the last has none
    second = (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    assert_allclose(list_values(scores, wanted), [2, second + 1])


# The search


def test_where_choosing_says_nothing_liking_decides():
    """All users rated a random half of everything: what they would like is what counts."""
    model = Joint(**SHORT).fit(world(1000, chooses=0))
    assert model.posterior_.found.weight >= 2
    users = np.arange(200)
    best, likely = (model.recommend(users, policy=policy, uncertainty=False).item_rows for policy in ("best", "likely"))
    assert np.mean([len(np.intersect1d(*lists)) for lists in zip(best, likely, strict=True)]) > 9


@pytest.mark.parametrize("seed", [0, 7])
def test_where_ratings_say_nothing_choosing_decides(seed):
    """Which weight is best is then chance, and in a quarter of such worlds not 0 (of 12, in those of seeds 1, 5 and 7).

    That changes no list: where ratings say nothing, so do the probabilities of liking.
    """

    def in_common(ratings):
        """The share of the lists that are those of choosing alone."""
        model = Joint(**SHORT).fit(ratings)
        choosing = Joint(**SHORT, weight=0.0, regularization=model.regularization_).fit(ratings)
        users = ratings.users.ids[:300]
        lists = (which.recommend(users, 10, uncertainty=False).item_rows for which in (model, choosing))
        return np.mean([len(np.intersect1d(*both)) / 10 for both in zip(*lists, strict=True)]), model.weight_

    assert in_common(world(1000, likes=0.0, noise=1.0, seed=seed))[0] > 0.95
    # And with ratings that say something, both decide.
    share, weight = in_common(world(1000, seed=seed))
    assert share < 0.85
    assert 0.25 < weight < inf


@pytest.mark.parametrize(("gain", "weight"), [(0.2, 0.0), (3.0, 0.5)])
def test_a_weight_has_to_show_that_it_helps(monkeypatch, gain, weight):
    """By more than a standard error of what users gain."""
    n, spread = 400, 0.1
    noise = np.tile([spread, -spread], n // 2)

    def values(self, log_choice, weights, items, n_threads):
        better = {0.5: gain * spread / n**0.5 + noise}
        return [1 + better.get(weight, -0.01 if weight else 0.0) * np.ones(n) for weight in weights]

    monkeypatch.setattr(Search, "_values", values)
    monkeypatch.setattr(Search, "tells_nothing", False)
    assert Search(None, None, None, 1).weight(np.zeros((n, 5))) == weight


@pytest.mark.parametrize("shape", [(200, 100), (60, 100)])  # by items, and by users
def test_a_regularization_found_with_popular_items_is_compared_with_smaller_ones(monkeypatch, shape):
    ratings = world(*shape)
    largest = REGULARIZATIONS[-1]
    monkeypatch.setattr(Search, "regularization", lambda *given: largest)  # as if popular items wanted much more of it
    assert Joint(**SHORT).fit(ratings).posterior_.found.regularization == largest  # These are all.
    monkeypatch.setattr(joint, "POPULAR_ITEMS", 20)
    model = Joint(**SHORT).fit(ratings)
    assert model.posterior_.found.regularization in REGULARIZATIONS[:-1]
    again = ChoiceModel.of(ratings, model.posterior_.found.regularization, silent)
    for name, array in model.posterior_.choice.arrays().items():
        assert_array_equal(array, again.arrays()[name])
    monkeypatch.setattr(joint, "MOST_COMPARED", 50)  # More would take too long.
    assert Joint(**SHORT).fit(ratings).posterior_.found.regularization == largest


def test_settings_are_those_looked_at(fitted):
    regularization, weight = fitted.posterior_.found
    assert regularization in REGULARIZATIONS
    assert weight in WEIGHTS
    given = Joint(**SHORT, regularization=12.5, weight=0.7).fit(fitted.ratings_)
    assert given.posterior_.found == (12.5, 0.7)
    assert len(given.posterior_.curve.logs) > 1  # Probabilities are learned all the same.


def test_the_seed_does_not_change_the_settings(fitted, ratings):
    assert Joint(**(SHORT | {"seed": 2})).fit(ratings).posterior_.found.regularization == fitted.posterior_.found[0]


# Lists and policies


@pytest.mark.parametrize("user", [0, 7])
def test_the_order_is_that_of_the_formula(fitted, user):
    propensity, liked, belief, pairs = everything(fitted, user)
    scores = propensity * np.maximum(liked, LEAST_LIKED) ** fitted.posterior_.found.weight
    assert_allclose(belief.listed(pairs), scores, rtol=1e-4)
    ranking = fitted.recommend([user], 10)
    expected = unseen_order(fitted, user, scores, 10)
    assert_array_equal(ranking.item_rows[0], expected)
    assert_allclose(ranking.scores[0], scores[expected], rtol=1e-4)


@pytest.mark.parametrize("weight", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("policy", ["best", "cautious:c=2", "curious"])
def test_lists_are_the_best_of_all_items(weight, policy):
    """Few items are looked at one by one, and none that belongs into a list is missed."""
    ratings = world(60, 400)
    model = Joint(**SHORT, weight=weight, regularization=30.0).fit(ratings)
    belief, users = believed(model), np.arange(60, dtype=np.int32)
    pairs = Pairs(np.repeat(users, 400), np.tile(np.arange(400, dtype=np.int32), 60))
    sds = {"best": 0, "cautious:c=2": -2, "curious": 1}[policy]
    scores = belief.scored(pairs, belief.liked(pairs, sds)).reshape(60, 400)
    seen = ratings.by_user
    scores[seen.rows(), seen.columns] = -np.inf
    for n in (1, 10):
        assert_array_equal(model.recommend(users, n, policy=policy).item_rows, top_k(scores, n)[0])
    where = np.flatnonzero(np.arange(400) % 7 == 0)
    scores[:, np.arange(400) % 7 != 0] = -np.inf
    only = model.recommend(users, 60, policy=policy, only=ratings.items.ids.gather(where)).item_rows
    assert_array_equal(only, top_k(scores, 60)[0])  # fewer than asked for


@pytest.mark.parametrize("sign", [1, -1])
def test_boosts_move_the_best_of_all_items(sign):
    ratings = world(40, 400)
    kinds = pl.DataFrame({"kind": ["rare" if item % 9 == 0 else "other" for item in range(400)]})
    model = Joint(**SHORT, weight=0.5, regularization=30.0).fit(ratings.with_items(attributes=kinds))
    rule = f"{'boost' if sign > 0 else 'bury'}:where=kind = rare,strength=2"
    ranking = model.recommend(np.arange(40), rules=[rule], uncertainty=False)
    assert ranking.found_by == "every item was looked at"
    is_rare = np.arange(400) % 9 == 0
    plain = model.recommend(np.arange(40), uncertainty=False)
    assert sign * (is_rare[ranking.item_rows].mean() - is_rare[plain.item_rows].mean()) > 0.05
    for user in (0, 5):
        propensity, liked, *_ = everything(model, user)
        scores = propensity * np.maximum(liked, LEAST_LIKED) ** 0.5
        raised = scores + sign * 2 * scores.std() * is_rare  # The spread is known to about a hundredth.
        best = unseen_order(model, user, raised, 10)
        assert len(np.intersect1d(ranking.item_rows[user], best)) >= 9
        assert_allclose(ranking.scores[user], scores[ranking.item_rows[user]], rtol=1e-4)


def test_few_items_are_looked_at(monkeypatch):
    model = Joint(**SHORT, weight=0.5, regularization=30.0).fit(world(60, 400))
    looked_at, liked = [], JointBelief.liked
    monkeypatch.setattr(JointBelief, "liked", lambda self, pairs: looked_at.append(len(pairs)) or liked(self, pairs))
    model.recommend(np.arange(60), 10, uncertainty=False)
    assert 60 * 20 <= sum(looked_at) < 60 * 60


def test_caution_moves_the_mean_also_where_ratings_are_stars():
    """Between two levels a threshold may move without any effect; what is rated must not."""
    ratings = world(100)
    stars = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), np.clip(np.round(ratings.values), 1, 5))
    model = Joint(**SHORT).fit(stars)
    belief = believed(model)
    pairs = Pairs.of_one(0, np.arange(N_ITEMS, dtype=np.int32))
    cautious, usual, curious = (belief.liked(pairs, sds) for sds in (-0.1, 0, 0.1))
    assert (cautious < usual).all()
    assert (usual < curious).all()
    # By hand: a star is reached above the midpoint to the one below.
    predicted = model.predict([stars.users.ids[0]] * N_ITEMS, stars.items.ids)
    reached = np.ceil(belief.liked_from[0]) - 0.5
    mixture = predicted.rating.mixture
    assert_allclose(curious, 1 - mixture.cdf(reached - 0.1 * predicted.belief_sd), rtol=1e-4)


def test_weight_0_orders_by_choices_and_infinity_by_liking(ratings, tmp_path):
    by_choice = Joint(**SHORT, weight=0.0, regularization=30.0).fit(ratings)
    propensity, *_ = everything(by_choice, 0)
    assert_array_equal(by_choice.recommend([0], 8).item_rows[0], unseen_order(by_choice, 0, propensity, 8))
    by_liking = Joint(**SHORT, weight=inf, regularization=30.0).fit(ratings)
    _, liked, *_ = everything(by_liking, 0)
    listed = by_liking.recommend([0], 8).item_rows[0]
    save(by_liking, tmp_path / "model")  # JSON has no infinity.
    json.loads((tmp_path / "model" / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert load(tmp_path / "model").weight == inf
    # Where it is next to equal, choices settle it.
    assert_allclose(liked[listed], liked[unseen_order(by_liking, 0, liked, 8)], atol=1e-3)
    assert (by_liking.recommend([0], 8).item_rows != by_choice.recommend([0], 8).item_rows).any()


def test_policies_are_their_formulas(fitted):
    user, (propensity, liked, belief, _) = 4, everything(fitted, 4)
    weight = fitted.posterior_.found.weight
    predicted = fitted.predict([user] * N_ITEMS, fitted.ratings_.items.ids)
    threshold = belief.liked_from[user]

    def listed(policy):
        return fitted.recommend([user], 10, policy=policy).item_rows[0]

    def by(probabilities):
        scores = propensity * np.maximum(probabilities, LEAST_LIKED) ** weight
        return unseen_order(fitted, user, scores, 10)

    def reaches(sds):
        return np.array(
            [predicted.probability_at_least(threshold - sds * sd)[j] for j, sd in enumerate(predicted.belief_sd)]
        )

    assert_allclose(reaches(0), liked, rtol=1e-4)
    assert_array_equal(listed("rating"), unseen_order(fitted, user, predicted.rating.mixture.mean(), 10))
    assert_array_equal(listed("mean"), listed("rating"))
    assert_array_equal(listed("cautious:c=2"), by(reaches(-2)))
    assert_array_equal(listed("curious:c=2"), by(reaches(2)))
    assert_allclose(liked[listed("likely")], liked[unseen_order(fitted, user, liked, 10)], atol=1e-5)
    assert len({tuple(listed(policy)) for policy in ("best", "rating", "curious:c=2", "likely")}) > 2
    first = listed(Thompson(request=0))
    assert_array_equal(first, listed("thompson"))
    assert any((first != listed(Thompson(request=number))).any() for number in range(1, 5))


def test_what_is_shown(fitted):
    ranking = fitted.recommend([4], 5)
    shown, (_, liked, belief, pairs) = ranking.uncertainty, everything(fitted, 4)
    items = ranking.item_rows[0]
    assert_allclose(shown.liked_probability[0], liked[items], rtol=1e-4)
    assert_allclose(shown.chosen_probability[0], belief.probabilities(pairs)[items], rtol=1e-5)
    predicted = fitted.predict([4] * 5, fitted.ratings_.items.ids.gather(items))
    assert_allclose(shown.expected_rating[0], predicted.mean, rtol=1e-4)
    own = fitted.ratings_.by_user.take(np.array([4]))
    assert_allclose(shown.liked_from, fitted.posterior_.choice.pairs.liked_from(own))
    assert shown.base_rate == fitted.posterior_.curve.base_rate


@pytest.mark.parametrize("most_rows", [20_000, 40])
def test_both_sides_are_explained(ratings, monkeypatch, most_rows):
    monkeypatch.setattr(choice, "MOST_ROWS", most_rows)
    model = Joint(**SHORT, regularization=30.0, weight=0.5).fit(ratings)
    own = ratings.by_user.take(np.array([4], np.int32))
    items = [*model.recommend([4], 3).item_ids.to_list(), ratings.items.ids[int(own.columns[0])]]  # and one they have
    explanation = model.explain(4, items, n=3)
    chosen, rows = explanation.chosen, ratings.items.rows_of(items)
    side = model.posterior_.choice
    linear = side.inverse.linear(side.pairs.weigh(own, ratings.n_items))[0, rows]
    assert_allclose(chosen.scores, linear, atol=1e-5)
    assert_allclose(chosen.remainder, 0, atol=1e-6)
    assert chosen.contributions[3, 0] == pytest.approx(0, abs=1e-6)  # A thing does not speak for itself.
    # By hand: what is missing without a rating, whose weight is as it was.
    weights = side.pairs.weigh(own, ratings.n_items)
    weights.data[2] = 0
    assert_allclose(chosen.contributions[:, 2], linear - side.inverse.linear(weights)[0, rows], atol=1e-5)
    entry = explanation.to_dict()["items"][0]["chosen"]
    assert len(entry["because"]) == 3
    assert sum(one["contribution"] for one in entry["because"]) + entry["others"] == pytest.approx(
        entry["score"], abs=0.01
    )
    assert "Propensity to choose it" in repr(explanation)
    # The rating side is that of BPMF, which has no other.
    plain = BPMF(**SHORT).fit(ratings).explain(4, items, n=3)
    assert plain.chosen is None
    assert "chosen" not in plain.to_dict()["items"][0]
    assert_array_equal(plain.contributions, explanation.contributions)
    assert model.explain("new", items[:1]).chosen.contributions.shape == (1, 0)


def test_predictions_are_those_of_bpmf(fitted, ratings):
    plain = BPMF(**SHORT).fit(ratings)
    ours, theirs = (model.predict(ratings.user_ids()[:200], ratings.item_ids()[:200]) for model in (fitted, plain))
    assert_array_equal(ours.mean, theirs.mean)
    assert_array_equal(ours.interval(0.9), theirs.interval(0.9))


# Strangers


def groups(n_users=120, n_items=24):
    """Even users choose from the first half, odd ones from the second; item 0 is had by all the even and disliked."""
    rng = generator(8)
    has = rng.random((n_users, n_items)) < 0.08
    own = np.arange(n_items) // (n_items // 2) == np.arange(n_users)[:, None] % 2
    has |= own & (rng.random(has.shape) < np.linspace(0.8, 0.4, n_items // 2)[np.arange(n_items) % (n_items // 2)])
    has[::2, 0] = has[::2, 1] = True
    values = np.clip(np.round(rng.normal(4.0, 0.6, has.shape)), 1, 5)
    values[:, 0] = 1
    return Ratings.from_arrays(*np.nonzero(has), values[has])


def test_new_users_get_lists_by_what_little_is_known():
    ratings = groups()
    model = Joint(**SHORT, weight=1.0, regularization=10.0).fit(ratings)
    popularity = np.bincount(ratings.item_ids()) / ratings.n_users

    def listed(n, **asked):
        return model.recommend(n=n, **asked).to_polars()["item"].to_numpy()

    # Without ratings: popular and liked. The disliked one is among the most popular, and not at the top.
    nobody, items = model.recommend(["new"], 24), listed(24, user_ids=["new"])
    assert popularity[0] > np.quantile(popularity, 0.9)
    assert items[-1] == 0
    liked = np.maximum(nobody.uncertainty.liked_probability[0], LEAST_LIKED)
    assert_allclose(nobody.scores[0], popularity[items] * liked, rtol=1e-4)
    assert popularity[items[:6]].mean() > 1.2 * popularity.mean()
    for history in ({13: 5}, {13: 5, 15: 5, 17: 4}):
        items = listed(6, history=history)
        assert not set(items) & set(history)
        assert (items >= 12).all()  # the half of those who choose these
        # Who is listed beside them changes nothing.
        table = Ratings.from_arrays(["a"] * len(history) + ["b"], [*history, 2], [*history.values(), 5.0])
        assert_array_equal(listed(6, history=table)[:6], items)


# Kept, updated, and refused


def test_saved_and_loaded_answers_are_the_same(fitted, tmp_path):
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.posterior_.found == fitted.posterior_.found
    few = Joint(**SHORT, regularization=3.0).fit(world(10))  # fewer users than items: another matrix
    assert isinstance(few.posterior_.choice.inverse, ByUsers)
    save(few, tmp_path / "few")
    for one, other in ((fitted, loaded), (few, load(tmp_path / "few"))):
        for asked in ({"user_ids": [0, 1]}, {"history": {3: 5.0, 4: 1.0}}, {"user_ids": [2], "policy": "curious"}):
            lists = [model.recommend(**asked) for model in (one, other)]
            assert lists[0].to_polars().equals(lists[1].to_polars())


@pytest.mark.parametrize("sweeps", [0, 5])
def test_an_update_keeps_the_settings_and_learns_choices_again(fitted, ratings, sweeps):
    more = Ratings.from_arrays(["new"] * 3 + ["0"], ["1", "2", "never seen"] + ["never seen"], [5.0, 1.0, 4.0, 5.0])
    old = Ratings.from_arrays(ratings.user_ids().cast(str), ratings.item_ids().cast(str), ratings.values)
    model = Joint(**SHORT).fit(old)
    updated = model.update(more, sweeps=sweeps)
    assert updated.posterior_.found == model.posterior_.found
    again = ChoiceModel.of(updated.ratings_, updated.posterior_.found.regularization, silent)
    for name, array in updated.posterior_.choice.arrays().items():
        assert_array_equal(array, again.arrays()[name])
    assert "never seen" in updated.recommend(["1"], N_ITEMS + 1).to_polars()["item"]


@pytest.mark.parametrize(
    "observed",
    [
        Ratings.from_arrays([0] * 6, range(6), [1, 2, 3, 4, 5, 5]),
        Ratings.from_arrays(range(6), [0] * 6, [1, 2, 3, 4, 5, 5]),
        Ratings.from_arrays([0], [0], [3]),
        Ratings.from_arrays(np.repeat(range(6), 4), np.arange(24) % 7, [3] * 24),
    ],
    ids=["one user", "one item", "one rating", "all equal"],
)
def test_next_to_nothing_is_learned_from(observed):
    model = Joint(**SHORT).fit(observed)
    assert model.posterior_.found == (USUAL_REGULARIZATION, USUAL_WEIGHT)
    for ranking in (model.recommend(observed.users.ids, 3), model.recommend(["new"], 3)):
        assert np.isfinite(ranking.scores[ranking.item_rows >= 0]).all()
    assert (model.recommend(["new"], 3).item_rows[0, : observed.n_items] >= 0).all()


@pytest.mark.parametrize("kind", ["one-class", "counts"])
def test_choices_are_refused(kind):
    clicks = Ratings.from_arrays(np.repeat(range(6), 4), np.arange(24) % 7, [1] * 24).with_kind(kind)
    assert not Joint().suits(kind)
    assert "would suit" in misfit(Joint(), clicks)
    with pytest.raises(DataError, match=f"{kind}.*expected.*ease"):
        Joint(**SHORT).fit(clicks)


def test_bad_parameters_are_refused(ratings):
    for name, value in {"weight": -1.0, "regularization": 0.0}.items():
        with pytest.raises(InvalidParameterError, match=name):
            Joint(**SHORT, **{name: value}).fit(ratings)
    with pytest.raises(InvalidParameterError, match="one of choices"):
        Joint(**SHORT, likelihood="logistic:negatives=uniform").fit(ratings)


def test_the_short_chain_of_the_search_does_not_warn():
    """It is no model that anyone gets: only the final chains may say that they are too short."""
    observed = tastes(80, 40, density=0.4, rng=generator(0))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        Joint(n_factors=2, warmup=100, draws=200, seed=0, threads=1).fit(observed)


def test_its_chains_are_those_of_the_rating_side(fitted, tmp_path):
    """Found by `tastespace diagnose`, the report and the page, before and after saving."""
    save(fitted, tmp_path / "model")
    for model in (fitted, load(tmp_path / "model")):
        assert model.posterior_.trace is model.rating_posterior.trace
        assert model.posterior_.trace.chains == fitted.chains


def test_expected_ratings_of_lists_are_on_the_scale():
    """As those of `predict`; scores of the rating side go beyond it, and would be shown as 5.4 of 5 stars."""
    rng = generator(5)
    users, items = np.divmod(rng.permutation(60 * 40)[:1200], 40)
    values = np.clip(3 + (users % 3) + rng.normal(0, 0.3, len(users)) - 2 * (items % 2), 1, 5).round()
    model = Joint(n_factors=2, warmup=20, draws=20, chains=1, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Ratings.from_arrays(users, items, values))
    ranking = model.recommend([2, 5, 8], n=5)
    shown = ranking.uncertainty.expected_rating
    predicted = model.predict(np.repeat([2, 5, 8], 5), ranking.item_ids)
    assert predicted.unclipped.max() > 5
    assert_allclose(shown.ravel(), predicted.mean, rtol=1e-4)
