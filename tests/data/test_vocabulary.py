"""Ids of the outside world and their rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tastespace.data.vocabulary as vocabulary_file
from tastespace.data.vocabulary import Vocabulary, id_series, is_canonical_integer
from tastespace.errors import DataError

integers = st.integers(-(2**63), 2**63 - 1)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda text: text.strip() != "")


@given(st.one_of(st.lists(integers, min_size=1), st.lists(strings, min_size=1)))
def test_rows_are_places_of_first_appearance(ids):
    vocabulary, rows = Vocabulary.of(ids)
    assert vocabulary.ids.to_list() == list(dict.fromkeys(ids))
    assert vocabulary.at(rows).to_list() == ids
    assert rows.dtype == np.int32
    np.testing.assert_array_equal(vocabulary.rows_of(ids), rows)


@given(st.lists(integers, min_size=1, unique=True), st.lists(integers))
def test_text_of_an_integer_finds_it_and_unseen_ids_do_not(known, asked):
    vocabulary, _ = Vocabulary.of(known)
    expected = [known.index(entry) if entry in known else -1 for entry in asked]
    assert vocabulary.rows_of([str(entry) for entry in asked]).tolist() == expected
    assert vocabulary.rows_of(asked).tolist() == expected


def test_only_the_canonical_text_finds_an_integer():
    vocabulary, _ = Vocabulary.of([7, 70])
    assert vocabulary.rows_of(["7", "007", "+7", "7.0", " 7", "", "x", "70"]).tolist() == [
        0, -1, -1, -1, -1, -1, -1, 1,
    ]  # fmt: skip


def test_an_integer_finds_its_text_but_not_a_padded_one():
    vocabulary, _ = Vocabulary.of(["7", "007", "æøå", "映画"])
    assert vocabulary.rows_of([7, 8]).tolist() == [0, -1]
    assert vocabulary.rows_of(["007", "映画", "æøå"]).tolist() == [1, 3, 2]


def test_large_ids_stay_apart():
    ids = [2**31, 2**31 + 1, 2**53, 2**53 + 1, -(2**63)]
    vocabulary, rows = Vocabulary.of(ids)
    assert vocabulary.ids.to_list() == ids
    assert rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("large", [2**63, 2**64, 2**200])
def test_ids_beyond_64_bits_become_strings(large):
    vocabulary, _ = Vocabulary.of([large, 1])
    assert vocabulary.ids.to_list() == [str(large), "1"]
    assert vocabulary.rows_of([large]).tolist() == [0]


def test_integers_and_strings_together_are_strings():
    vocabulary, rows = Vocabulary.of([1, "1", "a"])
    assert vocabulary.ids.to_list() == ["1", "a"]
    assert rows.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "values",
    [
        range(3, 6),
        np.array([3, 4, 5], np.int8),
        np.array([3.0, 4.0, 5.0]),
        pd.Series([3, 4, 5]),
        pd.Series([3.0, 4.0, 5.0]),
        pd.Series(pd.array([3, 4, 5], dtype="Int64")),
        pl.Series([3, 4, 5], dtype=pl.UInt16),
        (entry for entry in [3, 4, 5]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_integers_of_any_origin(values):
    series = id_series(values)
    assert series.dtype == pl.Int64
    assert series.to_list() == [3, 4, 5]


@pytest.mark.parametrize("values", [pd.Series(["b", "a"]), pd.Categorical(["b", "a"]), np.array(["b", "a"])])
def test_strings_of_any_origin(values):
    assert id_series(values).to_list() == ["b", "a"]
    assert id_series(values).dtype == pl.String


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1, None], "position 1 is missing"),
        (["a", None], "position 1 is missing"),
        (["a", float("nan")], "position 1 is missing"),
        (pd.Series(pd.array(["a", pd.NA], dtype="string")), "position 1 is missing"),
        (pd.Series(pd.array([1, None], dtype="Int64")), "missing"),
        ([1.0, 2.5], "fractional"),
        ([1.0, float("nan")], "missing"),
        ([1.0, 1e30], "huge"),
        ([True, False], "bool"),
        (pl.Series([True]), "Boolean"),
        ([1.5, "a"], "float"),
        ([b"a"], "bytes"),
        ("abc", "'abc'"),
        (7, "7"),
    ],
)
def test_what_is_no_id_is_refused(values, problem):
    with pytest.raises(DataError, match="user") as caught:
        id_series(values, "user")
    assert problem in str(caught.value)


def test_row_minus_one_is_null():
    vocabulary, _ = Vocabulary.of(["a", "b"])
    assert vocabulary.at(np.array([1, -1, 0])).to_list() == ["b", None, "a"]
    assert Vocabulary(pl.Series([], dtype=pl.Int64)).at(np.array([-1])).to_list() == [None]


def test_no_ids_give_no_rows():
    vocabulary, _ = Vocabulary.of(["a"])
    assert vocabulary.rows_of([]).tolist() == []


def test_canonical_integers():
    texts = pl.Series(["7", "-7", "0", "-0", "007", "+7", "7.0", "", " 7", "1e3", "9223372036854775808", None])
    assert is_canonical_integer(texts).to_list() == [True] * 3 + [False] * 9


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_blank_ids_are_refused_as_they_are_in_files(blank):
    with pytest.raises(DataError, match="user: an id is blank; expected an id in every row"):
        Vocabulary.of(["a", blank], "user")


MIXED = st.one_of(integers.map(str), strings, st.sampled_from(["007", "+7", "-0", "0", " 7", "9" * 19, "9" * 25, "٧"]))


@given(st.one_of(st.lists(integers, unique=True), st.lists(MIXED, unique=True)), st.lists(MIXED))
def test_few_ids_are_found_as_many_are(known, asked):
    """A dictionary for few and a query for many say the same."""
    with pytest.MonkeyPatch.context() as patch:
        few, few_rows = Vocabulary.of(known)
        found, there = few.rows_of(asked), few.at(few.rows_of(asked))
        patch.setattr(vocabulary_file, "SMALL", -1)
        patch.setattr(vocabulary_file, "FEW", 2**40)
        many, many_rows = Vocabulary.of(known)
        assert many.ids.equals(few.ids)
        np.testing.assert_array_equal(many_rows, few_rows)
        np.testing.assert_array_equal(many.rows_of(asked), found)
        assert many.at(found).equals(there)


@pytest.mark.parametrize("n", [3, 3000])
def test_a_blank_id_is_refused_among_few_and_many(n):
    with pytest.raises(DataError, match="an id is blank"):
        Vocabulary.of([*map(str, range(n)), " \t"])
