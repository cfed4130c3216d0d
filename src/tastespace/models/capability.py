"""What an object can do, asked often: the same for all objects of a class, and looked up once."""

from __future__ import annotations

from typing import Any, Protocol

# By capability and class. Not an attribute of either: `typing` would take it for something that objects must have.
_ANSWERS: dict[tuple[type, type], bool] = {}


class _AskedOnce(type(Protocol)):  # type: ignore[misc]
    """`typing` goes through all members at every question, which took a tenth of the time of a recommendation."""

    def __instancecheck__(cls, instance: Any) -> bool:
        question = (cls, type(instance))
        if question not in _ANSWERS:
            _ANSWERS[question] = super().__instancecheck__(instance)
        return _ANSWERS[question]


class Capability(Protocol, metaclass=_AskedOnce):
    """Base of protocols that objects are tested for; whatever an object has, its class declares."""
