"""Normal beliefs about the rows of one side: how they are packed, and the door to the kernels that move them.

A row is x = (factors, bias). Of it the other side needs E[x] and E[x x^T]: its record is the mean and, behind that, the
second moment, of which the full family has the upper triangle, row by row, and the factorised one the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.errors import NonFiniteStateError
from tastespace.models.factorization.rows import Moments, Points, Side
from tastespace.models.factorization.variational.populations import ExpectedPrior

Family = Literal["full", "diagonal"]
BLOCK_ROWS = 4096  # whose records are summed together


@dataclass(frozen=True)
class Shape:
    """What a record holds."""

    n_factors: int
    has_biases: bool
    family: Family

    @property
    def width(self) -> int:
        """Numbers of a row: its factors and, last, its bias."""
        return self.n_factors + self.has_biases

    @property
    def record(self) -> int:
        """Numbers of a record, padding included."""
        return int(_native.record_size(self.width, self.family == "full"))

    @property
    def covariance(self) -> int:
        """Numbers of a packed covariance."""
        return self.width * (self.width + 1) // 2 if self.family == "full" else self.width


@dataclass(frozen=True, eq=False)
class RowBeliefs:
    """Beliefs about all rows of a side."""

    shape: Shape
    records: AnyFloats  # n x record
    log_determinant: float = 0.0  # of all precisions together
    squares: float = 0.0  # expected squared errors of all ratings
    covariances: AnyFloats | None = None  # n x covariance, where they are wanted

    @classmethod
    def certain(cls, shape: Shape, points: Points) -> RowBeliefs:
        """Points that there is no doubt about: where inference starts."""
        rows = points.factors if points.bias is None else np.hstack([points.factors, points.bias[:, None]])
        return cls(shape, records_of(shape, rows, np.zeros((len(rows), shape.covariance), rows.dtype)))

    @property
    def means(self) -> AnyFloats:
        """n x width."""
        means: AnyFloats = self.records[:, : self.shape.width]
        return means

    @property
    def points(self) -> Points:
        """The means, as scores are computed from them."""
        factors = np.ascontiguousarray(self.records[:, : self.shape.n_factors])
        bias = np.ascontiguousarray(self.records[:, self.shape.n_factors]) if self.shape.has_biases else None
        return Points(factors, bias)

    def moments(self) -> Moments:
        """Expected sums and sums of products over all rows."""
        shape, width, n_factors = self.shape, self.shape.width, self.shape.n_factors
        total = np.zeros(shape.record)
        for first in range(0, len(self.records), BLOCK_ROWS):
            total += self.records[first : first + BLOCK_ROWS].sum(axis=0, dtype=np.float64)
        second = total[width : width + shape.covariance]
        if shape.family == "full":
            gram = unpacked(second, width)
        else:
            gram = np.zeros((width, width))
            gram[:n_factors, :n_factors] = self.points.moments.gram
            gram[np.diag_indices(width)] = second
        of_bias = (True, float(total[n_factors]), float(gram[-1, -1])) if shape.has_biases else ()
        return Moments(len(self.records), total[:n_factors], gram[:n_factors, :n_factors], *of_bias)


def packed(matrices: AnyFloats) -> AnyFloats:
    """The upper triangles of symmetric matrices, row by row."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: AnyFloats = matrices[..., rows, columns]
    return triangles


def unpacked(triangle: DoubleArray, width: int) -> DoubleArray:
    """The symmetric matrix of a triangle."""
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = triangle
    return np.asarray(matrix + np.triu(matrix, 1).T)


def records_of(shape: Shape, means: AnyFloats, covariances: AnyFloats) -> AnyFloats:
    """Records of rows with these means and packed covariances, in blocks: products are dear in memory."""
    width, records = shape.width, np.zeros((len(means), shape.record), means.dtype)
    rows, columns = np.triu_indices(width) if shape.family == "full" else np.diag_indices(width)
    records[:, :width] = means
    for first in range(0, len(means), BLOCK_ROWS):
        here = slice(first, first + BLOCK_ROWS)
        products = means[here][:, rows] * means[here][:, columns]
        records[here, width : width + shape.covariance] = covariances[here] + products
    return records


def moved_rows(
    side: Side,
    other: RowBeliefs,
    own: RowBeliefs,
    prior: ExpectedPrior,
    alpha: float,
    *,
    name: str,
    keeps_covariances: bool = False,
    threads: int,
) -> RowBeliefs:
    """The beliefs about a side that raise the bound, given those about the other.

    In the full family the best there are; in the factorised one every coordinate is moved once, in turn, from where
    `own` has it.
    """
    shape, dtype, n_rows = own.shape, other.records.dtype, len(side.offsets) - 1
    log_determinant, squares = np.empty(n_rows), np.empty(n_rows)
    covariances = np.empty((n_rows, shape.covariance), dtype) if keeps_covariances else None
    # The factorised family goes on from what it is given.
    records = np.empty((n_rows, shape.record), dtype) if shape.family == "full" else own.records.copy()
    arguments = arguments_of(side, other.records, prior, alpha, shape.has_biases)
    arguments |= {
        "records": records,
        "covariances": covariances,
        "log_determinant": log_determinant,
        "squares": squares,
        "threads": threads,
    }
    move = _native.variational_rows if shape.family == "full" else _native.variational_coordinates
    failed = move(**arguments)
    if failed >= 0:
        raise NonFiniteStateError(
            f"the {name} update failed at row {failed}: its precision matrix is not positive definite; expected finite "
            "ratings of ordinary size; try precision='float64'"
        )
    return RowBeliefs(shape, records, float(log_determinant.sum()), float(squares.sum()), covariances)


def arguments_of(side: Side, other: AnyFloats, prior: ExpectedPrior, alpha: float, has_biases: bool) -> dict[str, Any]:
    """What both kernels take."""
    return {
        "offsets": contiguous(side.offsets, np.int64),
        "columns": contiguous(side.columns, np.int32),
        "targets": contiguous(side.targets, other.dtype),
        "other": other,
        "prior_precision": contiguous(prior.precision, np.float64),
        "prior_linear": contiguous(prior.linear, np.float64),
        "bias_precision": prior.bias_precision if has_biases else None,
        "bias_linear": prior.bias_linear,
        "alpha": alpha,
        "target_offset": side.offset,
        "target_scale": side.scale,
    }
