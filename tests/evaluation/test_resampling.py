"""Intervals contain the truth about as often as they say, and resamples are what they should be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tastespace.evaluation import resampling
from tastespace.evaluation.metrics.catalogue import coverage, coverage_influence, exposure, gini, gini_influence
from tastespace.evaluation.resampling import LEVEL, NORMAL_QUANTILE, Sums, bootstrap, intervals, jackknife, swapped
from tastespace.randomness import generator

# A right program is outside of these bounds once in a million times.
FALSE_ALARM = 1e-6


def test_a_mean_over_users_and_a_mean_over_ratings_by_hand():
    """Two users with 1 and 3 ratings, squared errors 4 and 1 + 1 + 2."""
    assert Sums.of_values(np.array([1.0, np.nan, 0.5])).value() == 0.75
    assert Sums.of_values(np.array([1.0, np.nan, 0.5])).n_users == 2
    errors = Sums(np.array([4.0, 4.0]), np.array([1.0, 3.0]), is_root=True)
    assert errors.value() == pytest.approx(np.sqrt(8 / 4))
    assert np.isnan(Sums(np.zeros(2), np.zeros(2)).value())


def test_resamples_of_two_users_by_hand():
    """(a, a), (a, b) twice, (b, b): a quarter, a half, a quarter of all resamples."""
    drawn = bootstrap({"mean": Sums.of_values(np.array([0.0, 1.0]))}, 4000, seed=0)["mean"]
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [0, 0.5, 1]
    for count, share in zip(counts, (0.25, 0.5, 0.25), strict=True):
        assert binom.ppf(FALSE_ALARM / 2, 4000, share) <= count <= binom.isf(FALSE_ALARM / 2, 4000, share)


def test_measures_are_resampled_together_and_in_any_blocks(monkeypatch):
    """One measure less the other must be the difference of the two, resample by resample."""
    rng = generator(1)
    one, other = rng.random(50), rng.random(50)
    sums = {"one": Sums.of_values(one), "other": Sums.of_values(other), "difference": Sums.of_values(one - other)}
    drawn = bootstrap(sums, 100, seed=3)
    assert drawn["one"] - drawn["other"] == pytest.approx(drawn["difference"])
    monkeypatch.setattr(resampling, "BLOCK_WEIGHTS", 130)
    again = bootstrap(sums, 100, seed=3)
    assert again["difference"] == pytest.approx(drawn["difference"], abs=1e-14)
    assert bootstrap(sums, 100, seed=4)["one"].tolist() != drawn["one"].tolist()


def test_equal_columns_are_not_mixed_up():
    """Sums that are equal are held once: the quotients must still be those of each measure."""
    ones, values = np.ones(5), np.arange(5.0)
    drawn = bootstrap({"a": Sums(values, ones), "b": Sums(values.copy(), values + 1), "c": Sums(ones, ones)}, 50, 0)
    assert (drawn["c"] == 1).all()
    assert not np.allclose(drawn["a"], drawn["b"])


def test_no_interval_for_a_single_user():
    sums = {"none": Sums(np.zeros(3), np.zeros(3)), "one": Sums(np.array([1.0, 0, 0]), np.array([1.0, 0, 0]))}
    assert intervals(sums, 100, seed=0) == {}
    assert intervals({"two": Sums.of_values(np.array([1.0, 2.0]))}, 0, seed=0) == {}
    assert jackknife(0.5, np.array([0.1])) is None


def test_a_group_that_many_resamples_miss_has_an_interval_all_the_same():
    """Two of fifty users: one resample in eight has neither of them."""
    values = np.full(50, np.nan)
    values[:2] = 1.0, 3.0
    low, high = intervals({"rare": Sums.of_values(values)}, 1000, seed=0)["rare"]
    assert (low, high) == (1.0, 3.0)


def within(hits: int, n: int, low: float, high: float) -> bool:
    """Whether so many hits are possible if the true share is between low and high."""
    return bool(binom.ppf(FALSE_ALARM / 2, n, low) <= hits <= binom.isf(FALSE_ALARM / 2, n, high))


@pytest.mark.statistical
def test_intervals_of_the_rmse_contain_the_truth_because_users_stay_together():
    """Some users are harder than others: s_u^2 is exponential with mean 1, and so the true RMSE is 1.

    The percentile bootstrap of 100 users covers a little less than it says: 90 % to 96 % are taken for right. A
    bootstrap over ratings, as if each came from somebody else, covers far less: the broken twin.
    """
    rng, n, n_broken, n_users, n_each = generator(11), 400, 80, 100, 20
    found, broken = 0, 0
    for trial in range(n):
        errors = rng.standard_normal((n_users, n_each)) ** 2 * rng.exponential(size=(n_users, 1))
        by_user = Sums(errors.sum(axis=1), np.full(n_users, float(n_each)), is_root=True)
        by_rating = Sums(errors.reshape(-1), np.ones(errors.size), is_root=True)
        low, high = intervals({"rmse": by_user}, 200, seed=trial)["rmse"]
        found += low <= 1 <= high
        if trial < n_broken:
            low, high = intervals({"rmse": by_rating}, 200, seed=trial)["rmse"]
            broken += low <= 1 <= high
    assert within(found, n, 0.90, 0.96), found / n
    assert not within(broken, n_broken, 0.90, 0.96), broken / n_broken


@pytest.mark.statistical
def test_intervals_of_a_mean_over_users_contain_the_truth():
    """Hit rates of 0.3, 150 users."""
    rng, n = generator(12), 500
    found = 0
    for trial in range(n):
        low, high = intervals({"hits": Sums.of_values((rng.random(150) < 0.3).astype(float))}, 300, seed=trial)["hits"]
        found += low <= 0.3 <= high
    assert within(found, n, 0.92, 0.96), found / n


def draw_lists(rng, n_users=150, n_items=400, k=5):
    """Lists of users who all like popular items more, by Gumbel noise."""
    appeal = -1.5 * np.log(np.arange(1, n_items + 1))
    return np.argsort(-(appeal + rng.gumbel(size=(n_users, n_items))), axis=1)[:, :k].astype(np.int32)


@pytest.mark.statistical
def test_jackknife_intervals_of_coverage_and_gini_contain_their_mean():
    """The truth is the mean over many sets of as many users. The bootstrap would miss it: shown for coverage."""
    rng, n, n_broken = generator(13), 300, 60
    exposures = [exposure(draw_lists(rng), 400) for _ in range(500)]
    true_coverage, true_gini = np.mean([coverage(e) for e in exposures]), np.mean([gini(e) for e in exposures])
    covered = unequal = broken = 0
    for trial in range(n):
        lists = draw_lists(rng)
        shown = exposure(lists, 400)
        low, high = jackknife(coverage(shown), coverage_influence(lists, shown))
        covered += low <= true_coverage <= high
        low, high = jackknife(gini(shown), gini_influence(lists, shown))
        unequal += low <= true_gini <= high
        if trial < n_broken:
            resamples = [coverage(exposure(lists[rng.integers(0, 150, 150)], 400)) for _ in range(60)]
            low, high = np.quantile(resamples, [0.025, 0.975])
            broken += low <= true_coverage <= high
    assert within(covered, n, 0.90, 0.99), covered / n
    assert within(unequal, n, 0.90, 0.99), unequal / n
    assert not within(broken, n_broken, 0.90, 0.99), broken / n_broken


def test_signs_by_hand():
    """Differences 1 and 2: the sums are 3, 1, -1, -3, each a quarter of the time."""
    drawn = swapped(np.array([[1.0], [2.0]]), 4000, seed=0)[:, 0]
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-3, -1, 1, 3]
    assert all(within(int(count), 4000, 0.25, 0.25) for count in counts)


def test_the_normal_quantile():
    from scipy.stats import norm

    assert norm.ppf((1 + LEVEL) / 2) == pytest.approx(NORMAL_QUANTILE)
