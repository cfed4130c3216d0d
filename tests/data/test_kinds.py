"""What values are taken for, what they may be declared to be, and that a declaration stays."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import (
    BPMF,
    DampedBias,
    Popular,
    Ratings,
    held_out_users,
    k_fold,
    last_per_user,
    leave_one_out,
    random_split,
    read,
    time_split,
)
from tastespace.data.kinds import KINDS, guess_kind
from tastespace.errors import DataError, InvalidParameterError
from tastespace.randomness import generator


def ratings(values, times=None):
    n = len(values)
    return Ratings.from_arrays(np.arange(n) // 4, np.arange(n) % 4, values, times)


HARD_CASES = {
    "all ones": ([1] * 20, "one-class"),
    "all fives": ([5] * 20, "one-class"),
    "all 0.1, which is not exact": ([0.1] * 1000, "one-class"),
    "one rating": ([3.5], "stars"),
    "one choice": ([1], "one-class"),
    "a few fives": ([5] * 9, "stars"),
    "all zeros, of which none was chosen": ([0] * 20, "stars"),
    "all minus ones": ([-1] * 20, "stars"),
    "yes and no": ([0, 1] * 10, "yes-no"),
    "a single no": ([1] * 999 + [0], "yes-no"),
    "between yes and no": ([0, 1, 0.5] * 10, "stars"),
    "thumbs, up and down": ([-1, 1] * 10, "stars"),
    "stars from 1 to 5": ([1, 2, 3, 4, 5] * 10, "stars"),
    "stars that are mostly bad": ([1] * 80 + [2, 3, 4, 5] * 5, "stars"),
    "stars that are mostly good": ([5] * 99 + [1], "stars"),
    "half stars": ([0.5, 1, 4.5, 5] * 10, "stars"),
    "stars from 1 to 10": (list(range(1, 11)) * 5, "stars"),
    "stars from 1 to 10, half of them 1": ([1] * 50 + [10] * 50, "stars"),
    "Book-Crossing: 0 for none, else 1 to 10": ([0] * 60 + [7, 8, 9, 10] * 10, "stars"),
    "a slider from 0 to 100": (list(range(101)), "stars"),
    "a slider from 0 to 100 that is mostly low": ([10, 12, 15] * 20 + [100], "stars"),
    "Jester: numbers from -10 to 10": ([-9.95, 0.5, 10.0] * 10, "stars"),
    "whole numbers, one negative": ([-1] + [1] * 50 + [500], "stars"),
    "plays": ([1, 1, 2, 3, 5, 8, 250], "counts"),
    "plays, and pairs that were never played": ([0, 0, 0, 1, 1, 2, 90], "counts"),
    "once, a few twice": ([1] * 95 + [2] * 5, "counts"),
    "plays with halves": ([1, 1, 1.5, 2, 250], "counts"),
    "hours played": ([0.1, 0.3, 2.5, 12.1, 0.4, 11754], "counts"),
    "a few hours played": ([0.1, 0.4, 0.5, 9.9], "counts"),
    "seconds watched, none of them many more than the others": ([310.5, 902, 1711, 2400] * 5, "counts"),
    "points above 100": ([60, 80, 120] * 9, "counts"),
    "plays, none of them very many": ([1] * 50 + [2] * 25 + list(range(3, 16)), "counts"),
    "zero as a star": (list(range(11)) * 5 + [8] * 50, "stars"),
    "half stars from 0 to 10, many of them low": ([0.5] * 5 + list(np.arange(0, 10.5, 0.5)) * 2, "stars"),
    "numbers from 0 to 1": ([0.02, 0.5, 0.7, 1] * 9, "stars"),
    "no ratings at all": ([], "stars"),
}


@pytest.mark.parametrize("case", HARD_CASES)
def test_the_guess(case):
    values, kind = HARD_CASES[case]
    assert guess_kind(np.array(values, np.float32)).kind == kind


def test_the_limits_of_the_guess():
    """More than ten times the median, above 100, at least nine of ten, and at least a quarter of many values."""
    assert guess_kind(np.array([60.0, 100])).kind == "stars"
    assert guess_kind(np.array([60.0, 101])).kind == "counts"
    assert guess_kind(np.array([1.0] * 4 + [2] * 9 + list(range(3, 13)))).kind == "stars"
    assert guess_kind(np.array([1.0] * 7 + [2] * 9 + list(range(3, 13)))).kind == "counts"
    assert guess_kind(np.array([1.0] * 7 + [2] * 9 + list(range(3, 12)))).kind == "stars"
    assert guess_kind(np.array([2.0] * 9 + [20])).kind == "stars"
    assert guess_kind(np.array([2.0] * 9 + [21])).kind == "counts"
    assert guess_kind(np.array([1.0] * 89 + [2] * 11)).kind == "stars"
    assert guess_kind(np.array([1.0] * 90 + [2] * 10)).kind == "counts"
    # The median of what is above 0: zeros do not move it.
    assert guess_kind(np.array([0.0] * 50 + [5] * 9 + [50])).kind == "stars"


def test_the_reason_names_what_was_seen():
    hours = guess_kind(np.array([0.1, 0.3, 2.5, 12.1, 0.4, 11754]))
    assert hours.reason == "numbers from 0.1 up to 11,754, more than 10 times their median of 1.45"
    assert guess_kind(np.array([4.0])).reason == "all values are 4 (only 1 of them)"
    assert "up to 120, more than any scale of ratings has" in guess_kind(np.array([60.0, 120])).reason
    many = guess_kind(np.array([1.0] * 7 + [2] * 9 + list(range(3, 13))))
    assert many.reason == "whole numbers up to 12, and 27% of them are 1, the lowest"


@given(st.lists(st.floats(-100, 1000, width=32), min_size=1, max_size=30))
def test_any_values_have_a_kind_and_a_reason_whatever_their_order(values):
    there, back = guess_kind(np.array(values)), guess_kind(np.array(values[::-1]))
    assert there == back
    assert there.kind in KINDS
    assert there.reason


REAL = {
    "ml-100k": "stars",
    "ml-1m": "stars",
    "ml-latest-small": "stars",
    "jester-1.parquet": "stars",
    "citeulike-a.parquet": "one-class",
    "hetrec-lastfm-2k/plays.parquet": "counts",
}


@pytest.mark.parametrize("name", REAL)
def test_the_guess_on_real_data(name, datasets):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Times are missing in ml-1m.
        found = read(datasets / name)
    assert found.kind == REAL[name]
    parts = random_split(found, 0.01, seed=0)
    assert (parts.train.kind, parts.test.kind) == (REAL[name], REAL[name])


def test_the_kind_and_why_are_in_the_description():
    described = ratings([1, 1, 2, 3, 250]).describe()
    assert (described.kind, described.to_dict()["kind"]) == ("counts", "counts")
    assert "kind     counts (whole numbers up to 250, more than 10 times their median of 2)" in str(described)
    assert "kind     stars (as declared)" in str(ratings([1, 1, 2, 3, 250]).with_kind("stars").describe())


# Declared


def test_a_declared_kind_goes_before_the_guess():
    stars = ratings([1, 2, 3, 4, 5, 5, 4])
    counts = stars.with_kind("counts")
    assert (stars.kind, counts.kind) == ("stars", "counts")
    assert counts.values.tolist() == stars.values.tolist()
    assert counts.fingerprint() == stars.fingerprint()
    assert counts.with_kind("stars").kind == "stars"


def test_declared_after_a_guess_was_made_and_ratings_were_grouped():
    found = ratings([1, 1, 2, 3, 250])
    assert (found.kind, len(found.by_user)) == ("counts", 2)
    assert found.with_kind("stars").kind == "stars"
    assert found.with_kind("stars").by_user is found.by_user
    assert found.kind == "counts"


def test_one_class_forgets_the_values():
    chosen = ratings([1, 2, 5, 3]).with_kind("one-class")
    assert chosen.values.tolist() == [1, 1, 1, 1]
    assert chosen.by_user.values.tolist() == [1, 1, 1, 1]
    assert chosen.mean == 1


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("counts", [3, 0, 0, 2], "declared counts, but 2 of 4 values are not above 0, such as 0 of user 0 and item 1"),
        ("counts", [3, 1, -2, 2], "1 of 4 values are not above 0, such as -2 of user 0 and item 2"),
        ("one-class", [1, 0], "declared one-class, but 1 of 2 values are not above 0"),
        ("yes-no", [0, 1, 5], "declared yes-no, but 1 of 3 values are neither 0 nor 1, such as 5"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(kind, values, message):
    with pytest.raises(DataError, match=message) as refused:
        ratings(values).with_kind(kind)
    assert "; expected " in str(refused.value)


@pytest.mark.parametrize("kind", ["star", "", None, 3, ["stars"]], ids=str)
def test_what_is_no_kind(kind):
    with pytest.raises(InvalidParameterError, match="expected one of stars, yes-no, counts, one-class"):
        ratings([1, 2]).with_kind(kind)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_never_becomes_ratings(wrong):
    with pytest.raises(DataError, match="expected a finite number"):
        ratings([1, wrong, 2])


def test_whatever_reaches_a_threshold_is_yes_or_no_even_if_all_do():
    assert ratings([4, 5, 5]).at_least(1).kind == "yes-no"
    assert ratings([4, 5, 5]).with_kind("counts").at_least(1).kind == "yes-no"


# It stays


@pytest.fixture
def declared():
    """Stars by their looks."""
    values = generator(0).integers(1, 6, 60)
    return ratings(values, times=np.arange(60) * 1000).with_kind("counts")


def test_it_stays_with_parts(declared):
    assert declared.take(np.arange(7)).kind == "counts"
    assert declared.masked(np.arange(60) < 20).kind == "counts"
    assert declared.with_items().kind == "counts"


@pytest.mark.parametrize(
    "split",
    [
        lambda ratings: random_split(ratings, 0.2),
        lambda ratings: next(k_fold(ratings, 3)),
        leave_one_out,
        last_per_user,
        lambda ratings: time_split(ratings, 0.2),
        lambda ratings: held_out_users(ratings, 0.2),
    ],
)
def test_it_stays_with_splits(split, declared):
    found = split(declared)
    parts = [found.train, found.test, *([] if found.history is None else [found.history])]
    assert {part.kind for part in parts} == {"counts"}
    assert {part.declared_kind for part in parts} == {"counts"}


def test_it_stays_with_a_model_that_is_updated(declared):
    model = DampedBias().fit(declared)
    new = Ratings.from_arrays([0, 99], [3, 1], [2, 3])
    assert new.kind == "stars"
    assert model.update(new).ratings_.kind == "counts"
    assert model.update(new).update(new).ratings_.declared_kind == "counts"


def test_new_ratings_may_say_it_first():
    model = Popular().fit(ratings([1, 1, 1, 1, 1]))
    new = Ratings.from_arrays([0], [3], [1])
    assert model.update(new).ratings_.declared_kind is None
    assert model.update(new.with_kind("counts")).ratings_.kind == "counts"


def test_new_ratings_of_one_class_are_choices_whatever_their_values():
    model = Popular().fit(ratings([1, 2, 3, 4, 5]).with_kind("one-class"))
    updated = model.update(Ratings.from_arrays([0, 7], [3, 3], [5, 4]))
    assert set(updated.ratings_.values.tolist()) == {1.0}
    assert updated.ratings_.kind == "one-class"


def test_new_ratings_of_another_kind_are_refused(declared):
    model = DampedBias().fit(declared)
    with pytest.raises(
        DataError, match=r"the new ratings are stars \(as declared\), but those of the model are counts"
    ):
        model.update(Ratings.from_arrays([0], [3], [2]).with_kind("stars"))
    with pytest.raises(DataError, match="1 of 1 values are not above 0"):
        model.update(Ratings.from_arrays([0], [3], [0]))


def test_a_file_is_read_as_declared(tmp_path):
    file = tmp_path / "plays.csv"
    file.write_text("user,item,rating\n1,1,1\n1,2,2\n2,1,3\n2,2,1\n")
    assert read(file).kind == "stars"
    assert read(file, kind="counts").kind == "counts"
    with pytest.raises(InvalidParameterError, match="kind is 'plays'"):
        read(file, kind="plays")
    file.write_text("user,item,rating\n1,1,1\n1,2,0\n")
    with pytest.raises(DataError, match=r"plays.csv: declared counts, but 1 of 2 values are not above 0"):
        read(file, kind="counts")


def test_yes_and_no_of_one_sort_say_what_to_use_instead():
    for likelihood in ("probit", "logistic"):
        with pytest.raises(InvalidParameterError, match=r"all ratings are yes .* implicit-als\) ranks them"):
            BPMF(likelihood=likelihood).fit(ratings([1, 1, 1, 1]))


@pytest.mark.parametrize("name", ["plays", "play_count", "clicks", "count", "Purchases"])
def test_a_column_of_counts_is_found_by_its_name(name, tmp_path):
    (tmp_path / "plays.csv").write_text(f"user,artist,{name}\n1,a,300\n1,b,2\n2,a,1\n")
    assert read(tmp_path / "plays.csv").values.tolist() == [300, 2, 1]
