"""What the page must not do: ask other sites, move under the eye, or keep people waiting on a slow machine."""

from __future__ import annotations

from urllib.parse import urlsplit

import polars as pl
import pytest
from browser.conftest import site_of
from browser.looking import VIEWS, go

import tastespace as ts
from tastespace import artifact
from tastespace.data.ratings import Ratings
from tastespace.randomness import generator

SHIFTS = """
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
            if (!entry.hadRecentInput) {
                const moved = entry.sources.map((one) => `${one.node?.className || one.node?.nodeName}`);
                window.shifts.push([entry.value, moved.join(", ")]);
            }
        }
    }).observe({ type: "layout-shift", buffered: true });
"""
MAX_SHIFT = 0.02  # of the viewport, in all; a tenth is called good (web.dev/cls)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_asked_elsewhere_and_nothing_moves(open_page, site, view, width):
    page = open_page(viewport={"width": width, "height": 844 if width < 640 else 800})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(SHIFTS)
    go(page, site, view)
    page.wait_for_timeout(1500)
    own = urlsplit(site.url).netloc
    assert asked
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {own}
    shifts = page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) <= MAX_SHIFT, shifts


@pytest.fixture(scope="module")
def large_site(tmp_path_factory):
    """200 000 items, few of them rated often, with genres."""
    rng, n_items, n = generator(2), 200_000, 300_000
    items = (n_items * rng.random(n) ** 4).astype(int)
    frame = pl.DataFrame({"user": rng.integers(0, 3000, n), "item": items, "rating": rng.integers(1, 6, n) * 1.0})
    frame = pl.concat(
        [frame, pl.DataFrame({"user": [3001] * n_items, "item": range(n_items), "rating": [3.0] * n_items})]
    )
    ratings = Ratings.from_frame(frame.unique(["user", "item"], maintain_order=True))
    ids = ratings.items.ids.to_list()
    about = pl.DataFrame(
        {"genres": [[f"Genre {item % 40}"] for item in ids], "year": [1900 + item % 120 for item in ids]}
    )
    ratings = ratings.with_items(pl.Series("title", [f"Book {item}" for item in ids]), about)
    folder = tmp_path_factory.mktemp("large") / "model"
    model = ts.ALS(n_factors=4, regularization=0.1, max_iter=2, seed=1, threads=1)
    artifact.save(model.fit(ratings), folder)
    running = site_of(folder, tmp_path_factory.mktemp("large-state"))
    yield running
    running.server.end()


@pytest.mark.slow
def test_two_hundred_thousand_items(open_page, large_site):
    page = open_page(viewport={"width": 1280, "height": 800})
    for view in ("recommendations?user=5", "recommendations?user=5&is_genres=Genre 7&filters=1", "person", "model"):
        go(page, large_site, view)
        assert page.locator("#trouble").is_hidden()
    go(page, large_site, "map?user=5&method=pca")
    assert (
        "rated 20 times or more" in page.locator("main").inner_text()
        or "10,000 items" in page.locator("main").inner_text()
    )


@pytest.mark.parametrize("title", ["It", "A" * 200, "מלון גרנד בודפשט", "Æon Flux (2005)"])
def test_ten_items_with_odd_titles(open_page, tmp_path, title):
    rng = generator(1)
    frame = pl.DataFrame({"user": [n // 8 for n in range(160)], "item": [n % 8 + (n // 80) * 2 for n in range(160)]})
    frame = frame.with_columns(rating=pl.Series(rng.integers(1, 6, 160) * 1.0))
    ratings = Ratings.from_frame(frame)
    ratings = ratings.with_items(pl.Series("title", [title] * ratings.n_items), None)
    artifact.save(
        ts.BPMF(n_factors=2, chains=1, warmup=20, draws=80, seed=1, threads=1).fit(ratings), tmp_path / "model"
    )
    site, page = site_of(tmp_path / "model", tmp_path / "state"), open_page(viewport={"width": 390, "height": 844})
    try:
        for view in ("recommendations?user=3", "person", "map?method=pca&user=3", "model"):
            go(page, site, view)
            assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
            assert page.locator("#trouble").is_hidden()
        go(page, site, "recommendations?user=3")
        head, tile = page.locator(".card .card-head").first.bounding_box(), page.locator(".card").first.bounding_box()
        assert head["x"] + head["width"] <= tile["x"] + tile["width"]
    finally:
        site.end(page)


def test_implicit_feedback_has_no_stars(open_page, tmp_path):
    rng = generator(4)
    frame = pl.DataFrame({"user": rng.integers(0, 60, 1500), "item": rng.integers(0, 50, 1500)}).unique(
        maintain_order=True
    )
    model = ts.ImplicitALS(n_factors=3, seed=1, threads=1).fit(Ratings.from_frame(frame))
    artifact.save(model, tmp_path / "model")
    site, page = site_of(tmp_path / "model", tmp_path / "state"), open_page()
    try:
        go(page, site, "recommendations?user=3")
        assert page.locator("svg.rating").count() == 0
        assert "★" not in page.locator("main").inner_text()
        assert "Because you chose" in page.locator("main").inner_text()
        for view in ("map?user=3&method=pca", "model"):
            go(page, site, view)
            assert page.locator("#trouble").is_hidden()
        page.goto(f"{site.url}#/person")
        page.locator(".your-list .ranked").wait_for()
    finally:
        site.end(page)
