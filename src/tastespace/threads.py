"""Threads, instruction set and heap of computations."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from tastespace import _native
from tastespace.errors import InvalidParameterError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")
Result = TypeVar("Result")
MOST = 1024  # more would only cost memory


def available() -> int:
    """The number of cores that this process may use (a container's share, not the machine's)."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def resolve(threads: int | None) -> int:
    """The requested number of threads, or all cores; the number never changes a result."""
    if threads is None:
        return available()
    if type(threads) is int and 1 <= threads <= MOST:  # The usual case, fast enough for a search of microseconds.
        return threads
    if isinstance(threads, bool) or not isinstance(threads, Integral) or threads < 1:
        raise InvalidParameterError(f"threads is {threads!r}; expected at least 1, or nothing for all cores")
    return min(int(threads), MOST)


def mapped(function: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Iterator[Result]:
    """The function of each part, in their order; as many at a time as there are threads."""
    if threads == 1:
        yield from map(function, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(function, parts)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which products and factorizations of small matrices use one thread.

    More would wait for one another: on a busy machine a hundred times longer than the work itself takes.
    """
    return _ONE_BLAS_THREAD


def one_thread() -> AbstractContextManager[Any]:
    """A context in which threaded libraries use one thread, so that sums do not depend on the number of cores."""
    limited: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limited


class _OneBlasThread(AbstractContextManager[None]):
    """A process-wide limit: the first to enter sets it, and the last to leave removes it."""

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
    """The loaded libraries. Finding them takes milliseconds, and is repeated only if others may have been loaded.

    They are loaded with modules: as long as the number of modules is the same, there are no others.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def instruction_set() -> str:
    """The best instruction set of this processor, or the one that TASTESPACE_ISA names."""
    try:
        return _native.instruction_set()
    except RuntimeError as error:
        raise InvalidParameterError(str(error)) from error


M_ARENA_MAX = -8  # of glibc's malloc.h
ARENA_VARIABLE = "MALLOC_ARENA_MAX"  # read by glibc when a process starts


def share_one_heap() -> None:
    """Let threads share one heap, here and in processes started from now on (glibc only).

    Every answer needs a few megabytes for a moment, in an arbitrary thread, and each heap keeps its peak size: ten
    minutes of requests doubled the memory of two workers. Existing heaps stay in use, so call this before starting
    threads.
    """
    os.environ.setdefault(ARENA_VARIABLE, "1")
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(M_ARENA_MAX, 1)
