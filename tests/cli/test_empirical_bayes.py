"""Empirical Bayes from the command line: fit, and what diagnose says of it."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from cli.program import tastespace

from tastespace import load
from tastespace.data.formats.writers import write
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empirical")
    write(tastes(60, 40, rng=generator(4))[0], folder / "ratings.csv")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    fitted = tastespace(
        "fit",
        folder / "ratings.csv",
        *("--model", "als", "--n-factors", "2", "--regularisation", "empirical-bayes"),
        *("--out", folder / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    return folder / "model"


def test_fit_and_diagnose(model):
    recommender = load(model)
    assert recommender.regularisation == "empirical-bayes"
    shown = tastespace("diagnose", model)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("1 chain: 0 sweeps of warm-up, then 40 kept draws")
    assert str(recommender.learning_) in shown.stdout


@pytest.mark.parametrize("name", ["monotone", "pmf"])
def test_others_learn_it_too(folder, tmp_path, name):
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--model", name, "--n-factors", "2", "--regularisation", "empirical-bayes"),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    shown = tastespace("diagnose", tmp_path / "model")
    assert shown.returncode == 0, shown.stderr
    assert str(load(tmp_path / "model").learning_) in shown.stdout


def test_who_should_draw_more_is_told_how(folder, tmp_path):
    few = ("--regularisation", "empirical-bayes:draws=4")
    tastespace("fit", folder / "ratings.csv", "--model", "als", "--n-factors", "2", *few, "--out", tmp_path / "model")
    shown = tastespace("diagnose", tmp_path / "model").stdout
    assert "Not good enough" in shown
    assert "draws are set by --regularisation empirical-bayes:draws=N" in shown


def test_json_has_what_was_learned(model):
    said = json.loads(tastespace("diagnose", model, "--json").stdout)
    assert said["learning"] == load(model).learning_.to_dict()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_there_is_a_figure_of_it(model, tmp_path):
    shown = tastespace("diagnose", model, "--figures", tmp_path / "figures")
    assert shown.returncode == 0, shown.stderr
    assert "learning.svg" in shown.stdout
    assert (tmp_path / "figures" / "learning.svg").exists()


def test_a_number_is_a_strength(folder, tmp_path):
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--model", "als", "--n-factors", "2", "--regularisation", "0.07"),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    assert load(tmp_path / "model").regularisation_.users == 0.07


@pytest.mark.parametrize(
    ("model", "regularisation", "complaint"),
    [
        ("als", "empirical-bayes:draws=none", "draws is 'none'; expected a whole number"),
        ("als", "empirical", "regularisation is 'empirical'; expected one of 'auto', 'empirical-bayes'"),
        ("bias", "0.1", "the model bias has no parameter 'regularisation'"),
    ],
)
def test_nonsense_is_refused_in_words(folder, tmp_path, model, regularisation, complaint):
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--model", model, "--regularisation", regularisation),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode != 0
    assert complaint in " ".join(fitted.stderr.split())
    assert "Traceback" not in fitted.stderr
