"""One-class data: lists and seconds a sweep of ImplicitALS, against implicit, LightFM and EASE; lists of LogisticMF.

hetrec-lastfm (play counts, as log(1 + plays)) and citeulike-a (bookmarks). A fifth of every user's choices, drawn at
random (seed 0), is the test set; what was chosen in training is left out of the lists; every other item is a candidate.
NDCG@100 and recall@20 (of at most 20) are means over all users with something in the test set.

same: the same confidences, regularisation, factors and 15 sweeps for implicit and for ours, mean of three starts.
tuned: 128 factors; each peer on its own grid, chosen by NDCG@100 on a fifth of the training choices, then fitted on all
of them. ImplicitALS chooses for itself, on the training choices.
sweeps: processor seconds a sweep with one thread, wall-clock seconds with two; from the same start, at D = 32 and 128,
with the loss (that implicit computes) after 15 sweeps.
coverage: how often intervals from a part of somebody's choices hold the score after all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import harness
import numpy as np
import polars as pl
import scipy.sparse as sp

DATA = ("hetrec-lastfm", "citeulike-a")
BLOCK = 1000  # users whose lists are made together
SWEEPS = 15
SHARES, LEAST_CHOICES = (0.1, 0.3, 0.5, 0.8), 10
CHOLESKY_UP_TO = 32  # factors; with 128 a sweep of implicit's takes fifteen times as long as its conjugate gradients
LEAST_TIMES, MOST_APART = 2.0, 0.002
SAME = {"n_factors": 64, "regularisation": 1.0, "strength": 10.0}
OUR_SAME = {**SAME, "weighting": "plain"}
IMPLICIT_GRID = [
    {"n_factors": 128, "regularisation": ridge, "strength": strength}
    for ridge, strength in product([5.0, 20.0, 60.0, 200.0], [2.0, 8.0, 32.0, 128.0])
]
OUR_GRID = [{"n_factors": 128}]  # The model finds the rest on the training choices.
EASE_GRID = [{"regularisation": ridge} for ridge in (30.0, 150.0, 600.0)]
WARP_GRID = [
    {"n_factors": 128, "learning_rate": rate, "item_alpha": penalty, "user_alpha": penalty}
    for rate, penalty in product([0.02, 0.05], [0.0, 1e-6, 1e-5])
]
LOGISTIC_GRID = [{"n_factors": 128, "regularisation": ridge} for ridge in (2.0, 3.0, 4.0)]
IMPLICIT_LOGISTIC_GRID = [
    {"n_factors": n_factors, "learning_rate": rate, "regularization": ridge}
    for n_factors, rate, ridge in product([30, 128], [0.3, 1.0], [0.6, 2.0, 6.0])
]
EPOCHS = 30


@dataclass(frozen=True)
class Parts:
    """Training and test choices, users x items; values are counts."""

    train: sp.csr_matrix
    test: sp.csr_matrix


def choices(data: Path | str | None, name: str) -> sp.csr_matrix:
    """All choices, users x items."""
    if data is None:
        raise SystemExit("no data folder; pass --data DIR or set TASTESPACE_DATA")
    if name == "citeulike-a":
        frame = pl.read_parquet(Path(data) / "citeulike-a.parquet")
        users, items = frame[:, 0].to_numpy(), frame[:, 1].to_numpy()
        values = np.ones(len(users), np.float32)
    else:
        frame = pl.read_parquet(Path(data) / "hetrec-lastfm-2k" / "plays.parquet")
        users, items, values = (frame[:, place].to_numpy() for place in range(3))
    users, items = (np.unique(ids, return_inverse=True)[1] for ids in (users, items))
    return sp.csr_matrix((values.astype(np.float32), (users, items)))


def divided(chosen: sp.csr_matrix, seed: int = 0) -> Parts:
    """A fifth of every user's choices apart, rounded down."""
    rng = np.random.default_rng(seed)
    is_test = np.zeros(chosen.nnz, bool)
    for start, end in zip(chosen.indptr[:-1], chosen.indptr[1:], strict=True):
        is_test[start + rng.permutation(end - start)[: (end - start) // 5]] = True
    rows = np.repeat(np.arange(chosen.shape[0]), np.diff(chosen.indptr))
    parts = [
        sp.csr_matrix((chosen.data[some], (rows[some], chosen.indices[some])), chosen.shape)
        for some in (~is_test, is_test)
    ]
    return Parts(*parts)


def measures(parts: Parts, scores: Callable[[slice], np.ndarray]) -> dict[str, float]:
    """Of lists by these scores of all items, for a block of users each."""
    ndcg, recall = [], []
    discounts = 1 / np.log2(np.arange(100) + 2)
    for users in _blocks(parts.train.shape[0]):
        found = scores(users)
        found[parts.train[users].nonzero()] = -np.inf
        best = np.argpartition(-found, 100, axis=1)[:, :100]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(found, best, 1), axis=1, kind="stable"), 1)
        wanted = parts.test[users]
        for row, items in enumerate(best):
            own = wanted.indices[wanted.indptr[row] : wanted.indptr[row + 1]]
            if len(own):
                is_hit = np.isin(items, own)
                ndcg.append((is_hit * discounts).sum() / discounts[: len(own)].sum())
                recall.append(is_hit[:20].sum() / min(20, len(own)))
    return {"ndcg@100": float(np.mean(ndcg)), "recall@20": float(np.mean(recall))}


def _blocks(n: int) -> Iterator[slice]:
    return (slice(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK))


def confidences(chosen: sp.csr_matrix, strength: float) -> sp.csr_matrix:
    """1 + strength * log(1 + count), as both libraries are given it."""
    return sp.csr_matrix((1 + strength * np.log1p(chosen.data), chosen.indices, chosen.indptr), chosen.shape)


# The competitors: parts, settings and a seed to scores of users.


def ours(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    return _by_vectors(_fitted("ImplicitALS", parts, sweeps=SWEEPS, tolerance=0.0, **settings, seed=seed), parts)


def logistic(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    return _by_vectors(_fitted("LogisticMF", parts, epochs=EPOCHS, **settings, seed=seed), parts)


def _by_vectors(model: Any, parts: Parts) -> Callable[[slice], np.ndarray]:
    users = model.about(model.ratings_.users.ids).belief.queries.vectors
    return _scattered(model, parts, users, model.posterior_.item_vectors)


def ease(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    model = _fitted("EASE", parts, **settings)
    weights = model.posterior_.arrays()
    (matrix,) = [value for value in weights.values() if value.ndim == 2 and value.shape[0] == value.shape[1] > 1]
    known = _chosen_by(model, parts)
    return _scattered_matrix(model, parts, lambda users: known[users] @ matrix)


def _fitted(name: str, parts: Parts, **settings: Any) -> Any:
    import tastespace

    rows, columns = parts.train.nonzero()
    ratings = tastespace.Ratings.from_arrays(rows, columns, parts.train.data)
    return getattr(tastespace, name)(threads=1, **settings).fit(ratings)


def _places(model: Any, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Rows of users and items of the matrix in the model; -1 for what was never chosen in training."""
    ratings = model.ratings_
    return ratings.users.rows_of(range(parts.train.shape[0])), ratings.items.rows_of(range(parts.train.shape[1]))


def _scattered(model: Any, parts: Parts, users: np.ndarray, items: np.ndarray) -> Callable[[slice], np.ndarray]:
    user_rows, item_rows = _places(model, parts)
    points = np.vstack([items, np.zeros((1, items.shape[1]), items.dtype)])[item_rows]
    people = np.vstack([users, np.zeros((1, users.shape[1]), users.dtype)])[user_rows]
    return lambda some: people[some] @ points.T


def _chosen_by(model: Any, parts: Parts) -> sp.csr_matrix:
    user_rows, _ = _places(model, parts)
    by_user = model.ratings_.by_user
    matrix = sp.csr_matrix(
        (np.ones(len(by_user.columns), np.float32), by_user.columns, by_user.offsets),
        (model.ratings_.n_users, model.ratings_.n_items),
    )
    return sp.vstack([matrix, sp.csr_matrix((1, matrix.shape[1]), dtype=np.float32)]).tocsr()[user_rows]


def _scattered_matrix(model: Any, parts: Parts, scores: Callable[[slice], np.ndarray]) -> Callable[[slice], np.ndarray]:
    _, item_rows = _places(model, parts)

    def all_items(users: slice) -> np.ndarray:
        found = np.asarray(scores(users))
        return np.hstack([found, np.zeros((len(found), 1), found.dtype)])[:, item_rows]

    return all_items


def implicit_als(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=settings["n_factors"],
        regularization=settings["regularisation"],
        iterations=SWEEPS,
        random_state=seed,
        num_threads=1,
    )
    model.fit(confidences(parts.train, settings["strength"]), show_progress=False)
    return lambda users: model.user_factors[users] @ model.item_factors.T


def implicit_logistic(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    from implicit.cpu.lmf import LogisticMatrixFactorization

    settings = dict(settings)
    model = LogisticMatrixFactorization(
        factors=settings.pop("n_factors"), iterations=EPOCHS, random_state=seed, num_threads=1, **settings
    )
    model.fit((parts.train > 0).astype(np.float32), show_progress=False)
    return lambda users: model.user_factors[users] @ model.item_factors.T


def lightfm_warp(parts: Parts, settings: dict[str, Any], seed: int) -> Callable[[slice], np.ndarray]:
    from lightfm import LightFM

    settings = dict(settings)
    model = LightFM(no_components=settings.pop("n_factors"), loss="warp", random_state=seed, **settings)
    model.fit((parts.train > 0).astype(np.float32).tocoo(), epochs=EPOCHS, num_threads=1)
    return lambda users: (
        model.user_embeddings[users] @ model.item_embeddings.T + model.item_biases + model.user_biases[users, None]
    )


COMPETITORS: dict[str, tuple[Callable[..., Any], list[dict[str, Any]]]] = {
    "tastespace ImplicitALS": (ours, OUR_GRID),
    "implicit ALS": (implicit_als, IMPLICIT_GRID),
    "LightFM WARP": (lightfm_warp, WARP_GRID),
    "tastespace EASE": (ease, EASE_GRID),
    "tastespace LogisticMF": (logistic, LOGISTIC_GRID),
    "implicit logistic": (implicit_logistic, IMPLICIT_LOGISTIC_GRID),
}

AGAINST = (
    ("tastespace ImplicitALS", "implicit ALS"),
    ("tastespace ImplicitALS", "LightFM WARP"),
    ("tastespace LogisticMF", "implicit logistic"),
)


def same(data: Path | None, name: str, starts: int) -> dict[str, dict[str, float]]:
    parts = divided(choices(data, name))
    found = {}
    for who, compete, settings in (("tastespace", ours, OUR_SAME), ("implicit", implicit_als, SAME)):
        runs = [measures(parts, compete(parts, settings, seed)) for seed in range(starts)]
        found[who] = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
    return found


def measure_same(options: Any) -> list[str]:
    verdicts, result = [], {}
    for name in DATA:
        found = result[name] = harness.in_fresh_process(1, same, options.data, name, 1 if options.quick else 3)
        print(f"\n## The same settings, {name}\n")
        print(harness.markdown(["", *found["tastespace"]], [[who, *row.values()] for who, row in found.items()]))
        for key, value in found["tastespace"].items():
            apart = abs(value - found["implicit"][key])
            verdicts.append(harness.verdict(f"{name}: {key}, apart from implicit", apart, MOST_APART, at_most=True))
    harness.save("one_class_same", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


def tuned(data: Path | None, name: str, who: str, quick: bool) -> dict[str, Any]:
    compete, grid = COMPETITORS[who]
    parts = divided(choices(data, name))
    inner = divided(parts.train, seed=1)
    grid = grid[:1] if quick else grid
    if len(grid) == 1:
        return {**measures(parts, compete(parts, grid[0], 0)), "settings": grid[0]}
    tried = [(measures(inner, compete(inner, settings, 0)), settings) for settings in grid]
    best = max(tried, key=lambda pair: pair[0]["ndcg@100"])[1]
    return {**measures(parts, compete(parts, best, 0)), "settings": best, "tried": tried}


def measure_tuned(options: Any) -> list[str]:
    verdicts, result = [], {}
    for name in DATA:
        found = {who: harness.in_fresh_process(1, tuned, options.data, name, who, options.quick) for who in COMPETITORS}
        result[name] = found
        print(f"\n## Tuned, {name}\n")
        rows = [[who, row["ndcg@100"], row["recall@20"], str(row["settings"])] for who, row in found.items()]
        print(harness.markdown(["", "ndcg@100", "recall@20", "settings"], rows), flush=True)
        for who, peer in AGAINST:
            for key in ("ndcg@100", "recall@20"):
                least = found[peer][key] - 0.001
                verdicts.append(harness.verdict(f"{name}: {key}, {who} against {peer}", found[who][key], least))
    harness.save("one_class_tuned", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


# Seconds a sweep


def sweep_times(data: Path | None, name: str, n_factors: int, threads: int, rounds: int) -> dict[str, Any]:
    from implicit.cpu import _als

    from tastespace import Ratings
    from tastespace.models.factorization.implicit.cells import AlternatingChoices, Confidence, ImplicitState, Ridge

    chosen, ridge, strength = choices(data, name), SAME["regularisation"], SAME["strength"]
    rows, columns = chosen.nonzero()
    ratings = Ratings.from_arrays(rows, columns, chosen.data)
    rng = np.random.default_rng(0)
    start = [0.01 * rng.random((n, n_factors), dtype=np.float32) for n in chosen.shape]
    users, items = ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy()
    sweep = AlternatingChoices(
        ratings,
        Confidence(strength),
        Ridge(ridge, False),
        n_factors=n_factors,
        has_biases=False,
        solver="conjugate",
        steps=3,
        threads=threads,
    )
    weighted = confidences(chosen, strength)
    turned = weighted.T.tocsr()
    reached: dict[str, float] = {}

    def loss(of_users: np.ndarray, of_items: np.ndarray) -> float:
        return float(_als.calculate_loss(weighted, of_users, of_items, ridge))

    def run_ours() -> None:
        state = ImplicitState(start[0][users], start[1][items])
        for _ in range(SWEEPS):
            state = sweep.moved(state)
        back = [np.empty_like(part) for part in start]
        back[0][users], back[1][items] = state.users, state.items
        reached["tastespace"] = loss(*back)

    def run_theirs(solver: str) -> None:
        solve = _als.least_squares_cg if solver == "conjugate" else _als.least_squares
        of_users, of_items = start[0].copy(), start[1].copy()
        for _ in range(SWEEPS):
            solve(turned, of_items, of_users, ridge, num_threads=threads)
            solve(weighted, of_users, of_items, ridge, num_threads=threads)
        reached[f"implicit, {solver}"] = loss(of_users, of_items)

    functions: dict[str, Callable[[], None]] = {
        "tastespace": run_ours,
        "implicit, conjugate": lambda: run_theirs("conjugate"),
    }
    if n_factors <= CHOLESKY_UP_TO:
        functions["implicit, cholesky"] = lambda: run_theirs("cholesky")
    return {"timings": harness.alternate(functions, rounds, warm_up=False), "loss": reached}


def measure_sweeps(options: Any) -> list[str]:
    verdicts, result = [], {}
    for name, n_factors, threads in product(DATA, (32, 128), (1, 2)):
        found = harness.in_fresh_process(threads, sweep_times, options.data, name, n_factors, threads, options.rounds)
        timings, losses = found["timings"], found["loss"]
        clock = "processor" if threads == 1 else "wall"
        times = {who: timing.times(timings["tastespace"], clock) for who, timing in timings.items()}
        case = f"{name}, D = {n_factors}, {threads} thread{'s' if threads > 1 else ''}"
        print(f"\n## {SWEEPS} sweeps, {case}\n")
        rows = [[who, *timing.cells(), times[who], losses[who]] for who, timing in timings.items()]
        print(harness.markdown(["", *harness.COLUMNS, "x ours", "loss"], rows), flush=True)
        faster = min(time for who, time in times.items() if who != "tastespace")
        verdicts.append(harness.verdict(f"{case}: implicit's faster solver, x ours", faster, LEAST_TIMES))
        verdicts.append(
            harness.verdict(
                f"{case}: loss against implicit's faster one",
                losses["tastespace"] / losses["implicit, conjugate"],
                1.0,
                at_most=True,
            )
        )
        result[case] = {
            who: {**timing.summary(), "times ours": times[who], "loss": losses[who]} for who, timing in timings.items()
        }
    harness.save("one_class_sweeps", {"protocol": __doc__, **result, "verdicts": verdicts}, options)
    return verdicts


# What intervals are worth


def coverage(data: Path | None, name: str, n_users: int) -> dict[str, float]:
    """How often the 90 % interval from a part of a stranger's choices holds the score after all of them."""
    import tastespace

    chosen = choices(data, name)
    rng = np.random.default_rng(0)
    strangers = rng.permutation(chosen.shape[0])[:n_users]
    rows, columns = chosen.nonzero()
    others = ~np.isin(rows, strangers)
    ratings = tastespace.Ratings.from_arrays(rows[others], columns[others], chosen.data[others])
    model = tastespace.ImplicitALS(n_factors=32, seed=0, threads=1).fit(ratings)
    counts = ratings.by_item.counts
    found: dict[str, list[float]] = {f"{share:.0%}": [] for share in SHARES}
    for user in strangers:
        own = {int(item): float(count) for item, count in zip(chosen[user].indices, chosen[user].data, strict=True)}
        own = {item: count for item, count in own.items() if ratings.items.rows_of([item])[0] >= 0}
        if len(own) < LEAST_CHOICES:
            continue
        for share, held in zip(SHARES, found.values(), strict=True):
            some = rng.permutation(list(own))[: max(1, int(share * len(own)))]
            asked = ratings.items.ids[rng.choice(len(counts), 50, p=counts / counts.sum())]
            before = model.predict(["new"] * 50, asked, history={item: own[item] for item in some.tolist()})
            after = model.predict(["new"] * 50, asked, history=own)
            low, high = before.interval(0.9).T
            held.append(float(np.mean((low <= after.mean) & (after.mean <= high))))
    return {share: float(np.mean(held)) for share, held in found.items()}


def measure_coverage(options: Any) -> list[str]:
    result = {
        name: harness.in_fresh_process(1, coverage, options.data, name, 20 if options.quick else 300) for name in DATA
    }
    print("\n## 90 % intervals of strangers' scores, by the known share of their choices\n")
    print(harness.markdown(["", *result[DATA[0]]], [[name, *row.values()] for name, row in result.items()]))
    harness.save("one_class_coverage", {"protocol": coverage.__doc__, **result}, options)
    return []


if __name__ == "__main__":
    harness.answer(
        {"same": measure_same, "tuned": measure_tuned, "sweeps": measure_sweeps, "coverage": measure_coverage},
        __doc__.splitlines()[0],
    )
