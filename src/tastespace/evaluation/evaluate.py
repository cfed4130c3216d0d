"""Measure how good a recommender is on test ratings."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tastespace.arrays import BoolArray
from tastespace.data.formats.files import ratings_of
from tastespace.data.ratings import Ratings
from tastespace.data.splits import Split
from tastespace.errors import DataWarning, InvalidParameterError, warn
from tastespace.evaluation.calibration import COVERAGES, Assessment
from tastespace.evaluation.groups import Group, Grouping
from tastespace.evaluation.lists import LIST_METRICS, ListMaker, ListMeasures, ListMetric, measure_lists
from tastespace.evaluation.metrics.binary import BY_USER, YES_NO, Reliability, auc_sums, reliability_sums
from tastespace.evaluation.metrics.order import OF_ORDER, order_sums
from tastespace.evaluation.metrics.rating import STANDARD, Loss, Metric, Predicted, losses_of
from tastespace.evaluation.predictions import Answers, predict_all
from tastespace.evaluation.relevance import EvaluationTask, Matched, Relevant, RelevantItems, relevance_of, task_of
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import Sums, intervals, those_of
from tastespace.models import Recommender
from tastespace.models.base.query import Query
from tastespace.parameters import check_int
from tastespace.progress import Observer, shown, silent
from tastespace.randomness import resolve
from tastespace.settings import suggests

OF_LISTS = (*LIST_METRICS, "popularity_lift", "coverage", "gini", "auc")
OF_UNCERTAIN = ("crps", "log_score")  # for models that provide uncertainty
# The other fields in JSON beside the measures.
_MAIN_PARTS = ("kind", "n", "cold", "seen", "lists", "intervals", "groups", "found", "parts")
OF_REPORTS = (*_MAIN_PARTS, "calibration", "reliability")


def check_measures(metrics: Any, ranking: Any) -> None:
    """Refuse anything but a mapping of names to functions, and names that would hide another measure."""
    if metrics is not None:
        _check("metrics", metrics, (*OF_LISTS, *OF_UNCERTAIN, *OF_ORDER, *OF_REPORTS))
    if not isinstance(ranking, bool):
        _check("ranking", ranking, (*OF_LISTS, *OF_UNCERTAIN, *OF_ORDER, *STANDARD, *YES_NO, BY_USER))


def _check(parameter: str, measures: Any, taken: Collection[str]) -> None:
    if not isinstance(measures, Mapping):
        raise InvalidParameterError(f"{parameter} is {measures!r}; expected functions by name, {{name: function}}")
    for name, function in measures.items():
        if not isinstance(name, str) or not name or "@" in name:
            raise InvalidParameterError(
                f"{parameter} has a measure called {name!r}; expected a name without @, which comes before the length "
                "of lists"
            )
        if name in taken:
            raise InvalidParameterError(
                f"{parameter} has a measure called {name!r}, which is the name of another one; expected a new name"
            )
        if not callable(function):
            raise InvalidParameterError(f"{parameter} has {function!r} for {name!r}; expected a function")


DEFAULT_K = (5, 10, 20)
COVERED, COVERED_BY = "coverage", 0.9  # the share of cold and warm ratings in the interval that should hold so many


@suggests
def evaluate(
    recommender: Recommender,
    test: Any,
    metrics: Mapping[str, Metric] | Sequence[str] | str | None = None,
    *,
    k: int | Iterable[int] = DEFAULT_K,
    relevant: Relevant = None,
    ranking: bool | Mapping[str, ListMetric] = True,
    lists: ListMaker | None = None,
    max_users: int | None = None,
    groups: bool = True,
    calibration: bool = True,
    bootstrap: int = 1000,
    seed: int = 0,
    observer: Observer = silent,
) -> Report:
    """Measure a fitted recommender on test ratings, or on the test part of a split.

    `test` may also be a frame with the columns user, item and rating, a file, or anything else that `tastespace.read`
    makes ratings of.

    The measures depend on the feedback type of the ratings, and on what the model predicts (see
    `tastespace.evaluation.relevance`). `metrics` are measures of predictions, which are clipped to the training range;
    cold pairs count like any other. By default these are RMSE and MAE for stars, log loss, calibration error and AUC
    for yes and no, and none for counts, one-class ratings and implicit models, which are measured by lists. For stars,
    the report also says whether the test items of each user are in the right order
    (`tastespace.evaluation.metrics.order`). A list of names, such as ``["rmse", "ndcg"]``, is a choice among the
    measures of the report. New users of a split are folded in with its history.

    `ranking` measures lists of the lengths `k`, out of all items that a user is not known to have rated.
    A test rating of at least `relevant` is relevant, or "all" are; by default, stars that are liked (at least the
    mean of the user's own training ratings, shrunk to that of all, `tastespace.data.kinds.liked_from`), a yes, and
    every item that was chosen. The `relevance` of another report on the same test ratings is accepted as well. Users
    without a relevant item are left out and counted. Relevant items that the model does not know can never be found,
    and count. A mapping adds measures of your own: functions of `Lists` that return one value per user. `lists`
    replaces `recommend`: a function of user ids, length and history that returns a `Ranking` of these users, in this
    order. `max_users` measures the lists of at most that many users, drawn at random with `seed`: the same users for
    every model.

    Where test ratings are of items without training ratings, a model that learns from features first gets to know the
    features of those items (`Recommender.with_items`), if the test ratings have them, and nothing else. `Report.parts`
    then measures cold items, cold users and the others apart.

    `groups` adds the errors by the number of training ratings, and how many relevant items are in lists.
    `calibration` checks the uncertainty of a model that provides it (`Prediction.is_uncertain`), and adds the measures
    `crps` and `log_score`; it changes nothing for a model without. For yes and no it checks whether yes comes as often
    as predicted. `bootstrap` is the number of resamples for the confidence intervals, 0 for none; `seed` makes them,
    and the randomized part of the calibration, reproducible.
    """
    if not isinstance(recommender, Recommender):
        raise InvalidParameterError(
            f"evaluate got {type(recommender).__name__} first; expected a fitted recommender, then test ratings"
        )
    recommender.require_fitted()
    if isinstance(metrics, str | list | tuple):
        named = [metrics] if isinstance(metrics, str) else list(metrics)
        of_lists = (*OF_LISTS, *(() if isinstance(ranking, bool) else ranking))
        is_listed = any(str(name).partition("@")[0] in of_lists for name in named)
        how: dict[str, Any] = {"k": k, "relevant": relevant, "ranking": is_listed and ranking, "lists": lists}
        how |= {"max_users": max_users, "groups": groups, "calibration": calibration, "bootstrap": bootstrap}
        return evaluate(recommender, test, **how, seed=seed, observer=observer).only(named)
    observer = shown(observer)
    ks = _lengths(k)
    check_measures(metrics, ranking)
    check_int("bootstrap", bootstrap, least=0)
    if max_users is not None:
        check_int("max_users", max_users, least=1)
    resolve(seed)
    part, history = _parts(recommender, test)
    recommender = _acquainted(recommender, part)
    trained, task = recommender.ratings_, task_of(recommender, part)
    if not len(trained) and (ranking is not False or groups):
        warn("the model was saved without its ratings, which measures of lists and groups need: they are left out")
        ranking, groups = False, False
    chosen = metrics if isinstance(metrics, Mapping) else task.metrics
    _check_anything(task, chosen, ranking)
    # In the order of the ids, whatever the order of the file, so that reports can be compared user by user.
    asked = recommender.about(part.users.ids.sort(), history=history)
    relevance = None if ranking is False else relevance_of(relevant, task, recommender, part, asked)
    matched = Matched.of(trained, part, asked)
    listed, nothing = ListMeasures(), np.zeros(len(part), np.float32)
    answers = Answers(nothing, nothing, asked.people.cold[matched.users] | (matched.items < 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # Warnings about the history were given above.
        if chosen or not task.is_of_lists:
            noise_seed = seed if calibration and task.is_of_stars else None
            answers = predict_all(recommender, part, matched.users, history, seed=noise_seed, observer=observer)
        if relevance is not None:
            more = {} if isinstance(ranking, bool) else ranking
            make = lists or (lambda ids, n, since: recommender.recommend(ids, n, history=since, uncertainty=False))
            sought = RelevantItems.of(matched, len(asked.people), trained.n_items, relevance, max_users, seed)
            listed = measure_lists(
                recommender, asked, matched, history, observer, ks=ks, sought=sought, more=more, make=make
            )
    seen = int(np.count_nonzero(matched.is_seen))
    if seen:
        warn(f"{seen:,} of {len(part):,} test ratings are of pairs the model was fitted on, so scores are optimistic")
    scored = () if answers.outcomes is None else OF_UNCERTAIN
    scores = {name: Loss(getattr(answers.outcomes, name)) for name in scored}
    losses = losses_of(chosen, answers.mean, part.values) | scores
    predicted = Predicted(matched.users, len(asked.people), answers.mean, part.values, chosen, losses)
    groupings = _groupings(trained, part, asked, matched) if groups and predicted.names else []
    held, held_groupings = predicted, list[Grouping]()
    if groups and relevance is not None:
        held, held_groupings = _found(listed, trained, part, asked, matched)
    auc, auc_interval = auc_sums(predicted) if task.is_of_answers and metrics is None else ({}, {})
    bins = reliability_sums(predicted) if task.is_of_answers and calibration else {}
    order: dict[str, Sums] = {}
    if task.is_of_stars and metrics is None:
        low, n_users = recommender.rating_range_[0], len(asked.people)
        order = order_sums(answers.unclipped, part.values, matched.users, n_users, lowest=low, ks=ks)
    assessment = None if answers.outcomes is None else Assessment.of(answers.outcomes, predicted, groupings)
    sums = predicted.sums() | auc | order | listed.sums
    measured = [(grouping, predicted) for grouping in groupings] + [(grouping, held) for grouping in held_groupings]
    apart = _apart(trained, asked, matched, part, predicted, answers, held, listed) if groups else []
    measured += apart
    others = {key: value for grouping, of in measured for key, value in grouping.sums(of).items()} | bins
    others |= {} if assessment is None else assessment.sums()
    spans = intervals({**sums, **others}, bootstrap, seed, observer)
    errors = {grouping.side: grouping.groups(predicted, spans) for grouping in groupings}
    found = {grouping.side: grouping.groups(held, spans) for grouping in held_groupings}
    return Report(
        rating=predicted.values() | _values(auc),
        n=len(part),
        cold=int(np.count_nonzero(answers.cold | _are_cold(trained, matched))),
        seen=seen,
        order=_values(order),
        ranking=listed.values,
        intervals=those_of(spans, {name: name for name in sums})
        | (auc_interval | listed.intervals if bootstrap else {}),
        groups=errors or found,
        found=found,
        parts=_joined([grouping.groups(of, spans) for grouping, of in apart]),
        lists=listed.made,
        relevance=relevance,
        calibration=None if assessment is None else assessment.calibration(spans),
        reliability=Reliability.of(predicted, spans) if bins else None,
        kind=task.kind,
        sums=sums,
        test=part,
    )


def _values(sums: Mapping[str, Sums]) -> dict[str, float]:
    return {name: measure.value() for name, measure in sums.items()}


def _check_anything(task: EvaluationTask, metrics: Mapping[str, Metric], ranking: object) -> None:
    """Refuse to measure nothing: implicit feedback has no ratings to compare predictions with."""
    if ranking is False and task.is_of_lists and not metrics:
        what = f"{task.kind} ratings are" if task.predicts_ratings else "an implicit model is"
        raise InvalidParameterError(
            f"{what} measured by lists, which cannot be made here; expected a model saved with its ratings, and "
            "ranking (no --no-ranking)"
        )


def _parts(recommender: Recommender, test: Any) -> tuple[Ratings, Ratings | None]:
    """The test ratings, and the history of items that the model knows; unknown items are no reason to warn."""
    if not isinstance(test, Split):
        return ratings_of(test, "evaluate"), None
    part, history = test.test, test.history
    if history is None:
        return part, None
    known = recommender.ratings_.items.rows_of(history.items.ids)[history.item_rows] >= 0
    return part, history.take(np.flatnonzero(known)) if known.any() else None


def _groupings(trained: Ratings, test: Ratings, asked: Query, matched: Matched, which: Any = ...) -> list[Grouping]:
    """Group test ratings by user, where a history counts like training ratings, and by item."""
    item_counts = np.append(trained.by_item.counts, 0)  # row -1, a cold item, has no ratings
    users, items = matched.users[which], matched.items[which]
    return [
        Grouping("users", asked.people.history.counts[users], users),
        Grouping("items", item_counts[items], test.item_rows[which]),
    ]


def _acquainted(recommender: Recommender, test: Ratings) -> Recommender:
    """The recommender, and where it learns from features, with the unknown items of the test ratings and theirs."""
    trained, known = recommender.ratings_, test.item_features
    if not recommender.learns_features or known is None or trained.item_features is None or not len(trained):
        return recommender
    is_cold = trained.items.rows_of(test.items.ids) < 0
    return recommender.with_items(known.take(np.flatnonzero(is_cold))) if is_cold.any() else recommender


def _are_cold(trained: Ratings, matched: Matched) -> BoolArray:
    """The test ratings of items without training ratings, whatever else is known of them."""
    if not len(trained):
        return matched.items < 0
    return np.asarray(np.append(trained.by_item.counts, 0)[matched.items] == 0)


def _apart(
    trained: Ratings,
    asked: Query,
    matched: Matched,
    test: Ratings,
    predicted: Predicted,
    answers: Answers,
    held: Predicted,
    listed: ListMeasures,
) -> list[tuple[Grouping, Predicted]]:
    """Cold and warm test ratings, with their errors and with whether they were found; nothing if none is cold."""
    is_cold_item, is_cold_user = _are_cold(trained, matched), asked.people.cold[matched.users]
    if not (is_cold_item | is_cold_user).any():
        return []
    apart: list[tuple[Grouping, Predicted]] = []
    if predicted.names:
        losses = dict(predicted.losses)
        if answers.outcomes is not None:
            losses[COVERED] = Loss(answers.outcomes.is_covered[:, COVERAGES.index(COVERED_BY)])
        grouping = Grouping.cold_and_warm(is_cold_user, is_cold_item, test.item_rows)
        apart.append((grouping, replace(predicted, losses=losses)))
    if listed.is_sought is not None:
        which = np.flatnonzero(listed.is_sought)
        sides = is_cold_user[which], is_cold_item[which], test.item_rows[which]
        apart.append((replace(Grouping.cold_and_warm(*sides), side="found parts"), held))
    return apart


def _joined(several: list[tuple[Group, ...]]) -> tuple[Group, ...]:
    """The same groups with the measures of all; sizes are those of the first."""
    if not several:
        return ()
    first, *others = several
    return tuple(
        replace(
            group,
            measures={name: value for of in (group, *more) for name, value in of.measures.items()},
            intervals={name: value for of in (group, *more) for name, value in of.intervals.items()},
        )
        for group, *more in zip(first, *others, strict=True)
    )


def _found(
    listed: ListMeasures, trained: Ratings, test: Ratings, asked: Query, matched: Matched
) -> tuple[Predicted, list[Grouping]]:
    """Whether each relevant item was in its user's list."""
    assert listed.places is not None
    assert listed.made is not None
    assert listed.is_sought is not None
    which = np.flatnonzero(listed.is_sought)
    places, true = listed.places[which], matched.values[which]
    held = {f"found@{k}": Loss((places >= 0) & (places < k)) for k in listed.made.k}
    measured = Predicted(matched.users[which], len(asked.people), true, true, {}, held)
    return measured, _groupings(trained, test, asked, matched, which)


def _lengths(k: int | Iterable[int]) -> tuple[int, ...]:
    """The requested lengths of lists, each once, ascending."""
    lengths = list(k) if isinstance(k, Iterable) else [k]
    if not lengths:
        raise InvalidParameterError("k is empty; expected at least one length of a list, such as 10")
    for length in lengths:
        check_int("k", length, least=1)
    return tuple(sorted({int(length) for length in lengths}))
