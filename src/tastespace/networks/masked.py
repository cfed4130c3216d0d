"""Autoencoders of matrices with missing entries: the loss counts what is there, by full-batch L-BFGS.

    h_j = f(... f(z_j V + b)),  z_ji = x_ji + 3 where an entry is known, and 0 where not
    y_ji = (w_i + w) . h_j + c_i
    loss = 1/2 sum over known entries (x_ji - y_ji)^2 + strength/2 (|V|^2 + |w_i|^2 + |w|^2) + damping/2 |c|^2

(AutoRec: Sedhain, Menon, Sanner and Xie 2015, with sigmoid f.) Entries are expected in standard deviations from their
mean. What is not known lies 3 of them below it, as a rating of 0 does on a scale of stars: a network has to see which
entries are known, and that says much. w is what all columns have in common, so that a column
with few entries is shrunk to the others and not to nothing. With a `Kernel` every weight is multiplied by one of two
learned points, max(0, 1 - |u - v|^2), which makes layers sparse (Muller, Martel and Indiveri 2018).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix
from tastespace.data.csr import CSR
from tastespace.errors import DataError, NonFiniteStateError
from tastespace.networks.autoencoder import Layer
from tastespace.networks.backend import repeatable
from tastespace.progress import Observer, Progress, silent

HISTORY = 10  # steps that L-BFGS remembers
BETWEEN_CHECKS = 10  # iterations
SHIFT = np.float32(3)
COPIES = 2 * HISTORY + 8  # of all weights, while they are trained


class Kernel(NamedTuple):
    """Weights that fade with the distance of learned points."""

    n_dimensions: int = 5
    strength: float = 0.013  # of the penalty on the kernel's values


@dataclass(frozen=True, eq=False)
class MaskedAutoencoder:
    """A trained autoencoder: layers that encode rows, and what each column makes of a code."""

    layers: tuple[Layer, ...]
    columns: FloatMatrix  # columns x codes: the deviation of each column
    column_bias: FloatArray
    shared: FloatArray  # what all columns have in common

    def encode(self, rows: CSR) -> FloatMatrix:
        """The codes of rows."""
        return encode(self.layers, rows)


def encode(layers: Sequence[Layer], rows: CSR) -> FloatMatrix:
    """The codes of rows: sparse products are sums in a fixed order, and each row has its own."""
    values: Any = sp.csr_array((rows.values + SHIFT, rows.columns, rows.offsets), (len(rows), len(layers[0].weights)))
    for layer in layers:
        values = layer(values)
    return np.asarray(values, np.float32)


class Trained(NamedTuple):
    """An autoencoder, the number of iterations that made it, and its error on watched entries (NaN without any)."""

    network: MaskedAutoencoder
    iterations: int
    error: float


def train_masked(
    rows: CSR,
    n_columns: int,
    sizes: Sequence[int],
    *,
    rng: Generator,
    strength: float,
    damping: float,
    iterations: int,
    kernel: Kernel | None = None,
    watched: CSR | None = None,
    patience: int = 5,
    phase: str = "autoencoder",
    observer: Observer = silent,
) -> Trained:
    """Train on rows with missing entries; `sizes` are those of the layers of the encoder.

    `watched` are other entries of the same rows. Training stops when their error has not fallen for `patience` checks,
    one every 10 iterations, and the best weights are kept. The same generator gives the same bytes.
    """
    _require_memory(n_columns, sizes)
    with repeatable("training an autoencoder") as torch:
        network = Network(torch, rows, n_columns, sizes, kernel, strength, damping, rng)
        check = None if watched is None or not len(watched.columns) else network.error_of(watched)
        best: tuple[float, int, list[Any]] = (math.inf, 0, network.state())
        for done, loss in network.descend(iterations):
            if not math.isfinite(loss):
                raise NonFiniteStateError(
                    f"the loss of the autoencoder is {loss} after {done} iterations; expected a finite one: the "
                    f"ratings are too large, or the strength of {strength:g} too small"
                )
            stats = {"loss": loss / max(len(rows.columns), 1)}
            if check is not None:
                stats["held-out RMSE"] = check()
                if stats["held-out RMSE"] < best[0]:
                    best = stats["held-out RMSE"], done, network.state()
            observer(Progress(phase, done, iterations, stats))
            if check is not None and done - best[1] >= patience * BETWEEN_CHECKS:
                break
        if check is None:
            return Trained(network.trained(), iterations, math.nan)
        network.restore(best[2])
        return Trained(network.trained(), best[1], best[0])


def _require_memory(n_columns: int, sizes: Sequence[int]) -> None:
    """Refuse a network whose weights would not fit into memory while they are trained."""
    widths = [n_columns, *sizes]
    weights = sum(one * other for one, other in zip(widths, widths[1:], strict=False)) + n_columns * sizes[-1]
    needed = 4 * weights * COPIES
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 1 << 34
    if needed > there:
        raise DataError(
            f"an autoencoder of {n_columns:,} columns with {sizes[0]} hidden units takes about {needed / 1e9:.0f} GB "
            f"while it is trained, and this machine has {there / 1e9:.0f} GB; expected fewer hidden units, or fewer "
            "users and items"
        )


class Network:
    """The weights while they are trained, and the loss as a function of them."""

    def __init__(
        self,
        torch: Any,
        rows: CSR,
        n_columns: int,
        sizes: Sequence[int],
        kernel: Kernel | None,
        strength: float,
        damping: float,
        rng: Generator,
        dtype: Any = np.float32,
    ) -> None:
        self.torch, self.rows, self.n_columns, self.dtype = torch, rows, n_columns, dtype
        self.kernel, self.strength, self.damping = kernel, strength, damping
        self.operations = _operations(torch)
        self.entries = self._entries(rows)
        widths = [n_columns, *sizes, n_columns]
        self.weights = [self._glorot(rng, one, other) for one, other in zip(widths, widths[1:-1], strict=False)]
        self.columns = self._glorot(rng, n_columns, sizes[-1])
        self.biases = [self._leaf(np.zeros(size)) for size in sizes]
        self.column_bias, self.shared = self._leaf(np.zeros(n_columns)), self._leaf(np.zeros(sizes[-1]))
        self.points: list[tuple[Any, Any]] = []
        if kernel is not None:
            for ends in zip(widths, widths[1:], strict=False):
                one, other = (self._leaf(rng.normal(0, 1e-3, (n, kernel.n_dimensions))) for n in ends)
                self.points.append((one, other))
        self.parameters = [*self.weights, *self.biases, self.columns, self.column_bias, self.shared]
        self.parameters += [points for pair in self.points for points in pair]

    def loss(self) -> Any:
        """The loss at the current weights."""
        weights, kernels = self._effective()
        codes = self._codes(weights)
        errors = self.operations.squares(codes, weights[-1] + self.shared, self.column_bias, self.entries)
        penalty = sum((part**2).sum() for part in (*self.weights, self.columns, self.shared))
        total = errors / 2 + self.strength / 2 * penalty + self.damping / 2 * (self.column_bias**2).sum()
        if self.kernel is not None:
            total = total + self.kernel.strength / 2 * sum((values**2).sum() for values in kernels)
        return total

    def descend(self, iterations: int) -> Any:
        """Go down by L-BFGS; the number of iterations and the loss, now and then."""
        torch, loss = self.torch, math.nan

        def closure() -> Any:
            optimizer.zero_grad()
            now = self.loss()
            now.backward()
            return now

        optimizer = torch.optim.LBFGS(
            self.parameters, lr=1, max_iter=BETWEEN_CHECKS, history_size=HISTORY, line_search_fn="strong_wolfe"
        )
        for done in range(0, iterations, BETWEEN_CHECKS):
            optimizer.param_groups[0]["max_iter"] = min(BETWEEN_CHECKS, iterations - done)
            optimizer.step(closure)
            with torch.no_grad():
                loss = float(self.loss())
            yield min(done + BETWEEN_CHECKS, iterations), loss

    def error_of(self, watched: CSR) -> Callable[[], float]:
        """The root mean squared error of other entries, as a function of the current weights."""
        entries = self._entries(watched)

        def error() -> float:
            with self.torch.no_grad():
                weights, _ = self._effective()
                columns = weights[-1] + self.shared
                found = self.operations.squares(self._codes(weights), columns, self.column_bias, entries)
                return math.sqrt(float(found) / len(watched.columns))

        return error

    def state(self) -> list[Any]:
        return [part.detach().clone() for part in self.parameters]

    def restore(self, state: list[Any]) -> None:
        with self.torch.no_grad():
            for part, kept in zip(self.parameters, state, strict=True):
                part.copy_(kept)

    def trained(self) -> MaskedAutoencoder:
        """The network as arrays, kernels multiplied into the weights."""
        with self.torch.no_grad():
            weights, _ = self._effective()
        arrays = [part.detach().numpy().astype(np.float32) for part in weights]
        biases = [part.detach().numpy().astype(np.float32) for part in self.biases]
        layers = tuple(Layer(one, bias, "sigmoid") for one, bias in zip(arrays, biases, strict=False))
        bias, shared = (part.detach().numpy().astype(np.float32) for part in (self.column_bias, self.shared))
        return MaskedAutoencoder(layers, np.ascontiguousarray(arrays[-1]), bias, shared)

    def _effective(self) -> tuple[list[Any], list[Any]]:
        """The weights of all layers, the last being columns x codes, and the kernels that are in them."""
        plain = [*self.weights, self.columns]
        if self.kernel is None:
            return plain, []
        kernels = [_kernel(self.torch, one, other) for one, other in self.points]
        kernels[-1] = kernels[-1].T
        return [part * values for part, values in zip(plain, kernels, strict=True)], kernels

    def _codes(self, weights: list[Any]) -> Any:
        first = self.operations.product(weights[0], self.entries)
        values = self.torch.sigmoid(first + self.biases[0])
        for part, bias in zip(weights[1:-1], self.biases[1:], strict=True):
            values = self.torch.sigmoid(values @ part + bias)
        return values

    def _entries(self, rows: CSR) -> _Entries:
        shape = len(rows), self.n_columns
        given = sp.csr_array((rows.values.astype(self.dtype), rows.columns, rows.offsets), shape)
        places = sp.csr_array((np.arange(len(rows.columns)), rows.columns, rows.offsets), shape).T.tocsr()
        numbered = (self.torch.from_numpy(part.astype(np.int32)) for part in (rows.offsets, rows.columns))
        values = self.torch.from_numpy(given.data.copy())
        return _Entries(given, places, self.torch.sparse_csr_tensor(*numbered, values, size=shape))

    def _glorot(self, rng: Generator, one: int, other: int) -> Any:
        reach = math.sqrt(6 / (one + other))
        return self._leaf(rng.uniform(-reach, reach, (one, other)))

    def _leaf(self, values: NDArray[Any]) -> Any:
        return self.torch.from_numpy(values.astype(self.dtype)).requires_grad_()


def _kernel(torch: Any, one: Any, other: Any) -> Any:
    """max(0, 1 - |u - v|^2) of each pair of points."""
    apart = (one**2).sum(1)[:, None] + (other**2).sum(1)[None] - 2 * one @ other.T
    return torch.clamp(1 - apart, min=0)


class _Entries(NamedTuple):
    """Known entries: as a matrix of scipy, whose products are faster, and as one of torch."""

    given: Any  # rows x columns
    places: Any  # the transpose, with the place of each entry among those of the matrix
    pattern: Any  # of torch

    def product(self, values: NDArray[Any], dense: Any) -> Any:
        """The matrix with these values times a dense one."""
        matrix = sp.csr_array((values, self.given.indices, self.given.indptr), self.given.shape)
        return matrix @ dense.detach().numpy()

    def transposed_product(self, values: NDArray[Any], dense: Any) -> Any:
        """The transpose with these values times a dense one."""
        parts = values[self.places.data], self.places.indices, self.places.indptr
        return sp.csr_array(parts, self.places.shape) @ dense.detach().numpy()


class _Operations(NamedTuple):
    product: Callable[..., Any]
    squares: Callable[..., Any]


def _operations(torch: Any) -> _Operations:
    """The two operations on sparse matrices whose gradients are written down here: torch makes dense ones of them."""

    class Product(torch.autograd.Function):  # type: ignore[misc]
        """The inputs times a dense matrix."""

        @staticmethod
        def forward(ctx: Any, dense: Any, entries: _Entries) -> Any:
            ctx.entries = entries
            return torch.from_numpy(entries.product(entries.given.data + SHIFT, dense))

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            entries = ctx.entries
            return torch.from_numpy(entries.transposed_product(entries.given.data + SHIFT, gradient)), None

    class Squares(torch.autograd.Function):  # type: ignore[misc]
        """The sum of squared differences of known entries and products of codes and columns."""

        @staticmethod
        def forward(ctx: Any, codes: Any, columns: Any, bias: Any, entries: _Entries) -> Any:
            found = torch.sparse.sampled_addmm(entries.pattern, codes, columns.T, beta=0.0).values()
            errors = found + bias[entries.pattern.col_indices()] - entries.pattern.values()
            ctx.save_for_backward(codes, columns)
            ctx.parts = entries, errors
            return (errors.double() ** 2).sum().to(codes.dtype)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            codes, columns = ctx.saved_tensors
            entries, errors = ctx.parts
            scaled = (2 * gradient * errors).numpy()
            by_column = np.bincount(entries.given.indices, scaled, entries.given.shape[1]).astype(scaled.dtype)
            products = entries.product(scaled, columns), entries.transposed_product(scaled, codes), by_column
            return *(torch.from_numpy(part) for part in products), None

    return _Operations(Product.apply, Squares.apply)
