"""A full evaluation of a real data set is quick and small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import json, resource, sys, time
import polars as pl
import tastespace as ts

frame = pl.read_parquet(sys.argv[1], columns=["user", "item", "rating"])
split = ts.random_split(ts.Ratings.from_frame(frame), 0.1, seed=0)
model = ts.ALS(n_factors=32, regularization=0.05, sweeps=5, seed=0, threads=2).fit(split.train)
began = time.perf_counter()
report = ts.evaluate(model, split)
seconds = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
found = {"users": report.lists.users, "intervals": len(report.intervals)}
print(json.dumps(found | {"seconds": seconds, "memory": memory}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told in other units elsewhere")
def test_all_users_of_movielens_1m(datasets):
    """Every test user with relevant items, all unseen films, all intervals: under 20 s for the evaluation alone.

    The memory, under 1 GB, is the most of the whole program: reading, splitting and fitting included.
    """
    command = [sys.executable, "-c", WORK, str(datasets / "ml-1m" / "ratings.parquet")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["users"] > 5500
    assert found["intervals"] > 40
    assert found["seconds"] < 20
    assert found["memory"] < 1


CALIBRATION = """
import json, resource, sys, time
import polars as pl
import tastespace as ts
from evaluation.uncertain import Oracle

frame = pl.read_parquet(sys.argv[1], columns=["user", "item", "rating"])
split = ts.random_split(ts.Ratings.from_frame(frame), 0.1, seed=0)
model = Oracle(n_draws=50, with_levels=sys.argv[2] == "levels").fit(split.train)
began = time.perf_counter()
report = ts.evaluate(model, split, ranking=False)
seconds = time.perf_counter() - began
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps({"n": report.calibration.n, "seconds": seconds, "memory": memory}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is told in other units elsewhere")
@pytest.mark.parametrize("scale", ["levels", "continuous"])
def test_calibration_of_movielens_1m(scale, datasets):
    """Distributions of 50 draws for 100,000 ratings, all groups and intervals: under 30 s and 1 GB for everything."""
    command = [sys.executable, "-c", CALIBRATION, str(datasets / "ml-1m" / "ratings.parquet"), scale]
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=where).stdout)
    assert found["n"] > 100_000
    assert found["seconds"] < 30
    assert found["memory"] < 1
