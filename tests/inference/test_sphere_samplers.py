"""Metropolis, geodesic Monte Carlo and geodesic slice sampling draw from their density on the sphere.

On the circle and on the sphere in three dimensions against numerical integration, in five dimensions against exact
rejection sampling. Each test of a right sampler fails once in a million fresh seeds (see `known_targets`), and broken
twins must fail it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inference.known_targets import (
    FALSE_ALARM,
    IN_FIVE,
    ON_CIRCLE,
    ON_SPHERE,
    circle,
    moments,
    p_value,
    run,
    uniform,
)

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.samplers import geodesic, geodesic_slice, metropolis
from tastespace.randomness import generator

CHAINS = 1500


def sampler(name, target, start):
    """The first state, and the step, of chains that all begin at the same point."""
    radius = target.radius
    match name:
        case "metropolis":
            propose = metropolis.von_mises_fisher(1.5)
            return metropolis.init(start, target.log_density), lambda state, rng: metropolis.step(
                state, rng, target.log_density, propose
            )
        case "geodesic":
            state = geodesic.init(start, target.log_density, target.gradient, radius=radius, step_size=0.3)
            return state, lambda state, rng: geodesic.step(
                state, rng, target.log_density, target.gradient, leaps=4, warmup=15
            )
        case "slice":
            return geodesic_slice.init(
                start, target.log_density, radius=radius
            ), lambda state, rng: geodesic_slice.step(state, rng, target.log_density)


def drawn(name, target, *, warmup=30, draws=25, seed=1, chains=CHAINS):
    """Chains from the least likely of a few points: it is a long way."""
    rng = generator(seed)
    points = uniform(20, len(target.linear), target.radius, rng)
    start = points[np.argmin(target.log_density(points))]
    state, step = sampler(name, target, np.tile(start, (chains, 1)))
    return run(step, state, rng, warmup=warmup, draws=draws)


SAMPLERS = ["metropolis", "geodesic", "slice"]


@pytest.mark.statistical
@pytest.mark.parametrize("target", [ON_CIRCLE, ON_SPHERE], ids=["circle", "sphere"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_have_the_integrals(name, target):
    points, state = drawn(name, target)
    assert p_value(moments(points), target.truth()) > FALSE_ALARM
    np.testing.assert_allclose(np.linalg.norm(points, axis=-1), target.radius, rtol=1e-12)
    np.testing.assert_allclose(state.log_density, target.log_density(state.position), rtol=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_are_those_of_rejection_sampling(name):
    exact = moments(IN_FIVE.exact(60_000, generator(2)))
    points, _ = drawn(name, IN_FIVE, warmup=60)
    error = exact.std(axis=0) / np.sqrt(len(exact))
    assert p_value(moments(points), exact.mean(axis=0), error) > FALSE_ALARM


@pytest.mark.statistical
def test_the_two_truths_agree():
    """Integration and rejection, which all else rests on."""
    for target in (ON_CIRCLE, ON_SPHERE):
        exact = moments(target.exact(40_000, generator(3)))
        assert p_value(exact.reshape(4, 10_000, -1), target.truth()) > FALSE_ALARM


# Broken twins


@pytest.mark.statistical
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("twin", ["no half", "no kappa"])
def test_a_wrong_density_is_noticed(name, twin):
    """-v A v for -v A v / 2; and the linear part without that of the prior, kappa/q mu."""
    kappa, mean = 0.7, np.array([0.0, 0.0, 1.0])
    right = replace(ON_SPHERE, linear=ON_SPHERE.linear + kappa / ON_SPHERE.radius * mean)
    wrong = replace(right, matrix=2 * right.matrix) if twin == "no half" else ON_SPHERE
    points, _ = drawn(name, wrong)
    assert p_value(moments(points), right.truth()) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("place", ["momentum", "everywhere"])
def test_a_missing_projection_is_noticed(place, monkeypatch):
    if place == "momentum":
        monkeypatch.setattr(
            geodesic, "draw_momentum", lambda position, radius, rng: rng.standard_normal(position.shape)
        )
    else:
        monkeypatch.setattr(geodesic, "projected", lambda vector, position, radius: vector)
    points, _ = drawn("geodesic", ON_SPHERE)
    assert p_value(moments(points), ON_SPHERE.truth()) < FALSE_ALARM


def two_holes(v):
    """Flat but for two holes in the circle: what is left is two arcs of different lengths."""
    angle = np.arctan2(v[..., 1], v[..., 0])
    return -9.0 * ((np.cos(angle) > np.cos(0.7)) | (np.cos(angle - 1.8) > np.cos(0.7)))


def waves(v):
    """Sine and cosine of the angle, of twice and of three times as much."""
    powers = (v[..., :1] + 1j * v[..., 1:]) ** np.array([1, 2, 3])
    return np.concatenate([powers.real, powers.imag], axis=-1)


@pytest.mark.statistical
def test_a_fixed_interval_is_noticed(monkeypatch):
    """(-pi, pi) is cut open opposite to where the chain is, and does not keep the density."""
    points, weights = circle(200_000)
    weights = weights * np.exp(two_holes(points))
    truth = weights @ waves(points) / weights.sum()

    def p():
        rng = generator(1)
        state = geodesic_slice.init(uniform(5000, 2, 1.0, rng), two_holes)
        points, _ = run(lambda state, rng: geodesic_slice.step(state, rng, two_holes), state, rng, warmup=10, draws=40)
        return p_value(waves(points), truth)

    assert p() > FALSE_ALARM
    monkeypatch.setattr(
        geodesic_slice, "first_interval", lambda shape, rng: (np.full(shape, -np.pi), np.full(shape, np.pi))
    )
    assert p() < FALSE_ALARM


# The flow


def start_of(target, rng, n=40):
    position = uniform(n, len(target.linear), target.radius, rng)
    return position, geodesic.draw_momentum(position, target.radius, rng)


def flown(target, position, momentum, step_size, leaps, gradient=None):
    gradient = gradient or target.gradient
    slope = gradient(position)
    position, momentum, _ = geodesic.leaps_on_sphere(
        position, momentum, slope, gradient, step_size, leaps, target.radius
    )
    return position, momentum


def energy(target, position, momentum):
    return -target.log_density(position) + np.sum(momentum**2, axis=-1) / 2


@pytest.mark.parametrize("target", [ON_CIRCLE, ON_SPHERE, IN_FIVE], ids=["circle", "sphere", "five"])
def test_the_flow_stays_on_the_sphere_and_can_be_reversed(target, rng):
    start, momentum = start_of(target, rng)
    end, after = flown(target, start, momentum, 0.1, 200)
    np.testing.assert_allclose(np.linalg.norm(end, axis=-1), target.radius, rtol=1e-13)
    np.testing.assert_allclose(np.sum(end * after, axis=-1), 0, atol=1e-12)
    back, before = flown(target, end, -after, 0.1, 200)
    np.testing.assert_allclose(back, start, atol=1e-9)
    np.testing.assert_allclose(-before, momentum, atol=1e-9)
    assert np.abs(end - start).max() > 0.5


def errors(target, rng, gradient=None):
    """Root mean squares of the energy error after a time of 1.6, for steps that are halved again and again."""
    start, momentum = start_of(target, rng)
    before = energy(target, start, momentum)
    steps = [0.1, 0.05, 0.025]
    ends = [flown(target, start, momentum, step, round(1.6 / step), gradient) for step in steps]
    return np.array([np.sqrt(np.mean((energy(target, *end) - before) ** 2)) for end in ends])


@pytest.mark.parametrize("target", [ON_CIRCLE, ON_SPHERE, IN_FIVE], ids=["circle", "sphere", "five"])
def test_half_the_step_has_a_quarter_of_the_energy_error(target, rng):
    found = errors(target, rng)
    assert found[0] < 0.1
    np.testing.assert_allclose(found[:-1] / found[1:], 4, rtol=0.03)


def test_a_gradient_without_its_half_is_noticed(rng):
    """The path of another density: its error does not vanish with the step."""
    found = errors(ON_SPHERE, rng, lambda v: ON_SPHERE.linear - v @ ON_SPHERE.matrix / 2)
    assert found[1] / found[2] < 2


def test_free_motion_is_a_great_circle(rng):
    """A quarter of it, and nothing where nothing moves."""
    x, p = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([[0.0, 3.0], [0.0, 0.0]])
    end, velocity = geodesic.along_great_circle(x, p, np.pi / 2 / 1.5, 2.0)
    np.testing.assert_allclose(end, [[0.0, 2.0], [0.0, 2.0]], atol=1e-15)
    np.testing.assert_allclose(velocity, [[-3.0, 0.0], [0.0, 0.0]], atol=1e-15)


# Tuning, and what can go wrong


def test_warm_up_finds_the_step_and_then_leaves_it():
    rng = generator(5)
    state = geodesic.init(uniform(200, 5, 1.3, rng), IN_FIVE.log_density, IN_FIVE.gradient, radius=1.3, step_size=0.01)
    sizes, acceptance = [], []
    for _ in range(200):
        state = geodesic.step(state, rng, IN_FIVE.log_density, IN_FIVE.gradient, leaps=3, warmup=150, wanted=0.7)
        sizes.append(state.step_size)
        acceptance.append(state.stats()["acceptance"])
    assert len(set(sizes[:149])) == 149
    assert len(set(sizes[149:])) == 1
    assert np.mean(acceptance[150:]) == pytest.approx(0.7, abs=0.06)


def test_a_flat_density_does_not_let_the_step_grow_without_end():
    rng = generator(6)
    state = geodesic.init([0.0, 0.0, 1.0], lambda v: 0.0 * v[..., 0], np.zeros_like)
    for _ in range(50):
        state = geodesic.step(state, rng, lambda v: 0.0 * v[..., 0], np.zeros_like, warmup=50)
    assert state.step_size <= np.pi / np.sqrt(2)


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_chain_is_a_vector(name):
    state, step = sampler(name, ON_SPHERE, np.array([1.4, 0.0, 0.0]))
    rng = generator(7)
    for _ in range(20):
        before, state = state, step(state, rng)
        assert state.position.shape == (3,)
        assert state.log_density.shape == ()
        assert {"acceptance", "accepted", "energy_error", "divergent"} <= state.stats().keys()
    assert not np.array_equal(before.position, [1.4, 0.0, 0.0])


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_not_a_number_is_rejected_and_counted(name):
    """Where x is below 0 the density is not one."""

    def broken(v):
        return np.where(v[..., 0] > 0, ON_CIRCLE.log_density(v), np.nan)

    class Half:
        radius, gradient, log_density = ON_CIRCLE.radius, staticmethod(ON_CIRCLE.gradient), staticmethod(broken)

    state, step = sampler(name, Half, np.tile([1.5, 0.0], (50, 1)))
    rng, divergent = generator(8), 0.0
    for _ in range(30):
        state = step(state, rng)
        divergent += state.stats()["divergent"]
        assert (state.position[:, 0] > 0).all()
        assert np.isfinite(state.log_density).all()
        assert np.isfinite(list(state.stats().values())).all()
    assert divergent > 0
    start = np.tile([-1.5, 0.0], (50, 1))
    with pytest.raises(NonFiniteStateError, match="log density of the start is nan in 50 of 50 chains"):
        sampler(name, Half, start)


def test_bad_starts_say_what_is_wrong():
    flat, zero = (lambda v: 0.0 * v[..., 0]), np.zeros_like
    for init in (lambda *a, **k: geodesic_slice.init(a[0], a[1], **k), lambda *a, **k: geodesic.init(*a, **k)):
        with pytest.raises(InvalidParameterError, match="radius is 0; expected a finite number above 0"):
            init([1.0, 0.0], flat, zero, radius=0)
        with pytest.raises(InvalidParameterError, match="radius is -2.0"):
            init([1.0, 0.0], flat, zero, radius=-2.0)
        with pytest.raises(InvalidParameterError, match="1 coordinate; expected at least 2: .* use metropolis"):
            init([1.0], flat, zero)
        with pytest.raises(InvalidParameterError, match="has the length 2; expected the radius, 1"):
            init([[1.0, 0.0], [0.0, 2.0]], flat, zero)
        with pytest.raises(InvalidParameterError, match=r"shape \(2,\) .* expected \(\): one number per chain"):
            init([1.0, 0.0], lambda v: v, zero)
    with pytest.raises(InvalidParameterError, match="gradient returned the shape"):
        geodesic.init([1.0, 0.0], flat, lambda v: 0.0)
    with pytest.raises(InvalidParameterError, match="step_size is 0"):
        geodesic.init([1.0, 0.0], flat, zero, step_size=0)
    state = geodesic.init([1.0, 0.0], flat, zero)
    for options, message in (({"leaps": 0}, "leaps is 0"), ({"jitter": 1.0}, "jitter is 1"), ({"wanted": 2}, "wanted")):
        with pytest.raises(InvalidParameterError, match=message):
            geodesic.step(state, generator(0), flat, zero, **options)


@pytest.mark.statistical
def test_in_one_dimension_metropolis_goes_between_two_points():
    """-q and q with log densities b v: the share of q is known."""
    state = metropolis.init(np.full((4000, 1), -2.0), lambda v: 0.4 * v[..., 0])
    rng, propose = generator(9), metropolis.von_mises_fisher(0.2)
    for _ in range(15):
        state = metropolis.step(state, rng, lambda v: 0.4 * v[..., 0], propose)
    assert set(state.position.ravel()) == {-2.0, 2.0}
    share = 1 / (1 + np.exp(-1.6))
    z = ((state.position > 0).mean() - share) / np.sqrt(share * (1 - share) / 4000)
    assert abs(z) < 4.9  # 1e-6
