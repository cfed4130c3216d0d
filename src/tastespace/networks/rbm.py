"""Restricted Boltzmann machines over rows of numbers: binary (Bernoulli) or real (Gaussian) visible units.

    Bernoulli   E(x, h) = -x' W h - c' x - b' h
    Gaussian    E(z, h) = |z - c|^2 / 2 - z' W h - b' h,  z = (x - mean) / sd of each column

with binary h, so that p(h | x) = sigma(b + W' x), and p(x | h) = sigma(c + W h) or N(c + W h, 1). The gradient of the
log-likelihood is E_data - E_model of the sufficient statistics. The second term is estimated by Gibbs chains: from the
data ("cd", contrastive divergence) or going on from step to step ("pcd", persistent; Tieleman 2008). Both sides are
centered (Melchior, Fischer and Wiskott 2016):

    dW = <(x - mx)(h - mh)'>_data - <...>_model,  dc = <x>_data - <x>_model - dW mh,  db likewise - dW' mx

with running means mx, mh of the data. Inputs of Bernoulli units between 0 and 1 are probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, row_blocks
from tastespace.errors import DataError, NonFiniteStateError
from tastespace.networks.inputs import Inputs, Rows, check_share, held_out_rows, minibatches, rows_of
from tastespace.parameters import check_int, check_number, check_option
from tastespace.progress import Observer, Progress, silent
from tastespace.threads import one_blas_thread

Visible = Literal["bernoulli", "gaussian"]
VISIBLE: tuple[Visible, ...] = ("bernoulli", "gaussian")  # artifacts store the position
Chains = Literal["cd", "pcd"]
BLOCK = 1 << 22  # numbers of a block of rows that are encoded at once
RATES: Mapping[Visible, float] = {"bernoulli": 0.05, "gaussian": 0.005}  # real units have no bounds: slower steps


@dataclass(frozen=True, eq=False)
class RBM:
    """A Boltzmann machine: its parameters, and what follows from them."""

    weights: FloatMatrix  # visible x hidden
    visible_bias: FloatArray
    hidden_bias: FloatArray
    visible: Visible = "bernoulli"
    mean: FloatArray | None = None  # of the columns of Gaussian units; None for Bernoulli ones
    sd: FloatArray | None = None

    @property
    def n_features(self) -> int:
        return len(self.hidden_bias)

    def standardized(self, inputs: FloatMatrix) -> FloatMatrix:
        """The inputs in the units in which the energy is written."""
        if self.mean is None or self.sd is None:
            return inputs
        return (inputs - self.mean) / self.sd

    def encode(self, inputs: Inputs) -> FloatMatrix:
        """The probability of each hidden unit, given rows: their features."""
        rows = rows_of(inputs)
        out = np.empty((rows.shape[0], self.n_features), np.float32)
        for block in row_blocks(rows.shape[0], rows.shape[1], BLOCK):
            out[block] = self.hidden_means(self.standardized(rows.take(block)))
        return out

    def decode(self, features: FloatMatrix) -> FloatMatrix:
        """The expected visible units, given hidden ones."""
        means = self.visible_means(features)
        return means if self.mean is None or self.sd is None else means * self.sd + self.mean

    def hidden_means(self, units: FloatMatrix) -> FloatMatrix:
        return np.asarray(expit(units @ self.weights + self.hidden_bias))

    def visible_means(self, hidden: FloatMatrix) -> FloatMatrix:
        activity = hidden @ self.weights.T + self.visible_bias
        return np.asarray(expit(activity)) if self.visible == "bernoulli" else activity

    def free_energy(self, inputs: FloatMatrix) -> DoubleArray:
        """Minus the log of the unnormalized probability (Gaussian: density, of the standardized row) of each row."""
        units = self.standardized(inputs)
        hidden = np.logaddexp(0, np.asarray(units @ self.weights + self.hidden_bias, np.float64)).sum(axis=1)
        if self.visible == "bernoulli":
            return np.asarray(-(units @ self.visible_bias) - hidden, np.float64)
        return np.asarray(((units - self.visible_bias) ** 2).sum(axis=1, dtype=np.float64) / 2 - hidden)

    def drawn_hidden(self, units: FloatMatrix, rng: Generator) -> FloatMatrix:
        """A draw of the hidden units, given visible ones."""
        return _bernoulli(self.hidden_means(units), rng)

    def drawn_visible(self, hidden: FloatMatrix, rng: Generator) -> FloatMatrix:
        """A draw of the visible units, given hidden ones."""
        means = self.visible_means(hidden)
        if self.visible == "bernoulli":
            return _bernoulli(means, rng)
        return means + rng.standard_normal(means.shape, np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        arrays: dict[str, NDArray[Any]] = {
            "weights": self.weights,
            "visible_bias": self.visible_bias,
            "hidden_bias": self.hidden_bias,
            "visible": np.array([VISIBLE.index(self.visible)], np.int32),
        }
        if self.mean is not None and self.sd is not None:
            arrays |= {"mean": self.mean, "sd": self.sd}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RBM:
        """The same machine from its `arrays`."""
        weights, visible, hidden = arrays["weights"], arrays["visible_bias"], arrays["hidden_bias"]
        if weights.shape != (len(visible), len(hidden)):
            raise ValueError("the weights of the Boltzmann machine do not fit its biases")
        return cls(weights, visible, hidden, VISIBLE[int(arrays["visible"][0])], arrays.get("mean"), arrays.get("sd"))


def train_rbm(
    inputs: Inputs,
    n_hidden: int,
    *,
    rng: Generator,
    visible: Visible = "bernoulli",
    chains: Chains = "cd",
    steps: int = 1,
    centered: bool = True,
    epochs: int = 50,
    batch_size: int = 100,
    learning_rate: float | None = None,
    momentum: float = 0.9,
    weight_decay: float = 1e-4,
    held_out_share: float = 0.1,
    patience: int = 10,
    observer: Observer = silent,
) -> RBM:
    """Train a Boltzmann machine with this many hidden units by `steps` of Gibbs sampling per update.

    `learning_rate` falls evenly to zero; None is 0.05 for Bernoulli units and 0.005 for Gaussian ones. Persistent
    chains need small steps (or less momentum), because they have to keep up with the machine.
    `chains` is "cd" (chains start at the batch) or "pcd" (as many chains as a batch has rows, kept from step to step).
    With a `held_out_share` above 0 that share of the rows is watched: training stops when the error of giving them back
    has not fallen for `patience` epochs, and the best parameters are kept. The same generator gives the same bytes,
    whatever the number of threads.
    """
    check_int("n_hidden", n_hidden, least=1)
    check_option("visible", visible, VISIBLE)
    check_option("chains", chains, ("cd", "pcd"))
    check_int("steps", steps, least=1)
    check_int("epochs", epochs, least=1)
    check_int("batch_size", batch_size, least=1)
    rate = RATES[visible] if learning_rate is None else learning_rate
    check_number("learning_rate", rate, above=0)
    check_number("momentum", momentum, least=0, below=1)
    check_number("weight_decay", weight_decay, least=0)
    check_share("held_out_share", held_out_share)
    check_int("patience", patience, least=1)
    rows = rows_of(inputs)
    with one_blas_thread():
        train, watched = held_out_rows(rows.shape[0], held_out_share, rng)
        machine = _start(rows, train, n_hidden, visible, rng)
        ascent = _Ascent(machine, chains, steps, centered, rate, momentum, weight_decay)
        best, best_error, since = machine, np.inf, 0
        for epoch in range(1, epochs + 1):
            ascent.rate = rate * (1 - (epoch - 1) / epochs)
            for batch in minibatches(train, batch_size, rng):
                ascent.step(machine.standardized(rows.take(batch)), rng)
            machine = ascent.machine
            stats = {"error": reconstruction_error(machine, rows, watched if len(watched) else train[:BLOCK])}
            if not np.isfinite(stats["error"]):
                raise NonFiniteStateError(
                    f"the error of the Boltzmann machine is {stats['error']} after epoch {epoch}; expected a finite "
                    f"one: use a lower learning_rate than {rate:g}"
                )
            observer(Progress("Boltzmann machine", epoch, epochs, stats))
            since = 0 if stats["error"] < best_error else since + 1
            if not since or not len(watched):
                best, best_error = machine, stats["error"]
            elif since >= patience:
                break
        return best


def _bernoulli(means: FloatMatrix, rng: Generator) -> FloatMatrix:
    return (rng.random(means.shape, np.float32) < means).astype(np.float32)


def _moments(rows: Rows, train: IntArray) -> tuple[DoubleArray, DoubleArray, float, float]:
    """Mean and variance of each column, and the least and the largest value, in bounded memory."""
    total, squares = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    low, high = np.inf, -np.inf
    for block in row_blocks(len(train), rows.shape[1], BLOCK):
        values = rows.take(train[block]).astype(np.float64)
        total += values.sum(axis=0)
        squares += (values**2).sum(axis=0)
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    mean = total / len(train)
    return mean, np.maximum(squares / len(train) - mean**2, 0), low, high


def _start(rows: Rows, train: IntArray, n_hidden: int, visible: Visible, rng: Generator) -> RBM:
    """Random weights, and visible units that are on as often as in the data."""
    mean, variance, low, high = _moments(rows, train)
    size = rows.shape[1], n_hidden
    # Much smaller ones, and the hidden units stay alike for so long that training looks finished.
    weights = rng.normal(0, 0.5 / np.sqrt(sum(size)), size).astype(np.float32)
    nothing = np.zeros(n_hidden, np.float32)
    if visible == "gaussian":
        sd = np.sqrt(variance)
        sd[sd < 1e-6 * max(float(sd.max()), 1e-12)] = 1  # a constant column stays constant
        zeros = np.zeros(rows.shape[1], np.float32)
        return RBM(weights, zeros, nothing, visible, mean.astype(np.float32), sd.astype(np.float32))
    if low < 0 or high > 1:
        raise DataError(
            f"inputs of Bernoulli units go from {low:g} to {high:g}; expected 0 to 1: scale them, or use "
            "visible='gaussian'"
        )
    often = (mean * len(train) + 0.5) / (len(train) + 1)
    return RBM(weights, np.log(often / (1 - often)).astype(np.float32), nothing, visible)


class _Ascent:
    """Stochastic gradient ascent with momentum, and the chains it draws from the model."""

    SLIDING = 0.05  # the part of a batch in the running means

    def __init__(
        self, machine: RBM, chains: Chains, steps: int, centered: bool, rate: float, momentum: float, decay: float
    ) -> None:
        self.machine, self.chains, self.steps, self.centered = machine, chains, steps, centered
        self.rate, self.momentum, self.decay = rate, momentum, decay
        self.speed = [np.zeros_like(part) for part in (machine.weights, machine.visible_bias, machine.hidden_bias)]
        self.kept: FloatMatrix | None = None  # the visible units of persistent chains
        self.means: tuple[FloatArray, FloatArray] | None = None

    def step(self, data: FloatMatrix, rng: Generator) -> None:
        machine = self.machine
        hidden = machine.hidden_means(data)
        if self.chains == "pcd" and self.kept is None:
            self.kept = data
        units = data if self.kept is None else self.kept
        for _ in range(self.steps):
            units = machine.drawn_visible(machine.drawn_hidden(units, rng), rng)
        if self.chains == "pcd":
            self.kept = units
        if self.centered:
            now = data.mean(axis=0), hidden.mean(axis=0)
            old = self.means or now
            self.means = tuple((1 - self.SLIDING) * a + self.SLIDING * b for a, b in zip(old, now, strict=True))
        for place, gradient in enumerate(gradient_of((data, hidden), (units, machine.hidden_means(units)), self.means)):
            part = (machine.weights, machine.visible_bias, machine.hidden_bias)[place]
            decayed = gradient - self.decay * part if not place else gradient
            self.speed[place] = self.momentum * self.speed[place] + np.float32(self.rate) * decayed
        self.machine = replace(
            machine,
            weights=machine.weights + self.speed[0],
            visible_bias=machine.visible_bias + self.speed[1],
            hidden_bias=machine.hidden_bias + self.speed[2],
        )


def gradient_of(
    data: tuple[FloatMatrix, FloatMatrix],
    model: tuple[FloatMatrix, FloatMatrix],
    means: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatMatrix, FloatArray, FloatArray]:
    """The gradient by weights, visible and hidden bias, from visible and hidden units of the data and of the model.

    With the means of both sides it is that of centered units, expressed in the parameters of plain ones: another
    direction of ascent, which does not depend on whether a unit is coded as on or as off.
    """
    difference = [
        np.asarray(one.mean(axis=0) - other.mean(axis=0), np.float32) for one, other in zip(data, model, strict=True)
    ]
    if means is None:
        return mean_product(*data) - mean_product(*model), difference[0], difference[1]
    one, other = ([part - mean for part, mean in zip(pair, means, strict=True)] for pair in (data, model))
    weights = mean_product(*one) - mean_product(*other)
    pulled = [np.asarray(product, np.float32) for product in (weights @ means[1], means[0] @ weights)]
    return weights, difference[0] - pulled[0], difference[1] - pulled[1]


def mean_product(visible: FloatMatrix, hidden: FloatMatrix) -> FloatMatrix:
    """The mean over rows of their outer products."""
    return np.asarray(visible.T @ hidden / len(visible), np.float32)


def reconstruction_error(machine: RBM, rows: Rows, chosen: IntArray) -> float:
    """The mean squared error of giving rows back through the means of the hidden units, in standardized units."""
    total = 0.0
    for block in row_blocks(len(chosen), rows.shape[1], BLOCK):
        units = machine.standardized(rows.take(chosen[block]))
        total += float(((machine.visible_means(machine.hidden_means(units)) - units) ** 2).sum(dtype=np.float64))
    return total / (len(chosen) * rows.shape[1])
