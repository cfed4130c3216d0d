"""The first five lines of an evaluation say what its figures say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tastespace as ts


@pytest.fixture(scope="module")
def measured():
    split = ts.random_split(ts.synthetic("ml-100k", scale=0.2, n_factors=4, seed=1), 0.2, seed=0)
    bias = ts.evaluate(ts.DampedBias().fit(split.train), split, bootstrap=100)
    mean = ts.evaluate(ts.GlobalMean().fit(split.train), split, bootstrap=100)
    sure = ts.evaluate(ts.VB(n_factors=4, seed=0).fit(split.train), split, bootstrap=100)
    return split, bias, mean, sure


def test_five_lines_say_what_is_better_than_what(measured):
    _, bias, mean, sure = measured
    lines = bias.summary({"the mean": mean})
    assert [line.partition(":")[0] for line in lines] == ["Predictions", "For whom not", "Intervals", "Lists", "Next"]
    change = 100 * (1 - bias["rmse"] / mean["rmse"])
    assert f"RMSE {bias['rmse']:.4f}, {change:.0f} % better than the mean ({mean['rmse']:.4f})" in lines[0]
    assert "worse than averages" in mean.summary({"averages": bias})[0]
    assert "no clear difference from itself" in bias.summary({"itself": bias})[0]
    assert "compare fits all models" in mean.summary({"averages": replace(bias, ranking={})})[4]
    assert "no uncertainty" in lines[2]
    assert "hold" in sure.summary()[2]
    assert "\n".join(bias.summary()) in bias.table()
    assert "<li>Predictions: RMSE" in bias._repr_html_()


@pytest.mark.parametrize(
    ("coverage", "verdict"), [(0.9, "right"), (0.905, "right"), (0.8, "too narrow"), (0.99, "too wide")]
)
def test_intervals_are_judged_by_what_they_hold(measured, coverage, verdict):
    sure = measured[3]
    measures = {**sure.calibration.measures, "coverage_90": coverage, "expected_90": 0.9}
    calibration = replace(sure.calibration, measures=measures, intervals={})
    lines = replace(sure, calibration=calibration).summary()
    assert lines[2].endswith(f"{verdict}.")
    assert ("diagnose" in lines[4]) is (verdict == "too narrow")


def test_the_group_with_the_largest_error_is_named(measured):
    bias = measured[1]
    groups = [replace(group, measures={**group.measures, "rmse": 1.0}) for group in bias.groups["users"] if group.n]
    small = replace(groups[0], label="tiny", n=1, measures={"rmse": 9.0})
    large = replace(groups[0], label="6-10", measures={"rmse": 2.0})
    report = replace(bias, groups={"users": (small, large, *groups)}, rating={"rmse": 1.0})
    assert "users with 6-10 training ratings have RMSE 2.0000" in report.summary()[1]
    even = replace(bias, groups={"users": (small, *groups)}, rating={"rmse": 1.0})
    assert "about the same" in even.summary()[1]


def test_choices_are_judged_by_lists_alone():
    rng = np.random.default_rng(0)
    chosen = np.unique(np.stack([rng.integers(0, 60, 900), rng.zipf(1.6, 900) % 40], axis=1), axis=0)
    users, items = chosen.T
    split = ts.random_split(ts.Ratings.from_arrays(users, items), 0.2, seed=0)
    popular = ts.evaluate(ts.Popular().fit(split.train), split, bootstrap=0)
    worse = replace(popular, ranking={name: value / 2 for name, value in popular.ranking.items()})
    lines = worse.summary({"popular": popular})
    assert "has lists only" in lines[0]
    assert "implicit feedback has no ratings" in lines[2]
    assert "default model" in lines[4]


def test_test_ratings_that_were_in_training_are_said_first(measured):
    split = measured[0]
    with pytest.warns(UserWarning, match="optimistic"):
        report = ts.evaluate(ts.DampedBias().fit(split.train), split.train, ranking=False, bootstrap=0)
    assert f"{len(split.train):,} test ratings were in training" in report.summary()[4]
