"""Options of the verbs that ask a model about people: who they are, what they rated since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from tastespace.data.files import has_users, read_history
from tastespace.data.ratings import Ratings

History = Annotated[
    Path | None,
    typer.Option(
        "--history",
        help="File of ratings that the model has not seen: user, item, rating; or item, rating; choices without.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", help="Only items like this, such as 'genre = Comedy and year >= 1990'.", metavar="CONDITION"
    ),
]


def ids(typed: list[str] | None) -> pl.Series | None:
    """Ids as they were typed; None if there are none."""
    return pl.Series("id", typed, dtype=pl.String) if typed else None


def history_of(file: Path | None, users: list[str] | None) -> Ratings | None:
    """The ratings of a history file; without a column of users they are the one user's, or those of `you`."""
    if file is None:
        return None
    if users and len(users) > 1 and not has_users(file):
        raise typer.BadParameter(f"{file} has no column of users, so that it can be of one --user only")
    return read_history(file, users[0] if users else "you")
