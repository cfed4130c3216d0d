"""`tastespace compare`: fit the models that suit the ratings on the same split, and compare quality and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Exit, Option

from tastespace.cli import console, options
from tastespace.cli.options import Bootstrap, Json, ListUsers, RatingsFile, ReadOptions, Relevance, Threads
from tastespace.cli.verbs.data import SHARED, WAYS
from tastespace.cli.verbs.evaluate import read_relevant, with_figures
from tastespace.data.formats.files import read_test
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.evaluation.side_by_side import LIST_USERS
from tastespace.evaluation.significance import POPULAR
from tastespace.models import MODELS, Recommender
from tastespace.models.baselines.baselines import Popular
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
BOTH, BY_TIME = "both", "by_time"
HEADINGS = {
    "random": "Test ratings drawn at random: how well are missing ratings predicted and found?",
    "time": "The latest ratings as the test: how well would it have done from then on?",
}
LEGEND = (
    "\nbehind the best, user by user; seconds, CPU seconds (all threads) and MB (beyond program and ratings) of "
    "the fit; coverage: the share of the catalogue in lists"
)


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
            help="NAME=OTHER: model NAME starts from the items of OTHER, both names of --models; can be repeated.",
        ),
    ] = None,
    n_factors: Annotated[
        int | None, Option(help="Dimensions of the taste space, for all models that have one.")
    ] = None,
    holdout: Annotated[
        float | None, Option(help="Share of the ratings, or users, to test on.", show_default=str(SHARE))
    ] = None,
    by: Annotated[
        str | None,
        Option(
            help="What to test on. random: a share of the ratings; time: the latest share of them; both: these two, "
            "with each model fitted twice; last: the last of each user; one: one of each user at random; "
            "users: a share of the users, given half of their ratings.",
            show_default="both if the ratings have times, else random",
        ),
    ] = None,
    test: Annotated[Path | None, Option(help="File of test ratings, instead of a split.")] = None,
    k: Annotated[int, Option(help="Length of the lists.")] = 10,
    relevant: Relevance = None,
    max_users: ListUsers = LIST_USERS,
    no_ranking: Annotated[
        bool, Option("--no-ranking", help="Measure predicted ratings only, no lists; not for implicit feedback.")
    ] = False,
    figures: Annotated[Path | None, Option(help="Folder to write figures and comparison.json to.")] = None,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[int, Option(help="Same seed, same split, models and intervals.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fit all models that suit the ratings on the same split, and show which is best for what, at what cost."""
    if by is not None:
        options.check_known(by, (*WAYS, BOTH), f"--by is {by!r}")
    no_split = "--test has the test ratings already; expected no --holdout and no --by"
    options.require(test is None or (holdout is None and by is None), no_split)
    no_share = f"--by {by} takes no --holdout; expected --by {' or '.join(SHARED)}"
    options.require(holdout is None or by in (None, BOTH, *SHARED), no_share)
    threshold = read_relevant(relevant)
    wanted = None if models is None else _wanted(models)
    own = _settings(settings or [], MODELS if wanted is None else wanted)
    begins_from = _starts(starts or [], MODELS if wanted is None else wanted)
    if figures is not None:
        prepare_folder(figures)
    observed = options.observe(ratings, reading)[0]
    if test is None:
        splits = _splits(observed, by, SHARE if holdout is None else holdout, seed)
    else:
        splits = [({"by": "file", "test": str(test)}, Split(observed, read_test(test, **reading)))]
    # One table of models for all splits: which models suit the ratings does not depend on the split.
    chosen = _models(wanted, splits[0][1].train, with_popular=not no_ranking)
    common = {"n_factors": n_factors, "seed": seed, "threads": threads}
    _set(chosen, {key: value for key, value in common.items() if value is not None}, own)
    comparisons: list[ModelComparison] = []
    contents: list[dict[str, Any]] = []
    paths: list[Path] = []
    for how, split in splits:
        with console.progress() as observer:
            found = compare_models(
                split,
                chosen,
                k=k,
                relevant=threshold,
                ranking=not no_ranking,
                max_users=max_users,
                bootstrap=bootstrap,
                seed=seed,
                starts=begins_from,
                # One bar per model: one for each phase of each would not fit on a screen.
                observer=lambda event: observer(replace(event, phase=event.phase.partition(": ")[0])),
            )
        content = found.to_dict()
        content["split"] |= how
        if figures is not None:
            paths += write_comparison(found, figures if not comparisons else figures / BY_TIME, content)
        if not json:
            _show(found, how["by"], n_splits=len(splits))
        comparisons.append(found)
        contents.append(content)
        if found.is_interrupted:
            break
    if json:
        content = contents[0] | ({BY_TIME: contents[1]} if len(contents) > 1 else {})
        console.print_json(with_figures(content, figures, paths))
    else:
        console.print_line(LEGEND, *(f"written: {path}" for path in paths))
    _check_measured(comparisons, chosen if wanted is None else wanted)


def _check_measured(comparisons: list[ModelComparison], asked: Iterable[str]) -> None:
    """Exit with an error code if the comparison was interrupted, or no requested model was measured."""
    if comparisons[-1].is_interrupted:
        console.print_error("interrupted: unfinished models are not measured")
        raise Exit(console.INTERRUPTED)
    if all(found[name].report is None for found in comparisons for name in asked):
        console.print_error("error: no model could be measured; the rows say why")
        raise Exit(console.BAD_INPUT)


def _splits(observed: Ratings, by: str | None, share: float, seed: int) -> list[tuple[dict[str, Any], Split]]:
    """The requested split, with its name; by default at random and, where there are times, also by time."""
    ways = ["random", "time"] if by == BOTH or (by is None and observed.times is not None) else [by or "random"]
    splits = []
    for way in ways:
        how = {"by": way, "seed": seed} | ({"share": share} if way in SHARED else {})
        try:
            splits.append((how, WAYS[way](observed, share, 1, seed)))
        except TastespaceError as error:
            if by is not None or way != "time":
                raise
            console.print_error(f"not compared by time as well: {error}")
    return splits


def _models(
    wanted: Mapping[str, type[Recommender]] | None, train: Ratings, *, with_popular: bool
) -> dict[str, Recommender]:
    """The models that take part, always including the popularity baseline if lists are measured."""
    if wanted is None:
        return suitable_models(train)
    chosen = {name: suited(model, train) for name, model in wanted.items()}
    if with_popular and POPULAR not in chosen and Popular not in wanted.values():
        chosen[POPULAR] = suited(Popular, train)
    return chosen


def _wanted(typed: str) -> dict[str, type[Recommender]]:
    """Model classes by row name: `als`, or `small=als` for a variant."""
    found: dict[str, type[Recommender]] = {}
    for part in typed.split(","):
        name, separator, model = (piece.strip() for piece in part.partition("="))
        model = model if separator else name
        if model not in MODELS:
            raise InvalidParameterError(f"there is no model {model!r}; expected some of {', '.join(MODELS)}")
        if not name or "." in name or name in found:
            reason = "is given twice" if name in found else "is not a name"
            raise InvalidParameterError(
                f"--models got {typed!r}, where {name!r} {reason}; expected models, or NAME=MODEL with names that "
                "differ and have no dot"
            )
        found[name] = MODELS[model]
    return found


def _settings(typed: list[str], models: Mapping[str, type[Recommender]]) -> dict[str, dict[str, Any]]:
    """Parameters by model name; unknown ones are refused before anything is read."""
    found: dict[str, dict[str, Any]] = {}
    for setting in typed:
        name, dot, rest = setting.partition(".")
        if not dot or "=" in name:
            raise InvalidParameterError(f"--set got {setting!r}; expected model.key=value, such as als.n_factors=32")
        options.check_known(name, models, f"--set got {setting!r}, but no model {name!r} takes part")
        values = translated(models[name], options.read_settings([rest]))
        known = options.parameters_of(models[name])
        for key in values:
            options.check_known(key, known, f"--set is for {name}.{key}, but that model has no such parameter")
        found[name] = found.get(name, {}) | values
    return found


def _starts(typed: list[str], models: Mapping[str, type[Recommender]]) -> dict[str, str]:
    """The model that each model starts from, by name; impossible ones are refused before anything is read."""
    found: dict[str, str] = {}
    for start in typed:
        name, separator, other = (piece.strip() for piece in start.partition("="))
        if not separator or name in found:
            reason = "is given twice" if separator else "has no model to start from"
            raise InvalidParameterError(
                f"--start got {start!r}, where {name!r} {reason}; expected NAME=OTHER once per model, as sampled=vb"
            )
        found[name] = other
    order_of_starts(found, models)
    return found


def _set(models: Mapping[str, Recommender], common: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> None:
    """Give each model the common parameters that it has, and then its own."""
    for name in own:
        if name not in models:
            raise InvalidParameterError(
                f"--set is for {name}, which does not suit these ratings and does not take part; expected one of "
                f"{', '.join(models)}, or to name it in --models"
            )
    for name, model in models.items():
        known = [*options.parameters_of(model), *old_parameters(type(model))]
        model.set_params(**{key: value for key, value in common.items() if key in known})
        model.set_params(**own.get(name, {}))


def _show(found: ModelComparison, by: str, *, n_splits: int) -> None:
    """Print the tables of a comparison, and which model is best for what."""
    if n_splits > 1:
        console.out.print(f"\n{HEADINGS[by]}", style="bold underline")
    groups = found.groups_table() if any(entry.groups for entry in found) else None
    for table in (found.table(), found.lists_table(), groups, found.found_table()):
        if table is not None:
            console.print_table(table)
    failed = [f"{entry.model}: {entry.error}" for entry in found if entry.error is not None]
    if failed:
        console.out.print("\nnot measured", style="bold")
        console.print_line(*failed)
    for entry in found:
        for warning in entry.warnings:
            console.print_error(f"warning: {entry.model}: {warning}")
    if found.verdicts:
        console.print_line("", *map(str, found.verdicts))
    if by == "time" and found.parts.cold > found.parts.test_ratings / 2:
        console.print_line("most test ratings are of new users or items; --by last tests on the last of known users")


SETTINGS = tuple(field.name for field in fields(ReversibleJump) if field.name != "cooling")


@options.reads(*options.OPTIONS)
def select_rank(
    ratings: RatingsFile,
    methods: Annotated[
        str | None, Option(help=f"Some of {', '.join(METHODS)}, separated by commas.", show_default="all")
    ] = None,
    max_rank: Annotated[int, Option(help="Maximum number of factors.")] = MAX_RANK,
    ranks: Annotated[
        str | None,
        Option(
            help="Ranks of the grid, separated by commas.",
            show_default=f"{', '.join(map(str, GRID))}, up to --max-rank",
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
    """Estimate the number of factors: by reversible jumps, by shrinkage priors, by a grid."""
    wanted = None if methods is None else [cast(RankMethod, name.strip()) for name in methods.split(",")]
    grid = None if ranks is None else [part.strip() for part in ranks.split(",")]
    if grid is not None and not all(part.isdecimal() for part in grid):
        raise InvalidParameterError(
            f"--ranks got {ranks!r}; expected whole numbers separated by commas, such as 4,8,16"
        )
    given = options.read_settings(settings or [])
    for key in given:
        options.check_known(key, SETTINGS, f"--set is for {key}, but reversible-jump has no such parameter")
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
