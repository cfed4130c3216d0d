"""The model and the news that most of these tests are about."""

from __future__ import annotations

import pytest
from models.updating.world import fitted, parts


@pytest.fixture(scope="session")
def model():
    return fitted("gaussian")


@pytest.fixture(scope="session")
def late():
    return parts()[1]
