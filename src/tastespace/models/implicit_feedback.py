"""What models of one-class data share: ratings are choices, and predictions are no ratings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
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

    def check_ratings(self, ratings: Ratings) -> None:
        require_choices(ratings, type(self).__name__)


def require_choices(ratings: Ratings, name: str) -> None:
    """Refuse what cannot be a count, for a model of this name."""
    refuse(
        ratings,
        ~(ratings.values > 0),
        "values are not above 0, such as {value:g} of user {user!r} and item {item!r}",
        f"how often something was chosen, for {name}: leave out pairs that were not. For yes and no (1 and 0), or "
        "ratings that may be negative, use BPMF: see its likelihood",
    )
