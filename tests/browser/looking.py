"""What tests of the page have in common: how a view is opened, and how accessible it is."""

from __future__ import annotations

VIEWS = ("recommendations?user=3", "person", "map?user=3", "model")


def go(page, site, view: str) -> None:
    """Open a view and wait until it shows what it is about."""
    page.goto(f"{site.url}#/{view}")
    settled(page, view.partition("?")[0])


def settled(page, view: str) -> None:
    """Wait until a view has drawn what it was asked for."""
    page.locator("main h1").wait_for()
    if view == "recommendations":
        page.locator(".list .card:not(.skeleton *), .empty, #trouble button").first.wait_for()
        page.locator("[aria-busy]").wait_for(state="detached")
    elif view == "person":
        page.locator(".question h2").wait_for()
        page.locator(".your-list .ranked").wait_for()
    elif view == "map":
        page.locator(".map canvas").wait_for(timeout=120_000)  # made for the first time
    elif view == "model":
        page.locator("#part-data").wait_for()


def violations(page) -> list[tuple[str, list[str]]]:
    """What axe-core finds, serious or not."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:150] for node in one["nodes"]][:3]) for one in found]


def titles(page, of: str = "Picked for you") -> list[str]:
    return page.locator(f"section[aria-label='{of}'] .card .title").all_inner_texts()


def axe(page) -> None:
    found = violations(page)
    assert not found, found
