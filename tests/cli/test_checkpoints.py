"""`tastespace fit --checkpoint`: killed, interrupted, on a full disk, and resumed."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from cli.program import Forked, tastespace

from tastespace.randomness import generator
from tastespace.testing.toys import tastes

# Many quick sweeps, and a checkpoint after each: most of the time something is being written.
QUICK = ("--model", "bpmf", "--n-factors", 2, "--seed", 5)
SWEEPS = (*QUICK, "--set", "warmup=100", "--set", "draws=25", "--set", "thin=4")
N_SWEEPS = 200
SHORT = (*QUICK, "--set", "warmup=30", "--set", "draws=15", "--set", "thin=2")
N_SHORT = 60


def run(*arguments, code=0):
    result = tastespace(*arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result.stdout, result.stderr


def content(folder):
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


KINDS = {
    "ordinal": ("--set", "likelihood=ordinal"),
    "probit": ("--set", "likelihood=probit"),
    "logistic": ("--set", "likelihood=logistic"),
    "uneven": ("--set", "likelihood=heteroscedastic"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings, and the model of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("runs")
    tastes(30, 20, rng=generator(4))[0].write(folder / "ratings.csv")
    run("fit", folder / "ratings.csv", "--out", folder / "whole", *SWEEPS)
    return folder


def last_step(folder):
    """The sum over chains of the newest checkpoints."""
    steps = {}
    if folder.is_dir():
        for entry in folder.glob("chain-*.checkpoint"):
            chain, step = entry.name.removesuffix(".checkpoint").split("-")[1::2]
            steps[chain] = max(steps.get(chain, 0), int(step))
    return sum(steps.values())


def survive(folder, tmp_path, kills, seed, sweeps=SWEEPS, n_sweeps=N_SWEEPS):
    """Kill the fit at so many random moments, each time further on; the last run is left alone."""
    rng, state, killed = generator(seed), tmp_path / "state", 0
    options = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", *sweeps)
    options += ("--checkpoint", state, "--every", 1)
    goals = sorted(rng.integers(1, 2 * n_sweeps - 40, kills))
    for goal in goals:
        threads, delay = int(rng.integers(1, 3)), float(rng.uniform(0, 0.01))
        process = Forked(*options, "--threads", threads, *(["--resume"] if last_step(state) else []))
        process.wait_until(lambda goal=goal: last_step(state) >= goal)
        time.sleep(delay)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert killed == kills, "the run must still go on when it is killed"
    assert not (tmp_path / "model").exists()
    out, err = run(*options, "--resume")
    assert "checkpoint" not in err
    assert content(tmp_path / "model") == content(folder / "whole")
    assert not state.exists(), "checkpoints are removed once the model is saved"


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_at_random_moments_it_ends_with_the_same_bytes(folder, tmp_path):
    survive(folder, tmp_path, kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_thirty_times_it_ends_with_the_same_bytes(folder, tmp_path):
    survive(folder, tmp_path, kills=30, seed=2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
@pytest.mark.parametrize("kind", KINDS)
def test_killed_whatever_the_likelihood_it_ends_with_the_same_bytes(kind, tmp_path):
    ratings = tastes(30, 20, rng=generator(4))[0]
    values = ratings.values > 3 if kind in ("probit", "logistic") else np.clip(np.round(ratings.values), 1, 5)
    replace(ratings, values=values.astype(np.float32)).write(tmp_path / "ratings.csv")
    run("fit", tmp_path / "ratings.csv", "--out", tmp_path / "whole", *SHORT, *KINDS[kind])
    survive(tmp_path, tmp_path, kills=6, seed=3, sweeps=(*SHORT, *KINDS[kind]), n_sweeps=N_SHORT)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_with_a_hold_out_and_a_second_fit(folder, tmp_path):
    options = ("fit", folder / "ratings.csv", *SWEEPS, "--holdout", 0.1, "--refit")
    run(*options, "-o", tmp_path / "whole")
    state = tmp_path / "state"
    options += ("-o", tmp_path / "model", "--checkpoint", state, "--every", 20)
    process = Forked(*options)
    process.wait_until(lambda: last_step(state / "refit") >= 100)
    process.kill()
    process.communicate()
    assert last_step(state) == 2 * N_SWEEPS
    run(*options, "--resume")
    assert content(tmp_path / "model") == content(tmp_path / "whole")
    assert not state.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits of file sizes")
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_full_disk_stops_the_run_cleanly(folder, tmp_path, threads):
    """No file may be larger than 60 kB: checkpoints grow with what is watched, and one is too large."""
    state = tmp_path / "state"
    options = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", *SWEEPS, "--checkpoint", state, "--every", 10)
    process = Forked(*options, "--threads", threads, max_file_bytes=60_000)
    out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert err.startswith("error: the checkpoint of chain ")
    assert "cannot be written to" in err
    assert "File too large; that after step" in err
    assert "is intact: make room, then resume the run (--resume on the command line)" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "model").exists()
    left = {entry.name for entry in state.iterdir() if not entry.name.startswith("chain-")}
    assert left <= {".lock"}, "nothing half-written is left"
    run(*options, "--resume")
    assert content(tmp_path / "model") == content(folder / "whole")


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts in another way")
def test_interrupted_it_says_how_to_resume(folder, tmp_path):
    state = tmp_path / "state"
    options = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", *SWEEPS, "--checkpoint", state, "--every", 1)
    process = Forked(*options)
    process.wait_until(lambda: last_step(state) >= 50)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == f"interrupted; {state} has the checkpoints of the run: repeat the command with --resume\n"
    run(*options, "--resume")
    assert content(tmp_path / "model") == content(folder / "whole")


def test_what_is_refused(folder, tmp_path):
    quick = (*QUICK, "--set", "warmup=5", "--set", "draws=10")
    options = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", *quick)
    for flags in (("--resume",), ("--every", 3)):
        _, err = run(*options, *flags, code=2)
        assert f"{flags[0]} expects --checkpoint FOLDER" in err
    _, err = run(*options, "--checkpoint", tmp_path / "state", "--every", 0, code=1)
    assert err == "error: every is 0; expected a whole number of at least 1\n"
    als = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", "--model", "als")
    _, err = run(*als, "--checkpoint", tmp_path / "state", code=1)
    assert err.startswith("error: ALS keeps no checkpoints: it draws no samples")
    assert not (tmp_path / "state").exists()


def test_another_run_and_a_run_that_is_there(folder, tmp_path):
    state = tmp_path / "state"
    options = ("fit", folder / "ratings.csv", "-o", tmp_path / "model", *SWEEPS, "--checkpoint", state)
    process = Forked(*options)
    process.wait_until(lambda: last_step(state) >= 20)
    process.kill()
    process.communicate()
    _, err = run(*options, code=1)
    assert err.startswith(f"error: {state} holds checkpoints of a run (chain ")
    assert "resume it (--resume on the command line)" in err
    _, err = run(*options, "--resume", "--n-factors", 3, code=1)
    assert err.startswith(
        f"error: the checkpoints in {state} belong to another run: n_factors is 3, expected 2. Repeat"
    )
    (tmp_path / "others.csv").write_text("user,item,rating\n1,1,4\n1,2,3\n2,1,2\n")
    _, err = run(options[0], tmp_path / "others.csv", *options[2:], "--resume", code=1)
    assert "to another run: ratings is '3 by 2 users of 2 items, " in err


def test_nothing_to_resume_from_is_a_warning(folder, tmp_path):
    quick = ("--model", "bpmf", "--n-factors", 2, "--set", "warmup=5", "--set", "draws=20", "--seed", 5)
    state = tmp_path / "state"
    _, err = run("fit", folder / "ratings.csv", "-o", tmp_path / "model", *quick, "--checkpoint", state, "--resume")
    assert f"warning: there are no checkpoints in {state} yet: the run starts from the beginning\n" in err
    assert (tmp_path / "model").is_dir()
    assert not state.exists()
