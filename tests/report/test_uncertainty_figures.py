"""Pictures of how sure answers are: drawn from what the answers say, the same every time, told in words."""

from __future__ import annotations

from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from tastespace import ALS, BPMF
from tastespace.errors import DataError
from tastespace.randomness import generator
from tastespace.report.uncertainty_figures import list_picture, narrowing_picture, policies_picture
from tastespace.testing.toys import gaussian

pytestmark = [
    pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot"),
    pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning"),
]
N_ITEMS = 12


@pytest.fixture(scope="module")
def ratings():
    return gaussian(30, N_ITEMS, rng=generator(3))[0]


@pytest.fixture(scope="module")
def model(ratings):
    return BPMF(n_factors=2, warmup=10, draws=10, thin=1, seed=0).fit(ratings)


def is_svg(picture):
    return ElementTree.fromstring(picture.svg).tag.endswith("svg")


def test_a_list_is_described_entry_by_entry(model):
    ranking = model.recommend([0], 4, exclude=None)
    picture = list_picture(ranking)
    assert is_svg(picture)
    for row in ranking.of(0).rows(named=True):
        assert f"{row['item']} {row['score']:.2f}, from {row['low']:.2f} to {row['high']:.2f}" in picture.alt
    assert list_picture(ranking).svg == picture.svg


def test_a_new_user_becomes_known(model):
    items = [0, 1, 2]
    histories = {0: None, 1: {5: 3.0}, 2: {5: 3.0, 6: 4.0}}
    steps = {n: model.predict(["new"] * 3, items, history=history) for n, history in histories.items()}
    picture = narrowing_picture(steps, [1.0, 2.0, 3.0])
    assert is_svg(picture)
    for n, prediction in steps.items():
        assert f"{prediction.belief_sd.mean():.2f} with {n}" in picture.alt
    assert b"1 rating<" in picture.svg or b"1 rating " in picture.svg
    assert narrowing_picture(steps).svg != picture.svg  # without crosses


def test_policies_are_described_by_their_averages(model):
    everything = model.predict(np.zeros(N_ITEMS, int), model.ratings_.items.ids)
    lists = {policy: model.recommend([0], 3, policy=policy, exclude=None) for policy in ("cautious:c=2", "curious:c=2")}
    picture = policies_picture(everything, lists)
    assert is_svg(picture)
    for name, ranking in lists.items():
        table = ranking.of(0)
        assert f"{name}: mean {table['score'].mean():.2f}, belief sd {table['belief_sd'].mean():.2f}" in picture.alt


def test_long_titles_are_cut(ratings, model):
    titled = BPMF(n_factors=2, warmup=10, draws=10, thin=1, seed=0).fit(
        ratings.with_items(titles=ratings.items.ids.cast(str) + " " + "x" * 60)
    )
    picture = list_picture(titled.recommend([0], 2, exclude=None))
    assert "x" * 60 not in picture.alt
    assert "…" in picture.alt


def test_a_model_that_is_not_sure_of_anything_is_refused(ratings):
    point = ALS(n_factors=2, regularization=0.1, seed=0).fit(ratings)
    with pytest.raises(DataError, match="provides no uncertainty"):
        list_picture(point.recommend([0], 3))
    with pytest.raises(DataError, match="provides no uncertainty"):
        policies_picture(point.predict([0], [0]), {"mean": point.recommend([0], 3)})
    with pytest.raises(DataError, match="provides no uncertainty"):
        narrowing_picture({0: point.predict([0], [0])})
