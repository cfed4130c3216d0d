"""A model of a contest in a process of its own: its memory is its own, and so is its end.

A fresh Python, not a fork: threads of kernels and of tables do not survive one. It gets its task by its standard input
and the ratings from a file, and answers with what it has to say on the way and then with the outcome.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from tastespace.data.splitting import Split
from tastespace.errors import DataError, shortened
from tastespace.evaluation.contestant import Outcome, Task, attempt
from tastespace.progress import Observer, Progress

PAUSE = 0.05  # seconds between two events that are passed on
LONGEST = 200  # letters of what a process said last
# What chains load when they are judged. To load it takes a second, and says nothing about a model.
LOADED_LATE = ("scipy.stats", "arviz_stats.base.array")


def keep(split: Split, file: Path) -> None:
    """Write the ratings where all processes find them."""
    try:
        with file.open("wb") as stream:
            pickle.dump(split, stream, protocol=5)
    except OSError as error:
        raise DataError(
            f"cannot write the ratings for other processes ({error.strerror or error})",
            file=file,
            expected="room in the folder for temporary files: TMPDIR names another one",
        ) from error


def attempt_apart(task: Task, kept: Path, observer: Observer) -> Outcome:
    """The outcome of a task in a process of its own, which ends with this call, whatever happens."""
    try:
        packed = pickle.dumps(task, protocol=5)
    except Exception as error:  # What can be wrong with a parameter is up to the parameter.
        return Outcome(error=f"its parameters cannot be sent to a process of its own ({error})")
    start = f"import sys; sys.path[:] = {sys.path!r}; from tastespace.evaluation.apart import serve; serve()"
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                pickle.dump((str(kept), packed), process.stdin)
            outcome = _heard(process.stdout, observer)
            if outcome is None:
                process.wait()
        finally:
            process.kill()  # It has said all it has to say, or nobody listens any more.
            code = process.wait()
            process.stdout.close()
        return _ended(code, complaints) if outcome is None else outcome


def serve() -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever started it hears of an interrupt, too, and ends it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What anybody prints must not come between the answers.
    kept, packed = pickle.load(sys.stdin.buffer)
    try:
        task = pickle.loads(packed)
    except (AttributeError, ImportError) as error:
        _say(
            answers,
            Outcome(
                error=f"its class cannot be imported by a process of its own ({error}); expected one in a module, or "
                "apart=False"
            ),
        )
        return
    with Path(kept).open("rb") as stream:
        split = pickle.load(stream)
    for module in LOADED_LATE if "chains" in task.parameters else ():
        importlib.import_module(module)
    with contextlib.suppress(BrokenPipeError):
        _say(answers, attempt(task, split, _Pausing(answers), is_alone=True))


class _Pausing:
    """An observer that passes events on, but not all of many."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers, self._last = answers, 0.0

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        if event.step == event.total or now - self._last >= PAUSE:
            self._last = now
            _say(self._answers, event)


def _say(answers: IO[bytes], what: Any) -> None:
    pickle.dump(what, answers, protocol=5)
    answers.flush()


def _heard(answers: IO[bytes], observer: Observer) -> Outcome | None:
    """Pass on what is said until there is an outcome; None if the process ends without one."""
    while True:
        try:
            said = pickle.load(answers)
        except (EOFError, pickle.UnpicklingError):
            return None
        if isinstance(said, Outcome):
            return said
        observer(said)


def _ended(code: int, complaints: IO[bytes]) -> Outcome:
    """Why there is no outcome, as far as it is known."""
    if code == -getattr(signal, "SIGKILL", 9):
        return Outcome(error="its process was killed (SIGKILL): most often because there was not enough memory")
    if code < 0:
        return Outcome(error=f"its process was ended by {signal.Signals(-code).name}")
    complaints.seek(0)
    lines = complaints.read().decode(errors="replace").strip().splitlines()
    last = f": {shortened(lines[-1], LONGEST)}" if lines else ""
    return Outcome(error=f"its process ended with the code {code}{last}")
