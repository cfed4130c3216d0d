"""The taste map in a browser: points, names, colours, likeness, a user's place; by pointer and by keys."""

from __future__ import annotations

import re

from browser.looking import axe, go

PAINTED = """canvas => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let place = 0; place < data.length; place += 4)
        if (data[place + 3] > 100) seen.add(data[place] + "," + data[place + 1] + "," + data[place + 2]);
    return seen.size;
}"""


def point_at_an_item(page) -> str:
    """Move over the map until a name shows."""
    box = page.locator(".map canvas").bounding_box()
    for row in range(1, 12):
        for column in range(1, 24):
            page.mouse.move(box["x"] + box["width"] * column / 24, box["y"] + box["height"] * row / 12)
            if page.locator(".tip").is_visible():
                return page.locator(".tip").inner_text()
    raise AssertionError("no item was found on the map")


def test_items_are_drawn_named_and_compared(page, site):
    go(page, site, "map")
    canvas = page.locator(".map canvas")
    assert canvas.evaluate(PAINTED) > 3  # more than one genre
    assert "90 items" in page.locator("main").inner_text()
    name = re.match(r"Film \d+", point_at_an_item(page))[0]
    page.mouse.down()
    page.mouse.up()
    side = page.locator("section[aria-label='What is meant']")
    side.get_by_role("heading", name="Most similar").wait_for()
    assert side.locator("h2").inner_text() == name
    assert side.locator("ol li").count() == 10
    side.locator("ol li button").first.focus()
    page.keyboard.press("Enter")
    side.locator("h2:focus").wait_for()
    side.locator("h2").filter(has_not_text=re.compile(f"^{name}$")).wait_for()
    page.get_by_label("Colour", exact=True).select_option("ratings")
    page.locator(".legend .scale").wait_for()
    page.get_by_text("As a table").click()
    page.get_by_role("columnheader", name="ratings").wait_for()
    axe(page)


def test_a_whole_title_is_found_before_longer_ones(page, site):
    go(page, site, "map")
    heading = page.locator("section[aria-label='What is meant'] h2")
    for title in ("Film 1", "film 7"):
        page.get_by_label("Find an item").fill(title)
        page.keyboard.press("Enter")
        heading.filter(has_text=re.compile(f"^{title}$", re.IGNORECASE)).wait_for()


def test_a_user_has_a_place_and_a_spread(page, site):
    go(page, site, "map")
    page.get_by_label("Show a user").fill("3")
    page.get_by_role("button", name="Show", exact=True).click()
    page.locator("#whereabouts").filter(has_text=re.compile(r"3 is at .* 90 % of the posterior draws")).wait_for()


def test_neighbours_together(page, site):
    go(page, site, "map")
    page.get_by_label("By", exact=True).select_option("tsne")
    page.get_by_text("Neighbours are kept together").wait_for()
    assert page.locator(".map canvas").evaluate(PAINTED) > 3


def test_keys_do_what_a_pointer_does(page, site):
    go(page, site, "map")
    canvas = page.locator(".map canvas")
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    canvas.focus()
    for key in ("+", "+", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    page.locator(".tip").wait_for()
    assert canvas.evaluate("canvas => canvas.toDataURL()") != before
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Most similar").wait_for()
    page.get_by_label("Find an item").fill("Film 17")
    page.get_by_label("Find an item").press("Enter")
    page.locator("section[aria-label='What is meant'] h2").filter(has_text="Film 17").wait_for()
    page.get_by_role("button", name="Whole map").click()
