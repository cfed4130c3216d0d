"""The recommendations in a browser: cards, policies, filters, details, and all states of the list."""

from __future__ import annotations

import math
import re

import httpx2 as httpx
import pytest
from browser.conftest import films, site_of
from browser.looking import axe, go, settled, titles

from tastespace import Joint, artifact

PICKED = "section[aria-label='Picked for you']"


def changed(page, before: list[str]) -> list[str]:
    """The titles, once they are others."""
    for _ in range(300):
        if (now := titles(page)) and now != before and not page.locator("[aria-busy]").count():
            return now
        page.wait_for_timeout(50)
    raise AssertionError("the list has not changed")


def card_of(page, number: int = 0):
    return page.locator(f"{PICKED} .card").nth(number)


def answer_for(site, **wanted) -> dict:
    """What the service says to the same question."""
    body = {"user": "3", "n": 12, "rules": ["min-ratings:n=5"], **wanted}
    return httpx.post(f"{site.server.url}/recommendations", json=body).json()


def test_a_card_says_what_how_sure_and_why(page, site):
    go(page, site, "recommendations?user=3")
    answer = answer_for(site)
    assert titles(page) == [one["title"] for one in answer["items"]]
    entry, first = answer["items"][0], card_of(page)
    words = first.locator("svg.rating").get_attribute("aria-label")
    assert words.startswith(f"expected {min(5, entry['score']):.1f} stars; 9 in 10 chance: ")
    low, high = map(int, re.search(r"chance: (\d) to (\d) stars", words).groups())
    assert low == max(1, math.floor(entry["interval"][0]))  # outwards, to ratings that can be given
    assert high == min(5, math.ceil(entry["interval"][1]))
    liked = sum(share for level, share in entry["levels"].items() if float(level) >= answer["liked_from"])
    assert first.locator(".fact b").first.inner_text() == f"{100 * liked:.0f} %"
    assert re.search(r"(Like|Unlike) Film \d+", first.locator(".why").inner_text())
    assert "How it was found" not in page.locator("main").inner_text()
    axe(page)


def test_the_graphic_is_where_the_numbers_are(page, site):
    go(page, site, "recommendations?user=3")
    entry, graphic = answer_for(site)["items"][0], card_of(page).locator("svg.rating")

    def at(shape: str, side: str) -> float:
        return float(graphic.locator(shape).first.get_attribute(side).removesuffix("%"))

    assert at(".cap", "x1") == pytest.approx(3 + 94 * (entry["interval"][0] - 1) / 4, abs=0.01)
    assert at(".dot", "cx") == pytest.approx(3 + 94 * (min(5, entry["score"]) - 1) / 4, abs=0.01)


def test_first_cards_are_whole(open_page, site):
    for width, height in ((1280, 800), (390, 844)):
        page = open_page(viewport={"width": width, "height": height})
        go(page, site, "recommendations?user=3")
        page.locator("section[aria-label='Popular'] .card").first.wait_for()
        box = card_of(page).bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height - (58 if width < 640 else 0)
        if width == 1280:
            boxes = [card_of(page, place).bounding_box() for place in range(4)]
            assert all(one["x"] >= 0 and one["x"] + one["width"] <= width for one in boxes)
            facts = page.locator("section[aria-label='Popular'] .facts").first.bounding_box()
            assert facts["y"] + facts["height"] <= height
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_a_policy_changes_the_list_and_the_address(page, site):
    go(page, site, "recommendations")
    before = titles(page)
    page.get_by_label("Discover").check()
    changed(page, before)
    assert "policy=curious" in page.url
    assert "room for items we know little about" in page.locator("main").inner_text()
    page.reload()
    settled(page, "recommendations")
    assert page.get_by_label("Discover").is_checked()
    go(page, site, "recommendations?policy=likely")  # an address of an earlier release
    assert page.get_by_label("Best", exact=True).is_checked()


def test_what_is_chosen_and_liked_is_shown_with_the_rating(open_page, tmp_path):
    """The default model for stars: its score is no rating, and the cards show the rating all the same."""
    model = Joint(n_factors=3, chains=2, warmup=30, draws=30, seed=1, threads=1).fit(films())
    artifact.save(model, tmp_path / "joint")
    site, page = site_of(tmp_path / "joint", tmp_path / "state"), open_page()
    go(page, site, "recommendations?user=3")
    shown, first = model.recommend([3], rules=["min-ratings:n=5"]).uncertainty, card_of(page)
    words = first.locator("svg.rating").get_attribute("aria-label")
    assert words.startswith(f"expected {min(5, shown.expected_rating[0, 0]):.1f} stars")
    facts = first.locator(".fact").all_inner_texts()
    assert f"{100 * shown.liked_probability[0, 0]:.0f} %" in facts[0]
    assert re.match(r"You would choose it\s+(about|less than|almost)", facts[1])
    assert "for an average item that is" in first.locator(".fact").nth(1).get_attribute("title")
    assert "Best: what you would choose and like." in page.locator("main").inner_text()
    axe(page)
    site.end(page)


def test_filters_hold_and_are_in_the_address(page, site):
    go(page, site, "recommendations?user=3")
    before = titles(page)
    page.get_by_role("button", name="Filters").click()
    panel = page.get_by_role("region", name="Filters")
    panel.get_by_role("button", name="Horror").click()
    changed(page, before)
    assert all("Horror" in text for text in page.locator(f"{PICKED} .card .meta").all_inner_texts())
    assert "is_genres=Horror" in page.url
    axe(page)
    panel.get_by_label("year from").focus()
    before = titles(page)
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    changed(page, before)
    assert "from_year=1990" in page.url
    years = [int(text[:4]) for text in page.locator(f"{PICKED} .card .meta").all_inner_texts()]
    assert all(year >= 1990 for year in years)
    page.locator(".fits b").filter(has_text=re.compile(r"^\d+ items? fits?\.$")).wait_for()
    page.reload()
    settled(page, "recommendations")
    assert page.get_by_role("button", name="Filters · 2").is_visible()
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Filters", exact=True).wait_for()
    assert "is_genres" not in page.url


def test_when_nothing_fits_it_says_what_to_drop(page, site):
    go(page, site, "recommendations?user=3&is_genres=Horror&from_year=2019")
    page.get_by_role("heading", name="No item fits all filters").wait_for()
    page.get_by_role("button", name="Drop the year").click()
    card_of(page).wait_for()
    assert "from_year" not in page.url
    assert "is_genres=Horror" in page.url


def test_a_wrong_condition_is_reported_and_the_page_goes_on(page, site):
    go(page, site, "recommendations?user=3&filters=1")
    page.get_by_text("Write a condition").click()
    field = page.get_by_label("Condition")
    field.fill("genre = = 3")
    field.press("Enter")
    trouble = page.locator("#trouble")
    trouble.filter(has_text="expected").wait_for()
    page.complaints.clear()  # The browser itself logs that an answer was 422.
    field.fill("")
    field.press("Enter")
    card_of(page).wait_for()
    trouble.wait_for(state="hidden")


def test_an_unknown_user_gets_the_list_for_anybody(page, site):
    go(page, site, "recommendations?user=3")
    page.get_by_role("button", name="For user 3").click()
    page.get_by_label("Find a user").fill("nobody <b>here</b>")
    page.keyboard.press("Enter")
    page.get_by_text("We know nothing about this person yet").wait_for()
    assert page.get_by_role("button", name="For user nobody <b>here</b>").is_visible()


def test_users_are_suggested_and_their_ratings_shown(page, site):
    go(page, site, "recommendations")
    page.keyboard.press("/")
    page.keyboard.type("11")
    page.locator(".options button", has_text="11").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("For user 11")).wait_for()
    page.get_by_role("button", name="what this user rated").click()
    page.get_by_text(re.compile(r"\d+ of \d+, newest first")).wait_for()
    page.keyboard.press("Escape")
    page.locator("aside.details").wait_for(state="hidden")
    page.keyboard.press("/")
    page.locator(".options button", has_text="anybody").click()
    page.get_by_text("The list for anybody.").wait_for()


def test_details_explain_one_item_and_are_in_the_address(page, site):
    go(page, site, "recommendations?user=3")
    name = titles(page)[1]
    card_of(page, 1).locator(".title button").click()
    side = page.get_by_role("complementary", name=f"Details of {name}")
    for heading in ("How you might rate it", "Why it is uncertain", "What speaks for and against it", "Similar"):
        side.get_by_role("heading", name=heading).wait_for()
    share = re.search(r"(\d+) % is what we do not know yet", side.inner_text())
    assert 0 < int(share[1]) < 100
    side.locator(".near button").first.wait_for()
    axe(page)
    assert "item=" in page.url
    page.reload()
    settled(page, "recommendations")
    page.get_by_role("heading", name=name, level=2).wait_for()
    other = page.locator(".near button").first.inner_text()
    page.locator(".near button").first.click()
    page.get_by_role("heading", name=other, level=2).wait_for()
    page.keyboard.press("Escape")
    page.locator("aside.details").wait_for(state="hidden")
    assert "item=" not in page.url


def test_what_is_dismissed_stays_away_until_undone(page, site):
    go(page, site, "recommendations?user=5")
    names = titles(page)
    card_of(page).get_by_role("button", name="Not interested in").click()
    page.get_by_text(f"You will not see {names[0]} again.").first.wait_for()
    page.keyboard.press("Enter")  # The focus is on Undo.
    assert titles(page) == names
    card_of(page).locator(".title button").focus()
    page.keyboard.press("n")
    page.get_by_role("button", name="Undo").wait_for()
    page.reload()
    settled(page, "recommendations")
    assert names[0] not in titles(page)
    assert titles(page)[0] == names[1]


def test_arrows_and_letters_act_on_the_card_in_focus(page, site):
    go(page, site, "recommendations?user=3")
    names = titles(page)
    card_of(page).locator(".title button").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == names[1]
    page.keyboard.press("s")
    page.get_by_role("heading", name="Similar").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Similar"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == names[1]


def test_the_last_list_stays_while_the_service_is_down(open_page, film_model, tmp_path):
    site = site_of(film_model, tmp_path / "state")
    page = open_page()
    try:
        go(page, site, "recommendations?user=3")
        before = titles(page)
        site.server.kill()
        page.get_by_label("Safe bets").check()
        page.locator("#trouble").filter(has_text="does not answer").wait_for()
        assert titles(page) == before
        page.get_by_text("before the error").wait_for()
        page.locator("#answering.down").wait_for()
        site.server.start()
        page.locator("#trouble").wait_for(state="hidden")  # It tries again by itself.
        page.locator("#answering:not(.down)").wait_for()
        page.complaints.clear()  # The browser itself logs connections that were refused.
    finally:
        site.end(page)


def test_all_of_a_list_and_its_values_as_a_table(page, site):
    go(page, site, "recommendations?user=3")
    page.locator(PICKED).get_by_role("button", name="See all").click()
    page.locator(f"{PICKED} .card").nth(12).wait_for(state="attached")
    assert "all=1" in page.url
    page.locator(PICKED).get_by_text("As a table").click()
    table = page.locator(f"{PICKED} table")
    table.wait_for()
    assert table.locator("tbody tr").count() == len(titles(page))
    assert table.locator("thead").inner_text().split("\t")[1].strip() == "expected rating"
