"""The model in a browser: its map, its description, the report from a file; and pictures of every view."""

from __future__ import annotations

import warnings
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from browser.conftest import films, site_of
from browser.looking import axe, draw_all, go
from browser.pictures import SHOTS, take

import tastespace as ts
from tastespace import artifact
from tastespace.data.ratings import Ratings
from tastespace.errors import ConvergenceWarning
from tastespace.randomness import generator
from tastespace.report.model_page import Shown, write_report
from tastespace.service.promises.records import JudgedRow, Records
from tastespace.service.store import Store

# its description


HEADINGS = (
    "Promises",
    "Fitted on",
    "Accuracy",
    "Accuracy by group",
    "Calibration",
    "Noise: erratic raters, divisive items",
    "Search",
    "Inference",
)
FIGURES = ("RMSE by users", "RMSE by items", "Intervals", "Probability integral transform")
FIGURES += (
    "Error by predicted uncertainty",
    "RMSE by items",
    "Intervals",
    "Probability integral transform",
    "Error by predicted uncertainty",
)
FIGURES += (
    "Raters by how erratic they are",
    "Items by how much they divide opinion",
    "noise sd",
    "log joint",
    "Trials",
)


def test_all_that_there_is_to_know_is_shown(page, site):
    go(page, site, "model")
    assert page.locator("main h2").all_inner_texts() == list(HEADINGS)
    draw_all(page)
    shown = page.locator("figure h3").all_inner_texts()
    assert set(FIGURES) <= set(shown)
    assert page.locator("figure").count() == page.locator("figure details").count()
    for place in range(page.locator("figure details").count()):
        twin = page.locator("figure details").nth(place)
        twin.locator("summary").click()
        twin.locator("tbody tr").first.wait_for()
    metrics = page.get_by_role("table", name="Metrics on held-out ratings")
    assert metrics.locator("th[scope=col]").all_inner_texts() == ["metric", "bpmf (holdout)", "popular (holdout)"]
    assert not metrics.get_by_text("object").count()
    assert page.get_by_text("best for lists: ").count() == 1
    assert page.get_by_role("table", name="Convergence").locator("tbody tr").count() >= 5
    # Other tests of this session may have stored ratings.
    kept = page.get_by_role("table", name="How ratings turned out")
    assert page.get_by_text("No rating has been stored since").count() + kept.count() == 1
    assert page.get_by_role("table", name="Erratic raters").locator("tbody tr").count() == 10
    axe(page)


@pytest.mark.parametrize("has_drift", [False, True])
def test_promises_are_shown_as_they_are_kept(page, film_model, tmp_path, has_drift):
    shown = site_of(film_model, tmp_path / "state")
    try:
        model = artifact.read_manifest(film_model)["model"]
        with closing(Store(f"sqlite:///{tmp_path / 'state' / 'ratings.db'}")) as store:
            version = store.activation().version
            rng = generator(5)
            pits = np.concatenate([rng.random(300), rng.random(300) ** (4 if has_drift else 1)])
            now = datetime.now(UTC)
            rows = [
                JudgedRow(f"u{n}", "1", version, now, 3.0, 3.5, pit=float(pit), is_covered=n % 10 > 0, crps=0.4)
                for n, pit in enumerate(pits)
            ]
            Records(store).add_judged(rows)
        assert version.startswith(model)
        go(page, shown, "model")
        kept = page.get_by_role("table", name="How ratings turned out")
        kept.wait_for()
        cells = {
            row.locator("th").inner_text(): row.locator("td").inner_text() for row in kept.locator("tbody tr").all()
        }
        assert cells["ratings"] == cells["users"] == "600"
        assert any(text.startswith("0.900 (0.8") for text in cells.values())  # coverage, and its interval
        told = (
            page.get_by_text("It is time to retrain it") if has_drift else page.get_by_text("no sign of drift in 600")
        )
        assert told.count() == 1
        axe(page)
    finally:
        shown.end(page)


# the report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    stars = films(60, 40)
    frame = pl.DataFrame(
        {"user": stars.user_ids(), "item": stars.item_ids(), "rating": (stars.values >= 3).astype(float)}
    )
    split = ts.random_split(Ratings.from_frame(frame), 0.2, seed=0)
    shown = []
    for likelihood in ("probit", "logistic"):
        model = ts.BPMF(n_factors=2, likelihood=likelihood, chains=1, warmup=10, draws=20, seed=1, threads=1)
        folder = tmp_path_factory.mktemp("models") / likelihood
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # Short: what is shown of it is looked at here.
            artifact.save(model.fit(split.train), folder)
        shown.append(Shown(likelihood, artifact.load(folder), artifact.read_manifest(folder)))
    return write_report(shown, tmp_path_factory.mktemp("report") / "report.html", test=split.test)


def test_two_models_side_by_side(page, report):
    page.goto(report.as_uri())
    page.get_by_role("heading", name="Calibration").wait_for()
    draw_all(page)
    figure = page.locator("figure", has=page.get_by_role("heading", name="Yes and no"))
    assert figure.locator(".scatterlayer .trace").count() == 3  # the line of what is right, and two models
    figure.locator("summary").click()
    figure.locator("tbody tr").first.wait_for()
    assert figure.locator("tbody tr").count() == 10
    assert "probit: predicted" in figure.locator("thead").inner_text()
    for name in ("probit", "logistic"):
        assert page.get_by_text(name).first.is_visible()
    axe(page)


# pictures


FOLDER = Path(__file__).parents[2] / "build" / "screenshots"


def test_pictures_are_taken(browser, site):
    paths = take(browser, site.url, FOLDER, "3")
    assert len(paths) == len(SHOTS)
    assert all(path.stat().st_size > 10_000 for path in paths)  # An empty page is smaller.
