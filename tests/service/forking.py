"""A program that forks servers, so that tests can kill them and start others without a second of imports.

A line of JSON with settings and a port on standard input starts a server; its process id is printed.
"""

from __future__ import annotations

import json
import os
import sys

import uvicorn

from tastespace.service.app import create_from_environment
from tastespace.service.door import middleware
from tastespace.service.launching import PROTOCOL
from tastespace.service.monitoring import log_config
from tastespace.service.settings import SETTINGS_VARIABLE

middleware.GRACE_SECONDS = 0.2


def main() -> None:
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        process = os.fork()
        if not process:
            os.environ[SETTINGS_VARIABLE] = wanted["settings"]
            options = {"log_config": log_config("ERROR"), "access_log": False, **PROTOCOL}
            uvicorn.run(create_from_environment(), host="127.0.0.1", port=wanted["port"], **options)
            os._exit(0)
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
