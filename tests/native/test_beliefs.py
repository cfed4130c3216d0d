"""Beliefs of pairs equal their NumPy twin, in any order of pairs and on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import beliefs as reference

from tastespace import _native


def problem(rng, n_pairs, n_draws, n_factors, *, biases, n_beliefs=3, n_items=20):
    """Random arguments, sorted by belief, every seventh pair or so of an item never seen."""
    width = n_factors + biases
    return {
        "belief_rows": np.sort(rng.integers(0, n_beliefs, n_pairs)).astype(np.int32),
        "item_rows": np.maximum(rng.integers(-n_items // 6, n_items, n_pairs), -1).astype(np.int32),
        "items": rng.standard_normal((n_items, n_draws, width), dtype=np.float32),
        "means": rng.standard_normal((n_beliefs, n_draws, width), dtype=np.float32),
        "roots": np.triu(rng.standard_normal((n_beliefs, n_draws, width, width), dtype=np.float32)),
        "cold_item": rng.standard_normal((n_draws, width), dtype=np.float32),
        "biases": biases,
    }


def weights_of(rng, arguments):
    weights = rng.gamma(1.0, size=arguments["means"].shape[:2])
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def pairs(arguments, threads=1):
    shape = len(arguments["belief_rows"]), arguments["items"].shape[1]
    out = {"out_means": np.full(shape, np.nan, np.float32), "out_sds": np.full(shape, np.nan, np.float32)}
    _native.belief_pairs(**arguments, **out, threads=threads)
    return out["out_means"], out["out_sds"]


def summary(arguments, weights, threads=1):
    n = len(arguments["belief_rows"])
    out = {"out_mean": np.full(n, np.nan, np.float32), "out_sd": np.full(n, np.nan, np.float32)}
    _native.belief_summary(**arguments, weights=weights, **out, threads=threads)
    return out["out_mean"], out["out_sd"]


def assert_equals_twin(arguments, weights):
    size = max(arguments["items"].shape[2], 1) ** 0.5
    got = (*pairs(arguments), *summary(arguments, weights))
    expected = (*reference.belief_pairs(**arguments), *reference.belief_summary(**arguments, weights=weights))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * size)


@given(
    n_pairs=st.integers(0, 40),
    n_draws=st.integers(1, 6),
    n_factors=st.integers(1, 70),
    biases=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_its_twin_on_generated_shapes(n_pairs, n_draws, n_factors, biases, seed):
    rng = np.random.default_rng(seed)
    arguments = problem(rng, n_pairs, n_draws, n_factors, biases=biases)
    assert_equals_twin(arguments, weights_of(rng, arguments))


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("n_factors", [1, 2, 3, 4, 7, 8, 14, 15, 16, 17, 30, 31, 32, 33, 47, 48, 63, 64, 65, 128, 130])
def test_equals_its_twin_at_the_edges_of_registers_and_blocks(n_factors, biases, rng):
    arguments = problem(rng, 150, 3, n_factors, biases=biases, n_beliefs=2)
    assert_equals_twin(arguments, weights_of(rng, arguments))


def test_more_draws_than_are_gathered_at_once(rng):
    arguments = problem(rng, 30, 150, 20, biases=True)
    assert_equals_twin(arguments, weights_of(rng, arguments))


def test_biases_only(rng):
    arguments = problem(rng, 10, 4, 0, biases=True)
    assert_equals_twin(arguments, weights_of(rng, arguments))


def test_the_order_of_pairs_changes_no_byte(rng):
    arguments = problem(rng, 500, 21, 32, biases=True, n_beliefs=40)
    weights, order = weights_of(rng, arguments), rng.permutation(500)
    shuffled = arguments | {name: arguments[name][order] for name in ("belief_rows", "item_rows")}
    results = [(*pairs(here), *summary(here, weights)) for here in (arguments, shuffled)]
    for sorted_result, shuffled_result in zip(*results, strict=True):
        assert sorted_result[order].tobytes() == shuffled_result.tobytes()


@pytest.mark.parametrize("n_beliefs", [1, 30])
def test_same_bytes_with_any_number_of_threads(n_beliefs, rng):
    arguments = problem(rng, 1500, 9, 20, biases=True, n_beliefs=n_beliefs, n_items=300)
    weights = weights_of(rng, arguments)
    one = (*pairs(arguments), *summary(arguments, weights))
    for threads in (2, 3, 8):
        for got, expected in zip((*pairs(arguments, threads), *summary(arguments, weights, threads)), one, strict=True):
            assert got.tobytes() == expected.tobytes()


def test_draws_that_agree_leave_only_their_own_spread(rng):
    """Means far from zero: the variance between draws must not drown in rounding."""
    arguments = problem(rng, 20, 50, 8, biases=True)
    for name in ("items", "means", "cold_item"):
        arguments[name][:] = np.take(arguments[name], [0], axis=-2)
    arguments["roots"][:] = 1e-3 * arguments["roots"][:, :1]
    arguments["items"][..., -1] += 1000
    arguments["cold_item"][..., -1] += 1000
    weights = weights_of(rng, arguments)
    _, sd = summary(arguments, weights)
    np.testing.assert_allclose(sd, pairs(arguments)[1][:, 0], rtol=1e-3)


def test_folded_in_users_have_the_spread_of_their_posterior(rng):
    """The two kernels agree on what a root is: |T^T x| is the standard deviation of a score."""
    items = rng.standard_normal((6, 2, 4), dtype=np.float32)
    means, roots = np.empty((1, 2, 4), np.float32), np.empty((1, 2, 4, 4), np.float32)
    _native.fold_in(
        np.array([0, 5], np.int64),
        np.arange(5, dtype=np.int32),
        np.ones(5, np.float32),
        items,
        np.tile(np.eye(3, dtype=np.float32), (2, 1, 1)),
        np.zeros((2, 3), np.float32),
        np.full(2, 2.0),
        means,
        bias_precision=np.ones(2),
        bias_linear=np.zeros(2),
        roots=roots,
    )
    arguments = {"belief_rows": np.zeros(1, np.int32), "item_rows": np.array([5], np.int32), "items": items}
    _, sds = pairs(arguments | {"means": means, "roots": roots, "cold_item": None, "biases": True})
    for draw in range(2):
        design = np.column_stack([items[:5, draw, :3], np.ones(5)]).astype(np.float64)
        point = np.append(items[5, draw, :3], 1.0)
        covariance = np.linalg.inv(np.eye(4) + 2.0 * design.T @ design)
        assert sds[0, draw] == pytest.approx(np.sqrt(point @ covariance @ point), rel=1e-5)


def test_the_transposed_root_would_be_noticed(rng):
    """Broken twin of the test above: |T x| is something else."""
    root = np.triu(rng.standard_normal((4, 4)))
    point = rng.standard_normal(4)
    assert np.linalg.norm(root @ point) != pytest.approx(np.linalg.norm(root.T @ point), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("belief_rows", np.array([0, 3], np.int32), "belief_rows"),
        ("belief_rows", np.array([-1, 0], np.int32), "belief_rows"),
        ("item_rows", np.array([0, 20], np.int32), "item_rows"),
        ("item_rows", np.array([-2, 0], np.int32), "item_rows"),
        ("item_rows", np.array([0], np.int32), "item_rows"),
        ("cold_item", None, "cold_item"),
        ("cold_item", np.zeros((4, 4), np.float32), "cold_item"),
        ("means", np.zeros((3, 4, 5), np.float32), "means"),
        ("roots", np.zeros((3, 5, 4, 5), np.float32), "roots"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, value, message, rng):
    arguments = problem(rng, 2, 5, 3, biases=True) | {"item_rows": np.array([-1, 4], np.int32)}
    weights = weights_of(rng, arguments)
    with pytest.raises(ValueError, match=message):
        pairs(arguments | {name: value})
    with pytest.raises(ValueError, match=message):
        summary(arguments | {name: value}, weights)


def test_results_and_weights_that_do_not_fit_are_refused(rng):
    arguments = problem(rng, 2, 5, 3, biases=True)
    wide, narrow = np.zeros((2, 5), np.float32), np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="out_sds"):
        _native.belief_pairs(**arguments, out_means=wide, out_sds=wide[:1])
    with pytest.raises(ValueError, match="out_sd"):
        _native.belief_summary(**arguments, weights=np.zeros((3, 5), np.float32), out_mean=narrow, out_sd=narrow[:1])
    with pytest.raises(ValueError, match="weights"):
        _native.belief_summary(**arguments, weights=wide, out_mean=narrow, out_sd=narrow.copy())
