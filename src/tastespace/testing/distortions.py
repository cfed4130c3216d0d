"""Ratings of groups of users who use the scale differently, with the truth behind them.

An opinion is x = bias of the user and item + u . v + noise, scaled to a standard deviation of 1. The rating is f(x)
rounded to half stars, with an increasing f for each group: one group rates in extremes, one stays in the middle, one is
generous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings

MAX_OPINION = 2.2  # an opinion that gets the highest rating in every group


def _extreme(x: DoubleArray) -> DoubleArray:
    return np.sign(x) * np.abs(x) ** 0.4


def _moderate(x: DoubleArray) -> DoubleArray:
    return np.sign(x) * np.abs(x) ** 2.2


def _generous(x: DoubleArray) -> DoubleArray:
    return np.asarray(2 * ((x + 1) / 2) ** 0.4 - 1)


SHAPES: dict[str, Callable[[DoubleArray], DoubleArray]] = {
    "extreme": _extreme,
    "moderate": _moderate,
    "generous": _generous,
}


@dataclass(frozen=True, eq=False)
class Distorted:
    """Ratings, the group of each user, and what each group means by each level."""

    ratings: Ratings  # ids are the positions of users and items
    groups: NDArray[np.integer[Any]]  # of each user: a position in SHAPES
    levels: DoubleArray
    curves: DoubleArray  # groups x levels: the mean opinion behind a rating


def distorted(
    n_users: int = 240, n_items: int = 150, *, density: float = 0.35, noise: float = 0.15, rng: Generator
) -> Distorted:
    """Ratings from 1 to 5 in halves; a third of the users has each shape."""
    users, items = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    opinions = 0.9 * users @ items.T / 3**0.5 + 0.5 * rng.standard_normal(n_items)
    opinions += 0.1 * rng.standard_normal((n_users, 1))
    opinions /= opinions.std()
    rows, columns = np.nonzero(rng.random(opinions.shape) < density)
    given = opinions[rows, columns] + noise * rng.standard_normal(len(rows))
    groups = np.arange(n_users) % len(SHAPES)
    within = np.clip(given / MAX_OPINION, -1, 1)
    shaped = np.select([groups[rows] == place for place in range(len(SHAPES))], [f(within) for f in SHAPES.values()])
    values = np.round(2 * (3 + 2 * shaped)) / 2
    levels, places = np.unique(values, return_inverse=True)
    cells = groups[rows] * len(levels) + places
    size = len(SHAPES) * len(levels)
    means = np.bincount(cells, given, size) / np.maximum(np.bincount(cells, minlength=size), 1)
    curves = means.reshape(len(SHAPES), len(levels))
    return Distorted(Ratings.from_arrays(rows, columns, values), groups, levels, curves)


def misfit(curve: DoubleArray, truth: DoubleArray) -> float:
    """The largest distance between two curves, shifted and stretched onto each other, as a share of the scale."""
    slope, shift = np.polyfit(curve, truth, 1)
    return float(np.abs(slope * curve + shift - truth).max() / np.ptp(truth))
