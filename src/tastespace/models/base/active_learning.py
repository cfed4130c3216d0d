"""Active learning: the items whose ratings would be most informative about a user, new or known.

A rating is informative about every other item that the user may like, and by how much is known before it is given (see
`tastespace.models.factorization.gibbs.information`). Two things are chosen here: the candidates for questions, and the
targets to learn about.

Candidates: users can only rate items that they know. The most informative items in theory are often ones that
hardly any user has heard of; so questions are chosen among the items most rated in training.

Targets: by default the ratings of anything the user may rate, among the items that the filters of the request allow.
Items are weighted by their number of ratings; but if `only` gives the items to ask about, the user is assumed to know
and care about all of them, and they have equal weights. The other goal is the best items of the user's list, under the
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
from tastespace.models.base.posterior import Information
from tastespace.models.base.query import Filters, Query
from tastespace.models.base.results import ItemLists, rounded, titled
from tastespace.models.base.top_n import best_items
from tastespace.parameters import check_int, check_option

Goal = Literal["ratings", "list"]
AMONG = 500  # default number of candidates: few people know none of a dozen of these
RATED = 500  # most rated items that the goal "ratings" counts: more hardly change the questions, and take longer
LISTED = 50  # best items that the goal "list" counts


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Questions(ItemLists):
    """The items that each user should be asked to rate, in this order.

    `sds` is the remaining uncertainty of the target ratings (root mean square) after the answers up to this one, as far
    as it comes from the user, in units of the ratings; `sd` is the same before the first.
    `reductions` is the expected reduction by each answer, as a share of the variance before the first, given the
    answers before it. `cold` users had no known ratings: they get the default questions.
    """

    sd: FloatArray  # one per user
    reductions: FloatMatrix  # users x n
    sds: FloatMatrix  # users x n

    about = "Questions for"
    cold_note = "a new user, who gets the default questions"
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
    """The number of questions, the number of most rated items to choose from (None: all), and the goal."""

    n: int
    among: int | None = AMONG
    goal: Goal = "ratings"

    def __post_init__(self) -> None:
        """Refuse invalid parameters."""
        check_int("n", self.n, least=1)
        if self.among is not None:
            check_int("among", self.among, least=1)
        check_option("goal", self.goal, ["ratings", "list"])


@dataclass(frozen=True, eq=False)
class QuestionSearch:
    """Everything needed to choose the questions of a request."""

    query: Query
    information: Information
    filters: Filters  # of candidates and targets
    are_listed: bool  # the filters name the items, which then have equal weights
    scan: Scan | None  # of all items, for the goal "list"

    def questions(self, options: QuestionOptions, remarks: tuple[str, ...]) -> Questions:
        """The best questions, user by user."""
        query, trained = self.query, self.query.trained
        n_items, history = trained.n_items, query.people.history
        counts = trained.by_item.counts.astype(np.float64) if len(trained) else None  # number of ratings of each item
        if counts is None and (options.among is not None or (options.goal == "ratings" and not self.are_listed)):
            raise InvalidParameterError(
                "the model was saved without its ratings, so popularity is not known; expected among=None "
                "together with goal='list' or only, or a model saved with its ratings"
            )
        n_users, n = len(query.people), min(options.n, max(n_items, 1))
        items, reductions, variance = np.full((n_users, n), -1, np.int32), np.zeros((n_users, n)), np.zeros(n_users)
        best = None
        if options.goal == "list":
            best = best_items(query.belief, n_users, n_items, min(LISTED, n_items), self.filters, self.scan).items
        for user in range(n_users):
            allowed = self.filters.items_for(user, n_items)
            if best is None:  # The most rated items that they have not rated.
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
