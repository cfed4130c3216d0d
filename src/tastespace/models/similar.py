"""What is like what: the items nearest to an item, the users nearest to a user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.frames import to_pandas
from tastespace.index.index import Excluded
from tastespace.models.asking import Asked
from tastespace.models.likeness import ItemLikeness, UserLikeness
from tastespace.ranking import known_items

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Similar:
    """The items (or users) that are most like each one asked about, likest first, never itself.

    `similarities` are from -1 to 1; in a taste space they are cosines. `cold` ones have nothing to be compared by,
    and an empty list.
    """

    side: Literal["item", "user"]
    ids: pl.Series  # one asked about
    titles: pl.Series | None  # one asked about; None for users
    cold: BoolArray  # one asked about
    rows: IntArray  # asked x n, -1 where there is nothing
    similarities: FloatMatrix  # asked x n
    similar_ids: pl.Series  # asked * n, null where there is nothing
    similar_titles: pl.Series | None  # asked * n

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table for each that was asked about."""
        return (self.of(position) for position in range(len(self)))

    def of(self, position: int) -> pl.DataFrame:
        """What is like the one at this position: rank, item or user, title, similarity."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        n = self.rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        columns: dict[str, Any] = {"rank": np.arange(1, n + 1), self.side: self.similar_ids[here]}
        if self.similar_titles is not None:
            columns["title"] = self.similar_titles[here]
        columns["similarity"] = self.similarities[position]
        return pl.DataFrame(columns).filter(pl.Series(self.rows[position] >= 0))

    def to_polars(self) -> pl.DataFrame:
        """One row a pair: the one asked about, rank, the similar one and perhaps its title, similarity."""
        n_asked, n = self.rows.shape
        asked = pl.Series(np.repeat(np.arange(n_asked), n))
        columns: dict[str, Any] = {self.side: self.ids.gather(asked)}
        if self.titles is not None:
            columns["title"] = self.titles.gather(asked)
        columns |= {"rank": np.tile(np.arange(1, n + 1), n_asked), "similar": self.similar_ids}
        if self.similar_titles is not None:
            columns["similar_title"] = self.similar_titles
        columns["similarity"] = self.similarities.reshape(-1)
        return pl.DataFrame(columns).filter(pl.Series(self.rows.reshape(-1) >= 0))

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        lines = [f"Similar to {len(self)} {self.side}{'s' if len(self) != 1 else ''}"]
        for position in range(min(len(self), 3)):
            title = None if self.titles is None else self.titles[position]
            lines.append(
                f"{self.side} {_named(self.ids[position], title)}"
                + (" (cold: nothing to compare by)" if self.cold[position] else "")
            )
            for row in self.of(position).head(10).iter_rows(named=True):
                lines.append(
                    f"  {row['rank']:>3}  {row['similarity']:6.3f}  {_named(row[self.side], row.get('title'))}"
                )
        if len(self) > 3:
            lines.append(f"… and {len(self) - 3} more; to_polars() has them all")
        return "\n".join(lines)


def _named(entry: Any, title: str | None) -> str:
    return f"{title} [{entry}]" if title else f"{entry}"


def similar_items(
    ratings: Ratings, likeness: ItemLikeness, items: pl.Series, n: int, allowed: BoolArray | None, threads: int
) -> Similar:
    """The n items most like each of these, which the model must know."""
    rows = known_items(ratings, items)
    found, cold = likeness.nearest(rows, min(n, ratings.n_items), _oneself(rows), allowed, threads)
    has_titles = ratings.item_titles is not None
    return Similar(
        side="item",
        ids=items,
        titles=ratings.title_of(rows) if has_titles else None,
        cold=cold,
        rows=found.items,
        similarities=found.scores,
        similar_ids=ratings.items.at(found.items.reshape(-1)),
        similar_titles=ratings.title_of(found.items.reshape(-1)) if has_titles else None,
    )


def similar_users(
    ratings: Ratings, likeness: UserLikeness, asked: Asked, belief: Any, users: pl.Series, n: int, threads: int
) -> Similar:
    """The n training users most like each of these; somebody with nothing to be compared by is like nobody."""
    found, cold = likeness.nearest(belief, len(asked.users), min(n, ratings.n_users), _oneself(asked.rows), threads)
    found.items[asked.cold], found.scores[asked.cold] = -1, -np.inf
    positions = asked.users.rows_of(users)
    rows = found.items[positions]
    return Similar(
        side="user",
        ids=users,
        titles=None,
        cold=(asked.cold | cold)[positions],
        rows=rows,
        similarities=found.scores[positions],
        similar_ids=ratings.users.at(rows.reshape(-1)),
        similar_titles=None,
    )


def _oneself(rows: IntArray) -> Excluded:
    """Nobody is compared with himself; row -1 is in nobody's way."""
    return Excluded(np.concatenate([[0], np.cumsum(rows >= 0)]).astype(np.int64), rows[rows >= 0])
