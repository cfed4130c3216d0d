"""`tastespace report`, `noise`, `curves`, `diagnose` and `demo`: descriptions of fitted models."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import polars as pl
from typer import Argument, Option

from tastespace import artifact
from tastespace.cli import console
from tastespace.cli.options import Json, Model, ReadOptions, Threads, reads
from tastespace.cli.verbs.evaluate import names_of, with_figures
from tastespace.data.formats.files import read
from tastespace.data.kinds import level_names
from tastespace.data.sources import SOURCES
from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError, UnknownIdError
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.report import Report
from tastespace.inference import diagnostics
from tastespace.inference.transition import Trace
from tastespace.models import MODELS
from tastespace.models.factorization.empirical_bayes.posterior import Learning
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.monotone.monotone import MonotoneMF
from tastespace.report.diagnostics_figures import write_diagnostics
from tastespace.report.model_page import Shown, check_path, write_report
from tastespace.report.model_story import model_card
from tastespace.report.plotting import check_figure, prepare_folder
from tastespace.report.rank_figures import write_curves, write_learning
from tastespace.report.uncertainty_figures import draw_demo
from tastespace.storage import replace_file


@reads("user", "item", "rating", "separator", "header", "kind")
def report(
    models: Annotated[list[Path], Argument(help="Folders of fitted models.", metavar="MODEL...")],
    out: Annotated[Path, Option("--out", "-o", help="HTML file to write.")],
    test: Annotated[Path | None, Option(help="File of test ratings, the same for all models.")] = None,
    users: Annotated[list[str] | None, Option("--for", help="User whose list is shown; can be repeated.")] = None,
    map_by: Annotated[str, Option("--map", help="2-D projection of the items: pca or tsne.")] = "pca",
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Write one HTML page about one or several models: measures, calibration, chains, noise, map, some lists."""
    check_path(out)
    shown = [
        Shown(name, artifact.load(path).set_params(threads=threads), artifact.read_manifest(path))
        for name, path in zip(names_of(models), models, strict=True)
    ]
    for user in users or ():
        if all(one.recommender.ratings_.users.rows_of([user])[0] < 0 for one in shown):
            raise UnknownIdError(f"no model knows the user {user!r}; expected a user of the training ratings")
    tested = None if test is None else read(test, **reading)
    with console.progress() as observer:
        path = write_report(shown, out, users=users, test=tested, method=map_by, observer=observer)
    size = path.stat().st_size
    content = {"out": str(path), "models": [one.name for one in shown], "bytes": size}
    console.print_result(json, content, f"written to {path} ({size / 1e6:.1f} MB); open it in a browser")


def noise(
    model: Model,
    items: Annotated[bool, Option("--items", help="Items that divide opinion, instead of users.")] = False,
    n: Annotated[int, Option("-n", help="Number of rows.")] = 10,
    json: Json = False,
) -> None:
    """List the users whose ratings are the most erratic, or the items that divide opinion most."""
    recommender = artifact.load(model)
    if not isinstance(recommender, BPMF):
        raise InvalidParameterError(
            f"{type(recommender).__name__} does not learn the noise of users and items; expected bpmf, fitted with "
            "--set likelihood=heteroscedastic"
        )
    found = recommender.divisive_items(n) if items else recommender.erratic_users(n)
    if json:
        console.print_json({found.side + "s": found.to_polars().to_dicts()})
        return
    figures = {"ratings": "{ratings}", "noise sd": "{noise_sd:.2f}", "90 % interval": "{low:.2f} to {high:.2f}"}
    columns = {found.side: f"{{{found.side}}}", "title": "{title}", **figures, "more than average": "{percent:.0f} %"}
    table = found.to_polars().with_columns(percent=100 * pl.col("probability"))
    console.print_entries(table, columns, in_box=True)


MAX_COLUMNS = 11


def curves(
    model: Model,
    figure: Annotated[Path | None, Option(help="Picture to draw the curves to: .png, .svg or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Show the curves by which ratings are transformed, and the number of users of each."""
    recommender = artifact.load(model)
    if not isinstance(recommender, MonotoneMF):
        raise InvalidParameterError(
            f"{type(recommender).__name__} takes ratings as they are and has no curves; expected a model fitted with "
            "--model monotone"
        )
    if figure is not None:
        check_figure(figure)
    found = recommender.curves()
    if figure is not None:
        write_curves(found, figure)
    if json:
        content = {"curves": found.to_polars().to_dicts()}
        console.print_json(content if figure is None else content | {"figure": str(figure)})
        return
    shown = range(0, len(found.levels), -(-len(found.levels) // MAX_COLUMNS))  # only some of many levels
    names = level_names(found.levels)
    columns = ["cluster", "users", "extremes", *(f"{names[place]} is" for place in shown)]
    rows = [
        [str(name), f"{n_users:,}", f"{100 * extremes:.0f} %", *(f"{values[level]:.2f}" for level in shown)]
        for name, n_users, extremes, values in zip(found.ids, found.n_users, found.extremes, found.values, strict=True)
    ]
    console.print_rows(columns, rows, numbers=columns, in_box=True)
    if figure is not None:
        console.print_line(f"figure: {figure}")


def diagnose(
    model: Model,
    figures: Annotated[Path | None, Option(help="Folder to write trace.svg and other figures to.")] = None,
    json: Json = False,
) -> None:
    """Show whether the chains of a model have run long enough: R-hat, effective draws, Monte Carlo errors."""
    recommender = artifact.load(model)
    trace = getattr(recommender.posterior_, "trace", None)
    if not isinstance(trace, Trace):
        raise InvalidParameterError(
            f"the model {MODELS.name_of(type(recommender))} has no chains: it computes one answer and draws no "
            "samples, so there is nothing to diagnose; expected a model that samples, such as bpmf"
        )
    learning = getattr(recommender.posterior_, "learning", None)  # how the regularization was learned, if it was
    learning = learning if isinstance(learning, Learning) else None
    if figures is not None:
        prepare_folder(figures)
    diagnosis = diagnostics.diagnose(trace)
    paths = [] if figures is None else write_diagnostics(trace, figures, diagnosis=diagnosis)
    if learning is not None and figures is not None:
        paths += write_learning(learning, figures)
    if json:
        content = diagnosis.to_dict() | {"seen": recommender.seen_.to_dict()}
        if learning is not None:
            content |= {"learning": learning.to_dict()}
        console.print_json(with_figures(content, figures, paths))
        return
    console.print_line(str(diagnosis))
    if learning is not None:
        console.print_line(f"\n{learning}")
        if diagnosis.trouble is not None:
            console.print_line(f"draws are set by --regularization {EmpiricalBayes.name}:draws=N")
    if recommender.seen_.updates:
        console.print_line(f"\nseen: {recommender.seen_}")
    if figures is not None:
        console.print_line(f"\nfigures written to {figures}: {', '.join(path.name for path in paths)}")


@reads("user", "item", "rating", "separator", "header", "kind")
def card(
    model: Model,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Markdown file to write.", show_default="MODEL-card.md")
    ] = None,
    test: Annotated[Path | None, Option(help="File of test ratings to measure the model on.")] = None,
    licence: Annotated[str | None, Option("--license", help="Licence of the model, such as CC-BY-4.0.")] = None,
    data_licence: Annotated[str | None, Option("--data-license", help="Licence of the training ratings.")] = None,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Write a model card: what a model is, what it learned from, how good it is, and what it may be used for."""
    recommender, manifest = artifact.load(model).set_params(threads=threads), artifact.read_manifest(model)
    where = model.resolve()
    path = where.with_name(f"{where.name}-card.md") if out is None else out
    with console.progress() as observer:
        measured = None if test is None else evaluate(recommender, read(test, **reading), observer=observer)
    source = SOURCES.get(manifest["data"].get("source", ""))
    of_data = data_licence or (None if source is None else source.terms)
    text = model_card(where.name, recommender, manifest, report=measured, licence=licence, data_licence=of_data)
    with replace_file(path) as file:
        file.write(text.encode())
    console.print_result(json, {"out": str(path), "card": text}, f"written to {path}")


HOLDOUT = 0.1
FILMS, STEPS = 4, (0, 1, 3, 10)  # of the picture: films, and numbers of ratings of a new user
SHOWN = (
    *("item", "title", "score", "chosen_probability", "expected_rating", "liked_probability"),
    *("belief_sd", "low", "high"),
)


def demo(
    user: Annotated[int, Option(help="User whose list is shown.")] = 2,
    picture: Annotated[Path, Option(help="File to write the picture to.")] = Path("tastespace-demo.png"),
    seed: Annotated[int, Option(help="Same seed, same result.")] = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit on the embedded movielens-demo, print measures and a user's top 10, and write a picture."""
    ratings = SOURCES["movielens-demo"]()
    split = random_split(ratings, HOLDOUT, seed=seed)
    recommenders = {name: MODELS[name](seed=seed, threads=threads) for name in ("mean", "bias", "als", "joint")}
    reports: dict[str, Report] = {}
    seconds: dict[str, float] = {}
    with console.progress() as observer:
        for name, recommender in recommenders.items():
            began = time.perf_counter()
            recommender.fit(split.train, observer=observer)
            seconds[name] = time.perf_counter() - began
            reports[name] = evaluate(recommender, split.test, ranking=False, groups=False, bootstrap=0)
    joint = recommenders["joint"]
    ranking = joint.recommend([user], 10)
    top, calibration = ranking.of(0), reports["joint"].calibration
    assert calibration is not None
    # A new user who gives the first ratings of this one.
    films = ranking.item_ids[:FILMS].to_list()
    answers = split.train.to_polars().filter(pl.col("user") == (ratings.users.ids[0] if ranking.cold[0] else user))
    given = dict(answers.select("item", "rating").head(max(STEPS)).rows())
    steps = {
        n: joint.predict(["new user"] * len(films), films, history=dict(list(given.items())[:n]) or None) for n in STEPS
    }
    draw_demo(calibration, steps, picture)
    if json:
        content = {
            "n_ratings": len(ratings),
            "measures": {name: report.to_dict() for name, report in reports.items()},
            "fit_seconds": {name: round(value, 3) for name, value in seconds.items()},
            "user": user,
            "items": top.select(SHOWN).to_dicts(),
            "picture": str(picture),
        }
        console.print_json(content)
        return
    console.print_line(
        f"movielens-demo: {len(ratings):,} ratings by {ratings.n_users:,} people of {ratings.n_items:,} films; "
        f"{len(split.test):,} kept aside to test on\n"
    )
    measured = [
        [name, f"{report['rmse']:.4f}", f"{report['mae']:.4f}", f"{seconds[name]:.2f}"]
        for name, report in reports.items()
    ]
    console.print_rows(["model", "rmse", "mae", "seconds"], measured)
    about = f"For user {user}, of the films they have not rated:"
    if ranking.cold[0]:
        about = f"User {user} is not among the {ratings.n_users}; this is the default list:"
    console.print_line(f"\n{about}")
    named = top.with_columns(film=pl.coalesce("title", pl.col("item").cast(pl.String)))
    columns = {"": "{rank}", "film": "{film}", "chosen": "{chosen_probability:.0%}", "liked": "{liked_probability:.0%}"}
    columns |= {"rating": "{expected_rating:.2f}", "90% of ratings": "{low:.1f} to {high:.1f}"}
    console.print_entries(named, columns)
    liking = ranking.liking()
    console.print_line(
        f"chosen: among the next films they pick ({liking['base_rate'][0]:.1%} for an average film); liked: a rating "
        f"of at least {liking['liked_from'][0]:.2f}, {'the mean of all' if ranking.cold[0] else 'their own mean'}"
    )
    console.print_line(f"\npicture written to {picture}")
