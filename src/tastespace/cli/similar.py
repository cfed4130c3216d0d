"""`tastespace similar`: what is like an item, who is like a user."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import History, Json, Model, Threads, Where, history_of, ids, known_ids
from tastespace.models.base.active_learning import AMONG, Questions
from tastespace.models.base.attribution import Explanation, times
from tastespace.models.base.similarity import Similar


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
            {f"{found.side}s": [_similar_entry(found, position, asked[position]) for position in range(len(found))]}
        )
        return
    for position in range(len(found)):
        _show_similar(found, position, asked[position])


def _similar_entry(found: Similar, position: int, asked: Any) -> dict[str, Any]:
    rows = found.of(position).rows(named=True)
    if found.side == "user":
        similar = [{"user": row["user"], "similarity": round(row["similarity"], 5)} for row in rows]
        return {"user": asked, "cold": bool(found.cold[position]), "similar": similar}
    similar = [
        {"item": row["item"], "title": row.get("title"), "similarity": round(row["similarity"], 5)} for row in rows
    ]
    title = None if found.titles is None else found.titles[position]
    return {"item": asked, "title": title, "cold": bool(found.cold[position]), "similar": similar}


def _show_similar(found: Similar, position: int, asked: Any) -> None:
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
        entries = [_explanation_entry(explanation, position, items[position]) for position in range(len(explanation))]
        console.print_json({"user": who, "cold": explanation.cold, "items": entries})
        return
    note = f": there are no {explanation.noun}s to explain by" if explanation.cold else ""
    console.out.print(f"For user {who}{note}", markup=False)
    for position in range(len(explanation)):
        _show_explanation(explanation, position, items[position])


def _explanation_entry(explanation: Explanation, position: int, item: Any) -> dict[str, Any]:
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


def _show_explanation(explanation: Explanation, position: int, item: Any) -> None:
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
        entries = [_question_entry(questions, position, users[position]) for position in range(len(questions))]
        console.print_json({"users": entries})
        return
    known_by = "ratings" if recommender.not_rated is None else "choices"
    for position in range(len(questions)):
        _show_questions(questions, position, users[position], known_by)


def _question_entry(questions: Questions, position: int, user: Any) -> dict[str, Any]:
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


def _show_questions(questions: Questions, position: int, user: Any, known_by: str) -> None:
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
