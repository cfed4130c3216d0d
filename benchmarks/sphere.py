"""Items on a sphere: what it costs in error and in seconds, and which sampler moves them best.

quality. Test RMSE on 90:10 splits, seed 0, over all test ratings, predictions clipped to the training range: BPMF with
   items that are free, and on a sphere, with as many draws of each (the defaults: two chains, 50 sweeps of warm-up, 50
   draws a chain, one every two sweeps; at D = 100 one chain of 25 and 25). Overall, and by how many training ratings
   users and items have. "uniform" is the prior of Fraccaro (2014), others have ours. Beside them least squares, free
   and on the sphere.
radii. The same for several radii, with the uniform prior and without biases, one chain each. Then for the smallest and
   the largest with the hyper-prior of users in the same units: the shorter the items, the longer users must be.
cost. Processor seconds of one item step at the same state, one thread; beside them, of a user step.
mixing. Effective samples a processor second. "items": users, populations and noise stay as they are after a warm-up,
   and only the item step is repeated; the least effective component of each of some items, bias included. "sampler":
   the whole of it, by what is watched (noise, effects, tastes, 100 predictions).
als. SphereALS: the loss of every sweep, the length of items, and held-out RMSE beside that of items of ALS that are
   cut to one length, which is what Fraccaro (2014) starts from.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
import movielens
import numpy as np

import tastespace as ts
from tastespace.errors import ConvergenceWarning
from tastespace.evaluation.groups import LABELS, group_of
from tastespace.evaluation.resampling import Sums, bootstrap, middle
from tastespace.inference.diagnostics import correlations, effective_for_mean
from tastespace.inference.samplers.hamiltonian import DualAveraging
from tastespace.models.factorization.als.posterior import PointPosterior
from tastespace.models.factorization.gibbs.item_draws import Watched
from tastespace.models.factorization.gibbs.sweep import GibbsState, GibbsSweep
from tastespace.models.factorization.likelihoods.base import Observations
from tastespace.models.factorization.rows import (
    NORMAL_ROWS,
    Factors,
    GivenRows,
    Moved,
    RatingBlock,
    RowMoves,
    solve_rows,
)
from tastespace.models.factorization.sphere.moves import SPHERE_SAMPLERS, SphereMoves
from tastespace.models.factorization.sphere.moves import STEPS as DEFAULT_STEPS
from tastespace.randomness import generator

FREE, SPHERE = "BPMF", "sphere"
WITHOUT = ", no biases"
UNIFORM = "sphere, uniform, no biases"
# What is compared with what, and by how much it may be worse.
CLOSE = 0.002
MODELS: dict[str, Callable[[int], ts.Recommender]] = {
    FREE: lambda n_factors: ts.BPMF(n_factors=n_factors),
    SPHERE: lambda n_factors: ts.SphereBPMF(n_factors=n_factors, sampler="geodesic"),
    FREE + WITHOUT: lambda n_factors: ts.BPMF(n_factors=n_factors, biases=False),
    SPHERE + WITHOUT: lambda n_factors: ts.SphereBPMF(n_factors=n_factors, sampler="geodesic", biases=False),
    "sphere, biases on it": lambda n_factors: ts.SphereBPMF(
        n_factors=n_factors, sampler="geodesic", biases="on-sphere"
    ),
    UNIFORM: lambda n_factors: ts.SphereBPMF(
        n_factors=n_factors, sampler="geodesic", biases=False, item_prior="uniform"
    ),
    f"{UNIFORM}, metropolis": lambda n_factors: ts.SphereBPMF(
        n_factors=n_factors, sampler="metropolis", biases=False, item_prior="uniform"
    ),
    "ALS": lambda n_factors: ts.ALS(n_factors=n_factors),
    "ALS" + WITHOUT: lambda n_factors: ts.ALS(n_factors=n_factors, biases=False),
    "sphere ALS": lambda n_factors: ts.SphereALS(n_factors=n_factors),
    "sphere ALS" + WITHOUT: lambda n_factors: ts.SphereALS(n_factors=n_factors, biases=False),
}
RARE = ("sphere, biases on it", SPHERE + WITHOUT)  # not at every number of factors
SKIPPED = {"ml-100k": ("metropolis",), "ml-1m": ("sphere ALS",)}  # the latter are in `als`
N_FACTORS = {"ml-100k": (20, 50), "ml-1m": (20, 50, 8, 100)}
JUDGED = (20, 50)
SEEDS = {"ml-100k": 3, "ml-1m": 1}  # of the two that are judged
SHORT_FROM = 100  # factors on: there a chain takes minutes
RADII = (0.1, 0.5, 1.0, 2.0, 10.0)  # times the median length of free items
RADII_FACTORS = 20
STRENGTH, LOSSES = 0.1, 40  # where only the loss is looked at: its penalty, and after how many sweeps
ROUNDED = {"float32": 1e-6, "float64": 1e-9}  # by how much the loss may rise
FIFTHS = 5
RESAMPLES = 1000

RADIUS = 1.0  # where only the sampler is measured: near to what "auto" finds
USERS = "users"
THEIRS = (("geodesic", 100), ("metropolis", 200))  # ten trajectories of ten steps, and proposals, of Fraccaro (2014)
MOST_TIMES = 3.0  # an item step, against one of BPMF
LEAST_TIMES = 5.0  # effective samples a second, geodesic against Metropolis
STEPS = (3, 5, 10, 20)
FEW_SWEEPS, TUNING = 30, 60
SOME_ITEMS, MOVES, TIMES, LAGS = 100, 2000, 5, 60
SWEEPS = 250
MIXING = (("ml-100k", 20), ("ml-1m", 20), ("ml-1m", 50))
SAMPLED = {"ml-100k": STEPS, "ml-1m": (3, 5, 10)}
WATCHED = ("noise sd", "taste sd", "user effect sd", "item effect sd")


def parts_of(data: Path | None, name: str) -> ts.Split:
    if name == "ml-1m":
        return movielens.split(data)
    return ts.random_split(ts.read(Path(data or "") / name / "u.data"), 0.1, seed=0)


# Quality


@dataclass(frozen=True)
class Fitted:
    """What a fit left on the test ratings."""

    squares: np.ndarray
    seconds: float
    radius: float | None


def fitted(data: Path | None, name: str, model: str, n_factors: int, seed: int, quick: bool) -> Fitted:
    estimator = replace(MODELS[model](n_factors), seed=seed, threads=1)
    return _fit(parts_of(data, name), estimator, quick)


def fitted_with_radius(data: Path | None, radius: float, prior_scale: float, quick: bool) -> Fitted:
    estimator = replace(
        MODELS[UNIFORM](RADII_FACTORS), seed=0, threads=1, chains=1, radius=radius, prior_scale=prior_scale
    )
    return _fit(movielens.split(data), estimator, quick)


def _fit(parts: ts.Split, estimator: Any, quick: bool) -> Fitted:
    is_sampled = isinstance(estimator, ts.BPMF)
    if is_sampled and estimator.n_factors >= SHORT_FROM:
        estimator = replace(estimator, chains=1, warmup=25, draws=25)
    if is_sampled and quick:
        estimator = replace(estimator, chains=1, warmup=5, draws=5)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that some figures move slowly is `mixing`
        estimator.fit(parts.train)
    seconds = time.process_time() - start
    mean = estimator.predict(parts.test.user_ids(), parts.test.item_ids()).mean
    errors = np.clip(mean, *parts.train.range).astype(np.float64) - parts.test.values
    sphere = estimator.posterior_.draws.sphere if is_sampled else None
    return Fitted(errors**2, seconds, None if sphere is None else sphere.radius)


@dataclass(frozen=True)
class Known:
    """How much is known of the user and the item of each test rating."""

    users: np.ndarray  # rows, to resample
    groups: Mapping[str, Mapping[str, np.ndarray]]  # side, label: which test ratings

    @classmethod
    def of(cls, parts: ts.Split) -> Known:
        train, test = parts.train, parts.test
        users = np.append(train.by_user.counts, 0)[train.users.rows_of(test.user_ids())]
        items = np.append(train.by_item.counts, 0)[train.items.rows_of(test.item_ids())]
        # Fifths of the items: most of the test ratings are of the last one.
        bounds = np.quantile(train.by_item.counts, np.arange(1, FIFTHS) / FIFTHS)
        fifth = np.searchsorted(bounds, items, side="left")
        edges = [0, *bounds.astype(int).tolist(), int(train.by_item.counts.max())]
        fifths = {f"{edges[i] + (i > 0)}-{edges[i + 1]}": np.flatnonzero(fifth == i) for i in range(FIFTHS)}
        return cls(
            test.user_rows,
            {"users": _labelled(group_of(users)), "items": _labelled(group_of(items)), "fifths of items": fifths},
        )

    def summary(self, squares: np.ndarray) -> dict[str, Any]:
        """RMSE overall and by groups."""
        return {
            "rmse": _root(squares),
            **{side: {label: _root(squares[here]) for label, here in of.items()} for side, of in self.groups.items()},
        }

    def sizes(self) -> dict[str, dict[str, int]]:
        return {side: {label: len(here) for label, here in of.items()} for side, of in self.groups.items()}

    def difference(self, first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
        """RMSE of the first less that of the second, with a 95 % interval over users."""
        counts = np.bincount(self.users).astype(np.float64)
        sums = {key: Sums(np.bincount(self.users, of), counts, is_root=True) for key, of in ((1, first), (2, second))}
        drawn = bootstrap(sums, RESAMPLES, 0)
        return {"difference": _root(first) - _root(second), "interval": middle(drawn[1] - drawn[2])}


def _labelled(group: np.ndarray) -> dict[str, np.ndarray]:
    places = {label: np.flatnonzero(group == place) for place, label in enumerate(LABELS)}
    return {label: here for label, here in places.items() if len(here)}


def _root(squares: np.ndarray) -> float:
    return float(np.sqrt(squares.mean())) if len(squares) else float("nan")


def measure_quality(options: Any) -> list[str]:
    names = list(N_FACTORS)[:1] if options.quick else list(N_FACTORS)
    result: dict[str, Any] = {"protocol": __doc__}
    verdicts: list[str] = []
    for name in names:
        known = Known.of(parts_of(options.data, name))
        result[name] = {"test ratings": known.sizes()}
        for n_factors in N_FACTORS[name][: 1 if options.quick else None]:
            found = _qualities(options, name, n_factors, known)
            result[name][f"D={n_factors}"] = found
            print(f"\n## Test RMSE, {name}, D = {n_factors}\n\n{_quality_table(found)}", flush=True)
            if n_factors in JUDGED:
                apart = found[SPHERE]["rmse"] - found[FREE]["rmse"]
                verdicts.append(
                    harness.verdict(f"{name}, D = {n_factors}: RMSE, {SPHERE} - {FREE}", apart, CLOSE, at_most=True)
                )
            harness.save("sphere_quality", {**result, "verdicts": verdicts}, options)
    return verdicts


def _qualities(options: Any, name: str, n_factors: int, known: Known) -> dict[str, Any]:
    found: dict[str, Any] = {}
    first: dict[str, np.ndarray] = {}
    for model in MODELS:
        is_skipped = any(part in model for part in SKIPPED[name])
        if is_skipped or (model in RARE and n_factors not in JUDGED):
            continue
        seeds = SEEDS[name] if model in (FREE, SPHERE) and not options.quick else 1
        runs = [
            harness.in_fresh_process(1, fitted, options.data, name, model, n_factors, seed, options.quick)
            for seed in range(seeds)
        ]
        first[model] = runs[0].squares
        found[model] = {
            **known.summary(runs[0].squares),
            "rmse": float(np.mean([_root(run.squares) for run in runs])),
            "rmse by seed": [_root(run.squares) for run in runs],
            "seconds": runs[0].seconds,
            "radius": runs[0].radius,
        }
        print(f"{name} D = {n_factors} {model}: {found[model]['rmse']:.4f}, {runs[0].seconds:.0f} s", flush=True)
    for one, other in ((SPHERE, FREE), (SPHERE + WITHOUT, FREE + WITHOUT), (UNIFORM, FREE + WITHOUT)):
        if one in first:
            found[one][f"less {other}"] = known.difference(first[one], first[other])
    return found


def _quality_table(found: Mapping[str, Any]) -> str:
    side = "fifths of items"
    labels = list(found[FREE][side])
    rows = [
        [model, f"{row['rmse']:.4f}", *(f"{row[side][label]:.4f}" for label in labels), row["seconds"]]
        for model, row in found.items()
    ]
    return harness.markdown(["", "RMSE", *(f"items with {label}" for label in labels), "s (cpu)"], rows)


def measure_radii(options: Any) -> list[str]:
    known = Known.of(movielens.split(options.data))
    median = harness.in_fresh_process(1, fitted, options.data, "ml-1m", UNIFORM, RADII_FACTORS, 0, True).radius
    result: dict[str, Any] = {"protocol": __doc__, "median": median, "test ratings": known.sizes()}
    usual = ts.SphereBPMF().prior_scale
    for title, with_radius in (("radii", False), ("radii, prior of users with them", True)):
        found = result[title] = {}
        for times in RADII[:2] if options.quick else RADII[:: 4 if with_radius else 1]:
            # The model multiplies by the square of the radius, so that nothing depends on it: here it is to be seen.
            scale = (usual * times**2 if with_radius else usual) / (times * median) ** 2
            run = harness.in_fresh_process(1, fitted_with_radius, options.data, times * median, scale, options.quick)
            found[f"{times:g}"] = {**known.summary(run.squares), "radius": run.radius, "seconds": run.seconds}
            print(f"{title}: {times:g} x {median:.3f}, {found[f'{times:g}']['rmse']:.4f}", flush=True)
    harness.save("sphere_radii", result, options)
    return []


# Cost


def _sweep(model: Any, ratings: ts.Ratings) -> GibbsSweep:
    return GibbsSweep(model, Observations.of(ratings, model.dtype, model.offset, model.scale))


@dataclass(frozen=True, eq=False)
class Step:
    """An item step, and all that it needs besides where items are."""

    sweep: GibbsSweep
    state: GibbsState
    given: GivenRows

    @classmethod
    def after_warmup(cls, ratings: ts.Ratings, n_factors: int, sweeps: int) -> Step:
        """Warmed up by slices, which have nothing to be tuned."""
        estimator: Any = ts.SphereBPMF(n_factors=n_factors, sampler="slice", radius=RADIUS, threads=1)
        sweep, rng = _sweep(estimator.story(ratings), ratings), generator(0)
        state = sweep.init(rng)
        for _ in range(sweeps):
            state, _ = sweep.step(state, rng)
        given = GivenRows("item", sweep.observed.by_item, state.items, state.users)
        return cls(sweep, state, sweep.model.likelihood.augment(given, state.noise, rng))

    def of(self, items: np.ndarray) -> Step:
        """The same for some of the items."""
        side = self.given.side
        counts = np.diff(side.offsets)[items]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(side.offsets.dtype)
        places = np.concatenate([np.arange(side.offsets[item], side.offsets[item + 1]) for item in items])
        some = replace(side, offsets=offsets, columns=side.columns[places], targets=side.targets[places])
        bias = self.state.items.bias
        points = Factors(self.state.items.factors[items], None if bias is None else bias[items])
        return Step(self.sweep, replace(self.state, items=points), replace(self.given, side=some, rows=points))

    def some(self) -> Step:
        """Some that have ratings."""
        rated = np.flatnonzero(np.diff(self.given.side.offsets))
        return self.of(generator(2).permutation(rated)[:SOME_ITEMS])

    def moves(self, sampler: str, steps: int, warmup: int = 0) -> SphereMoves:
        assert isinstance(self.sweep.model.item_moves, SphereMoves)
        return replace(self.sweep.model.item_moves, sampler=sampler, steps=steps, warmup=warmup)

    def moved(self, moves: RowMoves, items: Factors, tuning: DualAveraging | None, rng: Any) -> Moved:
        return moves.moved(replace(self.given, rows=items), self.state.item_population, tuning, rng)

    def tuned(self, moves: SphereMoves, rng: Any) -> Moved:
        """After as many moves as the step size is sought for."""
        found = self.moved(moves, self.state.items, None, rng)
        for _ in range(moves.warmup):
            found = self.moved(moves, found.points, found.tuning, rng)
        return found


def step_times(data: Path | None, n_factors: int, rounds: int) -> dict[str, harness.Timing]:
    """Of an item step of BPMF, by every sampler, by those of Fraccaro (2014) with as many steps, and of a user step."""
    ratings, rng = movielens.split(data).train, generator(1)
    step = Step.after_warmup(ratings, n_factors, FEW_SWEEPS)
    state, of_items = step.state, step.given
    free: Any = ts.BPMF(n_factors=n_factors).story(ratings)
    population = free.item_prior.draw(state.items, None, rng)
    by_user, alpha = step.sweep.observed.by_user, of_items.alpha
    of_users = GivenRows("user", by_user, state.users, state.items, alpha=alpha)
    functions: dict[str, Callable[[], Any]] = {
        FREE: lambda: NORMAL_ROWS.moved(of_items, population, None, rng),
        USERS: lambda: NORMAL_ROWS.drawn(of_users, state.user_population, rng),
    }
    for sampler, n in [*DEFAULT_STEPS.items(), *THEIRS]:
        some, moves = step.some(), step.moves(sampler, n)
        tuning = settled(some.tuned(replace(moves, warmup=TUNING), rng).tuning)
        functions[f"{sampler}, {n}"] = lambda moves=moves, tuning=tuning: step.moved(moves, state.items, tuning, rng)
    return harness.alternate(functions, rounds)


def measure_cost(options: Any) -> list[str]:
    result: dict[str, Any] = {"protocol": __doc__, "rounds": options.rounds}
    verdicts = []
    for n_factors in N_FACTORS["ml-1m"][: 1 if options.quick else None]:
        timings = harness.in_fresh_process(1, step_times, options.data, n_factors, options.rounds)
        times = {name: timing.times(timings[FREE]) for name, timing in timings.items()}
        print(
            f"\n## Seconds of an item step, ml-1m 90:10 seed 0, D = {n_factors}, one thread, {options.rounds} rounds\n"
        )
        rows = [[name, *timing.cells(), times[name]] for name, timing in timings.items()]
        print(harness.markdown(["", *harness.COLUMNS, f"x {FREE} (cpu)"], rows), flush=True)
        result[f"D={n_factors}"] = {
            name: {**timing.summary(), f"times {FREE}": times[name]} for name, timing in timings.items()
        }
        if n_factors in JUDGED:
            mine = times[f"geodesic, {DEFAULT_STEPS['geodesic']}"]
            verdicts.append(
                harness.verdict(f"D = {n_factors}: geodesic item step, x {FREE}", mine, MOST_TIMES, at_most=True)
            )
        harness.save("sphere_cost", {**result, "verdicts": verdicts}, options)
    return verdicts


# Mixing


def mixing_of_items(data: Path | None, name: str, n_factors: int, quick: bool) -> dict[str, Any]:
    """Effective samples of some items given all else; seconds are those of a step of all items."""
    whole = Step.after_warmup(parts_of(data, name).train, n_factors, FEW_SWEEPS)
    step, n_moves = whole.some(), 200 if quick else MOVES
    combinations = [(sampler, n) for n in STEPS for sampler in SPHERE_SAMPLERS]
    tuned = {case: step.tuned(step.moves(*case, TUNING), generator(3)) for case in combinations}
    timings = harness.alternate(
        {
            f"{case}": lambda case=case: whole.moved(
                whole.moves(*case, 1), whole.state.items, settled(tuned[case].tuning), generator(4)
            )
            for case in combinations
        },
        2 if quick else TIMES,
    )
    found = {}
    for case in combinations:
        series, acceptance = _series(step, step.moves(*case, 0), tuned[case], n_moves)
        effective = effective_for_mean(series.reshape(-1, 1, n_moves)).reshape(series.shape[:2])
        least = effective.min(axis=1) / n_moves  # of each item
        seconds = float(np.median(timings[f"{case}"].processor))
        slowest = effective.argmin(axis=1)
        lags = [correlations(series[i, d][None], LAGS) for i, d in enumerate(slowest)]
        found[f"{case[0]}, {case[1]}"] = {
            "seconds a step": seconds,
            "acceptance": acceptance,
            "step size": None if tuned[case].tuning is None else tuned[case].tuning.step_size,
            "effective a move, least component, median item": float(np.median(least)),
            "effective a move, least of all": float(least.min()),
            "effective a second, median item": float(np.median(least)) / seconds,
            "effective a second, least of all": float(least.min()) / seconds,
            "correlations of the least component": np.mean(lags, axis=0).tolist(),
        }
    return found


def settled(tuning: DualAveraging | None) -> DualAveraging | None:
    """No longer looked for: its count is beyond any warm-up."""
    return None if tuning is None else replace(tuning, count=1 << 30)


def _series(step: Step, moves: SphereMoves, start: Moved, n_moves: int) -> tuple[np.ndarray, float]:
    """Items x components x moves, and the mean acceptance."""
    rng, now = generator(5), start
    n_items, n_factors = start.points.factors.shape
    series = np.empty((n_items, n_factors + 1, n_moves), np.float32)
    accepted = []
    for place in range(n_moves):
        now = step.moved(moves, now.points, settled(start.tuning), rng)
        series[:, :-1, place], series[:, -1, place] = now.points.factors, now.points.bias
        accepted.append(now.stats.get("acceptance", 1.0))
    return series.astype(np.float64), float(np.mean(accepted))


def mixing_of_sampler(data: Path | None, name: str, model: str, steps: int, quick: bool) -> dict[str, float]:
    """Effective samples of what is watched in one chain, and the seconds of a sweep."""
    common: dict[str, Any] = {"n_factors": JUDGED[0], "threads": 1}
    estimator: Any = ts.BPMF(**common)
    if model != FREE:
        estimator = ts.SphereBPMF(**common, radius=RADIUS, sampler=model, item_steps=steps)
    ratings, rng = parts_of(data, name).train, generator(0)
    story = estimator.story(ratings)
    sweep, watched = _sweep(story, ratings), Watched.of(ratings, None, story, generator(1))
    state = sweep.init(rng)
    for _ in range(estimator.warmup):
        state, _ = sweep.step(state, rng)
    predictions, figures, seconds = [], [], 0.0
    for _ in range(50 if quick else SWEEPS):
        start = time.process_time()
        state, stats = sweep.step(state, rng)
        seconds += time.process_time() - start
        predictions.append(watched.predict(state, *watched.pairs))
        figures.append([stats[key] for key in WATCHED])
    n, of_pairs = len(predictions), np.array(predictions, np.float64).T[:, None]
    effective = effective_for_mean(of_pairs)
    a_second = n / seconds
    shares = {
        "median of predictions": np.median(effective) / n,
        "a tenth of predictions": np.quantile(effective, 0.1) / n,
    }
    shares |= dict(zip(WATCHED, effective_for_mean(np.array(figures).T[:, None]) / n, strict=True))
    return {
        "seconds a sweep": seconds / n,
        **{f"{key}, a sweep": float(share) for key, share in shares.items()},
        **{f"{key}, a second": float(share) * a_second for key, share in list(shares.items())[:2]},
        # How exact a mean prediction is after a second: with the spread of the draws in it.
        "error of predictions after a second": float(
            np.sqrt(np.mean(of_pairs.var(axis=(1, 2)) / (effective / n * a_second)))
        ),
    }


def measure_mixing(options: Any) -> list[str]:
    result: dict[str, Any] = {"protocol": __doc__, "items": {}, "sampler": {}}
    verdicts: list[str] = []
    quick = options.quick
    for name, n_factors in MIXING[: 1 if quick else None]:
        case = f"{name}, D = {n_factors}"
        found = harness.in_fresh_process(1, mixing_of_items, options.data, name, n_factors, quick)
        result["items"][case] = found
        print(f"\n## Effective samples of items given all else, {case}\n\n{_mixing_table(found)}", flush=True)
        for figure in ("median item", "least of all"):
            best = {
                sampler: max(found[f"{sampler}, {n}"][f"effective a second, {figure}"] for n in STEPS)
                for sampler in SPHERE_SAMPLERS
            }
            verdicts.append(
                harness.verdict(
                    f"{case}: effective a second, {figure}, best of geodesic x best of metropolis",
                    best["geodesic"] / best["metropolis"],
                    LEAST_TIMES,
                )
            )
        harness.save("sphere_mixing", {**result, "verdicts": verdicts}, options)
    for name in list(SAMPLED)[: 1 if quick else None]:
        cases = [(FREE, 0), *((sampler, n) for n in SAMPLED[name] for sampler in SPHERE_SAMPLERS)]
        found = result["sampler"][name] = {
            f"{model}, {n}" if n else model: harness.in_fresh_process(
                1, mixing_of_sampler, options.data, name, model, n, quick
            )
            for model, n in cases
        }
        print(f"\n## Effective samples a sweep, and a second, {name}, D = {JUDGED[0]}\n")
        columns = list(next(iter(found.values())))
        print(harness.markdown(["", *columns], [[case, *row.values()] for case, row in found.items()]), flush=True)
        harness.save("sphere_mixing", {**result, "verdicts": verdicts}, options)
    return verdicts


def _mixing_table(found: Mapping[str, Any]) -> str:
    columns = [key for key in next(iter(found.values())) if not key.startswith("correlations")]
    return harness.markdown(["", *columns], [[case, *(row[key] for key in columns)] for case, row in found.items()])


# Least squares


def least_squares(data: Path | None, n_factors: int, biases: bool) -> dict[str, float]:
    parts = movielens.split(data)
    common: dict[str, Any] = {"n_factors": n_factors, "biases": biases, "seed": 0, "threads": 1}
    free, bound = ts.ALS(**common).fit(parts.train), ts.SphereALS(**common).fit(parts.train)
    free_posterior, posterior = free.posterior_, bound.posterior_
    assert isinstance(free_posterior, PointPosterior)
    assert isinstance(posterior, PointPosterior)
    lengths = np.linalg.norm(free_posterior.items.factors.astype(np.float64), axis=1)
    median = float(np.median(lengths))
    cut = replace(
        free_posterior.items,
        factors=(free_posterior.items.factors * (median / np.maximum(lengths, 1e-12))[:, None]).astype(np.float32),
    )
    side = RatingBlock.of(parts.train.by_user, np.float32, free_posterior.mean)
    prior = free_posterior.penalty.prior("users", n_factors, parts.train.by_user.counts, np.float32)
    refitted = solve_rows(side, cut, prior, name="user", threads=1).points
    own = np.linalg.norm(posterior.items.factors.astype(np.float64), axis=1)
    return {
        "ALS": _learned(free_posterior, free_posterior.users, free_posterior.items).rmse(parts),
        "ALS, items cut": _learned(free_posterior, free_posterior.users, cut).rmse(parts),
        "ALS, items cut, users again": _learned(free_posterior, refitted, cut).rmse(parts),
        "sphere ALS": _learned(posterior, posterior.users, posterior.items).rmse(parts),
        **{
            f"largest relative rise of the loss, {precision}": _rise(parts.train, common, precision)
            for precision in ROUNDED
        },
        "largest relative error of a length": float(np.abs(own / np.median(own) - 1).max()),
        "median length of free items": median,
        "radius": float(np.median(own)),
        "sweeps": len(posterior.losses),
    }


def _rise(train: ts.Ratings, common: Mapping[str, Any], precision: str) -> float:
    """Of one sweep out of many, from the start on, with nothing that would stop them."""
    model: Any = ts.SphereALS(
        **common, precision=precision, regularization=STRENGTH, radius=RADIUS, sweeps=LOSSES, tolerance=0.0
    )
    losses = model.fit(train).posterior_.losses
    return float((np.diff(losses) / losses[:-1]).max())


def _learned(posterior: PointPosterior, users: Factors, items: Factors) -> movielens.Learned:
    def bias(points: Factors) -> np.ndarray:
        return np.zeros(len(points.factors)) if points.bias is None else points.bias

    return movielens.Learned(posterior.mean, bias(users), bias(items), users.factors, items.factors)


def measure_als(options: Any) -> list[str]:
    result: dict[str, Any] = {"protocol": __doc__}
    verdicts = []
    for n_factors in JUDGED[: 1 if options.quick else None]:
        for biases in (True, False):
            case = f"D = {n_factors}, {'biases' if biases else 'no biases'}"
            found = result[case] = harness.in_fresh_process(1, least_squares, options.data, n_factors, biases)
            print(f"\n## Least squares, ml-1m, {case}\n", flush=True)
            print(
                harness.markdown(
                    ["", ""],
                    [[key, value if value > 1e-3 or value <= 0 else f"{value:.1e}"] for key, value in found.items()],
                )
            )
            start = min(found["ALS, items cut"], found["ALS, items cut, users again"])
            judged = {"RMSE of SphereALS": (found["sphere ALS"], start)}
            judged |= {
                f"rise of the loss, {precision}": (found[f"largest relative rise of the loss, {precision}"], most)
                for precision, most in ROUNDED.items()
            }
            judged["error of a length"] = (found["largest relative error of a length"], 1e-5)
            verdicts += [
                harness.verdict(f"{case}: {what}", figure, most, at_most=True)
                for what, (figure, most) in judged.items()
            ]
    harness.save("sphere_als", {**result, "verdicts": verdicts}, options)
    return verdicts


QUESTIONS: dict[str, Callable[[Any], list[str]]] = {
    "quality": measure_quality,
    "radii": measure_radii,
    "cost": measure_cost,
    "mixing": measure_mixing,
    "als": measure_als,
}


if __name__ == "__main__":
    harness.answer(QUESTIONS, __doc__.splitlines()[0])
