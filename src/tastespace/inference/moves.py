"""What happened in a step of a sampler, and the decision that all of them share: to go, or to stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.inference.transition import Stats

# An energy error of so much never happens where leaps follow the flow: the path has run away. (The line of Stan, too.)
LARGEST_ERROR = 1000.0


@dataclass(frozen=True, eq=False)
class Move:
    """Of each chain: whether it went, how likely that was, and how well the path kept its energy."""

    accepted: BoolArray
    acceptance: DoubleArray  # the probability
    energy_error: DoubleArray  # of the end less that of the beginning: minus the log of the ratio that is accepted by
    divergent: BoolArray  # the density was not a number, or the path ran away

    def stats(self) -> Stats:
        """Of all chains together, as a trace has them; the energy error is the mean size of those that are one."""
        sound = np.abs(self.energy_error[~self.divergent])
        sound = sound[np.isfinite(sound)]
        return {
            "acceptance": float(self.acceptance.mean()),
            "accepted": float(self.accepted.mean()),
            "energy_error": float(sound.mean()) if sound.size else 0.0,
            "divergent": float(self.divergent.sum()),
        }


def none_yet(shape: tuple[int, ...]) -> Move:
    """Of chains that have only started."""
    return Move(np.zeros(shape, np.bool_), np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_))


def judged(energy_error: DoubleArray, divergent: BoolArray, rng: Generator) -> Move:
    """Accept with the probability min(1, exp(-error)), and never what is divergent."""
    error, divergent = np.asarray(energy_error), np.asarray(divergent)
    acceptance = np.zeros(error.shape)
    acceptance[~divergent] = np.exp(-np.maximum(error[~divergent], 0.0))
    accepted = np.asarray(rng.random(error.shape) < acceptance)
    return Move(accepted, acceptance, np.where(np.isnan(error), np.inf, error), divergent)


def judged_path(energy_error: DoubleArray, rng: Generator) -> Move:
    """Accept the end of a path that should have kept its energy."""
    divergent = ~np.isfinite(energy_error) | (np.asarray(energy_error) > LARGEST_ERROR)
    return judged(energy_error, np.asarray(divergent), rng)


def chosen(accepted: BoolArray, new: DoubleArray, old: DoubleArray) -> DoubleArray:
    """The new values of chains that went, the old ones of those that stayed."""
    aligned = accepted.reshape(accepted.shape + (1,) * (np.ndim(old) - accepted.ndim))
    return np.where(aligned, new, old)
