"""The content of files, compressed or not: formats are recognised by their first bytes, faults become errors."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import polars as pl
import zstandard
from polars.exceptions import PanicException, PolarsError

from tastespace.errors import DataError, InvalidParameterError

Compression = Literal["gzip", "zstd"]
Answer = TypeVar("Answer")

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
# Formats that hold several files or are rare: the message says what to do rather than what went wrong.
_ADVICE = {
    b"PK\x03\x04": (
        "a zip archive",
        "a file from inside it; for a known data set: tastespace data get NAME --from FILE",
    ),
    b"BZh": ("compressed with bzip2", "a plain, .gz or .zst file: unpack it with bunzip2"),
    b"\xfd7zXZ\x00": ("compressed with xz", "a plain, .gz or .zst file: unpack it with unxz"),
}


def compression_of(file: Path) -> Compression | None:
    """The compression of a file, or None."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise DataError(
            "this is a pipe or a device", file=file, expected="a regular file, since it is inspected before it is read"
        )
    with file.open("rb") as stream:
        start = stream.read(8)
    for magic, (kind, advice) in _ADVICE.items():
        if start.startswith(magic):
            raise DataError(f"the file is {kind}", file=file, expected=advice)
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def read_plain(file: Path, compression: Compression | None, n: int = -1) -> bytes:
    """The content: all of it, or its first n bytes."""
    try:
        with file.open("rb") as stream:
            if compression == "gzip":
                return gzip.GzipFile(fileobj=stream).read(n) if n >= 0 else gzip.decompress(stream.read())
            if compression == "zstd" and n >= 0:
                with _unpacker().stream_reader(stream, read_across_frames=True, closefd=False) as reader:
                    start = reader.read(n)
                # A short read may mean that the file is truncated.
                return start if len(start) == n else _unpacked(file.read_bytes())
            content = stream.read(n)
            return _unpacked(content) if compression == "zstd" else content
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        problem = f"the {compression} file is cut off or damaged ({error})"
        raise DataError(problem, file=file, expected="a whole one") from error


def _unpacked(packed: bytes) -> bytes:
    """All frames of a zstd file; the streaming reader would not notice that the last one is cut off."""
    frames = []
    while packed:
        frame = _unpacker().decompressobj()
        frames.append(frame.decompress(packed))
        if not frame.eof:
            raise EOFError("the file ended before the end of a frame")
        packed = frame.unused_data
    return b"".join(frames)


def _unpacker() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=2**31)


_PROBLEMS: dict[type[BaseException], str] = {
    FileNotFoundError: "there is no such file",
    IsADirectoryError: "this is a folder",
}
WHOLE = "a whole Parquet file: fetch it again, or write it again from where it came from"


def ask_parquet(file: Path, question: Callable[[pl.LazyFrame], Answer]) -> Answer:
    """The result of a query on a Parquet file; errors of the reader become a `DataError` that says what to do."""
    try:
        # Neither wildcards nor key=value folders in the path have a meaning here.
        return question(pl.scan_parquet(file, glob=False, hive_partitioning=False))
    except (PolarsError, PanicException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | DataError):
            raise
        raise DataError(f"this Parquet file is damaged ({_reason(error)})", file=file, expected=WHOLE) from error


@contextmanager
def named_faults(file: Path, expected: str) -> Iterator[None]:
    """Turn any error about a file into a `DataError` that names it, so that parsers need not know its name."""
    try:
        yield
    except DataError as error:
        if error.file is not None:
            raise
        raise error.in_file(file) from error
    except InvalidParameterError:
        raise
    except PermissionError as error:
        raise DataError("permission to read the file is denied", file=file, expected="a readable file") from error
    except (OSError, ValueError, ArithmeticError, PolarsError, PanicException) as error:
        problem = _PROBLEMS.get(type(error), f"the file cannot be read ({_reason(error)})")
        raise DataError(problem, file=file, expected=expected) from error


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
