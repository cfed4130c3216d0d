"""The search that structures with a kernel of their own share: checks, few allowed items one by one, or the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tastespace import threads
from tastespace.arrays import BoolArray, FloatMatrix
from tastespace.index.exact import nothing, prepared_queries
from tastespace.index.filtering import best_of, few_allowed
from tastespace.index.index import Excluded, Index, Neighbours


class Kept(Index, Protocol):
    """A structure that keeps the vectors that it was built over, for what it does not find itself."""

    vectors_: FloatMatrix


def search_by_kernel(
    index: Kept,
    kernel: Callable[..., None],
    structure: Callable[[], tuple[Any, ...]],
    effort: Callable[[], tuple[int, ...]],
    queries: FloatMatrix,
    k: int,
    excluded: Excluded | None,
    allowed: BoolArray | None,
) -> Neighbours:
    """What a kernel finds in the arrays of a structure that has items, with this effort."""
    queries, found, optional = prepared_queries(index, queries, k, excluded, allowed)
    if len(queries) == 0 or index.n_items_ == 0:
        return nothing(found)
    n_threads = threads.resolve(index.threads)
    rows = few_allowed(allowed)
    if rows is not None:
        return best_of(rows, index.vectors_, queries, k, excluded, n_threads)
    kernel(
        *structure(),
        queries,
        index.n_items_,
        *effort(),
        found.items,
        found.scores,
        threads=n_threads,
        **optional,
    )
    return found
