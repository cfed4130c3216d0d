"""A service in its own process, for tests that stop it, and for those that look at its page."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import httpx2 as httpx


@cache
def _starter() -> subprocess.Popen[str]:
    """The process that all servers are forked from; it has imported what they need."""
    program = str(Path(__file__).with_name("forking.py"))
    starter = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end() -> None:
        starter.stdin.close()
        starter.wait(timeout=10)
        starter.stdout.close()

    atexit.register(end)
    return starter


class Server:
    """A real server, which can be killed and started again."""

    def __init__(self, settings) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._line = json.dumps({"settings": settings.to_json(), "port": self.port}) + "\n"
        self.start()

    def start(self) -> None:
        _starter().stdin.write(self._line)
        _starter().stdin.flush()
        self.process = int(_starter().stdout.readline())
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.02)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    end = kill
