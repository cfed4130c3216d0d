"""The loop: it steps, tells, stops by its rule, and changes nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Thread

import pytest

from tastespace.errors import NonFiniteStateError
from tastespace.inference.drivers import Schedule, ascend, no_improvement, sample, small_change
from tastespace.progress import silent
from tastespace.randomness import generator


class Halving:
    """x -> x / 2: the simplest transition."""

    def init(self, rng):
        return 1.0

    def step(self, state, rng):
        return state / 2, {"loss": state / 2}


def run(steps, stop):
    events = []
    state, trace = ascend(Halving(), 1.0, generator(0), steps=steps, stop=stop, phase="halving", observer=events.append)
    return state, trace, events


def test_steps_are_counted_and_reported():
    state, trace, events = run(5, lambda trace: False)
    assert state == 2**-5
    assert [stats["loss"] for stats in trace] == [2**-1, 2**-2, 2**-3, 2**-4, 2**-5]
    assert [(event.phase, event.step, event.total) for event in events] == [
        ("halving", step, 5) for step in range(1, 6)
    ]


def test_the_stopping_rule_stops():
    assert len(run(100, lambda trace: len(trace) == 7)[1]) == 7


def test_small_change():
    stop = small_change("loss", 0.1)
    assert not stop([{"loss": 1.0}])
    assert not stop([{"loss": 1.0}, {"loss": 0.8}])
    assert stop([{"loss": 1.0}, {"loss": 0.95}])


def test_no_improvement():
    stop = no_improvement("error", 2)
    falling = [{"error": 3.0}, {"error": 2.0}]
    assert not stop(falling)
    assert not stop([*falling, {"error": 2.5}])
    assert stop([*falling, {"error": 2.5}, {"error": 2.0}])


@dataclass(frozen=True)
class Walk:
    """A random walk; its state is the place, and the number of steps."""

    fails_at: int = 10**9

    def init(self, rng):
        return (float(rng.standard_normal()), 0)

    def step(self, state, rng):
        place, steps = state[0] + float(rng.standard_normal()), state[1] + 1
        if steps == self.fails_at:
            raise NonFiniteStateError("the walk fell off")
        return (place, steps), {"place": place}


def walked(threads, schedule=None, watches=(), observer=silent, walk=None):
    return sample(
        walk or Walk(),
        generator(4),
        schedule or Schedule(chains=3, warmup=5, draws=4, thin=2),
        keeps=[lambda state, draw: (draw, *state)] * 3,
        watches=watches,
        phase="walking",
        threads=threads,
        observer=observer,
    )


def test_chains_are_the_same_whatever_the_threads():
    alone, together = walked(1), walked(3)
    assert alone == together
    assert len({chain.last[0] for chain in alone}) == 3


def test_what_is_kept_is_what_the_schedule_says():
    chains = walked(2)
    assert [[steps for _, _, steps in chain.draws] for chain in chains] == [[7, 9, 11, 13]] * 3
    assert [[draw for draw, _, _ in chain.draws] for chain in chains] == [list(range(4))] * 3
    assert all(len(chain.trace) == 13 for chain in chains)
    assert all(chain.trace[12]["place"] == chain.last[0] for chain in chains)


def test_watching_adds_figures_of_each_chain():
    def watch(number):
        return lambda state, step: {"chain": number, "step": step}

    events = []
    chains = walked(2, watches=[watch(number) for number in range(3)], observer=events.append)
    assert [chain.trace[4]["chain"] for chain in chains] == [0, 1, 2]
    assert [stats["step"] for stats in chains[0].trace] == list(range(1, 14))
    assert [event.step for event in events] == list(range(1, 40))  # of all chains together, in order
    assert {event.total for event in events} == {39}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_chain_that_fails_ends_the_run(threads):
    with pytest.raises(NonFiniteStateError, match="fell off"):
        walked(threads, walk=Walk(fails_at=4))


def test_a_failing_chain_stops_the_others():
    """The others would otherwise run to their end before anybody hears of it."""

    class Mixed(Walk):
        def step(self, state, rng):
            if state[1] == 0 and number.append(1) is None and len(number) == 1:
                raise NonFiniteStateError("the first to step fell off")
            steps.append(1)
            time.sleep(0.001)
            return super().step(state, rng)

    number, steps = [], []
    with pytest.raises(NonFiniteStateError):
        walked(2, Schedule(chains=2, warmup=0, draws=2000), walk=Mixed())
    assert len(steps) < 2000


def test_no_thread_left_is_an_error_and_no_endless_wait(monkeypatch):
    started, start = [], Thread.start

    def refuse_the_second(thread):
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", refuse_the_second)
    with pytest.raises(RuntimeError, match="new thread"):
        walked(3)


def test_an_interrupt_waits_for_the_step_that_runs():
    """The observer is interrupted in one chain; the others end with their step, and what was raised is told."""
    seen = []

    def interrupt(event):
        seen.append(event.step)
        if event.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        walked(3, Schedule(chains=3, warmup=0, draws=5000), observer=interrupt)
    assert len(seen) < 15000
