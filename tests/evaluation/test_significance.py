"""Two models on the same test: luck is called luck, and a difference is found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom, kstest

from tastespace import ALS, DampedBias, Popular, Ratings, Report, compare_reports, evaluate, find_best, random_split
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.resampling import Sums
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

TEST = Ratings.from_arrays([1], [1], [1.0])


def report_of(sums: Sums, name: str = "rmse") -> Report:
    return Report(rating={name: sums.value()}, n=1, cold=0, sums={name: sums}, test=TEST)


def test_three_users_by_hand():
    """Values 5, 3, 2 against 4, 1, 2: differences 1, 2, 0, their mean 1.

    Of the four different ways to give signs to 1 and 2, two have a sum of at least 3 in absolute value.
    """
    one, other = (report_of(Sums.of_values(np.array(values))) for values in ([5.0, 3, 2], [4.0, 1, 2]))
    found = compare_reports(one, other, resamples=20_000)["rmse"]
    assert (found.first, found.second, found.difference) == (pytest.approx(10 / 3), pytest.approx(7 / 3), 1)
    assert found.p_value == pytest.approx(0.5, abs=0.02)
    assert (found.interval.low, found.interval.high) == (pytest.approx(0), pytest.approx(2))


def test_the_root_is_taken_of_the_whole_before_the_difference():
    """Three ratings: squared errors 4, 4, 1 against 1, 1, 1."""
    counts = np.array([2.0, 1.0])
    one = report_of(Sums(np.array([8.0, 1.0]), counts, is_root=True))
    other = report_of(Sums(np.array([2.0, 1.0]), counts, is_root=True))
    found = compare_reports(one, other, resamples=2000)["rmse"]
    assert found.difference == pytest.approx(np.sqrt(3) - 1)
    # Only the first user's sign matters, and turning it round gives the same with the other sign.
    assert found.p_value == 1


def test_a_model_is_no_better_than_itself():
    one = report_of(Sums.of_values(generator(0).random(30)))
    found = compare_reports(one, one, resamples=500)["rmse"]
    assert (found.difference, found.p_value) == (0, 1)
    assert tuple(found.interval) == (0, 0)


def test_swapping_the_models_turns_the_sign():
    rng = generator(1)
    one, other = (report_of(Sums.of_values(rng.random(30))) for _ in range(2))
    there, back = compare_reports(one, other)["rmse"], compare_reports(other, one)["rmse"]
    assert there.difference == -back.difference
    assert there.p_value == back.p_value
    assert there.interval == pytest.approx((-back.interval.high, -back.interval.low))


def test_the_least_p_value_says_that_it_is():
    one = report_of(Sums.of_values(np.full(40, 1.0)))
    other = report_of(Sums.of_values(np.full(40, 2.0)))
    found = compare_reports(one, other)
    assert found["rmse"].p_value == pytest.approx(1 / 10_001)
    assert str(found["rmse"]).endswith("p ≤ 0.0001")
    assert str(found).endswith("  ≤ 0.0001")
    assert str(compare_reports(one, other, resamples=99)).endswith("  ≤ 0.0100")
    assert str(compare_reports(one, one, resamples=99)["rmse"]).endswith("p = 1.0000")
    unsure = compare_reports(*(report_of(Sums.of_values(np.array(values))) for values in ([5.0, 3, 2], [4.0, 1, 2])))
    assert unsure.table().rows[0][-1] == f"{unsure['rmse'].p_value:.4f}"


def p_values(gain: float, n: int) -> np.ndarray:
    """Of n pairs of models with errors of 60 users, the second's squared errors being larger by this factor."""
    rng, found = generator(21), []
    for trial in range(n):
        hardness = rng.exponential(size=60)
        counts = rng.integers(1, 30, 60).astype(float)
        errors = [hardness * counts * rng.chisquare(4, 60) * factor for factor in (1.0, 1.0 + gain)]
        one, other = (report_of(Sums(error, counts, is_root=True)) for error in errors)
        found.append(compare_reports(one, other, resamples=200, seed=trial)["rmse"].p_value)
    return np.array(found)


@pytest.mark.statistical
def test_p_values_are_uniform_if_there_is_no_difference():
    """False alarm of this test: one in a million for each of the two assertions."""
    found = p_values(0.0, 500)
    assert kstest(found, "uniform").pvalue > 1e-6
    assert np.count_nonzero(found <= 0.05) <= binom.isf(1e-6, len(found), 0.055)  # steps of 1 / 201


@pytest.mark.statistical
def test_a_difference_is_found():
    assert np.mean(p_values(1.0, 100) <= 0.05) > 0.8
    assert np.mean(p_values(3.0, 50) <= 0.05) > 0.95


@pytest.mark.statistical
def test_intervals_of_the_difference_contain_the_truth():
    """Pairs of correlated values whose means differ by 0.1; 90 % to 97 % are taken for right."""
    rng, n, hits = generator(22), 400, 0
    for trial in range(n):
        common = rng.standard_normal(100)
        one, other = common + 0.1 + 0.3 * rng.standard_normal(100), common + 0.3 * rng.standard_normal(100)
        reports = (report_of(Sums.of_values(values)) for values in (one, other))
        low, high = compare_reports(*reports, resamples=300, seed=trial)["rmse"].interval
        hits += low <= 0.1 <= high
    assert binom.ppf(5e-7, n, 0.90) <= hits <= binom.isf(5e-7, n, 0.97), hits / n


# Whole reports


@pytest.fixture(scope="module")
def reports():
    split = random_split(tastes(150, 60, rng=generator(6))[0], 0.3, seed=0)
    models = (ALS(n_factors=2, regularization=0.1, weighting="plain", seed=0), DampedBias())
    return [evaluate(model.fit(split.train), split, k=(3, 5)) for model in models]


def test_all_shared_measures_are_compared(reports):
    found = compare_reports(*reports)
    names = [row.measure for row in found]
    assert {"rmse", "mae", "ndcg@3", "ndcg@5", "auc", "popularity_lift@5"} <= set(names)
    assert not any(name.startswith(("coverage", "gini")) for name in names)
    assert found["mae"].difference == reports[0]["mae"] - reports[1]["mae"] < 0
    assert found["mae"].p_value < 0.001
    assert found["mae"].interval.high < 0
    assert found["mae"].users == reports[0].test.n_users
    assert len(found) == len(names)


def test_as_table_frame_and_json(reports):
    found = compare_reports(*reports, resamples=100)
    text = str(found.table("als", "bias"))
    assert text.startswith("als less bias, user by user")
    assert f"{found['rmse'].difference:+.4f}" in text
    assert str(found).count("\n") == len(found) + 1
    row = found["mae"]
    assert str(row).startswith(f"MAE {row.first:.4f} against {row.second:.4f}: {row.difference:+.4f} (")
    assert found.to_polars().columns == ["measure", "first", "second", "difference", "low", "high", "p_value", "users"]
    assert json.loads(json.dumps(found.to_dict()))["rmse"]["p_value"] == found["rmse"].p_value


def test_what_is_not_compared_is_named(reports):
    with pytest.raises(InvalidParameterError, match="no measure 'gini@5' here; expected one of rmse, mae"):
        compare_reports(*reports, resamples=10)["gini@5"]


def test_the_same_ratings_in_another_order_are_the_same_test(reports):
    ratings = tastes(150, 60, rng=generator(6))[0]
    split = random_split(ratings, 0.3, seed=0)
    model = DampedBias().fit(split.train)
    turned = evaluate(model, split.test.take(np.arange(len(split.test))[::-1]), k=(3, 5))
    assert compare_reports(reports[0], turned)["rmse"].p_value == pytest.approx(
        compare_reports(*reports)["rmse"].p_value
    )


def test_different_tests_are_refused(reports):
    split = random_split(tastes(150, 60, rng=generator(6))[0], 0.3, seed=1)
    other = evaluate(DampedBias().fit(split.train), split)
    with pytest.raises(InvalidParameterError, match="different test ratings"):
        compare_reports(reports[0], other)
    with pytest.raises(InvalidParameterError, match="no test ratings"):
        compare_reports(reports[0], Report(rating={"rmse": 1.0}, n=1, cold=0))


def test_different_ideas_of_what_is_relevant_are_refused():
    train, test = tastes(40, 30, rng=generator(6))[0], Ratings.from_arrays([900, 901], [1, 2], [3.0, 4.0])
    model = Popular().fit(train)
    one, other = evaluate(model, test, relevant=3), evaluate(model, test, relevant=3.5)
    with pytest.raises(InvalidParameterError, match=r"ratings from 3 on and ratings from 3.5 on as relevant"):
        compare_reports(one, other)
    assert compare_reports(one, evaluate(model, test, ranking=False))["rmse"].p_value == 1


def test_bad_options(reports):
    with pytest.raises(InvalidParameterError, match="resamples is 0"):
        compare_reports(*reports, resamples=0)
    with pytest.raises(InvalidParameterError, match="compare_reports got DampedBias; expected two reports"):
        compare_reports(reports[0], DampedBias())
    with pytest.raises(InvalidParameterError, match="seed is -1"):
        compare_reports(*reports, seed=-1)


# Which is best for what


def judged(**values):
    """Reports on both purposes: arrays of squared errors, and of NDCG, one a user."""
    return {
        name: Report(
            rating={"rmse": float(np.sqrt(errors.mean()))},
            ranking={"ndcg@10": float(gains.mean())},
            n=1,
            cold=0,
            sums={"rmse": Sums(errors, np.ones(len(errors)), is_root=True), "ndcg@10": Sums.of_values(gains)},
            test=TEST,
        )
        for name, (errors, gains) in values.items()
    }


def test_one_model_for_ratings_and_another_for_lists():
    rng = generator(0)
    errors, gains = rng.random(400) + 0.5, rng.random(400) / 2
    noise = rng.standard_normal(400)
    noise -= noise.mean()
    reports = judged(
        exact=(errors, gains),
        level=(errors + 0.02 * noise + 0.0005, gains + 0.3),
        popular=(errors + 0.5 + 0.1 * noise, gains + 0.1 * rng.random(400)),
        best=(errors + 0.3, gains + 0.3 + 0.01 * (noise > 0)),
    )
    ratings, lists = find_best(reports, k=10)
    assert (ratings.purpose, ratings.measure, ratings.best) == ("ratings", "rmse", "exact")
    assert ratings.level == ["level"]
    assert list(ratings.behind) == ["level", "best", "popular"]
    assert (lists.purpose, lists.measure, lists.best) == ("lists", "ndcg@10", "best")
    assert lists.value == reports["best"]["ndcg@10"]
    assert lists.level == []  # By next to nothing, but for every user.
    expected = compare_reports(reports["best"], reports["popular"], resamples=1000)["ndcg@10"]
    assert lists.behind["popular"].difference == pytest.approx(expected.difference)
    assert lists.behind["popular"].interval == pytest.approx(expected.interval)


def test_what_is_best_in_words():
    rng = generator(0)
    gains = rng.random(400) / 2
    errors = np.ones(400)
    reports = judged(
        a=(errors, gains + 0.2), b=(errors, gains + 0.1), c=(errors, gains + 0.05), popular=(errors, gains)
    )
    ratings, lists = find_best(reports, k=10)
    # Equal ones are within noise of each other.
    assert str(ratings) == "best for ratings: a (RMSE 1.0000); within noise of it: b, c, popular"
    behind = "{} is behind by {:.4f} (+{:.4f}…+{:.4f})".format
    said = f"best for lists: a (NDCG@10 {gains.mean() + 0.2:.4f}); {behind('b', 0.1, 0.1, 0.1)}"
    assert str(lists) == f"{said}; {behind('popular', 0.2, 0.2, 0.2)}"
    said = lists.to_dict()
    assert (said["for"], said["best"], said["level"], said["words"]) == ("lists", "a", [], str(lists))
    assert said["behind"]["c"]["difference"] == pytest.approx(0.15)
    assert json.loads(json.dumps(said)) == said
    # Without resamples nothing is known of noise, but equal is equal.
    assert find_best(reports, k=10, resamples=0)[0].level == ["b", "c", "popular"]
    _, plain = find_best(reports, k=10, resamples=0)
    assert plain.level == []
    assert "; b is behind by 0.1000; popular is behind by 0.2000" in str(plain)


def test_what_a_single_model_has_is_not_judged():
    reports = judged(a=(np.ones(5), np.ones(5)), popular=(np.ones(5), np.zeros(5)))
    reports["popular"] = report_of(reports["popular"].sums["ndcg@10"], "ndcg@10")
    (verdict,) = find_best(reports, k=10)
    assert (verdict.purpose, verdict.best) == ("lists", "a")
    assert find_best({"a": reports["a"]}, k=10) == find_best({}) == ()


def test_reports_that_cannot_be_judged_together():
    split = random_split(tastes(40, 30, rng=generator(3))[0], 0.3, seed=0)
    model = DampedBias().fit(split.train)
    with pytest.raises(InvalidParameterError, match="reports is list; expected {name: report}"):
        find_best([evaluate(model, split)])
    with pytest.raises(InvalidParameterError, match="reports has int for 'a'; expected reports that evaluate has made"):
        find_best({"a": 3})
    other = evaluate(model, random_split(split.test, 0.3, seed=0).test, bootstrap=0)
    with pytest.raises(InvalidParameterError, match="on different test ratings"):
        find_best({"a": evaluate(model, split), "b": other})
    some = evaluate(model, split, max_users=10)
    for reports in (
        {"a": evaluate(model, split), "b": some},
        {"a": some, "b": evaluate(model, split, max_users=10, seed=1)},
    ):
        with pytest.raises(
            InvalidParameterError, match="lists of different users.*expected the same max_users and seed"
        ):
            find_best(reports)
