"""`tastespace report` as a person runs it."""

from __future__ import annotations

import json

import pytest
from cli.program import tastespace

from tastespace import ALS, DampedBias, load, random_split, save
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def run(*arguments, code=0, **where):
    result = tastespace("report", *arguments, **where)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


def refused(*arguments, code=1):
    """The one line that says why not."""
    result = run(*arguments, code=code)
    assert result.stdout == ""
    return result.stderr


def values_of(path):
    """What the page was given to show."""
    text = path.read_text()
    start = text.index('id="values">') + len('id="values">')
    return json.loads(text[start : text.index("</script>", start)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models, and ratings that they have not seen."""
    folder = tmp_path_factory.mktemp("report")
    split = random_split(tastes(60, 40, rng=generator(4))[0], 0.2, seed=0)
    save(ALS(n_factors=2, regularization=0.1, seed=0, threads=1).fit(split.train), folder / "als")
    save(DampedBias().fit(split.train), folder / "bias", measures={"holdout": {"rmse": 0.5}})
    split.test.to_polars().write_csv(folder / "test.csv")
    (folder / "other").mkdir()
    save(DampedBias(item_damping=1).fit(split.train), folder / "other" / "bias")
    return folder


def test_one_model(folder, tmp_path):
    out = tmp_path / "report.html"
    shown = run(folder / "als", "--out", out, "--threads", 1)
    size = out.stat().st_size
    assert shown.stdout == f"written to {out} ({size / 1e6:.1f} MB); open it in a browser\n"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    (model,) = values_of(out)["models"]
    assert model["name"] == "als"
    assert len(model["lists"]) == 2
    assert model["map"]["method"] == "pca"


def test_two_models_in_json(folder, tmp_path):
    out = tmp_path / "report.html"
    said = json.loads(run(folder / "als", folder / "bias", "-o", out, "--json").stdout)
    assert said == {"out": str(out), "models": ["als", "bias"], "bytes": out.stat().st_size}
    als, bias = values_of(out)["models"]
    assert (als["name"], bias["name"]) == ("als", "bias")
    assert bias["map"] is None
    assert bias["story"]["measures"] == {"holdout": {"rmse": 0.5}}


def test_a_place_given_from_where_one_is(folder, tmp_path):
    run(folder / "bias", "--out", "here.html", cwd=tmp_path)
    assert (tmp_path / "here.html").exists()


def test_models_of_one_name_are_called_by_their_paths(folder, tmp_path):
    one, other = folder / "bias", folder / "other" / "bias"
    said = json.loads(run(one, other, "--out", tmp_path / "report.html", "--json").stdout)
    assert said["models"] == [str(one), str(other)]


def test_lists_of_named_users(folder, tmp_path):
    out = tmp_path / "report.html"
    run(folder / "als", "--out", out, "--for", "7", "--for", 3)
    (model,) = values_of(out)["models"]
    assert [entry["user"] for entry in model["lists"]] == ["7", "3"]
    expected = load(folder / "als").recommend(["7"], 10)
    assert [item["item"] for item in model["lists"][0]["items"]] == [str(item) for item in expected.item_ids]


def test_measured_on_a_file(folder, tmp_path):
    out = tmp_path / "report.html"
    run(folder / "als", folder / "bias", "--out", out, "--test", folder / "test.csv")
    values = values_of(out)
    lines = len((folder / "test.csv").read_text().splitlines()) - 1
    assert values["notes"]["measured on"] == f"{lines} ratings"
    assert all(model["story"]["measures"]["test"]["rmse"] > 0 for model in values["models"])


def test_an_unknown_user(folder, tmp_path):
    told = refused(folder / "als", folder / "bias", "--out", tmp_path / "report.html", "--for", "nobody")
    assert told == "error: no model knows the user 'nobody'; expected a user of the training ratings\n"
    assert list(tmp_path.iterdir()) == []


def test_the_same_model_twice(folder, tmp_path):
    told = refused(folder / "als", folder / "als", "--out", tmp_path / "report.html", code=2)
    assert "the same model is given twice" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("{folder}/nothing", "--out", "{out}"), "there is no artifact"),
        (("{folder}/other", "--out", "{out}"), "is not a tastespace artifact"),
        (("{folder}/als", "--out", "{folder}"), "is a folder; expected the name of a file, such as report.html"),
        (("{folder}/als", "--out", "{folder}/no/such.html"), "is in a folder that is not there"),
        (("{folder}/als", "--out", "{out}", "--map", "umap"), "the map is 'umap'; expected one of pca, tsne"),
        (("{folder}/als", "--out", "{out}", "--test", "{folder}/no.csv"), "no.csv"),
        (("{folder}/als", "--out", "{out}", "--test", "{folder}/bias/users.parquet"), "users.parquet"),
    ],
)
def test_bad_input_is_one_clear_message(folder, tmp_path, arguments, complaint):
    out = tmp_path / "report.html"
    told = refused(*(part.format(folder=folder, out=out) for part in arguments))
    assert told.startswith("error: ")
    assert complaint in told
    assert told.count("error:") == 1
    assert not out.exists()


def test_what_must_be_said(folder):
    assert "--out" in run(folder / "als", code=2).stderr
    assert "MODEL" in run("--out", "report.html", code=2).stderr
