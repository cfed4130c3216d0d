"""`tastespace compare`: which model, at what cost? All that suit the ratings, on the same split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Exit, Option

from tastespace.cli import console, options
from tastespace.cli.data import SHARED, WAYS
from tastespace.cli.evaluate import read_relevant, with_figures
from tastespace.cli.options import Bootstrap, Json, RatingsFile, ReadOptions, Relevance, Threads
from tastespace.data.formats.files import read
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError
from tastespace.models import MODELS, Recommender
from tastespace.models.factorization.rank.reversible_jump import ReversibleJump
from tastespace.models.registry import suited
from tastespace.report.comparison_figures import write_comparison
from tastespace.report.plotting import prepare_folder
from tastespace.report.rank_figures import write_ranks
from tastespace.selection.compare_models import compare_models, suitable_models
from tastespace.selection.comparison import ModelComparison
from tastespace.selection.select_rank import GRID, MAX_RANK, METHODS, RANK_SHARE, RankMethod, compare_ranks
from tastespace.selection.trials import order_of_starts
from tastespace.settings import old_parameters, translated

SHARE = 0.1


@options.reads(*options.OPTIONS)
def compare(
    ratings: RatingsFile,
    models: Annotated[
        str | None,
        Option(
            help=f"Models separated by commas: {', '.join(MODELS)}; NAME=MODEL for a variant.",
            show_default="all that suit the ratings",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="A parameter of one model, as model.key=value; can be repeated.")
    ] = None,
    starts: Annotated[
        list[str] | None,
        Option(
            "--start",
            help="NAME=OTHER: model NAME begins from the items of OTHER, both names of --models; can be repeated.",
        ),
    ] = None,
    n_factors: Annotated[
        int | None, Option(help="Dimensions of the taste space, for all models that have one.")
    ] = None,
    holdout: Annotated[
        float | None, Option(help="Share of the ratings, or users, to test on.", show_default=str(SHARE))
    ] = None,
    by: Annotated[
        str,
        Option(
            help="What to test on. random: a share of the ratings; time: the latest share of them; last: the last of "
            "each user; one: one of each user at random; users: a share of the users, known by half of their ratings."
        ),
    ] = "random",
    test: Annotated[Path | None, Option(help="File of test ratings, instead of a split.")] = None,
    k: Annotated[int, Option(help="Length of the lists.")] = 10,
    relevant: Relevance = None,
    no_ranking: Annotated[
        bool, Option("--no-ranking", help="Measure predicted ratings only, no lists; not of choices.")
    ] = False,
    figures: Annotated[Path | None, Option(help="Folder to write figures and comparison.json to.")] = None,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[int, Option(help="Same seed, same split, models and intervals.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit all models that suit the ratings on the same split, and say which is best, at what cost."""
    options.check_known(by, WAYS, f"--by is {by!r}")
    no_split = "--test has the test ratings already; expected no --holdout and no --by"
    options.require(test is None or (holdout is None and by == "random"), no_split)
    no_share = f"--by {by} takes no --holdout; expected --by {' or '.join(SHARED)}"
    options.require(holdout is None or by in SHARED, no_share)
    threshold = read_relevant(relevant)
    wanted = None if models is None else _wanted(models)
    own = _settings(settings or [], MODELS if wanted is None else wanted)
    begins_from = _starts(starts or [], MODELS if wanted is None else wanted)
    if figures is not None:
        prepare_folder(figures)
    observed = options.observe(ratings, reading)[0]
    share = SHARE if holdout is None else holdout
    how: dict[str, Any] = {"by": by, "seed": seed} | ({"share": share} if by in SHARED else {})
    if test is None:
        split = WAYS[by](observed, share, 1, seed)
    else:
        columns = {key: value for key, value in reading.items() if key != "items"}
        split, how = Split(observed, read(test, **columns)), {"by": "file", "test": str(test)}
    if wanted is None:
        chosen = suitable_models(split.train)
    else:
        chosen = {name: suited(model, split.train) for name, model in wanted.items()}
    common = {"n_factors": n_factors, "seed": seed, "threads": threads}
    _set(chosen, {key: value for key, value in common.items() if value is not None}, own)
    with console.progress() as observer:
        found = compare_models(
            split,
            chosen,
            k=k,
            relevant=threshold,
            ranking=not no_ranking,
            bootstrap=bootstrap,
            seed=seed,
            starts=begins_from,
            # One bar a model: one for each phase of each would not fit on a screen.
            observer=lambda event: observer(replace(event, phase=event.phase.partition(": ")[0])),
        )
    content = found.to_dict()
    content["split"] |= how
    paths = [] if figures is None else write_comparison(found, figures, content)
    if json:
        console.print_json(with_figures(content, figures, paths))
    else:
        _show(found)
        console.print_line(*(f"written: {path}" for path in paths))
    if found.is_interrupted:
        console.print_error("interrupted: the models that had not ended are not measured")
        raise Exit(console.INTERRUPTED)
    if found.best is None:
        console.print_error("error: no model could be measured; the rows say why")
        raise Exit(console.BAD_INPUT)


def _wanted(typed: str) -> dict[str, type[Recommender]]:
    """Classes by the names that rows will have: `als`, or `small=als` for a variant."""
    found: dict[str, type[Recommender]] = {}
    for part in typed.split(","):
        name, separator, model = (piece.strip() for piece in part.partition("="))
        model = model if separator else name
        if model not in MODELS:
            raise InvalidParameterError(f"there is no model {model!r}; expected some of {', '.join(MODELS)}")
        if not name or "." in name or name in found:
            reason = "is there twice" if name in found else "is no name"
            raise InvalidParameterError(
                f"--models got {typed!r}, where {name!r} {reason}; expected models, or NAME=MODEL with names that "
                "differ and have no dot"
            )
        found[name] = MODELS[model]
    return found


def _settings(typed: list[str], models: Mapping[str, type[Recommender]]) -> dict[str, dict[str, Any]]:
    """Parameters by the name of the model that they are for; what none has is refused before anything is read."""
    found: dict[str, dict[str, Any]] = {}
    for setting in typed:
        name, dot, rest = setting.partition(".")
        if not dot or "=" in name:
            raise InvalidParameterError(f"--set got {setting!r}; expected model.key=value, such as als.n_factors=32")
        options.check_known(name, models, f"--set got {setting!r}, and no model {name!r} takes part")
        values = translated(models[name], options.read_settings([rest]))
        known = options.parameters_of(models[name])
        for key in values:
            options.check_known(key, known, f"--set is for {name}.{key}, and that model has no such parameter")
        found[name] = found.get(name, {}) | values
    return found


def _starts(typed: list[str], models: Mapping[str, type[Recommender]]) -> dict[str, str]:
    """By the name of a model, that of the one it begins from; what cannot be is refused before anything is read."""
    found: dict[str, str] = {}
    for start in typed:
        name, separator, other = (piece.strip() for piece in start.partition("="))
        if not separator or name in found:
            reason = "is there twice" if separator else "does not say where to begin"
            raise InvalidParameterError(
                f"--start got {start!r}, where {name!r} {reason}; expected NAME=OTHER, such as sampled=vb, once a model"
            )
        found[name] = other
    order_of_starts(found, models)
    return found


def _set(models: Mapping[str, Recommender], common: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> None:
    """Give each model what is for all that have such a parameter, and then what is its own."""
    for name in own:
        if name not in models:
            raise InvalidParameterError(
                f"--set is for {name}, which does not suit these ratings and takes no part; expected one of "
                f"{', '.join(models)}, or to name it in --models"
            )
    for name, model in models.items():
        known = [*options.parameters_of(model), *old_parameters(type(model))]
        model.set_params(**{key: value for key, value in common.items() if key in known})
        model.set_params(**own.get(name, {}))


def _show(found: ModelComparison) -> None:
    console.print_table(found.table())
    if any(entry.groups for entry in found):
        console.print_table(found.groups_table())
    failed = [f"{entry.model}: {entry.error}" for entry in found if entry.error is not None]
    if failed:
        console.out.print("\nnot measured", style="bold")
        console.print_line(*failed)
    for entry in found:
        for warning in entry.warnings:
            console.print_error(f"warning: {entry.model}: {warning}")
    console.print_line(
        "\nbehind the best, user by user; seconds, processor seconds (all threads) and MB (beyond program and "
        "ratings) of the fit"
    )


SETTINGS = tuple(field.name for field in fields(ReversibleJump) if field.name != "cooling")


@options.reads(*options.OPTIONS)
def select_rank(
    ratings: RatingsFile,
    methods: Annotated[
        str | None, Option(help=f"Some of {', '.join(METHODS)}, separated by commas.", show_default="all")
    ] = None,
    max_rank: Annotated[int, Option(help="The most factors that there may be.")] = MAX_RANK,
    ranks: Annotated[
        str | None,
        Option(
            help="Ranks of the grid, separated by commas.",
            show_default=f"{', '.join(map(str, GRID))}, as far as --max-rank goes",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", help=f"A parameter of reversible-jump, as key=value; can be repeated: {', '.join(SETTINGS)}."),
    ] = None,
    holdout: Annotated[float, Option(help="Share of the ratings to measure the error on.")] = RANK_SHARE,
    figures: Annotated[Path | None, Option(help="Folder to write loss.svg and posterior.svg to.")] = None,
    seed: Annotated[int, Option(help="Same seed, same split and ranks.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Say how many factors ratings have use for: by reversible jumps, by shrinking priors, by a grid."""
    wanted = None if methods is None else [cast(RankMethod, name.strip()) for name in methods.split(",")]
    grid = None if ranks is None else [part.strip() for part in ranks.split(",")]
    if grid is not None and not all(part.isdecimal() for part in grid):
        raise InvalidParameterError(
            f"--ranks got {ranks!r}; expected whole numbers separated by commas, such as 4,8,16"
        )
    given = options.read_settings(settings or [])
    for key in given:
        options.check_known(key, SETTINGS, f"--set is for {key}, and reversible-jump has no such parameter")
    jumps = replace(ReversibleJump(), **given)
    jumps.check()
    if figures is not None:
        prepare_folder(figures)
    observed = options.observe(ratings, reading)[0]
    with console.progress() as observer:
        found = compare_ranks(
            observed,
            wanted,
            max_rank=max_rank,
            ranks=None if grid is None else [int(part) for part in grid],
            jumps=jumps,
            share=holdout,
            seed=seed,
            threads=threads,
            observer=observer,
        )
    paths = [] if figures is None else write_ranks(found, figures)
    if json:
        console.print_json(with_figures(found.to_dict(), figures, paths))
        return
    console.print_table(found.table())
    console.print_line(*(f"written: {path}" for path in paths))
