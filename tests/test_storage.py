"""Safe writes: what is there is whole, failures leave the old and no litter, one process at a time holds a lock."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tastespace import ALS, artifact, storage
from tastespace.errors import ArtifactError, DataError
from tastespace.randomness import generator
from tastespace.storage import Lock, digest_of, link, locked, remove_unfinished, replace_file, replace_folder
from tastespace.testing.toys import tastes

FAILURES = [OSError(5, "Input/output error"), KeyboardInterrupt()]


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture(params=["exchange", "renames"])
def way(request, monkeypatch):
    """Both ways of putting a folder in the place of another."""
    if request.param == "renames":
        monkeypatch.setattr(storage, "_exchange_names", lambda one, other: False)
    return request.param


def test_a_file_takes_the_place_of_another(tmp_path):
    for content in (b"old", b"new"):
        with replace_file(tmp_path / "file") as stream:
            stream.write(content)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("failure", FAILURES, ids=["error", "Ctrl-C"])
def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, failure):
    (tmp_path / "file").write_bytes(b"old")

    def write():
        with replace_file(tmp_path / "file") as stream:
            stream.write(b"half")
            raise failure

    with pytest.raises(type(failure)):
        write()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.usefixtures("way")
def test_a_folder_takes_the_place_of_another(tmp_path):
    for content in ("old", "new"):
        with replace_folder(tmp_path / "folder") as folder:
            (folder / content).write_text(content)
            assert names(tmp_path) == sorted({"folder", folder.name} if content == "new" else {folder.name})
    assert names(tmp_path / "folder") == ["new"]
    assert names(tmp_path) == ["folder"]


def test_of_two_writers_the_faster_may_stay(tmp_path):
    with replace_folder(tmp_path / "folder", keep=True) as slow:
        with replace_folder(tmp_path / "folder", keep=True) as fast:
            (fast / "fast").touch()
        (slow / "slow").touch()
    assert names(tmp_path / "folder") == ["fast"]
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("failure", FAILURES, ids=["error", "Ctrl-C"])
def test_a_failure_while_moving_puts_the_old_folder_back(tmp_path, failure, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").touch()
    rename = Path.rename
    monkeypatch.setattr(storage, "_exchange_names", lambda one, other: False)

    def fail_second(path, target):
        if target == tmp_path / "folder" and not (path / "old").exists():
            raise failure
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(type(failure)), replace_folder(tmp_path / "folder") as folder:
        (folder / "new").touch()
    assert names(tmp_path / "folder") == ["old"]
    assert names(tmp_path) == ["folder"]


def test_everything_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    events, fsync, exchange = [], os.fsync, storage._exchange
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("sync"), fsync(handle)))
    monkeypatch.setattr(storage, "_exchange", lambda new, path: (events.append("move"), exchange(new, path)))
    with replace_folder(tmp_path / "folder") as folder:
        (folder / "one").touch()
        (folder / "two").touch()
    assert events == ["sync", "sync", "sync", "move", "sync"]


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / ".x-12ab34cd.unfinished").touch()
    (tmp_path / ".y-12ab34cd.unfinished").mkdir()
    (tmp_path / ".y-12ab34cd.unfinished" / "part").touch()
    kept = [".x.unfinished", "x-12ab34cd.unfinished", "x"]
    for name in kept:
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert names(tmp_path) == sorted(kept)


def killed(folder, code: str) -> None:
    """A writer that is killed: what it does until then."""
    program = "import os, sys\nfrom pathlib import Path\nfrom tastespace import storage\nfolder = Path(sys.argv[1])\n"
    ended = subprocess.run(
        [sys.executable, "-c", program + code + "\nos.kill(os.getpid(), 9)", str(folder)], check=False
    )
    assert ended.returncode == -9


MOVED = """
storage._exchange_names = lambda one, other: False
rename = Path.rename
def only_away(path, target):
    if target == folder / "folder":
        os.kill(os.getpid(), 9)
    return rename(path, target)
Path.rename = only_away
with storage.replace_folder(folder / "folder") as new:
    (new / "new").touch()
"""


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nobody knows whether a writer is at work")
def test_a_folder_that_a_killed_writer_moved_away_is_put_back(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").touch()
    killed(tmp_path, MOVED)
    assert not (tmp_path / "folder").exists()
    storage.recover(tmp_path / "folder")
    assert names(tmp_path / "folder") == ["old"]
    with replace_folder(tmp_path / "folder") as folder:
        (folder / "new").touch()
    assert names(tmp_path) == ["folder"]  # What was left over is gone.


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nobody knows whether a writer is at work")
def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_of_others(tmp_path):
    killed(tmp_path, 'writing = storage.replace_file(folder / "file"); writing.__enter__()')
    killed(tmp_path, 'writing = storage.replace_file(folder / "other"); writing.__enter__()')
    assert len(names(tmp_path)) == 2
    with replace_file(tmp_path / "file") as slow:  # at work
        with replace_file(tmp_path / "file") as fast:
            fast.write(b"fast")
        slow.write(b"slow")
    assert (tmp_path / "file").read_bytes() == b"slow"
    assert [name.partition("-")[0] for name in names(tmp_path)] == [".other", "file"]


def test_checksums(tmp_path):
    content = bytes(range(256)) * 9000
    (tmp_path / "file").write_bytes(content)
    assert digest_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
    assert digest_of(tmp_path / "file", "md5") == hashlib.md5(content).hexdigest()
    assert digest_of(tmp_path / "file", n_bytes=7) == hashlib.sha256(content[:7]).hexdigest()


def test_a_link_is_the_same_file_or_a_copy(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("content")
    link(tmp_path / "file", tmp_path / "linked")
    assert os.path.samefile(tmp_path / "file", tmp_path / "linked")

    def no_links(source, place):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    link(tmp_path / "file", tmp_path / "copied")
    assert (tmp_path / "copied").read_text() == "content"


def test_a_lock_is_one_process_s_until_it_ends(tmp_path):
    code = "import sys, time; from pathlib import Path; from tastespace.storage import Lock\n"
    code += "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError):
            Lock(tmp_path / "lock")
        other.kill()
    Lock(tmp_path / "lock").release()


def test_where_there_are_no_locks(tmp_path, monkeypatch):
    def no_locks(stream):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(storage, "_lock", no_locks)
    Lock(tmp_path / "lock").release()
    with pytest.raises(OSError, match="No locks available"):
        Lock(tmp_path / "lock", is_required=True)
    with pytest.raises(DataError, match=r"lock cannot be locked \(No locks available\)"), locked(tmp_path / "lock"):
        pass


def test_a_place_without_room_for_a_lock_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file cannot be written .*--cache"), locked(tmp_path / "file" / "lock"):
        pass


@pytest.mark.parametrize("most", [0, 1000, 30_000, 100_000])
def test_a_model_that_does_not_fit_on_the_disk_is_an_error_in_words(tmp_path, most):
    """Whichever file it is that has no room: the writer of arrays has errors of its own."""
    model = ALS(n_factors=100, seed=0).fit(tastes(100, 200, density=0.5, rng=generator(0))[0])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        with pytest.raises(ArtifactError, match=r"cannot write the artifact .*model: File too large"):
            artifact.save(model, tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == []
