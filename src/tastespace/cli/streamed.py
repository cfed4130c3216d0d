"""`tastespace fit --stream`: a Parquet file of ratings that need not fit into memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.picking import Pick
from tastespace.errors import InvalidParameterError
from tastespace.models import PMF

NEEDS_ALL = "--stream never has all ratings in memory, as {option} would need; expected no {option}"


def check_streamed(pick: Pick | None, said: Mapping[str, Any], options: Mapping[str, Any]) -> PMF:
    """The model; what does not go with a stream is refused before anything is read.

    `options` are those of the command that it has no use for, None or False where they were not given, and `said` is
    how to read a file.
    """
    for option, value in options.items():
        if value is not None and value is not False:
            raise typer.BadParameter(NEEDS_ALL.format(option=option))
    if said:
        raise typer.BadParameter(
            f"--stream finds the columns of a Parquet file by their usual names, user, item and rating, and was told "
            f"how to read a file ({', '.join(said)}); expected no such options"
        )
    if pick is None or not isinstance(pick.recommender, PMF):
        got = "no --model" if pick is None else f"--model {pick.name}"
        raise InvalidParameterError(
            f"--stream got {got}; expected --model pmf, which alone learns from ratings that are not in memory"
        )
    return pick.recommender


def fit_streamed(ratings: Path, recommender: PMF, out: Path, json: bool) -> None:
    """Learn piece by piece, and save."""
    began = time.perf_counter()
    with console.progress() as observer:
        recommender.fit_parquet(ratings, observer=observer)
    seconds = time.perf_counter() - began
    artifact.save(recommender, out)
    n_ratings, ids = recommender.seen_.learned_ratings, recommender.ratings_
    if json:
        console.print_json(
            {
                "model": "pmf",
                "out": str(out),
                "fit_seconds": round(seconds, 3),
                "streamed": True,
                "n_ratings": n_ratings,
                "n_users": ids.n_users,
                "n_items": ids.n_items,
                "parameters": recommender.get_params(),
            }
        )
        return
    console.out.print(
        f"pmf fitted on {n_ratings:,} ratings by {ids.n_users:,} users of {ids.n_items:,} items in {seconds:.1f} s, "
        "piece by piece",
        markup=False,
    )
    console.out.print(
        f"saved to {out}; next: tastespace recommend {out} --user {ids.users.ids[0]} (it does not know what users have "
        "seen)",
        markup=False,
    )
