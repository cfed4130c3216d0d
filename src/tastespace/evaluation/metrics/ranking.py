"""How good lists are: each measure is a function of small arrays that gives one value a user.

`hits` (users x k) says which places of a list hold a relevant item, best first. `gains` (users x k) says how much
each place is worth, `ideal_gains` (users x k) the same of the best list there could be. Relevant items that a model
cannot recommend count in `n_relevant` and in `ideal_gains` all the same. A place without an item is a miss.
What is not defined, such as the recall of a user without relevant items, is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, IntArray


def precision(hits: BoolArray) -> DoubleArray:
    """The share of the k places that hold a relevant item; a list shorter than k is divided by k as well."""
    return np.asarray(hits.mean(axis=1, dtype=np.float64))


def recall(hits: BoolArray, n_relevant: NDArray[Any]) -> DoubleArray:
    """The share of a user's relevant items that are among the k."""
    return divided(hits.sum(axis=1, dtype=np.float64), n_relevant)


def hit_rate(hits: BoolArray) -> DoubleArray:
    """1 for a list with at least one relevant item, 0 for one without."""
    return np.asarray(hits.any(axis=1), np.float64)


def reciprocal_rank(hits: BoolArray) -> DoubleArray:
    """1 / the place of the first relevant item, 0 if there is none among the k. Its mean is the MRR."""
    first = np.argmax(hits, axis=1)
    return np.where(hits.any(axis=1), 1.0 / (first + 1.0), 0.0)


def average_precision(hits: BoolArray, n_relevant: NDArray[Any]) -> DoubleArray:
    """The precision down to each relevant item, added up and divided by min(k, n_relevant). Its mean is the MAP.

    Divided so, a list that begins with relevant items only has the value 1, whatever k is.
    """
    places = np.arange(1, hits.shape[1] + 1)
    precisions = np.cumsum(hits, axis=1) / places
    return divided((precisions * hits).sum(axis=1), np.minimum(n_relevant, hits.shape[1]))


def ndcg(gains: NDArray[Any], ideal_gains: NDArray[Any]) -> DoubleArray:
    """The gains discounted by 1 / log2(place + 1), added up, as a share of what the best list would have."""
    discounts = 1.0 / np.log2(np.arange(2, gains.shape[1] + 2))
    return divided(gains @ discounts, ideal_gains @ discounts)


def auc(scores: FloatMatrix, rows: IntArray, columns: IntArray, n_relevant: NDArray[Any]) -> DoubleArray:
    """How often a relevant item is scored above another one, over all pairs; a tie counts one half.

    `scores` (users x items) are minus infinity for items that are no candidates. (rows, columns) are the
    relevant items among the candidates. What `n_relevant` counts beyond them loses against every candidate.
    """
    ordered = np.sort(scores, axis=1)
    counts = np.bincount(rows, minlength=len(scores))
    ends = np.cumsum(counts)
    order = np.argsort(rows, kind="stable")
    relevant_scores = scores[rows, columns][order]
    wins, n_candidates = np.zeros(len(scores)), np.zeros(len(scores))
    for user, (line, end, count) in enumerate(zip(ordered, ends, counts, strict=True)):
        own = relevant_scores[end - count : end]
        n_others = np.searchsorted(line, -np.inf, side="right")  # those that are no candidates
        below, up_to = np.searchsorted(line, own, side="left"), np.searchsorted(line, own, side="right")
        # Of two relevant items one is above the other, or they tie; each ties with itself: count^2 / 2 in all.
        wins[user] = (below + up_to).sum() / 2 - count * n_others - count**2 / 2
        n_candidates[user] = len(line) - n_others
    return divided(wins, np.asarray(n_relevant) * (n_candidates - counts))


def divided(numerators: NDArray[Any], denominators: NDArray[Any]) -> DoubleArray:
    """The quotients, NaN where there is nothing to divide by."""
    denominators = np.asarray(denominators, np.float64)
    quotients: DoubleArray = np.full(len(denominators), np.nan)
    np.divide(numerators, denominators, out=quotients, where=denominators > 0)
    return quotients
