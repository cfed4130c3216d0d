"""The priors that shrink columns, with a fixed number of columns: the sampler keeps the posterior of its own story.

- the log density of hyper-parameters is that of the story, written down once more with scipy;
- conditional ratios: what each block is drawn from is read off the draw itself, and differences of its log density are
  differences of the log joint density;
- Geweke's test: steps and simulations in turn keep the joint distribution of parameters and ratings.

Each is tried on broken twins, which must fail. Seeds are fixed; over fresh seeds each of Geweke's tests of the right
sampler would fail once in a million times (1e-6 after Bonferroni).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.small_story import N_FACTORS, WHERE, functionals, is_broken, rows_of, sampler_of
from scipy import integrate, stats

from tastespace.distributions.conjugate import Gamma, NormalGamma
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.priors.shrinkage import (
    CumulativePopulation,
    CumulativePrior,
    RelevancePrior,
    UnitPrior,
    drawn_means,
    squares_of,
)
from tastespace.models.factorization.priors.von_mises_fisher import SpherePrior
from tastespace.models.factorization.rows import Factors
from tastespace.models.factorization.sphere.moves import SphereMoves
from tastespace.randomness import generator
from tastespace.testing.geweke import geweke

pytestmark = pytest.mark.statistical

BIAS = NormalGamma(centre=0.0, strength=2.0, shape=5.0, rate=5.0)
CUMULATIVE = CumulativePrior(spike=0.3, shape=5.0, rate=5.0, expected=1.5, strength=2.0, bias=BIAS)
RELEVANCE = RelevancePrior(shape=5.0, rate=5.0, least=0.5, strength=2.0, bias=BIAS)
SPHERE = Sphere(1.3)


def story(prior, *, biases=True, sphere=None):
    noise = Gaussian(shape=5.0, rate=5.0)
    if sphere is None:
        return FactorModel(N_FACTORS, biases, noise, UnitPrior(2.0, BIAS), prior, dtype=np.float64)
    moves = SphereMoves(sphere, "slice", 5)
    of_items = SpherePrior(sphere, Gamma(2.0, 1.0), BIAS)
    return FactorModel(N_FACTORS, biases, noise, prior, of_items, dtype=np.float64, item_moves=moves)


def population_of(state, sphere):
    return state.item_population if sphere is None else state.user_population


# The log density of the hyper-parameters


def bias_logpdf(population):
    of_mean = stats.norm.logpdf(population.bias_mean, 0.0, (2.0 * population.bias_precision) ** -0.5)
    return of_mean + stats.gamma.logpdf(population.bias_precision, 5.0, scale=1 / 5.0)


def means_logpdf(population):
    return stats.norm.logpdf(population.mean, 0.0, (2.0 * np.diag(population.precision)) ** -0.5).sum()


def test_the_density_of_cumulative_shrinkage_is_that_of_the_story():
    rng = generator(1)
    for _ in range(20):
        population = CUMULATIVE.sample(4, True, rng)
        total = bias_logpdf(population) + means_logpdf(population)
        rest = 1.0
        weights = []
        for stick in population.sticks:
            weights.append(rest * stick)
            rest *= 1 - stick
            total += stats.beta.logpdf(stick, 1.0, 1.5)
        for h, (label, precision) in enumerate(zip(population.labels, np.diag(population.precision), strict=True)):
            total += np.log([*weights, rest][label])
            if label > h:
                total += stats.invgamma.logpdf(1 / precision, 5.0, scale=5.0)
            else:
                assert precision == 1 / 0.3
        assert CUMULATIVE.log_density(population) == pytest.approx(total, rel=1e-10)


def test_the_density_of_relevance_is_that_of_the_story():
    rng = generator(1)
    for _ in range(5):
        population = RELEVANCE.sample(4, True, rng)
        total = bias_logpdf(population) + means_logpdf(population)
        total += stats.gamma.logpdf(np.diag(population.precision), 5.0, scale=0.2).sum()
        assert RELEVANCE.log_density(population) == pytest.approx(total, rel=1e-10)
        no_biases = RELEVANCE.sample(4, False, rng)
        expected = means_logpdf(no_biases) + stats.gamma.logpdf(np.diag(no_biases.precision), 5.0, scale=0.2).sum()
        assert RELEVANCE.log_density(no_biases) == pytest.approx(expected, rel=1e-10)


# Conditional ratios


class Probe:
    """Stands in for the generator of a draw, and gives away what is drawn from: gammas are 1, shapes are kept."""

    def __init__(self, uniform):
        self.uniform, self.gammas, self.betas = uniform, [], None

    def spawn(self, n):
        """Blocks of rows draw from children."""
        return [self] * n

    def random(self, size):
        return np.full(size, self.uniform)

    def gamma(self, shape, size=None):
        self.gammas.append(np.broadcast_to(shape, () if size is None else (size,)) if size is not None else shape)
        return np.ones(np.shape(self.gammas[-1]))

    def beta(self, a, b):
        self.betas = np.asarray(a), np.asarray(b)
        return np.full(np.shape(b), 0.5)

    def standard_normal(self, size=None):
        return np.zeros(size)


def rows_and_state(n_columns=3):
    """Rows of seven, and hyper-parameters that they may have come from."""
    rng = generator(5)
    population = CUMULATIVE.sample(n_columns, False, rng)
    factors = 0.3 + rng.standard_normal((7, n_columns)) * np.array([1.5, 0.6, 0.4])[:n_columns]
    return population, Factors(factors)


def log_joint(prior, population, rows):
    """Of hyper-parameters and rows, without the means: their conditional is normal, and taken off."""
    return prior.log_density(population) + population.log_density(rows) - log_means(population, rows)


def log_means(population, rows):
    """The density of the means given all else."""
    sds = (np.diag(population.precision) * (rows.moments.n + 2.0)) ** -0.5
    return stats.norm.logpdf(population.mean, rows.moments.total / (rows.moments.n + 2.0), sds).sum()


def with_columns(population, **changes):
    return replace(population, **changes)


def wrong_labels(prior):
    """Columns and labels whose weight is not the joint density with the variance integrated out."""
    population, rows = rows_and_state()
    weights = prior.log_label_weights(population.sticks, squares_of(rows.moments, 2.0), rows.moments.n)
    wrong = set()
    for h in range(3):
        joint = []
        for label in range(4):
            labels = population.labels.copy()
            labels[h] = label

            def density(variance, labels=labels, h=h):
                precision = population.precision.copy()
                precision[h, h] = 1 / variance
                moved = with_columns(population, labels=labels, precision=precision)
                # The story itself, not what may be a twin.
                return log_joint(CUMULATIVE, moved, rows)

            if label <= h:
                joint.append(density(CUMULATIVE.spike))
            else:
                top = max(density(variance) for variance in np.geomspace(0.01, 30, 60))
                area, _ = integrate.quad(
                    lambda log_variance, top=top, density=density: np.exp(
                        density(np.exp(log_variance)) - top + log_variance
                    ),
                    np.log(1e-3),
                    np.log(1e3),
                    epsabs=0,
                    epsrel=1e-10,
                    limit=200,
                )
                joint.append(np.log(area) + top)
        difference = np.array(joint) - weights[h]
        wrong |= {(h, label) for label in range(4) if abs(difference[label] - difference[0]) > 1e-6}
    return wrong


class SlabWithoutRows(CumulativePrior):
    """The density of the slab with the prior's shape, as if no row had been seen."""

    def log_label_weights(self, sticks, squares, n):
        right = super().log_label_weights(sticks, squares, n)
        is_slab = np.arange(len(sticks) + 1) > np.arange(len(sticks))[:, None]
        return right + np.where(is_slab, n / 2 * np.log(self.rate + squares / 2)[:, None], 0.0)


class LaterColumnsFirst(CumulativePrior):
    """A spike where z_h > h."""

    def log_label_weights(self, sticks, squares, n):
        right = super().log_label_weights(sticks, squares, n)
        plain = super().log_label_weights(sticks, np.zeros_like(squares), 0)
        both = right - plain
        return plain + both[:, ::-1]


def test_labels_are_drawn_from_their_conditional():
    assert wrong_labels(CUMULATIVE) == set()


@pytest.mark.parametrize("twin", [SlabWithoutRows, LaterColumnsFirst])
def test_labels_of_broken_twins_are_not(twin):
    assert wrong_labels(twin(**vars(CUMULATIVE)))


def test_a_label_is_drawn_in_proportion_to_its_weight():
    """The draw itself: frequencies of the labels of each column, within 5 standard errors each."""
    population, rows = rows_and_state()
    weights = CUMULATIVE.log_label_weights(population.sticks, squares_of(rows.moments, 2.0), rows.moments.n)
    expected = np.exp(weights - np.logaddexp.reduce(weights, axis=1, keepdims=True))
    rng, n = generator(3), 2000
    counts = np.zeros((3, 4))
    for _ in range(n):
        drawn = CUMULATIVE.draw(rows, population, rng).labels
        counts[np.arange(3), drawn] += 1
    errors = np.sqrt(np.maximum(expected * (1 - expected), 1e-4) / n)
    assert (np.abs(counts / n - expected) < 5 * errors).all()


def sticks_and_variances(prior, population, rows):
    """The largest difference between joint and conditional log ratios of variances, and of sticks."""
    probe = Probe(uniform=0.999)  # labels as late as can be: slabs
    drawn = prior.draw(rows, population, probe)
    rng, slabs = generator(9), np.flatnonzero(drawn.is_slab)
    assert len(slabs)
    of_variances = []
    for h in slabs:
        scale = 1 / drawn.precision[h, h]  # a gamma of 1
        shape, (one, two) = probe.gammas[0][h], rng.gamma(4.0, size=2)
        joint = [
            log_joint(CUMULATIVE, with_columns(drawn, precision=_with_entry(drawn.precision, h, 1 / variance)), rows)
            for variance in (one, two)
        ]
        conditional = stats.invgamma.logpdf([one, two], shape, scale=scale)
        of_variances.append(abs((joint[1] - joint[0]) - (conditional[1] - conditional[0])))
    one, two = rng.uniform(0.1, 0.9, (2, len(drawn.sticks)))
    joint = [log_joint(CUMULATIVE, with_columns(drawn, sticks=sticks), rows) for sticks in (one, two)]
    conditional = [stats.beta.logpdf(sticks, *probe.betas).sum() for sticks in (one, two)]
    return max(of_variances), abs((joint[1] - joint[0]) - (conditional[1] - conditional[0]))


def _with_entry(matrix, h, value):
    changed = matrix.copy()
    changed[h, h] = value
    return changed


def test_means_are_drawn_from_their_conditional():
    """Differences of the joint density in the means alone; what is drawn with normals of 0 and 1 says the rest."""
    population, rows = rows_and_state()
    one, two = generator(2).standard_normal((2, 3))
    joint = [
        CUMULATIVE.log_density(moved) + moved.log_density(rows)
        for moved in (with_columns(population, mean=means) for means in (one, two))
    ]
    conditional = [log_means(with_columns(population, mean=means), rows) for means in (one, two)]
    assert joint[1] - joint[0] == pytest.approx(conditional[1] - conditional[0], rel=1e-10)
    variances = 1 / np.diag(population.precision)
    centre = drawn_means(2.0, variances, rows.moments, Probe(0.5))
    np.testing.assert_allclose(centre, rows.moments.total / (rows.moments.n + 2.0), rtol=1e-12)
    moved = drawn_means(
        2.0, variances, rows.moments, type("Ones", (), {"standard_normal": lambda self, n: np.ones(n)})()
    )
    np.testing.assert_allclose(moved - centre, (variances / (rows.moments.n + 2.0)) ** 0.5, rtol=1e-12)


class HalfShape(CumulativePrior):
    """The shape of a slab's variance off by one half."""

    def _variances(self, labels, squares, n, rng):
        return super()._variances(labels, squares, n + 1, rng)


class ForgottenSticks(CumulativePrior):
    """Sticks that learn nothing of the labels."""

    def _given(self, rows, sticks, rng):
        drawn = super()._given(rows, sticks, rng)
        return replace(drawn, sticks=rng.beta(np.ones(len(sticks)), np.full(len(sticks), self.expected)))


def test_variances_and_sticks_are_drawn_from_their_conditionals():
    assert max(sticks_and_variances(CUMULATIVE, *rows_and_state())) < 1e-9


def test_those_of_broken_twins_are_not():
    of_variances, of_sticks = sticks_and_variances(HalfShape(**vars(CUMULATIVE)), *rows_and_state())
    assert of_variances > 1e-3
    assert of_sticks < 1e-9
    of_variances, of_sticks = sticks_and_variances(ForgottenSticks(**vars(CUMULATIVE)), *rows_and_state())
    assert of_variances < 1e-9
    assert of_sticks > 1e-3


def relevance_disagrees(prior):
    _, rows = rows_and_state()
    probe = Probe(uniform=0.5)
    drawn = prior.draw(rows, None, probe)
    one, two = generator(9).gamma(4.0, size=(2, 3))
    joint = [log_joint(RELEVANCE, replace(drawn, precision=np.diag(precisions)), rows) for precisions in (one, two)]
    scales = np.diag(drawn.precision)  # a gamma of 1
    conditional = [stats.gamma.logpdf(precisions, probe.gammas[0], scale=scales).sum() for precisions in (one, two)]
    return abs((joint[1] - joint[0]) - (conditional[1] - conditional[0]))


class NoHalf(RelevancePrior):
    """The squares, and not half of them."""

    def draw(self, rows, current, rng):
        drawn = super().draw(rows, current, rng)
        rates = self.rate + squares_of(rows.moments, self.strength) / 2
        return replace(drawn, precision=drawn.precision * rates / (2 * rates - self.rate))


class ForgottenMean(RelevancePrior):
    """Squares around 0, though the columns have means."""

    def draw(self, rows, current, rng):
        of_rows = rows.moments
        squares = np.outer(of_rows.total, of_rows.total) / (of_rows.n + self.strength)
        return super().draw(rows_of(replace(of_rows, gram=of_rows.gram + squares)), current, rng)


def test_relevance_is_drawn_from_its_conditional():
    assert relevance_disagrees(RELEVANCE) < 1e-9
    assert relevance_disagrees(NoHalf(**vars(RELEVANCE))) > 1e-3
    assert relevance_disagrees(ForgottenMean(**vars(RELEVANCE))) > 1e-3


# Geweke


class ShrunkBiases(CumulativePrior):
    """Biases that share the population of the factors."""

    def draw(self, rows, current, rng):
        drawn = super().draw(rows, current, rng)
        return replace(drawn, bias_precision=float(drawn.precision[0, 0]))


TWINS = {
    "slab without rows": (CUMULATIVE, SlabWithoutRows),
    "biases shrink": (CUMULATIVE, ShrunkBiases),
    "squares not halved": (RELEVANCE, NoHalf),
}


def looked_at(prior, biases, sphere):
    """What is looked at of all stories, and of the columns that shrink."""
    chosen = functionals(biases)
    if sphere is not None:  # of items on a sphere there is less to say
        chosen = {name: function for name, function in chosen.items() if not name.startswith("items: ")}
        chosen["items: agreement"] = lambda params, ratings: float(params.items.factors[0] @ params.items.factors[1])
    for h in range(N_FACTORS):
        chosen[f"log variance {h}"] = lambda params, _, h=h: -np.log(population_of(params, sphere).precision[h, h])
    if isinstance(prior, CumulativePrior):
        # A label that was drawn makes its stick longer.
        chosen["first stick of its label"] = lambda params, _: float(
            (population_of(params, sphere).labels[0] == 0) * population_of(params, sphere).sticks[0]
        )
        chosen["slabs"] = lambda params, _: float(population_of(params, sphere).is_slab.sum())
        for h in range(N_FACTORS):
            chosen[f"label {h}"] = lambda params, _, h=h: float(population_of(params, sphere).labels[h])
            chosen[f"stick {h}"] = lambda params, _, h=h: float(population_of(params, sphere).sticks[h])
    return chosen


def binding(model):
    return lambda observed: sampler_of(model, observed)


@pytest.mark.parametrize(
    ("prior", "biases", "sphere", "n"),
    [
        (CUMULATIVE, True, None, 2000),
        (RELEVANCE, True, None, 1600),
        (RELEVANCE, False, None, 2000),
        (CUMULATIVE, True, SPHERE, 1600),
    ],
    ids=["cumulative", "relevance", "relevance, no biases", "cumulative on a sphere"],
)
def test_steps_and_simulations_keep_the_joint_distribution(prior, biases, sphere, n):
    model = story(prior, biases=biases, sphere=sphere)
    chosen = looked_at(prior, biases, sphere)
    geweke(model, binding(model), WHERE, chosen, n=n, rng=generator(7)).assert_passes()


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_do_not_keep_it(twin):
    prior, kind = TWINS[twin]
    model, broken = story(prior), story(kind(**vars(prior)))
    result = geweke(model, binding(broken), WHERE, looked_at(prior, True, None), n=1000, rng=generator(7))
    assert is_broken(result), result


def test_a_start_outside_the_prior_is_accepted():
    """What is kept of a draw has no labels: chains that go on from there make their own."""
    population, rows = rows_and_state()
    plain = RELEVANCE.draw(rows, None, generator(1))
    assert isinstance(CUMULATIVE.draw(rows, plain, generator(1)), CumulativePopulation)
