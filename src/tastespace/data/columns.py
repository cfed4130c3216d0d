"""Which column is which: found by the usual names, or named by the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tastespace.errors import DataError

USUAL_NAMES = {
    "user": (
        "user",
        "userid",
        "uid",
        "users",
        "customer",
        "customerid",
        "reviewer",
        "reviewerid",
        "member",
        "person",
    ),
    "item": (
        "item",
        "itemid",
        "iid",
        "items",
        "movie",
        "movieid",
        "film",
        "filmid",
        "book",
        "bookid",
        "isbn",
        "product",
    )
    + (
        "productid",
        "asin",
        "artist",
        "artistid",
        "song",
        "songid",
        "track",
        "trackid",
        "joke",
        "jokeid",
        "article",
    )
    + ("articleid", "business", "businessid", "anime", "animeid"),
    "rating": ("rating", "ratings", "score", "stars", "star", "value", "overall", "bookrating")
    + ("plays", "playcount", "listens", "clicks", "views", "purchases", "quantity", "count", "counts", "weight"),
    "time": ("time", "timestamp", "ts", "date", "datetime", "unixreviewtime", "ratedat", "createdat"),
}


@dataclass(frozen=True)
class Columns:
    """The name of the column that holds each part of a rating."""

    user: str
    item: str
    rating: str
    time: str | None = None


def find_columns(names: Sequence[str], wanted: Mapping[str, str | None], file: Path | str | None = None) -> Columns:
    """The columns named in `wanted`, the others by their usual names; a rating has at least three."""
    found = find_parts(names, wanted, ("user", "item", "rating"), file)
    return Columns(found["user"], found["item"], found["rating"], found.get("time"))


def find_parts(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
    file: Path | str | None = None,
) -> dict[str, str]:
    """The column of each part that was found; those `needed` must be."""
    found: dict[str, str] = {}
    for part, usual in USUAL_NAMES.items():
        name = wanted.get(part)
        if name is None:
            name = usual_column(names, usual)
        elif name not in names:
            raise DataError(f"there is no column {name!r}", file=file, expected=f"one of {', '.join(names)}")
        if name is not None:
            if list(names).count(name) > 1:
                raise DataError(f"there is more than one column {name!r}", file=file, expected="different names")
            found[part] = name
    for part, name in found.items():
        twin = next((other for other in found if other != part and found[other] == name), None)
        if twin is not None:
            raise DataError(f"column {name!r} is to be both {part} and {twin}", file=file, expected="one for each")
    missing = [part for part in needed if part not in found]
    if missing:
        raise DataError(
            f"no column for the {' and the '.join(missing)} among {', '.join(names)}",
            file=file,
            expected="a header such as user,item,rating; or say which column it is",
        )
    return found


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that is there, whatever its case and punctuation."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    return next((plain[name] for name in usual if name in plain), None)
