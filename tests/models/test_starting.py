"""A fit that begins from the items of another model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, BPMF, EASE, PMF, VB, Popular, Ratings, SphereALS, SphereBPMF
from tastespace.errors import InvalidParameterError
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models.base.resuming import start_of
from tastespace.progress import Progress
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def ratings():
    drawn, _ = tastes(80, 60, n_factors=3, density=0.4, rng=generator(1))
    return Ratings.from_arrays(drawn.user_ids(), drawn.item_ids(), 20 * drawn.values)  # not in units of 1


@pytest.fixture(scope="module")
def finished(ratings):
    return ALS(n_factors=3, regularization=0.02, sweeps=200, tolerance=1e-9, seed=0).fit(ratings)


def first_errors(model, ratings, start):
    """What the training ratings are missed by after the first sweep."""
    seen: list[Progress] = []
    model.fit(ratings, held_out=ratings, observer=seen.append, start=start)
    return next(event.stats["held-out rmse"] for event in seen if "held-out rmse" in event.stats)


def test_from_its_own_end_least_squares_stays_there(ratings, finished):
    again = ALS(n_factors=3, regularization=0.02, sweeps=1, seed=5).fit(ratings, start=finished)
    assert_allclose(again.posterior_.losses[0], finished.posterior_.losses[-1], rtol=1e-4)
    afresh = ALS(n_factors=3, regularization=0.02, sweeps=1, seed=5).fit(ratings)
    assert afresh.posterior_.losses[0] > 1.5 * again.posterior_.losses[0]


@pytest.mark.parametrize("model", [BPMF, SphereBPMF])
def test_a_sampler_begins_near_the_end_of_least_squares(ratings, finished, model):
    sampler = model(n_factors=3, chains=1, warmup=1, draws=2, thin=1, start="random", seed=3)
    assert first_errors(sampler, ratings, finished) < 0.6 * first_errors(sampler, ratings, None)


def test_least_squares_begin_from_a_draw(ratings):
    sampled = BPMF(n_factors=3, chains=1, warmup=20, draws=5, thin=1, seed=3).fit(ratings)
    settings = {"n_factors": 3, "regularization": 0.02, "sweeps": 1, "seed": 5}
    begun, afresh = ALS(**settings).fit(ratings, start=sampled), ALS(**settings).fit(ratings)
    assert begun.posterior_.losses[0] < 0.7 * afresh.posterior_.losses[0]


def test_variational_bayes_begins_from_least_squares_and_a_sampler_from_it(ratings, finished):
    one_pass = VB(n_factors=3, passes=1, start="random", seed=3)
    begun = one_pass.fit(ratings, start=finished)
    bound = begun.posterior_.bounds[0]
    assert bound > VB(n_factors=3, passes=1, start="random", seed=3).fit(ratings).posterior_.bounds[0] + 100
    sampler = BPMF(n_factors=3, chains=1, warmup=1, draws=2, thin=1, start="random", seed=3)
    assert first_errors(sampler, ratings, begun) < 0.6 * first_errors(sampler, ratings, None)


def test_descent_begins_from_least_squares_and_they_from_it(ratings, finished):
    settings = {"n_factors": 3, "regularization": 0.02, "epochs": 2, "early_stopping": False, "seed": 5}
    begun, afresh = PMF(**settings).fit(ratings, start=finished), PMF(**settings).fit(ratings)
    assert begun.posterior_.losses[0] < 0.85 * afresh.posterior_.losses[0]
    again = ALS(n_factors=3, regularization=0.02, sweeps=1, seed=5).fit(ratings, start=begun)
    assert again.posterior_.losses[0] < 1.2 * finished.posterior_.losses[-1]
    squashed = PMF(form="sigmoid", **settings)
    with pytest.raises(InvalidParameterError, match="the form is sigmoid, whose factors are not in units of ratings"):
        squashed.fit(ratings, start=finished)
    with pytest.raises(InvalidParameterError, match="start is a PMF of the form sigmoid"):
        ALS(n_factors=3).fit(ratings, start=squashed.fit(ratings))


def test_items_on_a_sphere_end_on_it(ratings, finished):
    sphere = SphereALS(n_factors=3, regularization=0.02, seed=0).fit(ratings, start=finished)
    lengths = np.linalg.norm(sphere.posterior_.items.factors, axis=1)
    assert_allclose(lengths, lengths[0], rtol=1e-5)


def test_other_numbers_of_factors(ratings, finished):
    more = ALS(n_factors=5, regularization=0.02, sweeps=1, seed=5).fit(ratings, start=finished)
    assert more.posterior_.losses[0] < 1.1 * finished.posterior_.losses[-1]
    start = start_of(finished, ratings)
    fewer = start.factors(2, 0.1, generator(0))
    given = start.points.factors
    kept = np.linalg.norm(fewer) ** 2 / np.linalg.norm(given) ** 2
    assert kept == pytest.approx(np.sort(np.linalg.eigvalsh(given.T @ given))[1:].sum() / np.sum(given**2))


def test_items_are_known_by_their_ids(ratings, finished):
    """Another order of items, and one that the other model does not know."""
    users, items = ratings.user_ids().to_numpy(), ratings.item_ids().to_numpy()
    turned = np.argsort(-items, kind="stable")
    values = ratings.values
    other = Ratings.from_arrays(
        np.append(users[turned], 0), np.append(items[turned], 999), np.append(values[turned], values[0])
    )
    start = start_of(finished, other)
    assert start.known.sum() == ratings.n_items
    assert not start.known[other.items.rows_of([999])[0]]
    row, before = other.items.rows_of([7])[0], ratings.items.rows_of([7])[0]
    assert_array_equal(start.points.factors[row], finished.posterior_.items.factors[before])


def test_what_cannot_be_a_start_is_refused(ratings, finished, tmp_path):
    with pytest.raises(InvalidParameterError, match="start is a ALS that is not fitted; expected a fitted model with"):
        ALS(n_factors=3).fit(ratings, start=ALS())
    with pytest.raises(InvalidParameterError, match="start is a Popular, which has no factors in units of ratings"):
        ALS(n_factors=3).fit(ratings, start=Popular(seed=0).fit(ratings))
    with pytest.raises(InvalidParameterError, match="start is a str; expected a fitted model"):
        ALS(n_factors=3).fit(ratings, start="als")
    with pytest.raises(InvalidParameterError, match="EASE cannot start from another model; expected start=None"):
        EASE(seed=0).fit(ratings, start=finished)
    with pytest.raises(InvalidParameterError, match="fit got a start and checkpoints; expected one of them"):
        BPMF(n_factors=3).fit(ratings, start=finished, checkpoints=Checkpoints(tmp_path / "kept"))
    strangers = Ratings.from_arrays([1, 2], ["a", "b"], [3.0, 4.0])
    with pytest.raises(InvalidParameterError, match="start knows none of the items to be learned"):
        ALS(n_factors=3).fit(strangers, start=finished)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("biases", [True, False])
def test_items_of_a_raw_model_are_handed_over_around_the_mean(ratings, covariance, biases):
    """What a raw model has the mean in is no bias of the items to one that takes the mean off first."""
    far = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), 400 + ratings.values)
    settings = {"n_factors": 4, "covariance": covariance, "biases": biases, "passes": 60, "seed": 1}
    raw = VB(centred=False, **settings).fit(far)
    bias = raw.posterior_.item_points().bias
    assert abs(bias.mean()) < far.standard_deviation
    counts = far.by_item.counts
    means = np.bincount(far.item_rows, far.values - far.mean) / counts
    assert np.corrcoef(bias, means)[0, 1] > 0.8


@pytest.mark.parametrize("biases", [True, False])
def test_items_of_raw_descent_are_handed_over_around_the_mean(ratings, biases):
    far = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), ratings.values + 500)
    raw = PMF(form="raw", n_factors=4, biases=biases, regularization=0.01, seed=3).fit(far)
    bias = raw.posterior_.item_points().bias
    assert abs(bias.mean()) < 1e-6 * 500
    means = np.bincount(far.item_rows, far.values) / np.bincount(far.item_rows) - far.mean
    assert np.corrcoef(bias, means)[0, 1] > 0.5  # what items are liked, not where ratings lie
