"""Features of users and items as means of their rows, with one estimate of the coefficients.

    1/2 sum_i l_i |x_i - m - B^T f_i|^2 + 1/2 sum_f lambda_f |B_f|^2

in place of 1/2 sum_i l_i |x_i|^2: a row is regularized towards what its features tell, and the coefficients are a ridge
regression of the rows on their features, found again in every sweep. With l the mean of l_i and q the mean squared
length of a row in a group, lambda_f is `strength` * l * q for the columns of that group: with a strength of 1 a group
is expected to tell as much of a row as it leaves open.

A row that nobody has chosen, or that has chosen nothing, takes no part: it says nothing about the others, its cells are
not choices that were refused, and it is where its features put it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix
from tastespace.data.csr import CSR
from tastespace.data.features import Features
from tastespace.models.factorization.gibbs.feature_draws import FeatureDraws
from tastespace.models.factorization.gibbs.item_draws import Populations
from tastespace.models.factorization.priors.coefficients import SOLVERS, Drawn, solver_for
from tastespace.models.factorization.priors.design import Design
from tastespace.models.factorization.priors.features import explained_shares
from tastespace.models.factorization.rows import Factors


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The mean of the rows (W numbers), and what each feature adds to it (F x W)."""

    mean: DoubleArray
    of_features: DoubleArray


@dataclass(frozen=True, eq=False)
class FeatureMeans:
    """The features of the rows of one side; W is the number of factors, plus one if there are biases."""

    design: Design
    ridge: FloatArray  # n: l
    is_counted: BoolArray  # n: whether a row has any choices
    strength: float
    threads: int = 1

    @classmethod
    def of(
        cls, features: Features | None, pairs: CSR, n_others: int, ridge: FloatArray, strength: float, threads: int
    ) -> FeatureMeans | None:
        """The features of a side whose choices of the other one are `pairs`; None if it has none."""
        if features is None or not is_described(features):
            return None
        return cls(Design.of(features, pairs, n_others), ridge, pairs.counts > 0, strength, threads)

    def start(self, width: int) -> Coefficients:
        return Coefficients(np.zeros(width), np.zeros((self.design.n_features, width)))

    def means(self, at: Coefficients) -> FloatMatrix:
        """What each row is expected to be; n x W."""
        return (at.mean + self.design.by_row.times(at.of_features, self.threads)).astype(np.float32)

    def placed(self, rows: FloatMatrix, at: Coefficients) -> FloatMatrix:
        """The rows, with those that take no part where their features put them."""
        return rows if self.is_counted.all() else np.where(self.is_counted[:, None], rows, self.means(at))

    def found(self, rows: FloatMatrix, before: Coefficients) -> Coefficients:
        """The coefficients given the rows: the least of the energy, or nearer to it than before.

        The mean is the first column, since columns are scaled by the roots of the rows' regularization.
        """
        target = self._roots[:, None] * rows.astype(np.float64)
        start = Drawn(np.zeros(target.shape[1]), np.vstack([before.mean, before.of_features]))
        solver = SOLVERS[solver_for(self._scaled)](
            self._scaled, self._penalties, np.full(target.shape[1], np.inf), self.threads
        )
        found = solver.least(target, start).coefficients
        return Coefficients(found[0], np.ascontiguousarray(found[1:]))

    def held_back(self, rows: FloatMatrix, at: Coefficients) -> float:
        """Twice the part of the energy that rows and coefficients have by themselves."""
        apart = self._roots[:, None] * (rows - self.means(at)).astype(np.float64)
        return self._unit * float(np.sum(apart**2)) + self.held_back_coefficients(at)

    def held_back_coefficients(self, at: Coefficients) -> float:
        """Twice the part of the energy that the coefficients have by themselves."""
        everything = np.vstack([at.mean, at.of_features])
        return self._unit * float(np.sum(self._penalties[:, None] * everything**2))

    @cached_property
    def _unit(self) -> float:
        """The mean regularization of the rows."""
        counted = self.ridge[self.is_counted].astype(np.float64)
        return float(counted.mean()) if len(counted) else 1.0

    @cached_property
    def _roots(self) -> DoubleArray:
        """The square root of the regularization of each row, in units of the mean; 0 for rows that take no part."""
        return np.sqrt(np.where(self.is_counted, self.ridge.astype(np.float64), 0.0) / self._unit)

    @cached_property
    def _scaled(self) -> Design:
        """The features that the regression sees: those of a row times its root, with the mean as first column."""
        parts: list[Any] = [np.ones((self.design.n_rows, 1)), self.design.matrix]
        whole: Any = scipy.sparse.hstack(parts, format="csr")
        return Design(scipy.sparse.csr_array(scipy.sparse.diags_array(self._roots) @ whole), ())

    @cached_property
    def _penalties(self) -> DoubleArray:
        """The penalty of each column in units of the mean regularization, that of the mean first: one row's."""
        return np.concatenate([[1.0], self._of_groups[self.design.group_of]])

    @cached_property
    def _of_groups(self) -> DoubleArray:
        """The penalty of the columns of each group."""
        return self.strength * self._counted.usual_squares

    @cached_property
    def _counted(self) -> Design:
        """The features of the rows that take part."""
        if self.is_counted.all():
            return self.design
        return Design(scipy.sparse.csr_array(self.design.matrix[self.is_counted]), self.design.groups)

    # As they are kept

    def population(self, rows: FloatMatrix, at: Coefficients, has_biases: bool) -> Populations:
        """The normal of the rows around what their features tell; its mean is that of a row without features."""
        apart = (rows - self.means(at))[self.is_counted]
        return Populations.of_rows(apart + at.mean.astype(np.float32), has_biases)

    def kept(
        self, rows: FloatMatrix, at: Coefficients, other: FloatMatrix, has_biases: bool, *, with_bag: bool
    ) -> FeatureDraws:
        """The coefficients as one draw, and the share of the rows that each group explains."""
        rows = rows[self.is_counted]
        shares = explained_shares(
            self._counted, at.of_features, _factors(rows, has_biases), _factors(other, has_biases)
        )
        n_features = self.design.n_features if with_bag else self.design.n_attributes
        kept = at.of_features[:n_features, None, :].astype(np.float32)
        return FeatureDraws(np.ascontiguousarray(kept), self._of_groups[None], self.design.groups, shares[None])


def is_described(features: Features | None) -> bool:
    """Whether anything of these features can count."""
    return features is not None and bool(features.n_columns or features.has_bag)


def _factors(rows: FloatMatrix, has_biases: bool) -> Factors:
    return Factors(rows[:, :-1], rows[:, -1]) if has_biases else Factors(rows)
