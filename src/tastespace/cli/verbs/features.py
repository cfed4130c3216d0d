"""`tastespace features`: learn features from ratings; what is known in a model, and how much of it that explains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from typer import Option

from tastespace import artifact, storage
from tastespace.cli import console
from tastespace.cli.options import Json, Model, RatingsFile, ReadOptions, Threads, observe, reads
from tastespace.errors import InvalidParameterError
from tastespace.models.base.results import FeatureImportance


@runtime_checkable
class _Explains(Protocol):
    def feature_importance(self) -> FeatureImportance: ...


def show(model: Model, json: Json = False) -> None:
    """Show the features of a model, and how much of what users and items are like each group explains."""
    recommender = artifact.load(model, with_index=False)
    ratings = recommender.ratings_
    known = {"item": ratings.item_features, "user": ratings.user_features}
    found = {side: features.summary() for side, features in known.items() if features is not None}
    if not found:
        raise InvalidParameterError(
            f"{model} was fitted without features; expected a model of tastespace fit with --item-features or "
            "--user-features"
        )
    importance = None
    if recommender.learns_features and isinstance(recommender, _Explains):
        importance = recommender.feature_importance()
    content: dict[str, Any] = {
        "model": str(model),
        "features": {side: summary.to_dict() for side, summary in found.items()},
        "importance": None if importance is None else importance.to_dict(),
    }
    lines = [line for side, summary in found.items() for line in summary.lines(side)]
    width = max(len(label) for label, _ in lines)
    texts = [f"{label:<{width}}  {text}" for label, text in lines]
    if importance is None:
        texts.append(f"{type(recommender).__name__} does not say how much they explain; BPMF and ImplicitALS do")
    console.print_result(json, content, *texts)
    if importance is not None and not json:
        console.print_line("")
        console.print_rows(*_rows(importance))


def _rows(importance: FeatureImportance) -> tuple[list[str], list[list[str]]]:
    """The shares as a table with bars."""
    columns = ["side", "group", "columns", "explains", "90 % interval", "", "precision"]
    rows = [
        [
            *(row["side"], row["group"], f"{row['n_features']:,}", f"{row['share']:.1%}"),
            *(
                f"{row['low']:.1%} to {row['high']:.1%}" if row["low"] < row["high"] else "one estimate",
                "█" * round(20 * min(row["share"], 1.0)),
                f"{row['precision']:.3g}",
            ),
        ]
        for row in importance.to_polars().to_dicts()
    ]
    return columns, rows


@reads("user", "item", "rating", "time", "separator", "header", "duplicates", "bad_lines")
def fit(
    ratings: RatingsFile,
    out: Annotated[Path, Option("--out", "-o", help="Parquet file to write the features to.")],
    side: Annotated[Literal["users", "items"], Option(help="Whose features.")] = "users",
    method: Annotated[
        Literal["autoencoder", "rbm", "dbn"], Option(help="What learns them; an autoencoder needs PyTorch.")
    ] = "rbm",
    of: Annotated[
        Literal["ratings", "pattern"],
        Option(help="From ratings, filled where there are none, or from which there are: only these may go into fit."),
    ] = "ratings",
    n_features: Annotated[int, Option(help="Numbers for each.", min=1)] = 64,
    epochs: Annotated[int, Option(help="Passes over the ratings, at most.", min=1)] = 50,
    seed: Annotated[int | None, Option(help="Same seed, same features.", show_default=False)] = None,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Learn features of users or items from ratings by a network, and write them to a file."""
    from tastespace import deep

    if out.suffix != ".parquet":
        raise InvalidParameterError(f"--out is {out}; expected a name that ends in .parquet")
    observed = observe(ratings, reading)[0]
    with console.progress() as observer:
        found = deep.features(
            observed,
            side=side,
            method=method,
            of=of,
            n_features=n_features,
            epochs=epochs,
            seed=seed,
            threads=threads,
            observer=observer,
        )
    storage.write_table(out, found)
    content = {"out": str(out), "side": side, "method": method, "of": of, "n": found.height, "n_features": n_features}
    lines = [f"{found.height:,} {side} with {n_features:,} features each, written to {out}"]
    if of == "pattern":
        lines.append(f"next: tastespace fit {ratings} --out MODEL --{side.removesuffix('s')}-features {out}")
    console.print_result(json, content, *lines)


VERBS: dict[str, Callable[..., None]] = {"fit": fit, "show": show}
