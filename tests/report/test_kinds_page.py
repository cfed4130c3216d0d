"""The page of an evaluation of choices, and of yes and no: no picture and no column of what was not measured."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tastespace import ALS, EASE, DampedBias, Popular, compare_reports, evaluate, random_split, write_evaluation
from tastespace.randomness import generator
from tastespace.report.evaluation_figures import reliability_picture
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")


def split_of(kind):
    ratings = tastes(80, 50, rng=generator(3))[0]
    ratings = ratings.at_least(3) if kind == "yes-no" else ratings.take(ratings.values > 0.5).with_kind(kind)
    return random_split(ratings, 0.3, seed=0)


def page_of(reports, folder):
    path = write_evaluation(reports, folder, comparisons=compare_reports(*reports.values(), resamples=50))
    return path.read_text(), {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("kind", ["counts", "one-class"])
def test_choices(kind, tmp_path):
    split = split_of(kind)
    reports = {"ease": evaluate(EASE().fit(split.train), split), "popular": evaluate(Popular().fit(split.train), split)}
    page, files = page_of(reports, tmp_path)
    drawn = {"found-by-users.svg", "found-by-items.svg", "lists.svg", "differences.svg"}
    assert files == drawn | {"evaluation.html"}
    assert "RMSE" not in page
    assert "MAE" not in page
    main = re.search(r"<caption>Main measures</caption>\n<thead><tr>(.*?)</tr>", page)[1]
    assert re.findall(r">([^<]+)</th>", main) == ["model", "NDCG@10", "recall@10", "coverage@10", "AUC"]
    assert "<dt>relevant</dt><dd>all test ratings</dd>" in page
    assert "Share of the relevant test ratings in lists of 10" in page


def test_yes_and_no(tmp_path):
    split = split_of("yes-no")
    models = {"bias": DampedBias(), "als": ALS(n_factors=2, regularization=0.1, seed=0)}
    reports = {name: evaluate(model.fit(split.train), split) for name, model in models.items()}
    page, files = page_of(reports, tmp_path)
    drawn = {f"{what}-by-{side}.svg" for what in ("errors", "found") for side in ("users", "items")}
    drawn |= {"lists.svg", "reliability.svg", "differences.svg"}
    assert files == drawn | {"evaluation.html"}
    assert "RMSE" not in page
    assert "log loss by the number of training ratings of the users" in page
    alt = re.search(r'alt="(Reliability[^"]+)"', page)[1]
    assert "bias: at the least likely predicted 0." in alt
    assert "als: at the least likely predicted 0." in alt


@pytest.mark.usefixtures("_unrendered")
def test_a_model_of_choices_beside_one_of_stars(tmp_path):
    split = split_of("stars")
    reports = {
        "ease": evaluate(EASE().fit(split.train), split),
        "bias": evaluate(DampedBias().fit(split.train), split),
    }
    page, files = page_of(reports, tmp_path)
    assert {"errors-by-users.svg", "found-by-users.svg", "lists.svg"} <= files
    errors, found = (re.search(rf'alt="({what}[^"]+)"', page)[1] for what in ("RMSE by", "Share of the relevant"))
    assert ("ease: " in errors, "ease: " in found, "bias: " in found) == (False, True, True)
    row = re.search(r'<th scope="row">ease</th>(.*?)</tr>', page)[1]
    assert row.startswith("<td>–</td>")  # it has no RMSE, the other one has


@pytest.mark.usefixtures("_unrendered")
def test_pictures_of_another_kind_do_not_stay(tmp_path):
    for kind in ("yes-no", "counts"):
        split = split_of(kind)
        write_evaluation({"popular": evaluate(Popular().fit(split.train), split)}, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        *("found-by-users.svg", "found-by-items.svg", "lists.svg", "evaluation.html"),
    }


def test_the_same_bytes_every_time():
    split = split_of("yes-no")
    found = {"bias": evaluate(DampedBias().fit(split.train), split).reliability}
    one, other = (reliability_picture(found, {"bias": 0}) for _ in range(2))
    assert one.svg == other.svg
