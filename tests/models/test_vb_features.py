"""Features in variational Bayes: the bound written out once more, its ascent, broken twins, and what comes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma

import tastespace as ts
from tastespace import VB, Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.rows import Moments
from tastespace.models.factorization.vb.coefficients import CoefficientBeliefs
from tastespace.models.factorization.vb.rows import RowBeliefs, unpacked
from tastespace.randomness import generator
from tests.pairwise import pairwise

SHORT = {"n_factors": 3, "passes": 60, "tolerance": 0.0, "threads": 1, "seed": 1}
TOLERANCE = {"float64": 1e-9, "float32": 1e-6}


def planted(n_users=120, n_items=80, seed=5):
    """Items of two kinds, which users like more or less; jobs tell which. And a number that tells nothing."""
    rng = generator(seed)
    kinds, jobs = rng.integers(0, 2, n_items), rng.integers(0, 2, n_users)
    likes = np.where(jobs == 1, 1.0, -1.0) + 0.2 * rng.standard_normal(n_users)
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.25)
    values = 3 + likes[users] * np.where(kinds[items] == 1, 0.8, -0.8) + 0.4 * rng.standard_normal(len(users))
    ratings = Ratings.from_arrays(users, items, values.astype(np.float32))
    kinds_of = {item: {"kind": "ab"[kinds[item]], "chance": float(rng.random())} for item in range(n_items)}
    jobs_of = {user: {"job": "xy"[jobs[user]]} for user in range(n_users)}
    return ratings, kinds_of, jobs_of


WHOLE, KINDS, JOBS = planted()
IS_WARM = (WHOLE.item_ids().to_numpy() < 64) & (WHOLE.user_ids().to_numpy() < 100)
TRAIN = WHOLE.take(np.flatnonzero(IS_WARM))
TRAIN = TRAIN.with_item_features({i: KINDS[i] for i in range(64)}).with_user_features({u: JOBS[u] for u in range(100)})


@pytest.fixture(scope="module")
def fitted():
    return VB(**SHORT).fit(TRAIN)


def falls(bounds, tolerance):
    return bool((np.diff(bounds) < -tolerance * np.abs(bounds[1:])).any())


@pytest.mark.parametrize(
    ("covariance", "prior", "biases", "what", "precision"),
    pairwise(
        ["full", "diagonal"],
        ["covariances", "variances", "both variances", "fixed"],
        [True, False],
        ["attributes", "bags", "users only"],
        ["float64", "float32"],
    ),
    ids=str,
)
def test_the_bound_never_falls(covariance, prior, biases, what, precision):
    ratings = TRAIN
    if what == "bags":
        ratings = TRAIN.with_item_features("bag").with_user_features("bag")
    if what == "users only":
        ratings = TRAIN.with_item_features(None)
    model = VB(**SHORT, covariance=covariance, prior=prior, biases=biases, precision=precision).fit(ratings)
    bounds = model.posterior_.bounds
    assert not falls(bounds, TOLERANCE[precision])
    assert bounds[-1] > bounds[0]


def test_the_bound_is_what_it_is():
    """Every expectation written out: of ratings, rows, coefficients and precisions of groups."""
    ratings = TRAIN.with_user_features("bag")
    model = VB(**{**SHORT, "passes": 5}, precision="float64")
    sweep = model.bind(ratings, generator(1))
    state = sweep.init(generator(2))
    for _ in range(4):
        state, stats = sweep.step(state, generator(3))
    scale, alpha = sweep.by_user.scale, state.noise.mean
    n, width = len(ratings), state.users.shape.width

    def believed(rows):
        second = np.array([unpacked(r[width : width + rows.shape.covariance], width) for r in rows.records])
        apart = rows.records[:, :width]
        return rows.means, second - apart[:, :, None] * apart[:, None, :]

    (u, phi), (v, psi) = believed(state.users), believed(state.items)
    users, items = ratings.user_rows, ratings.item_rows
    y = (ratings.values - ratings.mean) / scale
    total = -n * np.log(scale)
    for i, j, value in zip(users, items, y, strict=True):
        mean = u[i, :-1] @ v[j, :-1] + u[i, -1] + v[j, -1]
        w, z = np.append(u[i, :-1], 1), np.append(v[j, :-1], 1)
        variance = z @ phi[i] @ z + w @ psi[j] @ w + np.sum(phi[i, :-1, :-1] * psi[j, :-1, :-1])
        total += 0.5 * (np.log(alpha) - np.log(2 * np.pi) - alpha * ((value - mean) ** 2 + variance))
    for (means, spread), (_, population, coefficients) in zip(((u, phi), (v, psi)), state.sides, strict=True):
        precision = np.zeros((width, width))
        precision[:-1, :-1] = population.expected.precision
        precision[-1, -1] = population.expected.bias_precision
        covariance, log_det = np.linalg.inv(precision), np.linalg.slogdet(precision)[1]
        x, m, k = coefficients.design.matrix.toarray(), coefficients.means, coefficients.precisions
        for i in range(len(means)):
            apart = means[i] - x[i] @ m
            of_b = sum(x[i, f] ** 2 * covariance / k[f] for f in range(len(k)))
            expected = np.outer(apart, apart) + spread[i] + of_b
            total += 0.5 * (log_det - width * np.log(2 * np.pi) - np.sum(precision * expected))
            total += 0.5 * (np.linalg.slogdet(spread[i])[1] + width * (1 + np.log(2 * np.pi)))
        for f, g in enumerate(coefficients.design.group_of):
            q = coefficients.of_groups[g]
            log_lambda, strength = digamma(q.shape) - np.log(q.rate), q.shape / q.rate
            expected = np.outer(m[f], m[f]) + covariance / k[f]
            total += 0.5 * (width * log_lambda + log_det - width * np.log(2 * np.pi))
            total -= 0.5 * strength * np.sum(precision * expected)
            total += 0.5 * (np.linalg.slogdet(covariance / k[f])[1] + width * (1 + np.log(2 * np.pi)))
        for q, p in zip(coefficients.of_groups, coefficients.priors, strict=True):
            draws = generator(9).gamma(q.shape, 1 / q.rate, 400_000)
            log_ratio = np.mean([q.log_density(d) - p.log_density(d) for d in draws[:40_000]])
            assert q.divergence(p) == pytest.approx(log_ratio, abs=0.05)
            total -= q.divergence(p)
    assert stats["bound"] == pytest.approx(total, rel=1e-7)


class WithoutScatter(CoefficientBeliefs):
    """A twin whose populations forget the coefficients."""

    def moments_for_population(self, rows: RowBeliefs) -> Moments:
        return self.residual_moments(rows)


class WithoutResiduals(CoefficientBeliefs):
    """A twin whose populations are those of rows without features."""

    def moments_for_population(self, rows: RowBeliefs) -> Moments:
        return rows.moments


class WithoutWidth(CoefficientBeliefs):
    """A twin that counts a coefficient once for all columns."""

    def learned(self, rows, prior):
        found = super().learned(rows, prior)
        width = self.means.shape[1]
        fewer = tuple(
            replace(q, shape=p.shape + (q.shape - p.shape) / width)
            for q, p in zip(found.of_groups, self.priors, strict=True)
        )
        return replace(found, of_groups=fewer)


@pytest.mark.parametrize("twin", [None, WithoutScatter, WithoutResiduals, WithoutWidth])
def test_a_broken_twin_lowers_the_bound(twin):
    """From near the top every wrong step leads down, and no right one does."""
    model = VB(**SHORT, precision="float64")
    sweep = model.bind(TRAIN.with_user_features("bag"), generator(1))
    state = sweep.init(generator(2))
    for _ in range(60):
        state, before = sweep.step(state, generator(3))
    if twin is not None:
        broken = (twin(**vars(each)) for each in (state.user_coefficients, state.item_coefficients))
        state = replace(state, **dict(zip(("user_coefficients", "item_coefficients"), broken, strict=True)))
    _, after = sweep.step(state, generator(3))
    assert (after["bound"] < before["bound"]) == (twin is not None)


def test_items_that_nobody_has_rated_are_predicted_by_their_features(fitted):
    extended = fitted.with_items({i: KINDS[i] for i in range(64, 80)})
    assert extended.news_.how == "new items placed"
    is_cold = (WHOLE.item_ids().to_numpy() >= 64) & (WHOLE.user_ids().to_numpy() < 100)
    test = WHOLE.take(np.flatnonzero(is_cold))
    found, without = (model.predict(test.user_ids(), test.item_ids()) for model in (extended, fitted))

    def error(predicted):
        return float(np.sqrt(np.mean((predicted.mean - test.values) ** 2)))

    assert error(found) < 0.55 < 0.75 < error(without)
    low, high = found.interval(0.9).T
    assert 0.83 <= np.mean((low <= test.values) & (test.values <= high)) <= 0.98
    warm = list(range(64))
    one, two = (model.recommend([3], 10, only=warm) for model in (fitted, extended))
    np.testing.assert_array_equal(one.item_ids.to_numpy(), two.item_ids.to_numpy())


def test_new_users_are_predicted_by_their_features(fitted):
    is_cold = (WHOLE.item_ids().to_numpy() < 64) & (WHOLE.user_ids().to_numpy() >= 100)
    test = WHOLE.take(np.flatnonzero(is_cold))
    told = {user: cells for user, cells in JOBS.items() if user >= 100}
    found = fitted.predict(test.user_ids(), test.item_ids(), user_features=told)
    without = fitted.predict(test.user_ids(), test.item_ids())
    assert np.sqrt(np.mean((found.mean - test.values) ** 2)) < 0.6
    assert np.sqrt(np.mean((without.mean - test.values) ** 2)) > 0.7


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_training_users_are_folded_in_as_they_were_trained(covariance):
    model = VB(**SHORT, covariance=covariance).fit(TRAIN.with_user_features("bag"))
    mine = TRAIN.user_rows == 0
    history = dict(zip(TRAIN.item_ids().filter(mine), TRAIN.values[mine].tolist(), strict=True))
    known = model.recommend([TRAIN.users.ids[0]], 5)
    new = model.recommend(["new"], 5, history=history, user_features=JOBS[int(TRAIN.users.ids[0])])
    np.testing.assert_array_equal(known.item_rows, new.item_rows)
    np.testing.assert_allclose(known.scores, new.scores, rtol=1e-5)


def test_saved_models_answer_the_same(tmp_path, fitted):
    grown = fitted.with_items({i: KINDS[i] for i in range(64, 80)})
    ts.save(grown, tmp_path / "model")
    loaded = ts.load(tmp_path / "model")
    one, two = (model.recommend([0, 200], 40, user_features={200: JOBS[3]}) for model in (grown, loaded))
    np.testing.assert_array_equal(one.item_rows, two.item_rows)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_what_explains_has_the_larger_share(fitted):
    found = fitted.feature_importance().to_polars()
    shares = {(side, group): share for side, group, share in found.select("side", "group", "share").iter_rows()}
    assert shares["item", "kind"] > 0.7
    assert shares["item", "chance"] < 0.05
    assert shares["user", "job"] > 0.7


@pytest.mark.parametrize("settings", [{"hierarchical": True}, {"centred": False}, {"n_factors": "auto"}])
def test_what_features_do_not_go_with_is_refused(settings):
    (name,) = settings
    with pytest.raises(InvalidParameterError, match=f"features in VB need {name}"):
        VB(**{**SHORT, **settings}).fit(TRAIN)
