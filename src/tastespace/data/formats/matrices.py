"""The entries of matrices with a row per user and a column per item.

A sparse matrix says which ratings there are: those it stores. A dense one does not, so the caller has to say which
value means "not rated". Ids are the positions in the matrix unless given. Users and items without a rating are left
out, as in every other way of building ratings; this does not change the ids of the others.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import FIRST_INFINITE
from tastespace.data.tables import is_pandas
from tastespace.data.vocabulary import Ids, id_series
from tastespace.errors import DataError, InvalidParameterError

# In these formats zeros fill up blocks and diagonals: a stored zero is not a rating.
PADDED = ("bsr", "dia")


Entries = tuple[Ids, Ids, NDArray[np.float64]]  # user ids, item ids and values


def sparse_entries(matrix: Any, user_ids: Ids | None, item_ids: Ids | None) -> Entries:
    """The stored entries of a scipy sparse matrix of any format, zeros included, in their order."""
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        expected = "one of scipy.sparse; Ratings.from_dense takes dense matrices"
        raise DataError(f"a sparse matrix that is a {type(matrix).__name__}", expected=expected)
    stored: Any = matrix  # the stubs know no common class
    shape, form = stored.shape, stored.format
    stored = stored.tocoo(copy=False)
    _check(stored.data, shape)
    rows, columns = stored.coords
    values = stored.data.astype(np.float64)
    if form in PADDED:
        said = values != 0
        rows, columns, values = rows[said], columns[said], values[said]
    return _entries(rows, columns, values, shape, user_ids, item_ids)


def dense_entries(matrix: Any, missing: float | None, user_ids: Ids | None, item_ids: Ids | None) -> Entries:
    """All entries of a matrix or pandas frame but those that are `missing`, row by row."""
    if missing is None or isinstance(missing, bool) or not isinstance(missing, Real) or math.isinf(float(missing)):
        raise InvalidParameterError(
            f"missing is {missing!r}; expected the value that means 'not rated' in the matrix: "
            "missing=0, missing=float('nan'), or another number"
        )
    if is_pandas(matrix):
        user_ids = matrix.index if user_ids is None else user_ids
        item_ids = matrix.columns if item_ids is None else item_ids
    array = _dense_array(matrix)
    _check(array, array.shape)
    is_rated = ~np.isnan(array) if math.isnan(float(missing)) else array != missing
    rows, columns = np.nonzero(is_rated)
    return _entries(rows, columns, array[is_rated].astype(np.float64), array.shape, user_ids, item_ids)


def _dense_array(matrix: Any) -> NDArray[Any]:
    import scipy.sparse

    if isinstance(matrix, np.ma.MaskedArray):
        expected = "matrix.filled(float('nan')) and missing=float('nan')"
        raise DataError("a dense matrix that is masked", expected=expected)
    if scipy.sparse.issparse(matrix):
        raise DataError("a dense matrix that is sparse", expected="Ratings.from_sparse(matrix)")
    if isinstance(matrix, pl.DataFrame | pl.LazyFrame):
        # It has no index, so that its users may well be its first column.
        expected = "frame.select(...).to_numpy() with user_ids= and item_ids=, or a pandas frame with an index"
        raise DataError("a dense matrix that is a polars frame", expected=expected)
    try:
        if is_pandas(matrix):
            return np.asarray(matrix.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(matrix)
    except (TypeError, ValueError) as error:
        if is_pandas(matrix):
            raise DataError(f"entries that are no numbers ({error})", expected="a frame of ratings alone") from error
        raise DataError(f"this is no matrix ({error})", expected="rows of the same length") from error


def _check(array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.dtype.kind not in "biuf":
        raise DataError(f"a matrix of type {array.dtype}", expected="numbers")
    if len(shape) != 2:
        raise DataError(f"a matrix of {len(shape)} dimensions", expected="a row per user, a column per item")


def _entries(
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[np.float64],
    shape: tuple[int, ...],
    user_ids: Ids | None,
    item_ids: Ids | None,
) -> Entries:
    wrong = ~(np.abs(values) < FIRST_INFINITE)  # also true for NaN
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        problem = f"row {rows[where]}, column {columns[where]}: not a rating"
        raise DataError(problem, text=f"{values[where]:g}", expected="a finite number")
    if not len(values):
        raise DataError("the matrix has no ratings", expected="at least one")
    return _ids_at(user_ids, rows, shape[0], "user"), _ids_at(item_ids, columns, shape[1], "item"), values


def _ids_at(ids: Ids | None, places: NDArray[Any], n: int, name: str) -> Ids:
    """The id of each position; the position itself unless ids were given."""
    if ids is None:
        return places.astype(np.int64)
    series = id_series(ids, name)
    if len(series) != n:
        raise DataError(f"{len(series)} {name} ids for {n} {name}s in the matrix", expected="as many of each")
    repeated = series.is_duplicated()
    if repeated.any():
        first = series.filter(repeated)[0]
        raise DataError(f"the {name} id {first!r} occurs more than once", expected="different ids")
    return series.gather(pl.Series(places.astype(np.int64)))
