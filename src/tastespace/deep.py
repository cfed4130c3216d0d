"""Features of users or items, learned from ratings by networks: to look at them, to search by them, or as side
information of another model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from tastespace.arrays import FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.models.composed.deep_knn import DeepKNN, Method, encoded, learn_network
from tastespace.networks.inputs import Rows
from tastespace.parameters import check_option
from tastespace.progress import Observer, silent
from tastespace.randomness import generator, resolve

Side = Literal["users", "items"]
Of = Literal["ratings", "pattern"]


@dataclass(frozen=True, eq=False)
class PatternRows:
    """1 where there is a rating, and 0 where not, some rows at a time."""

    history: CSR
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.history), self.n_columns

    def take(self, rows: IntArray) -> FloatMatrix:
        known = self.history.take(rows)
        found = np.zeros((len(rows), self.n_columns), np.float32)
        found[known.rows(), known.columns] = 1
        return found


def features(
    ratings: Ratings,
    *,
    side: Side = "users",
    method: Method = "rbm",
    of: Of = "ratings",
    n_features: int = 64,
    n_hidden: int = 256,
    epochs: int = 50,
    n_factors: int = 16,
    seed: int | None = None,
    threads: int | None = None,
    observer: Observer = silent,
) -> pl.DataFrame:
    """Learn features of users or of items: a table with their ids, and `n_features` numbers each.

    `method` is a stacked "autoencoder" (needs PyTorch, the extra `deep`), "rbm" or "dbn"; "filled" are the inputs
    themselves. With `of="ratings"` these are the ratings, filled by an `ALS` with `n_factors` where there are none, as
    for `DeepKNN`. With "pattern" they are 1 where there is a rating and 0 where not.

    Use only features of the pattern, or of other ratings than those of the model, as features of a model with a prior
    (`Ratings.with_user_features`): learned from the values of the same ratings, they tell the prior what the
    likelihood tells again, and the model becomes far too certain.
    """
    check_option("side", side, ("users", "items"))
    check_option("of", of, ("ratings", "pattern"))
    model = DeepKNN(
        features=method,
        n_features=n_features,
        n_hidden=n_hidden,
        epochs=epochs,
        n_factors=n_factors,
        seed=seed,
        threads=threads,
    )
    model.check()
    rng = generator(resolve(seed))
    if side == "items":
        ratings = _turned(ratings)
    rows: Rows = PatternRows(ratings.by_user, ratings.n_items)
    if of == "ratings":
        _, rows = model.filled(ratings, rng, observer)
    found = encoded(learn_network(method, rows, n_hidden, n_features, epochs, rng, observer), rows)
    ids = ratings.users.ids.alias(side.removesuffix("s"))
    return pl.DataFrame([ids, pl.Series(f"{method}_of_{of}", found, dtype=pl.Array(pl.Float32, found.shape[1]))])


def _turned(ratings: Ratings) -> Ratings:
    """The same ratings with items as users."""
    return Ratings(ratings.items, ratings.users, ratings.item_rows, ratings.user_rows, ratings.values)
