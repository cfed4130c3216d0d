"""Runs verbs of the program on a disk that fails: killed at any step, full, or without power.

Run as a program it forks: a line of JSON on standard input is one run of a verb. It is started with the library that is
built from power.c preloaded, and has imported what verbs need.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("power.c")


class Laboratory:
    """A folder, `root`, on a disk that can fail."""

    def __init__(self, folder: Path) -> None:
        self.root, self._disk = folder / "root", folder / "disk"
        library = folder / "power.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        environment = os.environ | {"LD_PRELOAD": str(library), "POWER_ROOT": str(self.root)}
        environment |= {"POWER_DISK": str(self._disk), "POLARS_MAX_THREADS": "1"}
        self._runner = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self) -> None:
        self._runner.stdin.close()
        self._runner.wait(timeout=10)
        self._runner.stdout.close()

    def begin(self, content: Path) -> None:
        """Put a copy of a folder on the disk, and nothing else."""
        for folder in (self.root, self._disk):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(content, self.root)
        self._disk.mkdir()

    def run(self, arguments: list[str], at: int = 0, **environment: str) -> dict[str, Any]:
        """Run a verb, and kill it before a step of this number: the signal or code that ended it, and its steps."""
        wanted = {"arguments": arguments, "at": at, "environment": environment}
        self._runner.stdin.write(json.dumps(wanted) + "\n")
        self._runner.stdin.flush()
        return json.loads(self._runner.stdout.readline())

    def lose_power(self, place: Path, *, names_are_kept: bool) -> Path:
        """Write what the disk has after a power failure to a new folder.

        Content that was not synced is lost. Names that were not synced may be kept or lost.
        """
        shutil.rmtree(place, ignore_errors=True)
        self._restore(self.root.stat().st_ino, self.root, place, names_are_kept=names_are_kept)
        return place

    def _restore(self, inode: int, now: Path | None, place: Path, *, names_are_kept: bool) -> None:
        place.mkdir()
        if names_are_kept and now is not None:
            entries = [("dir" if each.is_dir() else "file", each.stat().st_ino, each.name) for each in now.iterdir()]
        else:
            synced = self._disk / f"dir-{inode}"
            lines = synced.read_text().splitlines() if synced.exists() else []
            entries = [(kind, int(number), name) for kind, number, name in (line.split(" ", 2) for line in lines)]
        for kind, number, name in entries:
            below = None if now is None else now / name
            if kind == "dir":
                self._restore(number, below, place / name, names_are_kept=names_are_kept)
                continue
            content = self._disk / f"file-{number}"
            size = below.stat().st_size if names_are_kept and below is not None else 0
            (place / name).write_bytes(content.read_bytes() if content.exists() else bytes(size))


def main() -> None:
    import warnings

    from tastespace.cli import console, main  # noqa: F401
    from tastespace.cli.verbs import fit, index, serve  # noqa: F401
    from tastespace.service import retraining  # noqa: F401

    warnings.simplefilter("ignore")
    power = ctypes.CDLL(None)
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        reader, writer = os.pipe()
        process = os.fork()
        if not process:
            power.power_arm(0)
            for entry in [Path(os.environ["POWER_ROOT"]), *Path(os.environ["POWER_ROOT"]).rglob("*")]:
                handle = os.open(entry, os.O_RDONLY)
                os.fsync(handle)  # What was there before is on the disk.
                os.close(handle)
            os.environ.update(wanted["environment"])
            sys.stdout, sys.stderr = open(os.devnull, "w"), os.fdopen(writer, "w")  # noqa: SIM115
            power.power_arm(wanted["at"])
            code = 0
            try:
                code = main.program(wanted["arguments"][0])(wanted["arguments"], standalone_mode=False) or 0
            except BaseException as error:
                code = 99
                sys.stderr.write(f"Traceback: {error!r}")
            finally:
                sys.stderr.write(f"\n{power.power_steps()}")
                sys.stderr.flush()
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as told:
            *said, steps = told.read().split("\n")
        ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        sys.stdout.write(json.dumps({"ended": ended, "steps": int(steps or 0), "said": "\n".join(said)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
