"""How fast the best 10 items are found, and how many of them: indexes against numpy's scan and ours.

One query at a time, one thread, processor time; contenders take turns within one run, and a speed-up is the median of
the ratios (tastespace.index.trials). Accuracy is the share of the true best 10 that are found, acceptance the
share of users whose worst suggestion is one of their true best 100. Settings are chosen by the tuner on some queries
and judged on others; queries are of users and of strangers with some ratings. Numpy's scan is vectors @ query,
argpartition, sort.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import harness
import numpy as np
import retrieval_worlds as worlds

from tastespace.evaluation.retrieval import tune_index
from tastespace.index.reduction import Vote
from tastespace.index.search import best_of
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import N_TH, Trial, Truth, numpy_scan, time_single
from tastespace.index.tuner import Tuned, tune

K = 10
COLUMNS = ["structure", "accuracy", "acceptance", "worst", "µs", "x numpy", "x exact scan", "build s", "MB"]
BATCH = 256
KEPT = ("structure", "description", "accuracy", "acceptance", "worst", "speedup", "speedup_over_exact", "microseconds")


def row(trial: Trial) -> list[Any]:
    figures = [trial.accuracy, trial.acceptance, trial.worst, trial.microseconds, trial.speedup]
    return [trial.description, *figures, trial.speedup_over_exact, trial.build_seconds, trial.n_bytes / 1e6]


def told(name: str, title: str, tuned: Tuned, options: argparse.Namespace, **more: Any) -> None:
    """Print the choice, and the fastest of each structure that finds as much, and keep all that was tried."""
    best: dict[str, Trial] = {}
    for trial in tuned.trials:
        if tuned.target.is_reached_by(trial) and trial.speedup > getattr(best.get(trial.structure), "speedup", 0):
            best[trial.structure] = trial
    rows = [row(tuned.chosen), *(row(trial) for trial in sorted(best.values(), key=lambda trial: -trial.speedup))]
    rows[0][0] = f"chosen, held-out queries: {rows[0][0]}"
    print(f"\n## {title} ({tuned.n_choosing} queries to choose by, {tuned.n_held_out} held out)\n")
    print(harness.markdown(COLUMNS, rows), flush=True)
    curve = [{name: value for name, value in trial.to_dict().items() if name in KEPT} for trial in tuned.trials]
    harness.save(f"retrieval-{name}", {"chosen": tuned.chosen.to_dict(), "curve": curve, **more}, options)


def in_one_thread(function: Any, *arguments: Any) -> Any:
    return harness.in_fresh_process(1, function, *arguments)


# 1. The exact scan.


def measure_scan(n_items: int, n_dimensions: int, rounds: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((n, n_dimensions), np.float32) for n in (n_items, BATCH))
    exact = Exact(threads=1).build(vectors)
    single = time_single(exact, exact, vectors, queries, K, 2.0)
    found = {"single": single.speedup, "microseconds": single.microseconds}
    try:
        import faiss
    except ImportError:
        return found
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(n_dimensions)
    flat.add(vectors)
    timings = harness.alternate(
        {"ours": lambda: exact.search(queries, K), "faiss": lambda: flat.search(queries, K)}, rounds
    )
    return found | {"batched": timings["faiss"].times(timings["ours"])}


def scan(options: argparse.Namespace) -> list[str]:
    """The fused scan against numpy's and faiss Flat."""
    sizes = [(17_770, 20), (200_000, 20), (200_000, 50), (1_000_000, 20)][: 1 if options.quick else None]
    found = {size: in_one_thread(measure_scan, *size, options.rounds) for size in sizes}
    columns = ["items", "dimensions", "µs a query", "x numpy, one query", f"x faiss Flat, {BATCH} queries"]
    rows = [[*size, f["microseconds"], f["single"], f.get("batched", "not installed")] for size, f in found.items()]
    print("\n## The exact scan\n\n" + harness.markdown(columns, rows))
    harness.save("retrieval-scan", {f"{n} x {d}": figures for (n, d), figures in found.items()}, options)
    verdicts = []
    for (n, d), figures in found.items():
        least = 1.25 if (n, d) == (17_770, 20) else 1.0
        verdicts.append(harness.verdict(f"exact scan of {n} x {d}, x numpy", figures["single"], least))
        if "batched" in figures:
            verdicts.append(harness.verdict(f"exact scan of {n} x {d}, batched, x faiss", figures["batched"], 1.0))
    return verdicts


# 2. Items on a sphere.


def measure_sphere(quick: bool, targets: list[dict[str, float]], seconds: float) -> list[Tuned]:
    vectors, queries = worlds.vectors_and_queries(worlds.on_sphere(quick))
    return [tune(vectors, queries, seconds=seconds, threads=2, **target) for target in targets]


def sphere(options: argparse.Namespace) -> list[str]:
    """17 770 items of one length, 20 dimensions."""
    targets = [{"accuracy": 0.95}, {"accuracy": 0.57, "acceptance": 0.997}, {"accuracy": 0.61}]
    found = in_one_thread(measure_sphere, options.quick, targets, 10.0 if options.quick else 90.0)
    verdicts = []
    for tuned, least in zip(found, (2.5, 6.0, None), strict=True):
        told(f"sphere-{tuned.target.accuracy:g}", f"17 770 x 20 on the sphere, {tuned.target}", tuned, options)
        if least is not None:
            verdicts.append(harness.verdict(f"sphere, {tuned.target}, x numpy", tuned.chosen.speedup, least))
    trees = [t for t in found[-1].trials if t.structure == "kmeans-tree" and t.accuracy >= 0.61]
    fastest = max((tree.speedup for tree in trees), default=0.0)
    return [*verdicts, harness.verdict("k-means tree at accuracy .61, x numpy (FLANN's: 2.2)", fastest, 2.2)]


# 3. Stacked draws.


def measure_stack(name: str, n_draws: int, data: Any, quick: bool, seconds: float) -> tuple[Tuned, dict[str, Any]]:
    model = worlds.posterior_of(worlds.ratings_named(name, data, quick), n_draws, quick)
    vectors, queries = worlds.vectors_and_queries(model)
    tuned = tune(vectors, queries, accuracy=0.95, acceptance=0.99, seconds=seconds, threads=2)
    exact, held_out = Exact(threads=1).build(vectors), queries[-100:]
    vote = Vote(n_parts=n_draws, candidates=K, threads=1).build(vectors)
    judged = Truth.of(exact, vectors, held_out, K).judge(vote.search(held_out, K).items)
    timing = time_single(vote, exact, vectors, held_out, K, 2.0)
    return tuned, {
        "vote": {
            "accuracy": judged.accuracy,
            "acceptance": judged.acceptance(N_TH),
            "speedup": timing.speedup,
        },
        "n_items": len(vectors),
    }


def stacked(options: argparse.Namespace) -> list[str]:
    """Draws of a posterior, one after the other, in few coordinates; against their scan, and a vote of the draws."""
    targets = {("netflix-shaped", 10): 12, ("netflix-shaped", 20): 22, ("movielens-demo", 10): 7}
    targets |= {("movielens-demo", 20): 13, ("ml-1m", 10): None, ("ml-1m", 20): None}
    verdicts = []
    for (name, n_draws), least in targets.items():
        seconds = 10.0 if options.quick else 120.0
        tuned, more = in_one_thread(measure_stack, name, n_draws, options.data, options.quick, seconds)
        told(f"{name}-{n_draws}", f"{name}, {n_draws} draws, {more['n_items']} items", tuned, options, **more)
        vote = more["vote"]
        print(f"\nvote of {n_draws} lists: accuracy {vote['accuracy']:.3f}, {vote['speedup']:.2f} x numpy")
        if least is not None:
            chosen = tuned.chosen
            case = f"{name}, {n_draws} draws, accuracy {chosen.accuracy:.3f}, acceptance {chosen.acceptance:.3f}"
            verdicts.append(harness.verdict(f"{case}, x numpy", chosen.speedup, least))
    return verdicts


# 4. Growth.


def measure_growth(n_items: int, seconds: float) -> Tuned:
    vectors, queries = worlds.any_number(n_items)
    structures = ["inverted-file", "kmeans-tree"]
    return tune(vectors, queries, accuracy=0.95, seconds=seconds, structures=structures, threads=2)


def growth(options: argparse.Namespace) -> list[str]:
    """From ten thousand items to five million."""
    sizes = {10_000: None, 50_000: None, 200_000: 15, 1_000_000: 25, 5_000_000: 50}
    if options.quick:
        sizes = {10_000: None, 50_000: None}
    rows, verdicts, kept = [], [], {}
    for n_items, least in sizes.items():
        seconds = 5.0 if options.quick else 30.0 if n_items < 1e6 else 120.0 if n_items < 5e6 else 400.0
        tuned = in_one_thread(measure_growth, n_items, seconds)
        rows.append([n_items, *row(tuned.chosen)])
        kept[str(n_items)] = tuned.chosen.to_dict()
        if least is not None:
            case = f"{n_items} items, accuracy {tuned.chosen.accuracy:.3f}, x numpy"
            verdicts.append(harness.verdict(case, tuned.chosen.speedup, least))
        if n_items == 1_000_000:
            seconds = tuned.chosen.build_seconds
            verdicts.append(harness.verdict("build at 1M items, seconds, 2 threads", seconds, 60, at_most=True))
    print("\n## Growth, D = 20, accuracy .95\n\n" + harness.markdown(["items", *COLUMNS], rows))
    times = {size: kept[str(size)]["microseconds"] for size in sizes}
    largest, smallest = max(times), min(times)
    exponent = float(np.log(times[largest] / times[smallest]) / np.log(largest / smallest))
    verdicts.append(harness.verdict("latency grows with the items to the power of", exponent, 0.8, at_most=True))
    harness.save("retrieval-growth", {**kept, "exponent": exponent}, options)
    return verdicts


# 5. Policies, and filters.


def measure_policies(quick: bool, seconds: float) -> dict[str, Any]:
    model = worlds.posterior_of(worlds.netflix_shaped(quick, worlds.LARGE), 10, quick)
    model.set_params(threads=1)
    tuned = tune_index(model, accuracy=0.95, seconds=seconds, threads=1)
    users, found = model.ratings_.users.ids[:: max(1, model.ratings_.n_users // (5 if quick else 30))], {}
    for policy in ("mean", "cautious:c=1", "curious:c=1", "likely", "thompson"):
        lists: dict[str, list[Any]] = {"exact": [], "index": []}
        seconds_taken: dict[str, float] = {"exact": 0.0, "index": 0.0}
        for user in users:
            for name, index in (("exact", None), ("index", tuned.index)):
                begun = time.process_time()
                ranking = model.recommend([user], K, policy=policy, index=index, uncertainty=False)
                seconds_taken[name] += time.process_time() - begun
                lists[name].append(set(ranking.item_rows[0].tolist()))
        shares = [len(a & b) / K for a, b in zip(lists["exact"], lists["index"], strict=True)]
        found[policy] = {
            "recall": float(np.mean(shares)),
            "x faster": seconds_taken["exact"] / seconds_taken["index"],
            "ms": 1e3 * seconds_taken["index"] / len(users),
        }
    return {"policies": found, "index": tuned.chosen.to_dict()}


def policies(options: argparse.Namespace) -> list[str]:
    """200 000 items, ten draws: whole answers of `recommend`, the beliefs about users included."""
    found = in_one_thread(measure_policies, options.quick, 10.0 if options.quick else 120.0)
    rows = [[policy, *figures.values()] for policy, figures in found["policies"].items()]
    print(f"\n## Policies through {found['index']['description']}\n")
    print(harness.markdown(["policy", "recall of the exact top 10", "x faster than exact", "ms"], rows))
    harness.save("retrieval-policies", found, options)
    cautious = found["policies"]["cautious:c=1"]
    return [
        harness.verdict("cautious through the index, recall", cautious["recall"], 0.99),
        harness.verdict("cautious through the index, x exact", cautious["x faster"], 10),
    ]


def measure_filter(n_items: int, share: float, rounds: int) -> dict[str, harness.Timing]:
    vectors, queries = worlds.any_number(n_items)
    index = InvertedFile(probes=16, threads=1).build(vectors)
    allowed = np.random.default_rng(1).random(n_items) < share

    def each(search: Any) -> Any:
        return lambda: [search(queries[i : i + 1]) for i in range(200)]

    def by_numpy(query: np.ndarray) -> Any:
        rows = np.flatnonzero(allowed)
        return rows[numpy_scan(vectors[rows], query[0], K)]

    def subset(query: np.ndarray) -> Any:
        return best_of(np.flatnonzero(allowed).astype(np.int32), vectors, query, K, 1)

    return harness.alternate(
        {
            "index": each(lambda query: index.search(query, K, allowed=allowed)),
            "subset": each(subset),
            "numpy": each(by_numpy),
        },
        rounds,
    )


def filters(options: argparse.Namespace) -> list[str]:
    """200 000 items, of which 1 % or more are allowed: through the index, and a look at each that is allowed."""
    rows, verdicts = [], []
    for share in (0.001, 0.01, 0.1, 0.3):
        timings = in_one_thread(measure_filter, 20_000 if options.quick else 200_000, share, options.rounds)
        ours = timings["index"]
        times = 1 / timings["subset"].times(ours)
        rows.append([share, 1e6 * min(ours.processor) / 200, times, timings["numpy"].times(ours)])
        if share == 0.01:
            verdicts.append(harness.verdict("1 % filter, times the subset scan", times, 1.1, at_most=True))
    columns = ["allowed", "µs through the index", "times the subset scan", "numpy's subset scan, x ours"]
    print("\n## Filters, 200 000 x 20\n\n" + harness.markdown(columns, rows))
    harness.save("retrieval-filters", {"columns": columns, "rows": rows}, options)
    return verdicts


QUESTIONS = {
    "scan": scan,
    "sphere": sphere,
    "stacked": stacked,
    "growth": growth,
    "policies": policies,
    "filters": filters,
}


def main() -> None:
    harness.answer(QUESTIONS, __doc__.splitlines()[0])


if __name__ == "__main__":
    main()
