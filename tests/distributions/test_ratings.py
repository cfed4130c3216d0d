"""The distribution of a rating: levels at the edges, scores by hand, intervals as they are shown."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings

STARS = np.array([1.0, 2, 3, 4, 5])
COVERAGES = (0.5, 0.8, 0.9, 0.95)


def ratings(mean, sd, levels=STARS, low=1.0, high=5.0, n=5):
    """The same normal n times."""
    means, sds = (np.full((n, 1), value, np.float32) for value in (mean, sd))
    return NormalRatings(NormalMixture(means, sds), low, high, levels)


def test_scores_of_levels_by_hand():
    """N(4, 1): what lies beyond the outer midpoints belongs to the lowest and the highest."""
    below = ndtr(np.array([1.5, 2.5, 3.5, 4.5]) - 4)
    probabilities = np.diff([0, *below, 1])
    found = ratings(4, 1)
    assert found.level_probabilities() == pytest.approx(np.tile(probabilities, (5, 1)), abs=1e-6)
    assert found.log_score(STARS) == pytest.approx(np.log(probabilities), abs=1e-6)
    # The ranked probability score: gaps of width 1, where the rating was reached F is compared with 1.
    ranked = [np.sum((below - (np.arange(1, 5) >= star)) ** 2) for star in STARS]
    assert found.crps(STARS) == pytest.approx(ranked, abs=1e-6)
    low, high = found.cdf_steps(STARS)
    assert low == pytest.approx([0, *below], abs=1e-6)
    assert high == pytest.approx([*below, 1], abs=1e-6)


def test_gaps_are_weighted_with_their_width():
    uneven = np.array([0.0, 1, 10])
    found = ratings(1, 2, uneven, 0.0, 10.0, n=3)
    below = ndtr((np.array([0.5, 5.5]) - 1) / 2)
    expected = [[1, 9] @ (below - at) ** 2 for at in ([1, 1], [0, 1], [0, 0])]
    assert found.crps(uneven) == pytest.approx(expected, abs=1e-5)


def test_values_that_are_no_levels():
    """Between two levels, and beyond: the integral as it is; scored as the nearest level elsewhere."""
    found = ratings(4, 1)
    values = np.array([0.0, 1.25, 3.0, 4.8, 7.0])
    assert found.is_level(values).tolist() == [False, False, True, False, False]
    assert found.is_level(np.float32([1, 2, 3, 4, 5])).all()
    assert found.log_score(values).tolist() == found.log_score(np.array([1.0, 1, 3, 5, 5])).tolist()
    at, scores = found.crps(STARS), found.crps(values)
    assert scores[0] == pytest.approx(at[0] + 1)
    assert scores[1] == pytest.approx(0.75 * at[0] + 0.25 * at[1])
    assert scores[4] == pytest.approx(at[4] + 2)


def test_a_continuous_scale():
    found = ratings(4, 0.5, None)
    assert found.log_score(STARS) == pytest.approx(norm.logpdf(STARS, 4, 0.5), rel=1e-5)
    low, high = found.cdf_steps(STARS)
    assert low == pytest.approx(ndtr((STARS - 4) / 0.5), abs=1e-6)
    assert low.tolist() == high.tolist()
    assert found.is_level(np.array([3.3])).all()
    for ask in (found.level_probabilities, lambda: found.level_between(STARS, STARS)):
        with pytest.raises(ValueError, match="no levels"):
            ask()


@pytest.mark.parametrize("levels", [STARS, None], ids=["levels", "continuous"])
def test_inside_is_between_the_quantiles_as_shown(levels, rng):
    """Quantiles lie within the range; whoever looks at an interval sees those."""
    n = 600
    means = (3 + 3 * rng.standard_normal((n, 1)) + 0.3 * rng.standard_normal((n, 9))).astype(np.float32)
    found = NormalRatings(NormalMixture(means, np.full_like(means, 0.6)), 1.0, 5.0, levels)
    values = rng.choice([0.0, 1, 2, 2.5, 3, 4, 5, 6], n).astype(np.float32)
    inside = found.contains(values, COVERAGES)
    for place, coverage in enumerate(COVERAGES):
        low, high = found.quantile((1 - coverage) / 2), found.quantile((1 + coverage) / 2)
        assert (inside[:, place] == ((low <= values) & (values <= high))).all()
    assert inside.any(0).all()
    assert not inside[(values < 1) | (values > 5)].any()


def test_the_probability_of_the_levels_between_two_ends():
    """A level is inside as a whole or not at all; an end on a level, or next to it by rounding, holds it."""
    low, high = np.array([2.33, 2.0, 4.5, 1.0, 4.2]), np.array([3.67, 3.0, 5.0 - 1e-9, 5.0, 4.8])
    whole = [ndtr(0.5) - ndtr(-0.5), ndtr(0.5) - ndtr(-1.5), 1 - ndtr(1.5), 1, 0]
    assert ratings(3, 1).level_between(low, high) == pytest.approx(whole, abs=1e-6)


def test_without_spread_everything_is_finite():
    for levels in (STARS, None):
        found = ratings(4, 0, levels)
        for scores in (found.log_score(STARS), found.crps(STARS), *found.cdf_steps(STARS)):
            assert np.isfinite(scores).all()
        assert found.crps(STARS) == pytest.approx(np.abs(STARS - 4))
        assert found.contains(STARS, COVERAGES).all(1).tolist() == [False, False, False, True, False]
        assert found.log_score(STARS).argmax() == 3
        assert found.quantile(0.3).tolist() == [4] * 5
    assert ratings(4, 0).log_score(STARS)[3] == 0
    assert ratings(4, 0).level_between(np.full(5, 4.0), np.full(5, 4.0)).tolist() == [1] * 5


def test_one_level():
    """All ratings the same: everything beyond the only level belongs to it."""
    found = ratings(3, 0.4, np.array([3.0]), 3.0, 3.0)
    values = np.full(5, 3.0)
    assert found.level_probabilities().tolist() == [[1]] * 5
    assert found.crps(values).tolist() == found.log_score(values).tolist() == [0] * 5
    assert found.contains(values, COVERAGES).all()


def test_some_of_them():
    whole = ratings(4, 1)
    assert whole.take([0, 3]).crps(STARS[[0, 3]]).tolist() == whole.crps(STARS)[[0, 3]].tolist()


@pytest.mark.parametrize("levels", [[0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3], [90.0, 90.1, 90.2, 90.3], [1.3, 1.4, 1.5]])
def test_decimal_levels_are_found(levels):
    """Levels come in single precision, thresholds do not: 0.7 must find the level 0.7."""
    kept = np.array(levels, np.float32).astype(np.float64)
    mixture = NormalMixture(np.full((1, 3), np.mean(levels), np.float32), np.full((1, 3), 0.2, np.float32))
    ratings = NormalRatings(mixture, kept[0], kept[-1], kept)
    chances = [float(ratings.at_least(level)[0]) for level in levels]
    assert chances[0] == 1
    assert (np.diff(chances) < 0).all()
    assert chances[-1] > 0
    np.testing.assert_allclose(chances[-1], ratings.level_probabilities()[0, -1], atol=1e-6)
