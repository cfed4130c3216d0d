"""A content model on disk: a folder with a manifest, arrays and tables. No pickle.

manifest.json          what it is: kind, parameters, sizes and checksums of the other files
features.safetensors   what was learned of texts or images
vectors.safetensors    the features of the items
items.parquet          ids, titles, excerpts, small pictures
words.parquet          the vocabulary (texts only)
taste.json is an entry of the manifest: the weights of words and taste, if they were learned
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tastespace import storage
from tastespace.content import features_type
from tastespace.content.model import ContentModel
from tastespace.data.formats.content import scan_parquet
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import ArtifactError
from tastespace.manifests import (
    BAD_CONTENT,
    MANIFEST,
    MAX_MANIFEST,
    check_manifest,
    fault_of,
    file_faults,
    write_manifest,
    writing,
)
from tastespace.version import __version__

FORMAT, FORMAT_VERSION = "tastespace-content", 1
FEATURES, VECTORS, ITEMS, WORDS = "features.safetensors", "vectors.safetensors", "items.parquet", "words.parquet"
_FILES = {FEATURES, VECTORS, ITEMS, WORDS}
_AGAIN = "fit or copy it again"


def check_writable(path: Path) -> None:
    """Raise an error early if a content model cannot be written there: other folders are never replaced."""
    if path.exists() and not _is_replaceable(path):
        raise ArtifactError(f"{path} exists and is not a content model; expected a new name, or one to replace")
    if not path.resolve().parent.is_dir():
        raise ArtifactError(f"there is no folder {path.resolve().parent}; create it first")


def _is_replaceable(path: Path) -> bool:
    if not path.is_dir():
        return False
    there = {entry.name for entry in path.iterdir()}
    if not there:
        return True
    return there <= _FILES | {MANIFEST} and FORMAT in (path / MANIFEST).read_text(errors="replace")


def save(model: ContentModel, path: str | Path) -> None:
    """Write a content model to a folder; an existing one is replaced."""
    model.require_fitted()
    path = Path(path).resolve()
    check_writable(path)
    learned = model.features.state()
    with writing(path, sum(array.nbytes for array in learned.values()) + model.vectors_.nbytes) as folder:
        storage.write_arrays(folder / FEATURES, learned)
        storage.write_arrays(folder / VECTORS, {"vectors": model.vectors_})
        columns = {"title": model.titles_, "excerpt": model.excerpts_, "picture": model.pictures_}
        storage.write_table(folder / ITEMS, pl.DataFrame({"id": model.items_.ids, **columns}))
        if (words := getattr(model.features, "vocabulary_", None)) is not None:
            storage.write_table(folder / WORDS, pl.DataFrame({"word": pl.Series(words, dtype=pl.String)}))
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tastespace": __version__,
            "kind": model.features.kind,
            "parameters": model.features.get_params(),
            "n_items": len(model.items_),
            "n_features": int(model.vectors_.shape[1]),
            "taste": model.taste_,
        }
        write_manifest(folder, manifest, {})


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a content model, checked to be one that this version can read."""
    path = Path(path)
    if not (path / MANIFEST).is_file():
        raise ArtifactError(f"there is no content model {path}; expected a folder of 'tastespace content fit --out'")
    try:
        with (path / MANIFEST).open("rb") as file:
            content = file.read(MAX_MANIFEST)
        manifest = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: the {MANIFEST} cannot be read ({error}); {_AGAIN}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        what = "is a recommender" if isinstance(manifest, dict) and manifest.get("format") == "tastespace" else "is not"
        raise ArtifactError(f"{path} {what}; expected a content model, which 'tastespace content fit --out' writes")
    version = manifest.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: the content model has format version {version}; this tastespace reads up to {FORMAT_VERSION}. "
            "Upgrade it: pip install -U tastespace"
        )
    kinds = {"kind": str, "parameters": dict, "files": dict, "sha256": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(manifest.get(name), kind)]
    if wrong or not set(manifest["files"]) <= _FILES or {FEATURES, VECTORS, ITEMS} - set(manifest["files"]):
        raise ArtifactError(f"{path}: the {MANIFEST} is damaged; {_AGAIN}")
    check_manifest(path, manifest, content)
    return manifest


def load(path: str | Path, *, verify: bool = False) -> ContentModel:
    """The content model that was saved in this folder; arrays are mapped, not read."""
    path = Path(path)
    manifest = read_manifest(path)
    for fault in file_faults(path, manifest, verify=verify).values():
        raise ArtifactError(f"{path}: {fault}; the content model is damaged, {_AGAIN}")
    try:
        return _restored(path, manifest)
    except ArtifactError:
        raise
    except BAD_CONTENT as error:
        raise ArtifactError(f"{path}: {fault_of(error, manifest)}") from error


def _restored(path: Path, manifest: Mapping[str, Any]) -> ContentModel:
    items = scan_parquet(path / ITEMS).collect()
    vectors = storage.read_arrays(path / VECTORS)["vectors"]
    if vectors.ndim != 2 or len(vectors) != items.height or items.schema["id"] not in (pl.Int64, pl.String):
        raise ValueError(f"{items.height} items have vectors of the shape {vectors.shape}")
    model = ContentModel(_restored_features(path, manifest))
    model.restore(Vocabulary(items["id"].alias("item")), items["title"], items["excerpt"], items["picture"], vectors)
    model.taste_ = manifest.get("taste")
    if model.features.n_features_ != vectors.shape[1]:
        raise ValueError(f"items have {vectors.shape[1]} features, and queries get {model.features.n_features_}")
    return model


def _restored_features(path: Path, manifest: Mapping[str, Any]) -> Any:
    arrays = storage.read_arrays(path / FEATURES)
    features: Any = features_type(manifest["kind"])(**manifest["parameters"])
    if WORDS in manifest["files"]:
        return features.restore(arrays, scan_parquet(path / WORDS).collect()["word"].to_list())
    return features.restore(arrays)
