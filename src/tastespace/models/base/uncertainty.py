"""How sure a list is: of each entry, intervals, and the probability that it belongs to the user's true best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.kinds import level_names
from tastespace.models.base.policies import RngOf
from tastespace.models.base.posterior import Belief, Pairs, ScoreUncertainty
from tastespace.models.base.query import Filters

DRAWS = 100  # from the posterior, for each user: a probability is known to 0.05 at worst
COVERAGE = 0.9  # of the intervals


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How sure the entries of lists are, users x n each; NaN where there is no item."""

    belief_sd: FloatMatrix  # of the expected rating
    rating_sd: FloatMatrix  # of a single rating
    low: FloatMatrix  # a rating lies between low and high with a probability of 90 %
    high: FloatMatrix
    top_n_probability: FloatMatrix  # that the item is one of the user's true best n, out of all that were allowed
    levels: DoubleArray | None = None  # what ratings can be, ascending; None for a continuous scale
    level_probabilities: FloatArray | None = None  # users x n x levels

    NAMES: ClassVar = ("belief_sd", "rating_sd", "low", "high", "top_n_probability")

    def take(self, users: Any) -> Uncertainty:
        """Of some users."""
        taken = {name: getattr(self, name)[users] for name in self.NAMES}
        if self.level_probabilities is not None:
            taken["level_probabilities"] = self.level_probabilities[users]
        return replace(self, **taken)

    def columns(self, levels: bool) -> dict[str, Any]:
        """The figures of all entries by name; also those of each level, if there are any."""
        columns = {name: getattr(self, name).reshape(-1) for name in self.NAMES}
        if levels and self.level_probabilities is not None:
            columns |= level_columns(
                self.levels, self.level_probabilities.reshape(-1, self.level_probabilities.shape[-1])
            )
        return columns


def level_columns(levels: DoubleArray | None, probabilities: NDArray[Any]) -> dict[str, Any]:
    """How likely each level is, a column each: `p_1`, `p_2` and so on."""
    return {f"p_{name}": probabilities[:, place] for place, name in enumerate(level_names(levels))}


def uncertainty_of(
    belief: Belief, item_rows: IntArray, n: int, filters: Filters, rng_of: RngOf, pool: IntArray | None = None
) -> Uncertainty | None:
    """How sure each user's items are (one row each, -1 for none); None for a model that does not know.

    The best n of all that the filters allow are meant. With a pool, a row of items a user, the best n of these and
    their own stand for them.
    """
    users, places = np.nonzero(item_rows >= 0)
    predictive = belief.predictive(Pairs(users.astype(np.int32), item_rows[users, places]))
    if predictive is None or belief.uncertainty is None:
        return None
    rating = predictive.rating
    found = [
        predictive.belief.sd(),
        rating.sd(),
        rating.quantile((1 - COVERAGE) / 2),
        rating.quantile((1 + COVERAGE) / 2),
    ]
    levels, probabilities = rating.levels, None
    if levels is not None:
        probabilities = np.full((*item_rows.shape, len(levels)), np.nan, np.float32)
        probabilities[users, places] = rating.level_probabilities()
    shaped = [np.full(item_rows.shape, np.nan, np.float32) for _ in found]
    for figures, values in zip(shaped, found, strict=True):
        figures[users, places] = values
    belief_sd, rating_sd, low, high = shaped
    top = _top_n_probabilities(belief.uncertainty, item_rows, n, filters, rng_of, pool)
    return Uncertainty(belief_sd, rating_sd, low, high, top, levels, probabilities)


def _top_n_probabilities(
    uncertainty: ScoreUncertainty,
    item_rows: IntArray,
    n: int,
    filters: Filters,
    rng_of: RngOf,
    pool: IntArray | None,
) -> FloatMatrix:
    """How often each item is among the best n of a draw."""
    probabilities = np.full(item_rows.shape, np.nan, np.float32)
    for user, row in enumerate(item_rows):
        listed = np.flatnonzero(row >= 0)
        if not len(listed):
            continue
        if pool is None:
            scores = uncertainty.draw_scores(user, DRAWS, rng_of(user))
            filters.forbid_to(scores, user)
            places = row[listed]
        else:
            items = np.union1d(row[listed], pool[user][pool[user] >= 0])
            scores = uncertainty.draw_scores(user, DRAWS, rng_of(user), items)
            places = np.searchsorted(items, row[listed])
        shares = np.empty(len(listed), np.float32)
        _native.top_shares(scores, contiguous(places, np.int32), min(n, scores.shape[1]), shares)
        probabilities[user, listed] = shares
    return probabilities
