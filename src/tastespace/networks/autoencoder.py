"""Stacked autoencoders: layers of affine maps and activations, trained to give back what they get.

    h_l = f(W_l h_(l-1) + b_l),  h_0 = x;  the middle layer is the code, and the last gives x back

(Somani and Gupta 2017, section 5.1.1). Trained by Adam on the mean squared error (or the cross-entropy, for outputs
between 0 and 1), with dropout and batch normalization where asked. Batch normalization is an affine map once it is
trained, and is folded into the layer before it, so that what is kept are weights and biases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.errors import NonFiniteStateError
from tastespace.networks.backend import repeatable, torch_generator
from tastespace.networks.inputs import Inputs, Rows, check_share, held_out_rows, minibatches, rows_of
from tastespace.parameters import check_int, check_number, check_option
from tastespace.progress import Observer, Progress, silent

Activation = Literal["sigmoid", "tanh", "relu", "identity"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)  # artifacts store the position
_APPLIED: Mapping[str, Callable[[Any], Any]] = {
    "sigmoid": expit,
    "tanh": np.tanh,
    "relu": lambda values: np.maximum(values, 0),
    "identity": lambda values: values,
}
AT_ONCE = 4096  # rows encoded at once


@dataclass(frozen=True, eq=False)
class Layer:
    """One affine map and its activation."""

    weights: FloatMatrix  # inputs x outputs
    bias: FloatArray
    activation: Activation

    def __call__(self, values: FloatMatrix) -> FloatMatrix:
        return np.asarray(_APPLIED[self.activation](values @ self.weights + self.bias), np.float32)


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """A trained autoencoder: the first half of the layers encodes, the second decodes."""

    layers: tuple[Layer, ...]

    @property
    def n_inputs(self) -> int:
        return len(self.layers[0].weights)

    @property
    def n_features(self) -> int:
        return len(self.layers[len(self.layers) // 2].weights)

    def encode(self, inputs: Inputs) -> FloatMatrix:
        """The codes of rows, one row each."""
        rows = rows_of(inputs)
        parts = np.array_split(np.arange(rows.shape[0], dtype=np.int32), math.ceil(rows.shape[0] / AT_ONCE))
        return np.concatenate([self._passed(rows.take(part), self.layers[: len(self.layers) // 2]) for part in parts])

    def decode(self, codes: FloatMatrix) -> FloatMatrix:
        """The rows that these codes stand for."""
        return self._passed(codes, self.layers[len(self.layers) // 2 :])

    @staticmethod
    def _passed(values: FloatMatrix, layers: Sequence[Layer]) -> FloatMatrix:
        for layer in layers:
            values = layer(values)
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        arrays: dict[str, NDArray[Any]] = {
            "activations": np.array([ACTIVATIONS.index(layer.activation) for layer in self.layers], np.int32)
        }
        for place, layer in enumerate(self.layers):
            arrays |= {f"weights_{place}": layer.weights, f"bias_{place}": layer.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Autoencoder:
        """The same autoencoder from its `arrays`."""
        kinds = [ACTIVATIONS[int(kind)] for kind in arrays["activations"]]
        layers = [Layer(arrays[f"weights_{at}"], arrays[f"bias_{at}"], kind) for at, kind in enumerate(kinds)]
        for one, after in zip(layers, layers[1:], strict=False):
            if one.weights.shape[1] != len(after.weights):
                raise ValueError("the layers of the autoencoder do not fit one another")
        return cls(tuple(layers))


def train_autoencoder(
    inputs: Inputs,
    sizes: Sequence[int],
    *,
    rng: Generator,
    activation: Activation = "sigmoid",
    code_activation: Activation | None = None,
    output: Activation = "identity",
    loss: Literal["squared", "cross-entropy"] = "squared",
    dropout: float = 0.0,
    batch_norm: bool = False,
    epochs: int = 100,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    held_out_share: float = 0.1,
    patience: int = 5,
    observer: Observer = silent,
) -> Autoencoder:
    """Train an autoencoder whose encoder has layers of these sizes, the last being the code; the decoder mirrors it.

    `sizes=[256, 64]` makes the five layers of Somani and Gupta, counting input and output. `code_activation` is that of
    the code (None: as all others). `dropout` is the probability that a unit below the code is left out of a step.

    With a `held_out_share` above 0 that share of the rows is watched and not trained on: training stops when their
    loss has not fallen for `patience` epochs, and the best weights are kept. The learning rate falls to a hundredth of
    its start along half a cosine. The same generator gives the same bytes.
    """
    _check(sizes, dropout, epochs, batch_size, learning_rate, weight_decay, held_out_share, patience)
    check_option("activation", activation, ACTIVATIONS)
    check_option("code_activation", code_activation, (*ACTIVATIONS, None))
    check_option("output", output, ACTIVATIONS)
    check_option("loss", loss, ("squared", "cross-entropy"))
    rows = rows_of(inputs)
    train, watched = held_out_rows(rows.shape[0], held_out_share, rng)
    kinds = [activation] * len(sizes) + [activation] * (len(sizes) - 1) + [output]
    kinds[len(sizes) - 1] = code_activation or activation
    with repeatable("training an autoencoder") as torch:
        network = _Network(torch, rows.shape[1], list(sizes), kinds, dropout, batch_norm, rng)
        network.standardize_first(rows.take(train[:AT_ONCE]))
        optimizer = torch.optim.Adam(network.parameters, lr=learning_rate, weight_decay=weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs, eta_min=learning_rate / 100)
        best, best_loss, since = network.state(), math.inf, 0
        for epoch in range(1, epochs + 1):
            total = 0.0
            for batch in minibatches(train, batch_size, rng):
                given = torch.from_numpy(rows.take(batch))
                optimizer.zero_grad()
                error = _error(torch, network(given, training=True), given, loss)
                error.backward()
                optimizer.step()
                total += float(error.detach()) * len(batch)
            schedule.step()
            stats = {"loss": total / len(train)}
            if not math.isfinite(total):
                raise NonFiniteStateError(
                    f"the loss of the autoencoder is {total} after epoch {epoch}; expected a finite one: use a lower "
                    f"learning_rate than {learning_rate:g}"
                )
            if len(watched):
                stats["held-out loss"] = _watched_loss(torch, network, rows, watched, loss)
                since = 0 if stats["held-out loss"] < best_loss else since + 1
                if not since:
                    best, best_loss = network.state(), stats["held-out loss"]
            observer(Progress("autoencoder", epoch, epochs, stats))
            if since >= patience:
                break
        if len(watched):
            network.restore(best)
        return Autoencoder(network.folded())


def _check(
    sizes: Sequence[int],
    dropout: float,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    held_out_share: float,
    patience: int,
) -> None:
    check_int("the number of sizes", len(sizes), least=1)
    for size in sizes:
        check_int("sizes", size, least=1)
    check_number("dropout", dropout, least=0, below=1)
    check_int("epochs", epochs, least=1)
    check_int("batch_size", batch_size, least=1)
    check_number("learning_rate", learning_rate, above=0)
    check_number("weight_decay", weight_decay, least=0)
    check_share("held_out_share", held_out_share)
    check_int("patience", patience, least=1)


def _error(torch: Any, output: Any, given: Any, loss: str) -> Any:
    """The mean over all outputs of the squared error, or of the cross-entropy."""
    if loss == "squared":
        return torch.mean((output - given) ** 2)
    return torch.nn.functional.binary_cross_entropy(output.clamp(1e-6, 1 - 1e-6), given.clamp(0, 1))


def _watched_loss(torch: Any, network: _Network, rows: Rows, watched: IntArray, loss: str) -> float:
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(watched), AT_ONCE):
            given = torch.from_numpy(rows.take(watched[start : start + AT_ONCE]))
            total += float(_error(torch, network(given, training=False), given, loss)) * len(given)
    return total / len(watched)


class _Network:
    """The layers while they are trained: affine map, batch normalization, activation, dropout."""

    MOMENTUM, SMALL = 0.1, 1e-5  # of the running means of batch normalization, and below its square root

    def __init__(
        self,
        torch: Any,
        n_inputs: int,
        sizes: list[int],
        kinds: list[Activation],
        dropout: float,
        batch_norm: bool,
        rng: Generator,
    ) -> None:
        widths = [n_inputs, *sizes, *reversed(sizes[:-1]), n_inputs]
        self.torch, self.kinds, self.dropout, self.code = torch, kinds, dropout, len(sizes)
        self.generator = torch_generator(torch, rng)
        self.weights, self.biases, self.scales, self.means, self.variances = [], [], [], [], []
        for fan_in, fan_out in zip(widths, widths[1:], strict=False):
            reach = math.sqrt(6 / (fan_in + fan_out))
            start = rng.uniform(-reach, reach, (fan_in, fan_out)).astype(np.float32)
            self.weights.append(torch.from_numpy(start).requires_grad_())
            self.biases.append(torch.zeros(fan_out, requires_grad=True))
            if batch_norm and len(self.weights) < len(widths) - 1:  # The output has the scale of the inputs.
                self.scales.append(torch.ones(fan_out, requires_grad=True))
                self.means.append(torch.zeros(fan_out))
                self.variances.append(torch.ones(fan_out))
        self.parameters = [*self.weights, *self.biases, *self.scales]
        self.shift, self.spread = torch.zeros(n_inputs), torch.ones(())

    def standardize_first(self, sample: FloatMatrix) -> None:
        """Center the inputs and set them to one scale, as part of the first layer: training starts in the middle."""
        torch = self.torch
        self.shift = torch.from_numpy(sample.mean(axis=0))
        deviation = float(np.sqrt(np.mean((sample - sample.mean(axis=0)) ** 2, dtype=np.float64)))
        self.spread = torch.tensor(deviation if deviation > 0 else 1.0)
        if self.kinds[-1] == "identity":
            with torch.no_grad():
                self.biases[-1] += self.shift

    def __call__(self, values: Any, *, training: bool) -> Any:
        values = (values - self.shift) / self.spread
        for place, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weights
            if place < len(self.scales):
                values = self._normalized(values, place, training)
            values = _activate(self.torch, values + bias, self.kinds[place])
            if training and self.dropout and place < len(self.weights) - 1 and place != self.code - 1:
                kept = self.torch.rand(values.shape, generator=self.generator) >= self.dropout
                values = values * kept / (1 - self.dropout)
        return values

    def _normalized(self, values: Any, place: int, training: bool) -> Any:
        mean, variance = self.means[place], self.variances[place]
        if training:
            mean, variance = values.mean(0), values.var(0, correction=0)
            for running, now in ((self.means[place], mean), (self.variances[place], variance)):
                running.lerp_(now.detach(), self.MOMENTUM)
        return (values - mean) * self.torch.rsqrt(variance + self.SMALL) * self.scales[place]

    def state(self) -> list[Any]:
        return [tensor.detach().clone() for tensor in (*self.parameters, *self.means, *self.variances)]

    def restore(self, state: list[Any]) -> None:
        with self.torch.no_grad():
            for tensor, kept in zip((*self.parameters, *self.means, *self.variances), state, strict=True):
                tensor.copy_(kept)

    def folded(self) -> tuple[Layer, ...]:
        """The layers as affine maps, with normalizations in their weights and biases."""
        layers = []
        for place, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            matrix, offset = weights.detach().double().numpy(), bias.detach().double().numpy()
            if place < len(self.scales):
                scale = (self.scales[place].detach() / (self.variances[place] + self.SMALL).sqrt()).double().numpy()
                matrix, offset = matrix * scale, offset - self.means[place].double().numpy() * scale
            if not place:
                matrix = matrix / float(self.spread)
                offset = offset - self.shift.double().numpy() @ matrix
            layers.append(Layer(matrix.astype(np.float32), offset.astype(np.float32), self.kinds[place]))
        return tuple(layers)


def _activate(torch: Any, values: Any, kind: Activation) -> Any:
    return values if kind == "identity" else getattr(torch, kind)(values)
