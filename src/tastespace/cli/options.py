"""Options that several verbs share, and how model parameters are put together."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, InvalidParameterError
from tastespace.models import MODELS, Recommender

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
Model = Annotated[Path, typer.Argument(help="Folder of a fitted model.", metavar="MODEL")]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads to use; all cores by default.", show_default=False)
]


def factors_of(text: str) -> int | str:
    """The value of --n-factors."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number of factors; expected a whole number, or auto") from None


def read_config(path: Path | None) -> dict[str, Any]:
    """A configuration file: a table [model] with name and parameters, a table [data] with column names."""
    if path is None:
        return {}
    try:
        config = tomllib.loads(path.read_text())
    except OSError as error:
        raise DataError(f"cannot read the configuration: {error.strerror}", file=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not a TOML file ({error})", file=path, expected="[model] and [data] tables") from error
    unknown = config.keys() - {"model", "data"}
    unknown |= {name for name, table in config.items() if not isinstance(table, dict)}
    if unknown:
        raise DataError(f"unknown entry {', '.join(sorted(unknown))}", file=path, expected="tables [model] and [data]")
    return config


def known_ids(vocabulary: Vocabulary, ids: pl.Series) -> list[Any]:
    """Ids as the model knows them: typed at a terminal or read beside words, an integer is a text."""
    known = vocabulary.at(vocabulary.rows_of(ids))
    return [asked if found is None else found for asked, found in zip(ids, known, strict=True)]


def read_settings(settings: list[str]) -> dict[str, Any]:
    """`key=value` pairs; a value is read as TOML would (3, 0.1, true) and is text otherwise."""
    read: dict[str, Any] = {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator or not key:
            raise InvalidParameterError(f"--set got {setting!r}; expected key=value, such as regularisation=0.1")
        try:
            read[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            read[key] = text
    return read


def make_model(name: str, parameters: Mapping[str, Any]) -> Recommender:
    """The recommender of this name with these parameters, all checked."""
    if not isinstance(name, str) or name not in MODELS:
        raise InvalidParameterError(f"there is no model {name!r}; expected one of {', '.join(MODELS)}")
    known = [field.name for field in fields(MODELS[name])]
    for key in parameters:
        if key not in known:
            raise InvalidParameterError(
                f"the model {name} has no parameter {key!r}; expected one of {', '.join(known)}"
            )
    recommender = MODELS[name](**parameters)
    recommender.check()
    return recommender
