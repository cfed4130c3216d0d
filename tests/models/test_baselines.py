"""The baselines equal what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace import DampedBias, GlobalMean, ItemMean, Popular, Ratings
from tastespace.errors import InvalidParameterError

RATINGS = Ratings.from_arrays(list("aabbc"), list("xyxzx"), [5.0, 3.0, 4.0, 1.0, 2.0])


def test_global_mean():
    model = GlobalMean().fit(RATINGS)
    assert_allclose(model.predict(["a", "nobody"], ["z", "x"]).mean, 3.0)
    assert_allclose(model.predict(["a"], ["x"], history={"x": 1.0}).mean, 3.0)


def test_popular_counts_raters():
    ranking = Popular().fit(RATINGS).recommend(["nobody"], 3)
    assert ranking.item_ids.to_list() == ["x", "y", "z"]
    assert ranking.scores[0].tolist() == [3, 1, 1]


def test_item_mean_is_pulled_to_the_mean_of_all():
    """The items have sums 11, 3, 1 of 3, 1, 1 ratings; the mean of all is 3."""
    expected = {"x": (11 + 2 * 3) / 5, "y": (3 + 2 * 3) / 3, "z": (1 + 2 * 3) / 3}
    model = ItemMean(damping=2.0).fit(RATINGS)
    assert_allclose(model.predict(list("abc"), list("xyz")).mean, list(expected.values()), atol=1e-6)
    ranking = model.recommend(["nobody", "a"], 3, exclude=None)
    assert ranking.item_ids.to_list() == ["x", "y", "z"] * 2  # whoever asks
    assert_allclose(ranking.scores, [list(expected.values())] * 2, atol=1e-6)
    assert_allclose(model.predict(["a"], ["z"], history={"x": 1.0}).mean, expected["z"], atol=1e-6)
    assert_allclose(model.predict(["a"], ["nothing"]).mean, 3.0)
    assert_allclose(ItemMean(damping=0.0).fit(RATINGS).predict(["a"], ["x"]).mean, 11 / 3, atol=1e-6)


def test_damped_bias_solves_its_ridge_problem():
    model = DampedBias(user_damping=2.0, item_damping=3.0, sweeps=500).fit(RATINGS)
    design = np.zeros((5, 6))
    design[np.arange(5), RATINGS.user_rows] = 1
    design[np.arange(5), 3 + RATINGS.item_rows] = 1
    penalty = np.diag([2.0] * 3 + [3.0] * 3)
    bias = np.linalg.solve(design.T @ design + penalty, design.T @ (RATINGS.values - 3.0))
    assert_allclose(model.posterior_.user_bias, bias[:3], atol=1e-6)
    assert_allclose(model.posterior_.item_bias, bias[3:], atol=1e-6)
    folded = model.predict(["new"], ["z"], history={"x": 5.0}).mean[0]
    assert_allclose(folded, 3 + bias[5] + (5 - 3 - bias[3]) / (1 + 2.0), atol=1e-5)


@pytest.mark.parametrize("wrong", [{"user_damping": -1.0}, {"item_damping": "x"}, {"sweeps": 0}], ids=str)
def test_senseless_parameters_are_named(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        DampedBias(**wrong).fit(RATINGS)


@pytest.mark.parametrize("wrong", [-1.0, "x", float("inf")])
def test_a_senseless_damping_is_named(wrong):
    with pytest.raises(InvalidParameterError, match="damping"):
        ItemMean(damping=wrong).fit(RATINGS)
