"""One question, one answer: how good is this recommender on these ratings?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split
from tastespace.errors import DataWarning, InvalidParameterError, warn
from tastespace.evaluation.assessing import Assessment
from tastespace.evaluation.groups import Grouping
from tastespace.evaluation.judging import Matched, threshold_of
from tastespace.evaluation.lists import ListMetric
from tastespace.evaluation.names import check_measures
from tastespace.evaluation.predicted import STANDARD, Loss, Metric, Predicted
from tastespace.evaluation.predicting import Answers, predict_all
from tastespace.evaluation.ranked import ListMaker, ListMeasures, Wanted, measure_lists
from tastespace.evaluation.report import Report
from tastespace.evaluation.resampling import intervals
from tastespace.models import Recommender
from tastespace.models.asking import Asked, asked_users
from tastespace.models.parameters import whole_number
from tastespace.progress import Observer, silent
from tastespace.randomness import resolve

DEFAULT_K = (5, 10, 20)


def evaluate(
    recommender: Recommender,
    test: Ratings | Split,
    metrics: Mapping[str, Metric] = STANDARD,
    *,
    k: int | Iterable[int] = DEFAULT_K,
    relevant: float | None = None,
    ranking: bool | Mapping[str, ListMetric] = True,
    lists: ListMaker | None = None,
    groups: bool = True,
    calibration: bool = True,
    bootstrap: int = 1000,
    seed: int = 0,
    observer: Observer = silent,
) -> Report:
    """Measure a fitted recommender on test ratings, or on the test part of a split.

    `metrics` are measures of predicted ratings, clipped to the training range; cold pairs count like any other.
    The history of a split is what its strangers are folded in by.

    `ranking` measures lists of the lengths `k`, out of all items that a user is not known to have rated.
    A test rating of at least `relevant` is relevant; by default, of at least the mean of the training ratings.
    Users without one are left out and counted. Relevant items that the model does not know can never be found,
    and count. A mapping adds measures of your own: functions of `Lists` that give one value a user. `lists` is
    how lists are made instead of by `recommend`: a function of user ids, length and history that gives a `Ranking`
    of these users, in this order.

    `groups` gives the errors by the number of training ratings, too. `calibration` asks whether a model that says how
    sure it is (`Prediction.is_uncertain`) is as sure as it should be, and adds the measures `crps` and `log_score`;
    for a model that predicts a point it changes nothing. `bootstrap` is the number of resamples for the confidence
    intervals, 0 for none; `seed` makes them, and the randomised part of the calibration, the same every time.
    """
    if not isinstance(recommender, Recommender):
        raise InvalidParameterError(
            f"evaluate got {type(recommender).__name__} first; expected a fitted recommender, and then what to test on"
        )
    recommender.require_fitted()
    ks = _lengths(k)
    check_measures(metrics, ranking)
    whole_number("bootstrap", bootstrap, least=0)
    resolve(seed)
    part, history = _parts(recommender, test)
    trained = recommender.ratings_
    if not len(trained) and (ranking is not False or groups):
        warn("the model was saved without its ratings, which measures of lists and groups need: there are none")
        ranking, groups = False, False
    # In the order of the ids, whatever the order of the file: so that reports can be compared user by user.
    asked = asked_users(trained, part.users.ids.sort(), history, recommender.history_range)
    matched = Matched.of(trained, part, asked)
    listed = ListMeasures()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # What is to be said of the history has been said just now.
        answers = predict_all(
            *(recommender, part, matched.users, history), seed=seed if calibration else None, observer=observer
        )
        if ranking is not False:
            wanted = Wanted(
                ks=ks,
                threshold=threshold_of(relevant, recommender.rating_range_, trained, part),
                more={} if ranking is True else ranking,
                make=lists
                or (lambda user_ids, n, since: recommender.recommend(user_ids, n, history=since, uncertainty=False)),
            )
            listed = measure_lists(recommender, asked, matched, history, wanted, observer)
    predicted = Predicted.of(matched.users, len(asked.users), answers.mean, part.values, metrics, _scores(answers))
    seen = int(np.count_nonzero(matched.is_seen))
    if seen:
        warn(f"{seen:,} of {len(part):,} test ratings are of pairs that the model was fitted on: they are no test")
    groupings = _groupings(trained, part, asked, matched) if groups else []
    assessment = _assessment(answers, predicted, groupings)
    sums = predicted.sums() | listed.sums
    others = {name: measure for grouping in groupings for name, measure in grouping.sums(predicted).items()}
    if assessment is not None:
        others |= assessment.sums()
    found = intervals(sums | others, bootstrap, seed, observer)
    return Report(
        rating=predicted.values(),
        n=len(part),
        cold=int(np.count_nonzero(answers.cold)),
        seen=seen,
        ranking=listed.values,
        intervals={name: found[name] for name in sums if name in found} | (listed.intervals if bootstrap else {}),
        groups={grouping.side: grouping.groups(predicted, found) for grouping in groupings},
        lists=listed.made,
        calibration=None if assessment is None else assessment.calibration(found),
        sums=sums,
        test=part,
    )


def _scores(answers: Answers) -> dict[str, Loss]:
    """Measures of what the model said besides the predicted ratings, if anything."""
    if answers.outcomes is None:
        return {}
    return {"crps": Loss(answers.outcomes.crps), "log_score": Loss(answers.outcomes.log_score)}


def _assessment(answers: Answers, predicted: Predicted, groupings: list[Grouping]) -> Assessment | None:
    if answers.outcomes is None:
        return None
    return Assessment.of(
        answers.outcomes, predicted.users, predicted.n_users, predicted.predicted, predicted.true, groupings
    )


def _parts(recommender: Recommender, test: Ratings | Split) -> tuple[Ratings, Ratings | None]:
    """The test ratings, and the history that the model can use."""
    if isinstance(test, Split):
        return test.test, _usable(recommender, test.history)
    if not isinstance(test, Ratings):
        raise InvalidParameterError(f"evaluate got {type(test).__name__}; expected Ratings or a Split to test on")
    return test, None


def _groupings(trained: Ratings, test: Ratings, asked: Asked, matched: Matched) -> list[Grouping]:
    """By users, of whom a history counts like training ratings, and by items."""
    item_counts = np.append(trained.by_item.counts, 0)  # row -1, a cold item, has none
    return [
        Grouping.by_counts("users", asked.seen.counts[matched.users], matched.users),
        Grouping.by_counts("items", item_counts[matched.items], test.item_rows),
    ]


def _lengths(k: int | Iterable[int]) -> tuple[int, ...]:
    """The lengths of lists asked for, each once, ascending."""
    lengths = list(k) if isinstance(k, Iterable) else [k]
    if not lengths:
        raise InvalidParameterError("k is empty; expected at least one length of a list, such as 10")
    for length in lengths:
        whole_number("k", length, least=1)
    return tuple(sorted({int(length) for length in lengths}))


def _usable(recommender: Recommender, history: Ratings | None) -> Ratings | None:
    """The part of a split's history that the model knows the items of: that some are new is no reason to warn."""
    if history is None:
        return None
    known = recommender.ratings_.items.rows_of(history.items.ids)[history.item_rows] >= 0
    return history.take(np.flatnonzero(known)) if known.any() else None
