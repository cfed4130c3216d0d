"""Figures and the page: everything that is drawn is also said in words and figures, and nothing is fetched."""

from __future__ import annotations

import base64
import re
from html import escape
from html.parser import HTMLParser
from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from tastespace import (
    DampedBias,
    GlobalMean,
    Popular,
    Ratings,
    compare_reports,
    evaluate,
    find_best,
    random_split,
    save,
    write_evaluation,
)
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError
from tastespace.evaluation.groups import LABELS
from tastespace.evaluation.resampling import Interval, display_name
from tastespace.evaluation.significance import Comparison, Comparisons
from tastespace.randomness import generator
from tastespace.report import plotting
from tastespace.report.evaluation_figures import differences_picture, errors_picture, lists_picture
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")


class Page(HTMLParser):
    """The images, tables and headings of a page, and whether every element that was opened was closed."""

    VOID = ("meta", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images, self.open, self.cells, self.headings = [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)
        self.headings += tag == "h2"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "caption"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def reports():
    split = random_split(tastes(150, 60, rng=generator(6))[0], 0.3, seed=0)
    models = {"bias": DampedBias(), "popular <&> all": Popular()}
    return {name: evaluate(model.fit(split.train), split, k=(3, 5)) for name, model in models.items()}


@pytest.fixture(scope="module")
def comparisons(reports):
    return compare_reports(*reports.values(), resamples=500)


@pytest.fixture(scope="module")
def written(reports, comparisons, tmp_path_factory):
    """The page of both models."""
    folder = tmp_path_factory.mktemp("page") / "new" / "folder"
    notes = {"test <file>": "a&b.csv", "seed": 7}
    return write_evaluation(reports, folder, comparisons=comparisons, notes=notes, verdicts=find_best(reports))


def test_the_page_has_every_figure_with_words_and_its_table(reports, comparisons, written):
    page = Page(written.read_text())
    assert page.open == []
    assert page.headings == len(page.images) == 6
    for image in page.images:
        assert len(image["alt"]) > 100
        svg = base64.b64decode(image["src"].removeprefix("data:image/svg+xml;base64,"))
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    for report in reports.values():
        assert f"{report['ndcg@3']:.4f} ({report.intervals['ndcg@3'].low:.4f}–" in "".join(page.cells)
    assert f"≤ {comparisons['mae'].p_value:.4f}" in page.cells
    assert page.cells.count("> 640") == 8  # errors and what was found, of two models, by users and items
    files = {f"{what}-by-{side}.svg" for what in ("errors", "found") for side in ("users", "items")}
    files |= {"lists.svg", "differences.svg", "evaluation.html"}
    assert {file.name for file in written.parent.iterdir()} == files


def test_the_summary_comes_first(reports, written):
    text = written.read_text()
    top = text[: text.index("<section>")]
    cells = Page(top + "</main></body></html>").cells
    columns = ["model", "RMSE", "MAE", "Kendall tau-b", "pairwise accuracy", "NDCG@3", "recall@3", "coverage@3"]
    columns.append("AUC")
    measures = ("rmse", "mae", "kendall_tau", "pairwise_accuracy", "ndcg@3", "recall@3", "coverage@3", "auc")
    assert cells[: len(columns) + 1] == ["Main measures", *columns]
    report = reports["bias"]
    assert cells[len(columns) + 1] == "bias"
    for measure, cell in zip(measures, cells[len(columns) + 2 :], strict=False):
        assert (
            cell == f"{report[measure]:.4f} ({report.intervals[measure].low:.4f}–{report.intervals[measure].high:.4f})"
        )
    assert len(cells) == 1 + len(columns) * 3
    assert f"<dt>test ratings</dt><dd>{report.n:,} ({report.cold:,} cold)</dd>" in top
    assert "<dt>test &lt;file&gt;</dt><dd>a&amp;b.csv</dd>" in top
    assert "<dt>seed</dt><dd>7</dd>" in top
    assert "<dt>relevant</dt><dd>liked, rated at least the user&#x27;s own mean</dd>" in top
    for verdict in find_best(reports):
        assert f"<p>{escape(str(verdict))}</p>" in top


@pytest.mark.usefixtures("_unrendered")
def test_a_model_without_lists_beside_one_with(reports, tmp_path):
    split = random_split(tastes(150, 60, rng=generator(6))[0], 0.3, seed=0)
    bare = evaluate(GlobalMean().fit(split.train), split, ranking=False, bootstrap=0)
    text = write_evaluation({"mean": bare, "bias": reports["bias"]}, tmp_path).read_text()
    known = (f"<td>{bare[name]:.4f}</td>" for name in ("rmse", "mae", "kendall_tau", "pairwise_accuracy"))
    assert f">mean</th>{''.join(known)}" + "<td>–</td>" * 4 in text


@pytest.mark.usefixtures("_unrendered")
def test_figures_of_an_earlier_run_do_not_stay(reports, comparisons, tmp_path):
    (tmp_path / "differences.svg").write_text("of somebody else")
    (tmp_path / "notes.svg").write_text("precious")
    one = {"bias": reports["bias"]}
    write_evaluation(one, tmp_path)
    assert (tmp_path / "differences.svg").read_text() == "of somebody else"  # there was no page: not ours
    write_evaluation(reports, tmp_path, comparisons=comparisons)
    split = random_split(tastes(50, 30, rng=generator(6))[0], 0.3, seed=0)
    bare = evaluate(GlobalMean().fit(split.train), split, ranking=False, bootstrap=0)
    write_evaluation({"mean": bare}, tmp_path)
    left = {"errors-by-users.svg", "errors-by-items.svg", "evaluation.html", "notes.svg"}
    assert {file.name for file in tmp_path.iterdir()} == left


@pytest.mark.usefixtures("_unrendered")
def test_the_folder_of_a_model_is_left_alone(reports, tmp_path):
    model = DampedBias().fit(tastes(20, 10, rng=generator(6))[0])
    save(model, tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))
    for folder in ("model", "model/figures"):
        with pytest.raises(DataError, match="model holds a model.*expected another folder for the figures"):
            write_evaluation(reports, tmp_path / folder)
    assert sorted(tmp_path.rglob("*")) == before
    save(model, tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"name": "of another program"}')
    assert write_evaluation(reports, tmp_path / "other").exists()


def test_no_word_is_written_across_the_line_of_zero(figures):
    """Small differences beside large ones, surely and not so surely different, to both sides."""
    rows = [
        Comparison(measure, 1.0 + value, 1.0, value, Interval(value - reach, value + reach), p_value, 9, 999)
        for measure, value, reach, p_value in (
            ("rmse", -0.01, 0.001, 0.001),
            ("mae", 0.01, 0.001, 0.001),
            ("ndcg@10", 0.7, 0.1, 0.001),
            ("recall@10", -0.8, 0.1, 0.001),
            ("precision@10", -0.001, 0.03, 0.9),
            ("map@10", 0.0, 0.0, 1.0),
        )
    ]
    differences_picture(Comparisons(tuple(rows)), "one", "other")
    (figure,) = figures
    figure.draw_without_rendering()
    (axes,) = figure.axes
    zero = axes.transData.transform((0, 0))[0]
    assert len(axes.texts) == len(rows)
    for text in axes.texts:
        box = text.get_window_extent()
        assert not box.x0 <= zero <= box.x1, text
        assert axes.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text


def test_nothing_is_fetched_from_elsewhere(written):
    text = written.read_text()
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "url(" not in text
    assert "<script" not in text


def test_names_of_models_are_no_markup(written):
    text = written.read_text()
    assert "<&>" not in text
    assert "popular &lt;&amp;&gt; all" in text


def test_the_same_bytes_every_time(reports, comparisons, written, tmp_path):
    notes = {"test <file>": "a&b.csv", "seed": 7}
    again = write_evaluation(reports, tmp_path, comparisons=comparisons, notes=notes, verdicts=find_best(reports))
    assert again.read_bytes() == written.read_bytes()


@pytest.mark.usefixtures("_unrendered")
def test_words_say_what_is_to_be_seen(reports, comparisons):
    alt = errors_picture(reports, "users").alt
    groups = [group for group in reports["bias"].groups["users"] if group.n]
    worst = max(groups, key=lambda group: group.measures["rmse"])
    assert f"bias: largest with {worst.label} training ratings ({worst.measures['rmse']:.3f})" in alt
    empty = [group.label for group in reports["bias"].groups["users"] if not group.n]
    assert f"No test ratings with {', '.join(empty)}." in alt
    assert f"NDCG from {reports['bias']['ndcg@3']:.3f} to {reports['bias']['ndcg@5']:.3f}" in lists_picture(reports).alt
    said = differences_picture(comparisons, "bias", "popular").alt
    for row in comparisons:
        if row.measure in ("rmse", "mae", "auc"):
            sure = row.p_value < 0.05
            verdict = "No sure difference" if not sure else "is better" if (row.difference < 0) else "is worse"
            if row.measure == "auc" and sure:
                verdict = "is better" if row.difference > 0 else "is worse"
            sentence = next(part for part in said.split(".") if verdict in part)
            assert display_name(row.measure) in sentence


@pytest.mark.usefixtures("_unrendered")
def test_one_model_has_no_legend_and_no_differences(reports, tmp_path):
    one = {"bias": reports["bias"]}
    assert len(Page(write_evaluation(one, tmp_path).read_text()).images) == 5
    assert not (tmp_path / "differences.svg").exists()


def test_reports_without_lists_or_groups_are_drawn_as_far_as_they_go(tmp_path):
    split = random_split(tastes(50, 30, rng=generator(6))[0], 0.3, seed=0)
    model = GlobalMean().fit(split.train)
    bare = evaluate(model, split, ranking=False, groups=False, bootstrap=0)
    assert Page(write_evaluation({"mean": bare}, tmp_path / "bare").read_text()).images == []
    rated = evaluate(
        model, split, {"own": lambda predicted, true: np.abs(predicted - true)}, ranking=False, bootstrap=0
    )
    assert "own by the number" in write_evaluation({"mean": rated}, tmp_path / "rated").read_text()


def test_a_test_without_relevant_ratings(tmp_path):
    train = Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 3], [5.0, 5, 5, 1])
    report = evaluate(Popular().fit(train), Ratings.from_arrays([1], [3], [1.0]))
    page = Page(write_evaluation({"popular": report}, tmp_path).read_text())
    assert len(page.images) == 2
    assert page.cells.count("empty") == 2 * 2 * (len(LABELS) - 1)


def test_bad_input(reports, comparisons, tmp_path, monkeypatch):
    with pytest.raises(InvalidParameterError, match="no report"):
        write_evaluation({}, tmp_path)
    with pytest.raises(InvalidParameterError, match="reports is Report; expected {name: report}"):
        write_evaluation(reports["bias"], tmp_path)
    with pytest.raises(InvalidParameterError, match="reports is list; expected {name: report}"):
        write_evaluation(list(reports.values()), tmp_path)
    with pytest.raises(InvalidParameterError, match="reports has DampedBias for 'bias'; expected names, and reports"):
        write_evaluation({"bias": DampedBias()}, tmp_path)
    with pytest.raises(InvalidParameterError, match="comparisons is Comparison; expected compare_reports' result"):
        write_evaluation(reports, tmp_path, comparisons=comparisons["rmse"])
    with pytest.raises(InvalidParameterError, match="one report"):
        write_evaluation({"bias": reports["bias"]}, tmp_path, comparisons=comparisons)
    (tmp_path / "file").write_text("precious")
    with pytest.raises(DataError, match="cannot make the folder"):
        write_evaluation(reports, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tastespace\[plot\]"):
        write_evaluation(reports, tmp_path / "never")
    assert not (tmp_path / "never").exists()
