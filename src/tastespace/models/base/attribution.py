"""Attribution: which of a user's own ratings raised or lowered the score of an item, and by how much.

The contribution of a rating is the difference that it makes: the predicted rating of the item, less the one that would
be predicted if the user had given that item the rating predicted for a new user. Where a prediction is linear in
the user's ratings, given what they rated (ALS, biases), the contributions add up exactly to the prediction less that
for a new user. Proof: let f(y) be the prediction from ratings y, and b those of the new user. Then f(y) - f(b) =
sum_j g_j (y_j - b_j), and replacing y_j alone by b_j changes f by g_j (y_j - b_j). Elsewhere they are effects of one
rating at a time, and the difference is reported as the remainder.

One prediction per rating takes long where there are many: for a user with more than `FEW` ratings, models with
draws take the slopes g_j at those ratings instead, all at once. For homoscedastic Gaussian noise these are the same.

Where a model also has a belief about choices, a second explanation gives the contribution of each rating to the
propensity to choose an item, by the weights between items; these add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix, IntArray, row_blocks
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.base.query import Query, known_items
from tastespace.models.base.results import SHOWN, Table, as_entries, id_columns, plural, rounded, titled

FEW = 20  # ratings that are replaced one by one
BLOCK_RATINGS = 1 << 21  # of histories that differ in one rating, and predictions from them, held at once


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Explanation(Table):
    """The contribution of each of a user's ratings to the predictions for some items.

    `scores` are predicted ratings, not clipped; `base` are those for a new user. `others` is the total contribution of
    the ratings that are not among the first `n`, `remainder` the part that does not add up (0 for models
    whose predictions are linear in a user's ratings).
    """

    user_id: Any
    cold: bool  # there are no ratings to explain by
    item_ids: pl.Series  # one per explained item
    titles: pl.Series | None  # one per explained item
    scores: FloatArray  # one per explained item
    base: FloatArray  # one per explained item
    rated_ids: pl.Series  # one per rating of the user
    rated_titles: pl.Series | None  # one per rating
    ratings: FloatArray  # one per rating
    contributions: FloatMatrix  # items x ratings
    n: int  # number shown
    are_choices: bool = False  # the ratings are counts of choices
    chosen: Explanation | None = None  # the same for the propensity to choose, if the model has one

    def __len__(self) -> int:
        return len(self.item_ids)

    @property
    def noun(self) -> str:
        """The noun for a rating."""
        return "choice" if self.are_choices else "rating"

    @property
    def others(self) -> FloatArray:
        """The total contribution of the ratings that are not shown."""
        shown = [self.contributions[place, self._largest(place)].sum(dtype=np.float64) for place in range(len(self))]
        return np.asarray(self.contributions.sum(axis=1, dtype=np.float64) - shown, np.float32)

    @property
    def remainder(self) -> FloatArray:
        """Score less base less all contributions."""
        return np.asarray(self.scores - self.base - self.contributions.sum(axis=1, dtype=np.float64), np.float32)

    def of(self, position: int) -> pl.DataFrame:
        """The largest contributions to the item at this position: item, title, rating, contribution."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        largest = self._largest(position)
        return self._rated(largest, "item", "title", self.contributions[position, largest])

    def to_polars(self) -> pl.DataFrame:
        """One row per contribution shown: the explained item, its score and base, and the rating that contributes."""
        owners = np.repeat(np.arange(len(self)), min(self.n, len(self.ratings)))
        largest = np.array([self._largest(place) for place in range(len(self))], np.intp).reshape(-1)
        about = id_columns("item", self.item_ids, self.titles)
        explained = pl.DataFrame(about | {"score": self.scores, "base": self.base})[owners]
        return explained.hstack(self._rated(largest, "rated", "rated_title", self.contributions[owners, largest]))

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: the largest contributions to each item, and the total of the others."""
        entries = [
            {
                "item": self.item_ids[place],
                "title": None if self.titles is None else self.titles[place],
                "score": rounded(self.scores[place]),
                "base": rounded(self.base[place]),
                "because": as_entries(self.of(place)),
                "others": rounded(self.others[place]),
                "remainder": rounded(self.remainder[place]),
                **({} if self.chosen is None else {"chosen": self.chosen._entry(place)}),
            }
            for place in range(len(self))
        ]
        return {"user": self.user_id, "cold": self.cold, "items": entries}

    def _entry(self, place: int) -> dict[str, Any]:
        because = as_entries(self.of(place))
        return {"score": rounded(self.scores[place]), "because": because, "others": rounded(self.others[place])}

    @property
    def heading(self) -> str:
        cold = f" (cold: there are no {self.noun}s to explain by)" if self.cold else ""
        return f"Explanation of {plural(len(self), 'item')} for user {self.user_id}{cold}"

    def __repr__(self) -> str:
        lines = [self.heading]
        for place in range(min(len(self), SHOWN)):
            name = titled(self.item_ids[place], None if self.titles is None else self.titles[place])
            lines.append(f"{name}: {self.scores[place]:.2f}, for a new user {self.base[place]:.2f}")
            for row in self.of(place).iter_rows(named=True):
                deed = f"chosen {times(row['rating'])}" if self.are_choices else f"rated {row['rating']:g}"
                rated = titled(row["item"], row.get("title"))
                lines.append(f"  {row['contribution']:+7.3f}  because {rated} was {deed}")
            if n_others := len(self.ratings) - min(self.n, len(self.ratings)):
                noun = self.noun + ("s" if n_others != 1 else "")
                lines.append(f"  {self.others[place]:+7.3f}  because of {n_others} other {noun}")
            if abs(self.remainder[place]) >= 0.001:
                lines.append(f"  {self.remainder[place]:+7.3f}  that no single {self.noun} accounts for")
            if self.chosen is not None:
                lines.append(f"  Propensity to choose it: {self.chosen.scores[place]:.3f}")
                for row in self.chosen.of(place).iter_rows(named=True):
                    lines.append(f"  {row['contribution']:+7.3f}  because of {titled(row['item'], row.get('title'))}")
        if len(self) > SHOWN:
            lines.append(f"… and {len(self) - SHOWN} more; to_polars() has them all")
        return "\n".join(lines)

    def _rated(self, which: NDArray[np.intp], item: str, title: str, contributions: FloatArray) -> pl.DataFrame:
        """Ratings of the user, with their contributions."""
        columns = id_columns(item, self.rated_ids, self.rated_titles, title)
        rated = pl.DataFrame(columns | {"rating": self.ratings})[which]
        return rated.with_columns(contribution=pl.Series(contributions))

    def _largest(self, place: int) -> NDArray[np.intp]:
        """The ratings that are shown, by absolute contribution, largest first."""
        return np.argsort(-np.abs(self.contributions[place]), kind="stable")[: self.n]


def times(count: float) -> str:
    """How often an item was chosen, in words; a count may be a weight instead."""
    if count == 1:
        return "once"
    return f"{count:.0f} times" if count == round(count) else f"with a weight of {count:.3g}"


def explain(query: Query, items: pl.Series, n: int, instead: float | None) -> Explanation:
    """The explanation of these items, which the model must know, for the one user of a query.

    `instead` is the value that each rating is compared with: None for the prediction for a new user, 0 where that means
    not chosen.
    """
    ratings, rated = query.trained, query.people.history
    rows, has_titles = known_items(ratings, items), ratings.item_titles is not None
    scores, base, effects = contributions(query, rows, instead)
    found = Explanation(
        user_id=query.each.ids[0],
        cold=not len(rated.columns),
        item_ids=items,
        titles=ratings.title_of(rows) if has_titles else None,
        scores=scores,
        base=base,
        rated_ids=ratings.items.at(rated.columns),
        rated_titles=ratings.title_of(rated.columns) if has_titles else None,
        ratings=rated.values,
        contributions=effects,
        n=n,
        are_choices=instead is not None,
        remarks=query.remarks,
    )
    if query.belief.chosen is None:
        return found
    added = query.belief.chosen.choice_contributions(0, rows)
    total = added.sum(axis=1, dtype=np.float64).astype(np.float32)
    return replace(found, chosen=replace(found, scores=total, base=np.zeros_like(total), contributions=added))


def contributions(query: Query, items: IntArray, instead: float | None) -> tuple[FloatArray, FloatArray, FloatMatrix]:
    """The score of each item for the one user of a query, that for a new user, and contributions, items x ratings."""
    posterior, belief, people, threads = query.posterior, query.belief, query.people, query.threads
    new_user, rated = posterior.believe(People.without_ratings(), 1), people.history
    base, n_rated = new_user.mean(Pairs.of_one(0, items)), len(rated.columns)
    usual = new_user.mean(Pairs.of_one(0, rated.columns)) if instead is None else np.full(n_rated, instead, np.float32)
    scores = belief.mean(Pairs.of_one(0, items))
    if n_rated > FEW and instead is None and belief.influence is not None:
        moved = belief.influence.influences(items)
        return scores, base, np.asarray(moved * (rated.values - usual), np.float32)
    effects = np.zeros((len(items), n_rated), np.float32)
    for replaced in row_blocks(n_rated, max(n_rated, len(items)), BLOCK_RATINGS):
        n = len(replaced)
        seen = None if people.trained is None else people.trained.take(np.zeros(n, np.int32))
        changed = posterior.believe(People.new_users(_with_one_replaced(rated, usual, replaced), seen), threads)
        without = changed.mean(Pairs(np.repeat(np.arange(n, dtype=np.int32), len(items)), np.tile(items, n)))
        effects[:, replaced] = scores[:, None] - without.reshape(n, len(items)).T
    return scores, base, effects


def _with_one_replaced(rated: CSR, usual: FloatArray, replaced: NDArray[Any]) -> CSR:
    """One row for each rating that is replaced by the usual one; the others stay."""
    n, n_rated = len(replaced), len(rated.columns)
    values = np.tile(rated.values, (n, 1))
    values[np.arange(n), replaced] = usual[replaced]
    offsets = np.arange(n + 1, dtype=np.int64) * n_rated
    return CSR(offsets, np.tile(rated.columns, n), values.reshape(-1))
