"""A program that serves in processes of its own, one after another, so that tests can kill them: started in no time.

Everything is imported once; a line "start" forks a server and prints its process id.
"""

from __future__ import annotations

import os
import sys

import uvicorn

from tastespace.service.app import of_environment
from tastespace.service.launching import PROTOCOL
from tastespace.service.monitoring import log_config


def main(port: int) -> None:
    for line in sys.stdin:
        if line.strip() != "start":
            return
        process = os.fork()
        if not process:
            settled = {"log_config": log_config("ERROR"), "access_log": False, **PROTOCOL}
            uvicorn.run(of_environment(), host="127.0.0.1", port=port, **settled)
            os._exit(0)
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
