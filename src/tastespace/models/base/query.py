"""Who is asked about, and what they are known to have rated: in training, and since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace import randomness
from tastespace.arrays import BoolArray, IntArray
from tastespace.data.csr import CSR
from tastespace.data.kinds import CHOICES, strange
from tastespace.data.ratings import Ratings
from tastespace.data.tables import USUAL_NAMES, is_pandas, usual_column
from tastespace.data.vocabulary import Ids, Vocabulary, id_series, listed
from tastespace.errors import DataError, InvalidParameterError, named, warn
from tastespace.models.base.posterior import Latent, Posterior, Remembers, Reweighs

# Ratings of any users, {item: rating} of one, or the items that one chose.
History = Ratings | Mapping[Any, float] | Sequence[Any]


def plain_history(history: Any) -> History | None:
    """A table of polars or pandas as what it stands for: ratings, or those of one person where it names no users.

    Items alone, in a table or not, are what one person chose.
    """
    table: Any = history.collect() if isinstance(history, pl.LazyFrame) else history
    if isinstance(table, np.ndarray | pl.Series | set | frozenset):
        return list(table)
    if table is None or isinstance(table, Ratings | Mapping) or not hasattr(table, "columns"):
        return table  # type: ignore[no-any-return]
    if usual_column([str(name) for name in table.columns], USUAL_NAMES["user"]) is not None:
        return Ratings.from_frame(table)
    own = Ratings.from_frame(table.assign(user=0) if is_pandas(table) else table.with_columns(user=pl.lit(0)))
    if own.declared_kind in CHOICES:
        return own.item_ids().gather(np.repeat(np.arange(len(own)), own.values.astype(int))).to_list()
    return dict(zip(own.item_ids(), own.values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Asked:
    """The users of one request, each once; `rows` are theirs in the training ratings, -1 for strangers."""

    users: Vocabulary
    rows: IntArray
    before: CSR  # items each has rated in training, ascending
    seen: CSR  # the same and those of the history together
    has_history: BoolArray  # who rated something since training that the model can use

    @property
    def cold(self) -> BoolArray:
        """Who has nothing to go by."""
        return np.asarray((self.rows < 0) & (self.seen.counts == 0))


def asked_users(
    trained: Ratings,
    user_ids: Ids,
    history: History | None,
    rating_range: tuple[float, float],
    *,
    takes_choices: bool = True,
    instead: bool = False,
) -> Asked:
    """The users asked about, with what they rated before and since; the newer rating of an item wins, counts add up.

    With `instead` the history is all that they rated: they are strangers with this history.
    """
    ids = id_series(user_ids, "user")
    users = Vocabulary(ids if len(ids) == 1 else ids.unique(maintain_order=True))
    rows = trained.users.rows_of(users.ids)
    before = trained.by_user.take(rows) if len(trained) else _nothing(len(users))
    since = _since(trained, users, _named(history, users), rating_range, takes_choices)
    if instead:
        return _instead(users, before, since)
    has_history: BoolArray = np.zeros(len(users), np.bool_)
    if since is None or not since.height:
        return Asked(users, rows, before, before, has_history)
    has_history[since["user"].to_numpy()] = True
    if not len(trained) and (rows[has_history] >= 0).any():
        warn("the model was saved without its ratings, so that for users with a history only the history counts")
    both = pl.concat([_frame(before.rows(), before.columns, before.values), since])
    if trained.kind == "counts":
        both = both.group_by("user", "item").agg(pl.col("value").sum()).sort("user", "item")
    else:
        both = both.unique(["user", "item"], keep="last", maintain_order=True).sort("user", "item")
    columns = (both["user"].to_numpy(), both["item"].to_numpy(), both["value"].to_numpy())
    return Asked(users, rows, before, CSR.group(*columns, len(users)), has_history)


def _instead(users: Vocabulary, before: CSR, since: pl.DataFrame | None) -> Asked:
    """Users with nothing but their history; of what they rated in training, what is still in it."""
    strangers = np.full(len(users), -1, np.int32)
    if since is None or not since.height:
        nothing = _nothing(len(users))
        return Asked(users, strangers, nothing, nothing, np.zeros(len(users), np.bool_))
    rows, items, values = (since[name].to_numpy() for name in ("user", "item", "value"))
    width = 1 + max(int(items.max()), int(before.columns.max(initial=0)))
    keys = rows.astype(np.int64) * width + items  # one number a pair
    order = np.argsort(keys, kind="stable")
    last = order[np.append(keys[order][1:] != keys[order][:-1], True)]  # of each pair the newest
    rows, items, values, keys = rows[last], items[last], values[last], keys[last]
    then = before.rows().astype(np.int64) * width + before.columns
    places = np.searchsorted(then, keys)
    found = np.minimum(places, max(len(then) - 1, 0))
    still = np.zeros(len(keys), np.bool_)
    if len(then):
        still = (then[found] == keys) & (before.values[found] == values)
    seen = CSR.group(rows, items, values, len(users))
    before = CSR.group(rows[still], items[still], values[still], len(users))
    return Asked(users, strangers, before, seen, np.asarray(seen.counts > 0))


def require_levels(posterior: Any, asked: Asked) -> None:
    """Refuse a history with ratings that a model of levels does not know; numbers may be any."""
    if not isinstance(posterior, Latent) or not posterior.is_latent or posterior.history_levels is None:
        return
    wrong = np.flatnonzero(strange(asked.seen.values, posterior.history_levels))
    if len(wrong):
        shown = ", ".join(f"{level:g}" for level in posterior.history_levels[:12]) + (
            " …" if len(posterior.history_levels) > 12 else ""
        )
        raise InvalidParameterError(
            f"the history has a rating of {asked.seen.values[wrong[0]]:g}; expected one of the model's levels: {shown}"
        )


def _named(history: History | None, users: Vocabulary) -> Ratings | None:
    """A history as ratings of users: that of one person is his."""
    if history is None or isinstance(history, Ratings):
        return history
    if not isinstance(history, Mapping | Sequence) or isinstance(history, str | bytes):
        raise InvalidParameterError(
            f"history is of type {type(history).__name__}; expected Ratings, a table, {{item: rating}} of one user, or "
            "the items that one chose"
        )
    if len(users) != 1:
        raise InvalidParameterError(
            f"history maps items to ratings for {len(users)} users; expected one user, or Ratings with user ids"
        )
    if not history:
        return None
    values = list(history.values()) if isinstance(history, Mapping) else None
    try:
        return Ratings.from_arrays([users.ids[0]] * len(history), list(history), values)
    except (TypeError, ValueError) as error:
        form = "items that were chosen" if values is None else "{item: rating}"
        raise DataError(f"the history is not {form}: {error}") from error


def _since(
    trained: Ratings,
    users: Vocabulary,
    history: Ratings | None,
    rating_range: tuple[float, float],
    takes_choices: bool,
) -> pl.DataFrame | None:
    """The history as (position in users, item row, value), less what the model cannot use."""
    if history is None:
        return None
    if history.declared_kind in CHOICES and not takes_choices:
        raise InvalidParameterError(
            f"the history says what was chosen ({history.kind_and_reason.reason}), and the model was fitted on "
            f"{trained.kind}; expected items with ratings"
        )
    rows = trained.items.rows_of(history.items.ids)
    if (rows < 0).any():
        unknown = history.items.ids.filter(pl.Series(rows < 0))
        warn(
            f"{len(unknown)} of {len(rows)} items in the history are unknown to the model and tell it nothing: "
            f"{named(unknown)}"
        )
    places = users.rows_of(history.users.ids)
    if (places < 0).all():
        warn(f"the history has no ratings of the users asked about, only of {named(history.users.ids)}")
    positions, items = places[history.user_rows], rows[history.item_rows]
    keep = (positions >= 0) & (items >= 0)
    values, (low, high) = history.values[keep], rating_range
    if _says_only_that(trained):
        values = np.where(values > 0, np.float32(1), values)
    if len(values) and (values.min() < low or values.max() > high):
        spread = f"{values.min():g} to {values.max():g}"
        warn(f"the history has ratings from {spread}; the model was fitted on {low:g} to {high:g}")
    return _frame(positions[keep], items[keep], values)


def _says_only_that(trained: Ratings) -> bool:
    """Whether training knew only that things were chosen: how often, or how many stars, then says nothing more."""
    return trained.kind == "one-class" and (not len(trained) or trained.range == (1, 1))


def _frame(users: Any, items: Any, values: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": users, "item": items, "value": values})


def _nothing(n: int) -> CSR:
    return CSR(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True, eq=False)
class Request:
    """What every answer about users starts from."""

    trained: Ratings
    posterior: Posterior[Any]
    seed: int  # of the model
    users: pl.Series  # in the order they were asked about; one may be there twice
    asked: Asked  # the same users, each once: those that a belief is about
    threads: int

    @property
    def positions(self) -> IntArray:
        """Where each of the users is among those asked about."""
        return self.asked.users.rows_of(self.users)

    @cached_property
    def belief(self) -> Any:
        """As training left it, or folded in where there is news."""
        asked, posterior = self.asked, self.posterior
        if not asked.has_history.any():
            return posterior.known(asked.rows, self.threads)
        require_levels(posterior, asked)
        known = posterior.known(asked.rows, self.threads)
        folded = posterior.fold_in(asked.seen, self.threads)
        if isinstance(posterior, Reweighs):
            folded = posterior.reweighed(folded, asked.before)
        return posterior.choose(asked.has_history, folded, known)

    @property
    def cold(self) -> BoolArray:
        """Who has nothing to go by: also those whose ratings the model would need, and was saved without."""
        if isinstance(self.posterior, Remembers) and not len(self.trained):
            return np.asarray(self.asked.seen.counts == 0)
        return self.asked.cold

    def rng_of(self, *purpose: object) -> Callable[[int], Generator]:
        """Random numbers of each user: the same for the same model, user and purpose."""
        known = self.trained.users.at(self.asked.rows)  # by their own ids: typed at a terminal, 7 is a text
        return lambda user: randomness.derive(self.seed, *purpose, known[user] or self.asked.users.ids[user])


def users_meant(trained: Ratings, user_ids: Ids | None, history: History | None, verb: str) -> pl.Series:
    """Those asked about; or else those of the history."""
    if user_ids is None:
        if history is None:
            raise InvalidParameterError(f"{verb} got neither users nor a history; expected at least one")
        user_ids = history.users.ids if isinstance(history, Ratings) else [stranger(trained)]
    return id_series(listed(user_ids), "user")


def stranger(trained: Ratings) -> str:
    """A name for somebody whom the training ratings do not know."""
    name = "you"
    while trained.users.rows_of([name])[0] >= 0:
        name += "'"
    return name
