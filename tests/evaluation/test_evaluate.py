"""Lists are judged as the rules say: all unseen items, cold things counted, nobody dropped without being counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from evaluation.short import short_model
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace import ALS, DampedBias, GlobalMean, Popular, Ratings, Split, evaluate, held_out_users, random_split
from tastespace.errors import DataWarning, InvalidParameterError, NotFittedError
from tastespace.evaluation import lists
from tastespace.evaluation.lists import LIST_METRICS
from tastespace.models import MODELS
from tastespace.models.base import posterior
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

# Six items, of which p1 was rated most often, then p2 ... p5, p6; the model recommends by that. Mean rating 3.
TRAIN = Ratings.from_arrays(
    [10, 11, 12, 13, 14, 15, 10, 11, 12, 13, 14, 10, 11, 12, 13, 10, 11, 12, 10, 11, 1, 2],
    ["p1"] * 6 + ["p2"] * 5 + ["p3"] * 4 + ["p4"] * 3 + ["p5"] * 2 + ["p6", "p1"],
    [1, 5] * 11,
)


def evaluated(test, **options):
    model = Popular().fit(TRAIN)
    return evaluate(model, Ratings.from_arrays(*zip(*test, strict=True)), **{"k": (1, 2, 3)} | options)


def test_one_user_by_hand():
    """User 2 has rated p1: the list is p2, p3, p4 ... Relevant (at least 3) are p3, worth 4, and p4, worth 2."""
    report = evaluated([(2, "p2", 1.0), (2, "p3", 5.0), (2, "p4", 3.0)], relevant=3)
    assert report.lists.relevant == 3.0
    assert [report[f"precision@{k}"] for k in (1, 2, 3)] == [0, 1 / 2, 2 / 3]
    assert [report[f"recall@{k}"] for k in (1, 2, 3)] == [0, 1 / 2, 1]
    assert [report[f"hit_rate@{k}"] for k in (1, 2, 3)] == [0, 1, 1]
    assert [report[f"mrr@{k}"] for k in (1, 2, 3)] == [0, 1 / 2, 1 / 2]
    assert [report[f"map@{k}"] for k in (1, 2, 3)] == pytest.approx([0, 1 / 4, (1 / 2 + 2 / 3) / 2])
    discounts = 1 / np.log2([2, 3, 4])
    graded, binary = np.array([0, 4, 2]) @ discounts, np.array([0, 1, 1]) @ discounts
    assert report["ndcg@3"] == pytest.approx(graded / (np.array([4, 2, 0]) @ discounts))
    assert report["ndcg_binary@3"] == pytest.approx(binary / (np.array([1, 1, 0]) @ discounts))
    assert report["ndcg@1"] == 0
    # Unseen are p2 ... p6. p3 and p4 are above p5 and p6, below p2: four of six pairs.
    assert report["auc"] == pytest.approx(4 / 6)
    # Beyond being right: 8 training users, of whom 5, 4, 3 rated p2, p3, p4; the user's own profile is p1, with 7.
    assert report["popularity@2"] == pytest.approx((5 / 8 + 4 / 8) / 2)
    assert report["popularity_lift@2"] == pytest.approx((5 / 8 + 4 / 8) / 2 / (7 / 8))
    assert report["novelty@2"] == pytest.approx(-(np.log2(5 / 8) + np.log2(4 / 8)) / 2)
    assert report["diversity@2"] == pytest.approx(1 - 4 / np.sqrt(5 * 4))
    assert report["coverage@2"] == 2 / 6
    assert report["gini@2"] == pytest.approx(4 / 6)


def test_what_is_liked_by_hand():
    """User 2 rated p1 with 5, and all ratings average 3: liked is what has (5 + 5 * 3) / 6 = 3.33 or more, worth 1.

    User 1 rated p6 with 1: 2.67 or more. Somebody new: the mean of all, 3.
    """
    test = [(2, "p2", 3.0), (2, "p3", 3.5), (1, "p1", 3.0), (1, "p2", 2.5), (9, "p1", 2.9), (9, "p2", 3.0)]
    report = evaluated(test, k=2)
    assert (report.lists.relevant, report.lists.graded) == ("liked", False)
    assert report.relevance.liked_from == pytest.approx([(1 + 15) / 6, 20 / 6, 3])
    assert report.lists.relevant_ratings == 3  # one each
    second = 1 / np.log2(3)
    assert report["ndcg@2"] == pytest.approx((second + 1 + second) / 3)
    # By the mean of all, p2 would be relevant for user 2: another measure.
    assert evaluated(test, k=2, relevant=3).lists.relevant_ratings == 4
    # What was relevant in one report can be so in another.
    assert evaluated(test, k=2, relevant=report.relevance).ranking == report.ranking
    # By how popular items are: p1 was rated by 7, p2 by 5, p3 by 4; all three are in lists of two.
    found = {group.label: group for group in report.found["items"]}
    assert (found["6-10"].n, found["1-5"].n) == (1, 2)
    assert found["1-5"].measures["found@2"] == 1
    assert "Share of the relevant test ratings that lists hold" in report.table()


def test_a_gain_below_the_relevant_counts_in_the_graded_ndcg_only():
    """p2 with 2 stars is not relevant, but worth 1."""
    report = evaluated([(2, "p2", 2.0), (2, "p5", 5.0)], k=1, relevant=3)
    assert report["precision@1"] == 0
    assert report["ndcg@1"] == pytest.approx(1 / 4)
    assert report["ndcg_binary@1"] == 0


def test_users_without_relevant_items_are_left_out_and_counted():
    alone = evaluated([(2, "p2", 5.0)])
    both = evaluated([(2, "p2", 5.0), (1, "p1", 1.0)])
    assert both.lists.users == 1
    assert both.lists.users_without_relevant == 1
    assert both.ranking == pytest.approx(alone.ranking, nan_ok=True)
    assert "left out: 1 user without" in both.table()


def test_no_user_with_a_relevant_item_leaves_the_measures_undefined():
    report = evaluated([(2, "p2", 1.0)])
    assert report.lists.users == 0
    assert all(np.isnan(value) for value in report.ranking.values())
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["ndcg@1"] is None
    assert "–" in report.table()


def test_cold_items_are_never_found_and_stay_in_the_denominators():
    without = evaluated([(2, "p2", 5.0)])
    cold = evaluated([(2, "p2", 5.0), (2, "new", 5.0)])
    assert (without["recall@3"], cold["recall@3"]) == (1, 1 / 2)
    assert (without["precision@1"], cold["precision@1"]) == (1, 1)
    assert (without["map@3"], cold["map@3"]) == (1, 1 / 2)
    assert cold["ndcg@3"] == pytest.approx(1 / (1 + 1 / np.log2(3)))
    assert (without["auc"], cold["auc"]) == (1, 1 / 2)
    assert (cold.lists.relevant_ratings, cold.lists.cold_relevant_ratings, cold.cold) == (2, 1, 1)
    only = evaluated([(2, "new", 5.0)])
    assert (only.lists.users, only["recall@3"], only["ndcg@3"], only["auc"]) == (1, 0, 0, 0)


def test_cold_users_get_the_default_list_and_count():
    report = evaluated([("nobody", "p1", 5.0)])
    assert (report["precision@1"], report["auc"]) == (1, 1)
    assert (report.lists.users, report.lists.cold_users) == (1, 1)
    assert np.isnan(report["popularity_lift@1"])  # no profile to compare with
    assert report.sums["popularity_lift@1"].n_users == 0


def test_lists_longer_than_the_catalogue():
    """Six items, one of them seen: five places are filled, and divided by ten."""
    report = evaluated([(2, "p6", 5.0)], k=10)
    assert (report["precision@10"], report["recall@10"], report["mrr@10"]) == (1 / 10, 1, 1 / 5)
    assert report["coverage@10"] == pytest.approx(5 / 6)


def test_what_was_rated_in_training_is_no_candidate_and_no_test():
    with pytest.warns(DataWarning, match="1 of 2 test ratings are of pairs the model was fitted on"):
        report = evaluated([(2, "p1", 5.0), (2, "p2", 5.0)])
    assert report.seen == report.to_dict()["seen"] == 1
    assert (report["precision@1"], report["recall@1"], report.lists.relevant_ratings) == (1, 1, 1)


def test_what_is_relevant_can_be_said():
    test = [(2, "p2", 3.0), (2, "p3", 5.0)]
    assert evaluated(test, k=1)["recall@1"] == 0
    assert evaluated(test, k=1, relevant=3)["recall@1"] == 1 / 2
    assert evaluated(test, k=1, relevant=4)["recall@1"] == 0
    assert evaluated(test, k=1, relevant=4).lists.relevant == 4
    # Ratings are in single precision; what is typed is not.
    assert evaluated([(2, "p2", 3.3)], k=1, relevant=3.3)["recall@1"] == 1


def test_ratings_that_are_all_alike_are_all_relevant():
    """The mean of many equal numbers may miss them by a rounding error."""
    train = Ratings.from_arrays(np.repeat(np.arange(1000), 3), np.tile([1, 2, 3], 1000), np.full(3000, 0.1))
    report = evaluate(Popular().fit(train), Ratings.from_arrays([5000], [1], [0.1]), k=1)
    assert (report.lists.users, report["precision@1"], report["ndcg@1"]) == (1, 1, 1)


def test_the_history_of_new_users_is_not_recommended_to_them():
    split = Split(
        TRAIN, Ratings.from_arrays([99], ["p3"], [5.0]), Ratings.from_arrays([99, 99], ["p1", "p2"], [5.0, 5.0])
    )
    report = evaluate(Popular().fit(TRAIN), split, k=1)
    assert (report["precision@1"], report.lists.cold_users) == (1, 0)
    assert report["popularity_lift@1"] == pytest.approx((4 / 8) / ((7 / 8 + 5 / 8) / 2))
    # Two ratings to go by, though none from training.
    assert [group.label for group in report.groups["users"] if group.n] == ["1-5"]


def test_histories_reach_their_users_whatever_the_blocks(monkeypatch):
    ratings = tastes(60, 40, rng=generator(4))[0]
    split = held_out_users(ratings, 0.5, seed=1)
    model = ALS(n_factors=2, regularization=0.1, weighting="plain", seed=0).fit(split.train)
    whole = evaluate(model, split, bootstrap=0)
    monkeypatch.setattr(lists, "BLOCK_USERS", 4)
    parts = evaluate(model, split, bootstrap=0)
    assert parts.ranking == pytest.approx(whole.ranking)
    assert whole["auc"] > evaluate(model, split.test, bootstrap=0)["auc"] + 0.05  # their histories were used


# The same whatever the machine does


@pytest.fixture(scope="module")
def fitted():
    ratings = tastes(120, 60, rng=generator(4))[0]
    split = random_split(ratings, 0.3, seed=0)
    return ALS(n_factors=3, regularization=0.1, weighting="plain", seed=0).fit(split.train), split.test


def test_the_size_of_the_blocks_changes_nothing(fitted, monkeypatch):
    model, test = fitted
    whole = evaluate(model, test)
    monkeypatch.setattr(lists, "BLOCK_USERS", 7)
    monkeypatch.setattr(posterior, "BLOCK_SCORES", 180)
    parts = evaluate(model, test)
    assert parts.ranking == pytest.approx(whole.ranking, abs=1e-12)
    assert parts.to_dict()["groups"] == whole.to_dict()["groups"]
    for name, interval in whole.intervals.items():
        assert parts.intervals[name] == pytest.approx(interval, abs=1e-12)


def test_threads_change_no_byte(fitted):
    model, test = fitted
    one, two = (json.dumps(evaluate(model.set_params(threads=n), test).to_dict()) for n in (1, 2))
    model.set_params(threads=None)
    assert one == two


def test_the_order_of_the_test_ratings_does_not_matter(fitted):
    model, test = fitted
    there, back = evaluate(model, test), evaluate(model, test.take(np.arange(len(test))[::-1]))
    assert back.measures == pytest.approx(there.measures)
    assert back.intervals["ndcg@10"] == pytest.approx(there.intervals["ndcg@10"])


def test_seeds(fitted):
    model, test = fitted
    same, other = evaluate(model, test, seed=0), evaluate(model, test, seed=1)
    assert evaluate(model, test).intervals == same.intervals
    assert other.measures == same.measures
    assert other.intervals["rmse"] != same.intervals["rmse"]


def test_no_list_is_longer_than_needed_and_progress_is_reported(fitted):
    model, test = fitted
    events = []
    evaluate(model, test, observer=events.append)
    phases = {event.phase: event for event in events}
    assert phases.keys() == {"ranking", "resampling"}
    assert all(event.step == event.total for event in phases.values())


def test_measures_agree_with_a_plain_loop(fitted):
    """The whole of it again, slowly: every user's full ranking, out of predicted scores."""
    model, test = fitted
    report = evaluate(model, test, k=5, relevant=model.ratings_.mean, bootstrap=0)
    truth, train = {}, model.ratings_
    for user, item, value in zip(test.user_ids(), test.item_ids(), test.values, strict=True):
        truth.setdefault(user, {})[item] = value
    values = {"precision": [], "ndcg": [], "auc": []}
    for user, rated in truth.items():
        relevant = {item for item, value in rated.items() if value >= train.mean}
        if not relevant:
            continue
        seen = set(train.item_ids().filter(train.user_ids() == user))
        items = [item for item in train.items.ids if item not in seen]
        vectors = model.posterior_.item_vectors[train.items.rows_of(items)]
        belief = believed(model, train.users.rows_of([user]))
        scores = (vectors @ belief.queries.vectors[0]).tolist()
        best = [item for _, item in sorted(zip(scores, items, strict=True), key=lambda pair: -pair[0])]
        values["precision"].append(sum(item in relevant for item in best[:5]) / 5)
        gains = [max(rated.get(item, -9) - train.range[0], 0) for item in best[:5]]
        ideal = sorted((max(value - train.range[0], 0) for value in rated.values()), reverse=True)[:5]
        ideal += [0] * (5 - len(ideal))
        discounts = 1 / np.log2(np.arange(2, 7))
        values["ndcg"].append(gains @ discounts / (ideal @ discounts))
        place = {item: position for position, item in enumerate(best)}
        others = [item for item in best if item not in relevant]
        pairs = [place[item] < place[other] for item in relevant if item in place for other in others]
        values["auc"].append(sum(pairs) / (len(relevant) * len(others)))
    assert report.lists.users == len(values["auc"])
    assert report["precision@5"] == pytest.approx(np.mean(values["precision"]))
    assert report["ndcg@5"] == pytest.approx(np.mean(values["ndcg"]), rel=1e-6)
    assert report["auc"] == pytest.approx(np.mean(values["auc"]), rel=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_measures_of_random_ratings_are_within_their_bounds(seed):
    rng = generator(seed)
    n = int(rng.integers(6, 40))
    frame = rng.integers(0, [8, 6, 5], (n, 3))
    ratings = Ratings.from_arrays(frame[:, 0], frame[:, 1], frame[:, 2] + 1.0)
    if len(ratings) < 4:
        return
    report = evaluate(DampedBias().fit((split := random_split(ratings, 0.4, seed=seed)).train), split, bootstrap=20)
    for name, value in report.ranking.items():
        if np.isnan(value) or name.startswith(("novelty", "popularity_lift")):
            continue
        assert -1e-9 <= value <= 1 + 1e-9, name
    for name in ("recall", "hit_rate", "mrr", "coverage"):
        assert np.isnan(report[f"{name}@5"]) or report[f"{name}@5"] <= report[f"{name}@20"] + 1e-12
    assert sum(group.n for group in report.groups["users"]) == sum(g.n for g in report.groups["items"]) == report.n


def test_a_perfect_model_has_1(monkeypatch):
    """Scores are the test ratings themselves."""
    test = Ratings.from_arrays([1, 1, 1, 2, 2], ["p1", "p2", "p3", "p5", "p4"], [5.0, 4, 3, 5, 4])
    model = Popular().fit(TRAIN)
    worth = {(1, "p1"): 5, (1, "p2"): 4, (1, "p3"): 3, (2, "p5"): 5, (2, "p4"): 4}

    def scores(user_ids, *, history=None):
        rows = np.arange(len(user_ids))
        yield rows, np.array([[worth.get((u, i), 0) for i in TRAIN.items.ids] for u in user_ids], np.float32)

    def lists(user_ids, n, history):
        found = model.recommend(user_ids, n, history=history)
        for row, block in scores(user_ids):
            found.item_rows[row] = np.argsort(-block, axis=1)[:, :n]
        return found

    monkeypatch.setattr(model, "scores", scores)
    report = evaluate(model, test, k=(2, 5), lists=lists)
    for name in ("precision@2", "recall@5", "hit_rate@2", "mrr@2", "map@2", "map@5", "ndcg@2", "ndcg@5", "auc"):
        assert report[name] == pytest.approx(1), name


def test_lists_made_in_another_way():
    model = Popular().fit(TRAIN)
    test = Ratings.from_arrays([2], ["p6"], [5.0])
    last = evaluate(
        model, test, k=1, lists=lambda users, n, history: model.recommend(users, n, history=history, only=["p6"])
    )
    assert (last["precision@1"], evaluate(model, test, k=1)["precision@1"]) == (1, 0)


def test_lists_that_are_not_what_was_asked_for_are_refused():
    """One list would fit every user, and an item twice would be found twice."""
    model = Popular().fit(TRAIN)
    test = Ratings.from_arrays([1, 2, 10], ["p1", "p6", "p6"], [5.0, 5, 5])

    def evaluated_with(change):
        return evaluate(model, test, k=2, lists=lambda users, n, history: change(users, n))

    def changed_rows(change):
        def made(users, n):
            found = model.recommend(users, n)
            return replace(found, item_rows=change(found.item_rows.copy()))

        return made

    def first_twice(rows):
        rows[1] = rows[1, 0]
        return rows

    wrong = {
        "lists gave 1 lists; expected one for each of 3 users": lambda users, n: model.recommend(users[:1], n),
        "lists gave 4 lists": lambda users, n: model.recommend([*users, 11], n),
        "of the users 10, 2, 1; expected 1, 2, 10": lambda users, n: model.recommend(users[::-1], n),
        "an item twice in the list of 2; expected each item at most once": changed_rows(first_twice),
        "item rows from 6 to 6; expected rows of the 6": changed_rows(lambda rows: np.full_like(rows, 6)),
        "lists gave DataFrame; expected a Ranking": lambda users, n: model.recommend(users, n).to_polars(),
    }
    for message, change in wrong.items():
        with pytest.raises(InvalidParameterError, match=message):
            evaluated_with(change)
    # No item at all is no item twice; longer lists than asked for are cut.
    assert evaluated_with(changed_rows(lambda rows: np.full_like(rows, -1)))["recall@2"] == 0
    assert evaluated_with(lambda users, n: model.recommend(users, n + 3)).ranking == pytest.approx(
        evaluate(model, test, k=2).ranking
    )


def measured(lists):
    return np.zeros(len(lists))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranking": {"a@b": measured}}, "ranking has a measure called 'a@b'; expected a name without @"),
        ({"ranking": {"precision": measured}}, "'precision', which is the name of another one"),
        ({"ranking": {"coverage": measured}}, "'coverage', which is the name of another one"),
        ({"ranking": {"rmse": measured}}, "'rmse', which is the name of another one"),
        ({"ranking": ["precision"]}, r"ranking is \['precision'\]; expected functions by name"),
        ({"ranking": {"own": 3}}, "ranking has 3 for 'own'; expected a function"),
        ({"metrics": {"ndcg@10": np.subtract}}, "metrics has a measure called 'ndcg@10'; expected a name without @"),
        ({"metrics": {"auc": np.subtract}}, "'auc', which is the name of another one"),
        ({"metrics": {"n": np.subtract}}, "'n', which is the name of another one"),
        ({"metrics": {1: np.subtract}}, "metrics has a measure called 1"),
        ({"metrics": np.subtract}, "expected functions by name"),
    ],
)
def test_names_that_would_hide_another_measure_are_refused(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        evaluated([(2, "p3", 5.0)], **options)


def test_a_measure_of_lists_of_your_own():
    test = [(2, "p3", 5.0), (1, "p1", 5.0)]
    report = evaluated(test, relevant=3, ranking={"last place hit": lambda lists: lists.hits[:, -1]})
    assert [report[f"last place hit@{k}"] for k in (1, 2, 3)] == [1 / 2, 1 / 2, 0]
    assert "last place hit@2" in report.intervals
    assert {name.partition("@")[0] for name in report.ranking} >= LIST_METRICS.keys()
    with pytest.raises(InvalidParameterError, match=r"'wrong' gave an array of the shape \(1,\).* 2 lists"):
        evaluated(test, ranking={"wrong": lambda lists: np.zeros(1)})


def test_models_saved_without_their_ratings_are_measured_by_their_predictions_only():
    model = GlobalMean().fit(TRAIN)
    model.ratings_ = TRAIN.masked(np.zeros(len(TRAIN), bool))
    test = Ratings.from_arrays([2], ["p6"], [5.0])
    with pytest.warns(DataWarning, match="saved without its ratings"):
        report = evaluate(model, test)
    assert report["rmse"] == 2
    assert not report.ranking
    assert not report.groups
    assert evaluate(model, test, ranking=False, groups=False)["rmse"] == 2  # asked for no more, nothing to say


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0; expected a whole number of at least 1"),
        ({"k": []}, "k is empty"),
        ({"k": (5, 2.5)}, "k is 2.5"),
        ({"relevant": 6}, "no test rating is that high; expected at most 5"),
        ({"relevant": float("nan")}, "relevant is nan; expected a rating"),
        ({"relevant": "high"}, "relevant is 'high'"),
        ({"bootstrap": -1}, "bootstrap is -1"),
        ({"seed": -1}, "seed is -1"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        evaluated([(2, "p2", 5.0)], **options)


def test_before_it_is_fitted():
    with pytest.raises(NotFittedError):
        evaluate(Popular(), TRAIN)


def test_what_is_no_ratings():
    with pytest.raises(InvalidParameterError, match="evaluate got list; expected Ratings, a frame"):
        evaluate(Popular().fit(TRAIN), [1, 2])


def test_the_model_comes_first():
    split = random_split(TRAIN, 0.2, seed=0)
    with pytest.raises(InvalidParameterError, match="evaluate got Split first; expected a fitted recommender"):
        evaluate(split, Popular().fit(split.train))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.extra is None and name != "rbm"])
@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")  # toys need longer chains
def test_every_model_is_measured(name):
    """By lists and by whole rankings, in the same order where expected ratings are straight in scores."""
    drawn = tastes(50, 30, rng=generator(9))[0]
    # Models of choices refuse what is not above 0.
    split = random_split(replace(drawn, values=np.maximum(drawn.values, 0.5)), 0.2, seed=0)
    model = short_model(name).fit(split.train)
    report = evaluate(model, split, k=30, bootstrap=50)
    assert 0 <= report["auc"] <= 1
    assert report["recall@30"] == pytest.approx(1 - report.lists.cold_relevant_ratings / report.lists.relevant_ratings)
    users = split.train.users.ids
    lists = model.recommend(users, 30).item_rows
    is_latent = believed(model, [-1]).is_latent
    for rows, scores in model.scores(users):
        for row, line in zip(rows, scores, strict=True):
            shown = lists[row][lists[row] >= 0]
            assert np.count_nonzero(line > -np.inf) == len(shown)
            assert is_latent or (np.diff(line[shown]) <= 1e-5).all()
