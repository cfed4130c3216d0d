"""One run at a time in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Not on every system.
    fcntl = None

LOCK = ".lock"


class FolderLock:
    """Held until it is released or forgotten, or its process ends, however that comes about."""

    def __init__(self, folder: Path) -> None:
        """Raises BlockingIOError if somebody else holds it. Where there are no locks it holds nothing."""
        self._file: int | None = None
        if fcntl is None:
            return
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise
        except OSError:  # A file system without locks.
            self.release()

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.release()
