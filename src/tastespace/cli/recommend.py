"""`tastespace recommend`: what to look at next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, Threads, known_ids
from tastespace.data.files import has_users, read_history
from tastespace.ranking import Ranking


def recommend(
    model: Model,
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user's id; can be repeated.")] = None,
    n: Annotated[int, typer.Option("-n", help="How many items.")] = 10,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", help="File of ratings that the model has not seen: user, item, rating; or item, rating."
        ),
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Choose from these items; can be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Never this item; can be repeated.")] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items that the user has rated.")] = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Recommend items to users of the training ratings, or to anybody with a history."""
    if not user and history is None:
        raise typer.BadParameter("expected --user ID, or --history FILE, or both")
    if include_seen and exclude:
        raise typer.BadParameter("expected --include-seen or --exclude, not both")
    recommender = artifact.load(model).set_params(threads=threads)
    if history is not None and user and len(user) > 1 and not has_users(history):
        raise typer.BadParameter(f"{history} has no column of users, so that it can be of one --user only")
    new = None if history is None else read_history(history, user[0] if user else "you")
    ranking = recommender.recommend(
        pl.Series("user", user, dtype=pl.String) if user else None,
        n,
        history=new,
        only=only or None,
        exclude=None if include_seen else exclude or "seen",
    )
    users = known_ids(recommender.ratings_.users, ranking.user_ids)
    if json:
        console.print_json({"users": [_entry(ranking, position, users[position]) for position in range(len(ranking))]})
        return
    for position in range(len(ranking)):
        _show(ranking, position, users[position])


def _entry(ranking: Ranking, position: int, user: Any) -> dict[str, Any]:
    items = [
        {"item": row["item"], "title": row.get("title"), "score": round(row["score"], 5)}
        for row in ranking.of(position).rows(named=True)
    ]
    return {"user": user, "cold": bool(ranking.cold[position]), "items": items}


def _show(ranking: Ranking, position: int, user: Any) -> None:
    table = ranking.of(position)
    has_titles = ranking.titles is not None
    rows = [
        [str(row["rank"])] + ([row["title"] or ""] if has_titles else []) + [str(row["item"]), f"{row['score']:.2f}"]
        for row in table.rows(named=True)
    ]
    note = " (no ratings to go by: this is the list for anybody)" if ranking.cold[position] else ""
    console.out.print(f"For user {user}{note}", markup=False)
    if not rows:
        console.out.print("  nothing left to recommend", markup=False)
        return
    console.print_table(["", *(["title"] if has_titles else []), "item", "score"], rows)
