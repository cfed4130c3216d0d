"""`tastespace recommend`, `predict`, `similar`, `explain` and `ask`: answers of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from typer import Argument, Option

from tastespace import artifact
from tastespace.cli import console, options
from tastespace.cli.options import History, Json, Model, ReadOptions, Threads, Where, reads
from tastespace.data.formats.files import read, read_item_list, read_pairs
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models import Recommender
from tastespace.models.base.active_learning import AMONG
from tastespace.models.base.attribution import Explanation, times
from tastespace.models.base.policies import POLICIES, policy_of
from tastespace.models.base.results import Lists, Ranking, as_entries, titled
from tastespace.models.base.rules import RULES
from tastespace.models.base.similarity import SimilarKind
from tastespace.parameters import check_number

Users = Annotated[list[str] | None, Option("--user", "-u", help="User id; can be repeated.")]
Exclude = Annotated[list[str] | None, Option("--exclude", help="Item never to show; can be repeated.")]
NO_USER = "expected --user ID, or --history FILE, or both"
MAX_ROWS = 50  # of a table of predictions
BLOCK = 100_000  # pairs predicted at once: a whole distribution takes some hundred bytes


def recommend(
    model: Model,
    user: Users = None,
    n: Annotated[int, Option("-n", help="Number of items.")] = 10,
    history: History = None,
    policy: Annotated[
        str, Option(help=f"How to rank under uncertainty: {', '.join(POLICIES)}; with a parameter as in cautious:c=2.")
    ] = "best",
    only: Annotated[list[str] | None, Option(help="Item to choose from; can be repeated.")] = None,
    only_file: Annotated[Path | None, Option(help="File of items to choose from: item; or user, item.")] = None,
    exclude: Exclude = None,
    exclude_file: Annotated[Path | None, Option(help="File of items never to show: item; or user, item.")] = None,
    include_seen: Annotated[bool, Option("--include-seen", help="Also items that the user has rated.")] = False,
    where: Where = None,
    diversity: Annotated[float, Option(help="From 0 to 1: higher makes the items of a list less similar.")] = 0.0,
    popularity_damping: Annotated[float, Option(help="From 0 to 1000: higher shows fewer popular items.")] = 0.0,
    rule: Annotated[
        list[str] | None,
        Option("--rule", help=f"Business rule: {', '.join(RULES)}; as in at-most:k=2,of=genre. Can be repeated."),
    ] = None,
    shown: Annotated[Path | None, Option(help="File for the rule not-shown: user, item, perhaps time.")] = None,
    show: Annotated[
        list[str] | None, Option("--show", help="What is known of items to show, such as genres; can be repeated.")
    ] = None,
    exact: Annotated[bool, Option("--exact", help="Score every item, even if the model has an index.")] = False,
    top_n: Annotated[bool, Option("--top-n", help="Also the probability of being one of the true best N.")] = False,
    all_users: Annotated[bool, Option("--all-users", help="Every training user, into the file --out.")] = False,
    out: Annotated[Path | None, Option(help="Parquet file for --all-users; run again to continue.")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Recommend items to users of the training ratings, or to new users with a history."""
    options.require(all_users == (out is not None), "expected --all-users and --out FILE together")
    options.require(out is None or out.suffix == ".parquet", f"--out is {out}; expected a name that ends in .parquet")
    options.require(
        not all_users or not (user or history), "--all-users is about the training users; expected no --user, --history"
    )
    options.require(all_users or bool(user) or history is not None, NO_USER)
    options.require(not (only and only_file), "expected --only or --only-file, not both")
    recommender = artifact.load(model, with_index=not exact).set_params(threads=threads)
    new = options.history_of(history, user)
    everyone = recommender.ratings_.users.ids.cast(pl.String).to_list() if all_users else user
    asked: dict[str, Any] = {
        "policy": policy,
        "only": only or (None if only_file is None else read_item_list(only_file)),
        "exclude": _excluded(exclude or [], exclude_file, everyone, new),
        "include_seen": include_seen,
        "where": where,
        "diversity": diversity,
        "popularity_damping": popularity_damping,
        "rules": rule or (),
        "shown": None if shown is None else read(shown, duplicates="latest", kind="one-class"),
        "index": None if exact else "auto",
        "top_n": top_n,
    }
    if out is not None:
        _write_all(recommender, n, out, asked, json)
        return
    beside = _attributes(recommender.ratings_, show or [])
    ranking = recommender.recommend(options.ids(user), n, history=new, **asked)
    users = options.known_ids(recommender.ratings_.users, ranking.user_ids)
    if json:
        lists = ranking.to_dicts(users, levels=True)
        for place, found in enumerate(lists):
            rows = ranking.item_rows[place][ranking.item_rows[place] >= 0]
            for entry, more in zip(found["items"], beside[rows].to_dicts(), strict=True) if beside.width else ():
                entry.update(more)
        console.print_json({"users": lists, "found_by": ranking.found_by, "remarks": list(ranking.remarks)})
        return
    _print_ranking(recommender, ranking, users, top_n, len(rule or ()), policy_of(policy).name, beside)


def _print_ranking(
    recommender: Recommender,
    ranking: Ranking,
    users: list[Any],
    top_n: bool,
    n_rules: int,
    policy: str,
    beside: pl.DataFrame,
) -> None:
    is_certain = ranking.uncertainty is None
    are_probabilities = recommender.not_rated is not None and bool(ranking.level_names)
    columns = {"": "{rank}", "title": "{title}", "item": "{item}"}
    columns |= {name: f"{{{name}}}" for name in beside.columns} | {"score": "{score:.2f}"}
    if ranking.liking():
        del columns["score"]
        columns |= {"chosen": "{chosen_probability:.0%}", "liked": "{liked_probability:.0%}"}
        columns["rating"] = "{expected_rating:.2f}"
    if not is_certain:
        columns["belief sd"] = "{belief_sd:.2f}"
        if not are_probabilities:  # The interval of a probability would be from 0 to 1.
            columns[_interval_heading(recommender, 0.9)] = "{low:.2f} to {high:.2f}"
    if top_n and not is_certain:
        columns[f"P(top {ranking.item_rows.shape[1]})"] = "{top_n_probability:.2f}"
    note = f" (a new user, without {_feedback(recommender)}: this is the default list)"
    for k, name in enumerate(users):
        _print_list(ranking, k, f"For user {name}", note, columns, _as_text(beside))
    # The last remarks, one per rule; doubtful ones were warnings.
    console.print_line(*ranking.remarks[len(ranking.remarks) - n_rules :])
    if not (ranking.item_rows >= 0).any():
        return  # Nothing is left to be explained.
    if recommender.index_ is not None:
        console.print_line(f"Found: {ranking.found_by}.")
    if not is_certain:
        console.print_line(*_meaning_of_scores(recommender, are_probabilities))
    if liking := ranking.liking():
        console.print_line(
            f"In the order of {ORDERS.get(policy, 'choosing and liking')}. Chosen: among the next choices, "
            f"{liking['base_rate'][0]:.1%} for an "
            f"average item; liked: a rating of at least {_liked_from(ranking, users, liking['liked_from'])}."
        )


ORDERS = {"rating": "the expected rating", "likely": "liking"}  # of lists under these policies; all others have one


def _liked_from(ranking: Ranking, users: list[Any], thresholds: Any) -> str:
    """The threshold of a liked rating for each user, in words."""
    if len(users) == 1:
        whose = "the mean of all ratings" if ranking.cold[0] else "the user's own mean"
        return f"{thresholds[0]:.2f}, {whose}"
    each = (f"{threshold:.2f} for {user}" for user, threshold in zip(users, thresholds, strict=True))
    return f"the user's own mean: {', '.join(each)}"


def _write_all(recommender: Recommender, n: int, out: Path, asked: dict[str, Any], as_json: bool) -> None:
    """Write the lists of all users to a file, and print a summary."""
    with console.progress() as observer:
        recommender.recommend_all(n, out=out, observer=observer, **asked)
    n_users, n_entries = recommender.ratings_.n_users, pl.scan_parquet(out).select(pl.len()).collect().item()
    from tastespace.evaluation.resampling import counted  # which recommend alone would not load

    entries = "1 entry" if n_entries == 1 else f"{n_entries:,} entries"
    text = f"Lists for {counted(n_users, 'user')} with {entries} are in {out}."
    console.print_result(as_json, {"out": str(out), "n_users": n_users, "n_entries": n_entries}, text)


def _excluded(items: list[str], file: Path | None, users: list[str] | None, new: Ratings | None) -> Any:
    """Items not to show beside seen ones, from options and from the file: for all users, or per user."""
    if file is None:
        return items or "seen"
    listed = read_item_list(file).cast(pl.String)
    for_all = pl.DataFrame({"item": pl.Series(items, dtype=pl.String)})
    if "user" not in listed.columns:
        return pl.concat([listed, for_all])
    asked = users or ([] if new is None else new.users.ids.cast(pl.String).to_list())
    named = pl.DataFrame({"user": pl.Series(asked, dtype=pl.String)})
    return pl.concat([listed.select("user", "item"), named.join(for_all, how="cross")])


@reads("user", "item", "separator", "header")
def predict(
    model: Model,
    pairs: Annotated[Path, Argument(help="File with a user and an item in each row.")],
    *,
    reading: ReadOptions,
    coverage: Annotated[float, Option(help="Probability that the interval holds a rating.")] = 0.9,
    at_least: Annotated[float | None, Option(help="Also the probability of a rating of at least this.")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Predict the ratings of pairs of users and items."""
    recommender = artifact.load(model).set_params(threads=threads)
    check_number("--coverage", coverage, above=0, below=1)
    users, items = read_pairs(pairs, **reading)
    blocks, levels = [], []
    for k in range(0, max(len(users), 1), BLOCK):
        prediction = recommender.predict(users[k : k + BLOCK], items[k : k + BLOCK])
        block = prediction.to_polars(coverage, levels=prediction.levels is not None)
        if at_least is not None:
            block = block.with_columns(pl.Series("probability_at_least", prediction.probability_at_least(at_least)))
        blocks.append(block)
        levels = prediction.level_names
    frame = pl.concat(blocks)
    if json:
        known = recommender.ratings_
        names = zip(options.known_ids(known.users, users), options.known_ids(known.items, items), strict=True)
        entries = [
            entry | {"user": user, "item": item} for entry, (user, item) in zip(as_entries(frame), names, strict=True)
        ]
        console.print_json({"predictions": entries})
        return
    shown = frame.head(MAX_ROWS)
    columns = {"user": "{user}", "item": "{item}", "title": "{title}", "mean": "{mean:.2f}"}
    if "low" in frame.columns:
        columns[_interval_heading(recommender, coverage)] = "{low:.2f} to {high:.2f}"
        columns |= {"belief sd": "{belief_sd:.2f}"} if "belief_sd" in frame.columns else {}
    if at_least is not None:
        columns[f"P(>= {at_least:g})"] = "{probability_at_least:.2f}"
    if levels:
        heading, drawn = console.draw_bars(shown.select(f"p_{level}" for level in levels).to_numpy(), levels)
        shown = shown.with_columns(pl.Series("bar", drawn, dtype=pl.String))
        columns[heading] = "{bar}"
    cold = pl.when("cold").then(pl.lit("cold")).otherwise(pl.lit("")).alias("cold")
    console.print_entries(shown.with_columns(cold), columns | {" ": "{cold}"})
    if "low" in frame.columns:
        console.print_line(*_meaning_of_scores(recommender, bool(levels)))
    if frame.height > MAX_ROWS:
        console.print_line(f"… and {frame.height - MAX_ROWS:,} more; --json prints them all")
    if n_cold := frame["cold"].sum():
        console.print_line(
            f"{n_cold:,} cold: the user or the item is unknown to the model; the prediction is the prior's"
        )


def similar(
    model: Model,
    item: Annotated[list[str] | None, Option("--item", "-i", help="Item id; can be repeated.")] = None,
    user: Users = None,
    n: Annotated[int, Option("-n", help="Number of neighbors.")] = 10,
    kind: Annotated[
        SimilarKind | None,
        Option("--kind", help="Only items chosen by the same users that are also similar in taste, or that are not."),
    ] = None,
    where: Where = None,
    history: History = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Find the items most similar to an item, or the users most similar to a user."""
    about_users = bool(user) or history is not None
    options.require(bool(item) != about_users, "expected --item ID; or --user ID, or --history FILE")
    for name, given in (("--where", where), ("--kind", kind)):
        options.require(not about_users or given is None, f"{name} is about items; expected it with --item only")
    recommender = artifact.load(model).set_params(threads=threads)
    if about_users:
        found = recommender.similar_users(options.ids(user), n, history=options.history_of(history, user))
        asked = options.known_ids(recommender.ratings_.users, found.ids)
    else:
        found = recommender.similar_items(options.ids(item), n, where=where, kind=kind)
        asked = options.known_ids(recommender.ratings_.items, found.ids)
    titles = [None] * len(found) if found.titles is None else found.titles.to_list()
    if json:
        lists = found.to_dicts(asked)
        for entry in lists:
            entry["similar"] = entry.pop("items")
        console.print_json({f"{found.side}s": lists})
        return
    columns = {"": "{rank}", "title": "{title}", found.side: f"{{{found.side}}}", "similarity": "{similarity:.3f}"}
    for k, name in enumerate(asked):
        heading = f"Similar to {found.side} {name}" + (f", {titles[k]}" if titles[k] else "")
        _print_list(found, k, heading, " (nothing to compare by)", columns)


def explain(
    model: Model,
    item: Annotated[list[str], Option("--item", "-i", help="Item id; can be repeated.")],
    user: Annotated[str | None, Option("--user", "-u", help="User id.", show_default=False)] = None,
    n: Annotated[int, Option("-n", help="Number of ratings to show for each item.")] = 5,
    history: History = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Explain a recommendation by the ratings of the user that raise or lower it."""
    options.require(user is not None or history is not None, NO_USER)
    recommender = artifact.load(model).set_params(threads=threads)
    new = options.history_of(history, None if user is None else [user])
    explanation = recommender.explain(user, options.ids(item), history=new, n=n)
    (name,) = options.known_ids(recommender.ratings_.users, pl.Series([str(explanation.user_id)]))
    items = options.known_ids(recommender.ratings_.items, explanation.item_ids)
    if json:
        content = explanation.to_dict()
        entries = [{**entry, "item": one} for entry, one in zip(content["items"], items, strict=True)]
        console.print_json(content | {"user": name, "items": entries})
        return
    console.print_line(
        f"For user {name}" + (f": there are no {explanation.noun}s to explain by" if explanation.cold else "")
    )
    for k, one in enumerate(items):
        label = titled(one, None if explanation.titles is None else explanation.titles[k])
        console.print_line(f"{label}: {explanation.scores[k]:.2f}; for a new user {explanation.base[k]:.2f}")
        _print_reasons(explanation, k)
        if explanation.chosen is not None:
            console.print_line(f"Propensity to choose it: {explanation.chosen.scores[k]:.3f}")
            _print_reasons(explanation.chosen, k)


def _print_reasons(explanation: Explanation, position: int) -> None:
    table = explanation.of(position)
    if not table.height:
        return
    given = [times(value) if explanation.are_choices else f"{value:g}" for value in table["rating"]]
    others = []
    n_others = len(explanation.ratings) - table.height
    if n_others:
        noun = explanation.noun + ("" if n_others == 1 else "s")
        others.append([f"{explanation.others[position]:+.3f}", "", f"{n_others:,} other {noun}", ""])
    if abs(explanation.remainder[position]) >= 0.001:
        others.append([f"{explanation.remainder[position]:+.3f}", "", f"no single {explanation.noun}", ""])
    heading = "chosen" if explanation.are_choices else "rating"
    columns = {"contribution": "{contribution:+.3f}", heading: "{given}", "title": "{title}", "item": "{item}"}
    console.print_entries(table.with_columns(pl.Series("given", given)), columns, extra=others)


def ask(
    model: Model,
    user: Users = None,
    n: Annotated[int, Option("--n", "-n", help="Number of questions.")] = 5,
    history: History = None,
    only: Annotated[list[str] | None, Option(help="Item to ask about; can be repeated.")] = None,
    exclude: Exclude = None,
    where: Where = None,
    among: Annotated[int, Option(help="Choose from this many of the most rated items; 0 for all.", min=0)] = AMONG,
    goal: Annotated[
        Literal["ratings", "list"],
        Option("--goal", help="What to learn: the ratings of popular items, or the best items of the list."),
    ] = "ratings",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Choose the items that a user should rate next; without a user or a history, a new user."""
    recommender = artifact.load(model).set_params(threads=threads)
    questions = recommender.ask(
        options.ids(user),
        n,
        history=options.history_of(history, user),
        exclude=exclude or "seen",
        only=only or None,
        where=where,
        among=among or None,
        goal=goal,
    )
    users = options.known_ids(recommender.ratings_.users, questions.user_ids)
    if json:
        console.print_json({"users": questions.to_dicts(users)})
        return
    columns = {"": "{rank}", "title": "{title}", "item": "{item}", "reduction": "{reduction:.1%}", "sd": "{sd:.3f}"}
    note = f" (a new user, without {_feedback(recommender)}: these are the default questions)"
    for k, name in enumerate(users):
        table = _print_list(questions, k, f"Ask user {name}", note, columns)
        if table.height:
            before, after = questions.sd[k], table["sd"][-1]
            console.print_line(f"the answers lower the uncertainty about the user from {before:.3f} to {after:.3f}")


OWN_COLUMNS = {
    "rank",
    "item",
    "title",
    "score",
    "rating",
    "chosen",
    "liked",
    "cold",
    "low",
    "high",
    "interval",
    "levels",
}


def _attributes(ratings: Ratings, names: list[str]) -> pl.DataFrame:
    """What is known of all items under these names, one row each."""
    known = pl.DataFrame() if ratings.item_attributes is None else ratings.item_attributes
    found = {name: next((own for own in (name, f"{name}s") if own in known.columns), None) for name in names}
    for name, own in found.items():
        if own is None:
            expected = ", ".join(known.columns) or "a model fitted with --items"
            raise InvalidParameterError(f"--show got {name!r}, which is not known of the items; expected {expected}")
    wanted = known.select(*dict.fromkeys(own for own in found.values() if own is not None))
    return wanted.rename({name: f"item {name}" for name in wanted.columns if name in OWN_COLUMNS})


def _as_text(attributes: pl.DataFrame) -> pl.DataFrame:
    """Lists as their entries, and nothing for what is not known."""
    lists = [name for name, kind in attributes.schema.items() if isinstance(kind, pl.List)]
    plain = attributes.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join(", ") for name in lists)
    return plain.select(pl.all().cast(pl.String).fill_null(""))


def _print_list(
    lists: Lists,
    position: int,
    heading: str,
    cold_note: str,
    columns: dict[str, str],
    beside: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Print one of the lists under its heading, with what is to be shown beside its entries, and return it."""
    table = lists.of(position)
    if beside is not None and beside.width:
        rows = lists.rows[position]
        table = table.hstack(beside[rows[rows >= 0]])
    console.print_line(heading + (cold_note if lists.cold[position] else ""))
    if table.height:
        console.print_entries(table, columns)
    else:
        console.print_line(f"  {lists.empty_note or 'nothing to compare with'}")
    return table


def _feedback(recommender: Recommender) -> str:
    return "ratings" if recommender.not_rated is None else "implicit feedback"


def _interval_heading(recommender: Recommender, coverage: float) -> str:
    return f"{100 * coverage:g}% {'of ratings' if recommender.not_rated is None else 'interval'}"


def _meaning_of_scores(recommender: Recommender, are_probabilities: bool) -> list[str]:
    """The meaning of the columns of an implicit model."""
    if recommender.not_rated is None:
        return []
    if are_probabilities:
        return ["scores are probabilities of being chosen; belief sd is how far they may move with more feedback"]
    return ["scores are not ratings; an interval is how far a score may move with more feedback"]
