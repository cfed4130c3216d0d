"""The baselines equal what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace import DampedBias, GlobalMean, Popular, Ratings
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
