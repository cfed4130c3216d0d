"""What must not be found: whether filters fit, and what of them concerns some queries or items only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Excluded

QUERY = 1 << 32  # Keys of pairs of a query and an item: there can be no more items than that.


def check_filters(excluded: Excluded | None, allowed: BoolArray | None, n_queries: int, n_items: int) -> None:
    """For what Python does with them; the kernels look for themselves."""
    if allowed is not None and (allowed.shape != (n_items,) or allowed.dtype != np.bool_):
        raise InvalidParameterError(
            f"allowed has the shape {allowed.shape} and holds {allowed.dtype}; expected true or false for each of "
            f"{n_items} items"
        )
    if excluded is not None and len(excluded.offsets) != n_queries + 1:
        raise InvalidParameterError(
            f"{len(excluded.offsets) - 1} lists of what is excluded for {n_queries} queries; expected one a query"
        )


def of_queries(excluded: Excluded | None, queries: NDArray[np.int64]) -> Excluded | None:
    """The lists of some of the queries only."""
    if excluded is None or len(queries) == len(excluded.offsets) - 1:
        return excluded
    lists = [excluded.items[excluded.offsets[query] : excluded.offsets[query + 1]] for query in queries]
    return Excluded(np.cumsum([0, *map(len, lists)]), np.concatenate([*lists, np.zeros(0, np.int32)]))


def is_excluded(items: NDArray[np.int64], excluded: Excluded) -> BoolArray:
    """Which of these items, a row of them a query, are in the list of their query."""
    offsets: OffsetArray = contiguous(excluded.offsets, np.int64)
    numbers = QUERY * np.arange(len(items))
    keys = np.repeat(numbers, np.diff(offsets)) + excluded.items[offsets[0] : offsets[-1]]
    if len(keys) == 0:
        return np.zeros(items.shape, bool)
    pairs = numbers[:, None] + items
    found: BoolArray = keys[np.minimum(np.searchsorted(keys, pairs), len(keys) - 1)] == pairs
    return found


def kept(excluded: Excluded, which: BoolArray, items: NDArray[np.int32]) -> Excluded:
    """Those of the lists that are to be kept, under other names: one for each of them."""
    before = np.concatenate([[0], np.cumsum(which)])
    return Excluded(before[excluded.offsets], items)
