"""`tastespace demo`: the main job on embedded data, from ratings to recommendations, with a picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tastespace.cli import console
from tastespace.cli.options import Json, Threads
from tastespace.data.sources import SOURCES
from tastespace.data.splitting import random_split
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.report import Report
from tastespace.models import ALS, BPMF, DampedBias, GlobalMean, Recommender
from tastespace.report.demo_figure import draw_demo

HOLDOUT = 0.1
SHOWN = ("item", "title", "score", "belief_sd", "low", "high", "top_n_probability")


def demo(
    user: Annotated[int, typer.Option("--user", help="Whose list to show.")] = 2,
    picture: Annotated[Path, typer.Option("--picture", help="Where to write the picture.")] = Path(
        "tastespace-demo.png"
    ),
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same result.")] = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit on the embedded movielens-demo, print measures and a user's top 10, and write a picture."""
    ratings = SOURCES["movielens-demo"]()
    split = random_split(ratings, HOLDOUT, seed=seed)
    recommenders: dict[str, Recommender] = {
        "mean": GlobalMean(seed=seed, threads=threads),
        "bias": DampedBias(seed=seed, threads=threads),
        "als": ALS(seed=seed, threads=threads),
        "bpmf": BPMF(seed=seed, threads=threads),
    }
    reports: dict[str, Report] = {}
    seconds: dict[str, float] = {}
    with console.progress() as observer:
        for name, recommender in recommenders.items():
            began = time.perf_counter()
            recommender.fit(split.train, observer=observer)
            seconds[name] = time.perf_counter() - began
            reports[name] = evaluate(recommender, split.test, ranking=False, groups=False, bootstrap=0)
    ranking = recommenders["bpmf"].recommend([user], 10)
    top = ranking.of(0)
    if json:
        draw_demo(reports, ranking, picture)
        console.print_json(
            {
                "n_ratings": len(ratings),
                "measures": {name: report.to_dict() for name, report in reports.items()},
                "fit_seconds": {name: round(value, 3) for name, value in seconds.items()},
                "user": user,
                "items": [{key: row[key] for key in SHOWN} for row in top.rows(named=True)],
                "picture": str(picture),
            }
        )
        return
    console.out.print(
        f"movielens-demo: {len(ratings):,} ratings by {ratings.n_users:,} people of {ratings.n_items:,} films; "
        f"{len(split.test):,} kept aside to test on\n",
        markup=False,
    )
    console.print_table(
        ["model", "rmse", "mae", "seconds"],
        [
            [name, f"{report['rmse']:.4f}", f"{report['mae']:.4f}", f"{seconds[name]:.2f}"]
            for name, report in reports.items()
        ],
    )
    whom = f"For user {user}, of the films they have not rated:"
    if ranking.cold[0]:
        whom = f"User {user} is not among the {ratings.n_users}; this is the list for anybody:"
    console.out.print(f"\n{whom}", markup=False)
    console.print_table(
        ["", "film", "score", "90% of ratings", "P(top 10)"],
        [
            [
                *(str(row["rank"]), row["title"] or str(row["item"]), f"{row['score']:.2f}"),
                *(f"{row['low']:.1f} to {row['high']:.1f}", f"{row['top_n_probability']:.2f}"),
            ]
            for row in top.rows(named=True)
        ],
    )
    draw_demo(reports, ranking, picture)
    console.out.print(f"\npicture written to {picture}", markup=False)
