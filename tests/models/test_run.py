"""What makes a run the one that it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tastespace.models.base.resuming import run_of
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = tastes(5, 4, rng=generator(1))[0]


def run(**parameters):
    return json.loads(json.dumps(run_of("bpmf", parameters, 1, RATINGS, None)))


@pytest.mark.parametrize(
    "levels", [(1, 2, 3), [1.0, 2.0, 3.0], range(1, 4), np.array([1.0, 2.0, 3.0]), [np.int64(1), 2, 3]]
)
def test_levels_are_the_same_however_they_are_listed(levels):
    assert run(levels=levels) == run(levels=[1, 2, 3])
    assert run(levels=levels) != run(levels=[1, 2, 4])


def test_threads_are_no_part_of_it():
    assert run(threads=1) == run(threads=2)
    assert run(thin=1) != run(thin=2)
