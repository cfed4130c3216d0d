"""A query: the users, their ratings in training and since, and the items that may be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import randomness
from tastespace.arrays import BoolArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR, offsets_of
from tastespace.data.kinds import CHOICES, strange
from tastespace.data.newcomers import newcomers_of
from tastespace.data.ratings import Ratings
from tastespace.data.tables import USUAL_NAMES, is_pandas, usual_column
from tastespace.data.vocabulary import Ids, Vocabulary, id_series, items_named, listed, titles_like
from tastespace.errors import DataError, InvalidParameterError, UnknownIdError, named
from tastespace.index.search import Excluded
from tastespace.models.base.posterior import Belief, People, Posterior

# Ratings of any users, {item: rating} of one, or the items that one user chose.
History = Ratings | Mapping[Any, float] | Sequence[Any]
Remarks = tuple[str, ...]  # notes for the caller, in sentences


@dataclass(frozen=True, eq=False)
class Query:
    """The users of one request, with everything that answers about them are based on."""

    trained: Ratings
    posterior: Posterior
    seed: int  # of the model
    users: pl.Series  # in the requested order; a user may occur twice
    each: Vocabulary  # the same users, each once: the people of the belief
    positions: IntArray  # position of each of the users among them
    people: People
    threads: int
    remarks: Remarks = ()

    @property
    def belief(self) -> Belief:
        """The belief about the people, computed once on first use."""
        found: Belief | None = self.__dict__.get("_belief")
        if found is None:
            found = self.__dict__["_belief"] = self.posterior.believe(self.people, self.threads)
        return found

    @property
    def cold(self) -> BoolArray:
        """Users without known ratings, including those whose ratings the model would need but was saved without."""
        has_nothing = np.diff(self.people.history.offsets) == 0
        is_unknown = not self.posterior.keeps_users and not len(self.trained.values)
        return np.asarray(has_nothing if is_unknown else (self.people.rows < 0) & has_nothing)

    def columns_of(self, items: IntArray) -> dict[str, Any]:
        """The columns of users and items for lists of items, one row per person: one list per requested user."""
        rows, trained = items[self.positions], self.trained
        titles = None if trained.item_titles is None else trained.title_of(rows.reshape(-1))
        of_items = {"item_rows": rows, "item_ids": trained.items.at(rows.reshape(-1)), "titles": titles}
        return {"user_ids": self.users, "cold": self.cold[self.positions], **of_items}

    def rng_of(self, *purpose: object) -> Callable[[int], Generator]:
        """A random generator for each user: the same for the same model, user and purpose."""

        def generator(user: int) -> Generator:
            row = int(self.people.rows[user])  # By their own ids: an id typed at a terminal is a text.
            known = self.each.ids[user] if row < 0 else self.trained.users.ids[row]
            return randomness.derive(self.seed, *purpose, known)

        return generator


@dataclass(frozen=True)
class Expected:
    """The values that a model expects in a history."""

    low: float
    high: float
    kind: str = "stars"  # of the training ratings
    takes_choices: bool = True  # a choice without a value is informative
    are_choices: bool = False  # only choices are allowed
    is_only_that: bool = False  # counts or stars add no information


def find_people(
    trained: Ratings,
    each: Vocabulary,
    history: Any,
    expected: Expected,
    *,
    instead: bool = False,
    user_features: Any = None,
) -> tuple[People, Remarks]:
    """Users with their ratings before and since; the newer rating of an item wins, counts add up.

    With `instead` the history replaces all their ratings: they are new users with this history.
    """
    rows = trained.users.rows_of(each.ids)
    before = trained.by_user.take(rows) if len(trained.values) else CSR.empty(len(rows))
    remarks: list[str] = []
    features = features_of(trained, each, rows, user_features, remarks)
    given = _as_ratings(_plain(history), each)
    nothing = np.zeros(0, np.int32)
    who, what, values = (nothing,) * 3 if given is None else _since(trained, each, given, expected, remarks)
    is_new: BoolArray = np.zeros(len(rows), np.bool_)
    is_new[who] = True
    if instead:
        own = _merged(who, what, values, len(rows))
        unknown = np.full(len(rows), -1, np.int32)
        return People(unknown, own, _still_there(before, own), is_new, features), tuple(remarks)
    if not len(who):
        return People(rows, before, before, is_new, features), tuple(remarks)
    if not len(trained.values) and (rows[is_new] >= 0).any():
        remarks.append("the model was saved without its ratings, so for users with a history only the history counts")
    known = before.rows(), before.columns, before.values
    who, what, values = (np.concatenate(parts) for parts in zip(known, (who, what, values), strict=True))
    both = _merged(who, what, values, len(rows), adds_up=expected.kind == "counts")
    return People(rows, both, before, is_new, features), tuple(remarks)


def features_of(trained: Ratings, each: Vocabulary, rows: IntArray, given: Any, remarks: list[str]) -> Any:
    """The features of users as a model takes them, one sparse row each; None if there are none.

    `given` replaces what is known of the users in it; about users who are neither there nor in training nothing is
    known. Of one user it may be `{name: value}`.
    """
    known = trained.user_features
    if known is None or not known.n_columns:
        if given is not None:
            raise InvalidParameterError(
                "user_features are given, but the model was fitted without features of users; expected None, or a fit "
                "on ratings.with_user_features(...)"
            )
        return None
    if given is None:
        return known.matrix[rows] if (rows >= 0).all() else known.encode(known.take(rows, each))
    if isinstance(given, Mapping) and len(each) == 1 and not any(isinstance(cell, Mapping) for cell in given.values()):
        given = {each.ids[0]: dict(given)}
    found = newcomers_of(given, "user", trained)
    remarks.extend(found.remarks)
    places = found.ids.rows_of(each.ids)
    if (places < 0).all():
        remarks.append(f"user_features have none of the requested users, only {named(found.ids.ids)}")
    assert found.features is not None
    before, after = (known.encode(each_of) for each_of in (known.take(rows, each), found.features.aligned(each)))
    is_given = (places >= 0).astype(np.float32)
    return (scipy.sparse.diags_array(1 - is_given) @ before + scipy.sparse.diags_array(is_given) @ after).tocsr()


def check_history(posterior: Posterior, people: People, items: Vocabulary, expected: Expected) -> None:
    """Refuse values that are not among the levels of a model, or not counts for an implicit model."""
    values = people.history.values
    if not people.is_new.any() or not len(values):
        return
    if expected.are_choices and len(wrong := np.flatnonzero(~(values > 0))):
        item = items.ids[int(people.history.columns[wrong[0]])]
        raise InvalidParameterError(
            f"the history has item {item!r} with {values[wrong[0]]:g}; expected values above 0 for chosen items: "
            "leave out the others"
        )
    levels = posterior.history_levels
    if levels is not None and len(wrong := np.flatnonzero(strange(values, levels))):
        shown = ", ".join(f"{level:g}" for level in levels[:12]) + (" …" if len(levels) > 12 else "")
        raise InvalidParameterError(
            f"the history has a rating of {values[wrong[0]]:g}; expected one of the model's levels: {shown}"
        )


def users_of(trained: Ratings, user_ids: Ids | None, history: Any, verb: str) -> pl.Series:
    """The requested users, or else those of the history."""
    if user_ids is None:
        if history is None:
            raise InvalidParameterError(f"{verb} got neither users nor a history; expected at least one")
        history = _plain(history)
        user_ids = history.users.ids if isinstance(history, Ratings) else [new_name(trained)]
    return id_series(listed(user_ids), "user")


def each_once(users: pl.Series) -> tuple[Vocabulary, IntArray]:
    """The users, each once, and the position of each requested one among them."""
    if len(users) == 1:
        return Vocabulary(users), np.zeros(1, np.int32)
    each = Vocabulary(users.unique(maintain_order=True))
    return each, each.rows_of(users)


def new_name(trained: Ratings) -> str:
    """An id that no user of the training ratings has."""
    name = "you"
    while trained.users.rows_of([name])[0] >= 0:
        name += "'"
    return name


def _plain(history: Any) -> History | None:
    """Convert a polars or pandas table to ratings, or to those of one user if it has no column of users.

    Items alone, in a table or not, are the choices of one user.
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


def _as_ratings(history: History | None, each: Vocabulary) -> Ratings | None:
    """A history as ratings of users: a mapping or items belong to the one user."""
    if history is None or isinstance(history, Ratings):
        return history
    if not isinstance(history, Mapping | Sequence) or isinstance(history, str | bytes):
        raise InvalidParameterError(
            f"history is of type {type(history).__name__}; expected Ratings, a table, {{item: rating}} of one user, or "
            "the items that one user chose"
        )
    if len(each.ids) != 1:
        raise InvalidParameterError(
            f"history maps items to ratings for {len(each)} users; expected one user, or Ratings with user ids"
        )
    if not history:
        return None
    values = list(history.values()) if isinstance(history, Mapping) else None
    try:
        return Ratings.from_arrays([each.ids[0]] * len(history), list(history), values)
    except (TypeError, ValueError) as error:
        form = "items that were chosen" if values is None else "{item: rating}"
        raise DataError(f"the history is not {form}: {error}") from error


def _since(
    trained: Ratings, each: Vocabulary, history: Ratings, expected: Expected, remarks: list[str]
) -> tuple[IntArray, IntArray, NDArray[Any]]:
    """The history as (positions of users, item rows, values), without what the model cannot use."""
    if history.declared_kind in CHOICES and not expected.takes_choices:
        raise InvalidParameterError(
            f"the history says what was chosen ({history.kind_and_reason.reason}), but the model was fitted on "
            f"{expected.kind}; expected items with ratings"
        )
    rows, places = trained.items.rows_of(items_named(trained, history.items.ids)), each.rows_of(history.users.ids)
    if (rows < 0).any():
        unknown = history.items.ids.filter(pl.Series(rows < 0))
        remarks.append(
            f"{len(unknown)} of {len(rows)} items in the history are unknown to the model and are ignored: "
            f"{named(unknown)}"
        )
    if (places < 0).all():
        remarks.append(f"the history has no ratings of the requested users, only of {named(history.users.ids)}")
    positions, items = places[history.user_rows], rows[history.item_rows]
    keep = (positions >= 0) & (items >= 0)
    values = history.values[keep]
    if expected.is_only_that:
        values = np.where(values > 0, np.float32(1), values)
    if len(values) and (values.min() < expected.low or values.max() > expected.high):
        spread = f"{values.min():g} to {values.max():g}"
        remarks.append(
            f"the history has ratings from {spread}; the model was fitted on {expected.low:g} to {expected.high:g}"
        )
    return positions[keep], items[keep], values


def _merged(rows: IntArray, items: IntArray, values: NDArray[Any], n: int, *, adds_up: bool = False) -> CSR:
    """Ratings by user, items ascending: the last of each pair, or the sum if counts add up."""
    keys = (rows.astype(np.int64) << 32) + items  # one number per pair
    order = np.argsort(keys, kind="stable")
    is_last = np.diff(keys[order], append=-1) != 0
    last = order[is_last]
    firsts = np.flatnonzero(np.append(True, is_last[:-1]))
    kept = np.add.reduceat(values[order], firsts) if adds_up else values[last]
    offsets = offsets_of(np.bincount(rows[last], minlength=n))
    return CSR(offsets, np.asarray(items[last], np.int32), np.asarray(kept, np.float32))


def _still_there(before: CSR, history: CSR) -> CSR:
    """The part of a history that training has seen, with the same values."""
    then, keys = ((part.rows().astype(np.int64) << 32) + part.columns for part in (before, history))
    still = _are_among(keys, then)
    still[still] = before.values[np.searchsorted(then, keys[still])] == history.values[still]
    return history.masked(still)


@dataclass(frozen=True, eq=False)
class Filters:
    """The items that may be shown to each user of one request. All filters apply together."""

    excluded: Excluded | None = None  # items that must not be shown to each person
    allowed: BoolArray | None = None  # one flag per item; None for all
    own: CSR | None = None  # items that each person chooses from, less the above; None for all

    def forbid(self, scores: FloatMatrix, rows: IntArray) -> None:
        """Write minus infinity where an item must not be found; `rows` are consecutive rows of the people."""
        if self.allowed is not None:
            scores[:, ~self.allowed] = -np.inf
        if self.excluded is not None:
            offsets, items = self.excluded.offsets, self.excluded.items
            counts = np.diff(offsets[rows[0] : rows[-1] + 2])
            banned = items[offsets[rows[0]] : offsets[rows[-1] + 1]]
            scores[np.repeat(np.arange(len(rows)), counts), banned] = -np.inf

    def forbid_to(self, scores: FloatMatrix, row: int) -> None:
        """Write minus infinity where an item must not be shown to one person; one row of scores per draw."""
        banned = np.ones(scores.shape[1], np.bool_)
        banned[self.items_for(row, scores.shape[1])] = False
        scores[:, banned] = -np.inf

    def items_for(self, row: int, n_items: int) -> IntArray:
        """The items that may be shown to one person."""
        if self.own is not None:  # already without excluded items
            return self.own.columns[self.own.offsets[row] : self.own.offsets[row + 1]]
        flags = np.ones(n_items, np.bool_) if self.allowed is None else self.allowed.copy()
        if self.excluded is not None:
            flags[self.excluded.items[self.excluded.offsets[row] : self.excluded.offsets[row + 1]]] = False
        return np.flatnonzero(flags).astype(np.int32)


def filters_of(
    trained: Ratings,
    each: Vocabulary,
    seen: CSR,
    *,
    exclude: Any = "seen",
    include_seen: bool = False,
    only: Any = None,
    matching: BoolArray | None = None,
    shown: tuple[pl.Series, IntArray] | None = None,
) -> Filters:
    """The filters for these users, from the arguments of `Recommender.recommend`.

    `seen` has one row per user; `matching` are the items that fulfil a condition; `shown` are users, and rows of items
    that must not be shown to them again.
    """
    excluded, allowed, n_items = None, matching, len(trained.items.ids)
    if exclude is not None and not include_seen:
        excluded = Excluded(seen.offsets, seen.columns)
    if isinstance(exclude, str) and exclude != "seen":
        raise InvalidParameterError(
            f"exclude is {exclude!r}; expected 'seen', None, or items: for one item write exclude=[{exclude!r}]"
        )
    if not isinstance(exclude, str | None):
        of_users, items = pairs_of(exclude, "exclude")
        # Unknown items in such a list are allowed: it often has items that no user has rated yet.
        rows = trained.items.rows_of(items_named(trained, items))
        if of_users is None:
            allowed = np.ones(n_items, np.bool_) if matching is None else matching.copy()
            allowed[rows[rows >= 0]] = False
        else:
            excluded = _with_pairs(excluded, each, of_users, rows, n_items)
    if shown is not None:
        excluded = _with_pairs(excluded, each, *shown, n_items)
    if only is None:
        return Filters(excluded, allowed)
    of_users, items = pairs_of(only, "only")
    rows = known_items(trained, items)
    if of_users is None:
        chosen = np.zeros(n_items, np.bool_)
        chosen[rows] = True
        return Filters(excluded, chosen if allowed is None else chosen & allowed)
    own = _keys(each.rows_of(of_users), rows, n_items)
    if allowed is not None:
        own = own[allowed[own % n_items]]
    if excluded is not None:
        own = own[~_are_among(own, _keys_of(excluded, n_items))]
    offsets, columns = _grouped(own, len(each), n_items)
    return Filters(excluded, allowed, CSR(offsets, columns, np.zeros(len(columns), np.float32)))


def _with_pairs(
    excluded: Excluded | None, each: Vocabulary, users: pl.Series, items: IntArray, n_items: int
) -> Excluded:
    """The excluded items with these pairs added."""
    pairs = _keys(each.rows_of(users), items, n_items)
    if excluded is not None:
        pairs = _ascending(np.concatenate([pairs, _keys_of(excluded, n_items)]))
    return Excluded(*_grouped(pairs, len(each), n_items))


def allowed_items(trained: Ratings, *, exclude: Any, only: Any, matching: BoolArray | None) -> BoolArray | None:
    """One flag per item, for requests that are not about users; None for all."""
    if isinstance(exclude, str):
        raise InvalidParameterError(f"exclude is {exclude!r}; expected items: for one item write exclude=[{exclude!r}]")
    for name, rule in (("exclude", exclude), ("only", only)):
        if rule is not None and pairs_of(rule, name)[0] is not None:
            raise InvalidParameterError(f"{name} is a table with a column of users; expected items alone")
    nobody = Vocabulary(pl.Series([], dtype=pl.Int64))
    return filters_of(trained, nobody, CSR.empty(0), exclude=exclude, only=only, matching=matching).allowed


def both_of(table: Any) -> tuple[pl.Series, pl.Series]:
    """The users and the items of a table of pairs."""
    is_table = isinstance(table, Ratings) or _columns_of(table) is not None
    users, items = pairs_of(table, "predict") if is_table else (None, None)
    if users is None or items is None:
        raise InvalidParameterError(
            f"predict got {type(table).__name__} and no items; expected users and items, or a table with the columns "
            "user and item"
        )
    return users, items


def pairs_of(what: Any, name: str) -> tuple[pl.Series | None, pl.Series]:
    """The users (None: all) and the items given by a list, a series, or a table with their columns."""
    if isinstance(what, Ratings):
        return what.user_ids(), what.item_ids()
    if isinstance(what, Mapping):
        raise InvalidParameterError(
            f"{name} is of type {type(what).__name__}; expected a list of items, or a table with the columns user and "
            "item where users have their own, such as polars.DataFrame({'user': [1, 1], 'item': [2, 3]})"
        )
    columns = _columns_of(what)
    if columns is None:
        return None, id_series(listed(what), name)
    user, item = (usual_column(list(columns), USUAL_NAMES[part]) for part in ("user", "item"))
    if item is None:
        raise InvalidParameterError(
            f"{name} is a table with the columns {', '.join(columns)}; expected one called item, and perhaps user"
        )
    items = id_series(columns[item], f"{name}, column {item!r}")
    return (None if user is None else id_series(columns[user], f"{name}, column {user!r}")), items


def _columns_of(what: Any) -> dict[str, Any] | None:
    """The columns of a table of polars (also lazy), pandas or Arrow; None for anything else."""
    if is_pandas(what):
        return {str(label): what.iloc[:, place] for place, label in enumerate(what.columns)}
    if isinstance(what, pl.LazyFrame):
        what = what.collect()
    elif hasattr(what, "__arrow_c_stream__") and hasattr(what, "columns"):
        what = pl.DataFrame(what)
    return {column.name: column for column in what} if isinstance(what, pl.DataFrame) else None


def known_items(trained: Ratings, asked: pl.Series) -> IntArray:
    """The rows of items; an unknown one is an error that names it."""
    rows = trained.items.rows_of(items_named(trained, asked))
    if (rows < 0).any():
        unknown = asked.filter(pl.Series(rows < 0))
        offered = titles_like(trained, unknown[0])
        expected = f"an id or a whole title, such as {offered}" if offered else "items of the training ratings"
        raise UnknownIdError(f"the model knows no item {named(unknown)}", expected=expected)
    return rows


def _keys(user_positions: IntArray, item_rows: IntArray, n_items: int) -> NDArray[np.int64]:
    """One number per pair, ascending, each once; pairs of other users or of unknown items are left out."""
    known = (user_positions >= 0) & (item_rows >= 0)
    return _ascending(user_positions[known].astype(np.int64) * n_items + item_rows[known])


def _ascending(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct values in order; numpy's own function takes ten times as long over a million."""
    keys = np.sort(keys)
    is_new: BoolArray = np.ones(len(keys), np.bool_)
    is_new[1:] = keys[1:] != keys[:-1]
    return keys[is_new]


def _are_among(keys: NDArray[np.int64], others: NDArray[np.int64]) -> BoolArray:
    """Which keys are also among others, which ascend."""
    places = np.searchsorted(others, keys)
    return np.asarray(np.append(others, -1)[places] == keys)


def _keys_of(lists: Excluded, n_items: int) -> NDArray[np.int64]:
    owners = np.repeat(np.arange(len(lists.offsets) - 1, dtype=np.int64), np.diff(lists.offsets))
    return owners * n_items + lists.items


def _grouped(keys: NDArray[np.int64], n_users: int, n_items: int) -> tuple[OffsetArray, IntArray]:
    offsets = np.searchsorted(keys, np.arange(n_users + 1, dtype=np.int64) * n_items)
    return contiguous(offsets, np.int64), contiguous(keys % n_items, np.int32)
