"""How well yes and no are predicted: by hand, by brute force, and as scikit-learn has it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss as log_loss_of_sklearn
from sklearn.metrics import roc_auc_score

from tastespace import ALS, DampedBias, Ratings, compare_reports, evaluate, random_split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.metrics.binary import (
    BINS,
    auc_by_group,
    auc_influence,
    bin_of,
    calibration_error,
    log_loss,
    yes_no_auc,
)
from tastespace.evaluation.metrics.rating import STANDARD
from tastespace.evaluation.resampling import jackknife
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

PREDICTED, TRUE = np.array([0.9, 0.6, 0.6, 0.2, 0.95]), np.array([1.0, 0, 1, 0, 0])


def test_log_loss_by_hand():
    assert log_loss(PREDICTED, TRUE) == pytest.approx(-np.log([0.9, 0.4, 0.6, 0.8, 0.05]))


def test_probabilities_are_never_0_or_1():
    assert log_loss(np.array([0.0, 1.0, -1.0, 2.0]), np.array([1.0, 0, 1, 0])) == pytest.approx([-math.log(0.001)] * 4)


def test_calibration_error_by_hand():
    """Bins of 0.2, of 0.6 twice, and of 0.9 and 0.95 together."""
    apart = abs(0.2 - 0) + abs(0.6 + 0.6 - 1) + abs(0.9 + 0.95 - 1)
    assert calibration_error(PREDICTED, TRUE) == pytest.approx(apart / 5)


def test_bins_have_both_ends():
    assert bin_of(np.array([0.0, 0.0999, 0.1, 0.999, 1.0])).tolist() == [0, 0, 1, 9, 9]


def test_auc_by_hand():
    """0.9 is above 0.6 and 0.2, below 0.95; 0.6 ties with 0.6, is above 0.2, below 0.95: 3.5 of 6."""
    assert yes_no_auc(PREDICTED, TRUE) == pytest.approx(3.5 / 6)
    assert math.isnan(yes_no_auc(PREDICTED, np.ones(5)))
    assert math.isnan(yes_no_auc(PREDICTED, np.zeros(5)))


def brute_force(predicted, true):
    pairs = [(yes > no) + (yes == no) / 2 for yes in predicted[true == 1] for no in predicted[true == 0]]
    return np.mean(pairs) if pairs else np.nan


@given(st.integers(0, 10_000))
def test_measures_are_those_of_scikit_learn_and_of_plain_loops(seed):
    rng = generator(seed)
    n = int(rng.integers(2, 40))
    predicted, true = rng.integers(0, 8, n) / 8 + 0.01, rng.integers(0, 2, n).astype(float)
    users = rng.integers(0, 5, n)
    found = auc_by_group(predicted, true, users, 6)
    expected = [brute_force(predicted[users == user], true[users == user]) for user in range(6)]
    assert found == pytest.approx(expected, nan_ok=True)
    assert yes_no_auc(predicted, true) == pytest.approx(brute_force(predicted, true), nan_ok=True)
    if 0 < true.sum() < n:
        assert yes_no_auc(predicted, true) == pytest.approx(roc_auc_score(true, predicted))
    assert log_loss(predicted, true).mean() == pytest.approx(log_loss_of_sklearn(true, predicted, labels=[0, 1]))
    bins = np.minimum((predicted * BINS).astype(int), BINS - 1)
    apart = [abs(np.mean(predicted[bins == b]) - np.mean(true[bins == b])) * np.mean(bins == b) for b in set(bins)]
    assert calibration_error(predicted, true) == pytest.approx(sum(apart))


def test_the_influence_of_a_user_is_the_derivative_by_their_weight(rng):
    n, n_users = 60, 7
    predicted, true = rng.integers(0, 9, n) / 9, rng.integers(0, 2, n).astype(float)
    users = rng.integers(0, n_users, n)

    def weighted(weights):
        yes, no = true == 1, true == 0
        wins = (predicted[yes, None] > predicted[no]) + (predicted[yes, None] == predicted[no]) / 2
        pairs = weights[users[yes], None] * weights[users[no]]
        return (pairs * wins).sum() / pairs.sum()

    step = 1e-5
    slopes = [
        (weighted(1 + step * np.eye(n_users)[user]) - weighted(1 - step * np.eye(n_users)[user])) / (2 * step)
        for user in range(n_users)
    ]
    assert auc_influence(predicted, true, users, n_users) == pytest.approx(slopes, abs=1e-8)


def test_the_interval_of_the_auc_is_that_of_resampled_users():
    """300 users of different tempers: the jackknife is close to a plain bootstrap."""
    rng = generator(5)
    users = np.repeat(np.arange(300), 6)
    temper = rng.standard_normal(300)[users]
    predicted = 1 / (1 + np.exp(-temper - 0.5 * rng.standard_normal(len(users))))
    true = (rng.random(len(users)) < predicted).astype(float)
    span = jackknife(yes_no_auc(predicted, true), auc_influence(predicted, true, users, 300))
    drawn = []
    for _ in range(2000):
        chosen = rng.integers(0, 300, 300)
        rows = (chosen[:, None] * 6 + np.arange(6)).reshape(-1)
        drawn.append(yes_no_auc(predicted[rows], true[rows]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert span == pytest.approx((low, high), abs=0.1 * (high - low))


# In reports


@pytest.fixture(scope="module")
def split():
    return random_split(tastes(120, 60, rng=generator(4))[0].at_least(3), 0.3, seed=0)


@pytest.fixture(scope="module")
def report(split):
    return evaluate(DampedBias().fit(split.train), split, bootstrap=50)


def test_what_is_reported(split, report):
    assert list(report.rating) == ["log_loss", "ece", "yes_no_auc", "yes_no_auc_by_user"]
    assert report.kind == report.to_dict()["kind"] == "yes-no"
    assert report.calibration is None
    assert (report.lists.relevant, report.lists.graded) == (1, False)
    assert "ndcg@10" in report.ranking
    assert "ndcg_binary@10" not in report.ranking
    model = DampedBias().fit(split.train)
    predicted = model.predict(split.test.user_ids(), split.test.item_ids()).mean.astype(float)
    true = split.test.values
    assert report["log_loss"] == pytest.approx(log_loss_of_sklearn(true, np.clip(predicted, 0.001, 0.999)))
    assert report["yes_no_auc"] == pytest.approx(roc_auc_score(true, predicted))
    by_user = [brute_force(predicted[split.test.user_rows == u], true[split.test.user_rows == u]) for u in range(120)]
    assert report["yes_no_auc_by_user"] == pytest.approx(np.nanmean(by_user))
    assert report.sums["yes_no_auc_by_user"].n_users == np.count_nonzero(~np.isnan(by_user))


def test_intervals_groups_and_tables(report):
    assert report.intervals.keys() >= {"log_loss", "yes_no_auc", "yes_no_auc_by_user", "auc"}
    assert "ece" not in report.intervals
    for name in ("log_loss", "yes_no_auc", "yes_no_auc_by_user"):
        low, high = report.intervals[name]
        assert low < report[name] < high
    assert str(report).startswith("log loss 0.")
    assert "AUC of yes over no" in str(report)
    group = next(group for group in report.groups["users"] if group.n)
    assert group.measures.keys() == {"log_loss", "ece", "yes_no_auc"}
    assert "RMSE" not in report.table()
    assert "Reliability: how often yes came" in report.table()
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert not {"rmse", "mae", "calibration"} & said.keys()


def test_reliability_adds_up(split, report):
    bins = report.reliability.bins
    assert sum(entry.n for entry in bins) == report.n
    filled = [entry for entry in bins if entry.n]
    yes = sum(entry.n * entry.yes for entry in filled)
    assert yes == pytest.approx(split.test.values.sum())
    assert report["ece"] == pytest.approx(sum(e.n * abs(e.predicted - e.yes) for e in filled) / report.n, rel=1e-5)
    assert all(entry.low <= entry.predicted <= entry.high for entry in filled)
    assert all(entry.interval.low <= entry.yes <= entry.interval.high for entry in filled if entry.interval)


def test_a_group_of_yes_alone_has_no_auc():
    train = Ratings.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 3, 2], [1, 0, 1, 0, 1])
    test = Ratings.from_arrays([1, 2], [3, 2], [1, 1])
    report = evaluate(DampedBias().fit(train), test)
    assert report.kind == "yes-no"
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert said["yes_no_auc"] is None
    assert said["groups"]["users"][1]["measures"]["yes_no_auc"] is None
    assert "yes_no_auc" not in report.intervals
    assert "–" in report.table()


def test_two_models_are_compared(split, report):
    other = evaluate(ALS(n_factors=2, regularization=0.1, seed=0).fit(split.train), split, bootstrap=0)
    found = compare_reports(report, other, resamples=200)
    assert {"log_loss", "yes_no_auc_by_user", "ndcg@10", "auc"} <= {row.measure for row in found}
    assert not {"yes_no_auc", "ece", "rmse"} & {row.measure for row in found}


def test_what_is_asked_for_is_measured(split):
    model = DampedBias().fit(split.train)
    report = evaluate(model, split, STANDARD, ranking=False, calibration=False, bootstrap=0)
    assert list(report.rating) == ["rmse", "mae"]
    assert report.reliability is None
    # Nothing but whether yes comes as often as predicted.
    bare, whole = evaluate(model, split, {}, bootstrap=0), evaluate(model, split, bootstrap=0)
    assert bare.rating == {}
    assert bare.reliability == whole.reliability


def test_a_declared_kind_decides(split):
    stars = random_split(tastes(120, 60, rng=generator(4))[0].at_least(3).with_kind("stars"), 0.3, seed=0)
    assert "rmse" in evaluate(DampedBias().fit(stars.train), stars, ranking=False, bootstrap=0).rating
    # That of the test ratings goes first.
    told = evaluate(DampedBias().fit(split.train), split.test.with_kind("stars"), ranking=False, bootstrap=0)
    assert "rmse" in told.rating


def test_names_of_these_measures_are_not_for_others(split):
    with pytest.raises(InvalidParameterError, match="'log_loss', which is the name of another one"):
        evaluate(DampedBias().fit(split.train), split, ranking={"log_loss": lambda lists: lists.n_relevant})
