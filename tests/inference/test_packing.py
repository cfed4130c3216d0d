"""Nested values as arrays and JSON, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace.errors import CheckpointError
from tastespace.inference.checkpoints import pack, unpack
from tastespace.models.factorization.priors.normal_wishart import NormalPopulation
from tastespace.models.factorization.rows import Factors
from tastespace.randomness import generator, restored, state_of


def there_and_back(value):
    described, arrays = pack(value)
    return unpack(json.loads(json.dumps(described)), arrays)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**127 + 1,
        0.1,
        1e-320,
        float("inf"),
        "text",
        [1, [2.5, None], "x"],
        (1, (2, [3])),
        {"a": {"b": (1, 2)}, "array": 1},
        {},
        [],
    ],
)
def test_plain_values(value):
    found = there_and_back(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("number", [np.float32(0.1), np.float64(0.1), np.int32(7), np.bool_(True)])
def test_numbers_of_numpy_stay_what_they_are(number):
    """A double of numpy times an array of singles is an array of doubles, one of Python's is not."""
    found = there_and_back(number)
    assert type(found) is type(number)
    assert found == number


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.zeros((0, 4), np.int64),
        np.array(2.5),
        np.array([np.nan, -0.0]),
        np.array([True, False]),
    ],
)
def test_arrays(array):
    found = there_and_back(array)
    assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)


def test_dataclasses_of_the_library_in_one_another():
    points = Factors(np.ones((3, 2), np.float32), None)
    assert points.moments.n == 3  # worked out from the fields, remembered, and no part of the value
    value = {"points": points, "populations": [NormalPopulation(np.zeros(2), np.eye(2), 0.5, np.float64(2.0))]}
    found = there_and_back(value)
    assert isinstance(found["points"], Factors)
    assert "moments" not in vars(found["points"])
    assert_array_equal(found["points"].factors, points.factors)
    assert found["points"].bias is None
    assert isinstance(found["populations"][0].bias_precision, np.float64)


@dataclass(frozen=True)
class Foreign:
    x: int = 1


@pytest.mark.parametrize("value", [Foreign(), date(2024, 1, 1), {1: 2}, {"f": print}, [object()]])
def test_what_cannot_be_packed_is_named(value):
    with pytest.raises(CheckpointError, match="cannot hold; expected arrays"):
        pack(value)


@pytest.mark.parametrize(
    "described",
    [
        {"class": ["os", "system", {}]},
        {"class": ["subprocess", "Popen", {"args": "ls"}]},
        {"class": ["tastespace.errors", "sys", {}]},
        {"class": ["tastespace.errors", "DataError", {}]},
        {"class": ["tastespace.nowhere", "Thing", {}]},
        # A class of ours that another module has imported is not there under that name.
        {"class": ["tastespace.models.factorization.gibbs.sweep", "Population", {}]},
        {"class": ["tastespace.models.factorization.rows", "Points", {"factors": 1}]},
        {"wibble": 1},
        {"list": [], "tuple": []},
    ],
)
def test_nothing_but_dataclasses_of_the_library_is_made(described):
    with pytest.raises(CheckpointError, match="expected"):
        unpack(described, [])


def test_a_generator_goes_on_where_it_stood():
    rng = generator(3).spawn(2)[1]
    rng.standard_normal(5, np.float32)  # an odd number: half a word is left over
    rng.spawn(3)
    state = there_and_back(state_of(rng))
    again = restored(generator(3).spawn(2)[1], state)
    for one, other in ((rng, again), (rng.spawn(1)[0], again.spawn(1)[0])):
        assert_array_equal(one.standard_normal(7, np.float32), other.standard_normal(7, np.float32))
        assert_array_equal(one.integers(0, 9, 7, np.int32), other.integers(0, 9, 7, np.int32))
