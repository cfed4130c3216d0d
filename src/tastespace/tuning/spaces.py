"""What of each model is searched, and between which ends: the one table of it.

Searched is what a model has to be told. What it learns from the ratings is not: the models with a posterior learn how
strong noise and priors are, so that of them only the number of factors is left. How long a fit may take (sweeps, draws,
epochs) is no setting to be searched either: longer is better, or stopped by the model itself.

Some settings have a unit that depends on the ratings. A shrinkage by 25 common raters is strong where few people rate,
and a fit on a third of the users has a third of the raters. Such a setting is searched as a multiple of its `unit`, so
that it means the same for some of the users and for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError

Unit = Callable[[Ratings], float]


def no_unit(ratings: Ratings) -> float:
    """A setting that means the same whatever the ratings are."""
    return 1.0


def spread(ratings: Ratings) -> float:
    """Of what has the unit of the ratings: their standard deviation."""
    return float(np.std(ratings.values, dtype=np.float64)) or 1.0


def thousand_users(ratings: Ratings) -> float:
    """Of what is held against the number of users who have rated a thing."""
    return ratings.n_users / 1000


def cells(ratings: Ratings) -> float:
    """Of what is held against a whole row of users or of items."""
    return float(np.sqrt(ratings.n_users * ratings.n_items))


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, in multiples of the unit; tried evenly on a scale of logarithms."""

    low: float
    high: float
    whole: bool = False
    unit: Unit = no_unit

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < np.inf:
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected numbers above 0, the lower one first"
            )
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise InvalidParameterError(
                f"a range goes from {self.low:g} to {self.high:g}; expected whole numbers for this setting"
            )

    def value(self, searched: Any, ratings: Ratings) -> Any:
        """What a model is told for these ratings: to three digits, so that it can be written down as it was tried."""
        return int(searched) if self.whole else float(f"{searched * self.unit(ratings):.3g}")

    def between(self, low: float, high: float, ratings: Ratings) -> Range:
        """The same setting with other ends: what a model would be told for these ratings."""
        unit = self.unit(ratings)
        return Range(low / unit, high / unit, self.whole, self.unit)

    def told(self, ratings: Ratings) -> str:
        """Its ends, for these ratings."""
        return f"{self.value(self.low, ratings):g}..{self.value(self.high, ratings):g}"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def value(self, searched: Any, ratings: Ratings) -> Any:
        return searched

    def told(self, ratings: Ratings) -> str:
        return ", ".join(map(str, self.values))


Space = Mapping[str, Range | Choice]

FACTORS = Range(4, 128, whole=True)
_NEIGHBOURS: Space = MappingProxyType(
    {
        "n_neighbours": Range(5, 200, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(0.5, 500, unit=thousand_users),
        "damping": Range(0.01, 10),
    }
)
_SIMILAR_USERS: Space = MappingProxyType(
    {
        "n_neighbours": Range(10, 400, whole=True),
        "similarity": Choice(("cosine", "pearson", "adjusted-cosine")),
        "shrinkage": Range(1, 200),  # by items that two users have in common: no matter how many users there are
        "damping": Range(0.01, 10),
    }
)
_RANK: Space = MappingProxyType({"n_factors": FACTORS})

SPACES: Mapping[str, Space] = {
    "mean": {},
    "bias": {"user_damping": Range(0.1, 100), "item_damping": Range(0.1, 100)},
    "item-mean": {"damping": Range(0.1, 100)},
    "popular": {},
    "item-knn": _NEIGHBOURS,
    "user-knn": _SIMILAR_USERS,
    "als": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "user_bias_regularisation": Range(0.001, 0.5),
    },
    "pmf": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "learning_rate": Range(0.002, 0.1),
        "decay": Range(0.005, 0.5),
    },
    "monotone": {
        "n_factors": FACTORS,
        "regularisation": Range(0.005, 0.5, unit=spread),
        "pull": Range(1, 200),
    },
    "vb": _RANK,
    "bpmf": _RANK,
    "sphere": _RANK,
    "sphere-als": {"n_factors": FACTORS, "regularisation": Range(0.005, 0.5, unit=spread)},
    "implicit-als": {
        "n_factors": Range(8, 256, whole=True),
        "strength": Range(0.25, 128),
        "regularisation": Range(0.0001, 0.3, unit=cells),
    },
    "logistic": {
        "n_factors": Range(8, 256, whole=True),
        "regularisation": Range(0.1, 30),
        "n_negatives": Range(5, 200, whole=True),
        "learning_rate": Range(0.03, 1),
    },
    "ease": {"regularisation": Range(1, 10_000, unit=thousand_users)},
}
LEARNING = ("vb", "bpmf", "sphere")  # models that learn the rest from the ratings


def space_of(
    model: str,
    ratings: Ratings,
    fixed: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Space:
    """What is searched of a model: its space, less what is fixed, with other ends where they are given."""
    usual = SPACES.get(model, {})
    if not usual:
        able = ", ".join(name for name, space in SPACES.items() if space)
        raise InvalidParameterError(f"the model {model} has nothing to be tuned; expected one of {able}")
    given = dict(ranges or {})
    for name in given:
        if name not in usual or isinstance(usual[name], Choice):
            numbers = ", ".join(key for key, part in usual.items() if isinstance(part, Range))
            raise InvalidParameterError(
                f"a range is given for {name!r}, which is no number that is searched of {model}; expected one of "
                f"{numbers}"
            )
        if name in fixed:
            raise InvalidParameterError(f"{name} is fixed, and a range is given for it; expected one of the two")
    space = {
        name: part if name not in given or isinstance(part, Choice) else part.between(*given[name], ratings)
        for name, part in usual.items()
        if name not in fixed
    }
    if not space:
        raise InvalidParameterError(
            f"all that is searched of {model} is fixed ({', '.join(usual)}); expected at least one of them to be left"
        )
    return space
