"""A recommender from outside the package: one class and its posterior pass the suite, saving included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tastespace import Recommender, load, save
from tastespace.errors import ArtifactError
from tastespace.models.base.posterior import Belief, Posterior
from tastespace.testing.conformance import RecommenderConformance


class UserMeans(Belief):
    """Nobody's tastes: a user rates as they rated on average, and items differ by theirs."""

    def __init__(self, posterior, offsets):
        self.posterior, self.offsets = posterior, offsets

    def __len__(self):
        return len(self.offsets)

    def mean(self, pairs):
        items = np.where(pairs.items < 0, 0, self.posterior.items[pairs.items])
        return (self.offsets[pairs.rows] + items).astype(np.float32)

    def scores(self, rows):
        return (self.offsets[rows, None] + self.posterior.items).astype(np.float32)


@dataclass(frozen=True, eq=False)
class MeansPosterior(Posterior):
    mean: float
    items: np.ndarray  # what each item gets beyond the mean

    keeps_users = False

    def believe(self, people, threads):
        history = people.history
        beyond = history.values - self.mean - self.items[history.columns]
        total = np.bincount(history.rows(), beyond, minlength=len(history))
        return UserMeans(self, self.mean + total / (history.counts + 5.0))

    def arrays(self):
        return {"mean": np.array([self.mean]), "items": self.items}

    @classmethod
    def from_arrays(cls, arrays):
        return cls(float(arrays["mean"][0]), arrays["items"])


@dataclass(kw_only=True)
class Theirs(Recommender):
    damping: float = 5.0

    posterior_class = MeansPosterior

    def infer(self, observed, rng, observer, held_out=None):
        total = np.bincount(observed.item_rows, observed.values - observed.mean, observed.n_items)
        counts = np.bincount(observed.item_rows, minlength=observed.n_items)
        return MeansPosterior(observed.mean, total / (counts + self.damping))


class TestTheirs(RecommenderConformance):
    is_personal = False
    keeps_users = False

    def make(self, **parameters):
        return Theirs(**parameters)

    def test_it_is_loaded_only_by_who_names_it(self, fitted, tmp_path):
        """What an artifact says is never imported."""
        save(fitted, tmp_path / "model")
        with pytest.raises(ArtifactError, match="models="):
            load(tmp_path / "model")
        assert type(load(tmp_path / "model", models=[Theirs])) is Theirs
