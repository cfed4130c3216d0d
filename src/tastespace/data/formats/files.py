"""Ratings from files, recognised by what is in them.

`layout.sniff` finds out how a file is laid out, a reader of `_READERS` makes records of a file of that layout. A new
format is a new kind: a case in `sniff` and a reader.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from tastespace.data.formats import layout
from tastespace.data.formats.compression import Compression, compression_of, read_plain
from tastespace.data.formats.delimited import read_delimited
from tastespace.data.formats.items import with_titles
from tastespace.data.formats.json_lines import read_json_lines
from tastespace.data.formats.layout import EXPECTED_RATINGS, NETFLIX, OWN_RATING, PAIR, RATING, RATINGS, Layout, Sought
from tastespace.data.formats.layout import sniff as sniff_file
from tastespace.data.formats.netflix import is_netflix, read_netflix
from tastespace.data.kinds import CHOICES, Kind, check_kind
from tastespace.data.ratings import Duplicates, Ratings
from tastespace.data.tables import USUAL_NAMES, Observed, Side, read_parquet, usual_column
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, InvalidParameterError, warn

AnyPath = str | os.PathLike[str]
BadLines = Literal["error", "skip"]

# What data sets call the file of ratings in their folder, the most likely first.
_IN_FOLDERS = ("u.data", "ratings.dat", "ratings.csv", "ratings.parquet")


def read(
    path: AnyPath,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    items: AnyPath | None = None,
    duplicates: Duplicates | None = None,
    bad_lines: BadLines = "error",
    kind: Kind | None = None,
) -> Ratings:
    """Ratings from a file of delimited text, JSON lines or Parquet; what is not said is recognised from the content.

    Text may be compressed (.gz, .zst). Without a header the columns are user, item, rating and perhaps time. Ids are
    integers where all of a column are written as integers are, without quotation marks; else strings. Titles come
    from the file `items`, or from the file that MovieLens puts beside the ratings. A folder is read by the file of
    ratings in it.

    `kind` is what the values say ("stars", "yes-no", "counts" or "one-class"); None is to guess (see
    `Ratings.with_kind`). A file of users and items alone, perhaps with times, has a choice a line.

    A pair that is there more than once counts once: with its last rating, or the `mean` or `sum` of them; `error`
    refuses. What is not said is the last rating, but the sum of choices and of what was declared to be counts.

    Whatever cannot be read is a `DataError` that names the line; `bad_lines="skip"` sets such lines aside, and says
    how many.
    """
    if isinstance(path, pl.DataFrame) or hasattr(path, "columns"):
        raise InvalidParameterError("read got a table; expected a file: use Ratings.from_frame for tables")
    if bad_lines not in ("error", "skip"):
        raise InvalidParameterError(f"bad_lines is {bad_lines!r}; expected error or skip")
    if kind is not None:
        check_kind(kind)
    wanted = {"user": user, "item": item, "rating": rating, "time": time}
    if is_netflix(Path(path)):
        told = (*wanted.values(), separator, header, "skip" if bad_lines == "skip" else None)
        return _declared(_read_netflix(Path(path), told, duplicates, items), kind)
    file = _in_folder(Path(path))
    with named_faults(file):
        observed = _read_observed(file, Sought(RATING, wanted, kind in CHOICES), separator, header, bad_lines)
        assert observed.users is not None
        if observed.values is None and kind not in (None, *CHOICES):
            raise DataError(f"there is no column of values, and the kind is to be {kind}", expected="a column of them")
        ratings = Ratings.from_rows(
            observed.users.vocabulary,
            observed.items.vocabulary,
            observed.users.rows,
            observed.items.rows,
            observed.values,
            observed.times,
            duplicates="sum" if duplicates is None and kind == "counts" else duplicates,
            rejected=observed.rejected,
        )
        if duplicates is None and kind is None and observed.values is not None:
            _warn_of_counts_lost(file, ratings)
        ratings = _declared(ratings, kind)
    return with_titles(ratings, file, None if items is None else Path(items))


def read_pairs(
    path: AnyPath,
    *,
    user: str | None = None,
    item: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> tuple[pl.Series, pl.Series]:
    """The user ids and item ids of a file that asks for predictions; further columns are ignored."""
    file = Path(path)
    with named_faults(file):
        observed = _read_observed(file, Sought(PAIR, {"user": user, "item": item}), separator, header)
        assert observed.users is not None
        return observed.users.ids(), observed.items.ids()


def read_named_items(path: AnyPath, expected: str) -> tuple[pl.Series | None, pl.Series]:
    """The items of a table whose header says which they are, and the users if it has a column of them."""
    file = Path(path)
    with named_faults(file):
        layout = sniff_file(file, Sought(("item",)))
        if not layout.has_header or usual_column(layout.columns, USUAL_NAMES["item"]) is None:
            raise DataError("no column is called item", file=file, expected=expected)
        has_user = usual_column(layout.columns, USUAL_NAMES["user"]) is not None
        observed = _read_observed(file, Sought(PAIR if has_user else ("item",)), None, True)
        return None if observed.users is None else observed.users.ids(), observed.items.ids()


def read_history(path: AnyPath, user: str) -> Ratings:
    """Ratings or choices of any users; in a file without a column of users they are all of this one."""
    file = Path(path)
    with named_faults(file):
        observed = _read_observed(file, Sought(OWN_RATING), None, None)
        rows = observed.items.rows
        users = observed.users or Side(Vocabulary(pl.Series("user", [user])), np.zeros(len(rows), np.int32))
        return Ratings.from_rows(users.vocabulary, observed.items.vocabulary, users.rows, rows, observed.values)


def has_users(path: AnyPath) -> bool:
    """Whether a history names its users."""
    layout = sniff(path, Sought(OWN_RATING))
    return usual_column(layout.columns, USUAL_NAMES["user"]) is not None


def sniff(
    path: AnyPath, sought: Sought = RATINGS, *, separator: str | None = None, header: bool | None = None
) -> Layout:
    """How a file is laid out, as far as it can be seen; what the caller knows is taken from him."""
    if is_netflix(Path(path)):
        return NETFLIX
    file = _in_folder(Path(path))
    with named_faults(file):
        return sniff_file(file, sought, separator=separator, header=header)


def _read_observed(
    file: Path, sought: Sought, separator: str | None, header: bool | None, bad_lines: BadLines = "error"
) -> Observed:
    layout = sniff_file(file, sought, separator=separator, header=header)
    observed = _READERS[layout.kind](file, layout, bad_lines == "skip")
    if observed.rejected:
        _warn_of_rejected(file, observed)
    return observed


def _warn_of_rejected(file: Path, observed: Observed) -> None:
    n = observed.rejected
    what = "1 line was" if n == 1 else f"{n:,} lines were"
    of = n + len(observed.items.rows)
    warn(f"{file}: {what} set aside, of {of:,}; the first: {observed.first_fault}")


def _warn_of_counts_lost(file: Path, ratings: Ratings) -> None:
    """Counts that were not added up, because nobody said that they are counts."""
    if ratings.merged and ratings.kind == "counts":
        warn(
            f"{file}: the values seem to be counts ({ratings.kind_and_reason.reason}), and of a pair that is there "
            f"more than once the last was kept: {ratings.merged:,} others were not. Say that the kind is counts, or "
            "duplicates sum, to add them up; or duplicates last"
        )


def _declared(ratings: Ratings, kind: Kind | None) -> Ratings:
    return ratings if kind is None else ratings.with_kind(kind)


def _read_netflix(path: Path, told: Sequence[object], duplicates: Duplicates | None, items: AnyPath | None) -> Ratings:
    if any(option is not None for option in told):
        raise InvalidParameterError(
            f"{path} has the layout of the Netflix Prize; expected neither columns, separator, header nor bad lines"
        )
    ratings = read_netflix(path, duplicates=duplicates)
    return ratings if items is None else with_titles(ratings, path, Path(items))


def _read_text(file: Path, layout: Layout, skip: bool) -> Observed:
    return read_delimited(
        read_plain(file, layout.compression),
        layout.columns,
        layout.parts,
        separator=str(layout.separator),
        has_header=layout.has_header,
        skip=skip,
        file=file,
    )


def _read_json_lines(file: Path, layout: Layout, skip: bool) -> Observed:
    return read_json_lines(read_plain(file, layout.compression), layout.parts, skip=skip, file=file)


def _read_parquet(file: Path, layout: Layout, skip: bool) -> Observed:
    return read_parquet(file, layout.parts, skip=skip)


_READERS = {"text": _read_text, "parquet": _read_parquet, "jsonl": _read_json_lines}


def _in_folder(path: Path) -> Path:
    """The file of ratings in a folder; a file is itself."""
    if not path.is_dir():
        return path
    for name in _IN_FOLDERS:
        if (path / name).is_file():
            return path / name
    raise DataError("this is a folder", file=path, expected=f"a file of ratings, or a folder with {_IN_FOLDERS[0]} …")


@contextmanager
def named_faults(file: Path) -> Iterator[None]:
    """Whatever goes wrong with a file becomes a `DataError` that names it."""
    try:
        yield
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(error.problem, file=file, line=error.line, text=error.text, expected=error.expected) from error
    except InvalidParameterError:
        raise
    except FileNotFoundError as error:
        raise DataError("there is no such file", file=file, expected="a file of ratings") from error
    except IsADirectoryError as error:
        raise DataError("this is a folder", file=file, expected="a file of ratings") from error
    except PermissionError as error:
        raise DataError("permission to read the file is denied", file=file, expected="a readable file") from error
    except (
        OSError,
        ValueError,
        ArithmeticError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"the file cannot be read ({reason[0]})", file=file, expected=EXPECTED_RATINGS) from error


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
    content, broken = layout.decoded(layout.with_plain_ends(data), file)
    if broken is not None:
        raise broken
    first = _QUOTED.sub("", layout.first_line(content)[1])
    if first.startswith("{") or any(mark in first for mark in layout.SEPARATORS if mark != " "):
        return None
    return content


def _one_column(content: str) -> list[str]:
    """The lines that are not blank, without quotation marks around them and without a heading."""
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    lines = [line[1:-1].replace('""', '"') if len(line) > 1 and line[0] == line[-1] == '"' else line for line in lines]
    return lines[1:] if usual_column(lines[:1], (*USUAL_NAMES["item"], "id")) is not None else lines
