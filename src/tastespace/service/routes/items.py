"""Items: new ones that nobody has rated yet, what is said of them, and those that are removed."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from tastespace.errors import InvalidParameterError
from tastespace.service import messages
from tastespace.service.catalogue import KnownItemError, StoredItem, can_grow, check_new
from tastespace.service.live_model import Loaded
from tastespace.service.messages import ItemChange, NewItems
from tastespace.service.routes import parts
from tastespace.service.routes.parts import ItemId, ServiceContext, Writer
from tastespace.service.routes.recommendations import describe_items

router = APIRouter(prefix="/v1", tags=["items"])


@router.post("/items", response_model=messages.StoredItems, status_code=201)
def add_items(context: ServiceContext, client: Writer, new: NewItems) -> Response:
    """Add items that nobody has rated yet, all or none. They can be recommended from the next request on."""
    loaded = context.loaded()
    added = [StoredItem(one.item, one.title, one.attributes) for one in new.items]
    if len({one.id for one in added}) < len(added):
        raise InvalidParameterError("an item is there twice; expected each once")
    for one in added:
        if _is_there(loaded, one.id):
            raise KnownItemError(f"the item {one.id!r} is there already; expected a new id, or PATCH to change it")
    fresh = [one for one in added if not _is_known(loaded, one.id)]  # the others were removed, and come back
    remarks = check_new(fresh, loaded.recommender) if fresh else ()
    context.catalogue.add(added)
    is_ready = can_grow(loaded.recommender)
    if not is_ready:
        name = type(loaded.recommender).__name__
        remarks = (*remarks, f"{name} takes new items in its next fit only: tastespace retrain")
    content = {"stored": len(added), "recommendable": is_ready, "remarks": list(remarks)}
    return parts.respond(content, 201)


@router.patch("/items/{item}", response_model=messages.CatalogueItem)
def change_item(context: ServiceContext, client: Writer, item: ItemId, change: ItemChange) -> Response:
    """Say more, or something else, about an item; what is not mentioned stays."""
    loaded = context.loaded()
    check_new([StoredItem(_unused(loaded), change.title, change.attributes)], loaded.recommender)
    is_known = _is_known(context.live.current, item) and item not in loaded.removed
    stored = context.catalogue.change(item, change.title, change.attributes, is_known=is_known)
    loaded = context.loaded()
    rows = loaded.recommender.ratings_.items.rows_of([item])
    if rows[0] < 0:  # It waits for the next fit.
        said: dict[str, Any] = {"item": item, "title": stored.title, "attributes": dict(stored.facts), "ratings": 0}
        return parts.respond(said)
    return parts.respond(describe_items(loaded, rows)[0])


@router.delete("/items/{item}", response_model=messages.RemovedItem)
def remove_item(context: ServiceContext, client: Writer, item: ItemId) -> Response:
    """Remove an item from the catalogue: it is never shown again. Its ratings stay, and still tell tastes."""
    context.catalogue.remove(item, is_known=_is_known(context.live.current, item))
    return parts.respond({"item": item, "removed": True})


def _is_known(loaded: Loaded, item: str) -> bool:
    """Whether the model knows an item, removed or not."""
    return bool(loaded.recommender.ratings_.items.rows_of([item])[0] >= 0)


def _is_there(loaded: Loaded, item: str) -> bool:
    return item not in loaded.removed and (item in loaded.waiting or _is_known(loaded, item))


def _unused(loaded: Loaded) -> str:
    """An id that no item has, to try out a description with."""
    return f"-{loaded.recommender.ratings_.n_items}"
