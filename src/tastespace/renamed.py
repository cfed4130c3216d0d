"""Names of the first edition, and what they are now: the one place that knows them.

Old parameters are taken by constructors, `set_params`, the command line and configurations with a DeprecationWarning,
and by manifests of older artifacts without one.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from tastespace.settings import settings_text, split_settings

M = TypeVar("M", bound=type[Any])


class Moved(NamedTuple):
    """A parameter of a model that is now one of its settings: `levels` is `likelihood="ordinal:levels=..."`."""

    to: str  # the parameter of the model
    key: str  # the parameter of the settings
    default: Any


class Decides(NamedTuple):
    """A parameter of a model that is now the name of other settings: old value -> old name -> new name."""

    to: str
    names: Mapping[str, Mapping[str, str]]


# By the class of a model. What a class has, those that are made from it have, too.
PARAMETERS: Mapping[str, Mapping[str, Moved | Decides]] = {
    "BPMF": {
        "noise": Decides(
            "likelihood",
            {
                "constant": {"heteroscedastic": "gaussian"},
                "per-user-and-item": {"gaussian": "heteroscedastic"},
            },
        ),
        "noise_precision": Moved("likelihood", "precision", "learned"),
        "noise_shape": Moved("likelihood", "shape", 1.0),
        "noise_rate": Moved("likelihood", "rate", 1.0),
        "levels": Moved("likelihood", "levels", None),
        "negatives": Moved("likelihood", "negatives", None),
        "n_negatives": Moved("likelihood", "n_negatives", 10),
        "most_factors": Moved("prior", "max_factors", 64),
    },
}
# "auto" has no parameters of its own: what it means where it had some.
AUTO = {"prior": "ard"}


def old_parameters(model: type[Any]) -> dict[str, Moved | Decides]:
    """The old parameters of a model, by name."""
    found: dict[str, Moved | Decides] = {}
    for kind in model.__mro__:
        found |= PARAMETERS.get(kind.__name__, {})
    return found


def translated(
    model: type[Any], given: Mapping[str, Any], current: Mapping[str, Any] | None = None, *, warns: bool = True
) -> dict[str, Any]:
    """Parameters under the names of today. `current` has what is not given; None for the defaults of the model."""
    old = old_parameters(model)
    found = {name: value for name, value in given.items() if name not in old}
    for name, where in old.items():
        if name not in given:
            continue
        before = found.get(where.to, getattr(model, where.to) if current is None else current[where.to])
        kind, settings = split_settings(str(before))
        if isinstance(where, Decides):
            kind = where.names.get(str(given[name]), {kind: str(given[name])}).get(kind, kind)
        elif given[name] == where.default:
            settings.pop(where.key, None)
        else:
            kind = AUTO.get(where.to, kind) if kind == "auto" else kind
            settings[where.key] = settings_text(given[name])
        now = f"{kind}:{','.join(f'{key}={value}' for key, value in settings.items())}" if settings else kind
        if now != str(before):
            found[where.to] = now
        if warns:
            warnings.warn(
                f"{model.__name__} has no parameter {name!r} of its own any longer; use {where.to}={now!r}",
                DeprecationWarning,
                stacklevel=3,
            )
    return found


def takes_old_parameters(model: M) -> M:
    """Let the constructor of a model take its old parameters, too."""
    plain: Any = model.__init__

    @functools.wraps(plain)
    def init(self: Any, **parameters: Any) -> None:
        plain(self, **(translated(model, parameters) if parameters.keys() & old_parameters(model) else parameters))

    model.__init__ = init
    return model
