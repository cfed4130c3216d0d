"""MonotoneMF: recovery of curves, no collapse, a loss that never rises, and what is odd about ratings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kendalltau

from tastespace import ALS, MonotoneMF, Ratings, evaluate, load, random_split, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError
from tastespace.inference.drivers import ascend, never
from tastespace.models.base.posterior import Pairs
from tastespace.models.factorization.als.sweep import ALSState
from tastespace.models.factorization.monotone.curves import FAINT, CurvePerUser, OneCurve, Scale, isotonic, moments
from tastespace.models.factorization.monotone.posterior import DrawnMonotonePosterior
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import SHAPES, distorted, misfit, tastes

FIXED = {"n_factors": 6, "seed": 0, "threads": 1}


@pytest.fixture(scope="module")
def world():
    return distorted(360, 220, rng=generator(0))


@pytest.fixture(scope="module")
def split(world):
    return random_split(world.ratings, 0.3, seed=1)


@pytest.fixture(scope="module")
def als(split):
    return ALS(**FIXED).fit(split.train)


@pytest.fixture(scope="module")
def clusters(split):
    return MonotoneMF(**FIXED, sharing="clusters", n_clusters=3).fit(split.train)


def taus(model, test):
    """Kendall's tau-b of each user with a few test ratings, by predictions that are not clipped."""
    users, items = model.ratings_.users.rows_of(test.user_ids()), model.ratings_.items.rows_of(test.item_ids())
    belief = believed(model, users)
    scores = belief.mean(Pairs(np.arange(len(users), dtype=np.int32), items))
    rows = [np.flatnonzero(test.user_rows == user) for user in range(test.n_users)]
    return np.array([kendalltau(test.values[own], scores[own])[0] for own in rows if len(set(test.values[own])) > 1])


def stars(n_users=40, n_items=30, seed=3):
    drawn = tastes(n_users, n_items, rng=generator(seed))[0]
    return replace(drawn, values=np.clip(np.round(drawn.values), 1, 5).astype(np.float32))


@pytest.mark.statistical
def test_clusters_are_those_that_rate_in_a_similar_way_and_their_curves_are_recovered(world, split, clusters):
    """Hardly any user is put into another group, and curves are right to 0.15 of the scale."""
    table = clusters.posterior_.table
    groups = world.groups[split.train.users.ids.to_numpy()]
    assert len(table.curves) == 1 + len(SHAPES)
    for group in range(len(SHAPES)):
        own = 1 + int(np.bincount(table.of_user[groups == group], minlength=4)[1:].argmax())
        members = np.bincount(groups[table.of_user == own], minlength=len(SHAPES))
        assert members[group] > 0.9 * members.sum()
        found = misfit(table.curves[own], world.curves[group])
        assert found < 0.15
        assert found < 0.7 * misfit(table.scale.levels, world.curves[group])  # the ratings as they are
        assert found < min(misfit(table.curves[other], world.curves[group]) for other in {0, 1, 2, 3} - {own})


def test_the_number_of_clusters_is_chosen_on_ratings_held_out():
    world = distorted(150, 120, rng=generator(2))
    told = []
    model = MonotoneMF(**FIXED, regularization=0.02).fit(world.ratings, observer=told.append)
    assert model.posterior_.table.way == "clusters"
    assert 2 <= len(model.posterior_.table.curves) - 1 <= 6
    errors = {
        event.phase: event.stats["held-out rmse"] for event in told if event.phase.startswith("searching curves: ")
    }
    assert errors["searching curves: 2 clusters"] < errors["searching curves: one"]


@pytest.mark.statistical
def test_clusters_beat_least_squares_on_errors_and_order(split, als, clusters):
    ours, theirs = (evaluate(model, split.test, ranking=False, bootstrap=0).rating["rmse"] for model in (clusters, als))
    assert ours < 0.9 * theirs
    differences = taus(clusters, split.test) - taus(als, split.test)
    # One-sided, with a false-alarm rate of 1e-6.
    assert differences.mean() > 4.75 * differences.std() / len(differences) ** 0.5


def test_straight_ratings_stay_straight():
    """Where curves do not predict better, "auto" is ALS."""
    ratings = tastes(60, 40, density=0.5, noise=0.3, rng=generator(6))[0]
    parts = random_split(ratings, 0.2, seed=0)
    model = MonotoneMF(**FIXED).fit(parts.train)
    assert model.posterior_.table.is_straight
    plain = ALS(**FIXED).fit(parts.train)
    assert_allclose(
        model.predict(parts.test.user_ids(), parts.test.item_ids()).mean,
        plain.predict(parts.test.user_ids(), parts.test.item_ids()).mean,
        atol=1e-5,
    )


@dataclass(frozen=True, eq=False)
class Unfixed(OneCurve):
    """A broken twin: mean and variance are left to the predictions."""

    def curves(self, totals, counts, of_user):
        return isotonic(totals.sum(0, keepdims=True) / counts.sum(0), counts.sum(0, keepdims=True))


def transition_of(ratings, **parameters):
    """The sweeps of one fold, as Somani and Gupta have them, and where ALS ends."""
    model = MonotoneMF(**FIXED, folds=1, regularization=0.05, precision="float64", **parameters)
    plain = ALS(**FIXED, regularization=0.05, precision="float64").fit(ratings).posterior_
    scale = Scale.of(ratings.values)
    counts = scale.counts(ratings.user_rows, scale.places(ratings.values), ratings.n_users)
    cross_fit = model._cross_fit(plain, ratings, scale, counts, generator(0))
    return cross_fit, replace(cross_fit.init(generator(0)), factors=(ALSState(plain.users, plain.items),))


def spread(cross_fit, state):
    return moments(state.curves[:1], cross_fit.counts.sum(0, keepdims=True))[1][0]


@pytest.mark.parametrize(("rule", "collapses"), [(OneCurve, False), (Unfixed, True)])
def test_nothing_collapses_in_200_sweeps(rule, collapses):
    ratings = stars()
    cross_fit, state = transition_of(ratings)
    cross_fit = replace(cross_fit, rule=rule(cross_fit.scale.levels))
    before = spread(cross_fit, state)
    state, _ = ascend(cross_fit, state, generator(0), steps=200, stop=never, phase="", observer=silent)
    after = spread(cross_fit, state)
    assert (after < 0.1 * before) == collapses
    if not collapses:
        assert_allclose(after, before, rtol=1e-6)
        assert moments(state.factors[0].items.factors, np.ones_like(state.factors[0].items.factors))[1].max() > 0.05


@pytest.mark.parametrize("way", ["one", "per-user"])
def test_the_loss_never_rises_on_one_fold(way):
    """With mean and variance fixed, the isotonic step is the exact minimum over curves, and ALS that over factors."""
    ratings = stars(30, 60, seed=8)
    cross_fit, state = transition_of(ratings)
    rule = OneCurve(cross_fit.scale.levels)
    if way == "per-user":
        n = ratings.n_users
        curves = np.repeat(state.curves, n + 1, axis=0)
        state = replace(state, curves=curves, of_user=np.arange(1, n + 1, dtype=np.int32))
        rule = CurvePerUser(cross_fit.scale.levels, 0.0)
    _, trace = ascend(
        replace(cross_fit, rule=rule), state, generator(0), steps=25, stop=never, phase="", observer=silent
    )
    losses = np.array([stats["loss"] for stats in trace])
    assert (np.diff(losses) <= 10 * FAINT * losses[:-1]).all()
    assert losses[-1] < losses[0] * (1 - 1e-4)


def test_ratings_of_one_value_and_of_one_level_a_user():
    users, items = np.divmod(np.arange(400), 20)
    same = MonotoneMF(**FIXED, sharing="clusters").fit(Ratings.from_arrays(users, items, np.full(400, 4.0)))
    assert_array_equal(same.predict([0, 1], [2, 3]).mean, 4.0)
    assert same.curves().values.tolist() == [[4.0]]
    values = np.where(users % 2, 5.0, 2.0)
    values[users > 15] = generator(0).integers(1, 6, 80)  # a few who use the whole scale
    model = MonotoneMF(**FIXED, sharing="per-user").fit(Ratings.from_arrays(users, items, values))
    table = model.posterior_.table
    assert_array_equal(table.curves[table.of_user[:16]], np.repeat(table.curves[:1], 16, axis=0))
    assert np.isfinite(model.predict(users, items).mean).all()


@pytest.mark.parametrize("n_clusters", [1, 200])
def test_no_more_clusters_than_there_are_curves(n_clusters):
    model = MonotoneMF(**FIXED, sharing="clusters", n_clusters=n_clusters, regularization=0.05).fit(stars())
    shown = model.curves()
    assert 1 <= len(shown) <= 41
    assert shown.n_users.sum() == 40


@pytest.mark.parametrize(
    ("name", "value"),
    [("sharing", "both"), ("n_clusters", 0), ("n_clusters", "many"), ("pull", -1), ("folds", 0), ("folds", 2.5)],
)
def test_senseless_parameters(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        MonotoneMF(**{name: value}).fit(stars())


def test_half_stars_and_any_numbers():
    drawn = tastes(40, 30, density=0.5, rng=generator(4))[0]
    halves = replace(drawn, values=np.clip(np.round(2 * drawn.values) / 2, 0.5, 5).astype(np.float32))
    model = MonotoneMF(**FIXED, sharing="one", regularization=0.05).fit(halves)
    assert_array_equal(model.curves().levels, np.unique(halves.values))
    numbers = MonotoneMF(**FIXED, sharing="one", regularization=0.05).fit(drawn)
    assert 10 < len(numbers.curves().levels) <= 50
    predicted = numbers.predict(drawn.user_ids(), drawn.item_ids()).mean
    assert np.corrcoef(predicted, drawn.values)[0, 1] > 0.7


def test_lists_have_the_order_of_the_scores_and_of_the_ratings(clusters, split):
    posterior = clusters.posterior_
    ranking = clusters.recommend(split.train.users.ids.head(20), 8)
    queries = believed(clusters, range(20)).queries
    scores = queries.vectors @ posterior.item_vectors.T + queries.offsets[:, None]
    own = np.take_along_axis(scores, ranking.item_rows, axis=1)
    assert (np.diff(own, axis=1) <= 0).all()
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


def test_a_new_user_is_put_where_they_belong(world, split, clusters, tmp_path):
    """The ratings of a training user under another name: the same curve, before and after saving."""
    table, train = clusters.posterior_.table, split.train
    busy = int(train.by_user.counts.argmax())
    own = train.by_user.take(np.array([busy], np.int32))
    history = dict(zip(train.items.at(own.columns).to_list(), own.values.tolist(), strict=True))
    shown = clusters.curves(history=history)
    assert_array_equal(shown.values[0], table.curves[table.of_user[busy]])
    assert shown.ratings.sum() == len(history)
    save(clusters, tmp_path / "model")
    again = load(tmp_path / "model").curves(history=history)
    assert_array_equal(again.values, shown.values)
    assert_array_equal(clusters.curves(["nobody"]).values[0], table.curves[0])


def test_curves_as_a_table(clusters, split):
    shown = clusters.curves()
    table = shown.to_polars()
    assert table.columns == ["cluster", "users", "level", "value", "ratings"]
    assert table.height == len(shown) * 9
    assert shown.to_pandas().shape == table.shape
    assert shown.n_users.sum() == split.train.n_users
    assert shown.ratings.sum() == len(split.train)
    assert shown.extremes.max() > 2 * shown.extremes.min()
    assert f"{len(shown)} curves of 9 levels" in repr(shown)
    own = clusters.curves([0, 1, 0])
    assert own.to_polars()["user"].unique(maintain_order=True).to_list() == [0, 1]
    assert_array_equal(own.values[0], own.values[2])


def test_curves_of_single_users_are_shown_in_groups():
    model = MonotoneMF(**FIXED, sharing="per-user", regularization=0.05, pull=2.0).fit(stars())
    shown = model.curves()
    assert len(shown) <= 4
    assert shown.n_users.sum() == 40
    assert (np.diff(shown.values, axis=1) >= -1e-9).all()


def test_an_update_fits_again():
    new = Ratings.from_arrays([99] * 3, [0, 1, 2], [5.0, 1.0, 3.0])
    model = MonotoneMF(**FIXED, sharing="one", regularization=0.05).fit(stars())
    updated = model.update(new)
    assert not updated.recommend([99]).cold[0]
    assert updated.curves().n_users.tolist() == [41]


def test_a_start_is_taken(split, als):
    model = MonotoneMF(**FIXED, sharing="one", regularization=0.05).fit(split.train, start=als)
    assert np.isfinite(model.posterior_.plain.losses).all()


def test_empirical_bayes_draws_on_the_same_curves(split, clusters):
    drawn = MonotoneMF(**{**clusters.get_params(), "regularization": "empirical-bayes"}).fit(split.train)
    assert isinstance(drawn.posterior_, DrawnMonotonePosterior)
    own = rmse(drawn, split.test)
    assert own < rmse(clusters, split.test) + 0.01  # it had one strength given, and learns all by itself
    assert drawn.regularization_.users > 0
    assert drawn.learning_.strengths == drawn.regularization_
    plain = ALS(n_factors=clusters.n_factors, regularization="empirical-bayes", seed=1).fit(split.train)
    assert own < rmse(plain, split.test)  # curves pay here


@pytest.mark.parametrize("sharing", ["one", "per-user", "clusters"])
def test_what_was_drawn_is_saved(split, sharing, tmp_path):
    """With its ratings an artifact answers as the model; without, as the model does from a history."""
    few = {"n_factors": 3, "sharing": sharing, "n_clusters": 2, "regularization": "empirical-bayes:draws=60"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Few are enough to be saved.
        model = MonotoneMF(**few, seed=0, threads=1).fit(split.train)
    users, items = split.train.users.ids[:9], split.train.items.ids[:9]
    save(model, tmp_path / "whole")
    whole = load(tmp_path / "whole")
    assert_array_equal(whole.predict(users, items).mean, model.predict(users, items).mean)
    assert whole.learning_.to_dict() == model.learning_.to_dict()
    assert_array_equal(whole.curves().values, model.curves().values)
    save(model, tmp_path / "bare", with_ratings=False)
    bare = load(tmp_path / "bare")
    history = as_new_users(split.train.take(np.flatnonzero(split.train.user_rows < 9)))
    new_users = history.users.ids
    asked = bare.predict(new_users, items, history=history).mean
    assert_array_equal(asked, model.predict(new_users, items, history=history).mean)
    assert len(set(asked.tolist())) > 1
    assert np.isfinite(bare.predict(users, items).mean).all()


def test_a_user_is_folded_in_as_in_training(split):
    """One curve for all: a new user with the ratings of a training user is believed to be the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MonotoneMF(n_factors=3, sharing="one", regularization="empirical-bayes:draws=60", seed=0, threads=1)
        model.fit(split.train)
    own = split.train.take(np.flatnonzero(split.train.user_rows == 4))
    new_user = as_new_users(own)
    items = split.train.items.ids[:20]
    asked = model.predict([new_user.users.ids[0]] * 20, items, history=new_user).mean
    known = model.predict([own.users.ids[0]] * 20, items).mean
    assert_allclose(asked, known, atol=1e-5)


def as_new_users(ratings):
    """The same ratings, by users who were never seen."""
    return Ratings.from_arrays(1_000_000 + ratings.user_rows, ratings.item_ids(), ratings.values)


def rmse(model, test):
    return evaluate(model, test, ranking=False, groups=False, calibration=False, bootstrap=0)["rmse"]
