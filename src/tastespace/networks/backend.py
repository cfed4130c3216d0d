"""PyTorch, imported when a network is trained: the refusal without it, and what makes training repeatable."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from numpy.random import Generator

from tastespace.errors import MissingExtraError

_LOCK = RLock()  # the number of threads is one setting of the process


def torch_for(purpose: str) -> Any:
    """The module `torch`, or the command that installs it."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(purpose, "deep") from error
    return torch


@contextmanager
def repeatable(purpose: str) -> Iterator[Any]:
    """The module `torch` on one thread: products are then the same bytes whatever the number of cores."""
    torch = torch_for(purpose)
    with _LOCK, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield torch
        finally:
            torch.set_num_threads(before)


def torch_generator(torch: Any, rng: Generator) -> Any:
    """A generator of torch, seeded by this one."""
    return torch.Generator().manual_seed(int(rng.integers(1 << 62)))
