"""What becomes features: attributes that readers found, frames, files, matrices and embeddings.

`features_of` is the one way in: it makes `Features` of any of these, matched to the ids of a vocabulary. What may not
be used unasked is left out and named: averages of ratings and counts of raters (they tell the ratings that are to be
predicted), free text, and what is different for everyone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl
import scipy

from tastespace.data.attributes import plain_name, singulars
from tastespace.data.features import BAG, FeatureKind, Features, FeatureSummary, Vectors, normalised
from tastespace.data.formats.descriptions import entries_of, list_mark, read_descriptions, reuse
from tastespace.data.formats.layout import DESCRIBED
from tastespace.data.tables import frame_columns, series_of, usual_column
from tastespace.data.vocabulary import Ids, Vocabulary, id_series, listed
from tastespace.errors import DataError, InvalidParameterError, named, warn

SideName = Literal["item", "user"]
ALL = "all"
# Names, without case and punctuation, of columns that summarise ratings: they would leak into a test, and into what is
# believed of an item before its first rating.
_SUMMARIES = re.compile(
    r"(avg|average|mean|weighted|bayesian)?(rating|score|vote|star|review)s?(avg|average|mean|value)?"
    r"|(n|num|numof|numberof|total)?(rating|score|vote|star|review|rater|member|fan|favou?rite|listener|play|view|click|"
    r"purchase|order|download|user|like)s?(count|counts|total|number|n)?"
    r"|(rating|vote|review|user)s?(count|number)s?|(work)?ratings?\d|(work)?ratings?count|textreviewscount"
    r"|popularity|rank|ranking|metascore|imdb(rating|score|votes)|playcount|trendingscore"
)
_FILES = re.compile(r"\.(csv|tsv|txt|dat|item|user|parquet|jsonl|ndjson|npz|safetensors)(\.gz|\.zst)?$", re.IGNORECASE)
_OFTEN_AGAIN = (
    0.5  # share of texts that occur more than once below which they tell who someone is, not what they are like
)
_FEW = 20  # rows from which that can be told
_DATES = ("%Y-%m-%d", "%d %b %Y", "%d-%b-%Y")


def features_of(
    source: Any,
    vocabulary: Vocabulary,
    side: SideName,
    attributes: pl.DataFrame | None = None,
    *,
    columns: Sequence[str] | None = None,
    ids: Ids | None = None,
    name: str | None = None,
) -> Features:
    """What a source knows of the ids of a vocabulary.

    A text is "all", "bag", a file, or the name of one of the `attributes`, which may end in `:number` or `:category`.
    """
    if isinstance(source, str) and source == BAG:
        return Features(vocabulary, has_bag=True)
    if isinstance(source, str) and not _is_file(source):
        table = pl.DataFrame() if attributes is None else attributes
        return _without_constants(_of_table(table, vocabulary, side, None if source == ALL else [source]), side)
    made = source if isinstance(source, Features) else describe(source, side, columns=columns, ids=ids, name=name)
    return _without_constants(_matched(made, vocabulary, side, source), side)


def _without_constants(features: Features, side: SideName) -> Features:
    """The features, with a remark on what is the same for everyone, and has no columns for that."""
    varying = {group.name for group in features.groups}
    constant = [name for name in features.sources if name not in varying]
    if not constant:
        return features
    are = "is" if len(constant) == 1 else "are"
    told = f"{', '.join(constant)} {are} the same for all {len(features):,} {side}s, or always missing: of no use here"
    return _with_remarks(features, [told])


def describe(
    source: Any,
    side: SideName,
    *,
    columns: Sequence[str] | None = None,
    ids: Ids | None = None,
    name: str | None = None,
) -> Features:
    """What a frame, a file or a matrix knows, for all ids that are in it."""
    if isinstance(source, str | Path):
        file = Path(source)
        suffix = file.suffix.lower()
        if suffix in (".npz", ".safetensors"):
            vectors, own_ids = _read_vectors(file)
            return _of_vectors(vectors, own_ids if ids is None else ids, name or file.stem, str(file), side)
        table = read_descriptions(file, side)
        return _of_frame(table.drop("id"), table["id"], side, columns, str(file))
    if _is_sparse(source) or isinstance(source, np.ndarray):
        return _of_vectors(source, ids, name or "vector", "a matrix", side)
    if isinstance(source, Mapping):
        return _of_mapping(source, side, name or "vector", columns)
    table, own_ids = _frame_and_ids(source, side, ids)
    return _of_frame(table, own_ids, side, columns, "the frame")


def summary_of(
    features: Features | None, attributes: pl.DataFrame | None, ids: Vocabulary, side: SideName
) -> FeatureSummary | None:
    """The features in numbers; where there are none, the attributes that could become features."""
    if features is not None:
        return features.summary()
    if attributes is None or not attributes.width:
        return None
    return _of_table(attributes, ids, side, None).summary(are_used=False)


def suitable(table: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The columns that may be used unasked, and why the others may not."""
    used, reasons = [], []
    for cells in table:
        if cells.null_count() == len(cells):
            continue
        reason = _unsuitable(cells)
        if reason is None:
            used.append(cells.name)
        else:
            reasons.append(f"{cells.name} ({reason})")
    return used, reasons


def _unsuitable(cells: pl.Series) -> str | None:
    plain = re.sub(r"[^a-z0-9]", "", cells.name.lower())
    if _SUMMARIES.fullmatch(plain):
        return "summarises ratings or raters"
    if cells.dtype == pl.String and len(cells) >= _FEW:
        split = _split(cells)
        if split.dtype == pl.String and reuse(split) < _OFTEN_AGAIN:
            return "is different for nearly all"
    return None


def _is_file(text: str) -> bool:
    return _FILES.search(text) is not None or (("/" in text or "\\" in text) and Path(text).exists())


def _of_frame(table: pl.DataFrame, ids: Ids, side: SideName, columns: Sequence[str] | None, where: str) -> Features:
    table, vocabulary, remarks = _each_once(table, ids, side, where)
    return _with_remarks(_of_table(table, vocabulary, side, columns), remarks)


def table_and_ids(source: Any, side: SideName) -> tuple[pl.DataFrame, Vocabulary, tuple[str, ...]]:
    """The columns of a frame, a file or a mapping of mappings, and the id of each row, each once; and remarks."""
    ids: Ids
    if isinstance(source, str | Path):
        table = read_descriptions(Path(source), side)
        table, ids = table.drop("id"), table["id"]
    elif isinstance(source, Mapping):
        table, ids = _rows_of(source), list(source)
    else:
        table, ids = _frame_and_ids(source, side, None)
    return _each_once(table, ids, side, str(source) if isinstance(source, str | Path) else "what was given")


def _rows_of(source: Mapping[Any, Any]) -> pl.DataFrame:
    """The entries of `{id: {"genre": ..., "year": ...}}` as rows."""
    wrong = next((key for key, entry in source.items() if not isinstance(entry, Mapping)), None)
    if wrong is not None:
        raise DataError(f"what is said of {wrong!r} is {source[wrong]!r}", expected='names and values, {"year": 1995}')
    try:
        return pl.DataFrame([dict(entry) for entry in source.values()], infer_schema_length=None, strict=False)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise DataError(f"the entries do not fit together ({error})", expected="the same types of values") from error


def _each_once(
    table: pl.DataFrame, ids: Ids, side: SideName, where: str
) -> tuple[pl.DataFrame, Vocabulary, tuple[str, ...]]:
    """The first row of each id, and a remark if there are others."""
    series = id_series(ids, side)
    is_first = series.is_first_distinct()
    if is_first.all():
        return table, Vocabulary(series.alias(side)), ()
    repeated = series.filter(~is_first).unique(maintain_order=True)
    remark = (
        f"{where} describes {len(repeated):,} {side}s more than once, and the first description counts: "
        f"{named(repeated)}"
    )
    return table.filter(is_first), Vocabulary(series.filter(is_first).alias(side)), (remark,)


def _of_table(table: pl.DataFrame, ids: Vocabulary, side: SideName, columns: Sequence[str] | None) -> Features:
    """The columns of a table, whose rows are those of the ids; those that are suitable, unless they are named."""
    remarks: list[str] = []
    kinds: dict[str, str | None] = {}
    if columns is None:
        names, reasons = suitable(table)
        kinds = dict.fromkeys(names)
        if reasons:
            remarks.append(f"not used as {side} features unless asked for by name: {', '.join(reasons)}")
    else:
        for asked in listed(columns):
            plain, _, asked_kind = str(asked).rpartition(":") if _has_kind(str(asked)) else (str(asked), "", "")
            kinds[_find(plain, table, side)] = asked_kind or None
    cells, vectors = [], {}
    for name, kind in kinds.items():
        column = table[name]
        if kind in (None, "vector") and _is_vector(column):
            vectors[name] = as_vectors(column, ids, name)
        else:
            column = _split(column) if kind is None else column
            cells.append(normalised(column, cast("FeatureKind | None", kind), ids))
    return Features(ids, pl.DataFrame(cells), vectors, remarks=tuple(remarks))


def _has_kind(asked: str) -> bool:
    return asked.rpartition(":")[2] in get_args(FeatureKind)


def _find(asked: str, table: pl.DataFrame, side: SideName) -> str:
    """The column of this name; an error with a suggestion if there is none."""
    found = find_column(asked, table.columns)
    if found is not None:
        return found
    known = {plain_name(name): name for name in table.columns}
    close = get_close_matches(plain_name(asked), known, n=1)
    hint = f"; did you mean {known[close[0]]}?" if close else ""
    if not table.width:
        raise InvalidParameterError(
            f"there is no {side} feature {asked!r}, since nothing is known of the {side}s; pass a file that describes "
            f"them (--{side}s FILE, in Python {side}s=)"
        )
    raise InvalidParameterError(
        f"there is no {side} feature {asked!r}; expected one of {', '.join(table.columns)}, all or bag{hint}"
    )


def find_column(asked: str, columns: Sequence[str]) -> str | None:
    """The column of this name: in any case and punctuation, and one entry of a list by its singular."""
    if asked in columns:
        return asked
    known: dict[str, str] = {}
    for name in columns:
        known.setdefault(plain_name(name), name)
    for name in columns:
        for singular in singulars(plain_name(name)):
            known.setdefault(singular, name)
    plain = plain_name(asked)
    return known.get(plain) or next((known[one] for one in singulars(plain) if one in known), None)


def _is_sparse(matrix: Any) -> bool:
    return bool(scipy.sparse.issparse(matrix))


def _is_vector(cells: pl.Series) -> bool:
    kind = cells.dtype
    return isinstance(kind, pl.List | pl.Array) and kind.inner.is_numeric()


def _split(cells: pl.Series) -> pl.Series:
    """Texts that are lists, such as "Drama, Romance", as lists; texts that are dates as dates.

    What tells a list from a sentence or a title is that its parts occur again and again.
    """
    if isinstance(cells.dtype, pl.List) and cells.dtype.inner == pl.String:
        whole = cells.list.len().fill_null(0) <= 1
        return _split(cells.list.first()).alias(cells.name) if whole.all() else cells
    if cells.dtype != pl.String:
        return cells
    known = cells.drop_nulls()
    for form in _DATES:
        dates = known.str.strip_chars().str.to_date(form, strict=False)
        if len(dates) and dates.null_count() < 0.1 * len(dates):
            return cells.str.strip_chars().str.to_date(form, strict=False)
    mark = list_mark(cells)
    return cells if mark is None else entries_of(cells, mark)


def as_vectors(cells: pl.Series, ids: Vocabulary, name: str) -> Vectors:
    """A column of lists of numbers as vectors."""
    if not _is_vector(cells):
        raise DataError(f"{name} is of type {cells.dtype}", expected="a list of numbers for each id")
    return _vectors(_stacked(cells), ids, name)


def _stacked(cells: pl.Series) -> scipy.sparse.csr_array:
    """A column of lists of numbers as a matrix; a missing list becomes a row of NaN."""
    lengths = cells.arr.to_list().list.len() if isinstance(cells.dtype, pl.Array) else cells.list.len()
    widths = lengths.drop_nulls().unique()
    widths = widths.filter(widths > 0)
    if len(widths) != 1:
        found = ", ".join(f"{width:,}" for width in widths.sort().head(5))
        raise DataError(f"the vectors {cells.name!r} have different lengths: {found}", expected="one length")
    width = int(widths[0])
    dense = np.full((len(cells), width), np.nan)
    has = (lengths.fill_null(0) > 0).to_numpy()
    dense[has] = np.asarray(cells.filter(pl.Series(has)).explode().cast(pl.Float64).to_numpy()).reshape(-1, width)
    return dense  # type: ignore[return-value]


def _vectors(matrix: Any, ids: Vocabulary, name: str) -> Vectors:
    """Vectors of a dense or sparse matrix; a row with NaN is missing."""
    values: Any = matrix.tocsr() if _is_sparse(matrix) else np.asarray(matrix)
    if values.ndim != 2:
        raise DataError(f"{name} has {values.ndim} dimensions", expected="a matrix with a row for each id")
    if values.shape[0] != len(ids):
        raise DataError(f"{name} has {values.shape[0]:,} rows for {len(ids):,} ids", expected="as many")
    if not np.issubdtype(values.dtype, np.number) and values.dtype != np.bool_:
        raise DataError(f"{name} is of type {values.dtype}", expected="numbers")
    if np.iscomplexobj(values):
        raise DataError(f"{name} is of type {values.dtype}", expected="real numbers")
    stored = scipy.sparse.csr_array(values, dtype=np.float32)
    stored.sum_duplicates()
    entry_rows = np.repeat(np.arange(len(ids)), np.diff(stored.indptr))
    if (infinite := np.isinf(stored.data)).any():
        raise DataError(
            f"{name} is infinite for {named(Vocabulary(ids.ids).at(np.unique(entry_rows[infinite])))}",
            expected="finite numbers",
        )
    is_missing = np.zeros(len(ids), np.bool_)
    is_missing[entry_rows[np.isnan(stored.data)]] = True
    if is_missing.any():
        stored = Vectors(stored, is_missing).take(np.where(is_missing, -1, np.arange(len(ids)))).values
        stored.data = np.nan_to_num(stored.data)
        stored.eliminate_zeros()
    return Vectors(stored, is_missing)


def _of_vectors(matrix: Any, ids: Ids | None, name: str, where: str, side: SideName) -> Features:
    if ids is None:
        raise InvalidParameterError(
            f"{where} has no ids; expected ids=, the {side} of each row (a file may have an array called ids)"
        )
    series = id_series(ids, side)
    if matrix.shape[0] != len(series):
        raise DataError(f"{name} has {matrix.shape[0]:,} rows for {len(series):,} ids", expected="as many")
    is_first = series.is_first_distinct()
    remarks = []
    if not is_first.all():
        repeated = series.filter(~is_first).unique(maintain_order=True)
        remarks.append(
            f"{where} has {len(repeated):,} {side}s more than once, and the first row counts: {named(repeated)}"
        )
        kept = np.flatnonzero(is_first.to_numpy())
        matrix = matrix.tocsr()[kept] if _is_sparse(matrix) else np.asarray(matrix)[kept]
        series = series.filter(is_first)
    vocabulary = Vocabulary(series.alias(side))
    return Features(vocabulary, vectors={name: _vectors(matrix, vocabulary, name)}, remarks=tuple(remarks))


def _of_mapping(source: Mapping[Any, Any], side: SideName, name: str, columns: Sequence[str] | None) -> Features:
    """`{id: vector}`, or `{id: {"genre": ..., "year": ...}}`."""
    entries = list(source.values())
    if all(isinstance(entry, Mapping) for entry in entries):
        return _of_frame(_rows_of(source), list(source), side, columns, "the mapping")
    widths = {np.asarray(entry).shape for entry in entries}
    if len(widths) != 1 or len(next(iter(widths))) != 1:
        raise DataError("the mapping has entries of different shapes", expected="a vector of the same length for each")
    return _of_vectors(np.array(entries, np.float64), list(source), name, "the mapping", side)


def _read_vectors(file: Path) -> tuple[Any, Any]:
    """The matrix in a file of arrays, and the array `ids` if it has one."""
    expected = "a scipy matrix saved by save_npz, or a file with a matrix and an array ids"
    try:
        if file.suffix.lower() == ".safetensors":
            from tastespace.storage import read_arrays

            arrays: dict[str, Any] = dict(read_arrays(file))
        else:
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=file, expected=expected) from error
    except Exception as error:  # each library has errors of its own for damaged files
        raise DataError(f"the file cannot be read ({error})", file=file, expected=expected) from error
    ids = next((arrays.pop(name) for name in ("ids", "id", "item_ids", "user_ids") if name in arrays), None)
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        kind = bytes(arrays["format"]).decode() if "format" in arrays else "csr"
        if kind not in ("csr", "csc"):
            raise DataError(f"the matrix is stored as {kind}", file=file, expected="csr or csc")
        make: Any = scipy.sparse.csr_array if kind == "csr" else scipy.sparse.csc_array
        shape = tuple(int(size) for size in arrays["shape"])
        return make((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape), ids
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if len(matrices) != 1:
        found = ", ".join(matrices) or "none"
        raise DataError(f"the file has {len(matrices)} matrices ({found})", file=file, expected=expected)
    return next(iter(matrices.values())), ids


def _frame_and_ids(frame: Any, side: SideName, ids: Ids | None) -> tuple[pl.DataFrame, Ids]:
    """The columns of a frame, and its column of ids."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    columns = frame_columns(frame)
    names = [name for name, _ in columns]
    given: dict[str, Any] = dict(columns)
    own = None if ids is not None else usual_column(names, DESCRIBED[side]["id"])
    if ids is None and own is None:
        raise DataError(
            f"no column for the {side} id among {', '.join(names)}",
            expected=f"a column called {side} or id, or ids=",
        )
    table = pl.DataFrame([_series(given[name]).alias(name) for name in given if name != own])
    return table, given[own] if own is not None else cast("Ids", ids)


def _series(values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    entries = np.asarray(values)
    if entries.dtype == object and any(isinstance(entry, list | tuple | np.ndarray) for entry in entries):
        return pl.Series(
            [None if not isinstance(entry, list | tuple | np.ndarray) else list(entry) for entry in entries]
        )
    return series_of(values)


def _matched(features: Features, vocabulary: Vocabulary, side: SideName, source: Any) -> Features:
    """The features of the ids of a vocabulary, with remarks on ids that only one of the two knows."""
    found = features.ids.rows_of(vocabulary.ids)
    n_described = int((found >= 0).sum())
    what = f"{source}" if isinstance(source, str | Path) else "what was given"
    rated = "were rated" if side == "item" else "rated"
    if not n_described and len(features):
        raise DataError(
            f"none of the {len(features):,} {side}s in {what} is among the {len(vocabulary):,} that {rated}, such as "
            f"{named(vocabulary.ids)}",
            expected=f"the {side}s of these ratings",
        )
    remarks = list(features.remarks)
    if n_described < len(vocabulary):
        without = vocabulary.ids.filter(found < 0)
        remarks.append(f"{len(without):,} of {len(vocabulary):,} {side}s are not in {what}: {named(without)}")
    if n_described < len(features):
        remarks.append(f"{len(features) - n_described:,} of {len(features):,} {side}s in {what} have no ratings")
    return _with_remarks(features.take(found, vocabulary), remarks)


def _with_remarks(features: Features, remarks: Sequence[str]) -> Features:
    return replace(features, remarks=tuple(dict.fromkeys((*features.remarks, *remarks))))


def warn_of(features: Features) -> None:
    """Issue the remarks on features as warnings."""
    for remark in features.remarks:
        warn(remark)
