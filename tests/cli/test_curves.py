"""`tastespace curves` as a person runs it, from the fit on."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from cli.program import tastespace

from tastespace import DampedBias, load, save
from tastespace.randomness import generator
from tastespace.testing.toys import distorted


def run(*arguments, code=0):
    result = tastespace(*arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves")
    ratings = distorted(60, 50, rng=generator(1)).ratings
    ratings.to_polars().write_csv(folder / "ratings.csv")
    ways = ("--set", "sharing=clusters", "--set", "n_clusters=2", "--set", "regularization=0.02", "--n-factors", "4")
    run("fit", folder / "ratings.csv", "--out", folder / "model", "--model", "monotone", *ways)
    save(DampedBias().fit(ratings), folder / "bias")
    return folder


def test_the_table_has_a_row_a_cluster(folder):
    found, lines = load(folder / "model").curves(), run("curves", folder / "model").stdout.splitlines()
    rows = [line for line in lines if "%" in line]
    assert len(rows) == len(found)
    for row, value, n_users in zip(rows, found.values[:, 0], found.n_users, strict=True):
        assert f"{value:.2f}" in row
        assert f" {n_users} " in row
    assert "4.5 is" in lines[1]


def test_json_is_the_table(folder):
    said = json.loads(run("curves", folder / "model", "--json").stdout)
    assert said["curves"] == load(folder / "model").curves().to_polars().to_dicts()


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figure(folder, tmp_path):
    picture = tmp_path / "curves.svg"
    assert run("curves", folder / "model", "--figure", picture).stdout.endswith(f"figure: {picture}\n")
    assert picture.read_bytes().startswith(b"<?xml")
    said = json.loads(run("curves", folder / "model", "--figure", picture, "--json").stdout)
    assert said["figure"] == str(picture)
    assert "expected" in run("curves", folder / "model", "--figure", tmp_path / "curves.txt", code=1).stderr


def test_another_model_is_refused(folder):
    result = run("curves", folder / "bias", code=1)
    assert result.stderr.startswith("error: DampedBias takes ratings as they are and has no curves")
    assert result.stderr.count("\n") == 1
