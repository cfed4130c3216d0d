"""Logistic factorization of implicit feedback by stochastic gradients: the recommender and its transition.

    P(chosen) = 1 / (1 + exp(-s_ij)),   s_ij = g + c_i + d_j + u_i . v_j

    E = sum over chosen of b_ij log(1 + exp(-s_ij)) + sum over not chosen of w_ij log(1 + exp(s_ij))
        + l/2 (sum |u_i|^2 + sum |v_j|^2 + sum c_i^2 + sum d_j^2)

Where users or items have features, their rows are regularized towards what these tell (`feature_means`).
(Johnson 2014). b is 1 + strength * f(count), w that of `negatives`, and g a constant, the logarithm of sum b / sum w:
the score of a cell about which nothing is known. An epoch takes one step of all items given the users, and one of all
users given the items. The gradient of a row is that of all its choices and of cells drawn for this step; each of its
coordinates has its own step size (AdaGrad: Duchi, Hazan and Singer 2011). A row moves given the previous state of the
other side, and draws from its own stream: so rows can be moved in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from tastespace import _native, threads
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.errors import NonFiniteStateError
from tastespace.inference.drivers import ascend
from tastespace.inference.transition import Stats
from tastespace.models.base.results import FeatureImportance
from tastespace.models.factorization.gibbs.feature_draws import importance_of
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.implicit.cells import Confidence, Growth
from tastespace.models.factorization.implicit.feature_means import Coefficients, FeatureMeans
from tastespace.models.factorization.implicit.implicit_als import one_draw, side_of, with_placed_items
from tastespace.models.factorization.implicit.negatives import Drawing, Law, Panel, Unchosen
from tastespace.models.factorization.likelihoods.base import Units
from tastespace.models.factorization.likelihoods.logistic import LogisticPanel, NegativeWeight
from tastespace.models.factorization.priors.design import load_solvers
from tastespace.models.factorization.rows import Factors
from tastespace.models.implicit_feedback import OneClass
from tastespace.parameters import MANY_FACTORS, Range, check_int, check_number
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters

START_SD = 0.1


@dataclass(frozen=True, eq=False)
class Shown:
    """The choices of each row of a side, their weights, and the negatives drawn for it."""

    offsets: OffsetArray
    columns: IntArray
    weights: FloatArray  # b
    drawing: Drawing

    @classmethod
    def of(cls, chosen: CSR, confidence: Confidence, drawing: Drawing) -> Shown:
        return cls(
            contiguous(chosen.offsets, np.int64),
            contiguous(chosen.columns, np.int32),
            1 + confidence.beyond_one(chosen.values),
            drawing,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, eq=False)
class Rows:
    """One side: its factors and biases, and the squares of all gradients so far."""

    at: Factors
    squares: Factors

    @classmethod
    def start(cls, n: int, n_factors: int, has_biases: bool, rng: Generator) -> Rows:
        """Small random factors, no biases."""
        factors = np.float32(START_SD) * rng.standard_normal((n, n_factors), np.float32)
        at = Factors(factors, np.zeros(n, np.float32) if has_biases else None)
        return cls(at, at.each(np.zeros_like))

    def points(self) -> FloatMatrix:
        """Rows of factors and, last, the bias, if there is one."""
        factors, bias = self.at.factors, self.at.bias
        return np.asarray(factors if bias is None else np.hstack([factors, bias[:, None]]), np.float32)

    def placed(self, features: FeatureMeans, at: Coefficients) -> Rows:
        """These rows, with those without any choices where their features put them."""
        points, n_factors = features.placed(self.points(), at), self.at.factors.shape[1]
        bias = None if self.at.bias is None else contiguous(points[:, n_factors], np.float32)
        return replace(self, at=Factors(contiguous(points[:, :n_factors], np.float32), bias))

    def squared(self) -> float:
        """The sum of the squares of all numbers."""
        return float(np.sum(np.square(self.points(), dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class LogisticState:
    """A state of both sides."""

    users: Rows
    items: Rows
    of_users: Coefficients | None = None  # of their features, if they have any
    of_items: Coefficients | None = None


@dataclass(frozen=True, eq=False)
class LogisticDescent:
    """One epoch: items given users, then users given items."""

    observed: Ratings
    confidence: Confidence
    unchosen: Unchosen
    ridge: float  # l
    rate: float
    n_factors: int
    has_biases: bool
    threads: int
    means: tuple[FeatureMeans | None, FeatureMeans | None] = (None, None)  # the features of users and of items

    @cached_property
    def by_user(self) -> Shown:
        return Shown.of(self.observed.by_user, self.confidence, self.unchosen.drawings[0])

    @cached_property
    def by_item(self) -> Shown:
        return Shown.of(self.observed.by_item, self.confidence, self.unchosen.drawings[1])

    @cached_property
    def offset(self) -> float:
        """g."""
        return float(np.log(float(self.by_user.weights.sum(dtype=np.float64)) / self.unchosen.n_draws))

    def init(self, rng: Generator) -> LogisticState:
        users = Rows.start(len(self.by_user), self.n_factors, self.has_biases, rng)
        items = Rows.start(len(self.by_item), self.n_factors, self.has_biases, rng)
        of_users, of_items = (
            None if means is None else means.start(self.n_factors + self.has_biases) for means in self.means
        )
        return LogisticState(users, items, of_users, of_items)

    def step(self, state: LogisticState, rng: Generator) -> tuple[LogisticState, Stats]:
        (users, items), (of_users, of_items) = (state.users, state.items), (state.of_users, state.of_items)
        features_of_users, features_of_items = self.means
        items, _ = self.moved(self.by_item, items, users, int(rng.integers(1 << 63)), features_of_items, of_items)
        of_items = _found(features_of_items, items, of_items)
        of_users = _found(features_of_users, users, of_users)
        held_back = None
        if features_of_items is not None and of_items is not None:
            held_back = features_of_items.held_back(items.points(), of_items)
        key = int(rng.integers(1 << 63))
        users, loss = self.moved(self.by_user, users, items, key, features_of_users, of_users, held_back)
        if features_of_users is not None and of_users is not None:
            loss += 0.5 * features_of_users.held_back_coefficients(of_users)
        return LogisticState(users, items, of_users, of_items), {"loss": loss}

    def moved(
        self,
        shown: Shown,
        rows: Rows,
        other: Rows,
        key: int,
        features: FeatureMeans | None = None,
        at: Coefficients | None = None,
        held_back: float | None = None,
    ) -> tuple[Rows, float]:
        """One step of all rows, and E before it, estimated from the cells drawn for the step.

        `held_back` is twice the part of E that the other side has by itself, if it has features.
        """
        after, energies, drawing = (
            Rows(rows.at.each(np.copy), rows.squares.each(np.copy)),
            np.empty(len(shown)),
            shown.drawing,
        )
        means: dict[str, FloatArray] = {}
        if features is not None and at is not None:
            expected = features.means(at)
            means["means"] = contiguous(expected[:, : self.n_factors], np.float32)
            if self.has_biases:
                means["bias_means"] = contiguous(expected[:, -1], np.float32)
        _native.step_choices(
            offsets=shown.offsets,
            columns=shown.columns,
            weights=shown.weights,
            drawn_offsets=drawing.offsets,
            row_weights=drawing.row_weights,
            column_weights=drawing.column_weights,
            table=drawing.chances.table,
            other=other.at.factors,
            other_bias=other.at.bias,
            offset=self.offset,
            ridge=self.ridge,
            bias_ridge=self.ridge,
            rate=self.rate,
            key=key,
            out=after.at.factors,
            out_bias=after.at.bias,
            squares=after.squares.factors,
            bias_squares=after.squares.bias,
            energies=energies,
            **means,
            threads=self.threads,
        )
        if features is not None and at is not None:
            after = after.placed(features, at)
        held_back = self.ridge * other.squared() if held_back is None else held_back
        return after, float(energies.sum()) + 0.5 * held_back


def _found(features: FeatureMeans | None, rows: Rows, at: Coefficients | None) -> Coefficients | None:
    """The coefficients given the rows."""
    return None if features is None or at is None else features.found(rows.points(), at)


MAX_NEGATIVES = 10_000  # per choice; beyond that a cell would be drawn many times per step


@takes_old_parameters
@dataclass(kw_only=True)
class LogisticMF(OneClass):
    """Logistic matrix factorization of clicks, plays and purchases: the probability that an item is chosen.

    P(chosen) = 1 / (1 + exp(-(offset + user bias + item bias + user . item))), learned by stochastic gradients from
    what was chosen, and from sampled negatives, which represent what was not (Johnson 2014).

    `negatives` is how cells that were not chosen are weighted, `n_negatives` times as much as the chosen ones in total.
    "weighted": all such cells the same. "uniform": any item, in proportion to the number of choices of the user.
    "popularity": the same, with items drawn by (number of choices) ** 0.75.

    A prediction is the probability that a pair is a choice and not a negative, if there are `n_negatives` negatives of
    that law for every choice. For a pair about which nothing is known that is 1 / (1 + `n_negatives`). With
    "popularity", an item gets no credit for being popular.

    A choice counts 1 + `strength` * f(count), f given by `growth`: "log" (1 + count), "linear" or "none". With a
    strength above 0 odds are too high by the factor by which choices count more than 1.

    `regularization` shrinks factors and biases; where users or items have features, towards what these tell, with
    coefficients that `feature_regularization` shrinks as in `ImplicitALS`. `epochs` are passes over both sides, with
    steps of `learning_rate`.
    """

    n_factors: int = 64
    regularization: float = 3.0
    negatives: Law = "weighted"
    n_negatives: int = 30
    strength: float = 0.0
    growth: Growth = "log"
    biases: bool = True
    epochs: int = 30
    learning_rate: float = 0.2
    feature_regularization: float = 10.0

    search_space = {
        "n_factors": MANY_FACTORS,
        "regularization": Range(0.1, 30),
        "n_negatives": Range(5, 200, whole=True),
        "learning_rate": Range(0.03, 1),
    }
    posterior_class = DrawsPosterior
    learns_features = True

    def check(self) -> None:
        super().check()
        check_int("n_factors", self.n_factors, least=1)
        check_number("regularization", self.regularization, above=0)
        check_int("n_negatives", self.n_negatives, least=1)
        check_number("n_negatives", self.n_negatives, below=MAX_NEGATIVES + 1)
        check_number("strength", self.strength, least=0)
        check_int("epochs", self.epochs, least=1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("feature_regularization", self.feature_regularization, above=0)

    @classmethod
    def candidates(cls, observed: Ratings) -> list[dict[str, Any]]:
        return [{}] if observed.kind in CHOICES else []

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DrawsPosterior:
        self.check_ratings(observed)
        confidence = Confidence(self.strength, self.growth)
        counts = (observed.by_user.counts, observed.by_item.counts)
        means = self._means(observed)
        users, items = (None if side is None or side.is_counted.all() else side.is_counted for side in means)
        unchosen = Unchosen.of(self.negatives, self.n_negatives, *counts, (users, items))
        settings = (self.regularization, self.learning_rate, self.n_factors, self.biases)
        transition = LogisticDescent(observed, confidence, unchosen, *settings, threads.resolve(self.threads), means)
        if any(side is not None for side in means):
            load_solvers()
        with threads.one_blas_thread():
            state, trace = ascend(transition, None, rng, steps=self.epochs, phase="epoch", observer=observer)
        if not (isfinite(trace[-1]["loss"]) and isfinite(state.users.squared() + state.items.squared())):
            raise NonFiniteStateError(
                f"after {len(trace)} epochs the loss is {trace[-1]['loss']}; expected finite numbers: take a smaller "
                f"learning_rate (now {self.learning_rate:g}) or strength (now {self.strength:g})"
            )
        offset, a_user = transition.offset, unchosen.total / np.count_nonzero(unchosen.by_user)
        likelihood = LogisticPanel(
            offset,
            confidence=confidence,
            ridge=self.regularization,
            weight=NegativeWeight(0.0, a_user)
            if self.negatives == "weighted"
            else NegativeWeight(self.n_negatives, 0.0),
            panel=Panel.of(unchosen.by_item, unchosen.item_popularity, rng),
            losses=np.array([stats["loss"] for stats in trace]),
        )
        units = Units(0.0, 1.0, np.array([0.0, 1.0]), float(scipy.special.expit(offset)))
        user_points, item_points = state.users.points(), state.items.points()
        of_users = side_of(user_points, state.of_users, means[0], item_points, self.biases, with_bag=True)
        of_items = side_of(item_points, state.of_items, means[1], user_points, self.biases, with_bag=False)
        return one_draw(of_users, of_items, item_points, 1.0, self.biases, likelihood, units)

    def _means(self, observed: Ratings) -> tuple[FeatureMeans | None, FeatureMeans | None]:
        """The features of users and of items."""
        how = self.feature_regularization, threads.resolve(self.threads)
        of_users, of_items = (np.full(n, self.regularization, np.float32) for n in (observed.n_users, observed.n_items))
        return (
            FeatureMeans.of(observed.user_features, observed.by_user, observed.n_items, of_users, *how),
            FeatureMeans.of(observed.item_features, observed.by_item, observed.n_users, of_items, *how),
        )

    def placed(self, posterior: DrawsPosterior, observed: Ratings) -> DrawsPosterior | None:
        return with_placed_items(posterior, observed)

    def feature_importance(self) -> FeatureImportance:
        """How much each group of features explains of what users and items are like; see `FeatureImportance`.

        Shares have no intervals: the coefficients are one estimate. `precision` is that of the penalty.
        """
        self.require_fitted()
        posterior = self.posterior_
        assert isinstance(posterior, DrawsPosterior)
        draws = posterior.draws
        return importance_of(draws.user_features, draws.item_features)
