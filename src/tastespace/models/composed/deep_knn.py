"""Features of users learned from a filled matrix, and neighbors by them (Somani and Gupta 2017, chapter 6).

The ratings of a user, with the predictions of a fitted `ALS` where there are none, scaled to 0..1, are a row of the
filled matrix. It is made block by block from training ratings, and never as a whole. A stacked autoencoder, a Boltzmann
machine or a deep belief network gives every row `n_features` numbers x_i, and with e the part of a rating that biases
leave

    rating_ij = bias_ij + sum_k s_ik e_kj / (sum_k s_ik + damping),    s_ik = exp(-|x_i - x_k|_1 / (bandwidth d))

over the users k nearest to i who have rated item j; d is the mean distance of two users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.models.base.posterior import Belief, People
from tastespace.models.base.recommender import Recommender
from tastespace.models.biases import Baseline, damped_biases
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.als.posterior import EitherPosterior, PointPosterior
from tastespace.models.neighbors.knn import Histories, Rule, UserNeighbours, shared_parts
from tastespace.networks.autoencoder import Autoencoder, train_autoencoder
from tastespace.networks.backend import torch_for
from tastespace.networks.dbn import DBN, train_dbn
from tastespace.networks.inputs import Rows
from tastespace.networks.rbm import RBM, train_rbm
from tastespace.parameters import Choice, Range, check_int, check_number
from tastespace.progress import Observer
from tastespace.threads import one_blas_thread

Method = Literal["autoencoder", "rbm", "dbn", "filled"]
METHODS: tuple[Method, ...] = get_args(Method)  # artifacts store the position
KINDS: Mapping[str, type[Any]] = {"autoencoder": Autoencoder, "rbm": RBM, "dbn": DBN}
BIAS_SWEEPS = 20
MOST_PAIRS = 500  # users whose distances have the mean


@dataclass(frozen=True, eq=False)
class FilledRows:
    """The filled matrix of some people, some rows at a time, between 0 and 1."""

    belief: Belief
    history: CSR
    n_items: int
    low: float
    high: float

    @classmethod
    def of(
        cls, factors: PointPosterior, people: People, n_items: int, low: float, high: float, n_threads: int
    ) -> FilledRows:
        return cls(factors.believe(people, n_threads), people.history, n_items, low, high)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.belief), self.n_items

    def take(self, rows: IntArray) -> FloatMatrix:
        with one_blas_thread():
            filled = np.clip(self.belief.scores(rows), self.low, self.high)
        known = self.history.take(rows)
        filled[known.rows(), known.columns] = known.values
        scaled = (filled - np.float32(self.low)) / np.float32(max(self.high - self.low, 1e-6))
        return np.asarray(np.clip(scaled, 0, 1), np.float32)


def learn_network(
    method: Method, rows: Rows, n_hidden: int, n_features: int, epochs: int, rng: Generator, observer: Observer
) -> Any:
    """The network that gives rows their features; None for those of the filled matrix itself."""
    ways: dict[str, Any] = {"rng": rng, "epochs": epochs, "observer": observer}
    if method == "autoencoder":
        return train_autoencoder(rows, [n_hidden, n_features], output="sigmoid", **ways)
    if method == "rbm":
        return train_rbm(rows, n_features, **ways)
    return train_dbn(rows, [n_hidden, n_features], **ways) if method == "dbn" else None


def encoded(network: Any, rows: Rows) -> FloatMatrix:
    """The features of rows; without a network the rows themselves."""
    if network is None:
        return rows.take(np.arange(rows.shape[0], dtype=np.int32))
    with one_blas_thread():
        return np.asarray(network.encode(rows), np.float32)


@dataclass(frozen=True, eq=False)
class DeepNeighbours(UserNeighbours):
    """The training users with their features, and what gives features to others."""

    factors: PointPosterior
    network: Any
    features: FloatMatrix
    rating_ends: tuple[float, float]
    bandwidth: float
    method: Method

    @cached_property
    def scale(self) -> float:
        """The distance at which a similarity has fallen to 1/e."""
        some = self.features[np.unique(np.linspace(0, len(self.features) - 1, MOST_PAIRS).astype(np.int64))]
        distance = float(_distances(some, some).mean(dtype=np.float64))
        return self.bandwidth * distance if distance > 0 else 1.0

    def believe(self, people: People, threads: int) -> DeepHistories:  # type: ignore[override]
        history = people.history
        bias = self.baseline.user_bias(history)
        return DeepHistories(self, history, bias, threads, self.features_of(people, threads))

    def features_of(self, people: People, threads: int) -> FloatMatrix:
        """The features of people: as in training, or those of their history.

        The latter one at a time, for sums of BLAS to be the same whoever is asked about beside them.
        """
        features = self.features[np.maximum(people.rows, 0)]
        others = np.flatnonzero(people.is_new | (people.rows < 0)).astype(np.int32)
        if len(others):
            rows = FilledRows.of(self.factors, people, self.n_items, *self.rating_ends, threads)
            for place in others:
                row = rows.take(np.array([place], np.int32))
                features[place] = row if self.network is None else self.network.encode(row)
        return features

    def similarities(self, belief: Histories, rows: IntArray) -> FloatMatrix:
        assert isinstance(belief, DeepHistories)
        return np.asarray(np.exp(-_distances(belief.features[rows], self.features) / np.float32(self.scale)))

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        numbers = (METHODS.index(self.method), *self.rating_ends, self.bandwidth)
        network = {} if self.network is None else self.network.arrays()
        return {
            **super().arrays(),
            "deep": np.array(numbers, np.float64),
            "features": self.features,
            **{f"factors/{name}": array for name, array in self.factors.arrays().items()},
            **{f"network/{name}": array for name, array in network.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> DeepNeighbours:
        kind, low, high, bandwidth = (float(value) for value in arrays["deep"])
        factors = EitherPosterior.from_arrays(_part_of(arrays, "factors/"))
        assert isinstance(factors, PointPosterior)
        method = METHODS[int(kind)]
        network = KINDS[method].from_arrays(_part_of(arrays, "network/")) if method in KINDS else None
        known = shared_parts(arrays)
        return cls(*known, factors, network, arrays["features"], (low, high), bandwidth, method)


def _part_of(arrays: Mapping[str, NDArray[Any]], start: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _distances(one: FloatMatrix, other: FloatMatrix) -> FloatMatrix:
    """The l1 distance of each pair of rows."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(one, other, "cityblock"), np.float32)


@dataclass(frozen=True, eq=False)
class DeepHistories(Histories):
    """Histories of people, with their features."""

    features: FloatMatrix

    def take(self, rows: IntArray) -> DeepHistories:
        part = super().take(rows)
        return DeepHistories(self.posterior, part.ratings, part.bias, self.threads, self.features[rows])

    @property
    def user_similarities(self) -> Callable[[IntArray], FloatMatrix]:  # type: ignore[override]
        posterior = self.posterior
        assert isinstance(posterior, DeepNeighbours)
        return lambda rows: posterior.similarities(self, rows)


@dataclass(kw_only=True)
class DeepKNN(Recommender):
    """A user rates an item as the users nearest in learned features rated it (Somani and Gupta 2017).

    The features are `n_features` numbers for the row of a user in the ratings filled by an `ALS` with `n_factors`:
    `features` is "autoencoder" (stacked, with `n_hidden` units between; needs PyTorch, the extra `deep`), "rbm", "dbn",
    or "filled" for the row itself. Distances are sums of absolute differences, and the similarity is exp(-distance /
    (`bandwidth` times the mean distance)). `n_neighbors` and `damping` are those of `UserKNN`.
    """

    features: Method = "rbm"
    n_features: int = 64
    n_hidden: int = 256
    epochs: int = 50
    n_factors: int = 16
    n_neighbors: int = 80
    bandwidth: float = 0.3
    damping: float = 0.1
    user_damping: float = 5.0
    item_damping: float = 5.0

    is_its_ratings = True
    posterior_class: ClassVar = DeepNeighbours
    search_space: ClassVar = {
        "features": Choice(METHODS[1:]),
        "n_neighbors": Range(10, 400, whole=True),
        "bandwidth": Range(0.02, 1),
    }

    def check(self) -> None:
        super().check()
        for name in ("n_features", "n_hidden", "epochs", "n_factors", "n_neighbors"):
            check_int(name, getattr(self, name), least=1)
        check_number("bandwidth", self.bandwidth, above=0)
        for name in ("damping", "user_damping", "item_damping"):
            check_number(name, getattr(self, name), least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DeepNeighbours:
        if self.features == "autoencoder":
            torch_for("training an autoencoder")  # Fails now, not when the matrix can be filled.
        factors, rows = self.filled(observed, rng, observer)
        network = learn_network(self.features, rows, self.n_hidden, self.n_features, self.epochs, rng, observer)
        _, item_bias = damped_biases(observed, self.user_damping, self.item_damping, BIAS_SWEEPS)
        baseline = Baseline(observed.mean, item_bias.astype(np.float32), float(self.user_damping))
        rule = Rule("cosine", self.n_neighbors, 0.0, 1, 0.0, float(self.damping))
        known: tuple[Baseline, CSR, Rule] = (baseline, observed.by_user, rule)
        found: FloatMatrix = encoded(network, rows)
        return DeepNeighbours(*known, factors, network, found, observed.range, float(self.bandwidth), self.features)

    def filled(self, observed: Ratings, rng: Generator, observer: Observer) -> tuple[PointPosterior, FilledRows]:
        """The factors that fill the matrix, and its rows."""
        factors = ALS(n_factors=self.n_factors, threads=self.threads).infer(observed, rng, observer)
        assert isinstance(factors, PointPosterior)
        everyone = People.known(np.arange(observed.n_users, dtype=np.int32), observed.by_user)
        n_threads = threads.resolve(self.threads)
        return factors, FilledRows.of(factors, everyone, observed.n_items, *observed.range, n_threads)
