"""`tastespace fit --n-factors auto`, as flag and in a configuration."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tastespace import load
from tastespace.cli.main import app
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    ratings, _ = tastes(40, 30, n_factors=2, density=0.5, rng=np.random.default_rng(0))
    path = tmp_path_factory.mktemp("data") / "ratings.csv"
    ratings.to_polars().write_csv(path)
    return path


def fit(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


@pytest.mark.parametrize("model", ["als", "vb"])
def test_the_number_is_learned(file, tmp_path, model):
    result = fit(file, "-o", tmp_path / "m", "--model", model, "--n-factors", "auto", "--set", "most_factors=6")
    assert result.exit_code == 0, result.output
    fitted = load(tmp_path / "m")
    assert fitted.n_factors == "auto"
    assert fitted.n_factors_ == 2


def test_a_configuration_can_ask_for_it(file, tmp_path):
    (tmp_path / "fit.toml").write_text('[model]\nname = "als"\nn_factors = "auto"\nmost_factors = 6\n')
    result = fit(file, "--config", tmp_path / "fit.toml", "--dry-run", "--json")
    assert json.loads(result.output)["parameters"]["n_factors"] == "auto"


@pytest.mark.parametrize("typed", ["automatic", "1.5", ""])
def test_what_is_no_number_is_refused(file, tmp_path, typed):
    result = fit(file, "-o", tmp_path / "m", "--n-factors", typed)
    assert result.exit_code == 2
    assert "expected a whole number, or auto" in " ".join(result.output.replace("│", " ").split())


def test_models_that_do_not_learn_it_say_so(file, tmp_path):
    result = fit(file, "-o", tmp_path / "m", "--model", "pmf", "--n-factors", "auto")
    assert result.exit_code != 0
    assert "n_factors is 'auto'" in str(result.exception) + result.output
