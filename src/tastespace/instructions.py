"""Which set of instructions the kernels use."""

from __future__ import annotations

from tastespace import _native
from tastespace.errors import InvalidParameterError


def instruction_set() -> str:
    """The best that this processor has, or the one that TASTESPACE_ISA names."""
    try:
        return _native.instruction_set()
    except RuntimeError as error:
        raise InvalidParameterError(str(error)) from error
