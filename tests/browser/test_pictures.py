"""Pictures of every view are kept in build/screenshots, whatever the outcome of a run, and look like something."""

from __future__ import annotations

from pathlib import Path

from browser.pictures import SHOTS, take

FOLDER = Path(__file__).parents[2] / "build" / "screenshots"


def test_pictures_are_taken(browser, site):
    paths = take(browser, site.url, FOLDER, "3")
    assert len(paths) == len(SHOTS)
    assert all(path.stat().st_size > 10_000 for path in paths)  # An empty page is smaller.
