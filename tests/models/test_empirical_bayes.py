"""`regularization="empirical-bayes"`: its settings, what it learns, how it answers, and what it refuses."""

from __future__ import annotations

import warnings
from dataclasses import astuple, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, EmpiricalBayes, Ratings, evaluate, load, random_split, read, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError
from tastespace.models import SphereALS
from tastespace.models.base.posterior import People
from tastespace.models.factorization.als.sweep import WEIGHTINGS, Strengths
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, WeightedUsers
from tastespace.models.factorization.empirical_bayes.settings import empirical_bayes_of
from tastespace.models.factorization.empirical_bayes.sweep import Coordinates, Precisions
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

PRECISIONS = Precisions(users=0.3, items=1.2, user_bias=2.0, item_bias=5.0, noise=1.6)


@pytest.fixture(scope="module")
def ratings():
    return tastes(80, 60, noise=0.5, rng=generator(1))[0]


@pytest.fixture(scope="module")
def fitted(ratings):
    return ALS(n_factors=3, regularization="empirical-bayes", seed=0, threads=1).fit(ratings)


# Settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("empirical-bayes", EmpiricalBayes()),
        ("empirical-bayes:steps=adam", EmpiricalBayes(steps="adam")),
        (
            "empirical-bayes:transition=crank-nicolson,draws=7,most_steps=9,tied=False,start=0.5",
            EmpiricalBayes(transition="crank-nicolson", draws=7, most_steps=9, tied=False, start=0.5),
        ),
    ],
)
def test_settings_are_a_text_and_back(text, settings):
    assert empirical_bayes_of(text) == settings
    assert str(settings) == text
    assert empirical_bayes_of(settings) is settings


@pytest.mark.parametrize("other", ["auto", 0.1, None, "empirical"])
def test_any_other_regularization_is_none_of_it(other):
    assert empirical_bayes_of(other) is None


@pytest.mark.parametrize(
    ("regularization", "complaint"),
    [
        ("empirical", "expected one of 'auto', 'empirical-bayes'"),
        ("empirical-bayes:wibble=1", "'wibble=1'; expected key=value, with a key among steps"),
        ("empirical-bayes:draws", "'draws'; expected key=value"),
        ("empirical-bayes:draws=many", "draws is 'many'; expected a whole number"),
        ("empirical-bayes:start=low", "start is 'low'; expected a number"),
        ("empirical-bayes:tied=maybe", "tied is 'maybe'"),
        (EmpiricalBayes(draws=0), "draws is 0; expected a whole number of at least 1"),
        (EmpiricalBayes(steps="newton"), "steps is 'newton'; expected one of 'robbins-monro', 'adam'"),
        (EmpiricalBayes(transition="walk"), "transition is 'walk'; expected one of 'gibbs'"),
        (EmpiricalBayes(most_steps=0.5), "most_steps is 0.5"),
        (EmpiricalBayes(start=-1.0), "start is -1.0; expected a number above"),
    ],
)
def test_senseless_settings_are_refused(ratings, regularization, complaint):
    with pytest.raises(InvalidParameterError, match=complaint):
        ALS(regularization=regularization).fit(ratings)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"item_regularization": 0.1}, "item_regularization is 0.1, and regularization is 'empirical-bayes'"),
        ({"early_stopping": True}, "early_stopping is True"),
    ],
)
def test_what_it_learns_cannot_be_given(ratings, parameters, complaint):
    with pytest.raises(InvalidParameterError, match=complaint):
        ALS(regularization="empirical-bayes", **parameters).fit(ratings)


def test_the_sphere_refuses_it(ratings):
    with pytest.raises(InvalidParameterError, match="items of any length"):
        SphereALS(regularization="empirical-bayes").fit(ratings)


# Precisions


def test_precisions_and_strengths_say_the_same():
    strengths = PRECISIONS.strengths
    assert_allclose(astuple(strengths), np.array([0.3, 1.2, 2.0, 5.0]) / 1.6)
    back = Precisions.of_strengths(strengths, 1.6)
    assert_allclose(back.array(), PRECISIONS.array())
    assert_allclose(PRECISIONS.factors, 0.6)


def test_units():
    """Ratings 10 times as large: factors sqrt(10) times, biases and errors 10 times, precisions go with the square."""
    assert_allclose(PRECISIONS.in_ratings(10).array(), PRECISIONS.array() / [10, 10, 100, 100, 100])


@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize("is_tied", [True, False])
def test_coordinates_and_back(is_tied, has_biases):
    coordinates = Coordinates(is_tied, has_biases)
    place = coordinates.logarithms(PRECISIONS)
    assert len(place) == len(coordinates.names)
    back = coordinates.precisions(place)
    expected = PRECISIONS if has_biases else replace(PRECISIONS, user_bias=0.0, item_bias=0.0)
    expected = replace(expected, users=0.6, items=0.6) if is_tied else expected
    assert_allclose(back.array(), expected.array())


def test_what_is_learned_scales_with_the_ratings(ratings):
    """The same ratings on a scale ten times as wide: the same draws, and strengths of factors ten times as large."""
    tenfold = replace(ratings, values=10 * ratings.values)
    one, ten = (
        ALS(n_factors=2, regularization="empirical-bayes", precision="float64", seed=0, threads=1).fit(given)
        for given in (ratings, tenfold)
    )
    assert_allclose(astuple(ten.regularization_), np.array(astuple(one.regularization_)) * [10, 10, 1, 1], rtol=1e-3)
    pairs = [0, 1, 2], [3, 4, 5]
    assert_allclose(ten.predict(*pairs).mean, 10 * one.predict(*pairs).mean, rtol=1e-3)


# What comes of it


def test_it_predicts_as_well_as_the_search(ratings):
    """On ratings of which half is noise; and better than a strength far off."""
    split = random_split(ratings, 0.2, seed=0)
    rmse = {
        name: evaluate(ALS(n_factors=3, seed=0, **how).fit(split.train), split, ranking=False, bootstrap=0)["rmse"]
        for name, how in {
            "learned": {"regularization": "empirical-bayes"},
            "searched": {},
            "strong": {"regularization": 1.0},
        }.items()
    }
    assert rmse["learned"] < 1.03 * rmse["searched"]
    assert rmse["learned"] < 0.9 * rmse["strong"]


def test_it_knows_how_sure_it_is(ratings, fitted):
    assert isinstance(fitted.posterior_, EmpiricalPosterior)
    predicted = fitted.predict(ratings.users.ids[:5], ratings.items.ids[:5])
    assert (predicted.rating_sd > predicted.belief_sd).all()
    assert fitted.posterior_.trace.sweeps == EmpiricalBayes().draws


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_users_are_folded_in_by_their_own_prior(ratings, weighting):
    """Means and covariances, draw by draw, against the formula with each user's weight."""
    model = ALS(n_factors=2, regularization="empirical-bayes:draws=20", weighting=weighting, seed=0, threads=1)
    posterior = model.fit(ratings).posterior_
    draws, rows = posterior.draws, np.array([0, 7, 33], np.int32)
    precisions = model.learning_.precisions
    (belief, *_), *_ = believed(model, rows).blocks(np.arange(3))
    by_user, scale = ratings.by_user, ratings.standard_deviation
    for place, row in enumerate(rows):
        own = slice(by_user.offsets[row], by_user.offsets[row + 1])
        weight = WEIGHTINGS[weighting].of(np.array([own.stop - own.start]))[0]
        for s in (0, 19):
            items = draws.items[by_user.columns[own], s].astype(float)
            design = np.column_stack([items[:, :2], np.ones(len(items))])
            prior = weight * np.diag([precisions.users * scale] * 2 + [precisions.user_bias * scale**2])
            matrix = prior + precisions.noise * scale**2 * design.T @ design
            left = (by_user.values[own] - ratings.mean) / scale - items[:, 2]
            mean = np.linalg.solve(matrix, precisions.noise * scale**2 * design.T @ left)
            assert_allclose(belief.means[place, s], mean, rtol=1e-3, atol=1e-4)
            root = belief.roots[place, s].astype(float)
            assert_allclose(root @ root.T, np.linalg.inv(matrix), rtol=1e-3, atol=1e-5)
    assert isinstance(draws.likelihood, WeightedUsers) == (weighting != "plain")


def test_a_weight_that_is_forgotten_would_be_noticed(ratings):
    """Broken twin: the same draws with the weight of one rating for all."""
    model = ALS(n_factors=2, regularization="empirical-bayes:draws=20", weighting="weighted", seed=0).fit(ratings)
    posterior, rows = model.posterior_, np.arange(5, dtype=np.int32)
    plain = replace(posterior, draws=replace(posterior.draws, likelihood=WeightedUsers(weighting=WEIGHTINGS["plain"])))
    people = People.known(rows, ratings.by_user)
    right, wrong = (one.believe(people, 1).means(0, 5)[0] for one in (posterior, plain))
    assert np.abs(right - wrong).max() > 0.05


def test_what_was_learned_is_reported(fitted):
    learning = fitted.learning_
    assert_allclose(astuple(fitted.regularization_), astuple(learning.strengths))
    assert learning.path.shape == (len(learning.path), 5)
    assert_allclose(learning.path[-6:].mean(axis=0), learning.precisions.array(), rtol=0.1)
    assert f"in {len(learning.path)} steps" in str(learning)
    assert learning.to_dict()["precisions"]["noise"] == learning.precisions.noise
    grid = fitted.regularization_.as_grid(3, 2.0)
    assert_allclose(grid["user_regularization"], fitted.regularization_.users * np.array([1, 2, 4]))
    assert [ALS(**dict.fromkeys(grid, 1.0)).check() for _ in range(1)] == [None]  # names of parameters


def test_a_grid_of_nothing_is_refused():
    with pytest.raises(InvalidParameterError, match="n is 0"):
        Strengths.tied(1.0).as_grid(0)
    with pytest.raises(InvalidParameterError, match="ratio is 1"):
        Strengths.tied(1.0).as_grid(3, 1)


def test_other_models_have_strengths_but_no_learning(ratings):
    model = ALS(n_factors=2, regularization=0.07, seed=0).fit(ratings)
    assert astuple(model.regularization_) == (0.07,) * 4
    with pytest.raises(InvalidParameterError, match="has learned no precisions: its regularization is 0.07"):
        _ = model.learning_


def test_what_was_learned_is_saved(tmp_path, ratings):
    settings = EmpiricalBayes(steps="adam", draws=20)
    model = ALS(n_factors=2, regularization=settings, seed=0, threads=1).fit(ratings)
    save(model, tmp_path / "model")
    back = load(tmp_path / "model")
    assert empirical_bayes_of(back.regularization) == settings
    assert_array_equal(back.learning_.path, model.learning_.path)
    assert back.regularization_ == model.regularization_
    assert_array_equal(back.predict([0, 1], [2, 3]).mean, model.predict([0, 1], [2, 3]).mean)


def test_it_begins_from_another_model(ratings, fitted):
    other = ALS(n_factors=2, regularization=0.05, seed=3).fit(ratings)
    model = ALS(n_factors=3, regularization="empirical-bayes", seed=0, threads=1).fit(ratings, start=other)
    assert_allclose(model.learning_.precisions.factors, fitted.learning_.precisions.factors, rtol=0.15)


def test_held_out_ratings_are_watched_and_change_nothing(ratings):
    split = random_split(ratings, 0.2, seed=0)
    heard = []
    watched = ALS(n_factors=2, regularization="empirical-bayes", seed=0, threads=1)
    watched.fit(split.train, held_out=split.test, observer=heard.append)
    alone = ALS(n_factors=2, regularization="empirical-bayes", seed=0, threads=1).fit(split.train)
    assert_array_equal(watched.posterior_.draws.items, alone.posterior_.draws.items)
    phases = {progress.phase for progress in heard}
    assert phases == {"learning the regularization", "drawing"}
    assert "held-out rmse" in heard[-1].stats


@pytest.mark.parametrize("transition", ["crank-nicolson", "autoregressive"])
def test_other_transitions_answer_the_same(ratings, fitted, transition):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They creep.
        settings = EmpiricalBayes(transition=transition, most_steps=60)
        model = ALS(n_factors=3, regularization=settings, seed=0, threads=1).fit(ratings)
    assert "acceptance" in model.posterior_.trace.quantities
    assert_allclose(model.learning_.precisions.noise, fitted.learning_.precisions.noise, rtol=0.15)


def test_a_learning_that_ends_too_soon_says_so(ratings):
    with pytest.warns(ConvergenceWarning, match="not converged in 3 steps; .* set most_steps=6 or more"):
        ALS(n_factors=2, regularization="empirical-bayes:most_steps=3", seed=0).fit(ratings)


def test_draws_that_are_too_few_say_so(ratings):
    with pytest.warns(ConvergenceWarning, match=r"not exact enough: .* set regularization='empirical-bayes:draws=\d+'"):
        ALS(n_factors=8, regularization="empirical-bayes:draws=4", weighting="plain", seed=0).fit(ratings)


def test_a_start_that_leaves_nothing_of_the_factors_says_so(ratings):
    with pytest.warns(ConvergenceWarning) as told:
        ALS(n_factors=2, regularization="empirical-bayes:start=100", seed=0).fit(ratings)
    assert any("all factors vanished: the start 100 " in str(one.message) for one in told)


@pytest.mark.parametrize(
    "values", [[3.0], [3.0, 3.0, 3.0], [1.0, 5.0]], ids=["one rating", "all the same", "two ratings"]
)
@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_hardly_any_ratings_get_an_answer(values):
    n = np.arange(len(values))
    model = ALS(n_factors=2, regularization="empirical-bayes", seed=0).fit(Ratings.from_arrays(n, n % 2, values))
    predicted = model.predict([0, 99], [0, 99])
    assert np.isfinite(predicted.mean).all()
    assert np.isfinite(predicted.rating_sd).all()


@pytest.mark.slow
def test_movielens(datasets):
    """90:10, seed 0, 32 factors: no worse than the best of a grid + 0.003, whatever the weighting.

    The best of 5 x 5 strengths, 15 sweeps each, judged on the test ratings (benchmarks/empirical_bayes.py): 0.8896,
    0.8952 and 0.8965.
    """
    split = random_split(read(datasets / "ml-100k"), 0.1, seed=0)
    for weighting, best in {"blended": 0.8896, "weighted": 0.8952, "plain": 0.8965}.items():
        model = ALS(regularization="empirical-bayes", weighting=weighting, seed=0).fit(split.train)
        assert evaluate(model, split, ranking=False, bootstrap=0)["rmse"] < best + 0.003


@pytest.mark.slow
def test_movielens_from_any_start(datasets):
    """The root of lam_u lam_v is the same to 10 % from strengths of 0.01, 1 and 10 (plain weights)."""
    split = random_split(read(datasets / "ml-100k"), 0.1, seed=0)
    found = []
    for start in (0.01, 1.0, 10.0):
        for tied in (True, False):
            settings = EmpiricalBayes(start=start, tied=tied)
            model = ALS(regularization=settings, weighting="plain", seed=0).fit(split.train)
            found.append(model.learning_.precisions.factors)
    assert max(found) / min(found) < 1.1
