"""Items named by their titles: an id wins, and a title counts where no id matches."""

from __future__ import annotations

import polars as pl

from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.errors import UnknownIdError

OFFERED = 5  # titles named in a message


def items_named(ratings: Ratings, names: Ids) -> pl.Series:
    """The ids of items named by id or by title, in any case and with or without the year at its end.

    A name that fits nothing stays as it is; one that fits the titles of several items is an error that offers them.
    """
    asked = id_series(listed(names), "item")
    if ratings.item_titles is None or asked.dtype != pl.String:
        return asked
    rows = ratings.items.rows_of(asked)
    if (rows >= 0).all():
        return asked
    for place in (rows < 0).nonzero()[0].tolist():
        found = ratings.rows_by_title.get(asked[place].strip().casefold(), ())
        if len(found) > 1:
            raise UnknownIdError(
                f"{asked[place]!r} is the title of {len(found)} items", expected=f"one of {_offer(ratings, found)}"
            )
        if found:
            rows[place] = found[0]
    ids = ratings.items.at(rows)
    return ids if (rows >= 0).all() else pl.select(pl.coalesce(ids.cast(pl.String), asked)).to_series().alias("item")


def titles_like(ratings: Ratings, name: object) -> str:
    """Some items whose titles contain this text, for a message; empty if there are none."""
    if ratings.item_titles is None or not isinstance(name, str) or len(name.strip()) < 3:
        return ""
    holds = ratings.item_titles.str.to_lowercase().str.contains(name.strip().lower(), literal=True).fill_null(False)
    return _offer(ratings, holds.arg_true().to_list())


def _offer(ratings: Ratings, rows: list[int] | tuple[int, ...]) -> str:
    assert ratings.item_titles is not None
    shown = [f"{ratings.items.ids[row]} ({ratings.item_titles[row]})" for row in rows[:OFFERED]]
    return ", ".join(shown) + (f" and {len(rows) - OFFERED} more" if len(rows) > OFFERED else "")
