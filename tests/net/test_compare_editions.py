"""The program that compares editions compares what it is told to compare."""

import os
import sys
from pathlib import Path

import pytest
from net.compare_editions import check_imported

import tastespace


def test_a_tree_is_not_compared_with_an_editable_install_of_another(tmp_path):
    command, environment = [sys.executable], dict(os.environ)
    check_imported(command, environment, Path(tastespace.__file__).parents[1])
    with pytest.raises(SystemExit, match=r"imports .*__init__.py, expected tastespace of .*: set up that tree"):
        check_imported(command, environment, tmp_path)
