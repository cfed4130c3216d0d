"""What models of one-class data share: ratings are choices, and predictions are no ratings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Self

import numpy as np

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.errors import warn
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.update import refuse

NOT_CHOSEN = 0.0
# Anything may be chosen more often than it was in training; what says no is not doubtful but refused.
CHOICES_RANGE = (-inf, inf)


@dataclass(kw_only=True)
class OneClass(Recommender):
    """A recommender that learns from what was chosen, once or often: values are counts, above 0."""

    @property
    def not_rated(self) -> float | None:
        return NOT_CHOSEN

    @property
    def history_range(self) -> tuple[float, float]:
        return CHOICES_RANGE

    def suits(self, kind: Kind) -> bool:
        return kind in CHOICES

    def fit(self, observed: Ratings, **options: Any) -> Self:
        """Learn from what was chosen; see `Recommender.fit`. Of stars, 0 is one as well: what has it was chosen."""
        return super().fit(_above_zero(observed, type(self).__name__), **options)

    def check_ratings(self, ratings: Ratings) -> None:
        require_choices(ratings, type(self).__name__)


def _above_zero(observed: Ratings, name: str) -> Ratings:
    """Stars whose lowest is 0, with the next one in its place; all else as it is."""
    if not isinstance(observed, Ratings) or observed.kind != "stars" or observed.range[0] != 0 or not observed.range[1]:
        return observed
    is_zero = observed.values == 0
    lowest = observed.values[~is_zero].min()
    warn(
        f"{np.count_nonzero(is_zero):,} of {len(observed):,} stars are 0, the lowest: to {name} they are things chosen "
        f"like all others, and count as {lowest:g}. If 0 is for what was not chosen, leave those pairs out"
    )
    values, reason = np.where(is_zero, lowest, observed.values), observed.kind_and_reason.reason
    return replace(observed, values=values, declared_kind="stars", kind_reason=reason)


def require_choices(ratings: Ratings, name: str) -> None:
    """Refuse what cannot be a count, for a model of this name."""
    refuse(
        ratings,
        ~(ratings.values > 0),
        "values are not above 0, such as {value:g} of user {user!r} and item {item!r}",
        f"how often something was chosen, for {name}: leave out pairs that were not. For yes and no (1 and 0), or "
        "ratings that may be negative, use BPMF: see its likelihood",
    )
