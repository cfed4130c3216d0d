"""TASTESPACE_ISA forces a set of instructions, says so when it cannot, and all sets agree."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import sys, numpy as np
from tastespace import _native
rng = np.random.default_rng(0)
n, D = 400, 37
out, minimum = np.empty((20, D)), np.empty(20)
offsets = np.linspace(0, n, 21).astype(np.int64)
_native.solve_rows(offsets, rng.integers(0, 50, n).astype(np.int32), rng.standard_normal(n),
                   rng.standard_normal((50, D)), np.eye(D), np.zeros((1, D)), out, minimum=minimum)
print(_native.instruction_set(), file=sys.stderr)
np.save(sys.argv[1], out)
"""


def run(isa, path):
    environment = dict(os.environ, TASTESPACE_ISA=isa)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], env=environment, capture_output=True, text=True, check=False
    )


def test_all_sets_of_this_machine_agree(tmp_path):
    reference = None
    ran = []
    for isa in ("base", "avx2", "avx512"):
        result = run(isa, tmp_path / f"{isa}.npy")
        if result.returncode:
            assert "does not have" in result.stderr, result.stderr
            continue
        assert isa in result.stderr
        ran.append(isa)
        found = np.load(tmp_path / f"{isa}.npy")
        reference = found if reference is None else reference
        np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-9)
    assert "base" in ran


@pytest.mark.parametrize("isa", ["sse9", "AVX2 "])
def test_an_unknown_set_is_refused_with_a_reason(isa, tmp_path):
    result = run(isa, tmp_path / "x.npy")
    assert result.returncode != 0
    assert "expected base, avx2 or avx512" in result.stderr
