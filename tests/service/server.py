"""A service that runs for real, for tests that stop it, and for those that look at its page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2 as httpx

from tastespace.service.settings import SETTINGS_VARIABLE


class Server:
    """A real server in a process of its own, which can be killed and started again."""

    def __init__(self, settings) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._starter = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py")), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, SETTINGS_VARIABLE: settings.to_json()},
        )
        self.start()

    def start(self) -> None:
        self._starter.stdin.write("start\n")
        self._starter.stdin.flush()
        self.process = int(self._starter.stdout.readline())
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.02)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        self._starter.stdin.close()
        self._starter.wait(timeout=10)
        self._starter.stdout.close()
