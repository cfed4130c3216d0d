"""Lists of items from files, for everybody or for each user: what may be shown, or must not be."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tastespace.data import text
from tastespace.data.columns import USUAL_NAMES, usual_column
from tastespace.data.compression import Compression, compression_of, read_plain
from tastespace.data.files import AnyPath, named_faults, read_named_items
from tastespace.errors import DataError

_EXPECTED = "one item a line; or a table whose header has a column item, and perhaps one called user"
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_item_list(path: AnyPath) -> pl.DataFrame:
    """A table with a column item, and a column user if the file says for whom: as `exclude` and `only` take it.

    Text with one column is one item a line, with or without a heading. With more columns a header must say which is
    the item: a guess would leave things out, or let them through, without anybody noticing.
    """
    file = Path(path)
    with named_faults(file):
        content = _one_column_text(file, compression_of(file))
        if content is not None:
            return pl.DataFrame({"item": _one_column(content)})
        users, items = read_named_items(file, _EXPECTED)
    return pl.DataFrame({"item": items} if users is None else {"user": users, "item": items})


def _one_column_text(file: Path, compression: Compression | None) -> str | None:
    """The text of a file whose first line has no separators; None for any other."""
    data = read_plain(file, compression)
    if data.startswith(b"PAR1"):
        return None
    if not data.strip():
        raise DataError("the file is empty", file=file, expected=_EXPECTED)
    content, broken = text.decoded(text.with_plain_ends(data), file)
    if broken is not None:
        raise broken
    first = _QUOTED.sub("", text.first_line(content)[1])
    if first.startswith("{") or any(mark in first for mark in text.SEPARATORS if mark != " "):
        return None
    return content


def _one_column(content: str) -> list[str]:
    """The lines that are not blank, without quotation marks around them and without a heading."""
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    lines = [line[1:-1].replace('""', '"') if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    return lines[1:] if usual_column(lines[:1], (*USUAL_NAMES["item"], "id")) is not None else lines
