"""Searching in fewer coordinates: what is kept, what comes back, and what a vote of draws finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace.errors import InvalidParameterError
from tastespace.index.reduction import Reduced, SharedReductions, Unbiased, Vote, Whitened
from tastespace.index.search import FEW
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.randomness import generator

N_DRAWS, N_FACTORS = 8, 5


def stacked(n_items=600, n_queries=400, noise=0.15, seed=3):
    """Draws of items and users that say nearly the same, each turned in a way of its own; users live in a few
    directions more than in others."""
    rng = generator(seed)
    items, users = rng.standard_normal((n_items, N_FACTORS)), rng.standard_normal((n_queries, N_FACTORS))
    users *= np.linspace(2, 0.2, N_FACTORS)
    of_items, of_users = [], []
    for _ in range(N_DRAWS):
        turn = np.linalg.qr(rng.standard_normal((N_FACTORS, N_FACTORS)))[0]
        of_items.append((items + noise * rng.standard_normal(items.shape)) @ turn)
        of_users.append((users + noise * rng.standard_normal(users.shape)) @ turn)
    return np.hstack(of_items).astype(np.float32), np.hstack(of_users).astype(np.float32) / N_DRAWS


ITEMS, USERS = stacked()
KNOWN, NEW = USERS[:300], USERS[300:]
TRUE = Exact().build(ITEMS).search(NEW, 10)


def recall(found):
    return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.items, TRUE.items, strict=True)])


def test_with_all_coordinates_scores_differ_by_a_constant():
    whole = Whitened.of(ITEMS, KNOWN, ITEMS.shape[1], generator(0))
    codes, asked = whole.items(ITEMS), whole.queries(NEW, 1)
    expected = NEW @ (ITEMS - ITEMS.mean(axis=0)).T
    assert_allclose(asked @ codes.T, expected, atol=2e-3)


def test_of_as_many_coordinates_those_that_users_care_about_keep_more():
    def lost(queries):
        short = Whitened.of(ITEMS, queries, 3, generator(0))
        kept = short.queries(NEW, 1) @ short.items(ITEMS).T
        return np.mean((kept - NEW @ (ITEMS - ITEMS.mean(axis=0)).T) ** 2)

    assert lost(KNOWN) < 0.5 * lost(None)


def test_no_other_coordinates_keep_more():
    """On average over the queries they are found by, what is lost is what the smaller singular values say."""
    short = Whitened.of(ITEMS, KNOWN, 4, generator(0))
    exact = KNOWN.astype(np.float64) @ (ITEMS - ITEMS.mean(axis=0)).T
    lost = np.sum((short.queries(KNOWN, 1) @ short.items(ITEMS).T - exact) ** 2)
    least = np.sum(np.linalg.svd(exact, compute_uv=False)[4:] ** 2)
    assert lost == pytest.approx(least, rel=0.02)


def test_fewer_coordinates_are_the_first_of_more():
    """So that several structures can share what takes long to find."""
    more, fewer = (Whitened.of(ITEMS, KNOWN, n, generator(0)) for n in (30, 7))
    for name, array in vars(more.first(7)).items():
        assert_array_equal(array, vars(fewer)[name])
    design = Reduced(inner=InvertedFile(n_cells=10), n_coordinates=7, candidates=20)
    shared, _ = SharedReductions().build(replace(design), ITEMS, KNOWN)
    alone = replace(design, inner=InvertedFile(n_cells=10)).build(ITEMS, KNOWN)
    assert_array_equal(shared.search(NEW, 10).items, alone.search(NEW, 10).items)


def test_a_second_look_finds_what_few_coordinates_miss():
    few = [Reduced(n_coordinates=3, candidates=n).build(ITEMS, KNOWN).search(NEW, 10) for n in (10, 50, 600)]
    found = [recall(one) for one in few]
    assert found == sorted(found)
    assert found[0] < 0.8
    assert found[2] == 1
    assert_array_equal(few[2].items, TRUE.items)


def test_draws_in_few_coordinates():
    index = Reduced(inner=InvertedFile(n_cells=20, probes=10), n_coordinates=6, candidates=50).build(ITEMS, KNOWN)
    assert recall(index.search(NEW, 10)) > 0.95
    assert "in 6 of 40 coordinates" in index.description


def test_a_vote_finds_less_than_the_stack_and_more_than_one_draw():
    vote = Vote(n_parts=N_DRAWS, candidates=10).build(ITEMS).search(NEW, 10)
    alone = Exact().build(ITEMS[:, :N_FACTORS]).search(NEW[:, :N_FACTORS], 10)
    assert recall(alone) < recall(vote) < 1


def test_votes_by_hand():
    """Three parts of one coordinate, two items a list: 0 and 2, 2 and 3, 3 and 2. Sums alone would choose 0 and 2."""
    items = np.array([[20, -1, -1], [0, 0, 0], [5, 5, 5], [0, 1, 6]], np.float32)
    found = Vote(n_parts=3, candidates=2).build(items).search(np.ones((1, 3), np.float32), 2)
    assert found.items.tolist() == [[2, 3]]
    assert found.scores.tolist() == [[15, 7]]


def test_a_vote_of_structures_with_structures_inside():
    """Each part has its own."""
    plain = Vote(n_parts=N_DRAWS, candidates=30).build(ITEMS).search(NEW, 10)
    inner = Reduced(inner=InvertedFile(n_cells=5, probes=5), n_coordinates=5, candidates=600)
    nested = Vote(n_parts=N_DRAWS, candidates=30, inner=inner).build(ITEMS).search(NEW, 10)
    assert_array_equal(nested.items, plain.items)


def test_the_structure_that_was_given_stays_unbuilt():
    given = InvertedFile(n_cells=5)
    Reduced(inner=given, n_coordinates=5).build(ITEMS, KNOWN)
    assert not hasattr(given, "n_items_")


def test_few_allowed_items_are_looked_at_in_all_coordinates():
    allowed = np.zeros(len(ITEMS), bool)
    allowed[:15] = True
    index = Reduced(inner=InvertedFile(n_cells=5), n_coordinates=1, candidates=3).build(ITEMS, KNOWN)
    expected = Exact().build(ITEMS).search(NEW, 10, allowed=allowed)
    assert_array_equal(index.search(NEW, 10, allowed=allowed).items, expected.items)


def test_biases_are_left_out_of_the_search_and_not_of_the_order():
    rng = generator(1)
    items, queries = rng.standard_normal((300, 6)).astype(np.float32), rng.standard_normal((20, 6)).astype(np.float32)
    queries[:, 2] = 1
    reduction = Unbiased.of(queries)
    assert reduction.kept.tolist() == [0, 1, 3, 4, 5]
    index = Reduced(reduction="unbiased", candidates=300).build(items, queries)
    assert index.inner.n_dimensions_ == 5
    expected = Exact().build(items).search(queries, 10)
    assert_array_equal(index.search(queries, 10).items, expected.items)


def test_bad_settings_are_refused():
    with pytest.raises(InvalidParameterError, match="reduction is 'flat'; expected one of whitened, unbiased"):
        Reduced(reduction="flat").build(ITEMS)
    with pytest.raises(InvalidParameterError, match="there are no queries; expected some of them"):
        Reduced(reduction="unbiased").build(ITEMS)
    with pytest.raises(InvalidParameterError, match="candidates is 0; expected a whole number of at least 1"):
        Reduced(candidates=0).build(ITEMS)
    with pytest.raises(InvalidParameterError, match="vectors have 40 coordinates; expected 7 parts of equal length"):
        Vote(n_parts=7).build(ITEMS)


@pytest.mark.parametrize("share", [0.005, 0.02, 0.3])
def test_few_allowed_items_are_all_looked_at(share):
    """And where many are allowed, more cells are looked into, so that as much is found."""
    rng = generator(2)
    allowed = rng.random(len(ITEMS)) < share
    index = InvertedFile(n_cells=30, probes=8).build(ITEMS)
    found, expected = index.search(NEW, 3, allowed=allowed), Exact().build(ITEMS).search(NEW, 3, allowed=allowed)
    if share < FEW:
        assert_array_equal(found.items, expected.items)
    else:
        assert np.mean(found.items == expected.items) > 0.9
