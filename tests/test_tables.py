"""Results as tables: held once, seen as frames, text and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import polars as pl
import pytest

from tastespace.errors import InvalidParameterError
from tastespace.tables import TableResult, TextTable, frame_of


@dataclass(frozen=True)
class Pet:
    name: str
    legs: int | None


@dataclass(frozen=True, eq=False, repr=False)
class Pets(TableResult[Pet]):
    key: ClassVar[str] = "name"

    def schema(self):
        return {"name": pl.String, "legs": pl.Int64}

    def records(self):
        return [{"name": pet.name, "legs": pet.legs, "more": 1} for pet in self]

    def table(self):
        return TextTable("Pets", ("name", "legs"), tuple((pet.name, str(pet.legs)) for pet in self), "that is all")


PETS = Pets((Pet("cat", 4), Pet("a<fish", None)))


def test_frames_have_the_columns_of_the_schema():
    frame = PETS.to_polars()
    assert frame.schema == {"name": pl.String, "legs": pl.Int64}
    assert frame["legs"].to_list() == [4, None]
    assert Pets(()).to_polars().schema == frame.schema
    assert PETS.to_dict()["rows"][0] == {"name": "cat", "legs": 4, "more": 1}
    assert frame_of([{}], {"x": pl.Int64})["x"].to_list() == [None]


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs the extra pandas")
def test_pandas_has_the_same():
    assert PETS.to_pandas()["name"].tolist() == ["cat", "a<fish"]


def test_people_see_the_table():
    assert str(PETS) == repr(PETS) == "Pets\nname    legs\ncat        4\na<fish  None\nthat is all"
    html = PETS._repr_html_()
    assert "<caption>Pets</caption>" in html
    assert "a&lt;fish" in html
    assert html.endswith("<p>that is all</p>")


def test_entries_are_known_by_name_and_by_position():
    assert PETS["cat"] is PETS[0]
    assert len(PETS) == 2
    with pytest.raises(InvalidParameterError, match="there is no name 'dog' here; expected one of cat, a<fish"):
        PETS["dog"]
