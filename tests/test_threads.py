"""How many threads are used."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

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


def test_small_products_take_one_thread_for_a_while():
    def most() -> int:
        return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    before = most()
    for _ in range(2):  # The second time by what was found the first time.
        with threads.one_blas_thread():
            assert most() == 1
        assert most() == before
