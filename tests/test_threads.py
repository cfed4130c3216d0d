"""How many threads are used."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import threads
from tastespace.errors import InvalidParameterError


def test_all_cores_unless_said_and_never_absurdly_many():
    assert threads.resolve(None) == threads.available() >= 1
    assert threads.resolve(np.int64(3)) == 3
    assert threads.resolve(3_000_000_000) == threads.MOST


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_threads(wrong):
    with pytest.raises(InvalidParameterError, match="threads is"):
        threads.resolve(wrong)
