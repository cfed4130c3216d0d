"""`tastespace ask`: what a new user should rate next."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.asking import History, Where, history_of, ids
from tastespace.cli.options import Json, Model, Threads, known_ids
from tastespace.models.questions import AMONG, Questions


def ask(
    model: Model,
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user's id; can be repeated.")] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many questions.")] = 5,
    history: History = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Ask about these items; can be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Never this item; can be repeated.")] = None,
    where: Where = None,
    among: Annotated[
        int, typer.Option("--among", help="Choose from so many of the items most rated; 0 for all.", min=0)
    ] = AMONG,
    goal: Annotated[
        Literal["ratings", "list"],
        typer.Option("--goal", help="What is to be known: ratings of what people rate, or the best of the list."),
    ] = "ratings",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Say which items a person should rate next; without a user or a history, somebody quite new."""
    recommender = artifact.load(model).set_params(threads=threads)
    questions = recommender.ask(
        ids(user),
        n,
        history=history_of(history, user),
        exclude=exclude or "seen",
        only=only or None,
        where=where,
        among=among or None,
        goal=goal,
    )
    users = known_ids(recommender.ratings_.users, questions.user_ids)
    if json:
        entries = [_entry(questions, position, users[position]) for position in range(len(questions))]
        console.print_json({"users": entries})
        return
    known_by = "ratings" if recommender.not_rated is None else "choices"
    for position in range(len(questions)):
        _show(questions, position, users[position], known_by)


def _entry(questions: Questions, position: int, user: Any) -> dict[str, Any]:
    items = [
        {
            "item": row["item"],
            "title": row.get("title"),
            "reduction": round(row["reduction"], 5),
            "sd": round(row["sd"], 5),
        }
        for row in questions.of(position).rows(named=True)
    ]
    sd = round(float(questions.sd[position]), 5)
    return {"user": user, "cold": bool(questions.cold[position]), "sd": sd, "items": items}


def _show(questions: Questions, position: int, user: Any, known_by: str) -> None:
    note = f" (no {known_by} to go by: these are the questions for anybody)" if questions.cold[position] else ""
    console.out.print(f"Ask user {user}{note}", markup=False)
    table, has_titles = questions.of(position), questions.titles is not None
    if not table.height:
        console.out.print("  nothing left to ask", markup=False)
        return
    rows = [
        [str(row["rank"])]
        + ([row["title"] or ""] if has_titles else [])
        + [str(row["item"]), f"{row['reduction']:.1%}", f"{row['sd']:.3f}"]
        for row in table.rows(named=True)
    ]
    console.print_table(["", *(["title"] if has_titles else []), "item", "reduction", "sd"], rows)
    console.out.print(
        f"the answers lower the uncertainty about the user from {questions.sd[position]:.3f} to {table['sd'][-1]:.3f}",
        markup=False,
    )
