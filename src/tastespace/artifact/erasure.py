"""Users leave an artifact: their ids, ratings, features and factors, without fitting it again.

A row stays in their place, without ratings and with the factors of an average user, because the rows of all others have
their numbers. What the items learned from them remains until the model is fitted again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import storage
from tastespace.artifact import saving
from tastespace.data.formats.content import scan_parquet
from tastespace.manifests import MANIFEST

# Arrays of a posterior with one row for each user, and those with one group of entries for each.
ROWS = ("user_factors", "user_bias", "user_noise")
CURVES = "curve_of_user"
GROUPS = {"offsets": ("columns", "values", "times"), "user_offsets": ("user_items", "user_weights")}
VECTORS, FEATURES = "user-vectors.safetensors", "user-features.parquet"


def count_ratings(path: Path, user: str) -> int | None:
    """The number of ratings of a user in an artifact; None if the artifact does not know them."""
    manifest = saving.read_manifest(path)
    rows, _ = _rows_of(path, {user})
    if not len(rows):
        return None
    if saving.RATINGS not in manifest["files"]:
        return 0
    offsets = storage.read_arrays(path / saving.RATINGS)["offsets"]
    return int((offsets[rows + 1] - offsets[rows]).sum())


def erase(path: Path, users: Collection[str]) -> int:
    """Remove users from an artifact, which is replaced by one without them; how many of them it knew."""
    path = path.resolve()
    manifest = saving.verified(path)
    rows, table = _rows_of(path, users)
    if not len(rows):
        return 0
    n, modes = table.height, (path.stat().st_mode, (path / MANIFEST).stat().st_mode)
    arrays = {name: storage.read_arrays(path / name) for name in manifest["parts"].values()}
    changed: dict[str, Any] = {name: _without(part, rows, n) for name, part in arrays.items()}
    if saving.RATINGS in manifest["files"]:
        changed[saving.RATINGS] = _without(storage.read_arrays(path / saving.RATINGS), rows, n)
        manifest["data"]["n_ratings"] = len(changed[saving.RATINGS]["values"])
    changed[saving.USERS] = _blanked(table, rows)
    if FEATURES in manifest["files"]:
        changed[FEATURES] = _blanked(scan_parquet(path / FEATURES).collect(), rows)
    if VECTORS in manifest["files"]:
        changed[VECTORS] = _without_vectors(storage.read_arrays(path / VECTORS), rows)
    manifest["data"]["fingerprint"] = ""  # of ratings that are not all there any more
    with saving.rewriting(path, manifest, changed.keys()) as folder:
        for name, content in changed.items():
            if isinstance(content, pl.DataFrame):
                storage.write_table(folder / name, content)
            else:
                storage.write_arrays(folder / name, content)
    for file in path.iterdir():
        file.chmod(modes[1])
    path.chmod(modes[0])
    return len(rows)


def _rows_of(path: Path, users: Collection[str]) -> tuple[NDArray[np.int64], pl.DataFrame]:
    table = scan_parquet(path / saving.USERS).collect()
    is_one = table["id"].cast(pl.String).is_in(list(users))
    return is_one.arg_true().to_numpy().astype(np.int64), table


def _blanked(table: pl.DataFrame, rows: NDArray[np.int64]) -> pl.DataFrame:
    """The table with nothing in these rows, but for ids that say that somebody was deleted."""
    is_gone = pl.Series(np.isin(np.arange(table.height), rows))
    blank = table.with_columns(
        pl.when(is_gone).then(None).otherwise(pl.col(name)).alias(name) for name in table.columns
    )
    if "id" not in table.columns:
        return blank
    number = pl.int_range(pl.len())
    if table["id"].dtype == pl.String:
        new = pl.format("deleted-{}", number)
    else:  # below all others
        new = min(int(table["id"].min() or 0), 0) - 1 - number  # type: ignore[arg-type]
    return blank.with_columns(pl.coalesce("id", new).cast(table["id"].dtype).alias("id"))


def _without(arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], n: int) -> dict[str, NDArray[Any]]:
    """The arrays with the average of the others in the rows of these users, and without their entries."""
    changed = dict(arrays)
    others = np.setdiff1d(np.arange(n), rows)
    for name in ROWS:
        if name in changed and len(changed[name]) == n:
            changed[name] = np.array(changed[name])
            changed[name][rows] = changed[name][others].mean(0) if len(others) else 0
    if CURVES in changed:
        changed[CURVES] = np.array(changed[CURVES])
        changed[CURVES][rows] = 0
    for name, grouped in GROUPS.items():
        if name in changed and len(changed[name]) == n + 1:
            changed |= _without_groups(changed, rows, name, grouped)
    return changed


def _without_groups(
    arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], offsets: str, grouped: Collection[str]
) -> dict[str, NDArray[Any]]:
    counts = np.diff(arrays[offsets])
    stays = np.repeat(~np.isin(np.arange(len(counts)), rows), counts)
    counts[rows] = 0
    new = np.concatenate([[0], np.cumsum(counts)]).astype(arrays[offsets].dtype)
    return {offsets: new} | {name: np.array(arrays[name])[stays] for name in grouped if name in arrays}


def _without_vectors(arrays: Mapping[str, NDArray[Any]], rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Sparse vectors, which are missing for these users."""
    changed = dict(arrays)
    for place in {name.partition("/")[0] for name in arrays}:
        names = [f"{place}/{part}" for part in ("indptr", "data", "indices", "missing")]
        changed |= _without_groups(changed, rows, names[0], names[1:3])
        changed[names[3]] = np.array(changed[names[3]])
        changed[names[3]][rows] = 1
    return changed
