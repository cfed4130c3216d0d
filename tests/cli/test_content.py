"""`tastespace content`: fit, search and features, from files to files."""

import json

import polars as pl
import pytest
from cli.program import tastespace

pytest.importorskip("sklearn", reason="needs the extra content")
pytest.importorskip("snowballstemmer", reason="needs the extra content")

from content.test_documents import texts_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("content")
    texts, _ = texts_of(40)
    table = pl.DataFrame({"item": range(40), "title": [f"Title {n}" for n in range(40)], "plot": texts})
    table.write_csv(folder / "films.csv")
    done = tastespace("content", "fit", folder / "films.csv", "--out", folder / "model", "--set", "n_vectors=8")
    assert done.returncode == 0, done.stderr
    assert "40 items with 8 features" in done.stdout
    return folder


def test_search(folder):
    done = tastespace("content", "search", folder / "model", "wheat harvest", "-n", "3")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    content = json.loads(tastespace("content", "search", folder / "model", "wheat", "--json").stdout)
    assert len(content["items"]) == 10
    assert content["milliseconds"] > 0
    similar = json.loads(tastespace("content", "search", folder / "model", "--item", "3", "--json").stdout)
    assert "3" not in {entry["item"] for entry in similar["items"]}
    assert "no word of the query" in tastespace("content", "search", folder / "model", "xylophone").stdout


def test_features_become_those_of_a_recommender(folder):
    done = tastespace("content", "features", folder / "model", "--out", folder / "features.parquet")
    assert done.returncode == 0, done.stderr
    ratings = pl.DataFrame({"user": [n % 7 for n in range(80)], "item": [n % 40 for n in range(80)]})
    ratings.with_columns(rating=pl.Series([1 + n % 5 for n in range(80)])).write_csv(folder / "ratings.csv")
    done = tastespace(
        *("fit", folder / "ratings.csv", "--model", "profile", "--item-features", folder / "features.parquet"),
        *("--out", folder / "profile", "--json"),
    )
    assert done.returncode == 0, done.stderr
    other = folder / "other.csv"
    pl.DataFrame({"item": [99], "plot": ["a harvest of corn"]}).write_csv(other)
    done = tastespace("content", "features", folder / "model", other, "--out", folder / "other.parquet")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(folder / "other.parquet")["item"].to_list() == [99]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "nothing.csv", "--out", "x"), "there is no such file"),
        (("fit", "films.csv", "--out", "x", "--set", "vectorz=3"), "no parameter 'vectorz'; expected one of"),
        (("fit", "films.csv", "--out", "x", "--preset", "best"), "preset is 'best'"),
        (("fit", "films.csv", "--out", "films.csv"), "is not a content model"),
        (("fit", "films.csv", "--out", "x", "--text-column", "story"), "there is no column 'story'"),
        (("search", "nothing", "words"), "there is no content model"),
        (("search", "model", "--item", "77"), "knows no item '77'"),
        (("search", "model", "--image", "x.png"), "is of text; expected words"),
        (("features", "model", "--out", "x.csv"), "expected a .parquet file"),
    ],
)
def test_bad_input(folder, arguments, message):
    done = tastespace("content", *arguments, cwd=folder)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_search_needs_one_question(folder):
    done = tastespace("content", "search", folder / "model")
    assert done.returncode == 2
    assert "expected one of" in done.stderr
