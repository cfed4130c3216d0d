"""Ratings to files, so that reading them gives the same ratings.

Text: a header, then user, item, rating and perhaps time. String ids are quoted and integers are not, so that the reader
can distinguish "7" from 7. A rating is the shortest text that means the same number in single precision.
"""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Protocol

import polars as pl
import zstandard

from tastespace.data.ratings import Ratings
from tastespace.errors import DataError
from tastespace.storage import replace_file

AnyPath = str | os.PathLike[str]
ROWS_AT_A_TIME = 1_000_000
SEPARATORS = {".csv": ",", ".tsv": "\t"}
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
_EXPECTED = "a name that ends in .csv, .tsv, .csv.gz, .tsv.gz, .csv.zst, .tsv.zst or .parquet"
_REASONS = {
    errno.ENOENT: "the folder does not exist",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.EISDIR: "there is a folder of that name",
    errno.EACCES: "permission to write is denied",
    errno.EPERM: "permission to write is denied",
    errno.EROFS: "the disk cannot be written to",
    errno.ENOSPC: "the disk is full",
    errno.ENAMETOOLONG: "the name is too long",
}


class Sink(Protocol):
    """Anything that takes bytes."""

    def write(self, data: bytes, /) -> int: ...


# Compressors of streams: the same ratings give the same bytes whenever they are written.
_PACKERS: Mapping[str, Callable[[IO[bytes]], AbstractContextManager[Sink]]] = {
    ".gz": lambda stream: gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6),
    ".zst": lambda stream: zstandard.ZstdCompressor().stream_writer(stream, closefd=False),
}


def write(ratings: Ratings, path: AnyPath) -> None:
    """Write ratings in the format of the suffix; an older file stays intact until the new one is complete."""
    file = Path(path)
    writer = writer_of(file)
    target = file.resolve()  # The target of a link is replaced, not the link.
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with replace_file(target) as stream:
            writer(ratings, stream)
    except (OSError, pl.exceptions.PolarsError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = _REASONS.get(number or 0) or str(error).strip() or type(error).__name__
        raise DataError(f"the file cannot be written: {reason}", file=file) from error


def writer_of(file: Path) -> Callable[[Ratings, IO[bytes]], None]:
    """The writer for a file of this name; an unknown suffix is an error."""
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    if suffixes[-1:] == [".parquet"]:
        return lambda ratings, stream: ratings.to_polars().write_parquet(stream)
    packed = _PACKERS[suffixes.pop()] if suffixes and suffixes[-1] in _PACKERS else nullcontext
    separator = SEPARATORS.get(suffixes[-1]) if suffixes else None
    if separator is None:
        raise DataError(f"the suffix {''.join(file.suffixes)!r} is of no known format", file=file, expected=_EXPECTED)

    def write_packed(ratings: Ratings, stream: IO[bytes]) -> None:
        with packed(stream) as inner:
            _write_text(ratings, inner, separator)

    return write_packed


def _write_text(ratings: Ratings, stream: Sink, separator: str) -> None:
    names = ["user", "item", "rating"] + ([] if ratings.times is None else ["time"])
    stream.write((separator.join(names) + "\n").encode())
    users, items = _as_written(ratings.users.ids), _as_written(ratings.items.ids)
    for start in range(0, len(ratings), ROWS_AT_A_TIME):
        here = slice(start, start + ROWS_AT_A_TIME)
        columns = {
            "user": users.gather(pl.Series(ratings.user_rows[here])),
            "item": items.gather(pl.Series(ratings.item_rows[here])),
            "rating": pl.Series(ratings.values[here]),
        }
        if ratings.times is not None:
            columns["time"] = pl.Series(ratings.times[here].astype("datetime64[ms]"))
        # Our own quotation marks, so that exactly the strings have them, whatever they contain.
        text = pl.DataFrame(columns).write_csv(
            include_header=False, separator=separator, quote_style="never", datetime_format=TIME_FORMAT
        )
        stream.write(text.encode())


def _as_written(ids: pl.Series) -> pl.Series:
    if ids.dtype != pl.String:
        return ids
    return '"' + ids.str.replace_all('"', '""', literal=True) + '"'
