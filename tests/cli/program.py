"""The program in tests: within this process, or where it must be so as a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
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


def as_a_process(*arguments, **environment):
    """The same in a Python of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | WIDE | environment,
    )
