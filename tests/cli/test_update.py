"""`tastespace update` as a person runs it."""

from __future__ import annotations

import json
import warnings

import pytest
from typer.testing import CliRunner

from tastespace import ALS, load, read, save
from tastespace.cli.main import app
from tastespace.errors import ConvergenceWarning, TastespaceWarning
from tastespace.models import BPMF
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def as_json(*arguments, code=0):
    result = run(*arguments, "--json", code=code)
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models with titles, and files of ratings that have come since: few, and many."""
    folder = tmp_path_factory.mktemp("update")
    table = tastes(50, 40, rng=generator(4))[0].to_polars()
    late = table["item"] >= 37
    table.filter(~late).write_csv(folder / "ratings.csv")
    table.filter(late).write_csv(folder / "many.csv")
    (folder / "few.csv").write_text("user,item,rating\n0,0,3\nann,0,3.5\nann,1,2.5\nann,39,3\n")
    rows = [f"{k},Film {k}" for k in range(40)]
    (folder / "old-items.csv").write_text("\n".join(["id,title", *rows[:37]]))
    (folder / "items.csv").write_text("\n".join(["id,title", *rows]))
    ratings = read(folder / "ratings.csv", items=folder / "old-items.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        save(BPMF(n_factors=2, warmup=5, draws=5, thin=1, seed=0).fit(ratings), folder / "bpmf")
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(ratings), folder / "als")
    save(load(folder / "als"), folder / "bare", with_ratings=False)
    return folder


@pytest.mark.filterwarnings("ignore:user ids were integers")
def test_a_few_new_ratings(folder, tmp_path):
    n = len(load(folder / "bpmf").ratings_)
    shown = run("update", folder / "bpmf", folder / "few.csv", "--items", folder / "items.csv", "--out", tmp_path / "m")
    lines = shown.stdout.splitlines()
    assert " 1 new users, 1 new items" in lines[0]
    assert lines[1].startswith("draws kept: users and new items use")
    assert lines[2].startswith(f"seen: learned from {n:,} ratings, ")
    assert lines[2].endswith("3 by new users, 1 of new items); 1 update")
    after = load(tmp_path / "m")
    assert after.ratings_.title_of(after.ratings_.items.rows_of([39])).to_list() == ["Film 39"]
    assert as_json("recommend", tmp_path / "m", "--user", "ann")["users"][0]["cold"] is False
    # What describes the model tells the same.
    assert f"\n{lines[2]}\n" in run("diagnose", tmp_path / "m").stdout
    assert as_json("diagnose", tmp_path / "m")["seen"] == after.seen_.to_dict()


def test_many_new_ratings_restart_and_may_replace_the_model(folder, tmp_path):
    model = tmp_path / "model"
    save(load(folder / "bpmf"), model)
    said = as_json("update", model, folder / "many.csv", "--out", model, "--threads", 1)
    assert said["model"] == "bpmf"
    assert said["out"] == str(model)
    assert (said["news"]["how"], said["news"]["sweeps"]) == ("warm restart", 10)
    assert said["news"]["new_items"] == 3
    after = load(model)
    assert said["seen"] == after.seen_.to_dict()
    assert (after.seen_.learned_ratings, after.seen_.added, after.seen_.updates) == (len(after.ratings_), 0, 1)
    assert after.ratings_.n_items == 40
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_sweeps_can_be_said(folder, tmp_path):
    said = as_json("update", folder / "bpmf", folder / "many.csv", "-o", tmp_path / "m", "--sweeps", 2)
    assert (said["news"]["how"], said["news"]["sweeps"]) == ("warm restart", 2)
    with pytest.warns(UserWarning, match="sweeps=0 leaves old items unchanged"):
        said = as_json("update", folder / "bpmf", folder / "many.csv", "-o", tmp_path / "m", "--sweeps", 0)
    assert said["news"]["how"] == "kept draws"


def test_a_model_without_draws_says_that_it_was_fitted_again(folder, tmp_path):
    shown = run("update", folder / "als", folder / "many.csv", "--out", tmp_path / "m")
    assert "als has no draws to keep: fitted again on all ratings" in shown.stdout
    assert "none added since; 1 update" in shown.stdout


def test_nothing_new_says_so(folder, tmp_path):
    shown = run("update", folder / "bpmf", folder / "ratings.csv", "--out", tmp_path / "m")
    assert shown.stdout.startswith("0 new ratings")
    assert "nothing new: the model is unchanged" in shown.stdout


@pytest.fixture
def with_index(folder, tmp_path):
    """A copy of a model, with an index."""

    def copied(name):
        path = tmp_path / name
        save(load(folder / name), path)
        run("index", path, "--seconds", 0.2, "--structures", "exact", "--json")
        return path

    return copied


@pytest.mark.filterwarnings("ignore:user ids were integers")
@pytest.mark.parametrize(
    ("name", "file", "options", "fate"),
    [
        ("bpmf", "few.csv", ["--sweeps", 0], "grown"),
        ("bpmf", "many.csv", ["--sweeps", 2], "dropped"),
        ("bpmf", "ratings.csv", [], "kept"),
        ("als", "many.csv", [], "dropped"),
    ],
)
def test_the_fate_of_an_index_is_reported(folder, tmp_path, with_index, name, file, options, fate):
    model = with_index(name)
    asked = ("update", model, folder / file, "--out", tmp_path / "m", *options)
    assert as_json(*asked)["index"] == fate
    assert (load(tmp_path / "m").index_ is None) == (fate == "dropped")
    told = f"the index was of the old items: run tastespace index {tmp_path / 'm'} again"
    assert (told in run(*asked).stdout.splitlines()) == (fate == "dropped")


def test_a_grown_index_stays_so(folder, tmp_path, with_index):
    (tmp_path / "new.csv").write_text("user,item,rating\n0,39,3\n")
    (tmp_path / "more.csv").write_text("user,item,rating\n1,0,2.5\n")
    model = with_index("bpmf")
    asked = ("update", model, tmp_path / "new.csv", "--out", model, "--sweeps", 0)
    assert as_json(*asked)["index"] == "grown"
    assert as_json("update", model, tmp_path / "more.csv", "--out", model, "--sweeps", 0)["index"] == "kept"


def test_without_an_index_nothing_is_said_about_one(folder, tmp_path):
    asked = ("update", folder / "als", folder / "many.csv", "--out", tmp_path / "m")
    assert as_json(*asked)["index"] is None
    assert "the index" not in run(*asked).stdout


def test_an_index_that_cannot_be_read_is_dropped(folder, tmp_path, with_index):
    model = with_index("bpmf")
    (model / "index.safetensors").unlink()
    with pytest.warns(TastespaceWarning, match="is used without its index"):
        said = as_json("update", model, folder / "ratings.csv", "--out", model)
    assert said["index"] == "dropped"
    assert load(model).index_ is None


def test_columns_can_be_named(folder, tmp_path):
    (tmp_path / "odd.csv").write_text("who;what;how\n0;1;3\n")
    said = as_json("update", folder / "bpmf", tmp_path / "odd.csv", "--out", tmp_path / "m", "--separator", ";",
                   "--user-column", "who", "--item-column", "what", "--rating-column", "how")  # fmt: skip
    assert said["news"]["ratings"] + said["news"]["unchanged"] == 1


@pytest.mark.parametrize(
    ("model", "content", "options", "told"),
    [
        ("bpmf", "user,item,rating\n0,1,99\n", [], "user 0 rated item 1 with 99"),
        ("bpmf", "who,what,how\n0,1,3\n", [], "who"),
        ("bpmf", "user,item,rating\n0,1,nan\n", [], "rating"),
        ("bpmf", "user,item,rating\n", [], "rating"),
        ("bpmf", "", [], "empty"),
        ("bpmf", "item,rating\n1,3\n", [], "user"),
        ("bpmf", "user,item,rating\n0,1,3\n", ["--sweeps", "few"], "--sweeps is 'few'"),
        ("bpmf", "user,item,rating\n0,1,3\n", ["--sweeps=-1"], "--sweeps is '-1'"),
        ("als", "user,item,rating\n0,1,3\n", ["--sweeps", "5"], "no chains to continue"),
        ("bare", "user,item,rating\n0,1,3\n", [], "saved without its ratings"),
        ("nowhere", "user,item,rating\n0,1,3\n", [], "there is no artifact"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_is_written(folder, tmp_path, model, content, options, told):
    file = tmp_path / "new.csv"
    file.write_text(content)
    result = run("update", folder / model, file, "--out", tmp_path / "m", *options, code=1)
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert not (tmp_path / "m").exists()
    assert "error" in as_json("update", folder / model, file, "--out", tmp_path / "m", *options, code=1)


def test_the_place_is_checked_first(folder, tmp_path):
    (tmp_path / "mine.txt").write_text("dear")
    result = run("update", folder / "bpmf", folder / "few.csv", "--out", tmp_path, code=1)
    assert "is not a tastespace artifact" in result.stderr
    assert run("update", folder / "bpmf", folder / "few.csv", code=2)
