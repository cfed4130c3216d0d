"""Threads, instruction set and heap: what computations run on."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import AbstractContextManager
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tastespace import _native
from tastespace.errors import InvalidParameterError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

MOST = 1024  # more would only cost memory


def available() -> int:
    """Cores this process may run on (a container's share, not the machine's)."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def resolve(threads: int | None) -> int:
    """The number asked for, or all cores; the number never changes a result."""
    if threads is None:
        return available()
    if type(threads) is int and 1 <= threads <= MOST:  # The usual case, which a search of microseconds asks for.
        return threads
    if isinstance(threads, bool) or not isinstance(threads, Integral) or threads < 1:
        raise InvalidParameterError(f"threads is {threads!r}; expected at least 1, or nothing for all cores")
    return min(int(threads), MOST)


def one_blas_thread() -> AbstractContextManager[Any]:
    """While it lasts, products and factorizations of small matrices take one thread.

    More would wait for one another: on a busy machine a hundred times as long as the work itself takes.
    """
    return _ONE_BLAS_THREAD


def one_thread() -> AbstractContextManager[Any]:
    """While it lasts, libraries with threads of any kind take one: sums are the same with any number of cores."""
    limited: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limited


class _OneBlasThread(AbstractContextManager[None]):
    """The limit is the process's: whoever comes first sets it, and the last to leave takes it away."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


_ONE_BLAS_THREAD = _OneBlasThread()


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The libraries that are loaded. Looking for them takes milliseconds, and is done again where others may have come.

    They come with modules: as long as there are as many of these, there are no others.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def instruction_set() -> str:
    """The best that this processor has, or the one that TASTESPACE_ISA names."""
    try:
        return _native.instruction_set()
    except RuntimeError as error:
        raise InvalidParameterError(str(error)) from error


M_ARENA_MAX = -8  # of glibc's malloc.h
ARENA_VARIABLE = "MALLOC_ARENA_MAX"  # read by glibc when a process starts


def share_one_heap() -> None:
    """Keep threads from having heaps of their own, here and in processes started from now on; as glibc can.

    Every answer takes a few megabytes for a moment. In whose thread it is made is chance, and each heap keeps the most
    that it ever had: ten minutes of requests doubled what two workers took. Heaps that are there already stay in use:
    so this comes before any thread.
    """
    os.environ.setdefault(ARENA_VARIABLE, "1")
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
