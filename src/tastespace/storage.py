"""One process at a time: a lock on a file, which the system takes back when its holder ends, however it ends."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tastespace.errors import DataError
from tastespace.progress import Observer, Progress, silent

POLL = 0.2  # seconds between two looks at a lock that another process holds

if sys.platform == "win32":
    import msvcrt

    def _lock(stream: BinaryIO) -> None:
        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)

    def _unlock(stream: BinaryIO) -> None:
        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(stream: BinaryIO) -> None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(stream: BinaryIO) -> None:
        fcntl.flock(stream, fcntl.LOCK_UN)


@contextmanager
def held(file: Path, observer: Observer = silent) -> Iterator[None]:
    """Hold the lock of this file; wait for whoever has it now, and say so."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = file.open("ab")
    except OSError as error:
        raise DataError(
            f"{file.parent} cannot be written ({error.strerror or error})",
            expected="a folder that can; choose one with --cache or TASTESPACE_CACHE",
        ) from error
    with stream:
        began = time.monotonic()
        while not _is_locked(stream, file):
            observer(Progress("waiting for another process", int(time.monotonic() - began)))
            time.sleep(POLL)
        try:
            yield
        finally:
            _unlock(stream)


def _is_locked(stream: BinaryIO, file: Path) -> bool:
    try:
        _lock(stream)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise DataError(
            f"{file} cannot be locked ({error.strerror or error})",
            expected="a disk that knows locks; choose one with --cache or TASTESPACE_CACHE",
        ) from error
    return True


LOCK = ".lock"


class FolderLock:
    """Held until it is released or forgotten, or its process ends, however that comes about."""

    def __init__(self, folder: Path) -> None:
        """Raises BlockingIOError if somebody else holds it. Where there are no locks it holds nothing."""
        self._file: BinaryIO | None = (folder / LOCK).open("ab")
        try:
            _lock(self._file)
        except BlockingIOError:
            self.release()
            raise
        except OSError:  # A file system without locks.
            self.release()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.release()
