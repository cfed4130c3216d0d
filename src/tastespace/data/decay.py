"""Choices that fade: what was played last week says more than what was played years ago.

    weight = value * 0.5^(age in days / half life in days)

Weights stay above 0, however old: a choice never turns into none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.data.tables import moment_of
from tastespace.errors import DataError, InvalidParameterError

DAY = 86_400  # seconds
LEAST = np.finfo(np.float32).tiny


def decayed(ratings: Ratings, half_life_days: float, now: Any = None) -> Ratings:
    """The ratings with faded values, as counts; age is counted from the newest, or from `now`."""
    is_number = isinstance(half_life_days, Real) and not isinstance(half_life_days, bool)
    if not is_number or not math.isfinite(half_life_days) or half_life_days <= 0:
        raise InvalidParameterError(f"half_life_days is {half_life_days!r}; expected a number of days above 0")
    if ratings.kind not in CHOICES:
        raise DataError(
            f"the ratings are {ratings.kind} ({ratings.kind_and_reason.reason}), and a faded value would be another "
            "opinion, not an older one",
            expected="counts or one-class ratings: declare that kind (in Python kind=, else --kind) if they are",
        )
    ratings = ratings.with_kind("counts")  # refuses zeros, which would not stay zeros
    times = ratings.known_times("to tell how old it is")
    moment = times.max() if now is None else moment_of("now", now)
    n_later = int(np.count_nonzero(times > moment))
    if n_later:
        raise InvalidParameterError(
            f"now is {moment}, and {n_later:,} of {len(ratings):,} ratings are later; expected a date from "
            f"{times.max()} on"
        )
    days = (moment - times).astype(np.float64) / DAY
    weights = ratings.values * np.exp2(-days / half_life_days)
    values = np.maximum(weights, LEAST).astype(np.float32)
    reason = f"choices that fade by half in {half_life_days:g} days"
    return replace(ratings, values=values, kind_reason=reason)
