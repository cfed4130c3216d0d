"""What is kept of the noise: summaries in parts, single precision, and units that go with the ratings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import BPMF
from tastespace.models.factorization.likelihoods import heteroscedastic
from tastespace.models.factorization.likelihoods.heteroscedastic import HeteroscedasticGaussian, RowPrecisions
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
SMALL = {"n_factors": 2, "warmup": 5, "draws": 5, "thin": 1, "seed": 1, "threads": 1}


def test_the_noise_of_many_is_summarised_in_parts(monkeypatch):
    rng = generator(2)
    noises = [RowPrecisions(2.0, rng.gamma(3, size=10), rng.gamma(3, size=4), 3.0, 3.0) for _ in range(7)]
    whole = HeteroscedasticGaussian().stack(noises, 1.5)
    sds = 1.5 / np.sqrt(2.0 * np.stack([noise.users for noise in noises], axis=1))
    assert_allclose(whole["user_noise"][:, 0], sds.mean(1), rtol=1e-6)
    monkeypatch.setattr(heteroscedastic, "BLOCK_ROWS", 3)
    parts = HeteroscedasticGaussian().stack([noise.lean() for noise in noises], 1.5)
    assert_allclose(parts["user_noise"], whole["user_noise"], rtol=1e-5)
    assert_allclose(parts["item_noise"], whole["item_noise"], rtol=1e-5)
    assert noises[0].lean().users.dtype == np.float32


def whole_stars():
    ratings = tastes(40, 20, density=0.5, rng=generator(4))[0]
    return replace(ratings, values=np.clip(np.round(ratings.values), 1, 5))


def test_levels_and_mean_go_with_new_ratings():
    """A model of whole stars that meets a half star has half stars from then on."""
    model = BPMF(**SMALL).fit(whole_stars())
    assert_array_equal(model.posterior_.levels, [1, 2, 3, 4, 5])
    later = model.update(pl.DataFrame({"user": [0, 1], "item": [0, 0], "rating": [2.5, 4.0]}), sweeps=0)
    assert 2.5 in later.posterior_.levels
    assert later.posterior_.units.usual == pytest.approx(later.ratings_.mean)
    assert_array_equal(model.posterior_.levels, [1, 2, 3, 4, 5])  # The old one is as it was.


def test_who_rated_a_new_item_has_the_noise_that_goes_with_it():
    """New items are drawn again by a second update: the noise of those who rated one in the first goes with them."""
    model = BPMF(likelihood="heteroscedastic", **SMALL).fit(whole_stars())
    once = model.update(pl.DataFrame({"user": [0], "item": [900], "rating": [1.0]}), sweeps=0)
    more = pl.DataFrame({"user": [1, 2, 3, 4], "item": [900] * 4, "rating": [5.0, 4.0, 5.0, 5.0]})
    twice = once.update(more, sweeps=0)
    folded = twice.posterior_.draws.likelihood.fold_in(
        twice.posterior_.draws, twice.ratings_.by_user.take(np.array([0], np.int32)), None, 1
    )
    now = heteroscedastic.noise_summary(folded.precision, twice.posterior_.draws.alpha, twice.posterior_.draws.scale)
    assert_array_equal(twice.posterior_.draws.noise["user_noise"][0], now[0])
    assert (once.posterior_.draws.noise["user_noise"][0] != now[0]).any()
    assert_array_equal(twice.posterior_.draws.noise["user_noise"][7], model.posterior_.draws.noise["user_noise"][7])
