"""Features of users and items: how they are read, matched, encoded and split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from safetensors.numpy import save_file

import tastespace as ts
from tastespace.data.features import Features, Vectors
from tastespace.data.formats.files import read_test
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, DataWarning, InvalidParameterError

FILMS = pl.DataFrame(
    {
        "item": ["a", "b", "c", "d"],
        "genres": [["Drama"], ["Drama", "Comedy"], None, ["Comedy"]],
        "year": [1990, 2000, None, 2010],
        "country": ["FR", "US", "US", "FR"],
    }
)


def ratings() -> ts.Ratings:
    return ts.Ratings.from_arrays(["u", "u", "v", "v", "w"], ["b", "a", "c", "d", "a"], [1, 2, 3, 4, 5])


def test_encoding() -> None:
    """Rows follow the vocabulary; numbers are standardised by known values, what is missing has an indicator."""
    features = ratings().with_item_features(FILMS).item_features
    assert features is not None
    assert features.ids.ids.to_list() == ["b", "a", "c", "d"]
    assert features.names == (
        "genres=Comedy",
        "genres=Drama",
        "genres missing",
        "year",
        "year missing",
        "country=FR",
        "country=US",
    )
    assert [(group.name, group.start, group.stop) for group in features.groups] == [
        ("genres", 0, 3),
        ("year", 3, 5),
        ("country", 5, 7),
    ]
    early = (1990 - 2000) / np.std([1990, 2000, 2010])
    expected = [
        [1, 1, 0, 0, 0, 0, 1],
        [0, 1, 0, early, 0, 1, 0],
        [0, 0, 1, 0, 1, 0, 1],
        [1, 0, 0, -early, 0, 1, 0],
    ]
    np.testing.assert_allclose(features.matrix.toarray(), expected, rtol=1e-6)
    assert features.matrix.dtype == np.float32
    assert features.matrix.format == "csr"


def test_constants_come_from_training_rows() -> None:
    """The training part of a split standardises by its own items, and has no columns for levels of others."""
    observed = ratings().with_item_features(FILMS)
    train = observed.take(np.array([0, 1]))  # films b and a
    test = observed.take(np.array([3]))  # film d
    assert train.item_features is not None
    assert test.item_features is not None
    assert train.item_features.names == ("genres=Comedy", "genres=Drama", "year", "country=FR", "country=US")
    np.testing.assert_allclose(train.item_features.matrix[:, [2]].toarray(), [[1], [-1]])
    cold = train.item_features.encode(test.item_features)
    np.testing.assert_allclose(cold.toarray(), [[1, 0, 3, 1, 0]])  # (2010 - 1995) / 5


def test_kept_by_parts_and_by_masks() -> None:
    observed = ratings().with_item_features(FILMS, "bag").with_user_features("bag")
    kept = observed.masked(np.array([0]))
    assert kept.item_features is observed.item_features
    split = ts.random_split(observed, 0.4, seed=1)
    for part in (split.train, split.test):
        assert part.item_features is not None
        assert part.user_features is not None
        assert part.item_features.has_bag
        assert part.user_features.has_bag
        assert part.item_features.ids.ids.to_list() == part.items.ids.to_list()
        assert len(part.user_features) == part.n_users
        assert part.user_features.matrix.shape == (part.n_users, 0)


def test_levels_of_one_item_are_no_columns_where_there_are_many() -> None:
    names = [f"actor {place}" for place in range(150)]
    cells = {item: {"actors": [names[item], "star" if item % 2 else "extra"]} for item in range(150)}
    ratings = ts.Ratings.from_arrays(np.zeros(150, int), np.arange(150), np.ones(150)).with_item_features(cells)
    assert ratings.item_features is not None
    assert ratings.item_features.names == ("actors=extra", "actors=star")
    some = {item: cells[item] for item in range(50)}
    few = ratings.take(np.arange(50)).with_item_features(None).with_item_features(some)
    assert few.item_features is not None
    assert few.item_features.n_columns == 52
    alone = {item: {"actors": [names[item]]} for item in range(150)}
    different = ratings.with_item_features(None).with_item_features(alone)
    assert different.item_features is not None
    assert different.item_features.n_columns == 150


def test_unknown_levels_count_for_nothing() -> None:
    features = ratings().with_item_features(FILMS, columns=["genre", "country"]).item_features
    assert features is not None
    new = Features(Vocabulary(pl.Series(["x", "y"])), pl.DataFrame({"genres": [["Western", "Drama"], None]}))
    encoded = features.encode(new).toarray()
    # The indicator of genres is known; country has none, as it was never missing.
    np.testing.assert_array_equal(encoded, [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])


def test_extended_keeps_the_encoding() -> None:
    features = ratings().with_item_features(FILMS).item_features
    assert features is not None
    more = Features(Vocabulary(pl.Series(["x"])), pl.DataFrame({"year": [2020.0], "genres": [["New"]]}))
    both = features.extended(more)
    assert both.names == features.names
    assert both.ids.ids.to_list() == ["b", "a", "c", "d", "x"]
    np.testing.assert_array_equal(both.matrix[:4].toarray(), features.matrix.toarray())
    np.testing.assert_array_equal(both.matrix[[4]].toarray(), features.encode(more).toarray())


def test_attributes_by_name() -> None:
    observed = ratings().with_items(attributes=FILMS.select("genres", "year", "country")[[1, 0, 2, 3]])
    by_name = observed.with_item_features("genre", "Year:category").item_features
    assert by_name is not None
    assert by_name.names[3:] == ("year=1990", "year=2000", "year=2010", "year missing")
    with pytest.raises(InvalidParameterError, match="no item feature 'gnre'.*did you mean genre"):
        observed.with_item_features("gnre")
    with pytest.raises(InvalidParameterError, match="nothing is known of the users"):
        observed.with_user_features("age")


def test_vectors() -> None:
    """Dense vectors are centred and scaled as one, sparse ones only scaled; a row with NaN is missing."""
    dense = np.array([[1.0, 2], [3, 2], [np.nan, 1], [5, 5]])
    observed = ratings().with_item_features(dense, ids=["a", "b", "c", "d"], name="plot")
    features = observed.item_features
    assert features is not None
    assert features.names == ("plot[0]", "plot[1]", "plot missing")
    encoded = features.matrix.toarray()
    known = encoded[[1, 0, 3], :2]  # a, b, d
    np.testing.assert_allclose(known.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose((known**2).mean(), 1, rtol=1e-5)
    np.testing.assert_array_equal(encoded[2], [0, 0, 1])
    words = sp.random_array((4, 1000), density=0.01, rng=np.random.default_rng(0), format="csr")
    sparse = ratings().with_item_features(words, ids=["a", "b", "c", "d"], name="words").item_features
    assert sparse is not None
    assert sparse.matrix.nnz == words.nnz
    np.testing.assert_allclose((sparse.matrix.multiply(sparse.matrix)).sum() / 4, 1, rtol=1e-5)


def test_files(tmp_path: Path) -> None:
    folder = tmp_path
    FILMS.with_columns(pl.col("genres").list.join("|")).write_csv(folder / "films.csv")
    FILMS.write_parquet(folder / "films.parquet")
    frames = [folder / "films.csv", str(folder / "films.parquet"), FILMS.to_pandas(), FILMS.lazy()]
    for source in frames:
        features = ratings().with_item_features(source).item_features
        assert features is not None
        assert (
            features.matrix.toarray().tolist()
            == ratings().with_item_features(FILMS).item_features.matrix.toarray().tolist()
        )  # type: ignore[union-attr]
    vectors = np.eye(4, 3, dtype=np.float32)
    np.savez(folder / "plot.npz", vectors=vectors, ids=np.array(["a", "b", "c", "d"]))
    sp.save_npz(folder / "words.npz", sp.csr_array(vectors))
    save_file({"vectors": vectors, "ids": np.arange(4)}, folder / "plot.safetensors")
    of_npz = ratings().with_item_features(folder / "plot.npz").item_features
    of_words = ratings().with_item_features(folder / "words.npz", ids=["a", "b", "c", "d"], name="plot").item_features
    assert of_npz is not None
    assert of_words is not None
    np.testing.assert_array_equal(of_npz.matrix.toarray(), of_words.matrix.toarray())
    numbered = ts.Ratings.from_arrays([1] * 4, [3, 0, 1, 2], [1, 2, 3, 4]).with_item_features(
        folder / "plot.safetensors"
    )
    assert numbered.item_features is not None
    assert len(numbered.item_features) == 4
    with pytest.raises(InvalidParameterError, match="has no ids"):
        ratings().with_item_features(folder / "words.npz")


def test_pandas_and_mappings() -> None:
    frame = pd.DataFrame({"age": [20, None, 40], "job": ["x", "y", None]}, index=pd.Index(["u", "v", "w"], name="user"))
    features = ratings().with_user_features(frame).user_features
    assert features is not None
    assert features.names == ("age", "age missing", "job=x", "job=y", "job missing")
    mapped = ratings().with_user_features({"u": {"age": 20}, "v": {"job": "y"}, "w": {"age": 40, "job": None}})
    assert mapped.user_features is not None
    assert mapped.user_features.names[0] == "age"
    points = ratings().with_user_features({"u": [1, 2], "v": [3, 4], "w": [5, 5]}, name="place").user_features
    assert points is not None
    assert points.names == ("place[0]", "place[1]")


def test_added_and_removed() -> None:
    observed = (
        ratings().with_item_features(FILMS, columns=["year"]).with_item_features(FILMS, columns=["country"], ids=None)
    )
    assert observed.item_features is not None
    assert [group.name for group in observed.item_features.groups] == ["year", "country"]
    again = observed.with_item_features(FILMS.with_columns(year=pl.Series([1, 2, 3, 4])), columns=["year"])
    assert again.item_features is not None
    assert "year missing" not in again.item_features.names
    assert observed.with_item_features(None).item_features is None


def test_summaries_of_ratings_are_left_out_unless_asked_for() -> None:
    leaks = {"rating": 7.5, "members": 3, "Vote_Average": 1.0, "ratings_count": 9, "imdbVotes": 2, "n_ratings": 1}
    frame = FILMS.with_columns(pl.lit(value).alias(name) + pl.int_range(4) for name, value in leaks.items())
    with pytest.warns(DataWarning, match="unless asked for by name: rating .summarises ratings") as caught:
        features = ratings().with_item_features(frame).item_features
    assert features is not None
    assert [group.name for group in features.groups] == ["genres", "year", "country"]
    assert all(name in str(caught[0].message) for name in leaks)
    asked = ratings().with_item_features(frame, columns=["members"]).item_features
    assert asked is not None
    assert asked.names == ("members",)


def test_lists_in_texts_and_what_is_different_for_all() -> None:
    n = 40
    genres = ["Drama, Romance", "Drama", "Comedy", "Comedy, Romance"] * (n // 4)
    plots = [f"Someone {row}, who lives at {row * 7}, and goes to {row * 3}." for row in range(n)]
    frame = pl.DataFrame({"id": range(n), "genre": genres, "plot": plots})
    observed = ts.Ratings.from_arrays([0] * n, range(n), range(n))
    with pytest.warns(DataWarning, match=r"plot \(is different for nearly all\)"):
        features = observed.with_item_features(frame).item_features
    assert features is not None
    assert features.names == ("genre=Comedy", "genre=Drama", "genre=Romance")


@pytest.mark.parametrize("name", ["constant", "empty"])
def test_constant_columns_have_no_group(name: str) -> None:
    frame = pl.DataFrame({"item": ["a", "b", "c", "d"], "constant": [3.0] * 4, "empty": [None] * 4, "x": [1, 2, 3, 4]})
    with pytest.warns(DataWarning, match=f"{name} is the same for all 4 items, or always missing"):
        features = ratings().with_item_features(frame, columns=[name, "x"]).item_features
    assert features is not None
    assert features.names == ("x",)


def test_vectors_that_are_all_missing_are_named() -> None:
    with pytest.warns(DataWarning, match="plot is the same for all 4 items, or always missing"):
        described = ratings().with_item_features(np.full((4, 3), np.nan), ids=["a", "b", "c", "d"], name="plot")
    assert described.item_features is not None
    assert described.item_features.n_columns == 0
    plain = ts.VB(n_factors=2, passes=5, seed=0).fit(described)
    assert np.isfinite(plain.predict(["u"], ["a"]).mean).all()


def test_bad_input() -> None:
    with pytest.raises(DataError, match="no column for the item id among name, year"):
        ratings().with_item_features(pl.DataFrame({"name": ["a"], "year": [1]}))
    with pytest.raises(DataError, match="none of the 1 items in what was given"):
        ratings().with_item_features(pl.DataFrame({"item": ["z"], "year": [1]}))
    with pytest.raises(DataError, match="'year' is infinite for 'b'"):
        ratings().with_item_features(pl.DataFrame({"item": ["a", "b"], "year": [1.0, np.inf]}))
    with pytest.raises(DataError, match="is not a number: 'soon'"):
        ratings().with_item_features(pl.DataFrame({"item": ["a"], "year": ["soon"]}), columns=["year:number"])
    with pytest.raises(DataError, match="3 rows for 4 ids"):
        ratings().with_item_features(np.eye(3), ids=["a", "b", "c", "d"])
    with pytest.warns(DataWarning) as caught:
        features = (
            ratings()
            .with_item_features(pl.DataFrame({"item": ["a", "a", "b", "z"], "year": [1.0, 2, np.nan, 4]}))
            .item_features
        )
    texts = " ".join(str(each.message) for each in caught)
    assert "1 items more than once, and the first description counts: 'a'" in texts
    assert "2 of 4 items are not in what was given: 'c', 'd'" in texts
    assert "1 of 3 items in what was given have no ratings" in texts
    assert features is not None
    assert features.names == ("year missing",)


def test_a_million_columns() -> None:
    n = 1_000_000
    matrix = sp.csr_array((np.ones(4, np.float32), ([0, 1, 2, 3], [0, 10, n // 2, n - 1])), shape=(4, n))
    features = ratings().with_item_features(matrix, ids=["a", "b", "c", "d"]).item_features
    assert features is not None
    assert features.n_columns == n
    assert features.matrix.nnz == 4
    assert features.groups[0].stop == n


def test_missing_vectors_are_taken() -> None:
    vectors = Vectors(sp.csr_array(np.eye(2, dtype=np.float32)), np.array([False, True]))
    taken = vectors.take(np.array([1, -1, 0]))
    np.testing.assert_array_equal(taken.is_missing, [True, True, False])
    np.testing.assert_array_equal(taken.values.toarray(), [[0, 1], [0, 0], [1, 0]])


def test_the_description_tells_what_is_known() -> None:
    """Attributes that may become features are described, and features as they are used."""
    observed = ratings().with_items(attributes=FILMS.select("genres", "year")[[1, 0, 2, 3]])
    text = str(observed.describe())
    assert "item attributes  genres: category, 3 columns, 50.00% filled, 1.33 each, 1 missing" in text
    described = observed.with_item_features("year", "bag").describe()
    assert "item features  year: number, 2 columns, 75.00% filled, 1 missing" in str(described)
    assert "bag: made by the model" in str(described)
    known = described.to_dict()["items"]
    assert known["are_used"] is True
    assert known["groups"][0]["n_missing"] == 1


def test_features_as_files_are_read(tmp_path: Path) -> None:
    """`read` takes the names as on the command line; those of test ratings include items that are not in training."""
    ratings().take(np.array([0, 1, 2])).write(tmp_path / "train.csv")
    ratings().take(np.array([3, 4])).write(tmp_path / "test.csv")
    FILMS.with_columns(pl.col("genres").list.join("|")).write_csv(tmp_path / "films.csv")
    known = {"items": tmp_path / "films.csv", "item_features": "genre, year"}
    train = ts.read(tmp_path / "train.csv", **known)
    assert train.item_features is not None
    assert [group.name for group in train.item_features.groups] == ["genres", "year"]
    test = read_test(tmp_path / "test.csv", **known)
    assert test.item_features is not None
    assert test.item_features.cells["year"].to_list() == [2010, 1990]
