"""How many threads the kernels use."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from numbers import Integral
from typing import Any

from threadpoolctl import ThreadpoolController

from tastespace import _native
from tastespace.errors import InvalidParameterError

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
    limited: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
    return limited


def one_thread() -> AbstractContextManager[Any]:
    """While it lasts, libraries with threads of any kind take one: sums are the same with any number of cores."""
    limited: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The libraries that are loaded. Looking for them takes milliseconds, and is done again where others may have come.

    They come with modules: as long as there are as many of these, there are no others.
    """
    return ThreadpoolController()


def instruction_set() -> str:
    """The best that this processor has, or the one that TASTESPACE_ISA names."""
    try:
        return _native.instruction_set()
    except RuntimeError as error:
        raise InvalidParameterError(str(error)) from error
