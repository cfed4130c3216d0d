"""Probabilistic matrix factorization by gradient descent: the recommender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.random import Generator

from tastespace import randomness, threads
from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.data.streaming import ROWS_AT_ONCE, RatingStream, Triples
from tastespace.errors import DivergenceWarning, InvalidParameterError, warn
from tastespace.inference.drivers import Stop, never, no_improvement
from tastespace.models.factorization.adaptive import AdaptivePrior
from tastespace.models.factorization.best_epoch import KeepingBest, Run, run
from tastespace.models.factorization.descent import (
    METHODS,
    SCHEDULES,
    Descent,
    DescentState,
    Method,
    Rate,
    ScheduleName,
    Steps,
)
from tastespace.models.factorization.form_posterior import FormPosterior
from tastespace.models.factorization.forms import FORMS, Form, FormName
from tastespace.models.factorization.penalty import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.rows import score_pairs
from tastespace.models.factorization.sources import Source, StreamedRatings, WholeRatings, triples_of
from tastespace.models.factorization.strength_search import PLAIN
from tastespace.models.parameters import choice, number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.models.starting import Start
from tastespace.models.updating import Seen
from tastespace.progress import Observer, Progress, silent

HELD_OUT = "held-out rmse"
DEFAULT_STRENGTH = 0.036  # for ratings of standard deviation 1
COARSE, FINE, MOST_TRIALS = 2.0, 1.4, 12  # steps of the search
MEANINGFUL = 1e-4  # a smaller relative gain is noise, and following it leads nowhere
LEARNING_RATES: dict[Method, float] = {"stochastic": 0.02, "mini-batch": 0.02, "full-batch": 0.2}
# An epoch of a full batch is one step, and momentum swings before it goes anywhere.
PATIENCE: dict[Method, int] = {"stochastic": 10, "mini-batch": 10, "full-batch": 50}
USUAL_SCHEDULES: dict[Method, ScheduleName] = {
    "stochastic": "inverse",
    "mini-batch": "inverse",
    "full-batch": "constant",
}


@dataclass(kw_only=True)
class PMF(Recommender):
    """Probabilistic matrix factorization by gradient descent, with biases.

    rating = mean + user bias + item bias + user . item, minimising the squared error plus a penalty on each block, as
    `ALS` does, step by step against the gradient. `form` is what is fitted: "centred" as above, "raw" without the mean,
    or "sigmoid", where the ratings' range is reached through 1 / (1 + exp(-score)).

    `method` says after how many ratings a step is made: "stochastic" (one), "mini-batch" (about `batch_size`) or
    "full-batch" (all); the last two have `momentum`. `learning_rate` is the length of the first steps, for ratings of
    any scale; "auto" is 0.02, 0.02 and 0.2. `schedule` is what becomes of it: "inverse" divides it by 1 + `decay` t
    after t hundred visits of an average row, "constant" leaves it, "bold-driver" makes it 5 % longer after an epoch
    that lowered the loss, and takes an epoch that did not back and halves it. "auto" is "constant" for "full-batch",
    else "inverse".

    `regularisation` is the strength of all penalties: a number, "auto" (the default), which finds it on held-out
    ratings, or "adaptive", which learns it along with everything else (see `tastespace.models.factorization.adaptive`).
    The separate strengths override it block by block; `weighting` is that of `ALS`.

    With `early_stopping` (the default) `validation_share` of the ratings is held out first, and the epoch that predicts
    them best is kept: descent ends after `patience` epochs without a better one ("auto": 10, or 50 of full batches), or
    after `epochs`. Then all ratings are descended on for as many epochs (`refit`); without that, the items of the best
    epoch itself are kept. Either way users are last put where a fold-in of their ratings would put them.

    A learning rate that is too large makes the loss grow without bound. Then descent stops, a `DivergenceWarning` says
    so, and the best epoch is kept.
    """

    n_factors: int = 32
    form: FormName = "centred"
    method: Method = "stochastic"
    regularisation: float | Literal["auto", "adaptive"] = "auto"
    user_regularisation: float | None = None
    item_regularisation: float | None = None
    user_bias_regularisation: float | None = None
    item_bias_regularisation: float | None = None
    weighting: Literal["blended", "weighted", "plain"] = "blended"
    biases: bool = True
    learning_rate: float | Literal["auto"] = "auto"
    schedule: ScheduleName | Literal["auto"] = "auto"
    decay: float = 0.05
    momentum: float = 0.9
    batch_size: int = 10_000
    epochs: int = 200
    early_stopping: bool = True
    patience: int | Literal["auto"] = "auto"
    refit: bool = True
    validation_share: float = 0.1
    precision: Literal["float32", "float64"] = "float32"

    posterior_class = FormPosterior

    def check(self) -> None:
        super().check()
        for name in ("n_factors", "batch_size", "epochs"):
            whole_number(name, getattr(self, name), least=1)
        choice("form", self.form, FORMS)
        choice("method", self.method, METHODS)
        choice("schedule", self.schedule, ["auto", *SCHEDULES])
        choice("weighting", self.weighting, list(WEIGHTINGS))
        choice("precision", self.precision, ["float32", "float64"])
        for name in ("biases", "early_stopping", "refit"):
            choice(name, getattr(self, name), [True, False])
        number("decay", self.decay, least=0)
        number("momentum", self.momentum, least=0, below=1)
        number("validation_share", self.validation_share, above=0, below=1)
        if self.patience != "auto":
            whole_number("patience", self.patience, least=1)
        if self.learning_rate != "auto":
            number("learning_rate", self.learning_rate, above=0)
        if self.regularisation not in ("auto", "adaptive"):
            number("regularisation", self.regularisation, above=0)
        for name in ("user", "item", "user_bias", "item_bias"):
            if (value := getattr(self, f"{name}_regularisation")) is not None:
                number(f"{name}_regularisation", value, above=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> FormPosterior:
        return self._inferred(None, observed, rng, observer, held_out)

    def infer_from(
        self, start: Start, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None
    ) -> FormPosterior:
        if self.form == "sigmoid":
            raise InvalidParameterError(
                "the form is sigmoid, whose factors are not in units of ratings, as those of start are; expected the "
                "form centred or raw, or start=None"
            )
        return self._inferred(start, observed, rng, observer, held_out)

    def _inferred(
        self, given: Start | None, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None
    ) -> FormPosterior:
        watched = None if held_out is None else _matched(held_out, observed)
        posterior = self._learned(WholeRatings(observed), rng, observer, watched, given)
        # A training user is then where his ratings put a stranger.
        return replace(posterior, users=posterior.fold_in(observed.by_user, threads.resolve(self.threads)))

    def fit_parquet(self, path: str | Path, *, rows_at_once: int = ROWS_AT_ONCE, observer: Observer = silent) -> Self:
        """Learn from a Parquet file of ratings that need not fit into memory.

        It is looked through twice, for ids, counts and mean, and then once an epoch, `rows_at_once` rows at a time, in
        another order every time. Factors, ids and such a piece are in memory, the ratings are not. So the fitted
        recommender is as one saved without its ratings: it does not know what users have seen, unless told by a
        `history`. Users stay where descent has left them.
        """
        self.check()
        stream = RatingStream.scan(path, rows_at_once=rows_at_once)
        seed = randomness.resolve(self.seed)
        posterior = self._learned(StreamedRatings(stream), randomness.generator(seed), observer, None)
        nothing = np.zeros(0, np.int32)
        ids_only = Ratings(stream.users, stream.items, nothing, nothing.copy(), np.zeros(0, np.float32))
        seen = Seen(stream.n_ratings, len(stream.users), len(stream.items))
        return self.restore(ids_only, posterior, seed, stream.range, seen)

    def _learned(
        self,
        source: Source,
        rng: Generator,
        observer: Observer,
        watched: Triples | None,
        given: Start | None = None,
    ) -> FormPosterior:
        """The point where descent ends; users as it left them."""
        split = source.split(self.validation_share, rng) if self._needs_validation() else None
        strengths, epochs, errors = self._usual_strengths(source), self.epochs, np.zeros(0)
        if split is not None:
            trial, strengths = self._found(*split, strengths, rng, observer, given)
            errors = np.array([stats[HELD_OUT] for stats in trial.trace])
            epochs = trial.best_epoch if self.early_stopping else self.epochs
            if not self.refit:
                self._say_if_diverged(trial)
                return self._posterior(split[0], trial.last.best, trial, errors)
        final = self._run(
            source, strengths, watched, rng, epochs=epochs, stop=never, phase="epoch", observer=observer, given=given
        )
        # What was held out told of it already, unless this is the first run, or the one that ran into it.
        self._say_if_diverged(final if split is None or final.has_diverged else trial)
        state = final.last.best if final.has_diverged else final.last.now
        return self._posterior(source, state, final, errors)

    def _needs_validation(self) -> bool:
        return self.early_stopping or self.regularisation == "auto"

    def _found(
        self,
        source: Source,
        held_out: Triples,
        start: Strengths,
        rng: Generator,
        observer: Observer,
        given: Start | None,
    ) -> tuple[Run[DescentState], Strengths]:
        """The best run on the rest of the ratings and, with "auto", the strengths of it.

        In steps of a factor two to whichever side is better, as long as it is; then one smaller step to either side.
        """
        stop = (
            no_improvement(HELD_OUT, PATIENCE[self.method] if self.patience == "auto" else self.patience)
            if self.early_stopping
            else never
        )
        n_trials, is_searched = 0, self.regularisation == "auto" and not self._all_given()
        phase = "finding when to stop"

        def attempt(strengths: Strengths) -> Run[DescentState]:
            nonlocal n_trials
            n_trials += 1
            told = silent if is_searched else observer
            found = self._run(
                source, strengths, held_out, rng, epochs=self.epochs, stop=stop, phase=phase, observer=told, given=given
            )
            if is_searched:
                figures = {"strength": strengths.users, HELD_OUT: found.best_figure}
                observer(Progress("searching regularisation", n_trials, None, figures))
            return found

        best, strengths = attempt(start), start
        for step in (COARSE, FINE) if is_searched else ():
            middle = strengths
            for factor in (step, 1 / step):
                while strengths is middle or step == COARSE:
                    other = self._overridden(_times(strengths, factor))
                    trial = attempt(other)
                    if n_trials >= MOST_TRIALS or not trial.best_figure < (1 - MEANINGFUL) * best.best_figure:
                        break
                    best, strengths = trial, other
                if strengths is not middle:
                    break  # Stronger helped, so weaker does not.
        return best, strengths

    def _run(
        self,
        source: Source,
        strengths: Strengths,
        held_out: Triples | None,
        rng: Generator,
        *,
        epochs: int,
        stop: Stop,
        phase: str,
        observer: Observer,
        given: Start | None,
    ) -> Run[DescentState]:
        """Descend on the ratings; with some held out, the best epoch is that which predicts them best."""
        descent = replace(self._bind(source, strengths, rng), given=given)
        measures: dict[str, Callable[[DescentState], float]] = {}
        if held_out is not None:
            measures[HELD_OUT] = lambda state: self._rmse(source, descent.form, state, held_out)
        # The last run may watch ratings, but does not learn from them.
        figure = "loss" if held_out is None or phase == "epoch" else HELD_OUT
        keeping = KeepingBest(descent, figure, measures)
        return run(keeping, keeping.init(rng), rng, epochs=epochs, stop=stop, phase=phase, observer=observer)

    def _bind(self, source: Source, strengths: Strengths, rng: Generator) -> Descent:
        figures, (user_counts, item_counts) = source.figures, source.counts
        dtype = np.float32 if self.precision == "float32" else np.float64
        form = Form.of(self.form, figures.mean, figures.standard_deviation, figures.range)
        adaptive = None
        if self.regularisation == "adaptive":
            sizes = (figures.n_ratings, len(user_counts), len(item_counts), self.n_factors)
            adaptive = AdaptivePrior(strengths, *sizes, has_biases=self.biases)
        first = LEARNING_RATES[self.method] if self.learning_rate == "auto" else self.learning_rate
        schedule = USUAL_SCHEDULES[self.method] if self.schedule == "auto" else self.schedule
        return Descent(
            supply=source.supply(form, dtype, rng),
            n_ratings=figures.n_ratings,
            user_counts=user_counts,
            item_counts=item_counts,
            n_factors=self.n_factors,
            penalty=Penalty(strengths, WEIGHTINGS[self.weighting]),
            form=form,
            steps=Steps(self.method, Rate(first, schedule, self.decay), self.momentum, self.batch_size),
            has_biases=self.biases,
            dtype=dtype,
            threads=threads.resolve(self.threads),
            adaptive=adaptive,
        )

    def _rmse(self, source: Source, form: Form, state: DescentState, held_out: Triples) -> float:
        """The error of predictions, clipped as they will be."""
        workers = threads.resolve(self.threads)
        user_rows, item_rows, values = held_out
        scores = score_pairs(state.users, user_rows, state.items, item_rows, form.offset, workers)
        errors = np.clip(form.ratings(scores), *source.figures.range).astype(np.float64) - values
        return float(np.sqrt(np.mean(errors**2)))

    def _usual_strengths(self, source: Source) -> Strengths:
        """What a search, or adaptive priors, start from; or the number given."""
        if not isinstance(self.regularisation, str):
            return self._overridden(Strengths.tied(float(self.regularisation)))
        figures = source.figures
        form = Form.of(self.form, figures.mean, figures.standard_deviation, figures.range)
        strength = DEFAULT_STRENGTH * (1.0 if WEIGHTINGS[self.weighting].per_rating else PLAIN)
        # Strengths of factors have the unit of a score, those of biases have none.
        return self._overridden(Strengths(strength * form.unit, strength * form.unit, strength, strength))

    def _all_given(self) -> bool:
        own = [self.user_regularisation, self.item_regularisation]
        if self.biases:
            own += [self.user_bias_regularisation, self.item_bias_regularisation]
        return None not in own

    def _overridden(self, strengths: Strengths) -> Strengths:
        """The separate strengths where they are given, these where not."""
        own = {
            "users": self.user_regularisation,
            "items": self.item_regularisation,
            "user_bias": self.user_bias_regularisation,
            "item_bias": self.item_bias_regularisation,
        }
        return replace(strengths, **{block: float(value) for block, value in own.items() if value is not None})

    def _posterior(
        self, source: Source, state: DescentState, ran: Run[DescentState], errors: DoubleArray
    ) -> FormPosterior:
        figures = source.figures
        form = Form.of(self.form, figures.mean, figures.standard_deviation, figures.range)
        return FormPosterior(
            mean=form.offset,
            users=state.users,
            items=state.items,
            penalty=Penalty(state.strengths, WEIGHTINGS[self.weighting]),
            losses=np.array([stats["loss"] for stats in ran.trace]),
            form=form,
            held_out_errors=errors,
        )

    def _say_if_diverged(self, ran: Run[DescentState]) -> None:
        if not ran.has_diverged:
            return
        kept = f"epoch {ran.best_epoch} was the best, and is kept"
        if ran.best_epoch == 0:
            kept = "no epoch was better than the start, which is kept: nothing was learned of the items"
        first = LEARNING_RATES[self.method] if self.learning_rate == "auto" else self.learning_rate
        warn(
            f"gradient descent diverged in epoch {len(ran.trace)}: the loss is {ran.trace[-1]['loss']:.4g}; {kept}. "
            f"Take a smaller learning_rate (now {first:g}), or schedule='bold-driver', which finds one",
            DivergenceWarning,
        )


def _times(strengths: Strengths, factor: float) -> Strengths:
    return Strengths(
        strengths.users * factor, strengths.items * factor, strengths.user_bias * factor, strengths.item_bias * factor
    )


def _matched(held_out: Ratings, observed: Ratings) -> Triples:
    """Ratings to be watched, by the rows of those that are learned from; -1 where these do not know an id."""
    some = triples_of(held_out)
    return Triples(
        observed.users.rows_of(held_out.users.ids)[some.user_rows],
        observed.items.rows_of(held_out.items.ids)[some.item_rows],
        some.values,
    )
