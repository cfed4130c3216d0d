"""`tastespace recommend --json` on levels: each item with the chance of every level, as `predict` has it."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from tastespace import ALS, BPMF, Ratings, load, save
from tastespace.cli.main import app
from tastespace.errors import ConvergenceWarning
from tastespace.randomness import generator

N_ITEMS = 15
HISTORY = {2: 4, 5: 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models of stars, of levels, of any number, and one that gives a point."""
    folder = tmp_path_factory.mktemp("recommend")
    rng = generator(3)
    users, items = (column.reshape(-1) for column in np.meshgrid(np.arange(20), np.arange(N_ITEMS)))
    values = 2.8 + np.sin(users) + np.cos(1.3 * items) + 0.4 * rng.standard_normal(len(users))
    stars = np.clip(np.round(values), 1, 5)
    some = rng.random(len(users)) < 0.7
    models = {
        "stars": (BPMF(n_factors=2, warmup=10, draws=10, seed=0), stars),
        "ordinal": (BPMF(n_factors=2, warmup=10, draws=10, seed=0, likelihood="ordinal"), stars),
        "continuous": (BPMF(n_factors=2, warmup=10, draws=10, seed=0), values),
        "point": (ALS(n_factors=2, regularisation=0.1, seed=0), stars),
    }
    for name, (model, given) in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # Any posterior will do here.
            save(model.fit(Ratings.from_arrays(users[some], items[some], given[some])), folder / name)
    lines = "".join(f"{item},{rating}\n" for item, rating in HISTORY.items())
    (folder / "history.csv").write_text(f"item,rating\n{lines}")
    return folder


def recommend(model, *arguments):
    result = CliRunner().invoke(app, ["recommend", str(model), "-n", "4", "--json", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["users"]


@pytest.mark.parametrize("name", ["stars", "ordinal"])
@pytest.mark.parametrize("is_stranger", [False, True])
def test_levels_are_those_that_predict_gives(folder, name, is_stranger):
    asked = ["--history", folder / "history.csv"] if is_stranger else ["--user", 3, "--user", 1]
    for entry in recommend(folder / name, *asked):
        items = [item["item"] for item in entry["items"]]
        history = HISTORY if is_stranger else None
        prediction = load(folder / name).predict([entry["user"]] * len(items), items, history=history)
        assert len(items) == 4
        for item, expected in zip(entry["items"], prediction.level_probabilities(), strict=True):
            assert list(item["levels"]) == prediction.level_names == ["1", "2", "3", "4", "5"]
            assert_allclose(list(item["levels"].values()), expected, atol=1e-5)
            assert not any(key.startswith("p_") for key in item)


@pytest.mark.parametrize("name", ["continuous", "point"])
def test_without_levels_nothing_is_said_of_them(folder, name):
    (entry,) = recommend(folder / name, "--user", 3)
    assert all("levels" not in item for item in entry["items"])
    model = load(folder / name)
    ranking = model.recommend([3])
    assert ranking.level_names == []
    assert ranking.to_polars(levels=True).columns == ranking.to_polars().columns


def test_frames_have_a_column_a_level_where_it_is_asked_for(folder):
    """Also with lists of different lengths, and of somebody who is there twice."""
    model = load(folder / "ordinal")
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
