"""Models of a contest that begin from others of it: which have to be fitted before, and whether that is possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.models import Recommender
from tastespace.models.starting import startable


def beginnings(starts: Mapping[str, str], names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Of each model that begins from another: the names of those to fit before it, in this order."""
    if not isinstance(starts, Mapping):
        raise InvalidParameterError(f"starts is {starts!r}; expected names of models by names, {{name: start}}")
    for name, start in starts.items():
        for said in (name, start):
            if said not in names:
                raise InvalidParameterError(
                    f"{name!r} is to begin from {start!r}, and no model {said!r} takes part; expected some of "
                    f"{', '.join(names)}"
                )
    return {name: _before(name, starts) for name in starts}


def _before(name: str, starts: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    while starts.get(name) is not None:
        name = starts[name]
        if name in found:
            circle = " begins from ".join([*found[found.index(name) :], name])
            raise InvalidParameterError(f"{circle}: that is a circle; expected one that begins by itself")
        found.append(name)
    return tuple(reversed(found))


def cannot_begin(recommender: Any) -> str | None:
    """Why a model cannot begin from another; None if it can."""
    try:
        startable(recommender)
    except TastespaceError as error:
        return str(error)
    return None


def described(models: Mapping[str, Recommender], before: Collection[str]) -> tuple[tuple[type[Recommender], Any], ...]:
    """Classes and parameters of these models, for another process to make them."""
    return tuple((type(models[name]), models[name].get_params()) for name in before)
