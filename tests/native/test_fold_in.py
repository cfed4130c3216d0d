"""Users folded into draws of the items equal their NumPy twin, on one thread as on several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import beliefs as reference

from tastespace import _native

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}


def problem(rng, counts, n_items, n_draws, n_factors, dtype, *, biases):
    """Random arguments of a well-conditioned problem."""
    n, width = int(np.sum(counts)), n_factors + biases
    roots = rng.standard_normal((n_draws, n_factors, n_factors)) / max(n_factors, 1) ** 0.5
    arguments = {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "columns": rng.integers(0, n_items, n).astype(np.int32),
        "targets": rng.standard_normal(n).astype(dtype),
        "items": (rng.standard_normal((n_items, n_draws, width)) / max(n_factors, 1) ** 0.5).astype(dtype),
        "prior_precision": (roots @ roots.transpose(0, 2, 1) + np.eye(n_factors)).astype(dtype),
        "prior_linear": rng.standard_normal((n_draws, n_factors)).astype(dtype),
        "alpha": rng.gamma(8.0, 0.25, n_draws),
    }
    if biases:
        arguments |= {"bias_precision": rng.gamma(8.0, 0.2, n_draws), "bias_linear": rng.standard_normal(n_draws)}
    return arguments


def run(arguments, threads=1):
    n_users, (_, n_draws, width) = len(arguments["offsets"]) - 1, arguments["items"].shape
    dtype = arguments["items"].dtype
    means = np.full((n_users, n_draws, width), np.nan, dtype)
    roots = np.full((n_users, n_draws, width, width), np.nan, dtype)
    energy, log_determinant = np.full((n_users, n_draws), np.nan), np.full((n_users, n_draws), np.nan)
    out = {"means": means, "roots": roots, "energy": energy, "log_determinant": log_determinant}
    assert _native.fold_in(**arguments, **out, threads=threads) == -1
    return means, roots, energy, log_determinant


def assert_equals_twin(arguments):
    tolerance = TOLERANCE[arguments["items"].dtype]
    for got, expected in zip(run(arguments), reference.fold_in(**arguments), strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=10 * tolerance)


@given(
    counts=st.lists(st.integers(0, 12), max_size=4),
    n_draws=st.integers(1, 10),
    n_factors=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    biases=st.booleans(),
)
def test_equals_its_twin_on_generated_shapes(counts, n_draws, n_factors, seed, dtype, biases):
    rng = np.random.default_rng(seed)
    assert_equals_twin(problem(rng, counts, 14, n_draws, n_factors, dtype, biases=biases))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("n_factors", [*range(1, 18), 31, 32, 33, 48, 63, 64, 65, 96, 128])
def test_equals_its_twin_at_the_edges_of_registers(n_factors, biases, dtype, rng):
    assert_equals_twin(problem(rng, [0, 1, 64, 100], 50, 3, n_factors, dtype, biases=biases))


def test_no_factors_is_biases_only(rng):
    assert_equals_twin(problem(rng, [0, 1, 5], 6, 3, 0, np.float64, biases=True))


@pytest.mark.parametrize("biases", [False, True])
def test_roots_are_upper_triangular_inverses_of_the_factor(biases, rng):
    arguments = problem(rng, [0, 9], 12, 5, 20, np.float64, biases=biases)
    _, roots, _, log_determinant = run(arguments)
    assert np.array_equal(roots, np.triu(roots))
    diagonal = np.diagonal(roots, axis1=2, axis2=3)
    assert (diagonal > 0).all()
    np.testing.assert_allclose(-2 * np.log(diagonal).sum(axis=2), log_determinant)


def test_without_ratings_a_user_is_the_prior(rng):
    arguments = problem(rng, [0], 4, 3, 5, np.float64, biases=False)
    means, roots, energy, _ = run(arguments)
    for draw, (precision, linear) in enumerate(
        zip(arguments["prior_precision"], arguments["prior_linear"], strict=True)
    ):
        np.testing.assert_allclose(means[0, draw], np.linalg.solve(precision, linear))
        np.testing.assert_allclose(roots[0, draw] @ roots[0, draw].T, np.linalg.inv(precision), atol=1e-12)
        assert energy[0, draw] == pytest.approx(-0.5 * linear @ means[0, draw])


def test_one_draw_is_what_the_row_kernel_solves(rng):
    arguments = problem(rng, [3, 0, 40], 20, 1, 32, np.float32, biases=True)
    means, _, energy, _ = run(arguments)
    factors, bias, minimum = np.empty((3, 32), np.float32), np.empty(3, np.float32), np.empty(3)
    items = arguments["items"][:, 0]
    _native.solve_rows(
        *(arguments[name] for name in ("offsets", "columns", "targets")),
        np.ascontiguousarray(items[:, :32]),
        arguments["prior_precision"][0],
        arguments["prior_linear"],
        factors,
        other_bias=np.ascontiguousarray(items[:, 32]),
        alpha=arguments["alpha"][0],
        bias_precision=arguments["bias_precision"][0],
        bias_linear=arguments["bias_linear"][0],
        out_bias=bias,
        minimum=minimum,
    )
    assert means[:, 0].tobytes() == np.column_stack([factors, bias]).tobytes()
    assert energy[:, 0].tobytes() == minimum.tobytes()


@pytest.mark.parametrize("counts", [[120], [0, 3, 500, 40, 1]])
def test_same_bytes_with_any_number_of_threads(counts, rng):
    arguments = problem(rng, counts, 60, 21, 32, np.float32, biases=True)
    one = run(arguments)
    for threads in (2, 3, 8):
        for got, expected in zip(run(arguments, threads), one, strict=True):
            assert got.tobytes() == expected.tobytes()


def test_means_alone_are_the_same(rng):
    arguments = problem(rng, [7, 0, 3], 9, 4, 6, np.float32, biases=True)
    means = np.empty((3, 4, 7), np.float32)
    assert _native.fold_in(**arguments, means=means) == -1
    assert means.tobytes() == run(arguments)[0].tobytes()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_not_positive_definite_names_the_first_user(poison, rng):
    arguments = problem(rng, [2, 1, 0, 3, 2], 6, 11, 4, np.float64, biases=True)
    arguments["columns"][:] = np.array([0, 1, 2, 3, 4, 5, 3, 1])
    arguments["items"][3:5, 10, 0] = poison
    assert _native.fold_in(**arguments, means=np.empty((5, 11, 5)), threads=2) == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", np.array([0, 99], np.int32), "columns"),
        ("columns", np.array([-1, 0], np.int32), "columns"),
        ("offsets", np.array([0, 2, 1], np.int64), "offsets"),
        ("offsets", np.array([0, 2], np.int64), "offsets"),
        ("targets", np.zeros(3), "targets"),
        ("items", np.zeros((3, 4, 2)), "items"),
        ("items", np.zeros((3, 5, 3)), "prior_precision"),
        ("prior_precision", np.zeros((4, 2, 3)), "prior_precision"),
        ("prior_linear", np.zeros((3, 2)), "prior_linear"),
        ("alpha", np.ones(3), "alpha"),
        ("bias_precision", np.ones(3), "bias_precision"),
        ("bias_linear", None, "bias_linear"),
        ("means", np.zeros((2, 4, 2)), "means"),
        ("roots", np.zeros((2, 4, 3, 2)), "roots"),
        ("energy", np.zeros((4, 2)), "energy"),
        ("log_determinant", np.zeros((2, 3)), "log_determinant"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, value, message):
    arguments = {
        "offsets": np.array([0, 1, 2], np.int64),
        "columns": np.array([0, 1], np.int32),
        "targets": np.zeros(2),
        "items": np.zeros((3, 4, 3)),
        "prior_precision": np.tile(np.eye(2), (4, 1, 1)),
        "prior_linear": np.zeros((4, 2)),
        "alpha": np.ones(4),
        "bias_precision": np.ones(4),
        "bias_linear": np.zeros(4),
        "means": np.zeros((2, 4, 3)),
    }
    assert _native.fold_in(**arguments) == -1
    with pytest.raises(ValueError, match=message):
        _native.fold_in(**(arguments | {name: value}))


def test_results_of_another_type_are_refused_not_lost(rng):
    arguments = problem(rng, [2], 3, 2, 2, np.float32, biases=False)
    with pytest.raises(TypeError, match="fold_in"):
        _native.fold_in(**arguments, means=np.zeros((1, 2, 2), np.float32), energy=np.zeros((1, 2), np.float32))
