"""A model that is right about its own uncertainty is found to be so, and its broken twins are caught."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from evaluation.short import short_model
from evaluation.uncertain import STARS, Oracle, drawn
from scipy.stats import binom, kstest

from tastespace import ALS, GlobalMean, Prediction, Ratings, compare_reports, evaluate, held_out_users
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.errors import DataWarning, InvalidParameterError
from tastespace.evaluation import predictions
from tastespace.evaluation.calibration import PIT_PARTS, SHARES, distance_from_uniform, tenths
from tastespace.evaluation.groups import LABELS
from tastespace.evaluation.metrics.order import OF_ORDER
from tastespace.evaluation.metrics.rating import STANDARD
from tastespace.evaluation.predictions import predict_all, user_blocks
from tastespace.models import MODELS
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

ALPHA = 1e-6  # how often a right program fails one of the statistical assertions below


@dataclass(kw_only=True)
class Told(GlobalMean):
    """Says a normal of the mean and sds that it is given by item."""

    means: Any = None
    sd: float = 1.0
    belief_sds: Any = None
    levels: Any = None

    def predict(self, user_ids, item_ids, *, history=None) -> Prediction:
        point = super().predict(user_ids, item_ids, history=history)
        items = point.item_ids.to_numpy()
        mean = np.array([self.means[item] for item in items], np.float32)
        belief = np.array([self.belief_sds[item] for item in items], np.float32)
        sds = np.full((len(mean), 1), self.sd, np.float32)
        return replace(
            point,
            mean=mean,
            belief_sd=belief,
            rating_sd=sds[:, 0],
            rating=NormalRatings(NormalMixture(mean[:, None], sds), *self.rating_range_, self.levels),
        )


# By hand

TRAIN = Ratings.from_arrays([1, 1, 1, 1, 1, 2], [1, 2, 3, 4, 5, 1], [1.0, 2, 3, 4, 5, 3])
TEST = Ratings.from_arrays([1, 1, 2, 9], [11, 12, 2, 3], [3.0, 5, 4, 1])


def told(**options):
    means, beliefs = {11: 3.0, 12: 3.0, 2: 3.0, 3: 3.0}, {11: 0.1, 12: 0.3, 2: 0.2, 3: 0.4}
    return Told(means=means, belief_sds=beliefs, **options).fit(TRAIN)


def test_a_continuous_scale_by_hand():
    """N(3, 1) for everything, ratings 3, 5, 4, 1: intervals are 3 -+ 0.674, 1.28, 1.64, 1.96, cut to 1 ... 5."""
    report = evaluate(told(), TEST, ranking=False, bootstrap=0)
    found = report.calibration
    assert [found[f"coverage_{share}"] for share in ("50", "80", "90", "95")] == [1 / 4, 2 / 4, 2 / 4, 2 / 4]
    widths = [2 * place for place in (0.6744898, 1.2815516, 1.6448536, 1.9599640)]
    assert [found[f"width_{share}"] for share in SHARES.values()] == pytest.approx(widths, abs=1e-5)
    assert [found[f"expected_{share}"] for share in SHARES.values()] == pytest.approx([0.5, 0.8, 0.9, 0.95])
    pit = np.array([0.5, 0.9772499, 0.8413447, 0.0227501])
    assert found["pit_mean"] == pytest.approx(pit.mean(), abs=1e-6)
    assert found["pit_spread"] == pytest.approx(np.sqrt(12 * np.mean((pit - 0.5) ** 2)), abs=1e-6)
    assert found["pit_distance"] == pytest.approx(max(0.8413447 - 0.5, 0.5 - 0.25, 0.75 - 0.5), abs=1e-6)
    assert found.pit == pytest.approx([1 / 4 if part in (0, 10, 16, 19) else 0 for part in range(PIT_PARTS)])
    log_scores = -0.9189385 - np.array([0, 4, 1, 4]) / 2
    assert report["log_score"] == pytest.approx(log_scores.mean(), abs=1e-6)
    # Of N(0, 1) the CRPS is z (2 Phi(z) - 1) + 2 phi(z) - 0.5641896.
    scores = [0.7978846, 2 * 0.9544997 + 2 * 0.0539910, 0.6826895 + 2 * 0.2419707, 2 * 0.9544997 + 2 * 0.0539910]
    assert report["crps"] == pytest.approx(np.mean(scores) - 0.5641896, abs=1e-5)
    assert found.levels is None
    assert found.off_levels == 0


def test_levels_by_hand():
    """N(3, 1) on five stars: 3 has the probability 0.3829, 4 has 0.2417, and 1 and 5, with all beyond, 0.0668."""
    report = evaluate(told(levels=STARS), TEST, ranking=False, bootstrap=0)
    found = report.calibration
    assert report["log_score"] == pytest.approx(np.log([0.3829249, 0.0668072, 0.2417303, 0.0668072]).mean(), abs=1e-5)
    below = np.array([0.0668072, 0.3085375, 0.6914625, 0.9331928])
    scores = [np.sum((below - (np.arange(1, 5) >= star)) ** 2) for star in (3, 5, 4, 1)]
    assert report["crps"] == pytest.approx(np.mean(scores), abs=1e-5)
    assert [found[f"coverage_{share}"] for share in SHARES.values()] == [1 / 4, 2 / 4, 2 / 4, 2 / 4]
    # The interval of 50 % holds the 3 alone, the others 2, 3 and 4: 5 is beyond 3 + 1.96.
    expected = [0.3829249, *[0.9331928 - 0.0668072] * 3]
    assert [found[f"expected_{share}"] for share in SHARES.values()] == pytest.approx(expected, abs=1e-5)
    assert found.levels == (1, 2, 3, 4, 5)
    # Each PIT is in the stretch of its level, wherever the noise puts it.
    assert {sum(found.pit[:2]), sum(found.pit[6:14]), sum(found.pit[18:])} == {1 / 4}


def test_ratings_that_are_no_levels_are_counted():
    test = Ratings.from_arrays([1, 1, 2], [11, 12, 2], [3.4, 7, 4])
    found = evaluate(told(levels=STARS), test, ranking=False, bootstrap=0).calibration
    assert found.off_levels == found.to_dict()["off_levels"] == 2
    assert found.coverage_table().note.endswith("; scored as the nearest level: 2 ratings")


def test_groups_and_tenths_by_hand():
    report = evaluate(told(), TEST, ranking=False)
    groups = {group.label: group for group in report.calibration.groups["users"]}
    assert list(groups) == list(LABELS)
    assert (groups["1-5"].n, groups["1-5"].measures["coverage_80"]) == (3, 2 / 3)
    assert (groups["0 (cold)"].n, groups["0 (cold)"].measures["coverage_95"]) == (1, 0)
    assert groups["> 640"].measures == {}
    assert groups["1-5"].intervals["coverage_80"] == (1 / 2, 1)  # two users, with 1 of 2 and 1 of 1
    items = {group.label: group for group in report.calibration.groups["items"]}
    assert (items["0 (cold)"].n, items["0 (cold)"].measures["coverage_50"]) == (2, 1 / 2)
    # By belief: errors 0, 1 (sd 0.2), 2 (sd 0.3), -2.
    filled = [tenth for tenth in report.calibration.confidence if tenth.n]
    assert [tenth.label for tenth in filled] == ["10-20 %", "30-40 %", "60-70 %", "80-90 %"]
    assert [tenth.measures["rmse"] for tenth in filled] == [0, 1, 2, 2]
    assert [tenth.measures["belief_sd"] for tenth in filled] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    so_far = np.sqrt(np.cumsum([0, 1, 4, 4]) / np.arange(1, 5))
    assert [tenth.measures["rmse_so_far"] for tenth in filled] == pytest.approx(so_far)
    assert filled[-1].measures["rmse_so_far"] == report["rmse"]


def test_tenths():
    assert tenths(np.arange(100.0)[::-1]).tolist() == np.repeat(np.arange(10), 10)[::-1].tolist()
    assert set(tenths(np.full(7, 0.3)).tolist()) == {5}  # who is equally sure of everything has no most certain tenth
    assert tenths(np.array([1.0, 1, 2, 2])).tolist() == [2, 2, 7, 7]


def test_distance_from_uniform(rng):
    values = rng.random(500)
    assert distance_from_uniform(values) == pytest.approx(kstest(values, "uniform").statistic)
    assert distance_from_uniform(np.array([0.5])) == 0.5


def test_without_spread_nothing_is_infinite():
    for levels in (STARS, None):
        report = evaluate(told(sd=0.0, levels=levels), TEST, ranking=False, bootstrap=20)
        said = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert said["crps"] == pytest.approx(np.abs([0, 2, 1, 2]).mean())
        assert said["log_score"] < -100
        assert said["calibration"]["measures"]["coverage_50"] == 1 / 4
        assert said["calibration"]["measures"]["width_95"] == 0


# Against what is known


@pytest.fixture(scope="module", params=[True, False], ids=["levels", "continuous"])
def world(request):
    """12,000 independent ratings."""
    return request.param, drawn(300, 40, generator(31), levels=request.param)


def judged(world, **options):
    levels, split = world
    return evaluate(Oracle(with_levels=levels, **options).fit(split.train), split, ranking=False, bootstrap=0)


def improbable(report) -> list[str]:
    """The measures that a right model would give with a probability below ALPHA each."""
    found, wrong = report.calibration, []
    for share in SHARES.values():
        n_inside = round(found[f"coverage_{share}"] * found.n)
        if (
            not binom.ppf(ALPHA / 2, found.n, found[f"expected_{share}"])
            <= n_inside
            <= binom.isf(ALPHA / 2, found.n, found[f"expected_{share}"])
        ):
            wrong.append(f"coverage_{share}")
    if found["pit_distance"] * np.sqrt(found.n) > np.sqrt(np.log(2 / ALPHA) / 2):  # Dvoretzky, Kiefer, Wolfowitz
        wrong.append("pit_distance")
    if abs(found["pit_mean"] - 0.5) * np.sqrt(12 * found.n) > 4.9:
        wrong.append("pit_mean")
    if abs(found["pit_spread"] ** 2 - 1) * np.sqrt(found.n) / np.sqrt(4 / 5) > 4.9:  # 12 (u - 1/2)^2 has variance 4/5
        wrong.append("pit_spread")
    return wrong


@pytest.mark.statistical
def test_a_right_model_is_calibrated(world):
    """Each of what `improbable` looks at, and each tenth below, fails a right program once in a million times."""
    report = judged(world)
    assert improbable(report) == []
    assert improbable(judged(world, with_weights=True)) == []
    if world[0]:
        return
    assert [report.calibration[f"expected_{share}"] for share in SHARES.values()] == pytest.approx(list(SHARES))
    for tenth in report.calibration.confidence:
        # The mean of n squares of standard variables, hardly heavier in the tails than normal ones.
        ratio = (tenth.measures["rmse"] / tenth.measures["rating_sd"]) ** 2
        assert abs(ratio - 1) < 4.9 * np.sqrt(2.2 / tenth.n)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        ({"sd_factor": 1.5}, {"coverage_50", "coverage_80", "coverage_90", "pit_distance", "pit_spread"}),
        ({"sd_factor": 1 / 1.5}, {"coverage_50", "coverage_80", "coverage_90", "pit_distance", "pit_spread"}),
        ({"shift": 0.25}, {"pit_distance", "pit_mean"}),
        ({"shift": -0.25}, {"pit_distance", "pit_mean"}),
    ],
    ids=["too wide", "too narrow", "too high", "too low"],
)
def test_broken_twins_are_caught(world, broken, caught):
    right, wrong = judged(world), judged(world, **broken)
    assert caught <= set(improbable(wrong))
    # Both scores are proper: saying what one does not believe gains nothing.
    assert wrong["crps"] > right["crps"]
    assert wrong["log_score"] < right["log_score"]
    if "sd_factor" in broken:
        assert (wrong.calibration["pit_spread"] < 1) == (broken["sd_factor"] > 1)
        assert (wrong.calibration["width_90"] > right.calibration["width_90"]) == (broken["sd_factor"] > 1)
    else:
        assert (wrong.calibration["pit_mean"] < 0.5) == (broken["shift"] > 0)


@pytest.mark.statistical
def test_comparing_finds_the_better_distribution(world):
    """The same predictions, and one is too sure: errors do not differ, scores do."""
    found = compare_reports(judged(world), judged(world, sd_factor=1 / 1.5), resamples=2000)
    assert found["rmse"].p_value == 1
    assert found["crps"].difference < 0
    assert found["log_score"].difference > 0
    assert max(found["crps"].p_value, found["log_score"].p_value) < 0.001


# The same whatever the machine does


@pytest.fixture(scope="module")
def small():
    split = drawn(60, 12, generator(5))
    return Oracle().fit(split.train), split


def as_json(report):
    return json.dumps(report.to_dict(), allow_nan=False)


def test_blocks_change_no_byte(small, monkeypatch):
    model, split = small
    whole = as_json(evaluate(model, split, bootstrap=50))
    for size in (1, 7, 30, 719):
        monkeypatch.setattr(predictions, "BLOCK_PAIRS", size)
        assert as_json(evaluate(model, split, bootstrap=50)) == whole


def test_no_more_is_asked_at_once_than_fits_a_block(small, monkeypatch):
    """What is held of a rating is hundreds of bytes; lists are made without saying how sure each entry is."""
    model, split = small
    asked, options = [], []

    def predict(user_ids, item_ids, *, history=None):
        asked.append(len(user_ids))
        return Oracle.predict(model, user_ids, item_ids, history=history)

    def recommend(user_ids, n, **said):
        options.append(said)
        return Oracle.recommend(model, user_ids, n, **said)

    monkeypatch.setattr(predictions, "BLOCK_PAIRS", 50)
    monkeypatch.setattr(model, "predict", predict, raising=False)
    monkeypatch.setattr(model, "recommend", recommend, raising=False)
    evaluate(model, split, bootstrap=0)
    assert sum(asked) == len(split.test)
    assert max(asked) == 48  # four whole users
    assert [said["uncertainty"] for said in options] == [False]


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.extra is None and name != "rbm"])
def test_blocks_change_no_prediction(name, monkeypatch):
    """Of any model, of strangers with a history too."""
    drawn = tastes(50, 30, rng=generator(9))[0]
    # Models of choices refuse what is not above 0.
    split = held_out_users(replace(drawn, values=np.maximum(drawn.values, 0.5)), 0.4, seed=0)
    model = short_model(name).fit(split.train)
    # Errors of models of choices are measured if asked for.
    options = {"metrics": STANDARD, "ranking": False, "groups": False, "bootstrap": 0}
    whole = evaluate(model, split, **options)
    assert whole["rmse"] == evaluate(model, split, calibration=False, **options)["rmse"]
    together = model.predict(split.test.user_ids(), split.test.item_ids(), history=split.history)
    monkeypatch.setattr(predictions, "BLOCK_PAIRS", 9)
    assert evaluate(model, split, **options).rating == whole.rating
    users = np.unique(split.test.user_ids().to_numpy(), return_inverse=True)[1].astype(np.int32)
    parts = predict_all(model, split.test, users, split.history, seed=None, observer=silent)
    assert parts.mean.tolist() == together.mean.tolist()
    assert parts.cold.tolist() == together.cold.tolist()


def test_blocks_keep_users_together_unless_one_is_too_large(monkeypatch, rng):
    monkeypatch.setattr(predictions, "BLOCK_PAIRS", 10)
    users = rng.permutation(np.repeat(np.arange(8), [3, 4, 3, 25, 1, 1, 9, 2])).astype(np.int32)
    blocks = list(user_blocks(users))
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(users)))
    assert [sorted(set(users[block].tolist())) for block in blocks] == [[0, 1, 2], [3], [3], [3, 4, 5], [6], [7]]
    assert max(map(len, blocks)) == 10
    assert list(user_blocks(np.zeros(0, np.int32))) == []


def test_the_order_of_the_test_ratings_does_not_matter(small):
    model, split = small
    there = evaluate(model, split.test, ranking=False, bootstrap=20)
    back = evaluate(model, split.test.take(np.arange(len(split.test))[::-1]), ranking=False, bootstrap=20)
    assert back.calibration.measures == pytest.approx(there.calibration.measures)
    assert back.calibration.pit == there.calibration.pit


def test_seeds(small):
    model, split = small
    one, same, other = (evaluate(model, split, ranking=False, bootstrap=20, seed=seed) for seed in (0, 0, 1))
    assert as_json(one) == as_json(same)
    assert one.calibration.pit != other.calibration.pit  # randomised
    assert one.calibration["coverage_90"] == other.calibration["coverage_90"]
    assert one.rating == other.rating


def test_progress_is_reported_for_more_than_one_block(small, monkeypatch):
    model, split = small
    events = []
    evaluate(model, split, ranking=False, bootstrap=0, observer=events.append)
    assert events == []
    monkeypatch.setattr(predictions, "BLOCK_PAIRS", 100)
    evaluate(model, split, ranking=False, bootstrap=0, observer=events.append)
    assert {event.phase for event in events} == {"predicting"}
    assert events[-1].step == events[-1].total == len(split.test)


def test_the_history_is_reported_once(monkeypatch):
    """Warnings are about the whole history, not about each block of it."""
    split = held_out_users(tastes(40, 30, rng=generator(9))[0], 0.4, seed=0)
    model = ALS(n_factors=2, regularization=0.1, weighting="plain", seed=0).fit(split.train)
    high = Ratings.from_arrays(split.history.user_ids(), split.history.item_ids(), split.history.values + 50)
    monkeypatch.setattr(predictions, "BLOCK_PAIRS", 20)
    with pytest.warns(DataWarning, match="the history has ratings from") as said:
        evaluate(model, replace(split, history=high), ranking=False, bootstrap=0)
    assert len(said) == 1


# What is shown


def test_point_models_have_none(small):
    _, split = small
    report = evaluate(GlobalMean().fit(split.train), split, bootstrap=0)
    assert report.calibration is None
    assert list(report.rating) == ["rmse", "mae"]
    assert "calibration" not in report.to_dict()
    assert "Calibration" not in report.table()


def test_it_can_be_left_out(small):
    model, split = small
    report = evaluate(model, split, calibration=False, ranking=False)
    assert report.calibration is None
    assert list(report.rating) == ["rmse", "mae"]


@pytest.fixture(scope="module")
def report(small):
    model, split = small
    return evaluate(model, split, k=3, bootstrap=100)


def test_scores_are_measures_like_others(report):
    assert list(report.rating) == ["rmse", "mae", "crps", "log_score"]
    assert ", CRPS 0." in str(report)
    assert ", log score -1." in str(report)
    assert report.intervals["crps"].low < report["crps"] < report.intervals["crps"].high
    frame = report.to_polars()
    assert frame.filter(frame["measure"] == "log_score")["users"].to_list() == [60]
    filled = [group for group in report.groups["users"] if group.n]
    assert sum(group.n * group.measures["crps"] for group in filled) / report.n == pytest.approx(report["crps"])


def test_every_measure_has_its_interval(report):
    found = report.calibration
    for share in SHARES.values():
        low, high = found.intervals[f"coverage_{share}"]
        assert low <= found[f"coverage_{share}"] <= high
    assert {"pit_mean", "pit_spread"} <= found.intervals.keys()
    for share, (low, high) in zip(found.pit, found.pit_intervals, strict=True):
        assert low <= share <= high
    for tenth in found.confidence:
        assert tenth.intervals["rmse"].low <= tenth.measures["rmse"] <= tenth.intervals["rmse"].high


def test_groups_and_tenths_together_are_everything(report):
    found = report.calibration
    for groups in found.groups.values():
        assert sum(group.n for group in groups) == report.n
        inside = sum(group.n * group.measures["coverage_80"] for group in groups if group.n)
        assert inside / report.n == pytest.approx(found["coverage_80"])
    assert sum(tenth.n for tenth in found.confidence) == report.n
    assert found.confidence[-1].measures["rmse_so_far"] == pytest.approx(report["rmse"])
    assert sum(found.pit) == pytest.approx(1)


def test_as_json(report):
    said = json.loads(as_json(report))["calibration"]
    assert said["measures"]["coverage_90"] == report.calibration["coverage_90"]
    assert said["intervals"]["coverage_90"] == list(report.calibration.intervals["coverage_90"])
    assert said["levels"] == [1, 2, 3, 4, 5]
    assert len(said["pit"]) == len(said["pit_intervals"]) == PIT_PARTS
    assert [tenth["share"] for tenth in said["confidence"]][:2] == ["0-10 %", "10-20 %"]
    assert [group["training_ratings"] for group in said["groups"]["users"]] == list(LABELS)


def test_as_frames(report):
    found = report.calibration
    frame = found.to_polars()
    columns = ["side", "training_ratings", "members", "n", "measure", "value", "low", "high"]
    assert frame.columns == columns
    row = frame.filter((frame["side"] == "all") & (frame["measure"] == "coverage_90")).row(0, named=True)
    assert (row["value"], row["low"]) == (found["coverage_90"], found.intervals["coverage_90"].low)
    assert set(frame["side"]) == {"all", "users", "items"}
    tenth = found.confidence_to_polars().row(0, named=True)
    assert (tenth["share"], tenth["n"], tenth["rmse"]) == (
        "0-10 %",
        found.confidence[0].n,
        found.confidence[0].measures["rmse"],
    )
    assert tenth["rmse_low"] <= tenth["rmse"] <= tenth["rmse_high"]


def test_as_tables(report):
    text, found = report.table(), report.calibration
    low, high = found.intervals["coverage_90"]
    assert f"{found['coverage_90']:.4f} ({low:.4f}–{high:.4f})" in text
    for part in ("mean width", "PIT: mean", "Errors by confidence", "RMSE so far", "in 95 %", "PIT spread"):
        assert part in text, part
    short = [str(table) for table in report.tables(empty=False)]
    assert not any("> 640  " in table for table in short)
    assert len(found.pit_table().rows) == PIT_PARTS
    assert found.pit_table().rows[0][0] == "0.00–0.05"


def test_without_intervals_and_groups(small):
    model, split = small
    bare = evaluate(model, split, ranking=False, groups=False, bootstrap=0)
    found = bare.calibration
    assert (found.groups, found.intervals, found.pit_intervals) == ({}, {}, ())
    assert "–" not in str(found.coverage_table()) + str(found.confidence_table())
    assert found.confidence_to_polars()["rmse_low"].null_count() == 10
    with pytest.raises(InvalidParameterError, match="no groups of 'users'"):
        found.groups_table("users")
    with pytest.raises(KeyError, match="no measure 'coverage_42'; expected one of coverage_50"):
        found["coverage_42"]


def test_names_of_scores_are_taken(small):
    model, split = small
    for name in ("crps", "log_score", "calibration"):
        with pytest.raises(InvalidParameterError, match=f"'{name}', which is the name of another one"):
            evaluate(model, split, {name: np.subtract})


def errors_of(comparisons):
    """What is compared, the order of test items aside."""
    return [row.measure for row in comparisons if row.measure.partition("@")[0] not in OF_ORDER]


def test_log_scores_of_different_things_are_not_compared(small):
    model, split = small
    density = evaluate(Oracle(with_levels=False).fit(split.train), split, ranking=False)
    with pytest.warns(DataWarning, match="log scores of different levels"):
        found = compare_reports(evaluate(model, split, ranking=False), density, resamples=50)
    assert errors_of(found) == ["rmse", "mae", "crps"]


def test_a_point_and_a_distribution_are_compared_by_their_errors(small, report):
    _, split = small
    found = compare_reports(report, evaluate(GlobalMean().fit(split.train), split, ranking=False), resamples=50)
    assert errors_of(found) == ["rmse", "mae"]


def test_a_prediction_in_parts_is_refused(small):
    model, split = small

    class Half(Oracle):
        def predict(self, *args, **options):
            return replace(super().predict(*args, **options), rating_sd=None)

    with pytest.raises(InvalidParameterError, match="has only one of rating and rating_sd"):
        evaluate(Half().fit(split.train), split)
