"""Files of ratings and items as people have them: names, separators and lists that nobody planned for us."""

from __future__ import annotations

import polars as pl
import pytest
from reference.triples import triples

from tastespace.data.formats.files import read, sniff
from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, DataWarning, InvalidParameterError

GAMES = (
    "Game_ID\ttitle of game\tGenre\tprice\n"
    "10\tCounter Strike\tAction, Shooter\t9.99\t\n"
    "20\tThe Long Dark Night\tAction, Indie\t4\t\n"
    "30\tKings &amp; Queens\tShooter, Indie\t5\n"
    "40\tUnplayed\tIndie\t1\t\n"
)


@pytest.fixture
def played(write):
    return write("User_ID\tGame_ID\tHours\n1\t10\t3.5\t\n1\t20\t100\n2\t30\t1\t\t\n", "plays")


def test_tabs_at_the_ends_of_some_lines_and_spaces_in_the_header(write, played):
    ratings = read(played, items=write(GAMES, "games"))
    assert triples(ratings) == [(1, 10, 3.5), (1, 20, 100), (2, 30, 1)]
    assert ratings.items.ids.to_list() == [10, 20, 30, 40]
    assert ratings.item_titles.to_list() == ["Counter Strike", "The Long Dark Night", "Kings & Queens", "Unplayed"]
    assert ratings.item_attributes["genres"].to_list()[1] == ["Action", "Indie"]
    assert ratings.item_attributes["price"].to_list() == [9.99, 4, 5, 1]
    described = ratings.describe()
    assert (described.n_items, described.unrated_items, described.per_item) == (3, 1, (1, 1, 1))
    assert "; 1 more without" in str(described)


def test_a_line_that_is_really_ragged_is_still_an_error(write):
    with pytest.raises(DataError, match="line 3.*4 fields"):
        read(write("user\titem\trating\n1\t2\t3\t\n1\t2\t3\t4\n"))


@pytest.mark.parametrize(
    ("header", "kind"), [("user_id,article,accessed", "one-class"), ("User_ID,Anime_ID,Feedback", "stars")]
)
def test_other_names_of_columns(write, header, kind):
    values = ("2024-05-01", "2024-05-02") if kind == "one-class" else ("4", "5")
    ratings = read(write(f"{header}\n1,7,{values[0]}\n2,8,{values[1]}\n"))
    assert (len(ratings), ratings.kind, ratings.times is not None) == (2, kind, kind == "one-class")


def test_named_columns_in_any_case(write):
    path = write("Who,WHAT,Stars\n1,7,3\n")
    assert triples(read(path, user="who", item="what")) == [(1, 7, 3)]
    with pytest.raises(DataError, match="no column 'whom'; expected one of Who, WHAT, Stars"):
        read(path, user="whom", item="what")


def test_ids_are_found_by_their_values(write):
    rows = "".join(f"{row},{1000 + row},{row % 3},Thing {row}\n" for row in range(30))
    items = write(f"row,code,group,label\n{rows}", "things")
    rated = "".join(f"1,{1000 + row},3\n" for row in range(29, 10, -1))
    ratings = read(write(rated), items=items, title="LABEL")
    assert ratings.item_titles.to_list()[:3] == ["Thing 29", "Thing 28", "Thing 27"]
    # A column that is called like an id, and has none, does not count; but the caller is right.
    misnamed = write(f"id,code,group,label\n{rows}", "misnamed")
    assert read(write(rated), items=misnamed, title="label").item_titles[0] == "Thing 29"
    with pytest.raises(DataError, match="none of its 30 items is among the 19 that were rated, such as 1029"):
        read(write(rated), items=misnamed, item_id="id")


def test_what_the_caller_says_of_an_item_file_overrules(write):
    items = write("7;8;A/B;one\n8;7;B/C;two\n", "items")
    ratings = read(write("1,7,3\n1,8,3\n"), items=items, item_id="column 2", list_separator="/", title="column 4")
    assert ratings.item_titles.to_list() == ["two", "one"]
    assert ratings.item_attributes["column 3"].to_list() == [["B", "C"], ["A", "B"]]
    comma = read(write("1,7,3\n"), items=write("id,title\n7,A;B\n", "comma"), item_separator=",")
    assert comma.item_titles.to_list() == ["A;B"]


def test_commas_in_sentences_are_no_lists(write):
    plots = "".join(f'{row},Film {row},"Once {row}, somebody {row * 7} went"\n' for row in range(9))
    rated = "".join(f"1,{row},3\n" for row in range(9))
    ratings = read(write(rated), items=write(f"id,title,plot\n{plots}", "plots"))
    assert ratings.item_attributes["plot"].dtype == pl.String


def test_bad_lines_of_item_files_can_be_skipped(write):
    items = write("id\ttitle\n7\tA\n8\tB\tC\tD\n9\n", "items")
    with pytest.raises(DataError, match="line 3.*4 fields"):
        read(write("1,7,3\n"), items=items)
    with pytest.warns(DataWarning, match="2 lines were set aside, of 3"):
        assert read(write("1,7,3\n"), items=items, bad_lines="skip").item_titles.to_list() == ["A"]


FRAME = pl.DataFrame({"movie_ids": [8, 7, 9], "name": ["B", "A", "C"], "genre": ["x, y", "x", "y, x"]})


@pytest.mark.parametrize("form", ["polars", "pandas", "lazy", "file", "mapping"])
def test_a_catalogue_with_more_items_than_were_rated(form, tmp_path):
    FRAME.write_csv(tmp_path / "films.csv")
    catalogue = {
        "polars": FRAME,
        "pandas": FRAME.to_pandas(),
        "lazy": FRAME.lazy(),
        "file": tmp_path / "films.csv",
        "mapping": {row["movie_ids"]: {"name": row["name"], "genre": row["genre"]} for row in FRAME.to_dicts()},
    }[form]
    ratings = Ratings.from_arrays([1, 1], [7, 8], [3, 4]).with_items(catalogue)
    assert ratings.items.ids.to_list() == [7, 8, 9]
    assert ratings.item_titles.to_list() == ["A", "B", "C"]
    assert ratings.item_attributes["genres"].to_list() == [["x"], ["x", "y"], ["y", "x"]]
    rated = pl.DataFrame({"user": [1, 1], "item": [7, 8], "rating": [3, 4]})
    assert read(rated, items=catalogue).item_titles.to_list() == ["A", "B", "C"]


def test_a_catalogue_much_larger_than_the_ratings_is_left_out_with_a_word():
    catalogue = pl.DataFrame({"item": range(10), "title": [f"Film {row}" for row in range(10)]})
    with pytest.warns(DataWarning, match="8 of the described items have no ratings.*with_items"):
        ratings = Ratings.from_arrays([1, 1], [7, 8], [3, 4]).with_items(catalogue)
    assert ratings.item_titles.to_list() == ["Film 7", "Film 8"]


def test_frames_names_and_matrices_are_read(write):
    frame = pl.DataFrame({"user": [1, 2], "item": [7, 8], "rating": [3, 4]})
    assert triples(read(frame)) == triples(read(frame.to_pandas())) == [(1, 7, 3), (2, 8, 4)]
    matrix = Ratings.from_frame(frame).to_sparse()
    assert triples(read(matrix)) == [(0, 0, 3), (1, 1, 4)]
    assert read(frame, kind="counts").kind == "counts"
    with pytest.raises((DataError, InvalidParameterError)):
        read(3)


def test_the_layout_of_items_says_what_is_what(write, played):
    assert "item = Game_ID, rating = Hours" in str(sniff(played))
