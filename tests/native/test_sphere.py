"""Rows on a sphere, against numpy, numerical integration, and what must hold of any move."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference.sphere import Energy, energy_of, moments
from scipy import stats

from tastespace import _native
from tastespace.randomness import generator

WIDTHS = [1, 2, 3, 8, 16, 17, 40]
SAMPLERS = ["geodesic", "slice", "metropolis"]
PRECISION = {np.float32: 2e-4, np.float64: 1e-8}
BIAS = {"bias_precision": 0.7, "bias_linear": 0.2}


def problem(n_factors, dtype=np.float64, *, seed=1, n_rows=6, n_columns=30, joint=False):
    """A problem with everything in it, and a linear part of the prior; row 0 has no ratings."""
    rng = generator(seed)
    is_rated = rng.random((n_rows, n_columns)) < 0.5
    is_rated[0] = False
    rows, columns = np.nonzero(is_rated)
    given = {
        "offsets": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64),
        "columns": columns.astype(np.int32),
        "targets": rng.normal(3, 1, len(rows)).astype(dtype),
        "other": rng.standard_normal((n_columns, n_factors)).astype(dtype),
        "weights": rng.gamma(2.0, size=len(rows)).astype(dtype),
        "other_bias": rng.standard_normal(n_columns).astype(dtype),
        "other_weights": rng.gamma(2.0, size=n_columns).astype(dtype),
        "row_precision": rng.gamma(3.0, size=n_rows).astype(dtype) / 3,
        "target_offset": 3.0,
        "target_scale": 1.5,
        "alpha": 1.3,
    }
    linear = rng.standard_normal((1, n_factors + joint)).astype(dtype)
    return given, linear, rng


def starting(n_rows, n_factors, joint, radius, dtype, rng):
    whole = rng.standard_normal((n_rows, n_factors + joint))
    whole *= radius / np.linalg.norm(whole, axis=1, keepdims=True)
    bias = whole[:, -1] if joint else rng.standard_normal(n_rows)
    return np.ascontiguousarray(whole[:, :n_factors], dtype), np.ascontiguousarray(bias, dtype)


def together(out, bias, joint):
    return np.column_stack([out, bias]) if joint else out


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("n_factors", WIDTHS[1:])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_least_energy_is_found(n_factors, joint, dtype):
    given, linear, rng = problem(n_factors, dtype, joint=joint)
    out, bias = starting(6, n_factors, joint, 1.7, dtype, rng)
    assert (
        _native.move_on_sphere(
            **given, prior_linear=linear, out=out, out_bias=bias, radius=1.7, move="least", has_joint_bias=joint, **BIAS
        )
        == -1
    )
    for row in range(6):
        energy = energy_of({**given, "out_bias": bias}, row, linear=linear[0], has_joint_bias=joint, **BIAS)
        found = together(out, bias, joint)[row].astype(float)
        if row:
            assert energy(found) <= energy(energy.least(1.7)) + PRECISION[dtype] * (1 + abs(energy(found)))
        else:  # only the prior pulls
            assert_allclose(found, 1.7 * linear[0] / np.linalg.norm(linear[0]), rtol=1e-4)
    assert_allclose(np.linalg.norm(together(out, bias, joint), axis=1), 1.7, rtol=1e-5)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("n_factors", WIDTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("move", ["least", *SAMPLERS])
def test_rows_stay_on_the_sphere_and_know_their_errors(n_factors, joint, dtype, move):
    given, linear, rng = problem(n_factors, dtype, joint=joint)
    out, bias = starting(6, n_factors, joint, 0.6, dtype, rng)
    squares, acceptance = np.empty(6), np.empty(6)
    where = {"prior_linear": linear, "out": out, "out_bias": bias, "radius": 0.6, "has_joint_bias": joint, **BIAS}
    figures = {"squares": squares, "acceptance": acceptance}
    assert _native.move_on_sphere(**given, **where, **figures, move=move, steps=6, step_size=0.4, key=5) == -1
    assert_allclose(np.linalg.norm(together(out, bias, joint), axis=1), 0.6, rtol=1e-5)
    assert ((acceptance >= 0) & (acceptance <= 1)).all()
    for row in range(6):
        here = slice(given["offsets"][row], given["offsets"][row + 1])
        columns = given["columns"][here]
        scores = given["other"][columns].astype(float) @ out[row] + bias[row] + given["other_bias"][columns]
        errors = (given["targets"][here] - 3.0) / 1.5 - scores
        expected = np.sum(given["weights"][here] * given["other_weights"][columns] * errors**2)
        assert_allclose(squares[row], expected, rtol=10 * PRECISION[dtype], atol=1e-12)


def least_of(matrix, linear, radius, start=(0.3, 0.5, 0.5, 0.5)):
    """Of any symmetric matrix that is positive: as users whose products it is."""
    values, vectors = np.linalg.eigh(matrix)
    other = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    n = len(matrix)
    out = np.array([start])
    nothing = np.zeros(n)
    offsets, columns = np.array([0, n]), np.arange(n, dtype=np.int32)
    failed = _native.move_on_sphere(
        offsets, columns, nothing, other, np.asarray(linear, float)[None], out, radius=radius, move="least"
    )
    assert failed == -1
    return out[0]


def test_the_hard_case():
    """Nothing pulls in the direction of the least eigenvalue, and what pulls elsewhere is not enough."""
    found = least_of(np.diag([1.0, 2.0, 3.0, 4.0]), [0.0, 0.1, 0.1, 0.1], 2.0)
    rest = np.array([0.1, 0.05, 0.1 / 3])  # (A - 1)^-1 b
    assert_allclose(found[1:], rest, rtol=1e-6)
    assert_allclose(abs(found[0]), np.sqrt(4 - rest @ rest), rtol=1e-9)


def test_nothing_pulls():
    """Any point of the lowest directions is as good as another; without any ratings every point."""
    found = least_of(np.diag([5.0, 2.0, 3.0, 4.0]), np.zeros(4), 2.0)
    assert_allclose(np.abs(found), [0, 2, 0, 0], atol=1e-8)
    assert_allclose(least_of(np.zeros((4, 4)), np.zeros(4), 1.0), np.array([0.3, 0.5, 0.5, 0.5]) / np.sqrt(0.84))


def test_two_directions_as_low_as_one_another():
    found = least_of(np.diag([1.0, 1.0, 3.0, 4.0]), [0.0, 0.0, 0.2, 0.3], 1.5)
    assert_allclose(found[2:], [0.1, 0.1], rtol=1e-6)
    assert_allclose(np.linalg.norm(found), 1.5)


@pytest.mark.parametrize("move", ["least", *SAMPLERS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bytes_whatever_the_threads(move, dtype):
    rng = generator(3)
    counts = np.r_[rng.integers(0, 40, 200), 70_000]  # one row goes in pieces
    offsets = np.concatenate([[0], np.cumsum(counts)])
    given = {
        "offsets": offsets,
        "columns": rng.integers(0, 50, offsets[-1]).astype(np.int32),
        "targets": rng.standard_normal(offsets[-1]).astype(dtype),
        "other": rng.standard_normal((50, 9)).astype(dtype),
        "prior_linear": np.zeros((1, 9), dtype),
    }
    start, bias = starting(201, 9, False, 1.0, dtype, rng)
    results = []
    for threads in (1, 2, 3):
        out, own = start.copy(), bias.copy()
        settings = {"radius": 1.0, "move": move, "steps": 4, "step_size": 0.5, "key": 8, "bias_precision": 1.0}
        assert _native.move_on_sphere(**given, out=out, out_bias=own, threads=threads, **settings) == -1
        results.append((out, own))
    for out, own in results[1:]:
        assert_array_equal(out, results[0][0])
        assert_array_equal(own, results[0][1])


def test_a_great_many_ratings_are_no_trouble_in_single_precision():
    """Differences of energies are small, energies are not: acceptance must be the same in both precisions."""
    rng = generator(4)
    n, chains = 20_000, 30
    offsets = np.arange(chains + 1) * n
    columns = np.tile(rng.integers(0, 500, n), chains).astype(np.int32)
    users = rng.standard_normal((500, 10))
    truth = rng.standard_normal(10)
    targets = users[columns] @ truth / np.linalg.norm(truth) + rng.standard_normal(len(columns))
    accepted = []
    for dtype in (np.float32, np.float64):
        out = np.tile(truth / np.linalg.norm(truth), (chains, 1)).astype(dtype)
        acceptance = np.empty(chains)
        total = []
        for key in range(20):
            _native.move_on_sphere(
                *(offsets, columns, targets.astype(dtype), users.astype(dtype), np.zeros((1, 10), dtype), out),
                **{"radius": 1.0, "move": "geodesic", "steps": 8, "step_size": 0.7, "key": key},
                acceptance=acceptance,
            )
            total.append(acceptance.mean())
        accepted.append(np.mean(total[5:]))
    assert accepted[0] == pytest.approx(accepted[1], abs=0.03)
    assert 0.5 < accepted[1] < 0.999


# Laws. Many rows with one and the same energy are as many chains.

CHAINS = 6000
MOVES = {
    "geodesic": {"steps": 5, "step_size": 0.6, "sweeps": 12},
    "slice": {"steps": 4, "sweeps": 8},
    "metropolis": {"steps": 25, "step_size": 1.5, "sweeps": 10},
}
FALSE_ALARM = 1e-6


def sampled(move, dimension, joint, seed=2):
    """Rows that started anywhere and were moved a few times, and the energy that they have in common."""
    n_factors = dimension - joint
    given, linear, rng = problem(n_factors, seed=seed, n_rows=2, n_columns=4, joint=joint)
    here = slice(given["offsets"][1], given["offsets"][2])
    many = {
        **given,
        "offsets": np.arange(CHAINS + 1) * (here.stop - here.start),
        **{name: np.tile(given[name][here], CHAINS) for name in ("columns", "targets", "weights")},
        "row_precision": np.full(CHAINS, given["row_precision"][1]),
    }
    out, bias = starting(CHAINS, n_factors, joint, 1.3, np.float64, rng)
    settings = {"prior_linear": linear, "radius": 1.3, "move": move, "has_joint_bias": joint, **BIAS}
    settings |= {key: value for key, value in MOVES[move].items() if key != "sweeps"}
    for key in range(MOVES[move]["sweeps"]):
        assert _native.move_on_sphere(**many, **settings, out=out, out_bias=bias, key=key) == -1
    energy = energy_of({**given, "out_bias": bias}, 1, linear=linear[0], has_joint_bias=joint, **BIAS)
    return together(out, bias, joint), energy, bias


def chance_of(points, expected):
    """That means as far from these came about by chance (Bonferroni)."""
    values = np.column_stack([points, np.einsum("ni,nj->nij", points, points).reshape(len(points), -1)])
    z = (values.mean(axis=0) - expected) / (values.std(axis=0) / np.sqrt(len(values)) + 1e-12)
    return min(1.0, 2 * stats.norm.sf(np.abs(z).max()) * len(z))


@pytest.mark.statistical
@pytest.mark.parametrize(("dimension", "joint"), [(2, False), (3, False), (3, True)])
@pytest.mark.parametrize("move", SAMPLERS)
def test_moves_keep_the_distribution(move, dimension, joint):
    points, energy, _ = sampled(move, dimension, joint)
    assert chance_of(points, moments(energy, 1.3)) > FALSE_ALARM
    # Broken twins: the same without the prior, or with a quadratic part twice as strong, is told apart.
    without_prior = Energy(energy.matrix, energy.linear - problem(dimension - joint, seed=2, joint=joint)[1][0])
    assert chance_of(points, moments(without_prior, 1.3)) < FALSE_ALARM
    assert chance_of(points, moments(Energy(2 * energy.matrix, energy.linear), 1.3)) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("move", SAMPLERS)
def test_in_one_dimension_there_are_two_points(move):
    points, energy, _ = sampled(move, 1, False)
    expected = 1 / (1 + np.exp(-2 * 1.3 * energy.linear[0]))
    assert 0.05 < expected < 0.95
    share = (points[:, 0] > 0).mean()
    assert abs(share - expected) < stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(expected * (1 - expected) / CHAINS)


@pytest.mark.statistical
def test_the_bias_is_drawn_given_the_row():
    """Mean and variance of what is left of it."""
    points, _, bias = sampled("slice", 3, False)
    given = problem(3, seed=2, n_rows=2, n_columns=4)[0]
    here = slice(given["offsets"][1], given["offsets"][2])
    columns = given["columns"][here]
    weights = 1.3 * given["row_precision"][1] * given["weights"][here] * given["other_weights"][columns]
    targets = (given["targets"][here] - 3.0) / 1.5 - given["other_bias"][columns]
    precision = weights.sum() + BIAS["bias_precision"]
    means = (weights @ targets + BIAS["bias_linear"] - points @ (weights @ given["other"][columns])) / precision
    left = (bias - means) * np.sqrt(precision)
    assert stats.kstest(left, "norm").pvalue > FALSE_ALARM
    assert stats.kstest((bias - means) * np.sqrt(2 * precision), "norm").pvalue < FALSE_ALARM


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0.0}, "radius: above 0"),
        ({"radius": -1.0}, "radius: above 0"),
        ({"radius": np.nan}, "radius: above 0"),
        ({"radius": np.inf}, "radius: above 0"),
        ({"steps": 0}, "steps and step_size: above 0"),
        ({"step_size": 0.0}, "steps and step_size: above 0"),
        ({"move": "walk"}, "move: least, geodesic, slice or metropolis"),
        ({"alpha": 0.0}, "target_scale and alpha: above 0"),
        ({"prior_linear": np.zeros((1, 2))}, "prior_linear: one row"),
        ({"has_joint_bias": True, "prior_linear": np.zeros((1, 4))}, "out_bias: needed"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    given, linear, rng = problem(3)
    out, _ = starting(6, 3, False, 1.0, np.float64, rng)
    settings = {"prior_linear": linear, "radius": 1.0, "move": "slice"} | change
    with pytest.raises(ValueError, match=message):
        _native.move_on_sphere(**{**given, **settings}, out=out)


@pytest.mark.parametrize("move", ["least", *SAMPLERS])
def test_nan_is_reported(move):
    """By the row; none becomes what is not finite."""
    given, linear, rng = problem(3)
    given["targets"] = given["targets"].copy()
    given["targets"][-1] = np.nan
    out, _ = starting(6, 3, False, 1.0, np.float64, rng)
    failed = _native.move_on_sphere(**given, prior_linear=linear, out=out, radius=1.0, move=move)
    assert failed == 5
    assert np.isfinite(out).all()
