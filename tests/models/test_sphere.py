"""Items on a sphere: SphereBPMF and SphereALS as models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import ALS, BPMF, Ratings, SphereALS, SphereBPMF, load, random_split, save
from tastespace.distributions.von_mises_fisher import mean_resultant_length
from tastespace.errors import InvalidParameterError
from tastespace.inference.diagnostics import diagnose
from tastespace.models.factorization.als.sweep import WEIGHTINGS, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.priors.von_mises_fisher import SpherePopulation
from tastespace.models.factorization.rows import Factors, GivenRows, RatingBlock
from tastespace.models.factorization.sphere.moves import SPHERE_SAMPLERS, SphereMoves
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")  # toys need longer chains

RATINGS = tastes(60, 40, rng=generator(1))[0]
SPLIT = random_split(tastes(150, 80, rng=generator(2))[0], 0.1, seed=0)


def small(**parameters):
    return SphereBPMF(**{"n_factors": 4, "warmup": 20, "draws": 20, "thin": 1, "seed": 0, **parameters})


def lengths(model):
    items = model.posterior_.draws.items
    if model.biases and model.biases != "on-sphere":
        items = items[..., :-1]
    return np.linalg.norm(items, axis=2)


def rmse(model, test=SPLIT.test):
    predicted = model.predict(test.users.at(test.user_rows), test.items.at(test.item_rows)).mean
    return float(np.sqrt(np.mean((np.asarray(predicted) - test.values) ** 2)))


@pytest.mark.parametrize("biases", [True, False, "on-sphere"])
@pytest.mark.parametrize("sampler", SPHERE_SAMPLERS)
def test_all_items_are_as_long_as_the_radius(sampler, biases):
    model = small(sampler=sampler, biases=biases, radius=1.3, chains=1).fit(RATINGS)
    np.testing.assert_allclose(lengths(model), 1.3, rtol=1e-5)
    assert model.posterior_.draws.sphere == Sphere(1.3, biases == "on-sphere")


@pytest.mark.parametrize("sampler", SPHERE_SAMPLERS)
@pytest.mark.parametrize("item_prior", ["von-mises-fisher", "uniform"])
def test_it_predicts_as_well_as_without_the_sphere(sampler, item_prior):
    on_sphere = rmse(small(sampler=sampler, item_prior=item_prior).fit(SPLIT.train))
    free = rmse(BPMF(n_factors=4, warmup=20, draws=20, thin=1, seed=0).fit(SPLIT.train))
    assert on_sphere < 1.05 * free


def test_the_radius_is_the_median_length_of_free_items():
    first, second = small(chains=1).fit(RATINGS), small(chains=1, radius=2.0).fit(RATINGS)
    found = first.posterior_.draws.sphere.radius
    assert 0.05 < found < 5
    assert found != second.posterior_.draws.sphere.radius == 2.0
    # Of ratings ten times as far apart it is the same: it is in units of their standard deviation.
    wide = replace(RATINGS, values=(10 * RATINGS.values).astype(np.float32))
    assert small(chains=1).fit(wide).posterior_.draws.sphere.radius == pytest.approx(found, rel=0.02)


def test_where_factors_are_nothing_the_radius_is_one():
    """Of five ratings least squares makes factors of next to nothing."""
    few = Ratings.from_arrays(["a"] * 3 + ["b"] * 2, [0, 1, 2, 0, 1], [1.0, 2, 3, 4, 5])
    assert small(chains=1).fit(few).posterior_.draws.sphere.radius == 1
    assert np.isfinite(SphereALS(n_factors=4, seed=0).fit(few).predict(["a"], [1]).mean).all()


def test_the_radius_is_a_unit_and_no_more():
    """Users go the other way, and so does their prior: with a tenth or ten times the radius nothing else changes."""
    usual = rmse(small().fit(SPLIT.train))
    for radius in (0.1, 10.0):
        assert rmse(small(radius=radius).fit(SPLIT.train)) == pytest.approx(usual, rel=0.02)


@pytest.mark.parametrize("sampler", ["geodesic", "metropolis"])
def test_the_step_size_is_found_while_warming_up(sampler):
    model = small(sampler=sampler, warmup=60).fit(RATINGS)
    told = diagnose(model.posterior_.trace)
    wanted = {"geodesic": 0.9, "metropolis": 0.3}[sampler]
    assert told.acceptance == pytest.approx(wanted, abs=0.12)
    assert f"{told.acceptance:.0%} of the moves were accepted" in str(told)
    assert (told.energy_error is not None) == (sampler == "geodesic")
    assert told.to_dict()["acceptance"] == told.acceptance
    assert "acceptance" not in told.to_dict()["quantities"]  # it is no draw of anything


def test_slices_have_nothing_to_accept():
    assert diagnose(small(sampler="slice").fit(RATINGS).posterior_.trace).acceptance is None


def test_saved_and_loaded_it_says_the_same(tmp_path):
    for biases in (True, "on-sphere"):
        model = small(biases=biases).fit(RATINGS)
        save(model, tmp_path / str(biases))
        again = load(tmp_path / str(biases))
        assert again.posterior_.draws.sphere == model.posterior_.draws.sphere
        np.testing.assert_array_equal(again.predict([1, 2], [3, 4]).mean, model.predict([1, 2], [3, 4]).mean)
        np.testing.assert_array_equal(lengths(again), lengths(model))


def newer(ratings, item, n=12):
    """The same with an item that the first so many users love."""
    users = ratings.users.ids.to_list()
    return Ratings.from_arrays(users[:n], [item] * n, np.full(n, float(ratings.values.max())))


@pytest.mark.parametrize(
    ("likelihood", "biases"),
    [("gaussian", True), ("gaussian", "on-sphere"), ("uneven", True), ("ordinal", "on-sphere"), ("probit", True)]
    + [("logistic", "on-sphere")],
)
def test_new_items_are_put_on_the_sphere(likelihood, biases):
    ratings, parameters = RATINGS, {"likelihood": likelihood}
    if likelihood == "uneven":
        parameters = {"likelihood": "heteroscedastic"}
    elif likelihood == "ordinal":
        ratings = replace(RATINGS, values=np.clip(np.round(RATINGS.values), 1, 5).astype(np.float32))
    elif likelihood in ("probit", "logistic"):
        ratings = RATINGS.at_least(float(np.median(RATINGS.values)))
    model = small(biases=biases, chains=1, warmup=10, **parameters).fit(ratings)
    raters = ratings.users.ids.to_list()[:12]
    before = model.predict(raters, [10_000] * 12).mean.mean()
    model = model.update(newer(ratings, 10_000))
    np.testing.assert_allclose(lengths(model), model.posterior_.draws.sphere.radius, rtol=1e-4)
    assert model.predict(raters, [10_000] * 12).mean.mean() > before
    model = model.update(newer(ratings, 10_001), sweeps=3)
    np.testing.assert_allclose(lengths(model), model.posterior_.draws.sphere.radius, rtol=1e-4)


def test_step_sizes_stay_while_draws_are_kept(monkeypatch):
    """After a restart as well: what goes on being tuned leans to where it is accepted."""
    sizes, moved = [], SphereMoves.moved

    def watched(self, *arguments):
        done = moved(self, *arguments)
        sizes.append(done.tuning.step_size)
        return done

    monkeypatch.setattr(SphereMoves, "moved", watched)
    model = small(chains=1).fit(RATINGS)
    assert len(set(sizes[:20])) > 10
    assert len(set(sizes[19:])) == 1
    sizes.clear()
    model.update(newer(RATINGS, 10_000), sweeps=6)
    assert len(sizes) == 26
    assert len(set(sizes[:6])) > 3
    assert len(set(sizes[5:])) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"radius": 5.0}, "radius is 5.0"), ({"item_prior": "uniform"}, "item_prior is 'uniform'")],
)
def test_an_update_with_other_parameters_is_refused(parameters, message):
    model = small(radius=1.0, chains=1).fit(RATINGS)
    with pytest.raises(InvalidParameterError, match=message):
        model.set_params(**parameters).update(newer(RATINGS, 10_000))


@pytest.mark.statistical
@pytest.mark.parametrize("n_factors", [3, 32])
def test_new_draws_are_as_spread_as_the_distribution(n_factors):
    """Whatever rows were before. Of rows without ratings, exactly as the population."""
    rng, chains, n = generator(6), 300, 100
    users = Factors(rng.standard_normal((n, n_factors)))
    side = RatingBlock(
        np.r_[np.arange(chains + 1) * n, np.full(chains, chains * n)],
        np.tile(np.arange(n, dtype=np.int32), chains),
        np.tile(rng.standard_normal(n), chains),
    )
    direction = np.eye(n_factors)[0]
    population, moves = SpherePopulation(Sphere(1.0), direction, 20.0), SphereMoves(Sphere(1.0))
    start = population.draw_rows(2 * chains, np.float64, rng)
    given = GivenRows("item", side, start, users)
    drawn, _ = moves.drawn(given, population, rng)
    settled = drawn
    slices = SphereMoves(Sphere(1.0), "slice", 400)
    for _ in range(3):
        settled = slices.moved(replace(given, rows=settled), population, None, rng).points
    ratio = drawn.factors[:chains].std(axis=0).mean() / settled.factors[:chains].std(axis=0).mean()
    assert ratio == pytest.approx(1, abs=0.04)
    exact = float(mean_resultant_length(n_factors, 20.0))
    apart = drawn.factors[chains:, 0] - exact
    assert abs(apart.mean()) < 5 * apart.std() / np.sqrt(chains)


def test_an_item_without_ratings_is_that_of_the_population():
    model = small().fit(RATINGS)
    unknown = model.predict([1], ["nothing"])
    assert np.isfinite(unknown.mean[0])
    assert unknown.belief_sd[0] > model.predict([1], [RATINGS.items.at(np.array([0]))[0]]).belief_sd[0]


@pytest.mark.parametrize("n_factors", [1, 2])
@pytest.mark.parametrize("sampler", SPHERE_SAMPLERS)
@pytest.mark.parametrize("biases", [True, False, "on-sphere"])
def test_one_or_two_factors(n_factors, sampler, biases):
    model = small(n_factors=n_factors, sampler=sampler, biases=biases, chains=1).fit(RATINGS)
    assert np.isfinite(model.predict([1, 2], [3, 4]).mean).all()


def test_an_item_without_ratings_stays_on_the_sphere():
    without = RATINGS.masked(RATINGS.item_rows != 3)
    model = small(chains=1).fit(without)
    np.testing.assert_allclose(lengths(model), model.posterior_.draws.sphere.radius, rtol=1e-5)
    assert np.isfinite(SphereALS(n_factors=4, seed=0).fit(without).predict([1], [3]).mean).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": 0}, "radius is 0; expected"),
        ({"radius": -1.0}, "radius is -1.0; expected"),
        ({"radius": float("nan")}, "radius is nan; expected"),
        ({"radius": float("inf")}, "radius is inf; expected"),
        ({"radius": 1e-9}, "radius is 1e-09; expected"),
        ({"sampler": "gibbs"}, "sampler is 'gibbs'; expected"),
        ({"item_prior": "normal"}, "item_prior is 'normal'; expected"),
        ({"item_steps": 0}, "item_steps is 0; expected"),
        ({"biases": "both"}, "biases is 'both'; expected"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        SphereBPMF(**parameters).fit(RATINGS)


def test_only_the_sphere_has_biases_on_it():
    with pytest.raises(InvalidParameterError, match="biases is 'on-sphere'"):
        BPMF(biases="on-sphere").fit(RATINGS)


# Least squares


def descent(*, biases, radius=1.2, dtype=np.float64, moves=None):
    penalty = Penalty(Strengths.tied(0.05), WEIGHTINGS["blended"])
    moves = SphereMoves(Sphere(radius)) if moves is None else moves
    free = AlternatingLeastSquares.bind(RATINGS, 5, penalty, biases=biases, dtype=dtype, threads=1)
    return replace(free, item_moves=moves)


def losses(transition, n=25):
    rng, found = generator(3), []
    state = transition.init(rng)
    for _ in range(n):
        state, stats = transition.step(state, rng)
        found.append(stats["loss"])
    return np.array(found), state


@pytest.mark.parametrize("biases", [True, False])
def test_the_loss_never_rises(biases):
    found, state = losses(descent(biases=biases))
    assert (np.diff(found) <= 1e-9 * found[0]).all()
    assert found[-1] < 0.95 * found[0]
    np.testing.assert_allclose(np.linalg.norm(state.items.factors, axis=1), 1.2, rtol=1e-5)


class Shortened(SphereMoves):
    """A broken twin: free items, brought back to the sphere, as Fraccaro (2014) starts."""

    def solved(self, given, prior):
        from tastespace.models.factorization.priors.normal_wishart import on_sphere
        from tastespace.models.factorization.rows import NORMAL_ROWS

        return on_sphere(NORMAL_ROWS.solved(given, prior), self.sphere)


def test_items_brought_back_to_the_sphere_are_worse():
    ours, _ = losses(descent(biases=True))
    theirs, _ = losses(descent(biases=True, moves=Shortened(Sphere(1.2))))
    assert ours[-1] < theirs[-1]
    assert (np.diff(theirs) > 0).any()


def test_sphere_als_keeps_its_length_and_predicts():
    model = SphereALS(n_factors=4, seed=0).fit(SPLIT.train)
    long = np.linalg.norm(model.posterior_.items.factors, axis=1)
    np.testing.assert_allclose(long, long[0], rtol=1e-5)
    assert rmse(model) < float(SPLIT.test.values.std())
    assert np.linalg.norm(SphereALS(n_factors=4, radius=0.8).fit(SPLIT.train).posterior_.items.factors[0]) == (
        pytest.approx(0.8, rel=1e-5)
    )
    with pytest.raises(InvalidParameterError, match="radius is 0; expected"):
        SphereALS(radius=0).fit(RATINGS)


def test_early_stopping_stops_on_the_sphere_as_well():
    options = {"n_factors": 20, "regularization": 1e-4, "weighting": "plain", "early_stopping": True, "tolerance": 0.0}
    free, bound = (model(**options, seed=0).fit(SPLIT.train) for model in (ALS, SphereALS))
    assert len(free.posterior_.losses) < ALS().sweeps
    assert len(bound.posterior_.losses) == len(free.posterior_.losses)
