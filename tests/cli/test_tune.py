"""`tastespace tune` as a person runs it."""

from __future__ import annotations

import json
import shlex

import pytest
from cli.program import tastespace

from tastespace import load, read, tune
from tastespace.cli.verbs import tune as verb
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytest.importorskip("optuna", reason="needs optuna: pip install 'tastespace[tune]'")

QUICK = ("--model", "bias", "--trials", 6, "--holdout", 0.3, "--threads", 1)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "ratings.csv"
    drawn = tastes(100, 40, density=0.4, noise=0.8, rng=generator(3))[0]
    drawn.to_polars().write_csv(path)
    return path


def run(*arguments, code=0, **environment):
    result = tastespace("tune", *arguments, **environment)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


def test_the_table_and_the_command(file, tmp_path):
    found = tune(read(file, user="user"), "bias", trials=6, share=0.3, threads=1)
    result = run(file, *QUICK, "--user-column", "user", cwd=tmp_path)
    assert result.stderr == ""
    shown = result.stdout
    assert found.table().title in shown
    assert f"best: RMSE {found.value:.4f}, defaults {found.defaults:.4f}; chosen on these held-out ratings" in shown
    (command,) = [line for line in shown.splitlines() if line.startswith("to fit it: ")]
    words = shlex.split(command.removeprefix("to fit it: "))
    assert words[:5] == ["tastespace", "fit", str(file), "--model", "bias"]
    assert "--user-column user" in command
    # It does what it says.
    fitted = tastespace(*words[1:], cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert load(tmp_path / "MODEL").get_params().items() >= found.settings.items()


def test_as_json_with_model_and_configuration(file, tmp_path):
    config, out = tmp_path / "fit.toml", tmp_path / "model"
    said = json.loads(run(file, *QUICK, "--json", "--save-config", config, "--out", out).stdout)
    assert said["ended_by"] == "trials"
    assert len(said["trials"]) == 6
    assert said["out"] == str(out)
    model = load(out)
    assert model.get_params().items() >= said["settings"].items()
    assert len(model.ratings_) == said["ratings"]
    again = json.loads(tastespace("fit", file, "--config", config, "--dry-run", "--json").stdout)
    assert again["model"] == "bias"
    assert again["parameters"].items() >= {**said["settings"], "seed": 0}.items()


def test_options_reach_the_search(file):
    options = ("--set", "item_damping=3", "--range", "user_damping=4..9", "--measure", "mae", "--rungs", 1, "--json")
    said = json.loads(run(file, *QUICK, *options).stdout)
    assert said["measure"] == "mae"
    assert said["users"] == [1.0]
    assert all(list(trial["settings"]) == ["user_damping"] for trial in said["trials"])
    assert all(4 <= trial["settings"]["user_damping"] <= 9 for trial in said["trials"])
    assert "--set item_damping=3" in said["command"]


def test_interrupted_and_resumed(file, tmp_path, monkeypatch):
    whole = json.loads(run(file, *QUICK, "--json").stdout)
    real = verb.search

    def interrupted(*arguments, observer, **options):
        def stop(event):
            if event.phase == "trials" and event.step == 2:
                raise KeyboardInterrupt

        return real(*arguments, observer=stop, **options)

    monkeypatch.setattr(verb, "search", interrupted)
    folder, out = tmp_path / "kept", tmp_path / "model"
    result = run(file, *QUICK, "--folder", folder, "--out", out, code=130)
    assert f"{folder} has the trials: continue with the same command and --resume" in result.stderr
    assert not out.exists()
    monkeypatch.setattr(verb, "search", real)
    resumed = json.loads(run(file, *QUICK, "--folder", folder, "--resume", "--json").stdout)
    for said in (whole, resumed):
        for trial in said["trials"]:
            del trial["seconds"]
    assert resumed["trials"] == whole["trials"]
    assert resumed["settings"] == whole["settings"]
    assert "holds a search already" in run(file, *QUICK, "--folder", folder, code=1).stderr


def test_nothing_beats_it_and_what_is_learned(file):
    shown = run(file, *QUICK, "--range", "user_damping=90..99", "--range", "item_damping=90..99").stdout
    assert "nothing beats the defaults of bias: RMSE" in shown
    short = ("--set", "chains=1", "--set", "warmup=1", "--set", "draws=3", "--range", "n_factors=1..2")
    shown = run(file, "--model", "bpmf", "--trials", 1, "--rungs", 1, "--threads", 1, *short).stdout
    assert "bpmf learns all but the number of factors from the ratings" in shown


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--model", "alx"), "there is no model 'alx'; expected one of", 1),
        (("--model", "mean"), "the model mean has nothing to tune; expected one of", 1),
        (("--model", "bias", "--trials", 0), "trials is 0; expected a whole number of at least 1", 1),
        (("--model", "bias", "--seconds", 0), "seconds is 0.0; expected a number above 0", 1),
        (("--model", "bias", "--range", "user_damping=3"), "expected key=low..high", 1),
        (("--model", "bias", "--range", "user_damping=a..b"), "expected key=low..high", 1),
        (("--model", "bias", "--resume"), "--resume expects --folder FOLDER", 2),
        ((), "Missing option '--model'", 2),
    ],
)
def test_bad_input(file, options, message, code):
    assert message in " ".join(run(file, *options, code=code).stderr.split())


def test_a_model_that_does_not_suit_is_said_so_first(file, tmp_path):
    ones = tmp_path / "ones.csv"
    lines = [line.rsplit(",", 1)[0] + ",1" for line in file.read_text().splitlines()[1:]]
    ones.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    result = run(ones, *QUICK, "--trials", 1, "--kind", "one-class")
    assert result.stderr.startswith("warning: all ratings are 1")
    assert "measured by NDCG@10" in result.stdout


def test_a_configuration_that_cannot_be_written(file, tmp_path):
    result = run(file, *QUICK, "--trials", 1, "--save-config", tmp_path / "no" / "fit.toml", code=1)
    assert "the folder does not exist; expected a file in an existing folder" in result.stderr
