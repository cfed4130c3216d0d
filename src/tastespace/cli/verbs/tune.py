"""`tastespace tune`: search the settings that a model does not learn by itself."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

from tastespace import artifact
from tastespace.cli import console, options
from tastespace.cli.options import OPTIONS, Json, RatingsFile, ReadOptions, Threads, reads
from tastespace.cli.saving import save_model
from tastespace.errors import DataError, InvalidParameterError, warn
from tastespace.evaluation.resampling import display_name, figure
from tastespace.models import MODELS
from tastespace.models.registry import misfit, suited
from tastespace.selection.tune import RUNGS, TRIALS, TuneResult, tunable_models
from tastespace.selection.tune import tune as search

ROWS = 20  # of the table
TUNABLE = tunable_models()


@reads(*OPTIONS)
def tune(
    ratings: RatingsFile,
    model: Annotated[str, Option(help=f"One of {', '.join(TUNABLE)}.")],
    trials: Annotated[int, Option(help="Settings to try in all, earlier runs included.")] = TRIALS,
    seconds: Annotated[
        float | None, Option(help="Time after which no further fit starts (s).", show_default="no limit")
    ] = None,
    measure: Annotated[
        str | None,
        Option(
            help="Measure to choose settings by: rmse, kendall_tau, ndcg@10 ...",
            show_default="rmse for stars, log_loss for yes and no, ndcg@10 for implicit feedback",
        ),
    ] = None,
    holdout: Annotated[float, Option(help="Share of the ratings to choose settings on.")] = 0.1,
    rungs: Annotated[int, Option(help="Number of growing parts of the users to try on; 1: all at once.")] = RUNGS,
    settings: Annotated[
        list[str] | None, Option("--set", help="A parameter that is not searched, as key=value; can be repeated.")
    ] = None,
    ranges: Annotated[
        list[str] | None, Option("--range", help="Other bounds of the search, as key=low..high; can be repeated.")
    ] = None,
    folder: Annotated[Path | None, Option(help="Folder to keep the trials in, to resume from.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the search in the folder.")] = False,
    config: Annotated[
        Path | None, Option("--save-config", help="TOML file to write the best settings to, for fit --config.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Fit the best to all ratings, and write it to this folder.")
    ] = None,
    seed: Annotated[int, Option(help="Same seed, same trials.")] = 0,
    *,
    reading: ReadOptions,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Search the settings of a model on a held-out part of the ratings, by successive halving."""
    options.require(not resume or folder is not None, "--resume expects --folder FOLDER")
    ends, fixed = _ends(ranges or []), options.read_settings(settings or [])
    if out is not None:
        artifact.check_writable(out)
    if config is not None and not config.resolve().parent.is_dir():
        raise DataError("the folder does not exist", file=config, expected="a file in an existing folder")
    if model not in MODELS:  # before much is read
        options.check_known(model, TUNABLE, f"there is no model {model!r}")
    observed, _ = options.observe(ratings, reading)
    doubt = misfit(suited(MODELS[model], observed), observed)
    if doubt is not None:
        warn(doubt)
    with console.progress() as observer:
        found = search(
            observed,
            model,
            trials=trials,
            seconds=seconds,
            measure=measure,
            share=holdout,
            rungs=rungs,
            fixed=fixed,
            ranges=ends,
            seed=seed,
            threads=threads,
            folder=folder,
            resume=resume,
            observer=observer,
        )
        if out is not None and found.ended_by != "interrupt":
            out = save_model(found.recommender().fit(observed, observer=observer), out)
    if config is not None:
        _write(config, found)
    command = _command(ratings, found, seed, reading, out)
    if json:
        console.print_json(found.to_dict() | {"command": command, "out": None if out is None else str(out)})
    else:
        _show(found, command, config, out)
    if found.ended_by == "interrupt":
        kept = "" if folder is None else f"; {folder} has the trials: continue with the same command and --resume"
        console.print_error(f"interrupted{kept}")
        raise Exit(console.INTERRUPTED)


def _ends(typed: list[str]) -> dict[str, tuple[float, float]]:
    """`key=low..high`."""
    found = {}
    for entry in typed:
        key, separator, ends = entry.partition("=")
        low, dots, high = ends.partition("..")
        try:
            if not (key and separator and dots):
                raise ValueError
            found[key] = float(low), float(high)
        except ValueError:
            raise InvalidParameterError(
                f"--range got {entry!r}; expected key=low..high, such as n_factors=8..64"
            ) from None
    return found


def _show(found: TuneResult, command: str, config: Path | None, out: Path | None) -> None:
    console.print_table(found.table(ROWS))
    lines = [f"trial {trial.number}: {trial.error}" for trial in found.trials if trial.error is not None]
    lines.append("")
    if list(MODELS[found.model].search_space) == ["n_factors"]:
        learned = "all but the number of factors from the ratings"
        lines.append(f"{found.model} learns {learned}: nothing else was searched")
    measure, usual = display_name(found.goal.measure), figure(found.defaults)
    if found.best is None:
        lines.append(f"nothing beats the defaults of {found.model}: {measure} {usual}")
    else:
        chosen = "chosen on these held-out ratings, so slightly optimistic"
        lines.append(f"best: {measure} {figure(found.value)}, defaults {usual}; {chosen}")
    lines.append(f"{len(found.trials)} trials; {found.seconds:.1f} s")
    if config is not None:
        lines.append(f"written: {config}")
    if out is not None and found.ended_by != "interrupt":
        lines.append(f"fitted to all ratings and saved to {out}")
    console.print_line(*lines)
    console.out.print(f"to fit it: {command}", markup=False, soft_wrap=True)


def _command(ratings: Path, found: TuneResult, seed: int, reading: Mapping[str, Any], out: Path | None) -> str:
    """The command that fits the best settings, with the arguments of `read` that were given."""
    words = ["tastespace", "fit", str(ratings), "--model", found.model, "--out", str(out or "MODEL")]
    words += ["--seed", str(seed)]
    for key, value in found.changed().items():
        words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    for argument, value in reading.items():
        if argument == "header":
            words.append("--header" if value else "--no-header")
        else:
            name = f"{argument}-column" if argument in options.PARTS else argument.replace("_", "-")
            words += [f"--{name}", str(value).replace("\t", "\\t")]
    return shlex.join(words)


def _write(path: Path, found: TuneResult) -> None:
    """A configuration that `fit --config` reads."""
    table = {"name": found.model, **found.changed(), "seed": found.parameters["seed"]}
    lines = [f"{key} = {json_format.dumps(value)}" for key, value in table.items() if value is not None]
    try:
        path.write_text("\n".join(["[model]", *lines]) + "\n")
    except OSError as error:
        raise DataError(f"cannot write the configuration ({error.strerror or error})", file=path) from error
