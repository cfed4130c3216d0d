"""Chains that go on until predictions are exact enough: where they stop, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.inference.checkpoints import Checkpoints
from tastespace.inference.diagnostics import Exactness
from tastespace.inference.drivers import Schedule, sample
from tastespace.inference.transition import NOISE, Trace
from tastespace.progress import silent
from tastespace.randomness import generator

PAIRS = 50
RUN = {"seed": 4}


class Draws:
    """Independent draws of predictions, each with a standard deviation of 1, in chains that may be held apart."""

    def __init__(self, apart=0.0):
        self.apart = apart

    def init(self, rng):
        return (self.apart * float(rng.standard_normal()), np.zeros(PAIRS))

    def step(self, state, rng):
        return (state[0], state[0] + rng.standard_normal(PAIRS)), {NOISE: 1.0}


class Watched:
    def __init__(self):
        self.seen = []

    def __call__(self, state, step):
        self.seen.append(state[1])
        return {}

    def saved(self):
        return self.seen

    def restore(self, remembered):
        self.seen = remembered


class Killed(BaseException):
    """What ends a run in these tests."""


def drawn(error=0.1, *, most=200, apart=0.0, threads=1, checkpoints=None, kill_at=None, events=None, looks=None):
    schedule = Schedule(chains=2, warmup=3, draws=most, thin=2, until=Exactness(error, block=10))
    watches = [Watched(), Watched()]

    def traced(chains, steps):
        if looks is not None:
            looks.append(steps)
        predictions = np.stack([np.stack(watch.seen[:steps]) for watch in watches])
        return Trace(3, 2, {NOISE: np.ones((2, steps))}, predictions.astype(np.float32), error)

    def observer(event):
        if events is not None:
            events.append(event)
        if event.step == kill_at:
            raise Killed

    return sample(
        Draws(apart),
        generator(4),
        schedule,
        keeps=[lambda state, draw: float(state[1].sum())] * 2,
        watches=watches,
        phase="drawing",
        traced=traced,
        checkpoints=checkpoints,
        threads=threads,
        observer=observer if events is not None or kill_at is not None else silent,
    )


def sums(chains):
    return [chain.draws for chain in chains]


def test_chains_stop_when_it_is_exact_enough():
    """Of independent draws the error is 1 / sqrt(their number): 0.1 takes 50 in each of two chains, or a little more
    because nine pairs in ten must be there."""
    n = [len(chain.draws) for chain in drawn()]
    assert n in ([50, 50], [60, 60], [70, 70])
    assert [len(chain.trace) for chain in drawn()] == [3 + 2 * k for k in n]
    twice = [len(chain.draws) for chain in drawn(0.1 / 2**0.5)]
    assert twice[0] == pytest.approx(2 * n[0], abs=20)


def test_the_draws_are_those_of_a_run_of_that_length():
    chains = drawn()
    n = len(chains[0].draws)
    fixed = sample(
        Draws(),
        generator(4),
        Schedule(chains=2, warmup=3, draws=n, thin=2),
        keeps=[lambda state, draw: float(state[1].sum())] * 2,
        phase="drawing",
        threads=2,
        observer=silent,
    )
    assert sums(fixed) == sums(chains) == sums(drawn(threads=2))


def test_chains_that_disagree_go_on_to_the_most():
    assert [len(chain.draws) for chain in drawn(most=70, apart=3.0)] == [70, 70]
    assert [len(chain.draws) for chain in drawn(most=65, apart=3.0)] == [65, 65]


def test_the_rule_looks_after_every_block():
    looks, events = [], []
    chains = drawn(0.1, looks=looks, events=events)
    n = len(chains[0].draws)
    assert looks == [3 + 2 * draws for draws in range(10, n + 1, 10)]
    assert [event.step for event in events] == list(range(1, 2 * (3 + 2 * n) + 1))
    assert {event.total for event in events} == {None}, "it is not known how long it will take"


@pytest.mark.parametrize("kill_at", [5, 47, 60, 110, 200])
def test_killed_it_goes_on_and_stops_at_the_same_place(tmp_path, kill_at):
    with pytest.raises(Killed):
        drawn(checkpoints=Checkpoints(tmp_path, every=2).begin(RUN), kill_at=kill_at)
    kept = Checkpoints(tmp_path, every=7, resume=True).begin(RUN)
    assert sums(drawn(checkpoints=kept, threads=2)) == sums(drawn())


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    whole = drawn(checkpoints=Checkpoints(tmp_path, every=1000).begin(RUN))
    monkeypatch.setattr(Draws, "step", None)
    kept = Checkpoints(tmp_path, every=1000, resume=True).begin(RUN)
    assert sums(drawn(checkpoints=kept)) == sums(whole)
