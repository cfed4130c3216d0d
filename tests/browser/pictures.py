"""Pictures of the page: those that every run of the tests keeps, and those of the README.

    python tests/browser/pictures.py URL FOLDER [--user ID]

takes them of a service that runs; `make pictures` does so for the embedded data.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a program it is not found by pytest's paths
    sys.path.insert(0, str(Path(__file__).parents[1]))

from browser.looking import settled

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
ARGUMENTS += ["--no-first-run", "--disable-component-update", "--disable-sync"]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def answer_some(page: Any) -> None:
    """Five answers of a new person, so that there is something to see."""
    for place, stars in enumerate("44534"):
        page.keyboard.press(stars)
        page.get_by_role("heading", name=f"Your answers {place + 1}").wait_for()


def open_details(page: Any) -> None:
    page.locator(".card .title button").nth(1).click()
    page.locator(".near button").first.wait_for()


def wait_for_place(page: Any) -> None:
    page.locator(".kinds li").first.wait_for()


def nothing(page: Any) -> None:
    """The view as it opens."""


@dataclass(frozen=True)
class Shot:
    """One picture: what is opened, and done first."""

    name: str
    view: str
    act: Callable[[Any], None] = nothing
    dark: bool = False
    narrow: bool = False


SHOTS = (
    Shot("page-recommendations", "recommendations?user={user}"),
    Shot("page-details", "recommendations?user={user}&filters=1", open_details),
    Shot("page-person", "person", answer_some),
    Shot("page-map", "map?user={user}", wait_for_place),
    Shot("page-model", "model"),
    Shot("page-map-dark", "map?user={user}", wait_for_place, dark=True),
    Shot("page-narrow", "recommendations?user={user}", narrow=True),
)


def take(browser: Any, url: str, folder: Path, user: str) -> list[Path]:
    """All pictures, as PNG files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for shot in SHOTS:
        scheme = "dark" if shot.dark else "light"
        context = browser.new_context(
            viewport=NARROW if shot.narrow else WIDE, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(f"{url}#/{shot.view.format(user=user)}")
        settled(page, shot.view.partition("?")[0])
        shot.act(page)
        paths.append(folder / f"{shot.name}.png")
        page.screenshot(path=paths[-1])
        context.close()
    return paths


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--user", default="15")
    asked = parser.parse_args()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for path in take(browser, asked.url, asked.folder, asked.user):
            sys.stdout.write(f"{path}\n")
        browser.close()


if __name__ == "__main__":
    main()
