"""The model of a fit: the one that was named, or the one that suits what the ratings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tastespace.cli.options import make_model
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models import EASE, MODELS, Popular, Recommender
from tastespace.models.suitable import misfit, suitable_model


@dataclass(frozen=True)
class Pick:
    """A recommender by its name, and why it is this one: None if somebody named it."""

    name: str
    recommender: Recommender
    reason: str | None = None

    def __str__(self) -> str:
        """As one line: what was picked, and why."""
        likelihood = self.recommender.get_params().get("likelihood")
        special = "" if likelihood in (None, "gaussian") else f" with likelihood={likelihood}"
        return f"{self.name}{special}, because {self.reason}"

    def doubts(self, ratings: Ratings, *, fades: bool) -> list[str]:
        """What may not be as intended; a model that was picked suits, unless parameters have changed it."""
        found = [doubt for doubt in (misfit(self.recommender, ratings),) if doubt is not None]
        if fades and _counts_ones(self.recommender):
            found.append(f"{self.name} counts every value as 1: --half-life changes nothing")
        elif fades and self.recommender.get_params().get("growth") == "none":
            found.append(f"{self.name} with growth=none counts every value as 1: --half-life changes nothing")
        return found


def _counts_ones(recommender: Recommender) -> bool:
    """Whether only who chose what matters, whatever the parameters."""
    draws_negatives = recommender.get_params().get("negatives") is not None and "likelihood" in recommender.get_params()
    return isinstance(recommender, EASE | Popular) or draws_negatives


def told(name: str, parameters: Mapping[str, Any]) -> Pick:
    """The model of this name."""
    return Pick(name, make_model(name, parameters))


def picked(ratings: Ratings, parameters: Mapping[str, Any]) -> Pick:
    """The model that suits these ratings; `parameters` go before those that suit."""
    recommender, reason = suitable_model(ratings)
    name = next(name for name, model in MODELS.items() if model is type(recommender))
    try:
        return Pick(name, make_model(name, {**recommender.get_params(), **parameters}), reason)
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"{error}. The model is {name} because {reason}; --model names another, --kind another kind"
        ) from error
