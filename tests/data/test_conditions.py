"""Conditions on items: the grammar, what matches, and what is said when something is wrong."""

from __future__ import annotations

import datetime as dt
import operator

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace.data.attributes import Attributes
from tastespace.data.filters import MAX_NESTED, Condition
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError

TITLES = ["Star Wars (1977)", "Amélie (2001)", "Schindler's List (1993)", None, "Shrek (2001)"]
TABLE = pl.DataFrame(
    {
        "genres": [["Action", "Sci-Fi"], ["Comedy", "Romance"], ["Drama", "War"], None, []],
        "year": pl.Series([1977, 2001, 1993, None, 2001], dtype=pl.Int32),
        "Unit Price": [9.5, 12.0, float("nan"), 3.25, None],
        "language": ["en", "fr", "EN", None, "en"],
        "in stock": [True, False, True, None, True],
        "released": [dt.date(1977, 5, 25), dt.date(2001, 4, 25), None, None, dt.date(2001, 5, 18)],
        "categories": [["a b"], ["c"], None, None, ["A B", "d"]],
        "sizes": [[1, 5], [7], [], None, [5]],
        "in": ["x", "y", "x", "y", "x"],
        "nested": [{"a": 1}] * 5,
    }
)


def ratings_of(titles=TITLES, table=TABLE):
    """Five items; item k of 10 + k has k + 1 ratings."""
    pairs = [(user, 10 + item) for item in range(5) for user in range(item + 1)]
    order = sorted(pairs, key=lambda pair: pair[1])
    users, items = zip(*order, strict=True)
    ratings = Ratings.from_arrays(users, items, np.ones(len(order)))
    return ratings.with_items(None if titles is None else pl.Series(titles, dtype=pl.String), table)


ITEMS = Attributes(ratings_of())


def found(text, items=ITEMS):
    matches, doubts = Condition(text).matches(items)
    assert doubts == []
    return np.flatnonzero(matches).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("genre = Comedy", [1]),
        ("genres = comedy", [1]),
        ("GENRE == 'Comedy'", [1]),
        ("genre = Sci-Fi", [0]),
        ("genre != Comedy", [0, 2]),
        ("genre <> Comedy", [0, 2]),
        ("genre in (Comedy, War)", [1, 2]),
        ("genre not in (Comedy, War)", [0]),
        ("not genre in (Comedy, War)", [0, 3, 4]),
        ("genre contains rom", [1]),
        ("genre not contains rom", [0, 2]),
        ("genre is missing", [3, 4]),
        ("genre is not missing", [0, 1, 2]),
        ("not not genre is missing", [3, 4]),
        ("category = 'a b'", [0, 4]),
        ("size > 5", [1]),
        ("size = 5", [0, 4]),
        ("size != 5", [1]),
        ("year >= 1993", [1, 2, 4]),
        ("year>=1993 and year<2001", [2]),
        ("year = 2001 and not genre = Comedy", [4]),
        ("year = '2001'", [1, 4]),
        ("year = 2001.0", [1, 4]),
        ("year in (1977, 1993.5)", [0]),
        ("year > -1e3", [0, 1, 2, 4]),
        ("year is missing", [3]),
        ("unit_price <= 9.5", [0, 3]),
        ('"Unit Price" <= 9.5', [0, 3]),
        ("UnitPrice is missing", [2, 4]),
        ("language = en", [0, 2, 4]),
        ("language > en", [1]),
        ("in_stock = true", [0, 2, 4]),
        ("'in stock' = FALSE", [1]),
        ("released >= 2001-05-01", [4]),
        ('"in" = x', [0, 2, 4]),
        ('title contains "star wars"', [0]),
        ("title contains AMÉLIE", [1]),
        ("title contains Ame\u0301lie", [1]),
        ("title contains Schindler's", [2]),
        ('title contains "schindler\'s list"', [2]),
        ("title contains 'schindler''s list'", [2]),
        ("title contains 2001", [1, 4]),
        ("title is missing", [3]),
        ("item = 12", [2]),
        ("item in (10, 14)", [0, 4]),
        ("ratings >= 4", [3, 4]),
        ("year = 1977 or year = 2001 and genre = Comedy", [0, 1]),
        ("(year = 1977 or year = 2001) and genre = Comedy", [1]),
        ("year = 1977 OR\n\tNOT (year is missing Or year < 2000)", [0, 1, 4]),
        ("((((year = 1977))))", [0]),
    ],
)
def test_what_matches(text, expected):
    assert found(text) == expected


def test_the_table_goes_before_what_is_always_known():
    items = Attributes(ratings_of(["a"] * 5, pl.DataFrame({"title": list("vwxyz"), "ratings": [0, 0, 0, 0, 9]})))
    assert found("title = z", items) == [4]
    assert found("ratings = 9", items) == [4]


def test_without_titles_and_attributes():
    items = Attributes(ratings_of(None, None))
    assert found("ratings = 2 or item = 10", items) == [0, 1]
    with pytest.raises(InvalidParameterError, match="one of item, ratings"):
        found("title = x", items)


def test_without_ratings_their_number_is_not_known():
    items = Attributes(ratings_of().masked(np.zeros(15, bool)))
    assert found("year = 1977", items) == [0]
    with pytest.raises(InvalidParameterError, match="saved without its ratings"):
        found("ratings > 3", items)


def test_blank_texts_are_missing():
    table = pl.DataFrame({"colour": ["red", "", " \t", None, "Blue"], "tags": [["a", ""], [" "], [""], [], None]})
    items = Attributes(ratings_of(None, table))
    assert found("colour = red", items) == [0]
    assert found("colour != red", items) == [4]
    assert found("colour is missing", items) == [1, 2, 3]
    assert found("tag = a", items) == [0]
    assert found("tag is missing", items) == [1, 2, 3, 4]
    blank = Attributes(ratings_of(["", "b", "", "", ""], None))
    assert found("title contains b", blank) == [1]


def test_numbers_beyond_single_precision():
    table = pl.DataFrame({"price": pl.Series([1.5, 2, 3e38, None, float("nan")], dtype=pl.Float32)})
    items = Attributes(ratings_of(None, table))
    assert found("price >= 1e300", items) == []
    assert found("price < 1e300", items) == [0, 1, 2]
    assert found("price in (1.5, 1e300)", items) == [0]
    assert found("price is missing", items) == [3, 4]


def test_large_ids_are_not_rounded():
    large = 2**53 + 1
    ratings = Ratings.from_arrays([0, 0, 0], [large, large - 1, 5], [1.0, 1.0, 1.0])
    assert found(f"item = {large}", Attributes(ratings)) == [0]
    assert found(f"item >= {large}", Attributes(ratings)) == [0]
    assert found(f"item in ({large - 1}, 5)", Attributes(ratings)) == [1, 2]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("genre = and year > 3", 8, "has 'and' here; expected a value"),
        ("genre =", 7, "ends here; expected a value"),
        ("genre", 5, "ends here; expected =, !=, <"),
        ("= 5", 0, "has '=' here; expected the name of an attribute"),
        ("genre = Science Fiction", 16, "has 'Fiction' here.*written in \"quotes\""),
        ("genre in Horror", 9, r"expected \( and values"),
        ("genre in (Horror War)", 17, "a comma or"),
        ("genre in (Horror", 16, "a comma or"),
        ("genre in ()", 10, "expected a value"),
        ("genre not = x", 10, "expected in or contains"),
        ("year is 5", 8, "expected missing, or not missing"),
        ("year is not 5", 12, "expected missing"),
        ("(year = 5", 9, r"expected and, or, or \)"),
        ("year = 5)", 8, "expected and, or, or the end"),
        ("year ! 5", 5, "expected != or not"),
        ("title = 'x", 8, "opens a quotation mark"),
        ("yeer = 5", 0, "not an attribute of the items; expected one of genres, year.*did you mean year"),
        ("rating > 3", 0, "did you mean ratings"),
        ("colour = red", 0, "expected one of genres, year"),
        ("year > new", 7, "expected a finite number: that is what year has"),
        ("year > 1e999", 7, "a finite number"),
        ("year contains 9", 14, "looks for a text within year"),
        ("nested = 1", 0, "neither text nor numbers"),
        ("year = 1\tand\ngenre = (", 21, "expected a value"),
        ("題名 = '日本' and and", 14, "the name of an attribute"),
    ],
)
def test_mistakes_are_shown_where_they_are(text, place, message):
    with pytest.raises(InvalidParameterError, match=message) as caught:
        found(text)
    problem, shown, mark = str(caught.value).split("\n")
    assert len(shown) == len(text) + 2
    assert problem.startswith("the condition ")
    assert mark.strip() == "^"
    # Under the place, counted in columns of a terminal, where an ideograph takes two.
    wide = sum(letter in "題名日本" for letter in text[:place])
    assert len(mark) - 3 == place + wide


def test_of_a_long_condition_the_place_is_shown():
    text = " or ".join(["year = 1990"] * 100) + " or year ="
    with pytest.raises(InvalidParameterError) as caught:
        found(text)
    _, shown, mark = str(caught.value).split("\n")
    assert shown.startswith("  …")
    assert len(shown) < 110
    assert len(mark) == len(shown) + 1


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_condition(text):
    with pytest.raises(InvalidParameterError, match="where is empty; expected a condition such as"):
        Condition(text)


def test_something_else_than_a_text():
    with pytest.raises(InvalidParameterError, match="where is of type Expr"):
        Condition(pl.col("year") > 3)


def test_brackets_within_brackets():
    assert found("(" * MAX_NESTED + "year = 1977" + ")" * MAX_NESTED) == [0]
    assert found(" and ".join(["(year = 1977)"] * 5000)) == [0]
    assert found("not " * 10_000 + "year = 1977") == [0]
    with pytest.raises(InvalidParameterError, match="at most 50 levels"):
        found("(" * 100_000)


@pytest.mark.parametrize(
    ("text", "doubts"),
    [
        ("genre = Comdy", ["no item has the genres 'Comdy'; did you mean 'Comedy'?"]),
        (
            "genre in (War, Xyzzy) or language != de",
            ["no item has the genres 'Xyzzy'", "no item has the language 'de'"],
        ),
        ("year = 1800 or genre contains xyzzy or language > xyzzy", []),
    ],
)
def test_values_that_no_item_has_are_doubted(text, doubts):
    assert Condition(text).matches(ITEMS)[1] == doubts


# Any condition against a direct evaluation, item by item

NUMBERS = {"year": [1977, 1990, 1991, 2001], "price": [0.5, 1.0, 2.5]}
TEXTS = {"genres": ["War", "film-noir", "Children's", "Sci-Fi"], "language": ["en", "EN", "Straße", "de at"]}


@st.composite
def worlds(draw):
    """A few items as plain dictionaries."""
    entry = st.fixed_dictionaries(
        {
            "year": st.none() | st.sampled_from(NUMBERS["year"]),
            "price": st.none() | st.sampled_from(NUMBERS["price"]),
            "genres": st.none() | st.lists(st.sampled_from(TEXTS["genres"]), max_size=3),
            "language": st.none() | st.sampled_from(TEXTS["language"]),
        }
    )
    return draw(st.lists(entry, min_size=1, max_size=6))


def spelled(value):
    """A value as text of a condition: bare or in quotes, in any case."""
    if not isinstance(value, str):
        return st.just(repr(value))
    doubled, quoted = value.replace("'", "''"), value.replace('"', '""')
    ways = [f"'{doubled}'", f'"{quoted}"', f'"{quoted.upper()}"']
    return st.sampled_from(ways if " " in value else [*ways, value, value.swapcase()])


def plain(value):
    return value.casefold() if isinstance(value, str) else value


ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def values_of(item, name):
    value = item[name]
    return [] if value is None else value if isinstance(value, list) else [value]


@st.composite
def comparisons(draw):
    """One test as a text, and as a function of an item."""
    name = draw(st.sampled_from([*NUMBERS, *TEXTS]))
    known = {**NUMBERS, **TEXTS}[name]
    shown = draw(st.sampled_from([name, name.upper(), name.rstrip("s") if name == "genres" else name]))
    kinds = ["=", "!=", "in", "not in", "missing", "not missing", *ORDERS]
    kind = draw(st.sampled_from(kinds if name in NUMBERS else [*kinds, "contains", "not contains"]))
    if kind.endswith("missing"):
        negated = kind.startswith("not")
        return f"{shown} is {kind}", lambda item: bool(values_of(item, name)) == negated
    wanted = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3 if kind.endswith("in") else 1))
    texts = [draw(spelled(value)) for value in wanted]
    text = f"{shown} {kind} ({', '.join(texts)})" if kind in ("in", "not in") else f"{shown} {kind} {texts[0]}"

    def holds(item):
        there = [plain(value) for value in values_of(item, name)]
        asked = [plain(value) for value in wanted]
        if kind in ORDERS:
            return any(ORDERS[kind](value, asked[0]) for value in there)
        if kind.endswith("contains"):
            passes = any(asked[0] in value for value in there)
        else:
            passes = any(value in asked for value in there)
        return bool(there) and not passes if kind == "!=" or kind.startswith("not") else passes

    return text, holds


def joined(parts):
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or", "AND", "Or"]), st.lists(parts, min_size=2, max_size=3)).map(_join),
        parts.map(lambda part: (f"not ({part[0]})", lambda item: not part[1](item))),
    )


def _join(choice):
    word, parts = choice
    every = all if word.lower() == "and" else any
    text = f" {word} ".join(f"({text})" for text, _ in parts)
    return text, lambda item: every(holds(item) for _, holds in parts)


@given(worlds(), st.recursive(comparisons(), joined, max_leaves=6))
@settings(max_examples=400)
def test_any_condition_agrees_with_a_direct_evaluation(world, condition):
    text, holds = condition
    table = pl.DataFrame(
        world,
        schema={"year": pl.Int32, "price": pl.Float64, "genres": pl.List(pl.String), "language": pl.String},
    )
    ratings = Ratings.from_arrays([0] * len(world), range(len(world)), [1.0] * len(world)).with_items(None, table)
    matches, _ = Condition(text).matches(Attributes(ratings))
    assert matches.tolist() == [holds(item) for item in world], text


@given(
    st.lists(comparisons(), min_size=2, max_size=4),
    st.lists(st.sampled_from(["and", "or"]), min_size=3, max_size=3),
    worlds(),
)
def test_and_binds_more_tightly_than_or(parts, words, world):
    """Without brackets, as Python reads it."""
    words = words[: len(parts) - 1]
    text = parts[0][0] + "".join(f" {word} {part[0]}" for word, part in zip(words, parts[1:], strict=True))
    table = pl.DataFrame(
        world,
        schema={"year": pl.Int32, "price": pl.Float64, "genres": pl.List(pl.String), "language": pl.String},
    )
    ratings = Ratings.from_arrays([0] * len(world), range(len(world)), [1.0] * len(world)).with_items(None, table)
    matches, _ = Condition(text).matches(Attributes(ratings))
    for item, matched in zip(world, matches, strict=True):
        flags = [holds(item) for _, holds in parts]
        groups = [[flags[0]]]
        for word, flag in zip(words, flags[1:], strict=True):
            if word == "or":
                groups.append([])
            groups[-1].append(flag)
        assert matched == any(all(group) for group in groups)


PIECES = st.sampled_from(
    [*"()=<>!,'\"", "!=", "<=", "and", "or", "not", "in", "is", "missing", "contains", "genre", "year", "title"]
    + [
        "1990",
        "-1e5",
        "Comedy",
        "'a b'",
        "nested",
        "sizes",
        " ",
        "\n",
        "\0",
        "é",
        "\u0301",
        "9" * 400,
        "1e999",
        "ratings",
    ]
)


@given(st.text() | st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=1000)
def test_garbage_is_refused_and_never_breaks_anything(text):
    try:
        matches, _ = Condition(text).matches(ITEMS)
    except InvalidParameterError:
        return
    assert matches.shape == (5,)
    assert matches.dtype == bool
