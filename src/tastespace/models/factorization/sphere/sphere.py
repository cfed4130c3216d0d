"""The recommenders with items on a sphere, by least squares and by Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import Gamma
from tastespace.errors import InvalidParameterError
from tastespace.inference.drivers import ascend
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.gibbs.sweep import START_STRENGTH
from tastespace.models.factorization.likelihoods.base import Likelihood
from tastespace.models.factorization.priors.normal_wishart import Sphere, on_sphere
from tastespace.models.factorization.priors.von_mises_fisher import SpherePrior
from tastespace.models.factorization.rows import Factors
from tastespace.models.factorization.sphere import moves
from tastespace.parameters import FACTORS, Range, check_int, check_number, check_option, spread
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters

# Factor of the users' penalty: that of the items is constant now, and users with the full penalty would be shrunk too
# much. Half predicts best on test ratings of MovieLens 100K and 1M, with 20 and 50 factors: by 0.001 to 0.003 of RMSE
# better than all.
USERS_SHARE = 0.5


EXTREME_RADIUS = 1e3  # beyond that, or below its inverse, single precision is not enough for users and items


def median_length(items: Factors) -> float:
    """The median length of unconstrained items; 1 if these are almost zero, as with few ratings."""
    median = float(np.median(np.linalg.norm(items.factors.astype(np.float64), axis=1)))
    return median if median > 1 / EXTREME_RADIUS else 1.0


@takes_old_parameters
@dataclass(kw_only=True)
class SphereALS(ALS):
    """Matrix factorization by alternating least squares with all items of one length, so that trees can find the best.

    As `ALS`, but every item vector has the length `radius` ("auto" for the median of the items of ALS). Then the
    penalty of items is a constant, and each half-sweep still minimises the loss exactly: over a sphere that is a
    trust-region problem (More and Sorensen 1983). Without biases the items nearest to a user are the best for them.

    All penalties are those of ALS, given or found, but that of the users is halved and scaled by the square of the
    radius, so that the radius is only a unit.
    """

    radius: float | Literal["auto"] = "auto"

    search_space = {"n_factors": FACTORS, "regularization": Range(0.005, 0.5, unit=spread)}

    def check(self) -> None:
        super().check()
        if self.radius != "auto":
            check_number("radius", self.radius, above=1 / EXTREME_RADIUS, below=EXTREME_RADIUS)

    def _check_empirical(self) -> None:
        raise InvalidParameterError(
            "regularization is 'empirical-bayes', which draws items of any length; expected a number or 'auto', or the "
            "model BPMF on the sphere (sphere), which learns its priors"
        )

    def _inferred(self, given: Start | None, observed: Ratings, rng: Generator, observer: Observer) -> PointPosterior:
        """Continue from the unconstrained minimum to the best with items of one length."""
        free = super()._inferred(given, observed, rng, observer)
        usual = median_length(free.items)
        radius = usual if self.radius == "auto" else self.radius
        strengths = free.penalty.strengths
        scaled = USERS_SHARE * strengths.users * (radius / usual) ** 2
        penalty = replace(free.penalty, strengths=replace(strengths, users=scaled))
        transition = replace(self._bind(observed, penalty), item_moves=moves.SphereMoves(Sphere(radius)))
        start = ALSState(free.users, on_sphere(free.items, Sphere(radius)))
        sweeps = len(free.losses) if self.early_stopping else self.sweeps
        state, losses = self._swept(transition, start, sweeps, "sweep on the sphere", rng, observer)
        return PointPosterior(observed.mean, state.users, state.items, penalty, losses)


SWEEPS = 15  # of least squares, for the radius
CONCENTRATION = Gamma(1.0, 0.05)  # a priori: anything from uniform to a cone


@takes_old_parameters
@dataclass(kw_only=True)
class SphereBPMF(BPMF):
    """Bayesian matrix factorization with all items of one length, so that the best item for a user is the nearest one.

    As `BPMF`, but the factors of every item lie on a sphere of the given `radius`, in units in which ratings have a
    standard deviation of 1 ("auto" for the median length of the items of alternating least squares). It is only a unit:
    if items are longer, users are shorter, and the prior of the users is scaled accordingly. `item_prior` is
    "von-mises-fisher", around a learned direction with a learned concentration, or "uniform".

    An item's factors given the users can no longer be drawn exactly. `sampler` moves them: "geodesic" Monte Carlo, by
    trajectories of about `item_steps` steps along great circles (Byrne and Girolami 2013), whose size is found while
    chains warm up; "slice", `item_steps` times along a random great circle (Habeck et al. 2023); "metropolis", by
    `item_steps` von Mises-Fisher proposals. None means 10, 20 and 20 steps.

    Biases are not on the sphere. With `biases="on-sphere"` factors and bias of an item are on one sphere together, and
    the query of a user is their factors and a 1: then trees find the best items, biases included. No bias is above the
    radius.
    """

    biases: bool | Literal["on-sphere"] = True  # type: ignore[assignment]  # one more than BPMF has
    radius: float | Literal["auto"] = "auto"
    item_prior: Literal["von-mises-fisher", "uniform"] = "von-mises-fisher"
    sampler: moves.SphereSampler = "geodesic"
    item_steps: int | None = None

    def check(self) -> None:
        super().check()
        if self.radius != "auto":
            check_number("radius", self.radius, above=1 / EXTREME_RADIUS, below=EXTREME_RADIUS)
        check_option("biases", self.biases, [True, False, "on-sphere"])
        if self.item_steps is not None:
            check_int("item_steps", self.item_steps, least=1)

    def known(self, observed: Ratings, rng: Generator) -> Self:
        """The model whose radius is the median length of the items after a few sweeps of alternating least squares."""
        if self.radius != "auto":
            return self
        scale = observed.standard_deviation or 1.0
        standard = replace(observed, values=((observed.values - observed.mean) / scale).astype(np.float32))
        penalty, n_threads = (
            Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"]),
            threads.resolve(self.threads),
        )
        ascent = AlternatingLeastSquares.bind(
            standard, self._columns(observed), penalty, biases=bool(self.biases), dtype=np.float32, threads=n_threads
        )
        return replace(self, radius=median_length(ascend(ascent, None, rng, steps=SWEEPS)[0].items))

    def known_from(self, posterior: DrawsPosterior, sweeps: int) -> Self:
        sphere = posterior.draws.sphere
        assert sphere is not None
        # Step sizes are adapted while the chains warm up again, not while draws are kept.
        return replace(super().known_from(posterior, sweeps), radius=sphere.radius, warmup=sweeps)

    def _plain_story(self, observed: Ratings, likelihood: Likelihood[Any]) -> FactorModel:
        assert not isinstance(self.radius, str)
        model, n_factors = super()._plain_story(observed, likelihood), self._columns(observed)
        sphere = Sphere(self.radius, has_joint_bias=self.biases == "on-sphere")
        of_biases = self._prior(observed.n_items, n_factors, likelihood).bias
        return replace(
            model,
            # If items are twice as long and users half, no score changes: nor should the prior of users.
            user_prior=replace(
                self._prior(observed.n_users, n_factors, likelihood), scale=self.prior_scale * self.radius**2
            ),
            item_prior=SpherePrior(sphere, CONCENTRATION if self.item_prior != "uniform" else None, of_biases),
            item_moves=moves.SphereMoves(
                sphere, self.sampler, self.item_steps or moves.STEPS[self.sampler], self.warmup * self.inner_sweeps
            ),
        )
