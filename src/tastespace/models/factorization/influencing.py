"""How much each of a user's ratings moves his predictions: at once for all of them, from what is believed of him.

Given draw s, a rating y_j = b_j (score of j) + noise of variance w_j (in units of the score) moves the mean of the user
by S x_j / (w_j b_j), where S is his covariance and x_j = (v_j, 1) what meets his (u, c). So the expected rating of item
i moves by

    b_i x_i^T S x_j / (w_j b_j)        a unit of y_j, averaged over draws.

For Gaussian noise that is the same for all, b is constant and this is exact: a fold-in is linear in the ratings. Where
weights depend on the ratings (noise by user, levels, yes and no) it is the effect of a small change; where a belief
leaves covariances out (factorised VB), it is that without them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tastespace.arrays import FloatMatrix, IntArray
from tastespace.models.factorization.beliefs import Belief
from tastespace.models.factorization.item_draws import ItemDraws
from tastespace.models.factorization.kept_noise import Answers

BLOCK = 128  # ratings at once: with all their draws they should fit into a cache
SLOWEST = 1e-6  # slope of an expected rating below which it hardly moves, as a share of the steepest


def influences(
    draws: ItemDraws,
    belief: Belief,
    row: int,
    item_rows: IntArray,
    rated_rows: IntArray,
    answers: Callable[[IntArray], Answers],
) -> FloatMatrix:
    """What a unit of each rating of a user adds to the expected rating of each item; items x ratings."""
    weights = belief.weights[row]
    slopes = _by_draw(answers(item_rows).slope, len(item_rows), len(weights))
    meeting = _through(draws, belief, row, item_rows) * (slopes * weights[:, None])[:, :, None]
    moved = np.empty((len(item_rows), len(rated_rows)), np.float32)
    for start in range(0, len(rated_rows), BLOCK):
        some = rated_rows[start : start + BLOCK]
        told = answers(some)
        slope = _by_draw(told.slope, len(some), len(weights))
        variance = _by_draw(told.variance, len(some), len(weights))
        slope = np.maximum(slope, SLOWEST * float(slope.max(initial=0.0)))
        pushed = _through(draws, belief, row, some) / (variance * slope)[:, :, None]
        moved[:, start : start + BLOCK] = np.matmul(meeting, pushed.transpose(0, 2, 1)).sum(axis=0)
    return moved


def _through(draws: ItemDraws, belief: Belief, row: int, item_rows: IntArray) -> FloatMatrix:
    """x^T T for each item, with the root T of the user's covariance; draws x items x W."""
    met = draws.items[item_rows].transpose(1, 0, 2).copy()
    if draws.has_biases:
        met[:, :, -1] = 1.0
    return np.asarray(np.matmul(met, belief.roots[row]), np.float32)


def _by_draw(values: FloatMatrix, n: int, n_draws: int) -> FloatMatrix:
    """As draws x items, also where one value stands for all."""
    return np.broadcast_to(values, (n, n_draws)).T
