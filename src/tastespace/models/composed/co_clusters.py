"""Clusters of users and of items, and what the ones think of the others (Somani and Gupta 2017, chapter 4).

Users and items are the factors of a fitted `ALS`, reduced to 3 principal components on each side, and clustered by
k-means: as many clusters as explain a share of the variance. With e_ij the part of a rating that biases leave, a block
of a user cluster and an item cluster has the mean of the e that were observed in it, shrunk to 0, and

    rating_ij = bias_ij + (S_ij + refinement block_ij) / (n_ij + refinement)

where S_ij is the sum of the n_ij values of e between the users of the cluster that are nearest to i and the items of
the cluster that are nearest to j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, row_blocks
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior
from tastespace.models.base.query import known_items
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.results import Table, id_columns, plural
from tastespace.models.biases import Baseline, damped_biases
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.als.posterior import EitherPosterior, PointPosterior
from tastespace.models.factorization.monotone.curves import grouped
from tastespace.parameters import Range, check_int, check_number
from tastespace.progress import Observer, Progress

N_COMPONENTS = 3
STARTS = 5  # of k-means
BIAS_SWEEPS = 20
BLOCK = 1 << 22  # of people x items


@dataclass(frozen=True, eq=False)
class ClusteredSide:
    """The rows of one side in principal components of their factors, and their clusters."""

    mean: FloatArray  # of the factors
    axes: FloatMatrix  # factors x components
    points: FloatMatrix  # rows x components
    cells: IntArray  # the cluster of each row
    centers: FloatMatrix

    @classmethod
    def of(cls, factors: NDArray[Any], explained: float, max_clusters: int, rng: Generator) -> ClusteredSide:
        mean = factors.mean(axis=0, dtype=np.float64)
        centered = factors.astype(np.float64) - mean
        axes = np.linalg.svd(centered.T @ centered)[0][:, :N_COMPONENTS]
        axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
        points = centered @ axes
        cells, centers = clustered(points, explained, max_clusters, rng)
        single = points.astype(np.float32), cells, centers.astype(np.float32)
        return cls(mean.astype(np.float32), axes.astype(np.float32), *single)

    @property
    def n_clusters(self) -> int:
        return len(self.centers)

    def placed(self, factors: NDArray[Any]) -> FloatMatrix:
        """Other rows as points."""
        return np.asarray((factors - self.mean) @ self.axes, np.float32)

    def nearest(self, points: FloatMatrix) -> IntArray:
        """The cluster of each point."""
        return np.asarray(_squared_distances(points, self.centers).argmin(axis=1), np.int32)

    def neighbors(self, points: FloatMatrix, cells: IntArray, n: int) -> Any:
        """The n rows of its own cluster that are nearest to each point, as a sparse matrix of ones."""
        matrix = []
        for block in row_blocks(len(points), len(self.points), BLOCK):
            apart = _squared_distances(points[block], self.points)
            apart[cells[block, None] != self.cells] = np.inf
            width = min(n, apart.shape[1])
            near = np.argsort(apart, axis=1, kind="stable")[:, :width]
            found = np.isfinite(np.take_along_axis(apart, near, 1))
            offsets = np.append(0, np.cumsum(found.sum(axis=1)))
            columns = near[found]
            matrix.append(sp.csr_array((np.ones(len(columns), np.float32), columns, offsets), apart.shape))
        return sp.vstack(matrix, format="csr") if matrix else sp.csr_array((0, len(self.points)), dtype=np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        names = ("mean", "axes", "points", "cells", "centers")
        return {name: getattr(self, name) for name in names}


def clustered(points: DoubleArray, explained: float, max_clusters: int, rng: Generator) -> tuple[IntArray, DoubleArray]:
    """The fewest clusters that explain this share of the variance, by bisection, with the best of several starts.

    With as many clusters as reach it in place of the most that do not, groups that lie apart are found as they are.
    """
    total = float(((points - points.mean(axis=0)) ** 2).sum())
    found: dict[int, tuple[float, IntArray]] = {}

    def error(k: int) -> float:
        if k not in found:
            tries = [grouped(points, np.ones_like(points), k, rng) for _ in range(STARTS)]
            spreads = [_within(points, cells) for cells in tries]
            best = int(np.argmin(spreads))
            found[k] = spreads[best], tries[best]
        return found[k][0]

    low, high = 1, min(max_clusters, len(points))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if total - error(middle) >= explained * total else (middle + 1, high)
    error(low)
    _, cells = np.unique(found[low][1], return_inverse=True)
    centers = np.stack([np.bincount(cells, column) for column in points.T], axis=1) / np.bincount(cells)[:, None]
    return cells.astype(np.int32), centers


def _within(points: DoubleArray, cells: IntArray) -> float:
    """The squared distances of points to the means of their clusters."""
    counts = np.maximum(np.bincount(cells), 1)[:, None]
    centers = np.stack([np.bincount(cells, column) for column in points.T], axis=1) / counts
    return float(((points - centers[cells]) ** 2).sum())


def _squared_distances(points: NDArray[Any], centers: NDArray[Any]) -> DoubleArray:
    """The squared distance of each point to each center; exact sums, so that equal points tie."""
    total: DoubleArray = np.zeros((len(points), len(centers)))
    for one, other in zip(points.T, centers.T, strict=True):
        total += (one[:, None].astype(np.float64) - other) ** 2
    return total


@dataclass(frozen=True, eq=False)
class CoClusterPosterior(Posterior):
    """Both sides, the blocks between them, and what is needed to place someone new."""

    baseline: Baseline
    factors: PointPosterior
    users: ClusteredSide
    items: ClusteredSide
    ratings: CSR  # of the training users, less the baseline
    n_neighbors: int
    shrinkage: float
    refinement: float

    @cached_property
    def left(self) -> tuple[Any, Any]:
        """What biases leave of training ratings, and where they are, as sparse matrices of users x items."""
        shape, ones = (len(self.ratings), len(self.items.cells)), np.ones_like(self.ratings.values)
        values, there = (
            sp.csr_array((entries, self.ratings.columns, self.ratings.offsets), shape)
            for entries in (self.ratings.values, ones)
        )
        return values, there

    @cached_property
    def counts(self) -> DoubleArray:
        """The number of ratings in each block."""
        return self._blocks(None)

    @cached_property
    def blocks(self) -> FloatMatrix:
        """The mean of each block, shrunk to zero: user clusters x item clusters."""
        return np.asarray(self._blocks(self.ratings.values) / (self.counts + self.shrinkage), np.float32)

    def _blocks(self, values: FloatArray | None) -> DoubleArray:
        shape = self.users.n_clusters, self.items.n_clusters
        cells = self.users.cells[self.ratings.rows()] * shape[1] + self.items.cells[self.ratings.columns]
        return np.bincount(cells, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)

    @cached_property
    def near_items(self) -> Any:
        """The nearest items of each, as columns."""
        return self.items.neighbors(self.items.points, self.items.cells, self.n_neighbors).T.tocsr()

    def believe(self, people: People, threads: int) -> CoClusterBelief:
        bias = self.baseline.user_bias(people.history)
        factors = self.factors.believe(people, threads).embeddings
        points = self.users.placed(factors)
        return CoClusterBelief(self, bias, factors, points, self.users.nearest(points))

    @property
    def embeddings(self) -> FloatMatrix:
        return self.factors.embeddings

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        constants = (self.baseline.mean, self.baseline.user_damping, self.n_neighbors, self.shrinkage, self.refinement)
        return {
            "constants": np.array(constants, np.float64),
            "item_bias": self.baseline.item_bias,
            "offsets": self.ratings.offsets,
            "columns": self.ratings.columns,
            "values": self.ratings.values,
            **{f"factors/{name}": array for name, array in self.factors.arrays().items()},
            **{f"users/{name}": array for name, array in self.users.arrays().items()},
            **{f"items/{name}": array for name, array in self.items.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CoClusterPosterior:
        parts: dict[str, dict[str, NDArray[Any]]] = {"factors": {}, "users": {}, "items": {}}
        for name, array in arrays.items():
            part, _, own = name.rpartition("/")
            if part:
                parts[part][own] = array
        mean, damping, n_neighbors, shrinkage, refinement = (float(value) for value in arrays["constants"])
        factors = EitherPosterior.from_arrays(parts["factors"])
        assert isinstance(factors, PointPosterior)
        users, items = ClusteredSide(**parts["users"]), ClusteredSide(**parts["items"])
        ratings = CSR(arrays["offsets"], arrays["columns"], arrays["values"])
        baseline = Baseline(mean, arrays["item_bias"], damping)
        return cls(baseline, factors, users, items, ratings, int(n_neighbors), shrinkage, refinement)


@dataclass(frozen=True, eq=False)
class CoClusterBelief(Belief):
    """People with their biases, places and clusters."""

    posterior: CoClusterPosterior
    bias: FloatArray
    factors: FloatMatrix
    points: FloatMatrix
    cells: IntArray

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def embeddings(self) -> FloatMatrix:
        return self.factors

    def mean(self, pairs: Pairs) -> FloatArray:
        found = self.posterior.baseline.ratings(self.bias[pairs.rows], pairs.items)
        rows, places = np.unique(pairs.rows, return_inverse=True)
        for block in row_blocks(len(rows), len(self.posterior.items.cells), BLOCK):
            here = np.flatnonzero((places >= block[0]) & (places <= block[-1]) & (pairs.items >= 0))
            if len(here):
                adjusted = self._adjustments(rows[block].astype(np.int32))
                found[here] += adjusted[places[here] - block[0], pairs.items[here]]
        return found

    def scores(self, rows: IntArray) -> FloatMatrix:
        posterior = self.posterior
        items = np.arange(len(posterior.items.cells), dtype=np.int32)
        return posterior.baseline.ratings(self.bias[rows, None], items) + self._adjustments(rows)

    def _adjustments(self, rows: IntArray) -> FloatMatrix:
        """What clusters and neighbors add to the biases: one row per person, one column per item."""
        posterior = self.posterior
        near = posterior.users.neighbors(self.points[rows], self.cells[rows], posterior.n_neighbors)
        sums, counts = (((near @ left) @ posterior.near_items).toarray() for left in posterior.left)
        block = posterior.blocks[self.cells[rows]][:, posterior.items.cells]
        weight = np.float32(posterior.refinement)
        return np.asarray((sums + weight * block) / (counts + weight), np.float32)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Blocks(Table):
    """What people like this one think of items like these: the blocks that their predictions start from.

    `rating` is the mean rating in the block of `n_ratings`, and `difference` how far it is from what biases expect,
    shrunk to 0.
    """

    user_id: Any
    user_cluster: int
    n_users: int  # in their cluster
    item_ids: pl.Series
    titles: pl.Series | None
    item_clusters: IntArray
    n_items: IntArray  # in the cluster of each item
    n_ratings: IntArray
    rating: DoubleArray  # NaN where a block is empty
    difference: FloatArray

    def __len__(self) -> int:
        return len(self.item_ids)

    @property
    def heading(self) -> str:
        who = f"User {self.user_id}, of cluster {self.user_cluster} with {plural(self.n_users, 'user')}"
        return f"{who}, and {plural(len(self), 'item')}"

    def to_polars(self) -> pl.DataFrame:
        """One row per item: its cluster, and what the users of the cluster think of that."""
        names = ("n_items", "n_ratings", "rating", "difference")
        figures = {"cluster": self.item_clusters} | {name: getattr(self, name) for name in names}
        return pl.DataFrame(id_columns("item", self.item_ids, self.titles) | figures)


@dataclass(kw_only=True)
class CoClusters(Recommender):
    """Users and items in clusters, and the mean of the ratings between them: simple, and easy to explain.

    The factors of an `ALS` with `n_factors` are reduced to 3 principal components on each side, and clustered by
    k-means: the fewest clusters that explain a share `explained` of the variance, at most `max_clusters`. The mean of
    what the biases leave of the ratings in a block is shrunk to 0, as by `shrinkage` ratings without deviation. Within
    a block it is refined by the ratings of the `n_neighbors` nearest users for the `n_neighbors` nearest items: the
    block counts as `refinement` of these.

    `blocks` tells the clusters of a user and of items, and what the ones think of the others; `write_co_clusters` draws
    both sides.
    """

    n_factors: int = 16
    explained: float = 0.8
    max_clusters: int = 50
    n_neighbors: int = 20
    shrinkage: float = 20.0
    refinement: float = 20.0
    user_damping: float = 5.0
    item_damping: float = 5.0

    is_its_ratings = True
    posterior_class = CoClusterPosterior
    search_space = {"n_neighbors": Range(5, 200, whole=True), "refinement": Range(1, 300)}

    def check(self) -> None:
        super().check()
        check_int("n_factors", self.n_factors, least=1)
        check_number("explained", self.explained, above=0, below=1)
        check_int("max_clusters", self.max_clusters, least=1)
        check_int("n_neighbors", self.n_neighbors, least=1)
        for name in ("shrinkage", "refinement"):
            check_number(name, getattr(self, name), above=0)
        for name in ("user_damping", "item_damping"):
            check_number(name, getattr(self, name), least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> CoClusterPosterior:
        factors = ALS(n_factors=self.n_factors, threads=self.threads).infer(observed, rng, observer)
        assert isinstance(factors, PointPosterior)
        sides = []
        for side, rows in enumerate((factors.users, factors.items), 1):
            sides.append(ClusteredSide.of(rows.factors, self.explained, self.max_clusters, rng))
            observer(Progress("clusters", side, 2, {"clusters": sides[-1].n_clusters}))
        _, item_bias = damped_biases(observed, self.user_damping, self.item_damping, BIAS_SWEEPS)
        baseline = Baseline(observed.mean, item_bias.astype(np.float32), float(self.user_damping))
        left = baseline.residuals(observed.by_user, baseline.user_bias(observed.by_user))
        constants = (self.n_neighbors, float(self.shrinkage), float(self.refinement))
        return CoClusterPosterior(baseline, factors, sides[0], sides[1], left, *constants)

    def blocks(self, user_id: Any, item_ids: Ids, *, history: Any = None) -> Blocks:
        """What users like this one, who may be new with a history, think of items like these."""
        self.require_fitted()
        query = self._query([user_id], history, "blocks")
        items = id_series(listed(item_ids), "item")
        rows, posterior = known_items(self.ratings_, items), self._found
        cell = int(query.belief.cells[0])  # type: ignore[attr-defined]
        ratings, users, cells = self.ratings_.by_user, posterior.users.cells, posterior.items.cells
        own = users[ratings.rows()] == cell
        total = np.bincount(cells[ratings.columns[own]], ratings.values[own], posterior.items.n_clusters)
        counts = posterior.counts[cell].astype(np.int32)
        mean = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
        wanted = cells[rows]
        return Blocks(
            user_id=user_id,
            user_cluster=cell,
            n_users=int(np.count_nonzero(users == cell)),
            item_ids=items,
            titles=None if self.ratings_.item_titles is None else self.ratings_.title_of(rows),
            item_clusters=wanted,
            n_items=np.bincount(cells, minlength=posterior.items.n_clusters)[wanted].astype(np.int32),
            n_ratings=counts[wanted],
            rating=mean[wanted],
            difference=posterior.blocks[cell, wanted],
            remarks=query.remarks,
        )

    @property
    def clusters_(self) -> dict[str, ClusteredSide]:
        """The clusters of "users" and of "items", and the points that they are found from."""
        self.require_fitted()
        return {"users": self._found.users, "items": self._found.items}

    @property
    def _found(self) -> CoClusterPosterior:
        posterior: CoClusterPosterior = self.posterior_  # type: ignore[assignment]
        return posterior
