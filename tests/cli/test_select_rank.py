"""`tastespace select-rank` as a person runs it."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from cli.program import tastespace

from tastespace import ReversibleJump, choose_rank, read
from tastespace.randomness import generator
from tastespace.testing import toys

SHORT = ("--methods", "reversible-jump", "--max-rank", 6)
STEPS = {"warmup": 3, "tuning": 10, "draws": 10, "quench": 3}
QUICK = (*SHORT, *(part for key, value in STEPS.items() for part in ("--set", f"{key}={value}")))


def run(*arguments, code=0):
    result = tastespace("select-rank", *arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rank") / "ratings.csv"
    toys.gaussian(40, 30, n_factors=2, density=0.5, noise=0.4, rng=generator(4))[0].to_polars().write_csv(path)
    return path


def test_the_table_is_that_of_the_library(file):
    shown = run(file, *QUICK).stdout
    expected = choose_rank(read(file), max_rank=6, jumps=ReversibleJump(**STEPS), seed=0)
    line = next(line for line in shown.splitlines() if line.startswith("reversible-jump"))
    assert line.split()[1:4] == [str(expected.rank), f"{expected.probability:.2f}", f"{expected.rmse:.4f}"]
    assert "540 ratings; errors on 60 others" in shown


def test_json_has_rows(file):
    content = json.loads(run(file, *QUICK, "--json").stdout)
    (row,) = content["rows"]
    assert row["method"] == "reversible-jump"
    assert sum(row["posterior"].values()) == pytest.approx(1)
    assert len(row["trace"]["loss"]) == 26


def test_a_grid(file):
    content = json.loads(
        run(file, "--methods", "grid", "--ranks", "2", "--holdout", 0.2, "--threads", 1, "--json").stdout
    )
    assert content["rows"][0]["tried"].keys() == {"2"}
    assert content["test"] == 120


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures(file, tmp_path):
    shown = run(file, *QUICK, "--figures", tmp_path / "f").stdout
    assert f"written: {tmp_path / 'f' / 'loss.svg'}" in shown
    content = json.loads(run(file, *QUICK, "--figures", tmp_path / "f", "--json").stdout)
    assert [path.rsplit("/", 1)[-1] for path in content["figures"]] == ["loss.svg", "posterior.svg"]
    assert (tmp_path / "f" / "posterior.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "lucky"), "expected one of 'reversible-jump'"),
        (("--methods", "grid,grid"), "each once"),
        (("--ranks", "4,many"), "whole numbers separated by commas"),
        (("--set", "luck=3"), "has no such parameter"),
        (("--set", "cooling=3"), "has no such parameter"),
        (("--set", "draws=0"), "draws is 0"),
        (("--max-rank", "0"), "max_rank is 0"),
    ],
)
def test_bad_options(file, arguments, message):
    assert message in run(file, *arguments, code=1).stderr


def test_one_level(tmp_path):
    path = tmp_path / "same.csv"
    path.write_text("user,item,rating\n" + "".join(f"{i % 5},{i % 7},4\n" for i in range(35)))
    assert "all ratings are 4" in run(path, *QUICK, "--kind", "stars", code=1).stderr


def test_empty(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("user,item,rating\n")
    assert run(path, *QUICK, code=1).stderr.startswith("error: ")


def test_the_name_of_the_first_edition_still_works(file):
    assert json.loads(tastespace("rank", file, *QUICK, "--json").stdout)["rows"][0]["method"] == "reversible-jump"
    assert " rank " not in tastespace("--help").stdout
