"""Implicit feedback by alternating least squares over all cells: the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, small_change
from tastespace.models.base.parameters import MANY_FACTORS, Range, cells, check_int, check_number
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.implicit import cells as one_class
from tastespace.models.factorization.implicit.search import RIDGES, STRENGTHS, Settings, search_settings, unit_of
from tastespace.models.factorization.likelihoods.base import ServedLikelihood, Units
from tastespace.models.factorization.likelihoods.confidence_cells import ConfidenceCells, matched_variance
from tastespace.models.implicit_feedback import OneClass
from tastespace.progress import Observer


@dataclass(kw_only=True)
class ImplicitALS(OneClass):
    """Clicks, plays and purchases by alternating least squares over all cells (Hu, Koren and Volinsky 2008).

    Every pair counts: what was chosen as 1, with a confidence of 1 + `strength` * f(count), all else as 0 with a
    confidence of 1. f is given by `growth`: "log" (1 + count), "linear" or "none" (once is as good as often).

    "auto" finds `strength` and `regularisation` on a tenth of the choices, held out, and then fits to all of them;
    `strength_` and `regularisation_` are what was found.
    `regularisation` holds factors back; with `weighting="weighted"` rows in which more was chosen are held back more,
    "plain" treats all the same. `biases` add how much is chosen of an item, and by a user, whatever the taste.

    `solver="conjugate"` takes `steps` conjugate-gradient steps a row and sweep from where the row was, "cholesky"
    solves every row: slower, and hardly better for it. Stops when a sweep lowers the loss by less than `tolerance` of
    itself, after at most `sweeps`.

    Predictions are preferences: near 0 for what is not chosen, near 1 for what is. They are no probabilities.
    """

    n_factors: int = 64
    regularisation: float | Literal["auto"] = "auto"
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
        "regularisation": Range(0.0001, 0.3, unit=cells),
    }
    posterior_class = DrawsPosterior

    def check(self) -> None:
        super().check()
        check_int("n_factors", self.n_factors, least=1)
        for name in ("regularisation", "strength"):
            if getattr(self, name) != "auto":
                check_number(name, getattr(self, name), above=0)
        for name in ("steps", "sweeps"):
            check_int(name, getattr(self, name), least=1)
        check_number("tolerance", self.tolerance, least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DrawsPosterior:
        self.check_ratings(observed)
        with threads.one_blas_thread():
            transition = self._bind(observed, self._settings(observed, rng, observer), self.n_factors)
            stop = small_change("loss", self.tolerance)
            state, trace = ascend(transition, None, rng, steps=self.sweeps, stop=stop, observer=observer)
            return self._concluded(transition, state, np.array([stats["loss"] for stats in trace]))

    @property
    def strength_(self) -> float:
        """What was given, or found."""
        return self._kept().confidence.strength

    @property
    def regularisation_(self) -> float:
        """What was given, or found."""
        return self._kept().ridge.strength

    def _kept(self) -> ConfidenceCells:
        self.require_fitted()
        posterior = self.posterior_
        assert isinstance(posterior, DrawsPosterior)
        assert isinstance(posterior.draws.likelihood, ConfidenceCells)
        return posterior.draws.likelihood

    def _settings(self, observed: Ratings, rng: Generator, observer: Observer) -> Settings:
        """What was given, and what is found."""
        unit = unit_of(observed)
        strengths: Sequence[float] = STRENGTHS if self.strength == "auto" else [self.strength]
        ridges = [unit * ridge for ridge in RIDGES] if self.regularisation == "auto" else [self.regularisation]
        if len(strengths) == len(ridges) == 1:
            return Settings(strengths[0], ridges[0])
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
    """Certain items, rows of factors and, last, biases, as a posterior: one draw of them, in units of their scores."""
    new_items = Populations.of_rows(items, has_biases)
    draws = ItemDraws(items[:, None, :], users, new_items, np.array([alpha]), has_biases, 0.0, 1.0, likelihood)
    return DrawsPosterior(draws, units)
