"""Ratings: built from arrays and frames, merged, cut, grouped and told apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.triples import triples

from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, DataWarning, InvalidParameterError

pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(100, 107), st.integers(-4, 10)), min_size=1, max_size=40)
frames = pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])


def some():
    """Six ratings, of which the fifth replaces the second."""
    return Ratings.from_arrays([3, 1, 3, 2, 1, 2], list("abcabc"), [1, 2, 3, 4, 5, 0.5], range(6))


def test_order_of_the_file_is_kept():
    ratings = some()
    assert triples(ratings) == [(3, "a", 1), (3, "c", 3), (2, "a", 4), (1, "b", 5), (2, "c", 0.5)]
    assert ratings.users.ids.to_list() == [3, 1, 2]
    assert ratings.times.astype(int).tolist() == [0, 2, 3, 4, 5]
    assert ratings.values.dtype == np.float32


@pytest.mark.parametrize(("duplicates", "values"), [("last", [3, 7, 4]), ("mean", [3, 5, 3]), ("sum", [3, 15, 6])])
def test_duplicates_count_once(duplicates, values):
    ratings = Ratings.from_arrays(
        [1, 1, 2, 1, 2, 1], [5, 6, 5, 5, 5, 5], [7, 3, 2, 1, 4, 7], range(6), duplicates=duplicates
    )
    assert triples(ratings) == [(1, 6, values[0]), (2, 5, values[2]), (1, 5, values[1])]
    assert ratings.merged == 3
    assert ratings.times.astype(int).tolist() == [1, 4, 5]
    assert ratings.describe().merged == 3


def test_duplicates_can_be_refused():
    with pytest.raises(DataError, match="user 'u' rated item 7 more than once"):
        Ratings.from_arrays(["v", "u", "u"], [7, 7, 7], [1, 2, 2], duplicates="error")
    assert len(Ratings.from_arrays(["v", "u"], [7, 7], [1, 2], duplicates="error")) == 2


def test_an_unknown_way_with_duplicates_is_refused_even_if_there_are_none():
    with pytest.raises(InvalidParameterError, match="'first'"):
        Ratings.from_arrays([1], [1], [1], duplicates="first")


@given(pairs)
def test_last_rating_of_a_pair_wins(rows):
    users, items, values = zip(*rows, strict=True)
    ratings = Ratings.from_arrays(users, items, values)
    expected = {(user, item): value for user, item, value in rows}
    assert {(user, item): value for user, item, value in triples(ratings)} == expected
    assert len(ratings) == len(expected)
    assert ratings.merged == len(rows) - len(expected)


@given(pairs)
def test_groupings_equal_scipy(rows):
    ratings = Ratings.from_arrays(*zip(*rows, strict=True))
    twin = scipy.sparse.coo_array(
        (ratings.values, (ratings.user_rows, ratings.item_rows)), shape=(ratings.n_users, ratings.n_items)
    )
    for grouped, expected in ((ratings.by_user, twin.tocsr()), (ratings.by_item, twin.T.tocsr())):
        expected.sort_indices()
        np.testing.assert_array_equal(grouped.offsets, expected.indptr)
        np.testing.assert_array_equal(grouped.columns, expected.indices)
        np.testing.assert_array_equal(grouped.values, expected.data)
        np.testing.assert_array_equal(grouped.counts, np.diff(expected.indptr))
        np.testing.assert_array_equal(grouped.rows(), expected.tocoo().row)


@given(pairs, st.data())
def test_taking_rows_of_a_grouping_equals_scipy(rows, data):
    ratings = Ratings.from_arrays(*zip(*rows, strict=True))
    chosen = np.array(data.draw(st.lists(st.integers(-1, ratings.n_users - 1), max_size=8)), np.int32)
    taken = ratings.by_user.take(chosen)
    expected = scipy.sparse.csr_array(
        (ratings.by_user.values, ratings.by_user.columns, ratings.by_user.offsets),
        shape=(ratings.n_users, ratings.n_items),
    ).toarray()
    assert len(taken) == len(chosen)
    for place, row in enumerate(chosen):
        dense = np.zeros(ratings.n_items, np.float32)
        here = slice(taken.offsets[place], taken.offsets[place + 1])
        dense[taken.columns[here]] = taken.values[here]
        np.testing.assert_array_equal(dense, expected[row] if row >= 0 else 0 * dense)


def test_times_stay_with_their_ratings_in_a_grouping():
    times = np.array(["2024-01-03", "2024-01-01", "2024-01-02"], "datetime64[s]")
    grouped = Ratings.from_arrays(["b", "a", "a"], [1, 2, 1], [3.0, 1.0, 2.0], times).by_user_with_times
    for part in (grouped, grouped.take(np.array([1, 0], np.int32)), grouped.masked(grouped.values > 1)):
        assert part.times is not None
        assert (
            dict(zip(part.values.tolist(), part.times.tolist(), strict=True)).items()
            <= {
                3.0: times[0].item(),
                1.0: times[1].item(),
                2.0: times[2].item(),
            }.items()
        )


@given(pairs, st.randoms(use_true_random=False))
def test_fingerprint_forgets_the_order(rows, random):
    unique = [(user, item, value) for (user, item), value in {row[:2]: row[2] for row in rows}.items()]
    shuffled = unique.copy()
    random.shuffle(shuffled)
    first = Ratings.from_arrays(*zip(*unique, strict=True))
    assert Ratings.from_arrays(*zip(*shuffled, strict=True)).fingerprint() == first.fingerprint()


@given(st.permutations(["a", "b", "ab", "é", "映", "7", "-"]))
def test_fingerprint_forgets_the_order_of_strings_too(users):
    of = {"a": 1, "b": 2, "ab": 3, "é": 4, "映": 5, "7": 6, "-": 7}
    ratings = Ratings.from_arrays(users, [of[user] % 3 for user in users], [of[user] for user in users])
    plain = Ratings.from_arrays(list(of), [value % 3 for value in of.values()], list(of.values()))
    assert ratings.fingerprint() == plain.fingerprint()


def test_fingerprint_tells_ratings_apart():
    variants = [
        Ratings.from_arrays([1, 2], [5, 6], [3, 4]),
        Ratings.from_arrays([1, 2], [6, 5], [3, 4]),
        Ratings.from_arrays([1, 2], [5, 6], [4, 3]),
        Ratings.from_arrays([1, 3], [5, 6], [3, 4]),
        Ratings.from_arrays([2, 1], [5, 6], [3, 4]),
        Ratings.from_arrays(["1", "2"], [5, 6], [3, 4]),
        Ratings.from_arrays([1, 2, 2], [5, 6, 5], [3, 4, 4]),
        Ratings.from_arrays(["ab", "c"], [5, 6], [3, 4]),
        Ratings.from_arrays(["a", "bc"], [5, 6], [3, 4]),
    ]
    assert len({ratings.fingerprint() for ratings in variants}) == len(variants)


def titled():
    ratings = some()
    attributes = pl.DataFrame({"genres": [["x"], ["y"], []], "year": [1, 2, 3]})
    return ratings.with_items(pl.Series(["A", "B", None], dtype=pl.String), attributes)


def test_taking_forgets_ids_and_keeps_titles():
    ratings = titled()
    assert ratings.items.ids.to_list() == ["a", "b", "c"]
    taken = ratings.take(np.array([4, 1]))
    assert triples(taken) == [(2, "c", 0.5), (3, "c", 3)]
    assert taken.users.ids.to_list() == [2, 3]
    assert taken.items.ids.to_list() == ["c"]
    assert taken.item_titles.to_list() == [None]
    assert taken.item_attributes.rows() == [([], 3)]
    assert taken.times.astype(int).tolist() == [5, 2]


@given(pairs, st.data())
def test_taking_equals_filtering_the_triples(rows, data):
    ratings = Ratings.from_arrays(*zip(*rows, strict=True))
    index = data.draw(st.lists(st.integers(0, len(ratings) - 1), unique=True, min_size=1))
    before = triples(ratings)
    taken = ratings.take(np.array(index))
    assert triples(taken) == [before[place] for place in index]
    assert taken.users.ids.to_list() == list(dict.fromkeys(before[place][0] for place in index))
    assert len(before) == len(triples(ratings))


def test_masking_keeps_the_rows():
    ratings = titled()
    masked = ratings.masked(ratings.values > 3)
    assert triples(masked) == [(2, "a", 4), (1, "b", 5)]
    assert masked.users is ratings.users
    assert masked.n_items == 3
    assert masked.by_item.counts.tolist() == [1, 1, 0]
    assert masked.times.astype(int).tolist() == [3, 4]
    assert masked.item_titles.to_list() == ["A", "B", None]


def test_titles_of_rows():
    assert titled().title_of(np.array([1, 2, -1, 0])).to_list() == ["B", None, None, "A"]
    assert some().title_of(np.array([1, 2])).to_list() == [None, None]
    with pytest.raises(DataError, match="2 descriptions for 3 items"):
        some().with_items(pl.Series(["A", "B"]))


@frames
def test_frames_round_trip(frame):
    ratings = some()
    exported = ratings.to_polars() if frame is pl.DataFrame else ratings.to_pandas()
    again = Ratings.from_frame(exported)
    assert isinstance(exported, frame)
    assert triples(again) == triples(ratings)
    assert again.users.ids.dtype == pl.Int64
    np.testing.assert_array_equal(again.times, ratings.times)


@frames
def test_columns_by_usual_and_by_given_names(frame):
    table = frame({"Movie-ID": ["x", "y"], "score": [1, 2], "user_id": [7, 8], "other": [9, 9], "when": [5, 6]})
    ratings = Ratings.from_frame(table)
    assert triples(ratings) == [(7, "x", 1), (8, "y", 2)]
    assert ratings.times is None
    named = Ratings.from_frame(table, rating="other", time="when")
    assert triples(named) == [(7, "x", 9), (8, "y", 9)]
    assert named.times.astype(int).tolist() == [5, 6]


@frames
def test_missing_columns_are_named(frame):
    with pytest.raises(DataError, match="no column for the item and the rating among user, what"):
        Ratings.from_frame(frame({"user": [1], "what": [2]}))
    with pytest.raises(DataError, match="no column 'stars'.*one of user, item, rating"):
        Ratings.from_frame(frame({"user": [1], "item": [2], "rating": [1]}), rating="stars")


def columns(**changed):
    return {"user": [1, 2, 3], "item": ["a", "b", "c"], "rating": [1.0, 2.0, 3.0], **changed}


@frames
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, float("nan"), 3.0], "nan"),
        ([1.0, None, 3.0], "None"),
        (["1", "two", "3"], "two"),
        ([1.0, float("inf"), 3.0], "inf"),
        ([1.0, -1e300, 3.0], "-1e+300"),
    ],
)
def test_what_is_no_rating_is_refused(frame, values, text):
    with pytest.raises(DataError, match="expected a finite number") as caught:
        Ratings.from_frame(frame(columns(rating=values)))
    assert text.lower() in str(caught.value).lower() or (text == "None" and "nan" in str(caught.value))
    assert "1" in caught.value.problem


def test_objects_among_the_ratings_are_refused():
    with pytest.raises(DataError, match="row 1: not a rating: 'x'"):
        Ratings.from_frame(pd.DataFrame(columns(rating=[1, "x", 3])))
    with pytest.raises(DataError, match="row 1: not a rating"):
        Ratings.from_frame(pd.DataFrame(columns(rating=pd.array([1, None, 3], dtype="Int64"))))
    with pytest.raises(DataError, match="ratings of type List"):
        Ratings.from_frame(pl.DataFrame(columns(rating=[[1], [2], [3]])))


def test_ids_that_pandas_turned_into_floats():
    ratings = Ratings.from_frame(pd.DataFrame(columns(user=[1.0, 2.0, 2.0**40])))
    assert ratings.users.ids.to_list() == [1, 2, 2**40]
    assert ratings.users.ids.dtype == pl.Int64


@frames
@pytest.mark.parametrize("ids", [[1.0, None, 3.0], [1.0, 2.5, 3.0], ["a", None, "b"]])
def test_missing_and_fractional_ids_are_refused(frame, ids):
    with pytest.raises(DataError, match="user: .*(missing|fractional)"):
        Ratings.from_frame(frame(columns(user=ids)))


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([0, None, 86400]),
        pl.Series([0.0, float("nan"), 86400.9]),
        pl.Series(["1970-01-01", None, "1970-01-02T00:00:00Z"]),
        pl.Series(["0", "", "86400"]),
        pl.Series([0, None, 1], dtype=pl.Date),
        pl.Series([0, None, 86_400_000], dtype=pl.Datetime("ms", "Europe/Paris")),
        pd.Series(pd.to_datetime(["1970-01-01", None, "1970-01-02"])),
        pd.Series(pd.to_datetime(["1970-01-01T02:00+02:00", None, "1970-01-02T02:00+02:00"])),
        pd.Series(["1970-01-01", None, "1970-01-02"]),
        pd.Series(pd.array([0, None, 86400], dtype="Int64")),
        np.array(["1970-01-01", "NaT", "1970-01-02"], "datetime64[ns]"),
    ],
)
def test_times_of_any_kind(times):
    with pytest.warns(DataWarning, match="1 of 3 ratings have no time"):
        ratings = Ratings.from_arrays([1, 2, 3], [1, 2, 3], [1, 2, 3], times)
    np.testing.assert_array_equal(ratings.times, np.array(["1970-01-01", "NaT", "1970-01-02"], "datetime64[s]"))
    assert ratings.describe().first == "1970-01-01"
    assert ratings.describe().last == "1970-01-02"


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (["1970-01-01", "yesterday", ""], "yesterday"),
        ([1.0, float("inf"), 2.0], "inf"),
        ([1, 1588687728923, 2], "1588687728923"),
        ([1.0, 1e30, 2.0], "1e+30"),
    ],
)
def test_what_is_no_time_is_refused(times, text):
    with pytest.raises(DataError, match="position 1: not a time.*seconds .not milliseconds. since 1970") as caught:
        Ratings.from_arrays([1, 2, 3], [1, 2, 3], [1, 2, 3], times)
    assert caught.value.text == text


def test_lengths_must_agree():
    with pytest.raises(DataError, match="2 users, 1 items and 2 values"):
        Ratings.from_arrays([1, 2], [1], [1, 2])
    with pytest.raises(DataError, match="1 times for 2 ratings"):
        Ratings.from_arrays([1, 2], [1, 2], [1, 2], [0])
    with pytest.raises(DataError, match="no ratings"):
        Ratings.from_arrays([], [], [])


def test_description():
    description = some().describe()
    assert (description.n_ratings, description.n_users, description.n_items) == (5, 3, 3)
    assert description.density == pytest.approx(5 / 9)
    assert description.mean == pytest.approx((1 + 3 + 4 + 5 + 0.5) / 5)
    assert description.standard_deviation == pytest.approx(np.std([1, 3, 4, 5, 0.5]))
    assert (description.minimum, description.maximum) == (0.5, 5)
    assert description.levels == (0.5, 1, 3, 4, 5)
    assert description.per_user == (1, 2, 2)
    assert description.per_item == (1, 2, 2)
    assert not description.has_titles
    assert "5 of 6 read (1 duplicates merged)" in str(description)


@settings(max_examples=20)
@given(pairs)
def test_inputs_are_not_changed(rows):
    users, items, values = (np.array(column) for column in zip(*rows, strict=True))
    for array in (users, items, values):
        array.setflags(write=False)
    ratings = Ratings.from_arrays(users, items, values)
    assert set(triples(ratings)) <= {tuple(row) for row in rows}


def test_ratings_cannot_be_changed():
    given = np.array([1.0, 2.0], dtype=np.float32)
    ratings = Ratings.from_arrays([1, 2], [1, 2], given)
    for array in (ratings.user_rows, ratings.item_rows, ratings.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    given[0] = 9.0  # the caller's own array stays the caller's
    assert ratings.values.tolist() == [1.0, 2.0]


def test_sums_that_cannot_be_kept_are_refused():
    with pytest.raises(DataError, match="add up to more than can be kept"):
        Ratings.from_arrays([1, 1], [1, 1], [3e38, 3e38], duplicates="sum")


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="the values are no ratings"):
        Ratings.from_arrays([1, 1], [1, 2], ["a", "b"])


def test_the_spread_of_equal_ratings_is_exactly_nothing():
    """The mean of many equal numbers may miss them by a rounding error."""
    for n in (3, 7, 1001):
        assert Ratings.from_arrays(range(n), [0] * n, [3.3] * n).standard_deviation == 0.0
    values = np.random.default_rng(0).integers(1, 6, 3_000_000)
    many = Ratings.from_arrays(np.arange(len(values)), np.zeros(len(values), int), values)
    assert many.standard_deviation == pytest.approx(values.std(), rel=1e-12)


def test_yes_from_a_threshold_on():
    ratings = Ratings.from_arrays([1, 1, 2], [1, 2, 1], [0.7, 0.5, 4.0])
    assert ratings.at_least(0.7).values.tolist() == [1.0, 0.0, 1.0]
    assert ratings.at_least(5).values.tolist() == [0.0, 0.0, 0.0]
    assert ratings.values.tolist() == pytest.approx([0.7, 0.5, 4.0])
    for threshold in (np.nan, np.inf):
        with pytest.raises(InvalidParameterError, match="threshold"):
            ratings.at_least(threshold)
