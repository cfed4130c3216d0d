"""`tastespace doctor`: what is installed and what the kernels run on."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Any

from tastespace import threads
from tastespace.cli import console
from tastespace.cli.options import Json
from tastespace.version import __version__

PACKAGES = ("numpy", "scipy", "polars", "safetensors", "typer", "rich")
FOR_DEVELOPERS = ("all", "docs", "test", "dev")  # extras that a user of the library does not ask for


def doctor(json: Json = False) -> None:
    """Print versions, threads, the instruction set in use and the extras that are installed."""
    facts: dict[str, Any] = {
        "tastespace": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": threads.available(),
        "instruction_set": threads.instruction_set(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {name: {package: _version(package) for package in packages} for name, packages in _extras().items()},
    }
    if json:
        console.print_json(facts)
        return
    rows = [[key.replace("_", " "), str(facts[key])] for key in ("tastespace", "python", "platform", "threads")]
    rows.append(["instruction set", facts["instruction_set"]])
    rows += [[name, version or "missing"] for name, version in facts["packages"].items()]
    for extra, packages in facts["extras"].items():
        missing = [package for package, version in packages.items() if version is None]
        state = (
            f"not installed: pip install 'tastespace[{extra}]'"
            if missing
            else ", ".join(f"{package} {version}" for package, version in packages.items())
        )
        rows.append([f"[{extra}]", state])
    for row in rows:
        console.out.print(f"{row[0]:<16} {row[1]}", markup=False)


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
