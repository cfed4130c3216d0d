"""Toys: the ratings come from the truth that is handed out with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import (
    OrdinalTruth,
    Truth,
    checkerboard,
    counts,
    gaussian,
    observed_pairs,
    ordinal,
    tastes,
    yes_no,
)

DRAWN = pytest.mark.parametrize("draw", [gaussian, yes_no, ordinal], ids=lambda draw: draw.__name__)


def pairs_of(ratings):
    return ratings.user_ids().to_numpy(), ratings.item_ids().to_numpy()


def test_the_score_is_the_sum_of_its_parts():
    truth = Truth(
        offset=3.0,
        users=np.array([[1.0, 2.0], [0.0, 1.0]]),
        items=np.array([[1.0, 0.5], [2.0, -1.0], [0.0, 0.0]]),
        user_biases=np.array([0.1, 0.2]),
        item_biases=np.array([0.0, 0.01, 0.02]),
    )
    np.testing.assert_allclose(truth.score([0, 1, 1], [0, 1, 2]), [5.1, 2.21, 3.22])
    np.testing.assert_allclose(truth.matrix(), [[5.1, 3.11, 3.12], [3.7, 2.21, 3.22]])


def test_the_ordinal_truth_by_hand():
    truth = OrdinalTruth(
        0.0, np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), np.zeros(1), cut_points=np.array([0.0, 1.0, 2.5])
    )
    below = stats.norm.cdf([-1.0, 0.0, 1.5])  # the score is 1
    expected = [below[0], below[1] - below[0], below[2] - below[1], 1 - below[2]]
    np.testing.assert_allclose(truth.probabilities([0], [0]), [expected])
    np.testing.assert_allclose(truth.expected([0], [0]), [np.dot(expected, [1, 2, 3, 4])])


@DRAWN
def test_ids_are_positions_in_the_truth(draw):
    ratings, truth = draw(30, 20, rng=generator(1))
    assert ratings.users.ids.to_list() == list(range(30))
    assert ratings.items.ids.to_list() == list(range(20))
    assert (truth.users.shape, truth.items.shape) == ((30, 2), (20, 2))
    test = random_split(ratings, 0.2, seed=0).test
    np.testing.assert_array_equal(truth.expected(*pairs_of(test)), truth.matrix()[pairs_of(test)])


@DRAWN
@pytest.mark.parametrize("observed", ["random", "skewed"])
@pytest.mark.parametrize("density", [0.001, 0.3, 1.0])
def test_all_users_occur_and_no_pair_twice(draw, observed, density):
    ratings, _ = draw(40, 25, density=density, observed=observed, rng=generator(2))
    assert len(ratings.take(np.arange(len(ratings))).users) == 40
    assert len(ratings.take(np.arange(len(ratings))).items) == 25
    assert len(set(zip(*pairs_of(ratings), strict=True))) == len(ratings)
    assert len(ratings) == pytest.approx(density * 1000, abs=65)


@DRAWN
def test_the_same_generator_gives_the_same_ratings(draw):
    (first, _), (same, _), (other, _) = (draw(30, 20, rng=generator(seed)) for seed in (3, 3, 4))
    assert first.fingerprint() == same.fingerprint() != other.fingerprint()


def test_skewed_pairs_are_skewed():
    even, skewed = (observed_pairs(300, 200, 0.1, observed, generator(5)) for observed in ("random", "skewed"))
    assert np.bincount(skewed[1]).max() > 2.5 * np.bincount(even[1]).max()
    assert np.bincount(skewed[0]).max() > 2.5 * np.bincount(even[0]).max()


@pytest.mark.statistical
def test_gaussian_noise_is_as_said():
    ratings, truth = gaussian(300, 200, n_factors=3, noise=0.7, rng=generator(6))
    errors = (ratings.values - truth.expected(*pairs_of(ratings))) / 0.7
    assert stats.kstest(errors, "norm").pvalue > 1e-6
    assert stats.kstest(errors * 0.9, "norm").pvalue < 1e-6  # a broken twin: the noise a little smaller
    assert truth.noise == 0.7


@pytest.mark.statistical
def test_sizes_of_the_parts_are_as_asked():
    _, truth = gaussian(2000, 2000, n_factors=5, biases=0.3, spread=1.2, offset=2.5, density=0.001, rng=generator(7))
    products = truth.users @ truth.items.T
    assert products.std() == pytest.approx(1.2, rel=0.05)
    assert truth.user_biases.std() == pytest.approx(0.3, rel=0.1)
    assert truth.item_biases.std() == pytest.approx(0.3, rel=0.1)
    assert truth.offset == 2.5


def calibration(found, expected, n_groups=10):
    """The largest deviation, in standard errors, of frequencies from what is expected, over groups of like pairs."""
    order = np.argsort(expected)
    deviations = [
        (found[group].mean() - expected[group].mean()) / np.sqrt(np.mean(expected[group] * (1 - expected[group])))
        for group in np.array_split(order, n_groups)
    ]
    return np.abs(deviations).max() * np.sqrt(len(found) / n_groups)


@pytest.mark.statistical
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_yes_comes_as_often_as_expected(link):
    ratings, truth = yes_no(300, 200, link=link, offset=-0.4, rng=generator(8))
    expected = truth.expected(*pairs_of(ratings))
    assert set(np.unique(ratings.values)) == {0, 1}
    assert calibration(ratings.values, expected) < 5.6
    other = stats.norm.cdf if link == "logistic" else (lambda score: 1 / (1 + np.exp(-score)))
    assert calibration(ratings.values, other(truth.score(*pairs_of(ratings)))) > 5.6  # the wrong link is noticed


@pytest.mark.statistical
def test_levels_come_as_often_as_expected():
    ratings, truth = ordinal(300, 200, cut_points=(-1, 0, 0.5, 2), rng=generator(9))
    probabilities = truth.probabilities(*pairs_of(ratings))
    assert set(np.unique(ratings.values)) == {1, 2, 3, 4, 5}
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    for level in range(5):
        assert calibration(ratings.values == level + 1, probabilities[:, level]) < 5.6
        assert calibration(ratings.values == level + 1, probabilities[:, 4 - level]) > 5.6 or level == 2
    np.testing.assert_allclose(truth.expected(*pairs_of(ratings)), probabilities @ [1, 2, 3, 4, 5])


@pytest.mark.statistical
def test_counts_are_recorded_where_there_are_any():
    ratings, truth = counts(200, 150, mean=0.4, rng=generator(10))
    rates = truth.matrix()
    assert rates.mean() == pytest.approx(0.4)
    assert ratings.values.min() == 1
    observed = np.zeros(rates.shape)
    observed[pairs_of(ratings)] = 1
    assert calibration(observed.ravel(), 1 - np.exp(-rates.ravel())) < 5.6
    total = np.zeros(rates.shape)
    total[pairs_of(ratings)] = ratings.values
    assert abs(total.sum() - rates.sum()) / np.sqrt(rates.sum()) < 5.6


def test_who_has_no_count_keeps_the_row():
    ratings, truth = counts(50, 40, mean=0.02, rng=generator(11))
    assert len(set(ratings.user_rows.tolist())) < ratings.n_users == len(truth.users) == 50


def test_earlier_toys_are_what_they_were():
    ratings, truth = tastes(10, 9, rng=generator(1))
    assert ratings.fingerprint()[:12] == "318c8867eb06"
    errors = ratings.values - truth[pairs_of(ratings)]
    assert np.abs(errors).max() < 5 * 0.3
    assert len(checkerboard()) == 12 * 9


def test_wrong_options_are_refused():
    with pytest.raises(InvalidParameterError, match="observed is 'some'; expected random or skewed"):
        gaussian(5, 5, observed="some", rng=generator(0))
    with pytest.raises(InvalidParameterError, match="density is 0; expected a share"):
        gaussian(5, 5, density=0, rng=generator(0))
    with pytest.raises(InvalidParameterError, match="link is 'cauchit'; expected logistic or probit"):
        yes_no(5, 5, link="cauchit", rng=generator(0))
    with pytest.raises(InvalidParameterError, match=r"cut_points is \(1, 0\); expected ascending numbers"):
        ordinal(5, 5, cut_points=(1, 0), rng=generator(0))
