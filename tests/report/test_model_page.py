"""The report of models: one file with all that it needs, which no title can break out of."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

from tastespace import ALS, DampedBias, Popular, Ratings, artifact, evaluate, find_best, random_split
from tastespace.data.vocabulary import HANDFUL
from tastespace.errors import DataError, InvalidParameterError
from tastespace.randomness import generator
from tastespace.report import page
from tastespace.report.model_page import Shown, attributes_of, write_report
from tastespace.testing.toys import gaussian

EVIL = "</script><script>alert(1)</script><!--<script>"


class Page(HTMLParser):
    """The elements of a page with their attributes, its scripts, and what it says of itself."""

    VOID = ("meta", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.open, self.scripts, self.title = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] == "title":
            self.title += data

    @property
    def values(self):
        """What the scripts are given."""
        kinds = [attributes for tag, attributes in self.elements if tag == "script"]
        (place,) = [place for place, attributes in enumerate(kinds) if attributes.get("id") == "values"]
        assert kinds[place]["type"] == "application/json"
        return json.loads(self.scripts[place])


@pytest.fixture(scope="module")
def split():
    raw, _ = gaussian(60, 40, density=0.4, rng=generator(1))
    ratings = Ratings.from_arrays(raw.user_ids(), raw.item_ids(), raw.values.round().clip(1, 5))
    titles = pl.Series("title", [EVIL if row % 2 else f"Film {row} & <b>" for row in range(ratings.n_items)])
    about = pl.DataFrame({"genre": [EVIL if row % 3 else "Drama" for row in range(ratings.n_items)]})
    return random_split(ratings.with_items(titles, about), 0.1, seed=0)


@pytest.fixture(scope="module")
def shown(split, tmp_path_factory):
    """A model with tastes and one without; their names are no markup either."""
    models = {"<als>": ALS(n_factors=2, regularization=0.1, seed=1, threads=1), "bias": DampedBias()}
    found = []
    for name, model in models.items():
        folder = tmp_path_factory.mktemp("models") / "model"
        artifact.save(model.fit(split.train), folder, measures={"holdout": {"rmse": 0.75}})
        found.append(Shown(name, artifact.load(folder), artifact.read_manifest(folder)))
    return found


@pytest.fixture(scope="module")
def written(shown, tmp_path_factory):
    return write_report(shown, tmp_path_factory.mktemp("report") / "report.html")


def test_one_model_is_one_file(shown, tmp_path):
    path = write_report(shown[:1], tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    found = Page(path.read_text())
    (model,) = found.values["models"]
    assert model["name"] == "<als>"
    assert found.title == "<als> – tastespace"
    assert model["story"]["class"] == "ALS"
    assert len(model["map"]["x"]) == 40
    assert found.values["notes"]["by"].startswith("tastespace ")
    assert "measured on" not in found.values["notes"]


def test_two_models_side_by_side(written, shown):
    found = Page(written.read_text())
    als, bias = found.values["models"]
    assert found.title == "<als>, bias – tastespace"
    assert (als["name"], bias["name"]) == ("<als>", "bias")
    assert als["map"]["method"] == "pca"
    assert bias["map"] is None
    assert [one["place"] is None for one in als["lists"] + bias["lists"]] == [False, False, True, True]
    assert als["story"]["measures"] == {"holdout": {"rmse": 0.75}}
    # Nobody was named: one with many ratings and one with few, the same of both models.
    users = [one["user"] for one in als["lists"]]
    assert [one["user"] for one in bias["lists"]] == users
    counts = shown[0].recommender.ratings_.by_user.counts
    many, few = (counts[shown[0].recommender.ratings_.users.rows_of([user])[0]] for user in users)
    assert many > few


def test_nothing_is_loaded_from_elsewhere(written):
    text = written.read_text()
    found = Page(text)
    for tag, attributes in found.elements:
        assert "src" not in attributes, tag
        assert "srcset" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        assert attributes.get("href", "data:,") == "data:,", (tag, attributes)
    assert {tag for tag, _ in found.elements} <= {
        *("html", "head", "meta", "title", "link", "style", "script", "body", "main", "div")
    }
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    # Scripts of our own fetch from the service alone, and a report has none.
    assert len(found.scripts) == 1 + len(page.REPORT)


def test_every_script_is_whole(written):
    found = Page(written.read_text())
    files = [page.read(name) for name in page.REPORT]
    programs = [script for script in found.scripts if not script.startswith("{")]
    assert [script.replace("<\\/script", "</script") for script in programs] == [file.decode() for file in files]


def test_no_title_breaks_out(written):
    text = written.read_text()
    assert EVIL not in text
    start = text.index('id="values">') + len('id="values">')
    inside = text[start : text.index("</script>", start)]
    assert "<" not in inside
    values = json.loads(inside)
    assert EVIL in values["models"][0]["map"]["titles"]
    assert EVIL in values["models"][0]["story"]["attributes"]["genre"]["values"]
    assert EVIL in [item["title"] for one in values["models"][0]["lists"] for item in one["items"]]
    assert "<title>&lt;als&gt;, bias" in text


def test_lists_of_named_users(shown, tmp_path):
    found = Page(write_report(shown, tmp_path / "report.html", users=["3", "7", "nobody"]).read_text())
    for model, one in zip(found.values["models"], shown, strict=True):
        assert [entry["user"] for entry in model["lists"]] == ["3", "7"]  # Nothing can be said of a stranger.
        ranking = one.recommender.recommend(["3"], 10)
        assert [item["item"] for item in model["lists"][0]["items"]] == [str(item) for item in ranking.item_ids]
        assert [item["rank"] for item in model["lists"][0]["items"]] == list(range(1, 11))


def test_no_users_need_be_named(shown, tmp_path):
    found = Page(write_report(shown, tmp_path / "report.html", users=[]).read_text())
    assert [model["lists"] for model in found.values["models"]] == [[], []]


def test_models_measured_on_the_same_ratings(shown, split, tmp_path):
    found = Page(write_report(shown, tmp_path / "report.html", test=split.test).read_text())
    assert found.values["notes"]["measured on"] == f"{len(split.test):,} ratings"
    for model, one in zip(found.values["models"], shown, strict=True):
        measures = model["story"]["measures"]
        assert measures.keys() == {"test"}  # not those of the artifacts beside them
        assert measures["test"]["rmse"] == pytest.approx(evaluate(one.recommender, split.test)["rmse"], rel=1e-5)
        popular = evaluate(Popular().fit(split.train), split.test, bootstrap=0)
        assert measures["test"]["popular"]["ndcg@10"] == pytest.approx(popular["ndcg@10"], rel=1e-5)
    reports = {one.name: evaluate(one.recommender, split.test) for one in shown}
    best = {verdict.purpose: verdict.best for verdict in find_best(reports | {"popular": popular})}
    for purpose in ("ratings", "lists"):
        assert found.values["notes"][f"best for {purpose}"].startswith(f"{best[purpose]} (")


@pytest.mark.skipif(find_spec("sklearn") is None, reason="needs the extra plot")
def test_maps_by_t_sne(shown, tmp_path):
    found = Page(write_report(shown, tmp_path / "report.html", method="tsne").read_text())
    assert found.values["models"][0]["map"]["method"] == "tsne"


def test_a_model_without_its_ratings(shown, tmp_path):
    """Nobody's list is shown, unless somebody is named."""
    artifact.save(shown[0].recommender, tmp_path / "model", with_ratings=False)
    bare = Shown("bare", artifact.load(tmp_path / "model"), artifact.read_manifest(tmp_path / "model"))
    (model,) = Page(write_report([bare], tmp_path / "report.html").read_text()).values["models"]
    assert model["lists"] == []
    assert len(model["map"]["x"]) == 40


def test_progress_is_reported(shown, tmp_path):
    heard = []
    write_report(shown, tmp_path / "report.html", users=[], observer=heard.append)
    assert [(one.phase, one.step, one.total) for one in heard] == [
        ("report on <als>", 0, 2),
        ("report on bias", 1, 2),
        ("report", 2, 2),
    ]


def test_an_earlier_report_is_replaced(shown, tmp_path):
    (tmp_path / "report.html").write_text("of yesterday")
    assert Page(write_report(shown[1:], tmp_path / "report.html").read_text()).title == "bias – tastespace"


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("", "is a folder; expected the name of a file"), ("no/such/report.html", "is in a folder that is not there")],
)
def test_a_place_where_no_file_can_be(shown, tmp_path, path, complaint):
    with pytest.raises(DataError, match=complaint):
        write_report(shown, tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_no_models_and_wrong_maps(shown, tmp_path):
    with pytest.raises(InvalidParameterError, match="there is no model to report on; expected at least one"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(InvalidParameterError, match="the map is 'umap'; expected one of pca, tsne"):
        write_report(shown, tmp_path / "report.html", method="umap")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_traceback(shown, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("the report before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="cannot write .*expected a place to write to"):
        write_report(shown[1:], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "the report before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_is_small(shown, tmp_path):
    assert write_report(shown, tmp_path / "report.html").stat().st_size < 400_000


def test_many_items_are_described_as_few_are():
    n = 2 * HANDFUL
    about = pl.DataFrame(
        {"year": range(n), "genres": [[f"g{row % 3}"] for row in range(n)], "share": [float("nan")] * n}
    )
    ratings = Ratings.from_arrays([0] * n, range(n), [1.0] * n).with_items(None, about)
    rows = np.arange(n, dtype=np.int32)[::-1].copy()
    many = attributes_of(ratings, rows)
    assert many == [attributes_of(ratings, rows[place : place + 1])[0] for place in range(n)]
    assert many[0] == {"year": n - 1, "genres": [f"g{(n - 1) % 3}"], "share": None}
    ids = ratings.items.at(np.append(rows, -1))
    assert ids.to_list() == [*rows.tolist(), None]
    assert ids.to_list()[:5] == ratings.items.at(rows[:5]).to_list()
