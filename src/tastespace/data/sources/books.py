"""`book-crossing`: 434 thousand ratings from 1 to 10 of 186 thousand books by 78 thousand people.

`BX-Book-Ratings.csv` and `BX-Books.csv` are in Latin-1, every field is quoted, separated by semicolons, and quotation
marks inside a field are escaped by a backslash. A rating of 0 means that someone has the book and did not rate it;
there are 716 thousand of them, and they are left out by default. The checksum is the one in the repositories of
LensKit and of bookdata-tools; it was taken when the original address still worked.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import polars as pl

from tastespace.data.formats import files
from tastespace.data.formats.descriptions import described
from tastespace.data.ratings import Ratings
from tastespace.data.sources.source import Archive, Source, extracted
from tastespace.errors import DataError, warn

_RATING = r'^"(?<user>\d{1,18})";"(?<isbn>.*\S.*)";"(?<rating>0*(?:10|\d))"$'
_CROSSING_HEADER = '"User-ID";"ISBN";"Book-Rating"'
_N_USER_FIELDS = 3  # id, location, age
_AGES = (5, 100)  # others are slips: there are readers of 0 and of 244 years
_N_FIELDS = 8  # of a book: ISBN, title, author, year, publisher and three addresses of pictures
_MERGED = re.compile(r'(.*)\\";(.*)\\"')  # a title and an author with the separator between them damaged


def read_book_crossing(folder: Path, *, implicit: bool = False) -> Ratings:
    """The ratings from 1 to 10 with titles, authors, years and publishers, and age and country of the readers.

    With `implicit` also the zeros.
    """
    file = folder / "BX-Book-Ratings.csv"
    table = _rated(file)
    if not implicit:
        kept = table.filter(pl.col("rating") > 0)
        if kept.height < table.height:
            warn(
                f"book-crossing: {table.height - kept.height:,} of {table.height:,} entries are books without a "
                "rating (0) and were set aside"
            )
        table = kept
    ratings = Ratings.from_arrays(table["user"], table["isbn"], table["rating"])
    books, readers = folder / "BX-Books.csv", folder / "BX-Users.csv"
    ratings = described(ratings, _crossing_books(books)) if books.exists() else ratings
    return described(ratings, _crossing_users(readers), "user") if readers.exists() else ratings


def _lines(file: Path) -> list[str]:
    """The lines below the header. Not `splitlines`: some bytes of Latin-1 would end a line for it."""
    try:
        text = file.read_bytes().decode("latin-1")
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror})", file=file, expected=_CROSSING_HEADER) from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")][1:]


def _rated(file: Path) -> pl.DataFrame:
    lines = pl.Series(_lines(file), dtype=pl.String)
    cells = extracted(lines, _RATING, file, _CROSSING_HEADER, first_line=2)
    isbn = pl.col("isbn").str.replace_all('\\"', '"', literal=True).str.strip_chars()
    return cells.with_columns(isbn).cast({"user": pl.Int64, "rating": pl.Int32})


def _crossing_books(file: Path) -> pl.DataFrame:
    rows, unread = [], 0
    for line in _lines(file):
        fields = line.removeprefix('"').removesuffix('"').split('";"')
        if len(fields) == _N_FIELDS - 1 and (merged := _MERGED.fullmatch(fields[1])):
            fields[1:2] = merged.groups()
        if len(fields) == _N_FIELDS:
            rows.append([_plain(field) for field in fields[:5]])
        else:
            unread += 1
    if unread:
        warn(f"{file}: {unread:,} books cannot be read and have no title")
    names = ("id", "title", "author", "year", "publisher")
    table = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String()), orient="row")
    year = pl.col("year").cast(pl.Int32, strict=False)
    return table.with_columns(pl.when(year > 0).then(year).alias("year"))  # 0 means an unknown year


def _crossing_users(file: Path) -> pl.DataFrame:
    """Age, and the country, which is the last part of a location such as "nyc, new york, usa"."""
    rows = [line.removeprefix('"').split('";') for line in _lines(file)]
    kept = [(fields[0], fields[1], fields[2]) for fields in rows if len(fields) == _N_USER_FIELDS]
    if len(kept) < len(rows):
        warn(f"{file}: {len(rows) - len(kept):,} users cannot be read")
    table = pl.DataFrame(kept, schema=dict.fromkeys(("id", "location", "age"), pl.String()), orient="row")
    age = pl.col("age").str.strip_chars('"').cast(pl.Int32, strict=False)  # NULL is unknown
    country = pl.col("location").str.strip_chars('"').str.split(",").list.last().str.strip_chars()
    is_name = country.str.contains(r"\p{L}{2}") & (country != "n/a")
    return table.select(
        "id",
        pl.when(age.is_between(*_AGES)).then(age).alias("age"),
        pl.when(is_name).then(country).alias("country"),
    )


def _plain(field: str) -> str | None:
    return html.unescape(field.replace('\\"', '"')).strip() or None


BOOK_CROSSING = Source(
    name="book-crossing",
    description="books, 1 to 10, 2004; entries without a rating left out",
    n_ratings=433_671,
    n_users=77_805,
    n_items=185_973,
    home="http://www2.informatik.uni-freiburg.de/~cziegler/BX/",
    terms="Free for research that names the source: Ziegler, McNee, Konstan and Lausen, WWW 2005.",
    read=read_book_crossing,
    archive=Archive(
        url="http://www2.informatik.uni-freiburg.de/~cziegler/BX/BX-CSV-Dump.zip",
        ratings=("BX-Book-Ratings.csv",),
        others=("BX-Books.csv", "BX-Users.csv"),
        checksum="md5:37d647ee9e18ba134ea6d78ee4fe5292",
        n_bytes=26_085_508,
        hint="The original site is reported to be gone; with a copy of BX-CSV-Dump.zip: data get book-crossing --from",
    ),
)


_GOODBOOKS_COLUMNS = "columns book_id, title, authors, original_publication_year and language_code"


def read_goodbooks(folder: Path) -> Ratings:
    """The ratings with titles, authors, years and languages."""
    ratings = files.read(folder / "ratings.csv")
    books = folder / "books.csv"
    return described(ratings, _goodbooks_books(books)) if books.exists() else ratings


def _goodbooks_books(file: Path) -> pl.DataFrame:
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
        raise DataError(f"the books cannot be read ({error})", file=file, expected=_GOODBOOKS_COLUMNS) from error


GOODBOOKS = Source(
    name="goodbooks-10k",
    description="books, 1 to 5 stars",
    n_ratings=5_976_479,
    n_users=53_424,
    n_items=10_000,
    home="https://github.com/zygmuntz/goodbooks-10k",
    terms="Creative Commons Attribution-ShareAlike 4.0: name the source, share changes under the same licence.",
    read=read_goodbooks,
    archive=Archive(
        url="https://github.com/zygmuntz/goodbooks-10k/releases/download/v1.0/goodbooks-10k.zip",
        ratings=("ratings.csv",),
        others=("books.csv",),
        checksum="sha256:261b97b56db61f3fb2ce5aadbb13704d30179fcc986c17ace665a0af9ed00731",
    ),
)
