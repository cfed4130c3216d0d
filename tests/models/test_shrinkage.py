"""How many factors: planted numbers are found, and everything else still works where the number is learned."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from reference.small_story import sampler_of

from tastespace import ALS, BPMF, VB, Checkpoints, Ratings, Shrinkage, load, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError
from tastespace.inference.transition import ACTIVE
from tastespace.models import MODELS
from tastespace.models.factorization.als.sweep import ALSState
from tastespace.models.factorization.gibbs.sweep import GibbsSweep, in_columns
from tastespace.models.factorization.priors.shrinkage import CumulativePrior, shrinking_prior, unit_of
from tastespace.models.factorization.rank import column_search as searching
from tastespace.models.factorization.rank.column_search import ColumnSearch, RankSearch, most_frequent
from tastespace.models.factorization.rows import Factors
from tastespace.models.factorization.sphere.sphere import SphereALS, SphereBPMF
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

AUTO = {
    "n_factors": "auto",
    "prior": Shrinkage(max_factors=8),
    "warmup": 5,
    "draws": 4,
    "chains": 2,
    "seed": 1,
    "threads": 1,
}

ON_SPHERE = partial(SphereBPMF, item_steps=3)


@pytest.fixture(autouse=True)
def short_is_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def planted(n_factors, seed=1, n_users=150, n_items=100):
    return tastes(n_users, n_items, n_factors=n_factors, density=0.4, noise=0.5, rng=np.random.default_rng(seed))[0]


@pytest.fixture(scope="module")
def ratings():
    return planted(3, n_users=60, n_items=50)


# What is found


@pytest.mark.parametrize("prior", ["ard", "cumulative"])
@pytest.mark.parametrize("n_factors", [3, 5, 10])
def test_planted_factors_are_found(prior, n_factors):
    observed = planted(n_factors)
    found = BPMF(n_factors="auto", prior=Shrinkage(prior, max_factors=16), threads=1).search_rank(
        observed, generator(0), silent
    )
    assert abs(found.n_factors - n_factors) <= 1


def test_without_shrinkage_they_are_not():
    """The broken twin: a prior that counts everything finds nothing but the most."""
    observed = planted(3)
    sampler = BPMF(n_factors="auto", prior="ard:max_factors=16", threads=1)
    model = sampler.story(observed)
    model = replace(model, item_prior=replace(model.item_prior, shape=1.0, least=1e-9))
    found = searching.search(sampler_of(model, observed, GibbsSweep), 16, generator(0), silent)
    assert found.n_factors > 10


@pytest.mark.parametrize("n_factors", [3, 10])
def test_least_squares_take_their_number_from_such_a_run(n_factors):
    observed = planted(n_factors)
    model = ALS(n_factors="auto", most_factors=16, regularization=0.05, seed=0, threads=1).fit(observed)
    assert abs(model.n_factors_ - n_factors) <= 1
    assert model.posterior_.items.factors.shape[1] == model.n_factors_
    given = ALS(n_factors=model.n_factors_, regularization=0.05, seed=0, threads=1).fit(observed)
    assert given.posterior_.losses[-1] == pytest.approx(model.posterior_.losses[-1], rel=0.05)


@pytest.mark.parametrize("parameters", [{}, {"covariance": "diagonal"}, {"prior": "variances"}], ids=str)
@pytest.mark.parametrize("n_factors", [3, 10])
def test_variational_factors_of_no_use_vanish(n_factors, parameters):
    model = VB(n_factors="auto", most_factors=16, seed=0, threads=1, **parameters).fit(planted(n_factors))
    assert model.n_factors_ == n_factors
    assert model.posterior_.draws.items.shape[2] == n_factors + 1


def test_the_bound_rises_between_drops():
    observed = planted(3)
    model = VB(n_factors="auto", most_factors=16, precision="float64", seed=0, threads=1)
    stats = []
    posterior = model.fit(observed, observer=lambda event: stats.append(event.stats)).posterior_
    columns, bounds = (np.array([figures[name] for figures in stats]) for name in ("columns", "bound"))
    assert columns[0] == 16
    assert columns[-1] == 3
    same = np.diff(columns) == 0
    assert same.sum() > 10
    assert (np.diff(bounds)[same] > -1e-9 * abs(bounds[0])).all()
    np.testing.assert_array_equal(posterior.draws.likelihood.bounds, bounds[columns == 3])


def test_dropping_vanished_columns_costs_the_bound_next_to_nothing():
    observed = planted(3)
    found = VB(n_factors="auto", most_factors=16, tolerance=1e-7, seed=0, threads=1).fit(observed)
    given = VB(n_factors=3, tolerance=1e-7, seed=0, threads=1).fit(observed)
    ours, theirs = (model.posterior_.draws.likelihood.bounds[-1] for model in (found, given))
    assert ours == pytest.approx(theirs, rel=1e-3)


# The parts


def test_turning_changes_no_score():
    rng = generator(0)
    users, items = (Factors(rng.standard_normal((n, 4)), rng.standard_normal(n)) for n in (30, 20))
    for shrinks_users in (False, True):
        turned = ALSState(*in_columns(users, items, shrinks_users=shrinks_users))
        np.testing.assert_allclose(
            turned.users.factors @ turned.items.factors.T, users.factors @ items.factors.T, atol=1e-9
        )
        side = turned.users if shrinks_users else turned.items
        covariance = np.cov(side.factors.T)
        np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
        assert (np.diff(np.diag(covariance)) <= 0).all()
        if shrinks_users:  # and items stay as long as they were
            np.testing.assert_allclose(
                np.linalg.norm(turned.items.factors, axis=1), np.linalg.norm(items.factors, axis=1)
            )
        else:
            np.testing.assert_allclose(np.cov(turned.users.factors.T, bias=True), np.eye(4), atol=0.1)


def test_columns_come_and_go(ratings):
    """With all of them slabs one is added, next to nothing; with several spikes all but one are dropped."""
    sampler = BPMF(n_factors="auto", prior="cumulative:max_factors=6", threads=1)
    model = sampler.story(ratings)
    search = ColumnSearch(sampler_of(model, ratings, GibbsSweep), 6)
    rng = generator(3)
    state = search.init(rng)
    columns = []
    for _ in range(10):
        state, stats = search.step(state, rng)
        columns.append((int(stats["columns"]), int(stats[ACTIVE])))
        assert state.users.factors.shape == (60, state.items.factors.shape[1])
    assert columns[0][0] == 6
    assert columns[-1] == (4, 3)  # three, and one to spare
    users, items = (Factors(points.factors[:, :2].copy(), points.bias) for points in (state.users, state.items))
    sweep = search._sweep(2)
    dropped = sweep.at(users, items, state.noise, rng, state.tuning)
    assert sweep.model.item_prior.active(dropped.item_population).all()
    grown = search._adapted(dropped, sweep, rng)
    assert grown.items.factors.shape[1] == 3
    assert grown.items.factors[:, 2].var() < 3 * sweep.model.item_prior.spike


def test_a_slab_is_never_narrower_than_a_spike(ratings):
    """Whatever the columns are: the label of one with squares of 0 is a spike, of one far wider a slab."""
    like = BPMF(n_factors=4).story(ratings).item_prior
    for n_rows in (20, 300, 5000):
        prior = shrinking_prior("cumulative", unit_of(ratings), n_rows, 4, like)
        assert isinstance(prior, CumulativePrior)
        for mean_square, is_slab in ((0.0, False), (0.3, False), (1.0, False), (3.0, True), (50.0, True)):
            squares = np.full(1, n_rows * mean_square * prior.spike)
            spike, slab = prior.log_label_weights(np.full(1, 0.5), squares, n_rows)[0]
            assert (slab > spike) == is_slab


def test_the_most_frequent_number_counts():
    assert most_frequent(np.array([3, 4, 4, 5])) == 4
    assert most_frequent(np.array([5, 4])) == 4
    found = RankSearch(np.full(50, 8), np.r_[np.full(25, 7), np.full(25, 3)], 8)
    assert (found.n_factors, found.wanted_columns) == (3, 4)
    assert RankSearch(np.full(50, 8), np.zeros(50, int), 8).n_factors == 1
    assert RankSearch(np.full(50, 8), np.full(50, 8), 8).wanted_columns == 8


# What a fitted model does


def test_chains_say_how_sure_they_are(ratings, tmp_path):
    model = BPMF(**AUTO).fit(ratings)
    rank, trace = model.rank_, model.posterior_.trace
    assert model.n_factors_ == rank.n_factors == 3
    assert rank.columns == model.posterior_.draws.n_factors == 4
    assert sum(rank.posterior.values()) == pytest.approx(1)
    assert trace.quantities[ACTIVE].shape == (2, trace.sweeps)
    counted = trace.quantities[ACTIVE][:, trace.warmup :]
    assert rank.posterior[3] == pytest.approx((counted == 3).mean())
    assert rank.search.columns[0] == 8
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_factors == "auto"
    assert loaded.rank_.to_dict() == rank.to_dict()
    np.testing.assert_array_equal(loaded.predict([1], [2]).mean, model.predict([1], [2]).mean)


@pytest.mark.parametrize("prior", ["ard", "cumulative"])
def test_given_factors_can_shrink_too(ratings, prior):
    model = BPMF(**{**AUTO, "n_factors": 6, "prior": prior, "warmup": 20}).fit(ratings)
    assert model.n_factors_ == 3
    assert model.rank_.columns == 6
    assert model.rank_.search is None
    plain = BPMF(**{**AUTO, "n_factors": 6, "prior": "auto"}).fit(ratings)
    assert plain.n_factors_ == 6
    assert plain.rank_.posterior == {6: 1.0}


@pytest.mark.parametrize("kind", [BPMF, ON_SPHERE])
def test_threads_change_nothing(ratings, kind):
    one, two = (kind(**{**AUTO, "threads": threads}).fit(ratings) for threads in (1, 2))
    assert one.posterior_.draws.items.tobytes() == two.posterior_.draws.items.tobytes()


class Killed(BaseException):
    """What ends a fit in these tests."""


@pytest.mark.parametrize(("kind", "kill_at"), [(BPMF, 7), (BPMF, 30), (ON_SPHERE, 9)])
def test_a_fit_killed_while_columns_come_and_go_has_the_same_bytes(ratings, tmp_path, kind, kill_at):
    whole = kind(**AUTO).fit(ratings)
    settings = Checkpoints(tmp_path / "run", every=2)
    phases = []

    def observer(event):
        phases.append(event.phase)
        if event.step == kill_at:
            raise Killed

    with pytest.raises(Killed):
        kind(**AUTO).fit(ratings, observer=observer, checkpoints=settings)
    assert set(phases) == {"finding the number of factors"}
    resumed = kind(**AUTO).fit(ratings, checkpoints=replace(settings, resume=True))
    assert resumed.posterior_.draws.items.tobytes() == whole.posterior_.draws.items.tobytes()
    assert resumed.rank_.to_dict() == whole.rank_.to_dict()
    settings.clear()
    assert not (tmp_path / "run").exists()


def test_a_fit_killed_after_the_search_does_not_repeat_it(ratings, tmp_path):
    whole = BPMF(**AUTO).fit(ratings)
    settings = Checkpoints(tmp_path / "run", every=2)

    def observer(event):
        if event.phase == "sampling" and event.step == 6:
            raise Killed

    with pytest.raises(Killed):
        BPMF(**AUTO).fit(ratings, observer=observer, checkpoints=settings)
    events = []
    resumed = BPMF(**AUTO).fit(ratings, observer=events.append, checkpoints=replace(settings, resume=True))
    assert sum(event.phase != "sampling" for event in events) == 1  # that all of its sweeps are there
    assert resumed.posterior_.draws.items.tobytes() == whole.posterior_.draws.items.tobytes()


@pytest.mark.parametrize(("kind", "sweeps"), [(BPMF, 0), (BPMF, 3), (ON_SPHERE, 3)])
def test_new_ratings_leave_the_number_alone(ratings, kind, sweeps):
    model = kind(**AUTO).fit(ratings)
    other = model.update(Ratings.from_arrays([1, 999], [2, 777], [4.0, 3.0]), sweeps=sweeps)
    assert other.posterior_.draws.n_factors == model.posterior_.draws.n_factors
    assert other.rank_.search.active.tolist() == model.rank_.search.active.tolist()
    assert other.n_factors == "auto"
    assert np.isfinite(other.predict([999], [777]).mean).all()


def test_another_prior_is_another_model(ratings):
    model = BPMF(**AUTO).fit(ratings)
    model.n_factors, model.prior = 4, "auto"
    with pytest.raises(InvalidParameterError, match="shrinks factors; set them back"):
        model.update(Ratings.from_arrays([1], [2], [4.0]), sweeps=0)


def test_items_on_a_sphere_have_users_that_shrink(ratings):
    model = ON_SPHERE(**AUTO).fit(ratings)
    draws = model.posterior_.draws
    lengths = np.linalg.norm(draws.items[:, :, : draws.n_factors], axis=2)
    np.testing.assert_allclose(lengths, draws.sphere.radius, rtol=1e-4)
    assert 2 <= model.n_factors_ <= 4
    assert SphereALS(n_factors="auto", most_factors=8, seed=0, threads=1).fit(ratings).n_factors_ == 3


@pytest.mark.parametrize("likelihood", ["ordinal", "logistic"])
def test_other_likelihoods_have_it_too(ratings, likelihood):
    values = np.clip(np.round(ratings.values), 1, 5) if likelihood == "ordinal" else ratings.values > 3
    observed = replace(ratings, values=values.astype(np.float32))
    assert 1 <= BPMF(**AUTO, likelihood=likelihood).fit(observed).n_factors_ <= 6


def test_a_fit_may_begin_from_another(ratings):
    other = ALS(n_factors=5, regularization=0.05, seed=0).fit(ratings)
    assert BPMF(**AUTO).fit(ratings, start=other).n_factors_ == 3
    assert ALS(n_factors="auto", most_factors=8, regularization=0.05, seed=0).fit(ratings, start=other).n_factors_ == 3
    assert VB(n_factors="auto", most_factors=8, seed=0).fit(ratings, start=other).n_factors_ == 3


# Little to go by


TINY = {
    "one user": Ratings.from_arrays([0, 0, 0], [0, 1, 2], [1.0, 3.0, 5.0]),
    "one item": Ratings.from_arrays([0, 1, 2], [0, 0, 0], [1.0, 3.0, 5.0]),
    "one rating": Ratings.from_arrays([0], [0], [4.0]),
    "all equal": Ratings.from_arrays(np.repeat(np.arange(8), 6), np.tile(np.arange(6), 8), np.full(48, 3.0)),
}


@pytest.mark.parametrize("name", ["als", "vb", "bpmf", "sphere", "sphere-als"])
@pytest.mark.parametrize("case", TINY)
def test_tiny_ratings_have_one_factor(name, case):
    parameters = {"warmup": 2, "draws": 2} if name in ("bpmf", "sphere") else {}
    model = MODELS[name](n_factors="auto", seed=0, threads=1, **parameters).fit(TINY[case])
    assert model.n_factors_ == 1
    assert np.isfinite(model.predict([0], [0]).mean).all()


@pytest.mark.parametrize("name", ["als", "vb", "bpmf"])
def test_at_most_one(name, ratings):
    sampled = {"warmup": 2, "draws": 2, "prior": Shrinkage(max_factors=1)}
    parameters = sampled if name == "bpmf" else {"most_factors": 1}
    assert MODELS[name](n_factors="auto", seed=0, threads=1, **parameters).fit(ratings).n_factors_ == 1


@pytest.mark.parametrize("name", ["als", "vb", "bpmf", "sphere", "sphere-als"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_factors": "automatic"}, "n_factors is 'automatic'; expected a whole number of at least 1, or 'auto'"),
        ({"n_factors": 0}, "n_factors is 0"),
        ({"n_factors": "auto", "max_factors": 0}, "_factors is 0"),
        ({"n_factors": 8, "max_factors": 16}, "_factors is 16, and n_factors is 8; expected n_factors='auto'"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(name, parameters, message):
    most = parameters.get("max_factors")
    given = {key: value for key, value in parameters.items() if key != "max_factors"}
    if most is not None:
        given |= {"prior": Shrinkage(max_factors=most)} if name in ("bpmf", "sphere") else {"most_factors": most}
    with pytest.raises(InvalidParameterError, match=message):
        MODELS[name](**given).check()


def test_a_given_number_is_not_searched_for(ratings):
    with pytest.raises(InvalidParameterError, match="n_factors is 4; expected 'auto'"):
        BPMF(n_factors=4).search_rank(ratings, generator(0), silent)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BPMF(n_factors="auto", prior="normal-wishart"), "which shrinks no factors"),
        (BPMF(prior="wishart"), "prior is 'wishart'"),
        (VB(n_factors="auto", prior="fixed"), "prior is 'fixed', with which no variance vanishes"),
        (VB(n_factors="auto", hierarchical=True), "hierarchical is True, with which no variance vanishes"),
    ],
    ids=str,
)
def test_priors_that_shrink_nothing_are_refused(model, message):
    with pytest.raises(InvalidParameterError, match=message):
        model.check()
