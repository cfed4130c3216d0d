"""Figures of calibration: what is drawn is said in words, and stands in a table beside it."""

from __future__ import annotations

from importlib.util import find_spec
from xml.etree import ElementTree

import pytest
from evaluation.uncertain import Oracle, drawn

from tastespace import DampedBias, compare_reports, evaluate, write_evaluation
from tastespace.randomness import generator
from tastespace.report.evaluation_figures import confidence_picture, coverage_picture, pit_picture
from tastespace.report.plotting import LOOKS

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
NAMES = ("coverage", "pit", "confidence")


@pytest.fixture(scope="module")
def reports():
    split = drawn(60, 12, generator(5))
    models = {"bias": DampedBias(), "right": Oracle(), "too <sure>": Oracle(sd_factor=0.5)}
    return {name: evaluate(model.fit(split.train), split, k=3, bootstrap=50) for name, model in models.items()}


@pytest.fixture(scope="module")
def page(reports, tmp_path_factory):
    comparisons = compare_reports(*list(reports.values())[1:], resamples=50)
    return write_evaluation(reports, tmp_path_factory.mktemp("page"), comparisons=comparisons)


@pytest.fixture(scope="module")
def sure(reports):
    return {name: report.calibration for name, report in reports.items() if report.calibration is not None}


LOOK_OF = {"bias": 0, "right": 1, "too <sure>": 2}


def test_the_page_has_the_figures_with_their_tables(reports, page):
    text = page.read_text()
    for name in NAMES:
        assert ElementTree.parse(page.with_name(f"{name}.svg")).getroot().tag.endswith("svg")
    found = reports["right"].calibration
    low, high = found.intervals["coverage_90"]
    assert f"<td>{found['coverage_90']:.4f} ({low:.4f}–{high:.4f})</td>" in text
    assert "<caption>right: Calibration: how many test ratings lie in their intervals</caption>" in text
    assert "<caption>too &lt;sure&gt;: Errors by confidence, the most certain tenth first</caption>" in text
    assert "<caption>bias: Calibration" not in text
    assert "<caption>right: Calibration by the number of training ratings of the items</caption>" in text
    assert text.count("<p>PIT: mean ") == 2  # the note of the table
    assert '<th scope="row">0.95–1.00</th>' in text
    assert ">CRPS</th>" in text
    assert "<td>–</td><td>–</td>" in text  # of the model without scores


@pytest.mark.usefixtures("_unrendered")
def test_without_sure_models_there_are_none_and_earlier_ones_go(reports, tmp_path):
    write_evaluation(reports, tmp_path)
    assert all((tmp_path / f"{name}.svg").exists() for name in NAMES)
    text = write_evaluation({"bias": reports["bias"]}, tmp_path).read_text()
    assert not any((tmp_path / f"{name}.svg").exists() for name in NAMES)
    assert "CRPS" not in text


@pytest.mark.usefixtures("_unrendered")
def test_words_say_what_is_to_be_seen(sure):
    alt = coverage_picture(sure, LOOK_OF).alt
    found = sure["right"]
    assert f"right: {100 * found['coverage_50']:.1f} % in intervals of 50 %, " in alt
    assert f"hold from {100 * found['coverage_90']:.1f} % (11-20 training ratings)" in alt
    alt = pit_picture(sure, LOOK_OF).alt
    assert f"too <sure>: mean {sure['too <sure>']['pit_mean']:.3f} (0.5 is right)" in alt
    assert f"{max(sure['too <sure>'].pit) * 20:.2f} times." in alt
    alt = confidence_picture(sure, LOOK_OF).alt
    assert f"right: {found.confidence[0].measures['rmse']:.3f} for the most certain ratings (0-10 %)" in alt
    assert f"{found.confidence[-1].measures['rmse']:.3f} for the least certain (90-100 %)." in alt


def test_a_model_looks_the_same_in_all_figures(sure, figures):
    """Also where another one, which is not sure of anything, is left out."""
    for draw in (coverage_picture, confidence_picture):
        draw(sure, LOOK_OF)
    for figure in figures:
        lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
        for name in sure:
            colour, marker = LOOKS[LOOK_OF[name]]
            assert (lines[name].get_color(), lines[name].get_marker()) == (colour, marker)


def test_what_is_drawn_is_what_was_found(sure, figures):
    for draw in (coverage_picture, pit_picture, confidence_picture):
        draw(sure, LOOK_OF)
    coverage, pit, confidence = figures
    found = sure["right"]
    lines = {line.get_label(): line for line in coverage.axes[0].get_lines()}
    assert list(lines["right"].get_xdata()) == [0.5, 0.8, 0.9, 0.95]
    assert list(lines["right"].get_ydata()) == [found[f"coverage_{share}"] for share in (50, 80, 90, 95)]
    assert [bar.get_height() / 20 for bar in pit.axes[0].patches] == pytest.approx(found.pit)
    lines = {line.get_label(): line for line in confidence.axes[0].get_lines()}
    assert list(lines["right"].get_ydata()) == [tenth.measures["rmse"] for tenth in found.confidence]


def test_without_groups_and_intervals(tmp_path):
    split = drawn(20, 5, generator(5), levels=False)
    model = Oracle(with_levels=False).fit(split.train)
    report = evaluate(model, split, ranking=False, groups=False, bootstrap=0)
    text = write_evaluation({"right": report}, tmp_path).read_text()
    assert text.count("<img") == 3
    assert ">expected</th>" not in text  # on a continuous scale it is what the interval is called


def test_the_same_bytes_every_time(sure, page):
    for draw in (coverage_picture, pit_picture, confidence_picture):
        picture = draw(sure, LOOK_OF)
        assert picture.svg == page.with_name(f"{picture.name}.svg").read_bytes()
