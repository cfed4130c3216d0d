"""What the model says of itself, in a browser: every figure drawn, every table there."""

from __future__ import annotations

from browser.looking import axe, draw_all, go

HEADINGS = (
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
    assert page.get_by_role("table", name="Convergence").locator("tbody tr").count() >= 5
    assert page.get_by_role("table", name="Erratic raters").locator("tbody tr").count() == 10
    axe(page)
