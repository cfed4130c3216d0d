"""A convolutional autoencoder of small images, as in Somani and Gupta (2017, chapter 8).

    convolution 32 - pool - convolution 64 - pool - convolution 64 - pool          the code: size/8 x size/8 x 64
    convolution 64 - up - convolution 64 - up - convolution 32 - up - convolution 3

13 hidden layers: seven convolutions of 3 x 3, three poolings by the maximum of 2 x 2, three repetitions, with dropout
at each convolution. The source leaves loss, activation and optimizer open: here the squared error, rectified units
after batch normalization, and Adam. What is kept are the convolutions, with their normalization; they encode by NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, FloatMatrix, contiguous
from tastespace.errors import DataError, NonFiniteStateError
from tastespace.networks.backend import repeatable
from tastespace.networks.inputs import minibatches
from tastespace.parameters import check_int, check_number
from tastespace.progress import Observer, Progress, silent

ENCODER, DECODER = (32, 64, 64), (64, 64, 32, 3)  # channels after each convolution
AT_ONCE = 256  # images encoded at once

Pixels = NDArray[np.uint8]  # n x size x size x 3


@dataclass(frozen=True, eq=False)
class Convolution:
    """A convolution of 3 x 3 that keeps the size."""

    weights: NDArray[np.float32]  # 9 x channels in x channels out
    bias: FloatArray

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        n, height, width, _ = images.shape
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
        out = np.broadcast_to(self.bias, (n, height, width, len(self.bias))).astype(np.float32)
        for place in range(9):
            down, right = divmod(place, 3)
            out += padded[:, down : down + height, right : right + width] @ self.weights[place]
        return out


@dataclass(frozen=True, eq=False)
class ConvolutionalAutoencoder:
    """A trained autoencoder: the first three convolutions encode, the others decode."""

    convolutions: tuple[Convolution, ...]

    def encode(self, pixels: Pixels) -> FloatMatrix:
        """The codes of images, one row each."""
        parts = [self._encoded(pixels[start : start + AT_ONCE]) for start in range(0, len(pixels), AT_ONCE)]
        return np.concatenate(parts).reshape(len(pixels), -1)

    def _encoded(self, pixels: Pixels) -> NDArray[np.float32]:
        values = scaled(pixels)
        for convolution in self.convolutions[: len(ENCODER)]:
            values = np.maximum(convolution(values), 0)
            n, height, width, channels = values.shape
            values = values.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))
        return values

    def decode(self, codes: FloatMatrix) -> Pixels:
        """The images that these codes stand for."""
        side = math.isqrt(codes.shape[1] // ENCODER[-1])
        values = codes.reshape(-1, side, side, ENCODER[-1])
        for place, convolution in enumerate(self.convolutions[len(ENCODER) :]):
            values = convolution(values)
            if place < len(DECODER) - 1:
                values = np.maximum(values, 0).repeat(2, axis=1).repeat(2, axis=2)
        return np.asarray(np.clip(255 * (values + 0.5), 0, 255), np.uint8)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays that must be saved."""
        arrays: dict[str, NDArray[Any]] = {}
        for place, one in enumerate(self.convolutions):
            arrays |= {f"weights_{place}": one.weights, f"bias_{place}": one.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ConvolutionalAutoencoder:
        """The same autoencoder from its `arrays`."""
        widths = (3, *ENCODER, *DECODER)
        made = []
        for place, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
            one = Convolution(arrays[f"weights_{place}"], arrays[f"bias_{place}"])
            if one.weights.shape != (9, before, after) or one.bias.shape != (after,):
                raise ValueError("the convolutions of the autoencoder do not fit one another")
            made.append(one)
        return cls(tuple(made))


def scaled(pixels: Pixels) -> NDArray[np.float32]:
    """Pixels as numbers around 0."""
    return np.asarray(pixels.astype(np.float32) / 255 - 0.5, np.float32)


def train_convolutional(
    pixels: Pixels,
    *,
    rng: Generator,
    epochs: int = 5,
    dropout: float = 0.1,
    batch_size: int = 128,
    learning_rate: float = 2e-3,
    observer: Observer = silent,
) -> ConvolutionalAutoencoder:
    """Train the autoencoder to give back images; no classes are used. The same generator gives the same bytes."""
    check_int("epochs", epochs, least=1)
    check_int("batch_size", batch_size, least=1)
    check_number("dropout", dropout, least=0, below=1)
    check_number("learning_rate", learning_rate, above=0)
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.shape[1] % 8 or pixels.shape[1] != pixels.shape[2]:
        raise DataError(
            f"the images have the shape {pixels.shape}", expected="(n, size, size, 3), size a multiple of 8"
        )
    rows = np.arange(len(pixels), dtype=np.int32)
    with repeatable("training a convolutional autoencoder") as torch:
        # Its initial weights and dropout come from the global generator of torch, which is put back.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(1 << 62)))
            network = _network(torch, dropout)
            steps = epochs * math.ceil(len(rows) / batch_size)
            optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps + 1)
            network.train()
            done = 0
            for epoch in range(1, epochs + 1):
                total = 0.0
                for batch in minibatches(rows, batch_size, rng):
                    given = torch.from_numpy(contiguous(scaled(pixels[batch]).transpose(0, 3, 1, 2), np.float32))
                    if rng.random() < 0.5:
                        given = given.flip(3)
                    optimizer.zero_grad()
                    error = torch.mean((network(given) - given) ** 2)
                    error.backward()
                    optimizer.step()
                    schedule.step()
                    total += float(error.detach()) * len(batch)
                    done += 1
                    observer(Progress("convolutional autoencoder", done, steps, {"epoch": epoch}))
                if not math.isfinite(total):
                    raise NonFiniteStateError(
                        f"the loss of the autoencoder is {total} after epoch {epoch}; expected a finite one: use a "
                        f"lower learning_rate than {learning_rate:g}"
                    )
        return ConvolutionalAutoencoder(_folded(network))


def _network(torch: Any, dropout: float) -> Any:
    layers: list[Any] = []
    widths = (3, *ENCODER, *DECODER)
    for place, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        is_last, is_encoder = place == len(widths) - 2, place < len(ENCODER)
        layers.append(torch.nn.Conv2d(before, after, 3, padding=1, bias=is_last))
        if is_last:
            break
        layers += [torch.nn.BatchNorm2d(after), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
        layers.append(torch.nn.MaxPool2d(2) if is_encoder else torch.nn.Upsample(scale_factor=2))
    return torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)


def _folded(network: Any) -> tuple[Convolution, ...]:
    """The convolutions, with normalizations in their weights and biases."""
    modules = list(network)
    found = []
    for place, module in enumerate(modules):
        if type(module).__name__ != "Conv2d":
            continue
        weights = module.weight.detach().double().numpy()  # out x in x 3 x 3
        after = modules[place + 1] if place + 1 < len(modules) else None
        if after is None:
            bias = module.bias.detach().double().numpy()
        else:
            variance = after.running_var.double().numpy() + after.eps
            scale = after.weight.detach().double().numpy() / np.sqrt(variance)
            weights = weights * scale[:, None, None, None]
            bias = after.bias.detach().double().numpy() - after.running_mean.double().numpy() * scale
        ordered = weights.transpose(2, 3, 1, 0).reshape(9, weights.shape[1], weights.shape[0])
        found.append(Convolution(contiguous(ordered, np.float32), bias.astype(np.float32)))
    return tuple(found)
