"""Nearest neighbours: finding the best items for a query vector, and the table of structures, `INDEXES`.

Begin with `index.py`, the base class; `structures/` has one file per structure, `reduction.py` those built over others,
`tail.py` added and removed items; `tuner.py` chooses among them. Nothing here depends on models; may import only the
foundation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from tastespace.arrays import FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Index
from tastespace.index.search import Arrays

# The structures by name and location, as artifacts refer to them, and as `tastespace index` tries them.
INDEXES = {
    "exact": "tastespace.index.structures.exact:Exact",
    "inverted-file": "tastespace.index.structures.inverted_file:InvertedFile",
    "kd-forest": "tastespace.index.structures.kd_forest:KdForest",
    "kmeans-tree": "tastespace.index.structures.kmeans_tree:KMeansTree",
    "graph": "tastespace.index.structures.graph:Graph",
    "reduced": "tastespace.index.reduction:Reduced",
    "vote": "tastespace.index.reduction:Vote",
}
GROWING = "growing"  # the name in artifacts of a structure with added or removed items
NOT_SAVED = ("rebuild_at", "threads")  # the first is implied by the name above, the second is a property of the machine


def structure_type(name: str) -> type[Any]:
    """The class of a structure; a ValueError for an unknown name."""
    if name not in INDEXES:
        raise ValueError(f"there is no structure {name!r}; this version knows {', '.join([*INDEXES, GROWING])}")
    module, _, kind = INDEXES[name].partition(":")
    found: type[Any] = getattr(import_module(module), kind)
    return found


def described(index: Any) -> dict[str, Any]:
    """The structure and its parameters, which may contain structures."""
    kind = type(index)
    names = {place: name for name, place in INDEXES.items()}
    place = f"{kind.__module__}:{kind.__qualname__}"
    if place not in names:
        raise InvalidParameterError(
            f"an index of the type {kind.__name__} cannot be saved; expected one of {', '.join(INDEXES)}"
        )
    parameters = {field.name: getattr(index, field.name) for field in fields(index) if field.name not in NOT_SAVED}
    parameters = {name: described(value) if isinstance(value, Index) else value for name, value in parameters.items()}
    own = {"structure": names[place], "parameters": parameters}
    if not index.can_change:
        return own
    return {"structure": GROWING, "parameters": {"inner": own, "rebuild_at": index.rebuild_at}}


def restored(description: Mapping[str, Any], arrays: Arrays, vectors: FloatMatrix) -> Index:
    """The described index over the same vectors; a mismatch raises a ValueError or a KeyError."""
    index: Index = _unbuilt(description).restore(arrays, vectors)
    return index


def _unbuilt(description: Mapping[str, Any]) -> Any:
    parameters = {
        name: _unbuilt(value) if isinstance(value, dict) and "structure" in value else value
        for name, value in description["parameters"].items()
    }
    if description["structure"] == GROWING:
        index = parameters["inner"]
        index.rebuild_at = parameters["rebuild_at"]
        return index
    return structure_type(description["structure"])(**parameters)
