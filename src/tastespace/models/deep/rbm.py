"""Restricted Boltzmann machines as recommenders: one hidden layer for the levels of all items that a user has rated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray
from tastespace.data.csr import CSR
from tastespace.data.kinds import levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.conformal import ConformalErrors
from tastespace.distributions.rating_distribution import Scale
from tastespace.errors import DataError
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, PredictiveDistribution
from tastespace.models.base.recommender import Recommender
from tastespace.models.deep.autorec import errors_on, refuse_choices, watched_part
from tastespace.networks.softmax_rbm import SoftmaxRBM, expected_levels, expected_of_all, train_softmax_rbm
from tastespace.parameters import Range, check_int, check_number
from tastespace.progress import Observer
from tastespace.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class RBMPosterior(Posterior):
    """The machine; users are known by their ratings alone."""

    keeps_users = False

    machine: SoftmaxRBM
    scale: DoubleArray  # the levels, ascending
    errors: ConformalErrors | None

    def believe(self, people: People, threads: int) -> RBMBelief:
        with one_blas_thread():
            hidden = self.machine.hidden_means(positions(people.history, self.scale))
        return RBMBelief(self, hidden, people.history.counts)

    @property
    def embeddings(self) -> FloatMatrix:
        """How the expected rating of each item goes with each hidden unit, to first order."""
        shares, machine = self.machine.shares.astype(np.float64), self.machine
        apart = shares * (self.scale - shares @ self.scale[:, None])
        each = machine.weights.reshape(machine.n_items, machine.n_levels, -1)
        return np.asarray(np.einsum("il,ilh->ih", apart, each), np.float32)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        names = ("weights", "visible_bias", "hidden_bias", "rated", "shares")
        arrays: dict[str, NDArray[Any]] = {name: getattr(self.machine, name) for name in names}
        arrays["rating_levels"] = self.scale
        return arrays if self.errors is None else arrays | self.errors.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RBMPosterior:
        names = ("weights", "visible_bias", "hidden_bias", "rated", "shares")
        machine = SoftmaxRBM(**{name: arrays[name] for name in names})
        return cls(machine, arrays["rating_levels"], ConformalErrors.from_arrays(arrays))


def positions(ratings: CSR, levels: DoubleArray) -> CSR:
    """Ratings as positions of the nearest levels."""
    return CSR(ratings.offsets, ratings.columns, Scale(levels).nearest(ratings.values).astype(np.float32))


@dataclass(frozen=True, eq=False)
class RBMBelief(Belief):
    """The hidden units of people."""

    posterior: RBMPosterior
    hidden: FloatMatrix
    counts: OffsetArray

    def __len__(self) -> int:
        return len(self.hidden)

    def mean(self, pairs: Pairs) -> FloatArray:
        """The expected rating of each pair; that of an unknown item is what it is on average."""
        machine, levels = self.posterior.machine, self.posterior.scale
        found = np.full(len(pairs), float(machine.shares.mean(axis=0) @ levels), np.float32)
        known = pairs.items >= 0
        with one_blas_thread():
            found[known] = expected_levels(machine, levels, self.hidden, pairs.rows[known], pairs.items[known])
        return found

    def scores(self, rows: IntArray) -> FloatMatrix:
        found = np.empty((len(rows), self.posterior.machine.n_items), np.float32)
        with one_blas_thread():
            for part, scores in expected_of_all(self.posterior.machine, self.posterior.scale, self.hidden[rows]):
                found[part] = scores
        return found

    @property
    def embeddings(self) -> FloatMatrix:
        return np.asarray(self.hidden - 0.5, np.float32)

    def predictive(self, pairs: Pairs) -> PredictiveDistribution | None:
        errors = self.posterior.errors
        if errors is None:
            return None
        return PredictiveDistribution(None, errors.ratings(self.mean(pairs), self.counts[pairs.rows]))


@dataclass(kw_only=True)
class RBM(Recommender):
    """A restricted Boltzmann machine of the ratings of a user (Salakhutdinov, Mnih and Hinton 2007).

    Visible units are softmax units over the levels of the items that a user has rated, and `n_hidden` binary units are
    behind them; which items are rated counts as well. The machine is trained by `steps` of Gibbs sampling from the data
    (`chains="cd"`, contrastive divergence) or from where a user's chain was in the epoch before ("pcd"), on
    `batch_size` users at a time. A rating is predicted by its expectation, given the probabilities of the hidden units.

    A `validation_share` of the training ratings is held out first, to find the number of epochs, and to calibrate
    intervals, as for `AutoRec`. A new user is placed by a forward pass. Ratings have to be on a scale of levels.
    """

    n_hidden: int = 100
    chains: Literal["cd", "pcd"] = "cd"
    steps: int = 1
    epochs: int = 50
    batch_size: int = 100
    learning_rate: float = 0.003
    momentum: float = 0.8
    weight_decay: float = 0.01
    validation_share: float = 0.1
    patience: int = 5

    posterior_class: ClassVar = RBMPosterior
    search_space: ClassVar = {
        "n_hidden": Range(16, 500, whole=True),
        "learning_rate": Range(0.0005, 0.05),
        "weight_decay": Range(0.0005, 0.2),
    }

    def check(self) -> None:
        super().check()
        for name in ("n_hidden", "steps", "epochs", "batch_size", "patience"):
            check_int(name, getattr(self, name), least=1)
        check_number("learning_rate", self.learning_rate, above=0)
        check_number("momentum", self.momentum, least=0, below=1)
        check_number("weight_decay", self.weight_decay, least=0)
        check_number("validation_share", self.validation_share, least=0, below=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> RBMPosterior:
        refuse_choices(observed, "RBM")
        low, high = observed.range
        levels = levels_of(observed.values) if low < high else np.array([low])
        if levels is None:
            raise DataError(
                f"the ratings have {len(np.unique(observed.values)):,} different values, and RBM learns the "
                "probability of each",
                expected="ratings on a scale of levels, such as stars; for continuous ones use autorec or bpmf",
            )
        epochs, errors = self.epochs, None
        parts = watched_part(observed, self.validation_share, rng)
        if parts is not None:
            train, watched = parts
            machine, epochs = self._train(train, watched, epochs, levels, "finding when to stop", rng, observer)
            errors = errors_on(watched, RBMPosterior(machine, levels, None), train, observed, 1)
        machine, _ = self._train(observed, None, epochs, levels, "Boltzmann machine", rng, observer)
        return RBMPosterior(machine, levels, errors)

    def _train(
        self,
        ratings: Ratings,
        watched: Ratings | None,
        epochs: int,
        levels: DoubleArray,
        phase: str,
        rng: Generator,
        observer: Observer,
    ) -> tuple[SoftmaxRBM, int]:
        history = positions(ratings.by_user, levels)

        def error(machine: SoftmaxRBM) -> float:
            assert watched is not None
            hidden = machine.hidden_means(history)
            found = expected_levels(machine, levels, hidden, watched.user_rows, watched.item_rows)
            return float(np.sqrt(np.mean((found - watched.values) ** 2)))

        return train_softmax_rbm(
            history,
            ratings.n_items,
            len(levels),
            self.n_hidden,
            rng=rng,
            chains=self.chains,
            steps=self.steps,
            epochs=epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            watch=None if watched is None else error,
            patience=self.patience,
            phase=phase,
            observer=observer,
        )
