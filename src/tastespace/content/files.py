"""Files of a folder or an archive, one after the other: nothing is unpacked to the disk.

What cannot be read is set aside, with a remark that names it. An archive with a member that leads out of its folder is
refused as a whole: such archives are made to do harm.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import zstandard

from tastespace.data.formats.content import MAX_RATIO, MIN_LIMIT, named_faults
from tastespace.errors import DataError, named

MAX_BYTES = 256 << 20  # of one file
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_EXPECTED = "a folder, or an archive (.zip, .tar, .tar.gz, .tar.zst)"


class Found(NamedTuple):
    """A file: its name below the folder, with slashes, and its content."""

    name: str
    content: bytes


class SetAside:
    """What was not used, by the reason, for remarks that count and name it."""

    def __init__(self) -> None:
        self._by_reason: dict[str, list[str]] = {}

    def add(self, name: str, reason: str) -> None:
        self._by_reason.setdefault(reason, []).append(name)

    def remarks(self) -> tuple[str, ...]:
        return tuple(f"{len(names):,} set aside, {reason}: {named(names)}" for reason, names in self._by_reason.items())


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive."""
    return path.name.lower().endswith(ARCHIVES)


def files_in(path: Path, aside: SetAside) -> Iterator[Found]:
    """All files of a folder or an archive, in the order of their names in a folder."""
    with named_faults(path, _EXPECTED):
        if path.is_dir():
            yield from _of_folder(path, aside)
        elif zipfile.is_zipfile(path):
            yield from _of_zip(path, aside)
        else:
            yield from _of_tar(path, aside)


def _of_folder(folder: Path, aside: SetAside) -> Iterator[Found]:
    inside = folder.resolve()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_dir() or any(part.startswith(".") for part in PurePosixPath(name).parts):
            continue
        try:
            if not file.resolve().is_relative_to(inside):
                aside.add(name, "links that lead out of the folder")
            elif not file.is_file():
                aside.add(name, "no regular files")
            elif file.stat().st_size > MAX_BYTES:
                aside.add(name, f"over {MAX_BYTES >> 20} MB")
            else:
                yield Found(name, file.read_bytes())
        except OSError as error:
            aside.add(name, f"cannot be read ({error.strerror or error})")


def _check_inside(archive: Path, name: str) -> None:
    """Refuse an archive whose member leads out of the folder it would be unpacked to."""
    plain = name.replace("\\", "/")
    if plain.startswith("/") or ".." in PurePosixPath(plain).parts or (len(plain) > 1 and plain[1] == ":"):
        raise DataError(
            f"the archive has a member {name!r}, which leads out of the folder",
            file=archive,
            expected="members with names below it; do not unpack this archive",
        )


class _Budget:
    """Bytes that an archive may hold: more were made to fill memory."""

    def __init__(self, archive: Path) -> None:
        self.archive, self.left = archive, max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size)

    def spend(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise DataError(
                f"the archive holds more than {MAX_RATIO} times its size",
                file=self.archive,
                expected="texts or images, which do not shrink so much; unpack it if it is right",
            )


def _of_zip(archive: Path, aside: SetAside) -> Iterator[Found]:
    with _opened_zip(archive) as packed:
        members = packed.infolist()
        for member in members:
            _check_inside(archive, member.filename)
        budget = _Budget(archive)
        for member in members:
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                aside.add(member.filename, "links")
            elif member.file_size > MAX_BYTES:
                aside.add(member.filename, f"over {MAX_BYTES >> 20} MB")
            else:
                budget.spend(member.file_size)
                try:
                    yield Found(member.filename, packed.read(member))
                except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
                    aside.add(member.filename, f"cannot be unpacked ({error})")


def _opened_zip(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except zipfile.BadZipFile as error:
        raise DataError(f"the zip archive is damaged ({error})", file=archive, expected="a whole one") from error


def _of_tar(archive: Path, aside: SetAside) -> Iterator[Found]:
    budget = _Budget(archive)
    with archive.open("rb") as stream:
        try:
            with _opened_tar(archive, stream) as packed:
                for member in packed:
                    _check_inside(archive, member.name)
                    if member.issym() or member.islnk():
                        aside.add(member.name, "links")
                        continue
                    if not member.isfile():
                        continue
                    budget.spend(member.size)
                    if member.size > MAX_BYTES:
                        aside.add(member.name, f"over {MAX_BYTES >> 20} MB")
                        continue
                    content = packed.extractfile(member)
                    assert content is not None  # It is a file.
                    yield Found(member.name, content.read())
        except (tarfile.TarError, EOFError, zstandard.ZstdError) as error:
            raise DataError(f"the archive is cut off or damaged ({error})", file=archive, expected=_EXPECTED) from error


def _opened_tar(archive: Path, stream: IO[bytes]) -> tarfile.TarFile:
    if archive.name.lower().endswith(".zst"):
        unpacked = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(stream)
        return tarfile.open(fileobj=unpacked, mode="r|")
    return tarfile.open(fileobj=stream, mode="r|*")
