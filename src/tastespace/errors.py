"""Every exception and warning of the library.

A message says what was got, what was expected and what to do. Command line and service translate these
classes, and only these, into an exit code or a status.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any


class TastespaceError(Exception):
    """Base of all errors that the caller can do something about."""


class InvalidParameterError(TastespaceError, ValueError):
    """A parameter is out of range, of the wrong kind, or unknown."""


class UnknownParameterError(InvalidParameterError, TypeError):
    """A function or a model has no parameter of this name."""


class DataError(TastespaceError, ValueError):
    """Ratings cannot be read or do not make sense; names the place when they come from a file."""

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        text: str | None = None,
        expected: str | None = None,
    ) -> None:
        self.problem, self.file, self.line, self.text, self.expected = problem, file, line, text, expected
        place = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        message = place + problem
        if text is not None:
            message += f": {shortened(text)!r}"
        if expected is not None:
            message += f"; expected {expected}"
        super().__init__(message)

    def in_file(self, file: Path | str | None) -> DataError:
        """The same with the file in which it was found, unless it names one already."""
        if self.file is not None:
            return self
        return DataError(self.problem, file=file, line=self.line, text=self.text, expected=self.expected)


class UnknownIdError(DataError, KeyError):
    """A user or item was requested by its id, and the model does not know it."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class NotFittedError(TastespaceError, AttributeError):
    """The recommender was used before it was fitted."""


class NonFiniteStateError(TastespaceError, ArithmeticError):
    """A computation produced infinities or NaN; names the block where it happened."""


class ArtifactError(TastespaceError, OSError):
    """A saved recommender is missing, damaged, of another program, or from a newer version."""


class CheckpointError(TastespaceError, OSError):
    """A checkpoint cannot be written, is damaged, or belongs to another run."""


class MissingExtraError(TastespaceError, ImportError):
    """An optional package is needed; the message is the command that installs it."""

    def __init__(self, purpose: str, extra: str) -> None:
        self.given = purpose, extra
        super().__init__(f"{purpose} needs an optional package; install it with: pip install 'tastespace[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process makes the same error of."""
        return type(self), self.given


class TastespaceWarning(UserWarning):
    """Base of all warnings."""


class DataWarning(TastespaceWarning):
    """Something in the data was set aside; the message counts it."""


class ConvergenceWarning(TastespaceWarning):
    """Chains have not run long enough to be trusted; the message names the quantity and what is missing."""


class DivergenceWarning(TastespaceWarning):
    """Gradient descent took steps that were too long; the message names the epoch, and what was kept."""


class CheckpointWarning(TastespaceWarning):
    """A run does not resume as expected: there is no checkpoint, or the last one is damaged."""


def warn(message: str, category: type[TastespaceWarning] = DataWarning) -> None:
    """Issue a warning that points at the first caller outside the library."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("tastespace."):
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


def check_int(name: str, value: Any, *, least: int) -> None:
    """Raise an error unless a parameter is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} is {value!r}; expected a whole number of at least {least}")


def shortened(text: str, length: int = 80) -> str:
    """The beginning of a text, long enough to recognise it."""
    return text if len(text) <= length else text[: length - 1] + "…"


def named(ids: Iterable[object], most: int = 5) -> str:
    """The first few ids, as they would be typed."""
    first = list(islice(ids, most + 1))
    return ", ".join(repr(entry) for entry in first[:most]) + (" …" if len(first) > most else "")
