"""From scores to lists: what may be shown to a user, and what is, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.errors import InvalidParameterError, UnknownIdError, named
from tastespace.frames import to_pandas
from tastespace.index.index import Excluded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Ranking:
    """The recommended items of each user, best first.

    `scores` are predicted ratings, not clipped to the rating range, so that they keep the order. `cold` users
    had no ratings to go by: theirs is the answer for anybody. A list shorter than `n` means that no other
    item was allowed.
    """

    user_ids: pl.Series  # one a user
    cold: BoolArray  # one a user
    item_rows: IntArray  # users x n, -1 where there is no item
    scores: FloatMatrix  # users x n
    item_ids: pl.Series  # users * n, null where there is no item
    titles: pl.Series | None  # users * n

    def __len__(self) -> int:
        return len(self.user_ids)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table a user."""
        return (self.of(position) for position in range(len(self)))

    def of(self, position: int) -> pl.DataFrame:
        """The list of the user at this position: rank, item, title, score."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        n = self.item_rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        columns: dict[str, Any] = {"rank": np.arange(1, n + 1), "item": self.item_ids[here]}
        if self.titles is not None:
            columns["title"] = self.titles[here]
        columns["score"] = self.scores[position]
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows[position] >= 0))

    def to_polars(self) -> pl.DataFrame:
        """One row a recommendation: user, cold, rank, item, title, score."""
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
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows.reshape(-1) >= 0))

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        lines = [f"Ranking of {len(self)} user{'s' if len(self) != 1 else ''}"]
        for position in range(min(len(self), 3)):
            lines.append(
                f"user {self.user_ids[position]}" + (" (cold: the answer for anybody)" if self.cold[position] else "")
            )
            for row in self.of(position).head(10).iter_rows(named=True):
                name = f"{row['title']} [{row['item']}]" if row.get("title") else f"{row['item']}"
                lines.append(f"  {row['rank']:>3}  {row['score']:6.2f}  {name}")
        if len(self) > 3:
            lines.append(f"… and {len(self) - 3} more; to_polars() has them all")
        return "\n".join(lines)


def excluded_items(trained: Ratings, seen: Compressed, exclude: Ids | None) -> Excluded | None:
    """What must not be recommended: what a user has seen, and a list for everybody."""
    if exclude is None:
        return None
    if isinstance(exclude, str):
        if exclude != "seen":
            raise InvalidParameterError(f"exclude is {exclude!r}; expected 'seen', None or a list of items")
        return Excluded(seen.offsets, seen.columns)
    # Unknown items in such a list are fine: it often names things that nobody has rated yet.
    banned = np.unique(trained.items.rows_of(id_series(listed(exclude), "exclude")))
    banned = banned[banned >= 0]
    everybody = np.arange(len(seen), dtype=np.int32)
    rows = np.concatenate([seen.rows(), np.repeat(everybody, len(banned))])
    items = np.concatenate([seen.columns, np.tile(banned, len(seen))])
    order = np.lexsort((items, rows))
    both = Compressed.group(rows[order], items[order], np.zeros(len(items), np.float32), len(seen))
    return Excluded(both.offsets, both.columns)


def allowed_items(trained: Ratings, only: Ids | None) -> BoolArray | None:
    """A flag an item: may it be recommended? None for all; an unknown item is an error that names it."""
    if only is None:
        return None
    asked = id_series(listed(only), "only")
    rows = trained.items.rows_of(asked)
    if (rows < 0).any():
        unknown = asked.filter(pl.Series(rows < 0))
        raise UnknownIdError(f"the model knows no item {named(unknown)}", expected="items of the training ratings")
    allowed = np.zeros(trained.n_items, np.bool_)
    allowed[rows] = True
    return allowed
