"""`tastespace rank`: how many factors do these ratings have use for? Several ways to say, on the same split."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, cast

import typer

from tastespace.cli import console
from tastespace.cli.evaluate import show_table
from tastespace.cli.observing import observe
from tastespace.cli.options import Json, Threads, read_settings
from tastespace.cli.reading import OPTIONS, Said, reads
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.rank import GRID, MAX_RANK, METHODS, SHARE, RankMethod, compare_ranks
from tastespace.models.factorization.jump.run import ReversibleJump
from tastespace.report.evaluation_page import prepare_folder
from tastespace.report.rank_figures import write_ranks

SETTINGS = tuple(field.name for field in fields(ReversibleJump) if field.name != "cooling")


@reads(*OPTIONS)
def rank(
    ratings: Annotated[Path, typer.Argument(help="File of ratings, folder of a known layout, or name of a data set.")],
    methods: Annotated[
        str | None,
        typer.Option("--methods", help=f"Some of {', '.join(METHODS)}, separated by commas.", show_default="all"),
    ] = None,
    max_rank: Annotated[int, typer.Option("--max-rank", help="The most factors that there may be.")] = MAX_RANK,
    ranks: Annotated[
        str | None,
        typer.Option(
            "--ranks",
            help="Ranks of the grid, separated by commas.",
            show_default=f"{', '.join(map(str, GRID))}, as far as --max-rank goes",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help=f"A parameter of reversible-jump, as key=value; can be repeated: {', '.join(SETTINGS)}."
        ),
    ] = None,
    holdout: Annotated[float, typer.Option("--holdout", help="Share of the ratings to measure the error on.")] = SHARE,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder to write loss.svg and posterior.svg to.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same split and ranks.")] = 0,
    *,
    said: Said,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Say how many factors ratings have use for: by reversible jumps, by shrinking priors, by a grid."""
    wanted = None if methods is None else [cast(RankMethod, name.strip()) for name in methods.split(",")]
    grid, jumps = _numbers(ranks), _jumps(settings or [])
    if figures is not None:
        prepare_folder(figures)
    observed = observe(ratings, said)[0]
    with console.progress() as observer:
        found = compare_ranks(
            observed,
            wanted,
            max_rank=max_rank,
            ranks=grid,
            jumps=jumps,
            share=holdout,
            seed=seed,
            threads=threads,
            observer=observer,
        )
    paths = [] if figures is None else write_ranks(found, figures)
    if json:
        content = found.to_dict()
        console.print_json(content if figures is None else content | {"figures": [str(path) for path in paths]})
        return
    show_table(found.table())
    for path in paths:
        console.out.print(f"written: {path}", markup=False)


def _numbers(typed: str | None) -> list[int] | None:
    if typed is None:
        return None
    parts = [part.strip() for part in typed.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InvalidParameterError(
            f"--ranks got {typed!r}; expected whole numbers separated by commas, such as 4,8,16"
        )
    return [int(part) for part in parts]


def _jumps(typed: list[str]) -> ReversibleJump:
    read = read_settings(typed)
    for key in read:
        if key not in SETTINGS:
            raise InvalidParameterError(
                f"--set is for {key}, and reversible-jump has no such parameter; expected one of {', '.join(SETTINGS)}"
            )
    jumps = replace(ReversibleJump(), **read)
    jumps.check()
    return jumps
