"""The best 10 unseen items of all 6 040 users of MovieLens 1M, against implicit, D = 32, one and two threads.

tastespace: ALS with biases, `recommend(all user ids)`, which ends in ids; and the exact scan in it alone,
which like implicit's `recommend(all user rows, user_items)` takes and gives row numbers. implicit's model
has no biases. Both leave out what a user has rated, and both have the ratings grouped by user beforehand.
BLAS runs on one thread, as implicit asks for; its own threads are as many as ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

from tastespace import ALS
from tastespace.index.search import Excluded
from tastespace.index.structures.exact import Exact

N_FACTORS, N_ITEMS, AGAIN = 32, 10, 5
OURS, SCAN, IMPLICIT = "tastespace recommend", "tastespace scan alone", "implicit recommend"
TARGET = 1.0


def competitors(data: Path | None, threads: int) -> dict[str, Callable[[], Any]]:
    """Fitted models, ready to be asked for everybody."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    ratings = movielens.ratings(data)
    model = ALS(n_factors=N_FACTORS, regularisation=0.05, sweeps=5, seed=0, threads=threads).fit(ratings)
    everybody = ratings.users.ids
    by_user = ratings.by_user
    index = Exact(threads=threads).build(model.posterior_.item_vectors)
    queries = model.about(everybody).belief.queries.vectors
    seen = Excluded(by_user.offsets, by_user.columns)

    peer = AlternatingLeastSquares(factors=N_FACTORS, iterations=3, num_threads=threads, random_state=0)
    matrix = csr_matrix((by_user.values, by_user.columns, by_user.offsets), shape=(ratings.n_users, ratings.n_items))
    peer.fit(matrix, show_progress=False)
    rows = np.arange(ratings.n_users)
    return {
        OURS: lambda: model.recommend(everybody, N_ITEMS),
        SCAN: lambda: index.search(queries, N_ITEMS, excluded=seen),
        IMPLICIT: lambda: peer.recommend(rows, matrix, N=N_ITEMS, filter_already_liked_items=True),
    }


def check(functions: dict[str, Callable[[], Any]]) -> None:
    """The scan alone must give what recommend gives."""
    assert np.array_equal(functions[OURS]().item_rows, functions[SCAN]().items)


def measure(data: Path | None, threads: int, rounds: int) -> dict[str, harness.Timing]:
    """Seconds for all users, each function several times a round."""
    functions = competitors(data, threads)
    check(functions)
    repeated = {
        name: lambda function=function: [function() for _ in range(AGAIN)] for name, function in functions.items()
    }
    return {
        name: harness.Timing([s / AGAIN for s in timing.wall], [s / AGAIN for s in timing.processor])
        for name, timing in harness.alternate(repeated, rounds).items()
    }


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    result: dict[str, Any] = {"protocol": __doc__, "rounds": options.rounds}
    verdicts = []
    for threads in (1, 2):
        timings = harness.in_fresh_process(threads, measure, options.data, threads, options.rounds)
        clock = "processor" if threads == 1 else "wall"
        ours = timings[OURS]
        settings = f"D = {N_FACTORS}, {threads} thread(s), {options.rounds} rounds"
        print(f"\n## Best {N_ITEMS} of all ml-1m users, {settings}\n")
        print(
            harness.markdown(
                ["", *harness.COLUMNS, f"x ours ({clock})", f"x ours (least, {clock})"],
                [
                    [name, *timing.cells(), timing.times(ours, clock), timing.times_least(ours, clock)]
                    for name, timing in timings.items()
                ],
            )
        )
        result[f"{threads} threads"] = {
            name: {**timing.summary(), "times_ours": timing.times(ours, clock)} for name, timing in timings.items()
        }
        factor = timings[IMPLICIT].times(ours, clock)
        verdicts.append(harness.verdict(f"implicit, {threads} thread(s), x ours", factor, TARGET))
    harness.save("recommend", {**result, "verdicts": verdicts}, options)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
