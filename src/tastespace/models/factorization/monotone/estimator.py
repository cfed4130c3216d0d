"""The recommender of ratings on curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids
from tastespace.inference.drivers import ascend, small_change
from tastespace.models.factorization.als import Factors
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior
from tastespace.models.factorization.empirical_bayes.settings import empirical_bayes_of
from tastespace.models.factorization.estimators import ALS
from tastespace.models.factorization.monotone.clusters import by_cluster
from tastespace.models.factorization.monotone.cross_fit import CrossFit, CurvedRatings, CurveState, Fold
from tastespace.models.factorization.monotone.curve_list import CurveList, curves_of_clusters, curves_of_users
from tastespace.models.factorization.monotone.curves import values_at
from tastespace.models.factorization.monotone.drawn import CurvePosterior, DrawnMonotonePosterior
from tastespace.models.factorization.monotone.posterior import CurveTable, MonotonePosterior, Way
from tastespace.models.factorization.monotone.rules import Straight
from tastespace.models.factorization.monotone.scale import Scale
from tastespace.models.factorization.monotone.search import CurveSearch, Found, is_better
from tastespace.models.factorization.point import PointPosterior
from tastespace.models.parameters import choice, number, whole_number
from tastespace.models.starting import Start
from tastespace.progress import Observer
from tastespace.randomness import derive

LEAST_RATINGS = 100  # fewer say nothing of curves


@dataclass(kw_only=True)
class MonotoneMF(ALS):
    """Matrix factorization that preserves order: ratings are fitted on rising curves that are learned, too.

    curve(rating) = mean + user bias + item bias + user . item, by least squares as `ALS`, whose parameters it has.
    `sharing` says whose they are: "one" for all, one "per-user", or one for each of some "clusters" of users who rate
    alike (Somani and Gupta 2017). Users with few ratings are pulled to the shared curve as by `pull` ratings of each
    level. "auto" (the default) leaves ratings as they are, or takes one curve or clusters, whichever predicts ratings
    best that were held out. `n_clusters` is a number or "auto", chosen in the same way.

    Curves are the best for predictions of ratings that the factors have not seen: `folds` fits, each without its share
    of the ratings. With `folds=1` they follow the predictions of the very ratings that are fitted, as was proposed
    first; that overfits. Each curve keeps the mean and variance of the ratings that it serves.

    Predictions are ratings: scores through the inverse of the curve. Within a user they have the order of the scores.
    With fewer than 100 ratings curves stay straight.

    With `regularisation="empirical-bayes"` the curves are found with the regularisation "auto"; then the strengths are
    learned, and factors drawn, from the ratings on their curves, as `ALS` does. Scores are means over these draws. The
    curves are taken as certain, so that predictions are points.
    """

    sharing: Literal["auto", "one", "per-user", "clusters"] = "auto"
    n_clusters: int | Literal["auto"] = "auto"
    pull: float = 20.0
    folds: int = 5

    posterior_class = CurvePosterior  # type: ignore[assignment]

    def check(self) -> None:
        super().check()
        choice("sharing", self.sharing, ["auto", "one", "per-user", "clusters"])
        if self.n_clusters != "auto":
            whole_number("n_clusters", self.n_clusters, least=1)
        number("pull", self.pull, least=0)
        whole_number("folds", self.folds, least=1)

    def infer(  # type: ignore[override]  # what ALS concludes is a part of what this does
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> MonotonePosterior:
        return self._sized(observed, rng, observer)._curved(None, observed, rng, observer)

    def infer_from(  # type: ignore[override]
        self, start: Start, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None
    ) -> MonotonePosterior:
        return self._sized(observed, rng, observer, start)._curved(start, observed, rng, observer)

    def _curved(self, given: Start | None, observed: Ratings, rng: Generator, observer: Observer) -> MonotonePosterior:
        """With empirical Bayes the curves are those of the point estimate; draws of what is on them predict."""
        settings = empirical_bayes_of(self.regularisation)
        if settings is None:
            return self._on_curves(self._inferred(given, observed, rng, observer), observed, rng, observer)
        point = replace(self, regularisation="auto")._curved(given, observed, rng, observer)
        table = point.table
        values = values_at(table.curves[table.of_user], observed.user_rows, table.scale.places(observed.values)).astype(
            np.float32
        )
        on_curves = replace(observed, values=values)
        # Not from the point: it is held down more than draws are, and chains take long to come away from it.
        drawn = self._learner(settings, self._known_factors()).infer(on_curves, rng, observer, None, given)
        return DrawnMonotonePosterior(point.plain, table, drawn)

    @property
    def _factors(self) -> PointPosterior | EmpiricalPosterior:
        posterior = self.posterior_
        assert isinstance(posterior, MonotonePosterior)
        return posterior.drawn if isinstance(posterior, DrawnMonotonePosterior) else posterior.plain

    def curves(self, user_ids: Ids | None = None, *, history: Any = None) -> CurveList:
        """How ratings are understood: the curve of each cluster of users, or of each of these users.

        `history` is as in `recommend`. Where every user has a curve of his own, these are shown in four groups.
        """
        self.require_fitted()
        table = self._table
        if user_ids is None and history is None:
            return curves_of_clusters(table, derive(self.seed_, "curves"))
        request = self._request(user_ids, history, "curves")
        belief, rows = request.belief, request.positions
        seen = request.asked.seen
        counts = table.scale.counts(seen.rows(), table.scale.places(seen.values), len(seen))
        return curves_of_users(table, belief.curves[rows], request.users, counts[rows])

    @property
    def _table(self) -> CurveTable:
        assert isinstance(self.posterior_, MonotonePosterior)
        return self.posterior_.table

    def _on_curves(
        self, plain: PointPosterior, observed: Ratings, rng: Generator, observer: Observer
    ) -> MonotonePosterior:
        """From the factors of the ratings as they are to those of ratings on their curves."""
        scale = Scale.of(observed.values)
        places = scale.places(observed.values)
        counts = scale.counts(observed.user_rows, places, observed.n_users)
        state = CurveState(
            scale.levels[None], np.zeros(observed.n_users, np.int32), (Factors(plain.users, plain.items),)
        )
        way: Way = "one"
        if len(scale) > 1 and len(observed) >= LEAST_RATINGS:
            cross_fit = self._cross_fit(plain, observed, scale, counts, rng)
            found = self._found(cross_fit, state, rng, observer)
            way, state = found.way, replace(found.state, factors=state.factors)
        table = CurveTable(
            way=way,
            scale=scale,
            curves=state.curves,
            counts=by_cluster(counts, state.of_user, len(state.curves)),
            of_user=state.of_user,
            pull=float(self.pull),
            folds=self.folds,
        )
        curved = CurvedRatings.of(observed, self._bind(observed, plain.penalty), scale, plain.mean)
        return self._concluded(plain, curved, table, counts, observed, rng, observer)

    def _concluded(
        self,
        plain: PointPosterior,
        curved: CurvedRatings,
        table: CurveTable,
        counts: Any,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
    ) -> MonotonePosterior:
        """All ratings fitted on their curves; then users, and whose curve is which, as a fold-in has them."""
        if table.is_straight:
            return MonotonePosterior(plain, table)
        factors, trace = ascend(
            curved.on(table.curves, table.of_user),
            Factors(plain.users, plain.items),
            rng,
            steps=len(plain.losses) if self.early_stopping else self.sweeps,
            stop=small_change("loss", self.tolerance),
            phase="sweep on the curves",
            observer=observer,
        )
        losses = np.array([stats["loss"] for stats in trace])
        plain = replace(plain, users=factors.users, items=factors.items, losses=losses)
        posterior = MonotonePosterior(plain, table)
        if table.way == "one":
            return posterior
        belief = posterior.fold_in(observed.by_user, threads.resolve(self.threads))
        if table.way == "per-user":
            table = replace(table, curves=np.vstack([table.curves[:1], belief.curves]))
        else:
            of_user = belief.table_rows
            table = replace(table, of_user=of_user, counts=by_cluster(counts, of_user, len(table.curves)))
        return MonotonePosterior(replace(plain, users=belief.points), table)

    def _found(self, cross_fit: CrossFit, fitted: CurveState, rng: Generator, observer: Observer) -> Found:
        """The curves that were asked for, or those that are best."""
        search = CurveSearch(cross_fit, float(self.pull), self.sweeps, self.tolerance, rng, observer)
        straight = search.straight(fitted if self.folds == 1 else None)
        one = search.one(straight)
        if self.sharing == "one" or (self.sharing == "clusters" and self.n_clusters == 1):
            return one
        if self.sharing == "per-user":
            return search.per_user(one)
        if self.n_clusters == "auto":
            found = search.best_clusters(one)
        else:
            found = search.clusters(search.per_user(one), self.n_clusters)
        if self.sharing == "clusters":
            return found
        best = min(one, found, key=lambda candidate: candidate.rmse)
        return best if is_better(best, straight) else straight

    def _cross_fit(
        self, plain: PointPosterior, observed: Ratings, scale: Scale, counts: Any, rng: Generator
    ) -> CrossFit:
        """The ratings dealt to folds at random; with one fold they are fitted and predicted all."""
        dealt = rng.permutation(np.arange(len(observed)) % self.folds)
        folds = []
        for fold in range(self.folds):
            part = observed if self.folds == 1 else observed.masked(dealt != fold)
            own = observed if self.folds == 1 else observed.masked(dealt == fold)
            curved = CurvedRatings.of(part, self._bind(part, plain.penalty), scale, plain.mean)
            folds.append(Fold(curved, own.user_rows, own.item_rows, scale.places(own.values), own.values))
        return CrossFit(
            folds=tuple(folds),
            scale=scale,
            counts=counts,
            mean=plain.mean,
            rating_range=observed.range,
            rule=Straight(scale.levels),
            threads=threads.resolve(self.threads),
        )
