"""Yes and no by the normal distribution function: P(1) = Phi(offset + score).

A latent response, normal around offset + score, is positive for yes (Albert and Chib 1993). A cut at 0 of such
responses is one at -offset of responses around the score: kept draws are those of two levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, FloatArray
from tastespace.data.csr import CSR
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods import base, ordinal
from tastespace.models.factorization.likelihoods.binary import EDGE, LEVELS, Binary
from tastespace.models.factorization.rows import GivenRows

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws

CUT = np.zeros(1)  # the latent response is yes above this


@dataclass(frozen=True)
class Probit(Binary):
    """Ratings are yes (1) and no (0), with the normal distribution function as link.

    `offset` is the score of the average rating; None to find it. With `negatives` ratings are choices, which are yes,
    and no are items sampled for each user, `n_negatives` per choice: any ("uniform"), or by (number of choices) ** 0.75
    ("popularity"). A prediction is then the probability that a pair is a choice and not drawn.
    """

    name: ClassVar[str] = "probit"

    def chance(self, scores: AnyFloats) -> AnyFloats:
        return np.asarray(scipy.special.ndtr(scores))

    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        return np.asarray(scipy.special.log_ndtr(scores))

    def score_of(self, share: float) -> float:
        return float(scipy.special.ndtri(share))

    def augment(self, given: GivenRows, noise: base.Noise, rng: Generator) -> GivenRows:
        return ordinal.latent(given, EDGE, CUT, self._offset, rng)

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[base.Likelihood[Any], base.Noise]:
        return ordinal.Ordinal(LEVELS), ordinal.CutPoints(1.0, self._cuts(draws)[s])

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        return ordinal.fold_in_levels(draws, ratings, self._cuts(draws), EDGE, roots, threads)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return base.level_predictive(scores.means, self._cuts(draws), scores, units)

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        return ordinal.level_information(scores().means, self._cuts(draws), units)

    def _cuts(self, draws: ItemDraws) -> DoubleArray:
        return np.full((len(draws.alpha), 1), -self._offset)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([2], np.uint8), "cuts": self._cuts(draws), "edges": EDGE}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        return cls(-float(arrays["cuts"][0, 0])), {}
