"""What is not the fault of an artifact is not called damage: kernels that are missing, files that nobody may read."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from tastespace import ALS, _native, load, save, storage
from tastespace.artifact import saving
from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import tastes
from tastespace.version import __version__


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(tastes(20, 15, rng=generator(0))[0]), path)
    return path


def fault_of(path):
    with pytest.raises(ArtifactError) as caught:
        load(path)
    return str(caught.value)


def try_out_with(monkeypatch, work):
    """Let a model that is loaded answer like this."""
    monkeypatch.setattr(saving, "_try_out", lambda recommender: work())


def test_a_kernel_that_is_missing_is_named(saved, monkeypatch):
    try_out_with(monkeypatch, lambda: _native.kernel_of_tomorrow)
    message = fault_of(saved)
    assert "lacks tastespace._native.kernel_of_tomorrow" in message
    assert "install it again" in message
    assert "damage" not in message
    monkeypatch.undo()
    assert load(saved).is_fitted


def test_a_kernel_with_other_arguments_may_be_of_another_version(saved, monkeypatch):
    try_out_with(monkeypatch, lambda: _native.score_rows(argument_of_tomorrow=np.zeros(1)))
    message = fault_of(saved)
    assert "the kernel score_rows rejects" in message
    assert f"saved by tastespace {__version__}, this is {__version__}" in message
    assert "install tastespace again" in message


def test_a_file_that_may_not_be_read_is_not_damaged(saved, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(storage, "read_arrays", refuse)
    message = fault_of(saved)
    assert "cannot be read (Permission denied)" in message
    assert "damage" not in message


def test_an_impossible_instruction_set_is_not_damage(saved, monkeypatch):
    def refuse():
        raise RuntimeError("TASTESPACE_ISA is 'abacus'")

    monkeypatch.setattr(_native, "instruction_set", refuse)  # It is looked at once a process, and that has been.
    with pytest.raises(InvalidParameterError, match="TASTESPACE_ISA"):
        load(saved)
