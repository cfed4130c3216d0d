"""Taste maps of the versions that answer: made once, outside of requests, and kept in the state folder."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from concurrent.futures import Future, wait
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
        self._made: dict[Key, Future[TasteMap | None]] = {}  # also what is being made, or failed
        self._written: dict[Key, bytes] = {}
        self._lock = threading.Lock()

    def get(self, loaded: Loaded, method: str, seconds: float = MAX_WAIT) -> TasteMap | None:
        """The map of a version; None while it is being made. A map that cannot be made is an error."""
        key = (loaded.version, method)
        with self._lock:
            # The maps of other versions leave the memory; their files stay, for a rollback.
            self._made = {known: future for known, future in self._made.items() if known[0] == loaded.version}
            self._written = {known: text for known, text in self._written.items() if known[0] == loaded.version}
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = Future()
                work = (made, loaded, method)
                threading.Thread(target=self._make, args=work, name=f"map-{method}", daemon=True).start()
        wait([made], seconds)
        if not made.done():
            return None
        error = made.exception()
        if error is None and (shown := made.result()) is not None:
            return shown
        if not isinstance(error, TastespaceError):  # Another worker makes it, or it may be temporary: tried again.
            with self._lock:
                self._made.pop(key, None)
        if error is not None:
            raise error.with_traceback(None)  # The traceback would grow with every request.
        return None

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

    def _make(self, made: Future[TasteMap | None], loaded: Loaded, method: str) -> None:
        try:
            made.set_result(self._read_or_make(loaded, method))
        except Exception as error:  # Raised by the next request.
            if not isinstance(error, TastespaceError):
                log.exception("a map by %s cannot be made", method)
            made.set_exception(error)

    def _read_or_make(self, loaded: Loaded, method: str) -> TasteMap | None:
        """The map from its file, or a new one; None while another worker makes it."""
        path, n_items = self._folder / loaded.version / f"{method}.safetensors", loaded.recommender.ratings_.n_items
        shown = _read(path, method, n_items)
        if shown is not None:
            return shown
        lock = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = Lock(path.with_suffix(".making"))  # It ends with the process, however that ends.
        except BlockingIOError:
            return None
        except OSError:  # Nothing can be written here: it is made for this worker alone.
            pass
        try:
            shown = _read(path, method, n_items)  # Another worker may have finished just now.
            if shown is None:
                shown = taste_map(loaded.recommender, method)
                self._write(path, shown)
        finally:
            if lock is not None:
                lock.release()
        return shown

    def _write(self, path: Path, shown: TasteMap) -> None:
        """Write the map atomically; where that is not possible it is not kept."""
        arrays = {"item_rows": shown.item_rows, "places": shown.places, "usual": shown.usual}
        arrays["min_ratings"] = np.array([shown.min_ratings])
        arrays["explained"] = np.array([np.nan if shown.explained is None else shown.explained])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as stream:
                stream.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
            for entry in self._folder.iterdir():
                if not self._versions.path(entry.name).is_dir():  # No rollback is possible.
                    shutil.rmtree(entry, ignore_errors=True)
        except (OSError, SafetensorError) as error:
            log.error("a map cannot be kept in %s: %s", self._folder, error)


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
        least = int(found["min_ratings"][0])
        return TasteMap(method, rows, places, usual, least, None if np.isnan(explained) else explained)
    except (TastespaceError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        log.warning("the map %s cannot be read and is made again: %s", path, error)
        return None
