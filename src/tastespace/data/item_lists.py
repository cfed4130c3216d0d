"""Lists of items from files, for everybody or for each user: what may be shown, or must not be."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tastespace.data import text
from tastespace.data.columns import USUAL_NAMES, usual_column
from tastespace.data.compression import compression_of, read_plain
from tastespace.data.files import AnyPath, read_pairs, sniff
from tastespace.errors import DataError

_EXPECTED = "one item a line; or a table with a column item, and perhaps one called user"
_PARQUET_MAGIC = b"PAR1"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_item_list(path: AnyPath) -> pl.DataFrame:
    """A table with a column item, and a column user if the file says for whom: as `exclude` and `only` take it.

    Text with one column is one item a line, with or without a heading. Text with more columns and no header has
    users in the first and items in the second.
    """
    file = Path(path)
    try:
        data = read_plain(file, compression_of(file))
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=file, expected=_EXPECTED) from error
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error.strerror or error})", file=file, expected=_EXPECTED
        ) from error
    is_table = data.startswith(_PARQUET_MAGIC)
    if not is_table:
        if not data.strip():
            raise DataError("the file is empty", file=file, expected=_EXPECTED)
        content, broken = text.decoded(text.with_plain_ends(data), file)
        if broken is not None:
            raise broken
        first = _QUOTED.sub("", text.first_line(content)[1])
        if not first.startswith("{") and not any(mark in first for mark in text.SEPARATORS if mark != " "):
            return pl.DataFrame({"item": _one_column(content)})
    layout = sniff(file, needed=("item",))
    if not layout.has_header or usual_column(layout.columns, USUAL_NAMES["user"]) is not None:
        users, items = read_pairs(file)
        return pl.DataFrame({"user": users, "item": items})
    return pl.DataFrame({"item": _column(layout.kind, data, layout.columns, str(layout.separator), file)})


def _one_column(content: str) -> list[str]:
    """The lines that are not blank, without quotation marks around them and without a heading."""
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    lines = [line[1:-1].replace('""', '"') if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    return lines[1:] if usual_column(lines[:1], (*USUAL_NAMES["item"], "id")) is not None else lines


def _column(kind: str, data: bytes, names: Sequence[str], separator: str, file: Path) -> pl.Series:
    """The items of a table without users."""
    name = str(usual_column(names, USUAL_NAMES["item"]))
    if kind == "parquet":
        return pl.read_parquet(io.BytesIO(data), columns=[name])[name]
    if kind == "jsonl":
        return pl.read_ndjson(data)[name]
    place = list(names).index(name)
    content = text.with_plain_ends(data).decode()
    cells = []
    for line, fields in list(text.records(content, separator, file))[1:]:
        if len(fields) != len(names):
            raise text.ragged(content, line, fields, text.Shape(separator, True, len(names)), file)
        cells.append(fields[place].strip())
    return pl.Series(cells, dtype=pl.String)
