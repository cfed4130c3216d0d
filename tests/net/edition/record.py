"""What a probe writes down of one case: arrays, and plain values as JSON has them."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


class Record:
    """Arrays and plain values by name, of one case."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "OUSM":
                self.values[name] = [str(entry) for entry in value.reshape(-1)]
            else:
                self.arrays[name] = np.asarray(value)
        elif isinstance(value, pl.DataFrame):
            for column in value.columns:
                self.put(f"{name}[{column}]", value[column])
        elif isinstance(value, pl.Series):
            if value.dtype.is_numeric() and not value.null_count():
                self.put(name, value.to_numpy())
            else:
                self.values[name] = [plain(entry) for entry in value.to_list()]
        elif hasattr(value, "to_polars"):
            self.put(name, value.to_polars())
        else:
            self.values[name] = plain(value)

    def answer(self, name: str, ask: Callable[[], Any]) -> Any:
        """What is answered, or the kind of error."""
        try:
            given = ask()
        except Exception as error:
            self.values[name] = {"raises": type(error).__name__}
            if os.environ.get("PROBE_SHOW_ERRORS"):
                sys.stderr.write(f"  {name}: {type(error).__name__}: {error}\n")
            return None
        self.put(name, given)
        return given

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "arrays.npz", **{f"{place}": array for place, array in enumerate(self.arrays.values())})
        said = {"arrays": list(self.arrays), "values": self.values}
        (folder / "values.json").write_text(json.dumps(said))


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, str | bool | int | float) or value is None:
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, pl.DataFrame):
        return plain(value.to_dict(as_series=False))
    for method in ("tolist", "to_list", "to_dict", "to_polars"):
        if hasattr(value, method):
            return plain(getattr(value, method)())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    return str(value)


def put_artifact(record: Record, name: str, path: Path) -> None:
    """Every array and every table of a saved model."""
    for file in sorted(path.rglob("*")):
        if file.suffix == ".safetensors":
            for array_name, array in safetensors(file):
                record.put(f"{name}/{file.stem}/{array_name}", array)
        elif file.suffix == ".parquet":
            record.put(f"{name}/{file.stem}", pl.read_parquet(file))


def safetensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Names and arrays, read without the package so that nothing of either edition is in between."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            array = np.frombuffer(content[start + first : start + last], DTYPES[entry["dtype"]])
            yield name, array.reshape(entry["shape"])
