"""`tastespace predict`: the rating a user would give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.intervals import interval_heading, meaning_of_choices
from tastespace.cli.level_bars import bars
from tastespace.cli.options import Json, Model, Threads, known_ids
from tastespace.cli.reading import Said, reads
from tastespace.data.files import read_pairs
from tastespace.models.parameters import number
from tastespace.models.posterior import Prediction

SHOWN = 50
BLOCK = 100_000  # pairs predicted at once: whole distributions take some hundred bytes each


@reads("user", "item", "separator", "header")
def predict(
    model: Model,
    pairs: Annotated[Path, typer.Argument(help="File with a user and an item in each row.")],
    *,
    said: Said,
    coverage: Annotated[
        float, typer.Option("--coverage", help="How often a rating is to lie within the interval.")
    ] = 0.9,
    at_least: Annotated[
        float | None, typer.Option("--at-least", help="Also the probability of a rating of at least this.")
    ] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Predict the ratings of pairs of users and items."""
    recommender = artifact.load(model).set_params(threads=threads)
    number("--coverage", coverage, above=0, below=1)
    users, items = read_pairs(pairs, **said)
    blocks, levels = [], []
    for k in range(0, max(len(users), 1), BLOCK):
        prediction = recommender.predict(users[k : k + BLOCK], items[k : k + BLOCK])
        blocks.append(_block(prediction, coverage, at_least))
        levels = prediction.level_names
    frame = pl.concat(blocks)
    known = {
        "user": known_ids(recommender.ratings_.users, users),
        "item": known_ids(recommender.ratings_.items, items),
    }
    rows = [
        {**row, "user": known["user"][k], "item": known["item"][k]} for k, row in enumerate(frame.iter_rows(named=True))
    ]
    if json:
        console.print_json({"predictions": [_entry(row, levels) for row in rows]})
        return
    of_choices = recommender.not_rated is not None
    _show(frame, rows[:SHOWN], levels, (interval_heading(coverage, of_choices), at_least))
    if of_choices and "low" in frame.columns:
        console.out.print(meaning_of_choices(bool(levels)), markup=False)
    if len(rows) > SHOWN:
        console.out.print(f"… and {len(rows) - SHOWN:,} more; --json prints them all", markup=False)
    cold = sum(row["cold"] for row in rows)
    if cold:
        console.out.print(
            f"{cold:,} cold: the user or the item is unknown to the model, the answer is that for anybody", markup=False
        )


def _show(frame: pl.DataFrame, rows: list[dict[str, Any]], levels: list[str], asked: tuple[str, float | None]) -> None:
    """The table of some rows; `asked` is what the interval is called, and the threshold of a probability."""
    interval, at_least = asked
    columns = ["user", "item", *(["title"] if "title" in frame.columns else []), "mean"]
    columns += [interval, "belief sd"] if "low" in frame.columns else []
    columns += [f"P(>= {at_least:g})"] if at_least is not None else []
    drawn = [""] * len(rows)
    if levels:
        heading, drawn = bars(frame.head(len(rows)).select(f"p_{level}" for level in levels).to_numpy(), levels)
        columns.append(heading)
    cells = [
        [*_cells(row), *([bar] if levels else []), "cold" if row["cold"] else ""]
        for row, bar in zip(rows, drawn, strict=True)
    ]
    console.print_table([*columns, " "], cells)


def _block(prediction: Prediction, coverage: float, at_least: float | None) -> pl.DataFrame:
    """What is shown of some predictions."""
    frame = prediction.to_polars(coverage, levels=prediction.levels is not None)
    if at_least is None:
        return frame
    return frame.with_columns(pl.Series("probability_at_least", prediction.probability_at_least(at_least)))


def _entry(row: dict[str, Any], levels: list[str]) -> dict[str, Any]:
    """As JSON has it: the interval as one entry and the levels as one, figures rounded."""
    entry = {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}
    if "low" in entry:
        entry["interval"] = [entry.pop("low"), entry.pop("high")]
    if levels:
        entry["levels"] = {level: entry.pop(f"p_{level}") for level in levels}
    return entry


def _cells(row: dict[str, Any]) -> list[str]:
    """The cells of a row of the table."""
    cells = [str(row["user"]), str(row["item"])]
    if "title" in row:
        cells.append(row["title"] or "")
    cells.append(f"{row['mean']:.2f}")
    if "low" in row:
        cells += [f"{row['low']:.2f} to {row['high']:.2f}", f"{row['belief_sd']:.2f}"]
    if "probability_at_least" in row:
        cells.append(f"{row['probability_at_least']:.2f}")
    return cells
