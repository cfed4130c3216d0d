"""Split-conformal intervals: the errors of held-out ratings around point predictions, by groups of users.

A rating is its prediction plus one of the errors made on ratings that training had not seen. The errors are kept as
quantiles of each group, from users with few ratings to users with many; the outer ones are taken one rank further out,
so that an interval covers a new rating of the group with at least its probability, as long as ratings are
exchangeable (Vovk, Gammerman and Shafer 2005; Lei et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings

MIN_ERRORS = 20  # fewer say nothing about the tails
GROUP_ERRORS = 1000  # of a group, where there are enough for several
MAX_GROUPS = 5
N_QUANTILES = 100
WIDTH = 0.1  # of the normals around the quantiles, in sds of the errors


@dataclass(frozen=True, eq=False)
class ConformalErrors:
    """Quantiles of errors, one row for each group of users by their number of ratings."""

    edges: DoubleArray  # numbers of ratings from which the second group, the third and so on begin
    quantiles: FloatMatrix  # groups x N_QUANTILES, ascending
    low: float  # the lowest and the highest rating
    high: float
    levels: DoubleArray | None  # None for a continuous scale

    @classmethod
    def of(
        cls,
        errors: NDArray[Any],
        counts: NDArray[Any],
        rating_range: tuple[float, float],
        levels: DoubleArray | None,
    ) -> ConformalErrors | None:
        """Errors of held-out ratings, and the number of ratings of the user of each; None if they are too few."""
        if len(errors) < MIN_ERRORS:
            return None
        n_groups = int(np.clip(len(errors) // GROUP_ERRORS, 1, MAX_GROUPS))
        edges = np.unique(np.quantile(counts, np.arange(1, n_groups) / n_groups, method="higher"))
        edges = edges[edges > counts.min()]
        group = np.searchsorted(edges, counts, side="right")
        filled = [part for place in range(len(edges) + 1) if len(part := errors[group == place]) >= MIN_ERRORS]
        if len(filled) <= len(edges):  # Ties have left a group nearly empty.
            edges, filled = edges[:0], [errors]
        quantiles = np.stack([_quantiles(np.sort(part)) for part in filled])
        return cls(edges.astype(np.float64), quantiles.astype(np.float32), *rating_range, levels)

    def ratings(self, predicted: FloatArray, counts: NDArray[Any]) -> NormalRatings:
        """The distributions of ratings with these predictions, by users with these numbers of ratings."""
        rows = self.quantiles[np.searchsorted(self.edges, counts, side="right")]
        means = np.clip(predicted, self.low, self.high)[:, None].astype(np.float32) + rows
        widths = np.broadcast_to(np.maximum(WIDTH * rows.std(axis=1, keepdims=True), 1e-6), means.shape)
        return NormalRatings(NormalMixture(means, widths.astype(np.float32)), self.low, self.high, self.levels)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        arrays: dict[str, NDArray[Any]] = {
            "error_edges": self.edges,
            "error_quantiles": self.quantiles,
            "rating_range": np.array([self.low, self.high]),
        }
        return arrays if self.levels is None else arrays | {"levels": self.levels}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ConformalErrors | None:
        """The same errors from their `arrays`; None if there are none."""
        if "error_quantiles" not in arrays:
            return None
        low, high = (float(end) for end in arrays["rating_range"])
        edges, quantiles = arrays["error_edges"], arrays["error_quantiles"]
        if len(quantiles) != len(edges) + 1:
            raise ValueError("the errors do not fit their groups")
        return cls(edges, quantiles, low, high, arrays.get("levels"))


def _quantiles(ordered: NDArray[Any]) -> NDArray[Any]:
    """The quantiles of sorted errors at 1, 2 ... per cent, those in the tails at the rank that covers enough."""
    n, places = len(ordered), np.arange(1, N_QUANTILES + 1)
    above = 2 * places > N_QUANTILES
    ranks = ((n + 1) * places + np.where(above, N_QUANTILES - 1, 0)) // N_QUANTILES  # rounded up above the median
    return np.asarray(ordered[np.clip(ranks, 1, n) - 1])
