"""Stochastic approximation: find parameters by their evidence while a chain draws the latent state.

The evidence p(data | parameters) is an integral over a latent state. Its gradient is the mean, over the posterior of
that state, of the gradient of the joint density (Fisher's identity):

    d log p(data | parameters) = E[ d log p(data, state | parameters) | data, parameters ]

So a chain that leaves the posterior of the state invariant gives noisy gradients, one per step, and parameters follow
them by steps that become shorter (Robbins and Monro 1951; Atchade 2011 for empirical Bayes):

    state      <- a move that leaves p(state | data, parameters) invariant
    parameters <- parameters + step_n * d log p(data, state | parameters)

Parameters are logarithms of positive numbers. Gradients are expected in units in which a step of 1 is about right:
divided by the information about a parameter. Nothing here depends on a model.
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
MAX_CORRELATION = 0.9  # of neighbours in a short series: a larger one is indistinguishable from a drift


@dataclass(frozen=True, eq=False)
class Memory:
    """The memory of steps about earlier ones."""

    count: int
    turns: DoubleArray  # number of sign changes of each gradient
    last: DoubleArray  # gradient
    mean: DoubleArray  # of gradients
    square: DoubleArray  # of their squares

    @classmethod
    def none(cls, n: int) -> Memory:
        return cls(0, *(np.zeros(n) for _ in range(4)))

    def after(self, gradient: DoubleArray, first_decay: float = 0.0, second_decay: float = 0.0) -> Memory:
        """The memory after one more gradient; the decays are those of its running means."""
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
        """The increment of the parameters, and the new memory."""


@dataclass(frozen=True)
class RobbinsMonro:
    """Steps of rate * gain times the gradient, with a gain that falls as n^-power.

    With a power in (1/2, 1] the sum of gains diverges, that of their squares does not: steps can reach any point, and
    their noise vanishes. n is the number of sign changes of the gradient, minus `early`, for each parameter separately
    (Kesten 1958): one that is still approaching keeps full steps. No step is longer than `longest`: far from the
    solution a gradient can be of any size.
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

    A constant rate would never converge: it falls like that of `RobbinsMonro`. Gradients of 1 are of ordinary
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
    """A model whose evidence is maximized: moves of its latent state, and gradients of its parameters."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the parameters."""

    def begin(self, rng: Generator) -> tuple[State, DoubleArray]:
        """A state and the logarithms of parameters to start with."""

    def moved(self, state: State, logarithms: DoubleArray, rng: Generator) -> tuple[State, Stats]:
        """The state after a move that leaves its posterior given the parameters invariant."""

    def gradient(self, state: State, logarithms: DoubleArray) -> DoubleArray:
        """The gradient of the log joint density by the logarithms of the parameters, over their information."""


@dataclass(frozen=True, eq=False)
class Approached(Generic[State]):
    """The current state and parameters."""

    state: State
    logarithms: DoubleArray
    memory: Memory


@dataclass(frozen=True, eq=False)
class StochasticApproximation(Generic[State]):
    """The transition: a move of the state, and a step of the parameters. Its figures are the parameters by name."""

    evidence: Evidence[State]
    steps: Steps
    lowest: float  # bounds of the logarithms: the evidence may have no finite maximum
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
    """Stop when parameters have converged: both halves of the last `window` steps agree.

    Their means, of logarithms, may differ by two Monte Carlo errors or by the `tolerance`, whichever is more; and the
    errors themselves must be within the tolerance, since the means of a noisy series prove nothing.
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
