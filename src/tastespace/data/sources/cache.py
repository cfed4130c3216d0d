"""Where downloaded data sets are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(chosen: Path | None = None) -> Path:
    """The folder that was chosen, or `$TASTESPACE_CACHE`, or the usual place of the platform."""
    if chosen is not None:
        return Path(chosen).expanduser()
    if named := os.environ.get("TASTESPACE_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tastespace" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tastespace"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tastespace"


def files_folder(name: str, cache: Path | None = None) -> Path:
    """Where the unpacked files of a data set are, once they are there."""
    return cache_folder(cache) / name / "files"


def is_cached(name: str, cache: Path | None = None) -> bool:
    return files_folder(name, cache).is_dir()
