"""Fixtures that all tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from tastespace import _native
from tastespace.randomness import generator

# Importing an editable install rebuilds changed kernels. This process has done so: programs that tests start need
# not look again, and must not build at the same time.
BUILD = next((folder for folder in Path(_native.__file__).parents if (folder / "CMakeCache.txt").exists()), None)
if BUILD is not None:
    os.environ["SKBUILD_EDITABLE_SKIP"] = str(BUILD)

# What tests remember of files is not what the user's computer remembers.
if "TASTESPACE_CACHE" not in os.environ:
    os.environ["TASTESPACE_CACHE"] = tempfile.mkdtemp(prefix="tastespace-tests-")
    atexit.register(shutil.rmtree, os.environ["TASTESPACE_CACHE"], ignore_errors=True)

# The same examples every time: a red build must be red again tomorrow.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_make_parametrize_id(val):
    """Bytes do not name a test: a gzip header holds the time, and workers must collect the same names."""
    return "bytes" if isinstance(val, bytes) else None


# Libraries too large for everybody who runs the tests, by the marker of what needs them.
LARGE = {"deep": ("torch", "PyTorch: run make test-deep"), "cluster": ("ray", "Ray: run make test-cluster")}


def pytest_collection_modifyitems(items):
    """Skip what needs a large library that is not installed."""
    for marker, (module, needed) in LARGE.items():
        if find_spec(module) is None:
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=f"needs {needed}"))


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
