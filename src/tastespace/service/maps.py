"""Taste maps of the versions that answer: made once, beside the requests, and kept in the state folder for all."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tastespace import artifact
from tastespace.errors import TastespaceError
from tastespace.report.map_content import map_content
from tastespace.report.taste_map import TasteMap, taste_map
from tastespace.service.live_model import Loaded
from tastespace.service.versions import Versions

log = logging.getLogger("tastespace.service")
PATIENCE = 3.0  # seconds that a request waits: most maps are there by then


class Maps:
    """Each map is made by one worker, in a thread of its own; all others find it in the folder."""

    def __init__(self, folder: Path, versions: Versions) -> None:
        self._folder, self._versions = folder, versions
        self._made: dict[tuple[str, str], TasteMap] = {}
        self._written: dict[tuple[str, str], bytes] = {}
        self._making: dict[tuple[str, str], threading.Thread] = {}
        self._failed: dict[tuple[str, str], TastespaceError] = {}
        self._lock = threading.Lock()

    def get(self, loaded: Loaded, method: str, patience: float = PATIENCE) -> TasteMap | None:
        """The map of a version; None while it is being made. What cannot be made is an error."""
        key = (loaded.version, method)
        with self._lock:
            self._forget_others(loaded.version)
            if key in self._failed:
                raise self._failed[key]
            if key in self._made:
                return self._made[key]
            thread = self._making.get(key)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._make, args=(loaded, method), name=f"map-{method}", daemon=True)
                self._making[key] = thread
                thread.start()
        thread.join(patience)
        with self._lock:
            if key in self._failed:
                raise self._failed[key]
            return self._made.get(key)

    def content(self, loaded: Loaded, method: str) -> bytes | None:
        """The same as it is sent: of ten thousand items, which take a while to write."""
        shown, key = self.get(loaded, method), (loaded.version, method)
        if shown is None:
            return None
        if key not in self._written:
            content = {"model": loaded.version, **map_content(loaded.recommender, shown)}
            self._written[key] = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        return self._written[key]

    def _forget_others(self, version: str) -> None:
        """Maps of versions that answer no more need no memory; their files stay, for a way back."""
        self._made = {key: value for key, value in self._made.items() if key[0] == version}
        self._written = {key: value for key, value in self._written.items() if key[0] == version}
        self._failed = {key: value for key, value in self._failed.items() if key[0] == version}

    def _make(self, loaded: Loaded, method: str) -> None:
        key, path = (loaded.version, method), self._folder / loaded.version / f"{method}.safetensors"
        try:
            shown = self._kept(path, method)
            if shown is None:
                if not self._begin(path):
                    return  # Another worker is at it; the next request looks again.
                try:
                    shown = taste_map(loaded.recommender, method)
                    self._keep(path, shown)
                finally:
                    _mark(path).unlink(missing_ok=True)
            with self._lock:
                self._made[key] = shown
        except TastespaceError as error:
            with self._lock:
                self._failed[key] = error
        except OSError as error:
            log.error("cannot keep a map in %s: %s", self._folder, error.strerror)

    def _begin(self, path: Path) -> bool:
        """Whether this worker is the one to make it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = _mark(path)
        if mark.exists() and not _is_alive(mark):
            mark.unlink(missing_ok=True)
        try:
            with mark.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def _kept(self, path: Path, method: str) -> TasteMap | None:
        if not path.is_file():
            return None
        try:
            arrays = artifact.read_arrays(path)
            explained = float(arrays["explained"][0])
            return TasteMap(
                method,
                np.array(arrays["item_rows"]),
                np.array(arrays["places"]),
                np.array(arrays["usual"]),
                None if np.isnan(explained) else explained,
            )
        except (TastespaceError, ValueError, KeyError, IndexError) as error:
            log.warning("the map %s cannot be read, and is made again: %s", path.name, error)
            return None

    def _keep(self, path: Path, shown: TasteMap) -> None:
        """Written beside its place and moved there, so that nobody reads half of it."""
        explained = np.nan if shown.explained is None else shown.explained
        arrays = {
            "item_rows": np.ascontiguousarray(shown.item_rows),
            "places": np.ascontiguousarray(shown.places),
            "usual": np.ascontiguousarray(shown.usual),
            "explained": np.array([explained]),
        }
        coming = path.with_name(f".{path.name}-{threading.get_ident()}")
        save_file(arrays, coming)
        coming.replace(path)
        for entry in self._folder.iterdir():
            if not self._versions.path(entry.name).is_dir():  # Nobody can go back to it.
                shutil.rmtree(entry, ignore_errors=True)


def _mark(path: Path) -> Path:
    """A file that says who is making a map."""
    return path.with_suffix(".making")


def _is_alive(mark: Path) -> bool:
    """Whether the process that left a mark still runs; one that is just being written counts."""
    try:
        text = mark.read_text()
        if text:
            os.kill(int(text), 0)
    except (ProcessLookupError, FileNotFoundError, ValueError):
        return False
    except PermissionError:
        return True  # It runs, as somebody else.
    return True
