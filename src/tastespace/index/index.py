"""What every index can do: find the items with the largest inner product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.errors import InvalidParameterError, NonFiniteStateError


@dataclass(frozen=True, eq=False)
class Excluded:
    """Items that must not be found: a list for each query, ascending, between its offsets."""

    offsets: OffsetArray  # n_queries + 1
    items: IntArray


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items of each query, best first; -1 and -inf where there are fewer than asked for."""

    items: IntArray  # n_queries x k
    scores: FloatMatrix  # n_queries x k


class Index(Protocol):
    """Larger is better, best first, always two-dimensional, padded with -1.

    The fields of a structure are its parameters; learned names end in an underscore. What is built can be saved: arrays
    hold all that was learned but the vectors themselves, which belong to the model.
    """

    threads: int | None
    n_items_: int
    n_dimensions_: int

    def build(self, vectors: FloatMatrix) -> Self: ...

    def search(
        self,
        queries: FloatMatrix,
        k: int,
        *,
        excluded: Excluded | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> Neighbours: ...

    @property
    def description(self) -> str:
        """What it is, with its parameters, in a few words for people."""
        ...

    @property
    def n_bytes(self) -> int:
        """Of memory, without the vectors that it was built over."""
        ...

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All that must be saved."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Self:
        """Take what was saved as one's own, for the same vectors; what does not fit is a ValueError."""
        ...


def checked_vectors(vectors: Any) -> FloatMatrix:
    """Items as every structure takes them; errors where they are none."""
    checked = contiguous(vectors, np.float32)
    if checked.ndim != 2 or not checked.shape[1]:
        raise InvalidParameterError(f"item vectors have the shape {checked.shape}; expected (n, at least 1)")
    if not np.isfinite(checked).all():
        raise NonFiniteStateError("an item has infinite or missing coordinates; expected finite numbers")
    return checked


def unbuilt(index: Any) -> Any:
    """A structure of the same parameters with nothing learned; those inside it as well."""
    parameters = {parameter.name: getattr(index, parameter.name) for parameter in fields(index)}
    return type(index)(**{name: unbuilt(value) if is_dataclass(value) else value for name, value in parameters.items()})


def n_bytes_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays.values())


def check_number(name: str, value: Any, *, least: int = 1) -> None:
    """A parameter of a structure is a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")


def require(fits: bool, what: str) -> None:
    """What was saved fits the vectors, and itself."""
    if not fits:
        raise ValueError(f"the index does not fit: {what}")


def set_threads(index: Any, threads: int | None) -> None:
    """Of an index and of all structures inside it."""
    index.threads = threads
    if is_dataclass(index):
        for field in fields(index):
            inner = getattr(index, field.name)
            if hasattr(inner, "search") and hasattr(inner, "threads"):
                set_threads(inner, threads)
