"""Implicit feedback by alternating least squares over all cells: the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatMatrix
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import ascend, small_change
from tastespace.models.base.results import FeatureImportance
from tastespace.models.factorization.gibbs.feature_draws import FeatureDraws, importance_of
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.implicit import cells as one_class
from tastespace.models.factorization.implicit.feature_means import Coefficients, FeatureMeans, is_described
from tastespace.models.factorization.implicit.search import (
    FEATURE_STRENGTHS,
    RIDGES,
    STRENGTHS,
    USUAL_FEATURE_STRENGTH,
    Settings,
    search_settings,
    unit_of,
)
from tastespace.models.factorization.likelihoods.base import ServedLikelihood, Units
from tastespace.models.factorization.likelihoods.confidence_cells import ConfidenceCells, matched_variance
from tastespace.models.factorization.priors.design import load_solvers
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

    Rows are regularized towards what the features of users and items tell (`Ratings.with_item_features`), and new items
    and users are placed by them. `feature_regularization` shrinks their coefficients: with 1 a group of features is
    expected to tell as much of a row as it leaves open; with more, it takes more rows to show that it does. "auto"
    finds it in the same way: the smallest that makes lists of known items no worse.

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
    feature_regularization: float | Literal["auto"] = "auto"

    search_space = {
        "n_factors": MANY_FACTORS,
        "strength": Range(0.25, 128),
        "regularization": Range(0.0001, 0.3, unit=cells),
    }
    posterior_class = DrawsPosterior
    learns_features = True

    def check(self) -> None:
        super().check()
        check_int("n_factors", self.n_factors, least=1)
        for name in ("regularization", "strength", "feature_regularization"):
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

    def placed(self, posterior: DrawsPosterior, observed: Ratings) -> DrawsPosterior | None:
        return with_placed_items(posterior, observed)

    def feature_importance(self) -> FeatureImportance:
        """How much each group of features explains of what users and items are like; see `FeatureImportance`.

        Shares have no intervals: the coefficients are one estimate. `precision` is that of the penalty.
        """
        draws = self.factors_posterior.draws
        return importance_of(draws.user_features, draws.item_features)

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
        if is_described(observed.user_features) or is_described(observed.item_features):
            load_solvers()
        of_features: Sequence[float] = (USUAL_FEATURE_STRENGTH,)
        if self.feature_regularization != "auto":
            of_features = (self.feature_regularization,)
        elif is_described(observed.user_features) or is_described(observed.item_features):
            of_features = FEATURE_STRENGTHS
        if len(strengths) == len(ridges) == len(of_features) == 1:
            return Settings(strengths[0], ridges[0], of_features[0])
        given = strengths, ridges, self.n_factors, rng, observer, of_features
        with threads.one_blas_thread():
            return search_settings(observed, self._bind, *given)

    def _bind(self, observed: Ratings, settings: Settings, n_factors: int) -> one_class.AlternatingChoices:
        confidence = one_class.Confidence(settings.strength, self.growth)
        ridge, n_threads = one_class.Ridge(settings.ridge, self.weighting == "weighted"), threads.resolve(self.threads)
        rest = (n_factors, self.biases, self.solver, self.steps, n_threads, settings.of_features)
        return one_class.AlternatingChoices(observed, confidence, ridge, *rest)

    def _concluded(
        self, transition: one_class.AlternatingChoices, state: one_class.ImplicitState, losses: DoubleArray
    ) -> DrawsPosterior:
        confidence, ridge = transition.confidence, transition.ridge
        (means_of_users, means_of_items), (_, is_counted) = transition.means, transition.are_counted
        users, items = (
            side_of(rows, at, means, other, self.biases, with_bag=axis == "user")
            for rows, at, means, other, axis in (
                (state.users, state.of_users, means_of_users, state.items, "user"),
                (state.items, state.of_items, means_of_items, state.users, "item"),
            )
        )
        variance = matched_variance(users.population, state.items, self.biases, ridge.strength, is_counted)
        scores = one_class.scores_of(transition.by_user, state.users, state.items, self.biases, transition.threads)
        likelihood = ConfidenceCells(state.items, self.biases, confidence, ridge, variance, losses, is_counted)
        units = Units(0.0, 1.0, None, float(scores.mean(dtype=np.float64)))
        return one_draw(users, items, state.items, 1 / variance, self.biases, likelihood, units)


class Side(NamedTuple):
    """What is kept of the rows of one side: their normal, and the coefficients of their features, if they have any."""

    population: Populations
    features: FeatureDraws | None


def side_of(
    rows: FloatMatrix,
    at: Coefficients | None,
    means: FeatureMeans | None,
    other: FloatMatrix,
    has_biases: bool,
    *,
    with_bag: bool,
) -> Side:
    """A side given its rows (factors and, last, biases), the coefficients of its features, and the other side."""
    if means is None or at is None:
        return Side(Populations.of_rows(rows, has_biases), None)
    population = means.population(rows, at, has_biases)
    return Side(population, means.kept(rows, at, other, has_biases, with_bag=with_bag))


def one_draw(
    of_users: Side,
    of_items: Side,
    items: FloatMatrix,
    alpha: float,
    has_biases: bool,
    likelihood: ServedLikelihood,
    units: Units,
) -> DrawsPosterior:
    """A posterior of one draw: items without uncertainty (factors and, last, biases), in units of their scores."""
    draws = ItemDraws(
        *(items[:, None, :], of_users.population, of_items.population, np.array([alpha]), has_biases, 0.0, 1.0),
        likelihood,
        user_features=of_users.features,
        item_features=of_items.features,
    )
    return DrawsPosterior(draws, units)


def with_placed_items(posterior: DrawsPosterior, observed: Ratings) -> DrawsPosterior | None:
    """The posterior of one draw with the items of the ratings that it lacks, where their features put them.

    None if it was learned without features of items: then an item that nobody has chosen is like any other one.
    """
    draws, new = posterior.draws, posterior.draws.unrated_items(observed)
    if new is None:
        return None
    items, likelihood = np.concatenate([draws.items, new]), draws.likelihood
    if isinstance(likelihood, ConfidenceCells):
        likelihood = likelihood.with_items(items[:, 0])
    return replace(posterior, draws=replace(draws, items=items, likelihood=likelihood))
