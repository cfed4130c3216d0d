"""Lists of several models side by side, beside what is popular, and of some users only."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tastespace import ALS, DampedBias, Popular, evaluate, find_best, random_split
from tastespace.errors import DataWarning, InvalidParameterError
from tastespace.evaluation.side_by_side import evaluate_popular, found_table, lists_table
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def split():
    return random_split(tastes(120, 50, rng=generator(5))[0], 0.3, seed=0)


@pytest.fixture(scope="module")
def model(split):
    return ALS(n_factors=2, regularization=0.1, seed=0).fit(split.train)


def test_popular_is_measured_as_the_model_was(split, model):
    report = evaluate(model, split, k=(3, 7), relevant=4, max_users=50, seed=2)
    popular = evaluate_popular(model, split, report, max_users=50, seed=2)
    alone = evaluate(Popular().fit(split.train), split, k=(3, 7), relevant=4, max_users=50, seed=2)
    assert popular.ranking == alone.ranking
    assert popular.lists == report.lists
    assert not popular.rating  # Its predicted ratings are those of the mean, and nothing to compare with.
    assert_array_equal(popular.sums["ndcg@3"].counts, report.sums["ndcg@3"].counts)


def test_where_there_is_nothing_to_be_beside(split, model):
    assert evaluate_popular(model, split, evaluate(model, split, ranking=False)) is None
    popular = Popular().fit(split.train)
    assert evaluate_popular(popular, split, evaluate(popular, split)) is None
    bare = {"als": evaluate(model, split, ranking=False)}
    assert lists_table(bare) is found_table(bare) is None


def test_tables(split, model):
    reports = {"als": evaluate(model, split, k=(3, 5, 7)), "bare": evaluate(model, split, ranking=False)}
    reports["popular"] = evaluate_popular(model, split, reports["als"])
    table = lists_table(reports)
    assert table.columns == ("model", "NDCG@5", "recall@7", "coverage@5", "popularity lift@5")
    assert [row[0] for row in table.rows] == ["als", "popular"]
    for row in table.rows:
        figures = [reports[row[0]][name] for name in ("recall@7", "coverage@5", "popularity_lift@5")]
        assert row[2:] == tuple(f"{figure:.4f}" for figure in figures)
        assert row[1].startswith(f"{reports[row[0]]['ndcg@5']:.4f}")
    groups = found_table(reports, k=3)
    assert groups.columns[-2:] == ("als", "popular")
    filled = [group for group in reports["als"].found["items"] if group.n]
    assert [row[-2] for row in groups.rows] == [f"{group.measures['found@3']:.4f}" for group in filled]
    behind = lists_table(reports, behind={"als": "best"})
    assert [row[2] for row in behind.rows] == ["best", "–"]


def test_nobody_has_a_list(split, model):
    """Nothing in the test was liked."""
    disliked = split.test.take(split.test.values <= split.train.values.min() + 0.5)
    reports = {"als": evaluate(model, disliked, bootstrap=0)}
    reports["popular"] = evaluate_popular(model, disliked, reports["als"])
    assert reports["als"].lists.users == 0
    assert lists_table(reports) is found_table(reports) is None
    assert find_best(reports) == ()


def test_a_warning_about_the_test_comes_once(split, model):
    with pytest.warns(DataWarning, match="so scores are optimistic"):
        report = evaluate(model, split.train, bootstrap=0)
    assert evaluate_popular(model, split.train, report) is not None  # Warnings are errors.


# Some users


def test_lists_of_some_users_are_those_that_all_would_have(split, model):
    full, some = evaluate(model, split), evaluate(model, split, max_users=40, seed=3)
    drawn = np.flatnonzero(some.sums["auc"].counts)
    assert len(drawn) == some.lists.users == 40
    assert some.lists.users_not_drawn == full.lists.users - 40
    assert some.lists.users_without_relevant == full.lists.users_without_relevant
    for name in ("ndcg@10", "recall@20", "auc", "popularity_lift@10"):
        assert_array_equal(some.sums[name].totals[drawn], full.sums[name].totals[drawn])
        assert some[name] == pytest.approx(
            full.sums[name].totals[drawn].sum() / full.sums[name].counts[drawn].sum(), rel=1e-12
        )
    assert some["rmse"] == full["rmse"]  # Predictions are of everyone.
    assert some.lists.relevant_ratings < full.lists.relevant_ratings
    for side in ("users", "items"):
        assert sum(group.n for group in some.found[side]) == some.lists.relevant_ratings
    found = sum(group.n * group.measures["found@10"] for group in some.found["users"] if group.n)
    assert found == pytest.approx(10 * some["precision@10"] * 40)
    assert "Lists of 40 users drawn at random from" in some.lists_table().title


def test_the_same_users_for_every_model_and_others_for_another_seed(split, model):
    counts = [
        evaluate(one, split, max_users=40, seed=seed, bootstrap=0).sums["auc"].counts
        for one, seed in ((model, 0), (DampedBias().fit(split.train), 0), (model, 1))
    ]
    assert_array_equal(counts[0], counts[1])
    assert (counts[0] != counts[2]).any()


def test_as_many_users_as_there_are(split, model):
    full, capped = evaluate(model, split), evaluate(model, split, max_users=10_000)
    assert capped.to_dict() == full.to_dict()
    for wrong in (0, 2.5, True):
        with pytest.raises(InvalidParameterError, match="max_users is"):
            evaluate(model, split, max_users=wrong)
