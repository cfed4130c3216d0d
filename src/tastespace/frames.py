"""Results as data frames of the caller's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tastespace.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """The same table as a pandas frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("A pandas frame", "pandas") from error
    # Column by column, so that pyarrow is not needed; nulls in integers stay nulls.
    columns: dict[str, Any] = {}
    for series in frame:
        if series.dtype.is_integer() and series.null_count():
            columns[series.name] = pd.array(series.to_list(), dtype="Int64")
        else:
            columns[series.name] = series.to_list() if series.dtype == pl.String else series.to_numpy()
    return pd.DataFrame(columns)
