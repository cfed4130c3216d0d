"""`tastespace predict`: the rating a user would give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import (
    Header,
    ItemColumn,
    Json,
    Model,
    Separator,
    Threads,
    UserColumn,
    known_ids,
    reading,
)
from tastespace.data.files import read_pairs

SHOWN = 50


def predict(
    model: Model,
    pairs: Annotated[Path, typer.Argument(help="File with a user and an item in each row.")],
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    separator: Separator = None,
    header: Header = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Predict the ratings of pairs of users and items."""
    recommender = artifact.load(model).set_params(threads=threads)
    said = reading(user=user_column, item=item_column, separator=separator, header=header)
    users, items = read_pairs(pairs, **said)
    prediction = recommender.predict(users, items)
    frame = prediction.to_polars()
    known = {
        "user": known_ids(recommender.ratings_.users, users),
        "item": known_ids(recommender.ratings_.items, items),
    }
    rows = [
        {**row, "user": known["user"][k], "item": known["item"][k]} for k, row in enumerate(frame.iter_rows(named=True))
    ]
    if json:
        console.print_json({"predictions": [{**row, "mean": round(row["mean"], 5)} for row in rows]})
        return
    has_titles = prediction.titles is not None
    shown = [
        [str(row["user"]), str(row["item"])]
        + ([row["title"] or ""] if has_titles else [])
        + [f"{row['mean']:.2f}", "cold" if row["cold"] else ""]
        for row in rows[:SHOWN]
    ]
    console.print_table(["user", "item", *(["title"] if has_titles else []), "mean", " "], shown)
    if len(rows) > SHOWN:
        console.out.print(f"… and {len(rows) - SHOWN:,} more; --json prints them all", markup=False)
    cold = sum(row["cold"] for row in rows)
    if cold:
        console.out.print(
            f"{cold:,} cold: the user or the item is unknown to the model, the answer is that for anybody", markup=False
        )
