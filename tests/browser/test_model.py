"""The model in a browser: its verdict, what proves it, the report from a file; and pictures of every view."""

from __future__ import annotations

import re
import shutil
import warnings
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from browser.conftest import films, site_of
from browser.looking import axe, go
from browser.pictures import SHOTS, take

import tastespace as ts
from tastespace import artifact
from tastespace.data.ratings import Ratings
from tastespace.errors import ConvergenceWarning
from tastespace.randomness import generator
from tastespace.report.model_page import Shown, write_report
from tastespace.service.promises.records import JudgedRow, Records
from tastespace.service.store import Store

# the view


def test_a_verdict_comes_first_and_figures_prove_it(page, site, film_model):
    go(page, site, "model")
    story = artifact.read_manifest(film_model)["measures"]["holdout"]
    title = page.locator("main h1").inner_text()
    assert re.match(r"Good|No better|Not ready", title)
    assert f"its typical error is {story['rmse']:.2f} stars" in page.locator(".said").inner_text()
    gain = 1 - story["rmse"] / story["averages"]["rmse"]
    assert (
        f"{abs(100 * gain):.0f} % {'less' if gain > 0 else 'more'} than with averages"
        in page.locator(".said").inner_text()
    )
    shown = page.locator(".kpi").all_inner_texts()
    assert f"{story['rmse']:.3f}" in shown[0]
    assert f"tick: averages, {story['averages']['rmse']:.3f}" in shown[0]
    assert f"{story['ndcg@10']:.3f}" in shown[1]
    assert f"tick: popular first, {story['popular']['ndcg@10']:.3f}" in shown[1]
    cover = story["calibration"]["measures"]
    assert f"{100 * cover['coverage_90']:.1f} %" in shown[2]
    assert f"it expected {100 * cover['expected_90']:.1f} %" in shown[2]
    parts = page.locator(".parts button").all_inner_texts()
    assert [text.split("\n")[0] for text in parts] == [
        *("Accuracy", "Calibration", "Chains", "Noise", "Index", "Live", "Versions", "Data")
    ]
    axe(page)


def test_every_figure_has_its_values_as_a_table(page, site):
    go(page, site, "model")
    titles = page.locator(".figure h3").all_inner_texts()
    assert titles[:2] == ["By person", "By item"]
    assert {"Expected and observed coverage", "Where ratings fell (PIT)", "Stated uncertainty and actual error"} <= set(
        titles
    )
    assert {"People", "Items"} <= set(titles)
    assert page.locator(".figure").count() == page.locator(".figure svg.chart").count()
    for figure in page.locator(".figure").all():
        figure.locator("summary").click()
        figure.locator("tbody tr").first.wait_for()
    assert page.locator(".trace h3").count() >= 6
    page.locator("#part-chains > details > summary").click()
    page.get_by_role("table", name="Convergence").wait_for()
    assert page.get_by_role("table", name="Convergence").locator("tbody tr").count() >= 5
    page.get_by_text("All measures").click()
    page.get_by_role("table", name="All measures on held-out ratings").wait_for()
    head = page.get_by_role("table", name="All measures on held-out ratings").locator("th[scope=col]").all_inner_texts()
    assert head == ["measure", "model", "averages", "popular"]
    axe(page)


def test_the_list_of_parts_goes_there(page, site):
    go(page, site, "model")
    page.locator(".parts button", has_text="Versions").click()
    assert page.evaluate("document.activeElement.textContent") == "Versions"
    assert "part=versions" in page.url
    assert page.locator("#part-versions h2").bounding_box()["y"] < 800


def test_versions_are_swapped_after_a_second_click(open_page, film_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(film_model, folder)
    site, page = site_of(folder, tmp_path / "state"), open_page()
    try:
        go(page, site, "model?part=versions")
        first = page.locator(".since b").inner_text()
        artifact.save(artifact.load(film_model), folder, measures={})
        page.get_by_role("button", name="Load the model on disk").click()
        page.get_by_role("button", name="Click again to load it").click()
        page.locator(".note", has_text="answers now.").wait_for()
        assert page.locator(".since b").inner_text() != first
        assert page.locator("main h1").inner_text() == "Not measured: fit with --holdout 0.1"
        page.get_by_role("button", name="Go back to this").click()
        page.get_by_role("button", name="Click again to go back").click()
        page.locator(".since b").filter(has_text=first).wait_for()
    finally:
        site.end(page)


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
        assert cells["ratings"] == cells["people"] == "600"
        assert any(text.startswith("0.900 (0.8") for text in cells.values())  # coverage, and its interval
        told = (
            page.get_by_text("It is time to retrain it") if has_drift else page.get_by_text("No sign of drift in 600")
        )
        assert told.count() == 1
        assert "90.0 %" in page.locator(".kpi", has_text="Live coverage").inner_text()
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
    page.get_by_role("heading", name="Side by side").wait_for()
    assert page.get_by_role("table", name="Verdicts").locator("tbody tr").count() == 2
    figures = page.locator(".figure", has=page.get_by_role("heading", name="Yes and no"))
    assert figures.count() == 2
    figures.first.locator("summary").click()
    figures.first.locator("tbody tr").first.wait_for()
    assert figures.first.locator("tbody tr").count() == 10
    for name in ("probit", "logistic"):
        assert page.locator(".which", has_text=name).is_visible()
    assert page.locator(".map canvas").count() == 2
    axe(page)


# pictures


FOLDER = Path(__file__).parents[2] / "build" / "screenshots"


def test_pictures_are_taken(browser, site):
    paths = take(browser, site.url, FOLDER, "3")
    assert len(paths) == len(SHOTS)
    assert all(path.stat().st_size > 10_000 for path in paths)  # An empty page is smaller.
