"""The figure of a regularisation that was learned."""

from __future__ import annotations

from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from tastespace.models.factorization.empirical_bayes.posterior import Learning
from tastespace.models.factorization.empirical_bayes.sweep import Precisions
from tastespace.report import plotting
from tastespace.report.rank_figures import learning_picture, write_learning

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")


def made_up(*, has_biases=True):
    biases = 1.0 if has_biases else 0.0
    final = Precisions(4.0, 9.0, 2.0 * biases, 3.0 * biases, 1.5)
    return Learning(np.exp(-np.arange(10)[:, None]) + final.array() * [1, 1, biases, biases, 1], final)


def test_the_file_is_the_same_every_time(tmp_path):
    one, other = (write_learning(made_up(), tmp_path / name) for name in ("one", "other"))
    assert [path.name for path in one] == ["learning.svg"]
    assert ElementTree.fromstring(one[0].read_bytes()).tag.endswith("svg")
    assert one[0].read_bytes() == other[0].read_bytes()


@pytest.mark.parametrize("has_biases", [True, False])
def test_every_precision_there_is_has_a_panel(has_biases, monkeypatch):
    figures = []
    monkeypatch.setattr(plotting, "to_svg", lambda figure: figures.append(figure) or b"")
    picture = learning_picture(made_up(has_biases=has_biases))
    titles = [axes.get_title(loc="left") for axes in figures[0].axes]
    expected = ["factors: 6", "user bias: 2", "item bias: 3", "noise: 1.5"]
    assert [title for title in titles if title] == (expected if has_biases else [expected[0], expected[3]])
    assert "in 10 steps: factors from" in picture.alt
    assert "to 6" in picture.alt
    lines = figures[0].axes[0].lines
    assert any(len(line.get_xdata()) == 10 for line in lines)
