"""`tastespace data split`: a training file and a test file of the same ratings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tastespace.cli import console
from tastespace.cli.observing import observe
from tastespace.cli.options import Json
from tastespace.cli.reading import Said, reads
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import (
    Split,
    held_out_users,
    last_per_user,
    leave_one_out,
    random_split,
    time_split,
)
from tastespace.data.writing import writer_of
from tastespace.errors import InvalidParameterError

# Ratings, share, number and seed; each way uses what it needs.
WAYS: dict[str, Callable[[Ratings, float, int, int], Split]] = {
    "random": lambda ratings, share, last, seed: random_split(ratings, share, seed=seed),
    "time": lambda ratings, share, last, seed: time_split(ratings, share),
    "last": lambda ratings, share, last, seed: last_per_user(ratings, last),
    "one": lambda ratings, share, last, seed: leave_one_out(ratings, seed=seed),
    "users": lambda ratings, share, last, seed: held_out_users(ratings, share, seed=seed),
}
SHARED = ("random", "time", "users")


@reads("user", "item", "rating", "time", "separator", "header", "duplicates", "bad_lines")
def split(
    ratings: Annotated[Path, typer.Argument(help="File of ratings, folder of a known layout, or name of a data set.")],
    train: Annotated[Path, typer.Option("--train", help="File to write the training part to.")],
    test: Annotated[Path, typer.Option("--test", help="File to write the test part to.")],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="random: a share of the ratings; time: the latest share of them; last: the last of each user; "
            "one: one of each user at random; users: a share of the users.",
        ),
    ] = "random",
    share: Annotated[
        float | None,
        typer.Option("--share", help="Share of the test part, for random, time and users.", show_default="0.1"),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", help="How many of each user, for last.", show_default="1")
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", help="For users: file to write half of their ratings to.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same split.")] = 0,
    *,
    said: Said,
    json: Json = False,
) -> None:
    """Write a training part and a test part of ratings to two files (.csv, .tsv, .parquet, also .gz and .zst)."""
    _check(by, share, last, history)
    outputs = [train, test] if history is None else [train, test, history]
    for file in outputs:
        writer_of(file)  # says now, before anything is read, if a name is none that can be written
    if len({file.resolve() for file in (ratings, *outputs)}) <= len(outputs):
        raise InvalidParameterError("two of the files are the same; expected others than the ratings for each part")
    observed = observe(ratings, said)[0]
    parts = WAYS[by](observed, 0.1 if share is None else share, 1 if last is None else last, seed)
    written = {"train": (parts.train, train), "test": (parts.test, test)}
    if parts.history is not None and history is not None:
        written["history"] = (parts.history, history)
    for part, file in written.values():
        part.write(file)
    if json:
        console.print_json(
            {
                name: {"file": str(file), "n_ratings": len(part), "n_users": part.n_users, "n_items": part.n_items}
                for name, (part, file) in written.items()
            }
        )
        return
    for name, (part, file) in written.items():
        console.out.print(
            f"{name}: {len(part):,} ratings by {part.n_users:,} users of {part.n_items:,} items, written to {file}",
            markup=False,
        )
    console.out.print(f"next: tastespace fit {train} --out MODEL; tastespace evaluate MODEL {test}", markup=False)


def _check(by: str, share: float | None, last: int | None, history: Path | None) -> None:
    """Refuse options that do not go together."""
    if by not in WAYS:
        raise InvalidParameterError(f"--by is {by!r}; expected one of {', '.join(WAYS)}")
    if share is not None and by not in SHARED:
        raise typer.BadParameter(f"--by {by} takes no --share; expected --by {' or '.join(SHARED)}")
    if last is not None and by != "last":
        raise typer.BadParameter(f"--by {by} takes no --last; expected --by last")
    if (history is None) == (by == "users"):
        raise typer.BadParameter("--history FILE and --by users go together: it is what those users are known by")
