"""Observed ratings: who rated what, how, and when. Immutable."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import FIRST_INFINITE, FloatArray, IntArray, TimeArray, contiguous
from tastespace.data.csr import CSR, sorted_order
from tastespace.data.features import Features, FeatureSummary
from tastespace.data.formats.matrices import dense_entries, sparse_entries
from tastespace.data.kinds import CHOICES, Guess, Kind, check_kind, guess_kind, impossible
from tastespace.data.tables import (
    EXPECTED_TIME,
    Observed,
    Side,
    as_times,
    frame_columns,
    frame_parts,
    moment_of,
    seconds_of,
    series_of,
    usual_column,
)
from tastespace.data.vocabulary import Ids, Vocabulary, id_series, rows_by_title
from tastespace.errors import DataError, InvalidParameterError, warn

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse


@dataclass(frozen=True)
class Description:
    """The result of `Ratings.describe()`."""

    n_ratings: int
    n_users: int
    n_items: int
    density: float
    mean: float
    standard_deviation: float
    kind: Kind
    kind_reason: str  # how it is known
    minimum: float
    maximum: float
    levels: tuple[float, ...] | None  # the distinct values, if there are few
    per_user: tuple[int, float, int]  # ratings per user: fewest, median, most
    per_item: tuple[int, float, int]
    first: str | None  # day of the first rating
    last: str | None
    has_titles: bool
    merged: int  # duplicates merged away
    rejected: int = 0  # lines that could not be read, set aside
    unrated_items: int = 0  # which are described, and are not among the items
    items: FeatureSummary | None = None  # what is known of the items
    users: FeatureSummary | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line, for a table."""
        lines = [
            ("ratings", f"{self.n_ratings:,}{self._set_aside()}"),
            ("users", f"{self.n_users:,}, each with {_spread(*self.per_user)} ratings"),
            ("items", f"{self.n_items:,}, each with {_spread(*self.per_item)} ratings{self._unrated()}"),
            ("filled", f"{self.density:.2%} of all pairs"),
            ("values", f"{self.minimum:g} to {self.maximum:g}, mean {self.mean:.3f}, sd {self.standard_deviation:.3f}"),
            ("kind", f"{self.kind} ({self.kind_reason})"),
        ]
        if self.levels is not None:
            lines.append(("levels", ", ".join(f"{level:g}" for level in self.levels)))
        if self.first is not None:
            lines.append(("times", f"{self.first} to {self.last}"))
        lines.append(("titles", "yes" if self.has_titles else "no"))
        for side, known in (("item", self.items), ("user", self.users)):
            lines += [] if known is None else known.lines(side)
        return lines

    def _unrated(self) -> str:
        return f"; {self.unrated_items:,} more without" if self.unrated_items else ""

    def _set_aside(self) -> str:
        """The numbers of merged and rejected records, if there were any."""
        n_read = self.n_ratings + self.merged + self.rejected
        parts = [f"{self.merged:,} duplicates merged"] if self.merged else []
        parts += [f"{self.rejected:,} rejected"] if self.rejected else []
        return f" of {n_read:,} read ({', '.join(parts)})" if parts else ""

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.rows())
        return "\n".join(f"{label:<{width}}  {text}" for label, text in self.rows())


def _spread(fewest: int, median: float, most: int) -> str:
    return f"{fewest:,} to {most:,} (median {median:g})"


DAY = 86_400  # seconds
Duplicates = Literal["last", "latest", "mean", "sum", "error"]


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings with the ids of users and items; file order is kept, groupings are built on first use.

    Build one with `tastespace.read`, `Ratings.from_frame`, `from_arrays`, `from_sparse` or `from_dense`.
    """

    users: Vocabulary
    items: Vocabulary
    user_rows: IntArray  # n
    item_rows: IntArray  # n
    values: FloatArray  # n
    times: TimeArray | None = None  # n, seconds, NaT where unknown
    item_titles: pl.Series | None = None  # String, one per item, null where unknown
    item_attributes: pl.DataFrame | None = None  # one row per item: genres, year ...
    user_attributes: pl.DataFrame | None = None  # one row per user: country, age ...
    item_features: Features | None = None  # what models learn about items from, beside the ratings
    user_features: Features | None = None
    merged: int = 0  # ratings that a later or combined one of the same pair has replaced
    rejected: int = 0  # lines of the file that were set aside because they could not be read
    declared_kind: Kind | None = None  # the declared feedback type; None to guess
    kind_reason: str | None = None  # how the kind is known, if the caller did not declare it

    def __post_init__(self) -> None:
        for array in (self.user_rows, self.item_rows, self.values, self.times):
            if array is not None:
                array.flags.writeable = False  # Ratings are immutable.

    @classmethod
    def from_arrays(
        cls,
        user_ids: Ids,
        item_ids: Ids,
        values: Any = None,
        times: Any = None,
        *,
        duplicates: Duplicates | None = None,
    ) -> Ratings:
        """Ratings from three (or four) arrays of the same length; without values, choices.

        A pair rated more than once counts once: its last rating (in the order given), or their `mean` or
        `sum`; `error` refuses. The default is the last rating, but for choices the sum: how often it was chosen.
        """
        return cls.from_observed(_observed(user_ids, item_ids, values, times), duplicates=duplicates)

    @classmethod
    def from_observed(
        cls, observed: Observed, *, duplicates: Duplicates | None = None, kind: Kind | None = None
    ) -> Ratings:
        """Ratings from records whose ids have been numbered, or choices if there are no values; used by readers."""
        if duplicates is not None and duplicates not in get_args(Duplicates):
            raise InvalidParameterError(f"duplicates is {duplicates!r}; expected last, latest, mean, sum or error")
        users, items, times = observed.users, observed.items, observed.times
        assert users is not None
        are_choices = observed.values is None
        if are_choices and kind not in (None, *CHOICES):
            raise DataError(f"there is no column of values, and the kind is to be {kind}", expected="a column of them")
        values = np.ones(len(items.rows), np.float32) if observed.values is None else observed.values
        n_unknown = 0 if times is None else int(np.count_nonzero(np.isnat(times)))
        if n_unknown == len(values):
            times = None  # a column with nothing in it
        elif times is not None and _are_dates_without_marks(times):
            raise DataError(
                f"the times look like dates without marks, such as {times[~np.isnat(times)][0].astype(int)}: as "
                "seconds they would all be in 1970",
                expected="dates such as 2024-05-31, or seconds since 1970",
            )
        if times is not None and n_unknown:
            warn(f"{n_unknown:,} of {len(values):,} ratings have no time; splits by time will refuse them")
        rows = users.rows, items.rows
        ratings = cls(users.vocabulary, items.vocabulary, *rows, values, times, rejected=observed.rejected)
        usual: Duplicates = "sum" if are_choices or kind == "counts" else "last"
        ratings = ratings._without_duplicates(duplicates or usual)
        if are_choices:
            ratings = ratings._known_as_choices()
        return ratings if kind is None else ratings.with_kind(kind)

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame | pl.LazyFrame | pd.DataFrame,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        time: str | None = None,
        duplicates: Duplicates | None = None,
        kind: Kind | None = None,
    ) -> Ratings:
        """Ratings from a polars or pandas frame, or an Arrow table; columns are found by their usual names, or named.

        A named index of pandas counts as a column. Yes and no are ratings of 1 and 0. In a frame of users and items
        alone, perhaps with times, each row is a choice. `duplicates` and `kind` are as in `tastespace.read`.
        """
        if kind is not None:
            check_kind(kind)
        wanted = {"user": user, "item": item, "rating": rating, "time": time}
        parts = frame_parts(frame, wanted, are_choices=kind in CHOICES)
        observed = _observed(parts["user"], parts["item"], parts.get("rating"), parts.get("time"))
        return cls.from_observed(observed, duplicates=duplicates, kind=kind)

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        user_ids: Ids | None = None,
        item_ids: Ids | None = None,
        *,
        duplicates: Duplicates | None = None,
    ) -> Ratings:
        """Ratings from the stored entries of a scipy sparse matrix of any format, users x items.

        A stored zero is a rating of zero (not in the formats bsr and dia, which store zeros to fill up). Entries of
        the same place are duplicates, and are not summed by default. Ids are positions unless given; users
        and items without a rating are left out.
        """
        return cls.from_arrays(*sparse_entries(matrix, user_ids, item_ids), duplicates=duplicates)

    @classmethod
    def from_dense(
        cls, matrix: Any, *, missing: float | None = None, user_ids: Ids | None = None, item_ids: Ids | None = None
    ) -> Ratings:
        """Ratings from an array or a pandas frame, users x items; `missing` is the value for "not rated".

        It is required: 0, NaN, or another number such as 99. Everything else is a rating, including zeros where missing
        is NaN. Ids are the index and columns of a frame, or positions, unless given; users and items without a rating
        are left out.
        """
        return cls.from_arrays(*dense_entries(matrix, missing, user_ids, item_ids), duplicates="error")

    @classmethod
    def of_items(
        cls,
        ids: Ids,
        *,
        titles: pl.Series | None = None,
        attributes: pl.DataFrame | None = None,
        features: Features | None = None,
    ) -> Ratings:
        """Items without a rating, and what is known of them: titles and attributes in the order of the ids."""
        items, rows = Vocabulary.of(id_series(ids, "item"), "item")
        if len(items) < len(rows):
            twice = items.ids[int(np.argmax(np.bincount(rows)))]
            raise DataError(f"item {twice!r} is there more than once", expected="each item once")
        nothing = np.zeros(0, np.int32)
        users = Vocabulary(pl.Series("user", [], dtype=pl.Int64))
        alone = cls(users, items, nothing, nothing.copy(), np.zeros(0, np.float32))
        found = None if features is None else features.aligned(items)
        return replace(alone.with_items(titles, attributes), item_features=found)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_users(self) -> int:
        return len(self.users.ids)

    @property
    def n_items(self) -> int:
        return len(self.items.ids)

    @property
    def n_rated_items(self) -> int:
        """The number of items up to the last that somebody has rated.

        Items that nobody has rated yet come last, and nothing is learned of them: their first ratings make them new.
        """
        return int(self.item_rows.max()) + 1 if len(self) else self.n_items

    @cached_property
    def mean(self) -> float:
        values = self.by_user.values
        return self.by_user.total(lambda entries: values[entries]) / len(self)

    @cached_property
    def standard_deviation(self) -> float:
        if self.range[0] == self.range[1]:  # Exactly: the mean of many equal numbers may miss them by a rounding error.
            return 0.0
        values, mean = self.by_user.values, self.mean
        squares = self.by_user.total(lambda entries: (values[entries].astype(np.float64) - mean) ** 2)
        return float(np.sqrt(squares / len(self)))

    @cached_property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest rating."""
        return float(self.values.min()), float(self.values.max())

    @property
    def kind(self) -> Kind:
        """The feedback type: "stars", "yes-no", "counts" or "one-class"; declared by `with_kind`, else guessed.

        `tastespace.data.kinds` has the rules of the guess.
        """
        return self.kind_and_reason.kind

    @cached_property
    def kind_and_reason(self) -> Guess:
        """The kind, and how it is known."""
        if self.declared_kind is not None:
            return Guess(self.declared_kind, self.kind_reason or "as declared")
        return guess_kind(self.values)

    @cached_property
    def by_user(self) -> CSR:
        """Grouped by user; the item rows of a user ascend."""
        return _read_only(CSR.group_ascending(self.user_rows, self.item_rows, self.values, self.n_users))

    @cached_property
    def by_item(self) -> CSR:
        """Grouped by item; the user rows of an item ascend."""
        return _read_only(self.by_user.transposed(self.n_items))

    @cached_property
    def by_user_with_times(self) -> CSR:
        """The same with the time of each rating, where times are known."""
        if self.times is None:
            return self.by_user
        return replace(self.by_user, times=self.times[sorted_order(self.user_rows, self.item_rows)])

    def user_ids(self) -> pl.Series:
        """The user of each rating."""
        return self.users.at(self.user_rows)

    def item_ids(self) -> pl.Series:
        """The item of each rating."""
        return self.items.at(self.item_rows)

    def take(self, index: NDArray[Any]) -> Ratings:
        """Some of the ratings, by flag or position, as ratings of their own: ids that no longer occur are forgotten."""
        part = self.masked(index)
        users, user_rows, old_users = _shrunk(self.users, part.user_rows)
        items, item_rows, old_items = _shrunk(self.items, part.item_rows)
        return replace(
            part,
            users=users,
            items=items,
            user_rows=user_rows,
            item_rows=item_rows,
            item_titles=None if self.item_titles is None else self.item_titles.gather(pl.Series(old_items)),
            item_attributes=None if self.item_attributes is None else self.item_attributes[old_items],
            user_attributes=None if self.user_attributes is None else self.user_attributes[old_users],
            item_features=None if self.item_features is None else self.item_features.take(old_items, items),
            user_features=None if self.user_features is None else self.user_features.take(old_users, users),
            merged=0,
            rejected=0,
        )

    def with_kind(self, kind: Kind) -> Ratings:
        """The same ratings, declared to be "stars", "yes-no", "counts" or "one-class", where the guess is wrong.

        The kind is kept by everything made from these ratings: parts of a split, a fitted model, a saved one. Values
        that cannot be of that kind are an error: counts are above 0, yes and no are 1 and 0. With "one-class" all
        values become 1, since they only say that something was chosen.
        """
        check_kind(kind)
        wrong, problem, expected = impossible(self.values, kind)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            user, item = self.users.ids[int(self.user_rows[first])], self.items.ids[int(self.item_rows[first])]
            raise DataError(
                f"declared {kind}, but {np.count_nonzero(wrong):,} of {len(self):,} values are {problem}, such as "
                f"{self.values[first]:g} of user {user!r} and item {item!r}",
                expected=expected,
            )
        if kind == "one-class" and (self.values != 1).any():
            return replace(self, values=np.ones_like(self.values), declared_kind=kind, kind_reason=None)
        return self._known_as(kind, None)

    def chosen(self) -> Ratings:
        """The same without counts of 0, which were not chosen; for values that are guessed to be counts."""
        is_zero = self.values == 0
        if self.kind != "counts" or not is_zero.any():
            return self
        guess = self.kind_and_reason
        warn(
            f"{np.count_nonzero(is_zero):,} of {len(self):,} values are 0, and the values are counts ({guess.reason}): "
            "what was not chosen is left out. If 0 is a rating, say that the kind is stars (--kind, in Python kind=)"
        )
        chosen = self.take(~is_zero)
        return chosen if chosen.kind == "counts" else chosen._known_as(guess.kind, guess.reason)

    def decayed(self, half_life_days: float, *, now: Any = None) -> Ratings:
        """Implicit feedback that decays with age: a value counts half as much after every `half_life_days`.

        For counts and one-class ratings with times; the result is counts. Age is counted from the newest rating,
        or from `now`, a date not before it. What was played last week says more than what was played years ago:

            weight = value * 0.5^(age in days / half life in days)

        Weights stay above 0, however old: a choice never disappears.
        """
        is_number = isinstance(half_life_days, Real) and not isinstance(half_life_days, bool)
        if not is_number or not math.isfinite(half_life_days) or half_life_days <= 0:
            raise InvalidParameterError(f"half_life_days is {half_life_days!r}; expected a number of days above 0")
        if self.kind not in CHOICES:
            raise DataError(
                f"the ratings are {self.kind} ({self.kind_and_reason.reason}), and a faded value would be another "
                "opinion, not an older one",
                expected="counts or one-class ratings: declare that kind (in Python kind=, else --kind) if they are",
            )
        counts = self.with_kind("counts")  # refuses zeros, which would not stay zeros
        times = counts.known_times("to tell how old it is")
        moment = times.max() if now is None else moment_of("now", now)
        if n_later := int(np.count_nonzero(times > moment)):
            raise InvalidParameterError(
                f"now is {moment}, and {n_later:,} of {len(self):,} ratings are later; expected a date from "
                f"{times.max()} on"
            )
        days = (moment - times).astype(np.float64) / DAY
        weights = counts.values * np.exp2(-days / half_life_days)
        values = np.maximum(weights, np.finfo(np.float32).tiny).astype(np.float32)
        return replace(counts, values=values, kind_reason=f"choices that fade by half in {half_life_days:g} days")

    def at_least(self, threshold: float) -> Ratings:
        """Yes (1) where a rating reaches the threshold, no (0) where it does not."""
        if not math.isfinite(threshold):
            raise InvalidParameterError(f"threshold is {threshold}; expected a finite number, such as 4")
        # Ratings are single precision: 0.7 must reach 0.7.
        values = (self.values >= np.float32(threshold)).astype(np.float32)
        return replace(self, values=values, declared_kind="yes-no", kind_reason=None)

    def masked(self, keep: NDArray[Any]) -> Ratings:
        """Some of the ratings, by flag or position, over the same rows: users and items keep their places."""
        return replace(
            self,
            user_rows=self.user_rows[keep],
            item_rows=self.item_rows[keep],
            values=self.values[keep],
            times=None if self.times is None else self.times[keep],
        )

    def with_items(self, titles: Any = None, attributes: Any = None, **columns: str) -> Ratings:
        """The same ratings with titles and attributes of the items.

        A table of items is joined by its ids: a polars or pandas frame, a file, or `{id: {"title": ..., "year": ...}}`,
        with as many items as there are. Those that nobody has rated are kept as cold ones. The column of ids is
        found by its name or its values; `columns` names it (`id=`, `title=`), and what separates the entries of a
        list (`list_separator=`).

        Titles in a series, and attributes without ids, are in the order of the item rows.
        """
        table = attributes if titles is None else titles
        if columns or titles is not None and not isinstance(titles, pl.Series) or _has_ids(table, "item", self.n_items):
            return self._described(table, "item", columns)
        for what in (titles, attributes):
            if what is not None and len(what) != self.n_items:
                raise DataError(f"{len(what)} descriptions for {self.n_items} items", expected="one per item")
        return replace(self, item_titles=titles, item_attributes=attributes)

    def with_users(self, attributes: Any = None, **columns: str) -> Ratings:
        """The same ratings with attributes of the users: a table with a column of ids, or in the order of the rows."""
        if columns or _has_ids(attributes, "user", self.n_users):
            return self._described(attributes, "user", columns)
        if attributes is not None and len(attributes) != self.n_users:
            raise DataError(f"{len(attributes)} descriptions for {self.n_users} users", expected="one per user")
        return replace(self, user_attributes=attributes)

    def _described(self, source: Any, side: Literal["item", "user"], columns: Mapping[str, str]) -> Ratings:
        from tastespace.data.formats.descriptions import Shape, describe_frame, described, read_descriptions

        shape, known = Shape(**columns), self.items if side == "item" else self.users
        if isinstance(source, str | os.PathLike):
            table = read_descriptions(Path(source), side, shape=shape, ids=known)
        else:
            table = describe_frame(source, side, known, shape)
        return described(self, table, side, keeps_unrated=side == "item")

    def with_item_features(
        self,
        *sources: Any,
        columns: Sequence[str] | None = None,
        ids: Ids | None = None,
        name: str | None = None,
    ) -> Ratings:
        """The same ratings with features of the items, which models with a feature prior learn from.

        A source is one of

        - the name of an attribute ("genre", "year"; "year:category" if its numbers are only names), or "all" suitable;
        - "bag": who rated an item, as a group of features that the model makes of the ratings it is fitted on;
        - a polars or pandas frame, or a file (csv, parquet, JSON lines), with a column of ids;
        - a scipy matrix or an array, with `ids=` and perhaps a `name=`; or such a file (.npz, .safetensors);
        - `{id: vector}`, `{id: {"genre": ..., "year": ...}}`, or `Features`.

        `columns` names those of a frame or a file that are to be used. Features are added to those that the
        ratings have; `None` as the only source removes them. What is left out or not found is warned about.
        """
        return replace(self, item_features=self._with_features(self.item_features, "item", sources, columns, ids, name))

    def with_user_features(
        self,
        *sources: Any,
        columns: Sequence[str] | None = None,
        ids: Ids | None = None,
        name: str | None = None,
    ) -> Ratings:
        """The same ratings with features of the users; see `with_item_features`. The bag is what a user has rated."""
        return replace(self, user_features=self._with_features(self.user_features, "user", sources, columns, ids, name))

    def _with_features(
        self,
        known: Features | None,
        side: Literal["item", "user"],
        sources: tuple[Any, ...],
        columns: Sequence[str] | None,
        ids: Ids | None,
        name: str | None,
    ) -> Features | None:
        from tastespace.data.feature_sources import features_of, warn_of

        if len(sources) == 1 and sources[0] is None:
            return None
        vocabulary = self.items if side == "item" else self.users
        attributes = self.item_attributes if side == "item" else self.user_attributes
        for source in sources:
            found = features_of(source, vocabulary, side, attributes, columns=columns, ids=ids, name=name)
            warn_of(found)
            known = found if known is None else known.joined(found)
        return known

    @cached_property
    def rows_by_title(self) -> dict[str, tuple[int, ...]]:
        """The rows of items by their titles in lower case."""
        return rows_by_title(self.item_titles)

    def title_of(self, rows: NDArray[Any]) -> pl.Series:
        """Titles of item rows; null where unknown."""
        if self.item_titles is None:
            return pl.Series("title", [None] * len(rows), dtype=pl.String)
        return Vocabulary(self.item_titles).at(rows).alias("title")

    def describe(self) -> Description:
        """Summary statistics of the ratings, and of what is known of items and users."""
        from tastespace.data.feature_sources import summary_of

        low, high = self.range
        levels = np.unique(self.values)
        per_item = self.by_item.counts
        n_unrated = int(np.count_nonzero(per_item == 0))
        times = np.zeros(0, "datetime64[D]") if self.times is None else self.times
        days = times[~np.isnat(times)].astype("datetime64[D]")
        return Description(
            n_ratings=len(self),
            n_users=self.n_users,
            n_items=self.n_items - n_unrated,
            density=len(self) / (self.n_users * (self.n_items - n_unrated)),
            mean=self.mean,
            standard_deviation=self.standard_deviation,
            kind=self.kind,
            kind_reason=self.kind_and_reason.reason,
            minimum=low,
            maximum=high,
            levels=tuple(float(level) for level in levels) if len(levels) <= 20 else None,
            per_user=_quartiles(self.by_user.counts),
            per_item=_quartiles(per_item[per_item > 0]),
            unrated_items=n_unrated,
            first=str(days.min()) if len(days) else None,
            last=str(days.max()) if len(days) else None,
            has_titles=self.item_titles is not None,
            merged=self.merged,
            rejected=self.rejected,
            items=summary_of(self.item_features, self.item_attributes, self.items, "item"),
            users=summary_of(self.user_features, self.user_attributes, self.users, "user"),
        )

    def fingerprint(self) -> str:
        """A digest of who rated what and how, the same for any order of the ratings."""
        digest = hashlib.sha256()
        ranks = []
        for vocabulary, rows in ((self.users, self.user_rows), (self.items, self.item_rows)):
            # Rows follow the order of the ratings; the rank of an id among the ids does not.
            order = vocabulary.ids.arg_sort()
            ids = vocabulary.ids.gather(order)
            digest.update(f"{ids.dtype} {len(ids)}\n".encode())
            for entry in ids.cast(pl.String):
                text = entry.encode()
                digest.update(b"%d:" % len(text) + text)  # the length separates ids whatever they contain
            rank = np.empty(len(ids), np.int32)
            rank[order.to_numpy()] = np.arange(len(ids), dtype=np.int32)
            ranks.append(rank[rows])
        sequence = np.lexsort((ranks[1], ranks[0]))
        for array in (*ranks, self.values):
            digest.update(array[sequence].tobytes())
        return digest.hexdigest()

    def to_polars(self) -> pl.DataFrame:
        columns: dict[str, Any] = {"user": self.user_ids(), "item": self.item_ids(), "rating": self.values}
        if self.times is not None:
            columns["time"] = pl.Series(self.times.astype("datetime64[ms]"))
        return pl.DataFrame(columns)

    def to_pandas(self) -> pd.DataFrame:
        from tastespace.tables import to_pandas

        return to_pandas(self.to_polars())

    def to_sparse(self) -> scipy.sparse.csr_array:
        """A scipy matrix, users x items, in the order of the rows; a rating of zero is a stored zero."""
        import scipy.sparse

        # Other libraries expect 32-bit indices wherever these suffice, and scipy takes the longer of the two types.
        index = np.int32 if len(self) <= np.iinfo(np.int32).max else np.int64
        offsets, columns, values = self.by_user.parts
        return scipy.sparse.csr_array(
            (values, columns.astype(index), offsets.astype(index)),
            shape=(self.n_users, self.n_items),
            copy=True,  # The caller may change the matrix.
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `tastespace.read` reads back as the same ratings: .csv, .tsv (also .gz, .zst), .parquet.

        An existing file is replaced once the new one is complete. Titles and attributes are not written.
        """
        from tastespace.data.formats.writers import write

        write(self, path)

    def __repr__(self) -> str:
        return f"Ratings({len(self)} ratings by {self.n_users} users of {self.n_items} items)"

    def _known_as(self, kind: Kind, reason: str | None) -> Ratings:
        """The same ratings with a kind and the reason for it; None for a declared kind."""
        declared = replace(self, declared_kind=kind, kind_reason=reason)
        grouped = ("by_user", "by_item", "by_user_with_times")  # the values are the same
        declared.__dict__.update({name: self.__dict__[name] for name in grouped if name in self.__dict__})
        return declared

    def known_times(self, purpose: str) -> TimeArray:
        """The time of each rating; an error where one is unknown. `purpose` is what they are needed for."""
        expected = f"a time of each rating, {purpose}"
        if self.times is None:
            raise DataError("the ratings have no times", expected=expected)
        unknown = int(np.count_nonzero(np.isnat(self.times)))
        if unknown:
            raise DataError(f"{unknown:,} of {len(self):,} ratings have no time", expected=expected)
        return self.times

    def _known_as_choices(self) -> Ratings:
        """The same ratings with their kind set: one-class, or counts if pairs repeat."""
        reason = "no column of values, each line is a choice"
        if (self.values == 1).all():
            return self._known_as("one-class", reason)
        return self._known_as("counts", f"{reason}, and pairs that are there more than once are counted")

    def _without_duplicates(self, duplicates: Duplicates) -> Ratings:
        # Grouped by user the items ascend, so that a pair rated twice lies side by side.
        grouped = self.by_user
        is_same = grouped.columns[1:] == grouped.columns[:-1]
        starts = grouped.offsets[1:-1]
        is_same[starts[(starts > 0) & (starts < len(self))] - 1] = False
        if not is_same.any():
            return self
        pairs = self.user_rows.astype(np.int64) * max(self.n_items, 1) + self.item_rows
        frame = pl.DataFrame({"pair": pairs, "value": self.values}).with_row_index("position")
        if duplicates == "latest" and self.times is not None:
            frame = frame[np.argsort(self.times, kind="stable")]  # unknown times last
        if duplicates == "error":
            repeated = frame.filter(pl.col("pair").is_duplicated())["position"][0]
            user, item = self.user_ids()[repeated], self.item_ids()[repeated]
            raise DataError(f"user {user!r} rated item {item!r} more than once", expected="one rating a pair")
        combine = {
            **dict.fromkeys(("last", "latest"), pl.col("value").last()),
            "mean": pl.col("value").cast(pl.Float64).mean(),
            "sum": pl.col("value").cast(pl.Float64).sum(),
        }
        kept = frame.group_by("pair", maintain_order=True).agg(pl.col("position").last(), combine[duplicates])
        kept = kept.sort("position")
        if not (kept["value"].abs() < FIRST_INFINITE).all():
            raise DataError("the ratings of a pair add up to more than can be kept", expected="smaller ones")
        values = contiguous(kept["value"].to_numpy(), np.float32)
        return replace(self.masked(kept["position"].to_numpy()), values=values, merged=len(frame) - len(kept))


def _observed(user_ids: Ids, item_ids: Ids, values: Any, times: Any) -> Observed:
    """Columns of the same length as records; choices without values."""
    user_ids, item_ids = id_series(user_ids, "user"), id_series(item_ids, "item")
    try:
        numbers = np.ones(len(item_ids)) if values is None else np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise DataError(f"the values are no ratings ({error})", expected="numbers") from error
    if not len(user_ids) == len(item_ids) == len(numbers):
        problem = f"{len(user_ids)} users, {len(item_ids)} items and {len(numbers)} values"
        raise DataError(problem, expected="as many of each")
    if not len(numbers):
        raise DataError("there are no ratings", expected="at least one")
    wrong = ~(np.abs(numbers) < FIRST_INFINITE)  # also true for NaN
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise DataError(f"the rating at position {where} is {numbers[where]}", expected="a finite number")
    stamps = None if times is None else _seconds(times, len(numbers))
    given = None if values is None else contiguous(numbers, np.float32)
    return Observed(Side(*Vocabulary.of(user_ids, "user")), Side(*Vocabulary.of(item_ids, "item")), given, stamps)


def _read_only(grouped: CSR) -> CSR:
    """Make the arrays of grouped ratings read-only."""
    for array in grouped.parts:
        array.flags.writeable = False
    return grouped


def _are_dates_without_marks(times: TimeArray) -> bool:
    """Whether all the seconds read like days of 1900 to 2100 written as 20240531."""
    seconds = times.astype(np.int64)[~np.isnat(times)]
    if seconds.min() < 19000101 or seconds.max() > 21001231:
        return False
    month, day = seconds // 100 % 100, seconds % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _has_ids(table: Any, side: str, n: int) -> bool:
    """Whether a description names its items or users; else it is in the order of the rows."""
    if table is None or isinstance(table, pl.Series):
        return False
    if isinstance(table, str | os.PathLike | Mapping | pl.LazyFrame) or len(table) != n:
        return True
    return usual_column([name for name, _ in frame_columns(table)], (side, f"{side}id", "id")) is not None


def _shrunk(vocabulary: Vocabulary, rows: IntArray) -> tuple[Vocabulary, IntArray, IntArray]:
    """The vocabulary of just these rows, in order of appearance; the rows in it, and where its ids were before."""
    unique, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Vocabulary(vocabulary.at(unique[order])), contiguous(rank[inverse], np.int32), unique[order]


def _seconds(times: Any, n: int) -> TimeArray:
    """Times as seconds: numbers count from 1970, dates are themselves; nulls become NaT."""
    series = series_of(times)
    if len(series) != n:
        raise DataError(f"{len(series)} times for {n} ratings", expected="as many of each")
    seconds, wrong = seconds_of(series)
    if wrong.any():
        where = int(np.flatnonzero(wrong.to_numpy())[0])
        raise DataError(f"position {where}: not a time", text=str(series[where]), expected=EXPECTED_TIME)
    return as_times(seconds)


def _quartiles(counts: NDArray[Any]) -> tuple[int, float, int]:
    return int(counts.min()), float(np.median(counts)), int(counts.max())
