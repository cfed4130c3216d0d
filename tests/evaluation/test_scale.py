"""A full evaluation of a real data set is quick and small."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WORK = """
import json, resource, sys, time
import polars as pl
import tastespace as ts

frame = pl.read_parquet(sys.argv[1], columns=["user", "item", "rating"])
split = ts.random_split(ts.Ratings.from_frame(frame), 0.1, seed=0)
model = ts.ALS(n_factors=32, regularisation=0.05, sweeps=5, seed=0, threads=2).fit(split.train)
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
