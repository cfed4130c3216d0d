"""Artifacts that were changed by hand: the manifest does not give them away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tastespace import storage
from tastespace.manifests import MANIFEST


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest without a checksum of its own, as the first artifacts of format 2 have it."""
    if isinstance(manifest.get("sha256"), dict):
        manifest = manifest | {"sha256": {k: v for k, v in manifest["sha256"].items() if k != MANIFEST}}
    (path / MANIFEST).write_text(json.dumps(manifest))


def match_files(path: Path) -> None:
    """Write the sizes and checksums of the files as they are now into the manifest."""
    manifest = json.loads((path / MANIFEST).read_text())
    files = [entry for entry in path.iterdir() if entry.name != MANIFEST]
    manifest["files"] = {file.name: file.stat().st_size for file in files}
    manifest["sha256"] = {file.name: storage.checksum_of(file) for file in files}
    write_manifest(path, manifest)
