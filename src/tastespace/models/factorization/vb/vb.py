"""Variational Bayes: normal beliefs about users and items, found by maximising a bound on the evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.features import Features
from tastespace.data.kinds import levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import Gamma, NormalGamma, NormalWishart
from tastespace.errors import InvalidParameterError
from tastespace.inference.drivers import ascend, small_change
from tastespace.inference.transition import HELD_OUT, Measured, Transition
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.results import FeatureImportance
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.gibbs import bpmf
from tastespace.models.factorization.gibbs.feature_draws import FeatureDraws, importance_of
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations, aligned
from tastespace.models.factorization.gibbs.sweep import START_SD, START_STRENGTH, START_SWEEPS
from tastespace.models.factorization.implicit.feature_means import is_described
from tastespace.models.factorization.likelihoods.base import FIRST_PRECISION, Units
from tastespace.models.factorization.likelihoods.gaussian import EXTREME
from tastespace.models.factorization.priors.design import Design
from tastespace.models.factorization.priors.features import explained_shares
from tastespace.models.factorization.priors.shrinkage import MOST_FACTORS, check_most_factors, unit_of
from tastespace.models.factorization.rank.column_search import most_columns
from tastespace.models.factorization.rows import Factors, RatingBlock, score_pairs
from tastespace.models.factorization.vb import ascent, populations
from tastespace.models.factorization.vb.coefficients import CoefficientBeliefs
from tastespace.models.factorization.vb.posterior import NewRow, UncertainItems, VariationalPosterior
from tastespace.models.factorization.vb.rows import Family, RowBeliefs, Shape, packed
from tastespace.parameters import FACTORS, check_int, check_int_or_auto, check_number
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters


@takes_old_parameters
@dataclass(kw_only=True)
class VB(Recommender):
    """Bayesian matrix factorization by variational Bayes: a posterior without sampling, by maximising a bound.

    rating = mean + user bias + item bias + user . item + noise. Beliefs about users and items are normal and
    independent of one another, as close as possible to the posterior (Lim and Teh 2007). Predictions and their
    variances are closed forms. The dependence between users and items is ignored: beliefs are too narrow.

    `covariance` is "full" for one matrix per user and item, or "diagonal" for independent coordinates, which takes less
    time and memory, and is narrower still. `prior` is what is learned about the populations, which are centred at 0:
    "covariances" of the factors on both sides, "variances" of the users' columns (those of the items are
    1 / `n_factors`: the scale of one side is a matter of convention), "both variances", or nothing ("fixed": those of
    the users are 1). With full covariances the first two are the same model in different coordinates, and the first
    converges faster. With `hierarchical` means and covariances of both populations and the noise have beliefs of their
    own, normal-Wishart and gamma, as in BPMF: `prior_strength`, `prior_degrees`, `prior_scale`, `noise_shape` and
    `noise_rate` are those of its hyper-prior.

    With `n_factors="auto"` inference starts with `most_factors`, and drops those whose learned variances vanish;
    `n_factors_` is the number left.

    `centred=False` lets the factors and biases learn the mean of the ratings; users and items without ratings are then
    assumed to be like the others, since the prior is centred at 0, far from any rating. `noise_precision` is "learned",
    or 1 / variance of a rating. Inference starts from "als", or from "random" factors.

    It stops when a pass over items and users raises the bound by less than `tolerance` of itself, after at most
    `passes`.
    """

    n_factors: int | Literal["auto"] = 32
    most_factors: int = MOST_FACTORS
    covariance: Family = "full"
    hierarchical: bool = False
    prior: Literal["covariances", "variances", "both variances", "fixed"] = "covariances"
    biases: bool = True
    centred: bool = True
    noise_precision: float | Literal["learned"] = "learned"
    passes: int = 200
    tolerance: float = 1e-5
    start: Literal["als", "random"] = "als"
    precision: Literal["float32", "float64"] = "float32"
    prior_strength: float = 2.0
    prior_degrees: float | None = None
    prior_scale: float = 0.5
    noise_shape: float = 1.0
    noise_rate: float = 1.0

    search_space = {"n_factors": FACTORS}
    posterior_class = VariationalPosterior
    begins_from_others = learns_features = True

    def check(self) -> None:
        super().check()
        check_int_or_auto("n_factors", self.n_factors, least=1)
        check_most_factors(self.most_factors, self.n_factors)
        if self.noise_precision != "learned":
            check_number("noise_precision", self.noise_precision, above=0)
        check_int("passes", self.passes, least=1)
        check_number("tolerance", self.tolerance, least=0)
        for name in ("prior_strength", "prior_scale", "noise_shape", "noise_rate"):
            check_number(name, getattr(self, name), above=1 / EXTREME, below=EXTREME)
        if self.prior_degrees is not None:
            check_number("prior_degrees", self.prior_degrees, least=0, below=EXTREME)
        self._check_populations()

    def _check_populations(self) -> None:
        """Check parameters that belong to one kind of populations only."""
        if self.n_factors == "auto" and (self.hierarchical or self.prior == "fixed"):
            named = "hierarchical is True" if self.hierarchical else "prior is 'fixed'"
            raise InvalidParameterError(
                f"n_factors is 'auto', and {named}, with which no variance vanishes; expected hierarchical=False and "
                "another prior, or a number of factors"
            )
        of_hierarchy = ("prior_strength", "prior_degrees", "prior_scale", "noise_shape", "noise_rate")
        for name in ("prior",) if self.hierarchical else of_hierarchy:
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise InvalidParameterError(
                    f"{name} is {getattr(self, name)!r}, and hierarchical is {self.hierarchical}, which has no use for "
                    f"it; expected hierarchical={not self.hierarchical}, or no {name}"
                )

    def infer(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
    ) -> VariationalPosterior:
        bound = self.bind(observed, rng, given)
        transition = bound if held_out is None else _watched(bound, observed, held_out)
        stop = small_change("bound", self.tolerance)
        state, trace = ascend(transition, None, rng, steps=self.passes, stop=stop, phase="pass", observer=observer)
        passes = ascent.last_stage(trace) if self.n_factors == "auto" else trace
        return self._concluded(observed, state, np.array([stats["bound"] for stats in passes]))

    @property
    def n_factors_(self) -> int:
        """The number of factors: `n_factors`, or those that have not vanished."""
        self.require_fitted()
        assert isinstance(self.posterior_, VariationalPosterior)
        return self.posterior_.draws.n_factors

    def _columns(self, observed: Ratings) -> int:
        """The initial number of factors."""
        return most_columns(self.most_factors, observed) if isinstance(self.n_factors, str) else self.n_factors

    def _populations(self, observed: Ratings, columns: int) -> ascent.Populations:
        """The initial populations of users and items."""
        return (
            self._population(observed.n_users, columns, 1.0, self.prior != "fixed"),
            self._population(observed.n_items, columns, 1 / columns, self.prior == "both variances"),
        )

    def bind(self, observed: Ratings, rng: Generator, given: Start | None = None) -> ascent.VariationalAscent:
        """The transition for these ratings, with its start."""
        dtype = np.float32 if self.precision == "float32" else np.float64
        offset, scale = self._units(observed)
        by_user, by_item = (RatingBlock.of(side, dtype, offset, scale) for side in (observed.by_user, observed.by_item))
        n_threads, columns = threads.resolve(self.threads), self._columns(observed)
        shape = Shape(columns, self.biases, self.covariance)
        points = self._starting_points(by_user, by_item, columns, given, rng)
        rows = RowBeliefs.certain(shape, points.users), RowBeliefs.certain(shape, points.items)
        start = ascent.VariationalState(*rows, *self._populations(observed, columns), self._noise(scale))
        start = replace(
            start,
            user_coefficients=self._coefficients(
                observed.user_features, observed.by_user, observed.n_items, shape.width
            ),
            item_coefficients=self._coefficients(
                observed.item_features, observed.by_item, observed.n_users, shape.width
            ),
        )
        pruning = None
        if self.n_factors == "auto":
            pruning = ascent.Pruning(ascent.VANISHED * unit_of(observed), partial(self._populations, observed))
        return ascent.VariationalAscent(by_user, by_item, start, n_threads, pruning)

    def _coefficients(
        self, features: Features | None, pairs: CSR, n_others: int, width: int
    ) -> CoefficientBeliefs | None:
        """The coefficients of a side at the start; None if it has no features."""
        if not is_described(features):
            return None
        assert features is not None
        for name, value, usable in (
            ("hierarchical", self.hierarchical, False),
            ("centred", self.centred, True),
            ("n_factors", self.n_factors, self.n_factors if self.n_factors != "auto" else "a number"),
        ):
            if value != usable:
                raise InvalidParameterError(
                    f"the ratings have features, and {name} is {value!r}; features in VB need {name}={usable}: "
                    "expected that, ratings without features, or BPMF"
                )
        design = Design.of(features, pairs, n_others)
        return CoefficientBeliefs.start(design, width, threads.resolve(self.threads))

    def placed(self, posterior: VariationalPosterior, observed: Ratings) -> VariationalPosterior | None:
        return posterior.with_items(observed)

    def feature_importance(self) -> FeatureImportance:
        """How much each group of features explains of what users and items are like; see `FeatureImportance`.

        Shares are those of the expected coefficients, without intervals.
        """
        self.require_fitted()
        assert isinstance(self.posterior_, VariationalPosterior)
        draws = self.posterior_.draws
        return importance_of(draws.user_features, draws.item_features)

    def _starting_points(
        self, by_user: RatingBlock, by_item: RatingBlock, n_factors: int, given: Start | None, rng: Generator
    ) -> ALSState:
        """The initial users and items, without uncertainty.

        Small random factors without biases, a few sweeps of alternating least squares, or the items of another model
        with users fitted to them.
        """
        penalty = Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"])
        n_threads = threads.resolve(self.threads)
        squares = AlternatingLeastSquares(by_user, by_item, n_factors, penalty, self.biases, n_threads, START_SD)
        if given is not None:
            return squares.from_model(given, rng)
        if self.start == "als":
            return ascend(squares, None, rng, steps=START_SWEEPS)[0]
        return ALSState(*(_random(side, n_factors, self.biases, rng) for side in (by_user, by_item)))

    def _units(self, observed: Ratings) -> tuple[float, float]:
        """The offset and scale of ratings."""
        return observed.mean if self.centred else 0.0, observed.standard_deviation or 1.0

    def _population(
        self, n_rows: int, size: int, variance: float, learns_variances: bool
    ) -> populations.VariationalPopulation:
        """The initial population of a side: columns of this variance."""
        if not self.hierarchical:
            if self.prior == "covariances":
                return populations.Covariance(variance * np.eye(size))
            return populations.Variances(np.full(size, variance), 1.0, learns_variances)
        rows = max(bpmf.LEAST_PRIOR_ROWS, min(bpmf.PRIOR_ROWS, bpmf.PRIOR_SHARE * n_rows))
        degrees = size + (rows if self.prior_degrees is None else self.prior_degrees)
        factors = NormalWishart(np.zeros(size), self.prior_strength, np.eye(size) / self.prior_scale, degrees)
        bias = NormalGamma(0.0, self.prior_strength, bpmf.BIAS_SHAPE, bpmf.BIAS_RATE)
        first = NormalWishart(np.zeros(size), self.prior_strength, degrees * variance * np.eye(size), degrees)
        return populations.Hierarchy(first, bias, factors, bias, self.biases)

    def _noise(self, scale: float) -> populations.VariationalNoise:
        if self.noise_precision != "learned":
            precision = self.noise_precision * scale**2
            if not 1 / EXTREME < precision < EXTREME:
                raise InvalidParameterError(
                    f"noise_precision is {self.noise_precision:g}, for ratings with a standard deviation of {scale:g}; "
                    f"expected something nearer to {2 / scale**2:.2g}, or 'learned'"
                )
            return populations.PointNoise(precision, learns=False)
        if not self.hierarchical:
            return populations.PointNoise(FIRST_PRECISION)
        prior = Gamma(self.noise_shape, self.noise_rate)
        return populations.GammaNoise(Gamma(1.0, 1 / FIRST_PRECISION), prior)

    def _concluded(
        self, observed: Ratings, state: ascent.VariationalState, bounds: DoubleArray
    ) -> VariationalPosterior:
        offset, scale = self._units(observed)
        means = contiguous(state.items.means, np.float32)
        covariances = contiguous(state.items.covariances, np.float32)
        new_user, new_items = None, _moments_of(state.item_population.expected, self.biases)
        if not self.centred:
            counts = observed.by_item.counts
            new_user = NewRow.among(state.users, observed.by_user.counts)
            item = NewRow.among(state.items, counts)
            new_items = item.population(state.items.shape.n_factors)
            means[counts == 0] = item.mean
            covariances[counts == 0] = (
                packed(item.covariance) if self.covariance == "full" else np.diag(item.covariance)
            )
        uncertain = UncertainItems(
            items=means, covariances=covariances, has_biases=self.biases, bounds=bounds, new_user=new_user
        )
        users, alpha = _moments_of(state.user_population.expected, self.biases), np.array([state.noise.mean])
        draws = ItemDraws(
            *(means[:, None, :], users, new_items, alpha, self.biases, offset, scale, uncertain),
            user_features=_kept(state.user_coefficients, state.users.points, state.items.points, with_bag=True),
            item_features=_kept(state.item_coefficients, state.items.points, state.users.points, with_bag=False),
        )
        return VariationalPosterior(draws, Units(*observed.range, levels_of(observed.values), observed.mean))


def _kept(beliefs: CoefficientBeliefs | None, rows: Factors, other: Factors, *, with_bag: bool) -> FeatureDraws | None:
    """The expected coefficients as one draw, and the share of the rows that each group explains."""
    if beliefs is None:
        return None
    design, means = beliefs.design, beliefs.means
    kept = means[: design.n_features if with_bag else design.n_attributes]
    shares = explained_shares(design, means, rows, other)
    precisions = np.array([[belief.mean for belief in beliefs.of_groups]])
    return FeatureDraws(contiguous(kept[:, None, :], np.float32), precisions, design.groups, shares[None])


def _random(side: RatingBlock, n_factors: int, biases: bool, rng: Generator) -> Factors:
    n, dtype = len(side.offsets) - 1, side.targets.dtype
    factors: AnyFloats = (START_SD * rng.standard_normal((n, n_factors))).astype(dtype)
    return Factors(factors, np.zeros(n, dtype) if biases else None)


def _watched(
    transition: ascent.VariationalAscent, observed: Ratings, held_out: Ratings
) -> Transition[ascent.VariationalState]:
    """The transition, with the error of held-out ratings after each pass."""
    user_rows, item_rows, values = aligned(observed, held_out)
    if not len(values):
        return transition
    side, n_threads = transition.by_user, transition.threads

    def rmse(state: ascent.VariationalState) -> float:
        scores = score_pairs(state.users.points, user_rows, state.items.points, item_rows, 0.0, n_threads)
        errors = np.clip(side.offset + side.scale * scores.astype(np.float64), *observed.range) - values
        return sqrt(float(np.mean(errors**2)))

    return Measured(transition, {HELD_OUT: rmse})


def _moments_of(expected: populations.ExpectedPrior, has_biases: bool) -> Populations:
    """A population with the expected precision and the corresponding mean."""
    bias_precision = expected.bias_precision if has_biases else 0.0
    return Populations(
        means=np.asarray(np.linalg.solve(expected.precision, expected.linear), np.float64)[None],
        precisions=expected.precision[None],
        bias_means=np.array([expected.bias_linear / expected.bias_precision if has_biases else 0.0]),
        bias_precisions=np.array([bias_precision]),
    )
