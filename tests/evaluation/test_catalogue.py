"""What lists do beyond being right, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tastespace import Ratings
from tastespace.evaluation.metrics import catalogue
from tastespace.evaluation.metrics.catalogue import (
    coverage,
    coverage_influence,
    diversity,
    exposure,
    gini,
    gini_influence,
    novelty,
    popularity,
)
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

# Four items; of eight users 8, 4, 2 and 1 have rated them.
SHARES = np.array([1, 1 / 2, 1 / 4, 1 / 8])
LISTS = np.array([[0, 1], [2, 3], [3, -1], [-1, -1]], np.int32)


def test_novelty_by_hand():
    """In bits: 0, 1, 2 and 3 for the four items."""
    assert novelty(LISTS, SHARES)[:3].tolist() == [0.5, 2.5, 3.0]
    assert np.isnan(novelty(LISTS, SHARES)[3])  # an empty list has none


def test_an_item_without_ratings_is_as_novel_as_the_rarest():
    assert novelty(np.array([[1]], np.int32), np.array([0.5, 0.0]))[0] == 1.0


def test_popularity_by_hand():
    assert popularity(LISTS, SHARES)[:3].tolist() == [3 / 4, 3 / 16, 1 / 8]
    assert np.isnan(popularity(LISTS, SHARES)[3])


def test_diversity_by_hand():
    """Item a was rated by users 1, 2, 3, 4; b by 3, 4, 5; c by 6.

    cos(a, b) = 2 / sqrt(4 * 3); cos(a, c) = cos(b, c) = 0.
    """
    users, items = [1, 2, 3, 4, 3, 4, 5, 6], list("aaaabbbc")
    raters = Ratings.from_arrays(users, items, [1.0] * 8).by_item
    lists = np.array([[0, 1, 2], [1, 0, -1], [2, 1, -1], [0, -1, -1]], np.int32)
    similar = 2 / np.sqrt(12)
    assert diversity(lists, raters)[:3] == pytest.approx([1 - similar / 3, 1 - similar, 1.0])
    assert np.isnan(diversity(lists, raters)[3])  # one item is not more or less diverse
    assert np.isnan(diversity(lists[:, :1], raters)).all()


@pytest.mark.parametrize(("pairs", "size"), [(1 << 20, 1 << 26), (7, 1 << 26), (1 << 20, 3000), (5, 100)])
def test_diversity_is_the_same_in_blocks_of_any_size(pairs, size, monkeypatch):
    ratings = tastes(300, 50, rng=generator(3))[0]
    lists = np.argsort(generator(4).random((20, 50)), axis=1)[:, :6].astype(np.int32)
    matrix = np.zeros((300, 50))
    matrix[ratings.user_rows, ratings.item_rows] = 1
    cosines = matrix.T @ matrix / np.sqrt(np.outer(matrix.sum(0), matrix.sum(0)))
    one, other = np.triu_indices(6, 1)
    expected = 1 - cosines[lists[:, one], lists[:, other]].mean(axis=1)
    monkeypatch.setattr(catalogue, "BLOCK_PAIRS", pairs)
    monkeypatch.setattr(catalogue, "BLOCK_BYTES", size)
    assert diversity(lists, ratings.by_item) == pytest.approx(expected, abs=1e-12)


def test_exposure_coverage_and_gini_by_hand():
    """Item 0 in three lists, item 1 in one, items 2 and 3 in none.

    Gini: the mean absolute difference of two items (with replacement), halved, over the mean. Differences of
    3, 1, 0, 0: twice (2 + 3 + 3 + 1 + 1 + 0) = 20 of 16 pairs, mean 20 / 16, the mean exposure is 1.
    """
    lists = np.array([[0, 1], [0, -1], [0, -1]], np.int32)
    exposures = exposure(lists, 4)
    assert exposures.tolist() == [3, 1, 0, 0]
    assert coverage(exposures) == 0.5
    assert gini(exposures) == pytest.approx(20 / 16 / 2)
    assert gini(np.array([2, 2, 2])) == 0
    assert gini(np.array([0, 0, 0, 9])) == pytest.approx(3 / 4)
    assert np.isnan(gini(np.zeros(3)))


@given(arrays(np.int64, st.integers(1, 30), elements=st.integers(0, 50)))
def test_gini_is_half_the_relative_mean_difference(exposures):
    if exposures.sum() == 0:
        return
    differences = np.abs(exposures[:, None] - exposures[None, :]).mean()
    assert gini(exposures) == pytest.approx(differences / 2 / exposures.mean(), abs=1e-12)
    assert -1e-12 <= gini(exposures) < 1


def test_influences_are_what_happens_when_a_user_goes():
    rng = generator(5)
    lists = np.argsort(rng.random((200, 60)) ** 3 - np.arange(60) / 30, axis=1)[:, :5].astype(np.int32)
    exposures = exposure(lists, 60)
    without = [exposure(np.delete(lists, user, axis=0), 60) for user in range(len(lists))]
    lost = coverage(exposures) - np.array([coverage(other) for other in without])
    assert coverage_influence(lists, exposures) == pytest.approx(lost, abs=1e-12)
    # The Gini coefficient moves in a straight line only for small steps: compare to first order.
    moved = gini(exposures) - np.array([gini(other) for other in without])
    influence = gini_influence(lists, exposures)
    assert np.corrcoef(moved, influence)[0, 1] > 0.99
    assert influence.sum() == pytest.approx(0, abs=1e-12)
    assert influence.std() == pytest.approx(moved.std(), rel=0.1)
