"""The loop: it steps, tells, stops by its rule, and changes nothing else."""

from __future__ import annotations

from tastespace.inference.drivers import ascend, no_improvement, small_change
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


def test_steps_are_counted_and_told():
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
