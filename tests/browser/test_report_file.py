"""The report in a browser, from a file and without a service: two models of yes and no side by side."""

from __future__ import annotations

import warnings

import polars as pl
import pytest
from browser.conftest import films
from browser.looking import axe, draw_all

import tastespace as ts
from tastespace import artifact
from tastespace.data.ratings import Ratings
from tastespace.errors import ConvergenceWarning
from tastespace.report.model_page import Shown, write_report


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
    assert "probit: told" in figure.locator("thead").inner_text()
    for name in ("probit", "logistic"):
        assert page.get_by_text(name).first.is_visible()
    axe(page)
