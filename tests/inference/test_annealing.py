"""Temperatures fall as they should, and never below the least."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.annealing import Constant, Geometric, Logarithmic


def test_geometric():
    cooling = Geometric(8.0, 0.5, least=1.0)
    assert [cooling.temperature(step) for step in range(6)] == [8, 4, 2, 1, 1, 1]


def test_geometric_arrives_after_the_given_steps():
    cooling = Geometric.over(10, 5.0, 0.2)
    assert cooling.temperature(0) == 5
    assert cooling.temperature(9) > 0.2 * 1.1
    assert cooling.temperature(10) == pytest.approx(0.2)
    assert cooling.temperature(10**9) == 0.2


def test_from_one_temperature_to_the_same_never_cools():
    assert Geometric.over(7, 1.0, 1.0) == Constant(1.0)


def test_logarithmic():
    cooling = Logarithmic(4.0, least=0.5)
    assert cooling.temperature(0) == pytest.approx(4)
    assert cooling.temperature(2) == pytest.approx(2)  # log 2 / log 4
    assert cooling.temperature(14) == pytest.approx(1)
    falls = [cooling.temperature(step) for step in range(500)]
    assert np.all(np.diff(falls) <= 0)
    assert falls[-1] == 0.5


def test_constant_never_cools():
    assert {Constant(3.0).temperature(step) for step in (0, 1, 10**6)} == {3.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constant(0.0),
        lambda: Constant(float("nan")),
        lambda: Geometric(1.0, 1.0),
        lambda: Geometric(1.0, 1.5),
        lambda: Geometric(0.5, 0.9, least=1.0),
        lambda: Geometric(4.0, 0.9, least=0.0),
        lambda: Geometric.over(0, 4.0),
        lambda: Logarithmic(-1.0),
        lambda: Logarithmic(0.5),
        lambda: Constant().temperature(-1),
        lambda: Geometric(2.0, 0.9).temperature(1.5),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(InvalidParameterError, match="expected"):
        make()
