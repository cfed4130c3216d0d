"""Features: what is known of users or items besides their ratings, as numbers in named groups of columns.

`Features` keeps the values as they were given, one row per id, and encodes them on first use: numbers are
standardised, categories become one column per level, vectors are scaled as one. What the encoding needs (means,
deviations, levels) is learned from the rows at hand, so that the training part of a split learns it from its own users
and items; `encode` applies it to others. A missing value is 0 in all columns of its group, and 1 in an indicator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from tastespace.arrays import BoolArray
from tastespace.data.vocabulary import Vocabulary, is_blank
from tastespace.errors import DataError, InvalidParameterError, named

FeatureKind = Literal["number", "category", "vector"]
MISSING = "missing"  # the kind of the column that says that a value is missing
BAG = "bag"
_DENSE = 0.5  # vectors with a larger share of entries are centred; others keep their zeros
# One row per column of the matrix: its group, what it is, its level or position, and how a number is standardised.
# Of more levels than these, those of one row have no column: they tell nothing about other rows, and would explain away
# what is peculiar to theirs.
MANY_LEVELS = 100
ENCODING = {
    "group": pl.String,
    "kind": pl.String,
    "level": pl.String,
    "center": pl.Float64,
    "scale": pl.Float64,
}


@dataclass(frozen=True)
class FeatureGroup:
    """Columns that belong together, such as all genres: their weights share one learned precision."""

    name: str
    kind: FeatureKind
    start: int  # first column
    stop: int  # after the last one

    @property
    def columns(self) -> slice:
        return slice(self.start, self.stop)

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class GroupSummary:
    """One group in numbers, for `data describe`."""

    name: str
    kind: FeatureKind
    n_columns: int
    n_missing: int  # rows without a value
    entries: float  # mean number of entries other than zero in a row that has a value
    filled: float  # share of the entries of all rows that are not zero

    def __str__(self) -> str:
        columns = "1 column" if self.n_columns == 1 else f"{self.n_columns:,} columns"
        text = f"{self.name}: {self.kind}, {columns}, {self.filled:.2%} filled"
        text += f", {self.entries:.3g} each" if self.kind == "category" and self.entries > 1 else ""
        return text + (f", {self.n_missing:,} missing" if self.n_missing else "")


@dataclass(frozen=True)
class FeatureSummary:
    """What is known of the users or the items."""

    are_used: bool  # as features; else they are attributes that may become features
    groups: tuple[GroupSummary, ...]
    has_bag: bool = False
    left_out: tuple[str, ...] = ()  # remarks

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return asdict(self)

    def lines(self, side: str) -> list[tuple[str, str]]:
        """Label and text of each line, for a table."""
        texts = [str(group) for group in self.groups]
        texts += ["bag: made by the model from the ratings"] if self.has_bag else []
        texts += self.left_out
        label = f"{side} features" if self.are_used else f"{side} attributes"
        return [("" if place else label, text) for place, text in enumerate(texts)]


@dataclass(frozen=True, eq=False)
class Vectors:
    """A vector per row, stored sparsely, and which rows have none."""

    values: scipy.sparse.csr_array  # float32
    is_missing: BoolArray

    def take(self, rows: NDArray[Any]) -> Vectors:
        """The vectors of these rows; those of row -1 are missing."""
        absent = rows < 0
        if not absent.any():
            return Vectors(self.values[rows], self.is_missing[rows])
        if not self.values.shape[0]:
            return Vectors(_zeros(len(rows), self.values.shape[1]), absent)
        found = self.values[np.where(absent, 0, rows)]
        kept = scipy.sparse.diags_array((~absent).astype(np.float32), dtype=np.float32) @ found
        return Vectors(_csr(kept), absent | self.is_missing[np.where(absent, 0, rows)])


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of users or items; build it with `Ratings.with_item_features` or `with_user_features`.

    `matrix` has one row per id and the columns of all `groups` side by side; `names` are those of the columns. With
    `has_bag` a model adds a group that it makes itself from the ratings it is fitted on: for a user the items they
    rated, for an item the users who rated it.
    """

    ids: Vocabulary
    cells: pl.DataFrame = field(default_factory=pl.DataFrame)  # numbers as Float64, categories as List(String)
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    has_bag: bool = False
    learned: pl.DataFrame | None = None  # the encoding, if it was learned from other rows
    remarks: tuple[str, ...] = ()  # what was left out or not found, in sentences

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        groups = ", ".join(f"{group.name} ({len(group):,})" for group in self.groups)
        bag = " and the bag" if self.has_bag else ""
        return f"Features({len(self):,} rows, {self.n_columns:,} columns: {groups or 'no groups'}{bag})"

    @cached_property
    def encoding(self) -> pl.DataFrame:
        """One row per column: what it is and how it is made; all that is needed to encode other users or items."""
        if self.learned is not None:
            return self.learned
        parts = [_learn(name, self.cells[name]) for name in self.cells.columns]
        parts += [_learn_vectors(name, vectors) for name, vectors in self.vectors.items()]
        return pl.concat([pl.DataFrame(schema=ENCODING), *parts])

    @cached_property
    def groups(self) -> tuple[FeatureGroup, ...]:
        """The groups and their columns; one whose values are all the same has no columns, and is not among them."""
        kinds = self.encoding.with_row_index("column").group_by("group", maintain_order=True)
        found = kinds.agg(pl.col("kind").first(), pl.col("column").min().alias("start"), pl.len())
        groups = []
        for name, kind, start, width in found.iter_rows():
            group_kind = self.kind_of(name) if kind == MISSING else kind
            groups.append(FeatureGroup(name, group_kind, int(start), int(start) + int(width)))
        return tuple(groups)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each column: `genres=Drama`, `year`, `plot[3]`, `year missing`."""
        group, level = pl.col("group"), pl.col("level")
        name = (
            pl.when(pl.col("kind") == "category")
            .then(group + "=" + level)
            .when(pl.col("kind") == "vector")
            .then(group + "[" + level + "]")
            .when(pl.col("kind") == MISSING)
            .then(group + " missing")
            .otherwise(group)
        )
        return tuple(self.encoding.select(name.alias("name"))["name"])

    @cached_property
    def matrix(self) -> scipy.sparse.csr_array:
        """The encoded rows: len(self) x n_columns, float32."""
        return self._encoded(self)

    @property
    def n_columns(self) -> int:
        return self.encoding.height

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of everything that was given, whether it has columns or not."""
        return (*self.cells.columns, *self.vectors)

    def kind_of(self, name: str) -> FeatureKind:
        """The kind of what was given under this name."""
        if name in self.vectors:
            return "vector"
        return "number" if self.cells[name].dtype == pl.Float64 else "category"

    def summary(self, *, are_used: bool = True) -> FeatureSummary:
        """The groups in numbers: how many columns, how sparse, how much is missing."""
        groups = []
        for group in self.groups:
            part: Any = self.matrix[:, group.columns]
            missing = self._missing(group.name)
            is_indicator = self.encoding["kind"][group.stop - 1] == MISSING
            width = len(group) - is_indicator
            n_entries = int(part[:, : max(width, 1)].nnz) if width else 0
            n_known = len(self) - missing
            counts = n_entries / max(n_known, 1), n_entries / max(len(self) * width, 1)
            groups.append(GroupSummary(group.name, group.kind, len(group), missing, *counts))
        return FeatureSummary(are_used, tuple(groups), self.has_bag, self.remarks)

    def _missing(self, name: str) -> int:
        """The number of rows without a value."""
        if name in self.vectors:
            return int(self.vectors[name].is_missing.sum())
        return self.cells[name].null_count()

    def known(self) -> BoolArray:
        """Which rows have a value of anything."""
        found: BoolArray = np.zeros(len(self), np.bool_)
        for name in self.cells.columns:
            found |= self.cells[name].is_not_null().to_numpy()
        for vectors in self.vectors.values():
            found |= ~vectors.is_missing
        return found

    def encode(self, others: Features) -> scipy.sparse.csr_array:
        """The rows of other users or items in the columns of these.

        Levels that did not occur here count for nothing; what the others do not have is missing.
        """
        return self._encoded(others)

    def take(self, rows: NDArray[Any], ids: Vocabulary | None = None) -> Features:
        """Some of the rows, by position; -1 is a row about which nothing is known, whose id must be given.

        The encoding is learned from them again.
        """
        ids = Vocabulary(self.ids.at(rows)) if ids is None else ids
        vectors = {name: each.take(rows) for name, each in self.vectors.items()}
        return replace(self, ids=ids, cells=_taken(self.cells, rows), vectors=vectors, learned=None)

    def aligned(self, vocabulary: Vocabulary) -> Features:
        """A row for each id of a vocabulary; about ids that are not here nothing is known."""
        return self.take(self.ids.rows_of(vocabulary.ids), vocabulary)

    def extended(self, others: Features, ids: Vocabulary | None = None) -> Features:
        """These rows and those of others below them, in the columns of these; `ids` are those of both, if known."""
        kept = {name: others._column(name, self) for name in self.cells.columns}
        cells = self.cells.vstack(pl.DataFrame(kept)) if kept else pl.DataFrame()
        vectors = {}
        for name, mine in self.vectors.items():
            theirs = others._vectors(name, int(mine.values.shape[1]))
            values = _csr(scipy.sparse.vstack([mine.values, theirs.values], format="csr"))
            vectors[name] = Vectors(values, np.concatenate([mine.is_missing, theirs.is_missing]))
        if ids is None:
            own = self.ids.ids
            ids = Vocabulary(pl.concat([own, others.ids.ids.cast(own.dtype).alias(own.name)]))
        return replace(self, ids=ids, cells=cells, vectors=vectors, learned=self.encoding)

    def joined(self, others: Features) -> Features:
        """The groups of both for the same ids; of two groups with the same name the other's counts."""
        others = others.aligned(self.ids)
        cells = self.cells.select(name for name in self.cells.columns if name not in others.sources)
        vectors = {name: each for name, each in self.vectors.items() if name not in others.sources}
        return Features(
            self.ids,
            others.cells if not cells.width else cells.hstack(others.cells),
            {**vectors, **others.vectors},
            self.has_bag or others.has_bag,
            remarks=(*self.remarks, *others.remarks),
        )

    def _column(self, name: str, of: Features) -> pl.Series:
        """The cells of this name, of the type that they have elsewhere; missing ones if there are none."""
        kind = of.cells[name].dtype
        if name not in self.cells.columns:
            return pl.Series(name, [None] * len(self), dtype=kind)
        cells = self.cells[name]
        if cells.dtype == kind:
            return cells
        return normalised(cells, "number" if kind == pl.Float64 else "category", self.ids)

    def _vectors(self, name: str, width: int) -> Vectors:
        """The vectors of this name; missing ones if there are none."""
        found = self.vectors.get(name)
        if found is None:
            return Vectors(_zeros(len(self), width), np.ones(len(self), np.bool_))
        if found.values.shape[1] != width:
            raise DataError(f"the vectors {name} have {found.values.shape[1]:,} numbers", expected=f"{width:,} numbers")
        return found

    def _encoded(self, others: Features) -> scipy.sparse.csr_array:
        """The rows of others in these columns."""
        parts = []
        for group in self.groups:
            columns = self.encoding[group.columns]
            if group.kind == "vector":
                of_kind = columns.filter(pl.col("kind") == "vector")
                vectors = others._vectors(group.name, of_kind.height or self.vectors[group.name].values.shape[1])
                parts.append(_encode_vectors(columns, vectors))
            else:
                parts.append(_encode(columns, others._column(group.name, self)))
        if not parts:
            return _zeros(len(others), 0)
        return _csr(scipy.sparse.hstack(parts, format="csr"))


def normalised(cells: pl.Series, kind: FeatureKind | None, ids: Vocabulary) -> pl.Series:
    """Cells as Float64 or List(String), by what they are or by the kind that is asked for; nothing is null."""
    is_list = isinstance(cells.dtype, pl.List | pl.Array)
    if kind == "vector" or kind not in (None, *get_args(FeatureKind)):
        raise InvalidParameterError(f"feature {cells.name!r} is asked for as {kind!r}; expected number or category")
    is_numeric = cells.dtype.is_numeric() or cells.dtype.is_temporal() or cells.dtype == pl.Boolean
    if kind is None:
        kind = "number" if is_numeric else "category"
    if kind == "number":
        return _numbers(cells, ids)
    texts = cells.list.eval(pl.element().cast(pl.String)) if is_list else cells.cast(pl.String)
    if isinstance(cells.dtype, pl.Array):
        texts = cells.arr.to_list().list.eval(pl.element().cast(pl.String))
    if not isinstance(texts.dtype, pl.List):
        texts = texts.to_frame().select(pl.concat_list(cells.name)).to_series()
    plain = pl.element().str.strip_chars()
    entries = texts.list.eval(plain.filter(plain.is_not_null() & (plain != "")).unique(maintain_order=True))
    return entries.set(entries.list.len().fill_null(0) == 0, None)


def _numbers(cells: pl.Series, ids: Vocabulary) -> pl.Series:
    if isinstance(cells.dtype, pl.List | pl.Array):
        raise DataError(f"feature {cells.name!r} has several values in a row", expected="one number for each id")
    if cells.dtype.is_temporal():
        numbers = cells.cast(pl.Datetime("ms")).dt.epoch("s").cast(pl.Float64) / 86_400
    elif cells.dtype == pl.String:
        plain = cells.str.strip_chars()
        plain = plain.set(is_blank(cells).fill_null(False), None)
        numbers = plain.cast(pl.Float64, strict=False)
        wrong = numbers.is_null() & plain.is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise DataError(
                f"feature {cells.name!r} of {ids.ids[row]!r} is not a number", text=plain[row], expected="a number"
            )
    else:
        numbers = cells.cast(pl.Float64)
    numbers = numbers.fill_nan(None)
    if numbers.is_infinite().any():
        who = ids.ids.filter(numbers.is_infinite().fill_null(False))
        raise DataError(f"feature {cells.name!r} is infinite for {named(who)}", expected="finite numbers")
    return numbers.alias(cells.name)


def _learn(name: str, cells: pl.Series) -> pl.DataFrame:
    """The columns of numbers or categories; none for what is the same everywhere."""
    n_missing = cells.null_count()
    if n_missing == len(cells):
        return pl.DataFrame(schema=ENCODING)
    rows: dict[str, list[Any]] = {"kind": [], "level": [], "center": [], "scale": []}
    if cells.dtype == pl.Float64:
        center, scale = _mean_and_sd(cells.drop_nulls().to_numpy())
        if scale > 0:
            rows = {"kind": ["number"], "level": [None], "center": [center], "scale": [scale]}
    else:
        counts = cells.drop_nulls().explode().drop_nulls().value_counts(name="n").sort(cells.name)
        if counts.height > MANY_LEVELS and (counts["n"] > 1).any():
            counts = counts.filter(pl.col("n") > 1)
        levels = counts[cells.name].to_list()
        is_constant = len(levels) == 1 and not n_missing
        levels = [] if is_constant else levels
        n = len(levels)
        rows = {"kind": ["category"] * n, "level": levels, "center": [0.0] * n, "scale": [1.0] * n}
    return _columns(name, rows, n_missing > 0)


def _learn_vectors(name: str, vectors: Vectors) -> pl.DataFrame:
    """The columns of vectors: scaled by one number, so that directions and distances stay what they were."""
    present = ~vectors.is_missing
    known = vectors.values[np.flatnonzero(present)]
    n, width = known.shape
    if not n or not known.nnz:
        return pl.DataFrame(schema=ENCODING)
    center = np.zeros(width)
    squares = float((known.data.astype(np.float64) ** 2).sum()) / n
    if known.nnz > _DENSE * n * width:
        center = np.asarray(known.mean(axis=0, dtype=np.float64)).reshape(-1)
        squares = (squares - float(center @ center)) / width  # the mean variance of a column
    if not squares > 0:
        return pl.DataFrame(schema=ENCODING)
    scale = np.full(width, np.sqrt(squares))
    columns = pl.DataFrame(
        {"kind": ["vector"], "level": [None]}, schema={"kind": pl.String, "level": pl.String}
    ).select(pl.col("kind").repeat_by(width).explode())
    columns = columns.with_columns(
        level=pl.int_range(width, eager=True).cast(pl.String), center=pl.Series(center), scale=pl.Series(scale)
    )
    return _columns(name, columns.to_dict(as_series=True), bool(vectors.is_missing.any()))


def _columns(name: str, rows: Mapping[str, Any], has_missing: bool) -> pl.DataFrame:
    table = pl.DataFrame({key: pl.Series(key, rows[key], dtype=ENCODING[key]) for key in rows})
    if has_missing:
        indicator = {"kind": [MISSING], "level": [None], "center": [0.0], "scale": [1.0]}
        table = table.vstack(pl.DataFrame(indicator, schema={key: ENCODING[key] for key in indicator}))
    return table.select(pl.lit(name).alias("group"), pl.all())


def _mean_and_sd(values: NDArray[Any]) -> tuple[float, float]:
    if not len(values) or values.min() == values.max():  # exactly: the mean may miss equal numbers by a rounding error
        return 0.0, 0.0
    return float(values.mean()), float(values.std())


def _encode(columns: pl.DataFrame, cells: pl.Series) -> scipy.sparse.csr_array:
    """Numbers or categories in these columns."""
    n, width = len(cells), columns.height
    kinds = columns["kind"].to_list()
    place = width - 1 if kinds[-1] == MISSING else -1
    n_values = width - (place >= 0)
    rows: list[NDArray[Any]] = []
    places: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    if n_values and cells.dtype == pl.Float64:
        known = np.flatnonzero(cells.is_not_null().to_numpy())
        center, scale = columns["center"][0], columns["scale"][0]
        rows, places = [known], [np.zeros(len(known), np.int64)]
        values = [(cells.to_numpy()[known] - center) / scale]
    elif n_values:
        table = pl.DataFrame({"row": np.arange(n, dtype=np.int64), "level": cells}).explode("level").drop_nulls()
        at = Vocabulary(columns["level"][:n_values]).rows_of(table["level"]) if table.height else np.zeros(0, np.int32)
        is_known = at >= 0
        rows, places = [table["row"].to_numpy()[is_known]], [at[is_known].astype(np.int64)]
        values = [np.ones(int(is_known.sum()))]
    if place >= 0:
        absent = np.flatnonzero(cells.is_null().to_numpy())
        rows.append(absent)
        places.append(np.full(len(absent), place, np.int64))
        values.append(np.ones(len(absent)))
    return _entries(rows, places, values, (n, width))


def _encode_vectors(columns: pl.DataFrame, vectors: Vectors) -> scipy.sparse.csr_array:
    """Vectors in these columns; those that are centred become dense."""
    has_indicator = columns["kind"][-1] == MISSING
    of_kind = columns[: columns.height - has_indicator]
    n, width = vectors.values.shape[0], of_kind.height
    center, scale = of_kind["center"].to_numpy(), of_kind["scale"].to_numpy()
    if center.any():
        dense = (vectors.values.toarray() - center) / scale
        dense[vectors.is_missing] = 0
        encoded = _csr(scipy.sparse.csr_array(dense))
    else:
        encoded = _csr(vectors.values.multiply(1 / scale[0])) if width else _zeros(n, 0)
    if not has_indicator:
        return encoded
    absent = np.flatnonzero(vectors.is_missing)
    indicator = _entries([absent], [np.zeros(len(absent), np.int64)], [np.ones(len(absent))], (n, 1))
    return _csr(scipy.sparse.hstack([encoded, indicator], format="csr"))


def _entries(
    rows: Sequence[NDArray[Any]], places: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    if not rows:
        return _zeros(*shape)
    where = (np.concatenate(rows), np.concatenate(places))
    return _csr(scipy.sparse.csr_array((np.concatenate(values).astype(np.float32), where), shape=shape))


def _zeros(n: int, width: int) -> scipy.sparse.csr_array:
    return _csr(scipy.sparse.coo_array((n, width), dtype=np.float32))


def _csr(matrix: Any) -> scipy.sparse.csr_array:
    """A sparse matrix with sorted entries in single precision."""
    found: Any = scipy.sparse.csr_array(matrix, dtype=np.float32)
    found.sum_duplicates()
    return found  # type: ignore[no-any-return]


def _taken(cells: pl.DataFrame, rows: NDArray[Any]) -> pl.DataFrame:
    if not cells.width:
        return cells
    if len(rows) and (rows < 0).any():
        padded = cells.vstack(pl.DataFrame({name: [None] for name in cells.columns}, schema=cells.schema))
        return padded[np.where(rows < 0, cells.height, rows)]
    return cells[rows]
