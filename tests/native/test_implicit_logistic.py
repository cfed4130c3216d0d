"""The logistic factorization of choices: columns drawn by chance, steps against the gradient, beliefs about users."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize

from tastespace import _native
from tastespace.randomness import generator
from tests.reference.choices import adagrad, chances_of, row_energy, row_gradient

SETTINGS = {"offset": -1.5, "ridge": 0.7, "bias_ridge": 0.3}


def table_of(chances):
    table = np.empty((len(chances), 2), np.uint32)
    _native.alias_table(np.asarray(chances, np.float64), table)
    return table


def problem(n_rows, n_columns, n_factors, *, biases=True, seed=1, density=0.2):
    """Choices, what is to be drawn, and both sides."""
    rng = generator(seed)
    rows, columns = np.nonzero(rng.random((n_rows, n_columns)) < density)
    chances = rng.dirichlet(np.ones(n_columns))
    counts = rng.integers(0, 90, n_rows)
    given = {
        "offsets": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64),
        "columns": columns.astype(np.int32),
        "weights": rng.gamma(2.0, size=len(rows)).astype(np.float32),
        "drawn_offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "row_weights": rng.gamma(2.0, size=n_rows).astype(np.float32),
        "column_weights": rng.gamma(2.0, size=n_columns).astype(np.float32),
        "table": table_of(chances),
        "other": (0.5 * rng.standard_normal((n_columns, n_factors))).astype(np.float32),
        "other_bias": rng.standard_normal(n_columns).astype(np.float32) if biases else None,
    }
    return given, start(n_rows, n_factors, biases, rng)


def start(n_rows, n_factors, biases, rng):
    return {
        "out": rng.standard_normal((n_rows, n_factors)).astype(np.float32),
        "out_bias": rng.standard_normal(n_rows).astype(np.float32) if biases else None,
        "squares": rng.gamma(2.0, size=(n_rows, n_factors)).astype(np.float32),
        "bias_squares": rng.gamma(2.0, size=n_rows).astype(np.float32) if biases else None,
        "energies": np.full(n_rows, np.nan),
    }


def stepped(given, state, *, rate=0.3, key=5, threads=1, **means):
    after = {name: None if array is None else array.copy() for name, array in state.items()}
    _native.step_choices(**given, **after, **SETTINGS, rate=rate, key=key, threads=threads, **means)
    return after


def drawn(given, key=5, **options):
    out = np.empty(given["drawn_offsets"][-1], np.int32)
    choices = (given["offsets"], given["columns"], given["drawn_offsets"], given["table"])
    _native.draw_columns(*choices, key, out, **options)
    return out


def cells(given, state, shown, row):
    """One row as the twin takes it."""
    here = slice(given["offsets"][row], given["offsets"][row + 1])
    some = shown[given["drawn_offsets"][row] : given["drawn_offsets"][row + 1]]
    some = some[some >= 0]
    other_bias = np.zeros(len(given["other"])) if given["other_bias"] is None else given["other_bias"]
    return (
        state["out"][row].astype(np.float64),
        0.0 if state["out_bias"] is None else float(state["out_bias"][row]),
        given["columns"][here],
        given["weights"][here].astype(np.float64),
        some,
        given["row_weights"][row].astype(np.float64) * given["column_weights"][some],
        given["other"].astype(np.float64),
        other_bias.astype(np.float64),
    )


# Drawing


@pytest.mark.parametrize("n", [1, 2, 3, 50, 1000])
def test_the_table_has_the_chances(n):
    chances = generator(n).dirichlet(np.full(n, 0.2))
    assert_allclose(chances_of(table_of(chances)), chances, atol=1e-9)


def test_columns_without_a_chance_are_never_drawn():
    chances = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    assert_allclose(chances_of(table_of(chances)), chances, atol=1e-9)


@pytest.mark.statistical
def test_columns_are_drawn_with_their_chances():
    n = 200_000
    chances = generator(3).dirichlet(np.full(40, 0.5)) + 1e-3
    chances /= chances.sum()
    given = {
        "offsets": np.zeros(2, np.int64),
        "columns": np.zeros(0, np.int32),
        "drawn_offsets": np.array([0, n]),
        "table": table_of(chances),
    }
    counts = np.bincount(drawn(given), minlength=40)
    assert stats.chisquare(counts, n * chances).pvalue > 1e-6
    assert stats.chisquare(counts, np.full(40, n / 40)).pvalue < 1e-6  # It could fail.


def test_what_was_chosen_is_not_counted_and_the_rest_stays():
    given, _ = problem(30, 25, 4)
    free = {**given, "offsets": np.zeros(31, np.int64), "columns": np.zeros(0, np.int32)}
    shown, everything = drawn(given), drawn(free)
    rows = np.repeat(np.arange(30), np.diff(given["drawn_offsets"]))
    chosen = np.zeros((30, 25), bool)
    chosen[np.repeat(np.arange(30), np.diff(given["offsets"])), given["columns"]] = True
    assert_array_equal(shown, np.where(chosen[rows, everything], -1, everything))
    assert (shown < 0).any()


def test_a_stream_belongs_to_its_place():
    given, _ = problem(6, 25, 4)
    given |= {"offsets": np.zeros(7, np.int64), "columns": np.zeros(0, np.int32), "drawn_offsets": np.arange(7) * 40}
    by_place = drawn(given, places=np.array([9, 9, 3, 4, 5, 6], np.uint64)).reshape(6, 40)
    assert_array_equal(by_place[0], by_place[1])
    assert (by_place[0] != by_place[2]).any()
    assert_array_equal(drawn(given), drawn(given, places=np.arange(6, dtype=np.uint64)))
    assert (drawn(given, key=6) != drawn(given)).any()


# Steps


def test_the_twin_has_the_gradient_of_its_energy():
    """Central differences, in double; a twin with a wrong sign is noticed."""
    given, state = problem(4, 30, 5, seed=2)
    shown = drawn(given)
    for row in range(4):
        point, bias, *rest = cells(given, state, shown, row)
        by_factors, by_bias = row_gradient(point, bias, *rest, **SETTINGS)
        found = []
        for place in range(6):
            step = 1e-5 * np.eye(6)[place]
            ahead = row_energy(point + step[:5], bias + step[5], *rest, **SETTINGS)
            behind = row_energy(point - step[:5], bias - step[5], *rest, **SETTINGS)
            found.append((ahead - behind) / 2e-5)
        assert_allclose(found, [*by_factors, by_bias], rtol=1e-6, atol=1e-7)
        chosen, weights, *others = rest
        wrong, _ = row_gradient(point, bias, chosen, -weights, *others, **SETTINGS)
        assert np.abs(wrong - found[:5]).max() > 1e-3 or not len(chosen)


@settings(deadline=None, max_examples=40)
@given(
    n_rows=st.integers(1, 9),
    n_columns=st.integers(1, 40),
    n_factors=st.sampled_from([1, 3, 15, 16, 17, 32, 33, 64, 70, 130]),
    biases=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_step_is_that_of_the_twin(n_rows, n_columns, n_factors, biases, seed):
    given, state = problem(n_rows, n_columns, n_factors, biases=biases, seed=seed)
    after, shown = stepped(given, state), drawn(given)
    for row in range(n_rows):
        of_row = cells(given, state, shown, row)
        by_factors, by_bias = row_gradient(*of_row, **SETTINGS)
        expected, squares = adagrad(of_row[0], by_factors, state["squares"][row], 0.3)
        assert_allclose(after["out"][row], expected, rtol=1e-4, atol=1e-4)
        assert_allclose(after["squares"][row], squares, rtol=1e-3, atol=1e-3)
        assert_allclose(after["energies"][row], row_energy(*of_row, **SETTINGS), rtol=1e-5)
        if biases:
            expected, squares = adagrad(of_row[1], by_bias, state["bias_squares"][row], 0.3)
            assert_allclose(after["out_bias"][row], expected, rtol=1e-4, atol=1e-4)
            assert_allclose(after["bias_squares"][row], squares, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("biases", [True, False])
def test_a_step_towards_means_of_the_rows(biases):
    given, state = problem(5, 30, 17, biases=biases)
    rng = generator(8)
    means = {"means": rng.standard_normal((5, 17)).astype(np.float32)}
    if biases:
        means["bias_means"] = rng.standard_normal(5).astype(np.float32)
    after, shown = stepped(given, state, **means), drawn(given)
    for row in range(5):
        of_row = cells(given, state, shown, row)
        own = {"mean": means["means"][row].astype(float), "bias_mean": float(means["bias_means"][row]) if biases else 0}
        by_factors, by_bias = row_gradient(*of_row, **SETTINGS, **own)
        expected, _ = adagrad(of_row[0], by_factors, state["squares"][row], 0.3)
        assert_allclose(after["out"][row], expected, rtol=1e-4, atol=1e-4)
        assert_allclose(after["energies"][row], row_energy(*of_row, **SETTINGS, **own), rtol=1e-5)
        wrong, _ = adagrad(of_row[0], row_gradient(*of_row, **SETTINGS)[0], state["squares"][row], 0.3)
        assert np.abs(after["out"][row] - wrong).max() > 1e-3
        if biases:
            expected, _ = adagrad(of_row[1], by_bias, state["bias_squares"][row], 0.3)
            assert_allclose(after["out_bias"][row], expected, rtol=1e-4, atol=1e-4)


def test_a_step_without_its_weights_would_be_noticed():
    given, state = problem(5, 30, 8)
    after, shown = stepped(given, state), drawn(given)
    row = 2
    of_row = list(cells(given, state, shown, row))
    of_row[5] = np.ones_like(of_row[5])
    expected, _ = adagrad(of_row[0], row_gradient(*of_row, **SETTINGS)[0], state["squares"][row], 0.3)
    assert np.abs(after["out"][row] - expected).max() > 1e-3


@pytest.mark.parametrize("score", [0.0, 1e-4, -3.0, 12.0, -40.0, 79.0, -1000.0, 1000.0])
def test_extreme_scores(score):
    """One cell that was chosen, one that was not, at the same score."""
    chances = {"drawn_offsets": np.array([0, 0, 1]), "row_weights": np.ones(2, np.float32), "table": table_of([1.0])}
    state = {
        "out": np.ones((2, 1), np.float32),
        "out_bias": None,
        "squares": np.zeros((2, 1), np.float32),
        "bias_squares": None,
        "energies": np.empty(2),
    }
    _native.step_choices(
        np.array([0, 1, 1]),
        np.zeros(1, np.int32),
        np.ones(1, np.float32),
        column_weights=np.ones(1, np.float32),
        other=np.full((1, 1), score, np.float32),
        other_bias=None,
        **chances,
        **state,
        offset=0.0,
        ridge=0.0,
        bias_ridge=0.0,
        rate=0.0,
        key=1,
    )
    assert_allclose(state["energies"], [np.logaddexp(0, -score), np.logaddexp(0, score)], rtol=1e-6, atol=1e-9)
    slopes = np.array(
        [-1 / (1 + np.exp(score)) if score < 700 else 0.0, 1 / (1 + np.exp(-score)) if score > -700 else 0]
    )
    assert_allclose(state["squares"][:, 0], (slopes * score) ** 2, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(threads):
    given, state = problem(400, 60, 20)
    one, many = stepped(given, state), stepped(given, state, threads=threads)
    for name in one:
        assert_array_equal(one[name], many[name])
    assert_array_equal(drawn(given), drawn(given, threads=threads))


def test_steps_go_down():
    """The expected energy: all columns are shown, evenly weighed, over and over."""
    given, state = problem(40, 50, 6, density=0.1)
    given["drawn_offsets"] = np.arange(41, dtype=np.int64) * 2000
    given["row_weights"][:] = 1 / 2000
    energies = []
    for epoch in range(60):
        state = stepped(given, state, key=epoch)
        energies.append(state["energies"].sum())
    assert energies[-1] < energies[30] < energies[10] < energies[0]


# Beliefs


def believed(given, *, biases=True, far=0.0, threads=1, roots=True, ridge=0.7, scale=1.0, row_linear=None):
    """Modes and roots of users who see all columns in the same weights."""
    n_users, (n_items, n_factors) = len(given["offsets"]) - 1, given["other"].shape
    items = given["other"]
    if biases:
        items = np.hstack([items, given["other_bias"][:, None]])
    width = items.shape[1]
    means = np.full((n_users, width), far, np.float32)
    out = np.empty((n_users, width, width), np.float32) if roots else None
    status = _native.fold_in_choices(
        given["offsets"],
        given["columns"],
        given["weights"] * np.float32(scale),
        np.arange(n_items, dtype=np.int32),
        given["column_weights"],
        given["row_weights"] * np.float32(scale),
        np.ascontiguousarray(items, np.float32),
        ridge * np.eye(n_factors, dtype=np.float32),
        np.full(n_factors, 0.1, np.float32),
        bias_precision=0.3 if biases else None,
        bias_linear=0.05,
        offset=-1.5,
        means=means,
        roots=out,
        row_linear=row_linear,
        threads=threads,
    )
    assert status == -1
    return means, out


def user_energy(given, user, *, biases=True, ridge=0.7, scale=1.0):
    """The energy of a user, as a function of factors and bias."""
    here = slice(given["offsets"][user], given["offsets"][user + 1])
    chosen = given["columns"][here]
    shown = np.setdiff1d(np.arange(len(given["other"])), chosen)
    weights = scale * given["weights"][here].astype(np.float64)
    shown_weights = scale * given["row_weights"][user].astype(np.float64) * given["column_weights"][shown]
    other, n_factors = given["other"].astype(np.float64), given["other"].shape[1]
    other_bias = given["other_bias"].astype(np.float64) if biases else np.zeros(len(other))

    def energy(x):
        bias = x[n_factors] if biases else 0.0
        rest = (chosen, weights, shown, shown_weights, other, other_bias)
        held = {"offset": -1.5, "ridge": ridge, "bias_ridge": 0.3}
        return row_energy(x[:n_factors], bias, *rest, **held) - 0.1 * x[:n_factors].sum() - 0.05 * bias

    return energy


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("n_factors", [1, 5, 16])
def test_modes_and_curvatures(biases, n_factors):
    given, _ = problem(6, 40, n_factors, seed=4)
    given["offsets"][1] = 0  # somebody without choices
    given["offsets"] = np.maximum.accumulate(given["offsets"])
    means, roots = believed(given, biases=biases)
    for user in range(6):
        energy = user_energy(given, user, biases=biases)
        best = minimize(energy, means[user].astype(np.float64), method="BFGS", options={"gtol": 1e-9})
        assert_allclose(means[user], best.x, atol=1e-3)
        covariance = roots[user].astype(np.float64) @ roots[user].T.astype(np.float64)
        assert_allclose(np.linalg.inv(covariance), curvature(energy, best.x), rtol=5e-3, atol=5e-3)
        assert_allclose(np.tril(roots[user], -1), 0)


@pytest.mark.parametrize("biases", [True, False])
def test_modes_with_a_prior_of_their_own(biases):
    given, _ = problem(6, 40, 5, seed=4)
    linear = generator(9).standard_normal((6, 5 + biases)).astype(np.float32)
    means, roots = believed(given, biases=biases, row_linear=linear)
    for user in range(6):
        shared = user_energy(given, user, biases=biases)

        def energy(x, user=user, shared=shared):
            common = 0.1 * x[:5].sum() + (0.05 * x[5] if biases else 0)  # which the row's own terms replace
            return shared(x) + common - linear[user] @ x

        best = minimize(energy, means[user].astype(np.float64), method="BFGS", options={"gtol": 1e-9})
        assert_allclose(means[user], best.x, atol=1e-3)
        covariance = roots[user].astype(np.float64) @ roots[user].T.astype(np.float64)
        assert_allclose(np.linalg.inv(covariance), curvature(energy, best.x), rtol=5e-3, atol=5e-3)


def curvature(energy, at, step=1e-4):
    """Second derivatives by differences."""
    moves = step * np.eye(len(at))
    return np.array(
        [
            [
                (energy(at + a + b) - energy(at + a - b) - energy(at - a + b) + energy(at - a - b)) / (4 * step**2)
                for b in moves
            ]
            for a in moves
        ]
    )


@pytest.mark.parametrize("far", [0.0, 3.0, -8.0])
def test_the_mode_is_found_from_afar_and_with_little_to_hold_it(far):
    """Newton's steps alone would jump too far where the curvature is next to nothing."""
    given, _ = problem(6, 12, 8, seed=7, density=0.4)
    given["other"] *= 4
    means, _ = believed(given, far=far, ridge=0.01, scale=20.0)
    for user in range(6):
        energy = user_energy(given, user, ridge=0.01, scale=20.0)
        best = minimize(energy, np.zeros(9), method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
        assert energy(means[user].astype(np.float64)) <= best.fun + 1e-3 * (1 + abs(best.fun))


def test_a_user_with_nothing_at_all_is_the_prior():
    given, _ = problem(3, 20, 4)
    given["offsets"], given["columns"] = np.zeros(4, np.int64), given["columns"][:0]
    given["weights"], given["row_weights"] = given["weights"][:0], np.zeros(3, np.float32)
    means, roots = believed(given)
    assert_allclose(means, np.tile([0.1 / 0.7] * 4 + [0.05 / 0.3], (3, 1)), rtol=1e-5)
    assert_allclose(roots[0], np.diag([0.7**-0.5] * 4 + [0.3**-0.5]), rtol=1e-5)


@pytest.mark.parametrize("threads", [2, 5])
def test_beliefs_do_not_depend_on_threads_or_company(threads):
    given, _ = problem(70, 40, 9)
    means, roots = believed(given)
    many_means, many_roots = believed(given, threads=threads)
    assert_array_equal(means, many_means)
    assert_array_equal(roots, many_roots)
    last = {**given, "offsets": np.array([0, given["offsets"][-1] - given["offsets"][-2]])}
    last |= {name: given[name][given["offsets"][-2] :] for name in ("columns", "weights")}
    last["row_weights"] = given["row_weights"][-1:]
    alone, _ = believed(last)
    assert_array_equal(alone[0], means[-1])
    without, _ = believed(given, roots=False)
    assert_array_equal(without, means)


# What does not fit


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("weights", np.ones(1, np.float32)),
        ("drawn_offsets", np.zeros(3, np.int64)),
        ("row_weights", np.ones(3, np.float32)),
        ("column_weights", np.ones(3, np.float32)),
        ("table", np.zeros((3, 2), np.uint32)),
        ("table", np.full((30, 2), 30, np.uint32)),
        ("other", np.ones((30, 3), np.float32)),
        ("other_bias", None),
        ("squares", np.ones((5, 3), np.float32)),
        ("energies", np.ones(3)),
    ],
)
def test_what_does_not_fit_is_refused(name, wrong):
    given, state = problem(5, 30, 4)
    with pytest.raises(ValueError, match=name):
        _native.step_choices(**{**given, **state, **SETTINGS, "rate": 0.1, "key": 1, name: wrong})


def test_columns_must_be_there():
    given, state = problem(5, 30, 4)
    given["columns"] = given["columns"] + np.int32(1000)
    with pytest.raises(ValueError, match="columns"):
        stepped(given, state)
    with pytest.raises(ValueError, match="columns"):
        drawn(given)
    with pytest.raises(ValueError, match="columns"):
        believed(given)


def test_chances_must_be_chances():
    for wrong in ([], [0.5, -0.5], [np.nan]):
        with pytest.raises(ValueError, match="chances"):
            table_of(wrong)
