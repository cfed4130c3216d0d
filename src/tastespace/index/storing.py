"""An index as a description, for a manifest, and arrays: what an artifact keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from numpy.typing import NDArray

from tastespace.arrays import FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.index import INDEXES
from tastespace.index.index import Index

NOT_SAVED = ("threads",)  # a property of the machine


def described(index: Index) -> dict[str, Any]:
    """The structure and its parameters, among which may be structures."""
    names = {structure: name for name, structure in INDEXES.items()}
    if type(index) not in names or not is_dataclass(index):
        raise InvalidParameterError(
            f"an index of the type {type(index).__name__} cannot be saved; expected one of {', '.join(INDEXES)}"
        )
    parameters = {}
    for field in fields(index):
        value = getattr(index, field.name)
        if field.name not in NOT_SAVED:
            parameters[field.name] = described(value) if type(value) in names else value
    return {"structure": names[type(index)], "parameters": parameters}


def restored(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], vectors: FloatMatrix) -> Index:
    """The index that was described, over the same vectors; what does not fit is a ValueError or a KeyError."""
    index: Index = _unbuilt(description).restore(arrays, vectors)
    return index


def _unbuilt(description: Mapping[str, Any]) -> Any:
    structure = INDEXES[description["structure"]]
    parameters = {
        name: _unbuilt(value) if isinstance(value, dict) and "structure" in value else value
        for name, value in description["parameters"].items()
    }
    return structure(**parameters)
