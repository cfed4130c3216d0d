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
from tastespace.threads import one_blas_thread

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
    with one_blas_thread():
        weights, root = belief.weights[row], belief.roots[row]
        slopes = np.broadcast_to(answers(item_rows).slope, (len(item_rows), len(weights)))
        # S x_i of each item once: a rating is then only multiplied by it, in all draws at once.
        met = _met(draws, item_rows, slopes * weights).transpose(1, 0, 2)
        pull = np.matmul(np.matmul(met, root), root.transpose(0, 2, 1)).transpose(1, 0, 2).reshape(len(item_rows), -1)
        moved = np.empty((len(item_rows), len(rated_rows)), np.float32)
        for start in range(0, len(rated_rows), BLOCK):
            some = rated_rows[start : start + BLOCK]
            told = answers(some)
            slope = np.asarray(told.slope)
            slope = np.maximum(slope, SLOWEST * float(slope.max(initial=0.0)))
            push = _met(draws, some, np.broadcast_to(1 / (told.variance * slope), (len(some), len(weights))))
            moved[:, start : start + BLOCK] = pull @ push.reshape(len(some), -1).T
    return moved


def _met(draws: ItemDraws, item_rows: IntArray, factors: FloatMatrix) -> FloatMatrix:
    """What meets a user, (v, 1) of each item in each draw, times a factor each; items x draws x W."""
    met = draws.items[item_rows]
    if draws.has_biases:
        met[:, :, -1] = 1.0
    met *= factors[:, :, None].astype(np.float32)
    return met
