"""`tastespace data`: the data sets that are known by name, fetched and kept; and what is in a file of ratings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace.cli import console
from tastespace.cli.options import OPTIONS, Json, ReadOptions, observe, reads
from tastespace.data.formats.writers import writer_of
from tastespace.data.kinds import Kind
from tastespace.data.ratings import Ratings
from tastespace.data.sources import SOURCES, resolve, source_of
from tastespace.data.sources.download import readable_size
from tastespace.data.sources.source import Source, files_folder, is_cached, obtain
from tastespace.data.splits import Split, held_out_users, last_per_user, leave_one_out, random_split, time_split
from tastespace.errors import DataError, InvalidParameterError, warn
from tastespace.storage import cache_folder

# Ratings, share, number and seed; each way uses what it needs.
WAYS: dict[str, Callable[[Ratings, float, int, int], Split]] = {
    "random": lambda ratings, share, last, seed: random_split(ratings, share, seed=seed),
    "time": lambda ratings, share, last, seed: time_split(ratings, share),
    "last": lambda ratings, share, last, seed: last_per_user(ratings, last),
    "one": lambda ratings, share, last, seed: leave_one_out(ratings, seed=seed),
    "users": lambda ratings, share, last, seed: held_out_users(ratings, share, seed=seed),
}
SHARED = ("random", "time", "users")


@reads("user", "item", "rating", "time", "separator", "header", "duplicates", "bad_lines")
def split(
    ratings: Annotated[Path, typer.Argument(help="File of ratings, folder of a known layout, or name of a data set.")],
    train: Annotated[Path, typer.Option("--train", help="File to write the training part to.")],
    test: Annotated[Path, typer.Option("--test", help="File to write the test part to.")],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="random: a share of the ratings; time: the latest share of them; last: the last of each user; "
            "one: one of each user at random; users: a share of the users.",
        ),
    ] = "random",
    share: Annotated[
        float | None,
        typer.Option("--share", help="Share of the test part, for random, time and users.", show_default="0.1"),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--last", help="How many of each user, for last.", show_default="1")
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", help="For users: file to write half of their ratings to.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same split.")] = 0,
    *,
    said: ReadOptions,
    json: Json = False,
) -> None:
    """Write a training part and a test part of ratings to two files (.csv, .tsv, .parquet, also .gz and .zst)."""
    _check(by, share, last, history)
    outputs = [train, test] if history is None else [train, test, history]
    for file in outputs:
        writer_of(file)  # says now, before anything is read, if a name is none that can be written
    if len({file.resolve() for file in (ratings, *outputs)}) <= len(outputs):
        raise InvalidParameterError("two of the files are the same; expected others than the ratings for each part")
    observed = observe(ratings, said)[0]
    parts = WAYS[by](observed, 0.1 if share is None else share, 1 if last is None else last, seed)
    written = {"train": (parts.train, train), "test": (parts.test, test)}
    if parts.history is not None and history is not None:
        written["history"] = (parts.history, history)
    for part, file in written.values():
        part.write(file)
    if json:
        console.print_json(
            {
                name: {"file": str(file), "n_ratings": len(part), "n_users": part.n_users, "n_items": part.n_items}
                for name, (part, file) in written.items()
            }
        )
        return
    for name, (part, file) in written.items():
        console.out.print(
            f"{name}: {len(part):,} ratings by {part.n_users:,} users of {part.n_items:,} items, written to {file}",
            markup=False,
        )
    console.out.print(f"next: tastespace fit {train} --out MODEL; tastespace evaluate MODEL {test}", markup=False)


def _check(by: str, share: float | None, last: int | None, history: Path | None) -> None:
    """Refuse options that do not go together."""
    if by not in WAYS:
        raise InvalidParameterError(f"--by is {by!r}; expected one of {', '.join(WAYS)}")
    if share is not None and by not in SHARED:
        raise typer.BadParameter(f"--by {by} takes no --share; expected --by {' or '.join(SHARED)}")
    if last is not None and by != "last":
        raise typer.BadParameter(f"--by {by} takes no --last; expected --by last")
    if (history is None) == (by == "users"):
        raise typer.BadParameter("--history FILE and --by users go together: it is what those users are known by")


INTERRUPTED = 130

Cache = Annotated[
    Path | None, typer.Option("--cache", help="Folder to keep data sets in.", show_default="TASTESPACE_CACHE")
]


def list_sources(cache: Cache = None, json: Json = False) -> None:
    """List the data sets that can be had by name."""
    if json:
        sets = [_facts(source, cache) for source in SOURCES.values()]
        console.print_json({"cache": str(cache_folder(cache)), "data_sets": sets})
        return
    console.print_table(
        ["name", "ratings", "users", "items", "download", "", "what"],
        [
            [
                source.name,
                f"{source.n_ratings:,}",
                f"{source.n_users:,}",
                f"{source.n_items:,}",
                _download_size(source),
                _whereabouts(source, cache),
                source.description,
            ]
            for source in SOURCES.values()
        ],
    )
    console.out.print(f"\ncache: {cache_folder(cache)}; next: tastespace data get NAME", markup=False)


def get(
    name: Annotated[str, typer.Argument(help="Name of a data set, as `data list` has it.", metavar="NAME")],
    given: Annotated[
        Path | None, typer.Option("--from", help="Archive or unpacked folder that you have; nothing is downloaded.")
    ] = None,
    cache: Cache = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the ratings to this file: .csv, .tsv, .parquet.")
    ] = None,
    json: Json = False,
) -> None:
    """Fetch a data set into the cache, once, and say what may be done with it."""
    source = source_of(name)
    if out is not None:
        _check_out(out)
    if not json:
        console.out.print(
            f"{source.name}: {source.description}\nterms: {source.terms}\nmore: {source.home}", markup=False
        )
    ratings = _obtained(source, given, cache)
    if out is not None:
        ratings.write(out)
    _tell(source, ratings, cache, out, json)


@reads(*OPTIONS)
def describe(
    ratings: Annotated[str, typer.Argument(help="File of ratings, or name of a data set.", metavar="FILE_OR_NAME")],
    cache: Cache = None,
    *,
    said: ReadOptions,
    json: Json = False,
) -> None:
    """Show how a file of ratings would be read, and what is in it; or what a data set is."""
    source = resolve(ratings)
    if source is not None and said.keys() <= {"kind"}:
        _describe_source(source, cache, said.get("kind"), json)
        return
    observed, layout = observe(Path(ratings), said)
    if json:
        shown = None if layout is None else layout.to_dict()
        console.print_json({"file": ratings, "layout": shown, "ratings": observed.describe().to_dict()})
        return
    console.out.print(f"layout   {layout}\n{observed.describe()}", markup=False)


VERBS: dict[str, Callable[..., None]] = {"list": list_sources, "get": get, "describe": describe, "split": split}


def _facts(source: Source, cache: Path | None) -> dict[str, Any]:
    archive = source.archive
    return {
        "name": source.name,
        "description": source.description,
        "n_ratings": source.n_ratings,
        "n_users": source.n_users,
        "n_items": source.n_items,
        "home": source.home,
        "terms": source.terms,
        "url": None if archive is None else archive.url,
        "n_bytes": None if archive is None else archive.n_bytes,
        "checksum": None if archive is None else archive.checksum,
        "cached": archive is None or is_cached(source.name, cache),
    }


def _download_size(source: Source) -> str:
    if source.archive is None:
        return "none"
    return "" if source.archive.n_bytes is None else readable_size(source.archive.n_bytes)


def _whereabouts(source: Source, cache: Path | None) -> str:
    if source.archive is None or is_cached(source.name, cache):
        return "here"
    return "--from" if source.archive.url is None else ""


def _obtained(source: Source, given: Path | None, cache: Path | None) -> Ratings:
    """The ratings, read once so that whoever fetched them knows that they are whole."""
    if source.archive is None:
        if given is not None:
            raise InvalidParameterError(f"{source.name} comes with a package; expected no --from")
        return source.load()
    try:
        with console.progress(in_bytes=True) as observer:
            folder = obtain(source.name, source.archive, cache=cache, given=given, observer=observer)
            ratings = source.read(folder)
        _compare_size(source, ratings)
        return ratings
    except KeyboardInterrupt as error:
        console.err.print("interrupted; what has come so far is kept, run it again to continue", markup=False)
        raise typer.Exit(INTERRUPTED) from error


def _compare_size(source: Source, ratings: Ratings) -> None:
    """Say so if this can hardly be the data set: somebody gave another one under its name."""
    if not 0.98 < (len(ratings) + ratings.merged) / source.n_ratings < 1.02:
        warn(f"{len(ratings):,} ratings were read, and {source.name} has {source.n_ratings:,}: is this the right one?")


def _check_out(out: Path) -> None:
    """Complain about the file to write before much is downloaded."""
    writer_of(out)
    if not out.parent.is_dir():
        raise DataError("the folder does not exist", file=out, expected="a folder to write to")


def _tell(source: Source, ratings: Ratings, cache: Path | None, out: Path | None, json: bool) -> None:
    folder = None if source.archive is None else files_folder(source.name, cache)
    if json:
        facts = _facts(source, cache) | {"files": None if folder is None else str(folder)}
        facts["ratings"] = ratings.describe().to_dict()
        console.print_json(facts | {"out": None if out is None else str(out)})
        return
    console.out.print(
        f"{len(ratings):,} ratings by {ratings.n_users:,} users of {ratings.n_items:,} items"
        + ("" if folder is None else f" in {folder}"),
        markup=False,
    )
    if out is not None:
        console.out.print(f"ratings without titles written to {out}", markup=False)
    chosen = "" if cache is None else f"TASTESPACE_CACHE={cache} "
    console.out.print(f"next: {chosen}tastespace fit {source.name} --out MODEL", markup=False)


def _describe_source(source: Source, cache: Path | None, kind: Kind | None, json: bool) -> None:
    """A data set, and its ratings if they are here already: nothing is downloaded only to be described."""
    is_here = source.archive is None or is_cached(source.name, cache)
    observed = source.load(cache=cache) if is_here else None
    if observed is not None and kind is not None:
        observed = observed.with_kind(kind)
    if json:
        described = None if observed is None else observed.describe().to_dict()
        console.print_json(_facts(source, cache) | {"ratings": described})
        return
    lines = [("what", source.description), ("terms", source.terms), ("more", source.home)]
    if source.archive is not None and source.archive.hint:
        lines.append(("note", source.archive.hint))
    console.out.print("\n".join(f"{label:<7}  {text}" for label, text in lines), markup=False)
    if observed is None:
        size = f"{source.n_ratings:,} ratings by {source.n_users:,} users of {source.n_items:,} items"
        console.out.print(f"size     {size}\nnot here yet; next: tastespace data get {source.name}", markup=False)
    else:
        console.out.print(str(observed.describe()), markup=False)
