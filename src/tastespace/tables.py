"""Results as small tables: frames, JSON, text and HTML are derived from one list of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import polars as pl

from tastespace.errors import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """The same table as a pandas frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("A pandas frame", "pandas") from error
    # Column by column, so that pyarrow is not needed; nulls in integers stay nulls.
    columns: dict[str, Any] = {}
    for series in frame:
        if series.dtype.is_integer() and series.null_count():
            columns[series.name] = pd.array(series.to_list(), dtype="Int64")
        else:
            columns[series.name] = series.to_list() if series.dtype == pl.String else series.to_numpy()
    return pd.DataFrame(columns)


Entry = TypeVar("Entry")


@dataclass(frozen=True)
class TextTable:
    """Cells of text under a title; the first column holds names, the others hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # below the table

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        padded = (
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
            for line in lines
        )
        below = [self.note] if self.note else []
        return "\n".join([self.title, *("  ".join(cells).rstrip() for cells in padded), *below])

    def to_html(self) -> str:
        """The table as HTML for a page or a notebook."""
        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in self.columns)
        rows = "\n".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        note = f"\n<p>{escape(self.note)}</p>" if self.note else ""
        return f"""<div class="wide"><table>
<caption>{escape(self.title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>{note}"""


class Tabular:
    """A result with a frame; a subclass defines `to_polars`."""

    def to_polars(self, *args: Any, **options: Any) -> pl.DataFrame:
        """One row per entry."""
        raise NotImplementedError

    def to_pandas(self, *args: Any, **options: Any) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars(*args, **options))


class ShownAsText:
    """A result that is displayed as `table()`: at a prompt, printed, and in a notebook."""

    def table(self) -> TextTable:
        """The result as text."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table().to_html()


@dataclass(frozen=True, eq=False, repr=False)
class TableResult(Tabular, ShownAsText, Generic[Entry]):
    """A result of named entries of one type: `result["als"]` is one of them.

    A subclass defines the attribute with the name of an entry (`key`), the types of the columns (`schema`), the
    `records`, and how they are displayed (`table`).
    """

    key: ClassVar[str]

    entries: tuple[Entry, ...]

    def schema(self) -> Mapping[str, Any]:
        """The columns and their types."""
        raise NotImplementedError

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One per entry: values by column, and more."""
        raise NotImplementedError

    def to_polars(self) -> pl.DataFrame:
        """One row per entry."""
        return frame_of(self.records(), self.schema())

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        return {"rows": [dict(record) for record in self.records()]}

    def __getitem__(self, name: Any) -> Entry:
        """An entry by its name, or by its position."""
        if not isinstance(name, str):
            return self.entries[name]  # type: ignore[no-any-return]
        names = [str(getattr(entry, self.key)) for entry in self.entries]
        if name in names:
            return self.entries[names.index(name)]
        raise InvalidParameterError(f"there is no {self.key} {name!r} here; expected one of {', '.join(names)}")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def frame_of(records: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Records as a frame with these columns; null for what a record lacks."""
    columns = {name: [record.get(name) for record in records] for name in schema}
    return pl.DataFrame(columns, schema=dict(schema))
