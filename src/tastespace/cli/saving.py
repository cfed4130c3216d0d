"""Saving a fitted model: where that fails, another place is offered, so that hours of work are not lost."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.errors import ArtifactError
from tastespace.models import Recommender
from tastespace.storage import cache_folder


def save_model(recommender: Recommender, out: Path, **options: Any) -> Path:
    """Save a fitted model, and return where.

    If the folder cannot be written, a person at a terminal is asked for another one. Otherwise, or without an answer,
    it is saved in the cache or the folder for temporary files, and the error says so.
    """
    try:
        artifact.save(recommender, out, **options)
        return out
    except ArtifactError as error:
        problem = error
    if sys.stdin.isatty() and sys.stderr.isatty():
        console.print_error(f"error: {problem}")
        while answer := typer.prompt("save the fitted model to another folder", "", show_default=False, err=True):
            try:
                artifact.save(recommender, Path(answer), **options)
                return Path(answer)
            except ArtifactError as error:
                console.print_error(f"error: {error}")
    for place in _places(out.name):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            artifact.save(recommender, place, **options)
        except OSError:
            continue
        raise ArtifactError(f"{problem}; the fitted model is in {place} now: move it when there is room") from problem
    raise problem


def _places(name: str) -> Iterator[Path]:
    """New names in folders that can usually be written."""
    for folder in (cache_folder() / "rescued", Path(tempfile.gettempdir())):
        number = 1
        while (place := folder / (f"{name}-{number}" if number > 1 else name)).exists():
            number += 1
        yield place
