"""A real browser, and real services of small models with a database each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from browser.pictures import ARGUMENTS
from service.server import Server

import tastespace as ts
from tastespace import artifact
from tastespace.data.ratings import Ratings
from tastespace.evaluation.retrieval import tune_index
from tastespace.randomness import generator
from tastespace.service.app import prepare
from tastespace.service.settings import Settings
from tastespace.testing.toys import gaussian

GENRES = ("Drama", "Comedy", "Horror", "Documentary")
WAIT = 30_000  # milliseconds: the machine may be busy


@dataclass(eq=False)
class Site:
    """A running service, as a browser sees it."""

    server: Server

    @property
    def url(self) -> str:
        return self.server.url.removesuffix("/v1") + "/"

    def end(self, page) -> None:
        """The page first: it would complain that nobody answers."""
        page.close()
        self.server.end()


def films(n_users: int = 120, n_items: int = 90) -> Ratings:
    """Stars of some users for films with titles, genres and years."""
    raw, _ = gaussian(n_users, n_items, density=0.5, noise=0.4, rng=generator(3))
    frame = pl.DataFrame({"user": raw.user_ids(), "item": raw.item_ids(), "rating": raw.values.round().clip(1, 5)})
    ratings = Ratings.from_frame(frame)
    items = ratings.items.ids.to_list()
    about = pl.DataFrame(
        {
            "genres": [
                [GENRES[item % 4], GENRES[(item // 4) % 4]] if item % 3 else [GENRES[item % 4]] for item in items
            ],
            "year": [1950 + item % 70 for item in items],
        }
    )
    return ratings.with_items(pl.Series("title", [f"Film {item}" for item in items]), about)


@pytest.fixture(scope="session")
def film_model(tmp_path_factory) -> Path:
    """Fitted with all that the page can show: measures, uneven noise; the index is chosen among few."""
    folder = tmp_path_factory.mktemp("models") / "films"
    split = ts.random_split(films(), 0.1, seed=0)
    model = ts.BPMF(n_factors=3, chains=2, warmup=30, draws=30, likelihood="heteroscedastic", seed=1, threads=1)
    model.fit(split.train)
    report = ts.evaluate(model, split.test, bootstrap=0)
    popular = ts.evaluate(ts.Popular().fit(split.train), split.test, {}, calibration=False, bootstrap=0)
    verdicts = [verdict.to_dict() for verdict in ts.find_best({"bpmf": report, "popular": popular})]
    averages = ts.evaluate(ts.DampedBias().fit(split.train), split.test, ["rmse"], bootstrap=0)
    beside = {"popular": popular.to_dict(), "averages": {"rmse": averages["rmse"]}, "verdicts": verdicts}
    measures = {"holdout": report.to_dict() | beside}
    artifact.save(model, folder, measures=measures)
    artifact.save_index(folder, tune_index(model, seconds=1, structures=["exact"], seed=0, threads=1))
    return folder


@pytest.fixture(scope="session")
def odd_model(tmp_path_factory) -> Path:
    """A model of points with nothing but odd titles, and a user who has rated two thousand things."""
    folder = tmp_path_factory.mktemp("models") / "odd"
    rng, n_items = generator(5), 2100
    pairs = [("many", item) for item in range(2000)]
    pairs += [(f"u{user}", int(item)) for user in range(30) for item in rng.integers(0, n_items, 40)]
    users, items = zip(*dict.fromkeys(pairs), strict=True)
    values = rng.integers(1, 6, len(users)).astype(float)
    ratings = Ratings.from_frame(pl.DataFrame({"user": users, "item": items, "rating": values}))
    odd = ["מלון גרנד בודפשט", "<img src=x onerror=alert(1)>", "A" * 400, "A very long title " * 20]
    odd += ["\u202eright to left"]
    titles = [odd[place % len(odd)] if place % 7 == 0 else f"Thing {place}" for place in range(ratings.n_items)]
    ratings = ratings.with_items(pl.Series("title", titles), None)
    artifact.save(ts.ALS(n_factors=3, regularization=0.05, seed=1, threads=1).fit(ratings), folder)
    return folder


@pytest.fixture(scope="session")
def bare_model(tmp_path_factory) -> Path:
    """Neither titles nor genres."""
    folder = tmp_path_factory.mktemp("models") / "bare"
    raw, _ = gaussian(40, 30, density=0.5, rng=generator(1))
    artifact.save(ts.BPMF(n_factors=2, chains=1, warmup=20, draws=40, seed=1, threads=1).fit(raw), folder)
    return folder


def site_of(model: Path, state: Path, **settings) -> Site:
    chosen = Settings(model=str(model), state=str(state), rate=0, **settings)
    prepare(chosen)
    return Site(Server(chosen))


@pytest.fixture(scope="session")
def site(film_model, tmp_path_factory):
    """The service that most tests look at; people they invent do not meet."""
    running = site_of(film_model, tmp_path_factory.mktemp("state"))
    yield running
    running.server.end()


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, or a skip that says what to install.

    Ended with each file of tests: as long as it runs, so does an event loop, and no other test may have one.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install --group test")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield running
        running.close()


class Complaints(list):
    """What the console said that it should not; requests that a test lets fail are expected."""

    def listen(self, page) -> None:
        page.on("console", lambda message: self.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.append(str(error)))


@pytest.fixture
def open_page(browser):
    """A way to open pages; at the end none may have complained."""
    contexts, complaints = [], Complaints()

    def open_one(**options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        context.set_default_timeout(WAIT)
        contexts.append(context)
        page = context.new_page()
        complaints.listen(page)
        page.complaints = complaints
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def page(open_page):
    return open_page()
