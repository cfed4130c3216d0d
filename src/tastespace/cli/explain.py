"""`tastespace explain`: which of a user's own ratings pushed an item."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.asking import History, history_of, ids
from tastespace.cli.options import Json, Model, Threads, known_ids
from tastespace.models.explaining import Explanation, times


def explain(
    model: Model,
    item: Annotated[list[str], typer.Option("--item", "-i", help="An item's id; can be repeated.")],
    user: Annotated[str | None, typer.Option("--user", "-u", help="A user's id.", show_default=False)] = None,
    n: Annotated[int, typer.Option("-n", help="How many ratings to show for each item.")] = 5,
    history: History = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Explain a recommendation by the user's own ratings: which pushed it up or down, and how much."""
    if user is None and history is None:
        raise typer.BadParameter("expected --user ID, or --history FILE, or both")
    recommender = artifact.load(model).set_params(threads=threads)
    new = history_of(history, None if user is None else [user])
    explanation = recommender.explain(user, ids(item), history=new, n=n)
    vocabularies = recommender.ratings_.users, recommender.ratings_.items
    (who,) = known_ids(vocabularies[0], ids([str(explanation.user_id)]))  # type: ignore[arg-type]
    items = known_ids(vocabularies[1], explanation.item_ids)
    if json:
        entries = [_entry(explanation, position, items[position]) for position in range(len(explanation))]
        console.print_json({"user": who, "cold": explanation.cold, "items": entries})
        return
    note = f": there are no {explanation.noun}s to explain by" if explanation.cold else ""
    console.out.print(f"For user {who}{note}", markup=False)
    for position in range(len(explanation)):
        _show(explanation, position, items[position])


def _entry(explanation: Explanation, position: int, item: Any) -> dict[str, Any]:
    because = [
        {
            "item": row["item"],
            "title": row.get("title"),
            "rating": round(row["rating"], 5),
            "contribution": round(row["contribution"], 5),
        }
        for row in explanation.of(position).rows(named=True)
    ]
    return {
        "item": item,
        "title": None if explanation.titles is None else explanation.titles[position],
        "score": round(float(explanation.scores[position]), 5),
        "base": round(float(explanation.base[position]), 5),
        "because": because,
        "others": round(float(explanation.others[position]), 5),
        "remainder": round(float(explanation.remainder[position]), 5),
    }


def _show(explanation: Explanation, position: int, item: Any) -> None:
    title = None if explanation.titles is None else explanation.titles[position]
    name = f"{title} [{item}]" if title else f"{item}"
    score, base = explanation.scores[position], explanation.base[position]
    console.out.print(f"{name}: {score:.2f}; for a stranger {base:.2f}", markup=False)
    table = explanation.of(position)
    if not table.height:
        return
    has_titles = explanation.titles is not None
    rows = [
        [f"{row['contribution']:+.3f}", times(row["rating"]) if explanation.are_choices else f"{row['rating']:g}"]
        + ([row["title"] or ""] if has_titles else [])
        + [str(row["item"])]
        for row in table.rows(named=True)
    ]
    blank = [""] if has_titles else []
    n_others = len(explanation.ratings) - table.height
    if n_others:
        noun = explanation.noun + ("" if n_others == 1 else "s")
        rows.append([f"{explanation.others[position]:+.3f}", "", f"{n_others:,} other {noun}", *blank])
    if abs(explanation.remainder[position]) >= 0.001:
        rows.append([f"{explanation.remainder[position]:+.3f}", "", f"no single {explanation.noun}", *blank])
    heading = "chosen" if explanation.are_choices else "rating"
    console.print_table(["contribution", heading, *(["title"] if has_titles else []), "item"], rows)
