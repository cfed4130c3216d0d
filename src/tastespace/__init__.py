"""Bayesian recommender systems: recommendations with honest uncertainty.

Public names are imported on first use (PEP 562), so that `import tastespace` itself costs next to nothing. The stub
beside this file has their imports: it tells type checkers, and the table below, where each of them lives.

Begin with `models/base/recommender.py` for what a model can do, or with docs/contributing/principles.md for the rooms.
Imports go down only: cli, service, report, selection, evaluation, artifact, models, index, inference, distributions,
data, and the files beside this one; pyproject.toml has the layers, and `make lint` checks them.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from tastespace.version import __version__ as __version__

with open(f"{__file__}i") as _stub:
    _WORDS = _stub.read().replace("(", " ").split()
_MODULES = {_WORDS[at + 3]: _WORDS[at + 1] for at, word in enumerate(_WORDS) if word == "from"}
# First-edition names that still work.
_RENAMED = {
    "compare": "compare_reports",
    "contest": "compare_models",
    "Contest": "ModelComparison",
    "write_contest": "write_comparison",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"tastespace.{name} is now tastespace.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name not in _MODULES:
        raise AttributeError(f"module 'tastespace' has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
