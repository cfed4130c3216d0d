"""Nearest neighbours: finding the best items for a query vector."""

from __future__ import annotations

from typing import Any

from tastespace.index.exact import Exact
from tastespace.index.inverted_file import InvertedFile

# The structures by name: what an artifact that has one says, and what `tastespace index` chooses from.
INDEXES: dict[str, type[Any]] = {
    "exact": Exact,
    "inverted-file": InvertedFile,
}
