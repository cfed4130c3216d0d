"""Updates of a recommender: new ratings are merged with those it has, and counted.

Ids keep their rows: new users and items are appended. The later rating of a pair wins; counts add up, because
they count choices since. The merged ratings are in the order of users and items, as in an artifact, so that
a model and its saved copy are updated in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from tastespace.arrays import FIRST_INFINITE, BoolArray, DoubleArray, IntArray, TimeArray, contiguous
from tastespace.data.features import Features
from tastespace.data.kinds import CHOICES, strange
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary, is_canonical_integer
from tastespace.errors import DataError, InvalidParameterError, warn
from tastespace.models.base.posterior import Posterior
from tastespace.parameters import check_int
from tastespace.progress import Observer
from tastespace.randomness import generator

if TYPE_CHECKING:
    from tastespace.models.base.recommender import Recommender

# Above this share of ratings that the draws have not learned from, a restart predicted better than none; between 5, 10
# and 20 sweeps of warm-up there was no difference (docs/how-to/production/update.md).
RESTART_SHARE = 0.05
RESTART_SWEEPS = 10

UNLIKE = "new ratings do not fit those of the model: user {user!r} rated item {item!r} with {value:g}"
IF_CHANGED = "if the scale has changed, fit again on all ratings"

Sweeps = int | Literal["auto"]
How = Literal["nothing new", "kept draws", "new items placed", "warm restart", "fitted again"]


@dataclass(frozen=True)
class UpdateSummary:
    """The content and the effect of one update."""

    ratings: int  # new to the model
    replaced: int  # of these, newer ratings of a pair, or counts added to existing ones
    unchanged: int  # beside these: known already, with the same value
    new_users: int
    new_items: int
    by_new_users: int  # of the ratings; new since the model was learned
    of_new_items: int
    how: How = "nothing new"
    sweeps: int = 0  # of warm-up, for a warm restart

    @property
    def is_nothing(self) -> bool:
        return not (self.ratings or self.new_users or self.new_items)


@dataclass(frozen=True)
class TrainingSummary:
    """What a recommender has seen: the ratings that it was learned from, and those added since.

    Added ratings count for the users who gave them, and for new items; old items do not change until everything is
    learned again, by a warm restart or a fit.
    """

    learned_ratings: int
    learned_users: int
    learned_items: int
    added: int = 0  # ratings since, including replaced ones
    replaced: int = 0
    by_new_users: int = 0
    of_new_items: int = 0
    updates: int = 0  # since the first fit

    @classmethod
    def of(cls, ratings: Ratings) -> TrainingSummary:
        """The summary of a model just learned from these ratings."""
        return cls(len(ratings), ratings.n_users, ratings.n_rated_items)

    @property
    def added_share(self) -> float:
        """Added ratings, as a share of those that the model was learned from."""
        return self.added / max(self.learned_ratings, 1)

    def after(self, news: UpdateSummary, ratings: Ratings) -> TrainingSummary:
        """The summary after this update, with all ratings now being these."""
        if news.how in ("warm restart", "fitted again"):
            return replace(TrainingSummary.of(ratings), updates=self.updates + 1)
        summed = ("replaced", "by_new_users", "of_new_items")
        sums = {name: getattr(self, name) + getattr(news, name) for name in summed}
        return replace(self, added=self.added + news.ratings, updates=self.updates + 1, **sums)

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> TrainingSummary:
        return cls(**{name: int(value) for name, value in saved.items()})

    def __str__(self) -> str:
        learned = f"learned from {self.learned_ratings:,} ratings"
        times = "1 update" if self.updates == 1 else f"{self.updates:,} updates"
        if not self.added:
            return f"{learned}, none added since; {times}"
        return (
            f"{learned}, {self.added:,} added since ({self.added_share:.1%}: {self.replaced:,} replaced older ones, "
            f"{self.by_new_users:,} by new users, {self.of_new_items:,} of new items); {times}"
        )


@dataclass(frozen=True, eq=False)
class Merged:
    """All ratings together, and what was new among the later ones."""

    ratings: Ratings
    news: UpdateSummary
    is_touched: BoolArray  # one per user: whether they have a new rating in this update


def conclude(
    old: Recommender, new: Recommender, merged: Merged, sweeps: Sweeps, observer: Observer
) -> tuple[Posterior, UpdateSummary]:
    """The posterior of a new recommender from all ratings, given what the old one had seen; and how it was computed."""
    posterior, news, seed = old.posterior_, merged.news, old.seed_
    if new.kept_up is None or new.restarted is None:
        if sweeps != "auto":
            raise InvalidParameterError(
                f"sweeps is {sweeps}, but {type(new).__name__} has no chains to continue: it is fitted again "
                "on all ratings; expected sweeps='auto'"
            )
        if news.is_nothing:
            return posterior, news
        is_new_items_only = not news.ratings and not news.new_users
        if is_new_items_only and new.placed is not None:
            placed = new.placed(posterior, merged.ratings)
            if placed is not None:
                return placed, replace(news, how="new items placed")
        return new.infer(merged.ratings, generator(seed), observer), replace(news, how="fitted again")
    seen = old.seen_.after(news, merged.ratings)
    posterior = new.kept_up(posterior, merged, seen, seed)
    if warmup := restart_sweeps(sweeps, seen.added_share):
        posterior = new.restarted(posterior, merged.ratings, seen, warmup, seed, observer)
        return posterior, replace(news, how="warm restart", sweeps=warmup)
    return posterior, replace(news, how="nothing new" if news.is_nothing else "kept draws")


def restart_sweeps(sweeps: Sweeps, share: float) -> int:
    """The warm-up of a restart if there is one, 0 if not; requested stale draws give a warning."""
    if sweeps == "auto":
        return RESTART_SWEEPS if share > RESTART_SHARE else 0
    if sweeps == 0 and share > RESTART_SHARE:
        warn(
            f"the ratings added since are {share:.0%} of those that the model was learned from, and sweeps=0 leaves "
            f"old items unchanged; above {RESTART_SHARE:.0%} a restart pays: sweeps='auto', or fit again"
        )
    return int(sweeps)


def check_sweeps(sweeps: Any) -> None:
    if sweeps != "auto":
        try:
            check_int("sweeps", sweeps, least=0)
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{error}, or 'auto'") from None


def as_ratings(news: Any) -> Ratings:
    """New ratings in any form that has users."""
    if isinstance(news, Mapping):
        raise DataError(
            "the new ratings are a mapping, which has no users",
            expected="Ratings, or a table with the columns user, item and rating",
        )
    is_arrow = hasattr(news, "__arrow_c_stream__") and not isinstance(news, pl.Series)
    if not isinstance(news, Ratings | pl.LazyFrame) and not hasattr(news, "columns") and not is_arrow:
        raise InvalidParameterError(
            f"update got {type(news).__name__}; expected Ratings, or a table with the columns user, item and rating"
        )
    ratings = news if isinstance(news, Ratings) else Ratings.from_frame(news)
    if not len(ratings) and (ratings.n_users or not ratings.n_items):
        raise DataError("there are no new ratings", expected="at least one")
    return ratings


def of_the_same_kind(new: Ratings, old: Ratings) -> Ratings:
    """New ratings with the declared kind of the old ones; an error if they are known to be of another.

    Counts and one-class ratings are both implicit feedback: they keep the kind of the model.
    """
    kind = old.declared_kind
    if new.declared_kind is not None and new.declared_kind != kind:
        are_choices = old.kind in CHOICES, new.kind in CHOICES
        if are_choices[0] != are_choices[1] or (kind is not None and not all(are_choices)):
            raise DataError(
                f"the new ratings are {new.kind} ({new.kind_and_reason.reason}), but those of the model are {old.kind} "
                f"({old.kind_and_reason.reason})",
                expected="the same kind; if it has changed, fit again on all ratings",
            )
    return new if kind is None or kind == new.declared_kind else new.with_kind(kind)


def check_range(news: Ratings, rating_range: tuple[float, float]) -> None:
    """Refuse ratings outside the range that the model was fitted on: they may be on another scale."""
    low, high = rating_range
    expected = f"a rating from {low:g} to {high:g}, as it was fitted on; {IF_CHANGED}"
    refuse(news, (news.values < low) | (news.values > high), UNLIKE, expected)


def check_levels(news: Ratings, levels: DoubleArray) -> None:
    """Refuse ratings that are not levels of the model."""
    shown = ", ".join(f"{level:g}" for level in levels[:12]) + (" …" if len(levels) > 12 else "")
    refuse(news, strange(news.values, levels), UNLIKE, f"one of its levels {shown}; {IF_CHANGED}")


def refuse(ratings: Ratings, wrong: BoolArray, problem: str, expected: str) -> None:
    """Raise an error if any are wrong; the problem has placeholders for user, item and value of the first."""
    places = np.flatnonzero(wrong)
    if len(places):
        first = places[0]
        user, item = ratings.users.ids[int(ratings.user_rows[first])], ratings.items.ids[int(ratings.item_rows[first])]
        about = problem.format(user=user, item=item, value=ratings.values[first])
        raise DataError(f"{len(places):,} of {len(ratings):,} {about}", expected=expected)


def merge(old: Ratings, new: Ratings, seen: TrainingSummary, *, warns: bool = True) -> Merged:
    """Old ratings and new ones together."""
    users, user_rows = _extended(old.users, new.users, "user", warns=warns)
    items, item_rows = _extended(old.items, new.items, "item", warns=warns)
    who, what = user_rows[new.user_rows], item_rows[new.item_rows]
    keys = np.concatenate([old.user_rows, who]).astype(np.int64) * len(items) + np.concatenate([old.item_rows, what])
    values, times = np.concatenate([old.values, new.values]), _times(old, new)
    adds_up = old.kind == "counts"
    order = np.argsort(keys, kind="stable")  # the new rating of a pair comes last
    ordered = keys[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    before, after = order[np.flatnonzero(~is_last)], order[np.flatnonzero(~is_last) + 1]
    is_unchanged = np.zeros(len(keys), np.bool_)
    if adds_up:
        sums = values[before].astype(np.float64) + values[after]  # total number of choices
        if not (sums < FIRST_INFINITE).all():
            raise DataError("the counts of a pair add up to more than can be stored", expected="smaller ones")
        values[after] = sums
    else:
        is_unchanged[after] = values[before] == values[after]
    is_new = ~is_unchanged[len(old) :]
    kept, sources, titles = order[is_last], _sources(old.n_items, item_rows, len(items)), None
    if old.item_titles is not None or new.item_titles is not None:  # Known titles stay.
        titles = pl.select(pl.coalesce(old.title_of(sources[0]), new.title_of(sources[1]))).to_series()
    ratings = Ratings(
        users,
        items,
        contiguous(keys[kept] // len(items), np.int32),
        contiguous(keys[kept] % len(items), np.int32),
        contiguous(values[kept], np.float32),
        None if times is None else times[kept],
        titles,
        _attributes(old.item_attributes, new.item_attributes, *sources),
        _attributes(old.user_attributes, new.user_attributes, *_sources(old.n_users, user_rows, len(users))),
        _features(old.item_features, new.item_features, items),
        _features(old.user_features, new.user_features, users),
        declared_kind=old.declared_kind or new.declared_kind,
        kind_reason=old.kind_reason if old.declared_kind is not None else new.kind_reason,
    )
    is_touched = np.zeros(len(users), np.bool_)
    is_touched[who[is_new]] = True
    n_unchanged = int(is_unchanged.sum())
    news = UpdateSummary(
        ratings=len(new) - n_unchanged,
        replaced=len(after) - n_unchanged,
        unchanged=n_unchanged,
        new_users=len(users) - old.n_users,
        new_items=len(items) - old.n_items,
        by_new_users=int(np.count_nonzero(who[is_new] >= seen.learned_users)),
        of_new_items=int(np.count_nonzero(what[is_new] >= seen.learned_items)),
    )
    return Merged(ratings, news, is_touched)


def _extended(old: Vocabulary, new: Vocabulary, side: str, *, warns: bool) -> tuple[Vocabulary, IntArray]:
    """The old ids followed by new ones, and the rows of the new vocabulary in it."""
    rows = old.rows_of(new.ids)
    is_new = rows < 0
    if not is_new.any():
        return old, rows
    known, added = old.ids, new.ids.filter(pl.Series(is_new))
    if known.dtype == pl.Int64 and added.dtype == pl.String and is_canonical_integer(added).all():
        added = added.cast(pl.Int64)  # as it was typed, or read beside words
    if known.dtype != added.dtype:
        if known.dtype != pl.String and warns:
            warn(f"{side} ids were integers and are texts from now on, because of the new id {added[0]!r}")
        known, added = known.cast(pl.String), added.cast(pl.String)
    rows[is_new] = len(old) + np.arange(len(added), dtype=np.int32)
    return Vocabulary(pl.concat([known, added.alias(known.name)])), rows


def _features(old: Features | None, new: Features | None, ids: Vocabulary) -> Features | None:
    """The features that the model has, in the same columns, and those of new ids below them."""
    if old is None or len(old) == len(ids):
        return old
    added = Vocabulary(ids.ids[len(old) :])
    return old.extended(Features(added) if new is None else new.aligned(added), ids)


def _times(old: Ratings, new: Ratings) -> TimeArray | None:
    """The known times; an artifact has none."""
    if old.times is None and new.times is None:
        return None
    parts = [np.full(len(part), "NaT", "datetime64[s]") if part.times is None else part.times for part in (old, new)]
    return np.concatenate(parts)


def _sources(n_old: int, rows: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """The source of the description of each row: its row in the old ratings and in the new ones, or -1."""
    own, brought = np.arange(n, dtype=np.int32), np.full(n, -1, np.int32)
    own[n_old:] = -1
    brought[rows] = np.arange(len(rows), dtype=np.int32)
    return own, brought


def _attributes(
    old: pl.DataFrame | None, new: pl.DataFrame | None, own: IntArray, brought: IntArray
) -> pl.DataFrame | None:
    """Known values stay, missing ones come from the new ratings."""
    attributes = _attributes_at(new, brought)
    if old is None:
        return attributes
    if attributes is None:
        return _attributes_at(old, own)
    try:
        return pl.concat([old, attributes[old.height :]], how="diagonal_relaxed")
    except pl.exceptions.SchemaError as error:
        raise DataError(
            f"the new attributes are of another type than the old ones ({error})",
            expected="the same types of columns",
        ) from error


def _attributes_at(attributes: pl.DataFrame | None, rows: IntArray) -> pl.DataFrame | None:
    """Attributes of rows; null where a row is -1."""
    return None if attributes is None else attributes.select(pl.all().gather(pl.Series(rows).replace(-1, None)))
