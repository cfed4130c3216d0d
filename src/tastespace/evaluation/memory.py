"""How much memory this process has taken, as far as the system tells."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MEGABYTE = 1e6
_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def begin_peak() -> None:
    """Forget the peak so far, where the system can (Linux): the next one is of what comes."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return


def peak_bytes() -> int | None:
    """The most that was resident at any time; None where the system does not say."""
    # Not getrusage on Linux: there a process begins with the peak of the one that started it.
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM")


def resident_bytes() -> int | None:
    """What is resident now; None where the system does not say, and on macOS the peak so far."""
    return peak_bytes() if sys.platform == "darwin" else _status("VmRSS")


def machine_bytes() -> int | None:
    """What the machine has in all; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else None
