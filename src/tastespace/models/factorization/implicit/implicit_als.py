"""Implicit feedback by alternating least squares over all cells: the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, small_change
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.implicit import cells as one_class
from tastespace.models.factorization.implicit.search import RIDGES, STRENGTHS, Settings, search_settings, unit_of
from tastespace.models.factorization.likelihoods.base import ServedLikelihood, Units
from tastespace.models.factorization.likelihoods.confidence_cells import ConfidenceCells, matched_variance
from tastespace.models.implicit_feedback import OneClass
from tastespace.parameters import MANY_FACTORS, Range, cells, check_int, check_number
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters


@takes_old_parameters
@dataclass(kw_only=True)
class ImplicitALS(OneClass):
    """Clicks, plays and purchases by alternating least squares over all cells (Hu, Koren and Volinsky 2008).

    Every pair counts: what was chosen as 1, with a confidence of 1 + `strength` * f(count), all else as 0 with a
    confidence of 1. f is given by `growth`: "log" (1 + count), "linear" or "none" (counts are ignored).

    "auto" finds `strength` and `regularization` on a tenth of the choices, held out, and then fits to all of them;
    `strength_` and `regularization_` are the values found.
    `regularization` shrinks factors; with `weighting="weighted"` rows with more choices are regularized more, "plain"
    treats all the same. `biases` model the popularity of items and the activity of users.

    `solver="conjugate"` takes `steps` conjugate-gradient steps per row and sweep from where the row was, "cholesky"
    solves every row exactly: slower, and hardly better. Stops when a sweep lowers the loss by less than `tolerance` of
    itself, after at most `sweeps`.

    Predictions are preferences: near 0 for what is not chosen, near 1 for what is. They are not probabilities.
    """

    n_factors: int = 64
    regularization: float | Literal["auto"] = "auto"
    strength: float | Literal["auto"] = "auto"
    growth: one_class.Growth = "log"
    weighting: Literal["plain", "weighted"] = "weighted"
    biases: bool = False
    solver: one_class.Solver = "conjugate"
    steps: int = 3
    sweeps: int = 15
    tolerance: float = 1e-4

    search_space = {
        "n_factors": MANY_FACTORS,
        "strength": Range(0.25, 128),
        "regularization": Range(0.0001, 0.3, unit=cells),
    }
    posterior_class = DrawsPosterior

    def check(self) -> None:
        super().check()
        check_int("n_factors", self.n_factors, least=1)
        for name in ("regularization", "strength"):
            if getattr(self, name) != "auto":
                check_number(name, getattr(self, name), above=0)
        for name in ("steps", "sweeps"):
            check_int(name, getattr(self, name), least=1)
        check_number("tolerance", self.tolerance, least=0)

    @classmethod
    def candidates(cls, observed: Ratings) -> list[dict[str, Any]]:
        again = {"strength": "auto", "regularization": "auto"}  # if the best values are far from the usual ones
        others: list[dict[str, Any]] = [{"n_factors": 256}, {"weighting": "plain", **again}]
        if observed.kind == "counts":
            others += [{"growth": growth, **again} for growth in ("none", "linear")]
        return [{}, *others] if observed.kind in CHOICES else []

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DrawsPosterior:
        self.check_ratings(observed)
        return self.infer_factors(observed, self.find_settings(observed, rng, observer), rng, observer)

    def infer_factors(
        self, observed: Ratings, settings: Settings, rng: Generator, observer: Observer
    ) -> DrawsPosterior:
        """The posterior of the factors with these settings."""
        with threads.one_blas_thread():
            transition = self._bind(observed, settings, self.n_factors)
            stop = small_change("loss", self.tolerance)
            state, trace = ascend(transition, None, rng, steps=self.sweeps, stop=stop, observer=observer)
            return self._concluded(transition, state, np.array([stats["loss"] for stats in trace]))

    @property
    def strength_(self) -> float:
        """The strength, given or found."""
        return self._kept().confidence.strength

    @property
    def regularization_(self) -> float:
        """The regularization, given or found."""
        return self._kept().ridge.strength

    @property
    def factors_posterior(self) -> DrawsPosterior:
        """The posterior of the factors."""
        self.require_fitted()
        posterior = self.posterior_
        assert isinstance(posterior, DrawsPosterior)
        return posterior

    def _kept(self) -> ConfidenceCells:
        likelihood = self.factors_posterior.draws.likelihood
        assert isinstance(likelihood, ConfidenceCells)
        return likelihood

    def find_settings(self, observed: Ratings, rng: Generator, observer: Observer) -> Settings:
        """The settings, given or found."""
        unit = unit_of(observed)
        strengths: Sequence[float] = STRENGTHS if self.strength == "auto" else [self.strength]
        ridges = [unit * ridge for ridge in RIDGES] if self.regularization == "auto" else [self.regularization]
        if len(strengths) == len(ridges) == 1:
            return Settings(strengths[0], ridges[0])
        with threads.one_blas_thread():
            return search_settings(observed, self._bind, strengths, ridges, self.n_factors, rng, observer)

    def _bind(self, observed: Ratings, settings: Settings, n_factors: int) -> one_class.AlternatingChoices:
        confidence = one_class.Confidence(settings.strength, self.growth)
        ridge, n_threads = one_class.Ridge(settings.ridge, self.weighting == "weighted"), threads.resolve(self.threads)
        rest = (n_factors, self.biases, self.solver, self.steps, n_threads)
        return one_class.AlternatingChoices(observed, confidence, ridge, *rest)

    def _concluded(
        self, transition: one_class.AlternatingChoices, state: one_class.ImplicitState, losses: DoubleArray
    ) -> DrawsPosterior:
        confidence, ridge = transition.confidence, transition.ridge
        users = Populations.of_rows(state.users, self.biases)
        variance = matched_variance(users, state.items, self.biases, ridge.strength)
        scores = one_class.scores_of(transition.by_user, state.users, state.items, self.biases, transition.threads)
        likelihood = ConfidenceCells(state.items, self.biases, confidence, ridge, variance, losses)
        units = Units(0.0, 1.0, None, float(scores.mean(dtype=np.float64)))
        return one_draw(users, state.items, 1 / variance, self.biases, likelihood, units)


def one_draw(
    users: Populations, items: FloatMatrix, alpha: float, has_biases: bool, likelihood: ServedLikelihood, units: Units
) -> DrawsPosterior:
    """A posterior of one draw: items without uncertainty (factors and, last, biases), in units of their scores."""
    new_items = Populations.of_rows(items, has_biases)
    draws = ItemDraws(items[:, None, :], users, new_items, np.array([alpha]), has_biases, 0.0, 1.0, likelihood)
    return DrawsPosterior(draws, units)
