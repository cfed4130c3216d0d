"""Pictures of a contest: what they show, for whom, and that they are the same every time."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'tastespace[plot]'")

from tastespace import ALS, BPMF, DampedBias, GlobalMean, ImplicitALS, Popular, Ratings, save
from tastespace.errors import DataError
from tastespace.randomness import generator
from tastespace.report.comparison_figures import _limits, _spread, cost_picture, pictures, write_comparison
from tastespace.selection.compare_models import compare_models
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def found():
    models = {
        "mean": GlobalMean(),
        "bias": DampedBias(),
        "als": ALS(n_factors=2, seed=0),
        "bpmf": BPMF(n_factors=2, warmup=3, draws=4, thin=1, seed=0),
        "failed": ALS(n_factors=-1),
    }
    return compare_models(tastes(60, 40, rng=generator(4))[0], models, bootstrap=20, apart=False)


def of_choices():
    users, items = np.nonzero(generator(3).random((30, 20)) < 0.5)
    models = {"popular": Popular(), "choices": ImplicitALS(n_factors=2, seed=0)}
    return compare_models(Ratings.from_arrays(users, items, np.ones(len(users))), models, bootstrap=20, apart=False)


@pytest.fixture(scope="module")
def drawn(found):
    return {picture.name: picture for picture in pictures(found)}


def test_every_model_is_named_in_every_picture(drawn):
    assert set(drawn) == {"learning", "groups", "cost", "lists"}
    for picture in drawn.values():
        assert picture.svg.startswith(b"<?xml")
        for model in ("als", "bpmf", "mean", "bias"):
            assert f"<!-- {model} ".encode() in picture.svg or b"<!-- off the scale" in picture.svg
        assert b"failed" not in picture.svg
    assert "als: to" in drawn["learning"].alt
    assert "bpmf: from" in drawn["learning"].alt


def test_lists_are_drawn_and_judged(found, drawn):
    als, (ratings, lists) = found["als"], found.verdicts
    assert f"als {als.value('ndcg@10'):.4f} with {als.value('coverage@10'):.1%}" in drawn["lists"].alt
    assert str(lists) in drawn["lists"].alt
    assert str(ratings) not in drawn["lists"].alt


def test_the_same_bytes_every_time(found, drawn):
    assert cost_picture(found).svg == drawn["cost"].svg


def test_choices_have_no_errors_to_learn_by(tmp_path):
    for left in ("learning.svg", "comparison.json"):  # by an earlier contest
        (tmp_path / left).write_text("")
    paths = write_comparison(of_choices(), tmp_path)
    assert [path.name for path in paths] == ["groups.svg", "cost.svg", "lists.svg", "comparison.json"]
    assert not (tmp_path / "learning.svg").exists()
    assert json.loads(paths[-1].read_text())["measure"] == "ndcg@10"
    assert b"higher is better" in (tmp_path / "cost.svg").read_bytes()


def test_where_all_have_failed_there_is_nothing_to_draw(tmp_path):
    failed = compare_models(tastes(20, 10, rng=generator(4))[0], {"als": ALS(n_factors=-1)}, apart=False)
    assert [path.name for path in write_comparison(failed, tmp_path)] == ["comparison.json"]


def test_not_into_the_folder_of_a_model(tmp_path, found):
    save(GlobalMean().fit(tastes(20, 10, rng=generator(4))[0]), tmp_path / "model")
    with pytest.raises(DataError, match="holds a model"):
        write_comparison(found, tmp_path / "model")


def test_names_keep_apart():
    heights = _spread([0.1, 0.11, 0.5, 0.99, 0.995, 1.0])
    assert min(np.diff(heights)) > 0.06
    assert max(heights) <= 1
    assert _spread([0.2, 0.8]) == [0.2, 0.8]


def test_what_is_far_worse_is_off_the_scale():
    low, high = _limits([0.85, 0.86, 0.87, 1.9], smaller=True)
    assert low < 0.85
    assert 0.87 < high < 1
    low, high = _limits([0.3, 0.28, 0.27, 0.01], smaller=False)
    assert 0.01 < low < 0.27
    assert high > 0.3
