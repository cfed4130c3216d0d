"""Serving of implicit feedback by weighted least squares: how users are folded in by the items.

The energy of a row is quadratic, so it can be read as a log density. A user who chose something is normal,

    x ~ N(x*, sigma^2 A^-1),   A = Z^T Z + l + sum_k w_k z_k z_k^T

where x* is the result of training. Taken literally, everything they did not choose would be rejected, and sigma^2 would
be the small error of the cells. But they have never seen most of it. So sigma^2 is chosen such that the scores of a
user without choices, with A = Z^T Z + l, vary as those of all users do:

    sigma^2 tr(Z A^-1 Z^T) = tr(Z Cov(x) Z^T)

It measures how far scores may still move with more choices (docs/explanation/models/implicit-feedback.md
compares this with how far they do). A user without choices is drawn from the population of users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.data.csr import CSR
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.implicit.cells import GROWTHS, Chosen, Confidence, Others, Ridge, solve
from tastespace.models.factorization.likelihoods import base
from tastespace.threads import one_blas_thread

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations


def matched_variance(
    users: Populations, items: FloatMatrix, has_biases: bool, ridge: float, is_counted: BoolArray | None = None
) -> float:
    """sigma^2, of users (factors and, last, biases) and items in the same form."""
    gram = Others.of(items, has_biases, 1, is_counted).gram
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
    is_counted: BoolArray | None = None  # M: which items have been chosen; None if all count

    @property
    def takes_choices(self) -> bool:
        return True

    @cached_property
    def others(self) -> Others:
        return Others.of(self.items, self.has_biases, 1, self.is_counted)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        chosen = Chosen.of(ratings, self.confidence)
        n_counted = len(self.items) if self.is_counted is None else int(np.count_nonzero(self.is_counted))
        ridge = self.ridge.of(chosen, n_counted)
        expected = None if draws.user_means is None else draws.user_means[:, 0]
        means = solve(chosen, self.others, ridge, threads, expected)
        # A count of 0 is not a choice, as `explain` needs it.
        has_chosen = chosen.total_weights() > 0
        nothing = np.flatnonzero(~has_chosen)
        means[nothing] = draws.users.mean_row(0, draws.has_biases) if expected is None else expected[nothing]
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
        return np.asarray(scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True).T)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        """Preferences with their uncertainty; there is no noise of single choices."""
        belief = NormalMixture(scores.means, scores.sds, scores.weights)
        # A score is not a rating, and has no range: some are above 1.
        return PredictiveDistribution(belief=belief, rating=NormalRatings(belief, -inf, inf, None))

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        """The information in a single choice: a rejection is what was assumed anyway."""
        once = float(self.confidence.beyond_one(np.ones(1))[0])
        return base.Answers(np.full((1, 1), self.variance / once), np.ones((1, 1)))

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        growth = GROWTHS.index(self.confidence.growth)
        figures = [self.confidence.strength, growth, self.ridge.strength, self.ridge.is_weighted, self.variance]
        return {
            "noise": np.array([4], np.uint8),
            "choices": np.array(figures, np.float64),
            "losses": self.losses,
            **({} if self.is_counted is None else {"is_counted": self.is_counted.astype(np.uint8)}),
        }

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
            arrays["is_counted"].astype(np.bool_) if "is_counted" in arrays else None,
        )
        return cells, {}

    def with_items(self, items: FloatMatrix) -> ConfidenceCells:
        """The same for all these items, of which the last ones have not been chosen yet."""
        counted = np.ones(len(self.items), np.bool_) if self.is_counted is None else self.is_counted
        added = np.zeros(len(items) - len(self.items), np.bool_)
        return replace(self, items=items, is_counted=np.concatenate([counted, added]))
