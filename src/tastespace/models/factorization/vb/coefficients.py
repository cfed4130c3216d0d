"""Coefficients of features in variational Bayes: normal beliefs, one a feature, and gamma beliefs about groups.

    x_i ~ N(B^T f_i, Lambda^-1),   B_f ~ N(0, (lambda_g Lambda)^-1),   lambda_g ~ Gamma(a, b)
    Q(B) = prod_f N(m_f, (k_f Lambda)^-1),   Q(lambda) = prod_g Gamma

Lambda is the precision of factors and bias (W numbers), at which rows are around 0 without features. In the bound it
cancels between the prior of B_f and its entropy, so that with h_i = sum_f x_if^2 / k_f and l_f = E[lambda]

    k_f = sum_i x_if^2 + l_f,   m_f = sum_i x_if (E[x_i] - sum of all other features) / k_f
    Lambda^-1 = [sum_i E[(x_i - m^T f_i)(x_i - m^T f_i)^T] + sum_f l_f m_f m_f^T] / N
    Q(lambda_g) = Gamma(a + F_g W / 2, b + 1/2 sum_f (m_f^T Lambda m_f + W / k_f))

and each step raises the bound, whose part that is not a density of rows is

    - W/2 sum_i h_i + sum_f [W/2 (E log lambda - log k_f + 1 - l_f / k_f) - l_f/2 m_f^T Lambda m_f] - KL(Q(lambda))
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tastespace.arrays import DoubleArray
from tastespace.distributions.conjugate import Gamma
from tastespace.models.factorization.priors.coefficients import Drawn, FeatureByFeature
from tastespace.models.factorization.priors.design import Design
from tastespace.models.factorization.priors.features import joined
from tastespace.models.factorization.rows import Moments
from tastespace.models.factorization.vb.populations import ExpectedPrior
from tastespace.models.factorization.vb.rows import RowBeliefs


@dataclass(frozen=True, eq=False)
class CoefficientBeliefs:
    """The beliefs about the coefficients of the features of one side."""

    design: Design
    means: DoubleArray  # F x W: m
    precisions: DoubleArray  # F: k
    of_groups: tuple[Gamma, ...]
    priors: tuple[Gamma, ...]
    threads: int = 1

    @classmethod
    def start(cls, design: Design, width: int, threads: int) -> CoefficientBeliefs:
        """No effect of any feature; the prior of a group is that of BPMF, for features of length 1."""
        priors = tuple(Gamma(1.0, 1.0 / squares) for squares in design.usual_squares.tolist())
        zero = np.zeros((design.n_features, width))
        begun = cls(design, zero, design.squares, priors, priors, threads)
        return replace(begun, precisions=design.squares + begun.strengths)

    @property
    def strengths(self) -> DoubleArray:
        """E[lambda] of each feature."""
        return np.array([belief.mean for belief in self.of_groups])[self.design.group_of]

    @property
    def row_means(self) -> DoubleArray:
        """What features tell of each row; n x W."""
        return self.design.by_row.times(self.means, self.threads)

    def learned(self, rows: RowBeliefs, prior: ExpectedPrior) -> CoefficientBeliefs:
        """The beliefs that raise the bound, given those about the rows."""
        width = self.means.shape[1]
        energies = self._quadratic(prior) + width / self.precisions
        of_groups = tuple(
            own.posterior(len(group) * width, float(energies[group.start : group.stop].sum()))
            for own, group in zip(self.priors, self.design.groups, strict=True)
        )
        known = replace(self, of_groups=of_groups)
        strengths = known.strengths
        solver = FeatureByFeature(self.design, strengths, np.full(width, np.inf), self.threads)
        target = rows.centre + rows.records[:, :width].astype(np.float64)
        means = solver.least(target, Drawn(np.zeros(width), self.means)).coefficients
        return replace(known, means=means, precisions=self.design.squares + strengths)

    def residual_moments(self, rows: RowBeliefs) -> Moments:
        """The expected moments of the rows around what features tell."""
        shape, moments = rows.shape, rows.moments
        n_factors, width = shape.n_factors, shape.width
        means = rows.centre + rows.records[:, :width].astype(np.float64)
        apart = means - self.row_means
        changed = apart.T @ apart - means.T @ means
        total = apart.sum(axis=0)
        of_bias = (True, float(total[-1]), moments.bias_squares + float(changed[-1, -1])) if shape.has_biases else ()
        return Moments(moments.n, total[:n_factors], moments.gram + changed[:n_factors, :n_factors], *of_bias)

    def moments_for_population(self, rows: RowBeliefs) -> Moments:
        """The moments by which the spread of the rows is learned: those of the coefficients count, too."""
        moments, weighted = self.residual_moments(rows), self.means * self.strengths[:, None]
        scatter, n_factors = self.means.T @ weighted, rows.shape.n_factors
        squares = moments.bias_squares + (float(scatter[-1, -1]) if rows.shape.has_biases else 0.0)
        return replace(moments, gram=moments.gram + scatter[:n_factors, :n_factors], bias_squares=squares)

    def bound(self, prior: ExpectedPrior) -> float:
        """Their part of the bound."""
        width, strengths = self.means.shape[1], self.strengths
        logs = np.array([belief.mean_log for belief in self.of_groups])[self.design.group_of]
        spread = float(np.sum(self.design.squares / self.precisions))  # sum of h
        own = width * (logs - np.log(self.precisions) + 1 - strengths / self.precisions)
        of_features = float(np.sum(own - strengths * self._quadratic(prior))) / 2
        divergence: float = sum(
            belief.divergence(prior_of) for belief, prior_of in zip(self.of_groups, self.priors, strict=True)
        )
        return float(of_features - width * spread / 2 - divergence)

    def _quadratic(self, prior: ExpectedPrior) -> DoubleArray:
        """m_f^T Lambda m_f."""
        n_factors, width = len(prior.linear), self.means.shape[1]
        precision = joined(prior.precision, prior.bias_precision if width > n_factors else 0.0)
        return np.asarray(np.sum((self.means @ precision) * self.means, axis=1))
