"""What an item file says: all its columns are kept, with their types, through the artifact and back."""

from __future__ import annotations

import gzip

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tastespace import DampedBias, load, read, save
from tastespace.data.formats.descriptions import read_descriptions as read_items
from tastespace.errors import DataError

CSV = """id,title,price,stock,language,tags,code,weight,nothing
1,Tea (2019),3.50,12,en,hot|green,007,1e3,
2,Jam,2,0,de,,012,2,
3,Milk,,7, fr ,cold| fresh ,,.5,
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\na,3,5\na,1,4\nb,2,3\nb,9,1\n")
    (tmp_path / "things.csv").write_text(CSV)
    return tmp_path


def test_all_columns_are_kept_with_their_types(folder):
    ratings = read(folder / "ratings.csv", items=folder / "things.csv")
    table = ratings.item_attributes
    assert dict(table.schema) == {
        "genres": pl.List(pl.String),
        "year": pl.Int32,
        "price": pl.Float64,
        "stock": pl.Int64,
        "language": pl.String,
        "tags": pl.List(pl.String),
        "code": pl.String,  # a leading zero makes it a code, not a number
        "weight": pl.Float64,
        "nothing": pl.String,
    }
    assert ratings.items.ids.to_list() == [3, 1, 2, 9]
    assert ratings.item_titles.to_list() == ["Milk", "Tea (2019)", "Jam", None]
    assert table["price"].to_list() == [None, 3.5, 2.0, None]
    assert table["stock"].to_list() == [7, 12, 0, None]
    assert table["language"].to_list() == ["fr", "en", "de", None]
    assert table["tags"].to_list() == [["cold", "fresh"], ["hot", "green"], None, None]
    assert table["code"].to_list() == [None, "007", "012", None]
    assert table["weight"].to_list() == [0.5, 1000.0, 2.0, None]
    assert table["year"].to_list() == [None, 2019, None, None]


def test_they_can_be_asked_for(folder):
    model = DampedBias(seed=0).fit(read(folder / "ratings.csv", items=folder / "things.csv"))
    asked = {
        "price < 3": [2],
        "stock > 0 and tag = green": [1],
        "language in (FR, de)": [2, 3],
        "code = 007": [1],
        "nothing is missing and item != 9": [1, 2, 3],
    }
    for where, expected in asked.items():
        ranking = model.recommend(["c"], where=where)
        assert sorted(ranking.of(0)["item"]) == expected, where


def test_the_artifact_keeps_them(folder):
    model = DampedBias(seed=0).fit(read(folder / "ratings.csv", items=folder / "things.csv"))
    save(model, folder / "model")
    loaded = load(folder / "model")
    assert_frame_equal(loaded.ratings_.item_attributes, model.ratings_.item_attributes)
    where = "price < 3 and stock = 0"
    assert (
        loaded.recommend(["c"], where=where).item_ids.to_list()
        == model.recommend(["c"], where=where).item_ids.to_list()
    )


def test_parquet_keeps_its_own_types(folder):
    table = pl.DataFrame(
        {
            "id": [1, 2, 3],
            "title": ["Tea", "Jam", "Milk"],
            "price": pl.Series([1, 2, None], dtype=pl.UInt8),
            "organic": [True, False, None],
            "tags": [["a", "b"], [], None],
            "text": ["x|y", "z", None],
            "kind": pl.Series(["p", "q", "p"], dtype=pl.Categorical),
            "digits": ["1", "2", "3"],
            "row": [7, 8, 9],
            " row": [1, 2, 3],
        }
    )
    table.write_parquet(folder / "things.parquet")
    kept = read(folder / "ratings.csv", items=folder / "things.parquet").item_attributes
    assert dict(kept.drop("genres", "year").schema) == {
        "price": pl.UInt8,
        "organic": pl.Boolean,
        "tags": pl.List(pl.String),
        "text": pl.List(pl.String),
        "kind": pl.String,
        "digits": pl.String,
        "row": pl.Int64,
        "row column 10": pl.Int64,
    }
    assert kept["text"].to_list() == [None, ["x", "y"], ["z"], None]
    assert kept["row"].to_list() == [9, 7, 8, None]


def test_names_that_are_missing_or_repeated(folder):
    (folder / "odd.csv").write_text(",id,title,price,price,Title,genres,genres\n0,1,Tea,1,2,x,g,h\n")
    kept = read(folder / "ratings.csv", items=folder / "odd.csv").item_attributes
    assert kept.columns == ["genres", "year", "column 1", "price", "price column 5", "Title", "genres column 8"]
    assert kept.row(1) == (["g"], None, 0, 1, 2, "x", "h")


def test_compressed_files_of_items(folder):
    (folder / "things.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    plain, packed = (read_items(folder / name) for name in ("things.csv", "things.csv.gz"))
    assert_frame_equal(plain, packed)
    (folder / "cut.gz").write_bytes(gzip.compress(CSV.encode())[:50])
    with pytest.raises(DataError, match="cut off"):
        read_items(folder / "cut.gz")


CELLS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_numbers_come_back_as_they_were_written(tmp_path_factory, numbers):
    file = tmp_path_factory.mktemp("items") / "items.csv"
    cells = ["" if number is None else repr(number) for number in numbers]
    file.write_text("id,title,number\n" + "".join(f"{row},t,{cell}\n" for row, cell in enumerate(cells)))
    column = read_items(file)["number"]
    known = [number for number in numbers if number is not None]
    if all(isinstance(number, int) for number in known):
        assert column.to_list() == numbers
        assert column.dtype == (pl.Int64 if known else pl.String)
    else:
        assert column.dtype == pl.Float64
        assert column.to_list() == [None if number is None else float(number) for number in numbers]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='",') | st.just(" ")),
        min_size=1,
        max_size=6,
    )
)
def test_texts_are_never_changed_into_something_else(tmp_path_factory, texts):
    """What is read, written out again, is the text that was in the file, save blanks around it and empty entries."""
    file = tmp_path_factory.mktemp("items") / "items.csv"
    file.write_text("id,title,note\n" + "".join(f"{row},t,{text}\n" for row, text in enumerate(texts)))
    column = read_items(file)["note"]
    for read_back, text in zip(column, texts, strict=True):
        if read_back is None:
            assert text.strip() == ""
        elif column.dtype == pl.List(pl.String):
            assert list(read_back) == [part.strip() for part in text.split("|") if part.strip()]
        elif column.dtype == pl.String:
            assert read_back == text.strip()
        else:
            assert float(read_back) == float(text)
            assert not text.strip().lstrip("+-").startswith("0") or read_back in (0, float(text))
