"""Downloads that are resumed after an interruption, verified, and moved into place only when complete.

The part received so far is kept in `NAME.part`, and `NAME.part.json` beside it says which version of the file it
belongs to. The rest of exactly that version is requested (`Range` with `If-Range`); if it has another one by
now, or does not support ranges, the whole file is sent again. Only a complete file with the right checksum gets its
name.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tastespace.errors import DataError, warn
from tastespace.progress import Observer, Progress, silent
from tastespace.storage import digest_of, replace_file
from tastespace.version import __version__

CHUNK = 1 << 18
TRIES = 4  # in a row without new data
TIMEOUT = 30.0  # seconds that a server may be silent
PAUSE = 1.0  # seconds before the second try, doubled for every further one

_PASSING = (408, 425, 429)  # temporary errors; those from 500 on, too
_BY_HAND = "Fetch the file in another way, and then: tastespace data get NAME --from FILE"


def download(
    url: str,
    target: Path,
    *,
    checksum: str | None = None,
    observer: Observer = silent,
    timeout: float = TIMEOUT,
    pause: float = PAUSE,
) -> None:
    """Download a file, or the rest of it, and move it into place once it is complete and its checksum is right.

    `checksum` is written `md5:…` or `sha256:…`. If none is published, the first one seen is recorded beside the file
    (`NAME.sha256`), and later downloads are compared with it. Only one process at a time may work on a target.
    """
    part = _Part(target.with_name(target.name + ".part"), url)
    with _disk_faults(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    _fetch(part, checksum, observer, timeout, pause)
    with _disk_faults(target.parent):
        _check(part, target, checksum)
        os.replace(part.file, target)
        part.forget()


def record_of(target: Path) -> Path:
    """The file that records the checksum of a target without a published one."""
    return target.with_name(target.name + ".sha256")


def require_space(folder: Path, n_bytes: int) -> None:
    """Raise an error if this many bytes will not fit."""
    free = shutil.disk_usage(folder).free
    if free < n_bytes:
        expected = f"{readable_size(n_bytes)}; make room, or use another cache (--cache, TASTESPACE_CACHE)"
        raise DataError(f"{folder} has {readable_size(free)} free", expected=expected)


def readable_size(n_bytes: int) -> str:
    """A number of bytes in readable units."""
    size, units = float(n_bytes), iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"


class _Cut(Exception):
    """The connection was interrupted; another try may help."""


@dataclass
class _Part:
    """The part of a file received so far."""

    file: Path
    url: str

    @property
    def notes(self) -> Path:
        return self.file.with_name(self.file.name + ".json")

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def known(self) -> dict[str, Any]:
        """The recorded notes about the version that this is a part of."""
        try:
            notes = json.loads(self.notes.read_text())
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) and notes.get("url") == self.url else {}

    def note(self, validator: str | None, total: int | None) -> None:
        with replace_file(self.notes) as stream:
            stream.write(json.dumps({"url": self.url, "validator": validator, "total": total}).encode())

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)


def _fetch(part: _Part, checksum: str | None, observer: Observer, timeout: float, pause: float) -> None:
    """Try until the part is complete, or until several tries in a row bring nothing new."""
    tries, furthest = 0, part.size
    while True:
        try:
            _continue(part, checksum, observer, timeout)
            return
        except _Cut as cut:
            tries = 1 if part.size > furthest else tries + 1
            furthest = max(furthest, part.size)
            if tries >= TRIES:
                total = part.known().get("total")
                so_far = readable_size(part.size) + (f" of {readable_size(total)}" if total else "")
                problem = f"{part.url}: {cut}, {TRIES} times in a row, after {so_far}"
                expected = "a steady connection; the part received is kept, run it again to continue"
                raise DataError(problem, expected=expected) from cut
            time.sleep(pause * 2 ** (tries - 1))


def _continue(part: _Part, checksum: str | None, observer: Observer, timeout: float) -> None:
    """Request the missing part once and write it to disk."""
    start = _start(part, checksum)
    if start and start == part.known().get("total"):
        return
    with _opened(part, start, timeout) as response:
        goes_on = response.status == http.client.PARTIAL_CONTENT
        if goes_on and _first_byte(response) != start:
            part.forget()
            raise _Cut("the server sent a different part than requested")
        length = response.length  # of what is still to come; None where the server does not say
        start = start if goes_on else 0
        total = None if length is None else start + length
        with _disk_faults(part.file.parent, part):
            require_space(part.file.parent, length or 0)
            part.note(_validator(response), total)
            with open_part(part.file, "ab" if goes_on else "wb") as sink:
                done = start
                for chunk in _chunks(response):
                    sink.write(chunk)
                    done += len(chunk)
                    observer(Progress(f"downloading {part.file.stem}", done, total))
                sink.flush()
                os.fsync(sink.fileno())
    if total is not None and done != total:
        raise _Cut("the connection was cut")


def _start(part: _Part, checksum: str | None) -> int:
    """How much of the part can be reused: nothing, if a mixture of two versions would go unnoticed."""
    known = part.known()
    total = known.get("total")
    is_sure = bool(known) and bool(known.get("validator") or checksum)
    return part.size if is_sure and (total is None or part.size <= total) else 0


def open_part(file: Path, mode: str) -> BinaryIO:
    """Open the file that receives the data."""
    return file.open(mode)  # type: ignore[return-value]


def _opened(part: _Part, start: int, timeout: float) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"tastespace/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator := part.known().get("validator"):
            headers["If-Range"] = validator
    try:
        response: http.client.HTTPResponse = urlopen(Request(part.url, headers=headers), timeout=timeout)
        return response
    except HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            part.forget()
            raise _Cut("the file on the server has become shorter") from error
        problem = f"the server answered {error.code} {error.reason}"
        if error.code in _PASSING or error.code >= 500:
            raise _Cut(problem) from error
        raise DataError(f"{part.url}: {problem}", expected=f"the file. {_BY_HAND}") from error
    except URLError as error:
        raise _unreachable(part.url, error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(part.url, error) from error


def _unreachable(url: str, reason: object) -> Exception:
    """The error when there was no answer: permanent for some causes, temporary for others."""
    host = urlsplit(url).netloc
    if isinstance(reason, socket.gaierror):
        return DataError(f"{host} cannot be found ({reason.strerror})", expected=f"a network connection. {_BY_HAND}")
    if isinstance(reason, ssl.SSLCertVerificationError):
        problem = f"the certificate of {host} is not valid ({reason.verify_message})"
        return DataError(problem, expected=f"one that is. {_BY_HAND}")
    lasting = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH)
    if isinstance(reason, OSError) and reason.errno in lasting:
        problem = f"{host} cannot be reached ({reason.strerror})"
        return DataError(problem, expected=f"a network connection and a running server. {_BY_HAND}")
    return _Cut("the server does not answer" if isinstance(reason, TimeoutError) else f"no connection ({reason})")


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read1(CHUNK)  # what is available: `read` would lose it while waiting for more
        except TimeoutError as error:
            raise _Cut("the server went silent") from error
        except (OSError, http.client.HTTPException) as error:
            raise _Cut("the connection was cut") from error
        if not chunk:
            return
        yield chunk


def _first_byte(response: http.client.HTTPResponse) -> int | None:
    """The position of the first byte of a partial response."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    return None if found is None else int(found[1])


def _validator(response: http.client.HTTPResponse) -> str | None:
    """The identifier of this version of the file; a weak tag cannot be used for ranges."""
    tag = response.headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def _check(part: _Part, target: Path, checksum: str | None) -> None:
    """Verify the published checksum, or the one that was seen first."""
    record = record_of(target)
    seen = record.read_text().split()[:1] if record.exists() else []
    algorithm, _, digest = (checksum or f"sha256:{''.join(seen)}").partition(":")
    got = digest_of(part.file, algorithm)
    if digest and got != digest:
        part.forget()
        source = "published" if checksum else f"seen first, and recorded in {record}"
        expected = f"{digest} ({source}). The download was removed. Try again; if it stays so, the file has changed"
        raise DataError(f"{part.url}: the {algorithm} of the download is {got}", expected=expected)
    if not checksum and not seen:
        with replace_file(record) as stream:
            stream.write(f"{got}  {target.name}\n".encode())
        warn(
            f"{part.url}: no checksum is published. The sha256 of the download is {got}; compare it if you can. "
            f"It is recorded in {record}, and later downloads will be compared with it"
        )


@contextmanager
def _disk_faults(folder: Path, part: _Part | None = None) -> Iterator[None]:
    """Turn disk errors into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            kept = "" if part is None else f"; {readable_size(part.size)} are kept, run it again to continue"
            raise DataError(f"the disk of {folder} is full", expected=f"more room{kept}") from error
        problem = f"{folder} cannot be written ({error.strerror or error})"
        raise DataError(problem, expected="a folder that can; choose one with --cache or TASTESPACE_CACHE") from error
