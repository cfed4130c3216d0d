"""Which models take part in a contest: all that suit the ratings."""

from __future__ import annotations

from typing import Any

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.models import MODELS, Recommender
from tastespace.models.choices import OneClass
from tastespace.models.suitable import misfit, suitable_model


def suitable_models(ratings: Ratings, *, seed: int | None = None, threads: int | None = None) -> dict[str, Recommender]:
    """Every model that makes something of what these ratings say, by its name, with parameters that suit them."""
    entrants = {name: suited(model, ratings) for name, model in MODELS.items()}
    return {
        name: model.set_params(seed=seed, threads=threads)
        for name, model in entrants.items()
        if unsuitable(model, ratings) is None
    }


def suited(model: type[Recommender], ratings: Ratings) -> Recommender:
    """A model of this class with the parameters that the kind of the ratings asks for, all others as usual.

    A family has the same parameters: what `suitable_model` chooses for `BPMF` goes for those made from it, too.
    """
    chosen = suitable_model(ratings).recommender
    return model(**chosen.get_params()) if model is type(chosen) else model(**_likelihood(model, chosen))


def unsuitable(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why a model cannot be expected to make anything of these ratings; None if it can."""
    kind, known_by = ratings.kind_and_reason
    if isinstance(recommender, OneClass) and kind not in CHOICES:
        name = type(recommender).__name__
        return f"the values are {kind} ({known_by}), and {name} takes all of them for things chosen; bpmf would suit"
    return misfit(recommender, ratings)


def _likelihood(model: type[Recommender], chosen: Recommender) -> dict[str, Any]:
    """The likelihood that suits, for another class that has likelihoods as the chosen one."""
    parameters = chosen.get_params()
    return (
        {"likelihood": parameters["likelihood"]}
        if issubclass(model, type(chosen)) and "likelihood" in parameters
        else {}
    )
