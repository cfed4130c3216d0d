"""What implicit models share: values are implicit feedback, and predictions are not ratings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Self

import numpy as np

from tastespace.data.formats.files import ratings_of
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.errors import warn
from tastespace.models.base.recommender import Recommender
from tastespace.models.base.update import refuse

NOT_CHOSEN = 0.0
# Anything may be chosen more often than in training; a value that says no is an error, not a warning.
CHOICES_RANGE = (-inf, inf)


@dataclass(kw_only=True)
class OneClass(Recommender):
    """A recommender that learns from implicit feedback: values are counts of choices, above 0."""

    @property
    def not_rated(self) -> float | None:
        return NOT_CHOSEN

    @property
    def history_range(self) -> tuple[float, float]:
        return CHOICES_RANGE

    def suits(self, kind: Kind) -> bool:
        return kind in CHOICES

    def fit(self, observed: Any, **options: Any) -> Self:
        """Learn from implicit feedback; see `Recommender.fit`. A star rating of 0 counts as a choice like others."""
        return super().fit(_above_zero(ratings_of(observed, "fit"), type(self).__name__), **options)

    def check_ratings(self, ratings: Ratings) -> None:
        require_choices(ratings, type(self).__name__)


def _above_zero(observed: Ratings, name: str) -> Ratings:
    """Stars whose lowest is 0, with the next one in its place; all others unchanged."""
    if observed.kind != "stars" or observed.range[0] != 0 or not observed.range[1]:
        return observed
    is_zero = observed.values == 0
    lowest = observed.values[~is_zero].min()
    warn(
        f"{np.count_nonzero(is_zero):,} of {len(observed):,} stars are 0, the lowest: for {name} they are choices "
        f"like all others, and count as {lowest:g}. If 0 means not chosen, leave those pairs out"
    )
    values, reason = np.where(is_zero, lowest, observed.values), observed.kind_and_reason.reason
    return replace(observed, values=values, declared_kind="stars", kind_reason=reason)


def require_choices(ratings: Ratings, name: str) -> None:
    """Refuse values that cannot be counts, for a model of this name."""
    refuse(
        ratings,
        ~(ratings.values > 0),
        "values are not above 0, such as {value:g} of user {user!r} and item {item!r}",
        f"how often an item was chosen, for {name}: leave out pairs that were not. For yes and no (1 and 0), or "
        "ratings that may be negative, use BPMF: see its likelihood",
    )
