"""Folders with a manifest: the sizes and checksums of their files, how they are written, and what is wrong with them.

The manifest is written last, with a checksum of its own. Checksums and values are verified once on each computer.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from polars.exceptions import PanicException, PolarsError

from tastespace import storage
from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.settings import Settings
from tastespace.version import __version__

MANIFEST, INDEX = "manifest.json", "index.safetensors"
NO_DIGEST = "0" * 64  # in place of the manifest's own checksum while that is computed
MAX_MANIFEST = 64 << 20  # bytes
FEW = 8  # numbers in an array of settings, at most
CHUNK = 1 << 18  # numbers looked at at a time: they stay in the cache of a core
# Arrays of the course of a fit, which may have gaps, or tell of steps that diverged.
WATCHED = re.compile(r"(.*/)?(trace:.*|(.*_)?errors|losses|bounds)")
MAX_VALUE = 1e30  # of plausible numbers: products of larger ones are infinite in single precision
# The message of the kernels' binding (nanobind) for wrong arguments.
_KERNEL_REFUSES = "incompatible function arguments"
# Errors caused by files with other content than was saved; `fault_of` distinguishes further causes.
BAD_CONTENT = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, OSError, RecursionError),
    *(PolarsError, PanicException),
)


def write_manifest(folder: Path, manifest: dict[str, Any], known: Mapping[str, str]) -> None:
    """Write the manifest last, with the sizes and checksums of all files at its end; some checksums may be known."""
    files = sorted(folder.iterdir())
    sizes = {file.name: file.stat().st_size for file in files}
    checksums = {file.name: known.get(file.name) or storage.checksum_of(file) for file in files}
    content = {name: value for name, value in manifest.items() if name not in ("files", "sha256")}
    content |= {"files": sizes, "sha256": checksums | {MANIFEST: NO_DIGEST}}
    text = (json.dumps(content, indent=2, default=_plain) + "\n").encode()
    entry = f'"{MANIFEST}": "%s"'
    digest = _digest_of_manifest(text, NO_DIGEST)
    (folder / MANIFEST).write_bytes(text.replace((entry % NO_DIGEST).encode(), (entry % digest).encode()))


@contextmanager
def writing(path: Path, n_bytes: int) -> Iterator[Path]:
    """A folder that replaces the artifact; `n_bytes` is about what will be written."""
    try:
        with storage.replace_folder(path) as folder:
            yield folder
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free
            needed = f"about {n_bytes / 1e6:,.1f} MB are needed"
            reason += f"; the folder {path.parent} has {free / 1e6:,.1f} MB free, and {needed}"
        raise ArtifactError(f"cannot write the artifact {path}: {reason}") from error


def check_manifest(path: Path, manifest: Mapping[str, Any], content: bytes) -> None:
    """Raise an error if the manifest has another checksum than when it was written; older ones have none."""
    digest = manifest.get("sha256", {}).get(MANIFEST)
    if digest is not None and _digest_of_manifest(content, str(digest)) != digest:
        raise ArtifactError(
            f"{path}: the {MANIFEST} has another checksum than when it was written; the artifact is damaged, fit or "
            "copy it again"
        )


def _digest_of_manifest(content: bytes, digest: str) -> str:
    """The SHA-256 of a manifest that has zeros in the place of this digest."""
    entry = f'"{MANIFEST}": "%s"'
    return hashlib.sha256(content.replace((entry % digest).encode(), (entry % NO_DIGEST).encode())).hexdigest()


def file_faults(
    path: Path, manifest: Mapping[str, Any], *, verify: bool, found: Mapping[Path, str] | None = None
) -> dict[str, str]:
    """The missing, changed and implausible files, and what is wrong with each; checksums may have been found before."""
    faults = {}
    for name, expected in manifest["files"].items():
        if not (path / name).is_file():
            faults[name] = f"the file {name} is missing"
        elif (size := (path / name).stat().st_size) != expected:
            faults[name] = f"{name} has {size} bytes; expected {expected}"
    checksums = manifest.get("sha256", {})
    whole = {path / name: checksums.get(name, "") for name in manifest["files"] if name not in faults}
    try:
        mark = storage.Mark(whole)
        if not faults and not verify and mark.exists():
            return {}
        changed = storage.changed_files({file: checksum for file, checksum in whole.items() if checksum}, found or {})
        faults |= {file.name: f"{file.name} has another checksum than when it was written" for file in changed}
        for name in manifest["files"].keys() - faults.keys():
            if fault := _implausible(path / name):
                faults[name] = fault
    except OSError as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"{path}: {fault_of(error, manifest)}") from error
    mark.remove() if faults else mark.set()
    return faults


def _implausible(file: Path) -> str | None:
    """What is wrong with the numbers of a file, if anything: they must be finite and not huge."""
    if file.suffix == ".parquet" or file.name == INDEX:  # An index is tried out.
        return None
    try:
        arrays = storage.read_arrays(file)
    except OSError:
        raise
    except BAD_CONTENT as error:
        return f"{file.name} cannot be read ({error})"
    for name, array in arrays.items():
        if array.dtype.kind != "f" or WATCHED.fullmatch(name):
            continue
        flat = array.reshape(-1)
        for start in range(0, len(flat), CHUNK):
            part = flat[start : start + CHUNK]
            low, high = float(part.min()), float(part.max())
            if len(flat) <= FEW and not np.isnan(low):
                continue  # settings, where infinity says that there is no limit
            if not -MAX_VALUE < low <= high < MAX_VALUE:  # also if one is not a number
                return f"{file.name} has numbers in {name} that are not finite or too large"
    return None


def fault_of(error: BaseException, manifest: Mapping[str, Any]) -> str:
    """What is wrong and what to do; unreadable files and missing kernels do not count as damage."""
    builds = f"saved by tastespace {manifest.get('tastespace')}, this is {__version__}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"the artifact cannot be read ({error.strerror}); check the disk, and who may read the folder"
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return (
            f"this tastespace lacks {error.obj.__name__}.{error.name}, which the artifact needs ({builds}); it was not "
            "built or installed completely: install it again"
        )
    if isinstance(error, TypeError) and _KERNEL_REFUSES in str(error):
        kernel = str(error).partition("(")[0]
        return (
            f"the kernel {kernel} rejects its arguments ({builds}); kernels of another version are installed, or "
            "the artifact is damaged: install tastespace again, or fit or copy the artifact again"
        )
    return f"the artifact is damaged ({error}); fit or copy it again"


def _plain(value: Any) -> Any:
    """Values for JSON: NumPy numbers as Python numbers, settings as their text form."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Settings):
        return str(value)
    raise InvalidParameterError(f"a parameter is {value!r}; expected numbers, texts or None, which can be saved")
