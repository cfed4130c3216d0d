"""The content of files, compressed or not: formats are recognised by their first bytes, faults become errors."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Literal, TypeVar

import polars as pl
import zstandard
from polars.exceptions import PanicException, PolarsError

from tastespace.errors import DataError, InvalidParameterError

Compression = Literal["gzip", "zstd"]
# A file of this much more than it takes on the disk was made to fill memory. Ratings take a tenth of their text.
MAX_RATIO, MIN_LIMIT = 200, 64 << 20  # bytes of text for a byte of a compressed file; and at least so many in all
MAX_ROWS_A_BYTE, MIN_ROWS = 50, 1_000_000  # rows for a byte of a Parquet file; and at least so many in all
_PIECE = 4096  # bytes unpacked at a time: they are a hundred megabytes at most
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
    if compression is None:
        with file.open("rb") as stream:
            return stream.read(n)
    limit = max(MIN_LIMIT, MAX_RATIO * file.stat().st_size)
    try:
        with file.open("rb") as stream:
            content = _PLAIN[compression](stream, limit + 1 if n < 0 else n)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        problem = f"the {compression} file is cut off or damaged ({error})"
        raise DataError(problem, file=file, expected="a whole one") from error
    if n < 0 and len(content) > limit:
        problem = f"the {compression} file holds more than {limit / 1e6:,.0f} MB, over {MAX_RATIO} times its size"
        raise DataError(problem, file=file, expected="ratings, which do not shrink so much; unpack it if it is right")
    return content


def _gunzipped(stream: IO[bytes], n: int) -> bytes:
    """The first n bytes of all members of a gzip file."""
    return gzip.GzipFile(fileobj=stream).read(n)


def _unpacked(stream: IO[bytes], n: int) -> bytes:
    """The first n bytes of all frames of a zstd file; a streaming reader would not notice that the last is cut off."""
    frame, content, packed, is_between = _frame(), bytearray(), b"", True
    while len(content) < n and (packed := packed or stream.read(_PIECE)):
        content += frame.decompress(packed)
        is_between, packed = frame.eof, frame.unused_data if frame.eof else b""
        if frame.eof:
            frame = _frame()
    if len(content) < n and not is_between:
        raise EOFError("the file ended before the end of a frame")
    return bytes(content[:n])


def _frame() -> zstandard.ZstdDecompressionObj:
    return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()


_PLAIN: dict[Compression, Callable[[IO[bytes], int], bytes]] = {"gzip": _gunzipped, "zstd": _unpacked}


_PROBLEMS: dict[type[BaseException], str] = {
    FileNotFoundError: "there is no such file",
    IsADirectoryError: "this is a folder",
}
WHOLE = "a whole Parquet file: fetch it again, or write it again from where it came from"


def ask_parquet(file: Path, question: Callable[[pl.LazyFrame], Answer]) -> Answer:
    """The result of a query on a Parquet file; errors of the reader become a `DataError` that says what to do."""
    try:
        return question(scan_parquet(file))
    except (PolarsError, PanicException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | DataError):
            raise
        raise DataError(f"this Parquet file is damaged ({_reason(error)})", file=file, expected=WHOLE) from error


def scan_parquet(file: Path) -> pl.LazyFrame:
    """The table of a Parquet file, of which nothing is read yet but the number of rows."""
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        # polars takes only paths that are Unicode.
        source = file if _is_unicode(file) else BytesIO(stream.read())
    # Neither wildcards nor key=value folders in the path have a meaning here.
    table = pl.scan_parquet(source, glob=False, hive_partitioning=False)
    n, limit = table.select(pl.len()).collect().item(), max(MIN_ROWS, MAX_ROWS_A_BYTE * size)
    if n > limit:
        raise DataError(
            f"the Parquet file says that it has {n:,} rows, in {size:,} bytes",
            file=file,
            expected=f"at most {limit:,} in a file of this size; write it again without compression if it is right",
        )
    return table


def _is_unicode(file: Path) -> bool:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return False
    return True


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
