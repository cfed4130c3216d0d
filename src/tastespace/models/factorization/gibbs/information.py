"""Active learning: the items whose ratings by a user leave the least uncertainty about others.

Given draw s, the user's factors and bias (u, c) are normal with covariance Sigma = T T^T, and the score of item j moves
with them as x_j = (v_j, 1). If a rating of j is a response around the score with the variance e_j, it lowers the
variance of the score of t by

    (x_j^T Sigma x_t)^2 / (x_j^T Sigma x_j + e_j)

whatever the rating is. In whitened coordinates a_j = T^T x_j, and over items t whose expected ratings move
by b_t with their scores and matter as much as w_t, this is

    a_j^T H a_j / (|a_j|^2 + e_j),   H = sum_t w_t b_t^2 a_t a_t^T

averaged over draws. After an answer Sigma is known, though the answer is not: T becomes T P and H becomes P H P with
P = I - k a_j a_j^T, k = (1 - 1 / sqrt(1 + |a_j|^2 / e_j)) / |a_j|^2. So the next question is found in the same way.

With Gaussian noise e is its variance and b the scale of the ratings, and all this is exact. For levels, yes and no, 1 /
e is the Fisher information at the score that the draw expects, and b is the slope of the expected rating there
(`tastespace.distributions.latent_levels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.models.base.posterior import Inquiry
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, UserDraws
from tastespace.models.factorization.likelihoods.base import Answers
from tastespace.threads import one_blas_thread

# Item vectors held at once, whatever the numbers of items and draws: 1 MB, which fits into a cache. With so few items
# a matrix product is too small for several threads, which would wait for one another.
BLOCK_NUMBERS, BLOCK_ITEMS = 1 << 18, 128


def most_informative(
    draws: ItemDraws,
    belief: UserDraws,
    row: int,
    askable: IntArray,
    targets: IntArray,
    importance: DoubleArray,
    n: int,
    answers: Callable[[IntArray], Answers],
) -> Inquiry:
    """The n items, one after the other, that are most informative about the targets; `row` is the user's in the belief.

    Ties go to the first. `importance`, one per target, sums to 1. `answers` gives the information in the user's ratings
    of items.
    """
    n_draws = draws.items.shape[1]
    slope: NDArray[Any] = np.broadcast_to(answers(targets).slope, (len(targets), n_draws))
    noise: NDArray[Any] = np.broadcast_to(answers(askable).variance, (len(askable), n_draws))  # e
    weights = belief.weights[row].astype(np.float64)
    roots = belief.roots[row].copy()  # S x W x W: T
    spread = _spread(draws, roots, targets, np.sqrt(importance)[:, None] * slope)  # S x W x W: H
    before = float(weights @ np.trace(spread, axis1=1, axis2=2))
    left, chosen, reductions, best = np.ones(len(askable), np.bool_), [], [], -1
    for place in range(min(n, len(askable))):
        if place > 0:
            _answer(draws, roots, spread, askable[best : best + 1], noise[best])
        gains = np.where(left, _gains(draws, roots, spread, askable, noise, weights), -np.inf)
        best = int(np.argmax(gains))
        left[best] = False
        chosen.append(askable[best])
        reductions.append(gains[best])
    return Inquiry(items=np.array(chosen, np.int32), reductions=np.array(reductions, np.float64), variance=before)


def _vectors(draws: ItemDraws, rows: IntArray) -> Iterator[tuple[slice, slice, FloatArray]]:
    """x of items, in blocks of bounded memory: the rows, the draws, and a matrix per draw, items x W."""
    _, n_draws, width = draws.items.shape
    n_rows = max(1, min(len(rows), BLOCK_ITEMS))
    step = max(1, BLOCK_NUMBERS // (n_rows * width))
    for start in range(0, len(rows), n_rows):
        for first in range(0, n_draws, step):
            here, some = slice(start, start + n_rows), slice(first, min(first + step, n_draws))
            vectors = draws.items[rows[here], some].transpose(1, 0, 2)
            if draws.has_biases:
                vectors[:, :, -1] = 1  # in this copy: 1 for the user's bias, in place of the item's own
            yield here, some, vectors


def _spread(draws: ItemDraws, roots: FloatArray, targets: IntArray, weights: DoubleArray) -> FloatArray:
    """H of each draw; weights are roots of the importance of each target, targets x S."""
    spread = np.zeros_like(roots)
    for here, some, vectors in _vectors(draws, targets):
        whitened = (vectors * weights[here, some].T[:, :, None].astype(np.float32)) @ roots[some]
        spread[some] += whitened.transpose(0, 2, 1) @ whitened
    return spread


def _gains(
    draws: ItemDraws,
    roots: FloatArray,
    spread: FloatArray,
    askable: IntArray,
    noise: NDArray[Any],
    weights: DoubleArray,
) -> DoubleArray:
    """The reduction of the variance of the targets by an answer about each item."""
    gains = np.zeros(len(askable))
    for here, some, vectors in _vectors(draws, askable):
        whitened = vectors @ roots[some]
        explained = np.einsum("sjw,sjw->sj", whitened @ spread[some], whitened)
        variance = np.einsum("sjw,sjw->sj", whitened, whitened) + noise[here, some].T
        gains[here] += weights[some] @ (explained / variance)
    return gains


def _answer(draws: ItemDraws, roots: FloatArray, spread: FloatArray, item: IntArray, noise: NDArray[Any]) -> None:
    """Update both arrays in place after the rating of one item."""
    for _, some, vectors in _vectors(draws, item):
        whitened = (vectors @ roots[some])[:, 0].astype(np.float64)  # a: S x W
        squares = np.sum(whitened**2, axis=1)
        known = 1 - 1 / np.sqrt(1 + squares / noise[some])
        share = np.divide(known, squares, out=np.zeros_like(squares), where=squares > 0)  # k
        shrink = np.eye(roots.shape[2]) - share[:, None, None] * whitened[:, :, None] * whitened[:, None, :]  # P
        roots[some] = roots[some] @ shrink
        spread[some] = shrink @ spread[some] @ shrink


BLOCK = 128  # ratings at once: with all their draws they should fit into a cache
SLOWEST = 1e-6  # minimum slope of an expected rating, as a share of the steepest


def influences(
    draws: ItemDraws,
    belief: UserDraws,
    row: int,
    item_rows: IntArray,
    rated_rows: IntArray,
    answers: Callable[[IntArray], Answers],
) -> FloatMatrix:
    """The change of the expected rating of each item per unit of each rating of a user; items x ratings.

    Given draw s, a rating y_j = b_j (score of j) + noise of variance w_j (in units of the score) moves the mean of the
    user by S x_j / (w_j b_j), where S is the user's covariance and x_j = (v_j, 1) is multiplied by (u, c). So the
    expected rating of item i moves by

        b_i x_i^T S x_j / (w_j b_j)        per unit of y_j, averaged over draws.

    For Gaussian noise that is the same for all ratings, b is constant and this is exact: a fold-in is linear in the
    ratings. Where weights depend on the ratings (noise by user, levels, yes and no) it is the effect of a small change;
    where a belief has no covariances (factorized VB), it is the effect without them.
    """
    with one_blas_thread():
        weights, root = belief.weights[row], belief.roots[row]
        slopes = np.broadcast_to(answers(item_rows).slope, (len(item_rows), len(weights)))
        # S x_i of each item once: a rating is then only multiplied by it, in all draws at once.
        met = _met(draws, item_rows, slopes * weights).transpose(1, 0, 2)
        pull = np.matmul(np.matmul(met, root), root.transpose(0, 2, 1)).transpose(1, 0, 2).reshape(len(item_rows), -1)
        moved = np.empty((len(item_rows), len(rated_rows)), np.float32)
        for start in range(0, len(rated_rows), BLOCK):
            some = rated_rows[start : start + BLOCK]
            known = answers(some)
            slope = np.asarray(known.slope)
            slope = np.maximum(slope, SLOWEST * float(slope.max(initial=0.0)))
            push = _met(draws, some, np.broadcast_to(1 / (known.variance * slope), (len(some), len(weights))))
            moved[:, start : start + BLOCK] = pull @ push.reshape(len(some), -1).T
    return moved


def _met(draws: ItemDraws, item_rows: IntArray, factors: FloatMatrix) -> FloatMatrix:
    """The vectors (v, 1) of each item in each draw, times a factor each; items x draws x W."""
    met = draws.items[item_rows]
    if draws.has_biases:
        met[:, :, -1] = 1.0
    met *= factors[:, :, None].astype(np.float32)
    return met
