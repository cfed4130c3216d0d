"""Taste maps of the versions that answer: made once, outside of requests, and kept in the state folder."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save

from tastespace.errors import TastespaceError
from tastespace.report.taste_map import TasteMap, map_content, taste_map
from tastespace.service.live_model import Loaded, Versions
from tastespace.storage import Lock, read_arrays, replace_file

log = logging.getLogger("tastespace.service")
MAX_WAIT = 3.0  # seconds that a request waits: most maps are ready by then
Key = tuple[str, str]  # version and method


class Maps:
    """Maps by version and method; one worker makes a map, in its own thread, and the others read it from the folder."""

    def __init__(self, folder: Path, versions: Versions) -> None:
        self._folder, self._versions = folder, versions
        self._made: dict[Key, TasteMap] = {}
        self._written: dict[Key, bytes] = {}
        self._making: dict[Key, threading.Thread] = {}
        self._failed: dict[Key, Exception] = {}
        self._lock = threading.Lock()

    def get(self, loaded: Loaded, method: str, wait: float = MAX_WAIT) -> TasteMap | None:
        """The map of a version; None while it is being made. A map that cannot be made is an error."""
        key = (loaded.version, method)
        with self._lock:
            self._forget_others(loaded.version)
            self._raise_failure(key)
            if key in self._made:
                return self._made[key]
            thread = self._making.get(key)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._make, args=(loaded, method), name=f"map-{method}", daemon=True)
                self._making[key] = thread
                thread.start()
        thread.join(wait)
        with self._lock:
            self._raise_failure(key)
            return self._made.get(key)

    def content(self, loaded: Loaded, method: str) -> bytes | None:
        """The map as JSON, which is kept: that of ten thousand items takes a while to write."""
        shown, key = self.get(loaded, method), (loaded.version, method)
        if shown is None:
            return None
        written = self._written.get(key)
        if written is None:
            content = {"model": loaded.version, **map_content(loaded.recommender, shown)}
            written = self._written[key] = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        return written

    def _raise_failure(self, key: Key) -> None:
        """Raise the error of a failed map; one that may be temporary is tried again with the next request."""
        error = self._failed.get(key)
        if error is None:
            return
        if not isinstance(error, TastespaceError):
            del self._failed[key]
        raise error.with_traceback(None)  # The traceback would grow with every request.

    def _forget_others(self, version: str) -> None:
        """Drop the maps of other versions from memory; their files stay, for a rollback."""
        self._made = {key: value for key, value in self._made.items() if key[0] == version}
        self._written = {key: value for key, value in self._written.items() if key[0] == version}
        self._failed = {key: value for key, value in self._failed.items() if key[0] == version}

    def _make(self, loaded: Loaded, method: str) -> None:
        key, path = (loaded.version, method), self._folder / loaded.version / f"{method}.safetensors"
        try:
            shown = self._read_or_make(loaded, method, path)
        except Exception as error:  # Raised by the next request.
            if not isinstance(error, TastespaceError):
                log.exception("a map by %s cannot be made", method)
            with self._lock:
                self._failed[key] = error
            return
        if shown is not None:
            with self._lock:
                self._made[key] = shown

    def _read_or_make(self, loaded: Loaded, method: str, path: Path) -> TasteMap | None:
        """The map from its file, or a new one; None while another worker makes it."""
        n_items = loaded.recommender.ratings_.n_items
        shown = _read(path, method, n_items)
        if shown is not None:
            return shown
        with _alone(path) as is_ours:
            if not is_ours:
                return None
            shown = _read(path, method, n_items)  # Another worker may have finished just now.
            if shown is None:
                shown = taste_map(loaded.recommender, method)
                self._write(path, shown)
        return shown

    def _write(self, path: Path, shown: TasteMap) -> None:
        """Write the map atomically; where that is not possible it is not kept."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as stream:
                stream.write(save(_arrays(shown)))
            for entry in self._folder.iterdir():
                if not self._versions.path(entry.name).is_dir():  # No rollback is possible.
                    shutil.rmtree(entry, ignore_errors=True)
        except (OSError, SafetensorError) as error:
            log.error("a map cannot be kept in %s: %s", self._folder, error)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other process makes this map; the claim ends with the process, however that ends."""
    lock = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path.with_suffix(".making"))
    except BlockingIOError:
        yield False
        return
    except OSError:  # Nothing can be written here: it is made for this worker alone.
        pass
    try:
        yield True
    finally:
        if lock is not None:
            lock.release()


def _arrays(shown: TasteMap) -> dict[str, np.ndarray]:
    explained = np.nan if shown.explained is None else shown.explained
    arrays = {"item_rows": shown.item_rows, "places": shown.places, "usual": shown.usual}
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()} | {"explained": np.array([explained])}


def _read(path: Path, method: str, n_items: int) -> TasteMap | None:
    """The map from its file; None if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        found = {name: np.array(array) for name, array in read_arrays(path).items()}
        rows, places, usual = found["item_rows"], found["places"], found["usual"]
        explained = float(found["explained"][0])
        if places.shape != (len(rows), 2) or usual.shape != rows.shape:
            raise ValueError("its arrays have different lengths")
        if not (np.isfinite(places).all() and np.isfinite(usual).all()):
            raise ValueError("it has places that are not finite")
        if not len(rows) or rows.dtype != np.int32 or rows.min() < 0 or rows.max() >= n_items:
            raise ValueError("it has unknown items")
        return TasteMap(method, rows, places, usual, None if np.isnan(explained) else explained)
    except (TastespaceError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        log.warning("the map %s cannot be read and is made again: %s", path, error)
        return None
