"""A story small enough to be looked at in every way: four users, three items, two factors."""

from __future__ import annotations

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import NormalGamma
from tastespace.models.factorization.gibbs.generative_model import scores
from tastespace.models.factorization.gibbs.sweep import GibbsSweep
from tastespace.models.factorization.likelihoods.base import Observations
from tastespace.models.factorization.priors.normal_wishart import NormalWishartPrior
from tastespace.models.factorization.rows import Factors

N_FACTORS = 2
PAIRS = np.array([(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0)])
# The last rating is left out, but not its user: a row without ratings must be drawn from the population.
WHERE = Ratings.from_arrays(*PAIRS.T, np.zeros(len(PAIRS))).masked(PAIRS[:, 0] < 3)
PRIOR = NormalWishartPrior(degrees=N_FACTORS + 6.0, bias=NormalGamma(centre=0.0, strength=2.0, shape=5.0, rate=5.0))


# What is looked at: logarithms, bounded functions, and quadratic forms in their own units, which have chi-square
# distributions under the story, and whose cube roots are nearly normal. Turning users and items together changes none
# of them, but for "first less second".


def in_units(points, population):
    apart = points.factors - population.mean
    return np.cbrt(np.einsum("nd,de,ne->", apart, population.precision, apart))


def mean_in_units(points, population):
    return np.cbrt(PRIOR.strength * population.mean @ population.precision @ population.mean)


def log_determinant(matrix):
    """Of two rows and columns: by hand, ten times as fast as by a decomposition."""
    (a, b), (c, d) = matrix.tolist()
    return np.log(a * d - b * c)


def first_less_second(points, population):
    """The wrong triangle of a matrix treats the first factor otherwise than the last."""
    squares = (points.factors**2).sum(0)
    return np.log(squares[0] / squares[1])


def biases_in_units(points, population):
    return np.cbrt(population.bias_precision * ((points.bias - population.bias_mean) ** 2).sum())


def bias_mean_in_units(points, population):
    return np.cbrt(PRIOR.bias.strength * population.bias_precision * population.bias_mean**2)


def squared_errors(params, ratings):
    errors = ratings.values - scores(params, ratings.user_rows, ratings.item_rows)
    return np.cbrt(params.noise.alpha * np.sum(errors**2))


def agreement(params, ratings):
    return np.mean(np.tanh(ratings.values) * np.tanh(scores(params, ratings.user_rows, ratings.item_rows)))


OF_NOISE = {
    "log noise precision": lambda params, ratings: np.log(params.noise.alpha),
    "squared errors": squared_errors,
    "ratings with scores": agreement,
}
OF_SIDE = {
    "log squared factors": lambda points, population: np.log((points.factors**2).sum()),
    "factors in their units": in_units,
    "mean in its units": mean_in_units,
    "log determinant": lambda points, population: log_determinant(population.precision),
    "first less second": first_less_second,
}
OF_BIAS = {
    "log bias precision": lambda points, population: np.log(population.bias_precision),
    "log squared biases": lambda points, population: np.log((points.bias**2).sum()),
    "biases in their units": biases_in_units,
    "bias mean in its units": bias_mean_in_units,
}


def functionals(biases):
    chosen = dict(OF_NOISE)
    for name, function in {**OF_SIDE, **(OF_BIAS if biases else {})}.items():
        chosen[f"users: {name}"] = lambda params, _, of=function: of(params.users, params.user_population)
        chosen[f"items: {name}"] = lambda params, _, of=function: of(params.items, params.item_population)
    return chosen


def rows_of(moments):
    """Rows of which nothing is known but their moments."""
    rows = Factors(np.zeros((moments.n, len(moments.total))), np.zeros(moments.n) if moments.has_bias else None)
    vars(rows)["moments"] = moments
    return rows


class Silent(GibbsSweep):
    """The sampler without its figures, which are a third of the time where there is so little to draw."""

    def _figures(self, state, squares):
        return {}


def sampler_of(model, ratings, kind=Silent, **options):
    """The sampler of the posterior of a model given ratings."""
    return kind(model, Observations.of(ratings, model.dtype, model.offset, model.scale), **options)


def is_broken(result):
    """Whether Geweke's test found a fault for a reason, and not because a chain was too short to tell."""
    blew_up = result.failure is not None and "effective draws" not in result.failure
    return result.p_value < 1e-6 and (blew_up or max(abs(row.z) for row in result.rows) > 6)
