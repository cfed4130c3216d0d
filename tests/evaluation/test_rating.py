"""Measures of predicted ratings equal hand-computed examples."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import DampedBias, GlobalMean, Ratings, Split, evaluate
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.metrics.rating import mae, rmse

QUICK = {"ranking": False, "groups": False, "bootstrap": 0}


def test_by_hand():
    predicted, true = np.array([1.0, 2, 4]), np.array([1.0, 4, 3])
    assert rmse(predicted, true) == pytest.approx((5 / 3) ** 0.5)
    assert mae(predicted, true) == pytest.approx(1.0)


def test_evaluate_counts_cold_pairs_and_keeps_them():
    model = GlobalMean().fit(Ratings.from_arrays([1, 2], ["x", "y"], [2.0, 4.0]))
    report = evaluate(model, Ratings.from_arrays([1, 1, 9], ["y", "new", "x"], [3.0, 5.0, 3.0]), **QUICK)
    errors = {"rmse": pytest.approx((4 / 3) ** 0.5), "mae": pytest.approx(2 / 3)}
    assert report.to_dict() == errors | report.order | {"kind": "stars", "n": 3, "cold": 2}
    assert "3 ratings (2 cold)" in str(report)


def test_predictions_are_clipped_to_the_training_range():
    model = GlobalMean().fit(Ratings.from_arrays([1, 2], ["x", "y"], [2.0, 4.0]))
    model.rating_range_ = (2.0, 2.5)
    assert evaluate(model, Ratings.from_arrays([1], ["y"], [3.0]))["rmse"] == pytest.approx(0.5)


def test_a_split_stands_for_its_test_part():
    split = Split(Ratings.from_arrays([1, 2], ["x", "y"], [2.0, 4.0]), Ratings.from_arrays([1], ["y"], [4.0]))
    found = evaluate(GlobalMean().fit(split.train), split, **QUICK)
    assert found.to_dict() == {"rmse": 1.0, "mae": 1.0, "kind": "stars", "n": 1, "cold": 0}


def test_new_users_of_a_split_are_folded_in_by_their_history():
    train = Ratings.from_arrays([1, 2], ["x", "y"], [2.0, 4.0])
    history = Ratings.from_arrays([9, 9], ["x", "never seen in training"], [4.0, 1.0])
    test = Ratings.from_arrays([9], ["y"], [4.0])
    model = DampedBias(user_damping=1.0, item_damping=1e9).fit(train)
    assert evaluate(model, Split(train, test, history)).to_dict()["rmse"] == pytest.approx(0.5)
    assert evaluate(model, Split(train, test, history)).cold == 0


def small():
    model = GlobalMean().fit(Ratings.from_arrays([1, 2], ["x", "y"], [2.0, 4.0]))
    return model, Ratings.from_arrays([1, 1, 2, 3], ["y", "z", "x", "x"], [3.0, 5.0, 3.5, 1.0])


def test_a_measure_of_your_own_is_one_number():
    model, test = small()
    report = evaluate(model, test, {"largest": lambda predicted, true: float(np.max(np.abs(predicted - true)))})
    assert report["largest"] == 2.0
    assert str(report) == "largest 2.0000 over 4 ratings (2 cold)"
    assert "largest" not in report.intervals  # a number does not say whose errors it is made of
    assert {group.label: dict(group.measures) for group in report.groups["users"] if group.n} == {
        "0 (cold)": {"largest": 2.0},
        "1-5": {"largest": 2.0},
    }


def test_a_measure_of_your_own_that_gives_one_number_a_rating_is_averaged_and_has_an_interval():
    model, test = small()
    report = evaluate(model, test, {"within one": lambda predicted, true: np.abs(predicted - true) <= 1})
    assert report["within one"] == 0.5
    low, high = report.intervals["within one"]
    assert 0 <= low < 0.5 < high <= 1


def test_a_measure_of_another_shape_is_refused():
    model, test = small()
    with pytest.raises(InvalidParameterError, match=r"'wrong' gave an array of the shape \(3,\); expected one number"):
        evaluate(model, test, {"wrong": lambda predicted, true: np.zeros(3)})
