"""A prediction on levels: how likely each is, as an array and as columns of a table."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import Prediction
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.distributions.rating_distribution import LevelRatings
from tastespace.errors import InvalidParameterError

CHANCES = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])


def prediction(rating, *, sure=True):
    n = len(CHANCES)
    figures = {"belief_sd": np.full(n, 0.2, np.float32), "rating_sd": np.ones(n, np.float32), "rating": rating}
    return Prediction(
        user_ids=pl.Series(["a", "b"]),
        item_ids=pl.Series([7, 8]),
        titles=None,
        mean=np.full(n, 3, np.float32),
        cold=np.zeros(n, np.bool_),
        **(figures if sure else {}),
    )


def normal(levels):
    return NormalRatings(NormalMixture(np.full((2, 3), 3, np.float32), np.ones((2, 3), np.float32)), 1.0, 5.0, levels)


def test_levels_as_columns():
    found = prediction(LevelRatings(CHANCES, np.array([1.0, 2, 5, 10]), np.array([3.0, 4.0])))
    assert_array_equal(found.level_probabilities(), CHANCES)
    assert found.levels.tolist() == [1, 2, 5, 10]
    table = found.to_polars(levels=True)
    assert table["p_5"].to_list() == [0.3, 0.1]
    assert [name for name in table.columns if name.startswith("p_")] == ["p_1", "p_2", "p_5", "p_10"]
    assert table.columns[-1] == "cold"
    assert not any(name.startswith("p_") for name in found.to_polars().columns)
    assert found.effective_draws.tolist() == table["effective_draws"].to_list() == [3, 4]
    assert found.interval(0.8).tolist() == [[1, 10], [1, 5]]
    assert found.interval(0.5).tolist() == [[2, 10], [1, 2]]


def test_levels_of_the_normal():
    stars = np.arange(1.0, 6)
    found = prediction(normal(stars))
    assert_allclose(found.level_probabilities().sum(1), 1, atol=1e-5)
    assert found.level_names == ["1", "2", "3", "4", "5"]
    pytest.importorskip("pandas")
    assert_allclose(found.to_pandas(levels=True)["p_3"], found.level_probabilities()[:, 2])


def test_names_of_levels_are_what_the_file_had():
    """Single precision has no 0.7, and large numbers must not be rounded to the same name."""
    for names in (["0.7", "0.8", "1"], ["-1", "0", "1.5"], ["1000001", "1000002", "1000003"]):
        levels = np.array([float(name) for name in names], np.float32).astype(np.float64)
        assert prediction(LevelRatings(CHANCES[:, :3], levels)).level_names == names


def test_where_there_are_no_levels():
    continuous, point = prediction(normal(None)), prediction(None, sure=False)
    assert continuous.levels is point.levels is None
    assert continuous.level_names == point.level_names == []
    for found, reason in ((continuous, "continuous scale"), (point, "provides no uncertainty")):
        for ask in (found.level_probabilities, lambda found=found: found.to_polars(levels=True)):
            with pytest.raises(InvalidParameterError, match=reason):
                ask()
