"""Find parameters of a model that cannot be integrated, while a chain draws what depends on them.

The evidence p(data | parameters) is an integral over a latent state. Its gradient is the mean, over the posterior of
that state, of the gradient of the joint density (Fisher's identity):

    d log p(data | parameters) = E[ d log p(data, state | parameters) | data, parameters ]

So a chain that leaves the posterior of the state alone gives noisy gradients, one a step, and parameters follow them by
steps that become shorter (Robbins and Monro 1951; Atchade 2011 for empirical Bayes):

    state      <- a move that leaves p(state | data, parameters) alone
    parameters <- parameters + step_n * d log p(data, state | parameters)

Parameters are logarithms of positive numbers. Gradients are expected in units in which a step of 1 is about right:
divided by what a parameter is known to, its information. Nothing here knows a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.inference.drivers import Stop
from tastespace.inference.transition import Stats

State = TypeVar("State")
MAX_CORRELATION = 0.9  # of neighbours in a short series: what seems more is hardly to be told from a drift


@dataclass(frozen=True, eq=False)
class Memory:
    """What steps remember of those before."""

    count: int
    turns: DoubleArray  # how often each gradient has changed its sign
    last: DoubleArray  # gradient
    mean: DoubleArray  # of gradients
    square: DoubleArray  # of their squares

    @classmethod
    def none(cls, n: int) -> Memory:
        return cls(0, *(np.zeros(n) for _ in range(4)))

    def after(self, gradient: DoubleArray, first_decay: float = 0.0, second_decay: float = 0.0) -> Memory:
        """The memory with one gradient more; the decays are those of its running means."""
        return Memory(
            self.count + 1,
            self.turns + (gradient * self.last < 0),
            gradient,
            first_decay * self.mean + (1 - first_decay) * gradient,
            second_decay * self.square + (1 - second_decay) * gradient**2,
        )

    def gains(self, early: int, power: float) -> DoubleArray:
        """1 until the sign has changed a few times, then falling as (number of changes)^-power."""
        return np.asarray(np.maximum(1, self.turns - early) ** -power)


class Steps(Protocol):
    """How far parameters follow a gradient."""

    def step(self, gradient: DoubleArray, memory: Memory) -> tuple[DoubleArray, Memory]:
        """What to add to the parameters, and what to remember."""


@dataclass(frozen=True)
class RobbinsMonro:
    """rate * gain times the gradient, a gain falling as n^-power.

    With a power in (1/2, 1] the sum of gains diverges, that of their squares does not: steps can go anywhere, and
    their noise dies out. n counts how often a gradient has changed its sign, less `early`, for each parameter by itself
    (Kesten 1958): one that is still on its way goes on with whole steps. No step is longer than `longest`: far from the
    answer a gradient can be of any size.
    """

    rate: float = 1.5
    early: int = 2
    power: float = 0.8
    longest: float = 1.0

    def step(self, gradient: DoubleArray, memory: Memory) -> tuple[DoubleArray, Memory]:
        memory = memory.after(gradient)
        return np.clip(self.rate * memory.gains(self.early, self.power) * gradient, -self.longest, self.longest), memory


@dataclass(frozen=True)
class Adam:
    """Steps of about the same length whatever the size of gradients, shorter where these disagree (Kingma and Ba 2015).

        m_n = b1 m_(n-1) + (1 - b1) g_n,   v_n = b2 v_(n-1) + (1 - b2) g_n^2
        step = rate_n (m_n / (1 - b1^n)) / (sqrt(v_n / (1 - b2^n)) + epsilon)

    A constant rate would never come to rest: it falls as that of `RobbinsMonro` does. Gradients of 1 are of ordinary
    size, hence the large epsilon: among small ones steps are in proportion.
    """

    rate: float = 0.5
    early: int = 2
    power: float = 0.8
    first_decay: float = 0.5
    second_decay: float = 0.9
    epsilon: float = 0.1

    def step(self, gradient: DoubleArray, memory: Memory) -> tuple[DoubleArray, Memory]:
        memory = memory.after(gradient, self.first_decay, self.second_decay)
        unbiased = memory.mean / (1 - self.first_decay**memory.count)
        root = np.sqrt(memory.square / (1 - self.second_decay**memory.count))
        return self.rate * memory.gains(self.early, self.power) * unbiased / (root + self.epsilon), memory


class Evidence(Protocol[State]):
    """A model whose evidence is to be raised: how its latent state moves, and where its parameters should go."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the parameters."""

    def begin(self, rng: Generator) -> tuple[State, DoubleArray]:
        """A state and the logarithms of parameters to start with."""

    def moved(self, state: State, logarithms: DoubleArray, rng: Generator) -> tuple[State, Stats]:
        """The state after a move that leaves its posterior alone, given the parameters."""

    def gradient(self, state: State, logarithms: DoubleArray) -> DoubleArray:
        """The gradient of the log joint density by the logarithms of the parameters, over their information."""


@dataclass(frozen=True, eq=False)
class Approached(Generic[State]):
    """Where the state and the parameters are."""

    state: State
    logarithms: DoubleArray
    memory: Memory


@dataclass(frozen=True, eq=False)
class StochasticApproximation(Generic[State]):
    """The transition: a move of the state, and a step of the parameters. Its figures are the parameters by name."""

    evidence: Evidence[State]
    steps: Steps
    lowest: float  # bounds of the logarithms: an evidence may have no maximum within reach
    highest: float

    def init(self, rng: Generator) -> Approached[State]:
        state, logarithms = self.evidence.begin(rng)
        return Approached(state, np.clip(logarithms, self.lowest, self.highest), Memory.none(len(logarithms)))

    def step(self, state: Approached[State], rng: Generator) -> tuple[Approached[State], Stats]:
        moved, stats = self.evidence.moved(state.state, state.logarithms, rng)
        change, memory = self.steps.step(self.evidence.gradient(moved, state.logarithms), state.memory)
        logarithms = np.clip(state.logarithms + change, self.lowest, self.highest)
        figures = {name: math.exp(value) for name, value in zip(self.evidence.names, logarithms, strict=True)}
        return Approached(moved, logarithms, memory), {**stats, **figures}


def has_converged(names: Sequence[str], window: int, tolerance: float) -> Stop:
    """Stop when parameters have come to rest: of the last `window` steps, both halves agree.

    Their means, of logarithms, may differ by two Monte Carlo errors or by the `tolerance`, whichever is more; and the
    errors must be within the tolerance themselves, for of a series that is not known anything could be said.
    """
    half = window // 2

    def stop(trace: list[Stats]) -> bool:
        if len(trace) < 2 * half:
            return False
        for name in names:
            series = np.log([stats[name] for stats in trace[-2 * half :]])
            before, after = series[:half], series[half:]
            error = math.hypot(monte_carlo_error(before), monte_carlo_error(after))
            if error > tolerance or abs(after.mean() - before.mean()) > max(2 * error, tolerance):
                return False
        return True

    return stop


def monte_carlo_error(series: DoubleArray) -> float:
    """The error of the mean of a short series, whose neighbours are as correlated as those of an autoregression."""
    centred = series - series.mean()
    square = float(centred @ centred)
    if len(series) < 2 or square == 0:
        return 0.0
    correlation = min(max(float(centred[1:] @ centred[:-1]) / square, 0.0), MAX_CORRELATION)
    variance = square / (len(series) - 1) * (1 + correlation) / (1 - correlation)
    return math.sqrt(variance / len(series))


def averaged(trace: Sequence[Stats], names: Sequence[str], window: int) -> dict[str, float]:
    """The parameters, averaged over the last steps (as logarithms): less noisy than any (Polyak and Juditsky 1992)."""
    return {name: math.exp(float(np.mean(np.log([stats[name] for stats in trace[-window:]])))) for name in names}
