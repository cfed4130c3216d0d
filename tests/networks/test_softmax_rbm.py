"""Boltzmann machines of ratings: exact likelihoods and gradients by enumeration, chains against exact statistics."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit

from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.networks.softmax_rbm import SoftmaxRBM, estimate, start_machine, statistics, train_softmax_rbm
from tastespace.randomness import generator

N_ITEMS, N_LEVELS, N_HIDDEN = 4, 3, 3


@pytest.fixture
def machine(rng):
    shares = rng.dirichlet(np.ones(N_LEVELS), N_ITEMS)
    parts = [(N_ITEMS * N_LEVELS, N_HIDDEN), (N_ITEMS, N_LEVELS), (N_HIDDEN,), (N_ITEMS, N_HIDDEN)]
    drawn = [rng.normal(0, 0.8, shape).astype(np.float32) for shape in parts]
    return SoftmaxRBM(*drawn, shares.astype(np.float32))


def users(rows):
    """Users by {item: level}."""
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    items = [item for row in rows for item in row]
    values = [level for row in rows for level in row.values()]
    return CSR(offsets, np.array(items, np.int32), np.array(values, np.float32))


SOME = users([{0: 2, 1: 0, 3: 1}, {1: 1, 2: 2}, {0: 0, 1: 2, 2: 0, 3: 2}])


def energy(machine, row, hidden):
    """As it is written down."""
    total = -machine.hidden_bias @ hidden
    for item, level in row.items():
        one = np.eye(N_LEVELS)[level]
        weights = machine.weights.reshape(N_ITEMS, N_LEVELS, -1)[item]
        total -= (one - machine.shares[item]) @ weights @ (hidden - 0.5)
        total -= machine.visible_bias[item] @ one + machine.rated[item] @ hidden
    return total


def test_the_likelihood_is_that_of_the_energy(machine):
    row = {0: 2, 1: 0, 3: 1}
    hidden = [np.array(state) for state in itertools.product((0, 1), repeat=N_HIDDEN)]
    every = [dict(zip(row, levels, strict=True)) for levels in itertools.product(range(N_LEVELS), repeat=len(row))]
    weights = {tuple(one.values()): sum(np.exp(-energy(machine, one, state)) for state in hidden) for one in every}
    expected = np.log(weights[2, 0, 1] / sum(weights.values()))
    assert machine.log_likelihood(users([row]))[0] == pytest.approx(expected, rel=1e-5)
    shares = [np.exp(-energy(machine, row, state)) for state in hidden]
    means = sum(share * state for share, state in zip(shares, hidden, strict=True)) / sum(shares)
    np.testing.assert_allclose(machine.hidden_means(users([row]))[0], means, rtol=1e-5)


def exact_gradient(machine, data):
    """E_data - E_model, the latter over all levels of the rated items."""
    total = [part.astype(np.float64) for part in statistics(machine, data, machine.hidden_means(data))]
    for user in range(len(data)):
        items = data.take(np.array([user])).columns
        states = itertools.product(range(N_LEVELS), repeat=len(items))
        every = [dict(zip(items, levels, strict=True)) for levels in states]
        chances = np.exp(machine.log_likelihood(users(every)))
        assert chances.sum() == pytest.approx(1)
        for chance, one in zip(chances, every, strict=True):
            state = users([one])
            for part, of_model in zip(total, statistics(machine, state, machine.hidden_means(state)), strict=True):
                part -= chance * of_model
    return total


def test_the_gradient_is_that_of_the_likelihood(machine, rng):
    names = [field.name for field in fields(SoftmaxRBM)][:4]
    for name, gradient in zip(names, exact_gradient(machine, SOME), strict=True):
        part = getattr(machine, name).astype(np.float64)
        direction = rng.normal(size=part.shape)
        above, below = (
            replace(machine, **{name: part + step * direction}).log_likelihood(SOME).sum() for step in (1e-4, -1e-4)
        )
        assert float((gradient * direction).sum()) == pytest.approx((above - below) / 2e-4, rel=1e-3), name


def chain_statistics(machine, n_chains=20_000, steps=30):
    """The mean of what the gradient takes from the model, by chains of one user."""
    data = users([{0: 2, 1: 0, 3: 1}] * n_chains)
    gradient, after = estimate(machine, data, data, steps, generator(4))
    return gradient, after


def test_long_chains_have_the_statistics_of_the_machine(machine):
    """Means of 20,000 chains: 5 standard errors, which chance passes in fewer than one of 10,000 such tests.

    A single step from the data, as of a broken chain, does not.
    """
    one = users([{0: 2, 1: 0, 3: 1}])
    expected = np.concatenate([part.ravel() for part in exact_gradient(machine, one)])
    for steps, is_right in ((30, True), (1, False)):
        gradient, _ = chain_statistics(machine, steps=steps)
        found = np.concatenate([part.ravel() for part in gradient]) / 20_000
        assert (np.abs(found - expected).max() < 5 * 0.5 / np.sqrt(20_000)) == is_right


def test_persistent_chains_go_on_and_have_exact_statistics_on_eight_units():
    """Chains of "pcd" with a fixed machine: 8 hidden units, 12 steps, each from where the one before ended."""
    rng = generator(8)
    machine = SoftmaxRBM(
        *(rng.normal(0, 0.5, shape).astype(np.float32) for shape in [(6, 8), (2, 3), (8,), (2, 8)]),
        np.full((2, 3), 1 / 3, np.float32),
    )
    data = CSR(np.arange(0, 40_001, 2), np.tile([0, 1], 20_000).astype(np.int32), np.zeros(40_000, np.float32))
    chains = data
    for _ in range(12):
        _, chains = estimate(machine, data, chains, 1, rng)
    pairs = users([{0: one, 1: other} for one in range(3) for other in range(3)])
    expected = np.exp(machine.log_likelihood(pairs))
    found = np.bincount((chains.values[::2] * 3 + chains.values[1::2]).astype(int), minlength=9) / 20_000
    assert np.abs(found - expected).max() < 5 * 0.5 / np.sqrt(20_000)


def test_training_raises_the_likelihood_whatever_the_chains():
    rng = generator(5)
    hidden = rng.random((400, 2)) < 0.5
    truth = SoftmaxRBM(
        rng.normal(0, 3, (N_ITEMS * N_LEVELS, 2)).astype(np.float32),
        np.zeros((N_ITEMS, N_LEVELS), np.float32),
        np.zeros(2, np.float32),
        np.zeros((N_ITEMS, 2), np.float32),
        np.full((N_ITEMS, N_LEVELS), 1 / 3, np.float32),
    )
    blank = CSR(np.arange(0, 1601, 4), np.tile(np.arange(4), 400).astype(np.int32), np.zeros(1600, np.float32))
    data = truth.drawn(blank, hidden.astype(np.float32), rng)
    before = start_machine(data, N_ITEMS, N_LEVELS, 2, generator(1)).log_likelihood(data).mean()
    for chains in ("cd", "pcd"):
        ways = {"rng": generator(1), "chains": chains, "epochs": 40, "learning_rate": 0.02, "weight_decay": 0.0}
        after = train_softmax_rbm(data, N_ITEMS, N_LEVELS, 2, **ways)[0].log_likelihood(data).mean()
        assert after > before + 0.3
        again = train_softmax_rbm(data, N_ITEMS, N_LEVELS, 2, **{**ways, "rng": generator(1)})[0]
        assert again.log_likelihood(data).mean() == after


def test_refusals_and_stops():
    wide = start_machine(SOME, N_ITEMS, N_LEVELS, 30, generator(1))
    with pytest.raises(InvalidParameterError, match="30 hidden units; expected at most 22"):
        wide.log_likelihood(SOME)
    with pytest.raises(NonFiniteStateError, match="use a lower learning_rate"), np.errstate(all="ignore"):
        train_softmax_rbm(SOME, N_ITEMS, N_LEVELS, 2, rng=generator(1), learning_rate=1e38, epochs=20)


def test_the_shares_of_rare_items_are_shrunk_to_those_of_all():
    machine = start_machine(users([{0: 2}] * 50 + [{1: 0}]), 3, N_LEVELS, 2, generator(1))
    assert machine.shares[0, 2] > 0.9
    assert machine.shares[1, 2] > machine.shares[1, 1]
    np.testing.assert_allclose(machine.shares.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(expit(machine.visible_bias[2]) > 0, True)
