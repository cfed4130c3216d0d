"""Of choices, lists are measured and nothing else; everything chosen is relevant, whatever the count."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import ndcg_score, roc_auc_score

from tastespace import (
    ALS,
    BPMF,
    EASE,
    DampedBias,
    ImplicitALS,
    ItemKNN,
    Popular,
    Ratings,
    compare_reports,
    evaluate,
    held_out_users,
    random_split,
)
from tastespace.errors import ConvergenceWarning, DataWarning, InvalidParameterError
from tastespace.evaluation.groups import LABELS, group_of
from tastespace.evaluation.metrics.rating import STANDARD
from tastespace.evaluation.relevance import task_of
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def choices(values="counts"):
    """What was liked of made-up tastes, once or often."""
    ratings, rng = tastes(80, 50, rng=generator(3))[0], generator(8)
    liked = ratings.take(np.flatnonzero(ratings.values > 2.5))
    n = len(liked)
    drawn = {"one-class": np.ones(n), "counts": np.ceil(rng.pareto(1.0, n) + 0.01), "stars": rng.integers(1, 6, n)}
    return replace(liked, values=drawn[values].astype(np.float32))


@pytest.fixture(scope="module")
def split():
    return random_split(choices(), 0.25, seed=0)


MODELS = {
    "implicit-als": lambda: ImplicitALS(n_factors=3, sweeps=4, seed=0),
    "ease": lambda: EASE(regularization=5.0),
    "popular": Popular,
    "item-knn": ItemKNN,
    "als": lambda: ALS(n_factors=2, regularization=0.1, seed=0),
}


@pytest.mark.parametrize("values", ["counts", "one-class"])
@pytest.mark.parametrize("name", MODELS)
def test_no_model_is_measured_by_errors(name, values):
    split = random_split(choices(values), 0.25, seed=0)
    report = evaluate(MODELS[name]().fit(split.train), split, bootstrap=20)
    assert report.kind == values
    assert report.rating == {}
    assert report.calibration is None
    assert {"ndcg@10", "recall@10", "map@10", "hit_rate@10", "auc"} <= report.ranking.keys()
    assert "ndcg_binary@10" not in report.ranking
    made = report.lists
    assert (made.relevant, made.graded, made.users_without_relevant) == (None, False, 0)
    assert made.relevant_ratings == report.n == len(split.test)
    said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert not {"rmse", "mae", "crps", "log_score", "calibration", "reliability"} & said.keys()
    assert "RMSE" not in report.table()
    assert str(report).startswith("NDCG@10 0.")
    assert f"over {report.n:,} choices of {made.users} users" in str(report)


def test_a_posterior_is_not_asked_for_distributions_of_ones(split, monkeypatch):
    """Neither are predictions made that nobody looks at."""
    with pytest.warns(ConvergenceWarning):
        model = BPMF(n_factors=2, chains=1, warmup=1, draws=5, seed=0).fit(split.train)
    monkeypatch.setattr(model, "predict", None, raising=False)
    report = evaluate(model, split, bootstrap=0)
    assert report.rating == {}
    assert report.calibration is None


@pytest.mark.parametrize("model", [ImplicitALS(n_factors=3, sweeps=4, seed=0), EASE(regularization=5.0)], ids=str)
def test_models_of_choices_are_never_measured_by_errors(model):
    """Not even on stars: their predictions are no ratings."""
    split = random_split(choices("stars"), 0.25, seed=0)
    report = evaluate(model.fit(split.train), split, bootstrap=0)
    assert report.kind == "stars"
    assert report.rating == {}
    assert report.lists.relevant == "liked"
    told = evaluate(model, split, relevant=4, bootstrap=0)
    assert (told.lists.relevant, told.lists.graded) == (4, True)
    # The same lists judged alike, whichever model made them.
    popular = evaluate(Popular().fit(split.train), split, relevant=4, bootstrap=0)
    assert popular.lists == told.lists


def test_measures_agree_with_scikit_learn_and_a_plain_loop(split):
    model = ImplicitALS(n_factors=3, sweeps=4, seed=0).fit(split.train)
    report = evaluate(model, split, k=10, bootstrap=0)
    train, test = split.train, split.test
    chosen = {}
    for user, item in zip(test.user_ids(), test.item_ids(), strict=True):
        chosen.setdefault(user, set()).add(item)
    assert set(test.item_ids()) <= set(train.item_ids())  # nothing is cold, so that definitions agree
    found = {"ndcg": [], "auc": [], "recall": [], "map": [], "hit_rate": []}
    ids = train.items.ids.to_list()
    for rows, scores in model.scores(list(chosen)):
        for user, line in zip((list(chosen)[row] for row in rows), scores, strict=True):
            is_free = line > -np.inf
            truth, free = np.array([item in chosen[user] for item in ids])[is_free], line[is_free]
            found["auc"].append(roc_auc_score(truth, free))
            found["ndcg"].append(ndcg_score([truth.astype(float)], [free], k=10))
            hits = truth[np.argsort(-free, kind="stable")][:10]
            found["recall"].append(hits.sum() / truth.sum())
            found["hit_rate"].append(hits.any())
            precisions = [hits[: place + 1].mean() for place in np.flatnonzero(hits)]
            found["map"].append(sum(precisions) / min(truth.sum(), 10))
    assert len(found["auc"]) == report.lists.users
    for name, values in found.items():
        assert report["auc" if name == "auc" else f"{name}@10"] == pytest.approx(np.mean(values), rel=1e-5), name
    assert report.sums["auc"].n_users == report.lists.users


def test_the_size_of_a_count_does_not_matter(split):
    """A thing played 1000 times is worth finding, and so is one played once."""
    model = Popular().fit(split.train)
    once = replace(split.test, values=np.ones_like(split.test.values))
    there, here = evaluate(model, split.test, bootstrap=0), evaluate(model, once, bootstrap=0)
    assert there.ranking == pytest.approx(here.ranking, nan_ok=True)
    # Unless somebody says so.
    often = evaluate(model, split.test, relevant=3, bootstrap=0)
    assert often.lists.relevant_ratings == np.count_nonzero(split.test.values >= 3)
    assert not often.lists.graded


def test_all_can_be_relevant_for_a_model_of_stars():
    """So that it can be compared with an implicit model."""
    split = random_split(choices("stars"), 0.25, seed=0)
    stars, taken = DampedBias().fit(split.train), EASE(regularization=5.0).fit(split.train)
    one, other = evaluate(stars, split, relevant="all"), evaluate(taken, split, relevant="all")
    assert (one.lists.relevant, one.lists.graded) == (None, False)
    assert "rmse" in one.rating
    found = compare_reports(one, other, resamples=100)
    assert found["ndcg@10"].first == one["ndcg@10"]
    assert "rmse" not in {row.measure for row in found}
    with pytest.raises(InvalidParameterError, match="take what users like and all ratings as relevant"):
        compare_reports(evaluate(stars, split, bootstrap=0), other)


def test_gains_of_different_kinds_are_not_compared():
    split = random_split(choices("stars"), 0.25, seed=0)
    model = Popular().fit(split.train)
    graded = evaluate(model, split, relevant=4, bootstrap=0)
    plain = evaluate(Popular().fit(split.train.with_kind("counts")), split.test, relevant=4, bootstrap=0)
    assert (graded.lists.graded, plain.lists.graded) == (True, False)
    with pytest.warns(DataWarning, match="NDCG is not compared"):
        found = compare_reports(graded, plain, resamples=10)
    assert not any(row.measure.startswith("ndcg@") for row in found)
    assert "recall@10" in {row.measure for row in found}


# Groups


def test_what_was_found_by_groups(split):
    """A choice is found if it is in the list of its user: again, slowly."""
    model = EASE(regularization=5.0).fit(split.train)
    report = evaluate(model, split, k=(5, 10), bootstrap=30)
    assert report.group_measures == ["found@5", "found@10"]
    ranking = model.recommend(split.test.users.ids, 10, uncertainty=False)
    lists = dict(zip(ranking.user_ids, ranking.item_rows, strict=True))
    counts = dict(zip(split.train.items.ids, split.train.by_item.counts, strict=True))
    hits, n = {}, {}
    for user, item in zip(split.test.user_ids(), split.test.item_ids(), strict=True):
        label = LABELS[group_of(np.array([counts[item]]))[0]]
        n[label] = n.get(label, 0) + 1
        place = lists[user].tolist().index(row) if (row := split.train.items.rows_of([item])[0]) in lists[user] else 99
        hits[label] = hits.get(label, 0) + (place < 5)
    for group in report.groups["items"]:
        assert group.n == n.get(group.label, 0)
        if group.n:
            assert group.measures["found@5"] == pytest.approx(hits[group.label] / group.n)
            assert group.measures["found@5"] <= group.measures["found@10"]
    assert sum(group.n for group in report.groups["users"]) == report.n
    assert any("found@5" in group.intervals for group in report.groups["users"])
    assert report.groups_to_polars()["measure"].unique().sort().to_list() == ["found@10", "found@5"]
    assert "Share of the relevant test ratings that lists hold, by the number" in report.table()


def test_cold_choices_are_never_found():
    train = Ratings.from_arrays([1, 1, 2, 2, 3], ["a", "b", "a", "c", "b"], [1] * 5)
    test = Ratings.from_arrays([1, 3], ["new", "a"], [1, 1])
    report = evaluate(Popular().fit(train), test, k=2)
    assert report.cold == 1
    assert report.groups["items"][0].measures == {"found@2": 0}
    assert report.lists.cold_relevant_ratings == 1


def test_new_users_with_a_history():
    split = held_out_users(choices(), 0.3, seed=1)
    model = EASE(regularization=5.0).fit(split.train)
    report = evaluate(model, split, bootstrap=0)
    assert report.lists.cold_users == 0
    assert report.cold == np.count_nonzero(split.train.items.rows_of(split.test.item_ids()) < 0)


def test_the_cold_ones_are_those_of_predict(split):
    model = Popular().fit(split.train)
    known = split.test.take(np.arange(1))
    users, items = [known.user_ids()[0], 999, 1], [known.item_ids()[0], 1, 999]
    test = Ratings.from_arrays(users, items, [1, 1, 1])
    assert evaluate(model, test, bootstrap=0).cold == model.predict(test.user_ids(), test.item_ids()).cold.sum()


# Which kind it is


def test_few_test_ratings_do_not_make_another_kind(split):
    stars = Ratings.from_arrays([1, 1, 2, 2, 3, 3], [1, 2, 1, 3, 2, 3], [1, 3, 5, 4, 2, 5])
    all_five = Ratings.from_arrays([1, 2], [3, 2], [5, 5])
    assert all_five.kind == "stars"
    report = evaluate(DampedBias().fit(stars), all_five, bootstrap=0)
    assert report.kind == "stars"
    assert "rmse" in report.rating
    answers = Ratings.from_arrays([1, 1, 2, 2, 3, 3], [1, 2, 1, 3, 2, 3], [1, 0, 1, 0, 1, 1])
    assert task_of(DampedBias().fit(answers), Ratings.from_arrays([1, 2], [3, 2], [1, 1])).kind == "yes-no"
    few = Ratings.from_arrays([1, 2, 3], [3, 2, 1], [1, 2, 2])
    assert few.kind == "stars"
    assert task_of(Popular().fit(split.train), few).kind == "counts"


def test_a_model_without_its_ratings_goes_by_their_range():
    ones = Popular().fit(Ratings.from_arrays([1, 2], [1, 1], [1, 1]))
    ones.ratings_ = ones.ratings_.masked(np.zeros(2, bool))
    assert task_of(ones, Ratings.from_arrays([1], [2], [1])).kind == "one-class"


def test_a_stated_no_is_not_relevant():
    """A model of what was taken, tested on yes and no."""
    train = Ratings.from_arrays([1, 1, 2, 2, 3], ["a", "b", "a", "c", "b"], [1] * 5)
    test = Ratings.from_arrays([1, 3, 3], ["c", "a", "c"], [0, 1, 0])
    report = evaluate(EASE(regularization=1.0).fit(train), test, k=1, bootstrap=0)
    assert (report.kind, report.rating) == ("yes-no", {})
    assert (report.lists.relevant, report.lists.users, report.lists.users_without_relevant) == (1, 1, 1)


# Bad input


def test_values_that_no_choice_has():
    train = Ratings.from_arrays([1, 1, 2, 2, 3], ["a", "b", "a", "c", "b"], [1, 5, 2, 3, 4]).with_kind("counts")
    test = Ratings.from_arrays([1, 3], ["c", "a"], [-2, 3])
    model = EASE(regularization=1.0).fit(train)
    with pytest.raises(InvalidParameterError, match="test values go down to -2, but implicit feedback is above 0"):
        evaluate(model, test)
    with pytest.raises(InvalidParameterError, match="counts ratings do not say what was liked"):
        evaluate(model, test, relevant="liked")
    assert evaluate(model, test, relevant=1, bootstrap=0).lists.users == 1
    assert evaluate(model, test, relevant="all", bootstrap=0).lists.users == 2


def test_nothing_to_measure(split):
    for model, what in ((Popular(), "counts ratings are"), (EASE(), "an implicit model is")):
        with pytest.raises(InvalidParameterError, match=f"{what} measured by lists"):
            evaluate(model.fit(split.train), split, ranking=False)
    bare = Popular().fit(split.train)
    bare.ratings_ = bare.ratings_.masked(np.zeros(len(split.train), bool)).with_kind("counts")
    with pytest.warns(DataWarning), pytest.raises(InvalidParameterError, match="a model saved with its ratings"):
        evaluate(bare, split.test)


def test_errors_are_measured_if_asked_for(split):
    report = evaluate(Popular().fit(split.train), split, STANDARD, bootstrap=0)
    assert list(report.rating) == ["rmse", "mae"]
    assert report.calibration is None
    assert report.group_measures == ["rmse", "mae"]


@pytest.mark.parametrize("relevant", ["everything", True, np.nan, [4]], ids=str)
def test_what_is_no_threshold(split, relevant):
    with pytest.raises(InvalidParameterError, match='expected a rating, "liked", "all", or None'):
        evaluate(Popular().fit(split.train), split, relevant=relevant)


@pytest.mark.parametrize("declared", [None, "stars"])
def test_ones_have_no_errors_whatever_they_are_tested_on(split, declared):
    """Few counts beside ones look like stars."""
    model = Popular().fit(replace(split.train, values=np.ones_like(split.train.values)))
    test = replace(split.test, values=(np.arange(len(split.test)) % 3 + 1).astype(np.float32))
    if declared is not None:
        test = test.with_kind(declared)
    assert test.kind == "stars"
    report = evaluate(model, test, bootstrap=0, groups=False)
    assert "rmse" not in report.to_dict()
    assert task_of(model, test).is_of_lists
