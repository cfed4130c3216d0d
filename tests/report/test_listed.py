"""Lists as plain values: few items and many alike."""

from __future__ import annotations

import numpy as np
import polars as pl

from tastespace import Ratings
from tastespace.data.vocabulary import HANDFUL
from tastespace.report.model_page import attributes_of


def test_many_items_are_described_as_few_are():
    n = 2 * HANDFUL
    about = pl.DataFrame(
        {"year": range(n), "genres": [[f"g{row % 3}"] for row in range(n)], "share": [float("nan")] * n}
    )
    ratings = Ratings.from_arrays([0] * n, range(n), [1.0] * n).with_items(None, about)
    rows = np.arange(n, dtype=np.int32)[::-1].copy()
    many = attributes_of(ratings, rows)
    assert many == [attributes_of(ratings, rows[place : place + 1])[0] for place in range(n)]
    assert many[0] == {"year": n - 1, "genres": [f"g{(n - 1) % 3}"], "share": None}
    ids = ratings.items.at(np.append(rows, -1))
    assert ids.to_list() == [*rows.tolist(), None]
    assert ids.to_list()[:5] == ratings.items.at(rows[:5]).to_list()
