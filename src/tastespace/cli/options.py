"""Options that several verbs share, and how model parameters are put together."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from typer import Argument, BadParameter, Option

from tastespace.cli import console
from tastespace.data.formats.files import has_users, read, read_history, sniff, with_features
from tastespace.data.formats.layout import Layout, Sought
from tastespace.data.kinds import CHOICES, KINDS, check_kind
from tastespace.data.ratings import Ratings
from tastespace.data.sources import resolve, suggestion
from tastespace.data.sources.source import is_cached
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import DataError, InvalidParameterError
from tastespace.models import MODELS, Recommender
from tastespace.models.baselines.baselines import Popular
from tastespace.models.linear.ease import EASE
from tastespace.models.registry import misfit, suitable_model
from tastespace.settings import translated

Json = Annotated[bool, Option("--json", help="Print one JSON object, for machines.")]
Model = Annotated[Path, Argument(help="Folder of a fitted model.", metavar="MODEL")]
RatingsFile = Annotated[Path, Argument(help="File of ratings, folder of a known layout, or name of a data set.")]
Relevance = Annotated[
    str | None,
    Option(
        help="From this rating on a test item is relevant; or liked; or all.",
        show_default="stars: liked, at least the user's own mean; yes; all that was chosen",
    ),
]
ListUsers = Annotated[
    int | None, Option("--max-users", help="Measure the lists of at most so many users, drawn at random.")
]
Bootstrap = Annotated[int, Option(help="Resamples for the confidence intervals; 0 for none.")]
Budget = Annotated[
    float | None,
    Option(
        help="Seconds for choosing a model; 0 to try nothing.",
        metavar="SECONDS",
        show_default="10 times the fit, at least 60",
    ),
]
Database = Annotated[
    str | None,
    Option(
        "--db",
        envvar="TASTESPACE_DATABASE",
        help="URL of the ratings database; SQLite in the state folder by default.",
    ),
]
State = Annotated[Path | None, Option(help="Folder of versions and database; MODEL-state by default.")]
Threads = Annotated[int | None, Option(help="Threads to use; all cores by default.", show_default=False)]


def require(is_good: bool, complaint: str) -> None:
    """Refuse options that do not go together."""
    if not is_good:
        raise BadParameter(complaint)


def check_known(name: Any, known: Iterable[str], complaint: str) -> None:
    """Refuse a name that is none of the known ones."""
    if name not in tuple(known):
        raise InvalidParameterError(f"{complaint}; expected one of {', '.join(known)}")


def factors_of(text: str) -> int | str:
    """The value of --n-factors."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"{text!r} is no number of factors; expected a whole number, or auto") from None


def read_config(path: Path | None) -> dict[str, Any]:
    """A configuration file: a table [model] with name and parameters, a table [data] with column names."""
    if path is None:
        return {}
    try:
        config = tomllib.loads(path.read_text())
    except OSError as error:
        raise DataError(f"cannot read the configuration: {error.strerror}", file=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not a TOML file ({error})", file=path, expected="[model] and [data] tables") from error
    unknown = {name for name, table in config.items() if name not in ("model", "data") or not isinstance(table, dict)}
    if unknown:
        raise DataError(f"unknown entry {', '.join(sorted(unknown))}", file=path, expected="tables [model] and [data]")
    return config


def known_ids(vocabulary: Vocabulary, ids: pl.Series) -> list[Any]:
    """Ids as the model knows them: typed at a terminal or read beside words, an integer is a text."""
    known = vocabulary.at(vocabulary.rows_of(ids))
    return [asked if found is None else found for asked, found in zip(ids, known, strict=True)]


def sizes_of(ratings: Ratings) -> dict[str, int]:
    """How many ratings, users and items there are."""
    return {"n_ratings": len(ratings), "n_users": ratings.n_users, "n_items": ratings.n_items}


def sizes_text(sizes: Mapping[str, Any], what: str = "ratings") -> str:
    """The same in words."""
    from tastespace.evaluation.resampling import counted

    named = (("n_ratings", what.removesuffix("s")), ("n_users", "user"), ("n_items", "item"))
    return "{} by {} of {}".format(*(counted(sizes[name], noun) for name, noun in named))


def read_settings(settings: list[str]) -> dict[str, Any]:
    """`key=value` pairs; a value is read as TOML would (3, 0.1, true) and is text otherwise."""
    read: dict[str, Any] = {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator or not key:
            raise InvalidParameterError(f"--set got {setting!r}; expected key=value, such as regularization=0.1")
        try:
            read[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            read[key] = text
    return read


def make_model(name: str, parameters: Mapping[str, Any]) -> Recommender:
    """The recommender of this name with these parameters, all checked."""
    check_known(name, MODELS, f"there is no model {name!r}")
    parameters = translated(MODELS[name], parameters)
    for key in parameters:
        check_known(key, parameters_of(MODELS[name]), f"the model {name} has no parameter {key!r}")
    recommender = MODELS[name](**parameters)
    recommender.check()
    return recommender


def parameters_of(model: type[Recommender] | Recommender) -> list[str]:
    """The names of what can be set."""
    return [field.name for field in fields(model)]


ReadOptions = dict[str, Any]  # arguments of `read` that were given
Verb = Callable[..., None]

# Arguments of `read`, and the options that say them: texts, but for those of TYPES.
OPTIONS: dict[str, Any] = {
    "items": Option(None, help="File of item titles, genres, years."),
    "item_id": Option(None, help="Name of the id column of the item file; found by its name or its values."),
    "title": Option(None, "--title-column", help="Name of its column of titles."),
    "item_separator": Option(None, help="Its column delimiter.", show_default=False),
    "list_separator": Option(None, help="What separates the entries of a list, such as genres.", show_default=False),
    "users": Option(None, help="File of what is known of users."),
    "item_features": Option(
        None, help="What models learn about items from: attributes, all, bag, files; separated by commas."
    ),
    "user_features": Option(None, help="The same of users, such as age,occupation,bag."),
    "user": Option(None, "--user-column", help="Name of the user column."),
    "item": Option(None, "--item-column", help="Name of the item column."),
    "rating": Option(None, "--rating-column", help="Name of the rating column."),
    "time": Option(None, "--time-column", help="Name of the time column."),
    "separator": Option(None, help="Column delimiter; \\t for a tab.", show_default=False),
    "header": Option(None, help="Whether the first line names the columns."),
    "duplicates": Option(
        None, help="How to combine duplicates: last, mean, sum or error.", show_default="last; sum of choices"
    ),
    "bad_lines": Option(None, help="What cannot be read: error, or skip and count.", show_default="error"),
    "kind": Option(None, help=f"Feedback type: {', '.join(KINDS)}.", show_default="guessed"),
}
TYPES: dict[str, type] = {"items": Path, "users": Path, "header": bool}


def reads(*arguments: str) -> Callable[[Verb], Verb]:
    """Give a verb the options of these arguments of `read`, in the place of `reading`, which gets them."""

    def with_options(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def run_verb(**typed: Any) -> None:
            reading = {argument: typed.pop(argument) for argument in arguments}
            for name in ("separator", "item_separator", "list_separator"):
                if reading.get(name) is not None:
                    reading[name] = reading[name].replace("\\t", "\t")
            verb(**typed, reading={argument: value for argument, value in reading.items() if value is not None})

        signature = inspect.signature(verb, eval_str=True)
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[name], annotation=kind | None)
            for name, kind in ((argument, TYPES.get(argument, str)) for argument in arguments)
        ]
        parameters = [
            each
            for name, parameter in signature.parameters.items()
            for each in (options if name == "reading" else [parameter])
        ]
        # What typer makes the options of.
        run_verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run_verb

    return with_options


def check_table(table: Mapping[str, Any]) -> ReadOptions:
    """The [data] table of a configuration, checked: the same arguments."""
    for key, value in table.items():
        check_known(key, OPTIONS, f"[data] has no entry {key!r}")
        kind, expected = (bool, "true or false") if key == "header" else (str, "a text")
        if not isinstance(value, kind):
            raise InvalidParameterError(f"[data] has {key} = {value!r}; expected {expected}")
    return dict(table)


@dataclass(frozen=True)
class Pick:
    """A recommender by its name, and why it is this one: None if it was named."""

    name: str
    recommender: Recommender
    reason: str | None = None
    label: str | None = None  # the name with the settings that it was chosen with

    def __str__(self) -> str:
        """As one line: what was picked, and why."""
        likelihood = self.recommender.get_params().get("likelihood")
        special = "" if likelihood in (None, "gaussian") else f" with likelihood={likelihood}"
        return f"{self.label or self.name}{special}, because {self.reason}"

    def doubts(self, ratings: Ratings, *, fades: bool) -> list[str]:
        """What may not be as intended; a model that was picked suits, unless parameters have changed it."""
        model = self.recommender
        found = [misfit(model, ratings)]
        # Models for which only who chose what matters, some whatever their parameters.
        is_of_ones = isinstance(model, EASE | Popular) or getattr(model, "takes_negatives", False)
        if fades and (is_of_ones or model.get_params().get("growth") == "none"):
            growth = "" if is_of_ones else " with growth=none"
            found.append(f"{self.name}{growth} counts every value as 1: --half-life changes nothing")
        if not model.learns_features and (ratings.item_features is not None or ratings.user_features is not None):
            found.append(
                f"{self.name} does not learn from features, which change nothing; joint, bpmf, vb, "
                "implicit-als, logistic, blend and profile do"
            )
        return [doubt for doubt in found if doubt is not None]


def pick_suitable(ratings: Ratings, parameters: Mapping[str, Any]) -> Pick:
    """The model that suits these ratings; `parameters` go before those that suit."""
    recommender, reason = suitable_model(ratings)
    reason += "" if ratings.declared_kind else " (a guess; --kind overrules it)"
    name = MODELS.name_of(type(recommender)) or type(recommender).__name__
    try:
        return Pick(name, make_model(name, {**recommender.get_params(), **parameters}), reason)
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"{error}. The model is {name} because {reason}; --model names another, --kind another kind"
        ) from error


PARTS = ("user", "item", "rating", "time")


def observe(file_or_name: Path, reading: Mapping[str, Any]) -> tuple[Ratings, Layout | None]:
    """The ratings, and how the file was read; `reading` are arguments of `read`."""
    source = resolve(file_or_name)
    if source is None:
        if not file_or_name.exists() and (meant := suggestion(str(file_or_name))):
            raise DataError(f"there is no such file{meant}", file=file_or_name, expected="a file of ratings")
        wanted = {part: reading.get(part) for part in PARTS}
        sought = Sought(wanted=wanted, are_choices=reading.get("kind") in CHOICES)
        layout = sniff(file_or_name, sought, separator=reading.get("separator"), header=reading.get("header"))
        return read(file_or_name, **reading).chosen(), layout
    features = {side: reading.get(f"{side}_features") for side in ("item", "user")}
    of_layout = [argument for argument in reading if argument not in ("kind", "item_features", "user_features")]
    if of_layout:
        raise InvalidParameterError(
            f"{source.name} is a data set with a layout of its own; expected no {', '.join(of_layout)} for it"
        )
    kind = reading.get("kind")
    if kind is not None:
        check_kind(kind)
    if source.archive is not None and not is_cached(source.name):
        console.err.print(f"{source.name}: {source.terms}", markup=False)
    with console.progress(in_bytes=True) as observer:
        ratings = with_features(source.load(observer=observer), features["item"], features["user"])
    return ratings if kind is None else ratings.with_kind(kind), None


History = Annotated[
    Path | None,
    Option(help="File of ratings that the model has not seen: user, item, rating; or item, rating; choices without."),
]
Where = Annotated[
    str | None, Option(help="Only items like this, such as 'genre = Comedy and year >= 1990'.", metavar="CONDITION")
]


def ids(typed: list[str] | None) -> pl.Series | None:
    """Ids as they were typed; None if there are none."""
    return pl.Series("id", typed, dtype=pl.String) if typed else None


def history_of(file: Path | None, users: list[str] | None) -> Ratings | None:
    """The ratings of a history file; without a column of users they are the one user's, or those of `you`."""
    if file is None:
        return None
    if users and len(users) > 1 and not has_users(file):
        raise BadParameter(f"{file} has no column of users, so that it can be of one --user only")
    return read_history(file, users[0] if users else "you")
