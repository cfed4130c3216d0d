"""What a rating on levels tells of the score it came from, and how far the expected rating moves with the score.

With the chance P_l of level l between the cut-points k_l and k_(l + 1), of a score z

    ordinal:   information = sum_l (phi(k_l - z) - phi(k_(l + 1) - z))^2 / P_l,   slope = sum_l step_l phi(k_l - z)
    logistic:  information = p (1 - p),   slope = step p (1 - p)

The information is Fisher's: near z, a rating is worth a normal response of so much precision. A latent response itself
would have 1; less comes through, and next to nothing where the rating is certain anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from tastespace.arrays import DoubleArray

LEAST = 1e-6  # of information: a rating that is as good as certain tells nothing, and may be divided by
ROOT_OF_TWO_PI = float(np.sqrt(2 * np.pi))


def ordinal_information(scores: NDArray[Any], cuts: NDArray[Any]) -> DoubleArray:
    """Of scores with a column a draw (n x S), and the cut-points of each draw (S x (L - 1), or 1 x (L - 1))."""
    total = np.zeros(scores.shape)
    below, height = np.zeros(scores.shape), np.zeros(scores.shape)  # at the end that lies infinitely far below
    for place in range(cuts.shape[1] + 1):
        is_last = place == cuts.shape[1]
        last_below, last_height = below, height
        below = np.ones(scores.shape) if is_last else ndtr(cuts[:, place] - scores)
        height = np.zeros(scores.shape) if is_last else _density(cuts[:, place] - scores)
        chance = below - last_below
        total += np.divide((last_height - height) ** 2, chance, out=np.zeros_like(chance), where=chance > 1e-12)
    return np.maximum(total, LEAST)


def ordinal_slope(scores: NDArray[Any], cuts: NDArray[Any], levels: NDArray[Any]) -> DoubleArray:
    """Of the expected rating, at scores and cut-points as above."""
    slope = np.zeros(scores.shape)
    for place, step in enumerate(np.diff(levels)):
        slope += step * _density(cuts[:, place] - scores)
    return slope


def logistic_information(scores: NDArray[Any]) -> DoubleArray:
    """Of yes or no by a logistic link; the slope of the chance of yes as well."""
    chance = expit(np.asarray(scores, np.float64))
    return np.maximum(chance * (1 - chance), LEAST)


def _density(standard: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.exp(-0.5 * np.asarray(standard, np.float64) ** 2) / ROOT_OF_TWO_PI)
