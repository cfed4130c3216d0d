"""Levels of ratings: bars in the table of `predict`, probabilities in the JSON of `predict` and `recommend`."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from cli.program import as_a_process, tastespace
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from tastespace import ALS, BPMF, Ratings, load, save
from tastespace.cli import console
from tastespace.cli.console import BLOCKS, LETTERS, MAX_WIDTH, draw_bars
from tastespace.cli.main import app
from tastespace.errors import ConvergenceWarning
from tastespace.randomness import generator

STARS = [f"{k / 2:g}" for k in range(1, 11)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of half stars and of any number, and pairs to ask about."""
    folder = tmp_path_factory.mktemp("predict")
    rng = generator(3)
    users, items = (column.reshape(-1) for column in np.meshgrid(np.arange(20), np.arange(15)))
    values = 2.8 + np.sin(users) + np.cos(1.3 * items) + 0.4 * rng.standard_normal(300)
    stars = np.clip(np.round(2 * values) / 2, 0.5, 5)
    stars[:2] = 0.5, 5
    for name, given in (("stars", stars), ("continuous", values)):
        ratings = Ratings.from_arrays(users, items, given)
        save(BPMF(n_factors=2, warmup=10, draws=10, seed=0).fit(ratings), folder / name)
    (folder / "pairs.csv").write_text("user,item\n1,2\n3,4\nnobody,2\n")
    return folder


def predict(folder, model, *arguments, program=tastespace, **environment):
    result = program("predict", folder / model, folder / "pairs.csv", *arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_json_has_the_probability_of_every_level(folder):
    said = json.loads(predict(folder, "stars", "--json", "--at-least", "4"))["predictions"]
    for entry in said:
        assert list(entry["levels"]) == STARS
        assert sum(entry["levels"].values()) == pytest.approx(1, abs=1e-4)
        reached = sum(chance for level, chance in entry["levels"].items() if float(level) >= 4)
        assert reached == pytest.approx(entry["probability_at_least"], abs=1e-4)
        assert not any(key.startswith("p_") for key in entry)


def test_the_table_has_a_bar(folder):
    said = json.loads(predict(folder, "stars", "--json"))["predictions"]
    heading, *lines = predict(folder, "stars").splitlines()
    assert "0.5 to 5" in heading
    for entry, line in zip(said, lines[:3], strict=True):
        (bar,) = (word for word in line.split() if set(word) <= set(BLOCKS))
        assert bar.index("█") == int(np.argmax(list(entry["levels"].values())))
        assert len(bar) == len(STARS)
    assert lines[2].endswith("cold")


def test_the_bar_in_plain_letters(folder):
    shown = predict(folder, "stars", program=as_a_process, PYTHONIOENCODING="ascii").splitlines()
    assert shown[1].isascii()
    assert "?" not in shown[1]
    assert any(len(word) == len(STARS) and set(word) <= set(LETTERS) for word in shown[1].split())


def test_a_continuous_scale_has_no_levels(folder):
    assert "levels" not in json.loads(predict(folder, "continuous", "--json"))["predictions"][0]
    assert not set(predict(folder, "continuous")) & set(BLOCKS)


# recommend


N_ITEMS = 15
HISTORY = {2: 4, 5: 1}


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Models of stars, of levels, of any number, and one that gives a point."""
    lists = tmp_path_factory.mktemp("recommend")
    rng = generator(3)
    users, items = (column.reshape(-1) for column in np.meshgrid(np.arange(20), np.arange(N_ITEMS)))
    values = 2.8 + np.sin(users) + np.cos(1.3 * items) + 0.4 * rng.standard_normal(len(users))
    stars = np.clip(np.round(values), 1, 5)
    some = rng.random(len(users)) < 0.7
    models = {
        "stars": (BPMF(n_factors=2, warmup=10, draws=10, seed=0), stars),
        "ordinal": (BPMF(n_factors=2, warmup=10, draws=10, seed=0, likelihood="ordinal"), stars),
        "continuous": (BPMF(n_factors=2, warmup=10, draws=10, seed=0), values),
        "point": (ALS(n_factors=2, regularization=0.1, seed=0), stars),
    }
    for name, (model, given) in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # Any posterior will do here.
            save(model.fit(Ratings.from_arrays(users[some], items[some], given[some])), lists / name)
    lines = "".join(f"{item},{rating}\n" for item, rating in HISTORY.items())
    (lists / "history.csv").write_text(f"item,rating\n{lines}")
    return lists


def recommend(model, *arguments):
    result = CliRunner().invoke(app, ["recommend", str(model), "-n", "4", "--json", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["users"]


@pytest.mark.parametrize("name", ["stars", "ordinal"])
@pytest.mark.parametrize("is_new", [False, True])
def test_levels_are_those_that_predict_gives(lists, name, is_new):
    asked = ["--history", lists / "history.csv"] if is_new else ["--user", 3, "--user", 1]
    for entry in recommend(lists / name, *asked):
        items = [item["item"] for item in entry["items"]]
        history = HISTORY if is_new else None
        prediction = load(lists / name).predict([entry["user"]] * len(items), items, history=history)
        assert len(items) == 4
        for item, expected in zip(entry["items"], prediction.level_probabilities(), strict=True):
            assert list(item["levels"]) == prediction.level_names == ["1", "2", "3", "4", "5"]
            assert_allclose(list(item["levels"].values()), expected, atol=1e-5)
            assert not any(key.startswith("p_") for key in item)


@pytest.mark.parametrize("name", ["continuous", "point"])
def test_without_levels_nothing_is_said_of_them(lists, name):
    (entry,) = recommend(lists / name, "--user", 3)
    assert all("levels" not in item for item in entry["items"])
    model = load(lists / name)
    ranking = model.recommend([3])
    assert ranking.level_names == []
    assert ranking.to_polars(levels=True).columns == ranking.to_polars().columns


def test_frames_have_a_column_a_level_where_it_is_asked_for(lists):
    """Also with lists of different lengths, and of a user who is asked about twice."""
    model = load(lists / "ordinal")
    ranking = model.recommend([1, 3, 1], N_ITEMS)
    columns = [f"p_{level}" for level in ranking.level_names]
    assert not set(columns) & set(ranking.to_polars().columns)
    frame = ranking.to_polars(levels=True)
    assert frame.columns == [*ranking.to_polars().columns, *columns]
    assert frame.height < 3 * N_ITEMS  # what they have seen is left out
    expected = model.predict(frame["user"], frame["item"]).level_probabilities()
    assert_allclose(frame.select(columns).to_numpy(), expected, atol=1e-6)
    assert_allclose(ranking.of(2, levels=True).select(columns), ranking.of(0, levels=True).select(columns))
    assert model.recommend([1], uncertainty=False).level_names == []


# the bar by hand


@pytest.fixture
def blocks(monkeypatch):
    monkeypatch.setattr(console, "can_print", lambda text: True)


def test_the_most_likely_level_is_the_highest(blocks):
    heading, drawn = draw_bars(np.array([[0.4, 0.2, 0.1, 0.3, 0.0], [0, 0, 0, 0, 1.0]]), ["1", "2", "3", "4", "5"])
    assert heading == "1 to 5"
    assert drawn == ["█▅▃▆▁", "▁▁▁▁█"]


def test_half_stars_and_zero_to_ten_have_a_letter_each(blocks):
    for names in ([f"{k / 2:g}" for k in range(1, 11)], [str(k) for k in range(11)]):
        heading, (drawn,) = draw_bars(np.arange(len(names), dtype=float)[None] / np.arange(len(names)).sum(), names)
        assert len(drawn) == len(names)
        assert heading == f"{names[0]} to {names[-1]}"


@pytest.mark.parametrize("n_levels", [13, 40, 101])
def test_many_levels_share_letters(blocks, n_levels):
    """Equally likely levels make an even bar, however they fall into groups; a single one shows where it is."""
    names = [str(k) for k in range(n_levels)]
    heading, (drawn,) = draw_bars(np.full((1, n_levels), 1 / n_levels), names)
    assert heading == f"0 to {n_levels - 1}"
    assert drawn == "█" * len(drawn)
    assert MAX_WIDTH / 2 < len(drawn) <= MAX_WIDTH
    _, single = draw_bars(np.eye(n_levels), names)
    places = [bar.index("█") for bar in single]
    assert places == sorted(places)
    assert set(places) == set(range(len(drawn)))


def test_letters_where_there_are_no_blocks(blocks, monkeypatch):
    monkeypatch.setattr(console, "can_print", lambda text: text != BLOCKS)
    _, (drawn,) = draw_bars(np.array([[0.4, 0.2, 0.1, 0.3, 0.0]]), ["1", "2", "3", "4", "5"])
    assert drawn == "".join(LETTERS[BLOCKS.index(letter)] for letter in "█▅▃▆▁")
    assert drawn.isascii()


def test_one_level_and_no_rows(blocks):
    assert draw_bars(np.ones((2, 1)), ["3"]) == ("3", ["█", "█"])
    assert draw_bars(np.ones((0, 5)), ["1", "2", "3", "4", "5"]) == ("1 to 5", [])
