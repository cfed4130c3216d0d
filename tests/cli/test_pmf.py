"""fit --model pmf: parameters by --set, what is said of a learning rate that diverges, and streams of ratings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from tastespace import PMF, load
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


@pytest.fixture
def stream(tmp_path):
    tastes(50, 40, rng=generator(4))[0].to_polars().write_parquet(tmp_path / "ratings.parquet")

    def stream(*options, name="ratings.parquet"):
        asked = ["fit", str(tmp_path / name), "--out", str(tmp_path / "model"), "--stream", *map(str, options)]
        return CliRunner().invoke(app, asked), tmp_path / "model"

    return stream


SHORT = ("--model", "pmf", "--n-factors", 2, "--regularisation", 0.05, "--set", "epochs=3")


def test_ratings_are_streamed_from_parquet(stream, tmp_path):
    result, folder = stream(*SHORT, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    model = load(folder)
    expected = PMF(n_factors=2, regularisation=0.05, epochs=3, seed=0).fit_parquet(tmp_path / "ratings.parquet")
    for name, array in expected.posterior_.arrays().items():
        assert_array_equal(array, model.posterior_.arrays()[name])
    assert said["streamed"] is True
    assert (said["n_ratings"], said["n_users"]) == (expected.seen_.learned_ratings, 50)
    assert len(model.ratings_) == 0
    result, _ = stream(*SHORT)
    assert "block by block" in result.stdout
    answer = CliRunner().invoke(app, ["recommend", str(folder), "--user", "0", "--json"])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 1, "--stream got no --model; expected --model pmf"),
        (("--model", "vb"), 1, "--stream got --model vb; expected --model pmf"),
        ((*SHORT, "--holdout", 0.1), 2, "--holdout would need"),
        ((*SHORT, "--rating-column", "rating"), 2, "got options for reading a file (rating)"),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_anything_is_read(stream, options, code, said):
    result, folder = stream(*options, name="nowhere.parquet")
    assert result.exit_code == code
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert not Path(folder).exists()


def test_a_stream_of_no_parquet_is_refused(stream, tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,2,3\n")
    result, _ = stream(*SHORT, name="ratings.csv")
    assert result.exit_code == 1
    assert "expected a Parquet file" in result.stderr
