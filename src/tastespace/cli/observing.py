"""Ratings for a verb: from a file, or from a data set by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tastespace.cli import console
from tastespace.data.files import read, sniff
from tastespace.data.kinds import CHOICES, check_kind
from tastespace.data.layout import Layout, Sought
from tastespace.data.ratings import Ratings
from tastespace.data.sources import resolve, suggestion
from tastespace.data.sources.cache import is_cached
from tastespace.errors import DataError, InvalidParameterError

PARTS = ("user", "item", "rating", "time")


def observe(file_or_name: Path, said: Mapping[str, Any]) -> tuple[Ratings, Layout | None]:
    """The ratings, and how the file was read; `said` are arguments of `read`."""
    source = resolve(file_or_name)
    if source is None:
        if not file_or_name.exists() and (meant := suggestion(str(file_or_name))):
            raise DataError(f"there is no such file{meant}", file=file_or_name, expected="a file of ratings")
        return read(file_or_name, **said), guess(file_or_name, said)
    of_layout = [argument for argument in said if argument != "kind"]
    if of_layout:
        raise InvalidParameterError(
            f"{source.name} is a data set with a layout of its own; expected no {', '.join(of_layout)} for it"
        )
    kind = said.get("kind")
    if kind is not None:
        check_kind(kind)
    if source.archive is not None and not is_cached(source.name):
        console.err.print(f"{source.name}: {source.terms}", markup=False)
    with console.progress(in_bytes=True) as observer:
        ratings = source.load(observer=observer)
    return ratings if kind is None else ratings.with_kind(kind), None


def guess(file: Path, said: Mapping[str, Any]) -> Layout:
    """How a file is read, with what was said about it."""
    wanted = {part: said.get(part) for part in PARTS}
    sought = Sought(wanted=wanted, are_choices=said.get("kind") in CHOICES)
    return sniff(file, sought, separator=said.get("separator"), header=said.get("header"))
