"""Measures of lists beyond accuracy: coverage of the catalogue, popularity, novelty and diversity.

`item_rows` (users x k) are lists, -1 where there is no item. `shares` has the popularity of each item: the share of
the training users who rated it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.csr import CSR
from tastespace.evaluation.resampling import divided

BLOCK_PAIRS = 1 << 20  # pairs of items compared at once
BLOCK_BYTES = 1 << 26  # memory for the flags of which user rated what


def popularity(item_rows: IntArray, shares: DoubleArray) -> DoubleArray:
    """The mean popularity of the items in each list."""
    return _list_means(item_rows, shares)


def novelty(item_rows: IntArray, shares: DoubleArray) -> DoubleArray:
    """The mean of -log2(popularity) over the items of each list, in bits: more for items that fewer users know."""
    rarest = shares[shares > 0].min(initial=1.0)  # an item without ratings is as novel as an item with one
    return _list_means(item_rows, -np.log2(np.maximum(shares, rarest)))


def diversity(item_rows: IntArray, raters: CSR) -> DoubleArray:
    """1 - the mean similarity of two items of each list; NaN for lists of fewer than two.

    `raters` are the users who rated each item. Two items are as similar as the cosine of their columns of
    the training matrix, rated = 1 and not rated = 0: common raters / sqrt(raters of one * raters of the other).
    The same for every model, so that models can be compared.
    """
    k = item_rows.shape[1]
    one, other = np.triu_indices(k, 1)
    result = np.full(len(item_rows), np.nan)
    step = max(1, BLOCK_PAIRS // max(len(one), 1))
    for start in range(0, len(item_rows) if k > 1 else 0, step):
        block = item_rows[start : start + step]
        pairs = np.sort(np.stack([block[:, one], block[:, other]]), axis=0).astype(np.int64)
        is_pair = pairs[0] >= 0
        different, places = np.unique(pairs[0] * len(raters) + pairs[1], return_inverse=True)
        first, second = np.divmod(np.maximum(different, 0), max(len(raters), 1))
        similar = _cosines(first, second, raters)[places].reshape(is_pair.shape)
        result[start : start + step] = 1 - divided((similar * is_pair).sum(axis=1), is_pair.sum(axis=1))
    return result


def exposure(item_rows: IntArray, n_items: int) -> NDArray[np.int64]:
    """The number of lists that contain each item."""
    return np.bincount(item_rows[item_rows >= 0], minlength=n_items)


def coverage(exposures: NDArray[Any]) -> float:
    """The share of the catalogue that is in at least one list; NaN if there are no lists."""
    return float(np.mean(np.asarray(exposures) > 0)) if np.any(exposures) else float("nan")


def gini(exposures: NDArray[Any]) -> float:
    """The Gini coefficient of the number of lists per item: 0 if all are equal, near 1 if a few items have them all."""
    total, n = float(np.sum(exposures)), len(exposures)
    return float(np.sum((2 * _ranks(exposures) - n - 1) * exposures) / (n * total)) if total else float("nan")


def coverage_influence(item_rows: IntArray, exposures: NDArray[Any]) -> DoubleArray:
    """The influence of each user on the coverage: the items that no other user is shown."""
    return _list_sums(item_rows, (np.asarray(exposures) == 1) / max(len(exposures), 1))


def gini_influence(item_rows: IntArray, exposures: NDArray[Any]) -> DoubleArray:
    """The influence of each user's list on the Gini coefficient: its derivative by the weight of the user."""
    total, n = float(np.sum(exposures)), len(exposures)
    slope = ((2 * _ranks(exposures) - n - 1) / n - gini(exposures)) / max(total, 1.0)
    return _list_sums(item_rows, slope)


def _cosines(first: NDArray[Any], second: NDArray[Any], raters: CSR) -> DoubleArray:
    """The cosine of each pair of items, from common raters counted as bits."""
    items, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    first, second = places[: len(first)], places[len(first) :]
    chosen = raters.take(items.astype(np.int32))
    rows, users = chosen.rows(), chosen.columns
    common = np.zeros(len(first))
    n_users = int(users.max()) + 1 if len(users) else 0
    width = max(64, BLOCK_BYTES // max(len(items), 1) // 64 * 64)  # users at once; 64 per machine word
    for start in range(0, n_users, width):
        here = (users >= start) & (users < start + width)
        flags = np.zeros((len(items), min(width, -(-(n_users - start) // 64) * 64)), np.bool_)
        flags[rows[here], users[here] - start] = True
        bits = np.packbits(flags, axis=1).view(np.uint64)
        lot = max(1, BLOCK_PAIRS // bits.shape[1])
        for place in range(0, len(first), lot):
            both = bits[first[place : place + lot]] & bits[second[place : place + lot]]
            common[place : place + lot] += np.bitwise_count(both).sum(axis=1, dtype=np.int64)
    lengths = np.sqrt(chosen.counts.astype(np.float64))
    scale = lengths[first] * lengths[second]
    return np.asarray(common / np.where(scale > 0, scale, 1))


def _ranks(values: NDArray[Any]) -> DoubleArray:
    """Ranks from 1 for the smallest; ties share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def _list_sums(item_rows: IntArray, values: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.where(item_rows >= 0, values[item_rows], 0.0).sum(axis=1))


def _list_means(item_rows: IntArray, values: NDArray[Any]) -> DoubleArray:
    return divided(_list_sums(item_rows, values), (item_rows >= 0).sum(axis=1))
