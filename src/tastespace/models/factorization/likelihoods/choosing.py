"""Which likelihood is meant by a parameter, and whether ratings are such as it can speak of."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from tastespace.arrays import DoubleArray
from tastespace.data.kinds import MOST_LEVELS, distinct, levels_of, strange
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.likelihoods.base import Likelihood
from tastespace.models.factorization.likelihoods.binary import Logistic, Probit, YesNo
from tastespace.models.factorization.likelihoods.kept_noise import Units
from tastespace.models.factorization.likelihoods.ordinal import OrderedProbit

LikelihoodName = Literal["gaussian", "ordinal", "probit", "logistic"]


def level_likelihood(name: LikelihoodName, observed: Ratings, declared: tuple[float, ...] | None) -> Likelihood:
    """The likelihood of this name for these ratings; an error if they are not of its kind."""
    if name == "ordinal":
        return OrderedProbit(tuple(_ordinal_levels(observed.values, declared).tolist()))
    found = distinct(observed.values)
    if found is None or not np.isin(found, [0.0, 1.0]).all():
        some = "many different numbers" if found is None else _listed(found)
        raise InvalidParameterError(
            f"likelihood is {name!r}, and ratings are {some}; expected 0 (no) and 1 (yes): see Ratings.at_least, or "
            "choose likelihood='ordinal' for levels"
        )
    if len(found) < 2:
        kind = "yes (1)" if found[0] == 1 else "no (0)"
        raise InvalidParameterError(
            f"likelihood is {name!r}, and all ratings are {kind}; expected both: what was only ever clicked, played or "
            "bought says nothing about what was not liked; ImplicitALS (--model implicit-als) makes lists of it, and "
            "negatives='uniform' draws what was not chosen"
        )
    return choice_likelihood(name, observed.mean)


def choice_likelihood(name: LikelihoodName, share: float) -> Likelihood:
    """The likelihood of choices among what was drawn besides, of which they are this share."""
    return Probit(float(ndtri(share))) if name == "probit" else Logistic(float(logit(share)))


def units_of(likelihood: Likelihood, observed: Ratings) -> Units:
    """Range and levels of ratings. Those that are taken for numbers may be levels all the same."""
    if isinstance(likelihood, OrderedProbit | YesNo):
        levels = np.array(likelihood.levels if isinstance(likelihood, OrderedProbit) else (0.0, 1.0))
        return Units(float(levels[0]), float(levels[-1]), levels, observed.mean)
    return Units(*observed.range, levels_of(observed.values), observed.mean)


def _ordinal_levels(values: NDArray[Any], declared: tuple[float, ...] | None) -> DoubleArray:
    found = distinct(values)
    if declared is None and found is None:
        raise InvalidParameterError(
            f"likelihood is 'ordinal', and ratings have more than {MOST_LEVELS} different values; expected levels, "
            "such as stars: choose likelihood='gaussian' for numbers"
        )
    levels = found if declared is None else np.array(declared, np.float64)
    assert levels is not None
    if len(levels) < 2:
        raise InvalidParameterError(
            f"likelihood is 'ordinal', and all ratings are {values[0]:g}; expected at least two levels: declare them "
            "with levels=[...] if there are more than were used"
        )
    if declared is not None:
        with np.errstate(over="ignore"):
            single = levels.astype(np.float32)
        if not (np.isfinite(single).all() and (np.diff(single) > 0).all()):
            raise InvalidParameterError(
                f"levels are {_listed(levels)}; expected numbers that differ in single precision, as ratings are kept"
            )
        places = np.flatnonzero(strange(values, levels))
        if len(places):
            raise InvalidParameterError(
                f"{len(places)} of {len(values)} ratings are none of the declared levels, such as "
                f"{values[places[0]]:g}; expected one of {_listed(levels)}: declare all levels, or none to have those "
                "in use"
            )
    return levels


def _listed(levels: DoubleArray) -> str:
    shown = [f"{level:g}" for level in levels]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:6], "...", *shown[-3:]])
