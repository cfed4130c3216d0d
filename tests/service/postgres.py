"""A PostgreSQL of the tests' own, from Debian's packages: started when first wanted, gone at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path


def binaries() -> Path | None:
    """Where the server's programs are; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    return found[-1].parent if found else None


class Postgres:
    """A server on a free port of the loopback address; without durability, where tests need none of it."""

    def __init__(self, *, is_durable: bool = False) -> None:
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="tastespace-postgres-"))
        # The server refuses to run as root.
        self._as: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, "postgres")
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._fsync = "on" if is_durable else "off"
        options = ["-D", self._data, "-U", "tastespace", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        self._run("initdb", *options)
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tastespace@127.0.0.1:{self.port}/postgres"

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def start(self) -> None:
        settings = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync={self._fsync}"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", str(self._folder / "log"), "-o", settings, "start")

    def freeze(self) -> None:
        """Let it accept connections, which the kernel does, and answer nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        parent = int(Path(self._data, "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for process in [parent, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def stop(self) -> None:
        """As a crash would."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *options: str) -> None:
        with (self._folder.parent / f"{self._folder.name}.out").open("ab") as output:
            subprocess.run(
                [*self._as, str(self._programs / program), *options],
                check=True,
                cwd="/",
                stdout=output,
                stderr=output,
                timeout=60,
            )
