"""The program in tests: in this process, or, where it is killed or its environment matters, in another one."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

from tastespace.cli.main import run

COMMAND = [sys.executable, "-c", "from tastespace.cli.main import run; run()"]
WIDE = {"COLUMNS": "200"}


def tastespace(*arguments, cwd=None, **environment):
    """All of the program from `run` down, with its own streams, folder, environment and filters of warnings.

    A second Python would spend more than a second on imports. One is needed only by what is read when it starts
    (`PYTHONIOENCODING`, `TASTESPACE_ISA`) and for signals.
    """
    command = ["tastespace", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with (
        contextlib.chdir(cwd or os.getcwd()),
        mock.patch.dict(os.environ, WIDE | environment),
        mock.patch.object(sys, "argv", command),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    return subprocess.CompletedProcess(command, code, *map(_written, (out, err)))


def _written(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


# A process that has imported what a fit needs, and forks: a new Python would spend a second on imports.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tastespace.cli.verbs.fit", "typer.testing", "pydantic", "cli.program"])


class Forked:
    """The program in a process of its own, which can be interrupted and killed."""

    def __init__(self, *arguments, max_file_bytes=None):
        self._folder = tempfile.TemporaryDirectory(prefix="tastespace-forked-")
        self._files = [str(Path(self._folder.name) / name) for name in ("out", "err")]
        self._process = FORKS.Process(target=_run_forked, args=([*map(str, arguments)], self._files, max_file_bytes))
        self._process.start()

    @property
    def pid(self):
        return self._process.pid

    @property
    def returncode(self):
        """None while it runs; below 0 after a signal."""
        return self._process.exitcode

    def wait_until(self, happened, seconds=120):
        """Until it has happened, or the process has ended."""
        end = time.monotonic() + seconds
        while not happened() and self.returncode is None:
            assert time.monotonic() < end
            time.sleep(0.002)

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=300):
        """What it has printed, when it has ended: output and errors."""
        self._process.join(timeout)
        assert self.returncode is not None
        out, err = (Path(file).read_text("utf-8") if Path(file).exists() else "" for file in self._files)
        self._folder.cleanup()
        return out, err


def _run_forked(arguments, files, max_file_bytes):
    if max_file_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
    for descriptor, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = (open(descriptor, "w", encoding="utf-8", closefd=False) for descriptor in (1, 2))  # noqa: SIM115
    sys.argv = ["tastespace", *arguments]
    os.environ |= WIDE
    run()


def as_a_process(*arguments, **environment):
    """The same in a new Python."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | WIDE | environment,
    )
