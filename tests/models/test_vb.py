"""VB: the bound is what it says, and never falls; beliefs are its maximum; answers follow from them in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import variational as reference
from scipy import stats
from scipy.optimize import minimize

from tastespace import BPMF, VB, Ratings, load, save
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import Pairs, People, abilities_of
from tastespace.models.factorization.rows import Factors, RatingBlock
from tastespace.models.factorization.vb.ascent import VariationalAscent, VariationalState
from tastespace.models.factorization.vb.populations import PointNoise, Variances
from tastespace.models.factorization.vb.rows import RowBeliefs, Shape, unpacked
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import gaussian
from tests.pairwise import pairwise

FAMILIES = ["full", "diagonal"]
MONOTONE = {"float64": 1e-9, "float32": 1e-6}
MISTAKES = ["sigma for rho", "tau for tau squared", "v and d are independent", "errors at the means"]


@pytest.fixture(scope="module")
def ratings():
    return gaussian(40, 30, rng=generator(3))[0]


@pytest.fixture(scope="module")
def fitted(ratings):
    return VB(n_factors=3, passes=60, seed=1).fit(ratings)


def assert_never_falls(bounds, tolerance):
    assert np.isfinite(bounds).all()
    assert (np.diff(bounds) >= -tolerance * np.abs(bounds[1:])).all()


@pytest.mark.parametrize(
    ("covariance", "populations", "start", "biases", "centred", "precision"),
    pairwise(
        FAMILIES,
        [
            {},
            {"prior": "variances"},
            {"prior": "both variances"},
            {"prior": "fixed"},
            {"hierarchical": True},
            {"noise_precision": 2.0},
        ],
        ["als", "random"],
        [True, False],
        [True, False],
        ["float64", "float32"],
    ),
    ids=str,
)
def test_the_bound_never_falls(ratings, covariance, populations, start, biases, centred, precision):
    settings = {"n_factors": 4, "passes": 40, "tolerance": 0.0, "threads": 1, "seed": 1}
    model = VB(
        covariance=covariance,
        start=start,
        biases=biases,
        centred=centred,
        precision=precision,
        **populations,
        **settings,
    )
    bounds = model.fit(ratings).posterior_.bounds
    assert_never_falls(bounds, MONOTONE[precision])
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize(
    ("covariance", "mean_sd", "populations", "start", "biases", "precision"),
    pairwise(
        FAMILIES,
        [(100.0, 1.0), (4.0, 0.1)],
        [{}, {"prior": "both variances"}, {"hierarchical": True}],
        ["als", "random"],
        [True, False],
        ["float64", "float32"],
    ),
    ids=str,
)
def test_the_bound_of_raw_ratings_far_from_nought_never_falls(
    ratings, covariance, mean_sd, populations, start, biases, precision
):
    """Squares of the ratings are ten thousand times those of what they differ by: that must not cancel out."""
    mean, sd = mean_sd
    far = replace(ratings, values=mean + sd * (ratings.values - ratings.mean) / ratings.standard_deviation)
    settings = {"n_factors": 4, "passes": 40, "tolerance": 0.0, "threads": 1, "seed": 1, "start": start}
    model = VB(covariance=covariance, biases=biases, centred=False, precision=precision, **populations, **settings)
    assert_never_falls(model.fit(far).posterior_.bounds, MONOTONE[precision])


def world_of(ratings, biases, n_factors=2, seed=5):
    """A start for the twin: users and items that are certain, in units of the ratings."""
    rng, width = np.random.default_rng(seed), n_factors + biases

    def rows(n):
        return reference.Rows(0.5 * rng.standard_normal((n, width)), np.zeros((n, width, width)))

    variances = np.append(np.ones(n_factors), [1.0] if biases else [])
    items = np.append(np.full(n_factors, 1 / n_factors), [1.0] if biases else [])
    values = ratings.values.astype(np.float64) - ratings.mean
    users, columns = ratings.user_rows, ratings.item_rows
    return reference.World(
        users, columns, values, biases, rows(ratings.n_users), rows(ratings.n_items), variances, items, 0.5
    )


def ascent_of(world, ratings, family):
    """The same start, for the kernels."""
    biases, width = world.biases, len(world.user_variances)
    shape = Shape(width - biases, biases, family)

    def points(rows):
        factors = np.ascontiguousarray(rows.means[:, : shape.n_factors])
        return Factors(factors, np.ascontiguousarray(rows.means[:, -1]) if biases else None)

    def variances(of_rows, learns):
        return Variances(of_rows[: shape.n_factors], float(of_rows[-1]) if biases else 1.0, learns)

    start = VariationalState(
        RowBeliefs.certain(shape, points(world.users)),
        RowBeliefs.certain(shape, points(world.items)),
        variances(world.user_variances, True),
        variances(world.item_variances, False),
        PointNoise(1 / world.noise),
    )
    sides = (RatingBlock.of(side, np.float64, ratings.mean) for side in (ratings.by_user, ratings.by_item))
    return VariationalAscent(*sides, start)


def twin_bounds(world, family, mistake=None, n=15):
    """After a first pass with the variances it starts with, as the ascent has it."""
    items = reference._side(world, "items", family, mistake)
    world = replace(world, items=items)
    world = replace(world, users=reference._side(world, "users", family, mistake))
    worlds = [world, *passes(world, family, mistake, n)]
    return worlds[-1], np.array([reference.bound(world) for world in worlds])


def passes(world, family, mistake=None, n=3):
    """What is believed after each further pass."""
    worlds = []
    for _ in range(n):
        world = reference.one_pass(world, family, mistake=mistake)
        worlds.append(world)
    return worlds


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("biases", [True, False])
def test_passes_and_bounds_are_those_of_the_twin(biases, family):
    ratings = gaussian(7, 6, rng=generator(2))[0]
    world = world_of(ratings, biases)
    ascent = ascent_of(world, ratings, family)
    state, bounds = ascent.start, []
    for _ in range(16):
        state, figures = ascent.step(state, generator(0))
        bounds.append(figures["bound"])
    world, expected = twin_bounds(world, family)
    assert_allclose(bounds, expected, rtol=1e-9)
    assert_allclose(state.users.means, world.users.means, rtol=1e-7, atol=1e-9)
    assert_allclose(1 / state.noise.mean, world.noise, rtol=1e-9)
    kept = state.items.covariances
    assert kept is not None
    first = unpacked(kept[0], len(world.user_variances)) if family == "full" else np.diag(kept[0])
    assert_allclose(first, world.items.covariances[0], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_twin_with_a_known_mistake_has_a_bound_that_falls(mistake, family):
    if family == "diagonal" and mistake == "v and d are independent":
        pytest.skip("in this family they are")
    ratings = gaussian(15, 12, noise=0.2, density=0.6, rng=generator(2))[0]
    world, bounds = twin_bounds(world_of(ratings, True), family, n=40)
    assert_never_falls(bounds, 1e-9)

    def goes_on(mistake):
        return [bounds[-1], *(reference.bound(later) for later in passes(world, family, mistake))]

    assert_never_falls(np.array(goes_on(None)), 1e-9)
    with pytest.raises(AssertionError):
        assert_never_falls(np.array(goes_on(mistake)), 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_is_the_expectation_that_it_stands_for(family):
    """E[log p(ratings, x)] by quadrature over all that a rating depends on, and the entropy of normals."""
    ratings = gaussian(3, 3, rng=generator(4))[0]
    world, bounds = twin_bounds(world_of(ratings, True, n_factors=1), family, n=3)
    total = 0.0
    for user, item, value in zip(world.user_rows, world.item_rows, world.values, strict=True):
        mean = np.append(world.users.means[user], world.items.means[item])
        covariance = np.zeros((4, 4))
        covariance[:2, :2], covariance[2:, 2:] = world.users.covariances[user], world.items.covariances[item]
        total += reference.expected(
            lambda x, value=value: stats.norm.logpdf(value, x[0] * x[2] + x[1] + x[3], world.noise**0.5),
            mean,
            covariance,
        )
    for rows, variances in ((world.users, world.user_variances), (world.items, world.item_variances)):
        for mean, covariance in zip(rows.means, rows.covariances, strict=True):
            prior = stats.multivariate_normal(np.zeros(2), np.diag(variances))
            total += reference.expected(prior.logpdf, mean, covariance)
            total += stats.multivariate_normal(mean, covariance).entropy()
    assert_allclose(bounds[-1], total, rtol=1e-9)


def test_one_rating_ends_at_the_maximum_of_the_bound():
    """A user, an item, one factor: four numbers, found by an optimiser that knows nothing of the updates."""
    value, alpha = 2.0, 3.0
    model = VB(
        n_factors=1,
        biases=False,
        centred=False,
        prior="fixed",
        noise_precision=alpha,
        passes=2000,
        tolerance=0.0,
        start="random",
        precision="float64",
        seed=0,
    ).fit(Ratings.from_arrays(["a"], ["x"], [value]))
    ones = np.ones(1)

    def loss(point):
        u, v, *logs = point
        phi, psi = np.exp(logs)
        rows = [reference.Rows(np.array([[m]]), np.array([[[s]]])) for m, s in ((u, phi), (v, psi))]
        zero = np.zeros(1, int)
        return -reference.bound(reference.World(zero, zero, value * ones, False, *rows, ones, ones, 1 / alpha))

    found = minimize(loss, [1.0, 1.0, -1.0, -1.0], method="BFGS", options={"gtol": 1e-9})
    posterior = model.posterior_
    assert_allclose(posterior.bounds[-1], -found.fun, rtol=1e-9)
    assert_allclose(abs(posterior.draws.items[0, 0, 0]), abs(found.x[1]), rtol=1e-4)
    assert_allclose(posterior.uncertain.covariances[0, 0], np.exp(found.x[3]), rtol=1e-4)


@pytest.mark.parametrize(
    ("covariance", "biases", "hierarchical"), pairwise(FAMILIES, [True, False], [True, False]), ids=str
)
def test_a_training_user_is_folded_in_where_training_left_them(ratings, covariance, biases, hierarchical):
    model = VB(
        n_factors=3,
        covariance=covariance,
        biases=biases,
        hierarchical=hierarchical,
        passes=3000,
        tolerance=1e-12,
        precision="float64",
        threads=1,
        seed=1,
    )
    rng = generator(0)
    ascent = model.bind(ratings, rng)
    state = ascent.start
    for _ in range(1500):
        state, _ = ascent.step(state, rng)
    posterior = model._concluded(ratings, state, np.zeros(1))
    belief = posterior.believe(People.new_users(ratings.by_user), 1)
    (folded, *_), *_ = belief.blocks(np.arange(ratings.n_users, dtype=np.int32))
    assert_allclose(folded.means[:, 0], state.users.means, rtol=1e-3, atol=2e-4)
    covariances = folded.roots[:, 0] @ folded.roots[:, 0].transpose(0, 2, 1)
    width, own = state.users.shape.width, state.users
    if covariance == "full":
        second = np.stack([unpacked(row[width : width + own.shape.covariance], width) for row in own.records])
        expected = second - own.records[:, :width, None] * own.records[:, None, :width]
    else:
        expected = np.stack([np.diag(row[width : 2 * width]) for row in own.records])
    assert_allclose(covariances, expected, rtol=1e-3, atol=2e-4)


def test_the_posterior_can_all_that_is_asked_of_a_belief(fitted):
    posterior = fitted.posterior_
    assert [name for name, can in abilities_of(posterior).items() if not can] == ["choices", "complements"]
    assert not posterior.keeps_users
    assert not posterior.items_are_certain


@pytest.mark.parametrize("covariance", FAMILIES)
@pytest.mark.parametrize("biases", [True, False])
def test_the_variance_of_a_score_is_the_closed_form(ratings, covariance, biases):
    model = VB(n_factors=3, covariance=covariance, biases=biases, passes=30, seed=1).fit(ratings)
    posterior, width = model.posterior_, 3 + biases
    users, items = ratings.user_rows[:20].copy(), np.arange(20, dtype=np.int32)
    belief = believed(model, users)
    rows = np.arange(20, dtype=np.int32)
    pairs = Pairs(rows, items)
    outlook = belief.predictive(pairs)
    (some, *_), *_ = belief.blocks(rows)
    scale, alpha = posterior.draws.scale, posterior.draws.alpha[0]
    for row in range(20):
        root = some.roots[row, 0].astype(np.float64)
        kept = posterior.uncertain.covariances[items[row]].astype(np.float64)
        psi = unpacked(kept, width) if covariance == "full" else np.diag(kept)
        item = posterior.draws.items[items[row], 0].astype(np.float64)
        user = some.means[row, 0].astype(np.float64)
        mean = user[:3] @ item[:3] + (user[3] + item[3] if biases else 0.0)
        variance = reference.squared_error(mean, (user, root @ root.T), (item, psi), biases)
        assert_allclose(outlook.belief.mean()[row], posterior.draws.offset + scale * mean, rtol=1e-4)
        assert_allclose(outlook.belief.sd()[row], scale * variance**0.5, rtol=1e-3)
        assert_allclose(outlook.rating.sd()[row], scale * (variance + 1 / alpha) ** 0.5, rtol=0.2)
    mean, sd = belief.uncertainty.summary(pairs)
    assert_allclose(mean, outlook.belief.mean(), rtol=1e-5)
    assert_allclose(sd, outlook.belief.sd(), rtol=1e-4)
    assert_allclose(mean, belief.mean(pairs), rtol=1e-5)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_drawn_scores_have_the_mean_and_spread_of_the_belief(ratings, covariance):
    model = VB(n_factors=3, covariance=covariance, passes=30, seed=1).fit(ratings)
    belief = believed(model, [4])
    n, items = 20_000, np.arange(ratings.n_items, dtype=np.int32)
    scores = belief.draw_scores(0, n, generator(0)).astype(np.float64)
    mean, sd = belief.summary(Pairs.of_one(0, items))
    assert np.abs((scores.mean(0) - mean) / (sd / n**0.5)).max() < 5
    assert np.abs(scores.std(0) / sd - 1).max() < 0.05
    some = belief.draw_scores(0, 7, generator(0), items[3:9])
    assert some.shape == (7, 6)


def test_an_item_that_little_is_known_of_is_less_certain():
    rng = generator(8)
    observed, _ = gaussian(60, 20, rng=rng)
    rare = observed.item_rows == 3
    keep = ~rare | (np.cumsum(rare) <= 2)
    model = VB(n_factors=2, passes=50, seed=0).fit(observed.masked(keep))
    users, items = (part.ravel().astype(np.int32) for part in np.indices((60, 20)))
    variances = believed(model, range(60))._variance_of_items(Pairs(users, items))
    assert np.argmax(variances.reshape(60, 20).mean(axis=0)) == model.ratings_.items.rows_of([3])[0]


def test_a_new_user_and_an_item_never_seen_get_the_prior(fitted, ratings):
    predicted = fitted.predict(["nobody", ratings.users.ids[0]], [ratings.items.ids[0], "nothing"])
    assert predicted.cold.all()
    known = fitted.predict([ratings.users.ids[0]], [ratings.items.ids[0]])
    assert (predicted.belief_sd > known.belief_sd).all()


@pytest.mark.parametrize("covariance", FAMILIES)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("hierarchical", [True, False])
def test_without_centring_new_users_and_new_items_get_usual_ratings(
    ratings, covariance, biases, hierarchical, tmp_path
):
    """The prior of raw ratings is around 0, which is below the lowest of these."""
    high = replace(ratings, values=20 + ratings.values - ratings.mean)
    parts = {"covariance": covariance, "biases": biases, "hierarchical": hierarchical}
    model = VB(n_factors=3, centred=False, passes=60, seed=1, **parts).fit(high)
    user, item = ratings.users.ids[0], ratings.items.ids[0]
    predicted = model.predict(["nobody", user, "nobody"], [item, "nothing", "nothing"])
    assert predicted.cold.all()
    assert np.abs(predicted.mean - 20).max() < 1.5 * ratings.standard_deviation
    assert (predicted.belief_sd < 3 * ratings.standard_deviation).all()
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").predict(["nobody", user, "nobody"], [item, "nothing", "nothing"])
    assert_array_equal(again.mean, predicted.mean)
    assert_array_equal(again.belief_sd, predicted.belief_sd)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_without_centring_known_rows_that_have_no_ratings_get_usual_ratings(ratings, covariance):
    high = replace(ratings, values=20 + ratings.values - ratings.mean)
    held_back = (high.user_rows == 4) | (high.item_rows == 3)
    model = VB(n_factors=3, covariance=covariance, centred=False, passes=60, seed=1).fit(high.masked(~held_back))
    predicted = model.predict(ratings.users.ids[[4, 5]], ratings.items.ids[[5, 3]])
    assert np.abs(predicted.mean - 20).max() < 1.5 * ratings.standard_deviation
    assert (predicted.belief_sd < 3 * ratings.standard_deviation).all()


@pytest.mark.parametrize("covariance", FAMILIES)
@pytest.mark.filterwarnings("ignore:the history has ratings from")
def test_a_rating_of_absurd_size_is_refused_and_not_answered_with_nan(ratings, covariance):
    model = VB(n_factors=2, covariance=covariance, passes=10, seed=1).fit(ratings)
    item = ratings.items.ids[0]
    with pytest.raises(NonFiniteStateError, match="expected finite ratings, of the size"):
        model.predict(["new"], [item], history=Ratings.from_arrays(["new"], [item], [1e30]))


def test_same_bytes_with_any_number_of_threads(ratings):
    for covariance in FAMILIES:
        one = VB(n_factors=4, covariance=covariance, passes=10, threads=1, seed=2).fit(ratings).posterior_.arrays()
        for threads in (2, 5):
            model = VB(n_factors=4, covariance=covariance, passes=10, threads=threads, seed=2).fit(ratings)
            many = model.posterior_.arrays()
            assert all(many[name].tobytes() == one[name].tobytes() for name in one)


@pytest.mark.parametrize("covariance", FAMILIES)
def test_saved_and_loaded_it_answers_the_same(ratings, covariance, tmp_path):
    model = VB(n_factors=3, covariance=covariance, passes=20, seed=1).fit(ratings)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    pairs = ratings.user_ids()[:50], ratings.item_ids()[:50]
    before, after = model.predict(*pairs), again.predict(*pairs)
    assert_array_equal(before.mean, after.mean)
    assert_array_equal(before.belief_sd, after.belief_sd)
    assert_array_equal(model.posterior_.bounds, again.posterior_.bounds)


def test_whole_covariances_are_the_users_variances_in_other_coordinates(ratings):
    settings = {"n_factors": 2, "passes": 4000, "tolerance": 1e-13, "precision": "float64", "threads": 1, "seed": 1}
    one, other = (VB(prior=prior, **settings).fit(ratings) for prior in ("covariances", "variances"))
    assert_allclose(one.posterior_.bounds[-1], other.posterior_.bounds[-1], rtol=1e-6)
    assert len(one.posterior_.bounds) < len(other.posterior_.bounds)
    pairs = ratings.user_ids()[:30], ratings.item_ids()[:30]
    assert_allclose(one.predict(*pairs).mean, other.predict(*pairs).mean, rtol=1e-3)


def test_stops_on_the_bound(ratings):
    bounds = VB(n_factors=3, passes=500, tolerance=1e-4, seed=1).fit(ratings).posterior_.bounds
    changes = np.abs(np.diff(bounds) / bounds[:-1])
    assert len(bounds) < 500
    assert changes[-1] <= 1e-4 < changes[:-1].min()


def test_tells_the_error_of_held_out_ratings(ratings):
    told = []
    VB(n_factors=2, passes=3, seed=1).fit(ratings, held_out=ratings, observer=told.append)
    assert all({"bound", "noise sd", "held-out rmse"} <= set(progress.stats) for progress in told)
    assert told[-1].stats["held-out rmse"] < ratings.standard_deviation


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_factors": 0},
        {"covariance": "half"},
        {"prior": "guessed"},
        {"hierarchical": "yes"},
        {"passes": 0},
        {"tolerance": -1.0},
        {"noise_precision": 0.0},
        {"start": "here"},
        {"prior_scale": 2.0},
        {"noise_rate": 2.0},
        {"hierarchical": True, "prior": "fixed"},
        {"hierarchical": True, "prior_degrees": -1.0},
    ],
)
def test_parameters_that_make_no_sense_are_refused(ratings, parameters):
    with pytest.raises(InvalidParameterError, match=list(parameters)[-1]):
        VB(**parameters).fit(ratings)


def test_a_noise_precision_of_another_scale_is_refused(ratings):
    with pytest.raises(InvalidParameterError, match="expected something nearer"):
        VB(noise_precision=1e300).fit(ratings)


def test_ratings_in_other_units_get_the_same_beliefs_in_these(ratings):
    larger = replace(ratings, values=10 * ratings.values)
    pairs = ratings.user_ids()[:30], ratings.item_ids()[:30]
    settings = {"n_factors": 3, "passes": 40, "tolerance": 0.0, "precision": "float64", "seed": 1}
    one, other = (VB(**settings).fit(given).predict(*pairs) for given in (ratings, larger))
    assert_allclose(other.mean, 10 * one.mean, rtol=1e-3)
    assert_allclose(other.belief_sd, 10 * one.belief_sd, rtol=1e-3)


@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0, 3.0]])
def test_ratings_that_are_all_the_same(values):
    users = [f"u{k}" for k in range(len(values))]
    model = VB(n_factors=2, passes=20, seed=0).fit(Ratings.from_arrays(users, ["x"] * len(values), values))
    assert_allclose(model.predict([users[0]], ["x"]).mean, [3.0], atol=1e-3)


@pytest.mark.statistical
def test_it_is_surer_of_itself_than_sampling_on_ratings_drawn_from_the_model():
    """docs/explanation/models/vb.md says by how much intervals of expected ratings cover too little."""
    observed, truth = gaussian(200, 100, rng=generator(11))
    users, items = (part.ravel().astype(np.int32) for part in np.meshgrid(range(200), range(100), indexing="ij"))
    expected = truth.score(users, items)
    shares = {}
    for name, model in {
        "full": VB(n_factors=2, hierarchical=True, seed=0),
        "diagonal": VB(n_factors=2, covariance="diagonal", hierarchical=True, seed=0),
        "bpmf": BPMF(n_factors=2, seed=0),
    }.items():
        predicted = model.fit(observed)
        mean, sd = believed(predicted, range(200)).summary(Pairs(users, items))
        shares[name] = np.mean(np.abs(mean - expected) <= 1.6449 * sd)
    assert 0.88 < shares["bpmf"] < 0.93
    assert shares["diagonal"] <= shares["full"] + 0.005
    assert 0.6 < shares["full"] < shares["bpmf"]
