"""How sure a list is: of each entry, intervals, and the probability that it belongs to the user's true best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import FloatMatrix, IntArray, contiguous
from tastespace.models.base.candidates import forbid
from tastespace.models.base.posterior import Uncertain
from tastespace.models.base.ranking import Rules, Uncertainty
from tastespace.threads import one_blas_thread

DRAWS = 100  # from the posterior, for each user: a probability is known to 0.05 at worst
COVERAGE = 0.9  # of the intervals


@dataclass(frozen=True, eq=False)
class Sure:
    """All that it takes to say how sure the lists of a request are."""

    posterior: Uncertain[Any]
    belief: Any
    rules: Rules
    rng_of: Callable[[int], Generator]
    threads: int

    def of(self, item_rows: IntArray, n: int, pool: IntArray | None = None) -> Uncertainty:
        """Of the items of each user (one row each, -1 for none): the best n of all that the rules allow are meant.

        With a pool, a row of items a user, the best n of these and his own stand for them.
        """
        users, places = np.nonzero(item_rows >= 0)
        outlook = self.posterior.outlook(self.belief, users.astype(np.int32), item_rows[users, places], self.threads)
        found = [
            outlook.belief.sd(),
            outlook.rating.sd(),
            outlook.rating.quantile((1 - COVERAGE) / 2),
            outlook.rating.quantile((1 + COVERAGE) / 2),
        ]
        shaped = [np.full(item_rows.shape, np.nan, np.float32) for _ in found]
        for figures, values in zip(shaped, found, strict=True):
            figures[users, places] = values
        levels, probabilities = outlook.rating.levels, None
        if levels is not None:
            probabilities = np.full((*item_rows.shape, len(levels)), np.nan, np.float32)
            probabilities[users, places] = outlook.rating.level_probabilities()
        belief_sd, rating_sd, low, high = shaped
        return Uncertainty(belief_sd, rating_sd, low, high, self._top_n(item_rows, n, pool), levels, probabilities)

    def _top_n(self, item_rows: IntArray, n: int, pool: IntArray | None) -> FloatMatrix:
        probabilities = np.full(item_rows.shape, np.nan, np.float32)
        with one_blas_thread():
            for user, row in enumerate(item_rows):
                listed = np.flatnonzero(row >= 0)
                if not len(listed):
                    continue
                if pool is None:
                    scores = self.posterior.draw_scores(self.belief, user, DRAWS, self.rng_of(user))
                    self._allow(scores, user)
                    places = row[listed]
                else:
                    items = np.union1d(row[listed], pool[user][pool[user] >= 0])
                    scores = self.posterior.draw_scores(self.belief, user, DRAWS, self.rng_of(user), items)
                    places = np.searchsorted(items, row[listed])
                shares = np.empty(len(listed), np.float32)
                _native.top_shares(scores, contiguous(places, np.int32), min(n, scores.shape[1]), shares)
                probabilities[user, listed] = shares
        return probabilities

    def _allow(self, scores: FloatMatrix, user: int) -> None:
        """Write minus infinity where an item must not be shown to the user; one row a draw."""
        rules = self.rules
        if rules.own is not None:
            mine = rules.own.columns[rules.own.offsets[user] : rules.own.offsets[user + 1]]
            others = np.ones(scores.shape[1], np.bool_)
            others[mine] = False
            scores[:, others] = -np.inf
            return
        forbid(scores, np.zeros(1, np.int32), None, rules.allowed)
        if rules.excluded is not None:
            scores[:, rules.excluded.items[rules.excluded.offsets[user] : rules.excluded.offsets[user + 1]]] = -np.inf
