"""Damaged artifacts: whatever is in the files, the only errors are ours, and nothing large is allocated."""

from __future__ import annotations

import json
import os
import resource
import shutil
import warnings
from pathlib import Path

from artifacts.editing import match_files, write_manifest

from tastespace import load
from tastespace.errors import ArtifactError
from tastespace.manifests import MANIFEST
from tastespace.randomness import generator

MUTANTS = int(os.environ.get("TASTESPACE_MUTANTS", "150"))  # `make faults` makes 10 000
FORMAT_2 = Path(__file__).parents[1] / "artifacts" / "format-2"
NAMES = ("als-found-strength-indexed", "bpmf", "item-knn", "joint", "blend")
VALUES = [None, True, -1, 0, 1 << 62, 1e308, "", "../../x", "\x00", "posterior.safetensors", [], {}, [[]], {"a": {}}]
MEMORY = 200 << 20  # bytes that all of them together may add: a lie about a size would take more at once


def mutate_bytes(path: Path, rng) -> None:
    """Other bytes in a file, fewer or more of them; sizes and checksums of arrays agree.

    Those of tables do not: there are Parquet files of which polars 2.1 never finishes reading, after a panic.
    """
    files = sorted(file for file in path.iterdir() if file.name != MANIFEST)
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    # Headers are at the beginning of safetensors, and at the end of Parquet.
    place = int(min(rng.integers(len(content)), rng.geometric(0.005) - 1))
    place = place if rng.random() < 0.5 else len(content) - 1 - place
    way = rng.integers(4)
    if way == 0:
        content[place] ^= 1 << int(rng.integers(8))
    elif way == 1:
        content[place : place + 8] = rng.bytes(8)
    elif way == 2:
        del content[place:]
    else:
        content[place:place] = rng.bytes(int(rng.integers(1, 100)))
    file.write_bytes(content)
    if file.suffix == ".safetensors":
        match_files(path)


def mutate_manifest(path: Path, rng) -> None:
    """Another value, none, or one more, anywhere in the manifest."""
    manifest = json.loads((path / MANIFEST).read_text())
    inside = manifest
    while True:
        keys = list(inside.keys()) if isinstance(inside, dict) else list(range(len(inside)))
        key = keys[rng.integers(len(keys))]
        value = inside[key]
        if isinstance(value, dict | list) and value and rng.random() < 0.7:
            inside = value
            continue
        break
    other = VALUES[rng.integers(len(VALUES))]
    if rng.random() < 0.2:
        del inside[key]
    else:
        inside[key] = other
    write_manifest(path, manifest)


def fault_of(path: Path) -> str | None:
    """What is said of an artifact; None if it loads. Any other error than ours is the test's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load(path)
        except ArtifactError as error:
            return str(error)
    return None


def test_every_mutant_loads_or_is_refused_in_words(tmp_path):
    rng, faults = generator(11), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in range(MUTANTS):
        path = Path(shutil.copytree(FORMAT_2 / NAMES[n % len(NAMES)], tmp_path / f"{n}"))
        (mutate_bytes, mutate_manifest)[n % 2](path, rng)
        faults.append(fault_of(path))
        shutil.rmtree(path)
    assert MUTANTS / 4 < sum(fault is not None for fault in faults) < MUTANTS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY
