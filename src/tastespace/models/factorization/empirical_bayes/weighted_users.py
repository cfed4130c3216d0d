"""Kept draws under a prior that grows with the ratings of a row, as the penalty of ALS does: how users are folded in.

A user of weight w has the precision w L before he rates anything. With his ratings k it is

    w L + alpha sum_k v_k v_k^T = w (L + (alpha / w) sum_k v_k v_k^T)

so that his mean is that of the plain prior with the noise precision alpha / w, and his covariance is 1 / w times that
one. Users of the same number of ratings are folded in together.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.models.factorization.als.sweep import Weighting
from tastespace.models.factorization.likelihoods.base import Arrays, Folded, ServedLikelihood
from tastespace.models.factorization.likelihoods.fold_in import fold_in_normal
from tastespace.models.factorization.likelihoods.gaussian import Gaussian

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedUsers(Gaussian):
    """Gaussian noise, and users whose prior is as strong as the weight of their ratings."""

    weighting: Weighting

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        _, n_draws, width = draws.items.shape
        means = np.empty((len(ratings), n_draws, width), np.float32)
        weights = self.weighting.of(ratings.counts)
        for weight in np.unique(weights):
            rows = np.flatnonzero(weights == weight).astype(np.int32)
            of_rows = None if roots is None else np.empty((len(rows), n_draws, width, width), np.float32)
            noisier = replace(draws, alpha=contiguous(draws.alpha / weight, np.float64))
            means[rows] = fold_in_normal(noisier, ratings.take(rows), of_rows, threads)
            if roots is not None and of_rows is not None:
                roots[rows] = of_rows * np.float32(weight**-0.5)
        return Folded(means)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([12], np.uint8), "weighting": np.array(astuple(self.weighting))}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> tuple[ServedLikelihood, Arrays]:
        return cls(weighting=Weighting(*(float(value) for value in arrays["weighting"]))), {}
