"""Cold and warm test ratings are measured apart, and cold items are known by their features alone."""

from __future__ import annotations

import numpy as np
import pytest

import tastespace as ts
from tastespace.errors import InvalidParameterError


@pytest.fixture(scope="module")
def split() -> ts.Split:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 50, 3000), rng.integers(0, 60, 3000)
    values = np.where(users % 2 == items % 2, 4, 2) + rng.integers(0, 2, 3000)
    ratings = ts.Ratings.from_arrays(users, items, values)
    whole = ratings.with_item_features({item: {"genre": "ab"[item % 2]} for item in range(60)})
    # Both cold and warm test ratings.
    is_cold = whole.item_ids().is_in(range(0, 60, 7)).to_numpy()
    test = is_cold | (rng.random(len(whole)) < 0.2)
    return ts.Split(whole.take(~test), whole.take(test))


def test_parts_are_the_measures_of_their_ratings(split: ts.Split) -> None:
    model = ts.ContentProfile(seed=0).fit(split.train)
    report = ts.evaluate(model, split, bootstrap=20)
    cold, users, warm = report.parts
    assert (cold.label, users.label, warm.label) == ("cold items", "cold users", "warm")
    assert users.n == 0
    assert cold.n + warm.n == report.n == len(split.test)
    assert report.cold == cold.n
    assert cold.members == 9
    features = split.test.item_features
    assert features is not None
    grown = model.with_items(features.take(np.flatnonzero(features.ids.ids.is_in(range(0, 60, 7)).to_numpy())))
    predicted = grown.predict(split.test.user_ids(), split.test.item_ids()).mean
    is_cold = split.test.item_ids().is_in(range(0, 60, 7)).to_numpy()
    for part, which in ((cold, is_cold), (warm, ~is_cold)):
        error = np.sqrt(np.mean((predicted - split.test.values)[which].astype(np.float64) ** 2))
        assert part.measures["rmse"] == pytest.approx(error, rel=1e-5)
        low, high = part.intervals["rmse"]
        assert low < error < high
        assert 0 <= part.measures["found@10"] <= 1
    assert cold.measures["found@10"] > 0  # among all items
    assert "cold items" in str(report.parts_table())
    assert report.to_dict()["parts"][0]["n"] == cold.n


def test_a_model_without_features_stays_as_it_is(split: ts.Split) -> None:
    report = ts.evaluate(ts.DampedBias().fit(split.train), split, bootstrap=0)
    cold, _, warm = report.parts
    assert cold.measures["found@20"] == 0
    assert warm.measures["found@20"] > 0


def test_without_cold_ratings_there_are_no_parts(split: ts.Split) -> None:
    part = ts.random_split(split.train, 0.1, seed=1)
    report = ts.evaluate(ts.DampedBias().fit(part.train), part, bootstrap=0)
    assert report.parts == ()
    with pytest.raises(InvalidParameterError, match="no parts"):
        report.parts_table()
    assert "parts" not in report.to_dict()


def test_the_recommender_itself_is_unchanged(split: ts.Split) -> None:
    model = ts.ContentProfile(seed=0).fit(split.train)
    ts.evaluate(model, split, bootstrap=0, ranking=False)
    assert model.ratings_.n_items == split.train.n_items


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_features_of_cold_items_count_in_bpmf(split: ts.Split) -> None:
    """What users like is their parity of the items, which only the genre tells of cold ones."""
    settings = {"n_factors": 2, "warmup": 20, "draws": 40, "chains": 1, "seed": 0, "threads": 1}
    with_genres = ts.evaluate(ts.BPMF(**settings).fit(split.train), split, bootstrap=0)
    train = split.train.with_item_features(None)
    without = ts.evaluate(ts.BPMF(**settings).fit(train), ts.Split(train, split.test), bootstrap=0)
    assert with_genres.parts[0].measures["rmse"] < 0.8 < without.parts[0].measures["rmse"]
    assert with_genres.parts[0].measures["coverage"] > 0.8
    assert with_genres.parts[0].measures["found@10"] > 0
    assert with_genres.parts[2].measures["rmse"] < without.parts[2].measures["rmse"] + 0.05
