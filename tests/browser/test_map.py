"""The taste map in a browser: items, names, what one person thinks of them; by pointer and by keys."""

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
PICTURE = "canvas => canvas.toDataURL()"


def point_at_an_item(page) -> str:
    """Move over the map until a name shows."""
    box = page.locator(".map canvas").bounding_box()
    for row in range(1, 12):
        for column in range(1, 24):
            page.mouse.move(box["x"] + box["width"] * column / 24, box["y"] + box["height"] * row / 12)
            if page.locator(".tip").is_visible():
                return page.locator(".tip").inner_text()
    raise AssertionError("no item was found on the map")


def chosen(page):
    return page.get_by_role("region", name="Chosen item")


def test_items_are_drawn_named_and_compared(page, site):
    go(page, site, "map?method=pca")
    canvas = page.locator(".map canvas")
    assert canvas.evaluate(PAINTED) > 3
    assert "90 items" in page.locator("main").inner_text()
    name = re.match(r"Film \d+", point_at_an_item(page))[0]
    page.mouse.down()
    page.mouse.up()
    card = chosen(page)
    card.get_by_role("heading", name="Most like it").wait_for()
    assert card.locator("h2").inner_text() == name
    assert card.locator("li").count() == 5
    assert "item=" in page.url
    other = card.locator("li button").first.inner_text()
    card.locator("li button").first.focus()
    page.keyboard.press("Enter")
    card.locator("h2:focus").filter(has_text=re.compile(f"^{other}$")).wait_for()
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    assert "item=" not in page.url
    page.get_by_text("As a table").click()
    page.get_by_role("columnheader", name="ratings").wait_for()
    axe(page)


def test_a_whole_title_is_found_before_longer_ones(page, site):
    go(page, site, "map?method=pca")
    for title in ("Film 1", "film 7"):
        page.locator(".map canvas").focus()
        page.keyboard.press("/")
        page.keyboard.type(title)
        page.keyboard.press("Enter")
        chosen(page).locator("h2").filter(has_text=re.compile(f"^{title}$", re.IGNORECASE)).wait_for()


def test_a_person_is_on_the_map(page, site):
    go(page, site, "map?method=pca")
    empty = page.locator(".map canvas").evaluate(PICTURE)
    page.get_by_label("Whose taste").fill("3")
    page.keyboard.press("Enter")
    page.get_by_text("The ellipse holds the person’s place with a probability of 90 %.").wait_for()
    legend = page.locator(".kinds").inner_text()
    assert re.search(r"liked \(\d stars or more\)", legend)
    counts = [int(number) for number in page.locator(".kinds b").all_inner_texts()]
    stored = page.evaluate("fetch('v1/users/3/ratings?limit=1').then((answer) => answer.json())")["total"]
    assert sum(counts[:-1]) == stored
    assert counts[-1] == 8  # recommended
    assert page.locator(".map canvas").evaluate(PICTURE) != empty
    assert "user=3" in page.url
    page.get_by_label("Find an item").fill("film 12")
    page.locator(".find .options button").first.click()
    chosen(page).locator("svg.rating").wait_for()  # what we expect of this person
    assert "9 in 10 chance" in chosen(page).inner_text()
    axe(page)


def test_neighbours_are_together(page, site):
    go(page, site, "map")
    page.get_by_text("Close together: liked by the same people.").wait_for(timeout=120_000)  # t-SNE on two busy cores
    assert page.locator(".map canvas").evaluate(PAINTED) > 3
    page.get_by_label("Main directions").check()
    page.get_by_text("The two main directions").wait_for()
    assert "method=pca" in page.url


def test_genres_are_highlighted_three_at_most(page, site):
    go(page, site, "map?method=pca")
    before = page.locator(".map canvas").evaluate(PICTURE)
    group = page.get_by_role("group", name="Highlight")
    for name in ("Drama", "Comedy", "Horror", "Documentary"):
        group.get_by_role("button", name=name).click()
    assert group.locator("[aria-pressed=true]").count() == 3
    page.wait_for_timeout(100)
    assert page.locator(".map canvas").evaluate(PICTURE) != before
    assert page.url.count("is=") == 3


def test_keys_do_what_a_pointer_does(page, site):
    go(page, site, "map?method=pca")
    canvas = page.locator(".map canvas")
    before = canvas.evaluate(PICTURE)
    canvas.focus()
    for key in ("+", "+", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    page.locator(".tip").wait_for()
    assert re.match(r"Film \d+, \d+ ratings", page.locator(".map [role=status]").inner_text())
    assert canvas.evaluate(PICTURE) != before
    page.keyboard.press("Enter")
    chosen(page).get_by_role("heading", name="Most like it").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    page.keyboard.press("0")
    page.get_by_role("button", name="Whole map").click()
