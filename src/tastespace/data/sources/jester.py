"""`jester`: 1.76 million ratings of 140 jokes by 59 132 people, from -10 to 10, any number in between.

Data set 2 of the Jester recommender (Goldberg and others 2001): `jester_ratings.dat` has user, item and rating
separated by two tabs, `jester_items.dat` has the jokes as HTML. Data sets 1 and 3 are spreadsheets. The publisher gives
no checksum.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import polars as pl

from tastespace.data.formats.descriptions import described
from tastespace.data.ratings import Ratings
from tastespace.data.sources.source import Archive, Source, extracted
from tastespace.errors import DataError, shortened

_LINE = r"^\s*(?<user>\d+)\s+(?<item>\d+)\s+(?<rating>-?\d+(?:\.\d*)?)\s*$"
_EXPECTED = "user, joke and rating separated by tabs"


def read(folder: Path) -> Ratings:
    """The ratings; the title of a joke is its beginning."""
    file = folder / "jester_ratings.dat"
    try:
        lines = pl.read_csv(file, separator="\x1f", has_header=False, schema={"line": pl.String()}, quote_char=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"the file cannot be read ({error})", file=file, expected=_EXPECTED) from error
    cells = extracted(lines["line"], _LINE, file, _EXPECTED)
    cells = cells.cast({"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64})
    ratings = Ratings.from_arrays(cells["user"], cells["item"], cells["rating"])
    jokes = folder / "jester_items.dat"
    return described(ratings, _jokes(jokes)) if jokes.exists() else ratings


def _jokes(file: Path) -> pl.DataFrame:
    """The jokes: a line with the number and a colon before each."""
    text = file.read_bytes().decode("latin-1").replace("\r\n", "\n")
    parts = re.split(r"^(\d+):[ \t]*$", text, flags=re.MULTILINE)[1:]
    ids, jokes = [int(part) for part in parts[::2]], [_plain(part) for part in parts[1::2]]
    titles = [shortened(joke) or None for joke in jokes]
    return pl.DataFrame(
        {"id": ids, "title": titles, "text": [joke or None for joke in jokes]},
        schema={"id": pl.Int64(), "title": pl.String(), "text": pl.String()},
    )


def _plain(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


JESTER = Source(
    name="jester",
    description="jokes, -10 to 10 continuous, 2006 to 2009",
    n_ratings=1_761_439,
    n_users=59_132,
    n_items=140,
    home="https://eigentaste.berkeley.edu/dataset/",
    terms="Free for research that names the source: Goldberg, Roeder, Gupta and Perkins, Eigentaste, 2001.",
    read=read,
    archive=Archive(
        url="https://eigentaste.berkeley.edu/dataset/archive/jester_dataset_2.zip",
        ratings=("jester_ratings.dat",),
        others=("jester_items.dat",),
        n_bytes=7_700_000,
    ),
)
