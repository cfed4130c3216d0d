"""Whether test items are in the right order: by hand, by brute force, and as scipy and scikit-learn have it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from tastespace import (
    ALS,
    EASE,
    DampedBias,
    GlobalMean,
    Ratings,
    compare_models,
    compare_reports,
    evaluate,
    random_split,
)
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.metrics.order import (
    OF_ORDER,
    PairCounts,
    inversions,
    kendall_tau,
    ndcg_of_rated,
    order_sums,
    pairwise_accuracy,
)
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

# One user: five items, two of them rated alike, two of them predicted alike.
PREDICTED, TRUE = np.array([4.5, 3.0, 3.0, 4.0, 1.0]), np.array([5.0, 3.0, 4.0, 4.0, 1.0])
ONE = np.zeros(5, np.int64)


def test_measures_of_pairs_by_hand():
    """Ten pairs: 3-4 of ratings alike, 1-2 of predictions alike. The other eight are all in order."""
    counts = PairCounts.of(PREDICTED, TRUE, ONE, 1)
    assert [int(part[0]) for part in (counts.different, counts.apart, counts.right, counts.wrong)] == [9, 9, 8, 0]
    assert pairwise_accuracy(PREDICTED, TRUE, ONE, 1) == pytest.approx([8.5 / 9])
    assert kendall_tau(PREDICTED, TRUE, ONE, 1) == pytest.approx([8 / 9])


def test_graded_ndcg_by_hand():
    """Gains 4, 3, then 2 and 3 tied: 2.5 each. The best order is 4, 3, 3, 2."""
    weights = 1 / np.log2([2, 3, 4, 5])
    found = ndcg_of_rated(PREDICTED, TRUE - 1, ONE, 1, 4)
    assert found == pytest.approx([([4, 3, 2.5, 2.5] @ weights) / ([4, 3, 3, 2] @ weights)])
    # Of the tied two only one is among the first three, each as likely as the other.
    found = ndcg_of_rated(PREDICTED, TRUE - 1, ONE, 1, 3)
    assert found == pytest.approx([([4, 3, 2.5] @ weights[:3]) / ([4, 3, 3] @ weights[:3])])


def test_who_has_a_measure():
    """Users: all right; all wrong; equal predictions; equal ratings; one rating; nobody."""
    users = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    predicted = np.array([1.0, 2, 2, 1, 3, 3, 1, 2, 1])
    true = np.array([1.0, 2, 1, 2, 1, 2, 4, 4, 4])
    nan = np.nan
    assert kendall_tau(predicted, true, users, 6) == pytest.approx([1, -1, 0, nan, nan, nan], nan_ok=True)
    assert pairwise_accuracy(predicted, true, users, 6) == pytest.approx([1, 0, 0.5, nan, nan, nan], nan_ok=True)
    sums = order_sums(predicted, true, users, 6, lowest=1, ks=(1, 10))
    assert {name: measure.n_users for name, measure in sums.items()} == dict.fromkeys(sums, 3)
    assert sums["ndcg_rated@1"].value() == pytest.approx((1 + 0 + 0.5) / 3)


def test_nothing_at_all():
    nothing, nobody = np.zeros(0), np.zeros(0, np.int64)
    assert np.isnan(kendall_tau(nothing, nothing, nobody, 2)).all()
    assert np.isnan(ndcg_of_rated(nothing, nothing, nobody, 2, 3)).all()
    assert inversions(nobody, nobody, 2).tolist() == [0, 0]


def test_gains_below_the_lowest_training_rating_are_none():
    """A 0 is worth as little as a 1 if nobody gave a 0 in training; an order there is still right or wrong."""
    found = order_sums(np.array([2.0, 1.0]), np.array([0.0, 1.0]), np.zeros(2, np.int64), 1, lowest=1, ks=(10,))
    assert math.isnan(found["ndcg_rated@10"].value())
    assert found["kendall_tau"].value() == -1


@given(st.integers(0, 10_000))
def test_measures_are_those_of_scipy_and_scikit_learn_and_of_plain_loops(seed):
    rng = generator(seed)
    n, k = int(rng.integers(2, 60)), int(rng.integers(1, 12))
    predicted = rng.integers(0, rng.integers(1, 12), n).astype(np.float32) / 3
    true, users = rng.integers(0, 6, n).astype(np.float32) / 2, rng.integers(0, 4, n)
    tau, accuracy = kendall_tau(predicted, true, users, 5), pairwise_accuracy(predicted, true, users, 5)
    ndcg = ndcg_of_rated(predicted, true, users, 5, k)
    for user in range(5):
        own, rated = predicted[users == user], true[users == user]
        if len(set(rated)) < 2:
            assert np.isnan([tau[user], accuracy[user]]).all()
            continue
        expected = kendalltau(own, rated).statistic
        assert tau[user] == pytest.approx(0 if len(set(own)) == 1 else expected, abs=1e-12)
        higher, lower = np.nonzero(rated[:, None] > rated)
        assert accuracy[user] == pytest.approx(np.mean((own[higher] > own[lower]) + (own[higher] == own[lower]) / 2))
        assert ndcg[user] == pytest.approx(ndcg_score([rated], [own], k=k))


def test_many_ratings_of_one_user_are_counted_without_looking_at_each_pair():
    """Of 20,000 continuous ratings there are 200 million pairs: as scipy counts them."""
    rng = generator(0)
    true = rng.standard_normal(20_000)
    predicted = true + rng.standard_normal(20_000)
    found = kendall_tau(predicted, true, np.zeros(20_000, np.int64), 1)
    assert found == pytest.approx([kendalltau(predicted, true).statistic], abs=1e-12)


def broken_inversions(ranks, groups, n_groups):
    """What counting over all users at once would find."""
    return np.bincount(groups, [(ranks[:place] > rank).sum() for place, rank in enumerate(ranks)], n_groups)


def test_inversions_stay_within_a_group():
    ranks, groups = np.array([2, 0, 1, 1, 0, 2]), np.array([0, 0, 0, 2, 2, 2])
    assert inversions(ranks, groups, 3).tolist() == [2, 0, 1]
    assert broken_inversions(ranks, groups, 3).tolist() != [2, 0, 1]


def stars():
    """Whole stars, of 60 users."""
    drawn, _ = tastes(60, 40, rng=generator(0))
    return Ratings.from_arrays(drawn.user_rows, drawn.item_rows, np.clip(np.rint(drawn.values), 1, 5))


@pytest.fixture(scope="module")
def split():
    return random_split(stars(), 0.3, seed=1)


@pytest.fixture(scope="module")
def report(split):
    return evaluate(ALS(n_factors=4, regularization=0.05, seed=0, threads=1).fit(split.train), split, bootstrap=100)


def test_evaluate_measures_the_order_of_stars(split, report):
    names = ["kendall_tau", "pairwise_accuracy", "ndcg_rated@5", "ndcg_rated@10", "ndcg_rated@20"]
    assert list(report.order) == names
    assert 0 < report["kendall_tau"] < 1
    assert all(report.intervals[name].low <= report[name] <= report.intervals[name].high for name in names)
    assert [name for name in names if name not in json.loads(json.dumps(report.to_dict()))] == []
    title, *rows = str(report.order_table()).splitlines()
    assert title == "Order of their test items, of 51 users with two different test ratings or more"
    assert [row.partition("  ")[0] for row in rows[1:]] == [
        "NDCG (rated items)",
        "Kendall tau-b (all)",
        "pairwise accuracy (all)",
    ]
    assert report.order_table().title in report.table()


def test_evaluate_is_the_mean_over_users_of_predictions_that_are_not_clipped(split):
    model = ALS(n_factors=4, regularization=0.001, seed=0, threads=1).fit(split.train)
    said = model.predict(split.test.users.at(split.test.user_rows), split.test.items.at(split.test.item_rows))
    assert (said.unclipped != said.mean).any()  # or the test would not tell the two apart
    expected, clipped = (
        np.nanmean(kendall_tau(scores, split.test.values, split.test.user_rows, split.test.n_users))
        for scores in (said.unclipped, said.mean)
    )
    found = evaluate(model, split, ranking=False, bootstrap=0)
    assert found["kendall_tau"] == pytest.approx(expected, abs=1e-9)
    assert found["kendall_tau"] != pytest.approx(clipped, abs=1e-9)


def test_a_model_without_an_opinion_has_no_order(split):
    found = evaluate(GlobalMean().fit(split.train), split, ranking=False, bootstrap=0)
    assert (found["kendall_tau"], found["pairwise_accuracy"]) == (0, 0.5)


def test_order_is_of_stars_alone(split):
    liked = random_split(stars().at_least(3), 0.3, seed=1)
    assert evaluate(DampedBias().fit(liked.train), liked, bootstrap=0).order == {}
    found = evaluate(EASE().fit(split.train), split, bootstrap=0)
    assert found.order == {}
    with pytest.raises(InvalidParameterError, match="no measures of order"):
        found.order_table()
    assert evaluate(DampedBias().fit(split.train), split, {"bias": np.subtract}, bootstrap=0).order == {}


@pytest.mark.parametrize("name", OF_ORDER)
def test_names_are_taken(split, name):
    model = DampedBias().fit(split.train)
    with pytest.raises(InvalidParameterError, match="the name of another one"):
        evaluate(model, split, {name: np.subtract})
    with pytest.raises(InvalidParameterError, match="the name of another one"):
        evaluate(model, split, ranking={name: lambda lists: np.zeros(len(lists))})


def test_orders_are_compared_user_by_user(split, report):
    other = evaluate(DampedBias().fit(split.train), split, bootstrap=0)
    found = compare_reports(report, other, resamples=200)
    assert found["pairwise_accuracy"].difference == report["pairwise_accuracy"] - other["pairwise_accuracy"]
    assert found["kendall_tau"].users == 51
    assert found["ndcg_rated@10"].first == report["ndcg_rated@10"]


def test_contests_have_columns_of_order(split):
    models = {"bias": DampedBias(), "mean": GlobalMean()}
    found = compare_models(split, models, ranking=False, bootstrap=50, apart=False)
    assert {"tau-b", "pairs", "NDCG rated"} <= set(found.table().columns)
    rows = {row["model"]: row for row in found.to_dict()["rows"]}
    assert rows["mean"]["pairwise_accuracy"] == 0.5
    assert rows["bias"]["kendall_tau_low"] < rows["bias"]["kendall_tau"] < rows["bias"]["kendall_tau_high"]
    assert rows["mean"]["behind"]["ndcg_rated@10"]["difference"] > 0
    assert rows["bias"]["behind"]["pairwise_accuracy"]["difference"] == 0
    assert found.to_polars()["kendall_tau"].to_list() == [rows[entry.model]["kendall_tau"] for entry in found.ranked]


def test_order_does_not_depend_on_the_order_of_the_file(split, report):
    test = split.test.take(generator(0).permutation(len(split.test)))
    model = ALS(n_factors=4, regularization=0.05, seed=0, threads=1).fit(split.train)
    assert isinstance(test, Ratings)
    found = evaluate(model, test, ranking=False, bootstrap=0)
    assert {name: found[name] for name in report.order} == pytest.approx(dict(report.order), abs=1e-12)
