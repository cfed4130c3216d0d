"""Checkpoints: files that are whole or not there, runs that go on as if nothing had happened."""

from __future__ import annotations

import errno
import os
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace import randomness
from tastespace.errors import CheckpointError, CheckpointWarning, InvalidParameterError
from tastespace.inference import checkpoints
from tastespace.inference.checkpoints import Checkpoints, DamagedError
from tastespace.inference.drivers import Schedule, sample
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.storage import LOCK

VALUE = {"draws": [np.arange(1000.0), np.float32(1.5)], "step": 7}
RUN = {"model": "walk", "seed": 4, "chains": 2, "ratings": "some"}


# one file


def test_a_file_comes_back(tmp_path):
    checkpoints.write(tmp_path / "one", {"run": RUN}, VALUE)
    stored = checkpoints.read(tmp_path / "one")
    assert stored.label == {"run": RUN}
    assert_array_equal(stored.value()["draws"][0], VALUE["draws"][0])
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path):
    file = tmp_path / "one"
    checkpoints.write(file, {"step": 1}, np.float32(1.5))
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError, match="checksum"):
            checkpoints.read(file)
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match=r"checksum|cut off"):
            checkpoints.read(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(DamagedError):
        checkpoints.read(file)


def test_a_file_of_another_version_says_so(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "FORMAT_VERSION", 3)
        checkpoints.write(tmp_path / "one", {}, VALUE)
    with pytest.raises(CheckpointError, match="format version 3; this tastespace reads 2") as caught:
        checkpoints.read(tmp_path / "one")
    assert not isinstance(caught.value, DamagedError)


def test_checkpoints_of_the_first_edition_are_refused_with_words(tmp_path):
    shutil.copytree(Path(__file__).parents[1] / "artifacts" / "checkpoints-1", tmp_path / "run")
    found = "format version 1; this tastespace reads 2: finish the run with the version that wrote it, or start again"
    with pytest.raises(CheckpointError, match=found):
        Checkpoints(tmp_path / "run", resume=True).begin(RUN)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch, number):
    file = tmp_path / "one"
    checkpoints.write(file, {}, 1)
    before = file.read_bytes()

    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            if name == "fsync":
                patched.setattr(os, "fsync", fail)
            else:
                patched.setattr("pathlib.Path.replace", fail)
            with pytest.raises(OSError, match=re.escape(os.strerror(number))):
                checkpoints.write(file, {}, VALUE)
        assert file.read_bytes() == before
        assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


# runs


class Walk:
    """A random walk; how far it goes in a step is a state of its own, too."""

    def init(self, rng):
        return (float(rng.standard_normal()), 0)

    def step(self, state, rng):
        place = state[0] + float(rng.standard_normal(3, np.float32).sum())
        return (place, state[1] + 1), {"place": place}


class Counting:
    """A watch with a memory: the mean place so far."""

    def __init__(self):
        self.total = 0.0

    def __call__(self, state, step):
        self.total += state[0]
        return {"mean": self.total / step}

    def saved(self):
        return self.total

    def restore(self, remembered):
        self.total = remembered


class Killed(BaseException):
    """What ends a run in these tests."""


SCHEDULE = Schedule(chains=2, warmup=5, draws=4, thin=2)


def walked(kept=None, *, threads=1, kill_at=None, schedule=SCHEDULE, watch=Counting):
    """Run the walk; `kill_at` is the step, of all chains together, after which it is killed."""

    def observer(event):
        if event.step == kill_at:
            raise Killed

    return sample(
        Walk(),
        generator(4),
        schedule,
        keeps=[lambda state, draw: (draw, *state)] * schedule.chains,
        watches=[watch() for _ in range(schedule.chains)],
        phase="walking",
        checkpoints=kept,
        threads=threads,
        observer=silent if kill_at is None else observer,
    )


def killed(folder, kill_at, every=3, **options):
    with pytest.raises(Killed), Checkpoints(folder, every=every).begin(RUN) as begun:
        walked(begun, kill_at=kill_at, **options)


def resumed(folder, every=3, run=RUN, **options):
    with Checkpoints(folder, every=every, resume=True).begin(run) as begun:
        return walked(begun, **options)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kill_at", range(4, 26))
def test_a_killed_run_ends_as_one_that_was_not(tmp_path, kill_at, threads):
    killed(tmp_path, kill_at, threads=threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)  # Two threads may have come to no checkpoint yet.
        assert resumed(tmp_path, threads=3 - threads) == walked()


def test_checkpoints_change_nothing_and_are_few(tmp_path):
    assert walked(Checkpoints(tmp_path, every=2).begin(RUN)) == walked()
    assert names(tmp_path) == [
        *(f"chain-1-step-000000{step}.checkpoint" for step in (12, 13)),
        *(f"chain-2-step-000000{step}.checkpoint" for step in (12, 13)),
    ]
    walked(Checkpoints(tmp_path / "one", every=2, keep=1).begin(RUN))
    assert names(tmp_path / "one") == ["chain-1-step-00000013.checkpoint", "chain-2-step-00000013.checkpoint"]


def test_a_finished_chain_is_not_run_again(tmp_path, monkeypatch):
    killed(tmp_path, 20)  # The first has 13 steps.
    steps, step = [], Walk.step

    def counted(walk, state, rng):
        steps.append(state[1])
        return step(walk, state, rng)

    monkeypatch.setattr(Walk, "step", counted)
    resumed(tmp_path)
    assert steps == list(range(6, 13))
    steps.clear()
    assert resumed(tmp_path) == walked(Checkpoints(tmp_path / "other").begin(RUN))
    assert len(steps) == 26  # all of the other run
    monkeypatch.undo()


def test_progress_goes_on_from_where_it_was(tmp_path):
    killed(tmp_path, 20)
    events = []
    sample(
        Walk(),
        generator(4),
        SCHEDULE,
        keeps=[lambda state, draw: 0] * 2,
        phase="walking",
        checkpoints=Checkpoints(tmp_path, resume=True).begin(RUN),
        threads=1,
        observer=events.append,
    )
    assert [event.step for event in events] == [19, *range(20, 27)]
    assert {event.total for event in events} == {26}


@pytest.mark.parametrize("twin", ["generator", "watch", "trace", "draws"])
def test_a_checkpoint_that_forgets_something_is_noticed(tmp_path, monkeypatch, twin):
    killed(tmp_path, 23)

    class Forgetful(Counting):
        def restore(self, remembered):
            pass

    watch = Forgetful if twin == "watch" else Counting
    if twin == "generator":
        monkeypatch.setattr(randomness, "restored", lambda rng, state: rng)
    kept = Checkpoints(tmp_path, resume=True).begin(RUN)
    if twin in ("trace", "draws"):
        kept.found[1][twin][-1:] = []
    assert walked(kept, watch=watch) != walked()


# a folder


def test_a_folder_with_checkpoints_is_not_used_without_resume(tmp_path):
    killed(tmp_path, 20)
    before = names(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"holds checkpoints of a run \(chain 1 after step 13, chain 2 after step 6\); resume it"
    ):
        Checkpoints(tmp_path).begin(RUN)
    assert names(tmp_path) == before


def test_missing_checkpoints_are_reported(tmp_path):
    with pytest.warns(CheckpointWarning, match="no checkpoints in .* yet: the run starts from the beginning"):
        assert resumed(tmp_path / "new" / "folder") == walked()


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(CheckpointError, match="is a file; expected a folder"):
        Checkpoints(tmp_path / "file").begin(RUN)
    with pytest.raises(CheckpointError, match="cannot be written to"):
        Checkpoints(tmp_path / "file" / "below").begin(RUN)


def test_files_of_others_and_left_overs(tmp_path):
    killed(tmp_path, 20)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".chain-1-step-00000013.checkpoint-12ab34cd.unfinished").write_bytes(b"half")
    settings = Checkpoints(tmp_path, resume=True)
    settings.begin(RUN)
    assert not [name for name in names(tmp_path) if name.startswith(".")]
    settings.clear()
    assert names(tmp_path) == ["notes.txt"]
    (tmp_path / "notes.txt").unlink()
    settings.clear()
    assert not tmp_path.exists()
    settings.clear()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 5}, "seed is 5, expected 4"),
        ({"chains": 3}, "chains is 3, expected 2"),
        ({"ratings": "others"}, "ratings is 'others', expected 'some'"),
        ({"model": "run", "seed": 5}, "model is 'run', expected 'walk'; seed is 5, expected 4"),
        ({"new": 1}, "new is 1, expected 'unknown'"),
        ({str(n): n for n in range(9)}, r"4 is 4, expected 'unknown' \(and 4 more\)"),
    ],
)
def test_checkpoints_of_another_run_are_refused(tmp_path, changes, message):
    killed(tmp_path, 20)
    before = names(tmp_path)
    with pytest.raises(CheckpointError, match=f"belong to another run: .*{message}"):
        Checkpoints(tmp_path, resume=True).begin(RUN | changes)
    assert names(tmp_path) == before


@pytest.mark.parametrize("damage", [lambda content: content[:-100], lambda content: content[:50] + b"?" + content[51:]])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    killed(tmp_path, 23)
    file = tmp_path / "chain-2-step-00000009.checkpoint"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(CheckpointWarning, match=r"step-00000009.checkpoint is damaged: .*; trying .* after step 6"):
        kept = Checkpoints(tmp_path, every=1, resume=True).begin(RUN)
    assert walked(kept) == walked()
    assert names(tmp_path)[2:] == ["chain-2-step-00000012.checkpoint", "chain-2-step-00000013.checkpoint"]


def test_a_damaged_newer_one_does_not_push_out_a_good_one(tmp_path):
    killed(tmp_path, 23)
    (tmp_path / "chain-2-step-00000009.checkpoint").write_bytes(b"")
    with pytest.warns(CheckpointWarning, match="cut off"):
        kept = Checkpoints(tmp_path, every=1, resume=True).begin(RUN)
    with pytest.raises(Killed):
        walked(kept, kill_at=21)  # after steps 13 and 8, of which 7 is on disk
    assert names(tmp_path)[2:] == ["chain-2-step-00000006.checkpoint", "chain-2-step-00000007.checkpoint"]


def test_no_good_checkpoint_left(tmp_path):
    killed(tmp_path, 23)
    for file in tmp_path.glob("chain-2-*"):
        file.write_bytes(b"?" * 100)
    with (
        pytest.warns(CheckpointWarning, match="checksum"),
        pytest.raises(
            CheckpointError, match="no checkpoint of chain 2 in .* is intact; all 2 are damaged. Delete them"
        ),
    ):
        Checkpoints(tmp_path, resume=True).begin(RUN)
    for file in tmp_path.glob("chain-2-*"):
        file.unlink()
    assert resumed(tmp_path) == walked()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_disk_ends_the_run_with_the_checkpoint_before_intact(tmp_path, monkeypatch, threads):
    write = checkpoints.write

    def full(path, label, value):
        if label["step"] > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, label, value)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "write", full)
        message = (
            r"checkpoint of chain \d after step 9 cannot be written to .*: No space left on device; that after "
            r"step 6 is intact: make room, then resume"
        )
        with pytest.raises(CheckpointError, match=message), Checkpoints(tmp_path, every=3).begin(RUN) as begun:
            walked(begun, threads=threads)
    assert resumed(tmp_path) == walked()


def test_a_disk_full_from_the_start(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="after step 3 cannot be written .*; there is none before it"):
        walked(Checkpoints(tmp_path, every=3).begin(RUN))
    assert names(tmp_path) == []


def test_the_seed_of_a_run(tmp_path):
    assert Checkpoints(tmp_path).seed() is None
    killed(tmp_path, 20)
    assert Checkpoints(tmp_path).seed() == 4


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": 2.5}, {"keep": 0}, {"keep": True}, {"resume": "yes"}])
def test_settings_that_make_no_sense(tmp_path, wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        Checkpoints(tmp_path, **wrong)
    with pytest.raises(InvalidParameterError):
        replace(Checkpoints(tmp_path), **wrong)


def test_two_runs_do_not_share_a_folder(tmp_path):
    first = Checkpoints(tmp_path / "run").begin({"seed": 1})
    with pytest.raises(CheckpointError, match="another run is writing checkpoints"):
        Checkpoints(tmp_path / "run", resume=True).begin({"seed": 1})
    first.lock.release()  # as when its process ends, however that comes about
    with pytest.warns(CheckpointWarning, match="from the beginning"):
        Checkpoints(tmp_path / "run", resume=True).begin({"seed": 1})
