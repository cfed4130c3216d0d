"""Features on the command line: read, described, fitted with, and measured on cold items."""

import json

import numpy as np
import polars as pl
import pytest
from cli.program import tastespace

import tastespace as ts


def ran(*arguments):
    done = tastespace(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 1500), rng.integers(0, 50, 1500)
    values = np.where(users % 2 == items % 2, 4, 2) + rng.integers(0, 2, 1500)
    table = pl.DataFrame({"user": users, "item": items, "rating": values}).unique(["user", "item"], maintain_order=True)
    table.filter(pl.col("item") < 45).write_csv(tmp_path / "ratings.csv")
    films = pl.DataFrame({"id": range(60), "title": [f"Film {item}" for item in range(60)]}).with_columns(
        genre=pl.Series(["a", "b"] * 30), year=pl.lit(1990) + pl.col("id"), rating=pl.lit(3.5) + pl.col("id") / 100
    )
    films.write_csv(tmp_path / "films.csv")
    people = pl.DataFrame({"user": range(40), "age": rng.integers(18, 80, 40)})
    people.write_parquet(tmp_path / "people.parquet")
    return tmp_path


def test_describe_shows_groups_and_what_is_left_out(files):
    options = ("--items", files / "films.csv", "--users", files / "people.parquet")
    text = ran("data", "describe", files / "ratings.csv", *options)
    assert "item attributes  genres: category, 2 columns, 50.00% filled" in text
    assert "rating (summarises ratings or raters)" in text
    assert "user attributes  age: number, 1 column" in text
    used = json.loads(ran("data", "describe", files / "ratings.csv", *options, "--item-features", "year,bag", "--json"))
    assert used["ratings"]["items"]["are_used"] is True
    assert [group["name"] for group in used["ratings"]["items"]["groups"]] == ["year"]
    assert used["ratings"]["items"]["has_bag"] is True
    assert used["ratings"]["users"]["are_used"] is False


def test_fit_knows_the_items_that_nobody_has_rated(files):
    known = ("--items", files / "films.csv", "--item-features", "genre")
    command = ("fit", files / "ratings.csv", *known, "--model", "profile", "--out", files / "model")
    found = json.loads(ran(*command, "--holdout", "0.2", "--holdout-by", "items", "--refit", "--json"))
    assert found["unrated_items"] == 60 - 45
    assert found["holdout"]["parts"][0]["training_ratings"] == "cold items"
    assert found["holdout"]["rmse"] < 0.8
    model = ts.load(files / "model")
    assert model.ratings_.n_items == 60
    assert model.ratings_.item_titles is not None
    assert model.ratings_.item_titles.to_list()[-1] == "Film 59"
    items = model.recommend([0], 60).item_ids.to_list()
    assert {52, 54, 56, 58} <= set(items[: len(items) // 2])


def test_a_model_that_needs_features_says_so(files):
    done = tastespace("fit", files / "ratings.csv", "--model", "profile", "--out", files / "model")
    assert done.returncode == 0
    assert "there are none; expected item features" in done.stderr


def test_a_model_that_ignores_features_says_so(files):
    known = ("--items", files / "films.csv", "--item-features", "genre")
    done = tastespace("fit", files / "ratings.csv", *known, "--model", "als", "--out", files / "model")
    assert done.returncode == 0
    assert "als does not learn from features, which change nothing" in done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--items", "films.csv", "--item-features", "gender"),
            "there is no item feature 'gender'; expected one of genres",
        ),
        (("--item-features", "genre"), "nothing is known of the items"),
        (("--items", "nothing.csv", "--item-features", "genre"), "there is no such file"),
        (("--items", "noid.csv", "--item-features", "genre"), "no column for the id among name, genre"),
        (("--items", "others.csv", "--item-features", "genre"), "none of its 1 items is among the 45"),
    ],
)
def test_bad_features_are_refused(files, options, complaint):
    (files / "noid.csv").write_text("name,genre\nx,a\n")
    (files / "others.csv").write_text("id,genre\nx,a\n")
    options = [files / option if option.endswith(".csv") else option for option in options]
    done = tastespace("fit", files / "ratings.csv", *options, "--model", "profile", "--out", files / "model")
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (files / "model").exists()


def test_items_are_held_out_whole(files):
    command = ("data", "split", files / "ratings.csv", "--by", "items", "--share", "0.2", "--seed", "1")
    ran(*command, "--train", files / "train.csv", "--test", files / "test.csv")
    train, test = ts.read(files / "train.csv"), ts.read(files / "test.csv")
    assert test.n_items == 9
    assert not set(train.items.ids) & set(test.items.ids)
