"""ask: what it prints, and what it makes of its options."""

from __future__ import annotations

import json
import warnings

import pytest
from typer.testing import CliRunner

from tastespace import ALS, read, save
from tastespace.cli.main import app
from tastespace.errors import ConvergenceWarning
from tastespace.models import BPMF
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def run(*arguments):
    return CliRunner().invoke(app, ["ask", *(str(argument) for argument in arguments)])


def as_json(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fitted model whose items have titles and genres, and one that gives points only."""
    folder = tmp_path_factory.mktemp("ask")
    tastes(50, 40, density=0.3, rng=generator(4))[0].to_polars().write_csv(folder / "ratings.csv")
    rows = [f"{k},Film {k},{'Comedy|War' if k % 3 == 0 else 'Drama'}" for k in range(40)]
    (folder / "items.csv").write_text("\n".join(["id,title,genres", *rows]) + "\n")
    ratings = read(folder / "ratings.csv", items=folder / "items.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        save(BPMF(n_factors=3, warmup=5, draws=5, thin=1, seed=0).fit(ratings), folder / "model")
    save(ALS(n_factors=3, regularisation=0.05, seed=0).fit(ratings), folder / "als")
    return folder


def items_of(said, position=0):
    return [entry["item"] for entry in said["users"][position]["items"]]


def test_a_new_user(folder):
    said = as_json(folder / "model")["users"]
    assert [entry["user"] for entry in said] == ["you"]
    assert said[0]["cold"] is True
    assert len(said[0]["items"]) == 5
    assert set(said[0]["items"][0]) == {"item", "title", "reduction", "sd"}
    assert said[0]["items"][0]["title"] == f"Film {said[0]['items'][0]['item']}"
    assert said[0]["sd"] > said[0]["items"][0]["sd"] > said[0]["items"][4]["sd"]


def test_what_a_person_sees(folder):
    said = as_json(folder / "model", "--n", 2)["users"][0]
    lines = run(folder / "model", "-n", 2).stdout.splitlines()
    assert lines[0] == "Ask user you (no ratings yet: these are the default questions)"
    assert lines[1].split() == ["title", "item", "reduction", "sd"]
    first = said["items"][0]
    assert lines[2].split() == ["1", *first["title"].split(), str(first["item"])] + [
        f"{first['reduction']:.1%}",
        f"{first['sd']:.3f}",
    ]
    last = said["items"][1]["sd"]
    assert lines[4] == f"the answers lower the uncertainty about the user from {said['sd']:.3f} to {last:.3f}"
    assert len(lines) == 5


def test_users_old_and_with_a_history(folder, tmp_path):
    said = as_json(folder / "model", "-u", 1, "-u", "nobody", "-n", 40)["users"]
    assert [entry["user"] for entry in said] == [1, "nobody"]
    assert [entry["cold"] for entry in said] == [False, True]
    assert len(said[0]["items"]) < 40
    first = said[1]["items"][0]["item"]
    (tmp_path / "history.csv").write_text(f"item,rating\n{first},4\n")
    then = as_json(folder / "model", "--history", tmp_path / "history.csv", "-n", 40)
    assert then["users"][0]["cold"] is False
    assert sorted([*items_of(then), first]) == list(range(40))


def test_what_may_be_asked(folder):
    best = items_of(as_json(folder / "model", "-n", 40))
    assert items_of(as_json(folder / "model", "--only", best[8], "--only", best[9])) in (best[8:10], best[9:7:-1])
    assert best[0] not in items_of(as_json(folder / "model", "--exclude", best[0], "-n", 40))
    comedies = items_of(as_json(folder / "model", "--where", "genre = comedy", "-n", 40))
    assert sorted(comedies) == list(range(0, 40, 3))
    assert len(items_of(as_json(folder / "model", "--among", 3, "-n", 40))) == 3
    assert items_of(as_json(folder / "model", "--among", 0, "-n", 40)) == best
    everything = [option for item in range(40) for option in ("--exclude", item)]
    assert "nothing left to ask" in run(folder / "model", *everything).stdout


def test_the_goal(folder):
    ratings, best = as_json(folder / "model"), as_json(folder / "model", "--goal", "list")
    assert ratings["users"][0]["sd"] != best["users"][0]["sd"]
    assert run(folder / "model", "--goal", "money").exit_code == 2


def test_bad_input(folder):
    result = run(folder / "als")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ALS predicts a point")
    assert json.loads(run(folder / "als", "--json").stdout)["error"]["type"] == "InvalidParameterError"
    assert "knows no item" in run(folder / "model", "--only", "nowhere").stderr
    assert run(folder / "model", "-n", 0).exit_code == 1
