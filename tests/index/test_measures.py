"""Measures of retrieval by hand: accuracy, worst suggestion, acceptance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace.index.structures.exact import Exact
from tastespace.index.trials import DEPTH, Truth, acceptance, accuracies, accuracy, positions, worst_positions
from tastespace.randomness import generator

NONE = -np.inf


def scores(*rows):
    return np.array(rows, np.float32)


def test_accuracy_is_the_share_of_the_true_best_that_was_found():
    best = scores([9, 8, 7, 6], [9, 8, 7, 6])
    found = scores([9, 7, 5, 4], [9, 8, 7, 6])
    assert_allclose(accuracies(found, best), [0.5, 1.0])
    assert accuracy(found, best) == 0.75


def test_of_equal_scores_it_does_not_matter_which_was_found():
    """The third and the fourth of five are as good as each other: sums in another order differ in their last digit."""
    best = scores([9, 8, 7])
    assert accuracy(scores([9, 8, 7.00001]), best) == 1.0
    assert accuracy(scores([9, 8, 6.99995]), best) == 1.0
    assert accuracy(scores([9, 8, 6.99]), best) == pytest.approx(2 / 3)


def test_a_short_list_has_missed_something_unless_there_was_no_more():
    assert accuracy(scores([9, NONE, NONE]), scores([9, 8, 7])) == pytest.approx(1 / 3)
    assert accuracy(scores([9, NONE, NONE]), scores([9, NONE, NONE])) == 1.0
    assert accuracy(scores([NONE, NONE]), scores([NONE, NONE])) == 1.0


def test_positions_count_from_one_and_ties_share_the_first():
    best = scores([9, 8, 8, 7, 1])
    assert_array_equal(positions(scores([9, 8, 7, 0.5, NONE]), best), [[1, 2, 4, 6, 0]])


def test_the_worst_suggestion_and_a_list_that_is_too_short():
    found = np.array([[1, 4, 60], [1, 2, 3], [1, 2, 0]])
    assert_array_equal(worst_positions(found, 3, 1000), [60, 3, 1000])
    assert_array_equal(worst_positions(found[2:], 2, 1000), [2])


def test_acceptance_is_the_share_of_lists_without_a_bad_suggestion():
    worst = np.array([10, 100, 101, 5000])
    assert acceptance(worst) == 0.5
    assert acceptance(worst, n_th=10) == 0.25


def test_truth_finds_true_positions_however_deep():
    rng = generator(0)
    vectors = rng.standard_normal((DEPTH + 500, 4)).astype(np.float32)
    queries = rng.standard_normal((5, 4)).astype(np.float32)
    truth = Truth.of(Exact(threads=1).build(vectors), vectors, queries, 3)
    order = np.argsort(-(queries.astype(np.float64) @ vectors.T.astype(np.float64)), axis=1)
    wanted = [[0, 1, 2], [0, 1, 3], [0, 5, 999], [0, 1, DEPTH + 7], [7, 0, len(vectors) - 1]]
    items = np.array([order[row, places] for row, places in enumerate(wanted)], np.int32)
    judged = truth.judge(items)
    assert_array_equal(judged.worst, [3, 4, 1000, DEPTH + 8, len(vectors)])
    assert_allclose(judged.accuracies, [1, 2 / 3, 1 / 3, 2 / 3, 1 / 3])
    assert judged.acceptance(100) == pytest.approx(0.4)
    assert judged.acceptance(3) == pytest.approx(0.2)


def test_nothing_found_is_as_bad_as_it_can_be():
    vectors = np.eye(3, dtype=np.float32)
    truth = Truth.of(Exact(threads=1).build(vectors), vectors, vectors[:1], 2)
    judged = truth.judge(np.full((1, 2), -1, np.int32))
    assert judged.accuracy == 0.0
    assert_array_equal(judged.worst, [3])
