"""Items: what is known of them, by id and by title, and what is like what."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import polars as pl
from fastapi import APIRouter, Query, Response

from tastespace.report.model_page import attributes_of
from tastespace.service.answering import ids_of, known_item
from tastespace.service.live_model import Loaded
from tastespace.service.messages import Item, Items, SimilarItems
from tastespace.service.routes.parts import ItemId, Limit, Offset, Reader, Shared, Where, answer

router = APIRouter(prefix="/v1", tags=["items"])


@router.get("/items", response_model=Items)
def search_items(
    context: Shared,
    client: Reader,
    search: Annotated[str, Query(max_length=200, description="Part of a title, or of an id.")] = "",
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """Items by title, those most rated first; without a search all of them."""
    loaded = context.live.current
    rows = _matching(loaded, search.strip().lower())
    rows = rows[np.argsort(-loaded.popularity[rows], kind="stable")]
    return answer({"total": len(rows), "items": _items(loaded, rows[offset : offset + limit])})


@router.get("/items/{item}", response_model=Item)
def one_item(context: Shared, client: Reader, item: ItemId) -> Response:
    """What is known of an item."""
    loaded = context.live.current
    return answer(_items(loaded, np.array([known_item(loaded, item)]))[0])


@router.get("/items/{item}/similar", response_model=SimilarItems)
def similar(
    context: Shared, client: Reader, item: ItemId, n: Annotated[int, Query(ge=1)] = 10, where: Where = None
) -> Response:
    """The items most like one."""
    return answer(context.answerer.similar(item, n, where))


def _matching(loaded: Loaded, text: str) -> Any:
    ratings = loaded.recommender.ratings_
    if not text:
        return np.arange(ratings.n_items)
    found = ratings.items.ids.cast(pl.String).str.to_lowercase() == text
    if loaded.titles is not None:
        found = found | loaded.titles.str.contains(text, literal=True)
    return np.flatnonzero(found.to_numpy())


def _items(loaded: Loaded, rows: Any) -> list[dict[str, Any]]:
    ratings = loaded.recommender.ratings_
    ids, titles = ids_of(ratings.items, rows), ratings.item_titles
    about = attributes_of(ratings, rows)
    return [
        {
            "item": ids[place],
            "title": None if titles is None else titles[int(row)],
            "attributes": about[place],
            "ratings": int(loaded.popularity[row]),
        }
        for place, row in enumerate(rows)
    ]
