"""Chains have the rank that they should: uniform where ratings say nothing, the exact posterior where it is known.

Fixed seeds; a right sampler fails one of these once in a million fresh ones, and broken twins must fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from models.jump.worlds import FALSE_ALARM, any_state, small_ratings
from scipy.stats import chi2, norm

from tastespace.inference.samplers.reversible_jump import bridged_jump, jump
from tastespace.models.factorization.rank.births import AnnealedBirth, BlindBirth, InformedBirth
from tastespace.models.factorization.rank.target import GibbsRows, HeavyTailedWalk, Precisions, RankTarget, log_normal
from tastespace.randomness import generator

MOST, THIN = 3, 8


def blind(target):
    """k' uniform on 1 ... k_max, as Dey and Jhamb (2018) have it."""
    return [BlindBirth(target, columns) for columns in range(1, target.max_rank)]


def informed(target):
    return [InformedBirth(target)]


def log_density_without_normaliser(target, state):
    """The mistake of equation 6: exp(-lam / 2T |U|^2) for a normal."""
    own = state.tempered
    of_users = state.users.factors.size * np.log(own.users / (2 * np.pi)) / 2
    of_items = state.items.factors.size * np.log(own.items / (2 * np.pi)) / 2
    return target.log_density(state) - of_users - of_items


@dataclass(frozen=True, eq=False)
class WithoutDensity(InformedBirth):
    """Forgets g: what was drawn, and how likely that was."""

    def log_up(self, state, up):
        return log_normal(up.users, state.tempered.users) + log_normal(up.items, state.tempered.items)


def from_prior(state, rng):
    """Within a rank, where ratings say nothing."""
    own, (users, items) = state.tempered, (state.users.factors, state.items.factors)
    return state.with_factors(
        rng.standard_normal(users.shape) / own.users**0.5, rng.standard_normal(items.shape) / own.items**0.5
    )


def flat_p_value(pairs_of, temperature, log_density=None, jumps=1600):
    """Of ranks being uniform where the precision of the noise is 0, by chi-square of every eighth jump."""
    target = RankTarget.of(small_ratings(4, 3, generator(0)), MOST)
    pairs, rng = pairs_of(target), generator(21)
    density = target.log_density if log_density is None else lambda state: log_density(target, state)
    silent = Precisions(1.3, 0.8, 0.0, 3.0, 5.0)
    state = any_state(target, 2, rng, temperature=temperature, precisions=silent)
    counts = np.zeros(MOST)
    for number in range(jumps):
        state = jump(pairs, density, state, rng).state
        if number % THIN == THIN - 1:
            counts[state.rank - 1] += 1
            state = from_prior(state, rng)
    expected = counts.sum() / MOST
    return float(chi2.sf(np.sum((counts - expected) ** 2 / expected), MOST - 1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("pairs_of", "temperature"), [(blind, 0.5), (blind, 1.0), (blind, 4.0), (informed, 0.5), (informed, 1.0)]
)
def test_where_ratings_say_nothing_every_rank_is_as_likely(pairs_of, temperature):
    assert flat_p_value(pairs_of, temperature) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("pairs_of", [blind, informed])
def test_without_the_normaliser_it_is_not(pairs_of):
    assert flat_p_value(pairs_of, 1.0, log_density_without_normaliser, jumps=800) < FALSE_ALARM


def exact_posterior(ratings, precisions, n=100_000):
    """p(k | ratings) by brute force: items from the prior, users integrated out; with standard errors."""
    rng = generator(31)
    standard = (ratings.values.astype(float) - ratings.mean) / ratings.standard_deviation
    evidence, errors = [], []
    for rank in range(1, MOST + 1):
        items = rng.standard_normal((n, ratings.n_items, rank)) / precisions.items**0.5
        log_weight = np.zeros(n)
        for user in range(ratings.n_users):
            own = ratings.user_rows == user
            design, y = items[:, ratings.item_rows[own]], standard[own]
            covariance = design @ design.transpose(0, 2, 1) / precisions.users + np.eye(len(y)) / precisions.noise
            solved = np.linalg.solve(covariance, np.broadcast_to(y[:, None], (n, len(y), 1)))[..., 0]
            log_weight -= 0.5 * (solved @ y + np.linalg.slogdet(2 * np.pi * covariance)[1])
        weight = np.exp(log_weight)
        evidence.append(weight.mean())
        errors.append(weight.std() / np.sqrt(n))
    evidence, errors = np.array(evidence), np.array(errors)
    return evidence / evidence.sum(), errors / evidence.sum()


SMALL = Precisions(0.7, 1.4, 2.5)


@pytest.fixture(scope="module")
def known():
    """Ratings of which more than one rank is likely, and their posterior."""
    rng = generator(41)
    ratings = small_ratings(4, 3, rng, share=0.9)
    truth = rng.standard_normal((4, 1)) @ rng.standard_normal((1, 3))
    values = truth[ratings.user_rows, ratings.item_rows] + 0.3 * rng.standard_normal(len(ratings))
    ratings = replace(ratings, values=values.astype(np.float32))
    return ratings, *exact_posterior(ratings, SMALL)


def worst_z(known, pairs_of, within, steps=1500):
    """The largest z of the shares of ranks against the exact posterior, by means of batches."""
    ratings, truth, truth_error = known
    target = RankTarget.of(ratings, MOST)
    pairs, rng = pairs_of(target), generator(42)
    state = any_state(target, 1, rng, biases=False, precisions=SMALL)
    ranks = np.zeros(steps, int)
    for step in range(steps):
        state = within.moved(target, state, rng)
        state = jump(pairs, target.log_density, state, rng).state
        ranks[step] = state.rank
    return z_of(ranks, truth, truth_error)


def z_of(ranks, truth, truth_error):
    kept = ranks[len(ranks) // 10 :]
    shares = np.stack([kept == rank for rank in range(1, MOST + 1)], axis=1)
    batches = shares[: len(shares) // 25 * 25].reshape(25, -1, MOST).mean(axis=1)
    error = np.hypot(batches.std(axis=0, ddof=1) / 5, truth_error)
    return float(np.max(np.abs(batches.mean(axis=0) - truth) / error))


def bridged_z(known, bridge_of, steps=1200):
    """The same of a chain that goes over bridges only."""
    ratings, truth, truth_error = known
    target, rng = RankTarget.of(ratings, MOST), generator(43)
    bridge, state = bridge_of(target), any_state(target, 1, rng, biases=False, precisions=SMALL)
    ranks = np.zeros(steps, int)
    for step in range(steps):
        state = GibbsRows().moved(target, state, rng)
        state = bridged_jump(bridge, state, rng).state
        ranks[step] = state.rank
    return z_of(ranks, truth, truth_error)


@dataclass(frozen=True, eq=False)
class Weightless(AnnealedBirth):
    """Forgets what the way weighs."""

    def log_weight(self, state, start, end):
        return 0.0


LIMIT = norm.isf(FALSE_ALARM / 2 / MOST) * 1.3  # t of 24 degrees of freedom has heavier tails


@pytest.mark.statistical
@pytest.mark.parametrize("pairs_of", [blind, informed])
def test_the_posterior_over_the_rank_is_exact(known, pairs_of):
    assert known[1].min() > 0.05
    assert worst_z(known, pairs_of, GibbsRows()) < LIMIT


@pytest.mark.statistical
def test_heavy_tailed_walks_find_the_same(known):
    assert worst_z(known, informed, HeavyTailedWalk(degrees=1.0, scale=0.8)) < LIMIT


@pytest.mark.statistical
def test_without_the_density_of_the_drawn_they_do_not(known):
    assert worst_z(known, lambda target: [WithoutDensity(target)], GibbsRows(), steps=500) > LIMIT


@pytest.mark.statistical
def test_bridges_lead_to_the_same(known):
    assert bridged_z(known, lambda target: AnnealedBirth(target, steps=4)) < LIMIT


@pytest.mark.statistical
def test_without_the_weights_of_the_way_they_do_not(known):
    assert bridged_z(known, lambda target: Weightless(target, steps=4)) > LIMIT


def test_a_way_back_weighs_the_inverse(known):
    target = RankTarget.of(known[0], MOST)
    bridge, state = AnnealedBirth(target, steps=4), any_state(target, 2, generator(44), temperature=1.7)
    there, back = bridge.log_weight(state, 1, 2), bridge.log_weight(state, 2, 1)
    assert there == pytest.approx(-back, rel=1e-12)

    def log_density(gamma):
        """Of the state with the last column of the users times gamma, with the prior of what it is without."""
        users = state.users.factors * [1, gamma]
        scaled = state.with_factors(users, state.items.factors)
        precision = state.tempered.users
        return target.log_density(scaled) - log_normal(users, precision) + log_normal(state.users.factors, precision)

    assert there == pytest.approx(log_density(2 / 4) - log_density(1 / 4), rel=1e-9)
    whole = sum(bridge.log_weight(state, step, step + 1) for step in range(4))
    assert whole == pytest.approx(target.log_density(state) - log_density(0.0), rel=1e-9)
