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
    rating: str | None  # None where each line only says that something was chosen
    time: str | None = None


def find_columns(names: Sequence[str], wanted: Mapping[str, str | None], *, are_choices: bool = False) -> Columns:
    """The columns named in `wanted`, the others by their usual names."""
    found = find_rating_parts(names, wanted, ("user", "item", "rating"), are_choices=are_choices)
    return Columns(found["user"], found["item"], found.get("rating"), found.get("time"))


def find_rating_parts(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    needed: Sequence[str],
    file: Path | str | None = None,
    *,
    are_choices: bool = False,
) -> dict[str, str]:
    """The column of each part; there may be none of ratings, where nothing but what was chosen is told.

    A column that is none of the parts might be the ratings under another name: it is an error unless the caller knows
    that lines are choices.
    """
    found = find_parts(names, wanted, (), file)
    spare = [name for name in names if name not in found.values()]
    is_complete = all(part in found for part in needed if part != "rating")
    if "rating" in found or not is_complete or (spare and not are_choices):
        _require(found, names, needed, file)
    return found


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
    _require(found, names, needed, file)
    return found


def _require(found: Mapping[str, str], names: Sequence[str], needed: Sequence[str], file: Path | str | None) -> None:
    missing = [part for part in needed if part not in found]
    if not missing:
        return
    expected = "a header such as user,item,rating; or say which column it is"
    if missing == ["rating"]:
        expected += (
            " (--rating-column, in Python rating=), or that the kind is counts or one-class if each line is a choice "
            "(--kind, in Python kind=)"
        )
    raise DataError(
        f"no column for the {' and the '.join(missing)} among {', '.join(names)}", file=file, expected=expected
    )


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first of the usual names that is there, whatever its case and punctuation."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    return next((plain[name] for name in usual if name in plain), None)
