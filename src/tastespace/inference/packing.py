"""Nested values as plain arrays and a description of how they fit together: what can be written without pickle.

A value is None, a truth value, a number, a text, an array, a list, a tuple, a mapping with texts as keys, or a frozen
dataclass of this library, of such values. Its arrays become a list; the rest becomes JSON with their places in it.
Numbers come back as what they were: a number of numpy stays one, because it makes other types than Python's own where
it meets an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import CheckpointError

OUR_MODULES = "tastespace."  # whatever a file says, no other class is ever made from it
Arrays = list[NDArray[Any]]


def pack(value: Any) -> tuple[Any, Arrays]:
    """The description of a value, and its arrays; these are not copied."""
    arrays: Arrays = []
    return _packed(value, arrays), arrays


def unpack(described: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """The value that was packed."""
    if not isinstance(described, dict):
        return described
    if len(described) != 1:
        raise CheckpointError(f"a value is described by {sorted(described)}; expected one kind")
    ((kind, content),) = described.items()
    if kind not in _UNPACKERS:
        raise CheckpointError(f"a value is of the kind {kind!r}; expected one of {', '.join(_UNPACKERS)}")
    return _UNPACKERS[kind](content, arrays)


def _packed(value: Any, arrays: Arrays) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(entry, arrays) for entry in value]}
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {"mapping": {key: _packed(entry, arrays) for key, entry in value.items()}}
    if is_dataclass(value) and _is_ours(type(value)):
        parts = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"class": [type(value).__module__, type(value).__qualname__, parts]}
    raise CheckpointError(
        f"a state holds a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold; "
        "expected arrays, numbers, texts, lists, mappings by name and frozen dataclasses of the library"
    )


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith(OUR_MODULES) and "." not in kind.__qualname__


def _array(place: int, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[place]


def _number(place: int, arrays: Sequence[NDArray[Any]]) -> Any:
    return arrays[place][()]


def _list(entries: list[Any], arrays: Sequence[NDArray[Any]]) -> list[Any]:
    return [unpack(entry, arrays) for entry in entries]


def _tuple(entries: list[Any], arrays: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
    return tuple(_list(entries, arrays))


def _mapping(entries: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> dict[str, Any]:
    return {key: unpack(entry, arrays) for key, entry in entries.items()}


def _made(content: list[Any], arrays: Sequence[NDArray[Any]]) -> Any:
    module, name, parts = content
    kind = _class_of(module, name)
    known = {field.name for field in fields(kind) if field.init}
    if known != parts.keys():
        raise CheckpointError(f"a {name} has {', '.join(parts)}; expected {', '.join(sorted(known))}")
    return kind(**_mapping(parts, arrays))


def _class_of(module: str, name: str) -> type[Any]:
    """A dataclass of this library, by its name; anything else is refused before it is even looked at."""
    refusal = CheckpointError(f"a value is a {module}.{name}; expected a dataclass of this version of tastespace")
    if not module.startswith(OUR_MODULES):
        raise refusal
    try:
        kind = vars(import_module(module)).get(name)
    except ImportError as error:
        raise refusal from error
    if not (isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module):
        raise refusal
    return kind


_UNPACKERS: dict[str, Callable[[Any, Sequence[NDArray[Any]]], Any]] = {
    "array": _array,
    "number": _number,
    "list": _list,
    "tuple": _tuple,
    "mapping": _mapping,
    "class": _made,
}
