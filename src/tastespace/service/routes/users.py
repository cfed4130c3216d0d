"""Users: their ratings, new ratings, and deletion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, UnknownIdError, named
from tastespace.service.door.access import Context
from tastespace.service.holdings import exported
from tastespace.service.live_model import Loaded
from tastespace.service.messages import (
    DeletedUser,
    NewRating,
    RatingBatch,
    StoredCount,
    User,
    UserExport,
    UserHistory,
    Users,
)
from tastespace.service.promises.monitor import Rated
from tastespace.service.routes import parts
from tastespace.service.routes.parts import ItemId, Limit, Offset, Reader, Search, ServiceContext, UserId, Writer
from tastespace.service.store import RatingRow, RequestKey, utc

router = APIRouter(prefix="/v1", tags=["users"])
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
MAX_WATCHED = 100  # users of one request
MAX_CLOCK_DIFFERENCE = timedelta(days=1)
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A request with the same key is carried out once; repetitions get the same response.",
    ),
]


@router.get("/users", response_model=Users)
def search_users(context: ServiceContext, client: Reader, search: Search = "", limit: Limit = 20) -> Response:
    """Users by the beginning of their ids."""
    return parts.respond({"users": context.store.users(search.replace("\x00", ""), limit)})


@router.get("/users/{user}", response_model=User)
def one_user(context: ServiceContext, client: Reader, user: UserId) -> Response:
    """Number of ratings and version of a user; 404 if the user is unknown."""
    person = context.store.person(user)
    if not person.version:
        raise UnknownIdError(f"the user {user!r} is unknown")
    total, _ = context.store.ratings_of(user, 1, 0)
    trained = context.live.current.recommender.ratings_.users.rows_of([user])[0] >= 0
    in_training = bool(trained) and not person.is_deleted
    return parts.respond({"user": user, "ratings": total, "version": person.version, "in_training": in_training})


@router.get("/users/{user}/ratings", response_model=UserHistory)
def history(context: ServiceContext, client: Reader, user: UserId, limit: Limit = 100, offset: Offset = 0) -> Response:
    """The ratings of a user, newest first."""
    total, rows = context.store.ratings_of(user, limit, offset)
    trained = context.loaded().recommender.ratings_
    titles = trained.title_of(trained.items.rows_of([row.item_id for row in rows]))
    ratings = [
        {"item": row.item_id, "title": title, "rating": row.value, "at": row.rated_at and utc(row.rated_at).isoformat()}
        for row, title in zip(rows, titles, strict=True)
    ]
    return parts.respond({"user": user, "total": total, "ratings": ratings})


@router.get("/users/{user}/export", response_model=UserExport)
def export(context: ServiceContext, client: Reader, user: UserId) -> Response:
    """Everything that is stored about a user: ratings, what was shown, and the versions of the model that know them."""
    return parts.respond(exported(user, context.store.about(user), context.live.versions))


@router.put("/users/{user}/ratings/{item}", response_model=StoredCount)
def rate(
    context: ServiceContext,
    client: Writer,
    user: UserId,
    item: ItemId,
    new: NewRating,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Store a user's rating of an item, in place of an older one. It counts from the next request on."""
    return _store(context, [RatingRow(user, item, float(new.rating))], client, idempotency_key)


@router.delete("/users/{user}/ratings/{item}", response_model=StoredCount)
def delete_rating(context: ServiceContext, client: Writer, user: UserId, item: ItemId) -> Response:
    """Delete a rating; 404 if there is none."""
    if not context.store.delete_rating(user, item):
        raise UnknownIdError(f"the user {user!r} has not rated {item!r}")
    return parts.respond({"stored": 0})


@router.post("/ratings", response_model=StoredCount)
def rate_many(
    context: ServiceContext, client: Writer, batch: RatingBatch, idempotency_key: IdempotencyKey = None
) -> Response:
    """Store many ratings of any users, all or none; the last rating of a pair counts."""
    n, limit = len(batch.ratings), context.settings.max_ratings
    if n > limit:
        raise InvalidParameterError(f"there are {n} ratings; expected at most {limit}: send them in parts")
    new = [RatingRow(one.user, one.item, float(one.rating), _checked_time(one.at)) for one in batch.ratings]
    return _store(context, new, client, idempotency_key)


@router.delete("/users/{user}", response_model=DeletedUser)
def forget(context: ServiceContext, client: Writer, user: UserId) -> Response:
    """Delete all ratings of a user. What the model learned from them is no longer used for this user.

    The ratings leave the artifact and the kept versions with `tastespace forget`, or the next retraining.
    """
    if not context.store.person(user).version and not context.monitor.shown_to(user):
        raise UnknownIdError(f"the user {user!r} is unknown")
    context.monitor.forget(user)
    forgotten = context.store.forget(user)
    context.live.of_user(user).let_go([user])
    return parts.respond({"user": user, "forgotten": forgotten})


def _store(context: Context, new: list[RatingRow], client: str, key: str | None) -> Response:
    _check(context.loaded(), new, accepts_new=context.settings.new_items)
    body = json.dumps({"stored": len(new)})
    once = None if key is None else RequestKey(client, key, _fingerprint(new))
    watched = _watched(context, new)
    before = context.store.rate(new, once, body, watched)
    if before is None:
        context.metrics.stored(len(new))
        now = datetime.now(UTC)
        for user, earlier in watched.items():
            ratings = {one.item: one.value for one in new if one.user == user}
            context.monitor.rate(Rated(user, earlier, ratings, context.live.of_user(user), now))
    return parts.respond(before or body, headers=None if before is None else {"Idempotency-Replayed": "true"})


def _watched(context: Context, new: list[RatingRow]) -> dict[str, dict[str, float]]:
    """The users whose ratings are held against what the model expects: not all of a large batch."""
    if not context.monitor.is_on:
        return {}
    users = list(dict.fromkeys(one.user for one in new))
    watched: dict[str, dict[str, float]] = {user: {} for user in users[:MAX_WATCHED]}
    if len(users) > MAX_WATCHED:
        context.metrics.unwatched("ratings", sum(one.user not in watched for one in new))
    return watched


def _check(loaded: Loaded, new: list[RatingRow], *, accepts_new: bool) -> None:
    """Refuse ratings that the model cannot use, before anything is stored."""
    items, ratings = [one.item for one in new], loaded.recommender.ratings_
    unknown = [item for item, row in zip(items, ratings.items.rows_of(items), strict=True) if row < 0]
    unknown = [item for item in unknown if item not in loaded.waiting]
    if unknown and not accepts_new:
        raise UnknownIdError(f"the model knows no item {named(dict.fromkeys(unknown))}")
    loaded.recommender.check_ratings(Ratings.from_arrays([one.user for one in new], items, [one.value for one in new]))


def _fingerprint(new: Iterable[RatingRow]) -> str:
    asked: list[Any] = [[one.user, one.item, one.value, None if one.at is None else one.at.isoformat()] for one in new]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _checked_time(at: datetime | None) -> datetime | None:
    """The time in UTC; one in the future is refused, because it would spoil splits by time."""
    if at is not None and not EARLIEST <= utc(at) <= datetime.now(UTC) + MAX_CLOCK_DIFFERENCE:
        raise InvalidParameterError(f"a rating is of {at.isoformat()}; expected a time from 1970 on that has passed")
    return None if at is None else utc(at)
