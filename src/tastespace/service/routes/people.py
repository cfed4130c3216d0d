"""People: what they rated, new ratings, and being forgotten."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, UnknownIdError, named
from tastespace.service.access import Context
from tastespace.service.live_model import Loaded
from tastespace.service.messages import (
    Bulk,
    Forgotten,
    HistoryOfUser,
    NewRating,
    Stored,
    User,
    Users,
)
from tastespace.service.routes.parts import ItemId, Limit, Offset, Reader, Shared, UserId, Writer, answer
from tastespace.service.store import Once, Rated

router = APIRouter(prefix="/v1", tags=["people"])
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)  # by which clocks may differ
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A request with the same key is carried out once, and answered alike.",
    ),
]


@router.get("/users", response_model=Users)
def search_users(
    context: Shared,
    client: Reader,
    search: Annotated[str, Query(max_length=200, description="How an id begins.")] = "",
    limit: Limit = 20,
) -> Response:
    """Users by the beginning of their ids."""
    return answer({"users": context.store.users(search.replace("\x00", ""), limit)})


@router.get("/users/{user}", response_model=User)
def one_user(context: Shared, client: Reader, user: UserId) -> Response:
    """What is known of a user; 404 where nothing is."""
    person = context.store.person(user)
    if not person.version:
        raise UnknownIdError(f"nothing is known of the user {user!r}")
    total, _ = context.store.ratings_of(user, 1, 0)
    trained = context.live.current.recommender.ratings_.users.rows_of([user])[0] >= 0
    in_training = bool(trained) and not person.is_deleted
    return answer({"user": user, "ratings": total, "version": person.version, "in_training": in_training})


@router.get("/users/{user}/ratings", response_model=HistoryOfUser)
def history(context: Shared, client: Reader, user: UserId, limit: Limit = 100, offset: Offset = 0) -> Response:
    """What a user rated, the newest first."""
    total, rows = context.store.ratings_of(user, limit, offset)
    trained = context.live.current.recommender.ratings_
    titles = (
        trained.title_of(trained.items.rows_of([row.item_id for row in rows]))
        if trained.item_titles is not None
        else None
    )
    ratings = [
        {
            "item": row.item_id,
            "title": None if titles is None else titles[place],
            "rating": row.value,
            "at": None if row.rated_at is None else _iso(row.rated_at),
        }
        for place, row in enumerate(rows)
    ]
    return answer({"user": user, "total": total, "ratings": ratings})


@router.put("/users/{user}/ratings/{item}", response_model=Stored)
def rate(
    context: Shared,
    client: Writer,
    user: UserId,
    item: ItemId,
    new: NewRating,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """What a user thinks of an item, in place of what he thought before. It counts from his next answer on."""
    return _store(context, [Rated(user, item, float(new.rating))], client, idempotency_key)


@router.delete("/users/{user}/ratings/{item}", response_model=Stored)
def unrate(context: Shared, client: Writer, user: UserId, item: ItemId) -> Response:
    """Take a rating back; 404 where there is none."""
    if not context.store.unrate(user, item):
        raise UnknownIdError(f"the user {user!r} has not rated {item!r}")
    return answer({"stored": 0})


@router.post("/ratings", response_model=Stored)
def rate_many(context: Shared, client: Writer, bulk: Bulk, idempotency_key: IdempotencyKey = None) -> Response:
    """Many ratings of any users, stored all or none; of a pair that is there twice the last one counts."""
    if len(bulk.ratings) > context.settings.most_ratings:
        most = context.settings.most_ratings
        raise InvalidParameterError(
            f"there are {len(bulk.ratings)} ratings; expected at most {most}: send them in parts"
        )
    new = [Rated(one.user, one.item, float(one.rating), _moment(one.at)) for one in bulk.ratings]
    return _store(context, new, client, idempotency_key)


@router.delete("/users/{user}", response_model=Forgotten)
def forget(context: Shared, client: Writer, user: UserId) -> Response:
    """Forget all that a user rated. What the model learned from him is not used of him any more.

    His ratings leave the model itself when it is next retrained.
    """
    if not context.store.person(user).version:
        raise UnknownIdError(f"nothing is known of the user {user!r}")
    return answer({"user": user, "forgotten": context.store.forget(user)})


def _store(context: Context, new: list[Rated], client: str, key: str | None) -> Response:
    _check(context.live.current, new, accepts_new=context.settings.new_items)
    body = json.dumps({"stored": len(new)})
    once = None if key is None else Once(client, key, _fingerprint(new))
    before = context.store.rate(new, once, body)
    if before is None:
        context.metrics.stored(len(new))
    headers = {} if before is None else {"Idempotency-Replayed": "true"}
    return Response(before or body, media_type="application/json", headers=headers)


def _check(loaded: Loaded, new: list[Rated], *, accepts_new: bool) -> None:
    """Refuse ratings that the model could never use, before anything is stored."""
    items = [one.item for one in new]
    ratings = loaded.recommender.ratings_
    if not accepts_new:
        unknown = [item for item, row in zip(items, ratings.items.rows_of(items), strict=True) if row < 0]
        if unknown:
            raise UnknownIdError(f"the model knows no item {named(dict.fromkeys(unknown))}")
    given = Ratings.from_arrays([one.user for one in new], items, [one.value for one in new])
    loaded.recommender.check_ratings(given)


def _fingerprint(new: Iterable[Rated]) -> str:
    asked: list[Any] = [[one.user, one.item, one.value, None if one.at is None else one.at.isoformat()] for one in new]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _moment(at: datetime | None) -> datetime | None:
    """In UTC, for SQLite forgets the zone; without one it is UTC already. A rating of next year would spoil splits."""
    if at is None:
        return None
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    if not EARLIEST <= aware <= datetime.now(UTC) + AHEAD:
        raise InvalidParameterError(f"a rating is of {at.isoformat()}; expected a time from 1970 on that has passed")
    return aware.astimezone(UTC)


def _iso(at: datetime) -> str:
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)).isoformat()
