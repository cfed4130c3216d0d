"""20 million lines of csv to arrays: row numbers of users and items, ids, values and times; two threads.

The file has the shape of MovieLens 20M (users sorted, items skewed), once with integer ids and once with texts
("u0012345", "film-01234"). tastespace: `read`, which checks every cell, looks for duplicates and has the ratings
grouped by user at the end. The others: their csv reader with the types given, then the best way each has to number
ids (pyarrow: dictionary_encode; polars: a categorical for texts, unique and join for integers; duckdb: min(rowid) by id
and a join), without any of those checks. "and both groupings" adds compressed rows and columns, theirs by scipy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np
import polars as pl

N_LINES, N_USERS, N_ITEMS = 20_000_000, 138_493, 26_744
TYPES = {"integer": 1.3, "text": 1.3}  # how many times as long as the fastest peer we may take
OURS = "tastespace"
Arrays = tuple[Any, Any, Any, Any]


def write(path: Path, ids: str, n_lines: int) -> None:
    """A file like MovieLens 20M: users in blocks, popular items often."""
    rng = np.random.default_rng(0)
    activity = rng.lognormal(0, 1.2, N_USERS)
    drawn = n_lines * 5 // 4
    pairs = rng.choice(N_USERS, drawn, p=activity / activity.sum()) * N_ITEMS
    pairs = np.unique(pairs + (N_ITEMS * rng.random(drawn) ** 1.5).astype(np.int64))
    pairs = np.sort(rng.choice(pairs, n_lines, replace=False))
    users, items = pairs // N_ITEMS, pairs % N_ITEMS
    frame = pl.DataFrame(
        {
            "userId": users + 1,
            "movieId": items * 5 + 1,
            "rating": rng.integers(1, 11, n_lines) / 2,
            "timestamp": rng.integers(800_000_000, 1_500_000_000, n_lines),
        }
    )
    if ids == "text":
        frame = frame.with_columns(
            ("u" + pl.col("userId").cast(pl.String).str.zfill(7)).alias("userId"),
            ("film-" + pl.col("movieId").cast(pl.String).str.zfill(5)).alias("movieId"),
        )
    frame.write_csv(path)


def by_tastespace(path: Path) -> Arrays:
    from tastespace import read

    ratings = read(path, duplicates="last")
    return ratings.user_rows, ratings.item_rows, ratings.values, ratings.times


def by_polars(path: Path, ids: str) -> Arrays:
    kind = pl.Int64 if ids == "integer" else pl.String
    schema = {"userId": kind, "movieId": kind, "rating": pl.Float32, "timestamp": pl.Int64}
    frame = pl.read_csv(path, schema=schema)
    rows = []
    for name in ("userId", "movieId"):
        if ids == "text":
            rows.append(frame[name].cast(pl.Categorical).to_physical().to_numpy().astype(np.int32))
            continue
        known = frame.select(pl.col(name).unique(maintain_order=True)).with_row_index("row")
        joined = frame.select(name).join(known, on=name, how="left", maintain_order="left")
        rows.append(joined["row"].to_numpy().astype(np.int32))
    return rows[0], rows[1], frame["rating"].to_numpy(), frame["timestamp"].to_numpy()


def by_pyarrow(path: Path, ids: str) -> Arrays:
    import pyarrow as pa
    from pyarrow import csv

    kind = pa.int64() if ids == "integer" else pa.string()
    types = {"userId": kind, "movieId": kind, "rating": pa.float32(), "timestamp": pa.int64()}
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))
    rows = [table[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("userId", "movieId")]
    return rows[0], rows[1], table["rating"].to_numpy(), table["timestamp"].to_numpy()


def by_duckdb(path: Path, ids: str) -> Arrays:
    import duckdb

    kind = "BIGINT" if ids == "integer" else "VARCHAR"
    connection = duckdb.connect(config={"threads": 2})
    columns = f"{{'userId': '{kind}', 'movieId': '{kind}', 'rating': 'FLOAT', 'timestamp': 'BIGINT'}}"
    connection.execute(
        f"create table t as select * from "
        f"read_csv('{path}', header=true, auto_detect=false, delim=',', columns={columns})"
    )
    for name, side in (("userId", "u"), ("movieId", "i")):
        connection.execute(
            f"create table {side} as select {name}, (row_number() over (order by first) - 1)::integer as row "
            f"from (select {name}, min(rowid) as first from t group by {name})"
        )
    found = connection.execute(
        "select u.row as u, i.row as i, rating, timestamp from t join u using (userId) join i using (movieId) "
        "order by t.rowid"
    ).fetchnumpy()
    connection.close()
    return found["u"], found["i"], found["rating"], found["timestamp"]


def grouped_by_tastespace(path: Path) -> Arrays:
    from tastespace import read

    ratings = read(path, duplicates="last")
    assert len(ratings.by_user.columns) == len(ratings.by_item.columns)
    return ratings.user_rows, ratings.item_rows, ratings.values, ratings.times


def grouped(arrays: Arrays) -> Arrays:
    from scipy.sparse import coo_matrix

    matrix = coo_matrix((arrays[2], (arrays[0], arrays[1])))
    assert matrix.tocsr().nnz
    assert matrix.tocsc().nnz
    return arrays


def competitors(path: Path, ids: str) -> dict[str, Callable[[], Arrays]]:
    peers = {"polars": by_polars, "pyarrow": by_pyarrow, "duckdb": by_duckdb}
    functions: dict[str, Callable[[], Arrays]] = {OURS: lambda: by_tastespace(path)}
    for name, function in peers.items():
        functions[name] = lambda function=function: function(path, ids)
    functions[f"{OURS} and both groupings"] = lambda: grouped_by_tastespace(path)
    for name, function in peers.items():
        functions[f"{name} and both groupings"] = lambda function=function: grouped(function(path, ids))
    return functions


def check(functions: dict[str, Callable[[], Arrays]], n_lines: int) -> None:
    """All give the same arrays; ids are numbered in the order of the file by all of them."""
    ours = functions[OURS]()
    assert len(ours[0]) == n_lines
    for name, function in functions.items():
        for mine, theirs in zip(ours, function(), strict=True):
            assert np.array_equal(np.asarray(mine).astype(np.int64), np.asarray(theirs).astype(np.int64)), name


def measure(path: Path, ids: str, n_lines: int, rounds: int) -> tuple[dict[str, harness.Timing], float]:
    functions = competitors(path, ids)
    by_tastespace(path)
    memory = harness.peak_memory()
    check(functions, n_lines)
    return harness.alternate(functions, rounds, warm_up=False), memory


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    n_lines = N_LINES // 20 if options.quick else N_LINES
    result: dict[str, Any] = {"protocol": __doc__, "rounds": options.rounds, "lines": n_lines}
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for ids, target in TYPES.items():
            path = Path(folder, f"{ids}.csv")
            write(path, ids, n_lines)
            timings, memory = harness.in_fresh_process(2, measure, path, ids, n_lines, options.rounds)
            ours = timings[OURS]
            print(f"\n## {n_lines:,} lines of csv, {ids} ids, two threads, {options.rounds} rounds\n")
            print(
                harness.markdown(
                    ["", *harness.COLUMNS, "x ours (wall)"],
                    [[name, *timing.cells(), timing.times(ours, "wall")] for name, timing in timings.items()],
                )
            )
            print(f"\npeak memory of tastespace alone: {memory:.2f} GB")
            peers = ("polars", "pyarrow", "duckdb") if ids == "integer" else ("polars",)
            factor = max(ours.times(timings[name], "wall") for name in peers)
            verdicts.append(
                harness.verdict(
                    f"{ids} ids: ours, times the fastest of {', '.join(peers)}", factor, target, at_most=True
                )
            )
            result[ids] = {name: timing.summary() for name, timing in timings.items()} | {"memory_gb": memory}
            path.unlink()
    harness.save("ingest", {**result, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
