"""Which column is which: found by the usual names, or named by the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tastespace.errors import DataError

USUAL_NAMES = {
    "user": ("user", "userid", "uid", "users", "customer", "customerid", "reviewer", "reviewerid", "member", "person"),
    "item": ("item", "itemid", "iid", "items", "movie", "movieid", "film", "filmid", "book", "bookid", "isbn", "product")
    + ("productid", "asin", "artist", "artistid", "song", "songid", "track", "trackid", "joke", "jokeid", "article")
    + ("articleid", "business", "businessid", "anime", "animeid"),
    "rating": ("rating", "ratings", "score", "stars", "star", "value", "overall", "bookrating"),
    "time": ("time", "timestamp", "ts", "date", "datetime", "unixreviewtime", "ratedat", "createdat"),
}


@dataclass(frozen=True)
class Columns:
    """The name of the column that holds each part of a rating."""

    user: str
    item: str
    rating: str
    time: str | None = None


def find_columns(names: Sequence[str], wanted: Mapping[str, str | None], file: str | None = None) -> Columns:
    """The columns named in `wanted`, the others by their usual names; a rating has at least three."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    found: dict[str, str | None] = {}
    for part, usual in USUAL_NAMES.items():
        asked = wanted.get(part)
        if asked is not None:
            if asked not in names:
                raise DataError(f"there is no column {asked!r}", file=file, expected=f"one of {', '.join(names)}")
            found[part] = asked
        else:
            found[part] = next((plain[name] for name in usual if name in plain), None)
    missing = [part for part in ("user", "item", "rating") if found[part] is None]
    if missing:
        raise DataError(
            f"no column for the {' and the '.join(missing)} among {', '.join(names)}",
            file=file,
            expected="a header such as user,item,rating; or say which column it is",
        )
    return Columns(str(found["user"]), str(found["item"]), str(found["rating"]), found["time"])
