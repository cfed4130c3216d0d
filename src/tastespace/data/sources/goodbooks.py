"""`goodbooks-10k`: 5.98 million ratings of the 10 000 most rated books of Goodreads by 53 424 people.

`ratings.csv` has user_id, book_id and rating, `books.csv` titles, authors, years and languages. The checksum is the one
in Ludwig.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tastespace.data import files
from tastespace.data.ratings import Ratings
from tastespace.data.sources.describing import described
from tastespace.data.sources.obtaining import Archive
from tastespace.data.sources.source import Source
from tastespace.errors import DataError

_EXPECTED = "columns book_id, title, authors, original_publication_year and language_code"


def read(folder: Path) -> Ratings:
    """The ratings with titles, authors, years and languages."""
    ratings = files.read(folder / "ratings.csv")
    books = folder / "books.csv"
    return described(ratings, _books(books)) if books.exists() else ratings


def _books(file: Path) -> pl.DataFrame:
    try:
        table = pl.read_csv(file, infer_schema=False)
        return table.select(
            pl.col("book_id").alias("id"),
            "title",
            pl.col("authors").str.split(", "),
            # Years are written as 2008.0, and may be before our era.
            pl.col("original_publication_year").cast(pl.Float64).cast(pl.Int32).alias("year"),
            pl.col("language_code").alias("language"),
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the books cannot be read ({error})", file=file, expected=_EXPECTED) from error


GOODBOOKS = Source(
    name="goodbooks-10k",
    description="books, 1 to 5 stars",
    n_ratings=5_976_479,
    n_users=53_424,
    n_items=10_000,
    home="https://github.com/zygmuntz/goodbooks-10k",
    terms="Creative Commons Attribution-ShareAlike 4.0: name the source, share changes under the same licence.",
    read=read,
    archive=Archive(
        url="https://github.com/zygmuntz/goodbooks-10k/releases/download/v1.0/goodbooks-10k.zip",
        ratings=("ratings.csv",),
        others=("books.csv",),
        checksum="sha256:261b97b56db61f3fb2ce5aadbb13704d30179fcc986c17ace665a0af9ed00731",
    ),
)
