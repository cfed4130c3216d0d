"""Memory that stays flat: one heap for all threads of a process."""

from __future__ import annotations

import ctypes
import os

M_ARENA_MAX = -8  # of glibc's malloc.h
VARIABLE = "MALLOC_ARENA_MAX"  # read by glibc when a process starts


def share_one_heap() -> None:
    """Keep threads from having heaps of their own, here and in processes started from now on; as glibc can.

    Every answer takes a few megabytes for a moment. In whose thread it is made is chance, and each heap keeps the most
    that it ever had: ten minutes of requests doubled what two workers took. One request at a time asks the model, so
    that nobody waits for the one heap. Heaps that are there already stay in use: so this comes before any thread.
    """
    os.environ.setdefault(VARIABLE, "1")
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
