"""Features of images: pixels in, vectors out, for those it was fitted on and for any other.

    pixels -> themselves, histograms of oriented gradients, or the code of a convolutional autoencoder
           -> perhaps their principal components, partly whitened

The autoencoder is that of Somani and Gupta (2017), chapter 8; training it needs PyTorch, the rest does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace import randomness, threads
from tastespace.arrays import FloatArray, FloatMatrix, contiguous
from tastespace.content.pictures import Pixels
from tastespace.content.reductions import unit
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError, NotFittedError
from tastespace.networks.convolutional import ConvolutionalAutoencoder, train_convolutional
from tastespace.parameters import check_int, check_number, check_option
from tastespace.progress import Observer, silent

try:
    from sklearn.base import BaseEstimator, TransformerMixin
except ImportError as error:
    raise MissingExtraError("features of images", "content") from error

Method = Literal["hog", "pixels", "autoencoder"]
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "hog": {"n_components": None},
    "pixels": {"method": "pixels", "n_components": None},
    "pca": {"method": "pixels", "n_components": 64, "whitening": 0.0},
    "autoencoder": {"method": "autoencoder", "n_components": None},
    "autoencoder-pca": {"method": "autoencoder"},
}
ORIENTATIONS, CELL = 9, 4  # of histograms of gradients: directions, and pixels along a cell
MOST_FITTED = 20_000  # images that components are found from
AT_ONCE = 1024  # images turned into vectors at once


class ImageFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns images into vectors whose inner product is a similarity; a transformer as in scikit-learn.

    Images are arrays of `size` x `size` pixels in red, green and blue, from 0 to 255 (`read_images`). `method` is "hog"
    (histograms of oriented gradients, and of colors), "pixels", or "autoencoder": the code of a convolutional
    autoencoder, trained on at most `max_images` of them for `epochs`, with `dropout`. Of these vectors the
    `n_components` leading principal components are taken (None: the vectors themselves), divided by their standard
    deviation to the power `whitening`.
    """

    def __init__(
        self,
        *,
        method: Method = "hog",
        size: int = 32,
        n_components: int | None = 128,
        whitening: float = 0.5,
        epochs: int = 5,
        max_images: int = 25_000,
        dropout: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.size = size
        self.n_components = n_components
        self.whitening = whitening
        self.epochs = epochs
        self.max_images = max_images
        self.dropout = dropout
        self.seed = seed

    kind = "images"

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> ImageFeatures:
        """A pipeline by its name in `PRESETS`; parameters go before its own."""
        check_option("preset", name, tuple(PRESETS))
        return cls(**{**PRESETS[name], **parameters})

    def check(self) -> None:
        """Refuse invalid parameters."""
        check_option("method", self.method, get_args(Method))
        for name, least in (("size", 8), ("epochs", 1), ("max_images", 1), ("seed", 0)):
            check_int(name, getattr(self, name), least=least)
        if self.n_components is not None:
            check_int("n_components", self.n_components, least=1)
        check_number("whitening", self.whitening, least=0)
        check_number("dropout", self.dropout, least=0, below=1)
        if self.method == "autoencoder" and self.size % 8:
            raise InvalidParameterError(f"size is {self.size}; expected a multiple of 8 for an autoencoder")

    def fit(self, images: Pixels | Sequence[Pixels], y: Any = None, *, observer: Observer = silent) -> Self:
        """Learn from images; `y` is not used."""
        self.fit_transform(images, observer=observer)
        return self

    def fit_transform(self, images: Pixels | Sequence[Pixels], y: Any = None, *, observer: Observer = silent) -> Any:
        """Learn from images, and return their features: one row per image."""
        self.check()
        pixels = self._checked(images)
        self.network_ = self._fitted_network(pixels, observer) if self.method == "autoencoder" else None
        return self._fit_vectors(pixels)

    def _fitted_network(self, pixels: Pixels, observer: Observer) -> ConvolutionalAutoencoder:
        rng = randomness.generator(self.seed)
        rows = np.sort(rng.permutation(len(pixels))[: self.max_images])
        return train_convolutional(pixels[rows], rng=rng, epochs=self.epochs, dropout=self.dropout, observer=observer)

    def _fit_vectors(self, pixels: Pixels) -> FloatMatrix:
        """Find the components of the vectors of images, whose network is there."""
        self.mean_: FloatArray | None = None
        self.components_: FloatMatrix | None = None
        vectors = self._vectors(pixels)
        if self.n_components is not None:
            rows = randomness.generator(self.seed).permutation(len(vectors))[:MOST_FITTED]
            self._fit_components(vectors[np.sort(rows)], self.n_components)
        self.n_features_ = vectors.shape[1] if self.components_ is None else self.components_.shape[1]
        return self._projected(vectors)

    def _fit_components(self, vectors: FloatMatrix, n_components: int) -> None:
        with threads.one_thread():
            mean = vectors.mean(axis=0, dtype=np.float64)
            centered = vectors - mean.astype(np.float32)
            values, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64) / len(vectors))
        n = min(n_components, len(vectors) - 1, len(values)) or 1
        values, directions = values[::-1][:n], directions[:, ::-1][:, :n]
        signs = np.sign(directions[np.argmax(np.abs(directions), axis=0), np.arange(n)])
        scale = np.maximum(values, 1e-6 * max(float(values[0]), 1e-12)) ** (-self.whitening / 2)
        self.mean_, self.components_ = mean.astype(np.float32), contiguous(directions * signs * scale, np.float32)

    def transform(self, images: Pixels | Sequence[Pixels], *, observer: Observer = silent) -> FloatMatrix:
        """The features of images: one row each."""
        if not hasattr(self, "n_features_"):
            raise NotFittedError("these features were not fitted; call fit first")
        return self._projected(self._vectors(self._checked(images)))

    def _checked(self, images: Any) -> Pixels:
        pixels = np.asarray(images)
        expected = (self.size, self.size, 3)
        if pixels.ndim != 4 or pixels.shape[1:] != expected or not len(pixels):
            raise DataError(
                f"the images have the shape {pixels.shape}",
                expected=f"(n, {self.size}, {self.size}, 3), as read_images(size={self.size}) gives",
            )
        if pixels.dtype != np.uint8:
            raise DataError(f"the images are of type {pixels.dtype}", expected="whole numbers from 0 to 255 (uint8)")
        return pixels

    def _vectors(self, pixels: Pixels) -> FloatMatrix:
        parts = [self._of_some(pixels[start : start + AT_ONCE]) for start in range(0, len(pixels), AT_ONCE)]
        return np.concatenate(parts)

    def _of_some(self, pixels: Pixels) -> FloatMatrix:
        with threads.one_blas_thread():
            if self.network_ is not None:
                return unit(self.network_.encode(pixels))
            if self.method == "hog":
                return np.hstack([gradients(pixels), _COLOR_WEIGHT * colors(pixels)])
            return unit(pixels.reshape(len(pixels), -1) / np.float32(255))

    def _projected(self, vectors: FloatMatrix) -> FloatMatrix:
        if self.components_ is None or self.mean_ is None:
            return unit(vectors)
        with threads.one_blas_thread():
            return unit((vectors - self.mean_) @ self.components_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns: numbers."""
        return np.array([f"image{number}" for number in range(self.n_features_)], dtype=object)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as arrays by name."""
        arrays: dict[str, NDArray[Any]] = {"n_features": np.array([self.n_features_], np.int64)}
        if self.components_ is not None and self.mean_ is not None:
            arrays |= {"mean": self.mean_, "components": self.components_}
        if self.network_ is not None:
            arrays |= {f"network.{name}": array for name, array in self.network_.arrays().items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what was learned from arrays; a mismatch is a ValueError or a KeyError."""
        self.check()
        own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith("network.")}
        self.network_ = ConvolutionalAutoencoder.from_arrays(own) if self.method == "autoencoder" else None
        self.mean_, self.components_ = arrays.get("mean"), arrays.get("components")
        self.n_features_ = int(arrays["n_features"][0])
        return self


_COLOR_WEIGHT = np.float32(0.5)


def gradients(pixels: Pixels) -> FloatMatrix:
    """Histograms of oriented gradients (Dalal and Triggs 2005): directions of edges in cells, by blocks of four.

    An edge without its sign votes for the two directions beside its own, with its strength; the four cells of a block
    are scaled to length 1, clipped at .2, and scaled again.
    """
    grey = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32) / 255
    down, right = np.gradient(grey, axis=(1, 2))
    strength = np.hypot(down, right)
    place = np.mod(np.arctan2(down, right), np.pi) * (ORIENTATIONS / np.pi) - 0.5
    lower = np.floor(place)
    share = place - lower
    n, size = len(pixels), pixels.shape[1] // CELL
    cells = np.zeros((n, size, size, ORIENTATIONS), np.float32)
    for direction in range(ORIENTATIONS):
        here = strength * (
            np.where(np.mod(lower, ORIENTATIONS) == direction, 1 - share, 0)
            + np.where(np.mod(lower + 1, ORIENTATIONS) == direction, share, 0)
        )
        blocks = here[:, : size * CELL, : size * CELL].reshape(n, size, CELL, size, CELL)
        cells[..., direction] = blocks.sum(axis=(2, 4))
    around = np.concatenate([cells[:, :-1, :-1], cells[:, :-1, 1:], cells[:, 1:, :-1], cells[:, 1:, 1:]], axis=-1)
    around /= np.sqrt((around**2).sum(axis=-1, keepdims=True) + 1e-3)
    np.minimum(around, 0.2, out=around)
    return unit(around.reshape(n, -1))


def colors(pixels: Pixels) -> FloatMatrix:
    """The mean color of each sixteenth of an image."""
    n, size = len(pixels), pixels.shape[1] // 4
    parts = pixels[:, : 4 * size, : 4 * size].reshape(n, 4, size, 4, size, 3)
    return unit(parts.mean(axis=(2, 4), dtype=np.float32).reshape(n, -1) / 255 - 0.5)
