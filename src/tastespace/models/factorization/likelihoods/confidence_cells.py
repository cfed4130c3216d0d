"""What is kept of a factorization of one-class data, besides the items: how users are folded in by them.

The energy of a row is quadratic, so that it can be read as a belief. A user who chose something is normal,

    x ~ N(x*, sigma^2 A^-1),   A = Z^T Z + l + sum_k w_k z_k z_k^T

where x* is what training would make of them. Taken literally, all that they did not choose would be known to be turned
down, and sigma^2 be the small error of the cells. But most of it they have never met. So sigma^2 is what makes a user
without choices, of A = Z^T Z + l, vary in their scores as the audience does:

    sigma^2 tr(Z A^-1 Z^T) = tr(Z Cov(x) Z^T)

It says how far scores may still move as more is chosen (docs/design/one-class.md has how often they do). A user who
has chosen nothing at all is anyone of the audience.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.data.csr import CSR
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.lazy import linalg
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.implicit.cells import GROWTHS, Chosen, Confidence, Others, Ridge, solve
from tastespace.models.factorization.likelihoods import base
from tastespace.threads import one_blas_thread

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations


def matched_variance(users: Populations, items: FloatMatrix, has_biases: bool, ridge: float) -> float:
    """sigma^2, of users (factors and, last, biases) and items in the same form."""
    gram = Others.of(items, has_biases, 1).gram
    root = users.root(0, has_biases).astype(np.float64)
    free = np.linalg.solve(gram + ridge * np.eye(len(gram)), gram)
    return float(np.trace(root.T @ gram @ root) / max(float(np.trace(free)), 1e-12))


@dataclass(frozen=True, eq=False)
class ConfidenceCells(base.ServedLikelihood):
    """Cells as weighted responses around scores."""

    items: FloatMatrix  # M x W: factors and, last, the bias, if there is one
    has_biases: bool
    confidence: Confidence
    ridge: Ridge
    variance: float  # sigma^2
    losses: DoubleArray  # after each sweep

    @cached_property
    def others(self) -> Others:
        return Others.of(self.items, self.has_biases, 1)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        chosen = Chosen.of(ratings, self.confidence)
        ridge = self.ridge.of(chosen, len(self.items))
        means = solve(chosen, self.others, ridge, threads)
        # A count of 0 is no choice: `explain` asks what would be without one.
        has_chosen = chosen.total_weights() > 0
        nothing = np.flatnonzero(~has_chosen)
        means[nothing] = draws.users.mean_row(0, draws.has_biases)
        if roots is not None:
            with one_blas_thread():
                for row in np.flatnonzero(has_chosen):
                    roots[row, 0] = np.sqrt(self.variance) * self._root(chosen, int(row), float(ridge[row]))
            roots[nothing, 0] = draws.users.root(0, draws.has_biases)
        return base.Folded(means[:, None, :])

    def _root(self, chosen: Chosen, row: int, ridge: float) -> DoubleArray:
        """Upper triangular T with T T^T = A^-1."""
        here = slice(int(chosen.offsets[row]), int(chosen.offsets[row + 1]))
        points = self.others.points[chosen.columns[here]].astype(np.float64)
        weighted = points * chosen.weights[here, None]
        precision = self.others.gram + ridge * np.eye(points.shape[1]) + points.T @ weighted
        lower = np.linalg.cholesky(precision)
        return np.asarray(linalg.solve_triangular(lower, np.eye(len(lower)), lower=True).T)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        """Preferences, as far as they are known; that of a single moment has no meaning here, and no noise."""
        belief = NormalMixture(scores.means, scores.sds, scores.weights)
        # A score is no rating, and has no range: some are above 1.
        return PredictiveDistribution(belief=belief, rating=NormalRatings(belief, -inf, inf, None))

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        """A choice of something once: what is turned down was taken for that already."""
        once = float(self.confidence.beyond_one(np.ones(1))[0])
        return base.Answers(np.full((1, 1), self.variance / once), np.ones((1, 1)))

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        growth = GROWTHS.index(self.confidence.growth)
        figures = [self.confidence.strength, growth, self.ridge.strength, self.ridge.is_weighted, self.variance]
        return {"noise": np.array([4], np.uint8), "choices": np.array(figures, np.float64), "losses": self.losses}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        strength, growth, ridge, is_weighted, variance = (float(figure) for figure in arrays["choices"])
        cells = cls(
            contiguous(arrays["items"][:, 0], np.float32),
            bool(arrays["flags"][0]),
            Confidence(strength, GROWTHS[int(growth)]),
            Ridge(ridge, bool(is_weighted)),
            variance,
            np.asarray(arrays["losses"], np.float64),
        )
        return cells, {}
