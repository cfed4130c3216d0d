"""One checkpoint in one file: written whole or not at all, and known to be whole when it is read.

    tastespace checkpoint 1\\n     what it is, and the version of the format
    {...}\\n                       JSON: whose it is, and how the arrays fit together
    arrays                        one after another, in numpy's own format
    32 bytes                      SHA-256 of all that stands before

First line and last bytes stay in all versions, so that a newer file can be told from a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from numpy.lib.format import read_array, write_array

from tastespace.errors import CheckpointError
from tastespace.inference.packing import Arrays, pack, unpack

MAGIC, FORMAT_VERSION = b"tastespace checkpoint ", 1
UNFINISHED = ".unfinished"  # how names of files end that are being written
DIGEST_BYTES = 32
PART = 1 << 20  # bytes read at a time


class DamagedError(CheckpointError):
    """The file is not what was written."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file holds; the value is put together only when it is asked for, by whoever knows that it is his."""

    label: Mapping[str, Any]  # whose it is
    described: Any
    arrays: Arrays

    def value(self) -> Any:
        return unpack(self.described, self.arrays)


class _Hashing:
    """A stream that sums up what goes through it; also hides that it is a file, whose errors numpy would not tell."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.stream.write(data)


def write(path: Path, label: Mapping[str, Any], value: Any) -> None:
    """Write a file; one of that name stays whole until the new one is. Raises OSError, and leaves nothing behind."""
    described, arrays = pack(value)
    header = json.dumps({"label": label, "value": described, "arrays": len(arrays)})
    beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with beside.open("xb") as file:
            stream = _Hashing(file)
            stream.write(MAGIC + b"%d\n" % FORMAT_VERSION)
            stream.write(header.encode() + b"\n")
            for array in arrays:
                write_array(stream, array, allow_pickle=False)
            file.write(stream.digest.digest())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _settle(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink()


def read(path: Path) -> Stored:
    """What a file holds. Nothing of it is looked at before its checksum is found right."""
    try:
        with path.open("rb") as file:
            _require_whole(file)
            _require_known(file.readline())
            header = json.loads(file.readline())
            arrays = [read_array(file, allow_pickle=False) for _ in range(header["arrays"])]
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        raise DamagedError(f"it cannot be read: {error.strerror or error}") from error
    return Stored(header["label"], header["value"], arrays)


def _require_whole(file: IO[bytes]) -> None:
    left = file.seek(0, os.SEEK_END) - DIGEST_BYTES
    if left < 0:
        raise DamagedError("it is cut off")
    file.seek(0)
    digest = hashlib.sha256()
    while left:
        part = file.read(min(left, PART))
        if not part:
            raise DamagedError("it is cut off")
        digest.update(part)
        left -= len(part)
    if file.read() != digest.digest():
        raise DamagedError("its checksum is wrong")
    file.seek(0)


def _require_known(first: bytes) -> None:
    version = first.removeprefix(MAGIC).strip()
    if not first.startswith(MAGIC) or not version.isdigit():
        raise DamagedError("it is of another program")
    if int(version) != FORMAT_VERSION:
        raise CheckpointError(
            f"a checkpoint has format version {int(version)}; this tastespace reads {FORMAT_VERSION}: go on with the "
            "version that wrote it, or start afresh in another folder"
        )


def _settle(folder: Path) -> None:
    """The name, too, is on the disk; Windows has no way to ask for that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
