"""What to ask: the items whose ratings would tell most about a user, new or old.

A rating tells something about every other item that the user may like, and how much is known before it is given (see
`tastespace.models.factorization.gibbs.information`). Two things are chosen here: what may be asked, and what is to be
known.

What may be asked: a person can only rate what he knows. The items that would tell most in theory are often ones that
hardly anybody has heard of; so the question is chosen among those most rated in training.

What is to be known: by default the ratings of whatever he may rate, among what the rules of the request allow. An item
counts as often as others have rated it; but where `only` names what he can be asked about, these are things that he
knows and may be expected to care for, and all count alike. The other goal is the best of his list, under the same
rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.frames import to_pandas
from tastespace.index.structures.exact import Exact
from tastespace.models.base.candidates import best_items
from tastespace.models.base.parameters import check_int, check_option
from tastespace.models.base.posterior import Inquires
from tastespace.models.base.ranking import Rules

if TYPE_CHECKING:
    import pandas as pd


Goal = Literal["ratings", "list"]
AMONG = 500  # items to ask about, unless told otherwise: few people know none of a dozen of these
RATED = 500  # most rated items that the goal "ratings" counts: more change hardly a question, and take longer
LISTED = 50  # best items that the goal "list" counts


@dataclass(frozen=True, eq=False)
class Questions:
    """The items that each user should be asked to rate, in this order.

    `sds` is how uncertain the ratings to be known still are, on average (root mean square), after the answers up to
    this one: as far as it is the user who is not known, and in units of the ratings; `sd` the same before the first.
    `reductions` is what each answer is expected to take away, as a share of the variance before the first; the
    answers before it count as given. `cold` users had no ratings to go by: these are the questions for anybody.
    """

    user_ids: pl.Series  # one a user
    cold: BoolArray  # one a user
    sd: FloatArray  # one a user
    item_rows: IntArray  # users x n, -1 where there is nothing left to ask
    reductions: FloatMatrix  # users x n
    sds: FloatMatrix  # users x n
    item_ids: pl.Series  # users * n, null where there is nothing left to ask
    titles: pl.Series | None  # users * n

    def __len__(self) -> int:
        return len(self.user_ids)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table a user."""
        return (self.of(position) for position in range(len(self)))

    def of(self, position: int) -> pl.DataFrame:
        """The questions for the user at this position: rank, item, title, reduction, sd."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        n = self.item_rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        columns: dict[str, Any] = {"rank": np.arange(1, n + 1), "item": self.item_ids[here]}
        if self.titles is not None:
            columns["title"] = self.titles[here]
        columns |= {"reduction": self.reductions[position], "sd": self.sds[position]}
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows[position] >= 0))

    def to_polars(self) -> pl.DataFrame:
        """One row a question: user, cold, rank, item, title, reduction, sd."""
        n_users, n = self.item_rows.shape
        columns: dict[str, Any] = {
            "user": self.user_ids.gather(pl.Series(np.repeat(np.arange(n_users), n))),
            "cold": np.repeat(self.cold, n),
            "rank": np.tile(np.arange(1, n + 1), n_users),
            "item": self.item_ids,
        }
        if self.titles is not None:
            columns["title"] = self.titles
        columns |= {"reduction": self.reductions.reshape(-1), "sd": self.sds.reshape(-1)}
        return pl.DataFrame(columns).filter(pl.Series(self.item_rows.reshape(-1) >= 0))

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        lines = [f"Questions for {len(self)} user{'s' if len(self) != 1 else ''}"]
        for position in range(min(len(self), 3)):
            note = " (cold: the questions for anybody)" if self.cold[position] else ""
            lines.append(f"user {self.user_ids[position]}{note}, sd {self.sd[position]:.3f}")
            if not (self.item_rows[position] >= 0).any():
                lines.append("  nothing left to ask")
            for row in self.of(position).head(10).iter_rows(named=True):
                name = f"{row['title']} [{row['item']}]" if row.get("title") else f"{row['item']}"
                lines.append(f"  {row['rank']:>3}  {row['reduction']:6.1%}  sd {row['sd']:.3f}  {name}")
        if len(self) > 3:
            lines.append(f"… and {len(self) - 3} more; to_polars() has them all")
        return "\n".join(lines)


@dataclass(frozen=True)
class Inquiries:
    """How many questions, among how many of the most rated items (None: among all), and to what end."""

    n: int
    among: int | None = AMONG
    goal: Goal = "ratings"

    def check(self) -> None:
        """Refuse what makes no sense."""
        check_int("n", self.n, least=1)
        if self.among is not None:
            check_int("among", self.among, least=1)
        check_option("goal", self.goal, ["ratings", "list"])


@dataclass(frozen=True, eq=False)
class Found:
    """What to ask each user of a request."""

    item_rows: IntArray  # users x n, -1 where there is nothing left to ask
    reductions: DoubleArray  # users x n, of the variance
    variance: DoubleArray  # one a user, before


@dataclass(frozen=True, eq=False)
class Asker:
    """Everything that the questions of a request are found by."""

    posterior: Inquires[Any]
    belief: Any
    seen: CSR  # what each user has rated
    rules: Rules  # what may be asked, and is to be known
    are_listed: bool  # the rules name the items, so that all of these count alike
    counts: DoubleArray | None  # ratings of each item; None where the model was saved without
    n_items: int
    exact: Exact | None
    threads: int

    def questions(self, wanted: Inquiries) -> Found:
        """The best questions, user by user."""
        self._require_counts(wanted)
        n_users, n = len(self.seen), min(wanted.n, max(self.n_items, 1))
        found = Found(np.full((n_users, n), -1, np.int32), np.zeros((n_users, n)), np.zeros(n_users))
        best = self._best(n_users) if wanted.goal == "list" else None
        for user in range(n_users):
            allowed = self._allowed(user)
            targets = self._unseen(user, allowed) if best is None else best[user][best[user] >= 0]
            importance = self._importance(targets, alike=best is not None or self.are_listed)
            askable = self._most_rated(allowed, wanted.among)
            inquiry = self.posterior.inquire(self.belief, user, askable, targets, importance, n)
            asked = len(inquiry.items)
            found.item_rows[user, :asked] = inquiry.items
            found.reductions[user, :asked] = inquiry.reductions
            found.variance[user] = inquiry.variance
        return found

    def _allowed(self, user: int) -> IntArray:
        """The items that the user may be asked about."""
        rules, own = self.rules, self.rules.own
        if own is not None:  # already without what is excluded
            return own.columns[own.offsets[user] : own.offsets[user + 1]]
        flags = np.ones(self.n_items, np.bool_) if rules.allowed is None else rules.allowed.copy()
        if rules.excluded is not None:
            flags[rules.excluded.items[rules.excluded.offsets[user] : rules.excluded.offsets[user + 1]]] = False
        return np.flatnonzero(flags).astype(np.int32)

    def _unseen(self, user: int, allowed: IntArray) -> IntArray:
        """Of these, what he may rate next: the most rated that he has not rated."""
        seen = self.seen.columns[self.seen.offsets[user] : self.seen.offsets[user + 1]]
        return self._most_rated(allowed[~np.isin(allowed, seen)], RATED)

    def _importance(self, targets: IntArray, alike: bool) -> DoubleArray:
        """What each target counts; 1 together."""
        weights = np.ones(len(targets)) if alike or self.counts is None else self.counts[targets]
        return weights / max(float(weights.sum()), 1.0)

    def _best(self, n_users: int) -> IntArray:
        """The best items of each user under the rules."""
        return best_items(
            self.posterior,  # type: ignore[arg-type]
            self.belief,
            n_users,
            min(LISTED, self.n_items),
            n_items=self.n_items,
            excluded=self.rules.excluded,
            allowed=self.rules.allowed,
            own=self.rules.own,
            index=self.exact,
            threads=self.threads,
        ).items

    def _most_rated(self, items: IntArray, n: int | None) -> IntArray:
        if self.counts is None:
            return items
        return items[np.argsort(-self.counts[items], kind="stable")[:n]]

    def _require_counts(self, wanted: Inquiries) -> None:
        needs = wanted.among is not None or (wanted.goal == "ratings" and not self.are_listed)
        if self.counts is None and needs:
            raise InvalidParameterError(
                "the model was saved without its ratings, so that nothing is known of popularity; expected among=None "
                "together with goal='list' or only, or a model saved with its ratings"
            )


def questions_of(found: Found, ratings: Ratings, users: pl.Series, positions: IntArray, cold: BoolArray) -> Questions:
    """As a person reads it; `positions` are those of the users in what was found."""
    before = found.variance[:, None]
    shares = np.divide(found.reductions, before, out=np.zeros_like(found.reductions), where=before > 0)
    left = np.sqrt(np.maximum(before - np.cumsum(found.reductions, axis=1), 0))
    item_rows = found.item_rows[positions]
    return Questions(
        user_ids=users,
        cold=cold[positions],
        sd=np.sqrt(found.variance).astype(np.float32)[positions],
        item_rows=item_rows,
        reductions=shares.astype(np.float32)[positions],
        sds=left.astype(np.float32)[positions],
        item_ids=ratings.items.at(item_rows.reshape(-1)),
        titles=None if ratings.item_titles is None else ratings.title_of(item_rows.reshape(-1)),
    )
