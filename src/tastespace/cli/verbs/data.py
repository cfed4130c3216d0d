"""`tastespace data`: data sets by name, downloads and their cache, and the content of a file of ratings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from tastespace.cli import console, options
from tastespace.cli.options import OPTIONS, Json, RatingsFile, ReadOptions, observe, reads, sizes_of, sizes_text
from tastespace.data.formats.descriptions import Shape, SideName, layout_of_descriptions
from tastespace.data.formats.writers import writer_of
from tastespace.data.kinds import Kind
from tastespace.data.ratings import Ratings
from tastespace.data.sources import SOURCES, resolve, source_of
from tastespace.data.sources.download import readable_size
from tastespace.data.sources.source import Source, files_folder, is_cached, obtain
from tastespace.data.splits import (
    Split,
    held_out_items,
    held_out_users,
    last_per_user,
    leave_one_out,
    random_split,
    time_split,
)
from tastespace.errors import DataError, InvalidParameterError, warn
from tastespace.storage import cache_folder

# Ratings, share, number and seed; each split uses the ones it needs.
WAYS: dict[str, Callable[[Ratings, float, int, int], Split]] = {
    "random": lambda ratings, share, last, seed: random_split(ratings, share, seed=seed),
    "time": lambda ratings, share, last, seed: time_split(ratings, share),
    "last": lambda ratings, share, last, seed: last_per_user(ratings, last),
    "one": lambda ratings, share, last, seed: leave_one_out(ratings, seed=seed),
    "users": lambda ratings, share, last, seed: held_out_users(ratings, share, seed=seed),
    "items": lambda ratings, share, last, seed: held_out_items(ratings, share, seed=seed),
}
SHARED = ("random", "time", "users", "items")


@reads("user", "item", "rating", "time", "separator", "header", "duplicates", "bad_lines")
def split(
    ratings: RatingsFile,
    train: Annotated[Path, Option(help="File to write the training part to.")],
    test: Annotated[Path, Option(help="File to write the test part to.")],
    by: Annotated[
        str,
        Option(
            help="random: a share of the ratings; time: the latest share of them; last: the last of each user; "
            "one: one of each user at random; users: a share of the users; items: a share of the items."
        ),
    ] = "random",
    share: Annotated[
        float | None, Option(help="Share of the test part, for random, time, users and items.", show_default="0.1")
    ] = None,
    last: Annotated[int | None, Option(help="How many of each user, for last.", show_default="1")] = None,
    history: Annotated[Path | None, Option(help="For users: file to write half of their ratings to.")] = None,
    seed: Annotated[int, Option(help="Same seed, same split.")] = 0,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Write a training part and a test part of ratings to two files (.csv, .tsv, .parquet, also .gz and .zst)."""
    options.check_known(by, WAYS, f"--by is {by!r}")
    options.require(share is None or by in SHARED, f"--by {by} takes no --share; expected --by {' or '.join(SHARED)}")
    options.require(last is None or by == "last", f"--by {by} takes no --last; expected --by last")
    together = "--history FILE and --by users go together: the history is what is known of those users"
    options.require((history is None) == (by != "users"), together)
    outputs = [train, test] if history is None else [train, test, history]
    for file in outputs:
        writer_of(file)  # fails now, before anything is read, if the format cannot be written
    if len({file.resolve() for file in (ratings, *outputs)}) <= len(outputs):
        raise InvalidParameterError("two of the files are the same; expected a file of its own for each part")
    observed = observe(ratings, reading)[0]
    parts = WAYS[by](observed, 0.1 if share is None else share, 1 if last is None else last, seed)
    written = {"train": (parts.train, train), "test": (parts.test, test)}
    if parts.history is not None and history is not None:
        written["history"] = (parts.history, history)
    for part, file in written.values():
        part.write(file)
    content = {name: {"file": str(file), **sizes_of(part)} for name, (part, file) in written.items()}
    lines = [f"{name}: {sizes_text(sizes_of(part))}, written to {file}" for name, (part, file) in written.items()]
    lines.append(f"next: tastespace fit {train} --out MODEL; tastespace evaluate MODEL {test}")
    console.print_result(json, content, *lines)


Cache = Annotated[Path | None, Option("--cache", help="Folder to keep data sets in.", show_default="TASTESPACE_CACHE")]


def list_sources(cache: Cache = None, json: Json = False) -> None:
    """List the data sets that are available by name."""
    if json:
        sets = [_facts(source, cache) for source in SOURCES.values()]
        console.print_json({"cache": str(cache_folder(cache)), "data_sets": sets})
        return
    columns = ["name", "ratings", "users", "items", "download", "", "what"]
    rows = [
        [
            *(source.name, f"{source.n_ratings:,}", f"{source.n_users:,}", f"{source.n_items:,}"),
            *(_download_size(source), _whereabouts(source, cache), source.description),
        ]
        for source in SOURCES.values()
    ]
    console.print_rows(columns, rows)
    console.print_line(f"\ncache: {cache_folder(cache)}; next: tastespace data get NAME")


def get(
    name: Annotated[str, Argument(help="Name of a data set, as in `data list`.", metavar="NAME")],
    given: Annotated[
        Path | None, Option("--from", help="Local archive or unpacked folder, instead of a download.")
    ] = None,
    cache: Cache = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Also write the ratings to this file: .csv, .tsv, .parquet.")
    ] = None,
    json: Json = False,
) -> None:
    """Download a data set into the cache, once, and print its terms of use."""
    source = source_of(name)
    if out is not None:  # Refused before much is downloaded.
        writer_of(out)
        if not out.parent.is_dir():
            raise DataError("the folder does not exist", file=out, expected="a folder to write to")
    if not json:
        console.print_line(f"{source.name}: {source.description}", f"terms: {source.terms}", f"more: {source.home}")
    ratings = _obtained(source, given, cache)
    if out is not None:
        ratings.write(out)
    folder = None if source.archive is None else str(files_folder(source.name, cache))
    content = _facts(source, cache) | {"files": folder, "ratings": ratings.describe().to_dict()}
    chosen = "" if cache is None else f"TASTESPACE_CACHE={cache} "
    console.print_result(
        json,
        content | {"out": None if out is None else str(out)},
        sizes_text(sizes_of(ratings)) + ("" if folder is None else f" in {folder}"),
        *([] if out is None else [f"ratings without titles written to {out}"]),
        f"next: {chosen}tastespace fit {source.name} --out MODEL",
    )


@reads(*OPTIONS)
def describe(
    ratings: Annotated[str, Argument(help="File of ratings, or name of a data set.", metavar="FILE_OR_NAME")],
    cache: Cache = None,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Show how a file of ratings would be read and what is in it, or describe a data set."""
    source = resolve(ratings)
    if source is not None and reading.keys() <= {"kind"}:
        _describe_source(source, cache, reading.get("kind"), json)
        return
    observed, layout = observe(Path(ratings), reading)
    description = observed.describe()
    content = {"file": ratings, "layout": None if layout is None else layout.to_dict()}
    content["ratings"] = description.to_dict()
    lines = [f"layout   {layout}"]
    shape = Shape(*(reading.get(name) for name in ("item_id", "title", "item_separator", "list_separator")))
    sides: tuple[SideName, ...] = ("item", "user")
    for side, ids in zip(sides, (observed.items, observed.users), strict=True):
        if file := reading.get(f"{side}s"):
            found = layout_of_descriptions(Path(file), side, ids, shape if side == "item" else Shape())
            content[f"{side}s_file"] = {"file": str(file), "layout": found.to_dict()}
            lines.append(f"{side}s".ljust(9) + str(found))
    console.print_result(json, content, *lines, str(description))


VERBS: dict[str, Callable[..., None]] = {"list": list_sources, "get": get, "describe": describe, "split": split}


def _facts(source: Source, cache: Path | None) -> dict[str, Any]:
    own = ("name", "description", "n_ratings", "n_users", "n_items", "home", "terms")
    facts = {name: getattr(source, name) for name in own}
    facts |= {name: getattr(source.archive, name, None) for name in ("url", "n_bytes", "checksum")}
    return facts | {"cached": source.archive is None or is_cached(source.name, cache)}


def _download_size(source: Source) -> str:
    if source.archive is None:
        return "none"
    return "" if source.archive.n_bytes is None else readable_size(source.archive.n_bytes)


def _whereabouts(source: Source, cache: Path | None) -> str:
    if source.archive is None or is_cached(source.name, cache):
        return "here"
    return "--from" if source.archive.url is None else ""


def _obtained(source: Source, given: Path | None, cache: Path | None) -> Ratings:
    """The ratings, read once to verify that they are complete."""
    if source.archive is None:
        if given is not None:
            raise InvalidParameterError(f"{source.name} comes with a package; expected no --from")
        return source.load()
    try:
        with console.progress(in_bytes=True) as observer:
            folder = obtain(source.name, source.archive, cache=cache, given=given, observer=observer)
            ratings = source.read(folder)
        # The archive may be of another data set.
        if not 0.98 < (len(ratings) + ratings.merged) / source.n_ratings < 1.02:
            sizes = f"{len(ratings):,} ratings were read, but {source.name} has {source.n_ratings:,}"
            warn(f"{sizes}: is this the right one?")
        return ratings
    except KeyboardInterrupt as error:
        console.print_error("interrupted; the part downloaded so far is kept, run it again to continue")
        raise Exit(console.INTERRUPTED) from error


def _describe_source(source: Source, cache: Path | None, kind: Kind | None, json: bool) -> None:
    """A data set, with its ratings if they are cached: nothing is downloaded just for a description."""
    is_here = source.archive is None or is_cached(source.name, cache)
    observed = source.load(cache=cache) if is_here else None
    if observed is not None and kind is not None:
        observed = observed.with_kind(kind)
    described = None if observed is None else observed.describe()
    facts = {"what": source.description, "terms": source.terms, "more": source.home}
    if source.archive is not None and source.archive.hint:
        facts["note"] = source.archive.hint
    lines = [f"{label:<7}  {text}" for label, text in facts.items()]
    if described is None:
        lines += [f"size     {sizes_text(vars(source))}", f"not downloaded; next: tastespace data get {source.name}"]
    else:
        lines.append(str(described))
    content = _facts(source, cache) | {"ratings": None if described is None else described.to_dict()}
    console.print_result(json, content, *lines)
