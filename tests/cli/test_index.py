"""`tastespace index` as a person runs it."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from cli.program import tastespace

from tastespace import ALS, ItemKNN, artifact, load, save
from tastespace.cli.verbs import index as verb
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import Quality
from tastespace.models import MODELS
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

needs_plot = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")


def run(*arguments, code=0):
    result = tastespace("index", *arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def fitted():
    ratings = tastes(60, 900, rng=generator(4))[0]
    return ALS(n_factors=3, regularization=0.1, seed=0).fit(ratings)


@pytest.fixture
def folder(fitted, tmp_path):
    save(fitted, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def always_an_index(monkeypatch):
    """Whatever this machine is fast at, the choice falls on an inverted file."""
    from tastespace.index import tuner as tuning
    from tastespace.index.trials import Timing

    def timed(index, exact, vectors, queries, k, seconds):
        cost = 1000.0 if isinstance(index, Exact) else 10.0
        return Timing(cost, 2000.0 / cost, 1000.0 / cost)

    monkeypatch.setattr(tuning, "time_single", timed)
    monkeypatch.setattr(tuning, "time_batch", timed)


def test_the_index_is_chosen_shown_and_kept(folder, always_an_index):
    shown = run(folder, "--accuracy", "0.9", "--seconds", "20", "--structures", "inverted-file,exact-scan").stdout
    lines = shown.splitlines()
    assert lines[0].split() == [
        *(
            "strategy",
            "details",
            "accuracy",
            "acceptance",
            "worst",
            "µs",
            "x",
            "numpy",
            "x",
            "exact",
            "MB",
            "build",
            "s",
        )
    ]
    assert any(line.split()[:6] == ["*", "inverted", "file", "inverted", "file", "of"] for line in lines)
    assert any("scan of all items" in line for line in lines)
    assert "the fastest that reached accuracy 0.9. It finds " in shown
    assert "200.0 times as fast as numpy's scan; the exact scan takes 1,000 µs, 2.0 times as fast as numpy's" in shown
    assert "held-out queries" in shown
    assert lines[-1] == f"saved with {folder}"
    kept = load(folder).index_
    assert isinstance(kept.index, InvertedFile)
    assert kept.chosen.description in shown


def test_json_has_the_figures(folder, always_an_index):
    options = ("--acceptance", "0.9", "--accuracy", "0.8", "-k", "5", "--structures", "inverted-file", "--json")
    said = json.loads(run(folder, *options, "--seconds", "20", "--seed", "3", "--threads", "1").stdout)
    assert said["structure"] == "inverted-file"
    assert said["parameters"]["seed"] == 3
    assert 0 < said["accuracy"] <= 1
    assert 0 < said["acceptance"] <= 1
    assert (said["speedup"], said["speedup_over_exact"]) == (200.0, 100.0)
    assert said["baseline"].startswith("numpy")
    assert said["bytes"] > 0
    assert said["build_seconds"] > 0
    assert said["target"] == {"accuracy": 0.8, "acceptance": 0.9, "latency_ms": None, "k": 5, "n_th": 100}
    assert isinstance(said["target_reached"], bool)
    assert {trial["structure"] for trial in said["trials"]} >= {"exact", "inverted-file"}
    assert said["nearest"] is None
    assert said["complete"] is True
    stored = artifact.read_manifest(folder)["index"]
    assert stored["chosen"] == {key: said[key] for key in stored["chosen"]}
    assert stored["curve"] == said["trials"]


def test_where_the_scan_wins_it_stays_and_that_is_said(folder):
    shown = run(folder, "--seconds", "0.5", "--structures", "exact").stdout
    assert "chosen: the exact scan, because nothing that reached accuracy 0.95 was at least 1.1 times as fast" in shown
    assert isinstance(load(folder).index_.index, Exact)


def test_a_latency_out_of_reach(folder, always_an_index):
    options = ("--latency-ms", "0.001", "--seconds", "20", "--structures", "inverted-file")
    assert "not reached: accuracy 0.95 and at most 0.001 ms" in run(folder, *options).stdout
    said = json.loads(run(folder, *options, "--json").stdout)
    assert said["target_reached"] is False
    assert said["structure"] == "exact"
    assert said["nearest"]["structure"] == "inverted-file"


def test_a_target_that_the_scan_misses(folder, monkeypatch):
    monkeypatch.setattr(
        "tastespace.index.trials.Truth.judge",
        lambda self, items: Quality(np.full(len(items), 0.5), np.full(len(items), 20)),
    )
    shown = run(folder, "--seconds", "0.2", "--structures", "exact").stdout
    assert "not reached: accuracy 0.95, not even by the exact scan, which is used; it finds 50.0 % of the true" in shown
    assert "chosen: the exact scan, because" not in shown


@pytest.mark.parametrize("name", ["mean", "item-mean", "bias", "popular"])
def test_a_model_with_the_same_answer_for_all_users(fitted, tmp_path, name):
    save(MODELS[name]().fit(fitted.ratings_), tmp_path / "model")
    said = json.loads(run(tmp_path / "model", "--seconds", "1", "--json").stdout)
    assert said["target_reached"] is True
    assert load(tmp_path / "model").index_ is not None


def test_an_index_that_cannot_be_read_is_replaced(folder):
    options = ("--seconds", "0.5", "--structures", "exact")
    run(folder, *options)
    (folder / "index.safetensors").unlink()
    asked = ("recommend", folder, "--user", "0", "--json")
    told = tastespace(*asked)
    assert told.returncode == 0
    assert told.stderr.startswith(f"warning: {folder} is used without its index")
    assert f"run 'tastespace index {folder}' again" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    # Who wants no index, or a new one, does not hear of the old one.
    exact = tastespace(*asked, "--exact")
    assert (exact.returncode, exact.stderr) == (0, "")
    assert json.loads(exact.stdout)["users"] == json.loads(told.stdout)["users"]
    assert run(folder, *options).stderr == ""
    assert tastespace(*asked).stderr == ""


def test_time_that_is_too_short_is_said(folder):
    shown = run(folder, "--seconds", "0.001").stdout
    assert "the time budget ended before everything was tried; increase --seconds" in shown


def test_without_ratings_only_users_are_asked_about(fitted, tmp_path):
    save(fitted, tmp_path / "public", with_ratings=False)
    assert "only known users were measured" in run(tmp_path / "public", "--seconds", "0.1").stdout


@needs_plot
def test_the_figure(folder, tmp_path, always_an_index):
    figure = tmp_path / "curve.svg"
    options = ("--seconds", "20", "--structures", "inverted-file", "--figure", figure)
    assert f"figure: {figure}" in run(folder, *options).stdout
    assert figure.read_bytes().startswith(b"<?xml")
    assert json.loads(run(folder, *options, "--json").stdout)["figure"] == str(figure)


@needs_plot
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("curve.xls", "not a picture that can be drawn; expected a name with .png, .svg, .pdf"),
        ("nowhere/curve.png", "the folder does not exist"),
        ("model/curve.png", "holds a model"),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused_before_the_work(folder, tmp_path, monkeypatch, name, problem):
    monkeypatch.setattr(verb, "tune_index", lambda *_, **__: pytest.fail("the work has begun"))
    shown = run(folder, "--figure", tmp_path / name, code=1)
    assert problem in shown.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--accuracy", "95"), "accuracy is 95.0; expected a number above 0 and up to 1"),
        (("--acceptance", "0"), "acceptance is 0.0; expected a number above 0 and up to 1"),
        (("--latency-ms", "-1"), "latency_ms is -1.0; expected a number above 0"),
        (("--seconds", "0"), "seconds is 0.0; expected a number above 0"),
        (("-k", "0"), "k is 0; expected a whole number of at least 1"),
        (("--structures", "inverted-file,bogus"), "there is no structure 'bogus' to try; expected some of exact-scan"),
        (("--acceptance", "0.9", "-k", "200"), "k is 200, and acceptance asks for the true best 100 only"),
        (("--seed", "-1"), "seed is -1; expected"),
        (("--threads", "0"), "threads is 0; expected"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_values_are_one_clear_line_and_change_nothing(folder, options, problem):
    shown = run(folder, *options, code=1)
    assert shown.stderr.startswith(f"error: {problem}")
    assert len(shown.stderr.splitlines()) == 1
    assert load(folder).index_ is None


def test_models_that_cannot_have_one(fitted, tmp_path):
    save(ItemKNN().fit(fitted.ratings_), tmp_path / "knn")
    assert "ItemKNN has no item vectors" in run(tmp_path / "knn", code=1).stderr
    assert "there is no artifact" in run(tmp_path / "nothing", code=1).stderr
    said = json.loads(run(tmp_path / "nothing", "--json", code=1).stdout)
    assert said["error"]["type"] == "ArtifactError"


def test_lists_say_how_they_were_found(folder, always_an_index):
    before = tastespace("recommend", folder, "--user", "0")
    assert "Found:" not in before.stdout  # nothing to be said where there is no index
    run(folder, "--structures", "inverted-file")
    kept = load(folder).index_.index
    told = json.loads(tastespace("recommend", folder, "--user", "0", "--json").stdout)["found_by"]
    assert told == f"by {kept.description}"
    assert "inverted file" in told
    assert f"Found: {told}." in " ".join(tastespace("recommend", folder, "--user", "0").stdout.split())
