"""`tastespace compare` as a person runs it."""

from __future__ import annotations

import functools
import json
from importlib.util import find_spec

import polars as pl
import pytest
from cli.program import tastespace
from selection.failing import Killed

from tastespace import DampedBias, Popular, evaluate, random_split, read, time_split
from tastespace.cli.verbs import compare
from tastespace.models import MODELS
from tastespace.randomness import generator
from tastespace.selection.compare_models import compare_models
from tastespace.testing.toys import tastes

QUICK = ("--bootstrap", 20)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "ratings.csv"
    tastes(60, 40, rng=generator(4))[0].to_polars().write_csv(path)
    return path


@pytest.fixture
def _in_this_process(monkeypatch):
    """A second Python would take longer to start than all models to fit."""
    monkeypatch.setattr(compare, "compare_models", functools.partial(compare_models, apart=False))


def run(*arguments, code=0):
    result = tastespace("compare", *arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


def as_json(*arguments, code=0):
    return json.loads(run(*arguments, *QUICK, "--json", code=code).stdout)


def row_of(said, model):
    (row,) = [row for row in said["rows"] if row["model"] == model]
    return row


def test_in_processes_of_their_own_and_one_is_killed(file, monkeypatch):
    monkeypatch.setitem(MODELS, "killed", Killed)
    said = as_json(file, "--models", "bias, killed", "--threads", 1)
    assert [row["model"] for row in said["rows"]] == ["bias", "popular", "killed"]
    bias, popular, killed = said["rows"]
    split = random_split(read(file), 0.1, seed=0)
    report = evaluate(DampedBias().fit(split.train), split, k=10, bootstrap=20)
    assert bias["rmse"] == report["rmse"]
    assert bias["ndcg"] == report["ndcg@10"]
    assert bias["error"] is None
    # For lists there is always something to beat.
    assert popular["ndcg"] == evaluate(Popular().fit(split.train), split, k=10, bootstrap=0)["ndcg@10"]
    assert bias["parameters"]["threads"] == 1
    assert bias["seconds"] > 0
    assert sum(group["n"] for group in bias["groups"]) == said["split"]["test_ratings"]
    assert bias["trace"][-1]["rmse"] == bias["rmse"]
    assert "killed (SIGKILL)" in killed["error"]
    assert killed["rmse"] is None
    assert {key: said["split"][key] for key in ("kind", "by", "share", "seed")} == {
        **{"kind": "stars", "by": "random"},
        **{"share": 0.1, "seed": 0},
    }


@pytest.mark.usefixtures("_in_this_process")
def test_tables(file):
    shown = run(file, "--models", "mean,bias,implicit-als,als", "--set", "als.n_factors=-1", *QUICK)
    lines = shown.stdout.splitlines()
    assert lines[1].startswith("Models, best first: fitted on 701 ratings (stars) by 60 users of 40 items")
    assert [line.split()[0] for line in lines[3:7]] == ["bias", "mean", "popular", "implicit-als"]
    assert any(line.startswith("als: n_factors is -1") for line in lines)
    assert any(line.startswith("implicit-als: the values are stars") for line in lines)
    assert any(line.startswith("RMSE by the number of training ratings of the users") for line in lines)
    assert any(line.startswith("Lists of ") for line in lines)
    assert any(line.startswith("Share of the relevant test ratings in lists of 10 by") for line in lines)
    verdicts = [line for line in lines if line.startswith("best for ")]
    assert [line.partition(":")[0] for line in verdicts] == ["best for ratings", "best for lists"]
    assert verdicts[0].startswith("best for ratings: bias (RMSE ")


def with_times(file, folder):
    """The same ratings with times, in the order of the file."""
    timed = pl.read_csv(file).with_columns(time=pl.int_range(pl.len()) * 86_400 + 1_000_000_000)
    timed.write_csv(folder / "timed.csv")
    return folder / "timed.csv"


@pytest.mark.usefixtures("_in_this_process")
def test_ratings_with_times_are_also_split_by_time(file, tmp_path):
    timed = with_times(file, tmp_path)
    said = as_json(timed, "--models", "mean,bias")
    later = said.pop("by_time")
    assert [content["split"]["by"] for content in (said, later)] == ["random", "time"]
    split = time_split(read(timed), 0.1)
    assert row_of(later, "bias")["rmse"] == evaluate(DampedBias().fit(split.train), split, bootstrap=0)["rmse"]
    for way, content in (("random", said), ("time", later)):
        alone = as_json(timed, "--models", "mean,bias", "--by", way)
        assert "by_time" not in alone
        assert (alone["split"], alone["verdicts"]) == (content["split"], content["verdicts"])
    shown = run(timed, "--models", "mean,bias", *QUICK).stdout
    assert shown.count("Models, best first") == 2
    assert shown.index("Test ratings drawn at random") < shown.index("The latest ratings as the test")


@pytest.mark.usefixtures("_in_this_process")
def test_times_that_cannot_be_split_by(file, tmp_path):
    pl.read_csv(file).with_columns(time=pl.lit(1_000_000_000)).write_csv(tmp_path / "once.csv")
    shown = run(tmp_path / "once.csv", "--models", "mean", *QUICK)
    assert shown.stderr.startswith("not compared by time as well: every rating is from ")
    assert shown.stdout.count("Models, best first") == 1
    assert "every rating is from " in run(tmp_path / "once.csv", "--models", "mean", "--by", "both", code=1).stderr
    assert "the ratings have no times" in run(file, "--models", "mean", "--by", "both", code=1).stderr


@pytest.mark.usefixtures("_in_this_process")
def test_variants_and_parameters(file):
    variants = ("--models", "als,small=als,bias", "--n-factors", 3, "--set", "small.n_factors=1", "--seed", 5)
    said = as_json(file, *variants, "--set", "small.sweeps=2", "--no-ranking", "--holdout", 0.2)
    assert row_of(said, "als")["parameters"]["n_factors"] == 3
    small = row_of(said, "small")["parameters"]
    assert (small["n_factors"], small["sweeps"], small["seed"]) == (1, 2, 5)
    assert "n_factors" not in row_of(said, "bias")["parameters"]
    assert row_of(said, "als")["ndcg"] is None
    assert said["split"]["test_ratings"] == 155


@pytest.mark.usefixtures("_in_this_process")
def test_one_model_begins_from_another(file):
    options = ("--models", "vb,own=vb,begun=vb", "--n-factors", 2, "--no-ranking", "--start", "begun=vb")
    shorter = ("--set", "own.passes=1", "--set", "begun.passes=1")
    said = as_json(file, *options, *shorter)
    assert row_of(said, "begun")["start"] == "vb"
    assert row_of(said, "own")["start"] is None
    assert row_of(said, "begun")["rmse"] < row_of(said, "own")["rmse"] - 0.01


@pytest.mark.usefixtures("_in_this_process")
def test_a_test_file_and_other_splits(file, tmp_path):
    split = random_split(read(file), 0.3, seed=1)
    split.train.write(tmp_path / "train.csv")
    split.test.write(tmp_path / "test.csv")
    said = as_json(tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--models", "mean")
    assert said["split"]["by"] == "file"
    assert said["split"]["test_ratings"] == len(split.test)
    said = as_json(file, "--by", "users", "--holdout", 0.5, "--models", "mean")
    assert said["split"]["history_ratings"] > 0
    assert as_json(file, "--by", "one", "--models", "mean")["split"]["by"] == "one"


@pytest.mark.usefixtures("_in_this_process")
def test_choices_are_measured_by_lists(file, tmp_path):
    ratings = tastes(40, 30, rng=generator(3))[0].to_polars().drop("rating", strict=False)
    ratings.select("user", "item").write_csv(tmp_path / "clicks.csv")
    said = as_json(tmp_path / "clicks.csv", "--kind", "one-class", "--models", "popular,als,ease", "--k", 3)
    assert said["measure"] == "ndcg@3"
    assert row_of(said, "ease")["ndcg"] > 0
    assert "implicit-als would suit" in row_of(said, "als")["error"]
    assert row_of(said, "ease")["rmse"] is None
    shown = run(tmp_path / "clicks.csv", "--kind", "one-class", "--models", "popular,ease", *QUICK).stdout
    assert "RMSE" not in shown
    assert "NDCG@10" in shown


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib: pip install 'tastespace[plot]'")
@pytest.mark.usefixtures("_in_this_process")
def test_figures_and_their_twin(file, tmp_path):
    said = as_json(file, "--models", "mean,bias", "--figures", tmp_path / "figures")
    names = {"learning.svg", "groups.svg", "cost.svg", "lists.svg", "comparison.json"}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names
    assert {path.rpartition("/")[2] for path in said.pop("figures")} == names
    assert json.loads((tmp_path / "figures" / "comparison.json").read_text()) == said
    said = as_json(with_times(file, tmp_path), "--models", "mean,bias", "--figures", tmp_path / "both")
    later = tmp_path / "both" / "by_time"
    assert {path.name for path in later.iterdir()} == names
    assert json.loads((later / "comparison.json").read_text()) == said["by_time"]


@pytest.mark.usefixtures("_in_this_process")
def test_if_all_fail_the_program_fails(file):
    failed = run(file, "--models", "als", "--set", "als.n_factors=-1", "--json", code=1)
    assert "n_factors is -1" in row_of(json.loads(failed.stdout), "als")["error"]
    assert failed.stderr.startswith("error: no model could be measured")


def test_an_interrupt_shows_what_there_is(file, monkeypatch):
    def interrupted(split, models, **options):
        def interrupt(event):
            if event.phase == "models" and event.step == 1:
                raise KeyboardInterrupt

        return compare_models(split, models, **options | {"apart": False, "observer": interrupt})

    monkeypatch.setattr(compare, "compare_models", interrupted)
    said = as_json(file, "--models", "mean,bias,als", code=130)
    assert said["interrupted"]
    assert row_of(said, "mean")["rmse"] > 0
    assert row_of(said, "bias")["error"] == "interrupted"
    assert row_of(said, "als")["error"].startswith("not started")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--models", "mean,alz"), "there is no model 'alz'; expected some of mean, bias"),
        (("--models", "mean,mean"), "'mean' is given twice"),
        (("--models", "a.b=mean"), "'a.b' is not a name"),
        (("--models", "mean", "--set", "als.n_factors=3"), "no model 'als' takes part; expected one of mean"),
        (("--set", "n_factors=3"), "expected model.key=value"),
        (("--models", "mean", "--set", "mean.factors=3"), "no such parameter; expected one of seed"),
        (("--set", "ease.regularization=3"), "does not suit these ratings"),
        (("--by", "luck"), "expected one of random, time"),
        (("--start", "bpmf"), "expected NAME=OTHER"),
        (("--models", "vb,bpmf", "--start", "bpmf=als"), "no model 'als' takes part; expected some of vb, bpmf"),
        (("--holdout", "0.0001"), "expected a larger share"),
        (("--holdout", "2"), "expected a number between 0 and 1"),
        (("--relevant", "much"), "expected a rating"),
    ],
)
def test_bad_input(file, options, said):
    refused = run(file, *options, code=1)
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [("--by", "one", "--holdout", 0.1), ("--test", "test.csv", "--holdout", 0.1)])
def test_options_that_do_not_go_together(file, options):
    run(file, *options, code=2)


def test_a_parameter_that_no_model_has_is_refused_before_anything_is_read(tmp_path):
    failed = run(tmp_path / "nowhere.csv", "--set", "als.colour=3", code=1)
    assert "als.colour, but that model has no such parameter" in failed.stderr
