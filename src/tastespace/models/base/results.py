"""Results of answers: small frozen tables that define their columns once.

From its columns a table makes `to_polars`, `to_pandas`, `to_dict` (for JSON, used by command line, service and
report), and its representation at a prompt and in a notebook. `remarks` are notes for the caller, in sentences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import isfinite
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray
from tastespace.data.kinds import level_names
from tastespace.data.ratings import Ratings
from tastespace.distributions.rating_distribution import RatingDistribution
from tastespace.errors import InvalidParameterError, UnknownIdError, named
from tastespace.models.base.policies import Uncertainty, level_columns
from tastespace.parameters import check_number
from tastespace.settings import renamed_attribute
from tastespace.tables import Tabular

DIGITS = 5  # decimals of the numbers of an answer
SHOWN = 3  # lists shown at a prompt


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Table(Tabular, ABC):
    """A result that is a table. A subclass defines its columns."""

    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: one entry per row, numbers rounded."""
        return {"rows": as_entries(self.to_polars())}

    @property
    @abstractmethod
    def heading(self) -> str:
        """A one-line description of the table."""

    def __getattr__(self, name: str) -> Any:
        """Names of the first edition."""
        return getattr(self, renamed_attribute(self, name))

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=10, tbl_hide_dataframe_shape=True):
            return f"{self.heading}\n{self.to_polars()}"

    def _repr_html_(self) -> str:
        with pl.Config(tbl_rows=10, tbl_hide_dataframe_shape=True):
            return f"<p>{self.heading}</p>{self.to_polars()._repr_html_()}"


def as_entries(table: pl.DataFrame | Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of a table for JSON, with an interval and the probabilities of levels as one entry each.

    An item has a title even if it is not known. Rounded column by column, which takes half as long as cell by cell.
    """
    columns = table.to_dict(as_series=False) if isinstance(table, pl.DataFrame) else table
    cells: dict[str, Iterable[Any]] = {}
    levels = [name for name in columns if name.startswith("p_")]
    for name, values in columns.items():
        if name == "low":
            cells["interval"] = map(list, zip(_rounded(values), _rounded(columns["high"]), strict=True))
        elif name == "item" and "title" not in columns:
            cells |= {"item": values, "title": [None] * len(values)}
        elif name in levels[:1]:
            names = [level.removeprefix("p_") for level in levels]
            of_levels = zip(*(_rounded(columns[level]) for level in levels), strict=True)
            cells["levels"] = [dict(zip(names, chances, strict=True)) for chances in of_levels]
        elif name != "high" and name not in levels:
            cells[name] = _rounded(values)
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _rounded(values: list[Any]) -> list[Any]:
    """Cells for JSON: numbers rounded, anything else as it is."""
    return [
        (round(value, DIGITS) if isfinite(value) else None) if isinstance(value, float) else value for value in values
    ]


def rounded(value: Any) -> float | None:
    """A number for JSON, rounded to meaningful digits."""
    number = float(value)
    return round(number, DIGITS) if isfinite(number) else None


def titled(entry: Any, title: str | None) -> str:
    """An id after its title, if it has one."""
    return f"{title} [{entry}]" if title else f"{entry}"


def id_columns(side: str, ids: pl.Series, titles: pl.Series | None, title: str = "title") -> dict[str, Any]:
    """Columns of ids, and of titles if these are known."""
    return {side: ids} if titles is None else {side: ids, title: titles}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Lists(Table):
    """One list per requested id. A subclass defines the columns of the requests, and of the entries."""

    cold: BoolArray  # one per request

    about: ClassVar[str]  # the beginning of its heading
    cold_note: ClassVar[str]
    empty_note: ClassVar[str | None] = None

    @property
    @abstractmethod
    def rows(self) -> IntArray:
        """Requests x n: rows of the entries, -1 where there is nothing."""

    @abstractmethod
    def asked(self) -> dict[str, Any]:
        """The columns of the requests, by name."""

    @abstractmethod
    def entries(self, *, levels: bool = False) -> dict[str, Any]:
        """The columns of all entries, requests * n, by name; `levels` adds one for each level of the ratings."""

    @abstractmethod
    def line(self, row: dict[str, Any]) -> str:
        """An entry as shown at a prompt, after its rank."""

    @property
    def heading(self) -> str:
        return f"{self.about} {plural(len(self), next(iter(self.asked())))}"

    def title_line(self, position: int) -> str:
        """The heading of a list."""
        (name, ids), *others = self.asked().items()
        title = dict(others).get("title")
        shown = titled(ids[position], None if title is None else title[position])
        return f"{name} {shown}" + (f" ({self.cold_note})" if self.cold[position] else "")

    def __len__(self) -> int:
        return len(self.cold)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """One table per request."""
        return (self.of(position) for position in range(len(self)))

    def __getitem__(self, asked: Any) -> pl.DataFrame:
        """The list of a user, or of another requested id: rank, and the columns of the entries."""
        name, ids = next(iter(self.asked().items()))
        texts = [str(entry) for entry in ids]
        if str(asked) not in texts:
            expected = f"one of {named(ids)}; lists by their positions are at(0), at(1) ..."
            raise UnknownIdError(f"there is no list of {name} {asked!r}", expected=expected)
        return self.at(texts.index(str(asked)))

    def at(self, position: int, *, levels: bool = False) -> pl.DataFrame:
        """The list at this position: rank, and the columns of the entries (see there for `levels`)."""
        return self.of(position, levels=levels)

    def of(self, position: int, *, levels: bool = False) -> pl.DataFrame:
        """The same as `at`: the list at a position, not of a user. `ranking[user]` is the list of a user."""
        if not 0 <= position < len(self):
            raise InvalidParameterError(f"position is {position}; expected one from 0 to {len(self) - 1}")
        columns = {"rank": np.arange(1, self.rows.shape[1] + 1), **self._columns_of(position, levels)}
        return pl.DataFrame(columns).filter(pl.Series(self.rows[position] >= 0))

    def entries_of(self, position: int, *, levels: bool = False) -> list[dict[str, Any]]:
        """The same list for JSON, without ranks; not made from a table, which would take longer than the search."""
        columns = {
            name: column.to_list() if isinstance(column, pl.Series) else column.tolist()
            for name, column in self._columns_of(position, levels).items()
        }
        is_there = self.rows[position] >= 0
        if not is_there.all():
            columns = {name: list(compress(cells, is_there)) for name, cells in columns.items()}
        return as_entries(columns)

    def _columns_of(self, position: int, levels: bool) -> dict[str, Any]:
        n = self.rows.shape[1]
        here = slice(position * n, (position + 1) * n)
        return {name: column[here] for name, column in self.entries(levels=levels).items()}

    def to_polars(self, *, levels: bool = False) -> pl.DataFrame:
        """One row per entry: the request, rank, and the columns of the entries (see there for `levels`)."""
        n_asked, n = self.rows.shape
        owners = np.repeat(np.arange(n_asked), n)
        columns = {name: column[owners] for name, column in self.asked().items()}
        columns["rank"] = np.tile(np.arange(1, n + 1), n_asked)
        columns |= {self.name_beside(name): column for name, column in self.entries(levels=levels).items()}
        return pl.DataFrame(columns).filter(pl.Series(self.rows.reshape(-1) >= 0))

    def name_beside(self, name: str) -> str:
        """The name of a column of entries beside those of the requests."""
        return name

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: one entry per request, with its list."""
        return {"lists": self.to_dicts(), "remarks": list(self.remarks)}

    def to_dicts(self, names: Sequence[Any] | None = None, *, levels: bool = False) -> list[dict[str, Any]]:
        """These entries: the request, under other names if given, whether cold, and its list in order."""
        (side, ids), *others = self.asked().items()
        about = {"title": None, **dict(others)} if side == "item" else dict(others)
        return [
            {side: (ids if names is None else names)[place]}
            | {name: None if column is None else column[place] for name, column in about.items()}
            | {"cold": bool(self.cold[place]), "items": self.entries_of(place, levels=levels)}
            for place in range(len(self))
        ]

    def __repr__(self) -> str:
        lines = [self.heading]
        for position in range(min(len(self), SHOWN)):
            lines.append(self.title_line(position))
            table = self.of(position)
            if self.empty_note is not None and not table.height:
                lines.append(f"  {self.empty_note}")
            lines += [f"  {row['rank']:>3}  {self.line(row)}" for row in table.head(10).iter_rows(named=True)]
        if len(self) > SHOWN:
            lines.append(f"… and {len(self) - SHOWN} more; to_polars() has them all")
        return "\n".join(lines)


def plural(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n} {noun}{'s' if n != 1 else ''}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ItemLists(Lists):
    """Items for each user."""

    user_ids: pl.Series  # one per user
    item_rows: IntArray  # users x n, -1 where there is no item
    item_ids: pl.Series  # users * n, null where there is no item
    titles: pl.Series | None  # users * n

    @property
    def rows(self) -> IntArray:
        return self.item_rows

    def asked(self) -> dict[str, Any]:
        return {"user": self.user_ids, "cold": self.cold}

    def entries(self, *, levels: bool = False) -> dict[str, Any]:
        """Item and title; a subclass adds its columns."""
        return id_columns("item", self.item_ids, self.titles)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranking(ItemLists):
    """The recommended items of each user, best first.

    `scores` are what the model orders by: predicted ratings, not clipped to the rating range, so that they keep the
    order, or for `Joint` a figure between 0 and 1 for choosing and liking an item. Diversity, popularity damping
    and policies other than "best" change the order, not the scores. `cold` users
    had no known ratings: they get the default list. A list shorter than `n` means that no other item was
    allowed. `uncertainty` is None for a model that provides none.
    """

    scores: FloatMatrix  # users x n
    uncertainty: Uncertainty | None = None
    found_by: str = "every item was looked at"  # how the lists were found
    effects: Mapping[tuple[int, str], int] | None = None  # what each business rule did, counted

    about = "Ranking of"
    cold_note = "a new user, who gets the default list"
    empty_note = "nothing left to recommend"

    @property
    def level_names(self) -> list[str]:
        """The possible ratings as text, "1" and "1.5"; empty if they are not known."""
        return [] if self.uncertainty is None else level_names(self.uncertainty.levels)

    def asked(self) -> dict[str, Any]:
        return super().asked() | self.liking()

    def liking(self) -> dict[str, Any]:
        """For a model with a belief about choices: the threshold of a liked rating for each user, and the base rate."""
        sure = self.uncertainty
        if sure is None or sure.liked_from is None:
            return {}
        return {"liked_from": sure.liked_from, "base_rate": np.full(len(self), sure.base_rate)}

    def entries(self, *, levels: bool = False) -> dict[str, Any]:
        """Item, title, score, and uncertainty; with `levels`, also the probability of each level of the ratings."""
        columns = super().entries() | {"score": self.scores.reshape(-1)}
        return columns if self.uncertainty is None else columns | self.uncertainty.columns(levels)

    def line(self, row: dict[str, Any]) -> str:
        sd = f" ± {row['belief_sd']:.2f}" if "belief_sd" in row else ""
        return f"{row.get('expected_rating', row['score']):6.2f}{sd}  {titled(row['item'], row.get('title'))}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Prediction(Table):
    """Predicted ratings of (user, item) pairs, within the rating range.

    `cold` pairs have a user without ratings or an unknown item: they get the prediction of the prior.

    A model with a posterior provides uncertainty: `belief_sd` is that of the expected rating (epistemic), which
    more ratings would reduce, and `rating_sd` that of a single rating (predictive), which includes noise. `rating`
    is its whole distribution. All three are None for a model without uncertainty. A model of points with intervals
    that are calibrated on held-out ratings (such as `AutoRec`) has no `belief_sd`.

    `unclipped` is the mean before it is clipped to the range, which keeps the order of lists beyond its ends.
    None: the mean itself.
    """

    user_ids: pl.Series
    item_ids: pl.Series
    titles: pl.Series | None
    mean: FloatArray
    cold: BoolArray
    belief_sd: FloatArray | None = None
    rating_sd: FloatArray | None = None
    rating: RatingDistribution | None = None
    unclipped: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def item(self) -> float:
        """The predicted rating, if there is only one."""
        if len(self) != 1:
            raise InvalidParameterError(f"there are {len(self)} predictions; expected one, or mean for all of them")
        return float(self.mean[0])

    def __float__(self) -> float:
        return self.item()

    @property
    def effective_draws(self) -> DoubleArray | None:
        """The effective number of draws of each prediction, where draws are weighted by evidence."""
        return None if self.rating is None else self.rating.effective_draws

    @property
    def is_uncertain(self) -> bool:
        """Whether the model provides uncertainty."""
        return self.rating is not None

    def quantiles(self, *probabilities: float) -> DoubleArray:
        """Quantiles of a rating at these probabilities, within the range: one column each."""
        if not probabilities:
            raise InvalidParameterError("quantiles got no probability; expected at least one, such as 0.5")
        for probability in probabilities:
            check_number("probability", probability, above=0, below=1)
        rating = self._known("quantiles")
        return np.stack([rating.quantile(probability) for probability in probabilities], axis=1)

    def interval(self, coverage: float = 0.9) -> DoubleArray:
        """The central interval that contains a rating with this probability: n x 2."""
        check_number("coverage", coverage, above=0, below=1)
        return self.quantiles((1 - coverage) / 2, (1 + coverage) / 2)

    def probability_at_least(self, threshold: float) -> DoubleArray:
        """The probability that each rating reaches a threshold; between two levels the higher one has to be reached."""
        check_number("threshold", threshold)
        return self._known("probabilities").at_least(threshold)

    @property
    def levels(self) -> DoubleArray | None:
        """The possible ratings, ascending; None for a continuous scale, and for a model without uncertainty."""
        return None if self.rating is None else self.rating.levels

    @property
    def level_names(self) -> list[str]:
        """The levels as text, "1" and "1.5"; empty where there are none."""
        return level_names(self.levels)

    def level_probabilities(self) -> DoubleArray:
        """The probability of each of the `levels`: one row per pair, which sums to 1, and one column per level."""
        rating = self._known("probabilities")
        if rating.levels is None:
            raise InvalidParameterError(
                "these ratings lie on a continuous scale and have no levels; expected ratings that are levels, such as "
                "stars; for probabilities use probability_at_least"
            )
        return rating.level_probabilities()

    @property
    def heading(self) -> str:
        return f"Prediction of {plural(len(self), 'rating')} ({int(np.count_nonzero(self.cold))} cold)"

    def to_polars(self, coverage: float = 0.9, *, levels: bool = False) -> pl.DataFrame:
        """One row per pair; `low` and `high` are the interval that contains a rating with probability `coverage`.

        With `levels`, also the probability of each level, one column each: `p_1`, `p_2` and so on.
        """
        columns = {"user": self.user_ids, **id_columns("item", self.item_ids, self.titles), "mean": self.mean}
        if self.is_uncertain:
            low, high = self.interval(coverage).T
            columns |= {} if self.belief_sd is None else {"belief_sd": self.belief_sd}
            columns |= {"rating_sd": self.rating_sd, "low": low, "high": high}
            if self.effective_draws is not None:
                columns["effective_draws"] = self.effective_draws
        if levels:
            columns |= level_columns(self.levels, self.level_probabilities())
        return pl.DataFrame(columns | {"cold": self.cold})

    def to_dict(self, coverage: float = 0.9) -> dict[str, Any]:
        return {"predictions": as_entries(self.to_polars(coverage, levels=self.levels is not None))}

    def _known(self, what: str) -> RatingDistribution:
        if self.rating is None:
            raise InvalidParameterError(
                f"this model provides no uncertainty, so no {what}; expected one with a posterior, such as BPMF, or "
                "ImplicitALS for implicit feedback"
            )
        return self.rating


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Vectors(Table):
    """Users or items as vectors for any vector store: a user's vector times an item's, plus the user's offset, is the
    score, which is the expected rating before it is clipped, or for implicit feedback what lists are ordered by.

    `error` is the root mean square of the difference to the exact scores, over known users and all items: what short
    vectors lose. `offsets` is None for items.
    """

    side: Literal["user", "item"]
    ids: pl.Series
    titles: pl.Series | None
    vectors: FloatMatrix
    offsets: FloatArray | None
    error: float

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def heading(self) -> str:
        n, dimensions = self.vectors.shape
        return f"Vectors of {plural(n, self.side)} in {dimensions} dimensions (error of scores {self.error:.2g})"

    def to_polars(self) -> pl.DataFrame:
        """One row each: id, title if known, vector, and for users the offset."""
        columns = id_columns(self.side, self.ids, self.titles)
        columns["vector"] = pl.Series("vector", self.vectors, dtype=pl.Array(pl.Float32, self.vectors.shape[1]))
        return pl.DataFrame(columns if self.offsets is None else columns | {"offset": self.offsets})

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON: vectors as lists of numbers."""
        return {"rows": self.to_polars().to_dicts(), "error": self.error}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Noisiness(Table):
    """The noise of the ratings of users, or of items, noisiest first.

    `noise_sd` is the standard deviation of a rating around its expectation, in rating units, of a user for an average
    item, or of an item by an average user: the posterior mean, with a 90 % interval from `low` to `high`. `probability`
    is that of more noise than average.
    """

    side: Literal["user", "item"]
    ids: pl.Series
    titles: pl.Series | None
    n_ratings: OffsetArray
    noise_sd: FloatArray
    low: FloatArray
    high: FloatArray
    probability: FloatArray

    FIGURES: ClassVar = ("noise_sd", "low", "high", "probability")

    @classmethod
    def of(cls, side: Literal["user", "item"], ratings: Ratings, summary: FloatMatrix, n: int) -> Noisiness:
        """The n noisiest; ties in order. The summary has one row each, and one column per figure."""
        order = np.argsort(-summary[:, 0], kind="stable")[:n]
        ids, grouped = (ratings.users.ids, ratings.by_user) if side == "user" else (ratings.items.ids, ratings.by_item)
        titles = ratings.title_of(order) if side == "item" and ratings.item_titles is not None else None
        figures = dict(zip(cls.FIGURES, summary[order].T, strict=True))
        return cls(side=side, ids=ids.gather(order), titles=titles, n_ratings=grouped.counts[order], **figures)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def heading(self) -> str:
        return f"The {len(self)} noisiest {self.side}{'s' if len(self) != 1 else ''}"

    def to_polars(self) -> pl.DataFrame:
        """One row each, noisiest first."""
        figures = {"ratings": self.n_ratings} | {name: getattr(self, name) for name in self.FIGURES}
        return pl.DataFrame(id_columns(self.side, self.ids, self.titles) | figures)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FeatureImportance(Table):
    """How much each group of features explains of what users, or items, are like; the largest share first.

    `share` is the variance that a group explains, as a share of the variance of the rows, in scores for the average row
    of the other side: the posterior mean, with a 90 % interval from `low` to `high`. Shares need not sum to 1: rows
    also differ by what no feature tells, and groups may explain the same. `precision` is the learned precision of the
    coefficients; it also depends on how many columns a group has, and on how large their values are.
    """

    side: list[str]
    group: list[str]
    n_features: list[int]
    share: FloatArray
    low: FloatArray
    high: FloatArray
    precision: FloatArray

    def __len__(self) -> int:
        return len(self.group)

    @property
    def heading(self) -> str:
        return "What features explain"

    def to_polars(self) -> pl.DataFrame:
        """One row per group."""
        names = ("side", "group", "n_features", "share", "low", "high", "precision")
        return pl.DataFrame({name: getattr(self, name) for name in names})
