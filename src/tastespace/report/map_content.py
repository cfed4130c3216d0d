"""A taste map as plain values: places, titles, how often items were rated, and what they can be coloured by."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import IntArray
from tastespace.models import Recommender
from tastespace.report.model_story import common_values, plain
from tastespace.report.taste_map import TasteMap, UserPlace

MOST_COLOURS = 60  # values of an attribute that can be chosen


def map_content(recommender: Recommender, shown: TasteMap) -> dict[str, Any]:
    """One list a property, each with an entry for every item shown."""
    ratings, rows = recommender.ratings_, shown.item_rows
    counts = np.bincount(ratings.item_rows, minlength=ratings.n_items)
    titles = None if ratings.item_titles is None else ratings.title_of(rows).to_list()
    return {
        "method": shown.method,
        "total": ratings.n_items,
        "explained": plain(shown.explained),
        "items": ratings.items.at(rows).cast(pl.String).to_list(),
        "titles": titles,
        "x": [round(float(x), 4) for x in shown.places[:, 0]],
        "y": [round(float(y), 4) for y in shown.places[:, 1]],
        "ratings": counts[rows].tolist(),
        "attributes": _attributes(ratings.item_attributes, rows),
    }


def place_content(place: UserPlace) -> dict[str, Any]:
    """Where a user is: the middle, and the places of the draws, if there are any."""
    draws = None if place.draws is None else [[round(float(x), 4), round(float(y), 4)] for x, y in place.draws]
    return {"middle": [round(float(place.middle[0]), 4), round(float(place.middle[1]), 4)], "draws": draws}


def _attributes(about: pl.DataFrame | None, rows: IntArray) -> dict[str, dict[str, Any]]:
    """Numbers as they are; texts as positions in a list of the most common ones, as several where they are lists."""
    found: dict[str, dict[str, Any]] = {}
    for column in about if about is not None else ():
        own = column.gather(rows)
        if own.dtype.is_numeric():
            found[column.name] = {"numbers": plain(own)}
            continue
        is_list = isinstance(own.dtype, pl.List)
        texts = own.cast(pl.List(pl.String) if is_list else pl.String)
        values = common_values(texts, MOST_COLOURS)
        place = {value: position for position, value in enumerate(values)}
        lists = texts.to_list() if is_list else [[value] for value in texts.to_list()]
        found[column.name] = {
            "values": values,
            "of": [[place[value] for value in entry or () if value in place] for entry in lists],
        }
    return found
