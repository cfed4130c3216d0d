"""Fixtures that tests of figures share."""

from __future__ import annotations

import pytest

from tastespace.report import plotting


@pytest.fixture
def _unrendered(monkeypatch):
    """For tests of files and words: rendering takes nine tenths of the time of a page."""
    monkeypatch.setattr(plotting, "to_svg", lambda figure: b"<svg/>")


@pytest.fixture
def figures(monkeypatch):
    """The figures as matplotlib has them, before they become bytes."""
    drawn = []
    monkeypatch.setattr(plotting, "to_svg", lambda figure: drawn.append(figure) or b"")
    return drawn
