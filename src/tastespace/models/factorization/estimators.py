"""The recommenders of this family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, small_change
from tastespace.models.factorization.als import AlternatingLeastSquares, Factors
from tastespace.models.factorization.point import PointPosterior, Strengths
from tastespace.models.factorization.strength_search import DEFAULT_STRENGTH, Validation, search_strengths
from tastespace.models.parameters import choice, number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer


@dataclass(kw_only=True)
class ALS(Recommender):
    """Matrix factorization by alternating least squares, with biases.

    rating = mean + user bias + item bias + user . item, minimising the squared error plus a penalty on each
    block. `regularisation` is the strength of all penalties; "auto" (the default) finds it on held-out ratings
    and then refits on all. The separate strengths override it block by block. `weighting="weighted"` multiplies
    a row's penalty by its number of ratings (it hardly overfits); "plain" does not.

    Stops when a sweep lowers the loss by less than `tolerance` of itself, after at most `sweeps` sweeps.
    """

    n_factors: int = 32
    regularisation: float | Literal["auto"] = "auto"
    user_regularisation: float | None = None
    item_regularisation: float | None = None
    user_bias_regularisation: float | None = None
    item_bias_regularisation: float | None = None
    weighting: Literal["weighted", "plain"] = "weighted"
    biases: bool = True
    sweeps: int = 30
    tolerance: float = 1e-4
    validation_share: float = 0.1
    precision: Literal["float32", "float64"] = "float32"

    posterior_class = PointPosterior

    def check(self) -> None:
        super().check()
        whole_number("n_factors", self.n_factors, least=1)
        whole_number("sweeps", self.sweeps, least=1)
        number("tolerance", self.tolerance, least=0)
        number("validation_share", self.validation_share, above=0, below=1)
        choice("weighting", self.weighting, ["weighted", "plain"])
        choice("precision", self.precision, ["float32", "float64"])
        choice("biases", self.biases, [True, False])
        if self.regularisation != "auto":
            number("regularisation", self.regularisation, above=0)
        for name in ("user", "item", "user_bias", "item_bias"):
            if (value := getattr(self, f"{name}_regularisation")) is not None:
                number(f"{name}_regularisation", value, above=0)

    def infer(self, observed: Ratings, rng: Generator, observer: Observer) -> PointPosterior:
        start: Factors | None = None
        if self.regularisation == "auto":
            strengths, start = self._search(observed, rng, observer)
        else:
            strengths = self._strengths(self.regularisation, self.regularisation)
        transition = self._bind(observed, strengths)
        state, trace = ascend(
            transition,
            transition.init(rng) if start is None else start,
            rng,
            steps=self.sweeps,
            stop=small_change("loss", self.tolerance),
            phase="sweep",
            observer=observer,
        )
        losses = np.array([stats["loss"] for stats in trace])
        return PointPosterior(observed.mean, state.users, state.items, strengths, losses)

    def _search(self, observed: Ratings, rng: Generator, observer: Observer) -> tuple[Strengths, Factors | None]:
        validation = Validation.split(observed, self.validation_share, rng)
        if validation is None:
            strength = DEFAULT_STRENGTH * (observed.standard_deviation or 1.0)
            return self._strengths(strength, strength), None
        best = search_strengths(
            validation,
            lambda ratings, strengths: self._bind(ratings, self._overridden(strengths)),
            weighted=self.weighting == "weighted",
            sweeps=self.sweeps,
            threads=threads.resolve(self.threads),
            rng=rng,
            observer=observer,
        )
        return self._overridden(best.strengths), best.state

    def _strengths(self, factors: float, biases: float) -> Strengths:
        return self._overridden(Strengths(factors, factors, biases, biases, self.weighting == "weighted"))

    def _overridden(self, strengths: Strengths) -> Strengths:
        """The separate strengths where they are given, these where not."""

        def pick(own: float | None, shared: float) -> float:
            return shared if own is None else own

        return Strengths(
            pick(self.user_regularisation, strengths.users),
            pick(self.item_regularisation, strengths.items),
            pick(self.user_bias_regularisation, strengths.user_bias),
            pick(self.item_bias_regularisation, strengths.item_bias),
            strengths.weighted,
        )

    def _bind(self, observed: Ratings, strengths: Strengths) -> AlternatingLeastSquares:
        dtype = np.float32 if self.precision == "float32" else np.float64
        cores = threads.resolve(self.threads)
        return AlternatingLeastSquares.bind(
            observed, observed.mean, self.n_factors, strengths, self.biases, dtype, cores
        )
