"""Safe writes to disk: atomic files and folders, locks, checksums.

Everything that is kept (artifacts, checkpoints, versions, caches, downloads, tables) is written through this module.
Files being written have names that end in `.unfinished`, beside their final location, and are synced to disk before
they are renamed. What a killed writer left is known by its lock, which ended with it.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import ArtifactError, DataError
from tastespace.progress import Observer, Progress, silent

if TYPE_CHECKING:
    import polars as pl

LOCK = ".lock"  # the lock file of a folder
POLL = 0.2  # seconds between two tries to take a lock that another process holds
UNFINISHED, REPLACED = ".unfinished", ".replaced"
_LEFT_OVER = re.compile(r"\..+-[0-9a-f]{8}" + re.escape(UNFINISHED))
_PART = 1 << 20  # bytes read at a time
BLOCK = 16 << 20  # bytes of a file that one thread digests
BLOCKS = "blocks:"  # prefix of the checksum of a file that is longer
_MAX_MARKS = 1000  # sets of verified files that the cache remembers
# The names of the types that we write in the safetensors format.
_DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16}
_DTYPES |= {"U8": np.uint8}
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux
_CLONE = 0x40049409  # FICLONE of Linux: a copy that shares blocks until one of the two is written to
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # another process holds the lock


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces this path when the block ends; a failure leaves the old file unchanged.

    A device or a pipe is not replaced but written to.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            yield stream
        return
    _remove_left_over(path)
    beside = _beside(path)
    try:
        with beside.open("xb") as stream:
            _hold(stream.fileno())
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

    If the system can exchange two folders, the path always exists; else it is missing for a moment, and `recover` puts
    the old folder back if the process ends in this moment. With `keep` the folder of another writer that was faster
    stays.
    """
    recover(path)
    _remove_left_over(path)
    beside, held = _new_folder(path)
    try:
        yield beside
        for entry in beside.iterdir():
            _sync(entry)
        _sync(beside)
        if not (keep and path.exists()):
            _exchange(beside, path)
            _sync(path.parent)
    finally:
        remove_folder(beside)
        _release(held)


def recover(path: Path) -> None:
    """Put back the folder that a killed writer had moved away to replace it; wait for a writer that is at work."""
    moved = _replaced(path)
    while not path.exists() and moved.exists():
        with suppress(OSError):
            held = _opened(moved)
            if held is None or _hold(held):  # On Windows nobody knows.
                try:
                    if not path.exists():
                        moved.rename(path)
                        _sync(path.parent)
                finally:
                    _release(held)
                return
            _release(held)
        time.sleep(POLL)


def remove_unfinished(folder: Path) -> None:
    """Delete unfinished files of killed writers; only for folders that one process at a time writes to."""
    for entry in folder.iterdir():
        if _LEFT_OVER.fullmatch(entry.name):
            remove_folder(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def left_over(path: Path) -> list[Path]:
    """What killed writers of this path have left beside it; the next writer removes it."""
    name = re.compile(re.escape(f".{path.name[:100]}-") + r"[0-9a-f]{8}" + re.escape(UNFINISHED))
    moved = _replaced(path)
    return [*_abandoned(path.parent, name), *([moved] if path.exists() and moved.exists() else [])]


def remove_abandoned(folder: Path) -> None:
    """Delete unfinished files of killed writers; for folders that several processes write to."""
    for entry in _abandoned(folder, _LEFT_OVER):
        remove_folder(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Delete a folder as far as possible, also one that is read-only."""
    with suppress(OSError):
        path.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def link(source: Path, place: Path) -> None:
    """Hard-link a file, or copy it if the file system has no hard links."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copy2(source, place)


def copy(source: Path, place: Path) -> str:
    """Copy a file, sharing its blocks if the file system can; the checksum of the copy."""
    with source.open("rb") as old, place.open("xb") as new:
        if _clone(old, new):
            return checksum_of(place)
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
    return _joined(_digests([(source, place, start) for start in _starts(size)]))


def checksum_of(file: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits, by all cores.

    That of a file of more than one block is `blocks:` and the SHA-256 of the SHA-256s of its blocks.
    """
    return _joined(_digests([(file, None, start) for start in _starts(file.stat().st_size)]))


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
        try:
            header = dict(json.loads(file.read(length)))
        except (ValueError, TypeError, RecursionError) as error:
            raise damaged from error
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
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # The writer silently scrambles arrays that are not C-ordered.
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from error
    path.chmod(0o644)  # It also creates files that only the owner can read.


def write_table(path: Path, table: pl.DataFrame) -> None:
    """Write a Parquet file, not yet synced: for a folder that is being written."""
    content = BytesIO()  # polars only takes paths that are Unicode, and has errors of its own for full disks.
    table.write_parquet(content)
    path.write_bytes(content.getbuffer())


def changed_files(checksums: Mapping[Path, str], found: Mapping[Path, str] | None = None) -> list[Path]:
    """The files that have another checksum; some may have been found before."""
    changed, found = [], found or {}
    for file, checksum in checksums.items():
        # Artifacts had plain checksums at first, also of files of several blocks.
        is_plain = not checksum.startswith(BLOCKS)
        if is_plain and not (file in found and found[file] == checksum):
            now = digest_of(file)
        else:
            now = found.get(file) or checksum_of(file)
        if now != checksum:
            changed.append(file)
    return changed


class Mark:
    """The memory that files were found whole, for files of the same size, time, location and checksum.

    It is kept in the user's cache, for this computer.
    """

    def __init__(self, checksums: Mapping[Path, str]) -> None:
        found = [(file.stat(), checksum) for file, checksum in checksums.items()]
        known = [[each.st_size, each.st_mtime_ns, each.st_ino, each.st_dev, checksum] for each, checksum in found]
        name = hashlib.sha256(json.dumps([platform.node(), known]).encode()).hexdigest()
        self._file = cache_folder() / "verified" / name

    def exists(self) -> bool:
        with suppress(OSError):
            return self._file.exists()
        return False

    def set(self) -> None:
        with suppress(OSError):  # If it cannot be remembered, the next load verifies again.
            folder = self._file.parent
            folder.mkdir(parents=True, exist_ok=True)
            for old in sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime)[: 1 - _MAX_MARKS]:
                old.unlink(missing_ok=True)
            self._file.touch()

    def remove(self) -> None:
        with suppress(OSError):
            self._file.unlink()


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


def _clone(old: IO[bytes], new: IO[bytes]) -> bool:
    """Let the new file share the blocks of the old one; False if the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
    except OSError:
        return False
    return True


def _hold(handle: int | None) -> bool:
    """Lock an open file or folder until it is closed or the process ends; False if another process holds the lock.

    Also False where there are no locks.
    """
    if sys.platform == "win32" or handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _opened(path: Path) -> int | None:
    """A handle to lock a file or folder by; None on Windows."""
    return None if os.name != "posix" else os.open(path, os.O_RDONLY)


def _release(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _new_folder(path: Path) -> tuple[Path, int | None]:
    """A folder beside this path, and the handle that locks it."""
    while True:
        beside = _beside(path)
        beside.mkdir()
        with suppress(FileNotFoundError):  # Another writer may have taken it for a leftover.
            held = _opened(beside)
            _hold(held)
            if beside.exists():
                return beside, held
            _release(held)


def _abandoned(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """The entries of this name that no process holds."""
    if os.name != "posix":  # Without locks on folders nobody knows whether the writer is at work.
        return []
    found = []
    for entry in [entry for entry in folder.iterdir() if name.fullmatch(entry.name)]:
        with suppress(OSError):
            held = _opened(entry)
            if _hold(held):
                found.append(entry)
            _release(held)
    return found


def _remove_left_over(path: Path) -> None:
    with suppress(OSError):
        for entry in left_over(path):
            remove_folder(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def _starts(size: int) -> range:
    return range(0, max(size, 1), BLOCK)


def _digests(blocks: list[tuple[Path, Path | None, int]]) -> list[bytes]:
    """The SHA-256 of blocks of files, copied into the same places of other files where there are such."""
    if len(blocks) == 1:
        return [_digest(*blocks[0])]
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(n_cores) as pool:
        return list(pool.map(_digest, *zip(*blocks, strict=True)))


def _digest(source: Path, place: Path | None, start: int) -> bytes:
    digest, left = hashlib.sha256(usedforsecurity=False), BLOCK
    with source.open("rb", buffering=0) as old, (place or Path(os.devnull)).open("r+b", buffering=0) as new:
        old.seek(start)
        if place is not None:
            new.seek(start)
        while part := old.read(min(left, _PART)):
            digest.update(part)
            left -= len(part)
            while place is not None and part:
                part = part[new.write(part) :]
    return digest.digest()


def _joined(digests: list[bytes]) -> str:
    if len(digests) == 1:
        return digests[0].hex()
    return BLOCKS + hashlib.sha256(b"".join(digests), usedforsecurity=False).hexdigest()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}{UNFINISHED}")


def _replaced(path: Path) -> Path:
    """Where a folder is while another one takes its place, if the two cannot be exchanged."""
    known = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]
    return path.with_name(f".{path.name[:100]}-{known}{REPLACED}")


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
    """Put a new folder in the place of a path, and the old one in its own."""
    if not path.exists():
        new.rename(path)
    elif not _exchange_names(new, path):
        moved, held = _replaced(path), _opened(path)
        _hold(held)  # Nobody takes it for that of a killed writer.
        try:
            remove_folder(moved)
            path.rename(moved)
            try:
                new.rename(path)
            except BaseException:  # Also when interrupted: the old folder is moved back.
                moved.rename(path)
                raise
            _sync(path.parent)
            with suppress(FileNotFoundError):  # Another writer may have removed it already.
                moved.rename(new)
        finally:
            _release(held)


def _exchange_names(one: Path, other: Path) -> bool:
    """Exchange two names atomically; False if the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # an old C library
        return False
    return bool(exchange(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
