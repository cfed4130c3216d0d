"""What it makes sense to measure: decided by what ratings say, and by what a model predicts.

stars                how far predicted ratings are off, whether a model is as sure as it should be, and lists
yes-no               how well the probability of yes foretells it, and lists
counts, one-class    lists alone: nothing is known of what was not chosen, and an error of ones says nothing
a model of choices   lists alone, whatever the ratings: its predictions are no ratings
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tastespace.data.kinds import CHOICES, Kind, guess_kind
from tastespace.data.ratings import Ratings
from tastespace.evaluation.predicted import STANDARD, Metric
from tastespace.evaluation.yes_no import YES_NO
from tastespace.models import Recommender


@dataclass(frozen=True)
class Sense:
    """What a recommender can be asked on test ratings."""

    kind: Kind  # of training and test ratings
    predicts_ratings: bool

    @property
    def is_of_lists(self) -> bool:
        """Whether lists are all there is to measure."""
        return self.kind in CHOICES or not self.predicts_ratings

    @property
    def is_of_answers(self) -> bool:
        """Whether predictions are probabilities of yes."""
        return self.kind == "yes-no" and self.predicts_ratings

    @property
    def is_of_stars(self) -> bool:
        """Whether predictions are ratings, whose distributions may be judged."""
        return self.kind == "stars" and self.predicts_ratings

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Measures of predictions."""
        return STANDARD if self.is_of_stars else YES_NO if self.is_of_answers else {}


def sense_of(recommender: Recommender, test: Ratings) -> Sense:
    """What this recommender can be asked on these ratings.

    A declared kind is believed, that of the test ratings first. A guess is made of all values together: a few test
    ratings of five stars are no one-class data. But whoever has learned from choices alone knows no stars, and an error
    of ones says nothing.
    """
    trained = recommender.ratings_
    kind = test.declared_kind or trained.declared_kind
    if kind is None:
        # Without the ratings, all that is known of them is their range.
        known = trained.values if len(trained) else np.array(recommender.rating_range_, np.float32)
        kind = guess_kind(np.concatenate([known, test.values])).kind
    if kind == "stars" and _learned_from_choices(recommender):
        kind = "counts"
    # To a model of choices it says something that a thing was not rated.
    return Sense(kind, predicts_ratings=recommender.not_rated is None)


def _learned_from_choices(recommender: Recommender) -> bool:
    """Whether the training ratings were declared to be choices, or are all 1."""
    trained = recommender.ratings_
    if trained.declared_kind is not None:
        return trained.declared_kind in CHOICES
    return bool(len(trained)) and trained.range == (1, 1)
