"""Gradient descent natively: against finite differences, against its twin, and the same bytes for any threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import _native
from tastespace.data.formats.streaming import Triples
from tastespace.models.factorization.als.sweep import WEIGHTINGS
from tastespace.models.factorization.sgd.blocks import N_PARTS, RatingBlocks, deal
from tastespace.randomness import generator
from tests.reference.descent import Point, Problem, block_order, descended, gradient, loss

STRENGTHS = (0.3, 0.2, 0.1, 0.4)


def case(n_users=30, n_items=20, n_factors=5, n=200, *, weighting="weighted", is_squashed=False, seed=1):
    """Ratings in blocks, as kernel and twin take them, and a point."""
    rng = generator(seed)
    user_rows, item_rows = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
    values = (rng.random(n) * 4).astype(np.float32)
    counts = np.bincount(user_rows, minlength=n_users), np.bincount(item_rows, minlength=n_items)
    some = Triples(user_rows.astype(np.int32), item_rows.astype(np.int32), values)
    blocks = RatingBlocks.of(some, (deal(counts[0]), deal(counts[1])), lambda targets: targets.astype(np.float64), rng)
    weights = [WEIGHTINGS[weighting].of(count).astype(np.float64) for count in counts]
    problem = Problem(blocks.user_rows, blocks.item_rows, blocks.targets, *weights, STRENGTHS, 0.7, is_squashed)
    point = Point(
        rng.standard_normal((n_users, n_factors)),
        rng.standard_normal((n_items, n_factors)),
        rng.standard_normal(n_users),
        rng.standard_normal(n_items),
    )
    pulls = [weight / np.maximum(count, 1) for weight, count in zip(weights, counts, strict=True)]
    return blocks, problem, point, pulls, rng.permutation(N_PARTS).astype(np.int32)


def visited(blocks, problem, point, pulls, stages, *, dtype=np.float64, biases=True, slopes=False, **options):
    """The point after the visit, or the gradient; and the sum of squares."""
    users, items, user_bias, item_bias = (np.array(part, dtype) for part in point.parts())
    out = Point(*(np.full_like(part, np.nan) for part in (users, items, user_bias, item_bias)))
    optional = {"user_bias": user_bias, "item_bias": item_bias} if biases else {}
    if slopes:
        optional |= {"user_slopes": out.users, "item_slopes": out.items}
        optional |= {"user_bias_slopes": out.user_bias, "item_bias_slopes": out.item_bias} if biases else {}
    squares = _native.descend_ratings(
        blocks.offsets,
        blocks.user_rows,
        blocks.item_rows,
        blocks.targets.astype(dtype),
        stages,
        users,
        items,
        user_pulls=pulls[0].astype(dtype),
        item_pulls=pulls[1].astype(dtype),
        strengths=np.array(STRENGTHS, dtype),
        offset=problem.offset,
        is_squashed=problem.is_squashed,
        **optional,
        **options,
    )
    return (out if slopes else Point(users, items, user_bias, item_bias)), squares


FORMS_AND_WEIGHTINGS = [
    (is_squashed, weighting) for is_squashed in (False, True) for weighting in ("plain", "weighted", "blended")
]


@pytest.mark.parametrize(("is_squashed", "weighting"), FORMS_AND_WEIGHTINGS)
def test_gradients_are_finite_differences(is_squashed, weighting):
    blocks, problem, point, pulls, stages = case(8, 6, 3, 25, weighting=weighting, is_squashed=is_squashed)
    slopes, squares = visited(blocks, problem, point, pulls, stages, slopes=True)
    errors = problem.values - problem.predicted(problem.scores(point))
    assert_allclose(squares, np.sum(errors**2), rtol=1e-12)
    rated = [np.bincount(problem.user_rows, minlength=8) > 0, np.bincount(problem.item_rows, minlength=6) > 0] * 2
    step = 1e-5
    for which, (part, slope) in enumerate(zip(point.parts(), slopes.parts(), strict=True)):
        for place in np.ndindex(part.shape):
            if not rated[which][place[0]]:
                assert slope[place] == 0  # nobody visits it
                continue
            there, back = point.copy(), point.copy()
            there.parts()[which][place] += step
            back.parts()[which][place] -= step
            expected = (loss(problem, there) - loss(problem, back)) / (2 * step)
            assert_allclose(slope[place], expected, rtol=1e-6, atol=1e-6)


def test_finite_differences_could_fail():
    """With the other weighting's penalty the gradient is another one: what the printed formulas would give."""
    _, problem, point, _, _ = case(8, 6, 3, 25, weighting="weighted")
    _, plain, _, _, _ = case(8, 6, 3, 25, weighting="plain")
    assert np.abs(gradient(problem, point).users - gradient(plain, point).users).max() > 0.01


@settings(max_examples=40, deadline=None)
@given(
    n_users=st.integers(1, 40),
    n_items=st.integers(1, 40),
    n_factors=st.sampled_from([1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65]),
    n=st.integers(0, 150),
    is_squashed=st.booleans(),
    weighting=st.sampled_from(list(WEIGHTINGS)),
    seed=st.integers(0, 1000),
)
def test_gradient_and_epoch_equal_the_twin(n_users, n_items, n_factors, n, is_squashed, weighting, seed):
    sizes = {"weighting": weighting, "is_squashed": is_squashed, "seed": seed}
    blocks, problem, point, pulls, stages = case(n_users, n_items, n_factors, n, **sizes)
    expected, squares = descended(problem, point, 0.01, 0.02, block_order(blocks.offsets, stages))
    after, met = visited(blocks, problem, point, pulls, stages, rate=0.01, bias_rate=0.02)
    slopes, _ = visited(blocks, problem, point, pulls, stages, slopes=True)
    single, _ = visited(blocks, problem, point, pulls, stages, rate=0.01, bias_rate=0.02, dtype=np.float32)
    assert_allclose(met, squares, rtol=1e-10, atol=1e-10)
    for ours, twins, less in zip(after.parts(), expected.parts(), single.parts(), strict=True):
        assert_allclose(ours, twins, rtol=1e-10, atol=1e-10)
        assert_allclose(less, twins, rtol=1e-4, atol=2e-4)
    for ours, twins in zip(slopes.parts(), gradient(problem, point).parts(), strict=True):
        assert_allclose(ours, twins, rtol=1e-9, atol=1e-9)


def test_the_twin_notices_a_step_along_the_gradient():
    """The sign that two printed algorithms have."""
    blocks, problem, point, pulls, stages = case()
    after, _ = visited(blocks, problem, point, pulls, stages, rate=0.01, bias_rate=0.02)
    wrong, _ = descended(problem, point, -0.01, -0.02, block_order(blocks.offsets, stages))
    assert np.abs(after.users - wrong.users).max() > 1e-3


def test_batches_are_shares_of_the_gradient():
    blocks, problem, point, pulls, stages = case(n=500)
    whole, squares = visited(blocks, problem, point, pulls, stages, slopes=True)
    parts = [
        visited(blocks, problem, point, pulls, stages, slopes=True, batch=batch, n_batches=3) for batch in range(3)
    ]
    assert_allclose(sum(met for _, met in parts), squares, rtol=1e-12)
    for which, total in enumerate(whole.parts()):
        assert_allclose(sum(part.parts()[which] for part, _ in parts), total, rtol=1e-9, atol=1e-9)


def test_without_biases_only_factors_move():
    blocks, problem, point, pulls, stages = case()
    none = Point(point.users, point.items, np.zeros(30), np.zeros(20))
    order = block_order(blocks.offsets, stages)
    expected, _ = descended(problem, none, 0.01, 0.0, order)
    after, _ = visited(blocks, problem, none, pulls, stages, rate=0.01, bias_rate=0.02, biases=False)
    assert_allclose(after.users, expected.users, rtol=1e-10)
    assert_allclose(after.items, expected.items, rtol=1e-10)


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bytes_for_any_number_of_threads(slopes, dtype):
    blocks, problem, point, pulls, stages = case(300, 200, 9, 20_000)
    options = {"slopes": slopes, "dtype": dtype} | ({} if slopes else {"rate": 0.01, "bias_rate": 0.02})
    one, squares = visited(blocks, problem, point, pulls, stages, **options, threads=1)
    for threads in (2, 3, 8):
        many, met = visited(blocks, problem, point, pulls, stages, **options, threads=threads)
        assert met == squares
        for ours, theirs in zip(one.parts(), many.parts(), strict=True):
            assert_array_equal(ours, theirs)


def test_blocks_share_no_rows_within_a_stage():
    blocks, _, _, _, _ = case(300, 200, 2, 5_000)
    for stage in range(N_PARTS):
        users, items = set(), set()
        for part in range(N_PARTS):
            block = part * N_PARTS + (part + stage) % N_PARTS
            here = slice(blocks.offsets[block], blocks.offsets[block + 1])
            own_users, own_items = set(blocks.user_rows[here].tolist()), set(blocks.item_rows[here].tolist())
            assert not users & own_users
            assert not items & own_items
            users |= own_users
            items |= own_items


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 2, "n_batches": 2}, "batch"),
        ({"stages": np.array([99], np.int32)}, "stages"),
    ],
)
def test_senseless_arguments_are_refused(changes, message):
    blocks, problem, point, pulls, stages = case()
    with pytest.raises(ValueError, match=message):
        visited(blocks, problem, point, pulls, changes.pop("stages", stages), rate=0.01, **changes)
