"""What all ratings of a user did, at once: the same as trying them out one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace import BPMF, VB
from tastespace.models.base import attribution
from tastespace.randomness import generator
from tastespace.testing.toys import gaussian

RAW = gaussian(60, 50, density=0.9, rng=generator(4))[0]
RATINGS = replace(RAW, values=RAW.values.round().clip(1, 5))
SHORT = {"n_factors": 3, "chains": 1, "warmup": 30, "draws": 60, "seed": 1, "threads": 1}
ITEMS = [3, 17, 42]


def both_ways(model, monkeypatch):
    """Contributions by slopes, and one by one."""
    assert RATINGS.by_user.counts[RATINGS.users.rows_of([5])[0]] > attribution.FEW
    at_once = model.explain(5, ITEMS).contributions
    monkeypatch.setattr(attribution, "FEW", 10**9)
    return at_once, model.explain(5, ITEMS).contributions


@pytest.mark.parametrize(
    "model",
    [
        BPMF(**SHORT),
        BPMF(**SHORT, biases=False),
        VB(n_factors=3, seed=1, threads=1),
    ],
    ids=["bpmf", "bpmf without biases", "vb"],
)
def test_even_noise_is_exact(model, monkeypatch):
    at_once, one_by_one = both_ways(model.fit(RATINGS), monkeypatch)
    assert_allclose(at_once, one_by_one, atol=2e-5)
    assert np.abs(2 * at_once - one_by_one).max() > 1e-2  # A factor forgotten would be noticed.


# Of levels, one by one: what a stranger would rate is rounded to a level, and a few Gibbs steps have noise of their
# own; only which ratings matter is held against it. The factorized family leaves covariances out of beliefs.
@pytest.mark.parametrize(
    ("model", "least"),
    [
        (BPMF(**SHORT, likelihood="heteroscedastic"), 0.7),
        (BPMF(**{**SHORT, "draws": 200}, likelihood="ordinal"), 0.2),
        (VB(n_factors=3, covariance="diagonal", seed=1, threads=1), 0.7),
    ],
    ids=["uneven", "ordinal", "vb diagonal"],
)
def test_elsewhere_it_is_the_effect_of_a_small_change(model, least, monkeypatch):
    at_once, one_by_one = both_ways(model.fit(RATINGS), monkeypatch)
    for slopes, tried in zip(at_once, one_by_one, strict=True):
        assert np.corrcoef(slopes, tried)[0, 1] > 0.85
        assert least < np.linalg.norm(slopes) / np.linalg.norm(tried) < 1.4


def test_with_uneven_noise_a_filter_may_leave_nothing():
    model = BPMF(**SHORT, likelihood="heteroscedastic").fit(RATINGS)
    assert (model.recommend(5, 3, exclude=RATINGS.items.ids.to_list()).item_rows == -1).all()
