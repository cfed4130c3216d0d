"""Hyper-parameters by empirical Bayes, while the chain runs at T = 1.

With n entries of precision lam and sum of squares S, d log p / d log lam = n / 2 - lam S / (2 T), whose information is
n / 2: the gradient in units of that is 1 - lam S / (T n). Dey and Jhamb 2018 (eq. 10) leave out the first term, so that
every precision can only fall. Only the product lam_u lam_v is identified: the two are one parameter here.

At a temperature T the maximum is at T times the precisions of T = 1, for p_T with precisions lam is p_1 with lam / T:
tuning would undo the temperature. So precisions are tuned at T = 1 only, and stay as they are when it is hotter or
colder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.inference.stochastic_approximation import Adam, Memory
from tastespace.models.factorization.jump.target import Precisions, RankState, RankTarget

LOWEST, HIGHEST = np.log(1e-4), np.log(1e8)  # of ratings that have no errors the precision of the noise has no maximum


@dataclass(frozen=True, eq=False)
class Tuning:
    """On the way: what Adam remembers, and the mean of what the later half of the steps had."""

    memory: Memory
    total: DoubleArray
    n: int = 0

    @classmethod
    def begun(cls) -> Tuning:
        return cls(Memory.none(4), np.zeros(4))


def logarithms(precisions: Precisions) -> DoubleArray:
    """Of those that are tuned: of factors, noise, and biases of users and items."""
    return np.log([precisions.users, precisions.noise, precisions.user_biases, precisions.item_biases])


def precisions_of(logs: DoubleArray) -> Precisions:
    """The other way."""
    factors, noise, of_users, of_items = (float(value) for value in np.exp(np.clip(logs, LOWEST, HIGHEST)))
    return Precisions(factors, factors, noise, of_users, of_items)


def gradient(target: RankTarget, state: RankState) -> DoubleArray:
    """Of log p_T by the logarithms, over their information; nothing for biases that are not there."""
    users, items, own = state.users, state.items, state.precisions
    entries: list[tuple[float, int, list[AnyFloats | None]]] = [
        (own.users, (target.n_users + target.n_items) * state.rank, [users.factors, items.factors]),
        (own.noise, len(target.observed), [target.errors(state)]),
        (own.user_biases, target.n_users, [users.bias]),
        (own.item_biases, target.n_items, [items.bias]),
    ]
    found = []
    for precision, n, arrays in entries:
        there = [array for array in arrays if array is not None]
        square = sum(float(np.vdot(array, array)) for array in there)
        found.append(1 - precision * square / (state.temperature * n) if there else 0.0)
    return np.array(found)


def tuned(
    target: RankTarget, state: RankState, tuning: Tuning, adam: Adam, *, counts: bool
) -> tuple[RankState, Tuning]:
    """A step of the hyper-parameters; `counts` if it is one of those that are averaged."""
    change, memory = adam.step(gradient(target, state), tuning.memory)
    logs = np.clip(logarithms(state.precisions) + change, LOWEST, HIGHEST)
    total, n = (tuning.total + logs, tuning.n + 1) if counts else (tuning.total, tuning.n)
    return replace(state, precisions=precisions_of(logs)), Tuning(memory, total, n)


def settled(state: RankState, tuning: Tuning) -> RankState:
    """The mean of the later steps, for good."""
    return state if tuning.n == 0 else replace(state, precisions=precisions_of(tuning.total / tuning.n))
