"""Moments of any origin as whole seconds since 1970."""

from __future__ import annotations

import numpy as np
import polars as pl

from tastespace.arrays import TimeArray
from tastespace.errors import DataError

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999; milliseconds of our day lie beyond
EXPECTED_TIME = "seconds (not milliseconds) since 1970, or a date such as 2024-05-31 or 2024-05-31T12:00:00"
_ZONED, _LOCAL = "%Y-%m-%d %H:%M:%S%.f%#z", ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")


def seconds_of(series: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Seconds of a column of any type (null where there is none), and which entries are no time."""
    if series.dtype in (pl.Date, pl.Datetime):
        seconds = series.cast(pl.Datetime("ms")).dt.epoch("s")
        return seconds, series.is_not_null() & ~seconds.is_between(EARLIEST, LATEST)
    if series.dtype.is_numeric():
        numbers = series.cast(pl.Float64).fill_nan(None)
        wrong = numbers.is_not_null() & ~numbers.is_between(EARLIEST, LATEST)
        return numbers.cast(pl.Int64, strict=False), wrong
    if series.dtype in (pl.String, pl.Null):
        return seconds_of_texts(series)
    raise DataError(f"times of type {series.dtype}", expected=EXPECTED_TIME)


def as_times(seconds: pl.Series) -> TimeArray:
    """Seconds as times; null becomes NaT."""
    stamps: TimeArray = seconds.fill_null(0).to_numpy().astype("datetime64[s]")
    stamps[seconds.is_null().to_numpy()] = np.datetime64("NaT")
    return stamps


def seconds_of_texts(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Seconds (null where a text is empty, or no time), and which texts are no time.

    A text is a number of seconds or an ISO date; without a zone it is taken as UTC.
    """
    plain = texts.cast(pl.String).str.strip_chars().fill_null("")
    known = plain != ""
    seconds = plain.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    if (known & seconds.is_null()).any():
        seconds = pl.select(pl.coalesce(seconds, _seconds_of_dates(plain))).to_series()
    good = seconds.is_between(EARLIEST, LATEST).fill_null(False)
    return seconds.set(~good, None), known & ~good


def _seconds_of_dates(plain: pl.Series) -> pl.Series:
    spaced = plain.str.replace("[Tt]", " ").str.replace("[Zz]$", "+00:00")
    zoned = spaced.str.to_datetime(_ZONED, strict=False, time_unit="ms").dt.convert_time_zone("UTC")
    local = [spaced.str.to_datetime(form, strict=False, time_unit="ms") for form in _LOCAL[:2]]
    days = spaced.str.to_date(_LOCAL[2], strict=False).cast(pl.Datetime("ms"))
    moments = pl.select(pl.coalesce(zoned.dt.replace_time_zone(None), *local, days)).to_series()
    return moments.dt.epoch("s")
