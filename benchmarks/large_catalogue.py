"""Joint on a large synthetic catalogue: what fitting takes, and what a list takes, in time and memory.

    python benchmarks/large_catalogue.py --items 200000 --users 200000 --pairs 20000000

Items belong to groups, and users prefer some of these; within a group, popularity falls as a power of the rank. The
rating side keeps few draws, since those of all items take most of the memory. An index over the choice side finds the
candidates of lists; "index_same" is how much of the exact lists it leaves.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings

import numpy as np

import tastespace as ts
from tastespace.errors import ConvergenceWarning
from tastespace.evaluation.retrieval import tune_index


def synthetic(n_users: int, n_items: int, n_pairs: int, n_groups: int = 100) -> ts.Ratings:
    rng = np.random.default_rng(0)
    size = n_items // n_groups
    # Each user prefers three groups, and takes a tenth from anywhere.
    users = rng.integers(0, n_users, int(1.3 * n_pairs), dtype=np.int32)
    preferred = rng.integers(0, n_groups, (n_users, 3), dtype=np.int32)
    groups = preferred[users, rng.integers(0, 3, len(users))]
    anywhere = rng.random(len(users)) < 0.1
    groups[anywhere] = rng.integers(0, n_groups, np.count_nonzero(anywhere))
    ranks = (size * rng.random(len(users)) ** 2.5).astype(np.int32)
    pairs = np.unique(users.astype(np.int64) * n_items + groups * size + ranks)
    pairs = np.sort(rng.permutation(pairs)[:n_pairs])
    users, items = (part.astype(np.int32) for part in np.divmod(pairs, n_items))
    liking = rng.normal(0, 0.5, n_items)[items] + 0.7 * (preferred[users, 0] == items // size)
    values = np.clip(np.round(3.3 + liking + rng.normal(0, 0.8, len(users))), 1, 5)
    return ts.Ratings.from_arrays(users, items, values)


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("users", 200_000), ("items", 200_000), ("pairs", 20_000_000), ("draws", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=60.0, help="for the choice of an index")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    ratings = synthetic(asked.users, asked.items, asked.pairs)
    found = {"users": ratings.n_users, "items": ratings.n_items, "pairs": len(ratings), "data_gb": peak_gigabytes()}
    start = time.perf_counter()
    model = ts.Joint(n_factors=8, chains=1, warmup=10, draws=asked.draws, thin=1, seed=0).fit(ratings)
    found |= {"fit_s": time.perf_counter() - start, "fit_gb": peak_gigabytes()}
    regularization, weight = model.posterior_.found
    found |= {"choice_side": type(model.posterior_.choice.inverse).__name__, "weight": weight}
    found["regularization"] = regularization
    people = ratings.users.ids.head(20)
    start = time.perf_counter()
    lists = model.recommend(people, 10)
    found |= {"list_ms": 50 * (time.perf_counter() - start), "answer_gb": peak_gigabytes()}
    found["listed"] = int((lists.item_rows >= 0).sum())
    if model.posterior_.item_vectors is not None:
        model.index_ = tune_index(model, seconds=asked.seconds)
        found["index"] = model.index_.chosen.description
        start = time.perf_counter()
        by_index = model.recommend(people, 10)
        found |= {"index_list_ms": 50 * (time.perf_counter() - start), "index_gb": peak_gigabytes()}
        pairs = zip(by_index.item_rows, lists.item_rows, strict=True)
        found["index_same"] = float(np.mean([np.isin(*both).mean() for both in pairs]))
    print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}))


if __name__ == "__main__":
    main()
