"""Titles and attributes from the table that a data set has of its items."""

from __future__ import annotations

import numpy as np
import polars as pl

from tastespace.data.ratings import Ratings


def described(ratings: Ratings, table: pl.DataFrame) -> Ratings:
    """The ratings with the titles and attributes of a table with columns id and title; null where it has none."""
    rows = pl.Series("row", ratings.items.rows_of(table["id"]))
    known = table.drop("id").with_columns(rows).filter(pl.col("row") >= 0)
    known = known.unique("row", keep="first", maintain_order=True)
    every = pl.DataFrame({"row": np.arange(ratings.n_items, dtype=np.int32)})
    joined = every.join(known, on="row", how="left", maintain_order="left")
    attributes = joined.drop("row", "title")
    return ratings.with_items(joined["title"], attributes if attributes.width else None)
