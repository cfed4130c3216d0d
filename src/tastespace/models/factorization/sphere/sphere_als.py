"""The recommender of items on a sphere by least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.als import AlternatingLeastSquares
from tastespace.models.factorization.estimators import ALS
from tastespace.models.factorization.penalty import WEIGHTINGS, Penalty
from tastespace.models.factorization.point import PointPosterior
from tastespace.models.factorization.populations import Sphere
from tastespace.models.factorization.sphere.moves import SphereMoves
from tastespace.models.factorization.sphere.radius import median_length
from tastespace.models.factorization.strength_search import DEFAULT_STRENGTH, standard
from tastespace.models.parameters import number
from tastespace.progress import Observer


@dataclass(kw_only=True)
class SphereALS(ALS):
    """Matrix factorization by alternating least squares with all items of one length, so that trees can find the best.

    As `ALS`, but every item vector has the length `radius` ("auto" for the median of those that are free). Then the
    penalty of items is a constant, and each half-sweep still minimises the loss exactly: over a sphere that is a
    trust-region problem (More and Sorensen 1983). Without biases the items nearest to a user are the best for him.
    """

    radius: float | Literal["auto"] = "auto"

    def check(self) -> None:
        super().check()
        if self.radius != "auto":
            number("radius", self.radius, above=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> PointPosterior:
        if self.radius == "auto":
            return replace(self, radius=self._median_length(observed, rng)).infer(observed, rng, observer, held_out)
        return super().infer(observed, rng, observer, held_out)

    def _median_length(self, observed: Ratings, rng: Generator) -> float:
        return median_length(
            observed,
            self.n_factors,
            Penalty(standard(DEFAULT_STRENGTH, observed), WEIGHTINGS[self.weighting]),
            biases=self.biases,
            dtype=np.float32 if self.precision == "float32" else np.float64,
            rng=rng,
            threads=threads.resolve(self.threads),
        )

    def _bind(self, observed: Ratings, penalty: Penalty) -> AlternatingLeastSquares:
        assert not isinstance(self.radius, str)
        return replace(super()._bind(observed, penalty), item_moves=SphereMoves(Sphere(self.radius)))
