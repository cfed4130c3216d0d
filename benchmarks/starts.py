"""Where inference begins: error on test ratings after each sweep, of BPMF and VB from several starts.

Kim (Part III essay) starts the sampler from PMF, from variational Bayes, and at random. Here on MovieLens 100K 90:10,
seed 0, D = 16; the error of a sweep of BPMF is that of its single draw, and of the draws so far from sweep 21 on. Each
row is one fit with one chain; its seconds have those of the start in them. Nothing is chosen here.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import harness

import tastespace as ts
from tastespace.data.splits import Split
from tastespace.errors import ConvergenceWarning
from tastespace.progress import Progress

N_FACTORS, SHOWN = 16, (1, 2, 5, 10, 20, 50, 100)
WARMUP, DRAWS = 20, 80


class Errors:
    """An observer that notes the error on held-out ratings after every sweep."""

    def __init__(self) -> None:
        self.after: list[float] = []

    def __call__(self, event: Progress) -> None:
        for name, value in event.stats.items():
            if "rmse" in name and event.step == len(self.after) + 1:
                self.after.append(float(value))
                return


def fitted(model: ts.Recommender, parts: Split, start: ts.Recommender | None = None) -> tuple[Any, list[float], float]:
    """The model, the errors on the way, and processor seconds."""
    errors, began = Errors(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(parts.train, held_out=parts.test, observer=errors, start=start)
    return model, errors.after, time.process_time() - began


def row(name: str, errors: list[float], seconds: float, model: Any, parts: Split) -> dict[str, Any]:
    report = ts.evaluate(model, parts.test, ranking=False, groups=False, calibration=False, bootstrap=0)
    return {
        "start": name,
        "errors": [round(error, 5) for error in errors],
        "seconds": round(seconds, 2),
        "rmse": round(report["rmse"], 5),
    }


def compared(data: Any) -> dict[str, list[dict[str, Any]]]:
    if data is None:
        raise SystemExit("no data folder; pass --data DIR (with ml-100k) or set TASTESPACE_DATA")
    ratings = ts.read(Path(data) / "ml-100k" / "u.data")
    parts = ts.random_split(ratings, 0.1, seed=0)
    common: dict[str, Any] = {"n_factors": N_FACTORS, "seed": 0, "threads": 1}
    pmf, _, of_pmf = fitted(ts.PMF(**common), parts)
    vb, errors, of_vb = fitted(ts.VB(**common), parts)
    variational = [row("ALS (default)", errors, of_vb, vb, parts)]
    for name, start, field in (("random", None, "random"), ("PMF", pmf, "als")):
        model, errors, seconds = fitted(ts.VB(**common, start=field), parts, start)
        variational.append(row(name, errors, seconds + (of_pmf if start else 0), model, parts))
    chain: dict[str, Any] = {**common, "chains": 1, "warmup": WARMUP, "draws": DRAWS, "thin": 1}
    sampled = []
    for name, start, field, before in (
        ("random", None, "random", 0.0),
        ("ALS (default)", None, "als", 0.0),
        ("PMF", pmf, "als", of_pmf),
        ("VB", vb, "als", of_vb),
    ):
        model, errors, seconds = fitted(ts.BPMF(**chain, start=field), parts, start)
        sampled.append(row(name, errors, seconds + before, model, parts))
    return {"bpmf": sampled, "vb": variational}


def at(errors: list[float], sweep: int) -> float | str:
    return errors[sweep - 1] if len(errors) >= sweep else ""


def starts(options: Any) -> list[str]:
    found = compared(options.data)
    harness.save("starts", found, options)
    lines = []
    for model, rows in found.items():
        columns = [model, *(f"after {sweep}" for sweep in SHOWN), "end", "seconds"]
        cells = [[r["start"], *(at(r["errors"], sweep) for sweep in SHOWN), r["rmse"], r["seconds"]] for r in rows]
        lines.append(harness.markdown(columns, cells))
    return lines


if __name__ == "__main__":
    harness.answer({"starts": starts}, __doc__ or "")
