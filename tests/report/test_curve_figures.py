"""The picture of curves: one line a curve, named by who has it, the same bytes every time."""

from __future__ import annotations

from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from tastespace.errors import DataError, MissingExtraError
from tastespace.models.factorization.monotone.curve_list import CurveList
from tastespace.report import plotting
from tastespace.report.rank_figures import curves_figure, write_curves


def shown(n_levels=5, side="cluster"):
    levels = np.arange(1.0, n_levels + 1)
    ratings = np.vstack([np.where(np.isin(levels, levels[[0, -1]]), 40.0, 1.0), np.ones(n_levels)])
    ids = pl.Series(side, [1, 2])
    return CurveList(side, ids, np.array([1, 7]), levels, np.vstack([levels, np.sqrt(levels)]), ratings)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
@pytest.mark.parametrize("n_levels", [1, 5, 30])
def test_every_curve_is_drawn_and_named(n_levels):
    left, right = curves_figure(shown(n_levels)).axes
    assert [line.get_label() for line in left.get_lines()[1:]] == [
        f"1 user, {80 / (80 + n_levels - 2) if n_levels > 1 else 1:.0%} extremes".replace("%", " %"),
        f"7 users, {2 / n_levels if n_levels > 1 else 1:.0%} extremes".replace("%", " %"),
    ]
    assert len(right.get_lines()) == 2
    np.testing.assert_allclose([sum(line.get_ydata()) for line in right.get_lines()], 100)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_files(tmp_path):
    paths = [write_curves(shown(side="user"), tmp_path / name) for name in ("a.svg", "b.svg")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert ElementTree.fromstring(paths[0].read_bytes()).tag.endswith("svg")
    with pytest.raises(DataError, match=r"\.png"):
        write_curves(shown(), tmp_path / "curves.txt")


def test_without_the_extra_the_command_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="plot"):
        write_curves(shown(), tmp_path / "curves.svg")
