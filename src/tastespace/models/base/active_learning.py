"""What to ask: the items whose ratings would tell most about a user, new or old.

A rating tells something about every other item that the user may like, and how much is known before it is given (see
`tastespace.models.factorization.gibbs.information`). Two things are chosen here: what may be asked, and what is to be
known.

What may be asked: a person can only rate what they know. The items that would tell most in theory are often ones that
hardly any user has heard of; so the question is chosen among those most rated in training.

What is to be known: by default the ratings of whatever they may rate, among what the filters of the request allow. An
item counts as often as others have rated it; but where `only` names what they can be asked about, these are things that
they know and may be expected to care for, and all count the same. The other goal is the best of their list, under the
same filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.index.search import Scan
from tastespace.models.base.parameters import check_int, check_option
from tastespace.models.base.posterior import Information
from tastespace.models.base.query import Filters, Query
from tastespace.models.base.results import ItemLists, rounded, titled
from tastespace.models.base.top_n import best_items

Goal = Literal["ratings", "list"]
AMONG = 500  # items to ask about, unless told otherwise: few people know none of a dozen of these
RATED = 500  # most rated items that the goal "ratings" counts: more change hardly a question, and take longer
LISTED = 50  # best items that the goal "list" counts


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Questions(ItemLists):
    """The items that each user should be asked to rate, in this order.

    `sds` is how uncertain the ratings to be known still are, on average (root mean square), after the answers up to
    this one: as far as it is the user who is not known, and in units of the ratings; `sd` the same before the first.
    `reductions` is what each answer is expected to take away, as a share of the variance before the first; the
    answers before it count as given. `cold` users had no ratings to go by: these are the questions for any user.
    """

    sd: FloatArray  # one a user
    reductions: FloatMatrix  # users x n
    sds: FloatMatrix  # users x n

    about = "Questions for"
    cold_note = "the default questions"
    empty_note = "nothing left to ask"

    def entries(self, *, levels: bool = False) -> dict[str, Any]:
        """Item, title, reduction and sd."""
        return super().entries() | {"reduction": self.reductions.reshape(-1), "sd": self.sds.reshape(-1)}

    def title_line(self, position: int) -> str:
        return f"{super().title_line(position)}, sd {self.sd[position]:.3f}"

    def line(self, row: dict[str, Any]) -> str:
        return f"{row['reduction']:6.1%}  sd {row['sd']:.3f}  {titled(row['item'], row.get('title'))}"

    def to_dicts(self, names: Sequence[Any] | None = None, *, levels: bool = False) -> list[dict[str, Any]]:
        entries = super().to_dicts(names, levels=levels)
        return [entry | {"sd": rounded(sd)} for entry, sd in zip(entries, self.sd, strict=True)]


@dataclass(frozen=True)
class QuestionOptions:
    """How many questions, among how many of the most rated items (None: among all), and to what end."""

    n: int
    among: int | None = AMONG
    goal: Goal = "ratings"

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        check_int("n", self.n, least=1)
        if self.among is not None:
            check_int("among", self.among, least=1)
        check_option("goal", self.goal, ["ratings", "list"])


@dataclass(frozen=True, eq=False)
class QuestionSearch:
    """Everything that the questions of a request are found by."""

    query: Query
    information: Information
    filters: Filters  # what may be asked, and is to be known
    are_listed: bool  # the filters name the items, so that all of these count the same
    scan: Scan | None  # of all items, for the best of the list

    def questions(self, options: QuestionOptions, remarks: tuple[str, ...]) -> Questions:
        """The best questions, user by user."""
        query, trained = self.query, self.query.trained
        n_items, history = trained.n_items, query.people.history
        counts = trained.by_item.counts.astype(np.float64) if len(trained) else None  # of the ratings of each item
        if counts is None and (options.among is not None or (options.goal == "ratings" and not self.are_listed)):
            raise InvalidParameterError(
                "the model was saved without its ratings, so that nothing is known of popularity; expected among=None "
                "together with goal='list' or only, or a model saved with its ratings"
            )
        n_users, n = len(query.people), min(options.n, max(n_items, 1))
        items, reductions, variance = np.full((n_users, n), -1, np.int32), np.zeros((n_users, n)), np.zeros(n_users)
        best = None
        if options.goal == "list":
            best = best_items(query.belief, n_users, n_items, min(LISTED, n_items), self.filters, self.scan).items
        for user in range(n_users):
            allowed = self.filters.items_for(user, n_items)
            if best is None:  # What they may rate next: the most rated that they have not rated.
                seen = history.columns[history.offsets[user] : history.offsets[user + 1]]
                targets = _most_rated(allowed[~np.isin(allowed, seen)], counts, RATED)
            else:
                targets = best[user][best[user] >= 0]
            weights = np.ones(len(targets))
            if counts is not None and best is None and not self.are_listed:
                weights = counts[targets]
            importance = weights / max(float(weights.sum()), 1.0)
            askable = _most_rated(allowed, counts, options.among)
            inquiry = self.information.inquire(user, askable, targets, importance, n)
            items[user, : len(inquiry.items)] = inquiry.items
            reductions[user, : len(inquiry.items)] = inquiry.reductions
            variance[user] = inquiry.variance
        before, positions = variance[:, None], query.positions
        shares = np.divide(reductions, before, out=np.zeros_like(reductions), where=before > 0)
        left = np.sqrt(np.maximum(before - np.cumsum(reductions, axis=1), 0))
        return Questions(
            **query.columns_of(items),
            sd=np.sqrt(variance).astype(np.float32)[positions],
            reductions=shares.astype(np.float32)[positions],
            sds=left.astype(np.float32)[positions],
            remarks=remarks,
        )


def _most_rated(items: IntArray, counts: DoubleArray | None, n: int | None) -> IntArray:
    return items if counts is None else items[np.argsort(-counts[items], kind="stable")[:n]]
