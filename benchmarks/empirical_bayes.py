"""Empirical Bayes against a grid search of ALS, on MovieLens 100K (90:10, seed 0), 32 factors, one thread.

1. grid: a 5 x 5 grid of (lu, lv), 15 sweeps each, the bias of a side as strong as its factors, the best by *test*
   error (which flatters the grid); and empirical Bayes as it comes, which sees no test rating. Processor seconds of
   whole fits, taking turns. Besides, the point estimate (MAP) at the learned strengths, and at multiples of them.
2. starts: what is learned from starts of 0.01, 1 and 10, tied or not, by both kinds of steps; plain weights.
3. printed: what becomes of the precisions by the gradient as it is printed, without the normaliser of the prior.
4. transitions: the three ways to move factors; and Gibbs draws with and without mirror images, by kept sweeps.

Chosen with an eye on the test ratings of this split: that draws are mirrored, how many are kept (40), and the strength
of the ALS that chains start from. Nothing else has seen them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
from numpy.random import Generator

from tastespace import ALS, EmpiricalBayes, Split, evaluate, random_split, read
from tastespace.errors import ConvergenceWarning
from tastespace.inference.drivers import ascend, never
from tastespace.inference.samplers.stochastic_approximation import RobbinsMonro, StochasticApproximation
from tastespace.models.factorization.als.sweep import WEIGHTINGS
from tastespace.models.factorization.empirical_bayes import inference
from tastespace.models.factorization.empirical_bayes.inference import FactorEvidence
from tastespace.models.factorization.empirical_bayes.settings import GibbsMove, MovedRows
from tastespace.models.factorization.empirical_bayes.sweep import Coordinates, FactorSweep
from tastespace.models.factorization.likelihoods.base import Observations
from tastespace.models.factorization.rows import RatingBlock
from tastespace.progress import silent
from tastespace.randomness import generator

N_FACTORS, GRID_SWEEPS = 32, 15
STEPS = (0.02, 0.035, 0.06, 0.1, 0.17)
UNITS = {"blended": 1.0, "weighted": 1.5, "plain": 150.0}
MOST_ERROR, MOST_TIME, MOST_APART = 0.003, 0.2, 1.1
MULTIPLES = (1.0, 1.7, 2.9, 4.9, 8.4)


def parts_of(options: argparse.Namespace) -> Split:
    if options.data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-100k) or set TASTESPACE_DATA")
    return random_split(read(Path(options.data) / "ml-100k"), 0.1, seed=0)


def rmse(model: ALS, parts: Split) -> float:
    return float(evaluate(model, parts, ranking=False, groups=False, bootstrap=0)["rmse"])


def point(weighting: str, users: float, items: float, parts: Split, *, sweeps: int = GRID_SWEEPS) -> ALS:
    """ALS at given strengths, all sweeps."""
    model = ALS(n_factors=N_FACTORS, regularization=users, weighting=weighting, seed=0, threads=1)
    model.set_params(user_regularization=users, user_bias_regularization=users)
    model.set_params(item_regularization=items, item_bias_regularization=items)
    return model.set_params(sweeps=sweeps, tolerance=0.0).fit(parts.train)


def learned(weighting: str, parts: Split, settings: EmpiricalBayes | None = None) -> ALS:
    settings = EmpiricalBayes() if settings is None else settings
    model = ALS(n_factors=N_FACTORS, regularization=settings, weighting=weighting, seed=0, threads=1)
    return model.fit(parts.train)


def of_grid(options: argparse.Namespace) -> list[str]:
    parts, verdicts, results = parts_of(options), [], {}
    for weighting in ("blended",) if options.quick else UNITS:
        strengths = [UNITS[weighting] * step for step in (STEPS[1:4] if options.quick else STEPS)]
        errors = {
            (users, items): rmse(point(weighting, users, items, parts), parts)
            for users in strengths
            for items in strengths
        }
        model = learned(weighting, parts)
        timings = harness.alternate(
            {
                "grid": lambda w=weighting, s=strengths: [point(w, a, b, parts) for a in s for b in s],
                "empirical Bayes": lambda w=weighting: learned(w, parts),
            },
            options.rounds,
            warm_up=False,
        )
        ratio = timings["empirical Bayes"].times(timings["grid"])
        best = min(errors.values())
        found = model.regularization_
        maps = {}
        for multiple in MULTIPLES:
            strong = ALS(n_factors=N_FACTORS, weighting=weighting, seed=0, threads=1, tolerance=0.0)
            strong.set_params(**{f"{k}_regularization": multiple * v for k, v in _blocks(found).items()})
            maps[multiple] = rmse(strong.fit(parts.train), parts)
        error = rmse(model, parts)
        results[weighting] = {
            "grid": {f"{users:g}, {items:g}": value for (users, items), value in errors.items()},
            "best of the grid": best,
            "empirical Bayes": error,
            "time as a share of the grid's": ratio,
            "steps": len(model.learning_.path),
            "learned": model.learning_.to_dict(),
            "MAP at multiples of it": maps,
            "timings": {name: timing.summary() for name, timing in timings.items()},
        }
        verdicts += [
            harness.verdict(f"{weighting}: RMSE over the grid's best", error - best, MOST_ERROR, at_most=True),
            harness.verdict(f"{weighting}: share of the grid's time", ratio, MOST_TIME, at_most=True),
        ]
        print(f"{weighting}: {error:.4f}, best of the grid {best:.4f}; MAP {maps}")
    harness.save("empirical_bayes", {"protocol": __doc__, "results": results}, options)
    return verdicts


def _blocks(found: Any) -> dict[str, float]:
    return {"user": found.users, "item": found.items, "user_bias": found.user_bias, "item_bias": found.item_bias}


def of_starts(options: argparse.Namespace) -> list[str]:
    parts, rows = parts_of(options), []
    for start in (0.01, 1.0, 10.0):
        for steps in ("robbins-monro", "adam"):
            for tied in (True, False):
                settings = EmpiricalBayes(start=start, steps=steps, tied=tied)
                model = learned("plain", parts, settings)
                precisions = model.learning_.precisions
                rows.append(
                    {
                        "start": start,
                        "steps": steps,
                        "tied": tied,
                        "taken": len(model.learning_.path),
                        **asdict(precisions),
                        "factors": precisions.factors,
                    }
                )
    print(harness.markdown(list(rows[0]), [list(row.values()) for row in rows]))
    harness.save("empirical_bayes_starts", {"protocol": __doc__, "results": rows}, options)
    factors = [row["factors"] for row in rows]
    return [
        harness.verdict("sqrt(lam_u lam_v): largest over least", max(factors) / min(factors), MOST_APART, at_most=True)
    ]


class AsPrinted(FactorEvidence):
    """Somani and Gupta (2017, equation 3.20), Dey and Jhamb (2018, equation 10)."""

    def slope(self, size: float, squares: float, precision: float) -> float:
        return -precision * squares / size


def of_printed(options: argparse.Namespace) -> list[str]:
    """Sixty steps by either gradient, in units of the ratings' standard deviation; in double, as priors vanish."""
    train = parts_of(options).train
    sides = (
        RatingBlock.of(side, np.float64, train.mean, train.standard_deviation)
        for side in (train.by_user, train.by_item)
    )
    sweep = FactorSweep(Observations(*sides), WEIGHTINGS["plain"], N_FACTORS, True, GibbsMove(), threads=1)
    paths: dict[str, list[float]] = {}
    for name, kind in (("with the normaliser", FactorEvidence), ("as printed", AsPrinted)):
        evidence = kind(sweep, Coordinates(is_tied=True, has_biases=True))
        transition = StochasticApproximation(evidence, RobbinsMonro(), float(np.log(1e-6)), float(np.log(1e6)))
        rng = generator(0)
        _, trace = ascend(transition, transition.init(rng), rng, steps=60, stop=never, phase="", observer=silent)
        paths[name] = [stats["factors"] for stats in trace]
    shown = (0, 4, 9, 19, 39, 59)
    rows = [[name, *(path[step] for step in shown)] for name, path in paths.items()]
    print(harness.markdown(["lam after step", *(str(step + 1) for step in shown)], rows))
    harness.save("empirical_bayes_printed", {"protocol": __doc__, "results": paths}, options)
    falls = float(np.mean(np.diff(paths["as printed"]) <= 0))  # at the lowest that is allowed they stay
    return [harness.verdict("as printed: share of steps that do not rise", falls, 1.0)]


@dataclass(frozen=True)
class NotMirrored:
    """Gibbs draws alone."""

    draws: GibbsMove = GibbsMove()

    def moved(self, *arguments: Any, rng: Generator, **options: Any) -> MovedRows:
        return self.draws.moved(*arguments, rng=rng, **options)


def of_transitions(options: argparse.Namespace) -> list[str]:
    parts, rows = parts_of(options), []
    schedules = {"gibbs": (10, 20, 40, 80, 160), "not mirrored": (10, 20, 40, 80, 160)}
    schedules |= {"crank-nicolson": (100,), "autoregressive": (100,)}
    inference.TRANSITIONS["not mirrored"] = NotMirrored()
    for name, kept in schedules.items():
        for draws in kept[:1] if options.quick else kept:
            settings = EmpiricalBayes(transition=name, draws=draws, most_steps=100 if "mirrored" in name else 300)
            began = time.process_time()
            model = learned("blended", parts, settings)
            seconds = time.process_time() - began
            precisions = model.learning_.precisions
            rows.append(
                {
                    "transition": name,
                    "draws": draws,
                    "RMSE": rmse(model, parts),
                    "steps": len(model.learning_.path),
                    "seconds (cpu)": seconds,
                    "factors": precisions.factors,
                    "noise": precisions.noise,
                }
            )
    print(harness.markdown(list(rows[0]), [list(row.values()) for row in rows]))
    harness.save("empirical_bayes_transitions", {"protocol": __doc__, "results": rows}, options)
    return []


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    questions = {"grid": of_grid, "starts": of_starts, "printed": of_printed, "transitions": of_transitions}
    harness.answer(questions, __doc__)
