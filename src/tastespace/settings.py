"""Settings as objects and as text: `cautious:c=2`, `ordinal:levels=1,2,3`, `empirical-bayes:steps=adam,draws=100`.

A kind of settings is a frozen dataclass whose fields are its parameters. The text is its name and, after a colon, the
parameters that differ from their defaults. It is the same in Python, on the command line, in TOML and in a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from tastespace.errors import InvalidParameterError

Kinds = Mapping[str, type[Any] | str]  # by name: the class, or where it is, as "module:Class"


@dataclass(frozen=True)
class Settings:
    """Base of settings: a name, parameters and their check."""

    name: ClassVar[str] = ""

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def __str__(self) -> str:
        """The text that `settings_of` reads; parameters with their default value are left out."""
        own = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        said = [f"{name}={settings_text(value)}" for name, value, default in own if value not in (None, default)]
        return f"{self.name}:{','.join(said)}" if said else self.name


def settings_of(given: Any, kinds: Kinds, what: str, base: Any = Settings) -> Any:
    """Return the settings meant, checked: an object of the base class, a name, or a name with parameters.

    `what` is the parameter that was given, for messages.
    """
    if isinstance(given, str):
        name, _, parameters = given.partition(":")
        if name in kinds:
            given = read_settings(kind_of(kinds[name]), name, parameters)
    if not isinstance(given, base):
        names = ", ".join(repr(name) for name in kinds)
        raise InvalidParameterError(
            f"{what} is {given!r}; expected one of {names}, such a name with its parameters, or an object of that kind"
        )
    given.check()
    return given


def kind_of(kind: type[Any] | str) -> type[Any]:
    """Return a class, imported if only its place is known."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


def read_settings(kind: type[Any], name: str, text: str) -> Any:
    """Read `key=value,key=value` as an object; what has no = belongs to the value before it, as in a list."""
    known = [field.name for field in fields(kind)]
    hints, read = get_type_hints(kind), {}
    for key, value in split_settings(f"{name}:{text}")[1].items():
        if key not in known or value is None:
            expected = f"key=value, with a key among {', '.join(known)}" if known else "the name alone"
            raise InvalidParameterError(
                f"{name} has {key if value is None else f'{key}={value}'!r}; expected {expected}"
            )
        read[key] = _value(key, value, hints[key])
    return kind(**read)


def split_settings(text: str) -> tuple[str, dict[str, str | None]]:
    """Split a text into its name and its parameters; one without = has no value, and is a mistake."""
    name, _, rest = text.partition(":")
    found: dict[str, str | None] = {}
    last = None
    for part in rest.split(",") if rest else []:
        key, separator, value = part.partition("=")
        if not separator and last is not None and found[last] is not None:
            found[last] = f"{found[last]},{part}"
        else:
            found[key] = value if separator else None
            last = key
    return name, found


def _value(key: str, text: str, hint: Any) -> Any:
    """Read a value as its type says."""
    kinds = _kinds(hint)
    word = text.lower()
    if type(None) in kinds and word == "none":
        return None
    if bool in kinds:
        if word not in ("true", "false"):
            raise InvalidParameterError(f"{key} is {text!r}; expected one of 'true', 'false'")
        return word == "true"
    try:
        if tuple in kinds:
            return tuple(float(part) for part in text.split(","))
        if int in kinds:
            return int(text)
        if float in kinds:
            return float(text)
    except ValueError:
        if str in kinds:
            return text
        expected = "numbers" if tuple in kinds else "a whole number" if int in kinds else "a number"
        raise InvalidParameterError(f"{key} is {text!r}; expected {expected}") from None
    return text


def _kinds(hint: Any) -> set[Any]:
    """The types that a parameter may have."""
    if get_origin(hint) is Literal:
        return {str}
    if isinstance(hint, type) or get_origin(hint) is tuple:
        return {get_origin(hint) or hint}
    return set().union(*(_kinds(part) for part in get_args(hint)))


def settings_text(value: Any) -> str:
    """Write a value as `settings_of` reads it."""
    if isinstance(value, list | tuple):
        return ",".join(settings_text(part) for part in value)
    return f"{int(value)}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
