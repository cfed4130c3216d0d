"""`tastespace evaluate` as a person runs it."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from cli.program import tastespace

from tastespace import (
    BPMF,
    DampedBias,
    Popular,
    Ratings,
    compare_reports,
    evaluate,
    find_best,
    load,
    random_split,
    read,
    save,
    time_split,
)
from tastespace.errors import ConvergenceWarning
from tastespace.randomness import generator
from tastespace.testing.toys import tastes
from tastespace.version import __version__


def run(*arguments, code=0):
    result = tastespace("evaluate", *arguments)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models and a test file."""
    folder = tmp_path_factory.mktemp("evaluate")
    split = random_split(tastes(60, 40, rng=generator(4))[0], 0.2, seed=0)
    save(DampedBias().fit(split.train), folder / "bias")
    save(Popular().fit(split.train), folder / "popular")
    save(DampedBias().fit(split.train), folder / "bare", with_ratings=False)
    split.test.to_polars().write_csv(folder / "test.csv")
    return folder


def test_tables(folder):
    shown = run(folder / "bias", folder / "test.csv", "--k", 3, "--k", 7)
    report = evaluate(load(folder / "bias"), read(folder / "test.csv"), k=(3, 7))
    assert shown.stdout.startswith("Predictions: RMSE ")
    assert f"\n\n{report}; predictions clipped to " in shown.stdout
    assert shown.stderr == ""
    for table in report.tables(empty=False):
        for row in table.rows:
            for cell in row:
                assert cell in shown.stdout
    empty = [group.label for group in report.groups["users"] if not group.n]
    assert empty
    assert f"\nempty: {', '.join(empty)}\n" in shown.stdout
    assert not any(line.startswith("> 640") for line in shown.stdout.splitlines())
    assert "@7" in shown.stdout
    assert "@10" not in shown.stdout


def test_json_is_the_report(folder):
    said = json.loads(run(folder / "bias", folder / "test.csv", "--json", "--seed", 3, "--relevant", 4).stdout)
    report = evaluate(load(folder / "bias"), read(folder / "test.csv"), seed=3, relevant=4)
    more = {name: said.pop(name) for name in ("popular", "popular_comparison", "verdicts")}
    assert said.pop("later_share") is None  # There are no times.
    assert [line.partition(":")[0] for line in said.pop("summary")] == [
        *("Predictions", "For whom not", "Intervals", "Lists", "Next")
    ]
    assert said == json.loads(json.dumps(report.to_dict()))
    assert said["lists"]["relevant"] == 4
    model = Popular().fit(load(folder / "bias").ratings_)
    popular = evaluate(model, read(folder / "test.csv"), {}, seed=3, relevant=4, calibration=False)
    assert more["popular"] == json.loads(json.dumps(popular.to_dict()))
    less = compare_reports(report, popular, seed=3)["ndcg@10"]
    assert more["popular_comparison"]["ndcg@10"] == json.loads(json.dumps(less.to_dict()))
    verdicts = find_best({"bias": report, "popular": popular}, seed=3)
    assert more["verdicts"] == json.loads(json.dumps([verdict.to_dict() for verdict in verdicts]))


def test_what_is_popular_is_beside_the_model(folder):
    shown = run(folder / "bias", folder / "test.csv").stdout
    test = read(folder / "test.csv")
    reports = {name: evaluate(load(folder / name), test) for name in ("bias", "popular")}
    rows = {line.split()[0]: line.split() for line in shown.partition("\nLists of")[2].splitlines() if line.strip()}
    for name, report in reports.items():
        figures = [f"{report[measure]:.4f}" for measure in ("recall@20", "coverage@10", "popularity_lift@10")]
        assert rows[name][1] == f"{report['ndcg@10']:.4f}"
        assert rows[name][-3:] == figures
    assert "Share of the relevant test ratings in lists of 10 by the number of training ratings of the items" in shown
    assert f"\n{find_best(reports)[-1]}\n" in shown
    # The baseline itself stands alone.
    assert "best for" not in run(folder / "popular", folder / "test.csv").stdout


def test_a_model_whose_folder_is_called_popular_is_not_taken_for_it(folder, tmp_path):
    save(load(folder / "bias"), tmp_path / "popular")
    said = json.loads(run(tmp_path / "popular", folder / "test.csv", "--json").stdout)
    (lists,) = said["verdicts"]
    assert {lists["best"], *lists["behind"]} == {"popular", "popular items"}


@pytest.mark.parametrize("make", [time_split, random_split], ids=["time", "random"])
def test_whether_it_is_a_test_of_the_future(make, tmp_path):
    ratings = tastes(40, 30, rng=generator(4))[0]
    times = np.arange(len(ratings)) * 3600 + 1_000_000_000
    split = make(Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), ratings.values, times), 0.2)
    save(DampedBias().fit(split.train), tmp_path / "bias")
    split.test.to_polars().write_csv(tmp_path / "test.csv")
    said = json.loads(run(tmp_path / "bias", tmp_path / "test.csv", "--json").stdout)
    assert said["later_share"] == np.mean(split.test.times > split.train.times.max())
    shown = run(tmp_path / "bias", tmp_path / "test.csv").stdout.splitlines()[7]
    if make is time_split:
        assert shown == "all test ratings are later than the training ratings: a test of the future"
    else:
        assert shown.startswith(f"{said['later_share']:.0%} of the test ratings are later than all training ratings")


def test_lists_of_some_users(folder):
    said = json.loads(run(folder / "bias", folder / "test.csv", "--max-users", 10, "--json").stdout)
    assert said["lists"]["users"] == said["popular"]["lists"]["users"] == 10
    shown = run(folder / "bias", folder / "test.csv", "--max-users", 10).stdout
    assert f"Lists of 10 users drawn at random from {10 + said['lists']['users_not_drawn']}" in shown


def test_predictions_only(folder):
    options = ("--no-ranking", "--bootstrap", 0, "--json")
    said = json.loads(run(folder / "bias", folder / "test.csv", *options).stdout)
    order = {"kendall_tau", "pairwise_accuracy", "ndcg_rated@5", "ndcg_rated@10", "ndcg_rated@20"}
    assert said.keys() == {"rmse", "mae", "kind", "n", "cold", "groups", "verdicts", "later_share", "summary"} | order
    assert said["verdicts"] == []


@pytest.fixture(scope="module")
def sure(folder):
    """A model that says how sure it is."""
    # Too few draws to trust, which the model says; enough to be shown.
    with pytest.warns(ConvergenceWarning):
        model = BPMF(n_factors=2, chains=1, warmup=1, draws=5, seed=0).fit(load(folder / "bias").ratings_)
    save(model, folder / "sure")
    return folder / "sure"


def test_calibration_of_a_model_that_says_how_sure_it_is(folder, sure):
    shown = run(sure, folder / "test.csv", "--no-ranking")
    report = evaluate(load(sure), read(folder / "test.csv"), ranking=False)
    assert shown.stdout.startswith("Predictions: RMSE ")
    assert f"\n\n{report}; predictions clipped to " in shown.stdout
    assert ", CRPS " in shown.stdout
    for table in report.calibration.tables(empty=False):
        assert table.title in shown.stdout
        for row in table.rows:
            assert all(cell in shown.stdout for cell in row)
    said = json.loads(run(sure, folder / "test.csv", "--no-ranking", "--json").stdout)
    assert said["calibration"] == json.loads(json.dumps(report.calibration.to_dict()))
    assert said["crps"] == report["crps"]


def test_against_another_model(folder):
    shown = run(folder / "bias", folder / "test.csv", "--against", folder / "popular")
    # What was asked first: both in a line each, then the comparison, then the details of each.
    parts = ("bias: RMSE", "popular: RMSE", "bias less popular, user by user", "bias: Lists of", "popular: Lists of")
    places = [shown.stdout.index(part) for part in parts]
    assert places == sorted(places)
    assert shown.stdout[: places[2]].count("\n") == 9
    said = json.loads(run(folder / "bias", folder / "test.csv", "--against", folder / "popular", "--json").stdout)
    test = read(folder / "test.csv")
    one, other = (evaluate(load(folder / name), test) for name in ("bias", "popular"))
    assert said["rmse"] == one["rmse"]
    assert said["against"]["rmse"] == other["rmse"]
    assert said["comparison"] == json.loads(json.dumps(compare_reports(one, other).to_dict()))


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures(folder, tmp_path):
    options = ("--figures", tmp_path / "figures", "--against", folder / "popular")
    shown = run(folder / "bias", folder / "test.csv", *options)
    assert shown.stdout.endswith("evaluation.html\n")
    page = (tmp_path / "figures" / "evaluation.html").read_text()
    assert page.count("<img") == 6
    assert "<p>best for lists: " in page
    for name, value in {
        "models": f"{folder / 'bias'}, {folder / 'popular'}",
        "test file": folder / "test.csv",
        "seed": 0,
        "resamples": "1,000 for intervals, 10,000 for differences",
        "tastespace": __version__,
    }.items():
        assert f"<dt>{name}</dt><dd>{value}</dd>" in page
    said = json.loads(run(folder / "bias", folder / "test.csv", "--figures", tmp_path / "f", "--json").stdout)
    assert said["figures"] == str(tmp_path / "f" / "evaluation.html")


def test_a_model_without_its_ratings_says_what_is_missing(folder):
    shown = run(folder / "bare", folder / "test.csv", "--json")
    assert json.loads(shown.stdout).keys() >= {"rmse", "mae", "n", "cold"}
    assert shown.stderr.startswith("warning: the model was saved without its ratings")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--k", 0], "k is 0; expected a whole number of at least 1"),
        (["--relevant", 99], "relevant is 99, and no test rating is that high"),
        (["--relevant", "nan"], "relevant is nan"),
        (["--bootstrap", -1], "bootstrap is -1"),
        (["--seed", -1], "seed is -1"),
        (["--against", "nowhere"], "there is no artifact nowhere"),
    ],
    ids=str,
)
def test_bad_options(options, part, folder):
    result = run(folder / "bias", folder / "test.csv", *options, code=1)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr


def test_figures_where_a_file_is(folder, tmp_path):
    (tmp_path / "file").write_text("precious")
    result = run(folder / "bias", folder / "test.csv", "--figures", tmp_path / "file", code=1)
    assert "cannot make the folder" in result.stderr
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures_where_a_model_is(folder):
    result = run(folder / "bias", folder / "test.csv", "--figures", folder / "bias", code=1)
    assert "holds a model" in result.stderr
    assert not (folder / "bias" / "evaluation.html").exists()


def test_against_itself_is_wrong_usage(folder):
    result = run(folder / "bias", folder / "test.csv", "--against", folder / "bias", code=2)
    assert "expected another one" in re.sub(r"[\s│]+", " ", result.stderr)  # usage errors are broken to fit a box
