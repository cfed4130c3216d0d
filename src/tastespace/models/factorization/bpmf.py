"""Bayesian probabilistic matrix factorization: the default model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.levels import levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.gamma import Gamma
from tastespace.distributions.normal_gamma import NormalGamma
from tastespace.errors import ConvergenceWarning, InvalidParameterError, warn
from tastespace.inference.diagnostics import check_convergence
from tastespace.inference.drivers import Schedule, sample
from tastespace.models.factorization.draws import DrawsPosterior
from tastespace.models.factorization.item_draws import ItemDraws, Keeper
from tastespace.models.factorization.likelihoods import GaussianNoise
from tastespace.models.factorization.priors import NormalWishartPrior
from tastespace.models.factorization.story import FactorModel
from tastespace.models.factorization.watching import Watch, Watched, trace_of
from tastespace.models.parameters import choice, number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer

# Rows that the hyper-prior is worth, at most, and as a share of those there are. They hold back directions of taste
# that the ratings hardly show: chosen on held-out parts of training ratings (docs/design/bpmf.md).
PRIOR_ROWS, PRIOR_SHARE = 100, 0.1
LEAST_PRIOR_ROWS = 6  # with fewer a row has no variance, and the answer for a stranger is chance
EXTREME = 1e12  # beyond this, single precision overflows somewhere


@dataclass(kw_only=True)
class BPMF(Recommender):
    """Bayesian matrix factorization by Gibbs sampling: nothing to tune, and an honest "how sure are you?".

    rating = mean + user bias + item bias + user . item + noise. Users and items come from populations whose mean and
    spread are learned, and so is the noise (Salakhutdinov and Mnih 2008): there is no regularisation to choose.
    Predictions are averages over draws from the posterior.

    `chains` are run side by side, each from a start of its own ("als" or "random"); after `warmup` sweeps, `draws` of
    each are kept, one every `thin` sweeps. A draw of the items takes 4 (D + 1) bytes an item on disk, half of that
    with `storage="float16"`. `inner_sweeps` is the number of passes over users and items for each draw of the
    populations. `noise_precision` is "learned", or 1 / variance of a rating.

    Users are folded in when they are asked about, old and new alike. With `weights="evidence"` draws that explain a
    user's new ratings better count more.

    `prior_strength`, `prior_degrees` (of the Wishart, beyond the number of factors; None for 100, or a tenth of the
    rows where these are few, but at least 6), `prior_scale`, `noise_shape` and `noise_rate` are the hyper-prior's, for
    ratings of standard deviation 1.
    """

    n_factors: int = 32
    chains: int = 2
    warmup: int = 50
    draws: int = 50
    thin: int = 2
    inner_sweeps: int = 1
    biases: bool = True
    noise_precision: float | Literal["learned"] = "learned"
    start: Literal["als", "random"] = "als"
    weights: Literal["equal", "evidence"] = "equal"
    storage: Literal["float32", "float16"] = "float32"
    precision: Literal["float32", "float64"] = "float32"
    prior_strength: float = 2.0
    prior_degrees: float | None = None
    prior_scale: float = 0.5
    noise_shape: float = 1.0
    noise_rate: float = 1.0

    posterior_class = DrawsPosterior

    def check(self) -> None:
        super().check()
        whole_number("n_factors", self.n_factors, least=1)
        whole_number("chains", self.chains, least=1)
        whole_number("warmup", self.warmup, least=0)
        whole_number("draws", self.draws, least=1)
        whole_number("thin", self.thin, least=1)
        whole_number("inner_sweeps", self.inner_sweeps, least=1)
        choice("biases", self.biases, [True, False])
        choice("start", self.start, ["als", "random"])
        choice("weights", self.weights, ["equal", "evidence"])
        choice("storage", self.storage, ["float32", "float16"])
        choice("precision", self.precision, ["float32", "float64"])
        for name in ("prior_strength", "prior_scale", "noise_shape", "noise_rate"):
            number(name, getattr(self, name), above=1 / EXTREME, below=EXTREME)
        if self.prior_degrees is not None:
            number("prior_degrees", self.prior_degrees, least=0, below=EXTREME)
        if isinstance(self.noise_precision, str):
            choice("noise_precision", self.noise_precision, ["learned"])
        else:
            number("noise_precision", self.noise_precision, above=0)

    def story(self, observed: Ratings) -> FactorModel:
        """The model of these ratings: what is believed before their values are seen, but for mean and scale."""
        scale = observed.standard_deviation or 1.0
        noise: Gamma | float = Gamma(self.noise_shape, self.noise_rate)
        if self.noise_precision != "learned":
            noise = self.noise_precision * scale**2
            if not 1 / EXTREME < noise < EXTREME:
                raise InvalidParameterError(
                    f"noise_precision is {self.noise_precision:g}, for ratings with a standard deviation of {scale:g}; "
                    f"expected something nearer to {2 / scale**2:.2g}, or 'learned'"
                )
        return FactorModel(
            n_factors=self.n_factors,
            has_biases=self.biases,
            likelihood=GaussianNoise(noise),
            user_prior=self._prior(observed.n_users),
            item_prior=self._prior(observed.n_items),
            offset=observed.mean,
            scale=scale,
            dtype=np.float32 if self.precision == "float32" else np.float64,
        )

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DrawsPosterior:
        n_threads, model = threads.resolve(self.threads), self.story(observed)
        schedule = Schedule(self.chains, self.warmup, self.draws, self.thin)
        watched = Watched.of(observed, held_out, model.scale, rng)
        watches = [Watch(watched, self.warmup) for _ in range(self.chains)]
        stored = np.float16 if self.storage == "float16" else np.float32
        keeper = Keeper(self.chains * self.draws, observed.n_items, self.n_factors + self.biases, stored)
        transition = model.bind(
            observed,
            inner_sweeps=self.inner_sweeps,
            starts_from_als=self.start == "als",
            threads=max(1, n_threads // self.chains),
        )
        chains = sample(
            transition,
            rng,
            schedule,
            keep=keeper.keep,
            watches=watches,
            phase="sampling",
            told=("noise sd", "held-out rmse"),
            threads=n_threads,
            observer=observer,
        )
        trace = trace_of(chains, watches, schedule)
        if (trouble := check_convergence(trace)) is not None:
            warn(trouble, ConvergenceWarning)
        return DrawsPosterior(
            draws=ItemDraws.of(
                keeper.items,
                [hyper for chain in chains for hyper in chain.draws],
                has_biases=self.biases,
                offset=model.offset,
                scale=model.scale,
            ),
            levels=levels_of(observed.values),
            rating_range=observed.range,
            weighs_by_evidence=self.weights == "evidence",
            is_half_stored=self.storage == "float16",
            trace=trace,
        )

    def _prior(self, n_rows: int) -> NormalWishartPrior:
        rows = max(LEAST_PRIOR_ROWS, min(PRIOR_ROWS, PRIOR_SHARE * n_rows))
        if self.prior_degrees is not None:
            rows = self.prior_degrees
        return NormalWishartPrior(
            strength=self.prior_strength,
            degrees=self.n_factors + rows,
            scale=self.prior_scale,
            bias=NormalGamma(centre=0.0, strength=self.prior_strength, shape=1.0, rate=0.25),
        )
