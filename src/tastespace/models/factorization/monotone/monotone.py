"""The recommender with monotone curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import DoubleArray, IntArray, OffsetArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids
from tastespace.inference.drivers import Stop, ascend, small_change
from tastespace.inference.transition import HELD_OUT, Stats
from tastespace.models.base.resuming import Start
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.als.sweep import ALSState
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior
from tastespace.models.factorization.empirical_bayes.settings import empirical_bayes_of
from tastespace.models.factorization.held_out_search import MEANINGFUL, HeldOutSearch, Trial
from tastespace.models.factorization.monotone import curves as curve_fits
from tastespace.models.factorization.monotone import posterior as posteriors
from tastespace.models.factorization.monotone.cross_fit import CrossFit, CurvedRatings, CurveState, Fold
from tastespace.models.factorization.monotone.posterior import CurveTable, MonotonePosterior, Way
from tastespace.parameters import FACTORS, Range, check_int, check_number, spread
from tastespace.progress import Observer, Progress
from tastespace.randomness import derive
from tastespace.settings import takes_old_parameters
from tastespace.tables import Tabular

TYPICAL = 4  # groups in which curves of single users are shown


@dataclass(frozen=True, eq=False, repr=False)
class CurveList(Tabular):
    """Curves with the levels at which they have values, the most used curve first.

    `values` are in units of ratings: a curve has the mean and variance of its ratings under the shared curve, so that a
    straight line is the levels themselves. `ratings` are the numbers of ratings on the curve at each level.
    """

    side: Literal["cluster", "user"]
    ids: pl.Series  # of the clusters, from 1, or of the users
    n_users: OffsetArray
    levels: DoubleArray
    values: DoubleArray  # curves x levels
    ratings: DoubleArray  # curves x levels

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def extremes(self) -> DoubleArray:
        """The share of the ratings of each curve that are the lowest or the highest, as a sign of extreme raters."""
        total = np.maximum(self.ratings.sum(axis=1), 1)
        return np.asarray((self.ratings[:, 0] + self.ratings[:, -1] * (len(self.levels) > 1)) / total)

    def to_polars(self) -> pl.DataFrame:
        """One row per curve and level."""
        n_levels = len(self.levels)
        return pl.DataFrame(
            {
                self.side: self.ids.gather(np.repeat(np.arange(len(self)), n_levels)),
                "users": np.repeat(self.n_users, n_levels),
                "level": np.tile(self.levels, len(self)),
                "value": self.values.reshape(-1),
                "ratings": self.ratings.reshape(-1).astype(np.int64),
            }
        )

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=20, tbl_hide_dataframe_shape=True):
            noun = f"curve{'s' if len(self) != 1 else ''}"
            return f"{len(self)} {noun} of {len(self.levels)} levels\n{self.to_polars()}"


def curves_of_clusters(table: CurveTable, rng: Generator) -> CurveList:
    """One curve per cluster of training users. Curves of single users are averaged in a few groups."""
    if table.way == "per-user":
        own, counts = table.curves[table.of_user], table.counts[table.of_user]
        cells = curve_fits.grouped(own, counts, TYPICAL, rng)
        n_users = np.bincount(cells)
        values = curve_fits.by_cluster(own * counts.sum(axis=1)[:, None], cells, len(n_users))
        ratings = curve_fits.by_cluster(counts, cells, len(n_users))
        values /= ratings.sum(axis=1)[:, None]
    else:
        n_users = np.bincount(table.of_user, minlength=len(table.curves))
        values, ratings = table.curves, table.counts
    order = np.argsort(-n_users, kind="stable")
    order = order[n_users[order] > 0]
    ids = pl.Series("cluster", range(1, len(order) + 1))
    return CurveList("cluster", ids, n_users[order], table.scale.levels, values[order], ratings[order])


N_CLUSTERS = (2, 3, 4, 6)  # the numbers of clusters tried
STEADY, FEW = 1e-3, 0.005  # movement of ratings as a share of the scale, and share of users who change clusters


@dataclass(frozen=True, eq=False)
class Found:
    """Curves, and the error of predictions with them."""

    way: Way
    state: CurveState
    rmse: float


@dataclass(frozen=True, eq=False)
class CurveSearch:
    """Fits growing numbers of curves, each from the last."""

    cross_fit: CrossFit
    pull: float
    sweeps: int
    tolerance: float
    rng: Generator
    observer: Observer

    def straight(self, start: CurveState | None = None) -> Found:
        """Unchanged ratings: random factors, unless there is a start."""
        if start is None:
            stop = small_change("loss", self.tolerance)
            start = self._ascended(self.cross_fit.init(self.rng), self.cross_fit.rule, stop, "fold")
        return self._found("one", start)

    def one(self, straight: Found) -> Found:
        """One curve for all."""
        rule = curve_fits.OneCurve(self.cross_fit.scale.levels)
        return self._found("one", self._ascended(straight.state, rule, is_steady, "one curve"))

    def per_user(self, one: Found) -> Found:
        """One each."""
        own = np.arange(1, len(one.state.of_user) + 1, dtype=np.int32)
        rule = curve_fits.CurvePerUser(one.state.curves[0], self.pull)
        return self._found("per-user", self._ascended(_dealt(one.state, own), rule, is_steady, "a curve per user"))

    def clusters(self, per_user: Found, n_clusters: int) -> Found:
        """One curve per cluster; clusters without users are dropped."""
        curves = per_user.state.curves
        cells = curve_fits.grouped(curves[per_user.state.of_user], self.cross_fit.counts, n_clusters, self.rng)
        n_clusters = int(cells.max()) + 1
        rule = curve_fits.CurvePerCluster(curves[0], self.pull, n_clusters)
        start = _dealt(per_user.state, (cells + 1).astype(np.int32))
        state = self._ascended(start, rule, is_steady, f"{n_clusters} clusters")
        return self._found("clusters", _without_empty(state))

    def best_clusters(self, one: Found) -> Found:
        """The clusters that predict best: one, or more as long as more are better."""
        per_user = self.per_user(one)

        def fit(n_clusters: int, start: object) -> Trial[int, Found]:
            found = one if n_clusters == 1 else self.clusters(per_user, n_clusters)
            return Trial(n_clusters, found.rmse, found)

        search = HeldOutSearch(fit)
        search.try_all([1, *N_CLUSTERS], patience=1, gain=MEANINGFUL)
        return search.best.fit

    def _ascended(self, state: CurveState, rule: curve_fits.CurveRule, stop: Stop, phase: str) -> CurveState:
        transition = replace(self.cross_fit, rule=rule)
        return ascend(transition, state, self.rng, steps=self.sweeps, stop=stop, phase=phase, observer=self.observer)[0]

    def _found(self, way: Way, state: CurveState) -> Found:
        rmse, name = self.cross_fit.rmse(state), f"{len(state.curves) - 1} clusters" if way == "clusters" else way
        self.observer(Progress(f"searching curves: {name}", 1, 1, {HELD_OUT: rmse}))
        return Found(way, state, rmse)


def is_steady(trace: list[Stats]) -> bool:
    """Whether ratings hardly move on their curves any more, and hardly any user changes cluster."""
    return trace[-1]["change"] < STEADY and trace[-1].get("moved", 0.0) < FEW


def _dealt(state: CurveState, of_user: IntArray) -> CurveState:
    """The shared curve, repeated for each different curve of users."""
    return replace(state, curves=np.repeat(state.curves[:1], int(of_user.max()) + 1, axis=0), of_user=of_user)


def _without_empty(state: CurveState) -> CurveState:
    kept = np.unique(np.concatenate([[0], state.of_user]))
    return replace(state, curves=state.curves[kept], of_user=np.searchsorted(kept, state.of_user).astype(np.int32))


MIN_RATINGS = 100  # fewer cannot determine curves


@takes_old_parameters
@dataclass(kw_only=True)
class MonotoneMF(ALS):
    """Matrix factorization that preserves order: ratings are fitted on increasing curves, which are learned, too.

    curve(rating) = mean + user bias + item bias + user . item, by least squares as `ALS`, whose parameters it has.
    `sharing` is how curves are shared: "one" for all, one "per-user", or one for each of some "clusters" of users who
    rate in a similar way (Somani and Gupta 2017). Curves of users with few ratings are shrunk to the shared curve as by
    `pull` ratings of each level. "auto" (the default) leaves ratings unchanged, or uses one curve or clusters,
    whichever predicts held-out ratings best. `n_clusters` is a number or "auto", chosen in the same way.

    Curves are the best for predictions of ratings that the factors have not seen: `folds` fits, each without its share
    of the ratings. With `folds=1` they follow predictions of the fitted ratings themselves, as originally proposed;
    that overfits. Each curve keeps the mean and variance of its ratings.

    Predictions are ratings: scores through the inverse of the curve. Within a user they have the order of the scores.
    With fewer than 100 ratings curves stay straight.

    With `regularization="empirical-bayes"` the curves are found with the regularization "auto"; then the strengths are
    learned, and factors drawn, from the ratings on their curves, as `ALS` does. Scores are means over these draws. The
    curves are treated as certain, so that predictions are point estimates.
    """

    sharing: Literal["auto", "one", "per-user", "clusters"] = "auto"
    n_clusters: int | Literal["auto"] = "auto"
    pull: float = 20.0
    folds: int = 5

    search_space = {
        "n_factors": FACTORS,
        "regularization": Range(0.005, 0.5, unit=spread),
        "pull": Range(1, 200),
    }
    posterior_class = MonotonePosterior  # type: ignore[assignment]

    def check(self) -> None:
        super().check()
        if self.n_clusters != "auto":
            check_int("n_clusters", self.n_clusters, least=1)
        check_number("pull", self.pull, least=0)
        check_int("folds", self.folds, least=1)

    def infer(  # type: ignore[override]  # what ALS concludes is a part of what this does
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
    ) -> MonotonePosterior:
        return self._sized(observed, rng, observer, given)._curved(given, observed, rng, observer)

    def _curved(self, given: Start | None, observed: Ratings, rng: Generator, observer: Observer) -> MonotonePosterior:
        """The posterior on curves; with empirical Bayes these are of the point estimate, and draws on them predict."""
        settings = empirical_bayes_of(self.regularization)
        if settings is None:
            return self._on_curves(self._inferred(given, observed, rng, observer), observed, rng, observer)
        point = replace(self, regularization="auto")._curved(given, observed, rng, observer)
        table = point.table
        values = curve_fits.values_at(
            table.curves[table.of_user], observed.user_rows, table.scale.places(observed.values)
        ).astype(np.float32)
        on_curves = replace(observed, values=values)
        # Not from the point estimate: it is shrunk more than draws are, and chains take long to leave it.
        drawn = self._learner(settings, self._known_factors()).infer(on_curves, rng, observer, None, given)
        return posteriors.DrawnMonotonePosterior(point.plain, table, drawn)

    @property
    def _factors(self) -> PointPosterior | EmpiricalPosterior:
        assert isinstance(self.posterior_, MonotonePosterior)
        return self.posterior_.scored

    def curves(self, user_ids: Ids | None = None, *, history: Any = None) -> CurveList:
        """The learned curves: of each cluster of users, or of each of these users.

        `history` is as in `recommend`. If every user has their own curve, these are shown in four groups.
        """
        self.require_fitted()
        table = self._table
        if user_ids is None and history is None:
            return curves_of_clusters(table, derive(self.seed_, "curves"))
        query = self._query(user_ids, history, "curves")
        self._tell(query.remarks)
        belief, rows, seen = query.belief, query.positions, query.people.history
        assert isinstance(belief, posteriors.CurveBelief)
        counts = table.scale.counts(seen.rows(), table.scale.places(seen.values), len(seen))
        n_users = np.ones(len(query.users), np.int64)
        return CurveList("user", query.users, n_users, table.scale.levels, belief.curves[rows], counts[rows])

    @property
    def _table(self) -> CurveTable:
        assert isinstance(self.posterior_, MonotonePosterior)
        return self.posterior_.table

    def _on_curves(
        self, plain: PointPosterior, observed: Ratings, rng: Generator, observer: Observer
    ) -> MonotonePosterior:
        """The factors of ratings on their curves, starting from those of the unchanged ratings."""
        scale = curve_fits.Scale.of(observed.values)
        places = scale.places(observed.values)
        counts = scale.counts(observed.user_rows, places, observed.n_users)
        state = CurveState(
            scale.levels[None], np.zeros(observed.n_users, np.int32), (ALSState(plain.users, plain.items),)
        )
        way: Way = "one"
        if len(scale) > 1 and len(observed) >= MIN_RATINGS:
            cross_fit = self._cross_fit(plain, observed, scale, counts, rng)
            found = self._found(cross_fit, state, rng, observer)
            way, state = found.way, replace(found.state, factors=state.factors)
        table = CurveTable(
            way=way,
            scale=scale,
            curves=state.curves,
            counts=curve_fits.by_cluster(counts, state.of_user, len(state.curves)),
            of_user=state.of_user,
            pull=float(self.pull),
            folds=self.folds,
        )
        if table.is_straight:
            return MonotonePosterior(plain, table)
        # All ratings fitted on their curves; then users and their curves as in a fold-in.
        curved = CurvedRatings.of(observed, self._bind(observed, plain.penalty), scale, plain.mean)
        transition, start = curved.on(table.curves, table.of_user), ALSState(plain.users, plain.items)
        sweeps = len(plain.losses) if self.early_stopping else self.sweeps
        factors, losses = self._swept(transition, start, sweeps, "sweep on the curves", rng, observer)
        plain = replace(plain, users=factors.users, items=factors.items, losses=losses)
        posterior = MonotonePosterior(plain, table)
        if table.way == "one":
            return posterior
        belief = posterior.fold_in(observed.by_user, threads.resolve(self.threads))
        if table.way == "per-user":
            table = replace(table, curves=np.vstack([table.curves[:1], belief.curves]))
        else:
            of_user = belief.table_rows
            table = replace(table, of_user=of_user, counts=curve_fits.by_cluster(counts, of_user, len(table.curves)))
        return MonotonePosterior(replace(plain, users=belief.points.points), table)

    def _found(self, cross_fit: CrossFit, fitted: CurveState, rng: Generator, observer: Observer) -> Found:
        """The requested curves, or the best ones."""
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
        return best if best.rmse < (1 - MEANINGFUL) * straight.rmse else straight

    def _cross_fit(
        self, plain: PointPosterior, observed: Ratings, scale: curve_fits.Scale, counts: Any, rng: Generator
    ) -> CrossFit:
        """The ratings split into folds at random; with one fold all are fitted and predicted."""
        dealt = rng.permutation(np.arange(len(observed)) % self.folds)
        folds = []
        for fold in range(self.folds):
            part = observed if self.folds == 1 else observed.masked(dealt != fold)
            own = observed if self.folds == 1 else observed.masked(dealt == fold)
            curved = CurvedRatings.of(part, self._bind(part, plain.penalty), scale, plain.mean)
            folds.append(Fold(curved, own, scale.places(own.values)))
        rule, n_threads = curve_fits.Straight(scale.levels), threads.resolve(self.threads)
        return CrossFit(tuple(folds), scale, counts, plain.mean, observed.range, rule, n_threads)
