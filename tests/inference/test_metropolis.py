"""Metropolis-Hastings with each kind of proposal, and Gibbs scans in each order, draw from their densities.

Each test of a right sampler fails once in a million fresh seeds (see `known_targets`), and broken twins must fail it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from inference.known_targets import FALSE_ALARM, Gaussian, moments, p_value, run

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.samplers import gibbs, metropolis
from tastespace.randomness import generator

TARGET = Gaussian(np.array([1.0, -0.5]), np.array([[1.0, 0.6], [0.6, 2.0]]))
CHAINS = 2000


@pytest.mark.statistical
@pytest.mark.parametrize(
    "scale", [1.5, [1.0, 2.0], 1.5 * np.linalg.cholesky(TARGET.covariance)], ids=["one", "each", "factor"]
)
def test_gaussian_proposals(scale):
    state = metropolis.init(np.full((CHAINS, 2), 3.0), TARGET.log_density)
    step = partial(metropolis.step, log_density=TARGET.log_density, propose=metropolis.gaussian(scale))
    points, state = run(step, state, generator(1), warmup=60, draws=40)
    assert p_value(moments(points), TARGET.truth()) > FALSE_ALARM
    assert 0.2 < state.stats()["acceptance"] < 0.7


def factor_proposal(position, rng):
    """x' = x exp(z): more room above than below."""
    return position * np.exp(rng.standard_normal(position.shape))


def factor_ratio(old, new):
    """log q(x | x') - log q(x' | x) = log x' - log x, for each coordinate."""
    return np.sum(np.log(new) - np.log(old), axis=-1)


def log_gamma(x):
    """Shape 3, rate 2, in both coordinates."""
    return np.sum(2 * np.log(x) - 2 * x, axis=-1)


@pytest.mark.statistical
@pytest.mark.parametrize("ratio", [factor_ratio, None], ids=["with its ratio", "without"])
def test_a_proposal_of_ones_own_needs_its_ratio(ratio):
    state = metropolis.init(np.ones((CHAINS, 2)), log_gamma)
    step = partial(metropolis.step, log_density=log_gamma, propose=factor_proposal, log_ratio=ratio)
    points, _ = run(step, state, generator(2), warmup=50, draws=40)
    p = p_value(np.log(points), np.full(2, 0.9227843350984671 - np.log(2)))  # digamma(3) - log 2
    assert (p > FALSE_ALARM) == (ratio is not None)


def test_points_without_density_are_rejected_but_no_fault():
    """Uniform on (0, 1): where the density is 0, its logarithm is -inf."""

    def box(x):
        return np.where((x[..., 0] > 0) & (x[..., 0] < 1), 0.0, -np.inf)

    state = metropolis.init(np.full((200, 1), 0.5), box)
    for _ in range(20):
        state = metropolis.step(state, generator(3), box, metropolis.gaussian(1.0))
        assert ((state.position > 0) & (state.position < 1)).all()
        assert state.stats()["divergent"] == 0
    with pytest.raises(NonFiniteStateError, match="is -inf in 1 of 1 chains"):
        metropolis.init([2.0], box)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_density_is_rejected_and_counted(bad):
    state = metropolis.init(np.zeros((5, 1)), lambda x: np.where(x[..., 0] == 0, 0.0, bad))
    state = metropolis.step(state, generator(4), lambda x: np.where(x[..., 0] == 0, 0.0, bad), metropolis.gaussian(1.0))
    assert state.stats()["divergent"] == 5
    assert (state.position == 0).all()


def test_steps_change_nothing_but_what_they_return():
    state = metropolis.init(np.zeros((5, 2)), TARGET.log_density)
    first, second = (
        metropolis.step(state, generator(5), TARGET.log_density, metropolis.gaussian(1.0)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.position, second.position)
    assert (state.position == 0).all()
    assert (first.position != 0).any()


def test_bad_proposals_say_what_is_wrong():
    state = metropolis.init(np.zeros((5, 2)), TARGET.log_density)
    with pytest.raises(InvalidParameterError, match=r"propose returned the shape \(5, 1\)"):
        metropolis.step(state, generator(0), TARGET.log_density, lambda x, rng: x[:, :1])
    with pytest.raises(InvalidParameterError, match="scale has the shape"):
        metropolis.step(state, generator(0), TARGET.log_density, metropolis.gaussian([1.0, 1.0, 1.0]))
    for scale in (0.0, [1.0, -1.0], np.nan, np.ones((2, 2, 2))):
        with pytest.raises(InvalidParameterError, match="scale is"):
            metropolis.gaussian(scale)
    with pytest.raises(InvalidParameterError, match="concentration is 0"):
        metropolis.von_mises_fisher(0)
    with pytest.raises(InvalidParameterError, match="the origin, which has no direction"):
        metropolis.step(state, generator(0), TARGET.log_density, metropolis.von_mises_fisher(1.0))


# Gibbs


def conditional(block):
    """One coordinate of the Gaussian given the other."""
    other = 1 - block
    slope = TARGET.covariance[block, other] / TARGET.covariance[other, other]
    sd = np.sqrt(TARGET.covariance[block, block] - slope * TARGET.covariance[other, block])

    def draw(position, rng):
        new = position.copy()
        centre = TARGET.mean[block] + slope * (position[..., other] - TARGET.mean[other])
        new[..., block] = centre + sd * rng.standard_normal(centre.shape)
        return new

    return draw


CONDITIONALS = {"first": conditional(0), "second": conditional(1)}


@pytest.mark.statistical
@pytest.mark.parametrize("order", ["systematic", "shuffled", "random"])
def test_scans(order):
    state = gibbs.init(np.full((CHAINS, 2), 3.0))
    step = partial(gibbs.step, conditionals=CONDITIONALS, order=order)
    points, _ = run(step, state, generator(6), warmup=20, draws=30)
    assert p_value(moments(points), TARGET.truth()) > FALSE_ALARM


@pytest.mark.statistical
def test_a_wrong_conditional_is_noticed():
    """The marginal for the conditional, in the block that comes last: in the first, it would be right."""

    def marginal(position, rng):
        new = position.copy()
        new[..., 1] = TARGET.mean[1] + 2**0.5 * rng.standard_normal(len(position))
        return new

    step = partial(gibbs.step, conditionals={**CONDITIONALS, "second": marginal})
    points, _ = run(step, gibbs.init(np.zeros((CHAINS, 2))), generator(6), warmup=20, draws=30)
    assert p_value(moments(points), TARGET.truth()) < FALSE_ALARM


def test_orders_are_what_they_say():
    rng, names = generator(7), ("a", "b", "c")
    blocks = dict.fromkeys(names, lambda position, rng: position)
    scans = {
        order: {gibbs.step(gibbs.init({"x": 1.0}), rng, blocks, order).drawn for _ in range(200)}
        for order in ("systematic", "shuffled", "random")
    }
    assert scans["systematic"] == {names}
    assert len(scans["shuffled"]) == 6
    assert all(set(scan) == set(names) for scan in scans["shuffled"])
    assert len(scans["random"]) == 27


def test_bad_scans_say_what_is_wrong():
    state = gibbs.init({"x": np.zeros(2)})
    with pytest.raises(InvalidParameterError, match="order is 'sideways'; expected one of 'systematic', 'shuffled'"):
        gibbs.step(state, generator(0), {"x": lambda position, rng: position}, "sideways")
    with pytest.raises(InvalidParameterError, match="conditionals is empty"):
        gibbs.step(state, generator(0), {})
    with pytest.raises(NonFiniteStateError, match="the draw of x is not finite"):
        gibbs.step(state, generator(0), {"x": lambda position, rng: {"x": np.array([np.nan])}})
    with pytest.raises(NonFiniteStateError, match="the start is not finite"):
        gibbs.init(np.array([np.inf]))
