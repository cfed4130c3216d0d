"""The recommender of Bayesian matrix factorization with items on a sphere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.distributions.normal_gamma import Gamma
from tastespace.inference.checkpoints import RunCheckpoints
from tastespace.models.base.parameters import check_int, check_number, check_option
from tastespace.models.base.resuming import Start
from tastespace.models.base.update import TrainingSummary
from tastespace.models.factorization.als.sweep import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.gibbs.sweep import START_STRENGTH
from tastespace.models.factorization.likelihoods.base import Likelihood
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.priors.von_mises_fisher import SpherePrior
from tastespace.models.factorization.sphere.moves import (
    EXTREME_RADIUS,
    SPHERE_SAMPLERS,
    STEPS,
    SphereMoves,
    SphereSampler,
    free_length,
)
from tastespace.progress import Observer
from tastespace.renamed import takes_old_parameters

CONCENTRATION = Gamma(1.0, 0.05)  # before any item is seen: anything from uniform to a cone


@takes_old_parameters
@dataclass(kw_only=True)
class SphereBPMF(BPMF):
    """Bayesian matrix factorization with all items of one length, so that the best item for a user is the nearest one.

    As `BPMF`, but the factors of every item lie on a sphere of the given `radius`, in units in which ratings have a
    standard deviation of 1 ("auto" for the median length of the items of alternating least squares). It is a unit and
    no more: where items are longer users are shorter, and the prior of the users goes with it. `item_prior` is
    "von-mises-fisher", around a direction that is learned, as is how closely, or "uniform".

    An item's factors given the users can no longer be drawn outright. `sampler` moves them: "geodesic" Monte Carlo, by
    trajectories of about `item_steps` steps along great circles (Byrne and Girolami 2013), whose size is found while
    chains warm up; "slice", so many times along a random great circle (Habeck et al. 2023); "metropolis", by so many
    von Mises-Fisher proposals. None is for 10, 20 and 20 steps.

    Biases are beside the sphere. With `biases="on-sphere"` factors and bias of an item lie on one sphere together, and
    a user asks with his factors and a 1: then trees find the best items, bias and all. No bias is above the radius.
    """

    biases: bool | Literal["on-sphere"] = True  # type: ignore[assignment]  # one more than BPMF has
    radius: float | Literal["auto"] = "auto"
    item_prior: Literal["von-mises-fisher", "uniform"] = "von-mises-fisher"
    sampler: SphereSampler = "geodesic"
    item_steps: int | None = None

    BIASES: ClassVar[tuple[bool | str, ...]] = (True, False, "on-sphere")

    def check(self) -> None:
        super().check()
        if self.radius != "auto":
            check_number("radius", self.radius, above=1 / EXTREME_RADIUS, below=EXTREME_RADIUS)
        check_option("item_prior", self.item_prior, ["von-mises-fisher", "uniform"])
        check_option("sampler", self.sampler, list(SPHERE_SAMPLERS))
        if self.item_steps is not None:
            check_int("item_steps", self.item_steps, least=1)

    def infer_resumably(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None,
        checkpoints: RunCheckpoints | None,
        given: Start | None = None,
    ) -> DrawsPosterior:
        if self.radius == "auto":
            known = replace(self, radius=self._median_length(observed, rng))
            return known.infer_resumably(observed, rng, observer, held_out, checkpoints, given)
        return super().infer_resumably(observed, rng, observer, held_out, checkpoints, given)

    def restarted(
        self,
        posterior: DrawsPosterior,
        observed: Ratings,
        seen: TrainingSummary,
        sweeps: int,
        seed: int,
        observer: Observer,
    ) -> DrawsPosterior:
        sphere = posterior.draws.sphere
        assert sphere is not None
        # Step sizes are found while the chains warm up again, and not while draws are kept.
        known = replace(self, radius=sphere.radius, warmup=sweeps)
        return super(SphereBPMF, known).restarted(posterior, observed, seen, sweeps, seed, observer)

    def _median_length(self, observed: Ratings, rng: Generator) -> float:
        """In units of the ratings' standard deviation."""
        scale = observed.standard_deviation or 1.0
        standard = replace(observed, values=((observed.values - observed.mean) / scale).astype(np.float32))
        return free_length(
            standard,
            self._columns(observed),
            Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"]),
            biases=bool(self.biases),
            dtype=np.float32,
            rng=rng,
            threads=threads.resolve(self.threads),
        )

    def _plain_story(self, observed: Ratings, likelihood: Likelihood[Any]) -> FactorModel:
        assert not isinstance(self.radius, str)
        model, n_factors = super()._plain_story(observed, likelihood), self._columns(observed)
        sphere = Sphere(self.radius, has_joint_bias=self.biases == "on-sphere")
        of_biases = self._prior(observed.n_items, n_factors, likelihood).bias
        return replace(
            model,
            # If items are twice as long and users half, no score changes: nor should what is believed of users.
            user_prior=replace(
                self._prior(observed.n_users, n_factors, likelihood), scale=self.prior_scale * self.radius**2
            ),
            item_prior=SpherePrior(sphere, CONCENTRATION if self.item_prior != "uniform" else None, of_biases),
            item_moves=SphereMoves(
                sphere, self.sampler, self.item_steps or STEPS[self.sampler], self.warmup * self.inner_sweeps
            ),
        )
