"""Users in a browser: the list of a user, with policies and filters; a new user who answers questions."""

from __future__ import annotations

import re

import httpx2 as httpx
from browser.looking import axe, go, settled

# a new user


def answered(page, n: int) -> None:
    page.get_by_role("heading", name=f"Your ratings ({n})").wait_for()


def rate(page, stars: str) -> None:
    page.locator(".question .stars").first.get_by_role("button", name=re.compile(f"^{stars} for")).click()


def guest_of(page) -> str:
    return re.search(r"guest-\d+", page.locator("main").inner_text())[0]


def width(page) -> float:
    return float(page.locator("#width").inner_text())


def test_five_answers_narrow_the_intervals(page, site):
    go(page, site, "person")
    axe(page)
    assert page.get_by_role("heading", name="Default list").is_visible()
    before, unsure = width(page), float(page.locator("#sd").inner_text())
    first = page.locator("ol.cards").inner_text()
    for place, stars in enumerate(("5", "1", "4", "2", "5")):
        asked = page.locator(".question .title").inner_text()
        rate(page, stars)
        answered(page, place + 1)
        assert page.locator(".question .title").first.inner_text() != asked  # another question
    assert width(page) < before
    assert float(page.locator("#sd").inner_text()) < unsure
    assert page.locator("ol.cards").inner_text() != first
    assert "Because of what you said" in page.locator("ol.cards").inner_text()
    page.locator("figure", has_text="Uncertainty after each answer").locator("svg.main-svg").first.wait_for()
    stored = httpx.get(f"{site.server.url}/users/{guest_of(page)}/ratings").json()
    assert [one["rating"] for one in reversed(stored["ratings"])] == [5, 1, 4, 2, 5]
    axe(page)


def test_answers_are_there_after_a_reload_can_be_undone_and_deleted(page, site):
    go(page, site, "person")
    user = guest_of(page)
    rate(page, "4")
    answered(page, 1)
    rate(page, "2")
    answered(page, 2)
    page.reload()
    settled(page, "person")
    answered(page, 2)
    # At once after an answer it is that one which is taken back, though the page does not show it yet.
    page.evaluate("""() => {
        document.querySelector(".question .stars button:last-child").click();
        [...document.querySelectorAll("button")].find((one) => one.textContent === "Undo the last").click();
    }""")
    page.locator("#status").filter(has_text="Undone.").wait_for(state="attached")
    answered(page, 2)
    page.get_by_role("button", name="Undo the last").focus()
    page.keyboard.press("Enter")
    answered(page, 1)
    page.locator("section[aria-label='Your ratings'] h2:focus").wait_for()  # whoever uses keys goes on there
    stored = httpx.get(f"{site.server.url}/users/{user}/ratings").json()
    assert [one["rating"] for one in stored["ratings"]] == [4]
    page.get_by_role("button", name="Delete all").click()
    answered(page, 0)
    assert httpx.get(f"{site.server.url}/users/{user}/ratings").json()["total"] == 0
    assert guest_of(page) != user


def test_what_one_does_not_know_is_not_asked_again(page, site):
    go(page, site, "person")
    skipped = set()
    for _ in range(3):
        asked = page.locator(".question .title").first.inner_text()
        assert asked not in skipped
        skipped.add(asked)
        page.get_by_role("button", name="I do not know it").click()
        page.locator(".question .title").first.filter(has_not_text=asked).wait_for()
    answered(page, 0)


def test_one_can_rate_what_one_has_in_mind(page, site):
    go(page, site, "person")
    page.get_by_label("Or search for something to rate").fill("film 42")
    page.get_by_role("button", name="5 for Film 42", exact=True).click()
    answered(page, 1)
    assert "Film 42" in page.locator("section[aria-label='Your ratings']").inner_text()
