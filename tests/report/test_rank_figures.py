"""Figures of what is learned beside factors: ranks, precisions, curves; drawn, said in words, the same every time."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from tastespace import RankChoice, RankChoices, write_ranks
from tastespace.errors import DataError, MissingExtraError
from tastespace.models.factorization.empirical_bayes.posterior import Learning
from tastespace.models.factorization.empirical_bayes.sweep import Precisions
from tastespace.models.factorization.monotone.monotone import CurveList
from tastespace.report import plotting
from tastespace.report.rank_figures import curves_figure, learning_picture, pictures, write_curves, write_learning
from tastespace.selection.select_rank import RankTrace

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")

TRACE = RankTrace(np.linspace(2, 1, 30), np.repeat([1.0, 3.0], 15), np.ones(30), 10, 25)
JUMPS = RankChoice("reversible-jump", 3, 0.9, 1.5, posterior={3: 0.8, 4: 0.2}, trace=TRACE)
GRID = RankChoice("grid", 4, 0.91, 2.5, tried={2: 1.0, 4: 0.91}, trace=replace(TRACE, temperature=None, last=None))
BARE = RankChoice("ard", 4, 0.91, 2.5)


def test_files(tmp_path):
    paths = write_ranks(RankChoices((JUMPS, GRID), 90, 10), tmp_path / "new")
    assert [path.name for path in paths] == ["loss.svg", "posterior.svg"]
    before = [path.read_bytes() for path in paths]
    for content in before:
        assert ElementTree.fromstring(content).tag.endswith("svg")
    assert [path.read_bytes() for path in write_ranks(RankChoices((JUMPS, GRID), 90, 10), tmp_path / "new")] == before


def test_words():
    loss, posterior = pictures(RankChoices((JUMPS, GRID), 90, 10))
    assert "reversible-jump: from 2.000 to" in loss.alt
    assert "grid: from 2.000" in loss.alt
    assert posterior.alt.endswith("reversible-jump: 3 with probability 0.80.")


def test_only_what_there_is_to_draw():
    assert [picture.name for picture in pictures(RankChoices((GRID,), 90, 10))] == ["loss"]
    assert pictures(RankChoices((BARE,), 90, 10)) == []
    sure = replace(JUMPS, trace=None, posterior={50: 1.0})
    assert [picture.name for picture in pictures(RankChoices((sure,), 90, 10))] == ["posterior"]


def test_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="expected a folder"):
        write_ranks(RankChoices((JUMPS,), 90, 10), tmp_path / "file")


def learning(*, has_biases=True):
    biases = 1.0 if has_biases else 0.0
    final = Precisions(4.0, 9.0, 2.0 * biases, 3.0 * biases, 1.5)
    return Learning(np.exp(-np.arange(10)[:, None]) + final.array() * [1, 1, biases, biases, 1], final)


def test_learning_is_the_same_file_every_time(tmp_path):
    one, other = (write_learning(learning(), tmp_path / name) for name in ("one", "other"))
    assert [path.name for path in one] == ["learning.svg"]
    assert ElementTree.fromstring(one[0].read_bytes()).tag.endswith("svg")
    assert one[0].read_bytes() == other[0].read_bytes()


@pytest.mark.parametrize("has_biases", [True, False])
def test_every_precision_there_is_has_a_panel(has_biases, figures):
    picture = learning_picture(learning(has_biases=has_biases))
    titles = [axes.get_title(loc="left") for axes in figures[0].axes]
    # Precisions of 4 and 9, 2, 3 over that of the noise, 1.5, and its standard deviation: the figures of the table.
    expected = ["factors: 4", "user bias: 1.33", "item bias: 2", "noise sd: 0.816"]
    said = {row[0]: row[2] for row in learning(has_biases=has_biases).table().rows}
    assert [title for title in titles if title] == [f"{name}: {value}" for name, value in said.items()]
    assert [title for title in titles if title] == (expected if has_biases else [expected[0], expected[3]])
    assert "in 10 steps: factors from" in picture.alt
    assert "to 4" in picture.alt
    lines = figures[0].axes[0].lines
    assert any(len(line.get_xdata()) == 10 for line in lines)


def curves(n_levels=5, side="cluster"):
    levels = np.arange(1.0, n_levels + 1)
    ratings = np.vstack([np.where(np.isin(levels, levels[[0, -1]]), 40.0, 1.0), np.ones(n_levels)])
    ids = pl.Series(side, [1, 2])
    return CurveList(side, ids, np.array([1, 7]), levels, np.vstack([levels, np.sqrt(levels)]), ratings)


@pytest.mark.parametrize("n_levels", [1, 5, 30])
def test_every_curve_is_drawn_and_named(n_levels):
    left, right = curves_figure(curves(n_levels)).axes
    assert [line.get_label() for line in left.get_lines()[1:]] == [
        f"1 user, {80 / (80 + n_levels - 2) if n_levels > 1 else 1:.0%} extremes".replace("%", " %"),
        f"7 users, {2 / n_levels if n_levels > 1 else 1:.0%} extremes".replace("%", " %"),
    ]
    assert len(right.get_lines()) == 2
    np.testing.assert_allclose([sum(line.get_ydata()) for line in right.get_lines()], 100)


def test_curves_are_files(tmp_path):
    paths = [write_curves(curves(side="user"), tmp_path / name) for name in ("a.svg", "b.svg")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert ElementTree.fromstring(paths[0].read_bytes()).tag.endswith("svg")
    with pytest.raises(DataError, match=r"\.png"):
        write_curves(curves(), tmp_path / "curves.txt")


def test_without_the_extra_the_command_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="plot"):
        write_curves(curves(), tmp_path / "curves.svg")
