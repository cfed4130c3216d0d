"""Measures of order: of pairs of test items, of graded test items, and of lists, one value per user.

The first ones use only the items that a user rated in the test part, so that nothing has to be assumed about what
they did not rate. A pair is of two test items of one user, and counts if they are rated differently. With

    n       pairs of different ratings
    right   those of them that are predicted in the order of the ratings, wrong the other way round, tied equal
    m       pairs of different predictions, whatever the ratings

    pairwise accuracy = (right + tied / 2) / n
    Kendall's tau-b   = (right - wrong) / sqrt(n m)                  (Kendall 1945)

A user whose predictions are all equal has m = 0: nothing is in order and nothing out of it, and tau is 0. Leaving out
such users would favour the model that says nothing about them. A user without two different ratings has
neither measure.

Measures of lists are functions of small arrays that return one value per user.

`hits` (users x k) says which places of a list hold a relevant item, best first. `gains` (users x k) is the gain of
each place, `ideal_gains` (users x k) that of the best possible list. Relevant items that a model
cannot recommend count in `n_relevant` and in `ideal_gains` all the same. A place without an item is a miss.
Undefined values, such as the recall of a user without relevant items, are NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatMatrix, IntArray
from tastespace.evaluation.resampling import Sums, divided


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

    With this divisor, a list that begins with relevant items only has the value 1, whatever k is.
    """
    places = np.arange(1, hits.shape[1] + 1)
    precisions = np.cumsum(hits, axis=1) / places
    return divided((precisions * hits).sum(axis=1), np.minimum(n_relevant, hits.shape[1]))


def ndcg(gains: NDArray[Any], ideal_gains: NDArray[Any]) -> DoubleArray:
    """The gains discounted by 1 / log2(place + 1), added up, as a share of those of the best list."""
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
        n_others = np.searchsorted(line, -np.inf, side="right")  # items that are no candidates
        below, up_to = np.searchsorted(line, own, side="left"), np.searchsorted(line, own, side="right")
        # One of two relevant items is above the other, or they tie; each ties with itself: count^2 / 2 in all.
        wins[user] = (below + up_to).sum() / 2 - count * n_others - count**2 / 2
        n_candidates[user] = len(line) - n_others
    return divided(wins, np.asarray(n_relevant) * (n_candidates - counts))


TAU, ACCURACY, NDCG = "kendall_tau", "pairwise_accuracy", "ndcg_rated"
OF_ORDER = (TAU, ACCURACY, NDCG)

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of correctly and wrongly ordered pairs in each group of ratings, such as those of a user."""

    different: Counts  # pairs of different true ratings
    apart: Counts  # pairs of different predictions, whatever the ratings
    right: Counts  # of `different`: predicted in the right order
    wrong: Counts  # of `different`: predicted the other way round

    @classmethod
    def of(cls, predicted: NDArray[Any], true: NDArray[Any], groups: NDArray[Any], n_groups: int) -> PairCounts:
        """Count in n log n steps for n ratings, without enumerating the pairs."""
        order = np.lexsort((predicted, true, groups))
        group = np.asarray(groups, np.int64)[order]
        value = np.asarray(true)[order]
        ranks, equal_predicted = _ranked(np.asarray(predicted)[order], group, n_groups)
        is_new_group = _is_first(group)
        is_new_value = is_new_group | _is_first(value)
        everything = _pairs(np.bincount(group, minlength=n_groups))
        equal_true = _tied(is_new_value, group, n_groups)
        equal_both = _tied(is_new_value | _is_first(ranks), group, n_groups)
        # Equal ratings are sorted by their predictions, so that none of them is an inversion.
        wrong = inversions(ranks, group, n_groups)
        right = everything - equal_true - equal_predicted + equal_both - wrong
        return cls(everything - equal_true, everything - equal_predicted, right, wrong)

    def accuracy(self) -> DoubleArray:
        """Pairwise accuracy; NaN for a group of equal ratings."""
        tied = self.different - self.right - self.wrong
        return divided(self.right + tied / 2, self.different)

    def tau(self) -> DoubleArray:
        """Kendall's tau-b; 0 for a group of equal predictions, NaN for one of equal ratings."""
        # The roots first: a product of two numbers of pairs may overflow.
        scale = np.sqrt(self.different) * np.sqrt(self.apart)
        tau = divided(self.right - self.wrong, scale)
        return np.where((self.different > 0) & (self.apart == 0), 0.0, tau)


def kendall_tau(predicted: NDArray[Any], true: NDArray[Any], groups: NDArray[Any], n_groups: int) -> DoubleArray:
    """Kendall's tau-b of predicted and true ratings, within each group, such as a user: 1 all in order, -1 none.

    One value per group: 0 where all predictions of a group are equal; NaN where all its true ratings are.
    """
    return PairCounts.of(predicted, true, groups, n_groups).tau()


def pairwise_accuracy(predicted: NDArray[Any], true: NDArray[Any], groups: NDArray[Any], n_groups: int) -> DoubleArray:
    """The share of pairs of a group with different true ratings in the right order; predicted ties count half.

    One value per group. Random predictions achieve one half; NaN where all true ratings of a group are equal.
    """
    return PairCounts.of(predicted, true, groups, n_groups).accuracy()


def ndcg_of_rated(
    predicted: NDArray[Any], gains: NDArray[Any], groups: NDArray[Any], n_groups: int, k: int
) -> DoubleArray:  # one per group
    """NDCG of the first k items of each group, ordered by their predictions.

    A gain is divided by log2(place + 1), and the sum by that of the best order. Items with equal predictions share
    their mean gain, the mean over all their orders. NaN for a group without any gain.
    """
    return _ndcgs(predicted, gains, groups, n_groups, [k])[k]


def order_sums(
    scores: NDArray[Any],  # by which items are ordered, one per test rating
    true: NDArray[Any],
    users: NDArray[Any],
    n_users: int,
    *,
    lowest: float,  # rating, which has the gain 0
    ks: Iterable[int],
) -> dict[str, Sums]:
    """The measures of order in a report; empty where no user has different ratings."""
    counts = PairCounts.of(scores, true, users, n_users)
    gains = np.maximum(np.asarray(true, np.float64) - lowest, 0)
    has_order = counts.different > 0
    if not has_order.any():
        return {}
    ndcgs = _ndcgs(scores, gains, users, n_users, ks)
    values = {TAU: counts.tau(), ACCURACY: counts.accuracy()}
    values |= {f"{NDCG}@{k}": np.where(has_order, found, np.nan) for k, found in ndcgs.items()}
    return {name: Sums.of_values(found) for name, found in values.items()}


def inversions(ranks: Counts, groups: Counts, n_groups: int) -> Counts:  # one per group
    """The number of pairs of each group in the wrong order: the larger rank first. `groups` ascend.

    Bit by bit, the highest first: among ranks that are equal so far, a 1 before a 0 is an inversion, and each pair of
    different ranks differs first in one bit. After each bit zeros are moved before ones, keeping their order.
    """
    found = np.zeros(n_groups, np.int64)
    if not len(ranks):
        return found
    blocks = groups  # ascending: ranks that are equal so far are adjacent
    for bit in reversed(range(int(ranks.max()).bit_length())):
        is_one = (ranks >> bit & 1).astype(np.bool_)
        starts = np.flatnonzero(_is_first(blocks))
        lengths = np.diff(starts, append=len(blocks))
        first = np.repeat(starts, lengths)  # where the block of each begins
        ones = np.cumsum(is_one)
        ones_before: Counts = ones - (ones - is_one)[first] - is_one
        zero = ~is_one
        found += np.bincount(groups[zero], ones_before[zero], n_groups).astype(np.int64)
        n_zeros = np.repeat(np.add.reduceat(zero.astype(np.int64), starts), lengths)
        zeros_before = np.arange(len(blocks)) - first - ones_before
        places = first + np.where(is_one, n_zeros + ones_before, zeros_before)
        moved_ranks, moved_blocks = np.empty_like(ranks), np.empty(len(blocks), np.int64)
        moved_ranks[places] = ranks
        # Groups stay in place; blocks get ascending numbers.
        moved_blocks[places] = 2 * (np.cumsum(_is_first(blocks)) - 1) + is_one
        ranks, blocks = moved_ranks, moved_blocks
    return found


def _ndcgs(
    scores: NDArray[Any], gains: NDArray[Any], groups: NDArray[Any], n_groups: int, ks: Iterable[int]
) -> dict[int, DoubleArray]:  # by length, one per group
    """NDCG of the first k items of each group, ordered by their scores."""
    gains, groups = np.asarray(gains, np.float64), np.asarray(groups, np.int64)
    found, best = (_discounted(np.asarray(by), gains, groups) for by in (scores, gains))

    def added_up(k: int, group: Counts, place: Counts, gain: DoubleArray) -> DoubleArray:
        return np.asarray(np.bincount(group[place < k], gain[place < k], n_groups))

    return {k: divided(added_up(k, *found), added_up(k, *best)) for k in ks}


def _discounted(scores: NDArray[Any], gains: DoubleArray, groups: Counts) -> tuple[Counts, Counts, DoubleArray]:
    """Items ordered by their scores: group, place in it (from 0), and discounted gain; ties share it."""
    order = np.lexsort((-scores, groups))
    group = groups[order]
    is_new_group = _is_first(group)
    starts = np.flatnonzero(is_new_group)
    places = np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))
    tie = np.cumsum(is_new_group | _is_first(scores[order])) - 1
    mean_gain = np.bincount(tie, gains[order]) / np.bincount(tie)
    return group, places, mean_gain[tie] / np.log2(places + 2.0)


def _is_first(values: NDArray[Any]) -> BoolArray:
    """Which values differ from the one before; the first does."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _ranked(values: NDArray[Any], groups: Counts, n_groups: int) -> tuple[Counts, Counts]:
    """The rank of each value in its group, from 0, the same for ties; and the number of pairs of ties by group."""
    order = np.lexsort((values, groups))
    group = groups[order]
    is_new_group = _is_first(group)
    is_new = is_new_group | _is_first(values[order])
    places = np.cumsum(is_new) - 1
    starts = np.flatnonzero(is_new_group)
    ranks = np.empty(len(values), np.int64)
    ranks[order] = places - np.repeat(places[starts], np.diff(starts, append=len(values)))
    return ranks, _tied(is_new, group, n_groups)


def _pairs(counts: NDArray[Any]) -> Counts:
    return np.asarray(counts * (counts - 1) // 2)


def _tied(is_first: BoolArray, groups: Counts, n_groups: int) -> Counts:
    """The number of pairs within the runs that begin where `is_first`, by group."""
    starts = np.flatnonzero(is_first)
    pairs = _pairs(np.diff(starts, append=len(groups)))
    return np.bincount(groups[starts], pairs, n_groups).astype(np.int64)
