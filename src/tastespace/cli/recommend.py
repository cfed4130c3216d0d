"""`tastespace recommend`: what to look at next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.console import bars, interval_heading, meaning_of_choices
from tastespace.cli.options import History, Json, Model, Said, Threads, Where, history_of, ids, known_ids, reads
from tastespace.data.formats.files import read_item_list, read_pairs
from tastespace.data.ratings import Ratings
from tastespace.models.base.parameters import check_number
from tastespace.models.base.policies import POLICIES
from tastespace.models.base.posterior import Prediction
from tastespace.models.base.ranking import Ranking


def recommend(
    model: Model,
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="A user's id; can be repeated.")] = None,
    n: Annotated[int, typer.Option("-n", help="How many items.")] = 10,
    history: History = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help=f"How beliefs become a list: {', '.join(POLICIES)}; with a parameter as in cautious:c=2.",
        ),
    ] = "mean",
    only: Annotated[list[str] | None, typer.Option("--only", help="Choose from these items; can be repeated.")] = None,
    only_file: Annotated[
        Path | None, typer.Option("--only-file", help="File of items to choose from: item; or user, item.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Never this item; can be repeated.")] = None,
    exclude_file: Annotated[
        Path | None, typer.Option("--exclude-file", help="File of items never to show: item; or user, item.")
    ] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items that the user has rated.")] = False,
    where: Where = None,
    diversity: Annotated[
        float, typer.Option("--diversity", help="From 0 to 1: the more, the less alike are the items of a list.")
    ] = 0.0,
    popularity_damping: Annotated[
        float,
        typer.Option("--popularity-damping", help="From 0 to 1000: the more, the fewer items that everybody rates."),
    ] = 0.0,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every item, also if the model has an index.")] = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Recommend items to users of the training ratings, or to anybody with a history."""
    if not user and history is None:
        raise typer.BadParameter("expected --user ID, or --history FILE, or both")
    if only and only_file:
        raise typer.BadParameter("expected --only or --only-file, not both")
    recommender = artifact.load(model, with_index=not exact).set_params(threads=threads)
    new = history_of(history, user)
    ranking = recommender.recommend(
        ids(user),
        n,
        history=new,
        policy=policy,
        only=only or (None if only_file is None else read_item_list(only_file)),
        exclude=_excluded(exclude or [], exclude_file, user, new),
        include_seen=include_seen,
        where=where,
        diversity=diversity,
        popularity_damping=popularity_damping,
        index=None if exact else "auto",
    )
    users = known_ids(recommender.ratings_.users, ranking.user_ids)
    if json:
        entries = [_ranking_entry(ranking, position, users[position]) for position in range(len(ranking))]
        console.print_json({"users": entries, "found_by": ranking.found_by})
        return
    of_choices = recommender.not_rated is not None
    for position in range(len(ranking)):
        _show_ranking(ranking, position, users[position], of_choices)
    if recommender.index_ is not None:
        console.out.print(f"Found: {ranking.found_by}.", markup=False)
    if of_choices and ranking.sureness is not None:
        console.out.print(meaning_of_choices(bool(ranking.level_names)), markup=False)


def _excluded(items: list[str], file: Path | None, users: list[str] | None, new: Ratings | None) -> Any:
    """What must not be shown beside the seen: the items typed, and those of the file, for everybody or each user."""
    if file is None:
        return items or "seen"
    listed = read_item_list(file).cast(pl.String)
    everybody = pl.DataFrame({"item": pl.Series(items, dtype=pl.String)})
    if "user" not in listed.columns:
        return pl.concat([listed, everybody])
    asked = users or ([] if new is None else new.users.ids.cast(pl.String).to_list())
    people = pl.DataFrame({"user": pl.Series(asked, dtype=pl.String)})
    return pl.concat([listed.select("user", "item"), people.join(everybody, how="cross")])


def _ranking_entry(ranking: Ranking, position: int, user: Any) -> dict[str, Any]:
    items = []
    for row in ranking.of(position, levels=True).rows(named=True):
        item = {"item": row["item"], "title": row.get("title"), "score": round(row["score"], 5)}
        if ranking.sureness is not None:
            item |= {name: round(row[name], 5) for name in ("belief_sd", "rating_sd")}
            item["interval"] = [round(row["low"], 5), round(row["high"], 5)]
            item["top_n_probability"] = round(row["top_n_probability"], 5)
        if ranking.level_names:
            item["levels"] = {level: round(row[f"p_{level}"], 5) for level in ranking.level_names}
        items.append(item)
    return {"user": user, "cold": bool(ranking.cold[position]), "items": items}


def _show_ranking(ranking: Ranking, position: int, user: Any, of_choices: bool) -> None:
    table = ranking.of(position)
    has_titles = ranking.titles is not None
    n, are_chances = ranking.item_rows.shape[1], of_choices and bool(ranking.level_names)
    rows = [
        [str(row["rank"])]
        + ([row["title"] or ""] if has_titles else [])
        + [str(row["item"]), f"{row['score']:.2f}"]
        + (_sure_cells(row, are_chances) if ranking.sureness is not None else [])
        for row in table.rows(named=True)
    ]
    interval = [] if are_chances else [interval_heading(0.9, of_choices)]
    sure = [] if ranking.sureness is None else ["belief sd", *interval, f"P(top {n})"]
    known_by = "choices" if of_choices else "ratings"
    note = f" (no {known_by} to go by: this is the list for anybody)" if ranking.cold[position] else ""
    console.out.print(f"For user {user}{note}", markup=False)
    if not rows:
        console.out.print("  nothing left to recommend", markup=False)
        return
    console.print_table(["", *(["title"] if has_titles else []), "item", "score", *sure], rows)


def _sure_cells(row: dict[str, Any], are_chances: bool) -> list[str]:
    """How sure an entry is; of a chance an interval would be from 0 to 1."""
    interval = [] if are_chances else [f"{row['low']:.2f} to {row['high']:.2f}"]
    return [f"{row['belief_sd']:.2f}", *interval, f"{row['top_n_probability']:.2f}"]


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
    check_number("--coverage", coverage, above=0, below=1)
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
        console.print_json({"predictions": [_prediction_entry(row, levels) for row in rows]})
        return
    of_choices = recommender.not_rated is not None
    _show_predictions(frame, rows[:SHOWN], levels, (interval_heading(coverage, of_choices), at_least))
    if of_choices and "low" in frame.columns:
        console.out.print(meaning_of_choices(bool(levels)), markup=False)
    if len(rows) > SHOWN:
        console.out.print(f"… and {len(rows) - SHOWN:,} more; --json prints them all", markup=False)
    cold = sum(row["cold"] for row in rows)
    if cold:
        console.out.print(
            f"{cold:,} cold: the user or the item is unknown to the model, the answer is that for anybody", markup=False
        )


def _show_predictions(
    frame: pl.DataFrame, rows: list[dict[str, Any]], levels: list[str], asked: tuple[str, float | None]
) -> None:
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


def _prediction_entry(row: dict[str, Any], levels: list[str]) -> dict[str, Any]:
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
