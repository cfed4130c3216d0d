"""`tastespace predict` on levels: the bar in the table, the probabilities in JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.program import as_a_process, tastespace

from tastespace import BPMF, Ratings, save
from tastespace.cli.console import BLOCKS, LETTERS
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
