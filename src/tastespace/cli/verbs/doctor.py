"""`tastespace doctor`: installed versions, and what the kernels run on; or whether an artifact is whole."""

from __future__ import annotations

import platform
import re
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from tastespace import artifact, storage, threads
from tastespace.cli import console
from tastespace.cli.options import Database, Json, State, require
from tastespace.errors import ArtifactError
from tastespace.version import __version__

PACKAGES = ("numpy", "scipy", "polars", "safetensors", "typer", "rich")
FOR_DEVELOPERS = ("all", "docs", "test", "dev")  # extras that users of the library do not need


def doctor(
    model: Annotated[Path | None, Argument(help="Folder of a fitted model to check.", metavar="[MODEL]")] = None,
    about: Annotated[
        str | None, Option(metavar="USER", help="Show where a service of MODEL has something of this user.")
    ] = None,
    database: Database = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Print versions, threads, the instruction set and the installed extras; or check a model."""
    if about is not None:
        require(model is not None, "--about needs a MODEL")
        assert model is not None
        _print_about(model, about, database, state, json)
    elif model is None:
        _print_machine(json)
    else:
        _check_model(model, json)


def _print_about(model: Path, user: str, database: str | None, state: Path | None, json: bool) -> None:
    from tastespace.cli.verbs.serve import holdings_of

    with closing(holdings_of(model, database, state)) as holdings:
        content = holdings.about(user)
    rows = ", ".join(f"{n:,} in {table}" for table, n in content["database"].items() if n and table != "people")
    mark = "a mark that the user was deleted" if content["was_deleted"] else ""
    known = "the user has been seen" if content["database"].get("people") and not mark else ""
    places = {str(model): content["model"], **{f"version {name}": n for name, n in content["versions"].items()}}
    lines = [f"database: {'; '.join(filter(None, [rows, known, mark])) or 'nothing'}"]
    lines += [f"{place}: {'nothing' if n is None else f'{n:,} ratings'}" for place, n in places.items()]
    console.print_result(json, content, *lines)


def _check_model(path: Path, json: bool) -> None:
    manifest = artifact.verified(path)
    recommender = artifact.load(path)  # Everything was read: its parts are tried out.
    if recommender.index_ is None and "index" in manifest:
        raise ArtifactError(f"{path}: its index cannot be used; run 'tastespace index {path}' again")
    n_bytes, has_checksums = sum(manifest["files"].values()), "sha256" in manifest
    littered = [str(entry) for entry in storage.left_over(path.resolve())]
    content = {
        "model": manifest["model"],
        "format_version": manifest["format_version"],
        "files": len(manifest["files"]) + 1,
        "bytes": n_bytes,
        "has_checksums": has_checksums,
        "has_index": recommender.index_ is not None,
        "left_over": littered,
    }
    found = "checksums agree" if has_checksums else "sizes agree; it has no checksums: save it again to have them"
    lines = [
        f"{path} is whole: {manifest['model']}, format {manifest['format_version']}, "
        f"{len(manifest['files']) + 1} files, {n_bytes / 1e6:,.1f} MB",
        f"{found}, all numbers are finite, and a test query was answered",
        *(["the index fits the model, and a test search was answered"] if recommender.index_ is not None else []),
        *(f"{entry} is left over from a killed writer; the next one removes it" for entry in littered),
    ]
    console.print_result(json, content, *lines)


def _print_machine(json: bool) -> None:
    packages = {name: _version(name) for name in PACKAGES}
    extras = {name: {package: _version(package) for package in needed} for name, needed in _extras().items()}
    facts: dict[str, Any] = {
        "tastespace": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": threads.available(),
        "instruction_set": threads.instruction_set(),
    }
    rows = {name.replace("_", " "): str(value) for name, value in facts.items()}
    rows |= {name: version or "missing" for name, version in packages.items()}
    for extra, needed in extras.items():
        installed = ", ".join(f"{package} {version}" for package, version in needed.items())
        rows[f"[{extra}]"] = (
            f"not installed: pip install 'tastespace[{extra}]'" if None in needed.values() else installed
        )
    lines = (f"{name:<16} {value}" for name, value in rows.items())
    console.print_result(json, facts | {"packages": packages, "extras": extras}, *lines)


def _extras() -> dict[str, list[str]]:
    """The packages of each extra, as the installed package declares them."""
    extras: dict[str, list[str]] = {}
    for requirement in metadata.requires("tastespace") or []:
        found = re.match(r"([\w-]+).*;\s*extra\s*==\s*['\"](\w+)['\"]", requirement)
        if found and found[2] not in FOR_DEVELOPERS and found[1] != "tastespace":
            extras.setdefault(found[2], []).append(found[1])
    return extras


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
