"""Images from files: folders and archives; every image becomes a small square in red, green and blue."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.content.files import SetAside, files_in
from tastespace.data.formats.content import named_faults
from tastespace.errors import DataError, MissingExtraError
from tastespace.parameters import check_int
from tastespace.progress import Observer, Progress, silent

Pixels = NDArray[np.uint8]  # n x size x size x 3
_EXPECTED = "a folder or an archive of images"
_NAMES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_EVERY = 200  # images between reports of progress
THUMBNAIL_QUALITY = 85


@dataclass(frozen=True, eq=False)
class Images:
    """Images of one size with ids; the folder of each is an attribute, as it often is the class."""

    ids: pl.Series
    titles: pl.Series
    pixels: Pixels
    attributes: pl.DataFrame
    remarks: tuple[str, ...] = ()

    kind = "images"

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def material(self) -> Pixels:
        """What features are learned from."""
        return self.pixels

    def excerpts(self, length: int) -> pl.Series:
        """None: images have no text."""
        return pl.Series("excerpt", [None] * len(self), pl.String)

    def pictures(self) -> pl.Series:
        """Each image as a small JPEG, to be shown."""
        return pl.Series("picture", [as_jpeg(pixels) for pixels in self.pixels], pl.Binary)

    def only(self, rows: Any) -> Images:
        """The images at these positions."""
        rows = np.asarray(rows)
        places = pl.Series(rows)
        return replace(
            self,
            ids=self.ids.gather(places),
            titles=self.titles.gather(places),
            pixels=self.pixels[rows],
            attributes=self.attributes[rows.tolist()],
        )


def read_images(path: str | Path, *, size: int = 32, observer: Observer = silent) -> Images:
    """The images of a folder or an archive, each cut to a square around its middle and scaled to `size` pixels.

    Grey images, palettes and transparency (shown on white) are converted; what is no image, or a broken one, is set
    aside and named.
    """
    check_int("size", size, least=8)
    path, aside = Path(path), SetAside()
    with named_faults(path, _EXPECTED):
        if not path.exists():
            raise FileNotFoundError(path)
    names, found = [], []
    for number, (name, content) in enumerate(files_in(path, aside), 1):
        pixels = _decoded(content, size)
        if pixels is not None:
            names.append(name)
            found.append(pixels)
        else:
            aside.add(name, "broken images" if name.lower().endswith(_NAMES) else "no images")
        if number % _EVERY == 0:
            observer(Progress("images", number))
    if not found:
        raise DataError("; ".join(("there is no image", *aside.remarks())), file=path, expected=_EXPECTED)
    folders = [PurePosixPath(name).parent.as_posix() for name in names]
    return Images(
        pl.Series("item", names, pl.String),
        pl.Series("title", [None] * len(names), pl.String),
        np.stack(found),
        pl.DataFrame({"folder": folders}),
        aside.remarks(),
    )


def read_image(path: str | Path, size: int) -> Pixels:
    """One image as a query; an error if it cannot be read."""
    with named_faults(Path(path), "an image"):
        pixels = _decoded(Path(path).read_bytes(), size)
    if pixels is None:
        raise DataError("this is no image, or a broken one", file=path, expected="a whole image, such as .png or .jpg")
    return pixels


def image_of(content: bytes, size: int) -> Pixels:
    """An image that was sent; an error if it cannot be read."""
    pixels = _decoded(content, size)
    if pixels is None:
        raise DataError("this is no image, or a broken one", expected="a whole image, such as .png or .jpg")
    return pixels


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading images", "content") from error
    return Image


def _decoded(content: bytes, size: int) -> Pixels | None:
    """An image as a square of pixels; None if it cannot be read."""
    image_module = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one that would fill memory is only warned of
            with image_module.open(BytesIO(content)) as opened:
                opened.draft("RGB", (2 * size, 2 * size))  # Large JPEGs are read at a fraction of their size.
                image = _plain(opened, image_module)
    except (OSError, ValueError, SyntaxError, Warning, image_module.DecompressionBombError, MemoryError, KeyError):
        return None
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = image.resize((size, size), image_module.Resampling.BILINEAR, (left, top, left + side, top + side))
    return np.asarray(square, np.uint8)


def _plain(opened: Any, image_module: Any) -> Any:
    """In red, green and blue, upright, and on white where it is transparent."""
    from PIL import ImageOps

    image = ImageOps.exif_transpose(opened)
    if image.mode.startswith(("I", "F")):  # 16 bits or more: to the range of 8
        values = np.asarray(image, np.float64)
        low, high = float(values.min()), float(values.max())
        image = image_module.fromarray(np.uint8(255 * (values - low) / (high - low or 1)))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = image_module.new("RGBA", image.size, "white")
        image = image_module.alpha_composite(white, image)
    return image.convert("RGB")


def as_jpeg(pixels: Pixels) -> bytes:
    """Pixels as a small file."""
    stream = BytesIO()
    _pillow().fromarray(pixels).save(stream, "JPEG", quality=THUMBNAIL_QUALITY)
    return stream.getvalue()
