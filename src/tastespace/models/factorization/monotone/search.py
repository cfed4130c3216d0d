"""Which curves predict ratings best that the factors have not seen: none, one, or some for clusters of users."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from tastespace.inference.drivers import Stop, ascend, small_change
from tastespace.inference.transition import Stats
from tastespace.models.factorization.monotone.clusters import grouped
from tastespace.models.factorization.monotone.cross_fit import CrossFit, CurveRule, CurveState
from tastespace.models.factorization.monotone.posterior import Way
from tastespace.models.factorization.monotone.rules import CurvePerCluster, CurvePerUser, OneCurve
from tastespace.progress import Observer, Progress

N_CLUSTERS = (2, 3, 4, 6)  # what is tried
SETTLED, FEW = 1e-3, 0.005  # of the scale that ratings still move, of the users who still change clusters
MEANINGFUL = 1e-4  # a smaller relative gain is noise


@dataclass(frozen=True, eq=False)
class Found:
    """Curves, and how well ratings are predicted through them."""

    way: Way
    state: CurveState
    rmse: float
    n_clusters: int = 0

    @property
    def name(self) -> str:
        return f"{self.n_clusters} clusters" if self.way == "clusters" else self.way


@dataclass(frozen=True, eq=False)
class CurveSearch:
    """Fits curves of growing number, each from the last."""

    cross_fit: CrossFit
    pull: float
    sweeps: int
    tolerance: float
    rng: Generator
    observer: Observer

    def straight(self, start: CurveState | None = None) -> Found:
        """Ratings as they are: factors from chance, unless there is a start."""
        state = self.cross_fit.init(self.rng) if start is None else start
        if start is None:
            state = self._ascended(state, self.cross_fit.rule, small_change("loss", self.tolerance), "fold")
        return self._found("one", state)

    def one(self, straight: Found) -> Found:
        """One curve for all."""
        rule = OneCurve(self.cross_fit.scale.levels)
        return self._found("one", self._ascended(straight.state, rule, settled, "one curve"))

    def per_user(self, one: Found) -> Found:
        """One each."""
        shared = one.state.curves[0]
        n_users = len(one.state.of_user)
        start = replace(
            one.state,
            curves=np.repeat(shared[None], n_users + 1, axis=0),
            of_user=np.arange(1, n_users + 1, dtype=np.int32),
        )
        rule = CurvePerUser(shared, self.pull)
        return self._found("per-user", self._ascended(start, rule, settled, "a curve a user"))

    def clusters(self, per_user: Found, n_clusters: int) -> Found:
        """One a cluster; clusters that nobody is left in are dropped."""
        curves = per_user.state.curves
        cells = grouped(curves[per_user.state.of_user], self.cross_fit.counts, n_clusters, self.rng)
        n_clusters = int(cells.max()) + 1
        rule = CurvePerCluster(curves[0], self.pull, n_clusters)
        start = replace(
            per_user.state, curves=np.repeat(curves[:1], n_clusters + 1, axis=0), of_user=(cells + 1).astype(np.int32)
        )
        state = self._ascended(start, rule, settled, f"{n_clusters} clusters")
        return self._found("clusters", _without_empty(state))

    def best_clusters(self, one: Found) -> Found:
        """As many as predict best: one, or more as long as more are better."""
        best, per_user = one, self.per_user(one)
        for n_clusters in N_CLUSTERS:
            found = self.clusters(per_user, n_clusters)
            if not is_better(found, best):
                break
            best = found
        return best

    def _ascended(self, state: CurveState, rule: CurveRule, stop: Stop, phase: str) -> CurveState:
        transition = replace(self.cross_fit, rule=rule)
        return ascend(transition, state, self.rng, steps=self.sweeps, stop=stop, phase=phase, observer=self.observer)[0]

    def _found(self, way: Way, state: CurveState) -> Found:
        found = Found(way, state, self.cross_fit.rmse(state), len(state.curves) - 1 if way == "clusters" else 0)
        self.observer(Progress(f"searching curves: {found.name}", 1, 1, {"held-out rmse": found.rmse}))
        return found


def is_better(found: Found, than: Found) -> bool:
    """By more than noise."""
    return found.rmse < (1 - MEANINGFUL) * than.rmse


def settled(trace: list[Stats]) -> bool:
    """Ratings hardly move any more on their curves, and hardly anybody changes his cluster."""
    return trace[-1]["change"] < SETTLED and trace[-1].get("moved", 0.0) < FEW


def _without_empty(state: CurveState) -> CurveState:
    kept = np.unique(np.concatenate([[0], state.of_user]))
    return replace(state, curves=state.curves[kept], of_user=np.searchsorted(kept, state.of_user).astype(np.int32))
