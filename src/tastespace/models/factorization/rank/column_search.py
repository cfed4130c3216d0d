"""The number of columns, by a short chain whose columns are added and dropped, before the main chains.

Starting from many columns, each sweep drops the negligible ones, all but one, and adds one if there is none (Legramanti
et al. 2020, algorithm 2, which never stops adapting but does so ever less often; here it stops). With a prior that adds
none, such as ARD, all are dropped.

Changing the number of columns leaves no distribution invariant: only the count of this chain is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, BoolArray, DoubleArray, contiguous
from tastespace.data.ratings import Ratings
from tastespace.inference.checkpoints import RunCheckpoints
from tastespace.inference.drivers import Schedule, sample
from tastespace.inference.transition import ACTIVE, Stats, Trace
from tastespace.models.factorization.gibbs.sweep import GibbsState, GibbsSweep
from tastespace.models.factorization.priors import normal_wishart as populations
from tastespace.models.factorization.priors.shrinkage import ShrinkingPrior
from tastespace.models.factorization.rows import Factors
from tastespace.progress import Observer

COLUMNS = "columns"  # in a sweep, in use or not
SWEEPS = 50  # of the search
COUNTED = 25  # the last of them, after the number of columns has adapted


@dataclass(frozen=True, eq=False)
class ColumnSearch:
    """The sweep of a model whose columns shrink, with their number adapted after each."""

    sweep: GibbsSweep
    max_columns: int

    def init(self, rng: Generator) -> GibbsState:
        return self.sweep.init(rng)

    def step(self, state: GibbsState, rng: Generator) -> tuple[GibbsState, Stats]:
        columns = state.items.factors.shape[1]
        sweep = self._sweep(columns)
        state, stats = sweep.step(state, rng)
        return self._adapted(state, sweep, rng), {**stats, COLUMNS: float(columns)}

    def _sweep(self, columns: int) -> GibbsSweep:
        """The sweep: with fewer coordinates those of items on a sphere are larger, and the users' columns smaller."""
        model = self.sweep.model
        sphere, columns_of = model.item_moves.sphere, model.user_prior.columns
        if sphere is None or columns_of is None:
            return self.sweep
        share = (columns + sphere.has_joint_bias) / (model.n_factors + sphere.has_joint_bias)
        return replace(self.sweep, model=replace(model, user_prior=columns_of.in_units(share)))

    def _adapted(self, state: GibbsState, sweep: GibbsSweep, rng: Generator) -> GibbsState:
        prior, population = _shrinking(sweep, state)
        active = prior.active(population)
        chosen = _kept(active, 1 / np.diag(population.precision), spares=int(prior.adds_columns))
        adds = prior.adds_columns and bool(active.all()) and len(active) < self.max_columns
        if not adds and len(chosen) == len(active):
            return state
        users, items, sphere = _take(state.users, chosen), _take(state.items, chosen), sweep.model.item_moves.sphere
        if adds:
            users, items = _grown(users, items, sphere, prior.least, rng)
        if sphere is not None:
            users, items = _back_on(sphere, users, items)
        return self._sweep(users.factors.shape[1]).at(users, items, state.noise, rng, state.tuning)


@dataclass(frozen=True, eq=False)
class RankSearch:
    """The path of a search, one entry per sweep."""

    columns: NDArray[np.int64]
    active: NDArray[np.int64]
    max_columns: int  # that there may be

    @classmethod
    def of(cls, trace: Sequence[Stats], max_columns: int) -> RankSearch:
        columns, active = (np.array([round(stats[name]) for stats in trace], np.int64) for name in (COLUMNS, ACTIVE))
        return cls(columns, active, max_columns)

    @classmethod
    def found_in(cls, trace: Trace) -> RankSearch | None:
        """The search before the chains of a trace, if there was one."""
        if trace.rank_search is None:
            return None
        columns, active = trace.rank_search.astype(np.int64)
        return cls(columns, active, int(columns.max()))

    def array(self) -> DoubleArray:
        """The search as the array that a trace keeps."""
        return np.array([self.columns, self.active], np.float64)

    @property
    def wanted_columns(self) -> int:
        """Columns with one to spare, if allowed, so that chains can show whether one more is useful."""
        return min(self.n_factors + 1, self.max_columns)

    @property
    def n_factors(self) -> int:
        """The most frequent number of columns in use at the end; at least 1."""
        return max(1, most_frequent(self.active[-COUNTED:]))


def search(
    sweep: GibbsSweep, max_columns: int, rng: Generator, observer: Observer, checkpoints: RunCheckpoints | None = None
) -> RankSearch:
    """Run the chain."""
    (chain,) = sample(
        ColumnSearch(sweep, max_columns),
        rng,
        Schedule(chains=1, warmup=SWEEPS, draws=0),
        keeps=[lambda state, draw: None],
        phase="finding the number of factors",
        reported=(ACTIVE,),
        checkpoints=checkpoints,
        threads=1,  # of chains; the sweep has its own
        observer=observer,
    )
    return RankSearch.of(chain.trace, max_columns)


def most_columns(wanted: int, observed: Ratings) -> int:
    """The maximum number of columns: the rank of a matrix is at most its number of rows or columns."""
    return min(wanted, observed.n_users, observed.n_items)


def most_frequent(counts: NDArray[np.int64]) -> int:
    """The most frequent count; the smallest in case of ties."""
    values, times = np.unique(counts, return_counts=True)
    return int(values[np.argmax(times)])


def _shrinking(sweep: GibbsSweep, state: GibbsState) -> tuple[ShrinkingPrior, populations.Population]:
    """The prior of the side whose columns shrink, and its current population."""
    of_users, of_items = sweep.model.user_prior.columns, sweep.model.item_prior.columns
    if of_users is not None:
        return of_users, state.user_population
    assert of_items is not None
    return of_items, state.item_population


def _grown(
    users: Factors, items: Factors, sphere: populations.Sphere | None, least: float, rng: Generator
) -> tuple[Factors, Factors]:
    """Both sides with one more column, negligible on the side that shrinks."""
    of_users, of_items = 1.0, sqrt(least)
    if sphere is not None:
        of_users, of_items = sqrt(least), sphere.radius / sqrt(users.factors.shape[1] + 1)
    return _with_column(users, of_users, rng), _with_column(items, of_items, rng)


def _back_on(sphere: populations.Sphere, users: Factors, items: Factors) -> tuple[Factors, Factors]:
    """Items scaled to the sphere, and users scaled inversely, on average."""
    there = populations.on_sphere(items, sphere)
    before, after = (float(np.trace(points.moments.gram)) for points in (items, there))
    shrunk = users.factors * users.factors.dtype.type(sqrt(before / after) if after > 0 else 1.0)
    return Factors(shrunk, users.bias), there


def _kept(active: BoolArray, variances: DoubleArray, spares: int) -> NDArray[np.intp]:
    """The columns that stay, at least one: the widest first, negligible ones last."""
    by_width = np.argsort(-variances, kind="stable")
    of_use, others = by_width[active[by_width]], by_width[~active[by_width]]
    return np.concatenate([of_use, others[: max(spares, int(not len(of_use)))]])


def _take(points: Factors, columns: NDArray[np.intp]) -> Factors:
    return Factors(contiguous(points.factors[:, columns], points.factors.dtype), points.bias)


def _with_column(points: Factors, sd: float, rng: Generator) -> Factors:
    factors: AnyFloats = points.factors
    column = (sd * rng.standard_normal((len(factors), 1))).astype(factors.dtype)
    return Factors(np.hstack([factors, column]), points.bias)


@dataclass(frozen=True, eq=False)
class FoundRank:
    """The number of factors that was found, and its uncertainty."""

    n_factors: int  # in use: most frequent over all sweeps after the warm-up
    columns: int  # in the draws
    posterior: Mapping[int, float]  # share of these sweeps by number; one with probability 1 if nothing shrinks
    search: RankSearch | None  # how the number of columns was chosen

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        found: dict[str, Any] = {
            "n_factors": self.n_factors,
            "columns": self.columns,
            "posterior": {str(number): share for number, share in self.posterior.items()},
        }
        if self.search is not None:
            found["search"] = {"columns": self.search.columns.tolist(), "active": self.search.active.tolist()}
        return found


def found_rank(columns: int, trace: Trace | None) -> FoundRank:
    """The rank found, from the trace of chains whose draws have this number of columns."""
    if trace is None or ACTIVE not in trace.quantities:
        return FoundRank(columns, columns, {columns: 1.0}, None)
    counted = np.rint(trace.quantities[ACTIVE][:, trace.warmup :]).astype(np.int64)
    values, times = np.unique(counted, return_counts=True)
    shares = {int(value): float(n) / counted.size for value, n in zip(values, times, strict=True)}
    return FoundRank(max(1, most_frequent(counted)), columns, shares, RankSearch.found_in(trace))
