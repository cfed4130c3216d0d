"""Normal beliefs about the rows of one side: how they are packed, and the interface to the kernels.

A row is x = (factors, bias). The other side needs its E[x] and E[x x^T]: its record is the mean, followed by the upper
triangle of the second moment, row by row; in the factorized family by the variances.

If ratings are not centred, all rows of a side are far from 0, and their uncertainty would be lost in the rounding of
their squares. So records are relative to a centre of their side, which is in double.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, contiguous
from tastespace.data.csr import row_blocks
from tastespace.errors import NonFiniteStateError
from tastespace.models.factorization.rows import Factors, Moments, RatingBlock
from tastespace.models.factorization.vb.populations import ExpectedPrior

Family = Literal["full", "diagonal"]


@dataclass(frozen=True)
class Shape:
    """The layout of a record."""

    n_factors: int
    has_biases: bool
    family: Family

    @property
    def width(self) -> int:
        """The number of values of a row: its factors and, last, its bias."""
        return self.n_factors + self.has_biases

    @property
    def record(self) -> int:
        """The number of values of a record, padding included."""
        return int(_native.record_size(self.width, self.family == "full"))

    @property
    def covariance(self) -> int:
        """The number of values of a packed covariance."""
        return self.width * (self.width + 1) // 2 if self.family == "full" else self.width


@dataclass(frozen=True, eq=False)
class RowBeliefs:
    """Beliefs about all rows of a side."""

    shape: Shape
    centre: DoubleArray  # width: what records are relative to
    records: AnyFloats  # n x record
    log_determinant: float = 0.0  # of all precisions together
    squares: float = 0.0  # expected squared errors of all ratings
    covariances: AnyFloats | None = None  # n x covariance, if requested

    @classmethod
    def certain(cls, shape: Shape, points: Factors) -> RowBeliefs:
        """Points without uncertainty, the start of inference."""
        rows = points.factors if points.bias is None else np.hstack([points.factors, points.bias[:, None]])
        centre = rows.mean(axis=0, dtype=np.float64)
        certain = np.zeros((len(rows), shape.covariance), rows.dtype)
        return cls(shape, centre, records_of(shape, (rows - centre).astype(rows.dtype), certain))

    @property
    def means(self) -> AnyFloats:
        """n x width."""
        return (self.records[:, : self.shape.width] + self.centre).astype(self.records.dtype)

    @property
    def points(self) -> Factors:
        """The means, as scores are computed from them."""
        return _points_of(self.means, self.shape)

    @property
    def mean(self) -> DoubleArray:
        """The mean of all rows: the centre for the records of their next beliefs."""
        return np.asarray(self.centre + self.records[:, : self.shape.width].mean(axis=0, dtype=np.float64))

    def recentred(self, centre: DoubleArray) -> RowBeliefs:
        """The same beliefs relative to another centre; only for the factorized family."""
        assert self.shape.family == "diagonal"
        records = self.records.copy()
        records[:, : self.shape.width] += (self.centre - centre).astype(records.dtype)
        return replace(self, centre=centre, records=records)

    @cached_property
    def moments(self) -> Moments:
        """Expected sums and sums of products over all rows."""
        shape, width, n_factors, n = self.shape, self.shape.width, self.shape.n_factors, len(self.records)
        total = np.zeros(shape.record)
        for here in row_blocks(n):
            total += self.records[here].sum(axis=0, dtype=np.float64)
        second = total[width : width + shape.covariance]
        if shape.family == "full":
            gram = unpacked(second, width)
        else:
            own = _points_of(self.records, shape).moments
            gram = np.zeros((width, width))
            gram[:n_factors, :n_factors] = own.gram
            gram[width - 1, width - 1] += own.bias_squares
            gram[np.diag_indices(width)] += second
        shift = np.outer(self.centre, total[:width] + n * self.centre / 2)
        gram += shift + shift.T
        sums = total[:width] + n * self.centre
        of_bias = (True, float(sums[n_factors]), float(gram[-1, -1])) if shape.has_biases else ()
        return Moments(n, sums[:n_factors], gram[:n_factors, :n_factors], *of_bias)


def _points_of(means: AnyFloats, shape: Shape) -> Factors:
    factors = np.ascontiguousarray(means[:, : shape.n_factors])
    return Factors(factors, np.ascontiguousarray(means[:, shape.n_factors]) if shape.has_biases else None)


def packed(matrices: AnyFloats) -> AnyFloats:
    """The upper triangles of symmetric matrices, row by row."""
    triangles: AnyFloats = matrices[..., *np.triu_indices(matrices.shape[-1])]
    return triangles


def unpacked(triangle: DoubleArray, width: int) -> DoubleArray:
    """The symmetric matrix of a triangle."""
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = triangle
    return np.asarray(matrix + np.triu(matrix, 1).T)


def records_of(shape: Shape, means: AnyFloats, covariances: AnyFloats) -> AnyFloats:
    """Records of rows with these means and packed covariances, in blocks, to bound the memory of products."""
    width, records = shape.width, np.zeros((len(means), shape.record), means.dtype)
    rows, columns = np.triu_indices(width)
    records[:, :width] = means
    if shape.family == "diagonal":
        records[:, width : 2 * width] = covariances
        return records
    for here in row_blocks(len(means)):
        products = means[here][:, rows] * means[here][:, columns]
        records[here, width : width + shape.covariance] = covariances[here] + products
    return records


def moved_rows(
    side: RatingBlock,
    other: RowBeliefs,
    own: RowBeliefs,
    prior: ExpectedPrior,
    alpha: float,
    *,
    name: str,
    keeps_covariances: bool = False,
    threads: int,
    means: DoubleArray | None = None,
) -> RowBeliefs:
    """The beliefs about a side that raise the bound, given those about the other.

    In the full family these are optimal; in the factorized one every coordinate is updated once, in turn, starting from
    `own`. `means` are those of the prior of each row (and, last, bias), if rows have features.
    """
    shape, dtype, n_rows = own.shape, other.records.dtype, len(side.offsets) - 1
    log_determinant, squares = np.empty(n_rows), np.empty(n_rows)
    covariances = np.empty((n_rows, shape.covariance), dtype) if keeps_covariances else None
    # The current rows are close to the new ones. The factorized family starts from them.
    centre = own.mean
    records = np.empty((n_rows, shape.record), dtype) if shape.family == "full" else own.recentred(centre).records
    arguments = arguments_of(side, other.records, prior, alpha, shape.has_biases, (centre, other.centre), means)
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
    return RowBeliefs(shape, centre, records, float(log_determinant.sum()), float(squares.sum()), covariances)


def arguments_of(
    side: RatingBlock,
    other: AnyFloats,
    prior: ExpectedPrior,
    alpha: float,
    has_biases: bool,
    centres: tuple[DoubleArray, DoubleArray],
    means: AnyFloats | None = None,
) -> dict[str, Any]:
    """The arguments of both kernels, with rows and columns relative to their centres."""
    own, columns = centres
    n_factors, linear = len(prior.linear), None
    if means is not None:
        linear = np.empty((len(means), n_factors + has_biases))
        linear[:, :n_factors] = (means[:, :n_factors] - own[:n_factors]) @ prior.precision
        if has_biases:
            linear[:, n_factors] = (means[:, n_factors] - own[n_factors]) * prior.bias_precision
    of_centres = float(own[:n_factors] @ columns[:n_factors] + own[n_factors:].sum() + columns[n_factors:].sum())
    return {
        "offsets": contiguous(side.offsets, np.int64),
        "columns": contiguous(side.columns, np.int32),
        "targets": contiguous(side.targets, other.dtype),
        "other": other,
        "prior_precision": contiguous(prior.precision, np.float64),
        "prior_linear": contiguous(prior.linear - prior.precision @ own[:n_factors], np.float64),
        "bias_precision": prior.bias_precision if has_biases else None,
        "bias_linear": prior.bias_linear - (prior.bias_precision * float(own[n_factors]) if has_biases else 0.0),
        "alpha": alpha,
        "row_centre": contiguous(own, np.float64),
        "column_centre": contiguous(columns, np.float64),
        "target_offset": side.offset + side.scale * of_centres,
        "target_scale": side.scale,
        "row_linear": linear,
    }
