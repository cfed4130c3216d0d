"""The native text reader equals its plain twin, whatever the text and the number of threads."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference import records as reference

from tastespace import _native

SCRAPS = [
    "7",
    "a",
    "é",
    "",
    '"',
    '"b"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    " ",
    "\t",
    ":",
    "::",
    "3.5",
    "-1e2",
    "x y",
]


def read(content: str | bytes, separator: str = ",", n_columns: int = 3, **options):
    data = np.frombuffer(content.encode() if isinstance(content, str) else content, np.uint8)
    return _native.read_records(
        data, separator, n_columns=n_columns, user=0, item=1, rating=2, **{"has_header": False, **options}
    )


def triples(records):
    users, items = records.texts(0), records.texts(1)
    rows = zip(records.rows(0), records.rows(1), records.values(), strict=True)
    return [(users[user], items[item], value) for user, item, value in rows]


@given(st.lists(st.sampled_from(SCRAPS), max_size=30).map("".join), st.sampled_from([",", "::", " ", "\t"]))
@example('a,"b\r\n",3\r\n"c","d",4\r', ",")
@example("a,b,3\n" * 3, ",")
def test_equals_the_twin(content, separator):
    good, faults = reference.read(content, separator, 3)
    skipping = read(content, separator, skips_faults=True)
    assert triples(skipping) == good
    assert skipping.n_rejected == len(faults)
    assert skipping.fault_kind == (faults[0] if faults else "")
    stopping = read(content, separator)
    assert stopping.fault_kind == skipping.fault_kind
    assert stopping.fault_offset == skipping.fault_offset
    assert triples(stopping) == good[: stopping.n]
    assert faults or stopping.n == len(good)


@given(st.lists(st.tuples(*[st.sampled_from(["1", "22", "abcdefgh", "abcdefghi", "abcdefghj", "é" * 9])] * 2)))
def test_ids_are_numbered_in_order_of_appearance(pairs):
    records = read("".join(f"{user},{item},1\n" for user, item in pairs))
    assert records.texts(0) == list(dict.fromkeys(user for user, _ in pairs))
    assert [(user, item) for user, item, _ in triples(records)] == pairs


@pytest.mark.parametrize("n_ids", [3, 1000, 300_000])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_threads_do_not_change_the_result(n_ids, is_sorted):
    """Large enough to be cut in pieces; blank lines leave gaps between them."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, n_ids, 200_000), rng.integers(0, n_ids, 200_000)
    if is_sorted:
        users.sort()
    lines = [f"{user},item {item},{k % 9 / 2}\n" for k, (user, item) in enumerate(zip(users, items, strict=True))]
    lines[150_000] += "\n\n"
    lines[190_000] = "bad\n"
    content = "user,item,rating\n" + "".join(lines)
    one, three = (read(content, has_header=True, skips_faults=True, threads=n) for n in (1, 3))
    assert one.n == three.n == 199_999
    assert one.n_rejected == three.n_rejected == 1
    assert one.fault_offset == three.fault_offset == content.index("bad\n")
    for side in (0, 1):
        np.testing.assert_array_equal(one.rows(side), three.rows(side))
        assert one.texts(side) == three.texts(side)
    np.testing.assert_array_equal(one.values(), three.values())
    kept = np.delete(np.arange(200_000), 190_000)
    np.testing.assert_array_equal(one.integers(0)[one.rows(0)], users[kept])
    np.testing.assert_array_equal(one.values(), (kept % 9 / 2).astype(np.float32))


@pytest.mark.parametrize(
    ("ids", "are_integers"),
    [
        (["7", "-8", "0", str(2**63 - 1), str(-(2**63))], True),
        (["7", "007"], False),
        (["-0"], False),
        (["+7"], False),
        (["7.0"], False),
        ([str(2**63)], False),
        (['"7"'], False),
        (["7", "x"], False),
    ],
)
def test_integers(ids, are_integers):
    found = read("".join(f"{name},1,1\n" for name in ids)).integers(0)
    assert (found is not None) == are_integers
    assert found is None or found.tolist() == [int(name) for name in ids]


@given(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.sampled_from(["{!r}", "{:.3f}", "{:e}", "{:.17g}", "+{!r}", "{:.25f}"]),
)
def test_numbers_are_the_nearest(value, form):
    text = form.format(float(value)).replace("+-", "-")
    assert read(f"1,1,{text}").values()[0] == np.float32(float(text))


@pytest.mark.parametrize(
    "text", ["", ".", "-", "+", "e5", "1e", "1e+", "1.2.3", "0x10", "nan", "inf", "1_0", "1,5", "4e38", "١"]
)
def test_what_is_no_number(text):
    records = read(f'1,1,"{text}"')
    assert records.fault_kind == ("not a number" if text else "missing")
    assert records.fault_part == "rating"


def time_of(text):
    data = np.frombuffer(f"1;1;1;{text}".encode(), np.uint8)
    records = _native.read_records(data, ";", has_header=False, n_columns=4, user=0, item=1, rating=2, time=3)
    return None if records.fault_kind else int(records.times()[0])


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from(["", "Z", "+00:00", "-05:30", "+0200"]))
def test_dates_agree_with_the_standard_library(moment, zone):
    moment = moment.replace(microsecond=0)
    text = moment.isoformat() + zone
    aware = datetime.fromisoformat(text) if zone else moment.replace(tzinfo=UTC)
    assert time_of(text) == int(aware.timestamp())
    assert time_of(text.replace("T", " ")) == int(aware.timestamp())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-5", -5),
        ("978300760", 978300760),
        ("978300760.9", 978300760),
        ("9.7e8", 970000000),
        ("2024-02-29", 1709164800),
        ("2024-05-31T12:00", 1717156800),
        ("2024-05-31 12:00:00.123456Z", 1717156800),
        ("", np.iinfo(np.int64).min),
        ("2023-02-29", None),
        ("2024-13-01", None),
        ("2024-00-01", None),
        ("2024-05-32", None),
        ("2024-5-3", None),
        ("2024-05-31T24:00", None),
        ("2024-05-31T12", None),
        ("2024-05-31T12:00:00.", None),
        ("2024-05-31T12:00:00+99:00", None),
        ("2024-05-31x", None),
        ("1588687728923", None),
        ("soon", None),
        ("1e300", None),
    ],
)
def test_times(text, seconds):
    assert time_of(text) == seconds


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"])
def test_ids_must_be_unicode(bad):
    content = b"1,a,1\n2," + bad + b",1\n3,c,1"
    records = read(content, skips_faults=True)
    assert (records.fault_kind, records.fault_part, records.fault_cell) == ("not unicode", "item", bad)
    assert records.texts(0) == ["1", "3"], "an id counts only where the whole record can be read"


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="separator"):
        read("1,2,3", "")
    with pytest.raises(ValueError, match="columns"):
        read("1,2,3", n_columns=2)
    with pytest.raises(ValueError, match="side"):
        read("1,2,3").texts(2)


def test_arrays_outlive_the_records():
    values = read("1,2,3\n" * 1000).values()
    read("4,5,6\n" * 1000)
    assert (values == 3).all()
