"""Yes and no by the logistic function: P(1) = 1 / (1 + exp(-(offset + score))).

A latent weight makes it normal: given w ~ PG(1, score), (r - 1/2) / w is normal around the score with precision w
(Polya-Gamma: Polson, Scott and Windle 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray
from tastespace.data.csr import CSR
from tastespace.distributions.latent_levels import logistic_information
from tastespace.lazy import special
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods.base import (
    Answers,
    Arrays,
    Axis,
    Folded,
    Likelihood,
    Noise,
    ScoreDraws,
    ServedLikelihood,
    Units,
    level_predictive,
)
from tastespace.models.factorization.likelihoods.binary import EDGE, Binary
from tastespace.models.factorization.likelihoods.fold_in import APPROACH, fold_in_latent
from tastespace.models.factorization.likelihoods.ordinal import LEAST_CURVATURE, parabolas
from tastespace.models.factorization.rows import Factors, RatingBlock, Responses, row_scores

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


@dataclass(frozen=True)
class Logistic(Binary):
    """Ratings are yes (1) and no (0), with the logistic function as link.

    `offset` is where the average rating puts a score; None to find it. With `negatives` ratings are choices, which are
    yes, and no are items drawn for each user, `n_negatives` a choice: any ("uniform"), or by
    (number of choices) ** 0.75 ("popularity"). A prediction is then the probability that a pair is a choice and not
    drawn.
    """

    name: ClassVar[str] = "logistic"

    def chance(self, scores: AnyFloats) -> AnyFloats:
        return np.asarray(special.expit(scores))

    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        return np.asarray(special.log_expit(scores))

    def score_of(self, share: float) -> float:
        return float(special.logit(share))

    def augment(
        self, axis: Axis, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> Responses:
        weights = row_scores(side, rows, other, self._offset, threads)
        _native.draw_polya_gamma(weights, int(rng.integers(1 << 63)), weights, threads)
        targets = (side.targets - weights.dtype.type(0.5)) / weights
        return Responses(RatingBlock(side.offsets, side.columns, targets, weights=weights, offset=self._offset), 1.0)

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[Likelihood[Any], Noise]:
        return self, Noise(1.0)

    def approach(
        self, side: RatingBlock, rows: Factors, other: Factors, noise: Noise, threads: int
    ) -> RatingBlock | None:
        scores = row_scores(side, rows, other, self._offset, threads).astype(np.float64)
        is_yes = side.targets > EDGE
        chance, half = special.expit(scores), np.maximum(0.5 * np.abs(scores), 1e-4)
        # On the wrong side of 0 the curvature of a bound from below, as the true one is next to nothing.
        curvature = np.where((scores > 0) == is_yes, chance * (1 - chance), np.tanh(half) / (4 * half))
        curvature = np.maximum(curvature, LEAST_CURVATURE)
        return parabolas(side, scores, is_yes - chance, curvature, self._offset, other.factors.dtype)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        how = {
            "kind": "logistic",
            "approach": APPROACH,
            "edges": EDGE.astype(np.float32),
            "latent_offset": self._offset,
        }
        return Folded(fold_in_latent(draws, ratings, roots, threads, how, is_standard=False))

    def predictive(self, draws: ItemDraws, scores: ScoreDraws, units: Units) -> PredictiveDistribution:
        return level_predictive(self._offset + scores.means, None, scores, units)

    def information(self, draws: ItemDraws, scores: Callable[[], ScoreDraws], units: Units) -> Answers:
        assert units.levels is not None
        information = logistic_information(self._offset + scores().means)
        return Answers(1 / information, float(np.ptp(units.levels)) * information)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([3], np.uint8), "logistic_offset": np.array([self._offset])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> tuple[ServedLikelihood, Arrays]:
        return cls(float(arrays["logistic_offset"][0])), {}
