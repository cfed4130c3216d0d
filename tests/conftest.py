"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tastespace.randomness import generator

# The same examples every time: a red build must be red again tomorrow.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture
def rng():
    return generator(20140701)


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The folder of real data sets, or a skip that says what to set."""
    folder = os.environ.get("TASTESPACE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set TASTESPACE_DATA to a folder with ml-100k, ml-1m ...")
    return Path(folder)
