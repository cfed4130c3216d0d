"""`tastespace similar`: what is like an item, who is like a user."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.asking import History, Where, history_of, ids
from tastespace.cli.options import Json, Model, Threads, known_ids
from tastespace.models.similar import Similar


def similar(
    model: Model,
    item: Annotated[list[str] | None, typer.Option("--item", "-i", help="An item's id; can be repeated.")] = None,
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user's id; can be repeated.")] = None,
    n: Annotated[int, typer.Option("-n", help="How many.")] = 10,
    where: Where = None,
    history: History = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Find the items most like an item, or the users most like a user."""
    about_users = bool(user) or history is not None
    if bool(item) == about_users:
        raise typer.BadParameter("expected --item ID; or --user ID, or --history FILE")
    if about_users and where is not None:
        raise typer.BadParameter("--where is about items; expected it together with --item only")
    recommender = artifact.load(model).set_params(threads=threads)
    if about_users:
        found = recommender.similar_users(ids(user), n, history=history_of(history, user))
        asked = known_ids(recommender.ratings_.users, found.ids)
    else:
        found = recommender.similar_items(ids(item), n, where=where)
        asked = known_ids(recommender.ratings_.items, found.ids)
    if json:
        console.print_json(
            {f"{found.side}s": [_entry(found, position, asked[position]) for position in range(len(found))]}
        )
        return
    for position in range(len(found)):
        _show(found, position, asked[position])


def _entry(found: Similar, position: int, asked: Any) -> dict[str, Any]:
    rows = found.of(position).rows(named=True)
    if found.side == "user":
        similar = [{"user": row["user"], "similarity": round(row["similarity"], 5)} for row in rows]
        return {"user": asked, "cold": bool(found.cold[position]), "similar": similar}
    similar = [
        {"item": row["item"], "title": row.get("title"), "similarity": round(row["similarity"], 5)} for row in rows
    ]
    title = None if found.titles is None else found.titles[position]
    return {"item": asked, "title": title, "cold": bool(found.cold[position]), "similar": similar}


def _show(found: Similar, position: int, asked: Any) -> None:
    title = None if found.titles is None else found.titles[position]
    note = " (nothing to compare by)" if found.cold[position] else ""
    console.out.print(f"Like {found.side} {asked}{f', {title}' if title else ''}{note}", markup=False)
    table = found.of(position)
    if not table.height:
        console.out.print("  nothing that could be compared", markup=False)
        return
    has_titles = found.similar_titles is not None
    rows = [
        [str(row["rank"])]
        + ([row["title"] or ""] if has_titles else [])
        + [str(row[found.side]), f"{row['similarity']:.3f}"]
        for row in table.rows(named=True)
    ]
    console.print_table(["", *(["title"] if has_titles else []), found.side, "similarity"], rows)
