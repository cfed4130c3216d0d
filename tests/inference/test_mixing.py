"""R-hat and correlations by lag, against a reference and against what is known of the series."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from tastespace.inference.diagnostics import correlations, halves, rhat
from tastespace.randomness import generator


def autoregressive(rng, shape, correlation):
    """Series whose neighbours have this correlation, with mean 0 and variance 1; time is the last axis."""
    noise = rng.standard_normal(shape)
    series = np.empty(shape)
    series[..., 0] = noise[..., 0]
    for step in range(1, shape[-1]):
        series[..., step] = correlation * series[..., step - 1] + np.sqrt(1 - correlation**2) * noise[..., step]
    return series


@pytest.mark.parametrize("draws", [4, 11, 50])
@pytest.mark.parametrize("chains", [2, 5])
def test_rhat_is_that_of_the_reference(chains, draws, rng):
    series = autoregressive(rng, (6, chains, draws), 0.7)
    series[3] **= 3
    series[4, 0] += 2
    series[5] = np.round(series[5])  # ties
    assert rhat(series) == pytest.approx(array_stats.rhat(series, method="rank"), rel=1e-12)


def test_one_chain_is_two_halves(rng):
    series = rng.standard_normal((1, 1, 40))
    both = np.stack([series[:, 0, :20], series[:, 0, 20:]], axis=1)
    assert (halves(series) == both).all()
    assert 0.95 < rhat(series)[0] < 1.1
    series[0, 0, 20:] += 3
    assert rhat(series)[0] > 1.5


def test_a_different_scale_is_a_disagreement_too(rng):
    series = rng.standard_normal((1, 2, 400))
    series[0, 1] *= 5
    assert rhat(series)[0] > 1.2
    # A twin that looks at means alone does not see it.
    assert array_stats.rhat(series, method="split")[0] < 1.02


def test_chains_that_stand_still_in_different_places():
    series = np.repeat([[[1.0], [2.0]]], 20, axis=2)
    assert rhat(series)[0] == np.inf


@pytest.mark.statistical
def test_correlations_fall_as_they_should():
    """Of an autoregressive series, as powers; 4 x 20,000 draws have errors below 0.01, and 0.06 is six of them."""
    series = autoregressive(generator(5), (4, 20_000), 0.8)
    assert correlations(series, 10) == pytest.approx(0.8 ** np.arange(11), abs=0.06)


def test_a_chain_in_a_place_of_its_own_remembers_it(rng):
    series = rng.standard_normal((2, 500))
    assert np.abs(correlations(series, 5)[1:]).max() < 0.2
    series[1] += 10
    assert correlations(series, 5)[1:].min() > 0.9
