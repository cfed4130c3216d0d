"""Features beside models: kept by updates and artifacts, and split by items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.feature_sources import describe
from tastespace.data.features import Features
from tastespace.errors import ArtifactError, DataError, DataWarning
from tastespace.models.base.update import TrainingSummary, merge


@pytest.fixture
def described() -> ts.Ratings:
    rng = np.random.default_rng(0)
    n = 40
    frame = pl.DataFrame({"item": range(n), "year": rng.integers(1950, 2000, n), "genre": ["a", "b", "c", None] * 10})
    vectors = rng.normal(size=(n, 3))
    vectors[3] = np.nan
    users = rng.integers(0, 30, 600)
    ratings = ts.Ratings.from_arrays(users, rng.integers(0, n, 600), rng.integers(1, 6, 600))
    ratings = ratings.with_item_features(frame, "bag").with_item_features(vectors, ids=range(n), name="plot")
    return ratings.with_user_features({user: {"age": 20.0 + user} for user in range(30)})


def test_artifacts_keep_features_and_their_encoding(described: ts.Ratings, tmp_path: Path) -> None:
    train = ts.held_out_items(described, 0.3, seed=1).train
    ts.save(ts.DampedBias().fit(train), tmp_path / "model")
    loaded = ts.load(tmp_path / "model").ratings_
    for before, after in ((train.item_features, loaded.item_features), (train.user_features, loaded.user_features)):
        assert before is not None
        assert after is not None
        assert after.names == before.names
        assert after.has_bag == before.has_bag
        np.testing.assert_array_equal(after.matrix.toarray(), before.matrix.toarray())
        np.testing.assert_array_equal(after.encode(before).toarray(), before.matrix.toarray())
    new = describe({1000: {"year": 1999, "genre": "b"}}, "item")
    assert loaded.item_features is not None
    assert train.item_features is not None
    np.testing.assert_array_equal(loaded.item_features.encode(new).toarray(), train.item_features.encode(new).toarray())


def test_features_that_do_not_fit_are_damage(described: ts.Ratings, tmp_path: Path) -> None:
    ts.save(ts.DampedBias().fit(described), tmp_path / "model")
    (tmp_path / "model" / "item-encoding.parquet").unlink()
    with pytest.raises(ArtifactError, match="item-encoding.parquet is missing"):
        ts.load(tmp_path / "model")


def test_updates_encode_new_items_like_old_ones(described: ts.Ratings) -> None:
    new = ts.Ratings.of_items(
        ["100", "101"], features=describe({"100": {"year": 1960, "genre": "a"}, "101": {"genre": "new"}}, "item")
    )
    merged = merge(described, new, TrainingSummary.of(described)).ratings
    assert merged.n_items == described.n_items + 2
    assert merged.items.ids[-1] == 101
    before, after = described.item_features, merged.item_features
    assert before is not None
    assert after is not None
    assert after.names == before.names
    assert len(after) == merged.n_items
    np.testing.assert_array_equal(after.matrix[: len(before)].toarray(), before.matrix.toarray())
    rows = after.matrix[len(before) :].toarray()
    assert new.item_features is not None
    np.testing.assert_array_equal(rows, before.encode(new.item_features).toarray())
    assert rows[1].sum() == 1  # the vector is missing, as some were in training; the genre is unknown
    assert merged.user_features is described.user_features


def test_new_users_of_an_update_have_nothing_known(described: ts.Ratings) -> None:
    new = ts.Ratings.from_arrays(["x"], [0], [3])
    with pytest.warns(UserWarning, match="are texts from now on"):
        merged = merge(described, new, TrainingSummary.of(described)).ratings
    assert merged.user_features is not None
    assert len(merged.user_features) == merged.n_users == len(merged.user_features.ids)
    assert not merged.user_features.known()[-1]


def test_held_out_items_are_in_one_part(described: ts.Ratings) -> None:
    split = ts.held_out_items(described, 0.25, seed=3)
    train, test = set(split.train.items.ids), set(split.test.items.ids)
    assert not train & test
    assert len(test) == 10
    assert len(split.train) + len(split.test) == len(described)
    again = ts.held_out_items(described, 0.25, seed=3)
    assert again.test.items.ids.equals(split.test.items.ids)
    assert isinstance(split.test.item_features, Features)
    assert split.train.item_features is not None
    assert split.train.item_features.ids.ids.equals(split.train.items.ids)
    # What the training part standardises by does not depend on the items that are held out.
    years = split.train.item_features.encoding.filter(pl.col("kind") == "number")["center"][0]
    assert years == pytest.approx(split.train.item_features.cells["year"].mean())


def test_items_are_given_once() -> None:
    with pytest.raises(DataError, match="'a' is there more than once"):
        ts.Ratings.of_items(["a", "b", "a"])


NEW = {1000: {"title": "New", "Genre": "b", "year": 1999, "plot": [0.1, 0.2, 0.3]}, 1001: {"year": None}}


@pytest.mark.parametrize("model", [ts.DampedBias(), ts.ALS(n_factors=2, regularisation=0.1), ts.Popular()])
def test_every_model_can_take_new_items(model: ts.Recommender, described: ts.Ratings, tmp_path: Path) -> None:
    described = described.with_items(attributes=pl.DataFrame({"genre": [["a"], ["b"]] * (described.n_items // 2)}))
    fitted = model.set_params(seed=0).fit(described)
    grown = fitted.with_items(NEW)
    assert fitted.ratings_.n_items == 40
    assert grown.ratings_.n_items == 42
    assert grown.ratings_.item_attributes is not None
    assert grown.ratings_.item_attributes["genre"].to_list()[-2:] == [["b"], None]
    assert set(grown.recommend([0], 2, only=[1000, 1001]).item_ids) == {1000, 1001}
    np.testing.assert_allclose(grown.predict([0], [0]).mean, fitted.predict([0], [0]).mean, atol=1e-6)
    ts.save(grown, tmp_path / "model")
    loaded = ts.load(tmp_path / "model")
    assert loaded.ratings_.items.ids.to_list()[-2:] == [1000, 1001]
    assert loaded.ratings_.item_features is not None
    assert grown.ratings_.item_features is not None
    np.testing.assert_array_equal(
        loaded.ratings_.item_features.matrix.toarray(), grown.ratings_.item_features.matrix.toarray()
    )


def test_new_items_are_in_the_terms_of_training(described: ts.Ratings) -> None:
    fitted = ts.Popular().fit(described)
    with pytest.warns(DataWarning, match="not fitted with price, which cannot count for new items"):
        fitted.with_items({2000: {"price": 3, "year": 2000}})
    with pytest.warns(DataWarning, match="nothing of what the model knows of items is said: year, genre, plot"):
        fitted.with_items({2000: {"title": "x"}})
    with pytest.warns(DataWarning, match="1 of 2 items are known already"):
        fitted.with_items({0: {"year": 1}, 2001: {"year": 1990}})
    with pytest.raises(DataError, match="all 1 items are known already"):
        fitted.with_items({0: {"year": 1}})
    with pytest.raises(DataError, match="'year' of 2000 is not a number: 'soon'"):
        fitted.with_items({2000: {"year": "soon"}})
    with pytest.raises(DataError, match="have 2 numbers; expected 3 numbers"):
        fitted.with_items({2000: {"plot": [1.0, 2.0]}})
    with pytest.raises(DataError, match="what is said of 2000 is 3"):
        fitted.with_items({2000: 3})
