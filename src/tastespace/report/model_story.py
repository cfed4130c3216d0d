"""A fitted model described as plain values: how it was fitted, its quality, and its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl

from tastespace.errors import InvalidParameterError
from tastespace.evaluation.calibration import SHARES
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import display_name
from tastespace.inference.diagnostics import diagnose, names_of
from tastespace.inference.transition import NOISE, Trace
from tastespace.models import Recommender
from tastespace.models.base.posterior import abilities_of
from tastespace.models.base.results import Noisiness
from tastespace.models.factorization.gibbs.bpmf import BPMF

NOISIEST = 10  # users and items listed
BARS = 20  # of a histogram
DIGITS = 6  # significant digits sent
COURSES = {"bounds": "bound on the log evidence", "losses": "loss"}  # of models without chains, one value per sweep


def model_outline(recommender: Recommender) -> dict[str, Any]:
    """The basic facts about a model: its scale, its abilities, the attributes of its items."""
    recommender.require_fitted()
    return {
        "class": type(recommender).__name__,
        "range": plain(list(recommender.rating_range_)),
        "levels": _levels(recommender),
        "takes_choices": recommender.takes_choices,
        "scores_are_ratings": recommender.scores_are_ratings,
        "can": _abilities(recommender),
        "attributes": _attributes(recommender),
    }


def model_story(recommender: Recommender, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the page and the report show about a model; `manifest` is that of its artifact."""
    index = manifest.get("index")
    return {
        **model_outline(recommender),
        "model": manifest["model"],
        "parameters": plain(manifest["parameters"]),
        "data": plain(manifest["data"]),
        "seen": str(recommender.seen_),
        "measures": plain(manifest.get("measures") or {}),
        "choice": plain(manifest.get("choice")),
        "chains": _chains(recommender),
        "course": _course(recommender),
        "noise": _noise(recommender),
        "index": None if index is None else plain({name: index[name] for name in ("chosen", "target", "curve")}),
    }


def plain(value: Any) -> Any:
    """The content for JSON: no NaN or infinity, no NumPy types, and no meaningless digits."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | pl.Series):
        return plain(value.tolist() if isinstance(value, np.ndarray) else value.to_list())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return str(value)


def _levels(recommender: Recommender) -> list[float] | None:
    """The possible ratings, if they are few: those of the model, or else those observed."""
    known = recommender.posterior_.levels
    if known is None:
        known = np.unique(recommender.ratings_.values)
    found: list[float] | None = plain(known) if 0 < len(known) <= BARS else None
    return found


def _abilities(recommender: Recommender) -> dict[str, bool]:
    can = abilities_of(recommender.posterior_)
    asks = can["ask"] and len(recommender.ratings_) > 0  # Questions are chosen by counts.
    return {"uncertainty": can["uncertainty"], "choices": can["choices"], "ask": asks, "map": can["map"]}


def _attributes(recommender: Recommender) -> dict[str, dict[str, Any]]:
    """Attributes of items beside their titles: their most common values, or the range of numbers."""
    about = recommender.ratings_.item_attributes
    found: dict[str, dict[str, Any]] = {}
    for column in about if about is not None else ():
        if column.dtype.is_numeric():
            numbers = column.drop_nulls()
            numbers = numbers.drop_nans() if numbers.dtype.is_float() else numbers
            if len(numbers):
                found[column.name] = {"least": plain(numbers.min()), "most": plain(numbers.max())}
        else:
            found[column.name] = {"values": common_values(column)}
    return found


def common_values(column: pl.Series, n: int = 60) -> list[str]:
    """The values of an attribute, the most common first; for lists, the values in them."""
    flat = column.explode(empty_as_null=False) if isinstance(column.dtype, pl.List) else column
    counts = flat.drop_nulls().cast(pl.String).alias("value").value_counts()
    return [str(value) for value in counts.sort(["count", "value"], descending=[True, False])["value"].head(n)]


def _chains(recommender: Recommender) -> dict[str, Any] | None:
    """The traces of the chains, and whether they converged."""
    trace = getattr(recommender.posterior_, "trace", None)
    if not isinstance(trace, Trace):
        return None
    diagnosis = diagnose(trace)
    return {
        "schedule": diagnosis.schedule(),
        "warmup": trace.warmup,
        "quantities": {name: plain(trace.quantities[name]) for name in names_of(trace)},
        "rows": plain(diagnosis.to_polars().to_dicts()),
        "limits": plain(diagnosis.to_dict()["limits"]),
        "meaning": diagnosis.meaning(),
        "warning": diagnosis.trouble,
    }


def _course(recommender: Recommender) -> dict[str, Any] | None:
    """The convergence of a model without chains: its loss or bound, sweep by sweep."""
    posterior = recommender.posterior_
    likelihood = getattr(getattr(posterior, "draws", None), "likelihood", None)
    for holder in (posterior, getattr(posterior, "plain", None), likelihood):
        for name, words in COURSES.items():
            values = getattr(holder, name, None)
            if isinstance(values, np.ndarray) and len(values):
                return {"name": words, "values": plain(values)}
    return None


def _noise(recommender: Recommender) -> dict[str, Any] | None:
    """The noise of the ratings: of all together, and of the noisiest users and items."""
    trace = getattr(recommender.posterior_, "trace", None)
    common = None
    if isinstance(trace, Trace) and NOISE in trace.quantities:
        common = plain(float(np.mean(trace.quantities[NOISE][:, trace.warmup :])))
    users = items = None
    if isinstance(recommender, BPMF) and len(recommender.ratings_):
        with suppress(InvalidParameterError):  # The noise is the same for all.
            users = recommender.erratic_users(recommender.ratings_.n_users)
            items = recommender.divisive_items(recommender.ratings_.n_items)
    if common is None and users is None:
        return None
    return {"sd": common, "users": _noisiest(users), "items": _noisiest(items)}


def _noisiest(found: Noisiness | None) -> dict[str, Any] | None:
    if found is None:
        return None
    counts, edges = np.histogram(found.noise_sd, bins=BARS)
    table = found.to_polars().head(NOISIEST).rename({found.side: "id"})
    return {
        "counts": counts.tolist(),
        "edges": plain(edges),
        "noisiest": [{**plain(row), "id": str(row["id"])} for row in table.to_dicts()],
    }


def model_card(
    name: str,
    recommender: Recommender,
    manifest: Mapping[str, Any],
    *,
    report: Report | None = None,
    licence: str | None = None,
    data_licence: str | None = None,
) -> str:
    """A model card as Markdown: what the model is, what it learned from, how good it is, and what it is for."""
    data, parameters = manifest["data"], manifest["parameters"]
    low, high = recommender.rating_range_
    can = abilities_of(recommender.posterior_)
    kind = data.get("kind") or recommender.ratings_.kind
    choice = manifest.get("choice")
    settings = [f"| `{key}` | `{value}` |" for key, value in parameters.items() if value is not None]
    measures = [
        f"| {part} | {display_name(measure)} | {value:.4f} |"
        for part, found in (manifest.get("measures") or {}).items()
        for measure, value in (found.items() if isinstance(found, Mapping) else ())
        if isinstance(value, int | float)
    ]
    lines = [
        f"# Model card: {name}",
        "",
        f"- Model: `{manifest['model']}` ({manifest['class']}), fitted with tastespace {manifest['tastespace']}, seed "
        f"{manifest['seed']}",
        f"- Feedback: {kind}, values from {low:g} to {high:g}",
        f"- Provides uncertainty: {'yes' if can['uncertainty'] else 'no'}",
        f"- Licence of the model: {licence or 'not stated'}",
        *([f"- Chosen because {choice['because']}"] if choice and "because" in choice else []),
        "",
        "## Data",
        "",
        f"- {data['n_ratings']:,} ratings by {data['n_users']:,} users of {data['n_items']:,} items",
        f"- Fingerprint (SHA-256 of who rated what, whatever the order): `{data['fingerprint']}`",
        f"- Licence of the data: {data_licence or 'not stated'}",
        f"- {recommender.seen_}",
        "",
        "## Measures",
        "",
    ]
    if report is not None:
        lines += [*(f"- {line}" for line in report.summary()), ""]
        lines += ["| measure | value | 95 % interval |", "|---|---|---|"]
        for measure, value in report.measures.items():
            span = report.intervals.get(measure)
            shown = "" if span is None else f"{span.low:.4f} to {span.high:.4f}"
            lines.append(f"| {display_name(measure)} | {value:.4f} | {shown} |")
        if report.calibration is not None:
            lines += ["", "| intervals of | hold | expected |", "|---|---|---|"]
            found = report.calibration.measures
            lines += [
                f"| {share} % | {100 * found[f'coverage_{share}']:.1f} % | {100 * found[f'expected_{share}']:.1f} % |"
                for share in SHARES.values()
            ]
    elif measures:
        lines += ["Stored with the model, on ratings held out when it was fitted:", ""]
        lines += ["| on | measure | value |", "|---|---|---|", *measures]
    else:
        lines.append("None: the model was fitted without held-out ratings, and no test ratings were given.")
    return "\n".join(
        [
            *lines,
            *("", "## Use", ""),
            "Lists and predictions for users of the training ratings, and for new users with ratings of known items.",
            "Measures hold for users and items like those of the test ratings, and for the time they are from.",
            *("", "## Parameters", "", "| parameter | value |", "|---|---|", *settings),
            "",
        ]
    )
