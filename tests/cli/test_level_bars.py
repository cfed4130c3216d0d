"""The distribution over levels as a bar of letters: by hand, merged where there are many, without blocks."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.cli import console
from tastespace.cli.console import BLOCKS, LETTERS, MAX_WIDTH, draw_bars


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(console, "can_print", lambda text: True)


def test_the_most_likely_level_is_the_highest():
    heading, drawn = draw_bars(np.array([[0.4, 0.2, 0.1, 0.3, 0.0], [0, 0, 0, 0, 1.0]]), ["1", "2", "3", "4", "5"])
    assert heading == "1 to 5"
    assert drawn == ["█▅▃▆▁", "▁▁▁▁█"]


def test_half_stars_and_zero_to_ten_have_a_letter_each():
    for names in ([f"{k / 2:g}" for k in range(1, 11)], [str(k) for k in range(11)]):
        heading, (drawn,) = draw_bars(np.arange(len(names), dtype=float)[None] / np.arange(len(names)).sum(), names)
        assert len(drawn) == len(names)
        assert heading == f"{names[0]} to {names[-1]}"


@pytest.mark.parametrize("n_levels", [13, 40, 101])
def test_many_levels_share_letters(n_levels):
    """Equally likely levels make an even bar, however they fall into groups; a single one shows where it is."""
    names = [str(k) for k in range(n_levels)]
    heading, (drawn,) = draw_bars(np.full((1, n_levels), 1 / n_levels), names)
    assert heading == f"0 to {n_levels - 1}"
    assert drawn == "█" * len(drawn)
    assert MAX_WIDTH / 2 < len(drawn) <= MAX_WIDTH
    _, single = draw_bars(np.eye(n_levels), names)
    places = [bar.index("█") for bar in single]
    assert places == sorted(places)
    assert set(places) == set(range(len(drawn)))


def test_letters_where_there_are_no_blocks(monkeypatch):
    monkeypatch.setattr(console, "can_print", lambda text: text != BLOCKS)
    _, (drawn,) = draw_bars(np.array([[0.4, 0.2, 0.1, 0.3, 0.0]]), ["1", "2", "3", "4", "5"])
    assert drawn == "".join(LETTERS[BLOCKS.index(letter)] for letter in "█▅▃▆▁")
    assert drawn.isascii()


def test_one_level_and_no_rows():
    assert draw_bars(np.ones((2, 1)), ["3"]) == ("3", ["█", "█"])
    assert draw_bars(np.ones((0, 5)), ["1", "2", "3", "4", "5"]) == ("1 to 5", [])
