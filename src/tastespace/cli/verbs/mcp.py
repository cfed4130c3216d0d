"""`tastespace mcp`: a model as tools for assistants, by the Model Context Protocol."""

from __future__ import annotations

import csv
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Option

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Model, Threads
from tastespace.data.formats.files import read
from tastespace.data.vocabulary import items_named
from tastespace.errors import DataWarning, InvalidParameterError, MissingExtraError, TastespaceError
from tastespace.models import Recommender
from tastespace.models.base.query import known_items
from tastespace.version import __version__

if TYPE_CHECKING:
    from mcp.server import MCPServer

ME = "you"  # the user of somebody who gives no id
INSTRUCTIONS = (
    "Recommendations of a fitted tastespace model. Items are named by id or by title. Without a user, answers are for "
    f"the new user {ME!r}, who has the ratings that `rate` was told. `where` is a condition on what is known of items, "
    "such as: genre = Comedy and year >= 1990."
)


def mcp(
    model: Model,
    ratings: Annotated[
        Path | None, Option("--ratings", help="CSV file to read ratings of this and earlier sessions from, and add to.")
    ] = None,
    threads: Threads = None,
) -> None:
    """Offer a model to assistants as tools of the Model Context Protocol, over standard input and output."""
    recommender = artifact.load(model).set_params(threads=threads)
    serving = server(recommender, ratings)
    console.err.print(f"offering {model} to an assistant; end with Ctrl-C", markup=False)
    serving.run("stdio")


def server(recommender: Recommender, ratings: Path | None = None) -> MCPServer:
    """The tools of a model."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise MissingExtraError("offering a model to assistants", "mcp") from error

    def told(tool: Callable[..., Any]) -> Callable[..., Any]:
        """The tool with errors that the assistant is told, since it can do something about them."""

        @functools.wraps(tool)
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return tool(*arguments, **options)
            except TastespaceError as error:
                raise ToolError(str(error)) from error

        return call

    warnings.simplefilter("ignore", DataWarning)  # Answers have their remarks.
    made = MCPServer("tastespace", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(recommender, ratings)
    offered: tuple[Callable[..., Any], ...] = (
        *(tools.recommend, tools.predict, tools.explain, tools.ask, tools.similar, tools.rate),
    )
    for tool in offered:
        made.tool(structured_output=False)(told(tool))
    return made


class Tools:
    """What an assistant may do. Ratings told here count at once, beside those of the training; nothing is retrained."""

    def __init__(self, recommender: Recommender, file: Path | None) -> None:
        self._model, self._file = recommender, file
        self._told: dict[str, dict[Any, float]] = {}  # user -> item -> rating
        if file is not None and file.exists():
            for user, item, value in read(file).to_polars().select("user", "item", "rating").iter_rows():
                self._told.setdefault(str(user), {})[item] = value

    def recommend(
        self, user: str = ME, n: int = 10, where: str | None = None, ratings: dict[str, float] | None = None
    ) -> dict[str, Any]:
        """The best items for a user, best first, with the uncertainty of each; `ratings` are further ones, by item."""
        history = self._history(user, ratings)
        return self._model.recommend([user], n, history=history, where=where).to_dict()

    def predict(self, items: list[str], user: str = ME, ratings: dict[str, float] | None = None) -> dict[str, Any]:
        """The rating that a user would give each item, and the interval that holds it with a probability of 90 %."""
        return self._model.predict([user], items, history=self._history(user, ratings)).to_dict()

    def explain(self, item: str, user: str = ME, n: int = 5, ratings: dict[str, float] | None = None) -> dict[str, Any]:
        """Which ratings of the user raise or lower the score of an item, and by how much."""
        return self._model.explain(user, [item], history=self._history(user, ratings), n=n).to_dict()

    def ask(
        self, user: str = ME, n: int = 5, where: str | None = None, ratings: dict[str, float] | None = None
    ) -> dict[str, Any]:
        """The items that a user should rate next, so that most is learned about what they like."""
        return self._model.ask([user], n, history=self._history(user, ratings), where=where).to_dict()

    def similar(self, item: str, n: int = 10, where: str | None = None) -> dict[str, Any]:
        """The items most similar to an item."""
        return self._model.similar_items([item], n, where=where).to_dict()

    def rate(self, item: str, rating: float, user: str = ME) -> dict[str, Any]:
        """Tell what a user thinks of an item: it counts in all further answers."""
        named = items_named(self._model.ratings_, [item])
        row = int(known_items(self._model.ratings_, named)[0])
        low, high = self._model.history_range
        if not low <= rating <= high:
            raise InvalidParameterError(f"rating is {rating:g}; expected one from {low:g} to {high:g}")
        known = self._model.ratings_.items.ids[row]
        self._told.setdefault(user, {})[known] = rating
        if self._file is not None:
            is_new = not self._file.exists()
            with self._file.open("a", newline="") as file:
                csv.writer(file).writerows([*([("user", "item", "rating")] if is_new else []), (user, known, rating)])
        title = self._model.ratings_.title_of(np.array([row]))[0]
        return {"user": user, "item": known, "title": title, "rating": rating, "ratings": len(self._told[user])}

    def _history(self, user: str, ratings: dict[str, float] | None) -> dict[Any, float] | None:
        """The ratings of a user that the model has not seen, the latest of each item."""
        given = ratings or {}
        given = dict(zip(items_named(self._model.ratings_, [*given]), given.values(), strict=True))
        return {**self._told.get(user, {}), **given} or None
