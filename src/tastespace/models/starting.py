"""A fit that begins where another model ended: its items, by their ids; users are soon placed by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray, DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.posterior import Posterior
from tastespace.progress import Observer


@dataclass(frozen=True, eq=False)
class ItemPoints:
    """Items as factors and biases, in units of ratings: rating = mean + user bias + bias + user . factors."""

    factors: DoubleArray  # items x factors
    bias: DoubleArray  # one an item; 0 where there are none


@runtime_checkable
class HasItemPoints(Protocol):
    """Capability of a posterior: another fit can begin from its items."""

    def item_points(self) -> ItemPoints: ...


@dataclass(frozen=True, eq=False)
class Start:
    """Where the items of a fit begin; those that the other model does not know are 0."""

    points: ItemPoints
    known: BoolArray  # one an item

    def factors(self, n_factors: int, sd: float, rng: Generator) -> DoubleArray:
        """So many factors of each item: the strongest directions of those there are, and small chance for the rest.

        Which coordinates tastes have does not matter, as users are placed by the items; so directions may be turned.
        """
        given, known = self.points.factors, self.known
        factors: DoubleArray = sd * rng.standard_normal((len(known), n_factors))
        if given.shape[1] > n_factors:
            _, turn = np.linalg.eigh(given.T @ given)
            given = given @ turn[:, ::-1][:, :n_factors]
        factors[known, : given.shape[1]] = given[known]
        return factors


@runtime_checkable
class Startable(Protocol):
    """Capability of a recommender: its inference can begin from the items of another model."""

    def infer_from(
        self, start: Start, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None
    ) -> Posterior[Any]: ...


def startable(recommender: Any) -> Startable:
    """The recommender; one that has no use for a start is refused."""
    if not isinstance(recommender, Startable):
        raise InvalidParameterError(
            f"{type(recommender).__name__} does not begin from another model; expected start=None, or a model of "
            "factors, such as BPMF"
        )
    return recommender


def start_of(other: Any, observed: Ratings) -> Start:
    """The items of a fitted recommender as the start of a fit to these ratings."""
    posterior = getattr(other, "posterior_", None)
    if posterior is None or not isinstance(posterior, HasItemPoints):
        what = f"{type(other).__name__} that is not fitted" if hasattr(other, "fit") else type(other).__name__
        what = what if posterior is None else f"{type(other).__name__}, which has no factors in units of ratings"
        raise InvalidParameterError(f"start is a {what}; expected a fitted model with factors, such as ALS or BPMF")
    points = posterior.item_points()
    rows = other.ratings_.items.rows_of(observed.items.ids)
    known = rows >= 0
    if not known.any():
        raise InvalidParameterError(
            "start knows none of the items that are to be learned; expected a model fitted on ratings of the same items"
        )
    factors, bias = np.zeros((len(rows), points.factors.shape[1])), np.zeros(len(rows))
    factors[known], bias[known] = points.factors[rows[known]], points.bias[rows[known]]
    return Start(ItemPoints(factors, bias), np.asarray(known))
