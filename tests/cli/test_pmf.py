"""fit --model pmf: parameters by --set, and what is said of a learning rate that diverges."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tastespace import load
from tastespace.cli.main import app
from tastespace.errors import DivergenceWarning
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture
def fit(tmp_path):
    tastes(50, 40, rng=generator(4))[0].to_polars().write_csv(tmp_path / "ratings.csv")

    def fit(*settings, options=()):
        given = [part for setting in settings for part in ("--set", setting)]
        asked = [
            "fit",
            str(tmp_path / "ratings.csv"),
            "--out",
            str(tmp_path / "model"),
            "--model",
            "pmf",
            *given,
            *options,
        ]
        return CliRunner().invoke(app, asked), tmp_path / "model"

    return fit


def test_parameters_are_set(fit):
    settings = (
        "n_factors=3",
        "form=sigmoid",
        "method=mini-batch",
        "regularisation=adaptive",
        "epochs=4",
        "refit=false",
    )
    result, folder = fit(*settings, options=["--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["model"] == "pmf"
    model = load(folder)
    assert (model.form, model.method, model.regularisation, model.refit) == ("sigmoid", "mini-batch", "adaptive", False)


def test_a_diverging_rate_is_a_warning_and_a_model(fit):
    with pytest.warns(DivergenceWarning, match="diverged in epoch .* smaller learning_rate"):
        result, folder = fit("learning_rate=50", "regularisation=0.05", "n_factors=3")
    assert result.exit_code == 0, result.output
    assert load(folder).is_fitted


def test_a_senseless_setting_is_refused_without_a_traceback(fit):
    result, _ = fit("form=cubed")
    assert result.exit_code != 0
    assert "form is 'cubed'" in result.output
    assert "Traceback" not in result.output
