"""A list of recommendations as plain values: what each item is, what to expect of it, how sure that is, and why."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import polars as pl

from tastespace.arrays import IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import HANDFUL
from tastespace.models import Recommender
from tastespace.models.explaining import Explanation
from tastespace.models.request import Request
from tastespace.ranking import Ranking

REASONS = 3  # ratings that are named as speaking for an item


def listed(recommender: Recommender, request: Request, n: int) -> list[dict[str, Any]]:
    """The best items for the one user of a request, with reasons."""
    ranking = recommender.recommend(request, n)
    explanation = None
    if (ranking.item_rows >= 0).any():
        explanation = recommender.explain(request, ranking.item_ids.drop_nulls())
    return entries(recommender.ratings_, ranking, explanation)


def entries(ratings: Ratings, ranking: Ranking, explanation: Explanation | None) -> list[dict[str, Any]]:
    """The entries of the first list of a ranking."""
    titles = None if ranking.titles is None else ranking.titles.to_list()
    items, sure, levels = ranking.item_ids.to_list(), ranking.sureness, ranking.level_names
    about = attributes_of(ratings, ranking.item_rows[0][ranking.item_rows[0] >= 0])
    scores = ranking.scores[0].tolist()
    figures = {} if sure is None else {name: getattr(sure, name)[0].tolist() for name in sure.NAMES}
    found: list[dict[str, Any]] = []
    for place, row in enumerate(ranking.item_rows[0].tolist()):
        if row < 0:
            continue
        entry: dict[str, Any] = {
            "rank": len(found) + 1,
            "item": str(items[place]),
            "title": None if titles is None else titles[place],
            "attributes": about[len(found)],
            "score": rounded(scores[place]),
        }
        if sure is not None:
            entry["belief_sd"] = rounded(figures["belief_sd"][place])
            entry["rating_sd"] = rounded(figures["rating_sd"][place])
            entry["interval"] = [rounded(figures["low"][place]), rounded(figures["high"][place])]
            entry["top_n_probability"] = rounded(figures["top_n_probability"][place])
            if sure.level_probabilities is not None:
                chances = sure.level_probabilities[0, place].tolist()
                entry["levels"] = {name: rounded(p) for name, p in zip(levels, chances, strict=True)}
        if explanation is not None:
            entry["because"] = _reasons(explanation, len(found))
        found.append(entry)
    return found


def attributes_of(ratings: Ratings, rows: IntArray) -> list[dict[str, Any]]:
    """What is known of items beside their titles, an entry each."""
    about = ratings.item_attributes
    if about is None:
        return [{} for _ in rows]
    if len(rows) <= HANDFUL:
        found = [about.row(row, named=True) for row in rows.tolist()]
    else:
        found = about[rows].rows(named=True)
    return [{name: _value(cell) for name, cell in row.items()} for row in found]


def rounded(value: Any) -> float | None:
    """A number that JSON knows, with as many digits as mean something."""
    number = float(value)
    return round(number, 5) if isfinite(number) else None


def _value(cell: Any) -> Any:
    """As JSON can have it."""
    if isinstance(cell, pl.Series | list):
        return [_value(part) for part in cell]
    if isinstance(cell, float) and not isfinite(cell):
        return None
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)


def _reasons(explanation: Explanation, place: int) -> list[dict[str, Any]]:
    """Of the user's ratings those that speak most for an item, then the one that speaks most against it."""
    effects = explanation.contributions[place]
    order = np.argsort(-effects, kind="stable")
    chosen = [row for row in order[:REASONS] if effects[row] > 0]
    chosen += [row for row in order[-1:] if effects[row] < 0]
    titles = explanation.rated_titles
    return [
        {
            "item": str(explanation.rated_ids[int(row)]),
            "title": None if titles is None else titles[int(row)],
            "rating": rounded(explanation.ratings[row]),
            "contribution": rounded(effects[row]),
        }
        for row in chosen
    ]
