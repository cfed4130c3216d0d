"""`tastespace fit` and `update`: a model from a file of ratings, and the same model with new ratings."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, BadParameter, Option

from tastespace import artifact
from tastespace.cli import console, options
from tastespace.cli.options import OPTIONS, Json, Model, Pick, RatingsFile, ReadOptions, Threads, reads, require
from tastespace.cli.saving import save_model
from tastespace.cli.verbs.data import WAYS
from tastespace.cli.verbs.evaluate import print_side_by_side
from tastespace.data import sources
from tastespace.data.formats.files import read_test
from tastespace.data.formats.layout import Layout
from tastespace.data.kinds import Kind
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataWarning, InvalidParameterError, warn
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.metrics.rating import rmse
from tastespace.evaluation.report import Report
from tastespace.evaluation.side_by_side import evaluate_popular
from tastespace.evaluation.significance import POPULAR, Verdict, find_best
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models import MODELS, Recommender
from tastespace.models.base.resuming import check_resumable
from tastespace.models.baselines.baselines import DampedBias
from tastespace.models.factorization.sgd.pmf import PMF
from tastespace.parameters import check_number
from tastespace.progress import Observer
from tastespace.randomness import resolve
from tastespace.selection.choose import ModelChoice, Tried, candidates_for, choose
from tastespace.settings import translated

if TYPE_CHECKING:
    from tastespace.cluster import ClusterSummary


def _fit_streamed(
    ratings: Path, pick: Pick | None, reading: ReadOptions, unused: Mapping[str, Any], out: Path | None, json: bool
) -> None:
    """Fit block by block, and save; whatever does not go with --stream is refused before anything is read.

    `unused` are options of the command that need all ratings, and `reading` is how to read a file.
    """
    for option, value in unused.items():
        if value is not None and value is not False:
            raise BadParameter(
                f"--stream never has all ratings in memory, as {option} would need; expected no {option}"
            )
    if reading:
        raise BadParameter(
            "--stream finds the columns of a Parquet file by their usual names, user, item and rating; got options for "
            f"reading a file ({', '.join(reading)}), expected none of them"
        )
    if pick is None or not isinstance(pick.recommender, PMF):
        got = "no --model" if pick is None else f"--model {pick.name}"
        raise InvalidParameterError(
            f"--stream got {got}; expected --model pmf, the only model that learns from ratings that are not in memory"
        )
    recommender = pick.recommender
    assert out is not None
    with console.progress() as observer:
        seconds = _time(lambda: recommender.fit_parquet(ratings, observer=observer))
    out = save_model(recommender, out)
    ids = recommender.ratings_
    sizes = options.sizes_of(ids) | {"n_ratings": recommender.seen_.learned_ratings}
    content = {
        "model": "pmf",
        "out": str(out),
        "fit_seconds": round(seconds, 6),
        "streamed": True,
        **sizes,
        "parameters": recommender.get_params(),
    }
    console.print_result(
        json,
        content,
        f"pmf fitted on {options.sizes_text(sizes)} in {seconds:.1f} s, block by block",
        f"saved to {out}; next: tastespace recommend {out} --user {ids.users.ids[0]} (seen items are not excluded: the "
        "model does not store ratings)",
    )


Stages = tuple[Checkpoints, ...]  # of the fit, and of the second one with --refit; none without --checkpoint


def _stages(folder: Path | None, every: int | None, resume: bool) -> Stages:
    """Checkpoints of both fits; the second is on other ratings and has a folder inside that of the first."""
    if folder is None:
        return ()
    first = Checkpoints(folder, Checkpoints.every if every is None else every, resume=resume)
    return first, replace(first, folder=folder / "refit")


def _check_early(pick: Pick | None, out: Path | None, stages: Stages, without_ratings: bool) -> None:
    """Refuse what would fail after a long fit; `pick` is None until the model is known."""
    if out is not None:
        artifact.check_writable(out)
    if pick is None:
        return
    for stage in stages:
        check_resumable(pick.recommender, stage)
    if without_ratings:
        artifact.check_separable(pick.recommender)


def _check_numbers(half_life: float | None, budget: float | None) -> None:
    if half_life is not None:
        check_number("--half-life", half_life, above=0)
    if budget is not None:
        check_number("--budget", budget, least=0)


@reads(*OPTIONS)
def fit(
    ratings: RatingsFile,
    out: Annotated[Path | None, Option("--out", "-o", help="Folder to write the model to.")] = None,
    model: Annotated[
        str | None, Option(help=f"One of {', '.join(MODELS)}.", show_default="chosen from the feedback type")
    ] = None,
    n_factors: Annotated[
        Any, Option(help="Number of latent factors, or auto to estimate it.", metavar="N", parser=options.factors_of)
    ] = None,
    regularization: Annotated[
        str | None,
        Option(
            "--regularization",
            "--regularisation",
            help="A number, auto, empirical-bayes, or another value of the model.",
        ),
    ] = None,
    test: Annotated[Path | None, Option(help="File of test ratings to evaluate on.")] = None,
    holdout: Annotated[float | None, Option(help="Share of the ratings to hold out and evaluate on.")] = None,
    holdout_by: Annotated[
        str | None,
        Option(
            help="What to hold out. random: any ratings; time: the latest; both: one after the other (one more fit); "
            "items: whole items.",
            show_default="random",
        ),
    ] = None,
    refit: Annotated[
        bool, Option("--refit", help="After --holdout, fit again on all ratings and save that model.")
    ] = False,
    seed: Annotated[int | None, Option(help="Random seed of the model and the split.", show_default="0")] = None,
    threads: Threads = None,
    config: Annotated[Path | None, Option(help="TOML file with the tables model and data.")] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="Model parameter as key=value; can be repeated.")
    ] = None,
    *,
    reading: ReadOptions,
    budget: options.Budget = None,
    half_life: Annotated[float | None, Option(help="Days after which feedback counts half; needs times.")] = None,
    without_ratings: Annotated[
        bool, Option("--without-ratings", help="Do not store the training ratings with the model.")
    ] = False,
    checkpoint: Annotated[Path | None, Option(help="Folder for checkpoints to resume from.")] = None,
    every: Annotated[
        int | None, Option(help="Sweeps between checkpoints.", show_default=str(Checkpoints.every))
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Resume an interrupted run from its last checkpoint.")] = False,
    start: Annotated[
        Path | None, Option(help="Folder of a fitted model whose item factors are the starting point.")
    ] = None,
    stream: Annotated[
        bool, Option("--stream", help="Read a Parquet file block by block: more ratings than memory. pmf only.")
    ] = False,
    cluster: Annotated[
        str | None, Option(help="Fit on several machines: local:N, auto, or ray://HOST:PORT. als and bpmf only.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be done, and stop.")] = False,
    json: Json = False,
) -> None:
    """Fit a model to a file of ratings."""
    require(out is not None or dry_run, "expected --out FOLDER (or --dry-run)")
    require(holdout is None or test is None, "expected --holdout or --test, not both")
    _check_holdout(holdout, holdout_by, refit)
    if checkpoint is None and (resume or every is not None):
        raise BadParameter(f"{'--resume' if resume else '--every'} expects --checkpoint FOLDER")
    _check_numbers(half_life, budget)
    require(start is None or checkpoint is None, "expected --start or --checkpoint, not both")
    other = None if start is None else artifact.load(start)
    settled = options.read_config(config)
    parameters: dict[str, Any] = {"seed": 0, **settled.get("model", {})}
    configured = parameters.pop("name", None)
    named = configured if model is None else model
    strength = [] if regularization is None else [f"regularization={regularization}"]
    parameters |= options.read_settings([*(settings or []), *strength])
    flags = {"n_factors": n_factors, "threads": threads, "seed": seed}
    parameters |= {key: value for key, value in flags.items() if value is not None}
    # A named model is checked before ratings are read; otherwise the model depends on them.
    pick = None if named is None else Pick(named, options.make_model(named, parameters))
    require(pick is None or budget is None, "expected --model or --budget, which is for choosing one; not both")
    if cluster is not None:
        require(pick is not None, "--cluster expects --model als or --model bpmf")
        require(checkpoint is None and start is None, "--cluster does not go with --checkpoint or --start")
    stages = _stages(checkpoint, every, resume)
    _check_early(pick, out, stages, without_ratings)
    reading = options.check_table(settled.get("data", {})) | reading
    if stream:
        unused: dict[str, Any] = {"--test": test, "--holdout": holdout, "--half-life": half_life, "--start": start}
        unused |= {"--checkpoint": checkpoint, "--dry-run": dry_run, "--cluster": cluster}
        _fit_streamed(ratings, pick, reading, unused, out, json)
        return
    observed, layout = options.observe(ratings, reading)
    tested = None if test is None else read_test(test, **reading)
    if half_life is not None:
        observed = observed.decayed(half_life)
    if pick is None:
        pick = options.pick_suitable(observed, parameters)
        _check_early(pick, out, stages, without_ratings)
    for doubt in pick.doubts(observed, fades=half_life is not None):
        warn(doubt)
    if dry_run:
        _describe(observed, layout, pick, parameters, budget, json)
        return
    assert out is not None
    parts = _parts(observed, tested, holdout, HOLDOUTS[holdout_by or "random"], pick.recommender.seed)
    choose_for = partial(_choose, pick, parameters, budget, observed.kind, fades=half_life is not None)
    choice = choose_for(next(iter(parts.values()))[0])
    pick = Pick(choice.taken.model, choice.recommender(), choice.reason or None, choice.taken.name)
    recommender = pick.recommender
    with _checkpointed(stages):
        how = _How(stages, other, cluster)
        seconds, found = _fit(choice, choose_for, recommender, observed, parts, refit, how)
        recommender.choice_ = choice.summary(recommender) if choice.reason else None
        recommender, n_unrated = _with_unrated(recommender, observed)
        measures = {key: measured.to_dict() for key, measured in found.items()}
        source = sources.resolve(ratings)
        name = None if source is None else source.name
        out = save_model(recommender, out, with_ratings=not without_ratings, measures=measures, source=name)
    sizes = options.sizes_of(recommender.ratings_)
    content = {
        "model": pick.name,
        "because": pick.reason,
        "kind": recommender.ratings_.kind,
        "out": str(out),
        **measures,
        "fit_seconds": round(seconds, 6),
        "refitted": refit,
        "unrated_items": n_unrated,
        "holdout_by": None if holdout is None else holdout_by or "random",
        **sizes,
        "parameters": recommender.get_params(),
        "choice": choice.to_dict() if choice.reason else None,
        "cluster": None if how.summary is None else how.summary.to_dict(),
    }
    feedback = "ratings" if recommender.not_rated is None else "interactions"
    example = f"--user {observed.users.ids[0]}"
    if without_ratings and not recommender.posterior_.keeps_users:
        example = "--history FILE (without ratings this model knows no users)"
    console.print_result(
        json,
        content,
        *([] if pick.reason is None else [f"model: {pick}"]),
        *([str(replace(choice.table(), note=""))] if choice.entries else []),
        f"{pick.name} fitted on {options.sizes_text(sizes, feedback)} in {seconds:.1f} s",
        *([] if how.summary is None else [str(how.summary)]),
        *([f"{n_unrated:,} items nobody has rated are known by their features"] if n_unrated else []),
    )
    if not json:
        _show(found, could_be_by_time=holdout_by is None and _has_times(observed))
        console.print_line(f"saved to {out}; next: tastespace recommend {out} {example}")


def _with_unrated(recommender: Recommender, observed: Ratings) -> tuple[Recommender, int]:
    """The model with the described items that nobody has rated, if it knows items by features; how many."""
    features = observed.item_features
    unrated = np.flatnonzero(observed.by_item.counts == 0)
    if features is None or not features.n_columns or not recommender.learns_features or not len(unrated):
        return recommender, 0
    ids = observed.items.at(unrated)
    if (recommender.ratings_.items.rows_of(ids) >= 0).all():
        return recommender, len(unrated)  # fitted on all
    vocabulary = Vocabulary(ids)
    new = Ratings.of_items(
        ids,
        titles=observed.title_of(unrated),
        attributes=None if observed.item_attributes is None else observed.item_attributes[unrated],
        features=features.take(unrated, vocabulary),
    )
    grown = recommender.with_items(new)
    grown.choice_ = recommender.choice_
    return grown, len(unrated)


def _choose(
    guess: Pick, parameters: Mapping[str, Any], budget: float | None, kind: Kind, train: Ratings, *, fades: bool
) -> ModelChoice:
    """Which model to fit, by the training part alone: the one that was named, or the best found.

    Parameters that were given stay as they are. What the values mean is known from the whole file: a small part of the
    stars may look like something else.
    """
    params = guess.recommender.get_params()
    if guess.reason is None:
        return ModelChoice((), Tried(guess.name, {}), params, "")
    fixed = _fixed(guess, parameters)
    seed, threads = fixed.pop("seed"), fixed.pop("threads", None)
    half_lives = () if fades else None
    train = train.with_kind(kind)
    with console.progress() as observer:
        chosen = choose(
            train, budget=budget, fixed=fixed, seed=seed, threads=threads, half_lives=half_lives, observer=observer
        )
    return replace(chosen, why=str(guess.reason))


def _fixed(guess: Pick, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were given, by the names of today."""
    params = guess.recommender.get_params()
    return {key: params[key] for key in translated(type(guess.recommender), parameters, warns=False)}


@contextmanager
def _checkpointed(stages: Stages) -> Iterator[None]:
    """Say how to resume a run with checkpoints that is interrupted; at its end they are deleted."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not any(stage.exists for stage in stages):
            raise
        raise KeyboardInterrupt(
            f"interrupted; {stages[0].folder} has the checkpoints of the run: repeat the command with --resume"
        ) from error
    for stage in reversed(stages):  # The inner folder first.
        stage.clear()


def _describe(
    observed: Ratings, layout: Layout | None, pick: Pick, given: Mapping[str, Any], budget: float | None, json: bool
) -> None:
    description, parameters = observed.describe(), pick.recommender.get_params()
    fixed = {key: value for key, value in _fixed(pick, given).items() if key not in ("seed", "threads")}
    candidates = [] if pick.reason is None or budget == 0 else list(candidates_for(observed, fixed))
    content = {
        "layout": None if layout is None else layout.to_dict(),
        "ratings": description.to_dict(),
        "model": pick.name,
        "because": pick.reason,
        "parameters": parameters,
        "candidates": candidates,
    }
    chosen = ", ".join(f"{key}={value}" for key, value in parameters.items() if value is not None)
    console.print_result(
        json,
        content,
        *([] if layout is None else [f"layout   {layout}"]),
        str(description),
        *([] if pick.reason is None else [f"model: {pick}"]),
        f"would fit: {pick.name} ({chosen})",
        *([f"or what does best in trials of {', '.join(candidates)}; --budget 0 for none"] if candidates else []),
    )


TEST_USERS = 1_000  # whose lists are measured: of many users, all would take longer than the fit
HOLDOUTS = {"random": ("random",), "time": ("time",), "both": ("random", "time"), "items": ("items",)}


def _check_holdout(holdout: float | None, by: str | None, refit: bool) -> None:
    """Refuse what cannot be held out, before anything is read."""
    alone = "--refit expects --holdout: without it the model is fitted on all ratings anyway"
    require(not refit or holdout is not None, alone)
    require(by is None or holdout is not None, "--holdout-by expects --holdout SHARE")
    options.check_known(by or "random", HOLDOUTS, f"--holdout-by is {by!r}")
    if holdout is not None and not 0 < holdout < 1:
        raise InvalidParameterError(f"--holdout is {holdout:g}; expected a share between 0 and 1, both excluded")


def _parts(
    observed: Ratings, tested: Ratings | None, holdout: float | None, ways: Sequence[str], seed: int | None
) -> dict[str, tuple[Ratings, Ratings | None]]:
    """What is fitted on and what is tested on, by name: the model of the first is the one that is saved."""
    if holdout is None:
        return {"test": (observed, tested)}
    splits = [WAYS[way](observed, holdout, 1, resolve(seed)) for way in ways]
    names = ("holdout", "holdout_by_time")[: len(splits)]
    return {name: (split.train, split.test) for name, split in zip(names, splits, strict=True)}


@dataclass(frozen=True)
class _Tested:
    """What a model achieved on one test part, beside what is popular."""

    name: str  # of the model
    report: Report
    popular: Report | None
    verdicts: tuple[Verdict, ...]
    averages: float | None = None  # RMSE of averages of users and items
    fitted: str | None = None  # what it was fitted on, where that was for this test alone
    seconds: float = 0.0  # of that fit

    @classmethod
    def of(cls, name: str, model: Recommender, test: Ratings, observer: Observer) -> _Tested:
        """Evaluate; the lists of at most `TEST_USERS` users."""
        how: dict[str, Any] = {"max_users": TEST_USERS, "bootstrap": 0, "observer": observer}
        report = evaluate(model, test, **how)
        popular = evaluate_popular(model, test, report, **how)
        verdicts = () if popular is None else find_best({name: report, POPULAR: popular})
        return cls(name, report, popular, verdicts, _averages_rmse(model, test) if "rmse" in report.measures else None)

    def to_dict(self) -> dict[str, Any]:
        """The content for JSON."""
        content = self.report.to_dict()
        if self.popular is not None:
            content |= {"popular": self.popular.to_dict(), "verdicts": [each.to_dict() for each in self.verdicts]}
        if self.averages is not None:
            content["averages"] = {"rmse": round(self.averages, 6)}
        return content if self.fitted is None else content | {"fit_seconds": round(self.seconds, 6)}

    def show(self, key: str) -> None:
        """Print a line of errors, and the lists beside those of what is popular."""
        fitted = "" if self.fitted is None else f" (fitted again on {self.fitted} in {self.seconds:.1f} s)"
        console.print_line(f"{key.replace('_', ' ')}{fitted}: {self.report}")
        if self.popular is None:
            return
        print_side_by_side({self.name: self.report, POPULAR: self.popular}, self.verdicts)
        are_worse = any(verdict.best == POPULAR and not verdict.level for verdict in self.verdicts)
        if are_worse and self.report.kind == "stars" and self.name != "joint":
            console.print_line("for lists, --model joint also goes by what people choose, not by their ratings alone")
        console.print_line("")


def _averages_rmse(model: Recommender, test: Ratings) -> float | None:
    """The error of averages of users and items, fitted on the ratings of a model; None where it has none."""
    if not len(model.ratings_):
        return None
    averages = model if isinstance(model, DampedBias) else DampedBias().fit(model.ratings_)
    return rmse(averages.predict(test.user_ids(), test.item_ids()).mean, test.values)


def _has_times(observed: Ratings) -> bool:
    """Whether all ratings have a time, so that the latest can be held out."""
    return observed.times is not None and not bool(np.isnat(observed.times).any())


def _show(found: Mapping[str, _Tested], *, could_be_by_time: bool) -> None:
    """Print what was measured."""
    for key, tested in found.items():
        tested.show(key)
    if could_be_by_time and "holdout" in found:
        console.print_line("the ratings have times: --holdout-by both also tests on the latest, with one more fit")


@dataclass
class _How:
    """How models are fitted: with checkpoints, from another model, or on a cluster, of which `summary` tells."""

    stages: Stages
    start: Recommender | None
    cluster: str | None
    summary: ClusterSummary | None = None

    def fit(
        self,
        model: Recommender,
        ratings: Ratings,
        held_out: Ratings | None,
        checkpoints: Checkpoints | None,
        observer: Observer,
    ) -> None:
        if self.cluster is None:
            model.fit(ratings, held_out=held_out, observer=observer, checkpoints=checkpoints, start=self.start)
            return
        from tastespace.cluster import fit as fit_on_cluster

        _, self.summary = fit_on_cluster(model, ratings, cluster=self.cluster, observer=observer)


def _fit(
    choice: ModelChoice,
    choose_for: Callable[[Ratings], ModelChoice],
    recommender: Recommender,
    observed: Ratings,
    parts: Mapping[str, tuple[Ratings, Ratings | None]],
    refit: bool,
    how: _How,
) -> tuple[float, dict[str, _Tested]]:
    """Fit, evaluate and fit again, as far as it is wanted; the seconds of the fits, and what was measured."""
    first, second = how.stages or (None, None)
    found: dict[str, _Tested] = {}
    seconds = 0.0
    with console.progress() as observer:
        for place, (key, (train, test)) in enumerate(parts.items()):
            # Only the first model is saved, and worth checkpoints; what was chosen for it has seen later test parts.
            chosen = choice if place == 0 else choose_for(train)
            model = recommender if place == 0 else chosen.recommender()
            stage = first if place == 0 else None
            took = _time(partial(how.fit, model, chosen.prepared(train), test, stage, observer))
            seconds = took if place == 0 else seconds
            if test is not None:
                tested = _Tested.of(chosen.taken.model, model, test, observer)
                feedback = "ratings" if model.not_rated is None else "interactions"
                fitted = None if place == 0 else options.sizes_text(options.sizes_of(train), feedback)
                found[key] = replace(tested, fitted=fitted, seconds=took)
        if refit:
            again = choice.prepared(observed)
            seconds += _time(lambda: how.fit(recommender, again, None, second, observer))
    return seconds, found


def _time(work: Callable[[], Any]) -> float:
    """Run it; the seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


HOW = {  # a model was updated, in words
    "warm restart": "warm restart: {sweeps} sweeps of warm-up, then new draws of everything,",
    "kept draws": "draws kept: users and new items use their new ratings, old items are unchanged;",
    "new items placed": "new items are where their features put them, all else is unchanged;",
    "fitted again": "{name} has no draws to keep: fitted again on all ratings",
    "nothing new": "nothing new: the model is unchanged;",
}


@reads(*OPTIONS)
def update(
    model: Model,
    new_ratings: Annotated[Path, Argument(help="File of new ratings.", metavar="NEW_RATINGS")],
    out: Annotated[Path, Option("--out", "-o", help="Folder to write the new model to; may be MODEL itself.")],
    sweeps: Annotated[
        str, Option(help="Warm-up sweeps of a restart; 0 for no restart, auto to restart if it pays.")
    ] = "auto",
    threads: Threads = None,
    *,
    reading: ReadOptions,
    json: Json = False,
) -> None:
    """Update a model with new ratings."""
    if sweeps != "auto" and not (sweeps.isascii() and sweeps.isdigit()):
        raise InvalidParameterError(f"--sweeps is {sweeps!r}; expected a whole number of at least 0, or auto")
    artifact.check_writable(out)
    recommender = artifact.load(model).set_params(threads=threads)
    with warnings.catch_warnings():  # Most of what describes items is of those that the model knows.
        warnings.filterwarnings("ignore", ".*of the described items have no ratings", DataWarning)
        new, _ = options.observe(new_ratings, reading)
    began = time.perf_counter()
    with console.progress() as observer:
        updated = recommender.update(new, sweeps="auto" if sweeps == "auto" else int(sweeps), observer=observer)
    seconds = time.perf_counter() - began
    had_index = "index" in artifact.read_manifest(model)  # before it is replaced; perhaps one that could not be read
    out = save_model(updated, out)
    news, name = updated.news_, MODELS.name_of(type(updated)) or type(updated).__name__
    assert news is not None
    index = None
    if had_index:
        before, after = recommender.index_, updated.index_
        index = "dropped"
        if before is not None and after is not None:
            index = "kept" if after.index.n_items_ == before.index.n_items_ else "grown"
    content = {
        "model": name,
        "out": str(out),
        "news": asdict(news),
        "seen": updated.seen_.to_dict(),
        "index": index,
        "update_seconds": round(seconds, 3),
    }
    effect = "were added to" if updated.ratings_.kind == "counts" else "replaced"
    console.print_result(
        json,
        content,
        f"{news.ratings:,} new ratings: {news.replaced:,} {effect} older ones, {news.unchanged:,} more were known "
        f"already; {news.new_users:,} new users, {news.new_items:,} new items",
        f"{HOW[news.how].format(sweeps=news.sweeps, name=name)} in {seconds:.1f} s",
        f"seen: {updated.seen_}",
        f"saved to {out}",
        *([f"the index was of the old items: run tastespace index {out} again"] if index == "dropped" else []),
    )
