"""From beliefs to lists: what a user is shown, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.frames import to_pandas

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
