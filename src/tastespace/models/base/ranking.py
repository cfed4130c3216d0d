"""From scores to lists: what may be shown to a user, and what is, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.kinds import level_names
from tastespace.data.ratings import Ratings
from tastespace.data.tables import USUAL_NAMES, is_pandas, usual_column
from tastespace.data.vocabulary import Vocabulary, id_series, listed
from tastespace.errors import InvalidParameterError, UnknownIdError, named
from tastespace.frames import to_pandas
from tastespace.index.index import Excluded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How sure the entries of lists are, users x n each; NaN where there is no item."""

    belief_sd: FloatMatrix  # of the expected rating
    rating_sd: FloatMatrix  # of a single rating
    low: FloatMatrix  # a rating lies between low and high with a probability of 90 %
    high: FloatMatrix
    top_n_probability: FloatMatrix  # that the item is one of the user's true best n, out of all that were allowed
    levels: DoubleArray | None = None  # what ratings can be, ascending; None for a continuous scale
    level_probabilities: FloatArray | None = None  # users x n x levels

    NAMES: ClassVar = ("belief_sd", "rating_sd", "low", "high", "top_n_probability")

    def take(self, users: Any) -> Uncertainty:
        """Of some users."""
        taken = {name: getattr(self, name)[users] for name in self.NAMES}
        if self.level_probabilities is not None:
            taken["level_probabilities"] = self.level_probabilities[users]
        return replace(self, **taken)

    def columns(self, where: Any, levels: bool) -> dict[str, Any]:
        """The figures by name, of one user or of all in a row; also those of each level, if there are any."""
        columns = {name: getattr(self, name)[where].reshape(-1) for name in self.NAMES}
        if not levels or self.level_probabilities is None:
            return columns
        names, probabilities = level_names(self.levels), self.level_probabilities[where]
        return columns | {f"p_{name}": probabilities[..., place].reshape(-1) for place, name in enumerate(names)}


@dataclass(frozen=True, eq=False)
class Ranking:
    """The recommended items of each user, best first.

    `scores` are predicted ratings, not clipped to the rating range, so that they keep the order; after diversity,
    popularity damping or another policy than the mean the order is another one, the scores are the same. `cold` users
    had no ratings to go by: theirs is the answer for anybody. A list shorter than `n` means that no other item was
    allowed. `sureness` is there if the model knows how sure it is.
    """

    user_ids: pl.Series  # one a user
    cold: BoolArray  # one a user
    item_rows: IntArray  # users x n, -1 where there is no item
    scores: FloatMatrix  # users x n
    item_ids: pl.Series  # users * n, null where there is no item
    titles: pl.Series | None  # users * n
    sureness: Uncertainty | None = None
    found_by: str = "every item was looked at"  # how the lists were found

    def __len__(self) -> int:
        return len(self.user_ids)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table a user."""
        return (self.of(position) for position in range(len(self)))

    @property
    def level_names(self) -> list[str]:
        """The levels that ratings can be, as text, "1" and "1.5"; empty where they are not known."""
        return [] if self.sureness is None else level_names(self.sureness.levels)

    def of(self, position: int, *, levels: bool = False) -> pl.DataFrame:
        """The list of the user at this position: rank, item, title, score, and how sure it is.

        With `levels`, also how likely each level of the ratings is, a column each: `p_1`, `p_2` and so on.
        """
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        n = self.item_rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        columns: dict[str, Any] = {"rank": np.arange(1, n + 1), "item": self.item_ids[here]}
        if self.titles is not None:
            columns["title"] = self.titles[here]
        columns["score"] = self.scores[position]
        if self.sureness is not None:
            columns |= self.sureness.columns(position, levels)
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows[position] >= 0))

    def to_polars(self, *, levels: bool = False) -> pl.DataFrame:
        """One row a recommendation: user, cold, rank, item, title, score, how sure it is, and `levels` as in `of`."""
        n_users, n = self.item_rows.shape
        users = pl.Series(np.repeat(np.arange(n_users), n))
        columns: dict[str, Any] = {
            "user": self.user_ids.gather(users),
            "cold": np.repeat(self.cold, n),
            "rank": np.tile(np.arange(1, n + 1), n_users),
            "item": self.item_ids,
        }
        if self.titles is not None:
            columns["title"] = self.titles
        columns["score"] = self.scores.reshape(-1)
        if self.sureness is not None:
            columns |= self.sureness.columns(slice(None), levels)
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows.reshape(-1) >= 0))

    def to_pandas(self, *, levels: bool = False) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars(levels=levels))

    def __repr__(self) -> str:
        lines = [f"Ranking of {len(self)} user{'s' if len(self) != 1 else ''}"]
        for position in range(min(len(self), 3)):
            lines.append(
                f"user {self.user_ids[position]}" + (" (cold: the answer for anybody)" if self.cold[position] else "")
            )
            if not (self.item_rows[position] >= 0).any():
                lines.append("  nothing left to recommend")
            for row in self.of(position).head(10).iter_rows(named=True):
                name = f"{row['title']} [{row['item']}]" if row.get("title") else f"{row['item']}"
                sd = f" ± {row['belief_sd']:.2f}" if "belief_sd" in row else ""
                lines.append(f"  {row['rank']:>3}  {row['score']:6.2f}{sd}  {name}")
        if len(self) > 3:
            lines.append(f"… and {len(self) - 3} more; to_polars() has them all")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Rules:
    """What may be shown to whom in one request. All of it holds together."""

    excluded: Excluded | None = None  # items of each user that he must not be shown
    allowed: BoolArray | None = None  # a flag an item; None for all
    own: CSR | None = None  # items that each user chooses from, less the above; None for all


def rules_of(
    trained: Ratings,
    users: Vocabulary,
    seen: CSR,
    *,
    exclude: Any = "seen",
    include_seen: bool = False,
    only: Any = None,
    matching: BoolArray | None = None,
) -> Rules:
    """The rules for these users, from what a caller may say (see `Recommender.recommend`).

    `seen` has one row a user; `matching` are the items that fulfil a condition.
    """
    excluded, allowed = _excluded(trained, users, None if include_seen else seen, exclude, matching)
    if only is None:
        return Rules(excluded, allowed)
    of_users, items = pairs_of(only, "only")
    rows = known_items(trained, items)
    if of_users is None:
        chosen = np.zeros(trained.n_items, np.bool_)
        chosen[rows] = True
        return Rules(excluded, chosen if allowed is None else chosen & allowed)
    own = _keys(users.rows_of(of_users), rows, trained.n_items)
    if allowed is not None:
        own = own[allowed[own % trained.n_items]]
    if excluded is not None:
        own = own[~_are_among(own, _keys_of(excluded, trained.n_items))]
    offsets, columns = _grouped(own, len(users), trained.n_items)
    return Rules(excluded, allowed, CSR(offsets, columns, np.zeros(len(columns), np.float32)))


def _excluded(
    trained: Ratings, users: Vocabulary, seen: CSR | None, exclude: Any, allowed: BoolArray | None
) -> tuple[Excluded | None, BoolArray | None]:
    """Lists of what each user must not be shown (`seen` too, if given), and flags of what anybody may be."""
    if exclude is None:
        return None, allowed
    has_seen = None if seen is None else Excluded(seen.offsets, seen.columns)
    if isinstance(exclude, str):
        if exclude != "seen":
            raise InvalidParameterError(
                f"exclude is {exclude!r}; expected 'seen', None, or items: for one item write exclude=[{exclude!r}]"
            )
        return has_seen, allowed
    of_users, items = pairs_of(exclude, "exclude")
    # Unknown items in such a list are fine: it often names things that nobody has rated yet.
    rows = trained.items.rows_of(items)
    if of_users is None:
        remaining = np.ones(trained.n_items, np.bool_) if allowed is None else allowed.copy()
        remaining[rows[rows >= 0]] = False
        return has_seen, remaining
    pairs = _keys(users.rows_of(of_users), rows, trained.n_items)
    if has_seen is not None:
        pairs = _ascending(np.concatenate([pairs, _keys_of(has_seen, trained.n_items)]))
    return Excluded(*_grouped(pairs, len(users), trained.n_items)), allowed


def allowed_items(trained: Ratings, *, exclude: Any, only: Any, matching: BoolArray | None) -> BoolArray | None:
    """A flag an item, where no user is asked about whom rules could concern; None for all."""
    if isinstance(exclude, str):
        raise InvalidParameterError(f"exclude is {exclude!r}; expected items: for one item write exclude=[{exclude!r}]")
    for name, rule in (("exclude", exclude), ("only", only)):
        if rule is not None and pairs_of(rule, name)[0] is not None:
            raise InvalidParameterError(f"{name} is a table with a column of users; expected items alone")
    nobody = CSR(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    nobodies = Vocabulary(pl.Series([], dtype=pl.Int64))
    return rules_of(trained, nobodies, nobody, exclude=exclude, only=only, matching=matching).allowed


def pairs_of(what: Any, name: str) -> tuple[pl.Series | None, pl.Series]:
    """The users (None: everybody) and the items that a list, a series, or a table with their columns names."""
    if isinstance(what, Ratings):
        return what.user_ids(), what.item_ids()
    if isinstance(what, Mapping):
        raise InvalidParameterError(
            f"{name} is of type {type(what).__name__}; expected a list of items, or for each user his own a table with "
            "the columns user and item, such as polars.DataFrame({'user': [1, 1], 'item': [2, 3]})"
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
    rows = trained.items.rows_of(asked)
    if (rows < 0).any():
        unknown = asked.filter(pl.Series(rows < 0))
        raise UnknownIdError(f"the model knows no item {named(unknown)}", expected="items of the training ratings")
    return rows


def _keys(user_positions: IntArray, item_rows: IntArray, n_items: int) -> NDArray[np.int64]:
    """One number a pair, ascending, each once; pairs of users not asked about or of unknown items are left out."""
    known = (user_positions >= 0) & (item_rows >= 0)
    return _ascending(user_positions[known].astype(np.int64) * n_items + item_rows[known])


def _ascending(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each once, in order; numpy's own function takes ten times as long over a million."""
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
