"""Users in a browser: the list of a user, with policies and filters; a new user who answers questions."""

from __future__ import annotations

import re

import httpx2 as httpx
from browser.conftest import films, site_of
from browser.looking import axe, go, settled, titles

from tastespace import Joint, artifact


def test_a_card_says_what_how_sure_and_why(page, site):
    go(page, site, "recommendations?user=3")
    cards = page.locator("ol.cards .card")
    assert cards.count() == 10
    first = cards.first
    assert re.match(r"Film \d+ \(\d{4}\)", first.locator(".title").inner_text())
    assert first.locator(".chips li").count() >= 1
    words = first.locator(".bar").get_attribute("aria-label")
    expected, low, high = map(float, re.findall(r"\d+\.\d+", words))
    assert 1 <= low < expected < high <= 5
    assert "probability of the top" not in first.inner_text()  # only on request
    assert "Because of the ratings" in page.locator("ol.cards").inner_text()
    first.locator("summary", has_text="How it was found").click()
    assert "Every item was looked at." in first.inner_text()
    axe(page)


def test_the_bar_is_where_the_numbers_are(page, site):
    go(page, site, "recommendations?user=3")
    bar = page.locator(".bar").first
    expected, low, high = map(float, re.findall(r"\d+\.\d+", bar.get_attribute("aria-label")))
    box, wide, middle = bar.bounding_box(), bar.locator(".wide").bounding_box(), bar.locator(".middle").bounding_box()

    def share(x):
        return (x - box["x"]) / box["width"]

    assert abs(share(wide["x"]) - (low - 1) / 4) < 0.02
    assert abs(share(wide["x"] + wide["width"]) - (high - 1) / 4) < 0.02
    assert abs(share(middle["x"] + middle["width"] / 2) - (expected - 1) / 4) < 0.02


def test_a_policy_changes_the_list_for_all_to_see(page, site):
    go(page, site, "recommendations")  # Of anybody little is sure.
    before = titles(page)
    page.get_by_label("Exploratory").check()
    page.locator("#summary").filter(has_text=re.compile(r"new in the list|same items")).wait_for()
    assert titles(page) != before
    assert page.locator(".move").count() > 0
    assert "policy=curious" in page.url
    page.reload()
    page.locator("ol.cards .card").first.wait_for()
    assert page.get_by_label("Exploratory").is_checked()


def test_what_is_chosen_and_liked_is_shown_with_the_rating(open_page, tmp_path):
    """The default model for stars: its score is no rating, and the cards show the rating all the same."""
    model = Joint(n_factors=3, chains=2, warmup=30, draws=30, seed=1, threads=1).fit(films())
    artifact.save(model, tmp_path / "joint")
    site, page = site_of(tmp_path / "joint", tmp_path / "state"), open_page()
    go(page, site, "recommendations?user=3")
    ranking = model.recommend([3], uncertainty=True)
    shown, first = ranking.uncertainty, page.locator("ol.cards .card").first
    words = first.locator(".bar").get_attribute("aria-label")
    assert words.startswith(f"expected {shown.expected_rating[0, 0]:.2f}, 90 % of ratings from ")
    chosen, liked = (round(100 * share[0, 0]) for share in (shown.chosen_probability, shown.liked_probability))
    assert f"chosen: {chosen} % · liked: {liked} %" in first.inner_text()
    assert "score" not in first.inner_text()
    base = first.get_by_text("chosen:").get_attribute("title")
    assert base == f"Among the next choices; {100 * shown.base_rate:.1f} % for an average item."
    assert first.get_by_text("liked:").get_attribute("title") == f"A rating of at least {shown.liked_from[0]:.2f}."
    assert "By what the user would choose and like." in page.locator("main").inner_text()
    axe(page)
    page.get_by_label("Rating", exact=True).check()
    page.locator("#summary").filter(has_text=re.compile(r"new in the list|same items")).wait_for()
    assert "policy=rating" in page.url
    ids = model.recommend([3], policy="rating").item_ids
    assert [int(re.match(r"Film (\d+)", title)[1]) for title in titles(page)] == list(ids)
    site.end(page)


def test_filters_hold(page, site):
    go(page, site, "recommendations?user=3")
    page.get_by_label("genres").select_option("Horror")
    page.locator("#summary").filter(has_text=re.compile(r"new in the list|same items")).wait_for()
    cards = page.locator("ol.cards .card")
    assert all("Horror" in card.inner_text() for card in cards.all())
    page.get_by_label("year from").fill("2000")
    page.get_by_label("year from").press("Enter")
    page.wait_for_timeout(100)
    page.locator("[aria-busy]").wait_for(state="detached")
    years = [int(re.search(r"\((\d{4})\)", text)[1]) for text in titles(page)]
    assert all(year >= 2000 for year in years)
    page.get_by_label("year up to").fill("1900")
    page.get_by_label("year up to").press("Enter")
    page.locator("#summary").filter(has_text="No item matches: relax the filters.").wait_for()


def test_a_wrong_condition_is_reported_and_the_page_goes_on(page, site):
    go(page, site, "recommendations?user=3")
    page.get_by_label("other condition").fill("genre = = 3")
    page.get_by_label("other condition").press("Enter")
    trouble = page.locator("#trouble")
    trouble.filter(has_text="expected").wait_for()
    page.complaints.clear()  # The browser itself logs that an answer was 422.
    page.get_by_label("other condition").fill("")
    page.get_by_label("other condition").press("Enter")
    page.locator("ol.cards .card").first.wait_for()
    trouble.wait_for(state="hidden")


def test_an_unknown_user_gets_the_default_list(page, site):
    go(page, site, "recommendations?user=3")
    page.get_by_label("User", exact=True).fill("nobody <b>here</b>")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("nobody <b>here</b> has no ratings yet").first.wait_for()
    assert page.locator("main b").count() == 0


def test_users_are_suggested_and_their_ratings_shown(page, site):
    go(page, site, "recommendations")
    page.get_by_label("User", exact=True).fill("11")
    page.locator("datalist#users option[value='11']").wait_for(state="attached")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("Ratings of 11").click()
    page.get_by_text(re.compile(r"\d+ of \d+ ratings, newest first")).wait_for()


def test_similar_items_are_named(page, site):
    go(page, site, "recommendations?user=3")
    page.get_by_role("button", name=re.compile("Similar to Film")).first.click()
    page.get_by_text(re.compile(r"Similar: Film \d+;")).wait_for()


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
