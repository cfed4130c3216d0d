"""The downloader against a real server on this machine that does what servers do on bad days."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from urllib.error import URLError

import pytest

from tastespace.data.sources import SOURCES
from tastespace.data.sources import download as module
from tastespace.data.sources.download import digest_of, download, readable_size
from tastespace.errors import DataError, DataWarning
from tastespace.storage import locked

CONTENT = bytes(range(256)) * 4096  # 1 MiB
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


@dataclass
class Behaviour:
    """What the server has and what it does wrong; the tests change it, the requests are written down."""

    content: bytes = CONTENT
    etag: str | None = '"v1"'
    modified: str | None = None
    ranges: bool = True
    says_length: bool = True
    wrong_range: bool = False
    cuts: list[int] = field(default_factory=list)  # bytes after which each of the next answers is cut off
    statuses: list[int] = field(default_factory=list)  # of the next answers
    silent_after: int | None = None  # bytes of the file after which the server says no more
    requests: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        here: Behaviour = self.server.behaviour
        if self.path == "/moved/set.zip":
            self.send_response(302)
            self.send_header("Location", "/data/set.zip")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        here.requests.append(dict(self.headers))
        status = here.statuses.pop(0) if here.statuses else 200
        if status != 200:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = self._start(here)
        if start is None:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = here.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = 0 if here.wrong_range else start
            self.send_header("Content-Range", f"bytes {first}-{len(here.content) - 1}/{len(here.content)}")
        if here.etag:
            self.send_header("ETag", here.etag)
        if here.modified:
            self.send_header("Last-Modified", here.modified)
        if here.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self._send(here, body)
        self.close_connection = True

    def _start(self, here: Behaviour) -> int | None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked is None or not here.ranges:
            return 0
        if self.headers.get("If-Range") not in (None, here.etag, here.modified):
            return 0
        return None if int(asked[1]) >= len(here.content) else int(asked[1])

    def _send(self, here: Behaviour, body: bytes) -> None:
        if here.silent_after is not None:
            start = len(here.content) - len(body)
            self.wfile.write(body[: max(here.silent_after - start, 0)])
            self.wfile.flush()
            here.released.wait(20)
            return
        self.wfile.write(body[: here.cuts.pop(0)] if here.cuts else body)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that has gone is part of the tests


@pytest.fixture
def here(monkeypatch):
    """A server, its behaviour, and the address of its file."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server(("127.0.0.1", 0), Handler)
    server.behaviour = Behaviour()
    server.behaviour.url = f"http://127.0.0.1:{server.server_port}/data/set.zip"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.behaviour
    server.behaviour.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "set.zip"


def fetch(here, target, checksum=MD5, **options):
    download(here.url, target, checksum=checksum, pause=0.001, **options)


def left(target):
    return sorted(file.name for file in target.parent.iterdir())


def test_a_file_comes_whole_and_leaves_nothing_beside_it(here, target):
    events = []
    fetch(here, target, observer=events.append)
    assert target.read_bytes() == CONTENT
    assert left(target) == ["set.zip"]
    assert "Range" not in here.requests[0]
    assert events[-1].step == events[-1].total == len(CONTENT)
    assert [event.step for event in events] == sorted(event.step for event in events)


def test_a_cut_connection_is_continued_where_it_was_cut(here, target):
    here.cuts = [100_000, 300_000]
    fetch(here, target)
    assert target.read_bytes() == CONTENT
    assert [request.get("Range") for request in here.requests] == [None, "bytes=100000-", "bytes=400000-"]
    assert {request.get("If-Range") for request in here.requests[1:]} == {'"v1"'}


def test_a_file_that_has_moved_is_followed_and_continued(here, target):
    here.cuts, here.url = [100_000], here.url.replace("/data/", "/moved/")
    fetch(here, target)
    assert target.read_bytes() == CONTENT
    assert here.requests[-1]["Range"] == "bytes=100000-"


def test_without_a_strong_tag_the_date_names_the_version(here, target):
    here.etag, here.modified, here.cuts = 'W/"weak"', "Wed, 21 Oct 2015 07:28:00 GMT", [1000]
    fetch(here, target)
    assert target.read_bytes() == CONTENT
    assert here.requests[1]["If-Range"] == here.modified


def test_a_second_run_continues_the_first(here, target, monkeypatch):
    here.cuts = [200_000]
    monkeypatch.setattr(module, "TRIES", 1)
    with pytest.raises(DataError, match="the part received is kept, run it again") as raised:
        fetch(here, target)
    assert "200 kB of 1.0 MB" in str(raised.value)
    assert left(target) == ["set.zip.part", "set.zip.part.json"]
    fetch(here, target)
    assert here.requests[-1]["Range"] == "bytes=200000-"
    assert target.read_bytes() == CONTENT


def test_a_server_that_does_not_know_ranges_sends_all_of_it_again(here, target):
    here.ranges, here.cuts = False, [100_000]
    fetch(here, target)
    assert "Range" in here.requests[1]
    assert target.read_bytes() == CONTENT


def test_a_file_that_has_changed_is_not_mixed_with_the_old_one(here, target, monkeypatch):
    here.cuts = [100_000]
    monkeypatch.setattr(module, "TRIES", 1)
    with pytest.raises(DataError):
        fetch(here, target, checksum=None)
    here.etag, here.content = '"v2"', CONTENT[::-1]
    with pytest.warns(DataWarning, match="no checksum is published"):
        fetch(here, target, checksum=None)
    assert here.requests[-1]["If-Range"] == '"v1"'
    assert target.read_bytes() == CONTENT[::-1]


def test_without_a_version_and_a_checksum_nothing_is_continued(here, target):
    here.etag, here.cuts = None, [100_000]
    with pytest.warns(DataWarning):
        fetch(here, target, checksum=None)
    assert "Range" not in here.requests[1]
    assert target.read_bytes() == CONTENT


def test_a_file_that_has_become_shorter_is_fetched_again(here, target, monkeypatch):
    here.cuts = [500_000]
    monkeypatch.setattr(module, "TRIES", 1)
    with pytest.raises(DataError):
        fetch(here, target)
    monkeypatch.undo()
    here.content = CONTENT[:400_000]
    fetch(here, target, checksum="md5:" + hashlib.md5(here.content).hexdigest())
    assert target.read_bytes() == here.content


def test_the_wrong_part_is_not_believed(here, target):
    here.cuts, here.wrong_range = [100_000], True
    fetch(here, target)
    assert target.read_bytes() == CONTENT
    assert "Range" not in here.requests[-1]


def test_a_part_that_is_whole_already_needs_no_server(here, target):
    target.parent.mkdir()
    part = target.with_name("set.zip.part")
    part.write_bytes(CONTENT)
    part.with_name("set.zip.part.json").write_text(
        f'{{"url": "{here.url}", "validator": "\\"v1\\"", "total": {len(CONTENT)}}}'
    )
    fetch(here, target)
    assert here.requests == []
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("notes", ["", "not json", "[1]", '{"url": "http://elsewhere/"}'])
def test_a_part_of_unknown_origin_is_not_built_on(here, target, notes):
    target.parent.mkdir()
    target.with_name("set.zip.part").write_bytes(b"something else entirely")
    target.with_name("set.zip.part.json").write_text(notes)
    fetch(here, target)
    assert "Range" not in here.requests[0]
    assert target.read_bytes() == CONTENT


def test_with_a_checksum_a_part_without_a_version_is_built_on_and_checked(here, target):
    here.etag, here.cuts = None, [100_000]
    fetch(here, target)
    assert here.requests[1]["Range"] == "bytes=100000-"
    assert "If-Range" not in here.requests[1]
    here.cuts, target = [100_000, 100_000], target.with_name("other.zip")
    here.content = CONTENT[::-1]
    with pytest.raises(DataError, match="the md5 of the download is"):
        fetch(here, target)


def test_a_server_that_does_not_say_the_length_is_believed_to_the_end(here, target):
    here.says_length = False
    fetch(here, target)
    assert target.read_bytes() == CONTENT


def test_a_wrong_checksum_names_both_and_leaves_no_part(here, target):
    wrong = "md5:" + "0" * 32
    with pytest.raises(DataError) as raised:
        fetch(here, target, checksum=wrong)
    assert hashlib.md5(CONTENT).hexdigest() in str(raised.value)
    assert "0" * 32 in str(raised.value)
    assert left(target) == []


def test_sha256_is_known_too(here, target):
    fetch(here, target, checksum="sha256:" + hashlib.sha256(CONTENT).hexdigest())
    assert digest_of(target, "sha256") == hashlib.sha256(CONTENT).hexdigest()


def test_the_first_checksum_seen_is_put_down_and_compared_with(here, target):
    digest = hashlib.sha256(CONTENT).hexdigest()
    with pytest.warns(DataWarning, match=digest):
        fetch(here, target, checksum=None)
    record = target.with_name("set.zip.sha256")
    assert record.read_text() == f"{digest}  set.zip\n"
    target.unlink()
    fetch(here, target, checksum=None)  # the same again: no warning
    here.content, here.etag = b"another file", '"v2"'
    target.unlink()
    with pytest.raises(DataError, match="seen first") as raised:
        fetch(here, target, checksum=None)
    assert digest in str(raised.value)
    assert hashlib.sha256(b"another file").hexdigest() in str(raised.value)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_tried_again(here, target, status):
    here.statuses = [status]
    with pytest.raises(DataError, match=rf"the server answered {status}.*--from"):
        fetch(here, target)
    assert len(here.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_fault_is_tried_again(here, target, status):
    here.statuses = [status, status]
    fetch(here, target)
    assert len(here.requests) == 3
    assert target.read_bytes() == CONTENT


def test_a_lasting_fault_is_given_up(here, target):
    here.statuses = [503] * 100
    with pytest.raises(DataError, match=r"503 .*4 times in a row"):
        fetch(here, target)
    assert len(here.requests) == module.TRIES


def test_no_server_listens(target):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(DataError, match=r"127\.0\.0\.1:\d+ cannot be reached"):
        download(f"http://127.0.0.1:{port}/x.zip", target, pause=0.001)


def test_no_such_host(target, monkeypatch):
    def unknown(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DataError, match="no.such.host cannot be found .*network connection"):
        download("http://no.such.host/x.zip", target, pause=0.001)


def test_a_certificate_that_is_not_valid_is_not_accepted(target, monkeypatch):
    def refuse(*arguments, **options):
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_message = "certificate has expired"
        raise URLError(error)

    monkeypatch.setattr(module, "urlopen", refuse)
    with pytest.raises(DataError, match=r"certificate of some\.where is not valid \(certificate has expired\).*--from"):
        download("https://some.where/x.zip", target, pause=0.001)


def test_a_silent_server_is_given_up_and_what_came_is_kept(here, target):
    here.silent_after = 5000
    began = time.monotonic()
    with pytest.raises(DataError, match="the server went silent, 4 times in a row, after 5.0 kB of 1.0 MB"):
        fetch(here, target, timeout=0.2)
    assert time.monotonic() - began < 10
    assert target.with_name("set.zip.part").read_bytes() == CONTENT[:5000]


def test_a_full_disk_is_noticed_before_anything_is_written(here, target, monkeypatch):
    usage = shutil.disk_usage(target.parent.parent)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    with pytest.raises(DataError, match=r"has 1\.0 kB free; expected 1\.0 MB"):
        fetch(here, target)
    assert not target.with_name("set.zip.part").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_disk_that_is_really_full(here, target):
    target.parent.mkdir()
    target.with_name("set.zip.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match="the disk of .* is full"):
        fetch(here, target)
    assert not target.exists()


def test_a_disk_that_fills_up_keeps_the_part_and_goes_on_later(here, target, monkeypatch):
    class Filling:
        def __init__(self, stream):
            self.stream, self.room = stream, 300_000

        def write(self, chunk):
            self.stream.write(chunk[: self.room])
            self.room -= len(chunk)
            if self.room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.stream.close()

    opened = module.open_part
    monkeypatch.setattr(module, "open_part", lambda file, mode: Filling(opened(file, mode)))
    with pytest.raises(DataError, match="is full; expected more room; 300 kB are kept, run it again to continue"):
        fetch(here, target)
    monkeypatch.undo()
    fetch(here, target)
    assert here.requests[-1]["Range"] == "bytes=300000-"
    assert target.read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written(here, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written .*--cache or TASTESPACE_CACHE"):
        fetch(here, tmp_path / "file" / "set.zip")


def test_an_interruption_keeps_the_part(here, target):
    def interrupt(event):
        if event.step > 400_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(here, target, observer=interrupt)
    kept = target.with_name("set.zip.part").stat().st_size
    assert kept > 400_000
    fetch(here, target)
    assert here.requests[-1]["Range"] == f"bytes={kept}-"
    assert target.read_bytes() == CONTENT


TAKE_TURNS = """
import sys
from pathlib import Path
from tastespace.data.sources.download import download
from tastespace.storage import locked
from tastespace.data.sources import SOURCES
url, target, checksum = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
with locked(target.parent / "lock"):
    print("there" if target.exists() else download(url, target, checksum=checksum))
"""


def test_two_processes_take_turns(here, target):
    command = [sys.executable, "-c", TAKE_TURNS, here.url, str(target), MD5]
    with locked(target.parent / "lock"):
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert sorted(said) == ["None", "there"]
    assert len(here.requests) == 1
    assert target.read_bytes() == CONTENT


def test_a_lock_says_that_it_waits(tmp_path):
    events, waited = [], threading.Event()

    def observe(event):
        events.append(event)
        waited.set()

    def wait():
        with locked(tmp_path / "lock", observe):
            events.append("held")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waited.wait(10)
        assert "held" not in events
    thread.join(10)
    assert events[0].phase == "waiting for another process"
    assert events[-1] == "held"


# A data set by name: downloaded, checked, unpacked, read, kept.


def zipped(**files):
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "."), text)
    return stream.getvalue()


RATED = "userId,movieId,rating,timestamp\n1,10,4.0,964982703\n1,20,2.5,964982704\n2,10,5.0,964982705\n"
FILMS = "movieId,title,genres\n10,Heat (1995),Action|Crime\n20,Casino (1995),Crime\n"


@pytest.fixture
def source(here):
    """ml-25m, with the local server in the place of its publisher."""
    here.content = zipped(ratings__csv=RATED, movies__csv=FILMS, tags__csv="not wanted")
    archive = replace(SOURCES["ml-25m"].archive, url=here.url, checksum="md5:" + hashlib.md5(here.content).hexdigest())
    return replace(SOURCES["ml-25m"], archive=archive)


def test_a_data_set_is_downloaded_once(here, source, tmp_path):
    events = []
    ratings = source.load(cache=tmp_path, observer=events.append)
    assert ratings.item_titles.to_list() == ["Heat (1995)", "Casino (1995)"]
    assert {event.phase for event in events} == {"downloading set.zip", "unpacking set.zip"}
    assert source.load(cache=tmp_path).fingerprint() == ratings.fingerprint()
    assert len(here.requests) == 1
    kept = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file())
    assert kept == ["ml-25m/files/movies.csv", "ml-25m/files/ratings.csv", "ml-25m/lock"]


def test_a_data_set_that_another_process_brings_meanwhile_is_not_fetched_twice(here, source, tmp_path):
    threads = []
    with locked(tmp_path / "ml-25m" / "lock"):
        for _ in range(3):
            threads.append(threading.Thread(target=source.load, kwargs={"cache": tmp_path}))
            threads[-1].start()
        time.sleep(0.1)
    for thread in threads:
        thread.join(20)
    assert len(here.requests) == 1
    assert len(source.load(cache=tmp_path)) == 3


def test_a_page_that_says_sorry_is_neither_kept_nor_put_down(here, source, tmp_path):
    source = replace(source, archive=replace(source.archive, checksum=None))
    right, here.content = here.content, b"<html>The file is gone</html>"
    with pytest.warns(DataWarning), pytest.raises(DataError, match="not an archive"):
        source.load(cache=tmp_path)
    assert [file.name for file in (tmp_path / "ml-25m").iterdir()] == ["lock"]
    here.content = right
    with pytest.warns(DataWarning, match="no checksum is published"):
        assert len(source.load(cache=tmp_path)) == 3


def test_no_room_to_unpack_keeps_the_download(here, source, tmp_path, monkeypatch):
    def no_room(folder, n_bytes):
        raise DataError("no room")

    monkeypatch.setattr("tastespace.data.sources.source.require_space", no_room)
    with pytest.raises(DataError, match="no room"):
        source.load(cache=tmp_path)
    monkeypatch.undo()
    assert len(source.load(cache=tmp_path)) == 3
    assert len(here.requests) == 1


def test_a_hint_stands_behind_the_error(here, source, tmp_path):
    here.statuses = [404]
    source = replace(source, archive=replace(source.archive, hint="The site is gone"))
    with pytest.raises(DataError, match=r"the server answered 404 .*\. The site is gone"):
        source.load(cache=tmp_path)


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 bytes"), (999, "999 bytes"), (4_924_029, "4.9 MB"), (697_552_028, "698 MB")]
)
def test_sizes_for_people(n_bytes, text):
    assert readable_size(n_bytes) == text
