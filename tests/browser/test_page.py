"""The whole page: by keyboard, in dark colours, on a narrow screen, with an API key, and without an answer."""

from __future__ import annotations

import re

import pytest
from browser.conftest import films, site_of
from browser.looking import VIEWS, axe, go, settled, titles
from browser.test_users import answered, rate

import tastespace as ts
from tastespace import artifact


def test_keys_alone_are_enough(page, site):
    go(page, site, "recommendations?user=3")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    before = titles(page)
    for _ in range(30):
        if page.evaluate("document.activeElement.name") == "policy":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.get_by_text("room for items we know little about").wait_for()
    page.locator("[aria-busy]").wait_for(state="detached")
    assert page.get_by_label("Discover").is_checked()
    assert len(titles(page)) == len(before)
    go(page, site, "person")
    for _ in range(30):
        if re.match(r"^4 stars for", page.evaluate("document.activeElement.getAttribute('aria-label')") or ""):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answered(page, 1)
    # The focus stays in the question, so that the next answer is near.
    assert page.evaluate("document.activeElement.closest('.question') !== null")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    answered(page, 2)


@pytest.mark.parametrize("view", VIEWS)
def test_dark_and_then_narrow(open_page, site, view):
    page = open_page(color_scheme="dark")
    go(page, site, view)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(light) < 60
    axe(page)
    page.set_viewport_size({"width": 375, "height": 740})
    for _ in range(100):  # Figures follow in a moment.
        if page.evaluate("document.scrollingElement.scrollWidth") <= 375:
            break
        page.wait_for_timeout(50)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 375
    axe(page)


def test_colours_can_be_chosen(page, site):
    go(page, site, "model")
    page.locator("#theme-button").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    settled(page, "model")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def locked_site(model, folder, scope):
    """A service for whoever has the key of forty k."""
    keys = folder / "keys.toml"
    keys.write_text(f'[[key]]\nname = "somebody"\nscope = "{scope}"\nsecret = "{"k" * 40}"\n')
    return site_of(model, folder / "state", keys=str(keys))


def test_a_key_is_asked_for(open_page, film_model, tmp_path):
    locked = locked_site(film_model, tmp_path, "write")
    page = open_page()
    try:
        page.goto(locked.url)
        page.get_by_text("send an API key").wait_for()
        page.locator("#key").fill("wrong" * 8)
        page.keyboard.press("Enter")
        page.get_by_text("the API key is unknown").wait_for()
        page.locator("#key").fill("k" * 40)
        page.keyboard.press("Enter")
        page.locator(".card").first.wait_for()
        page.complaints.clear()  # The browser itself logs every 401.
    finally:
        locked.end(page)


def test_a_browser_that_keeps_nothing_is_enough(page, site):
    page.add_init_script(
        "for (const kind of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, kind, { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    go(page, site, "person")
    rate(page, "4")
    answered(page, 1)
    page.locator("#theme-button").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_view_that_comes_late_does_not_show(page, site):
    def slowly(route):
        page.wait_for_timeout(700)
        route.continue_()

    page.route("**/v1/model/story", slowly)
    page.goto(f"{site.url}#/model")
    page.get_by_role("link", name="Recommendations").click()
    page.locator(".card").first.wait_for()
    page.wait_for_timeout(1200)
    assert page.locator("main h1").inner_text() == "For"


def test_after_the_skip_link_a_reload_shows_the_same(page, site):
    go(page, site, "recommendations?user=3")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.reload()
    page.get_by_role("button", name="For user 3").wait_for()


def test_nothing_is_lost_while_the_service_is_down(open_page, film_model, tmp_path):
    site = site_of(film_model, tmp_path / "state")
    page = open_page()
    try:
        go(page, site, "person")
        rate(page, "5")
        answered(page, 1)
        site.server.kill()
        rate(page, "3")
        page.locator("#trouble").filter(has_text="does not answer").wait_for()
        page.get_by_text("not stored yet").wait_for()
        rate(page, "1")  # the same question: the last word counts
        page.get_by_text("1 ★ – not stored yet").wait_for()
        page.get_by_role("button", name=re.compile("^Take back ")).last.click()
        page.get_by_text("not stored yet").wait_for(state="detached")  # Who takes something back sees it, also now.
        rate(page, "3")
        page.get_by_text("3 ★ – not stored yet").wait_for()
        page.get_by_role("link", name="Recommendations").click()
        page.locator("#trouble").filter(has_text="does not answer").wait_for()
        page.get_by_role("link", name="New person").click()
        site.server.start()
        page.reload()
        settled(page, "person")
        answered(page, 2)
        page.complaints.clear()  # The browser itself logs connections that were refused.
    finally:
        site.end(page)


def test_odd_titles_many_ratings_and_a_model_of_points(open_page, odd_model, tmp_path):
    site = site_of(odd_model, tmp_path / "state")
    page = open_page(viewport={"width": 375, "height": 740})
    try:
        go(page, site, "recommendations?user=many")
        assert "gives no uncertainty" in page.locator("main").inner_text()
        assert "0 %" not in page.locator("main").inner_text()  # It is said, not shown as 0.
        page.goto(f"{site.url}#/recommendations?user=many&panel=rated")
        page.reload()
        page.get_by_text("100 of 2,000, newest first").wait_for()
        page.get_by_role("button", name="More").click()
        page.get_by_text("200 of 2,000, newest first").wait_for()
        page.keyboard.press("Escape")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 375
        assert page.locator("main img").count() == 0
        axe(page)
        page.get_by_role("link", name="New").click()
        page.get_by_role("heading", name="Rate something").wait_for()
        page.get_by_label("Rate another item").fill("גרנד")
        page.locator(".question .found li").first.wait_for()
        assert page.locator(".question .found li span[dir=auto]").first.inner_text() == "מלון גרנד בודפשט"
        page.get_by_role("link", name="Map").click()
        page.locator(".map canvas").wait_for()
        page.get_by_label("Find an item").fill("A" * 400)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Most like it").wait_for()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 375
        page.get_by_role("link", name="Model").click()
        page.get_by_role("heading", name="Not measured: fit with --holdout 0.1").wait_for()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 375
    finally:
        site.end(page)


def test_without_titles_genres_or_ratings(open_page, bare_model, tmp_path):
    site = site_of(bare_model, tmp_path / "state")
    page = open_page()
    try:
        for view in ("recommendations?user=3", "recommendations?user=new", "person", "map?user=nobody", "model"):
            go(page, site, view)
            assert page.locator("#trouble").is_hidden()
            assert "null" not in page.locator("main").inner_text()
        go(page, site, "recommendations?user=3")
        assert all(re.match(r"Item \d+", title) for title in titles(page))
        go(page, site, "map?user=nobody")
        page.locator("#whereabouts").filter(has_text="nobody has no ratings yet").wait_for(timeout=120_000)
    finally:
        site.end(page)


def test_an_empty_database_and_a_model_without_its_ratings(open_page, film_model, tmp_path):
    """Nothing was ever stored, and the model does not know what it was trained on."""
    artifact.save(artifact.load(film_model), tmp_path / "model", with_ratings=False)
    site = site_of(tmp_path / "model", tmp_path / "state")
    page = open_page()
    try:
        go(page, site, "recommendations?user=3")
        assert page.locator(".card").count() >= 10
        assert "Nobody has rated" not in page.locator("main").inner_text()
        page.get_by_role("link", name="New person").click()
        page.get_by_role("heading", name="Rate something").wait_for()
        page.get_by_label("Rate another item").fill("Film 12")
        page.get_by_role("button", name="5 stars for Film 12").click()
        answered(page, 1)
        page.get_by_role("heading", name="Your list now").wait_for()
        page.get_by_role("link", name="Taste map").click()
        page.get_by_role("heading", name="Taste map", level=1).wait_for()
        page.get_by_role("link", name="Model", exact=True).click()
        page.locator("#part-data").wait_for()
        assert page.locator("#trouble").is_hidden()
    finally:
        site.end(page)


def test_scores_that_are_no_ratings_are_called_so(open_page, tmp_path):
    """Counts of raters are not cut to five stars."""
    artifact.save(ts.Popular().fit(films()), tmp_path / "model")
    site = site_of(tmp_path / "model", tmp_path / "state")
    page = open_page()
    try:
        go(page, site, "recommendations?user=3")
        picked = page.locator("section[aria-label='Picked for you']")
        shown = [float(text) for text in picked.locator(".card .big").all_inner_texts()]
        assert min(shown) > 5
        assert shown == sorted(shown, reverse=True)
        assert page.locator("svg.rating").count() == 0
        assert "score" in picked.locator(".rated-as").first.inner_text()
    finally:
        site.end(page)


def test_a_key_that_may_only_read_sees_everything(open_page, film_model, tmp_path):
    locked = locked_site(film_model, tmp_path, "read")
    page = open_page()
    try:
        page.goto(f"{locked.url}#/person")
        page.get_by_text("send an API key").wait_for()
        page.locator("#key").fill("k" * 40)
        page.keyboard.press("Enter")
        settled(page, "person")
        rate(page, "4")
        page.locator("#trouble").filter(has_text="this needs write").wait_for()
        page.reload()
        settled(page, "person")  # The answer waits, and the view is there all the same.
        page.get_by_text("4 ★ – not stored yet").wait_for()
        page.locator("#trouble").filter(has_text="this needs write").wait_for()
        page.complaints.clear()  # The browser itself logs every 401 and 403.
    finally:
        locked.end(page)


def test_what_the_model_thinks_of_a_user_is_found_by_looking(page, site):
    """What somebody who was told nothing reads off the page: what, why, how sure, and whether the model is any good."""
    page.goto(site.url)
    settled(page, "recommendations")
    page.locator(".pick").click()
    page.locator(".options button").first.click()
    page.get_by_role("heading", name="Picked for you").wait_for()
    page.get_by_text(re.compile(r"taste known to ±\d\.\d\d stars")).wait_for()  # how sure of the person
    card = page.locator(".card").first
    words = card.inner_text()
    assert re.search(r"^\d\.\d$", words, re.MULTILINE)  # what
    assert "9 in 10 chance: " in words  # how sure
    assert re.search(r"(like it|either way)\s+\d+ %", words)
    assert re.search(r"(Like|Unlike|Rated by)", words)  # why
    card.locator(".title button").click()
    page.get_by_text("is what we do not know yet about you").wait_for()
    page.keyboard.press("Escape")
    page.locator("#answering").click()
    page.locator("#part-data").wait_for()
    assert re.match(r"(Good|No better|Not)", page.locator("main h1").inner_text())  # whether it is any good
    assert "its typical error is" in page.locator("main").inner_text()


def test_the_routes_are_described(page, site):
    page.goto(f"{site.url}docs")
    page.get_by_role("heading", name="tastespace").wait_for()
    described = page.evaluate("fetch('openapi.json').then((answer) => answer.json())")
    n_routes = sum(len(methods) for methods in described["paths"].values())
    assert page.locator(".route").count() == n_routes
    page.get_by_text("GET /v1/items", exact=True).click()
    parameters = page.get_by_role("table", name="Parameters of GET /v1/items")
    parameters.wait_for()
    for name in ("search", "where", "not_rated_by", "order"):
        assert parameters.locator("th", has_text=name).count() == 1
    page.get_by_text("POST /v1/recommendations", exact=True).click()
    page.get_by_role("table", name="Request of POST /v1/recommendations").wait_for()
    axe(page)
