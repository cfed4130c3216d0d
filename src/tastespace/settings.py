"""Settings as objects and as text: `cautious:c=2`, `ordinal:levels=1,2,3`, `empirical-bayes:steps=adam,draws=100`.

A kind of settings is a frozen dataclass whose fields are its parameters. The text is its name and, after a colon, the
parameters that differ from their defaults. It is the same in Python, on the command line, in TOML and in a manifest.

This module also translates names of the first edition to current ones.

Old parameters are accepted by constructors, `set_params`, the command line and configurations with a
DeprecationWarning, and by manifests of older artifacts without one.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from tastespace.errors import InvalidParameterError, UnknownParameterError

Kinds = Mapping[str, type[Any] | str]  # by name: the class, or where it is, as "module:Class"


@dataclass(frozen=True)
class Settings:
    """Base of settings: a name, parameters and their check."""

    name: ClassVar[str] = ""

    def check(self) -> None:
        """Raise an error for invalid parameters."""

    def __str__(self) -> str:
        """The text that `settings_of` reads; parameters with their default value are left out."""
        own = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        said = [f"{name}={settings_text(value)}" for name, value, default in own if value not in (None, default)]
        return f"{self.name}:{','.join(said)}" if said else self.name


def settings_of(given: Any, kinds: Kinds, what: str, base: Any = Settings) -> Any:
    """Return validated settings from an object of the base class, a name, or a name with parameters.

    `what` is the name of the parameter, for messages.
    """
    if isinstance(given, str):
        name, parameters = split_settings(given)
        if name in kinds:
            given = _read(kind_of(kinds[name]), name, parameters)
    if not isinstance(given, base):
        names = ", ".join(map(repr, kinds))
        raise InvalidParameterError(
            f"{what} is {given!r}; expected one of {names}, such a name with its parameters, or an object of that kind"
        )
    given.check()
    return given


def kind_of(kind: type[Any] | str) -> type[Any]:
    """Return a class, imported if only its module is known."""
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


def _read(kind: Any, name: str, parameters: Mapping[str, str | None]) -> Any:
    """Read the parameters of an object."""
    known = [field.name for field in fields(kind)]
    hints, read = _hints(kind), {}
    for key, value in parameters.items():
        if key not in known or value is None:
            said = key if value is None else f"{key}={value}"
            expected = f"key=value, with a key among {', '.join(known)}" if known else "the name alone"
            raise InvalidParameterError(f"{name} has {said!r}; expected {expected}")
        read[key] = _value(key, value, hints[key])
    lacking = [field.name for field in fields(kind) if field.default is MISSING and field.name not in read]
    if lacking:
        raise InvalidParameterError(f"{name} lacks {', '.join(lacking)}; expected {name}:{lacking[0]}=...")
    return kind(**read)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a class. Every request names a policy, and reading annotations takes longer."""
    return get_type_hints(kind)


def split_settings(text: str) -> tuple[str, dict[str, str | None]]:
    """Split `name:key=value,key=value` into the name and the parameters.

    A part without a name before its = belongs to the value before it, as in a list; else it has no value, and is an
    error. Commas in double quotes do not separate; a value may be quoted as a whole.
    """
    name, _, rest = text.partition(":")
    found: dict[str, str | None] = {}
    last = None
    for part in _OUTSIDE_QUOTES.split(rest) if rest else []:
        key, separator, value = part.partition("=")
        if not (separator and key.strip().isidentifier()) and last is not None and found[last] is not None:
            found[last] = f"{found[last]},{part}"
        else:
            last = key.strip()
            found[last] = value if separator else None
    return name, {key: _unquoted(value) if value else value for key, value in found.items()}


_OUTSIDE_QUOTES = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # a comma followed by complete quotations
_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"\s*')


def _unquoted(value: str) -> str:
    found = _QUOTED.fullmatch(value)
    return value if found is None else found[1].replace('""', '"')


# The first type of a parameter decides how its text is read.
_READERS: Mapping[type[Any], tuple[Callable[[str], Any], str]] = {
    tuple: (lambda text: tuple(map(float, text.split(","))), "numbers"),
    int: (int, "a whole number"),
    float: (float, "a number"),
}


def _value(key: str, text: str, hint: Any) -> Any:
    """Read a value by its type."""
    kinds = _kinds(hint)
    word = text.lower()
    if type(None) in kinds and word == "none":
        return None
    if bool in kinds:
        if word not in ("true", "false"):
            raise InvalidParameterError(f"{key} is {text!r}; expected one of 'true', 'false'")
        return word == "true"
    for kind, (read, expected) in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except ValueError:
                if str in kinds:
                    return text
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
    if isinstance(value, str) and re.search('[,"]', value):
        return '"' + value.replace('"', '""') + '"'
    return f"{int(value)}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


M = TypeVar("M", bound=type[Any])
F = TypeVar("F", bound=Callable[..., Any])


class Moved(NamedTuple):
    """A parameter of a model that is now one of its settings: `levels` is `likelihood="ordinal:levels=..."`."""

    to: str  # the parameter of the model
    key: str  # the parameter of the settings
    default: Any


class Spelling(NamedTuple):
    """A parameter in another spelling, which is as good."""

    to: str


class Decides(NamedTuple):
    """A parameter of a model that is now the name of other settings: old value -> old name -> new name."""

    to: str
    names: Mapping[str, Mapping[str, str]]


SPELLED, OR = "regularization", "regularisation"  # in the names of parameters and of what is found for them
# Other spellings of parameters: the words of papers and of other libraries.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "alpha": ("strength",),
    "confidence": ("growth",),
    "max_items": ("most_items",),
    "max_factors": ("most_factors",),
    "cg_steps": ("steps",),
    "max_iter": ("sweeps", "epochs", "passes"),
    "n_neighbors": ("n_neighbours",),
    "centered": ("centred",),
}
# What parameters of other libraries are called here; they are suggested, in this order, where a function has them.
MEANT: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("random_state", "random_seed"), ("seed",)),
    **dict.fromkeys(("n_jobs", "num_threads", "n_threads"), ("threads",)),
    **dict.fromkeys(("N", "k", "top_k", "topk"), ("n", "k")),
    **dict.fromkeys(("test_size", "test_fraction"), ("share",)),
    **dict.fromkeys(("cv", "n_splits", "folds"), ("cv", "k")),
    **dict.fromkeys(("factors", "no_components", "embedding_size"), ("n_factors",)),
    **dict.fromkeys(("reg", "reg_all", "lambda_", "l2"), ("regularization",)),
    **dict.fromkeys(("iterations", "n_iter", "n_epochs"), ("sweeps", "epochs", "draws")),
    **dict.fromkeys(("callback", "verbose", "show_progress"), ("observer",)),
    **dict.fromkeys(("filter_items", "exclude_items"), ("exclude",)),
    **dict.fromkeys(("lr", "lr_all"), ("learning_rate",)),
}
ALIASES = {"users": "user_ids", "items": "item_ids", "user": "user_ids", "item": "item_ids"}  # accepted as they are
# By the class of a model; subclasses inherit them.
PARAMETERS: Mapping[str, Mapping[str, Moved | Decides]] = {
    "BPMF": {
        "noise": Decides(
            "likelihood",
            {"constant": {"heteroscedastic": "gaussian"}, "per-user-and-item": {"gaussian": "heteroscedastic"}},
        ),
        "noise_precision": Moved("likelihood", "precision", "learned"),
        "noise_shape": Moved("likelihood", "shape", 1.0),
        "noise_rate": Moved("likelihood", "rate", 1.0),
        "levels": Moved("likelihood", "levels", None),
        "negatives": Moved("likelihood", "negatives", None),
        "n_negatives": Moved("likelihood", "n_negatives", 10),
        "most_factors": Moved("prior", "max_factors", 64),
    }
}
# "auto" has no parameters of its own: the settings it means if it had some.
AUTO = {"prior": "ard"}
# Attributes of results.
ATTRIBUTES = {"sureness": "uncertainty"}


def renamed_attribute(owner: object, name: str) -> str:
    """The current name of an old attribute; an AttributeError if there never was one of this name."""
    kind = type(owner).__name__
    if name not in ATTRIBUTES:
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")
    warnings.warn(f"{kind}.{name} is called {ATTRIBUTES[name]} now", DeprecationWarning, stacklevel=3)
    return ATTRIBUTES[name]


def old_parameters(model: type[Any]) -> dict[str, Moved | Decides | Spelling]:
    """The old parameters of a model and the other spellings of current ones, by name."""
    tables = (PARAMETERS.get(kind.__name__, {}) for kind in model.__mro__)
    old: dict[str, Moved | Decides | Spelling] = {name: where for table in tables for name, where in table.items()}
    known = [field.name for field in fields(model)]
    old |= {name.replace(SPELLED, OR): Spelling(name) for name in known if SPELLED in name}
    for spelled, names in SPELLINGS.items():
        same = [name for name in names if name in known]
        old |= {spelled: Spelling(same[0])} if same and spelled not in known and spelled not in old else {}
    return old


def translated(
    model: type[Any], given: Mapping[str, Any], current: Mapping[str, Any] | None = None, *, warns: bool = True
) -> dict[str, Any]:
    """Parameters under their current names. `current` has those not given; None for the defaults of the model."""
    old = old_parameters(model)
    found = {name: value for name, value in given.items() if name not in old}
    for name, where in old.items():
        if name not in given:
            continue
        if isinstance(where, Spelling):
            if where.to in given:
                raise InvalidParameterError(f"{model.__name__} has got {where.to} twice: also as {name}; expected one")
            found[where.to] = given[name]
            continue
        before = found.get(where.to, getattr(model, where.to) if current is None else current[where.to])
        kind, settings = split_settings(str(before))
        if isinstance(where, Decides):
            kind = where.names.get(str(given[name]), {kind: str(given[name])}).get(kind, kind)
        elif given[name] == where.default:
            settings.pop(where.key, None)
        else:
            kind = AUTO.get(where.to, kind) if kind == "auto" else kind
            settings[where.key] = settings_text(given[name])
        now = f"{kind}:{','.join(f'{key}={value}' for key, value in settings.items())}" if settings else kind
        if now != str(before):
            found[where.to] = now
        if warns:
            warnings.warn(
                f"{model.__name__} has no parameter {name!r} of its own any longer; use {where.to}={now!r}",
                DeprecationWarning,
                stacklevel=3,
            )
    return found


def takes_old_parameters(model: M) -> M:
    """Let the constructor accept old parameters and other spellings, and say what was meant by an unknown one."""
    plain: Any = model.__init__

    @functools.wraps(plain)
    def init(self: Any, **parameters: Any) -> None:
        known = [field.name for field in fields(model)]
        if not parameters.keys() <= set(known):
            old = old_parameters(model)
            for name in parameters.keys() - set(known) - old.keys():
                raise unknown_parameter(model.__name__, name, known, old)
            parameters = translated(model, parameters)
        plain(self, **parameters)

    model.__init__ = init
    for name in dir(model):
        if SPELLED in name:
            setattr(model, name.replace(SPELLED, OR), property(operator.attrgetter(name)))
    for name, where in old_parameters(model).items():
        if isinstance(where, Spelling) and not hasattr(model, name):
            setattr(model, name, property(operator.attrgetter(where.to)))
    return model


def unknown_parameter(owner: str, name: str, known: Sequence[str], others: Iterable[str] = ()) -> UnknownParameterError:
    """The error for a parameter that there is not, with the one that was probably meant; `others` are spellings."""
    meant = [other for other in MEANT.get(name, ()) if other in known]
    meant = meant or get_close_matches(name, [*known, *others], n=1, cutoff=0.7)
    said = f" (did you mean {meant[0]}?)" if meant else ""
    return UnknownParameterError(f"{owner} has no parameter {name!r}{said}; expected some of {', '.join(known)}")


def suggests(function: F) -> F:
    """Let a function say which parameter was meant by one that it does not have; `users` and `items` are accepted."""
    names = parameter_names(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        return function(*args, **(given if given.keys() <= names.keys() else renamed(function, names, given)))

    return cast(F, call) if names else function


def parameter_names(function: Any) -> Mapping[str, Any]:
    """The parameters of a function or method by name; none if it takes any."""
    code = inspect.unwrap(function).__code__  # A signature would take longer: hundreds are read at an import.
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return dict.fromkeys(name for name in names if name != "self")


def renamed(function: Any, names: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under the names of the parameters that they stand for; an error for one that stands for none."""
    return {name if name in names else _alias(function, name, names, given): given[name] for name in given}


def _alias(function: Any, name: str, names: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The parameter that another name stands for."""
    meant = ALIASES.get(name)
    if meant is None or meant not in names:
        raise unknown_parameter(function.__name__, name, list(names))
    if meant in given:
        raise InvalidParameterError(f"{function.__name__} got {meant} twice: also as {name}; expected one")
    return meant
