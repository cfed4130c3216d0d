"""Fixtures of the tests that read files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a file into the test's own folder and gives its path."""

    def write(content: str | bytes, name: str = "some.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
