"""Users folded in by steps of Gibbs sampling have the posterior that a fine grid gives, for every kind of response.

A right program fails one of the statistical tests less than once in a million seeds: a mean is compared with 6 standard
errors, a p-value with 1e-6 over the number of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference import latent as reference
from scipy import special, stats

from tastespace import _native

TYPES = [np.float32, np.float64]
KINDS = ["levels", "logistic", "uneven"]
EDGES = np.array([1.5, 2.5, 3.5])
BLOCK = 1024  # of ratings that share a stream in the kernels that draw


def problem(rng, kind, counts, n_items=30, n_draws=3, n_factors=4, dtype=np.float64, offset=0.3):
    """Random arguments of a well-conditioned problem."""
    n = int(np.sum(counts))
    roots = rng.standard_normal((n_draws, n_factors, n_factors)) / max(n_factors, 1) ** 0.5
    arguments = {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "columns": rng.integers(0, n_items, n).astype(np.int32),
        "targets": rng.integers(1, 5, n).astype(dtype),
        "items": (0.7 * rng.standard_normal((n_items, n_draws, n_factors + 1))).astype(dtype),
        "prior_precision": (roots @ roots.transpose(0, 2, 1) + np.eye(n_factors)).astype(dtype),
        "prior_linear": (0.5 * rng.standard_normal((n_draws, n_factors))).astype(dtype),
        "bias_precision": rng.gamma(8.0, 0.2, n_draws),
        "bias_linear": 0.5 * rng.standard_normal(n_draws),
        "alpha": np.ones(n_draws),
        "kind": kind,
        "keys": rng.integers(0, 2**63, len(counts)).astype(np.uint64),
    }
    if kind == "levels":
        cuts = np.sort(rng.standard_normal((n_draws, len(EDGES))), axis=1) + 0.1 * np.arange(len(EDGES))
        return arguments | {"edges": EDGES.astype(dtype), "cuts": cuts, "latent_offset": offset}
    if kind == "logistic":
        return arguments | {"edges": EDGES[1:2].astype(dtype), "latent_offset": offset}
    return arguments | {
        "targets": (arguments["targets"] - 2.5).astype(dtype),
        "alpha": rng.gamma(8.0, 0.2, n_draws),
        "item_precision": rng.gamma(4.0, 0.25, (n_items, n_draws)).astype(dtype),
        "concentration": rng.gamma(8.0, 0.3, n_draws),
    }


def run(arguments, steps, threads=1):
    n_users, (_, n_draws, width) = len(arguments["offsets"]) - 1, arguments["items"].shape
    dtype = arguments["items"].dtype
    means = np.full((n_users, n_draws, width), np.nan, dtype)
    roots = np.full((n_users, n_draws, width, width), np.nan, dtype)
    extra, precision = {}, np.full((n_users, n_draws), np.nan, dtype)
    if arguments["kind"] == "uneven":
        extra["out_precision"] = precision
    found = _native.fold_in_latent(**arguments, **extra, means=means, roots=roots, steps=steps, threads=threads)
    assert found == -1
    return means, roots, precision


def user(arguments, row):
    """The ratings of one user alone."""
    begin, end = arguments["offsets"][row : row + 2]
    return slice(begin, end)


def given_responses(arguments, row, draw, responses, weights, alpha):
    """Mean and covariance of (u, c) from the normal equations."""
    items = arguments["items"][arguments["columns"][user(arguments, row)], draw].astype(np.float64)
    design = np.column_stack([items[:, :-1], np.ones(len(items))])
    n_factors = design.shape[1] - 1
    precision = np.zeros((n_factors + 1, n_factors + 1))
    precision[:n_factors, :n_factors] = arguments["prior_precision"][draw]
    precision[n_factors, n_factors] = arguments["bias_precision"][draw]
    linear = np.append(arguments["prior_linear"][draw], arguments["bias_linear"][draw])
    precision = precision + alpha * (design.T * weights) @ design
    linear = linear + alpha * design.T @ (weights * (responses - items[:, -1]))
    return np.linalg.solve(precision, linear), np.linalg.inv(precision)


def scores_at_the_prior(arguments, row, draw):
    items = arguments["items"][arguments["columns"][user(arguments, row)], draw]
    mean = np.linalg.solve(arguments["prior_precision"][draw], arguments["prior_linear"][draw])
    bias = arguments["bias_linear"][draw] / arguments["bias_precision"][draw]
    return arguments["latent_offset"] + bias + items[:, -1] + items[:, :-1] @ mean


def drawn_at_the_prior(arguments, row, draw):
    """Responses and weights of the first step: stream `draw` of the user's key is block `draw` of the other kernels."""
    scores, n = np.zeros(BLOCK * (draw + 1)), arguments["offsets"][row + 1] - arguments["offsets"][row]
    place, key, out = slice(BLOCK * draw, BLOCK * draw + n), int(arguments["keys"][row]), np.empty(BLOCK * (draw + 1))
    scores[place] = scores_at_the_prior(arguments, row, draw)
    values = np.zeros(len(scores))
    values[place] = arguments["targets"][user(arguments, row)]
    if arguments["kind"] == "levels":
        _native.draw_truncated(scores, values, arguments["edges"], arguments["cuts"][draw], key, out)
        return out[place] - arguments["latent_offset"], np.ones(n)
    _native.draw_polya_gamma(scores, key, out)
    signs = np.where(values[place] > arguments["edges"][0], 0.5, -0.5)
    return signs / out[place] - arguments["latent_offset"], out[place]


@pytest.mark.parametrize("kind", ["levels", "logistic"])
def test_one_step_is_the_closed_form_given_what_is_drawn_at_the_prior(kind, rng):
    arguments = problem(rng, kind, [4, 0, 150])
    means, roots, _ = run(arguments, steps=1)
    for row in range(3):
        for draw in range(3):
            mean, covariance = given_responses(arguments, row, draw, *drawn_at_the_prior(arguments, row, draw), 1.0)
            np.testing.assert_allclose(means[row, draw], mean, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(roots[row, draw] @ roots[row, draw].T, covariance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", TYPES)
def test_one_step_of_uneven_weighs_by_the_items(dtype, rng):
    arguments = problem(rng, "uneven", [4, 0, 150], dtype=dtype)
    means, roots, precision = run(arguments, steps=1)
    assert (precision == 1).all()
    tolerance = 1e-9 if dtype == np.float64 else 2e-4
    for row in range(3):
        for draw in range(3):
            at = user(arguments, row)
            weights = arguments["item_precision"][arguments["columns"][at], draw]
            alpha = arguments["alpha"][draw]
            mean, covariance = given_responses(arguments, row, draw, arguments["targets"][at], weights, alpha)
            np.testing.assert_allclose(means[row, draw], mean, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(
                roots[row, draw] @ roots[row, draw].T, covariance, rtol=tolerance, atol=tolerance
            )


def test_uneven_with_a_huge_concentration_is_plain_folding_in(rng):
    arguments = problem(rng, "uneven", [4, 0, 60])
    arguments |= {"concentration": np.full(3, 1e12), "item_precision": np.ones((30, 3))}
    means, roots, precision = run(arguments, steps=4)
    plain = {name: arguments[name] for name in arguments if name not in LATENT}
    expected, expected_roots = np.empty_like(means), np.empty_like(roots)
    assert _native.fold_in(**plain, means=expected, roots=expected_roots) == -1
    np.testing.assert_allclose(precision, 1, atol=1e-4)
    np.testing.assert_allclose(means, expected, atol=1e-4)
    np.testing.assert_allclose(roots, expected_roots, atol=1e-4)


LATENT = {"kind", "keys", "item_precision", "concentration"}


def one_user(kind):
    """Seven ratings of one user in a space of one factor and a bias: two dimensions, which a grid covers."""
    arguments = {
        "columns": np.arange(7, dtype=np.int32),
        "targets": np.array([1.0, 4.0, 4.0, 2.0, 4.0, 3.0, 4.0]),
        "items": np.array([[-1.2, 0.3], [0.8, -0.2], [1.5, 0.5], [-0.4, 0.0], [0.3, -0.6], [0.9, 0.1], [0.2, 0.4]]),
        "prior_precision": np.full((1, 1, 1), 1.3),
        "prior_linear": np.full((1, 1), 0.4),
        "bias_precision": np.array([2.0]),
        "bias_linear": np.array([-0.5]),
        "alpha": np.ones(1),
        "kind": kind,
    }
    arguments["items"] = arguments["items"][:, None, :]
    if kind == "levels":
        return arguments | {"edges": EDGES, "cuts": np.array([[-1.0, 0.2, 1.1]]), "latent_offset": 0.4}
    if kind == "logistic":
        return arguments | {"edges": EDGES[2:], "latent_offset": 0.4}
    # Three of the ratings are far off: the user's own precision matters.
    return arguments | {
        "targets": np.array([2.0, 1.0, -3.0, 0.2, 2.5, -0.3, 0.1]),
        "alpha": np.array([1.4]),
        "item_precision": np.array([0.5, 1.0, 2.0, 1.0, 1.5, 0.7, 1.0])[:, None],
        "concentration": np.array([1.5]),
    }


def log_likelihood(arguments, scores):
    """Of all ratings, at scores (points x ratings), with latent variables integrated out; and E[a] at each point."""
    values, kind = arguments["targets"], arguments["kind"]
    if kind == "levels":
        low, high = reference.ends(values, arguments["edges"], arguments["cuts"][0])
        chances = special.ndtr(high - scores) - special.ndtr(low - scores)
        return np.log(np.maximum(chances, 1e-300)).sum(axis=-1), None  # at the end of the grid there is nothing
    if kind == "logistic":
        signs = np.where(values > arguments["edges"][0], 1.0, -1.0)
        return special.log_expit(signs * scores).sum(axis=-1), None
    weights = arguments["item_precision"][:, 0]
    concentration, alpha = arguments["concentration"][0], arguments["alpha"][0]
    shape = concentration + len(values) / 2
    rate = concentration + alpha / 2 * (weights * (values - scores) ** 2).sum(axis=-1)
    return -shape * np.log(rate), shape / rate


def posterior_on_a_grid(arguments):
    """First and second moments of (u, c), and the mean of the user's precision, by the sum over a fine grid."""
    u, c = np.meshgrid(np.linspace(-6, 6, 401), np.linspace(-6, 6, 401), indexing="ij")
    items = arguments["items"][:, 0]
    scores = u[..., None] * items[:, 0] + c[..., None] + items[:, 1] + arguments.get("latent_offset", 0.0)
    log_density, precision = log_likelihood(arguments, scores)
    log_density -= 0.5 * arguments["prior_precision"][0, 0, 0] * u**2 - arguments["prior_linear"][0, 0] * u
    log_density -= 0.5 * arguments["bias_precision"][0] * c**2 - arguments["bias_linear"][0] * c
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    moments = [u, c, u * u, u * c, c * c] + ([] if precision is None else [precision])
    return np.array([(density * moment).sum() for moment in moments])


def errors_of_many_keys(arguments, expected, steps, n_users=40_000):
    """Moments over as many users with the same ratings and other keys, in standard errors."""
    n = len(arguments["targets"])
    many = arguments | {
        "offsets": np.arange(n_users + 1, dtype=np.int64) * n,
        "columns": np.tile(arguments["columns"], n_users),
        "targets": np.tile(arguments["targets"], n_users),
        "keys": np.arange(n_users, dtype=np.uint64),
    }
    means, roots, precision = run(many, steps)
    mean, covariance = means[:, 0], roots[:, 0] @ roots[:, 0].transpose(0, 2, 1)
    second = covariance + mean[:, :, None] * mean[:, None, :]
    found = [mean[:, 0], mean[:, 1], second[:, 0, 0], second[:, 0, 1], second[:, 1, 1]]
    found = np.array(found + ([precision[:, 0]] if arguments["kind"] == "uneven" else []))
    return (found.mean(axis=1) - expected) / (found.std(axis=1) / n_users**0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.statistical
def test_many_steps_have_the_moments_of_the_posterior(kind):
    arguments = one_user(kind)
    errors = errors_of_many_keys(arguments, posterior_on_a_grid(arguments), steps=30)
    assert np.abs(errors).max() < 6


WRONG = [
    ("levels", {"latent_offset": 0.3}),
    ("levels", {"cuts": np.array([[-1.0, 0.2, 1.2]])}),
    ("levels", {"edges": np.array([1.5, 2.5, 4.0])}),
    ("logistic", {"latent_offset": 0.3}),
    ("logistic", {"targets": np.array([1.0, 4.0, 4.0, 2.0, 4.0, 4.0, 4.0])}),
    ("uneven", {"concentration": np.array([2.0])}),
    ("uneven", {"item_precision": np.ones((7, 1))}),
]


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
@pytest.mark.statistical
def test_a_slightly_wrong_model_would_be_noticed(kind, wrong):
    """Broken twins: an offset, a cut, an edge, a rating, a shape or weights that are a little off."""
    errors = errors_of_many_keys(one_user(kind) | wrong, posterior_on_a_grid(one_user(kind)), steps=30)
    assert np.abs(errors).max() > 6


@pytest.mark.parametrize("kind", ["levels", "logistic"])
@pytest.mark.statistical
def test_a_single_step_would_be_noticed(kind):
    """Broken twin: responses drawn at the prior's mean alone."""
    errors = errors_of_many_keys(one_user(kind), posterior_on_a_grid(one_user(kind)), steps=1)
    assert np.abs(errors).max() > 6


@pytest.mark.parametrize("shape", [0.2, 1.0, 3.0, 80.0])
def test_without_ratings_a_precision_is_its_prior(shape):
    n_users = 100_000
    arguments = one_user("uneven") | {
        "offsets": np.zeros(n_users + 1, np.int64),
        "columns": np.zeros(0, np.int32),
        "targets": np.zeros(0),
        "keys": np.arange(n_users, dtype=np.uint64),
        "concentration": np.array([shape]),
    }
    precision = run(arguments, steps=2)[2][:, 0]
    assert stats.kstest(precision, "gamma", args=(shape, 0, 1 / shape)).pvalue > 1e-6 / 4
    assert stats.kstest(precision, "gamma", args=(shape * 1.03, 0, 1 / shape)).pvalue < 1e-6 / 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 4])
def test_without_ratings_a_user_is_the_prior(kind, steps, rng):
    arguments = problem(rng, kind, [0, 3])
    means, roots, _ = run(arguments, steps)
    for draw in range(3):
        mean, covariance = given_responses(arguments, 0, draw, np.zeros(0), np.zeros(0), 1.0)
        np.testing.assert_allclose(means[0, draw], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(roots[0, draw] @ roots[0, draw].T, covariance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_row_finds_the_one_who_wrote_it(kind, dtype, rng):
    """Ten thousand ratings: each coordinate of the last mean within 8 posterior deviations of the truth."""
    n, n_factors = 10_000, 32
    arguments = problem(rng, kind, [n], n_items=2000, n_draws=2, n_factors=n_factors, dtype=dtype)
    truth = rng.standard_normal(n_factors + 1) / n_factors**0.5
    items = arguments["items"] = np.repeat(arguments["items"][:, :1], 2, axis=1)
    rated = items[arguments["columns"], 0]
    scores = rated[:, :-1] @ truth[:-1] + truth[-1] + rated[:, -1] + arguments.get("latent_offset", 0.0)
    if kind == "levels":
        arguments["cuts"] = np.tile([-1.0, 0.0, 1.0], (2, 1))
        responses = scores + rng.standard_normal(n)
        arguments["targets"] = 1 + (responses[:, None] > arguments["cuts"][0]).sum(axis=1).astype(dtype)
    elif kind == "logistic":
        arguments["targets"] = np.where(rng.random(n) < special.expit(scores), 4, 1).astype(dtype)
    else:
        arguments["item_precision"] = np.repeat(arguments["item_precision"][:, :1], 2, axis=1)
        precision = 2.0 * arguments["alpha"][0] * arguments["item_precision"][arguments["columns"], 0]
        arguments |= {"alpha": np.repeat(arguments["alpha"][:1], 2)}
        arguments["targets"] = (scores + rng.standard_normal(n) / precision**0.5).astype(dtype)
    means, roots, precision = run(arguments, steps=25)
    assert np.isfinite(roots).all()
    deviations = np.sqrt((roots.astype(np.float64) ** 2).sum(axis=3))
    # The mean of one step has the noise of its responses, which is at most as large as that of the posterior.
    assert (np.abs(means - truth) < 8 * 2**0.5 * deviations + 0.01).all()
    if kind == "uneven":
        np.testing.assert_allclose(precision, 2.0, rtol=0.1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_neither_threads_nor_other_users_change_a_result(kind, dtype, rng):
    counts = [5, 0, 1300, 40, 1]
    arguments = problem(rng, kind, counts, n_draws=21, n_factors=9, dtype=dtype)
    one = run(arguments, steps=3)
    for threads in (2, 3):
        for got, expected in zip(run(arguments, 3, threads), one, strict=True):
            assert got.tobytes() == expected.tobytes()
    at = user(arguments, 2)
    alone = arguments | {"offsets": np.array([0, 1300]), "keys": arguments["keys"][2:3]}
    alone |= {name: arguments[name][at] for name in ("columns", "targets")}
    for got, expected in zip(run(alone, 3), one, strict=True):
        assert got[0].tobytes() == expected[2].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_another_key_is_another_draw(kind, rng):
    arguments = problem(rng, kind, [20, 20])
    again = arguments | {"keys": arguments["keys"] + np.array([0, 1], np.uint64)}
    first, second = run(arguments, 3)[0], run(again, 3)[0]
    assert first[0].tobytes() == second[0].tobytes()
    assert (first[1] != second[1]).all()


def test_without_biases_and_without_roots(rng):
    arguments = problem(rng, "levels", [7, 3])
    for name in ("bias_precision", "bias_linear"):
        del arguments[name]
    arguments["items"] = np.ascontiguousarray(arguments["items"][:, :, :-1])
    means = np.empty((2, 3, 4))
    assert _native.fold_in_latent(**arguments, means=means, steps=3) == -1
    assert means.tobytes() == run(arguments, 3)[0].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_not_positive_definite_names_the_first_user(kind, rng):
    arguments = problem(rng, kind, [2, 1, 0, 3, 2], n_items=6, n_draws=11)
    arguments["columns"][:] = np.array([0, 1, 2, 3, 4, 5, 3, 1])
    arguments["items"][3:5, 10, 0] = np.nan
    extra = {"out_precision": np.empty((5, 11))} if kind == "uneven" else {}
    assert _native.fold_in_latent(**arguments, **extra, means=np.empty((5, 11, 5)), steps=2, threads=2) == 3


def test_a_prior_that_is_not_positive_definite_fails_for_all(rng):
    arguments = problem(rng, "levels", [2, 1])
    arguments["prior_precision"][1] = -np.eye(4)
    assert _native.fold_in_latent(**arguments, means=np.empty((2, 3, 5)), steps=1) == 0


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        ("levels", "kind", "stars", "kind"),
        ("levels", "steps", 0, "steps"),
        ("levels", "keys", np.zeros(3, np.uint64), "keys"),
        ("levels", "latent_offset", np.nan, "latent_offset"),
        ("levels", "alpha", np.full(3, 2.0), "alpha"),
        ("levels", "alpha", np.ones(2), "alpha"),
        ("levels", "edges", None, "edges"),
        ("levels", "edges", EDGES[::-1].copy(), "edges"),
        ("levels", "cuts", None, "cuts"),
        ("levels", "cuts", np.zeros((3, 2)), "cuts"),
        ("levels", "cuts", np.zeros((3, 3)), "cuts"),
        ("levels", "cuts", np.tile([0.0, 1.0, np.nan], (3, 1)), "cuts"),
        ("levels", "concentration", np.ones(3), "uneven only"),
        ("levels", "item_precision", np.ones((30, 3)), "uneven only"),
        ("levels", "columns", np.array([0, 99], np.int32), "columns"),
        ("levels", "means", np.zeros((2, 3, 4)), "means"),
        ("logistic", "edges", EDGES, "edges"),
        ("logistic", "edges", None, "edges"),
        ("logistic", "cuts", np.zeros((3, 1)), "cuts"),
        ("uneven", "edges", EDGES, "edges"),
        ("uneven", "latent_offset", 0.5, "latent_offset"),
        ("uneven", "alpha", np.zeros(3), "alpha"),
        ("uneven", "item_precision", None, "item_precision"),
        ("uneven", "item_precision", np.ones((3, 30)), "item_precision"),
        ("uneven", "concentration", None, "concentration"),
        ("uneven", "concentration", np.zeros(3), "concentration"),
        ("uneven", "concentration", np.full(3, np.inf), "concentration"),
        ("uneven", "out_precision", None, "out_precision"),
        ("uneven", "out_precision", np.zeros((3, 2)), "out_precision"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(kind, name, value, message, rng):
    arguments = problem(rng, kind, [1, 1]) | {"means": np.zeros((2, 3, 5)), "steps": 2}
    if kind == "uneven":
        arguments["out_precision"] = np.zeros((2, 3))
    assert _native.fold_in_latent(**arguments) == -1
    with pytest.raises(ValueError, match=message):
        _native.fold_in_latent(**(arguments | {name: value}))
