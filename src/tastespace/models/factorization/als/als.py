"""Alternating least squares: the recommender, and the base class of recommenders with penalty strengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.random import Generator

from tastespace import parameters, threads
from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.drivers import ascend, no_improvement, small_change
from tastespace.inference.transition import HELD_OUT, Measured
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.resuming import Start
from tastespace.models.factorization import held_out_search
from tastespace.models.factorization.als.posterior import EitherPosterior, PointPosterior
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes, empirical_bayes_of
from tastespace.models.factorization.held_out_search import Validation
from tastespace.models.factorization.priors.shrinkage import MOST_FACTORS, Shrinkage, check_most_factors
from tastespace.progress import Observer
from tastespace.settings import takes_old_parameters

if TYPE_CHECKING:  # Imported where they are used: most fits need neither empirical Bayes nor a sampler.
    from tastespace.models.factorization.empirical_bayes.inference import EmpiricalFactorization
    from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning

# The parameters of the blocks of a penalty.
SEPARATE = ("user_regularization", "item_regularization", "user_bias_regularization", "item_bias_regularization")


class FindsStrengths(Recommender):
    """A factorization with a penalty on each block, like that of `ALS`."""

    regularization: Any
    weighting: Any
    biases: bool
    early_stopping: bool
    validation_share: float
    precision: Any

    @property
    def _factors(self) -> PointPosterior | EmpiricalPosterior:
        """The posterior with the factors: a point estimate, or draws."""
        posterior: PointPosterior | EmpiricalPosterior = self.posterior_  # type: ignore[assignment]
        return posterior

    @property
    def regularization_(self) -> Strengths:
        """The strengths that were found, or given, or learned; `as_grid` makes a grid of them."""
        self.require_fitted()
        found = self._factors
        return found.penalty.strengths if isinstance(found, PointPosterior) else found.learning.strengths

    @property
    def learning_(self) -> Learning:
        """How empirical Bayes learned its precisions; other regularizations learn none."""
        self.require_fitted()
        found = self._factors
        if isinstance(found, PointPosterior):
            raise InvalidParameterError(
                f"this {type(self).__name__} has learned no precisions: its regularization is "
                f"{self.regularization!r}; expected one fitted with regularization='empirical-bayes'"
            )
        return found.learning

    @property
    def _dtype(self) -> Any:
        return np.float32 if self.precision == "float32" else np.float64

    def _own(self) -> dict[str, float]:
        """The separate strengths that are given, by block."""
        own = zip(held_out_search.BLOCKS, SEPARATE, strict=True)
        return {block: float(getattr(self, name)) for block, name in own if getattr(self, name) is not None}

    def _all_given(self) -> bool:
        """Whether every block has its own strength."""
        return self._own().keys() >= set(held_out_search.BLOCKS if self.biases else ("users", "items"))

    def _overridden(self, strengths: Strengths) -> Strengths:
        """The separate strengths where they are given, these where not."""
        return replace(strengths, **self._own())

    def _learner(self, settings: EmpiricalBayes, n_factors: int) -> EmpiricalFactorization:
        """The object that learns the precisions of this factorization."""
        from tastespace.models.factorization.empirical_bayes.inference import EmpiricalFactorization

        weighting, n_threads = WEIGHTINGS[self.weighting], threads.resolve(self.threads)
        return EmpiricalFactorization(settings, weighting, n_factors, self.biases, self._dtype, n_threads)

    def _check_strengths(self, words: list[str]) -> None:
        """Check the shared parameters; `words` are the allowed words for regularization."""
        parameters.check_number("validation_share", self.validation_share, above=0, below=1)
        for name in SEPARATE:
            if getattr(self, name) is not None:
                parameters.check_number(name, getattr(self, name), above=0)
        if empirical_bayes_of(self.regularization) is not None:
            self._check_empirical()
        elif isinstance(self.regularization, str):
            parameters.check_option("regularization", self.regularization, words)
        else:
            parameters.check_number("regularization", self.regularization, above=0)

    def _check_empirical(self) -> None:
        """Check parameters with empirical Bayes, which learns all strengths."""
        for name in SEPARATE:
            if (value := getattr(self, name)) is not None:
                raise InvalidParameterError(
                    f"{name} is {value:g}, and regularization is 'empirical-bayes', which learns all "
                    "strengths; expected None, or a regularization that is a number or 'auto'"
                )


PATIENCE = 3  # sweeps without a better held-out error before early stopping stops


@takes_old_parameters
@dataclass(kw_only=True)
class ALS(FindsStrengths):
    """Matrix factorization by alternating least squares, with biases.

    rating = mean + user bias + item bias + user . item, minimising the squared error plus a penalty on each
    block. `regularization` is the strength of all penalties; "auto" (the default) finds it on held-out ratings
    and then refits on all. The separate strengths override it block by block. `weighting` says how the penalty
    of a row grows with its number of ratings n: "weighted" n (weighted-lambda), "plain" not at all, "blended"
    (the default) n + 100, which predicts better than either and keeps items with few ratings from the top.

    `n_factors="auto"` takes as many factors as a short run of `BPMF` with a shrinkage prior finds useful, at most
    `most_factors`; see `n_factors_`.

    Stops when a sweep lowers the loss by less than `tolerance` of itself, after at most `sweeps` sweeps. With
    `early_stopping` a share of the ratings is held out first to find the number of sweeps that predicts them best.
    `validation_share` is that share, here and for "auto".

    With `regularization="empirical-bayes"`, or an `EmpiricalBayes` with its settings, the strengths are those with the
    highest marginal likelihood of the ratings. Predictions are then means over draws from the posterior at these
    strengths, with uncertainty. `regularization_` has the strengths.
    """

    n_factors: int | Literal["auto"] = 32
    most_factors: int = MOST_FACTORS
    regularization: float | str | EmpiricalBayes = "auto"
    user_regularization: float | None = None
    item_regularization: float | None = None
    user_bias_regularization: float | None = None
    item_bias_regularization: float | None = None
    weighting: Literal["blended", "weighted", "plain"] = "blended"
    biases: bool = True
    sweeps: int = 30
    tolerance: float = 1e-4
    early_stopping: bool = False
    validation_share: float = 0.1
    precision: Literal["float32", "float64"] = "float32"

    search_space = {
        "n_factors": parameters.FACTORS,
        "regularization": parameters.Range(0.005, 0.5, unit=parameters.spread),
        "user_bias_regularization": parameters.Range(0.001, 0.5),
    }
    posterior_class = EitherPosterior
    begins_from_others = True

    def check(self) -> None:
        super().check()
        parameters.check_int_or_auto("n_factors", self.n_factors, least=1)
        check_most_factors(self.most_factors, self.n_factors)
        parameters.check_int("sweeps", self.sweeps, least=1)
        parameters.check_number("tolerance", self.tolerance, least=0)
        self._check_strengths(["auto", "empirical-bayes"])

    def _check_empirical(self) -> None:
        super()._check_empirical()
        if self.early_stopping:
            raise InvalidParameterError(
                "early_stopping is True, and regularization is 'empirical-bayes', which holds nothing out and draws "
                "until it has converged; expected early_stopping=False"
            )

    def infer(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
    ) -> PointPosterior | EmpiricalPosterior:
        known, settings = self._sized(observed, rng, observer, given), empirical_bayes_of(self.regularization)
        if settings is None:
            return known._inferred(given, observed, rng, observer)
        return self._learner(settings, known._known_factors()).infer(observed, rng, observer, held_out, given)

    def _sized(self, observed: Ratings, rng: Generator, observer: Observer, given: Start | None) -> Self:
        """The same model with a known number of factors, found by a short run of a sampler with shrinking columns."""
        if self.n_factors != "auto":
            return self
        from tastespace.models.factorization.gibbs.bpmf import BPMF

        sampler = BPMF(
            n_factors="auto",
            prior=Shrinkage(max_factors=self.most_factors),
            biases=self.biases,
            precision=self.precision,
            threads=self.threads,
        )
        found = sampler.search_rank(observed, rng, observer, given=given)
        return replace(self, n_factors=found.n_factors, most_factors=MOST_FACTORS)

    @property
    def n_factors_(self) -> int:
        """The number of factors: `n_factors`, or the number found."""
        self.require_fitted()
        found = self._factors
        if isinstance(found, PointPosterior):
            return int(found.items.factors.shape[1])
        return found.draws.n_factors

    def _known_factors(self) -> int:
        assert not isinstance(self.n_factors, str)
        return self.n_factors

    def _inferred(self, given: Start | None, observed: Ratings, rng: Generator, observer: Observer) -> PointPosterior:
        validation = Validation.split(observed, self.validation_share, rng) if self._needs_validation() else None
        penalty, start = self._penalty(observed, validation, rng, observer)
        transition = self._bind(observed, penalty)
        if given is not None:
            start = transition.from_model(given, rng)
        sweeps = self.sweeps
        if self.early_stopping and validation is not None:
            sweeps = self._best_sweeps(validation, penalty, start, rng, observer)
        state, losses = self._swept(transition, start, sweeps, "sweep", rng, observer)
        return PointPosterior(observed.mean, state.users, state.items, penalty, losses)

    def _swept(
        self,
        transition: AlternatingLeastSquares,
        start: ALSState | None,
        sweeps: int,
        phase: str,
        rng: Generator,
        observer: Observer,
    ) -> tuple[ALSState, DoubleArray]:
        """The state after sweeps that lower the loss, and the loss after each."""
        stop = small_change("loss", self.tolerance)
        state, trace = ascend(transition, start, rng, steps=sweeps, stop=stop, phase=phase, observer=observer)
        return state, np.array([stats["loss"] for stats in trace])

    def _needs_validation(self) -> bool:
        return self.early_stopping or (self.regularization == "auto" and not self._all_given())

    def _best_sweeps(
        self, validation: Validation, penalty: Penalty, start: ALSState | None, rng: Generator, observer: Observer
    ) -> int:
        """The number of sweeps after which the held-out ratings are predicted best."""
        transition, stop = self._validated(validation, penalty), no_improvement(HELD_OUT, PATIENCE)
        phase = "finding when to stop"
        _, trace = ascend(transition, start, rng, steps=self.sweeps, stop=stop, phase=phase, observer=observer)
        return 1 + min(range(len(trace)), key=lambda step: trace[step][HELD_OUT])

    def _penalty(
        self, observed: Ratings, validation: Validation | None, rng: Generator, observer: Observer
    ) -> tuple[Penalty, ALSState | None]:
        """The penalty, and the final state of its search, to start from."""
        weighting = WEIGHTINGS[self.weighting]
        if not isinstance(self.regularization, str | EmpiricalBayes):
            return Penalty(self._overridden(Strengths.tied(self.regularization)), weighting), None
        if validation is None:
            standard = held_out_search.standard(held_out_search.DEFAULT_STRENGTH, observed)
            return Penalty(self._overridden(standard), weighting), None
        best = held_out_search.search_strengths(
            validation.train,
            lambda penalty: self._validated(validation, Penalty(self._overridden(penalty.strengths), weighting)),
            weighting=weighting,
            biases=self.biases,
            sweeps=self.sweeps,
            rng=rng,
            observer=observer,
        )
        return Penalty(self._overridden(best.setting), weighting), best.fit

    def _validated(self, validation: Validation, penalty: Penalty) -> Measured[ALSState]:
        transition = self._bind(validation.train, penalty)
        return held_out_search.validated(transition, validation, transition.threads)

    def _bind(self, observed: Ratings, penalty: Penalty) -> AlternatingLeastSquares:
        n_factors, n_threads = self._known_factors(), threads.resolve(self.threads)
        return AlternatingLeastSquares.bind(
            observed, n_factors, penalty, biases=self.biases, dtype=self._dtype, threads=n_threads
        )
