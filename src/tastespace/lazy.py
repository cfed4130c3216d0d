"""Parts of scipy that are imported when they are first used: a fit and a list of a simple model need none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """A module that is imported when one of its names is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    from scipy import linalg as linalg
    from scipy import optimize as optimize
    from scipy import sparse as sparse
    from scipy import special as special
else:
    linalg, optimize, sparse, special = (
        LazyModule(f"scipy.{name}") for name in ("linalg", "optimize", "sparse", "special")
    )
