"""The distribution over levels: scores by hand, intervals that end on levels, the same answers as the normal's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.distributions.rating_distribution import LevelRatings

UNEVEN = np.array([1.0, 2, 5, 10])
CHANCES = np.array([0.1, 0.2, 0.3, 0.4])
COVERAGES = (0.5, 0.8, 0.9, 0.95)
SCALES = {
    "stars": [1.0, 2, 3, 4, 5],
    "half stars": np.arange(1, 11) / 2,
    "tenths": np.arange(7, 14) / 10,
    "uneven": UNEVEN,
    "yes and no": [0.0, 1],
    "one": [3.0],
}


def ratings(chances=CHANCES, levels=UNEVEN, n=4):
    """The same distribution n times."""
    return LevelRatings(np.tile(np.asarray(chances, np.float64), (n, 1)), np.asarray(levels, np.float64))


@pytest.fixture(params=SCALES)
def some(request, rng):
    """Distributions over the levels of a scale as they are kept: in single precision first."""
    levels = np.array(SCALES[request.param], np.float32).astype(np.float64)
    return LevelRatings(rng.dirichlet(np.full(len(levels), 0.5), 60), levels)


def test_moments_by_hand():
    found = ratings()
    assert found.mean() == pytest.approx(np.full(4, 6.0))
    assert found.sd() == pytest.approx(np.full(4, np.sqrt(0.1 * 25 + 0.2 * 16 + 0.3 * 1 + 0.4 * 16)))
    assert (found.low, found.high) == (1, 10)


def test_quantiles_are_levels():
    found = ratings()
    asked = {0.05: 1, 0.1: 1, 0.11: 2, 0.3: 2, 0.31: 5, 0.6: 5, 0.61: 10, 0.999: 10}
    assert {probability: found.quantile(probability)[0] for probability in asked} == asked
    # 0.1 + 0.1 + 0.1 is more than 0.3 in binary, 7 times 0.1 less than 0.7: neither must count.
    tenths = ratings(np.full(10, 0.1), np.arange(10))
    assert [tenths.quantile(k / 10)[0] for k in range(1, 10)] == list(range(9))


def test_distribution_function_and_chances():
    found = ratings(n=7)
    values = np.array([0.0, 1, 1.5, 2, 9.9, 10, 11])
    assert found.cdf(values) == pytest.approx([0, 0.1, 0.1, 0.3, 0.6, 1, 1])
    chances = {0.0: 1, 1.0: 1, 1.5: 0.9, 2.0: 0.9, 3.0: 0.7, 5.0: 0.7, 10.0: 0.4, 10.5: 0}
    assert {threshold: found.at_least(threshold)[0] for threshold in chances} == pytest.approx(chances)


def test_scores_by_hand():
    found = ratings()
    assert found.log_score(UNEVEN) == pytest.approx(np.log(CHANCES))
    below, widths = np.array([0.1, 0.3, 0.6]), np.array([1, 3, 5])
    ranked = [widths @ (below - (np.arange(3) >= place)) ** 2 for place in range(4)]
    assert found.crps(UNEVEN) == pytest.approx(ranked)
    low, high = found.cdf_steps(UNEVEN)
    assert low == pytest.approx([0, 0.1, 0.3, 0.6])
    assert high == pytest.approx([0.1, 0.3, 0.6, 1])


def test_the_ranked_score_is_the_integral(some, rng):
    """Of any value, levels or not, inside the range or beyond."""
    values = rng.uniform(some.low - 1, some.high + 1, len(some))
    found = some.crps(values)
    for row in range(5):
        steps = np.concatenate([[0], np.cumsum(some.probabilities[row])])

        def squared(x, row=row, steps=steps):
            return (steps[np.searchsorted(some.levels, x, side="right")] - (values[row] <= x)) ** 2

        ends = np.unique([some.low - 2, values[row], some.high + 2, *some.levels])
        whole = sum(quad(squared, low, high)[0] for low, high in pairwise(ends))
        assert found[row] == pytest.approx(whole, abs=1e-6)


def test_the_log_score_is_highest_for_the_truth(rng):
    """Drawn from its own probabilities, no other distribution over the levels scores better."""
    truth = ratings(n=20_000)
    values = rng.choice(UNEVEN, 20_000, p=CHANCES)
    for other in ([0.25, 0.25, 0.25, 0.25], [0.2, 0.2, 0.2, 0.4], [0.4, 0.3, 0.2, 0.1]):
        assert ratings(other, n=20_000).log_score(values).mean() < truth.log_score(values).mean() - 0.01
        assert ratings(other, n=20_000).crps(values).mean() > truth.crps(values).mean()


def test_impossible_ratings_have_finite_scores():
    found = ratings([0.0, 1, 0, 0])
    assert np.isfinite(found.log_score(UNEVEN)).all()
    assert found.log_score(UNEVEN)[1] == 0
    assert found.sd().tolist() == [0] * 4
    assert found.contains(UNEVEN, COVERAGES).all(1).tolist() == [False, True, False, False]
    assert found.crps(UNEVEN) == pytest.approx(np.abs(UNEVEN - 2))


def test_values_that_are_no_levels():
    found = ratings(n=5)
    values = np.array([0.0, 1.4, 4.0, 7.6, 20.0])
    assert found.is_level(values).tolist() == [False] * 5
    assert found.is_level(UNEVEN.astype(np.float32)).all()
    assert found.log_score(values) == pytest.approx(np.log([0.1, 0.1, 0.3, 0.4, 0.4]))


def test_inside_is_between_the_quantiles(some, rng):
    values = rng.choice(np.concatenate([some.levels, [some.low - 1, some.high + 1, some.low + 0.04]]), len(some))
    inside = some.contains(values.astype(np.float32), COVERAGES)
    for place, coverage in enumerate(COVERAGES):
        low, high = some.quantile((1 - coverage) / 2), some.quantile((1 + coverage) / 2)
        assert_array_equal(inside[:, place], (low <= values) & (values <= high))
        assert (some.level_between(low, high) >= coverage - 1e-9).all()
    assert not inside[(values < some.low) | (values > some.high)].any()


def test_the_probability_between_two_ends():
    low, high = np.array([1.0, 1.5, 2.0 + 1e-9, 6.0]), np.array([10.0, 5.0, 5.0 - 1e-9, 9.0])
    assert ratings().level_between(low, high) == pytest.approx([1, 0.5, 0.5, 0])


def test_decimal_levels_are_found(some):
    """Levels come in single precision, thresholds do not: 0.7 must find the level 0.7."""
    names = [float(f"{level:g}") for level in some.levels]
    reached = np.cumsum(some.probabilities[:, ::-1], axis=1)[:, ::-1]
    for place, level in enumerate(names):
        assert_allclose(some.at_least(level), reached[:, place], atol=1e-12)
        assert_allclose(
            some.cdf(np.full(len(some), level)), 1 - reached[:, place] + some.probabilities[:, place], atol=1e-12
        )


def test_some_of_them(rng):
    whole = LevelRatings(rng.dirichlet(np.ones(4), 4), UNEVEN, np.arange(4.0))
    part = whole.take([0, 3])
    assert_array_equal(part.crps(UNEVEN[[0, 3]]), whole.crps(UNEVEN)[[0, 3]])
    assert part.effective_draws.tolist() == [0, 3]
    assert ratings().take([1]).effective_draws is None


def test_the_same_answers_as_normal_ratings_with_these_probabilities(rng):
    """What depends on the levels alone is the same, whichever distribution it is asked of."""
    means = rng.normal(3, 1, (30, 6)).astype(np.float32)
    stars = np.arange(1.0, 6)
    normal = NormalRatings(NormalMixture(means, np.full_like(means, 0.8)), 1.0, 5.0, stars)
    found = LevelRatings(normal.level_probabilities(), stars)
    values = rng.choice(stars, 30)
    for name in ("crps", "log_score", "is_level"):
        assert_allclose(getattr(found, name)(values), getattr(normal, name)(values), atol=1e-5)
    assert_allclose(found.cdf_steps(values), normal.cdf_steps(values), atol=1e-6)
    assert_allclose(found.level_between(values - 1, values), normal.level_between(values - 1, values), atol=1e-6)
    for threshold in (1, 2.5, 4, 5, 6):
        assert_allclose(found.at_least(threshold), normal.at_least(threshold), atol=1e-6)
