"""`tastespace diagnose` as a person runs it."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec

import pytest
from cli.program import tastespace

from tastespace import DampedBias, load, save
from tastespace.errors import ConvergenceWarning
from tastespace.inference.diagnostics import diagnose
from tastespace.models import BPMF
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def run(*arguments, code=0):
    result = tastespace("diagnose", *arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with chains, one with far too short ones, and one without."""
    folder = tmp_path_factory.mktemp("diagnose")
    ratings = tastes(60, 40, rng=generator(4))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # They are what this is about.
        save(BPMF(n_factors=2, draws=30, seed=0).fit(ratings), folder / "bpmf")
        save(BPMF(n_factors=2, warmup=0, draws=4, thin=1, seed=0).fit(ratings), folder / "short")
    save(DampedBias().fit(ratings), folder / "bias")
    return folder


def test_the_table_and_what_it_means(folder):
    shown = run(folder / "bpmf")
    assert shown.stdout == f"{diagnose(load(folder / 'bpmf').posterior_.trace)}\n"
    assert shown.stdout.startswith("2 chains: 50 sweeps of warm-up, then 30 kept draws each")
    assert "What predictions need, by" in shown.stdout
    assert "What hyper-parameters do" in shown.stdout
    assert shown.stderr == ""


def test_a_short_run_says_what_is_missing(folder):
    shown = run(folder / "short")
    assert "at least 20       no" in shown.stdout
    assert "Not good enough: predictions are averages of 8 draws" in shown.stdout


def test_a_short_run_warns_when_it_is_fitted():
    with pytest.warns(ConvergenceWarning, match=r"averages of 8 draws, too few .* set draws=10 or more \(now 4\)"):
        BPMF(n_factors=2, warmup=0, draws=4, thin=1, seed=0).fit(tastes(60, 40, rng=generator(4))[0])


def test_json_is_the_diagnosis(folder):
    said = json.loads(run(folder / "bpmf", "--json").stdout)
    model = load(folder / "bpmf")
    assert said == json.loads(json.dumps(diagnose(model.posterior_.trace).to_dict())) | {"seen": model.seen_.to_dict()}
    assert json.loads(run(folder / "short", "--json").stdout)["warning"].startswith("predictions are averages of 8")


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures(folder, tmp_path):
    shown = run(folder / "bpmf", "--figures", tmp_path / "figures")
    names = ["trace.svg", "autocorrelation.svg", "running.svg"]
    assert shown.stdout.endswith(f"\nfigures written to {tmp_path / 'figures'}: {', '.join(names)}\n")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == set(names)
    said = json.loads(run(folder / "bpmf", "--figures", tmp_path / "figures", "--json").stdout)
    assert said["figures"] == [str(tmp_path / "figures" / name) for name in names]


def test_a_model_without_chains_is_refused(folder):
    result = run(folder / "bias", code=1)
    assert result.stderr.startswith("error: the model bias has no chains")
    assert result.stderr.endswith("expected a model that samples, such as bpmf\n")
    assert result.stderr.count("\n") == 1


def test_no_model_and_no_place(folder, tmp_path):
    assert "there is no artifact nowhere" in run("nowhere", code=1).stderr
    (tmp_path / "file").write_text("precious")
    assert "cannot make the folder" in run(folder / "bpmf", "--figures", tmp_path / "file", code=1).stderr
    assert (tmp_path / "file").read_text() == "precious"
