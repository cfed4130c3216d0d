"""Which model suits ratings, by their feedback type, and why."""

from __future__ import annotations

from typing import NamedTuple

from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.base.recommender import Recommender
from tastespace.models.composed.joint import Joint
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.implicit.implicit_als import ImplicitALS

FIRST_CHOICES: dict[Kind, type[Recommender]] = {  # the model to begin with, by the kind of the ratings
    "stars": Joint,
    "yes-no": BPMF,
    "counts": ImplicitALS,
    "one-class": ImplicitALS,
}


class Suited(NamedTuple):
    """An unfitted recommender, and the reason why it suits."""

    recommender: Recommender
    reason: str


def suitable_model(ratings: Ratings, *, seed: int | None = None) -> Suited:
    """The model to begin with: ``model, reason = suitable_model(ratings)``, and then ``model.fit(ratings)``.

    `Joint` for stars, `BPMF` with the logistic likelihood for yes and no, `ImplicitALS` for counts and one-class
    ratings. The reason says what kind the ratings are, and how that is known (see `Ratings.kind`).
    """
    if not isinstance(ratings, Ratings):
        raise InvalidParameterError(
            f"suitable_model got {type(ratings).__name__}; expected Ratings: use tastespace.read or Ratings.from_frame"
        )
    kind, known_by = ratings.kind_and_reason
    return Suited(suited(FIRST_CHOICES[kind], ratings).set_params(seed=seed), f"the values are {kind}: {known_by}")


def suited(model: type[Recommender], ratings: Ratings) -> Recommender:
    """A model of this class with the parameters that suit the kind of the ratings, all others at their defaults."""
    return model(**model.settings_for(ratings.kind))


def misfit(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why a model does not suit ratings, and which would, in a sentence; None if there is nothing to say."""
    (kind, known_by), name = ratings.kind_and_reason, type(recommender).__name__
    if recommender.needs_features and (ratings.item_features is None or not ratings.item_features.n_columns):
        return (
            f"{name} knows items by their features alone, and there are none; expected item features (--item-features, "
            "in Python Ratings.with_item_features)"
        )
    if recommender.suits("one-class"):
        if recommender.suits("stars") or kind != "stars" or ratings.range[0] <= 0:
            return None  # Values that cannot be implicit feedback are an error of the fit, which is enough.
        return (
            f"the values are stars ({known_by}), but {name} takes all of them for choices, even the lowest; "
            "joint would suit"
        )
    low, high = ratings.range
    if low == high and kind == "yes-no" and isinstance(recommender, BPMF) and recommender.takes_answers:
        return None  # An error of the fit, too.
    if low == high:
        advice = "; for what was clicked, played or bought, implicit-als would suit" if kind in CHOICES else ""
        return f"all ratings are {low:g}: their values say nothing, and neither will predictions of {name}{advice}"
    if kind in CHOICES:
        declared = "" if ratings.declared_kind else "; if they are stars, declare it (in Python kind=, else --kind)"
        return (
            f"the values are {kind} ({known_by}), but {name} takes them for stars, so lists hold items that few chose "
            f"often; implicit-als would suit{declared}"
        )
    return None
