"""Policies order by what they say they do; list entries say how sure they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import (
    ALS,
    BPMF,
    Cautious,
    Curious,
    Joint,
    Likely,
    Mean,
    Ratings,
    Thompson,
    evaluate,
    random_split,
)
from tastespace.data.kinds import liked_from
from tastespace.errors import InvalidParameterError
from tastespace.models.base.policies import PolicyScores, policy_of
from tastespace.models.base.similarity import top_k
from tastespace.models.base.top_n import candidate_count
from tastespace.randomness import derive, generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import gaussian, tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
N_ITEMS = 30


@pytest.fixture(scope="module")
def ratings():
    drawn = gaussian(40, N_ITEMS, rng=generator(3))[0]
    return Ratings.from_arrays(drawn.user_ids(), drawn.item_ids(), np.clip(np.round(drawn.values), 1, 5))


@pytest.fixture(scope="module")
def fitted(ratings):
    return BPMF(n_factors=3, warmup=20, draws=20, thin=1, seed=1).fit(ratings)


def everything(fitted, user=0):
    """Mean, spread and distribution of every item for a user, the slow way."""
    return fitted.predict([user] * N_ITEMS, fitted.ratings_.items.ids)


@pytest.mark.parametrize("c", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("policy", "sign"), [(Cautious, -1), (Curious, 1)])
def test_cautious_and_curious_order_by_mean_and_spread(fitted, policy, sign, c):
    ranking, prediction = fitted.recommend([0], 8, policy=policy(c=c), exclude=None), everything(fitted)
    means = prediction.rating.mixture.mean()  # not clipped
    expected = np.argsort(-(means + sign * c * prediction.belief_sd), kind="stable")[:8]
    assert_array_equal(ranking.item_rows[0], expected)
    # The scores shown are the expected ratings, whatever the order.
    assert_allclose(ranking.scores[0], means[expected], rtol=1e-4)


@pytest.mark.parametrize("threshold", [3.0, 4.0, 4.5])
def test_likely_orders_by_the_probability_to_reach_a_level(fitted, threshold):
    ranking, prediction = fitted.recommend([0], 8, policy=Likely(at_least=threshold), exclude=None), everything(fitted)
    chances = prediction.probability_at_least(threshold).astype(np.float32)
    expected = np.lexsort((-prediction.rating.mixture.mean(), -chances))[:8]
    assert_array_equal(ranking.item_rows[0], expected)


@pytest.mark.parametrize("policy", ["cautious:c=2", "curious", "curious:c=3", "likely", "likely:at_least=4.5"])
def test_lists_of_a_large_catalogue_are_those_of_all_items(policy):
    """Candidates are found quickly, by scores or by rough sds; nothing that belongs into a list is lost by that."""
    ratings = tastes(60, 1000, density=0.03, rng=generator(3))[0]
    model = BPMF(n_factors=4, chains=1, warmup=10, draws=20, thin=1, seed=1).fit(ratings)
    users = ratings.users.ids
    ranking = model.recommend(users, policy=policy)
    assert candidate_count(10, 1000) == 200
    belief = believed(model)
    uncertainty = belief.uncertainty
    everything = PolicyScores(policy_of(policy), belief, uncertainty, ratings.n_items, generator)
    scores = everything.scores(np.arange(len(users), dtype=np.int32))
    seen = ratings.by_user
    scores[seen.rows(), seen.columns] = -np.inf
    assert_array_equal(ranking.item_rows, top_k(scores, 10)[0])
    # More than the best by score: an uncertain item may be far from them.
    by_score = model.recommend(users, 200, uncertainty=False).item_rows
    lost = [np.setdiff1d(*lists).size for lists in zip(ranking.item_rows, by_score, strict=True)]
    assert (sum(lost) > 0) == (policy == "curious:c=3")


def test_likely_goes_by_what_each_user_likes_by_default(fitted, ratings):
    thresholds = liked_from(ratings.by_user, ratings.mean)
    assert np.ptp(thresholds) > 0.5
    users = ratings.users.ids
    listed = fitted.recommend(users, policy="likely", exclude=None)
    for user, row, threshold in zip(users, listed.item_rows, thresholds, strict=True):
        told = fitted.recommend([user], policy=Likely(at_least=float(threshold)), exclude=None)
        assert_array_equal(told.item_rows[0], row)
    # A new user is known by their history, and one without any likes what is above the mean of all.
    history = {0: 5.0, 1: 5.0, 2: 4.0}
    for known, threshold in ((history, (14 + 5 * ratings.mean) / 8), ({}, ratings.mean)):
        told = fitted.recommend(["new"], policy=Likely(at_least=float(np.float32(threshold))), history=known or None)
        assert_array_equal(fitted.recommend(["new"], policy="likely", history=known or None).item_rows, told.item_rows)


@pytest.mark.parametrize("model", [BPMF, Joint])
def test_what_is_liked_is_the_same_for_lists_measures_and_policies(model, ratings):
    split = random_split(ratings, 0.2, seed=0)
    fitted = model(n_factors=2, warmup=3, draws=5, thin=1, seed=1).fit(split.train)
    users = split.test.users.ids.sort()
    belief = fitted.about(users).belief
    of_measures = evaluate(fitted, split, bootstrap=0).relevance.liked_from
    assert_array_equal(belief.uncertainty.liked_from.astype(np.float32), of_measures)
    if belief.chosen is not None:
        assert_array_equal(belief.chosen.liked_from, belief.uncertainty.liked_from)
        assert_array_equal(fitted.recommend(users).liking()["liked_from"], belief.chosen.liked_from)


def test_of_yes_and_no_a_yes_is_liked(ratings):
    answers = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), (ratings.values >= 4).astype(float))
    fitted = BPMF(n_factors=2, warmup=3, draws=5, thin=1, likelihood="logistic", seed=1).fit(answers)
    lists = [fitted.recommend([0, 1], policy=policy).item_rows for policy in ("likely", Likely(at_least=1.0))]
    assert_array_equal(*lists)


def test_thompson_repeats_by_seed_and_request(fitted, ratings):
    first = fitted.recommend([0, 1], policy=Thompson()).item_rows
    assert_array_equal(first, fitted.recommend([0, 1], policy="thompson").item_rows)
    assert_array_equal(first[1:], fitted.recommend([1], policy="thompson").item_rows)  # whoever else is asked about
    assert (first != fitted.recommend([0, 1], policy="thompson:request=1").item_rows).any()
    other = BPMF(n_factors=3, warmup=20, draws=20, thin=1, seed=2).fit(ratings)
    assert (first != other.recommend([0, 1], policy=Thompson()).item_rows).any()


def test_an_id_means_the_same_typed_as_a_text(fitted):
    lists = [
        fitted.recommend([user], policy=Thompson(request=number), top_n=True)
        for user in (7, "7")
        for number in (3, np.int64(3))
    ]
    assert all((ranking.item_rows == lists[0].item_rows).all() for ranking in lists)
    assert all((r.uncertainty.top_n_probability == lists[0].uncertainty.top_n_probability).all() for r in lists)


def test_likely_refuses_what_cannot_be(fitted):
    for threshold in (1.0, 10.0):
        with pytest.raises(InvalidParameterError, match="ratings go from 1 to 5"):
            fitted.recommend([0], policy=Likely(at_least=threshold))


def test_thompson_shows_items_as_often_as_they_may_be_the_best(fitted):
    """The share of requests in which an item comes first is its probability of being the best: P(top 1).

    Each of 400 draws is independent. A z-score beyond 5 in any of 30 items: false-alarm rate below 2e-5.
    """
    n = 400
    firsts = [int(fitted.recommend([0], 1, policy=Thompson(request=k), exclude=None).item_rows[0, 0]) for k in range(n)]
    drawn = believed(fitted, [0]).draw_scores(0, 8000, generator(7))
    probabilities = np.bincount(drawn.argmax(axis=1), minlength=N_ITEMS) / len(drawn)
    found = np.bincount(firsts, minlength=N_ITEMS) / n
    spread = np.sqrt(np.maximum(probabilities * (1 - probabilities), 1 / n) / n)
    assert (np.abs(found - probabilities) < 5 * spread).all()


def test_draws_have_the_mean_and_spread_of_the_belief(fitted):
    """8000 draws over 40 kept ones; a z-score beyond 5 in any of 60 figures: false-alarm rate below 4e-5."""
    drawn = believed(fitted, [0]).draw_scores(0, 8000, generator(7))
    prediction = everything(fitted)
    error = prediction.belief_sd / len(drawn) ** 0.5
    assert (np.abs(drawn.mean(0) - prediction.rating.mixture.mean()) < 5 * error).all()
    # The variance of a variance: 2/n of its square for a normal; mixtures are hardly heavier here.
    assert_allclose(drawn.std(0), prediction.belief_sd, rtol=5 * (1 / len(drawn)) ** 0.5)


def test_probabilities_of_the_top_n_add_up_to_n(fitted):
    ranking = fitted.recommend([0, 1, "stranger"], N_ITEMS, exclude=None, top_n=True)
    assert_allclose(ranking.uncertainty.top_n_probability, 1)  # all of them are among all of them
    for n in (1, 5):
        scores = believed(fitted, [0]).draw_scores(0, 100, derive(1, "top n", 0))
        best = np.argsort(-scores, axis=1)[:, :n]
        expected = np.bincount(best.reshape(-1), minlength=N_ITEMS) / 100
        short = fitted.recommend([0], n, exclude=None, top_n=True)
        assert_allclose(short.uncertainty.top_n_probability[0], expected[short.item_rows[0]], atol=1e-6)


def test_only_what_is_allowed_competes_for_the_top_n(fitted):
    """Of two items that may be shown, one or the other is the best."""
    table = pl.DataFrame({"user": [0, 0], "item": [3, 4]})
    for only in ([3, 4], table):
        ranking = fitted.recommend([0], 1, only=only, exclude=None, top_n=True)
        assert ranking.uncertainty.top_n_probability[0, 0] >= 0.5
    both = fitted.recommend([0], 2, only=table, exclude=None, top_n=True)
    assert_allclose(both.uncertainty.top_n_probability, 1)
    others = [item for item in range(N_ITEMS) if item != 5]
    ranking = fitted.recommend([0], 1, exclude=others, include_seen=True, top_n=True)
    assert ranking.item_ids.to_list() == [5]
    assert ranking.uncertainty.top_n_probability[0, 0] == 1


def test_entries_carry_intervals_and_spreads(fitted):
    ranking = fitted.recommend([0], 5, exclude=None)
    prediction = fitted.predict([0] * 5, ranking.item_ids)
    table = ranking.of(0)
    assert_allclose(table["belief_sd"], prediction.belief_sd, rtol=1e-4)
    assert_allclose(table["rating_sd"], prediction.rating_sd, rtol=1e-4)
    assert_allclose(np.column_stack([table["low"], table["high"]]), prediction.interval(0.9), rtol=1e-4)
    assert "±" in repr(ranking)
    assert fitted.recommend([0], 5, uncertainty=False).uncertainty is None


def test_policies_respect_filters_and_combine(fitted, ratings):
    seen = set(ratings.items.at(ratings.by_user.take(np.array([0])).columns).to_list())
    for policy in ("cautious", "curious", "likely", "thompson"):
        ranking = fitted.recommend([0], 10, policy=policy, only=range(20))
        found = ranking.item_ids.drop_nulls().to_list()
        assert not seen & set(found)
        assert set(found) <= set(range(20))
        assert fitted.recommend([0], 5, policy=policy, diversity=0.5, popularity_damping=0.5).of(0).height == 5
    nobody = fitted.recommend(["nobody"], 3, policy="cautious")
    assert nobody.cold[0]


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("mean", Mean()),
        ("cautious", Cautious()),
        ("cautious:c=2.5", Cautious(c=2.5)),
        ("likely:at_least=4", Likely(at_least=4.0)),
        ("thompson:request=7", Thompson(request=7)),
    ],
)
def test_policies_have_names(text, policy):
    assert policy_of(text) == policy
    assert policy_of(policy) is policy


@pytest.mark.parametrize(
    "wrong",
    ["bold", "cautious:d=1", "cautious:c", "cautious:c=much", "cautious:c=-1", "mean:c=1", "thompson:request=1.5", 3]
    + [Cautious(c=float("nan")), Cautious(c=1e39), Likely(at_least="high"), Thompson(request=-1), None],
    ids=repr,
)
def test_policies_that_make_no_sense_are_refused(fitted, wrong):
    with pytest.raises(InvalidParameterError, match="expected"):
        fitted.recommend([0], policy=wrong)


def test_a_model_without_uncertainty_says_so(ratings):
    model = ALS(n_factors=2, regularization=0.1, seed=0).fit(ratings)
    assert model.recommend([0]).uncertainty is None
    with pytest.raises(InvalidParameterError, match="provides no uncertainty"):
        model.recommend([0], policy="cautious")
    with pytest.raises(InvalidParameterError, match="provides no uncertainty"):
        model.predict([0], [0]).interval()
