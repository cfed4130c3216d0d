"""New items: as well known as their ratings tell, and drawn from the right distribution."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from models.updating.world import KINDS, N_ITEMS, N_NEW, SMALL, fitted, parts, silently, updated, world
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import BPMF, Ratings, load, save
from tastespace.data.csr import CSR
from tastespace.errors import DataWarning
from tastespace.models.factorization.gibbs.update import KeptDraw
from tastespace.models.factorization.likelihoods.base import Noise
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors.normal_wishart import NormalPopulation
from tastespace.models.factorization.rows import NORMAL_ROWS, Factors, RatingBlock
from tastespace.randomness import generator
from tastespace.testing.conformance import believed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sweeps", [0, 3])
def test_new_items_are_known_as_far_as_their_ratings_go(kind, sweeps):
    """Those who have not rated them are predicted as the truth has it, far better than by the old model."""
    _, truth = world(kind)
    before, (old, news) = fitted(kind, draws=40), parts(kind)
    after = updated(before, news, sweeps=sweeps)
    assert after.posterior_.draws.items.shape == (N_ITEMS, 80, after.posterior_.draws.items.shape[2])
    assert after.news_.new_items == N_NEW
    assert after.news_.how == ("warm restart" if sweeps else "kept draws")
    rated = set(zip(news.user_ids().to_list(), news.item_ids().to_list(), strict=True))
    pairs = [
        (user, item) for user in old.users.ids for item in range(N_ITEMS - N_NEW, N_ITEMS) if (user, item) not in rated
    ]
    users, items = (np.array(side) for side in zip(*pairs, strict=True))
    prediction = after.predict(users, items)
    assert not prediction.cold.any()
    assert np.corrcoef(prediction.mean, truth[users, items])[0, 1] > 0.6
    unknown = before.predict(users, items)
    assert unknown.cold.all()
    assert prediction.belief_sd.mean() < unknown.belief_sd.mean()
    assert len(after.recommend([0], N_ITEMS, exclude=None).item_ids) == N_ITEMS


@pytest.mark.parametrize("sweeps", [0, 2])
@pytest.mark.parametrize("kind", ["gaussian", "uneven", "ordinal", "logistic"])
def test_the_same_bytes_with_one_thread_and_two(kind, sweeps, tmp_path):
    news = parts(kind)[1]
    for n in (1, 2):
        before = copy.copy(fitted(kind)).set_params(threads=n)
        save(updated(before, news, sweeps=sweeps), tmp_path / str(n))
    for name in ("posterior.safetensors", "ratings.safetensors", "manifest.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_two_updates_are_as_one(model, late):
    """New items are drawn again from all their ratings, given the items that were learned: nothing builds up."""
    order = np.argsort(late.user_rows, kind="stable")
    first, second = late.take(order[:40]), late.take(order[40:])
    whole = updated(model, late.take(order), sweeps=0)
    in_turn = updated(updated(model, first, sweeps=0), second, sweeps=0)
    assert_array_equal(in_turn.posterior_.draws.items, whole.posterior_.draws.items)
    assert replace(in_turn.seen_, updates=1) == whole.seen_
    assert in_turn.seen_.updates == 2


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_is_the_same_and_goes_on_alike(kind, tmp_path):
    news = parts(kind)[1]
    first, second = news.take(np.arange(30)), news.take(np.arange(30, len(news)))
    here = updated(fitted(kind), first, sweeps=0)
    save(here, tmp_path / "model")
    there = load(tmp_path / "model")
    assert there.seen_ == here.seen_
    assert there.seen_.updates == 1
    assert there.seen_.added == 30
    for sweeps in (0, 1):
        one, other = (updated(model, second, sweeps=sweeps) for model in (here, there))
        assert_array_equal(one.posterior_.draws.items, other.posterior_.draws.items)
        assert one.seen_ == other.seen_
        users, items = np.arange(20), np.arange(20)
        assert_array_equal(one.predict(users, items).mean, other.predict(users, items).mean)


def test_half_stored_draws_answer_as_they_will_after_loading(late, tmp_path):
    after = updated(fitted("gaussian", storage="float16"), late, sweeps=0)
    save(after, tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").posterior_.draws.items, after.posterior_.draws.items)


ALPHA = 3.0
# False alarms: 25 figures of normal errors beyond 5.5 standard deviations, less than once in a million runs.
BEYOND = 5.5


def conditional(users, bias, values, population, alpha):
    """Mean and covariance of (v, d) given the users who rated the item: Bayesian linear regression."""
    design = np.column_stack([users, np.ones(len(users))])
    prior = np.zeros((3, 3))
    prior[:2, :2], prior[2, 2] = population.precision, population.bias_precision
    mean = np.append(population.mean, population.bias_mean)
    covariance = np.linalg.inv(prior + alpha * design.T @ design)
    return covariance @ (prior @ mean + alpha * design.T @ (values - bias)), covariance


def worst(drawn, mean, covariance):
    """How many standard errors the moments of draws (n x W) are from those expected, at worst."""
    n, white = len(drawn), (drawn - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    second = white.T @ white / n
    errors = np.sqrt(np.where(np.eye(len(mean)) > 0, 2 / n, 1 / n))
    return max(np.abs(white.mean(0) * n**0.5).max(), np.abs((second - np.eye(len(mean))) / errors).max())


@pytest.mark.statistical
def test_new_items_have_the_moments_of_their_conditional():
    """Twenty thousand items with the same raters and ratings are as many draws of one."""
    rng, n = generator(7), 20_000
    users, bias, values = rng.standard_normal((4, 2)), rng.standard_normal(4), rng.standard_normal(4)
    population = NormalPopulation(np.array([0.3, -0.2]), np.array([[2.0, 0.5], [0.5, 1.5]]), 0.1, 4.0)
    side = RatingBlock.of(
        CSR(4 * np.arange(n + 1), np.tile(np.arange(4, dtype=np.int32), n), np.tile(values, n)), np.float64, 0.0
    )
    others, noise = Factors(users, bias), Noise(ALPHA)
    kept = KeptDraw(others, population, population, NORMAL_ROWS, Gaussian(ALPHA), noise)
    rows, _ = kept.rows_given("item", side, others, noise, generator(8), 1)
    drawn = np.column_stack([rows.factors, rows.bias])
    assert worst(drawn, *conditional(users, bias, values, population, ALPHA)) < BEYOND
    # A broken twin that ignores the precision of the noise would be noticed.
    assert worst(drawn, *conditional(users, bias, values, population, 1.0)) > 3 * BEYOND


def repeated(model, n):
    """The model with its last draw n times over, so that draws of a new item are independent."""
    draws = model.posterior_.draws
    last = np.full(n, draws.items.shape[1] - 1)

    def of(side):
        return replace(
            side,
            means=side.means[last],
            precisions=side.precisions[last],
            bias_means=side.bias_means[last],
            bias_precisions=side.bias_precisions[last],
        )

    draws = replace(
        draws,
        items=np.ascontiguousarray(draws.items[:, last]),
        users=of(draws.users),
        new_items=of(draws.new_items),
        alpha=draws.alpha[last],
    )
    again = BPMF(**model.get_params())
    return again.restore(
        model.ratings_, replace(model.posterior_, draws=draws), model.seed_, model.rating_range_, model.seen_
    )


@pytest.mark.statistical
def test_raters_of_a_new_item_are_drawn_and_not_guessed(model):
    """The whole way, against a twin by the book; taking the raters' means for them would be noticed."""
    n, raters, values = 4000, [0, 1, 2, 3, 4, 5], [1.0, 5.0, 2.0, 4.0, 3.0, 5.0]
    news = Ratings.from_arrays(raters, ["new"] * len(raters), values)
    with pytest.warns(DataWarning, match="item ids were integers"):
        after = repeated(model, n).update(news, sweeps=0)
    drawn = after.posterior_.draws.items[-1].astype(np.float64)
    assert drawn.shape == (n, 3)
    draws, rng = model.posterior_.draws, generator(11)
    kept = KeptDraw.of(draws, 19, len(raters), N_ITEMS - N_NEW, np.float64)
    belief = next(believed(model, range(6)).blocks(np.arange(6)))[0]
    standard = (np.array(values) - draws.offset) / draws.scale
    moments = []
    for spread in (1.0, 0.0):
        found = []
        for _ in range(n if spread else 1):
            noise = spread * rng.standard_normal((6, 3))
            people = belief.means[:, 19] + np.einsum("bij,bj->bi", belief.roots[:, 19], noise)
            found.append(conditional(people[:, :2], people[:, 2], standard, kept.item_population, draws.alpha[19]))
        means, covariances = (np.stack(part) for part in zip(*found, strict=True))
        between = np.cov(means.T) if spread else 0.0
        moments.append((means.mean(0), covariances.mean(0) + between))
    (mean, covariance), (_, too_sure) = moments
    errors = np.sqrt(2 * np.diag(covariance) / n)  # of the difference of two means of n draws
    assert (np.abs(drawn.mean(0) - mean) < BEYOND * errors).all()
    # Tails are heavier than normal where the raters are unsure: 20 % is some six standard errors of a variance.
    assert_allclose(drawn.var(0), np.diag(covariance), rtol=0.2)
    assert (drawn.var(0) > 1.2 * np.diag(too_sure)).any()


@pytest.mark.statistical
def test_an_item_without_ratings_is_drawn_from_the_population(model):
    news = Ratings.from_arrays([0, 0], [0, "new"], [3.0, 3.0]).masked(np.array([True, False]))
    with pytest.warns(DataWarning, match="item ids were integers"):
        after = repeated(model, 4000).update(news, sweeps=0)
    population = KeptDraw.of(model.posterior_.draws, 19, 1, 1, np.float64).item_population
    covariance = np.zeros((3, 3))
    covariance[:2, :2], covariance[2, 2] = np.linalg.inv(population.precision), 1 / population.bias_precision
    drawn = after.posterior_.draws.items[-1].astype(np.float64)
    assert worst(drawn, np.append(population.mean, population.bias_mean), covariance) < BEYOND


@pytest.mark.parametrize("kind", ["gaussian", "uneven", "ordinal"])
def test_items_that_nobody_had_rated_at_the_fit_learn_from_their_first_ratings(kind):
    """They were in the catalogue, but nothing had been learned of them: no less new than others."""
    old, news = parts(kind)
    described = old.with_items({item: {"title": f"Film {item}"} for item in range(N_ITEMS)})
    assert described.n_items == N_ITEMS
    before = silently(lambda: BPMF(**SMALL | KINDS[kind] | {"draws": 40}).fit(described))
    assert before.seen_.learned_items == N_ITEMS - N_NEW
    after = updated(before, news, sweeps=0)
    plain = updated(fitted(kind, draws=40), news, sweeps=0)
    assert after.news_.of_new_items == plain.news_.of_new_items > 0
    _, truth = world(kind)
    rated = set(zip(news.user_ids().to_list(), news.item_ids().to_list(), strict=True))
    new = range(N_ITEMS - N_NEW, N_ITEMS)
    pairs = [(user, item) for user in old.users.ids for item in new if (user, item) not in rated]
    users, items = (np.array(side) for side in zip(*pairs, strict=True))
    one, two = (model.predict(users, items).mean for model in (after, plain))
    assert np.corrcoef(one, truth[users, items])[0, 1] > 0.6
    assert np.corrcoef(one, two)[0, 1] > 0.9
    # Without news of them they stay.
    nothing = updated(before, old, sweeps=0)
    assert_array_equal(nothing.posterior_.draws.items, before.posterior_.draws.items)
