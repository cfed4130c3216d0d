"""What models of one-class data share: ratings are choices, and predictions are no ratings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids
from tastespace.errors import DataError, InvalidParameterError
from tastespace.models.recommender import Recommender
from tastespace.models.request import Request


@dataclass(kw_only=True)
class OneClass(Recommender):
    """A recommender that learns from what was chosen, once or often: values are counts, above 0."""

    @property
    def history_range(self) -> tuple[float, float]:
        """Anything may be chosen more often than it was in training; what says no is not doubtful but refused."""
        return -inf, inf

    def check_ratings(self, ratings: Ratings) -> None:
        self.require_choices(ratings)

    def _request(self, user_ids: Ids | None, history: Any, verb: str) -> Request:
        request = super()._request(user_ids, history, verb)
        wrong = np.flatnonzero(~(request.asked.seen.values > 0))
        if len(wrong):
            item = self.ratings_.items.ids[int(request.asked.seen.columns[wrong[0]])]
            raise InvalidParameterError(
                f"the history has item {item!r} with {request.asked.seen.values[wrong[0]]:g}; expected what was "
                "chosen, each above 0: leave out what was not"
            )
        return request

    def require_choices(self, ratings: Ratings) -> None:
        """Refuse what cannot be a count."""
        wrong = np.flatnonzero(~(ratings.values > 0))
        if not len(wrong):
            return
        first = wrong[0]
        user, item = ratings.users.ids[int(ratings.user_rows[first])], ratings.items.ids[int(ratings.item_rows[first])]
        raise DataError(
            f"{len(wrong):,} of {len(ratings):,} values are not above 0, such as {ratings.values[first]:g} of user "
            f"{user!r} and item {item!r}",
            expected=f"how often something was chosen, for {type(self).__name__}: leave out pairs that were not. For "
            "yes and no (1 and 0), or ratings that may be negative, use BPMF: see its likelihood",
        )
