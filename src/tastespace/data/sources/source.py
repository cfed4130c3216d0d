"""Data sets: contents, terms of use, where their files come from, and how they are read.

Only the wanted files are extracted from an archive, by their plain names, all of them or none.

An archive is a zip, a tar (compressed or not), a tar inside either of them, or a folder that was unpacked already.
Wanted files are put side by side under their last name, so that no path of the archive can lead anywhere else; links,
and wanted files with a path that tries, are refused.
"""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from io import FileIO
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import polars as pl

from tastespace.data.ratings import Ratings
from tastespace.data.sources.download import CHUNK, download, readable_size, record_of, require_space
from tastespace.errors import DataError, warn
from tastespace.progress import Observer, Progress, silent
from tastespace.storage import cache_folder, digest_of, locked, remove_unfinished, replace_folder

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError)
_EXPECTED = "a zip, a tar, or a folder that was unpacked from one"


@dataclass(frozen=True)
class _Member:
    """A file of an archive, not yet read."""

    path: str
    n_bytes: int
    is_plain: bool  # a file, neither a link nor a device
    opened: Callable[[], IO[bytes]]

    @property
    def name(self) -> str:
        return re.split(r"[/\\]", self.path)[-1]

    @property
    def is_safe(self) -> bool:
        steps = re.split(r"[/\\]", self.path)
        return self.is_plain and steps[0] != "" and ".." not in steps and not re.match(r"[A-Za-z]:", self.path)


def unpack(
    archive: Path, needed: Sequence[str], others: Sequence[str], folder: Path, *, observer: Observer = silent
) -> list[str]:
    """Extract the matching files into a folder, which is replaced as a whole; returns the `others` not found.

    At least one of the patterns `needed` must be found. A file that occurs twice is taken from the place nearest to
    the top. Only one process at a time may work on a folder.
    """
    if not archive.exists():
        raise DataError("there is no such file", file=archive, expected=_EXPECTED)
    with _faults(archive, folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder.parent)
        with replace_folder(folder) as new:
            found = _copy_wanted(archive, [*needed, *others], new, observer)
            if not found.intersection(needed):
                raise DataError("there are no ratings in it", file=archive, expected=f"a file {' or '.join(needed)}")
    return [pattern for pattern in others if pattern not in found]


def _copy_wanted(archive: Path, patterns: Sequence[str], folder: Path, observer: Observer) -> set[str]:
    found: set[str] = set()
    depths: dict[str, int] = {}
    done = 0
    for member in _members(archive):
        pattern = next((pattern for pattern in patterns if fnmatchcase(member.name, pattern)), None)
        if pattern is None:
            continue
        if not member.is_safe:
            raise DataError(f"{member.path!r} leads out of the archive", file=archive, expected="plain files only")
        depth = member.path.count("/")
        if depth == depths.get(member.name):
            raise DataError(f"there are two files {member.name}", file=archive, expected="one")
        if depth > depths.get(member.name, depth):
            continue
        depths[member.name] = depth
        found.add(pattern)
        require_space(folder, member.n_bytes)
        with member.opened() as source, (folder / member.name).open("wb") as sink:
            while chunk := source.read(CHUNK):
                sink.write(chunk)
                done += len(chunk)
                observer(Progress(f"unpacking {archive.name}", done))
    return found


def _members(archive: Path) -> Iterator[_Member]:
    if archive.is_dir():
        for file in sorted(archive.rglob("*")):
            if not file.is_dir():
                path = file.relative_to(archive).as_posix()
                yield _Member(path, file.stat().st_size, file.is_file(), partial(FileIO, file))
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    is_plain = not stat.S_ISLNK(entry.external_attr >> 16)
                    opened = partial(zipped.open, entry)
                    yield from _looked_into(_Member(entry.filename, entry.file_size, is_plain, opened))
    elif tarfile.is_tarfile(archive):
        # As a stream: looking up a member in a compressed tar would decompress everything before it again.
        with tarfile.open(archive, "r|*") as tar:
            yield from _members_of_tar(tar)
    else:
        raise DataError("this is not an archive, or only the beginning of one", file=archive, expected=_EXPECTED)


def _members_of_tar(tar: tarfile.TarFile) -> Iterator[_Member]:
    for entry in tar:
        if not entry.isdir():
            yield from _looked_into(_Member(entry.name, entry.size, entry.isfile(), partial(_stream, tar, entry)))


def _stream(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(entry)
    assert stream is not None  # only plain files are opened
    return stream


def _looked_into(member: _Member) -> Iterator[_Member]:
    """The member, or what is in it if it is itself a tar, as in the Netflix Prize."""
    if member.name.endswith(".tar") and member.is_safe:
        with member.opened() as stream, tarfile.open(fileobj=stream, mode="r|") as inner:
            yield from _members_of_tar(inner)
    else:
        yield member


@contextmanager
def _faults(archive: Path, folder: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        problem = f"the archive is damaged ({error})"
        raise DataError(problem, file=archive, expected="a whole one; fetch it again") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = readable_size(shutil.disk_usage(folder.parent).free)
            problem = f"the disk of {folder.parent} is full ({free} free)"
            raise DataError(problem, expected="more room; nothing was unpacked") from error
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError | FileNotFoundError):
            problem = f"{error.filename or folder} cannot be used ({error.strerror or error})"
            raise DataError(problem, expected="files and folders that can be read and written") from error
        # A damaged gzip stream is an OSError, too.
        raise DataError(f"the archive cannot be read ({error})", file=archive, expected="a whole one") from error


def files_folder(name: str, cache: Path | None = None) -> Path:
    """The folder of the unpacked files of a data set in the cache."""
    return cache_folder(cache) / name / "files"


def is_cached(name: str, cache: Path | None = None) -> bool:
    return files_folder(name, cache).is_dir()


@dataclass(frozen=True)
class Archive:
    """Where the files of a data set come from, and which of them are needed."""

    url: str | None  # None if the owner no longer offers it
    ratings: tuple[str, ...]  # patterns of names; at least one must be found
    others: tuple[str, ...] = ()  # titles and the like, extracted if present
    checksum: str | None = None  # as published, md5:… or sha256:…
    n_bytes: int | None = None  # about; for people
    hint: str = ""  # what to do if there is no address, or the download fails


def obtain(
    name: str, archive: Archive, *, cache: Path | None = None, given: Path | None = None, observer: Observer = silent
) -> Path:
    """The folder with the unpacked files of a data set.

    What is in the cache is taken from there; else the archive is downloaded, checked and unpacked, and then removed.
    An archive that is `given` replaces what is in the cache, and stays where it is.
    """
    folder = files_folder(name, cache)
    if given is None and folder.is_dir():
        return folder
    if given is not None and not given.exists():
        raise DataError("there is no such file", file=given, expected=f"the archive of {name}, or an unpacked folder")
    with locked(folder.parent / "lock", observer):
        if given is not None:
            _compare(given, archive)
            _unpack(given, archive, folder, observer)
        elif not folder.is_dir():  # another process may have downloaded it while this one waited
            _download(name, archive, folder, observer)
    return folder


def _download(name: str, archive: Archive, folder: Path, observer: Observer) -> None:
    """Download the archive and unpack it; it is kept only if another try would need it again."""
    target = _fetched(name, archive, folder.parent, observer)
    try:
        _unpack(target, archive, folder, observer)
    except DataError:
        if archive.checksum is None:  # it may be anything, such as an error page
            target.unlink()
            record_of(target).unlink(missing_ok=True)
        raise
    target.unlink()


def _fetched(name: str, archive: Archive, folder: Path, observer: Observer) -> Path:
    if archive.url is None:
        raise DataError(f"{name} cannot be downloaded: {archive.hint}", expected=f"data get {name} --from FILE")
    target = folder / urlsplit(archive.url).path.rsplit("/", 1)[-1]
    if target.exists():
        return target
    try:
        download(archive.url, target, checksum=archive.checksum, observer=observer)
    except DataError as error:
        if not archive.hint:
            raise
        raise DataError(f"{error}. {archive.hint}") from error
    return target


def _compare(given: Path, archive: Archive) -> None:
    """Warn if an archive is not the published one; it may be a repacked copy."""
    if archive.checksum is None or not given.is_file():
        return
    algorithm, _, digest = archive.checksum.partition(":")
    got = digest_of(given, algorithm)
    if got != digest:
        warn(f"{given} is not the published archive: its {algorithm} is {got}, not {digest}. Perhaps a repacked copy")


def _unpack(given: Path, archive: Archive, folder: Path, observer: Observer) -> None:
    missing = unpack(given, archive.ratings, archive.others, folder, observer=observer)
    if missing:
        warn(f"{given}: there is no {', '.join(missing)} in it")


def extracted(lines: pl.Series, pattern: str, file: Path, expected: str, *, first_line: int = 1) -> pl.DataFrame:
    """The named groups of a pattern as texts; raises an error that names the first line that does not match."""
    cells = lines.str.extract_groups(pattern).struct.unnest()
    wrong = cells.select(pl.any_horizontal(pl.all().is_null())).to_series()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise DataError("not a rating", file=file, line=row + first_line, text=lines[row] or "", expected=expected)
    return cells


@dataclass(frozen=True)
class Source:
    """A data set with a name."""

    name: str
    description: str  # one line
    n_ratings: int  # sizes as published; items may include a few without ratings
    n_users: int
    n_items: int
    home: str  # the page with more information
    terms: str  # terms of use, in a sentence
    read: Callable[[Path], Ratings]  # from the folder with its files
    archive: Archive | None = None  # None if a package contains the data

    def load(self, *, cache: Path | None = None, observer: Observer = silent) -> Ratings:
        """The ratings; the files are downloaded unless they are in the cache."""
        if self.archive is None:
            return self.read(Path())
        return self.read(obtain(self.name, self.archive, cache=cache, observer=observer))

    def __call__(self) -> Ratings:
        return self.load()
