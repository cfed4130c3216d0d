"""Geweke's test itself: a right sampler passes, wrong ones do not, and nothing that overflows gets through.

Seeds are fixed; over fresh seeds a right sampler would fail once in a million times.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from testing import conjugate
from testing.conjugate import FUNCTIONALS, WHERE, NormalModel

from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.geweke import Compared, GewekeResult, effective_size, geweke


def run(transition, n=5000, seed=1, functionals=FUNCTIONALS, model=None):
    return geweke(model or NormalModel(), transition.bind, WHERE, functionals, n=n, rng=generator(seed))


def autoregressive(correlation, n, rng):
    """Chains with this correlation from one draw to the next, started where they stay; 1000 x n."""
    chains = rng.standard_normal((1000, n))
    for k in range(1, n):
        chains[:, k] = correlation * chains[:, k - 1] + math.sqrt(1 - correlation**2) * chains[:, k]
    return chains


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_right_sampler_passes(seed):
    result = run(conjugate.Gibbs, seed=seed)
    result.assert_passes()
    assert result.failure is None
    assert result.worst < 5


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("broken", "n"),
    [
        (conjugate.HalfShape, 5000),
        (conjugate.NoPriorRate, 5000),
        (conjugate.TooSure, 10000),
        (conjugate.NoPriorPrecision, 5000),
        (conjugate.StaleMean, 12000),  # each of the two parameters is right; only together they are not
        (conjugate.Still, 500),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_broken_twins_fail(broken, n):
    result = run(broken, n=n)
    assert result.p_value < 1e-6
    with pytest.raises(AssertionError, match="log precision"):
        result.assert_passes()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (conjugate.Exploding, r"step \d+: (the simulated ratings are not finite|squared mean is nan)"),
        (conjugate.Raising, "step 1: LinAlgError: not positive definite"),
        (conjugate.Still, "only 1 effective draws of mean; expected at least 100"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_failures_say_why_and_have_probability_0(broken, reason):
    result = run(broken, n=200)
    assert result.p_value == 0
    assert result.worst == math.inf
    with pytest.raises(AssertionError, match=reason):
        result.assert_passes()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["apart", "in a chain"])
def test_one_value_that_is_not_finite_is_a_failure(value, place):
    """On the 150th call of 200 apart, or on the 50th of the 200 that follow."""
    calls = iter(range(10**6))
    bad = {"apart": 149, "in a chain": 249}[place]
    result = run(
        conjugate.Gibbs,
        n=200,
        functionals={"sometimes": lambda params, ratings: value if next(calls) == bad else params.mean},
    )
    assert result.p_value == 0
    assert result.failure == f"{'draw 150 of the prior' if place == 'apart' else 'step 50'}: sometimes is {value}"


def test_a_functional_that_cannot_be_computed_is_a_failure():
    result = run(conjugate.Gibbs, n=200, functionals={"exponential": lambda params, ratings: math.exp(1e4)})
    assert result.failure == "draw 1 of the prior: exponential is nan"


def test_mistakes_of_the_caller_are_raised():
    """A broken twin that is broken otherwise than meant must not count as one that was caught."""

    class Misspelt(conjugate.Gibbs):
        def step(self, state, rng):
            raise ValueError("shapes do not match")

    with pytest.raises(ValueError, match="shapes do not match"):
        run(Misspelt, n=200)
    with pytest.raises(InvalidParameterError, match="n is 99"):
        run(conjugate.Gibbs, n=99)
    with pytest.raises(InvalidParameterError, match="functionals is empty"):
        run(conjugate.Gibbs, functionals={})


@pytest.mark.statistical
def test_a_constant_that_agrees_does_no_harm_and_one_that_does_not_fails():
    class Fixed(conjugate.Gibbs):
        def draw_precision(self, mean, rng):
            return 2.0

    class Other(conjugate.Gibbs):
        def draw_precision(self, mean, rng):
            return 2.5

    class FixedModel(NormalModel):
        def sample_prior(self, where, rng):
            return replace(super().sample_prior(where, rng), precision=2.0)

    right, wrong = (run(transition, n=3000, model=FixedModel()) for transition in (Fixed, Other))
    right.assert_passes()
    assert {row.name: row.z for row in right.rows}["log precision"] == 0
    assert wrong.p_value == 0
    assert {row.name: row.z for row in wrong.rows}["log precision"] == math.inf


def test_functionals_see_the_parameters_with_the_ratings_they_were_drawn_from():
    """With new ratings, parameters and ratings would fit together whatever the step had done."""
    seen = []

    class Watched(conjugate.Gibbs):
        def step(self, state, rng):
            seen.append(self.values)
            return super().step(state, rng)

    differences = []

    def difference(params, ratings):
        if seen:
            differences.append(float(np.abs(ratings.values - seen[-1]).max()))
        return params.mean

    run(Watched, n=300, functionals={"difference": difference})
    assert len(differences) == 300
    assert max(differences) == 0


def test_the_same_seed_gives_the_same_result():
    assert run(conjugate.Gibbs, n=300) == run(conjugate.Gibbs, n=300)
    assert run(conjugate.Gibbs, n=300) != run(conjugate.Gibbs, n=300, seed=2)


def test_z_and_p_by_hand():
    rows = (
        Compared("one", apart=1.0, chained=1.3, standard_error=0.1, effective=400.0, z=3.0),
        Compared("two", apart=0.0, chained=0.1, standard_error=0.1, effective=900.0, z=1.0),
    )
    result = GewekeResult(rows, n=1000)
    assert rows[0].p_value == pytest.approx(0.0026998, abs=1e-7)
    assert result.p_value == pytest.approx(2 * 0.0026998, abs=2e-7)
    result.assert_passes()
    with pytest.raises(AssertionError, match="alpha 0.01"):
        result.assert_passes(0.01)
    assert replace(rows[0], z=math.nan).p_value == 0


def test_the_table_can_be_read():
    rows = (
        Compared("log precision", apart=-0.1117, chained=0.001509, standard_error=0.0113, effective=2341.2, z=10.02),
        Compared("mean", apart=1.0, chained=1.5, standard_error=0.25, effective=500.0, z=2.0),
    )
    assert repr(GewekeResult(rows, n=5000)).splitlines() == [
        "Geweke's test of 5000 draws each way: p = 2.49e-23 (2 functions)",
        "function            apart  in a chain      error  effective        z",
        "log precision     -0.1117    0.001509      0.011       2341    10.02",
        "mean                    1         1.5       0.25        500     2.00",
    ]
    assert "failed: step 3: mean is nan" in repr(GewekeResult(rows, n=5000, failure="step 3: mean is nan"))


@pytest.mark.statistical
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_size_of_chains_whose_size_is_known(correlation):
    """An autoregressive chain of n draws is worth n (1 - c) / (1 + c) independent ones."""
    n = 3000
    chains = autoregressive(correlation, n, generator(5))
    sizes = np.array([effective_size(chain) for chain in chains])
    expected = n * (1 - correlation) / (1 + correlation)
    assert np.median(sizes) == pytest.approx(expected, rel=0.05)
    # What matters: means divided by their standard errors are standard normal.
    z = chains.mean(1) / np.sqrt(chains.var(1) / sizes)
    # The variance of 1000 such z has a standard error of 4.5 %, plus what the estimate of the size adds.
    assert z.var() == pytest.approx(1.0, abs=0.25)
    assert np.abs(z).max() < 5.5


def test_effective_size_at_the_edges():
    alternating = np.tile([1.0, -1.0], 100)
    assert effective_size(alternating) == 200  # never more than there are
    assert effective_size(np.ones(100)) == 1
    assert effective_size(np.array([1.0, 2.0])) == 1
    assert effective_size(np.repeat([0.0, 1.0], 100)) < 5
    assert effective_size(np.full(100, np.nan)) == 1
