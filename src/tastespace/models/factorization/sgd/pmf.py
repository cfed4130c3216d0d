"""Probabilistic matrix factorization by gradient descent: the recommender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.random import Generator

from tastespace import randomness, threads
from tastespace.arrays import DoubleArray
from tastespace.data.formats.streaming import ROWS_AT_ONCE, RatingStream, Triples
from tastespace.data.ratings import Ratings
from tastespace.errors import ConvergenceWarning, DivergenceWarning, InvalidParameterError, warn
from tastespace.inference.drivers import never, no_improvement
from tastespace.inference.transition import HELD_OUT
from tastespace.models.base.resuming import Start
from tastespace.models.base.update import TrainingSummary
from tastespace.models.factorization.als.als import FindsStrengths
from tastespace.models.factorization.als.sweep import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes, empirical_bayes_of
from tastespace.models.factorization.held_out_search import MEANINGFUL, PLAIN, HeldOutSearch, Trial, repeated, scaled
from tastespace.models.factorization.rows import score_pairs
from tastespace.models.factorization.sgd import descent as sgd
from tastespace.models.factorization.sgd.best_epoch import KeepingBest, Run, run
from tastespace.models.factorization.sgd.blocks import Source, triples_of
from tastespace.models.factorization.sgd.forms import EitherFormPosterior, Form, FormName, FormPosterior
from tastespace.parameters import FACTORS, Range, check_int, check_number, check_option, is_word, spread
from tastespace.progress import Observer, Progress, silent
from tastespace.settings import takes_old_parameters

LOSS = "loss of the epoch's end"
DEFAULT_STRENGTH = 0.036  # for ratings of standard deviation 1
COARSE, FINE, MAX_TRIALS = 2.0, 1.4, 12  # steps of the search
# Twice as weak may be no better while four times is, if the penalty is too strong for any factors.
WORSE_IN_A_ROW = 2
STUCK = 1e-4  # a loss that falls by a smaller share of itself in a whole run means that steps are far too short


@takes_old_parameters
@dataclass(kw_only=True)
class PMF(FindsStrengths):
    """Probabilistic matrix factorization by gradient descent, with biases.

    rating = mean + user bias + item bias + user . item, minimising the squared error plus a penalty on each block, as
    `ALS` does, step by step against the gradient. `form` is the model of ratings: "centred" as above, "raw" without the
    mean, or "sigmoid", where scores are mapped to the ratings' range by 1 / (1 + exp(-score)).

    `method` is the number of ratings per step: "stochastic" (one), "mini-batch" (about `batch_size`) or
    "full-batch" (all); the last two have `momentum`. `learning_rate` is the length of the first steps, for ratings of
    any scale; "auto" is 0.02 to 0.06, 0.02 to 0.2 and 0.2, more if an epoch has fewer steps. `schedule` is how it
    changes: "inverse" divides it by 1 + `decay` t after t hundred visits of an average row, "constant" leaves it,
    "bold-driver" increases it by 5 % after an epoch that lowered the loss, and undoes an epoch that did not and halves
    it. "auto" is "constant" for "full-batch", else "inverse".

    `regularization` is the strength of all penalties: a number, "auto" (the default), which finds it on held-out
    ratings, or "adaptive", which learns it along with everything else (see
    `tastespace.models.factorization.sgd.descent`). "empirical-bayes", or an `EmpiricalBayes`, is that of `ALS`: in the
    centred form both have the same posterior, whose mean predicts. It is sampled, so that the parameters of steps and
    epochs do not matter. The separate strengths override it block by block; `weighting` is that of `ALS`.

    With `early_stopping` (the default) `validation_share` of the ratings is held out first, and the epoch that predicts
    them best is kept: descent ends after `patience` epochs without a better one, or after `epochs`. "auto" is 10 and
    200 for large data, and more if an epoch has few steps (see `tastespace.models.factorization.sgd.descent`). Then the
    model is fitted to all ratings for the best number of epochs (`refit`); without that, the items of the best epoch
    itself are kept. Either way users are finally set to the fold-in of their ratings.

    A learning rate that is too large makes the loss grow without bound. Then descent stops with a `DivergenceWarning`,
    and the best epoch is kept: the start, if none was better.
    """

    n_factors: int = 32
    form: FormName = "centred"
    method: sgd.Method = "stochastic"
    regularization: float | str | EmpiricalBayes = "auto"
    user_regularization: float | None = None
    item_regularization: float | None = None
    user_bias_regularization: float | None = None
    item_bias_regularization: float | None = None
    weighting: Literal["blended", "weighted", "plain"] = "blended"
    biases: bool = True
    learning_rate: float | Literal["auto"] = "auto"
    schedule: sgd.ScheduleName | Literal["auto"] = "auto"
    decay: float = 0.05
    momentum: float = 0.9
    batch_size: int = 10_000
    epochs: int | Literal["auto"] = "auto"
    early_stopping: bool = True
    patience: int | Literal["auto"] = "auto"
    refit: bool = True
    validation_share: float = 0.1
    precision: Literal["float32", "float64"] = "float32"

    search_space = {
        "n_factors": FACTORS,
        "regularization": Range(0.005, 0.5, unit=spread),
        "learning_rate": Range(0.002, 0.1),
        "decay": Range(0.005, 0.5),
    }
    posterior_class = EitherFormPosterior
    begins_from_others = True

    def check(self) -> None:
        super().check()
        for name in ("n_factors", "batch_size"):
            check_int(name, getattr(self, name), least=1)
        for name in ("epochs", "patience"):
            if not is_word(getattr(self, name), "auto"):
                check_int(name, getattr(self, name), least=1)
        check_option("schedule", self.schedule, ["auto", *sgd.SCHEDULES])
        check_number("decay", self.decay, least=0)
        check_number("momentum", self.momentum, least=0, below=1)
        if not is_word(self.learning_rate, "auto"):
            check_number("learning_rate", self.learning_rate, above=0)
        self._check_strengths(["auto", "adaptive", "empirical-bayes"])

    def _check_empirical(self) -> None:
        super()._check_empirical()
        if self.form != "centred":
            raise InvalidParameterError(
                f"the form is {self.form}, and regularization is 'empirical-bayes', which expects ratings to be normal "
                "around their mean; expected the form centred, or a regularization that is a number or 'auto'"
            )

    def infer(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
    ) -> FormPosterior | EmpiricalPosterior:
        if given is not None and self.form == "sigmoid":
            raise InvalidParameterError(
                "the form is sigmoid, whose factors are not in units of ratings, as those of start are; expected the "
                "form centred or raw, or start=None"
            )
        settings = empirical_bayes_of(self.regularization)
        if settings is not None:
            return self._learner(settings, self.n_factors).infer(observed, rng, observer, held_out, given)
        watched = None if held_out is None else _matched(held_out, observed)
        posterior = self._learned(Source.of(observed), rng, observer, watched, given)
        # Then a training user equals a new user with the same ratings.
        return replace(posterior, users=posterior.fold_in(observed.by_user, threads.resolve(self.threads)))

    def fit_parquet(self, path: str | Path, *, rows_at_once: int = ROWS_AT_ONCE, observer: Observer = silent) -> Self:
        """Learn from a Parquet file of ratings that need not fit into memory.

        It is read twice, for ids, counts and mean, and then once per epoch (and before the first and after
        the last), `rows_at_once` rows at a time, in a different order every time. Factors, ids and one piece are in
        memory, the ratings are not. So the fitted recommender is like one saved without its ratings: it does not know
        what users have seen, unless a `history` is given. Users stay as descent has left them.
        """
        self.check()
        if empirical_bayes_of(self.regularization) is not None:
            raise InvalidParameterError(
                "regularization is 'empirical-bayes', which needs all ratings in memory, and fit_parquet reads them in "
                "pieces; expected a number, 'auto' or 'adaptive', or read the file and call fit"
            )
        stream = RatingStream.scan(path, rows_at_once=rows_at_once)
        seed = randomness.resolve(self.seed)
        posterior = self._learned(Source.of_stream(stream), randomness.generator(seed), observer, None)
        nothing = np.zeros(0, np.int32)
        ids_only = Ratings(stream.users, stream.items, nothing, nothing.copy(), np.zeros(0, np.float32))
        seen = TrainingSummary(stream.n_ratings, len(stream.users), len(stream.items))
        return self.restore(ids_only, posterior, seed, stream.range, seen)

    def _learned(
        self, source: Source, rng: Generator, observer: Observer, watched: Triples | None, given: Start | None = None
    ) -> FormPosterior:
        """The result of descent, with users as it left them."""
        needs_validation = self.early_stopping or self.regularization == "auto"
        split = source.split(self.validation_share, rng) if needs_validation else None
        strengths, errors = self._usual_strengths(source), np.zeros(0)
        epochs: int | None = None
        if split is not None:
            trial, strengths = self._found(*split, strengths, rng, observer, given)
            errors = np.array([stats[HELD_OUT] for stats in trial.trace])
            epochs = trial.last.best_epoch if self.early_stopping else None
            if given is None:  # Another model's items may already be the solution.
                self._say_if_stuck(trial, source)
            if not self.refit:
                self._say_if_diverged(trial)
                return self._posterior(split[0], trial, errors)
        start, descend = randomness.state_of(rng), partial(self._run, source, strengths, given=given, phase="epoch")
        # The last run may monitor ratings, but does not learn from them.
        final = descend(watched, rng, epochs=epochs, observer=observer)
        if final.has_diverged:
            # The same run again, measuring every epoch: this cost is only paid if something went wrong.
            final = descend(None, randomness.restored(rng, start), epochs=len(final.trace), keeps=LOSS)
        # Held-out ratings have shown it already, unless this is the first run, or the one that diverged.
        self._say_if_diverged(final if split is None or final.has_diverged else trial)
        if split is None and given is None:
            self._say_if_stuck(final, source)
        return self._posterior(source, final, errors)

    def _found(
        self,
        source: Source,
        held_out: Triples,
        start: Strengths,
        rng: Generator,
        observer: Observer,
        given: Start | None,
    ) -> tuple[Run, Strengths]:
        """The best run on the rest of the ratings and, with "auto", its strengths.

        Strengths are halved, or else doubled, as long as that is better; then one smaller step to either side.
        """
        is_searched = self.regularization == "auto" and not self._all_given()

        descend = partial(self._run, source, given=given, keeps=HELD_OUT, phase="finding when to stop")

        def fit(strengths: Strengths, _: object) -> Trial[Strengths, Run]:
            found = descend(strengths, held_out, rng, observer=silent if is_searched else observer)
            return Trial(strengths, found.last.best_figure, found)

        def report(trial: Trial[Strengths, Run], n: int) -> None:
            if is_searched:
                figures = {"strength": trial.setting.users, HELD_OUT: trial.error}
                observer(Progress("searching regularization", n, None, figures))

        def scaled_by(factor: float) -> Callable[[Strengths], Strengths]:
            return lambda strengths: self._overridden(scaled(strengths, factor))

        search = HeldOutSearch(fit, report, MAX_TRIALS)
        search.try_all([start])
        if is_searched:
            for factor in (1 / COARSE, COARSE):
                steps = repeated(search.best.setting, scaled_by(factor))
                if search.try_all(steps, patience=WORSE_IN_A_ROW, gain=MEANINGFUL):
                    break  # Weaker helped, so stronger cannot.
            for factor in (1 / FINE, FINE):
                if search.try_all([scaled_by(factor)(search.best.setting)], gain=MEANINGFUL):
                    break
        return search.best.fit, search.best.setting

    def _run(
        self,
        source: Source,
        strengths: Strengths,
        held_out: Triples | None,
        rng: Generator,
        *,
        epochs: int | None = None,
        keeps: str | None = None,
        phase: str,
        observer: Observer = silent,
        given: Start | None,
    ) -> Run:
        """Run descent on the ratings, and keep the epoch with the smallest figure; or, without one, the last."""
        descent = self._bind(source, strengths, rng, given)
        loss = partial(descent.loss, rng=rng.spawn(1)[0])
        measures: dict[str, Callable[[sgd.DescentState], float]] = {}
        if held_out is not None:
            measures[HELD_OUT] = lambda state: self._rmse(source, descent.form, state, held_out)
        if keeps == LOSS:
            measures[LOSS] = loss
        keeping = KeepingBest(descent, keeps, measures, descent.is_sound)
        patience = descent.usual_patience if isinstance(self.patience, str) else int(self.patience)
        if epochs is None:
            epochs = descent.usual_epochs if isinstance(self.epochs, str) else int(self.epochs)
        stop = no_improvement(HELD_OUT, patience) if keeps == HELD_OUT and self.early_stopping else never
        return run(keeping, rng, loss=loss, epochs=epochs, stop=stop, phase=phase, observer=observer)

    def _bind(self, source: Source, strengths: Strengths, rng: Generator, given: Start | None) -> sgd.Descent:
        form, is_adaptive = source.form(self.form), self.regularization == "adaptive"
        usual: sgd.ScheduleName = "constant" if self.method == "full-batch" else "inverse"
        schedule = usual if self.schedule == "auto" else self.schedule
        steps = sgd.Steps(self.method, 1.0, schedule, self.decay, self.momentum, self.batch_size)
        first = steps.usual_rate(source) if isinstance(self.learning_rate, str) else float(self.learning_rate)
        return sgd.Descent(
            source=source,
            epochs=source.epochs(form, self._dtype, rng),
            n_factors=self.n_factors,
            penalty=Penalty(strengths, WEIGHTINGS[self.weighting]),
            form=form,
            steps=replace(steps, first_rate=first),
            has_biases=self.biases,
            dtype=self._dtype,
            threads=threads.resolve(self.threads),
            adaptive=sgd.AdaptivePrior.of(strengths, source, self.n_factors, self.biases) if is_adaptive else None,
            given=given,
        )

    def _rmse(self, source: Source, form: Form, state: sgd.DescentState, held_out: Triples) -> float:
        """The error of predictions, clipped to the range."""
        user_rows, item_rows, values = held_out
        n_threads = threads.resolve(self.threads)
        scores = score_pairs(state.users, user_rows, state.items, item_rows, form.offset, n_threads)
        errors = np.clip(form.ratings(scores), *source.range).astype(np.float64) - values
        return float(np.sqrt(np.mean(errors**2)))

    def _usual_strengths(self, source: Source) -> Strengths:
        """The start of a search or of adaptive priors; or the number given."""
        if not isinstance(self.regularization, str | EmpiricalBayes):
            return self._overridden(Strengths.tied(float(self.regularization)))
        form = source.form(self.form)
        strength = DEFAULT_STRENGTH * (1.0 if WEIGHTINGS[self.weighting].per_rating else PLAIN)
        # Strengths of factors have the unit of a score, those of biases have none.
        return self._overridden(Strengths(strength * form.unit, strength * form.unit, strength, strength))

    def _posterior(self, source: Source, ran: Run, errors: DoubleArray) -> FormPosterior:
        form, best = source.form(self.form), ran.last.best
        users, items = best.users, best.items
        if form.has_no_mean:  # Rows that were never visited are still at their start, which would predict almost zero.
            users, items = (
                side.averaged(counts == 0, side.masked(counts > 0))
                for side, counts in zip((users, items), (source.user_counts, source.item_counts), strict=True)
            )
        return FormPosterior(
            mean=form.offset,
            users=users,
            items=items,
            penalty=Penalty(best.strengths, WEIGHTINGS[self.weighting]),
            losses=np.array([stats["loss"] for stats in ran.trace]),
            form=form,
            held_out_errors=errors,
        )

    def _say_if_diverged(self, ran: Run) -> None:
        if not ran.has_diverged:
            return
        what = f"diverged in epoch {len(ran.trace)}: the loss is {ran.losses[-1]:.4g}"
        if ran.never_left:
            what = f"never lowered the loss: each of {len(ran.trace)} epochs was undone"
        kept = f"epoch {ran.last.best_epoch} was the best, and is kept"
        if ran.last.best_epoch == 0:
            kept = "no epoch was better than the start, which is kept: nothing was learned about the items"
        first = ran.trace[0]["rate"]
        other = "" if self.schedule == "bold-driver" else ", or schedule='bold-driver', which finds one"
        warn(f"gradient descent {what}; {kept}. Take a smaller learning_rate (now {first:g}){other}", DivergenceWarning)

    def _say_if_stuck(self, ran: Run, source: Source) -> None:
        """Warn about a given rate that is too small, unless the ratings have no spread."""
        if isinstance(self.learning_rate, str) or ran.has_diverged or not ran.trace:
            return
        first, last, n = ran.last.first_loss, ran.end_loss, len(ran.trace)
        if source.standard_deviation > 0 and last > (1 - STUCK) * first:
            warn(
                f"gradient descent has hardly moved: the loss was {first:.6g} at the start and is {last:.6g} after "
                f"{n} epoch{'s' if n > 1 else ''}. Take a larger learning_rate (now {self.learning_rate:g}), or 'auto'",
                ConvergenceWarning,
            )


def _matched(held_out: Ratings, observed: Ratings) -> Triples:
    """Ratings to be monitored, by rows of the training ratings; -1 for unknown ids."""
    some = triples_of(held_out)
    return Triples(
        observed.users.rows_of(held_out.users.ids)[some.user_rows],
        observed.items.rows_of(held_out.items.ids)[some.item_rows],
        some.values,
    )
