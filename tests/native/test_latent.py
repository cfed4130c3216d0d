"""Latent responses: scores and bins equal their twins, draws have the right law on any thread, mistakes would show.

A right program fails one of the tests of draws less than once in a million seeds: every p-value is compared with 1e-6
over the number of p-values in the test (Bonferroni), a mean with 6 standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import latent as reference
from scipy import integrate, stats

from tastespace import _native

FALSE_ALARM = 1e-6
TYPES = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
STARS = np.array([1.5, 2.5, 3.5, 4.5])
CUTS = np.array([-1.5, -0.5, 0.4, 1.5])


def score_rows(arguments, threads=1, **options):
    out = np.full(len(arguments["columns"]), np.nan, arguments["rows"].dtype)
    _native.score_rows(**arguments, out=out, threads=threads, **options)
    return out


def score_problem(rng, counts, n_columns, n_factors, dtype):
    return {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "columns": rng.integers(0, n_columns, int(np.sum(counts))).astype(np.int32),
        "rows": rng.standard_normal((len(counts), n_factors)).astype(dtype),
        "other": rng.standard_normal((n_columns, n_factors)).astype(dtype),
    }


def biases(arguments, rng):
    return {
        "row_bias": rng.standard_normal(len(arguments["rows"])).astype(arguments["rows"].dtype),
        "other_bias": rng.standard_normal(len(arguments["other"])).astype(arguments["rows"].dtype),
        "offset": 3.5,
    }


def assert_scores_equal_twin(arguments, **options):
    tolerance = TOLERANCE[arguments["rows"].dtype]
    expected = reference.scores(**arguments, **options)
    np.testing.assert_allclose(score_rows(arguments, **options), expected, rtol=tolerance, atol=tolerance)


@given(
    counts=st.lists(st.integers(0, 20), max_size=6),
    n_factors=st.integers(0, 70),
    dtype=st.sampled_from(TYPES),
    seed=st.integers(0, 2**32 - 1),
    with_biases=st.booleans(),
)
def test_scores_equal_their_twin(counts, n_factors, dtype, seed, with_biases):
    rng = np.random.default_rng(seed)
    arguments = score_problem(rng, counts, 9, n_factors, dtype)
    assert_scores_equal_twin(arguments, **(biases(arguments, rng) if with_biases else {}))


def test_scores_of_a_rating_do_not_depend_on_threads_or_neighbours(rng):
    counts = [40_000, 0, 3, 20_000, 1]
    arguments = score_problem(rng, counts, 50, 32, np.float32)
    options = biases(arguments, rng)
    assert_scores_equal_twin(arguments, **options)
    one = score_rows(arguments, **options)
    for threads in (2, 3):
        assert score_rows(arguments, threads, **options).tobytes() == one.tobytes()
    alone = {"offsets": np.array([0, 1]), "columns": arguments["columns"][41_000:41_001]}
    alone |= {"rows": arguments["rows"][3:4], "other": arguments["other"]}
    options["row_bias"] = options["row_bias"][3:4]
    assert score_rows(alone, **options)[0] == one[41_000]


def truncated(scores, values, edges, cuts, key=0, threads=1):
    scores = np.asarray(scores)
    out = np.full(len(scores), np.nan, scores.dtype)
    values, edges = np.asarray(values, scores.dtype), np.asarray(edges, scores.dtype)
    _native.draw_truncated(scores, values, edges, np.asarray(cuts, np.float64), key, out, threads)
    return out


# Means and intervals: both tails, near and far, bounded and not; narrow and wide ones around the mean and beside it.
INTERVALS = [
    (0.0, -np.inf, np.inf),
    (0.3, -np.inf, 0.0),
    (-0.3, 0.0, np.inf),
    (-2.0, 0.0, np.inf),
    (2.0, -np.inf, 0.0),
    (-8.0, 0.0, np.inf),
    (8.0, -np.inf, 0.0),
    (-20.0, 1.0, 1.02),
    (20.0, -1.02, -1.0),
    (0.0, -0.4, 0.3),
    (0.0, -1.4, 1.3),
    (0.2, -3.0, 0.1),
    (0.0, 0.5, 0.6),
    (0.0, 0.5, 2.5),
    (0.0, 0.5, 3.0),
    (0.0, -3.0, -0.5),
    (0.0, -0.6, -0.5),
    (1.0, 1.0, 2.0),
    (1.0, 0.0, 1.0),
    (-4.0, 0.0, 0.1),
    (-4.0, 0.0, 0.5),
    (5.0, -0.5, 0.0),
]


def one_interval(mean, low, high):
    """Edges, cuts and a value whose level has this interval."""
    cuts = [cut for cut in (low, high) if np.isfinite(cut)]
    edges = np.arange(len(cuts)) + 0.5
    return edges, np.array(cuts), 1.0 if np.isfinite(low) else 0.0


def truncated_p_value(mean, low, high, draws):
    return reference.kolmogorov(reference.truncated_uniform(draws.astype(np.float64), mean, low, high))


@pytest.mark.parametrize(("mean", "low", "high"), INTERVALS)
@pytest.mark.statistical
def test_truncated_draws_have_the_law_of_their_interval(mean, low, high):
    edges, cuts, value = one_interval(mean, low, high)
    scores = np.full(200_000, mean)
    draws = truncated(scores, np.full(len(scores), value), edges, cuts, key=3)
    assert (draws > low).all()
    assert (draws <= high).all()
    assert truncated_p_value(mean, low, high, draws) > FALSE_ALARM / len(INTERVALS)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.statistical
def test_truncated_draws_of_stars_have_the_law_of_their_levels(dtype, rng):
    scores = rng.standard_normal(300_000).astype(dtype)
    values = rng.integers(1, 6, len(scores))
    draws = truncated(scores, values, STARS, CUTS, key=11).astype(np.float64)
    low, high = reference.ends(values, STARS, CUTS)
    assert (draws > low).all()
    assert (draws <= high).all()
    uniforms = reference.truncated_uniform(draws, scores.astype(np.float64), low, high)
    for level in range(1, 6):
        assert reference.kolmogorov(uniforms[values == level]) > FALSE_ALARM / 10


@pytest.mark.statistical
def test_a_forgotten_tail_would_be_noticed(rng):
    """Broken twin: what lies more than three beyond the cut is never drawn."""
    draws = np.abs(rng.standard_normal(400_000))
    assert truncated_p_value(0.0, 0.0, np.inf, draws[:200_000]) > FALSE_ALARM
    assert truncated_p_value(0.0, 0.0, np.inf, draws[draws < 3.0][:200_000]) > FALSE_ALARM / len(INTERVALS)
    assert truncated_p_value(0.0, 0.0, np.inf, draws[draws < 2.5][:200_000]) < FALSE_ALARM / len(INTERVALS)


@pytest.mark.statistical
def test_a_uniform_in_place_of_a_tail_would_be_noticed(rng):
    """Broken twin: a narrow interval far out, drawn without its rejection."""
    draws = rng.uniform(1.0, 1.02, 200_000)
    assert truncated_p_value(-20.0, 1.0, 1.02, draws) < FALSE_ALARM / len(INTERVALS)


def test_levels_count_the_edges_below_the_value():
    values = np.array([-5.0, 1.4999, 1.5, 1.5001, 2.5, 4.5, 4.6, 99.0])
    draws = truncated(np.zeros(len(values)), values, STARS, CUTS)
    low, high = reference.ends(values, STARS, CUTS)
    assert low.tolist() == [-np.inf, -np.inf, -np.inf, -1.5, -1.5, 0.4, 1.5, 1.5]
    assert ((draws > low) & (draws <= high)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("far", [1.0, 30.0, 1e4, 1e8, 1e30])
def test_any_distance_from_the_cuts_gives_a_number_inside(far, dtype):
    values = np.tile(np.arange(1, 6), 400)
    for scores in (np.full(len(values), far, dtype), np.full(len(values), -far, dtype)):
        draws = truncated(scores, values, STARS, CUTS, key=2).astype(np.float64)
        low, high = reference.ends(values, STARS, CUTS)
        assert np.isfinite(draws).all()
        assert ((draws > low) & (draws <= high)).all()


def test_rounding_to_single_precision_stays_inside():
    cut = 0.1  # float32(0.1) lies above it
    values = np.tile([0.0, 1.0], 2000)
    for score in (-1e5, 1e5):
        draws = truncated(np.full(len(values), score, np.float32), values, [0.5], [cut]).astype(np.float64)
        assert (draws[::2] <= cut).all()
        assert (draws[1::2] > cut).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_gives_no_number_and_spoils_nothing_else(poison):
    scores, values = np.zeros(9), np.full(9, 3.0)
    scores[4] = poison
    draws = truncated(scores, values, STARS, CUTS)
    assert np.isnan(draws[4])
    assert np.isfinite(np.delete(draws, 4)).all()
    out = np.zeros(9)
    _native.draw_polya_gamma(scores, 1, out)
    assert np.isnan(out[4])
    assert np.isfinite(np.delete(out, 4)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_draws_may_take_the_place_of_the_scores(dtype, rng):
    scores, values = rng.standard_normal(5000).astype(dtype), rng.integers(1, 6, 5000).astype(dtype)
    apart = truncated(scores, values, STARS, CUTS)
    place = scores.copy()
    _native.draw_truncated(place, values, STARS.astype(dtype), CUTS, 0, place)
    assert place.tobytes() == apart.tobytes()


def polya_gamma(scores, key=0, threads=1):
    out = np.full(len(scores), np.nan, scores.dtype)
    _native.draw_polya_gamma(scores, key, out, threads)
    return out


# Both ways to draw the left part (they part at |c| = 3.125), the series, and far out.
PLACES = [0.0, 0.3, -1.0, 2.0, 3.1, 3.15, -5.0, 10.0, 23.9, 24.1, 60.0]


def polya_gamma_errors(draws, c):
    """Mean, and three values of the Laplace transform, in standard errors."""
    mean = reference.polya_gamma_mean(np.float64(c))
    found = [(draws, mean)]
    found += [(np.exp(-t * draws), reference.polya_gamma_laplace(c, t)) for t in (0.5 / mean, 1 / mean, 4 / mean)]
    return np.array([(values.mean() - expected) / (values.std() / len(values) ** 0.5) for values, expected in found])


@pytest.mark.parametrize("c", PLACES)
def test_polya_gamma_has_its_mean_and_laplace_transform(c):
    draws = polya_gamma(np.full(1_000_000, c), key=5)
    assert (draws > 0).all()
    assert np.abs(polya_gamma_errors(draws, c)).max() < 6


@pytest.mark.parametrize("c", [0.0, 2.0, 6.0])
def test_polya_gamma_has_its_variance(c):
    draws = polya_gamma(np.full(1_000_000, c), key=6)
    variance = 1 / 24 if c == 0 else (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)
    squares = (draws - draws.mean()) ** 2
    assert abs(squares.mean() - variance) < 6 * squares.std() / len(squares) ** 0.5


@pytest.mark.parametrize("c", [0.0, 1.5, 4.0, 9.0])
@pytest.mark.statistical
def test_polya_gamma_has_the_law_of_its_sum_of_gammas(c, rng):
    draws = polya_gamma(np.full(100_000, c), key=7)
    expected = reference.polya_gamma_sum(c, 100_000, rng)
    assert stats.ks_2samp(draws, expected).pvalue > FALSE_ALARM / 4


@pytest.mark.statistical
def test_a_polya_gamma_without_its_score_would_be_noticed():
    """Broken twins: the score left out, halved or doubled."""
    for wrong in (0.0, 0.5, 2.0):
        draws = polya_gamma(np.full(1_000_000, wrong), key=5)
        assert np.abs(polya_gamma_errors(draws, 1.0)).max() > 6


@pytest.mark.statistical
def test_polya_gamma_is_right_where_its_proposals_meet():
    """There the series rejects most, and that is one proposal in 170: 5 standard errors of 64 million draws."""
    near, n = (0.145, 0.175), 64_000_000
    found = sum(
        np.count_nonzero((draws > near[0]) & (draws < near[1]))
        for draws in (polya_gamma(np.zeros(4_000_000), key) for key in range(n // 4_000_000))
    )
    chance = integrate.quad(reference.polya_gamma_density, *near)[0]
    error = (n * chance * (1 - chance)) ** 0.5
    assert abs(found - n * chance) < 5 * error
    # Broken twin: without the series the first terms are the density.
    first = [
        integrate.quad(reference.polya_gamma_density, *ends, args=(1,))[0] for ends in (near, (1e-9, 0.16), (0.16, 9))
    ]
    assert n * abs(first[0] / (first[1] + first[2]) - chance) > 8 * error


@pytest.mark.parametrize("dtype", TYPES)
def test_polya_gamma_is_positive_and_finite_for_any_score(dtype):
    largest = float(np.finfo(dtype).max)
    scores = np.repeat(np.array([0.0, 1e-30, 1e2, 1e4, 1e8, 1e30, largest, -largest], dtype), 2000)
    draws = polya_gamma(scores)
    assert np.isfinite(draws).all()
    assert (draws > 0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_same_bytes_with_any_number_of_threads(dtype, rng):
    n = 70_001
    scores, values = rng.standard_normal(n).astype(dtype), rng.integers(1, 6, n).astype(dtype)
    draws, gammas = truncated(scores, values, STARS, CUTS, 9), polya_gamma(scores, 9)
    grid = spread(scores, values, STARS.astype(dtype), -8.0, 0.05, 321)
    for threads in (2, 3):
        assert truncated(scores, values, STARS, CUTS, 9, threads).tobytes() == draws.tobytes()
        assert polya_gamma(scores, 9, threads).tobytes() == gammas.tobytes()
        assert spread(scores, values, STARS.astype(dtype), -8.0, 0.05, 321, threads).tobytes() == grid.tobytes()


def test_a_draw_depends_on_key_and_place_only(rng):
    scores, values = rng.standard_normal(5000), rng.integers(1, 6, 5000)
    draws = truncated(scores, values, STARS, CUTS, key=4)
    assert truncated(scores[:2048], values[:2048], STARS, CUTS, key=4).tobytes() == draws[:2048].tobytes()
    assert (truncated(scores, values, STARS, CUTS, key=5) != draws).all()


def test_streams_of_neighbouring_keys_and_blocks_have_nothing_in_common():
    """Correlations of normals at the same place: 6 standard errors, over 27 pairs of streams."""
    n, block = 1024 * 256, 1024
    unbounded = [
        truncated(np.zeros(n), np.zeros(n), [], [], key=key) for key in (0, 1, 2, 2**32, 2**63, 2**64 - 1, 1 << 40)
    ]
    for i, left in enumerate(unbounded):
        for right in unbounded[:i]:
            assert abs(left @ right) / n**0.5 < 6
    for lag in (1, 2, 3, 64, 128):
        at = lag * block
        assert abs(unbounded[0][at:] @ unbounded[0][:-at]) / (n - at) ** 0.5 < 6
    # Block b of key k is not block b + 1 of key k - 1 either.
    assert abs(unbounded[1][block:] @ unbounded[0][:-block]) / (n - block) ** 0.5 < 6
    assert stats.kstest(unbounded[0], "norm").pvalue > FALSE_ALARM
    assert stats.kstest(unbounded[0].reshape(-1, block)[:, 0] ** 2, "chi2", args=(1,)).pvalue > FALSE_ALARM


def test_normals_have_their_tail():
    """The part of a ziggurat that is drawn seldom: beyond its last layer, at 3.65."""
    n = 3_000_000
    draws = np.abs(truncated(np.zeros(n), np.zeros(n), [], [], key=8))
    beyond = draws[draws > 3.5]
    expected = 2 * stats.norm.sf(3.5)
    assert abs(len(beyond) - n * expected) < 6 * (n * expected) ** 0.5
    assert reference.kolmogorov(stats.norm.sf(beyond) / stats.norm.sf(3.5)) > FALSE_ALARM


def spread(scores, values, edges, first, step, n_nodes, threads=1):
    out = np.full((len(edges) + 1, n_nodes), np.nan)
    assert _native.bin_scores(scores, values, edges, first, step, out, threads) == -1
    return out


@given(
    n=st.integers(0, 60),
    n_edges=st.integers(0, 5),
    n_nodes=st.integers(4, 12),
    dtype=st.sampled_from(TYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_bins_equal_their_twin(n, n_edges, n_nodes, dtype, seed):
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-0.999, -0.999 + 0.5 * (n_nodes - 1.01), n).astype(dtype)
    values = rng.integers(0, n_edges + 1, n).astype(dtype)
    edges = (np.arange(n_edges) + 0.5).astype(dtype)
    expected = reference.bins(scores, values, edges, -1.0, 0.5, n_nodes)
    np.testing.assert_allclose(spread(scores, values, edges, -1.0, 0.5, n_nodes), expected, rtol=1e-10, atol=1e-12)


def test_bins_interpolate_sums_of_smooth_functions(rng):
    scores, values = rng.standard_normal(400_000), rng.integers(1, 6, 400_000).astype(np.float64)
    nodes = -8 + 0.05 * np.arange(321)
    got = spread(scores, values, STARS, -8.0, 0.05, 321) @ np.log(stats.norm.cdf(0.7 - nodes))
    exact = np.log(stats.norm.cdf(0.7 - scores))
    expected = [exact[values == level].sum() for level in range(1, 6)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.statistical
def test_bins_of_cubics_are_exact_and_linear_weights_would_be_noticed(rng):
    scores = rng.uniform(0.0, 9.0, 1000)
    grid = spread(scores, np.zeros(1000), np.zeros(0), 0.0, 1.0, 10)[0]
    for power in range(4):
        assert grid @ np.arange(10.0) ** power == pytest.approx((scores**power).sum(), rel=1e-11)
    linear = np.bincount(scores.astype(int), 1 - scores % 1, 10) + np.bincount(scores.astype(int) + 1, scores % 1, 10)
    assert linear @ np.arange(10.0) ** 3 != pytest.approx((scores**3).sum(), rel=1e-4)


def test_the_ends_of_the_grid_belong_to_it():
    grid = spread(np.array([0.0, 5.0]), np.zeros(2), np.zeros(0), 0.0, 1.0, 6)[0]
    np.testing.assert_allclose(grid, [1, 0, 0, 0, 0, 1], atol=1e-15)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, -8.001, 8.001])
def test_the_first_score_outside_the_grid_is_named(poison):
    scores = np.zeros(100_000)
    scores[[40_000, 90_000]] = poison
    out = np.zeros((1, 321))
    for threads in (1, 2):
        assert _native.bin_scores(scores, scores, np.zeros(0), -8.0, 0.05, out, threads) == 40_000


SCORES = {
    "offsets": np.array([0, 1, 2], np.int64),
    "columns": np.array([0, 1], np.int32),
    "rows": np.zeros((2, 3)),
    "other": np.zeros((4, 3)),
    "out": np.zeros(2),
    "row_bias": np.zeros(2),
    "other_bias": np.zeros(4),
}
DRAWS = {
    "scores": np.zeros(3),
    "values": np.zeros(3),
    "edges": np.array([1.5, 2.5]),
    "cuts": np.array([0.0, 1.0]),
    "key": 1,
    "out": np.zeros(3),
}
GAMMAS = {"scores": np.zeros(3), "key": 1, "out": np.zeros(3)}
BINS = {
    "scores": np.zeros(3),
    "values": np.zeros(3),
    "edges": np.array([1.5]),
    "first": -1.0,
    "step": 0.5,
    "out": np.zeros((2, 8)),
}


@pytest.mark.parametrize(
    ("function", "arguments", "name", "value", "message"),
    [
        (_native.score_rows, SCORES, "offsets", np.array([0, 2, 1], np.int64), "offsets"),
        (_native.score_rows, SCORES, "offsets", np.array([0, 2], np.int64), "offsets"),
        (_native.score_rows, SCORES, "columns", np.array([0, 4], np.int32), "columns"),
        (_native.score_rows, SCORES, "columns", np.array([-1, 0], np.int32), "columns"),
        (_native.score_rows, SCORES, "other", np.zeros((4, 2)), "factors"),
        (_native.score_rows, SCORES, "out", np.zeros(3), "out"),
        (_native.score_rows, SCORES, "row_bias", np.zeros(3), "row_bias"),
        (_native.score_rows, SCORES, "other_bias", np.zeros(3), "other_bias"),
        (_native.draw_truncated, DRAWS, "scores", np.zeros(2), "scores"),
        (_native.draw_truncated, DRAWS, "values", np.zeros(2), "values"),
        (_native.draw_truncated, DRAWS, "out", np.zeros(2), "out"),
        (_native.draw_truncated, DRAWS, "edges", np.array([2.5, 1.5]), "edges"),
        (_native.draw_truncated, DRAWS, "edges", np.array([1.5, np.nan]), "edges"),
        (_native.draw_truncated, DRAWS, "cuts", np.zeros(1), "cuts"),
        (_native.draw_truncated, DRAWS, "cuts", np.zeros(2), "cuts"),
        (_native.draw_truncated, DRAWS, "cuts", np.array([0.0, np.inf]), "cuts"),
        (_native.draw_polya_gamma, GAMMAS, "scores", np.zeros(2), "scores"),
        (_native.bin_scores, BINS, "values", np.zeros(2), "values"),
        (_native.bin_scores, BINS, "edges", np.array([np.inf]), "edges"),
        (_native.bin_scores, BINS, "first", np.nan, "first"),
        (_native.bin_scores, BINS, "step", 0.0, "step"),
        (_native.bin_scores, BINS, "step", np.nan, "step"),
        (_native.bin_scores, BINS, "out", np.zeros((1, 8)), "out"),
        (_native.bin_scores, BINS, "out", np.zeros((2, 3)), "out"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(function, arguments, name, value, message):
    function(**arguments)
    with pytest.raises(ValueError, match=message):
        function(**(arguments | {name: value}))


def test_results_of_another_type_are_refused_not_lost():
    with pytest.raises(TypeError, match="draw_polya_gamma"):
        _native.draw_polya_gamma(np.zeros(3), 1, np.zeros(3, np.int64))
    with pytest.raises(TypeError, match="draw_truncated"):
        _native.draw_truncated(np.zeros(3), np.zeros(3), np.zeros(0), np.zeros(0), -1, np.zeros(3))
