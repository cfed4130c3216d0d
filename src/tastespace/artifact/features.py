"""Features in an artifact: the values as they were given, and the encoding that the model was fitted with.

    item-features.parquet      numbers and categories, one row per item (absent if there are none)
    item-vectors.safetensors   vectors, sparse (absent if there are none)
    item-encoding.parquet      one row per column of the matrix

The same for users. With the encoding a loaded model encodes new items and users exactly as the fitted one did.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from tastespace import storage
from tastespace.data.features import ENCODING, Features, Vectors
from tastespace.data.formats.content import scan_parquet
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary

FILES = r"(item|user)-(features|encoding)\.parquet|(item|user)-vectors\.safetensors"
_PARTS = ("data", "indices", "indptr", "missing")


def write_features(folder: Path, ratings: Ratings) -> dict[str, Any]:
    """Write the features of both sides, and return the entry of the manifest: nothing if there are none."""
    sides = {"item": ratings.item_features, "user": ratings.user_features}
    found = {side: _write_side(folder, side, features) for side, features in sides.items() if features is not None}
    return {"features": found} if found else {}


def _write_side(folder: Path, side: str, features: Features) -> dict[str, Any]:
    if features.cells.width:
        storage.write_table(folder / f"{side}-features.parquet", features.cells)
    if features.vectors:
        arrays: dict[str, NDArray[Any]] = {}
        for place, vectors in enumerate(features.vectors.values()):
            values: Any = vectors.values
            found = (values.data, values.indices, values.indptr, vectors.is_missing.astype(np.int32))
            arrays |= {f"{place}/{part}": array for part, array in zip(_PARTS, found, strict=True)}
        storage.write_arrays(folder / f"{side}-vectors.safetensors", arrays)
    storage.write_table(folder / f"{side}-encoding.parquet", features.encoding)
    widths = {name: int(vectors.values.shape[1]) for name, vectors in features.vectors.items()}
    return {"bag": features.has_bag, "vectors": widths, "has_cells": features.cells.width > 0}


def read_features(folder: Path, side: str, entry: Mapping[str, Any] | None, ids: Vocabulary) -> Features | None:
    """The features that were written; an error of the usual kinds where the files do not fit one another."""
    if entry is None:
        return None
    cells = pl.DataFrame()
    if entry["has_cells"]:
        cells = scan_parquet(folder / f"{side}-features.parquet").collect()
        wrong = [name for name in cells.columns if cells[name].dtype not in (pl.Float64, pl.List(pl.String))]
        if cells.height != len(ids) or wrong:
            raise ValueError(f"the features of {side}s do not fit: {cells.height} rows for {len(ids)} ids")
    vectors: dict[str, Vectors] = {}
    if entry["vectors"]:
        arrays = storage.read_arrays(folder / f"{side}-vectors.safetensors")
        for place, (name, width) in enumerate(entry["vectors"].items()):
            data, indices, indptr, missing = (arrays[f"{place}/{part}"] for part in _PARTS)
            if len(missing) != len(ids) or len(indptr) != len(ids) + 1:
                raise ValueError(f"the vectors {name} do not fit the {len(ids)} {side}s")
            values: Any = scipy.sparse.csr_array((data, indices, indptr), shape=(len(ids), int(width)))
            values.check_format()
            vectors[name] = Vectors(values, missing.astype(np.bool_))
    encoding = scan_parquet(folder / f"{side}-encoding.parquet").collect()
    if dict(encoding.schema) != ENCODING:
        raise ValueError(f"the encoding of the {side} features has the columns {', '.join(encoding.columns)}")
    return Features(ids, cells, vectors, bool(entry["bag"]), encoding)
