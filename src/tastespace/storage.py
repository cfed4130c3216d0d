"""Safe writes to disk: atomic files and folders, locks, checksums.

Everything that is kept (artifacts, checkpoints, versions, caches, downloads, tables) is written through this module.
Files being written have names that end in `.unfinished`, beside their final location, and are synced to disk before
they are renamed.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import math
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import ArtifactError, DataError
from tastespace.progress import Observer, Progress, silent

LOCK = ".lock"  # the lock file of a folder
POLL = 0.2  # seconds between two tries to take a lock that another process holds
UNFINISHED = ".unfinished"
_LEFT_OVER = re.compile(r"\..+-[0-9a-f]{8}" + re.escape(UNFINISHED))
_PART = 1 << 20  # bytes read at a time
_MAX_MARKS = 1000  # sets of verified files that the cache remembers
# The names of the types that we write in the safetensors format.
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16}
_DTYPES |= {"U8": np.uint8}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # another process holds the lock


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces this path when the block ends; a failure leaves the old file unchanged."""
    beside = _beside(path)
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
        _sync(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def replace_folder(path: Path, *, keep: bool = False) -> Iterator[Path]:
    """Create a new folder that replaces this path when the block ends; a failure leaves the old folder unchanged.

    If the system can exchange two folders, the path always exists; else it is missing for a moment. With `keep` the
    folder of another writer that was faster stays.
    """
    beside = _beside(path)
    beside.mkdir()
    try:
        yield beside
        for entry in beside.iterdir():
            _sync(entry)
        _sync(beside)
        if not (keep and path.exists()):
            _exchange(beside, path)
            _sync(path.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Delete unfinished files of killed writers; only for folders that one process at a time writes to."""
    for entry in folder.iterdir():
        if _LEFT_OVER.fullmatch(entry.name):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def link(source: Path, place: Path) -> None:
    """Hard-link a file, or copy it if the file system has no hard links."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


def digest_of(file: Path, algorithm: str = "sha256", n_bytes: int | None = None) -> str:
    """The checksum of a file, or of its first bytes: sha256 or md5, as hexadecimal digits."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    left = file.stat().st_size if n_bytes is None else n_bytes
    with file.open("rb") as stream:
        while part := stream.read(min(left, _PART)):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, memory-mapped and read-only; sizes are checked before anything is read."""
    damaged = ArtifactError(f"{path} is damaged; fit or copy the artifact again")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise damaged
        header = json.loads(file.read(length))
    start = 8 + length
    data: NDArray[Any] = np.memmap(path, np.uint8, "r", offset=start) if size > start else np.zeros(0, np.uint8)
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, (first, stop) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        is_shape = all(isinstance(length, int) and length >= 0 for length in shape)
        if not is_shape or not 0 <= first <= stop <= len(data) or stop - first != math.prod(shape) * dtype.itemsize:
            raise damaged
        arrays[name] = np.asarray(data[first:stop]).view(dtype).reshape(shape)
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a safetensors file, not yet synced: for a folder that is being written."""
    from safetensors.numpy import save_file

    # The writer silently scrambles arrays that are not C-ordered.
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    path.chmod(0o644)  # It also creates files that only the owner can read.


def changed_files(digests: Mapping[Path, str], *, always: bool = False) -> list[Path]:
    """The files whose SHA-256 has changed; verified once on each computer, or `always`.

    A successful check is remembered in the user's cache, for files of the same size, time and location.
    """
    stats = [(file.stat(), digest) for file, digest in digests.items()]
    known = [[stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_dev, digest] for stat, digest in stats]
    name = hashlib.sha256(json.dumps([platform.node(), known]).encode()).hexdigest()
    mark = cache_folder() / "verified" / name
    if mark.exists() and not always:
        return []
    changed = [file for file, digest in digests.items() if digest_of(file) != digest]
    with suppress(OSError):  # If it cannot be remembered, the next load verifies again.
        if not changed:
            mark.parent.mkdir(parents=True, exist_ok=True)
            for old in sorted(mark.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)[: 1 - _MAX_MARKS]:
                old.unlink(missing_ok=True)
            mark.touch()
    return changed


def cache_folder(chosen: Path | None = None) -> Path:
    """The chosen folder, or `$TASTESPACE_CACHE`, or the usual location of the platform."""
    if named := chosen or os.environ.get("TASTESPACE_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tastespace" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tastespace"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tastespace"


class Lock:
    """A lock on a file, held until it is released or its process ends, for whatever reason."""

    _file: BinaryIO | None = None

    def __init__(self, file: Path, *, is_required: bool = False) -> None:
        """Take the lock; raises BlockingIOError if another process holds it.

        On a file system without locks it holds nothing, or raises OSError if it `is_required`.
        """
        self._file = file.open("ab")
        try:
            _lock(self._file)
        except OSError as error:
            self.release()
            if error.errno in _BUSY:
                raise BlockingIOError(error.errno, error.strerror) from error
            if is_required:
                raise

    def release(self) -> None:
        if self._file is not None:  # None if it could not be opened
            self._file.close()

    def __del__(self) -> None:
        self.release()


@contextmanager
def locked(file: Path, observer: Observer = silent) -> Iterator[None]:
    """Hold the lock of this file; wait for the process that has it, and report the waiting."""
    began, lock = time.monotonic(), None
    problem = f"{file.parent} cannot be written"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
        problem = f"{file} cannot be locked"
        while lock is None:
            try:
                lock = Lock(file, is_required=True)
            except BlockingIOError:
                observer(Progress("waiting for another process", int(time.monotonic() - began)))
                time.sleep(POLL)
    except OSError as error:
        expected = "a folder that can be written and locked; choose one with --cache or TASTESPACE_CACHE"
        raise DataError(f"{problem} ({error.strerror or error})", expected=expected) from error
    try:
        yield
    finally:
        lock.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(stream: BinaryIO) -> None:
        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(stream: BinaryIO) -> None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}{UNFINISHED}")


def _sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk; Windows does not sync folders."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(new: Path, path: Path) -> None:
    """Exchange two folders."""
    if not path.exists():
        new.rename(path)
    elif not _exchange_names(new, path):
        old = _beside(path)
        path.rename(old)
        try:
            new.rename(path)
        except BaseException:  # Also when interrupted: the old folder is moved back.
            old.rename(path)
            raise
        old.rename(new)


def _exchange_names(one: Path, other: Path) -> bool:
    """Exchange two names atomically; False if the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # an old C library
        return False
    return bool(exchange(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
