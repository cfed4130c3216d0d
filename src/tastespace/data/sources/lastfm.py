"""`lastfm-360k`: how often 359 thousand people played 294 thousand artists: 17.6 million counts.

`usersha1-artmbid-artname-plays.tsv` has the user, the MusicBrainz id of the artist, the artist's name and the plays,
separated by tabs and not quoted. Artists without an id are identified by their name. Plays of a user and artist that
occur twice are added up. The checksum is the one of Zenodo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tastespace.data.formats.descriptions import described
from tastespace.data.ratings import Ratings
from tastespace.data.sources.source import Archive, Source
from tastespace.errors import DataError, warn

_FILE = "usersha1-artmbid-artname-plays.tsv"
_EXPECTED = "user, MusicBrainz id, artist and plays separated by tabs"


def read(folder: Path) -> Ratings:
    """The plays, with the names of the artists as titles."""
    file = folder / _FILE
    table = _played(file)
    whole = table.select(pl.all_horizontal(pl.col("user", "item", "plays").is_not_null())).to_series()
    rejected = table.height - int(whole.sum())
    if rejected:
        line = int(np.flatnonzero(~whole.to_numpy())[0]) + 1
        warn(
            f"{file}: {rejected:,} of {table.height:,} lines lack a user, an artist or a count and were set aside, the "
            f"first being line {line}"
        )
        table = table.filter(whole)
    ratings = Ratings.from_arrays(table["user"], table["item"], table["plays"], duplicates="sum")
    artists = table.select(pl.col("item").alias("id"), pl.col("name").alias("title"))
    artists = artists.unique("id", keep="first", maintain_order=True)
    return replace(described(ratings, artists), rejected=rejected)


def _played(file: Path) -> pl.DataFrame:
    """User, item, name and plays of every line; null where missing."""
    try:
        table = _cells(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the file cannot be read ({error})", file=file, expected=_EXPECTED) from error
    plays = pl.col("plays").cast(pl.Int64, strict=False)
    return table.with_columns(pl.col("user", "artist", "name").replace("", None)).select(
        "user",
        pl.coalesce("artist", "name").alias("item"),
        "name",
        pl.when((plays >= 0) & pl.col("surplus").is_null()).then(plays).alias("plays"),
    )


def _cells(file: Path) -> pl.DataFrame:
    columns = ("user", "artist", "name", "plays")
    try:
        table = _delimited(file, "\t", columns)
        return table.with_columns(pl.lit(None, pl.String).alias("surplus"))
    except pl.exceptions.ComputeError:
        # Some line has more than four cells. To find it, every line is split by itself, which takes twice the memory.
        lines = _delimited(file, "\x1f", ("line",))["line"]
        return lines.str.split_exact("\t", 4).struct.rename_fields([*columns, "surplus"]).struct.unnest()


def _delimited(file: Path, separator: str, columns: Sequence[str]) -> pl.DataFrame:
    schema = dict.fromkeys(columns, pl.String())
    return pl.read_csv(
        file, separator=separator, has_header=False, schema=schema, quote_char=None, encoding="utf8-lossy"
    )


LASTFM_360K = Source(
    name="lastfm-360k",
    description="artists, how often they were played, 2008",
    n_ratings=17_559_530,
    n_users=359_347,
    n_items=294_015,
    home="https://zenodo.org/records/6090214",
    terms="Not for commercial use; by permission of Last.fm, collected by Òscar Celma. Commercial use: ask Last.fm.",
    read=read,
    archive=Archive(
        url="https://zenodo.org/records/6090214/files/lastfm-dataset-360K.tar.gz",
        ratings=(_FILE,),
        checksum="md5:635e6ed3fc873aa4ba33aba0ebce02b1",
        n_bytes=569_202_935,
    ),
)
