"""The generative story as an object: what makes tests of samplers generic."""

from __future__ import annotations

from typing import Protocol, TypeVar

from numpy.random import Generator

from tastespace.arrays import DoubleArray, IntArray
from tastespace.data.ratings import Ratings

Params = TypeVar("Params")


class Model(Protocol[Params]):
    """Parameters from a prior, ratings given parameters."""

    def sample_prior(self, where: Ratings, rng: Generator) -> Params:
        """Parameters for as many users and items as these ratings have."""
        ...

    def simulate(self, params: Params, where: Ratings, rng: Generator) -> Ratings:
        """Ratings of the same pairs, drawn from the model."""
        ...

    def log_joint(self, params: Params, observed: Ratings) -> float:
        """Log density of parameters and ratings together."""
        ...

    def expected_value(self, params: Params, user_rows: IntArray, item_rows: IntArray) -> DoubleArray:
        """The mean rating of each pair."""
        ...
