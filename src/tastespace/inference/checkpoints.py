"""Checkpoints: the state of every chain in a folder, from which a run continues after a crash.

One checkpoint is one file, written atomically and verified when it is read:

    tastespace checkpoint N\\n     what it is, and the version of the format
    {...}\\n                       JSON: which run it belongs to, and how the arrays fit together
    arrays                        one after another, in numpy's own format
    32 bytes                      SHA-256 of everything before

The first line and the last bytes stay in all versions, so that a newer file can be distinguished from a damaged one.

Nested values are stored as plain arrays and a description of their structure, without pickle.

A value is None, a boolean, a number, a string, an array, a list, a tuple, a mapping with strings as keys, or a frozen
dataclass of this library, of such values. Its arrays become a list; the rest becomes JSON that refers to their
positions. Numbers keep their types: a NumPy number stays one, because its type promotion with arrays differs from that
of Python numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib.format import read_array, write_array
from numpy.typing import NDArray

from tastespace import storage
from tastespace.errors import CheckpointError, CheckpointWarning, InvalidParameterError, warn
from tastespace.storage import LOCK, Lock

OUR_MODULES = "tastespace."  # whatever a file contains, no other class is ever instantiated from it
Arrays = list[NDArray[Any]]


def pack(value: Any) -> tuple[Any, Arrays]:
    """The description of a value, and its arrays; these are not copied."""
    arrays: Arrays = []
    return _packed(value, arrays), arrays


def unpack(described: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """The value that was packed."""
    if not isinstance(described, dict):
        return described
    if len(described) != 1:
        raise CheckpointError(f"a value is described by {sorted(described)}; expected one kind")
    ((kind, content),) = described.items()
    if kind not in _UNPACKERS:
        raise CheckpointError(f"a value is of the kind {kind!r}; expected one of {', '.join(_UNPACKERS)}")
    return _UNPACKERS[kind](content, arrays)


def _packed(value: Any, arrays: Arrays) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(entry, arrays) for entry in value]}
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {"mapping": {key: _packed(entry, arrays) for key, entry in value.items()}}
    kind = type(value)
    if is_dataclass(kind) and kind.__module__.startswith(OUR_MODULES) and "." not in kind.__qualname__:
        parts = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"class": [kind.__module__, kind.__qualname__, parts]}
    raise CheckpointError(
        f"a state holds a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold; "
        "expected arrays, numbers, texts, lists, mappings by name and frozen dataclasses of the library"
    )


def _mapping(entries: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> dict[str, Any]:
    return {key: unpack(entry, arrays) for key, entry in entries.items()}


def _made(content: list[Any], arrays: Sequence[NDArray[Any]]) -> Any:
    """A dataclass of this library, by its name; anything else is rejected before it is inspected."""
    module, name, parts = content
    kind = None
    if module.startswith(OUR_MODULES):
        with suppress(ImportError):
            kind = vars(import_module(module)).get(name)
    if not (isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module):
        raise CheckpointError(f"a value is a {module}.{name}; expected a dataclass of this version of tastespace")
    known = {field.name for field in fields(kind) if field.init}
    if known != parts.keys():
        raise CheckpointError(f"a {name} has {', '.join(parts)}; expected {', '.join(sorted(known))}")
    return kind(**_mapping(parts, arrays))


_UNPACKERS: dict[str, Callable[[Any, Sequence[NDArray[Any]]], Any]] = {
    "array": lambda place, arrays: arrays[place],
    "number": lambda place, arrays: arrays[place][()],
    "list": lambda entries, arrays: [unpack(entry, arrays) for entry in entries],
    "tuple": lambda entries, arrays: tuple(unpack(entry, arrays) for entry in entries),
    "mapping": _mapping,
    "class": _made,
}


MAGIC, FORMAT_VERSION = b"tastespace checkpoint ", 2
DIGEST_BYTES = 32


class DamagedError(CheckpointError):
    """The file differs from what was written."""


class Stored(NamedTuple):
    """The content of a file; the value is unpacked only on demand, once its run is known to match."""

    label: Mapping[str, Any]  # the run it belongs to
    value: Callable[[], Any]


class _Hashing:
    """A stream that hashes what is written; it also hides that it is a file, since NumPy would hide a file's errors."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.stream.write(data)


def write(path: Path, label: Mapping[str, Any], value: Any) -> None:
    """Write a file atomically: an existing one stays intact until then. Raises OSError, and leaves nothing behind."""
    described, arrays = pack(value)
    header = json.dumps({"label": label, "value": described, "arrays": len(arrays)})
    with storage.replace_file(path) as file:
        stream = _Hashing(file)
        stream.write(MAGIC + b"%d\n" % FORMAT_VERSION)
        stream.write(header.encode() + b"\n")
        for array in arrays:
            write_array(stream, array, allow_pickle=False)
        file.write(stream.digest.digest())


def read(path: Path) -> Stored:
    """The content of a file. Nothing is parsed before its checksum has been verified."""
    try:
        _require_whole(path)
        with path.open("rb") as file:
            _require_known(file.readline())
            header = json.loads(file.readline())
            arrays = [read_array(file, allow_pickle=False) for _ in range(header["arrays"])]
    except CheckpointError:
        raise
    except OSError as error:
        raise DamagedError(f"it cannot be read: {error.strerror or error}") from error
    return Stored(header["label"], partial(unpack, header["value"], arrays))


def _require_whole(path: Path) -> None:
    size = path.stat().st_size - DIGEST_BYTES
    if size < 0:
        raise DamagedError("it is cut off")
    with path.open("rb") as file:
        file.seek(size)
        if file.read().hex() != storage.digest_of(path, n_bytes=size):
            raise DamagedError("its checksum is wrong")


def _require_known(first: bytes) -> None:
    version = first.removeprefix(MAGIC).strip()
    if not first.startswith(MAGIC) or not version.isdigit():
        raise DamagedError("it is of another program")
    if int(version) != FORMAT_VERSION:
        raise CheckpointError(
            f"a checkpoint has format version {int(version)}; this tastespace reads {FORMAT_VERSION}: finish the run "
            "with the version that wrote it, or start again in another folder"
        )


NAME = re.compile(r"chain-(\d+)-step-(\d+)\.checkpoint")
MAX_DIFFERENCES = 5  # listed in a message


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run saves its state; passed to `fit`.

    After every `every` sweeps each chain writes its state to the folder, and the last `keep` of each are kept. With
    `resume` a run that was killed, at any moment, continues from there and ends with the same bytes as one that was
    not. The folder stays after the run until `clear` is called, once the model has been saved.
    """

    folder: str | os.PathLike[str]
    every: int = 10
    keep: int = 2
    resume: bool = False

    def __post_init__(self) -> None:
        for name in ("every", "keep"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least 1")
        if not isinstance(self.resume, bool):
            raise InvalidParameterError(f"resume is {self.resume!r}; expected True or False")

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def exists(self) -> bool:
        """Whether there are checkpoints to resume from."""
        return bool(self._files())

    def check(self) -> None:
        """Raise an error early, before hours of work, for an unsuitable folder."""
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file; expected a folder for checkpoints")
        found = ", ".join(f"chain {chain + 1} after step {steps[-1]}" for chain, steps in self._files().items())
        if found and not self.resume:
            raise CheckpointError(
                f"{self.path} holds checkpoints of a run ({found}); resume it (--resume on the command line), "
                "start again in another folder, or delete this one"
            )

    def begin(self, run: Mapping[str, Any]) -> RunCheckpoints:
        """The checkpoints of this run, found or to be made. `run` are the settings that identify it, by name."""
        self.check()
        run = json.loads(json.dumps(run))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = Lock(self.path / LOCK)
            storage.remove_unfinished(self.path)
        except BlockingIOError:  # Two runs would delete each other's files.
            raise CheckpointError(
                f"another run is writing checkpoints to {self.path}; wait for it, stop it, or use another folder"
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be written to ({error.strerror or error}); expected a folder for checkpoints"
            ) from error
        try:
            there = self._files()
            if self.resume and not there:
                text = f"there are no checkpoints in {self.path} yet: the run starts from the beginning"
                warn(text, CheckpointWarning)
            found = {chain: self._last(chain, steps, run) for chain, steps in there.items()}
        except BaseException:
            lock.release()
            raise
        return RunCheckpoints(self, run, found, lock)

    def seed(self) -> int | None:
        """The seed of the run in the folder; None if there is none."""
        for chain, steps in self._files().items():
            return int(self._newest(chain, steps).label["run"]["seed"])
        return None

    def clear(self) -> None:
        """Delete the checkpoints, and the folder if nothing else is in it."""
        for chain, steps in self._files().items():
            for step in steps:
                self.file(chain, step).unlink(missing_ok=True)
        with suppress(OSError):  # It is not empty, or does not exist.
            (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()

    def file(self, chain: int, step: int) -> Path:
        """The file of a chain (counted from 0) after a step; file names count from 1."""
        return self.path / f"chain-{chain + 1}-step-{step:08d}.checkpoint"

    def steps(self, chain: int) -> list[int]:
        """The steps for which a chain has checkpoints, ascending."""
        return self._files().get(chain, [])

    def _files(self) -> dict[int, list[int]]:
        """Steps by chain."""
        found: dict[int, list[int]] = {}
        if self.path.is_dir():
            for match in filter(None, (NAME.fullmatch(entry.name) for entry in self.path.iterdir())):
                found.setdefault(int(match[1]) - 1, []).append(int(match[2]))
        return {chain: sorted(found[chain]) for chain in sorted(found)}

    def _last(self, chain: int, steps: list[int], run: Mapping[str, Any]) -> Any:
        """The content of the newest intact file of a chain, if it belongs to this run."""
        stored = self._newest(chain, steps)
        _require_same(stored.label["run"], run, self.path)
        return stored.value()

    def _newest(self, chain: int, steps: list[int]) -> Stored:
        for place in reversed(range(len(steps))):
            file = self.file(chain, steps[place])
            try:
                return read(file)
            except DamagedError as error:
                earlier = f"; trying the one before it, after step {steps[place - 1]}" if place else ""
                warn(f"the checkpoint {file} is damaged: {error}{earlier}", CheckpointWarning)
        raise CheckpointError(
            f"no checkpoint of chain {chain + 1} in {self.path} is intact; all {len(steps)} are damaged. Delete them "
            "and resume: this chain then starts from the beginning"
        )


@dataclass(frozen=True, eq=False)
class RunCheckpoints(AbstractContextManager["RunCheckpoints"]):
    """The checkpoints of one run: those found, and those it adds."""

    settings: Checkpoints
    run: Mapping[str, Any]
    found: dict[int, Any] = field(default_factory=dict[int, Any])
    lock: Lock | None = field(default=None, repr=False)  # held as long as the run
    first: int = 0  # the number of the first chain

    def __exit__(self, *_: object) -> None:
        """Release the folder, even after an error whose traceback keeps everything else alive."""
        if self.lock is not None:
            self.lock.release()

    def beside(self, chains: int) -> RunCheckpoints:
        """Checkpoints for further chains of the same run, after `chains` others, such as for finding a parameter."""
        return replace(self, first=self.first + chains)

    def take(self, chain: int) -> Any | None:
        """The checkpoint found for a chain; returned once, and then released."""
        return self.found.pop(self.first + chain, None)

    def is_due(self, step: int) -> bool:
        return step % self.settings.every == 0

    def save(self, chain: int, step: int, value: Any) -> None:
        """Add a checkpoint, and delete older ones beyond `keep`; also newer ones, which a damaged file made useless."""
        chain += self.first
        settings, earlier = self.settings, [other for other in self.settings.steps(chain) if other < step]
        try:
            write(settings.file(chain, step), {"run": self.run, "chain": chain, "step": step}, value)
        except CheckpointError:
            raise
        except OSError as error:
            before = f"that after step {earlier[-1]} is intact" if earlier else "there is none before it"
            raise CheckpointError(
                f"the checkpoint of chain {chain + 1} after step {step} cannot be written to {settings.path}: "
                f"{error.strerror or error}; {before}: make room, then resume the run (--resume on the command line)"
            ) from error
        old = earlier[: max(0, len(earlier) + 1 - settings.keep)]
        for other in [*old, *(other for other in settings.steps(chain) if other > step)]:
            with suppress(OSError):  # It only takes space, and the next save tries again.
                settings.file(chain, other).unlink()


def _require_same(there: Mapping[str, Any], here: Mapping[str, Any], folder: Path) -> None:
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if not names:
        return
    listed = "; ".join(
        f"{name} is {here.get(name, 'unknown')!r}, expected {there.get(name, 'unknown')!r}"
        for name in names[:MAX_DIFFERENCES]
    )
    more = f" (and {len(names) - MAX_DIFFERENCES} more)" if len(names) > MAX_DIFFERENCES else ""
    raise CheckpointError(
        f"the checkpoints in {folder} belong to another run: {listed}{more}. Repeat the call that wrote them, or start "
        "again in another folder"
    )
