"""What is said of a Parquet file that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tastespace.errors import DataError

WHOLE = "a whole Parquet file: fetch it again, or write it anew from where it came from"


@contextmanager
def named_damage(file: Path) -> Iterator[None]:
    """Whatever the reader stumbles over becomes a `DataError` that names the file and says what to do."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | DataError):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"this Parquet file is damaged ({reason})", file=file, expected=WHOLE) from error
