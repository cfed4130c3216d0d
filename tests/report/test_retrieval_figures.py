"""The picture of a tuned index: everything tried is in it, the choice marked, the same bytes every time."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tastespace.errors import DataError
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import Target, Trial
from tastespace.index.tuner import Tuned
from tastespace.report.retrieval_figures import retrieval_figure, write_retrieval


def trial(structure, accuracy, speedup, acceptance=1.0):
    return Trial(structure, structure, {}, accuracy, acceptance, 20, 15, speedup, speedup / 2, 100 / speedup, 0.1, 10)


def tuned(worst=(10, 10, 12, 40), trials=None, **target):
    trials = trials or (
        trial("exact", 1.0, 2.0),
        trial("inverted-file", 0.5, 9.0, 0.7),
        trial("inverted-file", 0.6, 4.0, 0.9),
        trial("inverted-file", 0.9, 6.0),
        trial("reduced graph", 0.99, 0.4),
        trial("something new", 0.8, 5.0),
    )
    return Tuned(
        index=Exact().build(np.eye(2, dtype=np.float32)),
        chosen=trial("inverted-file", 0.91, 5.9),
        curve=trials,
        target=Target(**target),
        nearest=None,
        is_complete=True,
        n_choosing=4,
        n_held_out=len(worst),
        worst_positions=np.array(worst),
        seconds=1.0,
    )


def lines(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


def test_structures_have_lines_through_their_best_and_the_choice_an_asterisk():
    left, middle, right = retrieval_figure(tuned(accuracy=0.9)).axes
    drawn = lines(left)
    assert drawn["inverted-file"] == ([0.5, 0.9], [9.0, 6.0])  # (0.6, 4) is beaten in both
    assert drawn["reduced graph"] == ([0.99], [0.4])
    assert drawn["something new"] == ([0.8], [5.0])
    star = next(line for line in left.get_lines() if line.get_marker() == "*")
    assert (list(star.get_xdata()), list(star.get_ydata())) == ([0.91], [5.9])
    assert drawn["target"][0] == [0.9, 0.9]
    assert "target" not in lines(middle)
    assert sum(bar.get_height() for bar in right.patches) == 4
    low, high = left.get_ylim()
    assert low < 0.4
    assert high > 9


def test_a_target_of_acceptance_is_in_the_other_panel():
    figure = retrieval_figure(tuned(acceptance=0.99))
    left, middle, _ = figure.axes
    assert "target" not in lines(left)
    assert lines(middle)["target"][0] == [0.99, 0.99]
    assert "target" in [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("worst", [(10,), (10, 10, 10), (10, 5000), (3, 3)], ids=str)
def test_any_worst_suggestions_can_be_drawn(worst):
    right = retrieval_figure(tuned(worst=worst, accuracy=0.9)).axes[2]
    assert sum(bar.get_height() for bar in right.patches) == len(worst)
    assert f"the largest {max(worst):,}" in right.get_title(loc="left")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_files(tmp_path, suffix):
    path = write_retrieval(tuned(accuracy=0.9), tmp_path / f"curve.{suffix}")
    assert path.stat().st_size > 1000


def test_the_same_bytes_every_time(tmp_path):
    first, again = (write_retrieval(tuned(accuracy=0.9), tmp_path / f"{name}.svg") for name in "ab")
    assert first.read_bytes() == again.read_bytes()


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(DataError, match="expected a name with"):
        write_retrieval(tuned(accuracy=0.9), tmp_path / "curve")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match="this is a folder"):
        write_retrieval(tuned(accuracy=0.9), tmp_path / "folder.png")
