"""`tastespace fit`: a start from another model, automatic numbers of factors, empirical Bayes, PMF and its streams."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from cli.program import tastespace
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from tastespace import PMF, load
from tastespace.cli.main import app
from tastespace.data.formats.writers import write
from tastespace.errors import DivergenceWarning
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

# --start


def test_a_fit_begins_from_a_fitted_model(tmp_path):
    ratings, _ = tastes(60, 40, density=0.4, rng=generator(1))
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    common = ["fit", "ratings.csv", "--model", "als", "--n-factors", 2, "--set", "regularization=0.02"]
    assert tastespace(*common, "--out", "first", cwd=tmp_path).returncode == 0
    second = [*common, "--set", "sweeps=1"]
    assert tastespace(*second, "--out", "second", "--start", "first", cwd=tmp_path).returncode == 0
    assert tastespace(*second, "--out", "third", cwd=tmp_path).returncode == 0
    losses = {name: load(tmp_path / name).posterior_.losses for name in ("first", "second", "third")}
    assert losses["second"][0] <= 1.001 * losses["first"][-1]
    assert losses["third"][0] > 1.1 * losses["second"][0]


def test_what_cannot_be_a_start_is_said(tmp_path):
    ratings, _ = tastes(20, 15, density=0.4, rng=generator(1))
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    assert tastespace("fit", "ratings.csv", "--model", "popular", "--out", "popular", cwd=tmp_path).returncode == 0
    fit = ["fit", "ratings.csv", "--model", "als", "--out", "out"]
    for more, said in (
        (["--start", "popular"], "start is a Popular, which has no factors in units of ratings"),
        (["--start", "nowhere"], "there is no artifact nowhere"),
        (["--start", "popular", "--checkpoint", "kept"], "expected --start or --checkpoint, not both"),
    ):
        result = tastespace(*fit, *more, cwd=tmp_path)
        assert result.returncode in {1, 2}
        assert said in " ".join(result.stderr.split())
        assert "Traceback" not in result.stderr


# --n-factors auto


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    ratings, _ = tastes(40, 30, n_factors=2, density=0.5, rng=np.random.default_rng(0))
    path = tmp_path_factory.mktemp("data") / "ratings.csv"
    ratings.to_polars().write_csv(path)
    return path


def fit_auto(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


@pytest.mark.parametrize("model", ["als", "vb"])
def test_the_number_is_learned(file, tmp_path, model):
    result = fit_auto(file, "-o", tmp_path / "m", "--model", model, "--n-factors", "auto", "--set", "most_factors=6")
    assert result.exit_code == 0, result.output
    fitted = load(tmp_path / "m")
    assert fitted.n_factors == "auto"
    assert fitted.n_factors_ == 2


def test_a_configuration_can_ask_for_it(file, tmp_path):
    (tmp_path / "fit.toml").write_text('[model]\nname = "als"\nn_factors = "auto"\nmost_factors = 6\n')
    result = fit_auto(file, "--config", tmp_path / "fit.toml", "--dry-run", "--json")
    assert json.loads(result.output)["parameters"]["n_factors"] == "auto"


@pytest.mark.parametrize("typed", ["automatic", "1.5", ""])
def test_what_is_no_number_is_refused(file, tmp_path, typed):
    result = fit_auto(file, "-o", tmp_path / "m", "--n-factors", typed)
    assert result.exit_code == 2
    assert "expected a whole number, or auto" in " ".join(result.output.replace("│", " ").split())


def test_models_that_do_not_learn_it_say_so(file, tmp_path):
    result = fit_auto(file, "-o", tmp_path / "m", "--model", "pmf", "--n-factors", "auto")
    assert result.exit_code != 0
    assert "n_factors is 'auto'" in str(result.exception) + result.output


# --regularization


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
        *("--model", "als", "--n-factors", "2", "--regularization", "empirical-bayes"),
        *("--out", folder / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    return folder / "model"


def test_fit_and_diagnose(model):
    recommender = load(model)
    assert recommender.regularization == "empirical-bayes"
    shown = tastespace("diagnose", model)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("1 chain: 0 sweeps of warm-up, then 40 kept draws")
    assert str(recommender.learning_) in shown.stdout


@pytest.mark.parametrize("name", ["monotone", "pmf"])
def test_others_learn_it_too(folder, tmp_path, name):
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--model", name, "--n-factors", "2", "--regularization", "empirical-bayes"),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    shown = tastespace("diagnose", tmp_path / "model")
    assert shown.returncode == 0, shown.stderr
    assert str(load(tmp_path / "model").learning_) in shown.stdout


def test_the_warning_says_how_to_draw_more(folder, tmp_path):
    few = ("--regularization", "empirical-bayes:draws=4")
    tastespace("fit", folder / "ratings.csv", "--model", "als", "--n-factors", "2", *few, "--out", tmp_path / "model")
    shown = tastespace("diagnose", tmp_path / "model").stdout
    assert "Not good enough" in shown
    assert "draws are set by --regularization empirical-bayes:draws=N" in shown


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
        *("fit", folder / "ratings.csv", "--model", "als", "--n-factors", "2", "--regularization", "0.07"),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode == 0, fitted.stderr
    assert load(tmp_path / "model").regularization_.users == 0.07


@pytest.mark.parametrize(
    ("model", "regularization", "complaint"),
    [
        ("als", "empirical-bayes:draws=none", "draws is 'none'; expected a whole number"),
        ("als", "empirical", "regularization is 'empirical'; expected one of 'auto', 'empirical-bayes'"),
        ("bias", "0.1", "the model bias has no parameter 'regularization'"),
    ],
)
def test_nonsense_is_refused_in_words(folder, tmp_path, model, regularization, complaint):
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--model", model, "--regularization", regularization),
        *("--out", tmp_path / "model"),
    )
    assert fitted.returncode != 0
    assert complaint in " ".join(fitted.stderr.split())
    assert "Traceback" not in fitted.stderr


# --model pmf and --stream


@pytest.fixture
def fit_pmf(tmp_path):
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


def test_parameters_are_set(fit_pmf):
    settings = (
        "n_factors=3",
        "form=sigmoid",
        "method=mini-batch",
        "regularization=adaptive",
        "epochs=4",
        "refit=false",
    )
    result, folder = fit_pmf(*settings, options=["--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["model"] == "pmf"
    model = load(folder)
    assert (model.form, model.method, model.regularization, model.refit) == ("sigmoid", "mini-batch", "adaptive", False)


def test_a_diverging_rate_is_a_warning_and_a_model(fit_pmf):
    with pytest.warns(DivergenceWarning, match="diverged in epoch .* smaller learning_rate"):
        result, folder = fit_pmf("learning_rate=50", "regularization=0.05", "n_factors=3")
    assert result.exit_code == 0, result.output
    assert load(folder).is_fitted


def test_a_senseless_setting_is_refused_without_a_traceback(fit_pmf):
    result, _ = fit_pmf("form=cubed")
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


SHORT = ("--model", "pmf", "--n-factors", 2, "--regularization", 0.05, "--set", "epochs=3")


def test_ratings_are_streamed_from_parquet(stream, tmp_path):
    result, folder = stream(*SHORT, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    model = load(folder)
    expected = PMF(n_factors=2, regularization=0.05, epochs=3, seed=0).fit_parquet(tmp_path / "ratings.parquet")
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
