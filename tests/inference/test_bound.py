"""Every sampler runs in the loops: resumed is uninterrupted, threads change nothing, figures are reported."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from inference.known_targets import ON_SPHERE, Banana

from tastespace.inference.checkpoints import Checkpoints
from tastespace.inference.drivers import Schedule, sample
from tastespace.inference.samplers import geodesic, geodesic_slice, gibbs, hamiltonian, metropolis, riemannian
from tastespace.inference.transition import Bound
from tastespace.progress import silent
from tastespace.randomness import generator

BANANA = Banana()
MANIFOLD = riemannian.Manifold(BANANA.log_density, BANANA.gradient, BANANA.metric, BANANA.metric_gradient)
RADIUS = ON_SPHERE.radius
PLACE = np.array([0.0, RADIUS, 0.0])


def plane(rng):
    return rng.standard_normal(2)


def swapped(position, rng):
    return position[::-1] + rng.standard_normal(2)


TRANSITIONS = {
    "metropolis": Bound(
        lambda rng: metropolis.init(plane(rng), BANANA.log_density),
        partial(metropolis.step, log_density=BANANA.log_density, propose=metropolis.gaussian(1.0)),
    ),
    "gibbs": Bound(
        lambda rng: gibbs.init(plane(rng)),
        partial(gibbs.step, conditionals={"both": swapped, "again": swapped}, order="random"),
    ),
    "hamiltonian": Bound(
        lambda rng: hamiltonian.init(plane(rng), BANANA.log_density, BANANA.gradient, dense=True),
        partial(hamiltonian.step, log_density=BANANA.log_density, gradient=BANANA.gradient, leaps=3, warmup=60),
    ),
    "riemannian": Bound(
        lambda rng: riemannian.init(plane(rng), MANIFOLD),
        partial(riemannian.step, manifold=MANIFOLD, leaps=1, warmup=60, iterations=5, tolerance=1e-3),
    ),
    "geodesic": Bound(
        lambda rng: geodesic.init(PLACE, ON_SPHERE.log_density, ON_SPHERE.gradient, radius=RADIUS),
        partial(
            geodesic.step,
            log_density=ON_SPHERE.log_density,
            gradient=ON_SPHERE.gradient,
            leaps=3,
            warmup=60,
        ),
    ),
    "slice": Bound(
        lambda rng: geodesic_slice.init(PLACE, ON_SPHERE.log_density, radius=RADIUS),
        partial(geodesic_slice.step, log_density=ON_SPHERE.log_density),
    ),
}
SCHEDULE = Schedule(chains=2, warmup=60, draws=10)
RUN = {"sampler": "any"}


class Killed(BaseException):
    pass


def ran(name, *, kept=None, kill_at=None, threads=1):
    def observer(progress):
        if progress.step == kill_at:
            raise Killed

    return sample(
        TRANSITIONS[name],
        generator(3),
        SCHEDULE,
        keeps=[lambda state, draw: state.position] * 2,
        phase="sampling",
        checkpoints=kept,
        threads=threads,
        observer=silent if kill_at is None else observer,
    )


def assert_same(one, other):
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first.draws, second.draws)
        np.testing.assert_array_equal(first.last.position, second.last.position)
        assert first.trace == second.trace


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(name, tmp_path):
    """Killed in the warm-up of the first chain, within a window, and in that of the second."""
    whole = ran(name)
    for kill_at in (45, 100):
        folder = tmp_path / str(kill_at)
        with pytest.raises(Killed), Checkpoints(folder, every=7).begin(RUN) as kept:
            ran(name, kept=kept, kill_at=kill_at)
        with Checkpoints(folder, every=7, resume=True).begin(RUN) as kept:
            assert_same(ran(name, kept=kept), whole)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_threads_change_nothing_and_figures_are_reported(name):
    chains = ran(name)
    assert_same(ran(name, threads=2), chains)
    assert len(chains[0].trace) == 70
    wanted = {"acceptance"} if name == "gibbs" else {"acceptance", "accepted", "energy_error", "divergent"}
    assert wanted <= chains[0].trace[0].keys()
    assert not np.array_equal(chains[0].draws, chains[1].draws)


def test_a_state_that_forgets_its_step_is_noticed(tmp_path, monkeypatch):
    """A twin that finds the step size outside of its state, as a hidden variable would be."""
    hidden = []

    def forgetful(state, rng):
        hidden.append(0.99 * hidden[-1] if hidden else 1.0)
        return metropolis.step(state, rng, BANANA.log_density, metropolis.gaussian(hidden[-1]))

    twin = Bound(TRANSITIONS["metropolis"].start, forgetful)
    monkeypatch.setitem(TRANSITIONS, "metropolis", twin)
    whole = ran("metropolis")
    hidden.clear()
    with pytest.raises(Killed), Checkpoints(tmp_path, every=7).begin(RUN) as kept:
        ran("metropolis", kept=kept, kill_at=45)
    hidden.clear()
    with Checkpoints(tmp_path, every=7, resume=True).begin(RUN) as kept, pytest.raises(AssertionError):
        assert_same(ran("metropolis", kept=kept), whole)
