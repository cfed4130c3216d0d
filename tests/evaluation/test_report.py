"""Groups, tables and frames: what is empty says so, and what is shown is what was found."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tastespace import DampedBias, GlobalMean, Ratings, evaluate, random_split
from tastespace.evaluation.groups import LABELS, group_of
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def test_the_groups_are_where_they_should_be():
    counts = [0, 1, 5, 6, 10, 11, 20, 21, 40, 41, 80, 81, 160, 161, 320, 321, 640, 641, 10**6]
    labels = [LABELS[group] for group in group_of(np.array(counts))]
    assert labels == [
        "0 (cold)",
        *["1-5"] * 2,
        *["6-10"] * 2,
        *["11-20"] * 2,
        *["21-40"] * 2,
        *["41-80"] * 2,
        *["81-160"] * 2,
        *["161-320"] * 2,
        *["321-640"] * 2,
        *["> 640"] * 2,
    ]


def test_groups_by_hand():
    """User 1 has six training ratings, user 2 one; item a has two, the others one. Everything is predicted as 3."""
    train = Ratings.from_arrays([1] * 6 + [2], list("abcdef") + ["a"], [3.0] * 5 + [1, 5])
    test = Ratings.from_arrays([1, 2, 2, 9], ["new", "b", "new", "a"], [4.0, 5, 5, 3])
    report = evaluate(GlobalMean().fit(train), test)
    users = {group.label: group for group in report.groups["users"]}
    assert list(users) == list(LABELS)
    assert (users["6-10"].members, users["6-10"].n, users["6-10"].measures["rmse"]) == (1, 1, 1)
    assert (users["1-5"].members, users["1-5"].n, users["1-5"].measures["rmse"]) == (1, 2, 2)
    assert (users["0 (cold)"].members, users["0 (cold)"].n, users["0 (cold)"].measures["mae"]) == (1, 1, 0)
    items = {group.label: group for group in report.groups["items"]}
    assert (items["0 (cold)"].members, items["0 (cold)"].n) == (1, 2)
    assert items["0 (cold)"].measures["rmse"] == pytest.approx(np.sqrt((1 + 4) / 2))
    assert (items["1-5"].members, items["1-5"].n) == (2, 2)
    # One user alone says nothing about others; two do.
    assert users["1-5"].intervals == {}
    assert items["0 (cold)"].intervals["rmse"] == (1, 2)
    # What is empty is there and has no figures.
    empty = users["> 640"]
    assert (empty.members, empty.n, empty.measures, empty.intervals) == (0, 0, {}, {})
    assert empty.to_dict()["measures"] is None


@pytest.fixture(scope="module")
def report():
    split = random_split(tastes(80, 50, rng=generator(6))[0], 0.3, seed=0)
    return evaluate(DampedBias().fit(split.train), split, k=(3, 10))


def test_groups_together_are_everything(report):
    for side in ("users", "items"):
        groups = report.groups[side]
        assert sum(group.n for group in groups) == report.n
        squares = sum(group.n * group.measures["rmse"] ** 2 for group in groups if group.n)
        assert np.sqrt(squares / report.n) == pytest.approx(report["rmse"])


def test_the_first_line_is_short_and_the_table_has_it_all(report):
    assert "\n" not in str(report)
    text = report.table()
    assert text.startswith("\n".join([*report.summary(), "", str(report)]))
    for part in ("NDCG", "found@3", "@3", "@10", "popularity lift", "Gini", "AUC (all items)", "> 640", "test users"):
        assert part in text, part
    low, high = report.intervals["ndcg@3"]
    assert f"{report['ndcg@3']:.4f} ({low:.4f}–{high:.4f})" in text
    assert repr(report) == f"<Report: {report}>"


def test_empty_groups_are_rows_or_a_note(report):
    labels = [group.label for group in report.groups["users"] if not group.n]
    assert labels
    whole, short = report.groups_table("users"), report.groups_table("users", empty=False)
    assert [row[0] for row in whole.rows if "empty" in row] == labels
    assert short.rows == tuple(row for row in whole.rows if "empty" not in row)
    assert str(short).endswith(f"\nempty: {', '.join(labels)}")
    assert "empty: " not in str(whole)


def test_a_measure_that_is_not_there_is_named(report):
    with pytest.raises(KeyError, match=r"no measure 'ndcg@7'; expected one of rmse, mae, .*ndcg@10"):
        report["ndcg@7"]


def test_as_json(report):
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert {"rmse", "mae", "n", "cold", "ndcg@10", "auc", "lists", "intervals", "groups"} <= said.keys()
    assert all(isinstance(said[name], int | float) for name in report.measures)
    assert said["intervals"]["rmse"] == list(report.intervals["rmse"])
    assert said["lists"]["k"] == [3, 10]
    assert [group["training_ratings"] for group in said["groups"]["items"]] == list(LABELS)


def test_as_frames(report):
    frame = report.to_polars()
    assert frame.columns == ["measure", "k", "value", "low", "high", "users"]
    rows = frame.filter((frame["measure"] == "ndcg") & (frame["k"] == 3)).rows(named=True)
    assert len(rows) == 1
    assert (rows[0]["value"], rows[0]["low"]) == (report["ndcg@3"], report.intervals["ndcg@3"].low)
    assert rows[0]["users"] == report.lists.users
    groups = report.groups_to_polars()
    assert len(groups) == 2 * len(LABELS) * 2
    assert groups["n"].sum() == 2 * 2 * report.n


def test_every_measure_has_an_interval_around_it(report):
    for name, value in report.measures.items():
        low, high = report.intervals[name]
        assert low <= value <= high, name


def test_without_intervals(report):
    split = random_split(tastes(80, 50, rng=generator(6))[0], 0.3, seed=0)
    bare = evaluate(DampedBias().fit(split.train), split, k=(3, 10), bootstrap=0)
    assert bare.measures == report.measures
    assert not bare.intervals
    assert "intervals" not in bare.to_dict()
    assert "–" not in bare.table().split("Errors by")[0]
