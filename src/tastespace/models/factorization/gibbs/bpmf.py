"""Bayesian probabilistic matrix factorization: the default likelihoods and priors, by Gibbs sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import FloatMatrix
from tastespace.data.features import Features
from tastespace.data.kinds import CHOICES, Kind, levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import KnownMean, NormalGamma
from tastespace.errors import ConvergenceWarning, InvalidParameterError, warn
from tastespace.inference.checkpoints import RunCheckpoints
from tastespace.inference.diagnostics import Exactness, check_convergence
from tastespace.inference.drivers import Schedule, sample
from tastespace.models.base.posterior import Posterior
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.results import FeatureImportance, Noisiness
from tastespace.models.base.resuming import Start
from tastespace.models.base.update import Merged, TrainingSummary, check_levels
from tastespace.models.factorization.gibbs import update
from tastespace.models.factorization.gibbs.feature_draws import importance_of
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, KeptItems, Watch, Watched, trace_of
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.gibbs.sweep import GibbsState, GibbsSweep
from tastespace.models.factorization.likelihoods.base import Likelihood, Observations, likelihood_of
from tastespace.models.factorization.likelihoods.gaussian import EXTREME
from tastespace.models.factorization.likelihoods.sampled_negatives import SampledNegatives
from tastespace.models.factorization.priors import PriorSettings
from tastespace.models.factorization.priors.design import Design, load_solvers, met_rows
from tastespace.models.factorization.priors.features import FeaturePrior
from tastespace.models.factorization.priors.normal_wishart import BiasPrior, FactorPrior, NormalWishartPrior, prior_of
from tastespace.models.factorization.priors.shrinkage import Shrinkage
from tastespace.models.factorization.priors.von_mises_fisher import SpherePrior
from tastespace.models.factorization.rank import column_search
from tastespace.models.factorization.rows import Axis
from tastespace.models.implicit_feedback import CHOICES_RANGE, NOT_CHOSEN, require_choices
from tastespace.parameters import FACTORS, check_int, check_int_or_auto, check_number
from tastespace.progress import Observer
from tastespace.randomness import derive
from tastespace.settings import takes_old_parameters

# The maximum weight of the hyper-prior in rows, and as a share of the rows. It shrinks directions of taste that the
# ratings hardly show: chosen on held-out parts of training ratings (docs/explanation/models/bpmf.md).
PRIOR_ROWS, PRIOR_SHARE = 100, 0.1
LEAST_PRIOR_ROWS = 6  # with fewer a row has no variance, and predictions for a new user are random
BIAS_SHAPE, BIAS_RATE = 1.0, 0.25  # of the precision of biases
# draws="auto": nine of ten predictions are accurate to 0.075 times the noise sd, which makes the RMSE at most 0.3 %
# larger. On MovieLens 100K that takes 60 draws per chain, on movielens-demo 200 (90 : 10, seed 0): RMSE 0.8791 and
# 0.8551, where 50 draws have 0.8793 and 0.8555, and 400 have 0.8789 and 0.8566.
EXACT_ENOUGH, MOST_DRAWS = Exactness(error=0.075, block=20), 400


@takes_old_parameters
@dataclass(kw_only=True)
class BPMF(Recommender):
    """Bayesian matrix factorization by Gibbs sampling: nothing to tune, and calibrated uncertainty.

    rating = mean + user bias + item bias + user . item + noise. Users and items come from populations whose mean and
    spread are learned, and so is the noise (Salakhutdinov and Mnih 2008): there is no regularization to choose.
    Predictions are averages over draws from the posterior.

    `prior` is the prior of the factors: a name, an object such as ``Shrinkage("ard", max_factors=16)``, or a text such
    as "ard:max_factors=16". With `n_factors="auto"` the number of factors is learned: the prior shrinks those that the
    ratings do not support ("ard", which "auto" means then, or "cumulative": see `Shrinkage`). A short chain that starts
    with `max_factors`, and drops negligible ones, finds the number; then the chains run, all with that many and one to
    spare. `n_factors_` is the number in use, and `rank_` its uncertainty. With a given number, "auto" is
    "normal-wishart"; the other two shrink the given factors.

    `chains` are run in parallel, each from its own start ("als" or "random"); after `warmup` sweeps, `draws` of
    each are kept, one every `thin` sweeps. With `draws="auto"` chains run 20 draws at a time, and at most 400, until
    nine of ten watched predictions have a Monte Carlo error of at most 0.075 times the noise sd (or, without one, the
    spread of the predictions). A draw of the items takes 4 (D + 1) bytes per item on disk, half of that with
    `storage="float16"`. `inner_sweeps` is the number of passes over users and items for each draw of the populations.

    `likelihood` is the distribution of ratings given scores: a name, an object such as ``Ordinal(levels=[1, 2, 3])``,
    or a text such as "ordinal:levels=1,2,3". "gaussian" are numbers with normal noise, "heteroscedastic" the same with
    noise that differs between users and between items: see `erratic_users` and `divisive_items`. "ordinal" are levels
    between learned cut-points, such as stars. "probit" and "logistic" are yes and no, as 1 and 0; with
    "probit:negatives=uniform", or ``Probit(negatives="uniform")``, they are implicit feedback (counts above 0), and
    negatives are sampled. See `Gaussian`, `HeteroscedasticGaussian`, `Ordinal`, `Probit` and `Logistic` for their
    parameters.

    Users are folded in at query time, known and new users in the same way. With
    `weights="evidence"` draws that explain a user's new ratings better count more.

    `prior_strength`, `prior_degrees` (of the Wishart, beyond the number of factors; None for 100, or a tenth of the
    rows where these are few, but at least 6) and `prior_scale` are the hyper-prior's, for ratings of standard
    deviation 1.
    """

    n_factors: int | Literal["auto"] = 32
    prior: str | PriorSettings = "auto"
    chains: int = 2
    warmup: int = 50
    draws: int | Literal["auto"] = 50
    thin: int = 2
    inner_sweeps: int = 1
    biases: bool = True
    likelihood: str | Likelihood[Any] = "gaussian"
    start: Literal["als", "random"] = "als"
    weights: Literal["equal", "evidence"] = "equal"
    storage: Literal["float32", "float16"] = "float32"
    precision: Literal["float32", "float64"] = "float32"
    prior_strength: float = 2.0
    prior_degrees: float | None = None
    prior_scale: float = 0.5

    @property
    def takes_negatives(self) -> bool:
        """Whether ratings are implicit feedback with sampled negatives."""
        return likelihood_of(self.likelihood).takes_choices

    @property
    def takes_answers(self) -> bool:
        """Whether ratings are yes (1) and no (0)."""
        return likelihood_of(self.likelihood).is_binary

    search_space = {"n_factors": FACTORS}
    posterior_class: ClassVar[type[Posterior]] = DrawsPosterior
    begins_from_others = keeps_checkpoints = learns_features = True

    def suits(self, kind: Kind) -> bool:
        return (kind in CHOICES) == self.takes_negatives

    @classmethod
    def settings_for(cls, kind: Kind) -> dict[str, Any]:
        return {"likelihood": "logistic"} if kind == "yes-no" else {}

    def check(self) -> None:
        super().check()
        check_int_or_auto("n_factors", self.n_factors, least=1)
        prior, likelihood = prior_of(self.prior, self.n_factors), likelihood_of(self.likelihood)
        if isinstance(prior, Shrinkage) and self.n_factors != "auto" and prior.max_factors != Shrinkage.max_factors:
            raise InvalidParameterError(
                f"max_factors is {prior.max_factors}, and n_factors is {self.n_factors!r}; expected n_factors='auto', "
                "or no max_factors"
            )
        if self.weights == "evidence" and not likelihood.has_evidence:
            raise InvalidParameterError(
                "weights is 'evidence', which has a closed form only for constant Gaussian noise; expected "
                "weights='equal'"
            )
        check_int_or_auto("draws", self.draws, least=1)
        for name, least in (("chains", 1), ("warmup", 0), ("thin", 1), ("inner_sweeps", 1)):
            check_int(name, getattr(self, name), least=least)
        for name in ("prior_strength", "prior_scale"):
            check_number(name, getattr(self, name), above=1 / EXTREME, below=EXTREME)
        if self.prior_degrees is not None:
            check_number("prior_degrees", self.prior_degrees, least=0, below=EXTREME)

    def story(self, observed: Ratings) -> FactorModel:
        """The generative model of these ratings: the prior, with only mean and scale taken from the data.

        With sampled negatives it is the model of yes and no, whatever is drawn.
        """
        likelihood, offset, scale = likelihood_of(self.likelihood).bind(observed)
        model = prior_of(self.prior, self.n_factors).bind(self._plain_story(observed, likelihood), observed)
        model = with_features(model, observed, max(1, threads.resolve(self.threads) // self.chains))
        return replace(model, offset=offset, scale=scale)

    def _plain_story(self, observed: Ratings, likelihood: Likelihood[Any]) -> FactorModel:
        """The model with populations of any covariance."""
        return FactorModel(
            n_factors=self._columns(observed),
            has_biases=bool(self.biases),
            likelihood=likelihood,
            user_prior=self._prior(observed.n_users, self._columns(observed), likelihood),
            item_prior=self._prior(observed.n_items, self._columns(observed), likelihood),
            dtype=np.float32 if self.precision == "float32" else np.float64,
        )

    def schedule(self, warmup: int, thin: int) -> Schedule:
        """The lengths of the chains."""
        if self.draws == "auto":
            return Schedule(self.chains, warmup, MOST_DRAWS, thin, until=EXACT_ENOUGH)
        return Schedule(self.chains, warmup, self.draws, thin)

    def infer(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
        checkpoints: RunCheckpoints | None = None,
    ) -> Posterior:
        return self.infer_ratings(observed, rng, observer, held_out, given, checkpoints)

    def infer_ratings(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
        checkpoints: RunCheckpoints | None = None,
        *,
        is_final: bool = True,
    ) -> DrawsPosterior:
        """Infer the posterior from ratings; no warning if chains that are not final are too short."""
        known, searched = self.known(observed, rng), None
        negatives = likelihood_of(self.likelihood).sample_negatives(observed, type(self).__name__, rng)
        if negatives is not None:  # Held-out ratings are choices, too: their distance from 1 would be meaningless.
            observed, held_out = negatives.yes_and_no(observed), None
        if known.n_factors == "auto":
            searched = known.search_rank(observed, rng, observer, checkpoints=checkpoints, given=given)
        known = known._with_columns(known._columns(observed) if searched is None else searched.wanted_columns)
        model, schedule = known.story(observed), known.schedule(self.warmup, self.thin)
        found = known._sampled(
            model,
            observed,
            rng,
            observer,
            schedule,
            held_out,
            checkpoints,
            given=given,
            searched=searched,
            is_final=is_final,
        )
        return _taking_choices(found, negatives)

    def known(self, observed: Ratings, rng: Generator) -> Self:
        """The same model with everything that is determined from ratings before chains start."""
        return self

    def known_from(self, posterior: DrawsPosterior, sweeps: int) -> Self:
        """The same model with all that the posterior has determined, for chains with `sweeps` sweeps of warm-up."""
        likelihood = likelihood_of(self.likelihood).keep_levels(posterior.units.levels)
        return replace(self, likelihood=likelihood)._with_columns(posterior.draws.n_factors)

    def _columns(self, observed: Ratings) -> int:
        """The number of factors; the maximum if their number is to be found."""
        if not isinstance(self.n_factors, str):
            return self.n_factors
        prior = prior_of(self.prior, self.n_factors)
        assert isinstance(prior, Shrinkage)
        return column_search.most_columns(prior.max_factors, observed)

    def _with_columns(self, n: int) -> Self:
        """The same model with a known number of factors."""
        prior = prior_of(self.prior, self.n_factors)
        return replace(self, n_factors=n, prior=Shrinkage(prior.kind) if isinstance(prior, Shrinkage) else prior)

    def search_rank(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        *,
        checkpoints: RunCheckpoints | None = None,
        given: Start | None = None,
    ) -> column_search.RankSearch:
        """Estimate the number of factors by a short chain whose columns are added and dropped."""
        if self.n_factors != "auto":
            raise InvalidParameterError(f"n_factors is {self.n_factors!r}; expected 'auto' to search for a number")
        model = self.story(observed)
        sweep = self._bind(model, observed, given, threads.resolve(self.threads))
        # Its checkpoints are beside those of the main chains.
        checkpoints = None if checkpoints is None else checkpoints.beside(self.chains)
        return column_search.search(sweep, model.n_factors, rng, observer, checkpoints)

    def _bind(self, model: FactorModel, observed: Ratings, given: Start | None, n_threads: int) -> GibbsSweep:
        ratings = Observations.of(observed, model.dtype, model.offset, model.scale)
        return GibbsSweep(model, ratings, self.inner_sweeps, self.start == "als", given, n_threads)

    @property
    def rank_(self) -> column_search.FoundRank:
        """The number of factors in use, its uncertainty, and how it was found."""
        posterior = self.rating_posterior
        return column_search.found_rank(posterior.draws.n_factors, posterior.trace)

    @property
    def n_factors_(self) -> int:
        """The number of factors in use: `n_factors`, or the number found."""
        return self.rank_.n_factors

    def _sampled(
        self,
        model: FactorModel,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        schedule: Schedule,
        held_out: Ratings | None = None,
        checkpoints: RunCheckpoints | None = None,
        *,
        starts: Sequence[GibbsState] | None = None,
        given: Start | None = None,
        searched: column_search.RankSearch | None = None,
        is_final: bool = True,
    ) -> DrawsPosterior:
        """Run the chains from the beginning, from these states, or from the items of another model."""
        n_threads = threads.resolve(self.threads)
        watched = Watched.of(observed, held_out, model, rng)
        watches = [Watch(watched, schedule.warmup) for _ in range(schedule.chains)]
        stored = np.float16 if self.storage == "float16" else np.float32
        kept = KeptItems(schedule, observed.n_items, model, stored)
        with threads.one_blas_thread():  # Chains have a thread each, and their matrices are small.
            chains = sample(
                self._bind(model, observed, given, max(1, n_threads // self.chains)),
                rng,
                schedule,
                keeps=kept.keepers,
                watches=watches,
                phase="sampling",
                reported=("noise sd", "held-out rmse"),
                traced=lambda chains, sweeps: trace_of(chains, watches, schedule, sweeps),
                checkpoints=checkpoints,
                starts=starts,
                threads=n_threads,
                observer=observer,
            )
        trace = trace_of(chains, watches, schedule)
        trace = trace if searched is None else replace(trace, rank_search=searched.array())
        if is_final and (trouble := check_convergence(trace)) is not None:
            warn(trouble, ConvergenceWarning)
        return DrawsPosterior(
            draws=ItemDraws.of(kept.items(), [hyper for chain in chains for hyper in chain.draws], model),
            units=model.likelihood.units(observed),
            weighs_by_evidence=self.weights == "evidence",
            is_half_stored=self.storage == "float16",
            trace=trace,
        )

    @property
    def _took_choices(self) -> bool:
        """Whether it was fitted on implicit feedback."""
        return self.rating_posterior.draws.likelihood.takes_choices

    @property
    def rating_posterior(self) -> DrawsPosterior:
        """The posterior of ratings, which is the whole posterior of a BPMF."""
        self.require_fitted()
        return self.posterior_  # type: ignore[return-value]

    @property
    def not_rated(self) -> float | None:
        return NOT_CHOSEN if self._took_choices else super().not_rated

    @property
    def history_range(self) -> tuple[float, float]:
        return CHOICES_RANGE if self._took_choices else super().history_range

    def check_ratings(self, ratings: Ratings) -> None:
        posterior = self.rating_posterior
        if self._took_choices:
            require_choices(ratings, type(self).__name__)
        elif posterior.is_latent and posterior.units.levels is not None:
            check_levels(ratings, posterior.units.levels)  # Some levels may be declared but not in use yet.
        else:
            super().check_ratings(ratings)

    def kept_up(self, posterior: DrawsPosterior, merged: Merged, seen: TrainingSummary, seed: int) -> DrawsPosterior:
        update.check_parameters(posterior, self.get_params())
        n_threads, dtype = threads.resolve(self.threads), np.float32 if self.precision == "float32" else np.float64
        observed = merged.ratings
        negatives = posterior.draws.likelihood.sampled
        if negatives is not None:
            # New items need negatives, too: without users who did not choose them they would seem to suit everyone.
            negatives = negatives.for_items(observed.by_item.counts)
            posterior, observed = _taking_choices(posterior, negatives), negatives.yes_and_no(observed)
        extended = update.with_new_items(posterior, observed, seen.learned_items, dtype, seed, n_threads)
        # New items are drawn again with each update: that changes the noise of all who rated one.
        is_touched = merged.is_touched.copy()
        is_touched[observed.user_rows[observed.item_rows >= seen.learned_items]] = True
        extended = update.with_noise_of_users(extended, observed.by_user, is_touched, n_threads)
        units = replace(posterior.units, usual=observed.mean)
        if not posterior.is_latent:
            units = replace(units, levels=levels_of(observed.values))
        return replace(extended, units=units)

    def restarted(
        self,
        posterior: DrawsPosterior,
        observed: Ratings,
        seen: TrainingSummary,
        sweeps: int,
        seed: int,
        observer: Observer,
    ) -> DrawsPosterior:
        negatives = posterior.draws.likelihood.sampled
        if negatives is not None:
            observed = negatives.yes_and_no(observed)
        known = self.known_from(posterior, sweeps)
        model, rng = known.story(observed), derive(seed, "restart", seen.updates)
        starts = update.warm_states(posterior, observed, model, rng, threads.resolve(self.threads))
        schedule = self.schedule(sweeps, update.RESTART_THIN)
        assert posterior.trace is not None
        searched = column_search.RankSearch.found_in(posterior.trace)
        restarted = known._sampled(model, observed, rng, observer, schedule, starts=starts, searched=searched)
        return _taking_choices(restarted, negatives)

    def feature_importance(self) -> FeatureImportance:
        """How much each group of features explains of what users and items are like; see `FeatureImportance`.

        The model must have been fitted on ratings with features (`Ratings.with_item_features`, `with_user_features`).
        """
        draws = self.rating_posterior.draws
        return importance_of(draws.user_features, draws.item_features)

    def erratic_users(self, n: int = 10) -> Noisiness:
        """The users whose ratings are hardest to predict, most erratic first; needs `likelihood="heteroscedastic"`."""
        noise = self._noise_of("user", "erratic_users", n)
        return Noisiness.of("user", self.ratings_, noise, n)

    def divisive_items(self, n: int = 10) -> Noisiness:
        """The items whose ratings are hardest to predict, most divisive first; needs `likelihood="heteroscedastic"`."""
        noise = self._noise_of("item", "divisive_items", n)
        return Noisiness.of("item", self.ratings_, noise, n)

    def _noise_of(self, side: Axis, asked: str, n: int) -> FloatMatrix:
        """The noise of each user or item, if it differs."""
        self.require_fitted()
        check_int("n", n, least=1)
        noise = self.rating_posterior.draws.noise.get(f"{side}_noise")
        if noise is None:
            raise InvalidParameterError(
                f"{asked} needs noise by user and item, and this model has one for all; expected one fitted with "
                "likelihood='heteroscedastic'"
            )
        return noise

    def _prior(self, n_rows: int, n_factors: int, likelihood: Likelihood[Any]) -> NormalWishartPrior:
        rows, strength = self.prior_degrees, self.prior_strength
        if rows is None:
            rows = max(LEAST_PRIOR_ROWS, min(PRIOR_ROWS, PRIOR_SHARE * n_rows))
        bias: BiasPrior = NormalGamma(0.0, strength, BIAS_SHAPE, BIAS_RATE)
        if likelihood.places_scores:  # Cut-points locate scores: biases have no mean.
            bias = KnownMean(0.0, BIAS_SHAPE, BIAS_RATE)
        return NormalWishartPrior(strength, n_factors + rows, self.prior_scale, bias)


def with_features(model: FactorModel, observed: Ratings, n_threads: int) -> FactorModel:
    """The model with priors that the features of users and items shift, if the ratings have any."""
    # Sampled negatives are not in a bag: it has what was chosen.
    chosen = observed.masked(observed.values > 0) if model.likelihood.takes_choices else observed

    def shifted(axis: Axis, prior: FactorPrior, features: Features | None, n_others: int) -> FactorPrior:
        if features is None or not (features.n_columns or features.has_bag):
            return prior
        if isinstance(prior, SpherePrior):
            raise InvalidParameterError(
                "items have features, and lie on a sphere, where no features shift them; expected features of users "
                "only (ratings.with_item_features(None)), or BPMF"
            )
        if not isinstance(prior, NormalWishartPrior):
            raise InvalidParameterError(
                f"{axis}s have features, and their prior is of the type {type(prior).__name__}; features need "
                "prior='normal-wishart' and a number of factors"
            )
        load_solvers()
        pairs = chosen.by_user if axis == "user" else chosen.by_item
        met = met_rows(pairs.counts) if axis == "item" and features.n_columns else None
        return FeaturePrior(prior, Design.of(features, pairs, n_others), threads=n_threads, met=met)

    return replace(
        model,
        user_prior=shifted("user", model.user_prior, observed.user_features, observed.n_items),
        item_prior=shifted("item", model.item_prior, observed.item_features, observed.n_users),
    )


def _taking_choices(posterior: DrawsPosterior, negatives: SampledNegatives | None) -> DrawsPosterior:
    """A posterior of yes and no that folds users in from their choices, with sampled negatives if there are any."""
    if negatives is None:
        return posterior
    return replace(posterior, draws=replace(posterior.draws, likelihood=negatives))
