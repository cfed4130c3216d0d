"""The row kernel equals its NumPy twin, on one thread as on two, on every instruction set of this machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import rows as reference

from tastespace import _native

TOLERANCE = {np.float64: 1e-10, np.float32: 1e-4}


def problem(rng, n_rows, n_columns, n_factors, dtype, *, weights, biases, noise, scale, counts=None):
    """Random arguments of a well-conditioned problem, rows without ratings included."""
    counts = rng.integers(0, 12, n_rows) if counts is None else np.asarray(counts)
    n = int(counts.sum())
    root = rng.standard_normal((n_factors, n_factors)) / max(n_factors, 1) ** 0.5
    arguments = {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "columns": rng.integers(0, n_columns, n).astype(np.int32),
        "targets": rng.standard_normal(n).astype(dtype),
        "other": (rng.standard_normal((n_columns, n_factors)) / max(n_factors, 1) ** 0.5).astype(dtype),
        "prior_precision": (root @ root.T + np.eye(n_factors)).astype(dtype),
        "prior_linear": rng.standard_normal((n_rows if scale else 1, n_factors)).astype(dtype),
    }
    options = {"alpha": 1.7}
    if weights:
        options["weights"] = rng.gamma(2.0, 0.5, n).astype(dtype)
    if scale:
        options["prior_scale"] = rng.gamma(4.0, 0.5, n_rows).astype(dtype)
    if noise:
        options["noise"] = rng.standard_normal((n_rows, n_factors)).astype(dtype)
    if biases:
        options |= {
            "other_bias": rng.standard_normal(n_columns).astype(dtype),
            "bias_precision": 1.3,
            "bias_linear": 0.4,
        }
        if noise:
            options["bias_noise"] = rng.standard_normal(n_rows).astype(dtype)
    return arguments, options


def run(arguments, options, biases, threads=1):
    n_rows, dtype = len(arguments["offsets"]) - 1, arguments["other"].dtype
    out = np.full((n_rows, arguments["other"].shape[1]), np.nan, dtype)
    bias = np.full(n_rows, np.nan, dtype) if biases else None
    minimum, squares = np.full(n_rows, np.nan), np.full(n_rows, np.nan)
    extra = {"out_bias": bias} if biases else {}
    failed = _native.solve_rows(
        **arguments, out=out, **options, **extra, minimum=minimum, squares=squares, threads=threads
    )
    assert failed == -1
    return out, bias, minimum, squares


def assert_equals_twin(arguments, options, biases, few=0):
    dtype = arguments["other"].dtype.type
    options = options | {"few": few}
    # No row is conditioned on more ratings than it has factors, or than a block holds.
    twin = options | {"few": min(few, arguments["other"].shape[1], 64)}
    factors, bias, minimum, squares = reference.solve_rows(**arguments, **twin, has_bias=biases)
    got = run(arguments, options, biases)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(got[0], factors, rtol=tolerance, atol=tolerance)
    if biases:
        np.testing.assert_allclose(got[1], bias, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got[2], minimum, rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_allclose(got[3], squares, rtol=tolerance, atol=10 * tolerance)


@given(
    n_factors=st.integers(1, 130),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    weights=st.booleans(),
    biases=st.booleans(),
    noise=st.booleans(),
    scale=st.booleans(),
)
def test_equals_its_twin_on_generated_shapes(n_factors, seed, dtype, weights, biases, noise, scale):
    rng = np.random.default_rng(seed)
    flags = {"weights": weights, "biases": biases, "noise": noise, "scale": scale}
    assert_equals_twin(*problem(rng, 9, 14, n_factors, dtype, **flags), biases)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_factors", [*range(1, 20), 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 130])
def test_equals_its_twin_at_the_edges_of_registers(n_factors, dtype, rng):
    flags = {"weights": True, "biases": True, "noise": True, "scale": True}
    counts = [0, 1, 2, 31, 32, 33, 64, 100]
    assert_equals_twin(*problem(rng, len(counts), 50, n_factors, dtype, **flags, counts=counts), True)


@pytest.mark.parametrize("biases", [False, True])
def test_no_factors_is_biases_only(biases, rng):
    flags = {"weights": False, "biases": biases, "noise": False, "scale": True}
    assert_equals_twin(*problem(rng, 5, 6, 0, np.float64, **flags), biases)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_rows_are_split_and_still_equal_their_twin(dtype, rng):
    flags = {"weights": True, "biases": True, "noise": True, "scale": False}
    counts = [100_000, 3, 0, 32_768, 32_769, 70_001]
    arguments, options = problem(rng, len(counts), 500, 20, dtype, **flags, counts=counts)
    assert_equals_twin(arguments, options, True)


def test_more_pieces_than_are_in_flight_at_once(rng):
    """Forty rows of two pieces each, and one of seventy: batches end within rows and between them."""
    flags = {"weights": False, "biases": True, "noise": False, "scale": False}
    counts = [*[32_769] * 40, 5, 70 * 32_768]
    arguments, options = problem(rng, len(counts), 50, 1, np.float64, **flags, counts=counts)
    assert_equals_twin(arguments, options, True)
    one, two = (run(arguments, options, True, threads=threads) for threads in (1, 2))
    assert all(got.tobytes() == expected.tobytes() for got, expected in zip(two, one, strict=True))


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("n_factors", [1, 20, 32, 64, 128])
def test_the_total_of_the_squares_holds_in_single_precision(n_factors, noise, rng):
    """The sampler draws the noise from it: rows of many and of few ratings, errors of the size of the noise."""
    flags = {"weights": False, "biases": True, "noise": noise, "scale": False}
    counts = rng.geometric(0.02, 300)
    arguments, options = problem(rng, len(counts), 200, n_factors, np.float32, **flags, counts=counts)
    expected = reference.solve_rows(**arguments, **options, has_bias=True)[3]
    assert run(arguments, options, True)[3].sum() == pytest.approx(expected.sum(), rel=1e-5)


@given(
    n_factors=st.integers(1, 130),
    few=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    weights=st.booleans(),
    biases=st.booleans(),
    noise=st.booleans(),
    scale=st.booleans(),
)
def test_conditioned_rows_equal_their_twin_on_generated_shapes(
    n_factors, few, seed, dtype, weights, biases, noise, scale
):
    rng = np.random.default_rng(seed)
    flags = {"weights": weights, "biases": biases, "noise": noise, "scale": scale}
    arguments, options = problem(rng, 9, 14, n_factors, dtype, **flags)
    arguments["prior_linear"] = arguments["prior_linear"][:1]
    assert_equals_twin(arguments, options, biases, few=few)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_factors", [16, 20, 64, 128])
def test_rows_of_both_kinds_stand_side_by_side(n_factors, dtype, rng):
    """A workspace that conditioned a row must solve the next as if it had not."""
    flags = {"weights": False, "biases": True, "noise": True, "scale": False}
    counts = [0, 100, 1, 64, 65, 3, 16, 17, 15, 200]
    arguments, options = problem(rng, len(counts), 50, n_factors, dtype, **flags, counts=counts)
    assert_equals_twin(arguments, options, True, few=64)


@pytest.mark.parametrize("biases", [False, True])
def test_conditioned_draws_have_the_covariance_of_the_conditional(biases, rng):
    """A draw is a matrix times the noise: unit vectors show its columns, and their products the covariance."""
    size = 6 + biases
    flags = {"weights": True, "biases": biases, "noise": True, "scale": False}
    arguments, options = problem(rng, 1, 10, 6, np.float64, **flags, counts=[4])
    many = dict(arguments, offsets=np.arange(size + 2, dtype=np.int64) * 4)
    many |= {name: np.tile(arguments[name], size + 1) for name in ("columns", "targets")}
    units = np.vstack([np.zeros(size), np.eye(size)])
    drawn = dict(options, weights=np.tile(options["weights"], size + 1), noise=np.ascontiguousarray(units[:, :6]))
    if biases:
        drawn["bias_noise"] = np.ascontiguousarray(units[:, 6])
    factors, bias, *_ = run(many, drawn | {"few": 4}, biases)
    draws = np.column_stack([factors, bias]) if biases else factors
    design = arguments["other"][arguments["columns"]]
    precision = np.zeros((size, size))
    precision[:6, :6] = arguments["prior_precision"]
    if biases:
        design, precision[6, 6] = np.column_stack([design, np.ones(4)]), options["bias_precision"]
    precision += options["alpha"] * design.T @ (options["weights"][:, None] * design)
    root = (draws[1:] - draws[0]).T
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)
    usual, usual_bias, *_ = run(many, drawn, biases)
    np.testing.assert_allclose(factors[0], usual[0], rtol=1e-9)
    assert not np.allclose(factors[1:], usual[1:])


@pytest.mark.parametrize("unfit", ["weights", "prior_precision", "prior_linear", "bias_precision"])
def test_rows_that_cannot_be_conditioned_are_solved_as_usual(unfit, rng):
    flags = {"weights": True, "biases": True, "noise": False, "scale": False}
    arguments, options = problem(rng, 4, 30, 3, np.float64, **flags, counts=[5, 6, 7, 8])
    if unfit == "weights":
        options["weights"][[0, 6]] = 0.0
    if unfit == "prior_precision":
        arguments["prior_precision"][:] = 0.0
    if unfit == "prior_linear":
        arguments["prior_linear"] = rng.standard_normal((4, 3))
    if unfit == "bias_precision":
        options["bias_precision"] = 0.0
    assert_equals_twin(arguments, options, True, few=6)


@pytest.mark.parametrize(("n_columns", "few"), [(10, 5), (10_000, 0)])
def test_rows_are_conditioned_where_it_pays(n_columns, few, rng):
    """A quarter as many ratings as factors, unless whitening all columns would cost more than it saves."""
    flags = {"weights": False, "biases": True, "noise": True, "scale": False}
    arguments, options = problem(rng, 40, n_columns, 20, np.float32, **flags, counts=rng.integers(0, 12, 40))
    chosen, explicit = (run(arguments, options | {"few": number}, True) for number in (-1, few))
    assert all(one.tobytes() == other.tobytes() for one, other in zip(chosen, explicit, strict=True))


def test_same_bytes_of_conditioned_rows_with_any_number_of_threads(rng):
    flags = {"weights": True, "biases": True, "noise": True, "scale": False}
    arguments, options = problem(rng, 900, 3000, 33, np.float32, **flags, counts=rng.integers(0, 40, 900))
    options["few"] = 16
    one = run(arguments, options, True, threads=1)
    for threads in (2, 3):
        for got, expected in zip(run(arguments, options, True, threads=threads), one, strict=True):
            assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("few", [0, -1])
def test_targets_are_centred_and_scaled_with_each_rating(few, dtype, rng):
    arguments, options = problem(rng, 40, 30, 32, dtype, weights=True, biases=True, noise=True, scale=False)
    standard = run(arguments, options | {"few": few}, True)
    raw = arguments | {"targets": 3.5 + arguments["targets"] * dtype(0.25)}
    scaled = run(raw, options | {"few": few, "target_offset": 3.5, "target_scale": 0.25}, True)
    for one, other in zip(standard, scaled, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=100 * TOLERANCE[dtype])
    assert not np.allclose(scaled[0], run(raw, options | {"few": few, "target_offset": 3.5}, True)[0], atol=0.01)


@pytest.mark.parametrize("few", [0, -1])
@pytest.mark.parametrize("weights", [False, True])
def test_weights_of_columns_are_weights_of_their_ratings(weights, few, rng):
    arguments, options = problem(rng, 40, 30, 32, np.float64, weights=weights, biases=True, noise=True, scale=True)
    column_weights = rng.gamma(2.0, 0.5, 30)
    each = column_weights[arguments["columns"]] * options.pop("weights", 1.0)
    expected = run(arguments, options | {"few": few, "weights": each}, True)
    if weights:
        options["weights"] = each / column_weights[arguments["columns"]]
    found = run(arguments, options | {"few": few, "other_weights": column_weights}, True)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_precision_a_row_is_a_scale_of_prior_and_noise(rng):
    """a (alpha E + prior / a) with the noise over the root of a: how rows with a noise of their own are drawn."""
    arguments, options = problem(rng, 40, 30, 32, np.float64, weights=True, biases=True, noise=True, scale=False)
    factor = 2.5
    expected = run(arguments, options | {"alpha": 1.7 * factor}, True)
    scaled = {name: options[name] / factor**0.5 for name in ("noise", "bias_noise")}
    for few in (0, -1):
        found = run(arguments, options | scaled | {"prior_scale": np.full(40, 1 / factor), "few": few}, True)
        for number in (0, 1, 3) if few == 0 else ():
            np.testing.assert_allclose(expected[number], found[number], rtol=1e-8, atol=1e-8)
    conditioned = run(arguments, options | {"alpha": 1.7 * factor, "few": -1}, True)
    np.testing.assert_allclose(conditioned[0], found[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("noise", [False, True])
def test_a_ridge_is_a_prior_of_its_own_for_every_row(noise, rng):
    arguments, options = problem(rng, 5, 9, 6, np.float64, weights=True, biases=True, noise=noise, scale=False)
    ridge = rng.gamma(2.0, size=5)
    got = run(arguments, options | {"ridge": ridge, "few": -1}, True)
    for row in range(5):
        own = arguments | {"prior_precision": arguments["prior_precision"] + ridge[row] * np.eye(6)}
        expected = run(own, options, True)
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine[row], theirs[row], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_scale_of_targets_that_is_not_positive_is_refused(scale, rng):
    arguments, options = problem(rng, 4, 3, 2, np.float32, weights=False, biases=False, noise=False, scale=False)
    with pytest.raises(ValueError, match="target_scale"):
        run(arguments, options | {"target_scale": scale}, False)


def test_rows_without_ratings_have_no_squares(rng):
    flags = {"weights": False, "biases": True, "noise": True, "scale": False}
    arguments, options = problem(rng, 3, 5, 7, np.float32, **flags, counts=[0, 4, 0])
    assert run(arguments, options, True)[3][[0, 2]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n_factors", [5, 32, 70])
def test_same_bytes_with_any_number_of_threads(n_factors, rng):
    flags = {"weights": True, "biases": True, "noise": True, "scale": True}
    counts = [*rng.integers(0, 60, 500), 80_000, 40_000]
    arguments, options = problem(rng, len(counts), 300, n_factors, np.float32, **flags, counts=counts)
    one = run(arguments, options, True, threads=1)
    for threads in (2, 3, 8):
        for got, expected in zip(run(arguments, options, True, threads=threads), one, strict=True):
            assert got.tobytes() == expected.tobytes()


def test_draws_have_the_mean_and_covariance_of_the_conditional(rng):
    """40 000 draws of one row; each figure is z-scored. False alarm rate 1e-6 over all, by Bonferroni."""
    flags = {"weights": True, "biases": True, "noise": False, "scale": False}
    arguments, options = problem(rng, 1, 10, 3, np.float64, **flags, counts=[7])
    mean, bias, *_ = run(arguments, options, True)
    n = 40_000
    many = dict(arguments)
    many["offsets"] = np.arange(n + 1, dtype=np.int64) * 7
    many["columns"], many["targets"] = np.tile(arguments["columns"], n), np.tile(arguments["targets"], n)
    drawn = dict(options, weights=np.tile(options["weights"], n))
    drawn |= {"noise": rng.standard_normal((n, 3)), "bias_noise": rng.standard_normal(n)}
    factors, biases, *_ = run(many, drawn, True)
    draws = np.column_stack([factors, biases])
    design = np.column_stack([arguments["other"][arguments["columns"]], np.ones(7)])
    precision = options["alpha"] * design.T @ (options["weights"][:, None] * design)
    precision[:3, :3] += arguments["prior_precision"]
    precision[3, 3] += options["bias_precision"]
    covariance = np.linalg.inv(precision)
    scores = list((draws.mean(0) - np.append(mean[0], bias[0])) / np.sqrt(np.diag(covariance) / n))
    centred = draws - np.append(mean[0], bias[0])
    for i in range(4):
        for j in range(i + 1):
            spread = np.sqrt((covariance[i, i] * covariance[j, j] + covariance[i, j] ** 2) / n)
            scores.append(((centred[:, i] * centred[:, j]).mean() - covariance[i, j]) / spread)
    # 14 scores; a normal one exceeds 5.4 with probability 7e-8.
    assert np.abs(scores).max() < 5.4


def test_the_wrong_triangular_solve_would_be_noticed(rng):
    """Broken twin of the test above: L^-1 z in place of L^-T z has another covariance."""
    root = rng.standard_normal((4, 4))
    precision = root @ root.T + np.eye(4)
    wrong = np.linalg.solve(np.linalg.cholesky(precision), rng.standard_normal((4, 40_000)))
    covariance = np.linalg.inv(precision)
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / 40_000)
    assert np.abs((np.cov(wrong) - covariance) / spread).max() > 5.4


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_not_positive_definite_names_the_first_row(poison, rng):
    flags = {"weights": False, "biases": False, "noise": False, "scale": True}
    arguments, options = problem(rng, 6, 8, 4, np.float64, **flags)
    options["prior_scale"][[2, 4]] = poison
    out = np.empty((6, 4))
    assert _native.solve_rows(**arguments, out=out, **options, threads=2) == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", np.array([0, 99], np.int32), "columns"),
        ("columns", np.array([-1, 0], np.int32), "columns"),
        ("offsets", np.array([0, 2, 1], np.int64), "offsets"),
        ("offsets", np.array([0, 3, 2], np.int64), "offsets"),
        ("prior_linear", np.zeros((3, 2)), "prior_linear"),
        ("prior_precision", np.zeros((2, 3)), "prior_precision"),
        ("targets", np.zeros(3), "targets"),
        ("squares", np.zeros(3), "squares"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, value, message):
    arguments = {
        "offsets": np.array([0, 1, 2], np.int64),
        "columns": np.array([0, 1], np.int32),
        "targets": np.zeros(2),
        "other": np.zeros((3, 2)),
        "prior_precision": np.eye(2),
        "prior_linear": np.zeros((1, 2)),
        "out": np.zeros((2, 2)),
    }
    with pytest.raises(ValueError, match=message):
        _native.solve_rows(**(arguments | {name: value}))


def test_squares_without_noise_precision_are_refused():
    arguments, options = problem(
        np.random.default_rng(0), 2, 3, 2, np.float64, weights=False, biases=False, noise=False, scale=False
    )
    options |= {"alpha": 0.0, "squares": np.zeros(2)}
    with pytest.raises(ValueError, match="alpha"):
        _native.solve_rows(**arguments, out=np.zeros((2, 2)), **options)


def test_what_is_written_to_is_never_a_copy():
    """Of another type it would be converted, and the result written to what nobody sees."""
    offsets, columns = np.array([0, 1]), np.array([0], np.int32)
    targets, other = np.ones(1, np.float32), np.ones((1, 2), np.float32)
    precision, linear = np.eye(2, dtype=np.float32), np.zeros((1, 2), np.float32)
    out = np.zeros((1, 2))
    _native.solve_rows(offsets, columns, targets, other, precision, linear, out)
    np.testing.assert_allclose(out, 1 / 3)  # (I + 1 1') x = 1


@pytest.mark.parametrize("noise", [False, True])
def test_every_row_may_have_a_mean_of_its_own(noise, rng):
    arguments, options = problem(rng, 20, 15, 5, np.float64, weights=False, biases=True, noise=noise, scale=False)
    arguments["prior_linear"] = rng.standard_normal((20, 5))
    linears = rng.standard_normal(20)
    found = run(arguments, {**options, "bias_linears": linears}, biases=True)
    for row in range(20):
        alone = run(arguments, {**options, "bias_linear": linears[row]}, biases=True)
        for of_all, of_one in zip(found[:2], alone[:2], strict=True):
            np.testing.assert_array_equal(of_all[row], of_one[row])
