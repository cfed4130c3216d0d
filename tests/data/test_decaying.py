"""Choices that fade with their age."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from tastespace import ImplicitALS, Ratings
from tastespace.errors import DataError, DataWarning, InvalidParameterError

DAY = 86_400
TIMES = np.array([0, 10, 20, 30]) * DAY


def plays(values=(1, 1, 1, 1), times=TIMES):
    return Ratings.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], list(values), times)


def test_by_hand():
    """Of half lives of 10 days, three, two, one and none have passed since the newest."""
    faded = plays().decayed(10)
    assert faded.values.tolist() == [1 / 8, 1 / 4, 1 / 2, 1]
    assert faded.values.dtype == np.float32
    assert faded.kind == "counts"
    assert plays((8, 400, 2, 1)).decayed(10).values.tolist() == [1, 100, 1, 1]


def test_parts_of_a_day_count():
    faded = plays(times=[0, DAY // 2, DAY, 2 * DAY]).decayed(1)
    assert faded.values == pytest.approx([1 / 4, 2**-1.5, 1 / 2, 1])


@pytest.mark.parametrize("now", ["1970-02-10", date(1970, 2, 10), np.datetime64("1970-02-10")], ids=str)
def test_age_can_be_counted_from_a_date(now):
    assert plays().decayed(10, now=now).values == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2])


def test_all_else_stays():
    before = plays()
    faded = before.decayed(10)
    assert faded.users is before.users
    assert faded.times.tolist() == before.times.tolist()
    assert before.values.tolist() == [1, 1, 1, 1]


def test_what_is_very_old_stays_a_choice():
    faded = plays(times=[0, 1, 2, 50_000 * DAY]).decayed(0.01)
    assert (faded.values > 0).all()
    assert np.isfinite(ImplicitALS(n_factors=2, sweeps=2, seed=0).fit(faded).posterior_.draws.items).all()


def test_without_times():
    with pytest.raises(DataError, match="the ratings have no times; expected a time of each rating"):
        plays(times=None).decayed(10)
    with pytest.warns(DataWarning, match="1 of 4 ratings have no time"):
        some = plays(times=[0, None, 5, 6])
    with pytest.raises(DataError, match="1 of 4 ratings have no time; expected"):
        some.decayed(10)


@pytest.mark.parametrize("values", [(1, 3, 5, 4), (0, 1, 1, 0)], ids=["stars", "yes-no"])
def test_opinions_do_not_fade(values):
    with pytest.raises(DataError, match="would be another opinion, not an older one; expected counts or one-class"):
        plays(values).decayed(10)
    # Unless somebody says that they are none.
    if min(values) > 0:
        assert plays(values).with_kind("counts").decayed(10).kind == "counts"


def test_counts_of_zero_do_not_become_choices():
    with pytest.raises(DataError, match="1 of 4 values are not above 0"):
        plays((0, 1, 1, 500)).decayed(10)


@pytest.mark.parametrize("half_life", [0, -1, np.nan, np.inf, "10", True, None], ids=str)
def test_half_lives_that_are_none(half_life):
    with pytest.raises(InvalidParameterError, match="half_life_days is"):
        plays().decayed(half_life)


def test_now_must_not_be_in_the_past():
    with pytest.raises(InvalidParameterError, match="now is 1970-01-15T00:00:00, and 2 of 4 ratings are later"):
        plays().decayed(10, now="1970-01-15")
    for wrong in ("yesterday", "NaT", object()):
        with pytest.raises(InvalidParameterError, match="expected a date such as 2024-05-31"):
            plays().decayed(10, now=wrong)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=12))], ids=str)
def test_moments_with_a_zone(zone):
    moment = datetime(1970, 2, 10, tzinfo=UTC).astimezone(zone)
    assert plays().decayed(10, now=moment).values == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2])
