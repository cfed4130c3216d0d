"""Features shift the prior means of rows, and the sampler draws from the posterior of that model.

The small story of four users and three items, with two groups of features on either side: one like a bag (few entries,
each 1/sqrt(n)), one dense. Every solver is tried, and every broken twin must fail. Seeds are fixed; over fresh seeds a
test of the right sampler would fail once in a million times.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from reference.small_story import (
    N_FACTORS,
    PRIOR,
    WHERE,
    Silent,
    bias_mean_in_units,
    functionals,
    is_broken,
    log_determinant,
    mean_in_units,
    sampler_of,
)
from scipy import stats

from tastespace import ALS, BPMF, read
from tastespace.distributions.conjugate import KnownMean
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors import coefficients
from tastespace.models.factorization.priors.coefficients import ConjugateGradients
from tastespace.models.factorization.priors.coefficients import Drawn as Coefficients
from tastespace.models.factorization.priors.design import Design, Group
from tastespace.models.factorization.priors.features import FeaturePrior, joined, rotation
from tastespace.models.factorization.rows import Factors, NormalRows, draw_rows
from tastespace.randomness import generator
from tastespace.testing.calibration import simulation_based_calibration
from tastespace.testing.geweke import geweke
from tastespace.threads import one_blas_thread

pytestmark = pytest.mark.statistical


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Matrices are tiny: more threads of BLAS would only wait for one another."""
    with one_blas_thread():
        yield


def design_of(n_rows, n_others, seed):
    """Two numbers for each row, and a bag of the other side's rows."""
    rng = generator(seed)
    pairs = rng.random((n_rows, n_others)) < 0.6
    bag = pairs / np.sqrt(np.maximum(pairs.sum(axis=1, keepdims=True), 1))
    matrix = np.column_stack([rng.standard_normal((n_rows, 2)), bag])
    return Design(sp.csr_array(matrix), (Group("dense", 0, 2), Group("bag", 2, 2 + n_others)))


USERS, ITEMS = design_of(WHERE.n_users, WHERE.n_items, 1), design_of(WHERE.n_items, WHERE.n_users, 2)


def prior_of(kind=FeaturePrior, solver="cholesky", *, base=PRIOR, design=USERS):
    """The prior of group precisions has moments."""
    return kind(base, design, shape=6.0, rate=6.0, solver=solver)


@dataclass(frozen=True)
class OneSide:
    """The prior of one side as a model of its own: its parameters are a population, its data are rows."""

    prior: FeaturePrior
    biases: bool = True

    def sample_prior(self, where, rng):
        return self.prior.sample(N_FACTORS, self.biases, rng)

    def simulate(self, params, where, rng):
        return Drawn(params.draw_rows(self.prior.design.n_rows, np.float64, rng))


@dataclass(frozen=True)
class Drawn:
    """Rows in the place of ratings."""

    rows: Factors

    @property
    def values(self):
        return self.rows.factors


@dataclass(frozen=True)
class Step:
    prior: FeaturePrior
    rows: Factors

    def step(self, state, rng):
        return self.prior.draw(self.rows, state, rng), {}


def of_rows(points, population):
    """In units of the population; cube roots of chi-square variables are nearly normal."""
    apart = points.factors - population.row_means
    return np.cbrt(np.einsum("nd,de,ne->", apart, population.precision, apart))


def of_coefficients(population, group):
    """The squared coefficients of a group in units of their prior."""
    part = slice(USERS.groups[group].start, USERS.groups[group].stop)
    turned = population.coefficients[part] @ rotation(population.precision, population.bias_precision)
    return np.cbrt(population.group_precisions[group] * np.sum(turned**2))


def agreement(points, population):
    """How far rows and what features add to them agree."""
    return np.tanh(np.sum(points.factors * population.shifts[:, :N_FACTORS]))


def looked_at(prior, *, biases=True):
    has_known_mean = isinstance(prior.base.bias, KnownMean)
    chosen = {
        "rows": lambda population, data: of_rows(data.rows, population),
        "log determinant": lambda population, _: log_determinant(population.precision),
        "mean": lambda population, _: mean_in_units(None, population),
        "agreement": lambda population, data: agreement(data.rows, population),
    }
    if biases:
        chosen["log bias precision"] = lambda population, _: np.log(population.bias_precision)
    if biases and not has_known_mean:
        chosen["bias mean"] = lambda population, _: bias_mean_in_units(None, population)
    for k, group in enumerate(USERS.groups):
        chosen[f"log precision of {group.name}"] = lambda population, _, k=k: np.log(population.group_precisions[k])
        chosen[f"coefficients of {group.name}"] = lambda population, _, k=k: of_coefficients(population, k)
    return chosen


def compared(prior, n, seed, *, biases=True):
    return geweke(
        OneSide(prior, biases),
        lambda data: Step(prior, data.rows),
        WHERE,
        looked_at(prior, biases=biases),
        n=n,
        rng=generator(seed),
    )


# The log joint


def test_the_log_density_is_that_of_the_story():
    """Density by density: coefficients have the precision of the rows times that of their group."""
    prior, rng = prior_of(), generator(3)
    for _ in range(5):
        population = prior.sample(N_FACTORS, True, rng)
        rows = population.draw_rows(WHERE.n_users, np.float64, rng)
        expected = PRIOR.log_density(population)
        precision = joined(population.precision, population.bias_precision)
        for row, group in zip(population.coefficients, USERS.group_of, strict=True):
            covariance = np.linalg.inv(population.group_precisions[group] * precision)
            expected += stats.multivariate_normal.logpdf(row, np.zeros(3), covariance)
        lengths = [np.sum(USERS.matrix[:, part].toarray() ** 2) / WHERE.n_users for part in (slice(0, 2), slice(2, 5))]
        expected += stats.gamma.logpdf(population.group_precisions, 6.0, scale=np.array(lengths) / 6.0).sum()
        assert prior.log_density(population) == pytest.approx(expected, rel=1e-10)
        means = np.append(population.mean, population.bias_mean) + USERS.matrix @ population.coefficients
        whole = np.column_stack([rows.factors, rows.bias])
        of_rows = sum(
            stats.multivariate_normal.logpdf(row, mean, np.linalg.inv(precision))
            for row, mean in zip(whole, means, strict=True)
        )
        assert population.log_density(rows) == pytest.approx(of_rows, rel=1e-10)


# Geweke


@pytest.mark.parametrize("solver", list(coefficients.SOLVERS))
def test_every_solver_keeps_the_joint_distribution(solver):
    compared(prior_of(solver=solver), 2_000, 4).assert_passes()


KNOWN_MEAN = replace(PRIOR, bias=KnownMean(0.0, 5.0, 5.0))


@pytest.mark.parametrize(("base", "biases"), [(PRIOR, False), (KNOWN_MEAN, True)], ids=["no biases", "known mean"])
@pytest.mark.parametrize("solver", list(coefficients.SOLVERS))
@pytest.mark.slow
def test_biases_of_every_kind_keep_the_joint_distribution(solver, base, biases):
    compared(prior_of(solver=solver, base=base), 2_500, 5, biases=biases).assert_passes()


def story(kind=FeaturePrior, **options):
    """Both sides have features."""
    users, items = (prior_of(kind, design=design, **options) for design in (USERS, ITEMS))
    return FactorModel(N_FACTORS, True, Gaussian(shape=5.0, rate=5.0), users, items, dtype=np.float64)


def both_sides():
    slow = ("in their units", "log squared biases", "ratings with scores")  # or not of rows with features
    chosen = {name: of for name, of in functionals(True).items() if not any(part in name for part in slow)}
    for side in ("user", "item"):

        def of(function, side=side):
            return lambda params, _: function(getattr(params, f"{side}s"), getattr(params, f"{side}_population"))

        chosen[f"{side}s: rows in units"] = of(of_rows)
        chosen[f"{side}s: agreement"] = of(agreement)
        for k, group in enumerate(USERS.groups):
            chosen[f"{side}s: log precision of {group.name}"] = of(lambda _, p, k=k: np.log(p.group_precisions[k]))
    return chosen


def test_the_sampler_with_features_on_both_sides_keeps_the_joint_distribution():
    model = story()
    result = geweke(model, partial(sampler_of, model, kind=Silent), WHERE, both_sides(), n=4_000, rng=generator(4))
    result.assert_passes()


class NoRowMeans(Silent):
    """Rows drawn around one mean, whatever their features."""

    def step(self, state, rng):
        return Silent.step(replace(self, model=replace(self.model, user_moves=PlainRows())), state, rng)


class PlainRows(NormalRows):
    def drawn(self, given, population, rng):
        return draw_rows(given, population.centred.prior(np.float64), rng)


def test_rows_drawn_without_their_features_fail():
    model = story()
    result = geweke(model, partial(sampler_of, model, kind=NoRowMeans), WHERE, both_sides(), n=600, rng=generator(4))
    assert is_broken(result)


class DegreesWithoutFeatures(FeaturePrior):
    def n_rows_given(self, n_rows, n_features):
        _, of_bias = super().n_rows_given(n_rows, n_features)
        return n_rows + 1, of_bias


class BiasShapeWithoutFeatures(FeaturePrior):
    def n_rows_given(self, n_rows, n_features):
        of_factors, _ = super().n_rows_given(n_rows, n_features)
        return of_factors, n_rows + 1


class NoScatterOfCoefficients(FeaturePrior):
    def scatter_of_prior(self, start, of_groups, n_factors):
        return super().scatter_of_prior(replace(start, coefficients=0 * start.coefficients), of_groups, n_factors)


class GroupShapeWithoutFactors(FeaturePrior):
    def n_coefficients(self, n_features, width):
        return n_features


class NoNoiseOfPrior(ConjugateGradients):
    """Coefficients drawn as if their prior added nothing to their spread."""

    def solve(self, target, of_prior, start):
        return super().solve(target, 0 * of_prior, start)


class StaleCoefficients(FeaturePrior):
    """Coefficients integrated out of the precisions, and then kept as they were."""

    def draw(self, rows, current, rng):
        drawn = super().draw(rows, current, rng)
        if current is None:
            return drawn
        return replace(drawn, coefficients=current.coefficients, shifts=current.shifts)


TWINS = {
    "degrees without features": (DegreesWithoutFeatures, "feature-by-feature"),
    "shape of the bias precision without features": (BiasShapeWithoutFeatures, "feature-by-feature"),
    "scatter of the coefficients left out": (NoScatterOfCoefficients, "feature-by-feature"),
    "shape of a group without factors": (GroupShapeWithoutFactors, "cholesky"),
    "noise of the prior left out": (FeaturePrior, "no-noise"),
    "stale coefficients": (StaleCoefficients, "cholesky"),
}


@pytest.mark.parametrize("twin", list(TWINS))
def test_broken_twins_fail(twin, monkeypatch):
    monkeypatch.setitem(coefficients.SOLVERS, "no-noise", NoNoiseOfPrior)
    kind, solver = TWINS[twin]
    assert is_broken(compared(prior_of(kind, solver), 1_200, 6))


# Calibration


@pytest.mark.parametrize("solver", ["cholesky", "feature-by-feature"])
@pytest.mark.slow
def test_posteriors_have_the_right_place_and_width(solver):
    model = story(solver=solver)
    result = simulation_based_calibration(
        model,
        partial(sampler_of, model, kind=Silent),
        WHERE,
        both_sides(),
        n=100,
        draws=19,
        warmup=40,
        thin=10,
        rng=generator(7),
    )
    result.assert_passes()


# The solvers agree


@pytest.mark.parametrize("solver", ["cholesky", "feature-by-feature"])
def test_rows_whose_bag_is_not_known_are_like_all_rows(solver):
    """Their population is the regression of all rows on attributes; with an empty bag it would be far too narrow."""
    rng = generator(11)
    n_rows, n_others = 800, 12
    pairs = rng.random((n_rows, n_others)) < 0.5
    bag = pairs / np.sqrt(np.maximum(pairs.sum(axis=1, keepdims=True), 1))
    attribute = rng.standard_normal(n_rows)
    design = Design(sp.csr_array(np.column_stack([attribute, bag])), (Group("a", 0, 1), Group("bag", 1, 1 + n_others)))
    slope, effects = rng.standard_normal(3), 3 * rng.standard_normal((n_others, 3)) + 1.0
    points = np.outer(attribute, slope) + bag @ effects + 0.3 * rng.standard_normal((n_rows, 3))
    rows, prior = Factors(points[:, :2], points[:, 2]), prior_of(solver=solver, design=design)
    state, means, slopes, sds, empty = None, [], [], [], []
    for sweep in range(160):
        state = prior.draw(rows, state, rng)
        if sweep >= 40:
            found = state.bagless
            means.append(np.append(found.mean, found.bias_mean))
            slopes.append(found.coefficients[0])
            sds.append(np.sqrt(np.append(np.diag(np.linalg.inv(found.precision)), 1 / found.bias_precision)))
            empty.append(np.sqrt(np.append(np.diag(np.linalg.inv(state.precision)), 1 / state.bias_precision)))
    known = np.column_stack([np.ones(n_rows), attribute])
    fitted = np.linalg.lstsq(known, points, rcond=None)[0]
    sd = np.std(points - known @ fitted, axis=0)
    # Within five standard errors, of the regression and of 120 draws of it.
    margin = 5 * sd / np.sqrt(n_rows) * (1 + 1 / np.sqrt(len(means)))
    assert np.all(np.abs(np.mean(means, axis=0) - fitted[0]) < margin)
    assert np.all(np.abs(np.mean(slopes, axis=0) - fitted[1]) < margin)
    np.testing.assert_allclose(np.mean(sds, axis=0), sd, rtol=5 / np.sqrt(2 * n_rows))
    assert np.all(np.mean(empty, axis=0) < 0.6 * sd)


@pytest.mark.parametrize("known", [False, True])
def test_conjugate_gradients_solve_the_equations_that_cholesky_factors(known):
    """With the same noise: the mean is one more feature."""
    rng = generator(8)
    precision, beta = np.array([2.0, 2.0, 0.5, 0.5, 0.5]), np.array([2.0, 2.0, np.inf if known else 3.0])
    target, of_prior = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    start = Coefficients(np.zeros(3), np.zeros((5, 3)))
    found = ConjugateGradients(USERS, precision, beta).solve(target, of_prior, start)
    whole = np.column_stack([USERS.matrix.toarray(), np.ones(4)])
    for column in range(3):
        used = slice(None) if np.isfinite(beta[column]) else slice(0, 5)
        prior = np.append(precision, beta[column])[used]
        left = whole[:, used].T @ whole[:, used] + np.diag(prior)
        right = whole[:, used].T @ target[:, column] + np.sqrt(prior) * of_prior[used, column]
        expected = np.linalg.solve(left, right)
        np.testing.assert_allclose(found.coefficients[:, column], expected[:5], rtol=1e-4, atol=1e-5)
        assert found.mean[column] == pytest.approx(expected[5] if len(expected) > 5 else 0.0, rel=1e-4, abs=1e-5)


# Real ratings


def error_and_coverage(train, test):
    """Test RMSE, and how many test ratings 90 % intervals hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BPMF(n_factors=10, warmup=40, draws=60, seed=0).fit(train)
    found = model.predict(test.user_ids(), test.item_ids())
    low, high = found.interval(0.9).T
    held = float(np.mean((low <= test.values) & (test.values <= high)))
    return float(np.sqrt(np.mean((found.mean - test.values) ** 2))), held


@pytest.mark.slow
def test_noise_costs_nothing_and_values_of_the_ratings_themselves_fail(datasets):
    """300 columns of noise are shrunk away. Factors that were learned from the ratings count these twice: intervals
    become too narrow, and the error larger."""
    train, test = (read(datasets / "ml-100k" / f"u1.{part}") for part in ("base", "test"))
    plain, held = error_and_coverage(train, test)
    assert 0.88 <= held <= 0.92
    noise = generator(0).standard_normal((train.n_users, 300)).astype(np.float32)
    noisy, held = error_and_coverage(train.with_user_features(noise, ids=train.users.ids, name="noise"), test)
    assert noisy <= plain + 0.001
    assert 0.88 <= held <= 0.92
    learned = ALS(n_factors=10, seed=0).fit(train).posterior_
    naive = train.with_user_features(np.asarray(learned.users.factors), ids=train.users.ids, name="als")
    naive = naive.with_item_features(np.asarray(learned.items.factors), ids=train.items.ids, name="als")
    error, held = error_and_coverage(naive, test)
    assert error > plain + 0.02
    assert held < 0.85
