"""`tastespace data split` writes what the library splits."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tastespace import last_per_user, random_split, read, time_split
from tastespace.cli.main import app
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture
def file(tmp_path):
    ratings = tastes(30, 20, rng=generator(1))[0]
    lines = [
        f"{user},{item},{value:.2f},{1000 + 7 * k % 311}"
        for k, (user, item, value) in enumerate(zip(ratings.user_rows, ratings.item_rows, ratings.values, strict=True))
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating,time\n" + "\n".join(lines) + "\n")
    return path


def split(file, *options, code=0):
    folder = file.parent
    parts = ["--train", str(folder / "train.csv.gz"), "--test", str(folder / "test.parquet")]
    ran = CliRunner().invoke(app, ["data", "split", str(file), *parts, *options])
    assert ran.exit_code == code, ran.output
    assert "Traceback" not in ran.output
    return ran


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--share", "0.2", "--seed", "3"], lambda ratings: random_split(ratings, 0.2, seed=3)),
        (["--by", "time"], lambda ratings: time_split(ratings, 0.1)),
        (["--by", "last", "--last", "2"], lambda ratings: last_per_user(ratings, 2)),
    ],
)
def test_parts_are_those_of_the_library(file, options, expected):
    found = json.loads(split(file, *options, "--json").stdout)
    parts = expected(read(file))
    for name, part in (("train", parts.train), ("test", parts.test)):
        assert read(found[name]["file"]).fingerprint() == part.fingerprint()
        assert found[name]["n_ratings"] == len(part)


def test_held_out_users_are_evaluated_by_their_history(file, tmp_path):
    split(file, "--by", "users", "--share", "0.3", "--history", str(tmp_path / "history.csv"))
    model, test = str(tmp_path / "model"), str(tmp_path / "test.parquet")
    run = CliRunner().invoke
    fitted = run(app, ["fit", str(tmp_path / "train.csv.gz"), "--out", model, "--model", "bias"])
    assert fitted.exit_code == 0, fitted.output
    blind = json.loads(run(app, ["evaluate", model, test, "--json"]).stdout)
    knowing = json.loads(
        run(app, ["evaluate", model, test, "--history", str(tmp_path / "history.csv"), "--json"]).stdout
    )
    assert blind["cold"] == blind["n"]
    assert knowing["cold"] == 0
    assert knowing["rmse"] < blind["rmse"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--by", "chance"], 1, "--by is 'chance'; expected one of random, time, last, one, users"),
        (["--by", "users"], 2, "go together"),
        (["--history", "h.csv"], 2, "go together"),
        (["--share", "1.5"], 1, "share is 1.5"),
        (["--by", "last", "--share", "0.5"], 2, "takes no --share"),
        (["--last", "2"], 2, "takes no --last"),
        (["--seed", "-1"], 1, "seed"),
        (["--test", "test.doc"], 1, "test.doc"),
    ],
)
def test_what_cannot_be_split(file, options, code, message):
    assert message in " ".join(split(file, *options, code=code).stderr.replace("│", " ").split())
    assert not (file.parent / "train.csv.gz").exists(), "nothing is half done"


def test_no_file_is_written_over(file):
    before = file.read_bytes()
    for train, test in ((file, "test.csv"), ("train.csv", file), ("same.csv", "same.csv")):
        parts = ["--train", str(file.parent / train), "--test", str(file.parent / test)]
        ran = CliRunner().invoke(app, ["data", "split", str(file), *parts])
        assert ran.exit_code == 1
        assert "two of the files are the same" in ran.stderr
    assert file.read_bytes() == before
