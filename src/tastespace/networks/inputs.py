"""What a network is trained on: a matrix, or rows that are made when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import Generator

from tastespace.arrays import FloatMatrix, IntArray, contiguous
from tastespace.errors import DataError, InvalidParameterError
from tastespace.parameters import check_number


class Rows(Protocol):
    """A matrix that is too large to be held: it has a shape, and makes some rows at a time."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def take(self, rows: IntArray) -> FloatMatrix:
        """These rows, in this order; the caller may write into them."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix as `Rows`."""

    values: FloatMatrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def take(self, rows: IntArray) -> FloatMatrix:
        return self.values[rows]


Inputs = FloatMatrix | Rows


def rows_of(inputs: Inputs) -> Rows:
    """The inputs as `Rows`; an empty or senseless matrix is refused."""
    if isinstance(inputs, np.ndarray):
        if inputs.ndim != 2:
            raise InvalidParameterError(f"inputs have {inputs.ndim} dimensions; expected 2: one row per example")
        if not np.isfinite(inputs).all():
            raise DataError("inputs have values that are not finite; expected numbers")
        inputs = Matrix(contiguous(inputs, np.float32))
    if min(inputs.shape) < 1:
        raise DataError(f"inputs have the shape {inputs.shape}; expected at least one row and one column")
    return inputs


def check_share(name: str, value: float) -> None:
    """A share of examples to hold out is at least 0, and leaves some to train on."""
    check_number(name, value, least=0, below=1)


def held_out_rows(n: int, share: float, rng: Generator) -> tuple[IntArray, IntArray]:
    """A random split of n rows: those to train on, and those to watch, which may be none."""
    order = rng.permutation(n).astype(np.int32)
    n_watched = min(int(round(n * share)), n - 1)
    return np.sort(order[n_watched:]), np.sort(order[:n_watched])


def minibatches(rows: IntArray, size: int, rng: Generator) -> list[IntArray]:
    """The rows in random order, in batches of about this size (never one of a single row beside larger ones)."""
    return np.array_split(rng.permutation(rows), max(1, round(len(rows) / size)))
