"""Features as priors: what is known of a row shifts the mean of its prior (Simm et al. 2017, "Macau").

    x_i ~ N(mu + B^T f_i, Lambda^-1),   c_i ~ N(mu_c + g^T f_i, 1/lambda_c)
    B_f ~ N(0, (lambda_G Lambda)^-1),   g_f ~ N(0, 1/(lambda_G lambda_c)),   lambda_G ~ Gamma(shape, rate)

f_i are the features of row i, in groups G of columns: attributes, vectors, the bag of its pairs. Every group has a
precision of its own, so that a useless one is shrunk by itself. (mu, Lambda) and (mu_c, lambda_c) are those of the
prior without features.

A new row has no bag: its bag is missing, and not empty. And a new item is not like any of the catalogue, but like those
that ratings are of: popular items are better than their features tell. So a population of new rows is drawn, too. Its
coefficients are those given the attributes alone; its mean and precision are those of all rows around them, for items
each as often as it is rated. Nothing else depends on it.

With the Cholesky factor at hand, Lambda and lambda_c are drawn with all coefficients integrated out, which mixes far
better; else given the coefficients, whose own prior then counts, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, pi
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.distributions.conjugate import Gamma, NormalGamma
from tastespace.models.factorization.priors.coefficients import SOLVERS, Cholesky, Drawn, Solver, solver_for
from tastespace.models.factorization.priors.design import Design
from tastespace.models.factorization.priors.normal_wishart import NormalPopulation, NormalWishartPrior, Population
from tastespace.models.factorization.rows import Factors, RowPrior

NOTHING = np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class FeaturePopulation(NormalPopulation):
    """Rows are normal around means of their own; W is the number of factors, plus one if rows have a bias."""

    coefficients: DoubleArray = field(default_factory=NOTHING.copy)  # F x W
    group_precisions: DoubleArray = field(default_factory=NOTHING.copy)  # of each group
    shifts: DoubleArray = field(default_factory=NOTHING.copy)  # n x W: what features add to the mean of each row
    shares: DoubleArray = field(default_factory=NOTHING.copy)  # of a kept draw: see `explained_shares`
    bagless: NormalPopulation | None = None  # of all rows given the attributes alone, if rows have bags
    new: NormalPopulation | None = None  # of new rows, if they differ

    @property
    def row_means(self) -> DoubleArray:
        return np.asarray(self.mean + self.shifts[:, : len(self.mean)])

    def prior(self, dtype: Any) -> RowPrior:
        prior = super().prior(dtype)
        if not self.bias_precision:
            return prior
        return replace(prior, bias_linears=(self.bias_precision * (self.bias_mean + self.shifts[:, -1])).astype(dtype))

    @property
    def centred(self) -> NormalPopulation:
        """The population of rows without features."""
        return NormalPopulation(self.mean, self.precision, self.bias_mean, self.bias_precision)

    def draw_rows(self, n: int, dtype: Any, rng: Generator) -> Factors:
        return self.moved(self.centred.draw_rows(n, np.float64, rng), self.shifts, dtype)

    def log_density(self, rows: Factors) -> float:
        return self.centred.log_density(self.moved(rows, -self.shifts, np.float64))

    def moved(self, rows: Factors, by: DoubleArray, dtype: Any) -> Factors:
        factors = (rows.factors + by[:, : len(self.mean)]).astype(dtype)
        return Factors(factors, None if rows.bias is None else (rows.bias + by[:, -1]).astype(dtype))


def rotation(precision: DoubleArray, bias_precision: float) -> DoubleArray:
    """R with R R^T the precision of a row and its bias, if it has one: x R has unit covariance. Lower triangular."""
    return np.asarray(np.linalg.cholesky(joined(precision, bias_precision)))


def turned_back(matrix: DoubleArray, turn: DoubleArray) -> DoubleArray:
    """The matrix whose product with a rotation is given."""
    return np.ascontiguousarray(scipy.linalg.solve_triangular(turn, matrix.T, lower=True, trans="T").T)


def stacked(rows: Factors) -> DoubleArray:
    """Factors and, last, biases, in double."""
    factors = rows.factors.astype(np.float64)
    return factors if rows.bias is None else np.column_stack([factors, rows.bias.astype(np.float64)])


def joined(precision: DoubleArray, bias_precision: float) -> DoubleArray:
    """The precision of a row, its bias last."""
    n = len(precision)
    whole = np.zeros((n + bool(bias_precision),) * 2)
    whole[:n, :n] = precision
    if bias_precision:
        whole[n, n] = bias_precision
    return whole


@dataclass(frozen=True, eq=False)
class FeaturePrior:
    """The hyper-prior of a side whose rows have features; `base` is the one without them.

    `shape` and `rate` are those of the precision of each group, for features of length 1 (see `of_groups`). `met` are
    the rows that new rows are like; None for all.
    """

    base: NormalWishartPrior
    design: Design
    shape: float = 1.0
    rate: float = 1.0
    solver: str = "auto"
    threads: int = 1
    met: IntArray | None = None

    columns: ClassVar[None] = None

    @cached_property
    def bagless(self) -> FeaturePrior | NormalWishartPrior | None:
        """The prior of the same rows by their attributes alone; None without a bag."""
        design = self.design.bagless
        if design is None:
            return None
        return replace(self, design=design, met=None) if design.n_features else self.base

    @property
    def of_groups(self) -> list[Gamma]:
        """The prior of the precision of each group, in units in which its part of a row has length 1 on average.

        With one prior for all scales, the rate would keep the precision of a group of many large columns too low: 300
        columns of noise explained a third of the rows.
        """
        return [Gamma(self.shape, self.rate / squares) for squares in self.design.usual_squares.tolist()]

    def sample(self, n_factors: int, biases: bool, rng: Generator) -> FeaturePopulation:
        population = self.base.sample(n_factors, biases, rng)
        of_groups = np.array([prior.draw(rng) for prior in self.of_groups])
        noise = rng.standard_normal((self.design.n_features, n_factors + biases))
        scaled = noise / np.sqrt(of_groups[self.design.group_of])[:, None]
        turn = rotation(population.precision, population.bias_precision)
        return self._population(population, turned_back(scaled, turn), of_groups)

    def draw(self, rows: Factors, current: Population | None, rng: Generator) -> FeaturePopulation:
        target, n_factors = stacked(rows), rows.factors.shape[1]
        target[:, n_factors:] -= self.base.bias.centre
        if isinstance(current, FeaturePopulation):
            of_groups = self.draw_group_precisions(current, rng)
        else:
            of_groups = np.array([prior.mean for prior in self.of_groups])
        solver = self._solver(of_groups, n_factors, target.shape[1] - n_factors)
        if isinstance(solver, Cholesky):
            of_features, of_mean = solver.projected(target)
            scatter = target.T @ target - of_features.T @ of_features - np.outer(of_mean, of_mean)
            precision, bias_precision = self._precisions(scatter, (len(target),) * 2, n_factors, rng)
            turn = rotation(precision, bias_precision)
            drawn = solver.solved(of_features @ turn, of_mean @ turn, rng)
        else:
            start = self._start(rows, current, rng)
            precision, bias_precision = self._precisions_given(target, start, of_groups, n_factors, rng)
            turn = rotation(precision, bias_precision)
            drawn = solver.draw(target @ turn, Drawn(start.mean @ turn, start.coefficients @ turn), rng)
        mean, coefficients = (turned_back(part, turn) for part in (drawn.mean[None], drawn.coefficients))
        bias_mean = float(mean[0, -1]) + self.base.bias.centre if bias_precision else 0.0
        factor_mean = np.ascontiguousarray(mean[0, :n_factors])
        population = NormalPopulation(factor_mean, precision, bias_mean, bias_precision)
        found = self._population(population, coefficients, of_groups)
        if self.bagless is not None:
            before = current.bagless if isinstance(current, FeaturePopulation) else None
            bagless = self.bagless.draw(rows, before, rng)
            assert isinstance(bagless, NormalPopulation)
            found = replace(found, bagless=bagless, new=bagless)
        return found if self.met is None else replace(found, new=self.draw_new(rows, found, self.met, rng))

    def draw_new(self, rows: Factors, drawn: FeaturePopulation, met: IntArray, rng: Generator) -> NormalPopulation:
        """The population of new rows: that of these rows around what attributes tell."""
        told: NormalPopulation = drawn if drawn.bagless is None else drawn.bagless
        if isinstance(told, FeaturePopulation):
            rows = told.moved(rows, -told.shifts, np.float64)
        around = self.base.draw(rows.masked(met), None, rng)
        parts = ("mean", "precision", "bias_mean", "bias_precision")
        return replace(told, **{name: getattr(around, name) for name in parts})

    def log_density(self, population: Population) -> float:
        assert isinstance(population, FeaturePopulation)
        turn = rotation(population.precision, population.bias_precision)
        squares = np.sum((population.coefficients @ turn) ** 2, axis=1)
        precision = population.group_precisions[self.design.group_of]
        of_each = (len(turn) * np.log(precision / (2 * pi)) - precision * squares) / 2
        drawn = zip(self.of_groups, population.group_precisions.tolist(), strict=True)
        of_groups = sum(prior.log_density(each) for prior, each in drawn)
        measure = len(squares) * float(np.log(np.diag(turn)).sum())
        return self.base.log_density(population) + float(of_each.sum()) + measure + of_groups

    def kept(
        self, population: FeaturePopulation, rows: Factors, other: Factors, *, with_bag: bool
    ) -> FeaturePopulation:
        """The part that is kept with a draw: coefficients in single precision, and the share that groups explain.

        Without the bag it is the population of new rows.
        """
        shares = explained_shares(self.design, population.coefficients, rows, other)

        def lean(known: NormalPopulation) -> FeaturePopulation:
            width = len(known.mean) + bool(known.bias_precision)
            drawn = known.coefficients if isinstance(known, FeaturePopulation) else np.zeros((0, width))
            coefficients: Any = drawn.astype(np.float32)
            return FeaturePopulation(
                *(known.mean, known.precision, known.bias_mean, known.bias_precision),
                coefficients=coefficients,
                group_precisions=population.group_precisions,
                shares=shares,
            )

        new = None if population.new is None else lean(population.new)
        return replace(lean(population), new=new) if with_bag or new is None else new

    # Parts of a draw

    def draw_group_precisions(self, current: FeaturePopulation, rng: Generator) -> DoubleArray:
        """The precision of each group given its coefficients."""
        turned = current.coefficients @ rotation(current.precision, current.bias_precision)
        squares = np.bincount(self.design.group_of, np.sum(turned**2, axis=1), minlength=len(self.design.groups))
        drawn = [
            prior.posterior(self.n_coefficients(len(group), turned.shape[1]), own).draw(rng)
            for prior, group, own in zip(self.of_groups, self.design.groups, squares.tolist(), strict=True)
        ]
        return np.array(drawn)

    def n_coefficients(self, n_features: int, width: int) -> int:
        """The number of coefficients of a group."""
        return n_features * width

    def _precisions_given(
        self, target: DoubleArray, start: Drawn, of_groups: DoubleArray, n_factors: int, rng: Generator
    ) -> tuple[DoubleArray, float]:
        """Precisions given mean and coefficients: their priors have the precision as a factor, and count as rows."""
        errors = target - start.mean - self.design.by_row.times(start.coefficients, self.threads)
        return self._precisions(
            errors.T @ errors + self.scatter_of_prior(start, of_groups, n_factors),
            self.n_rows_given(len(target), len(start.coefficients)),
            n_factors,
            rng,
        )

    def scatter_of_prior(self, start: Drawn, of_groups: DoubleArray, n_factors: int) -> DoubleArray:
        """B^T diag(lambda) B and the mean's part, in units of one row."""
        own = of_groups[self.design.group_of][:, None] * start.coefficients
        beta = self._beta(n_factors, len(start.mean) - n_factors)
        mean = np.sqrt(np.where(np.isfinite(beta), beta, 0.0)) * start.mean  # a fixed mean is 0
        return np.asarray(start.coefficients.T @ own + np.outer(mean, mean))

    def n_rows_given(self, n_rows: int, n_features: int) -> tuple[int, int]:
        """How many rows factors and biases count for, those of the coefficients and the mean among them."""
        return n_rows + n_features + 1, n_rows + n_features + isinstance(self.base.bias, NormalGamma)

    def _precisions(
        self, scatter: DoubleArray, n_rows: tuple[int, int], n_factors: int, rng: Generator
    ) -> tuple[DoubleArray, float]:
        """The precisions of factors and biases given errors with this scatter matrix."""
        prior, bias = self.base.factors(n_factors), self.base.bias
        inverse_scale = prior.inverse_scale + (scatter + scatter.T)[:n_factors, :n_factors] / 2
        _, precision = replace(prior, inverse_scale=inverse_scale, degrees=prior.degrees + n_rows[0]).draw(rng)
        if len(scatter) == n_factors:
            return precision, 0.0
        squares = max(float(scatter[-1, -1]), 0.0)
        return precision, Gamma(bias.shape, bias.rate).posterior(n_rows[1], squares).draw(rng)

    def _start(self, rows: Factors, current: Population | None, rng: Generator) -> Drawn:
        """The current mean and coefficients; at the start of a chain the mean alone."""
        if current is None:
            current = self.base.draw(rows, None, rng)
        width = len(current.mean) + bool(current.bias_precision)
        mean = np.append(current.mean, current.bias_mean - self.base.bias.centre)[:width]
        if isinstance(current, FeaturePopulation):
            return Drawn(mean, current.coefficients)
        return Drawn(mean, np.zeros((self.design.n_features, width)))

    def _beta(self, n_factors: int, biases: int) -> DoubleArray:
        """How many rows the mean 0 of each column is worth; infinitely many where the mean is known."""
        of_bias = self.base.bias.strength if isinstance(self.base.bias, NormalGamma) else inf
        return np.array([self.base.strength] * n_factors + [of_bias] * biases)

    def _solver(self, of_groups: DoubleArray, n_factors: int, biases: int) -> Solver:
        name = solver_for(self.design) if self.solver == "auto" else self.solver
        precision = of_groups[self.design.group_of]
        solver: Solver = SOLVERS[name](self.design, precision, self._beta(n_factors, biases), self.threads)
        return solver

    def _population(
        self, population: Population, coefficients: DoubleArray, of_groups: DoubleArray
    ) -> FeaturePopulation:
        return FeaturePopulation(
            *(population.mean, population.precision, population.bias_mean, population.bias_precision),
            coefficients=coefficients,
            group_precisions=of_groups,
            shifts=self.design.by_row.times(coefficients, self.threads),
        )


def explained_shares(design: Design, coefficients: DoubleArray, rows: Factors, other: Factors) -> DoubleArray:
    """The share of the variance of the rows that each group explains, in scores for the average other row.

    Coordinates of factors are arbitrary: with M the second moments of the other side's rows (and 1 for the bias),
    tr(Cov(x_g B_g) M) / tr(Cov(row) M) does not depend on them.
    """
    meeting = stacked(other)
    if other.bias is not None:
        meeting[:, -1] = 1.0
    metric = meeting.T @ meeting / len(meeting)

    def spread(points: DoubleArray) -> float:
        apart = points - points.mean(axis=0)
        return float(np.einsum("nd,de,ne->", apart, metric, apart, optimize=True))

    whole = spread(stacked(rows))
    parts = [design.matrix[:, group.start : group.stop] for group in design.groups]
    explained = [
        spread(part @ coefficients[group.start : group.stop]) for group, part in zip(design.groups, parts, strict=True)
    ]
    return np.array(explained) / max(whole, np.finfo(np.float64).tiny)
