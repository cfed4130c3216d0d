"""Autoencoders as recommenders: AutoRec, and SparseFC with its kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.arrays import BoolArray
from tastespace.data.csr import CSR
from tastespace.data.kinds import CHOICES, levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.conformal import MIN_ERRORS, ConformalErrors
from tastespace.errors import DataError
from tastespace.models.base.posterior import Pairs, People, Posterior
from tastespace.models.base.recommender import Recommender
from tastespace.models.deep.codes import CodesPosterior, EncodedItems, EncodedUsers, Units
from tastespace.networks.backend import torch_for
from tastespace.networks.masked import Kernel, MaskedAutoencoder, Trained, train_masked
from tastespace.parameters import Range, check_int, check_number
from tastespace.progress import Observer

Side = Literal["items", "users"]


def refuse_choices(observed: Ratings, name: str) -> None:
    """Refuse implicit feedback; equal values that nobody declared to be that are only useless."""
    kind, reason = observed.kind_and_reason
    if kind in CHOICES and (observed.declared_kind is not None or observed.range[0] < observed.range[1]):
        raise DataError(
            f"the ratings are {kind} ({reason}), and {name} learns from their values alone",
            expected="ratings such as stars; for what was clicked, played or bought use implicit-als",
        )


def watched_part(observed: Ratings, share: float, rng: Generator) -> tuple[Ratings, Ratings] | None:
    """Ratings to train on, and those to hold out; None if the latter would be too few to tell anything."""
    n = int(share * len(observed))
    if n < MIN_ERRORS:
        return None
    is_watched: BoolArray = np.zeros(len(observed), np.bool_)
    is_watched[rng.permutation(len(observed))[:n]] = True
    return observed.masked(~is_watched), observed.masked(is_watched)


def errors_on(
    watched: Ratings, posterior: Posterior, train: Ratings, observed: Ratings, n_threads: int
) -> ConformalErrors | None:
    """The errors on held-out ratings, by the number of ratings of their users."""
    everyone = People.known(np.arange(observed.n_users, dtype=np.int32), train.by_user)
    belief = posterior.believe(everyone, n_threads)
    missed = watched.values - belief.mean(Pairs(watched.user_rows, watched.item_rows))
    counts = observed.by_user.counts[watched.user_rows]
    return ConformalErrors.of(missed, counts, observed.range, levels_of(observed.values))


@dataclass(kw_only=True)
class _RatingAutoencoder(Recommender):
    """The shared parameters of both models, and how they are trained."""

    side: Side = "items"
    regularization: float = 100.0
    damping: float = 5.0
    iterations: int = 500
    validation_share: float = 0.1
    patience: int = 5
    ensemble: int = 1

    posterior_class: ClassVar = CodesPosterior
    extra: ClassVar = "deep"

    @property
    @abstractmethod
    def _sizes(self) -> Sequence[int]:
        """The sizes of the layers that encode."""

    @property
    def _kernel(self) -> Kernel | None:
        return None

    def check(self) -> None:
        super().check()
        check_number("regularization", self.regularization, above=0)
        check_number("damping", self.damping, above=0)
        check_int("iterations", self.iterations, least=1)
        check_number("validation_share", self.validation_share, least=0, below=1)
        check_int("patience", self.patience, least=1)
        check_int("ensemble", self.ensemble, least=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> CodesPosterior:
        name = type(self).__name__
        refuse_choices(observed, name)
        torch_for(f"training {name}")
        units = Units.of(observed.mean, observed.standard_deviation)
        iterations, errors = self.iterations, None
        parts = watched_part(observed, self.validation_share, rng)
        if parts is not None:
            train, watched = parts
            trained = self._train(train, watched, iterations, units, "finding when to stop", rng, observer)
            first = CodesPosterior(units, (self._member(trained.network, train, units),), None)
            iterations = trained.iterations
            errors = errors_on(watched, first, train, observed, threads.resolve(self.threads))
        members = []
        for run in range(1, self.ensemble + 1):
            phase = "autoencoder" if self.ensemble == 1 else f"autoencoder {run} of {self.ensemble}"
            trained = self._train(observed, None, iterations, units, phase, rng, observer)
            members.append(self._member(trained.network, observed, units))
        return CodesPosterior(units, tuple(members), errors)

    def _train(
        self,
        ratings: Ratings,
        watched: Ratings | None,
        iterations: int,
        units: Units,
        phase: str,
        rng: Generator,
        observer: Observer,
    ) -> Trained:
        return train_masked(
            units.standardized(self._rows(ratings)),
            ratings.n_users if self.side == "items" else ratings.n_items,
            self._sizes,
            rng=rng,
            strength=self.regularization,
            damping=self.damping,
            iterations=iterations,
            kernel=self._kernel,
            watched=None if watched is None else units.standardized(self._rows(watched)),
            patience=self.patience,
            phase=phase,
            observer=observer,
        )

    def _rows(self, ratings: Ratings) -> CSR:
        return ratings.by_item if self.side == "items" else ratings.by_user

    def _member(self, network: MaskedAutoencoder, ratings: Ratings, units: Units) -> EncodedItems | EncodedUsers:
        if self.side == "users":
            return EncodedUsers(network.layers, network.columns + network.shared, network.column_bias)
        codes = network.encode(units.standardized(ratings.by_item))
        by_user, strengths = units.standardized(ratings.by_user), (self.regularization, self.damping)
        return EncodedItems.fitted(codes, network.shared, by_user, *strengths, threads.resolve(self.threads))


@dataclass(kw_only=True)
class AutoRec(_RatingAutoencoder):
    """An autoencoder that completes the ratings of an item, or of a user (Sedhain, Menon, Sanner and Xie 2015).

    With `side="items"` (the default) the ratings of an item are encoded by one layer of `n_hidden` sigmoid units, and
    decoded to what every user would rate it; with "users" it is the other way round. The squared error of the known
    ratings and `regularization` times the squared weights are minimized by full-batch L-BFGS, on standardized ratings.
    `damping` shrinks the bias of each row of the decoder, like that many ratings without deviation; what all rows have
    in common is not shrunk with each of them, so that someone new gets what everybody likes.

    A `validation_share` of the training ratings is held out first, to find the number of iterations (at most
    `iterations`; the search ends when `patience` checks, one every 10 iterations, were no better), and to calibrate
    intervals: predictions are points, and the errors on held-out ratings, by users with few and with many ratings, are
    the distribution around them (split-conformal). Then all ratings are trained on. With a share of 0 neither happens.

    `ensemble` is the number of networks that are averaged, from different starting points. A new user is placed by a
    forward pass, or with `side="items"` by ridge regression on the codes of the items, as at the end of training.

    Needs PyTorch to be fitted (the extra `deep`), and not to answer. Training uses one thread.
    """

    n_hidden: int = 500

    search_space: ClassVar = {"regularization": Range(5, 500), "n_hidden": Range(16, 500, whole=True)}

    def check(self) -> None:
        super().check()
        check_int("n_hidden", self.n_hidden, least=1)

    @property
    def _sizes(self) -> Sequence[int]:
        return (self.n_hidden,)


@dataclass(kw_only=True)
class SparseFC(_RatingAutoencoder):
    """`AutoRec` with two layers that encode, and weights that a kernel makes sparse (Muller, Martel and Indiveri 2018).

    Every unit has a point in `kernel_dimensions` dimensions, and a weight is multiplied by max(0, 1 - |u - v|^2) of the
    points of its two units. `sparsity` is the strength of the penalty on these factors, all other parameters are those
    of `AutoRec`. With `side="items"` users are placed by ridge regression on the codes, without kernels: the points of
    someone new are not known.
    """

    regularization: float = 60.0
    n_hidden: int = 500
    n_layers: int = 2
    kernel_dimensions: int = 5
    sparsity: float = 0.013

    search_space: ClassVar = {"regularization": Range(5, 500), "sparsity": Range(0.001, 1)}

    def check(self) -> None:
        super().check()
        for name in ("n_hidden", "n_layers", "kernel_dimensions"):
            check_int(name, getattr(self, name), least=1)
        check_number("sparsity", self.sparsity, least=0)

    @property
    def _sizes(self) -> Sequence[int]:
        return (self.n_hidden,) * self.n_layers

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel_dimensions, self.sparsity)
