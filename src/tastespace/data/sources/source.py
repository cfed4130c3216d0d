"""What a data set is: what it holds, whose it is, where its files come from, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tastespace.data.ratings import Ratings
from tastespace.data.sources.archives import unpack
from tastespace.data.sources.download import download, record_of
from tastespace.errors import DataError, warn
from tastespace.progress import Observer, silent
from tastespace.storage import cache_folder, digest_of, locked


def files_folder(name: str, cache: Path | None = None) -> Path:
    """Where the unpacked files of a data set are, once they are there."""
    return cache_folder(cache) / name / "files"


def is_cached(name: str, cache: Path | None = None) -> bool:
    return files_folder(name, cache).is_dir()


@dataclass(frozen=True)
class Archive:
    """Where the files of a data set come from, and which of them are needed."""

    url: str | None  # none where the owner no longer offers it
    ratings: tuple[str, ...]  # patterns of names; files of at least one of them must be there
    others: tuple[str, ...] = ()  # titles and the like, taken if they are there
    checksum: str | None = None  # as published, md5:… or sha256:…
    n_bytes: int | None = None  # about; for people
    hint: str = ""  # what to do where there is no address, or where it gives nothing


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
        elif not folder.is_dir():  # another process may have brought it while this one waited
            _download(name, archive, folder, observer)
    return folder


def _download(name: str, archive: Archive, folder: Path, observer: Observer) -> None:
    """Fetch the archive and unpack it; it is kept only where another try would need it again."""
    target = _fetched(name, archive, folder.parent, observer)
    try:
        _unpack(target, archive, folder, observer)
    except DataError:
        if archive.checksum is None:  # then it may be anything, such as a page that says sorry
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
    """Say so if an archive is not the one that was published; it may be a copy packed again."""
    if archive.checksum is None or not given.is_file():
        return
    algorithm, _, digest = archive.checksum.partition(":")
    got = digest_of(given, algorithm)
    if got != digest:
        warn(
            f"{given} is not the published archive: its {algorithm} is {got}, not {digest}. Perhaps a copy packed again"
        )


def _unpack(given: Path, archive: Archive, folder: Path, observer: Observer) -> None:
    missing = unpack(given, archive.ratings, archive.others, folder, observer=observer)
    if missing:
        warn(f"{given}: there is no {', '.join(missing)} in it")


@dataclass(frozen=True)
class Source:
    """A data set that is known by name."""

    name: str
    description: str  # one line
    n_ratings: int  # sizes as published; items may include a few that nobody rated
    n_users: int
    n_items: int
    home: str  # the page that tells more
    terms: str  # what may be done with it, in a sentence
    read: Callable[[Path], Ratings]  # from the folder with its files
    archive: Archive | None = None  # none where a package carries the data

    def load(self, *, cache: Path | None = None, observer: Observer = silent) -> Ratings:
        """The ratings; the files are downloaded unless they are in the cache."""
        if self.archive is None:
            return self.read(Path())
        return self.read(obtain(self.name, self.archive, cache=cache, observer=observer))

    def __call__(self) -> Ratings:
        return self.load()
