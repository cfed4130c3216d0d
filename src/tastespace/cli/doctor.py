"""`tastespace doctor`: installed versions, and what the kernels run on."""

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
FOR_DEVELOPERS = ("all", "docs", "test", "dev")  # extras that users of the library do not need


def doctor(json: Json = False) -> None:
    """Print versions, threads, the instruction set and the installed extras."""
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
