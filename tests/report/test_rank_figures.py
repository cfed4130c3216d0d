"""Figures of a chosen rank: drawn, said in words, the same every time."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from tastespace import RankChoice, RankChoices, write_ranks
from tastespace.errors import DataError
from tastespace.report.rank_figures import pictures
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
