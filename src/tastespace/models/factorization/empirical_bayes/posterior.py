"""The posterior of empirical Bayes: draws at the learned precisions, and how these were learned.

Users are folded in under a prior that grows with the ratings of a row, as the penalty of ALS does.

A user of weight w has the precision w L before rating anything. With their ratings k it is

    w L + alpha sum_k v_k v_k^T = w (L + (alpha / w) sum_k v_k v_k^T)

so that their mean is that of the plain prior with the noise precision alpha / w, and their covariance is 1 / w times
that one. Users of the same number of ratings are folded in together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.models.factorization.als.posterior import LEARNED, PATH
from tastespace.models.factorization.als.sweep import Strengths, Weighting
from tastespace.models.factorization.empirical_bayes.sweep import Precisions
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.likelihoods.base import Arrays, Folded, ServedLikelihood, fold_in_normal
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.tables import TextTable

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


@dataclass(frozen=True, eq=False)
class Learning:
    """The learned precisions, in units of the ratings, and their path step by step."""

    path: DoubleArray  # steps x (users, items, user bias, item bias, noise)
    precisions: Precisions

    @property
    def strengths(self) -> Strengths:
        """The learned precisions as strengths of ALS."""
        return self.precisions.strengths

    def series(self) -> dict[str, DoubleArray]:
        """Strengths of ALS by name, step by step, and the noise sd; those of biases are left out if there are none.

        Only the product of the users' and the items' strength is identified: "factors" is its root.
        """
        final = self.final()
        return {name: values for name, values in _strengths(self.path).items() if name in final}

    def final(self) -> dict[str, float]:
        """What was learned, under the same names."""
        found = _strengths(self.precisions.array()[None])
        return {name: float(values[0]) for name, values in found.items() if values[0] > 0}

    def table(self) -> TextTable:
        """Each strength of ALS at the first step, and as learned."""
        final = self.final()
        rows = [(name, f"{values[0]:.3g}", f"{final[name]:.3g}") for name, values in self.series().items()]
        title = f"Regularization as strengths of ALS, learned in {len(self.path)} steps"
        return TextTable(title, ("", "first step", "learned"), tuple(rows))

    def __str__(self) -> str:
        return str(self.table())

    def to_dict(self) -> dict[str, Any]:
        """Content for JSON: the number of steps, the precisions, and the same as strengths of ALS."""
        return {"steps": len(self.path), "precisions": asdict(self.precisions), "strengths": asdict(self.strengths)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {PATH: self.path, LEARNED: self.precisions.array()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Learning:
        return cls(arrays[PATH], Precisions(*(float(value) for value in arrays[LEARNED])))


def _strengths(path: DoubleArray) -> dict[str, DoubleArray]:
    """Precisions step by step as strengths of ALS, and the noise sd."""
    blocks, noise_sd = path[:, :4] / path[:, 4:], 1 / np.sqrt(path[:, 4])
    factors = np.sqrt(blocks[:, 0] * blocks[:, 1])
    return {"factors": factors, "user bias": blocks[:, 2], "item bias": blocks[:, 3], "noise sd": noise_sd}


@dataclass(frozen=True, eq=False, kw_only=True)
class EmpiricalPosterior(DrawsPosterior):
    """Draws at fixed precisions, and how these were learned."""

    learning: Learning

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {**super().arrays(), **self.learning.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        return cls(**vars(DrawsPosterior.from_arrays(arrays)), learning=Learning.from_arrays(arrays))


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
