"""`tastespace fit`: a file of ratings in, a model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import (
    OPTIONS,
    Json,
    Pick,
    Said,
    Threads,
    check_table,
    factors_of,
    observe,
    picked,
    read_config,
    read_settings,
    reads,
    told,
)
from tastespace.data.formats.files import read
from tastespace.data.formats.layout import Layout
from tastespace.data.ratings import Ratings
from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError, warn
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.relevance import task_of
from tastespace.evaluation.report import Report
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models import MODELS, PMF, Recommender
from tastespace.models.base.parameters import check_number
from tastespace.models.base.posterior import Remembers
from tastespace.models.base.resuming import resumable
from tastespace.randomness import resolve

NEEDS_ALL = "--stream never has all ratings in memory, as {option} would need; expected no {option}"


def check_streamed(pick: Pick | None, said: Mapping[str, Any], options: Mapping[str, Any]) -> PMF:
    """The model; what does not go with a stream is refused before anything is read.

    `options` are those of the command that it has no use for, None or False where they were not given, and `said` is
    how to read a file.
    """
    for option, value in options.items():
        if value is not None and value is not False:
            raise typer.BadParameter(NEEDS_ALL.format(option=option))
    if said:
        raise typer.BadParameter(
            f"--stream finds the columns of a Parquet file by their usual names, user, item and rating, and was told "
            f"how to read a file ({', '.join(said)}); expected no such options"
        )
    if pick is None or not isinstance(pick.recommender, PMF):
        got = "no --model" if pick is None else f"--model {pick.name}"
        raise InvalidParameterError(
            f"--stream got {got}; expected --model pmf, which alone learns from ratings that are not in memory"
        )
    return pick.recommender


def fit_streamed(ratings: Path, recommender: PMF, out: Path, json: bool) -> None:
    """Learn piece by piece, and save."""
    began = time.perf_counter()
    with console.progress() as observer:
        recommender.fit_parquet(ratings, observer=observer)
    seconds = time.perf_counter() - began
    artifact.save(recommender, out)
    n_ratings, ids = recommender.seen_.learned_ratings, recommender.ratings_
    if json:
        console.print_json(
            {
                "model": "pmf",
                "out": str(out),
                "fit_seconds": round(seconds, 3),
                "streamed": True,
                "n_ratings": n_ratings,
                "n_users": ids.n_users,
                "n_items": ids.n_items,
                "parameters": recommender.get_params(),
            }
        )
        return
    console.out.print(
        f"pmf fitted on {n_ratings:,} ratings by {ids.n_users:,} users of {ids.n_items:,} items in {seconds:.1f} s, "
        "piece by piece",
        markup=False,
    )
    console.out.print(
        f"saved to {out}; next: tastespace recommend {out} --user {ids.users.ids[0]} (it does not know what users have "
        "seen)",
        markup=False,
    )


Stages = tuple[Checkpoints | None, Checkpoints | None]  # of the fit, and of that which --refit asks for


@dataclass(frozen=True)
class Saving:
    """Where the model goes, and what is kept on the way."""

    out: Path | None
    without_ratings: bool
    checkpoint: Path | None
    every: int | None
    resume: bool

    def check(self, recommender: Recommender | None) -> None:
        """Refuse early what would fail after long work; None while it is not known what will be fitted."""
        if self.out is not None:
            artifact.check_writable(self.out)
        if recommender is not None:
            self.stages(recommender)
            if self.without_ratings:
                artifact.check_separable(recommender)

    def stages(self, recommender: Recommender) -> Stages:
        """The second fit is a run of its own, on other ratings, and has a folder inside that of the first."""
        if self.checkpoint is None:
            return None, None
        every = Checkpoints.every if self.every is None else self.every
        first = Checkpoints(self.checkpoint, every, resume=self.resume)
        resumable(recommender, first)
        second = replace(first, folder=self.checkpoint / "refit")
        second.check()
        return first, second


@reads(*OPTIONS)
def fit(
    ratings: Annotated[Path, typer.Argument(help="File of ratings, folder of a known layout, or name of a data set.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write the model to.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help=f"One of {', '.join(MODELS)}.", show_default="what suits the ratings: see --kind"),
    ] = None,
    n_factors: Annotated[
        Any,
        typer.Option(
            "--n-factors", help="Dimensions of the taste space, or auto to find them.", metavar="N", parser=factors_of
        ),
    ] = None,
    regularisation: Annotated[
        str | None,
        typer.Option("--regularisation", help="A strength, auto, empirical-bayes, or what else the model knows."),
    ] = None,
    test: Annotated[Path | None, typer.Option("--test", help="File of test ratings to evaluate on.")] = None,
    holdout: Annotated[
        float | None, typer.Option("--holdout", help="Share of the ratings to keep aside and evaluate on.")
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="After --holdout: fit again on all ratings, and save that.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Same seed, same model; also splits.", show_default="0")
    ] = None,
    threads: Threads = None,
    config: Annotated[Path | None, typer.Option("--config", help="TOML file with tables model and data.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the model, as key=value; can be repeated.")
    ] = None,
    *,
    said: Said,
    half_life: Annotated[
        float | None,
        typer.Option("--half-life", help="Days after which a count or choice counts half; needs times."),
    ] = None,
    without_ratings: Annotated[
        bool, typer.Option("--without-ratings", help="Leave the training ratings out of the model's folder.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Folder to keep the state of the run in, to resume from.")
    ] = None,
    every: Annotated[
        int | None, typer.Option("--every", help="Sweeps between two checkpoints.", show_default=str(Checkpoints.every))
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoints of a run that was interrupted.")
    ] = False,
    start: Annotated[
        Path | None, typer.Option("--start", help="Folder of a fitted model, from whose items this one begins.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Read a Parquet file piece by piece: more ratings than memory. For pmf."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    json: Json = False,
) -> None:
    """Fit a model to a file of ratings."""
    if out is None and not dry_run:
        raise typer.BadParameter("expected --out FOLDER (or --dry-run)")
    _check_usage(holdout, test, refit, checkpoint, every, resume)
    if start is not None and checkpoint is not None:
        raise typer.BadParameter("expected --start or --checkpoint, not both")
    other = None if start is None else artifact.load(start)
    if half_life is not None:
        check_number("--half-life", half_life, above=0)
    settled = read_config(config)
    table = dict(settled.get("model", {}))
    named = table.pop("name", None) if model is None else model
    table.pop("name", None)
    flags = {"n_factors": n_factors, "threads": threads, "seed": seed}
    strength = [] if regularisation is None else [f"regularisation={regularisation}"]
    parameters: dict[str, Any] = {"seed": 0, **table, **read_settings([*(settings or []), *strength])}
    parameters |= {key: value for key, value in flags.items() if value is not None}
    saving = Saving(out, without_ratings, checkpoint, every, resume)
    # A model that was named is checked before much is read; any other depends on what is read.
    pick = None if named is None else told(named, parameters)
    saving.check(None if pick is None else pick.recommender)
    said = check_table(settled.get("data", {})) | said
    if stream:
        needless = {"--test": test, "--holdout": holdout, "--half-life": half_life, "--start": start}
        needless |= {"--checkpoint": checkpoint, "--dry-run": dry_run}
        streaming = check_streamed(pick, said, needless)
        assert out is not None
        fit_streamed(ratings, streaming, out, json)
        return
    observed, layout = observe(ratings, said)
    tested = None if test is None else read(test, **{key: value for key, value in said.items() if key != "items"})
    if half_life is not None:
        observed = observed.decayed(half_life)
    if pick is None:
        pick = picked(observed, parameters)
        saving.check(pick.recommender)
    for doubt in pick.doubts(observed, fades=half_life is not None):
        warn(doubt)
    if dry_run:
        _describe(observed, layout, pick, json)
        return
    stages = saving.stages(pick.recommender)
    with _told_how_to_go_on(stages):
        _fit(observed, tested, holdout, refit, pick, saving, stages, other, json)


def _check_usage(
    holdout: float | None, test: Path | None, refit: bool, checkpoint: Path | None, every: int | None, resume: bool
) -> None:
    """Options that do not go together."""
    if holdout is not None and test is not None:
        raise typer.BadParameter("expected --holdout or --test, not both")
    if refit and holdout is None:
        raise typer.BadParameter("--refit expects --holdout: without it the model is fitted on all ratings anyway")
    if checkpoint is None and (resume or every is not None):
        raise typer.BadParameter(f"{'--resume' if resume else '--every'} expects --checkpoint FOLDER")
    if holdout is not None and not 0 < holdout < 1:
        raise InvalidParameterError(f"--holdout is {holdout:g}; expected a share between 0 and 1, both excluded")


@contextmanager
def _told_how_to_go_on(stages: Stages) -> Iterator[None]:
    """Whoever interrupts a run that has checkpoints hears how to resume it."""
    try:
        yield
    except KeyboardInterrupt as error:
        first = stages[0]
        if first is None or not any(stage is not None and stage.exists for stage in stages):
            raise
        raise KeyboardInterrupt(
            f"interrupted; {first.folder} has the state of the run: go on with the same command and --resume"
        ) from error


def _describe(observed: Ratings, layout: Layout | None, pick: Pick, json: bool) -> None:
    description, parameters = observed.describe(), pick.recommender.get_params()
    if json:
        shown = None if layout is None else layout.to_dict()
        console.print_json(
            {
                "layout": shown,
                "ratings": description.to_dict(),
                "model": pick.name,
                "because": pick.reason,
                "parameters": parameters,
            }
        )
        return
    if layout is not None:
        console.out.print(f"layout   {layout}", markup=False)
    console.out.print(str(description), markup=False)
    if pick.reason is not None:
        console.out.print(f"model: {pick}", markup=False)
    chosen = ", ".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    console.out.print(f"would fit: {pick.name} ({chosen})", markup=False)


def _fit(
    observed: Ratings,
    tested: Ratings | None,
    holdout: float | None,
    refit: bool,
    pick: Pick,
    saving: Saving,
    stages: Stages,
    other: Recommender | None,
    json: bool,
) -> None:
    recommender, train, label = pick.recommender, observed, "test"
    if holdout is not None:
        split = random_split(observed, holdout, seed=resolve(recommender.seed))
        train, tested, label = split.train, split.test, "holdout"
    reports: dict[str, Report] = {}
    with console.progress() as observer:
        seconds = _timed(
            lambda: recommender.fit(train, held_out=tested, observer=observer, checkpoints=stages[0], start=other)
        )
        if tested is not None:
            # Lists take time, and are made only where there is nothing else to measure.
            lists = task_of(recommender, tested).is_of_lists
            reports[label] = evaluate(recommender, tested, ranking=lists, bootstrap=0)
        if refit:
            seconds += _timed(lambda: recommender.fit(observed, observer=observer, checkpoints=stages[1], start=other))
    measures = {key: report.to_dict() for key, report in reports.items()}
    assert saving.out is not None
    artifact.save(recommender, saving.out, with_ratings=not saving.without_ratings, measures=measures)
    for stage in reversed(stages):  # The inner folder first.
        if stage is not None:
            stage.clear()
    if json:
        console.print_json(_content(pick, saving.out, measures, seconds, refit))
        return
    if pick.reason is not None:
        console.out.print(f"model: {pick}", markup=False)
    what = "ratings" if recommender.not_rated is None else "choices"
    console.out.print(
        f"{pick.name} fitted on {len(recommender.ratings_):,} {what} by {recommender.ratings_.n_users:,} users of "
        f"{recommender.ratings_.n_items:,} items in {seconds:.1f} s",
        markup=False,
    )
    for key, report in reports.items():
        console.out.print(f"{key}: {report}", markup=False)
    whom = f"--user {observed.users.ids[0]}"
    if saving.without_ratings and isinstance(recommender.posterior_, Remembers):
        whom = "--history FILE (without ratings this model knows nobody by name)"
    console.out.print(f"saved to {saving.out}; next: tastespace recommend {saving.out} {whom}", markup=False)


def _content(pick: Pick, out: Path, measures: dict[str, dict[str, Any]], seconds: float, refit: bool) -> dict[str, Any]:
    ratings = pick.recommender.ratings_
    return {
        "model": pick.name,
        "because": pick.reason,
        "kind": ratings.kind,
        "out": str(out),
        **measures,
        "fit_seconds": round(seconds, 3),
        "refitted": refit,
        "n_ratings": len(ratings),
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "parameters": pick.recommender.get_params(),
    }


def _timed(work: Callable[[], Any]) -> float:
    """The seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
