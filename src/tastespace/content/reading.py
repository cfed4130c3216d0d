"""Documents from files: folders and archives of texts, tables with a column of texts, and Reuters-21578."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Literal

import polars as pl

from tastespace.content.files import SetAside, files_in, is_archive
from tastespace.data.formats.content import ask_parquet, compression_of, named_faults, read_plain
from tastespace.data.formats.layout import DESCRIBED
from tastespace.data.tables import usual_column
from tastespace.data.vocabulary import id_series
from tastespace.errors import DataError, named, shortened
from tastespace.progress import Observer, Progress, silent

TEXT_NAMES = ("text", "body", "content", "plot", "abstract", "description", "summary", "document", "review", "overview")
TITLE_NAMES = ("title", "name", "headline", "subject")
_TABLES = re.compile(r"\.(csv|tsv|parquet|jsonl|ndjson)(\.gz|\.zst)?$", re.IGNORECASE)
_SGML = re.compile(r"\.sgml?$", re.IGNORECASE)
_EXPECTED = (
    "a folder or an archive of texts, a table (.csv, .tsv, .parquet, .jsonl), or the .sgm files of Reuters-21578"
)
_SHORT = 20  # mean number of characters from which a column may be one of texts
_ODD = 0.02  # share of control characters from which a file is no text
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts with ids: one per item. The words of a title count `title_weight` times."""

    ids: pl.Series  # Int64 or String, no duplicates
    titles: pl.Series  # null where there is none
    texts: list[str]  # without their titles
    attributes: pl.DataFrame = field(default_factory=pl.DataFrame)  # what else is known, such as topics
    remarks: tuple[str, ...] = ()
    title_weight: int = 2

    kind = "text"

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def material(self) -> list[str]:
        """What features are learned from: titles and texts."""
        titles = self.titles.fill_null("")
        return ["\n".join([title] * self.title_weight + [text]) for title, text in zip(titles, self.texts, strict=True)]

    def excerpts(self, length: int) -> pl.Series:
        """The beginning of each text, on one line."""
        short = (shortened(" ".join(text[: 4 * length].split()), length) for text in self.texts)
        return pl.Series("excerpt", list(short), pl.String)

    def pictures(self) -> pl.Series:
        """None: documents have no pictures."""
        return pl.Series("picture", [None] * len(self), pl.Binary)

    def only(self, kept: pl.Series) -> Documents:
        """The documents where this is true."""
        texts = [text for text, keep in zip(self.texts, kept, strict=True) if keep]
        return replace(
            self,
            ids=self.ids.filter(kept),
            titles=self.titles.filter(kept),
            texts=texts,
            attributes=self.attributes.filter(kept) if self.attributes.width else self.attributes,
        )


def read_documents(
    path: str | Path,
    *,
    text: Sequence[str] | None = None,
    id: str | None = None,
    title: str | None = None,
    observer: Observer = silent,
) -> Documents:
    """Texts of a folder, an archive, a table, or Reuters-21578.

    `text` are the columns of a table that hold the texts, several are joined; by default the usual names are looked
    for, and else the column with the longest texts. Ids are those of a column, or names of files.
    """
    path = Path(path)
    with named_faults(path, _EXPECTED):
        if not path.exists():
            raise FileNotFoundError(path)
        if _SGML.search(path.name) or (path.is_dir() and any(_SGML.search(file.name) for file in path.iterdir())):
            return read_reuters(path, observer=observer)
        if _TABLES.search(path.name):
            return _of_table(_table(path), path, text, id, title)
        if path.is_dir() or is_archive(path):
            return _of_files(path, observer)
        if _separator(path) is not None:  # A table, whatever its name ends in.
            return _of_table(_table(path), path, text, id, title)
        raise DataError("the file is of no known format", file=path, expected=_EXPECTED)


def _of_files(path: Path, observer: Observer) -> Documents:
    aside = SetAside()
    names, texts = [], []
    for number, (name, content) in enumerate(files_in(path, aside), 1):
        text = decoded(content)
        if text is None:
            aside.add(name, "no text")
        else:
            names.append(name)
            texts.append(text)
            if not text.strip():
                aside.add(name, "empty: kept, but found by nothing")
        observer(Progress("files", number))
    if not texts:
        raise DataError(" and ".join(("there is no text", *aside.remarks())), file=path, expected=_EXPECTED)
    ids = pl.Series("item", names, pl.String)
    return Documents(ids, pl.Series("title", [None] * len(ids), pl.String), texts, remarks=aside.remarks())


def decoded(content: bytes) -> str | None:
    """The text of a file, in UTF-8, UTF-16 with a mark, or Latin-1; None for what is no text."""
    is_marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if is_marked else ("utf-8-sig", "latin-1"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        odd = len(_CONTROLS.findall(text[: 1 << 16]))
        # Bytes of pictures and programs are valid Latin-1, but full of characters that texts do not have.
        if encoding == "latin-1":
            odd += len(re.findall(r"[\x80-\x9f]", text[: 1 << 16]))
        return text if odd <= _ODD * min(len(text), 1 << 16) else None
    return None


def _table(path: Path) -> pl.DataFrame:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return ask_parquet(path, pl.LazyFrame.collect)
    content = BytesIO(read_plain(path, compression_of(path)))
    if ".jsonl" in name or ".ndjson" in name:
        return pl.read_ndjson(content, infer_schema_length=None)
    separator = "\t" if ".tsv" in name else "," if ".csv" in name else _separator(path) or ","
    return pl.read_csv(content, separator=separator, infer_schema=False)


def _separator(path: Path) -> str | None:
    """What separates the columns in the first line of a text file; None for any other file."""
    with path.open("rb") as file:
        first = decoded(file.readline(1 << 16))
    counts = {} if first is None else {mark: first.count(mark) for mark in "\t;,|"}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else None


def _of_table(
    table: pl.DataFrame, path: Path, text: Sequence[str] | None, id: str | None, title: str | None
) -> Documents:
    for asked in (*(text or ()), id, title):
        if asked is not None and asked not in table.columns:
            raise DataError(f"there is no column {asked!r}", file=path, expected=f"one of {', '.join(table.columns)}")
    id = id or usual_column(table.columns, DESCRIBED["item"]["id"])
    title = title or _usual(table, TITLE_NAMES)
    columns = list(text) if text else [_text_column(table, path, {id, title})]
    remarks: list[str] = []
    ids = pl.Series("item", range(1, table.height + 1), pl.Int64) if id is None else table[id].alias("item")
    if ids.null_count():
        remarks.append(f"{ids.null_count():,} rows without an id were set aside")
    elif id is None:
        remarks.append("there is no column of ids: the ids are the numbers of the rows, from 1")
    if ids.dtype == pl.String and (numbers := ids.cast(pl.Int64, strict=False)).null_count() == ids.null_count():
        # What was read as text is compared with ids of ratings files, which are integers where all of them are.
        ids = numbers if (numbers.cast(pl.String) == ids).all() else ids
    kept = ids.is_not_null() & ids.is_first_distinct()
    if repeated := int((ids.is_not_null() & ~ids.is_first_distinct()).sum()):
        again = ids.filter(~ids.is_first_distinct()).unique(maintain_order=True)
        remarks.append(f"{repeated:,} rows with the id of an earlier row were set aside: {named(again)}")
    table = table.filter(kept)
    own = [_as_texts(table[column]) for column in columns]
    texts = ["\n".join(part for part in parts if part) for parts in zip(*own, strict=True)]
    if empty := sum(not entry.strip() for entry in texts):
        remarks.append(f"{empty:,} texts are empty: they are kept, but found by nothing")
    titles = pl.Series("title", _as_texts(table[title]) if title else [None] * len(texts), pl.String)
    rest = table.drop([name for name in (id, title, *columns) if name is not None])
    return Documents(id_series(ids.filter(kept), "item").alias("item"), titles, texts, rest, tuple(remarks))


def _usual(table: pl.DataFrame, names: Sequence[str]) -> str | None:
    lower = {name.lower(): name for name in reversed(table.columns)}
    return next((lower[name] for name in names if name in lower), None)


def _text_column(table: pl.DataFrame, path: Path, others: set[str | None]) -> str:
    usual = _usual(table, TEXT_NAMES)
    if usual is not None:
        return usual
    columns = [column for column in table if column.dtype == pl.String and column.name not in others]
    lengths = {column.name: float(column.str.len_chars().mean() or 0) for column in columns}  # type: ignore[arg-type]
    longest = max(lengths, key=lengths.__getitem__, default=None)
    if longest is None or lengths[longest] < _SHORT:
        raise DataError(
            f"no column looks like texts among {', '.join(table.columns)}",
            file=path,
            expected=f"a column called {', '.join(TEXT_NAMES[:4])}, or its name",
        )
    return longest


def _as_texts(cells: pl.Series) -> list[str]:
    if isinstance(cells.dtype, pl.List):
        cells = cells.cast(pl.List(pl.String)).list.join(" ")
    return cells.cast(pl.String).fill_null("").to_list()


# Reuters-21578

Split = Literal["train", "test"]
_ENTRY = re.compile(r"<REUTERS(?P<head>[^>]*)>(?P<body>.*?)</REUTERS>", re.DOTALL)
_HEADER = re.compile(r'(\w+)="([^"]*)"')


def read_reuters(path: str | Path, split: Split | None = None, *, observer: Observer = silent) -> Documents:
    """The documents of Reuters-21578, whose attributes are their topics, and the parts of two splits.

    `split` takes a part of the ModApte split: documents that have topics, before or from April 8, 1987.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if _SGML.search(file.name))
    ids: list[int] = []
    titles: list[str | None] = []
    texts: list[str] = []
    topics: list[list[str]] = []
    parts: list[str | None] = []
    for number, file in enumerate(files, 1):
        with named_faults(file, "an .sgm file of Reuters-21578"):
            content = file.read_bytes().decode("latin-1")  # A few characters of it are no UTF-8.
        for entry in _ENTRY.finditer(content):
            head, body = dict(_HEADER.findall(entry["head"])), entry["body"]
            title = _plain(_within(body, "TITLE"))
            own = _plain(_within(body, "BODY")) or ("" if title else _plain(_within(body, "TEXT")))
            found = re.findall(r"<D>(.*?)</D>", _within(body, "TOPICS"))
            is_used = head.get("TOPICS") == "YES" and bool(found)
            ids.append(int(head["NEWID"]) if head.get("NEWID", "").isdigit() else len(ids) + 1)
            titles.append(title or None)
            texts.append(own)
            topics.append(found)
            parts.append({"TRAIN": "train", "TEST": "test"}.get(head.get("LEWISSPLIT", "")) if is_used else None)
        observer(Progress("files", number, len(files)))
    if not ids:
        raise DataError("there is no document", file=path, expected="the .sgm files of Reuters-21578")
    attributes = pl.DataFrame(
        {"topics": pl.Series(topics, dtype=pl.List(pl.String)), "split": pl.Series(parts, dtype=pl.String)}
    )
    found_all = Documents(pl.Series("item", ids), pl.Series("title", titles, pl.String), texts, attributes)
    return found_all if split is None else found_all.only((attributes["split"] == split).fill_null(False))


def _within(text: str, tag: str) -> str:
    found = re.search(rf"<{tag}\b[^>]*>(.*?)</{tag}>", text, re.DOTALL)
    return found[1] if found else ""


def _plain(text: str) -> str:
    """Without tags; what stands for a character is that character."""
    return html.unescape(re.sub(r"</?[A-Z]+[^<>]*>", " ", text)).replace("\x03", "").strip()
