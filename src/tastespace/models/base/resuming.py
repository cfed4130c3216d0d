"""Interrupted and warm-started fits: checkpoints to continue from, and items of another model to start from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.checkpoints import Checkpoints
from tastespace.threads import instruction_set
from tastespace.version import __version__

if TYPE_CHECKING:
    from tastespace.models.base.recommender import Recommender

NOT_PART_OF_IT = ("seed", "threads")  # the number of threads changes nothing; the resolved seed is recorded separately


def run_of(
    name: str, parameters: Mapping[str, Any], seed: int, observed: Ratings, held_out: Ratings | None
) -> dict[str, Any]:
    """The description of a run for JSON, including held-out ratings, whose errors are kept in the model's trace."""
    return {
        "tastespace": __version__,
        "instruction set": instruction_set(),  # Others round differently: the bytes would not be the same.
        "model": name,
        **{key: _plain(value) for key, value in parameters.items() if key not in NOT_PART_OF_IT},
        "seed": seed,
        "ratings": described(observed),
        "held-out ratings": None if held_out is None else described(held_out),
    }


def described(ratings: Ratings) -> str:
    """The number of ratings, and a digest of users, items and values in this order, by which rows are numbered.

    (The fingerprint of ratings is the same for any order, so it is not used here.)
    """
    digest = hashlib.sha256()
    for vocabulary in (ratings.users, ratings.items):
        ids = vocabulary.ids
        digest.update(f"{ids.dtype} {len(ids)}\n".encode())
        texts = ids.cast(pl.String)
        lengths = texts.str.len_bytes().to_numpy()  # They separate ids whatever these contain.
        digest.update(np.ascontiguousarray(lengths, np.int64).tobytes())
        digest.update(texts.str.join("").item().encode())
    for array in (ratings.user_rows, ratings.item_rows, ratings.values):
        digest.update(np.ascontiguousarray(array).data)
    sizes = f"{len(ratings):,} by {ratings.n_users:,} users of {ratings.n_items:,} items"
    return f"{sizes}, {digest.hexdigest()[:16]}"


def _plain(value: Any) -> Any:
    """A parameter for JSON: NumPy numbers equal Python's, and tuples equal lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def check_resumable(recommender: Recommender, checkpoints: Checkpoints) -> None:
    """Refuse anything but checkpoints, models that keep none, and a combination that is not allowed."""
    if not isinstance(checkpoints, Checkpoints):
        raise InvalidParameterError(
            f"checkpoints is {checkpoints!r}; expected Checkpoints, such as tastespace.Checkpoints('folder')"
        )
    if not recommender.keeps_checkpoints:
        raise InvalidParameterError(
            f"{type(recommender).__name__} keeps no checkpoints: it draws no samples; "
            "expected none, or a model that samples, such as BPMF"
        )
    checkpoints.check()


@dataclass(frozen=True, eq=False)
class ItemPoints:
    """Items as factors and biases, in units of ratings: rating = mean + user bias + bias + user . factors."""

    factors: DoubleArray  # items x factors
    bias: DoubleArray  # one per item; 0 where there are none


@dataclass(frozen=True, eq=False)
class Start:
    """The initial items of a fit; 0 for items that the other model does not know."""

    points: ItemPoints
    known: BoolArray  # one per item

    def factors(self, n_factors: int, sd: float, rng: Generator) -> DoubleArray:
        """A number of factors for each item: the strongest directions of the other model, and small random numbers.

        The coordinates of a taste space are arbitrary, as users are placed by the items; so directions may be rotated.
        """
        given, known = self.points.factors, self.known
        factors: DoubleArray = sd * rng.standard_normal((len(known), n_factors))
        if given.shape[1] > n_factors:
            _, turn = np.linalg.eigh(given.T @ given)
            given = given @ turn[:, ::-1][:, :n_factors]
        factors[known, : given.shape[1]] = given[known]
        return factors


def check_startable(recommender: Recommender) -> None:
    """Refuse a recommender that cannot start from another."""
    if not recommender.begins_from_others:
        raise InvalidParameterError(
            f"{type(recommender).__name__} cannot start from another model; expected start=None, or a model with "
            "factors, such as BPMF"
        )


def start_of(other: Any, observed: Ratings) -> Start:
    """The items of a fitted recommender as the start of a fit to these ratings."""
    posterior = getattr(other, "posterior_", None)
    if posterior is None or posterior.item_points is None:
        what = f"{type(other).__name__} that is not fitted" if hasattr(other, "fit") else type(other).__name__
        what = what if posterior is None else f"{type(other).__name__}, which has no factors in units of ratings"
        raise InvalidParameterError(f"start is a {what}; expected a fitted model with factors, such as ALS or BPMF")
    points = posterior.item_points()
    rows = other.ratings_.items.rows_of(observed.items.ids)
    known = rows >= 0
    if not known.any():
        raise InvalidParameterError(
            "start knows none of the items to be learned; expected a model fitted on ratings of the same items"
        )
    factors, bias = np.zeros((len(rows), points.factors.shape[1])), np.zeros(len(rows))
    factors[known], bias[known] = points.factors[rows[known]], points.bias[rows[known]]
    return Start(ItemPoints(factors, bias), np.asarray(known))
