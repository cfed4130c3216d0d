"""Simulation-based calibration itself: a right sampler passes, wrong ones do not, and intervals are counted rightly.

Seeds are fixed; over fresh seeds a right sampler would fail once in a million times.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from testing import conjugate
from testing.conjugate import FUNCTIONALS, WHERE, NormalModel

from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.calibration import (
    CalibrationResult,
    Ranked,
    coverage,
    simulation_based_calibration,
    uniformity,
)


def run(transition, n=300, seed=1, functionals=FUNCTIONALS, draws=39, warmup=10, thin=2):
    return simulation_based_calibration(
        NormalModel(),
        transition.bind,
        WHERE,
        functionals,
        n=n,
        draws=draws,
        warmup=warmup,
        thin=thin,
        rng=generator(seed),
    )


class FarStart(conjugate.Gibbs):
    """Right steps, but small ones, from a start far away: what a warm-up is for."""

    def init(self, rng):
        return conjugate.Normal(30.0, 1e-4)

    def step(self, state, rng):
        if rng.random() < 0.98:
            return state, {}
        return super().step(state, rng)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_right_sampler_passes(seed):
    result = run(conjugate.Gibbs, seed=seed)
    result.assert_passes()
    for row in result.rows:
        assert abs(row.correlation) < 0.1
        for level in (0.5, 0.8, 0.9, 0.95):
            assert row.coverage(level).p_value > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("broken", "n"),
    [
        (conjugate.NoPriorRate, 100),
        (conjugate.TooSure, 300),
        (conjugate.NoPriorPrecision, 600),
        (conjugate.Still, 100),
        (FarStart, 100),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_broken_twins_fail(broken, n):
    result = run(broken, n=n)
    assert result.failure is None
    assert result.p_value < 1e-6
    with pytest.raises(AssertionError, match="log precision"):
        result.assert_passes()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (conjugate.Exploding, r"data set 1: (draw \d+: .* is (nan|inf)|OverflowError)"),
        (conjugate.Raising, "data set 1: LinAlgError: not positive definite"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_failures_say_why_and_have_probability_0(broken, reason):
    result = run(broken, n=100, draws=100)
    assert result.p_value == 0
    with pytest.raises(AssertionError, match=reason):
        result.assert_passes()


@pytest.mark.parametrize("bad", [0, 40, 77])
def test_one_value_that_is_not_finite_is_a_failure(bad):
    """The truth of the first data set, its last draw, and a draw of the second."""
    calls = iter(range(10**6))
    result = run(
        conjugate.Gibbs,
        n=100,
        draws=40,
        functionals={"sometimes": lambda params, ratings: math.nan if next(calls) == bad else params.mean},
    )
    assert result.p_value == 0
    expected = {0: "data set 1: sometimes is nan", 40: "data set 1: draw 40: sometimes is nan"}
    assert result.failure == expected.get(bad, "data set 2: draw 36: sometimes is nan")


def test_mistakes_of_the_caller_are_raised():
    class Misspelt(conjugate.Gibbs):
        def step(self, state, rng):
            raise ValueError("shapes do not match")

    with pytest.raises(ValueError, match="shapes do not match"):
        run(Misspelt)
    for parameters, message in [
        ({"n": 99}, "n is 99"),
        ({"draws": 4}, "draws is 4"),
        ({"warmup": -1}, "warmup is -1"),
        ({"thin": 0}, "thin is 0"),
        ({"functionals": {}}, "functionals is empty"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            run(conjugate.Gibbs, **parameters)


@pytest.mark.statistical
def test_constants_are_ranked_at_random():
    row = run(conjugate.Gibbs, functionals={"constant": lambda params, ratings: 2.0})["constant"]
    assert row.p_value > 1e-6
    assert len(np.unique(row.ranks)) > 30
    assert row.correlation == 0


def test_ranks_by_hand():
    """Truth 0.5 n: the draws 0, 1, 2 ... of every data set."""

    class Counting(conjugate.Gibbs):
        def init(self, rng):
            return conjugate.Normal(-1.0 - 3, 1.0)  # three steps of warm-up, then the first draw

        def step(self, state, rng):
            return conjugate.Normal(state.mean + 1, 1.0), {}

    class Chosen(NormalModel):
        def sample_prior(self, where, rng):
            return conjugate.Normal(6.5, 1.0)

    result = simulation_based_calibration(
        Chosen(),
        Counting.bind,
        WHERE,
        {"mean": lambda params, ratings: params.mean},
        n=100,
        draws=9,
        warmup=3,
        thin=1,
        rng=generator(0),
    )
    assert set(result["mean"].ranks) == {7}  # 0 ... 6 lie below
    # Deviations -4 ... 4: products of neighbours 12 + 6 + 2 + 0 + 0 + 2 + 6 + 12 = 40, squares 60.
    assert result["mean"].correlation == pytest.approx(40 / 60 + 1 / 9)


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "n_draws"), [(100, 9), (200, 39)])
def test_uniform_ranks_have_uniform_p_values(n, n_draws):
    rng = generator(8)
    values = [uniformity(rng.integers(0, n_draws, n, endpoint=True), n_draws) for _ in range(3000)]
    assert stats.kstest(values, "uniform").pvalue > 1e-6
    assert np.mean(np.array(values) < 0.001) < 0.006  # expected 0.001; above it once in a million times


def test_uniformity_by_hand():
    """With all ranks at the middle only the polynomials of even degree count; with equal shares none does."""
    assert uniformity(np.tile(np.arange(10), 20), 9) == pytest.approx(1.0)
    # Orthonormal under the uniform distribution on -1, -1/2, 0, 1/2, 1 are, at 0, -sqrt(10/7) of degree 2 and
    # sqrt(18/7) of degree 4 (the vectors -1, 2, 2 ... (2, -1, -2, -1, 2) / sqrt(14) and (1, -4, 6, -4, 1) / sqrt(70)).
    squares = 100 * 5 * (4 / 14 + 36 / 70)
    assert uniformity(np.full(100, 2), 4) == pytest.approx(stats.chi2.sf(squares, 4))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mean", "sd"), [(0.6, 1.0), (0.0, 1.5), (0.0, 0.67)], ids=["shifted", "too narrow", "too wide"]
)
def test_the_usual_faults_are_found_in_few_ranks(mean, sd):
    """Truths that are further out, or less far, than 39 draws of a standard normal."""
    rng = generator(9)
    truths, draws = mean + sd * rng.standard_normal(200), rng.standard_normal((200, 39))
    assert uniformity((draws < truths[:, None]).sum(1), 39) < 1e-6


def test_coverage_by_hand():
    found = coverage([1.0, 2.0, 3.0, np.nan], [0.0, 2.0, 3.1, 0.0], [2.0, 2.0, 4.0, 9.0], expected=0.9)
    assert (found.n_inside, found.n, found.share) == (2, 4, 0.5)
    # At most 2 of 4 at 0.9: 0.1^4 + 4 x 0.9 x 0.1^3 + 6 x 0.81 x 0.01; nothing above is as unlikely.
    assert found.p_value == pytest.approx(0.0001 + 0.0036 + 0.0486)
    with pytest.raises(InvalidParameterError, match="expected is 1.5"):
        coverage([1.0], [0.0], [2.0], expected=1.5)
    with pytest.raises(InvalidParameterError, match=r"shapes \(2,\), \(1,\), \(1,\)"):
        coverage([1.0, 2.0], [0.0], [2.0], expected=0.5)
    with pytest.raises(InvalidParameterError, match="not empty"):
        coverage([], [], [], expected=0.5)


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "is_right"), [(1.0, True), (1.5, False), (0.7, False)])
def test_coverage_of_normal_intervals(factor, is_right):
    rng = generator(10)
    centre = rng.standard_normal(2000)
    truth = centre + factor * rng.standard_normal(2000)
    half = stats.norm.ppf(0.95)
    assert (coverage(truth, centre - half, centre + half, expected=0.9).p_value > 1e-6) == is_right


def test_coverage_by_ranks():
    """Of the 40 ranks of 39 draws, 2 at either end are outside an interval of 90 %; 0 ... 39 once each."""
    row = Ranked("all", np.arange(40), 39, 0.0)
    for level in (0.5, 0.8, 0.9, 0.95):
        found = row.coverage(level)
        assert found.expected == pytest.approx(level)
        assert found.share == found.expected
    # With 9 draws nothing between 80 % and all of it can be had; a level always leaves something.
    few = Ranked("few", np.arange(10), 9, 0.0)
    assert few.coverage(0.88).expected == 0.8
    assert few.coverage(0.01).expected == 0.2


def test_the_same_seed_gives_the_same_result():
    one, two, other = (run(conjugate.Gibbs, n=100, seed=seed) for seed in (1, 1, 2))
    assert repr(one) == repr(two)
    assert repr(one) != repr(other)


def test_the_table_can_be_read():
    rows = (
        Ranked("log precision", np.tile(np.arange(40), 5), 39, 0.014),
        Ranked("mean", np.full(200, 2), 39, -0.2),
    )
    assert repr(CalibrationResult(rows, 200)).splitlines() == [
        "Calibration on 200 data sets: p = 4.83e-232 (2 functions, 39 draws each)",
        "function       mean rank  50 % holds  90 % holds  correlation         p",
        "log precision      0.500      50.0 %      90.0 %         0.01         1",
        "mean               0.051       0.0 %     100.0 %        -0.20  2.4e-232",
    ]
    failed = CalibrationResult((), 200, "data set 1: mean is nan")
    assert repr(failed) == "Calibration on 200 data sets: p = 0\nfailed: data set 1: mean is nan"
