"""The Gibbs sampler of Bayesian matrix factorization draws from the posterior of its own story.

Four proofs, from the sharpest to the widest:

- the log joint density is that of the story, written down once more with scipy;
- conditional ratios: what a step draws each block from is read off the step itself, and differences of its log density
  are differences of the log joint, without any Monte Carlo error;
- Geweke's test: steps and simulations in turn keep the joint distribution of parameters and ratings;
- simulation-based calibration: posteriors have the right place and width, warm-up and start included.

Each is tried on broken twins, which must fail. Seeds are fixed. Over fresh seeds each test of the right sampler would
fail once in a million times (1e-6 after Bonferroni), so that a failure is a mistake in the sampler, and never a reason
to try again.

4 users, 3 items, 2 factors, 7 ratings; one user has rated nothing. The prior is one with moments: 2 + 6 degrees of
freedom, and a noise precision from Gamma(5, 5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from reference.small_story import N_FACTORS, PRIOR, WHERE, Silent, functionals, is_broken, sampler_of
from scipy import stats

from tastespace.models.factorization.gibbs.generative_model import FactorModel, scores
from tastespace.models.factorization.gibbs.sweep import GibbsSweep
from tastespace.models.factorization.likelihoods.base import Noise
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors.normal_wishart import NormalWishartPrior, Population
from tastespace.models.factorization.rows import NORMAL_ROWS, Factors, NormalRows
from tastespace.randomness import generator
from tastespace.testing.calibration import simulation_based_calibration
from tastespace.testing.geweke import geweke

pytestmark = pytest.mark.statistical

LEARNED, FIXED = Gaussian(shape=5.0, rate=5.0), Gaussian(1.7)


def story(*, biases=True, likelihood=LEARNED, prior=PRIOR):
    return FactorModel(N_FACTORS, biases, likelihood, prior, prior, offset=0.0, scale=1.0, dtype=np.float64)


def sampler(parameters, observed, *, kind=Silent, moves=NORMAL_ROWS, **options):
    """The transition of the story with these parameters."""
    model = replace(story(**parameters), user_moves=moves, item_moves=moves)
    return sampler_of(model, observed, kind, **options)


# Broken twins


class InNumpy(NormalRows):
    """Rows drawn by the book: right itself, and the frame for rows drawn wrongly."""

    def drawn(self, given, population, rng):
        side, alpha, other = given.side, given.alpha, given.other
        n_rows, n_others = len(side.offsets) - 1, len(other.factors)
        (rng,) = rng.spawn(1)  # of the one block of rows
        noise, design = rng.standard_normal((n_rows, N_FACTORS)), other.factors
        has_biases = other.bias is not None
        precision, linear = population.precision, population.precision @ population.mean
        place = np.repeat(np.arange(n_rows), np.diff(side.offsets)), side.columns
        is_rated, targets = np.zeros((n_rows, n_others)), np.zeros((n_rows, n_others))
        is_rated[place], targets[place] = 1, (side.targets - side.offset) / side.scale
        if has_biases:
            noise = np.column_stack([noise, rng.standard_normal(n_rows)])
            design = np.column_stack([design, np.ones(n_others)])
            precision = np.block([[precision, np.zeros((2, 1))], [np.zeros((1, 2)), population.bias_precision]])
            linear = np.append(linear, population.bias_precision * population.bias_mean)
            targets = is_rated * (targets - other.bias)
        precision = precision + alpha * np.einsum("nm,md,me->nde", is_rated, design, design)
        rows = self.centre(precision, linear, targets @ design, alpha) + self.spread(precision, noise)
        points = Factors(rows[:, :2].copy(), rows[:, 2].copy() if has_biases else None)
        return points, np.sum((targets - is_rated * (rows @ design.T)) ** 2, axis=1)

    def centre(self, precision, linear, products, alpha):
        return solved(precision, linear + alpha * products)

    def spread(self, precision, noise):
        return solved(np.linalg.cholesky(precision).swapaxes(1, 2), noise)


def solved(matrices, vectors):
    """One linear system a row."""
    return np.linalg.solve(matrices, vectors[..., None])[..., 0]


class NoPrecisionInMean(InNumpy):
    def centre(self, precision, linear, products, alpha):
        return solved(precision, linear + products)


class WrongTriangle(InNumpy):
    """L^-1 z for L^-T z: the right variances in all, but not in the right directions."""

    def spread(self, precision, noise):
        return solved(np.linalg.cholesky(precision), noise)


class StaleMoments(Silent):
    """Hyper-parameters drawn after the rows, but given the rows before."""

    def step(self, state, rng):
        users, items = state.users, state.items
        user_population, item_population = state.user_population, state.item_population
        model = replace(self.model, user_prior=_Given(user_population), item_prior=_Given(item_population))
        new, _ = Silent.step(replace(self, model=model), state, rng)
        return replace(
            new,
            user_population=self.model.user_prior.draw(users, None, rng),
            item_population=self.model.item_prior.draw(items, None, rng),
        ), {}


@dataclass(frozen=True)
class _Given:
    """Hyper-parameters that stay as they are."""

    population: Population

    columns = None

    def draw(self, rows, current, rng):
        return self.population

    def log_density(self, population):
        return 0.0


class HalfShape(Gaussian):
    """The shape of the noise precision off by one half."""

    def learn(self, given, squares, noise, rng):
        if given.axis == "item":
            return noise
        return Noise(self.prior.posterior(len(given.side.columns) + 1, float(squares.sum())).draw(rng))


class WishartOffByOne(NormalWishartPrior):
    """One degree of freedom too many."""

    def draw(self, rows, current, rng):
        return NormalWishartPrior.draw(replace(self, degrees=self.degrees + 1), rows, current, rng)


class BiasPriorNotUpdated(NormalWishartPrior):
    def draw(self, rows, current, rng):
        drawn = super().draw(rows, current, rng)
        mean, precision = self.bias.draw(rng)
        return replace(drawn, bias_mean=mean, bias_precision=precision)


class NoStrength(NormalWishartPrior):
    """beta0 dropped: the mean of the rows is taken for the mean of their population."""

    def draw(self, rows, current, rng):
        return NormalWishartPrior.draw(replace(self, strength=1e-9), rows, current, rng)


TWINS = {
    "noise precision missing from the mean": partial(sampler, {}, moves=NoPrecisionInMean()),
    "the wrong triangle": partial(sampler, {}, moves=WrongTriangle()),
    "stale moments": partial(sampler, {}, kind=StaleMoments),
    "shape off by one half": partial(sampler, {"likelihood": HalfShape(shape=5.0, rate=5.0)}),
    "degrees of freedom off by one": partial(sampler, {"prior": WishartOffByOne(**vars(PRIOR))}),
    "bias prior not updated": partial(sampler, {"prior": BiasPriorNotUpdated(**vars(PRIOR))}),
    "strength of the mean dropped": partial(sampler, {"prior": NoStrength(**vars(PRIOR))}),
}


# The log joint


def normal_logpdf(values, means, precision):
    return stats.norm.logpdf(values, means, precision**-0.5).sum()


def log_joint_by_the_book(params, ratings, model):
    """Density by density, from the story as it is told."""
    score = [
        params.users.factors[i] @ params.items.factors[j]
        + (params.users.bias[i] + params.items.bias[j] if model.has_biases else 0.0)
        for i, j in zip(ratings.user_rows, ratings.item_rows, strict=True)
    ]
    total = normal_logpdf(ratings.values.astype(np.float64), score, params.noise.alpha)
    if model.likelihood is LEARNED:
        total += stats.gamma.logpdf(params.noise.alpha, 5.0, scale=1 / 5.0)
    for points, population in (
        (params.users, params.user_population),
        (params.items, params.item_population),
    ):
        covariance = np.linalg.inv(population.precision)
        total += stats.multivariate_normal.logpdf(points.factors, population.mean, covariance).sum()
        total += stats.multivariate_normal.logpdf(population.mean, np.zeros(2), covariance / 2.0)
        total += stats.wishart.logpdf(population.precision, 8.0, np.eye(2))
        if model.has_biases:
            total += normal_logpdf(points.bias, population.bias_mean, population.bias_precision)
            total += normal_logpdf(population.bias_mean, 0.0, 2.0 * population.bias_precision)
            total += stats.gamma.logpdf(population.bias_precision, 5.0, scale=1 / 5.0)
    return total


CASES = pytest.mark.parametrize(
    "parameters",
    [{}, {"biases": False}, {"likelihood": FIXED}],
    ids=["biases", "no biases", "fixed noise"],
)


@CASES
def test_the_log_joint_is_that_of_the_story(parameters):
    model, rng = story(**parameters), generator(1)
    for _ in range(5):
        params = model.sample_prior(WHERE, rng)
        ratings = model.simulate(params, WHERE, rng)
        expected = log_joint_by_the_book(params, ratings, model)
        assert model.log_joint(params, ratings) == pytest.approx(expected, rel=1e-10)


# Conditional ratios


class Probe:
    """Stands in for the generator of a step, and gives away what the step draws from.

    Normals are 0, but for one component of one block, which is 1; gamma and chi-square variates are 1, and the shapes
    asked for are kept. So a row comes out as its conditional mean, or as that plus a column of a root of its
    covariance; a precision as the inverse of its rate; a precision matrix as the scale of its Wishart distribution.
    """

    def __init__(self, block=None, component=0):
        self.block, self.component = block, component
        self.place = "noise"
        self.shapes = {}

    def spawn(self, n):
        """Blocks of rows draw from children."""
        return [self] * n

    def standard_normal(self, size=None, dtype=np.float64):
        size = () if size is None else tuple(np.atleast_1d(size))
        normals = np.zeros(size, dtype)
        rows = {WHERE.n_users: "users", WHERE.n_items: "items"}
        if size and size[0] in rows:
            self.place = "noise"  # The precision of the noise comes after rows.
            is_bias = len(size) == 1
            if self.block == rows[size[0]] and is_bias == (self.component == N_FACTORS):
                normals[..., slice(None) if is_bias else self.component] = 1
        elif size == (N_FACTORS,) and self.block == self.place and self.component < N_FACTORS:
            normals[self.component] = 1
        elif size == () and self.block == self.place and self.component == N_FACTORS:
            return 1.0
        return normals if size else 0.0

    def chisquare(self, degrees):
        # Hyper-parameters begin with the matrix, those of users come first.
        self.place = "item population" if "user population" in self.shapes else "user population"
        np.testing.assert_allclose(degrees, degrees[0] - np.arange(N_FACTORS))  # Bartlett's decomposition
        self.shapes[self.place] = float(degrees[0])
        return np.ones(N_FACTORS)

    def gamma(self, shape):
        self.shapes[f"{self.place} bias" if "population" in self.place else self.place] = float(shape)
        return 1.0


class Conditionals:
    """What one step draws each block from, given the blocks as they are when its turn comes."""

    def __init__(self, transition, state):
        self.transition, self.state = transition, state
        probe = Probe()
        self.base, _ = transition.step(state, probe)
        self.shapes = probe.shapes
        self.has_biases = state.users.bias is not None

    def moved(self, block, component):
        return self.transition.step(self.state, Probe(block, component))[0]

    def given(self, block):
        """The state when a block is drawn; what it has in the place of the block plays no part."""
        old, new = self.state, self.base
        populations = {"user_population": new.user_population, "item_population": new.item_population}
        return {
            "items": replace(old, **populations),
            "users": replace(old, items=new.items, **populations),
            "noise": replace(new, noise=old.noise),
        }.get(block, old)

    def log_density(self, block, state):
        """Of this block of a state."""
        if block == "noise":
            return stats.gamma.logpdf(state.noise.alpha, self.shapes[block], scale=self.base.noise.alpha)
        if block in ("users", "items"):
            return self._rows(block, state)
        name = "user_population" if block.startswith("user") else "item_population"
        of, population = f"{name.replace('_', ' ')}", getattr(self.base, name)
        here = getattr(state, name)
        if block.endswith("bias"):
            moved = getattr(self.moved(of, N_FACTORS), name)
            strength = 1 / ((moved.bias_mean - population.bias_mean) ** 2 * population.bias_precision)
            of_mean = normal_logpdf(here.bias_mean, population.bias_mean, strength * here.bias_precision)
            return of_mean + stats.gamma.logpdf(
                here.bias_precision, self.shapes[block], scale=population.bias_precision
            )
        root = np.stack([getattr(self.moved(of, k), name).mean - population.mean for k in range(N_FACTORS)], axis=1)
        # The step drew the mean with the covariance root root^T = (strength x scale)^-1.
        strength = N_FACTORS / np.trace(population.precision @ root @ root.T)
        np.testing.assert_allclose(strength * population.precision @ root @ root.T, np.eye(N_FACTORS), atol=1e-9)
        of_mean = stats.multivariate_normal.logpdf(here.mean, population.mean, np.linalg.inv(strength * here.precision))
        return of_mean + stats.wishart.logpdf(here.precision, self.shapes[block], population.precision)

    def _rows(self, block, state):
        centre = whole(getattr(self.base, block))
        n_components = N_FACTORS + self.has_biases
        root = np.stack([whole(getattr(self.moved(block, k), block)) - centre for k in range(n_components)], axis=2)
        return sum(
            stats.multivariate_normal.logpdf(row, mean, columns @ columns.T)
            for row, mean, columns in zip(whole(getattr(state, block)), centre, root, strict=True)
        )


def whole(points):
    """Factors and bias of each row beside one another."""
    return points.factors if points.bias is None else np.column_stack([points.factors, points.bias])


def with_block(state, block, other):
    """A state with one block of another."""
    if block == "noise":
        return replace(state, noise=other.noise)
    if block in ("users", "items"):
        return replace(state, **{block: getattr(other, block)})
    name = "user_population" if block.startswith("user") else "item_population"
    here, there = getattr(state, name), getattr(other, name)
    if block.endswith("bias"):
        changed = replace(here, bias_mean=there.bias_mean, bias_precision=there.bias_precision)
    else:
        changed = replace(here, mean=there.mean, precision=there.precision)
    return replace(state, **{name: changed})


def blocks_that_disagree(model, bind, seed=2):
    """Blocks whose conditional density does not change as the joint density does, from one value to another."""
    rng = generator(seed)
    blocks = ["users", "items", "user population", "item population"]
    blocks += ["user population bias", "item population bias"] if model.has_biases else []
    blocks += ["noise"] if model.likelihood.prior is not None else []
    wrong = set()
    for _ in range(3):
        state, one, two = (model.sample_prior(WHERE, rng) for _ in range(3))
        ratings = model.simulate(state, WHERE, rng)
        conditionals = Conditionals(bind(ratings), state)
        for block in blocks:
            first, second = (with_block(conditionals.given(block), block, other) for other in (one, two))
            joint = model.log_joint(second, ratings) - model.log_joint(first, ratings)
            conditional = conditionals.log_density(block, second) - conditionals.log_density(block, first)
            if not abs(joint - conditional) <= 1e-7 * (1 + abs(joint)):
                wrong.add(block)
    return wrong


@CASES
def test_every_block_is_drawn_from_its_conditional(parameters):
    model = story(**parameters)
    assert blocks_that_disagree(model, partial(sampler_of, model, kind=GibbsSweep)) == set()


def test_the_frame_of_the_broken_twins_is_right():
    """Without a fault in it, it draws the same as the kernel does from the same noise; silence changes nothing."""
    model = story()
    state = model.sample_prior(WHERE, generator(1))
    ratings = model.simulate(state, WHERE, generator(2))
    kernel, _ = sampler_of(model, ratings, GibbsSweep).step(state, generator(3))
    silent, _ = sampler({}, ratings).step(state, generator(3))
    numpy, _ = sampler({}, ratings, moves=InNumpy()).step(state, generator(3))
    for block in ("users", "items"):
        np.testing.assert_array_equal(whole(getattr(silent, block)), whole(getattr(kernel, block)))
        np.testing.assert_allclose(whole(getattr(numpy, block)), whole(getattr(kernel, block)), rtol=1e-9)
    assert silent.noise.alpha == kernel.noise.alpha
    assert numpy.noise.alpha == pytest.approx(kernel.noise.alpha, rel=1e-9)


ROWS = {"users", "items"}
POPULATIONS = {"user population", "item population"}
BIASES = {"user population bias", "item population bias"}


@pytest.mark.parametrize(
    ("twin", "expected"),
    [
        ("noise precision missing from the mean", ROWS),
        ("the wrong triangle", ROWS),
        ("stale moments", ROWS),  # drawn given other hyper-parameters than those they end up with
        ("shape off by one half", {"noise"}),
        ("degrees of freedom off by one", POPULATIONS),
        ("bias prior not updated", BIASES),
        ("strength of the mean dropped", POPULATIONS),
    ],
)
def test_broken_twins_disagree_in_the_broken_block(twin, expected):
    assert blocks_that_disagree(story(), TWINS[twin]) == expected


# Geweke


@pytest.mark.parametrize(
    ("parameters", "inner_sweeps"),
    [
        pytest.param({}, 1, id="biases"),
        pytest.param({"biases": False}, 1, id="no biases"),
        pytest.param({"likelihood": FIXED}, 1, id="fixed noise", marks=pytest.mark.slow),
        pytest.param({}, 2, id="two inner sweeps", marks=pytest.mark.slow),
    ],
)
def test_steps_and_simulations_keep_the_joint_distribution(parameters, inner_sweeps):
    model = story(**parameters)
    result = geweke(
        model,
        partial(sampler, parameters, inner_sweeps=inner_sweeps),
        WHERE,
        functionals(model.has_biases),
        n=3000,
        rng=generator(7),
    )
    result.assert_passes()


# Steps for small faults: variances in all are right, a precision is a twentieth too large.
LONGER = {"the wrong triangle": 5500, "shape off by one half": 3500}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_do_not_keep_it(twin):
    n = LONGER.get(twin, 1800)
    result = geweke(story(), TWINS[twin], WHERE, functionals(biases=True), n=n, rng=generator(7))
    assert is_broken(result), result


# Calibration


def score_of(user, item):
    return lambda params, ratings: scores(params, np.array([user]), np.array([item]))[0]


# All but the two that move too slowly: thinned chains should have draws that are as good as independent.
RANKED = {name: function for name, function in functionals(biases=True).items() if "log squared biases" not in name} | {
    "rated pair": score_of(0, 0),
    "unrated pair": score_of(0, 2),
    "user without ratings": score_of(3, 1),
    "log joint": lambda params, ratings: story().log_joint(params, ratings),
}


def calibration(bind, n):
    return simulation_based_calibration(
        story(), bind, WHERE, RANKED, n=n, draws=19, warmup=20, thin=5, rng=generator(7)
    )


def test_posteriors_are_calibrated():
    """From the start at ALS that a fit makes, too."""
    result = calibration(partial(sampler, {}), n=100)
    result.assert_passes()
    for row in result.rows:
        assert abs(row.correlation) < 0.15, result
        for level in (0.5, 0.9):
            assert row.coverage(level).p_value > 1e-6 / (2 * len(result.rows)), result


@pytest.mark.slow
def test_posteriors_of_broken_twins_are_not():
    """Those whose faults are large. For the small ones ranks are too few: that is what Geweke's test is for."""
    stale = calibration(TWINS["stale moments"], n=100)
    assert stale.p_value < 1e-6
    assert stale["log joint"].p_value < 1e-6
    dropped = calibration(TWINS["strength of the mean dropped"], n=100)
    assert dropped["users: mean in its units"].p_value < 1e-6
    assert dropped["users: mean in its units"].coverage(0.9).p_value < 1e-6
    exploding = calibration(TWINS["noise precision missing from the mean"], n=100)
    assert exploding.p_value == 0
    assert exploding.failure is not None
