"""Many models on one split: what is measured, what it costs, and what becomes of those that fail."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
from evaluation.short import short_model
from selection.failing import Broken, Gone, Killed

from tastespace import (
    ALS,
    BPMF,
    PMF,
    VB,
    DampedBias,
    GlobalMean,
    ImplicitALS,
    Popular,
    Ratings,
    Split,
    compare_reports,
    evaluate,
    find_best,
    random_split,
)
from tastespace.errors import (
    ConvergenceWarning,
    DataError,
    InvalidParameterError,
    MissingExtraError,
    UnknownIdError,
)
from tastespace.inference.transition import HELD_OUT
from tastespace.models import MODELS
from tastespace.randomness import generator
from tastespace.selection.compare_models import INTERRUPTED, NOT_BEGUN, compare_models, suitable_models, unsuitable
from tastespace.selection.trials import OWN_HELD_OUT
from tastespace.testing.toys import tastes

RESAMPLES = 50


def short_bpmf(**more):
    return BPMF(n_factors=2, warmup=3, draws=4, thin=1, seed=0, **more)


@pytest.fixture(scope="module")
def split():
    return random_split(tastes(60, 40, rng=generator(4))[0], 0.2, seed=0)


@pytest.fixture(scope="module")
def found(split):
    """Models that do well and models that fail, all in this process."""
    models = {
        "mean": GlobalMean(),
        "als": ALS(n_factors=2, seed=0),
        "bad": ALS(n_factors=-1),
        "bpmf": short_bpmf(),
        "choices": ImplicitALS(),
        "broken": Broken(),
    }
    return compare_models(split, models, bootstrap=RESAMPLES, apart=False)


@pytest.fixture(scope="module")
def apart(split):
    """The same in processes of their own, and some that do not come back."""
    models = {"als": ALS(n_factors=2, seed=0), "killed": Killed(), "gone": Gone()}
    return compare_models(split, models, bootstrap=RESAMPLES)


def of_kind(kind):
    """The same pairs with values of every kind."""
    rng = generator(1)
    liking = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 30))
    users, items = np.nonzero(rng.random((50, 30)) < 0.5)
    liking = liking[users, items]
    values = {"yes-no": liking > 0, "counts": np.ceil(np.exp(2 * np.abs(liking))), "one-class": np.ones(len(users))}
    return Ratings.from_arrays(users, items, values[kind].astype(float))


def test_measures_are_those_of_evaluate(found, split):
    report = evaluate(ALS(n_factors=2, seed=0).fit(split.train), split, k=10, bootstrap=RESAMPLES)
    assert found["als"].report.to_dict() == report.to_dict()
    row = found["als"].to_dict(10)
    assert row["rmse"] == report["rmse"]
    assert (row["rmse_low"], row["rmse_high"]) == report.intervals["rmse"]
    assert row["ndcg"] == report["ndcg@10"]
    assert row["log_score"] is row["coverage"] is row["error"] is None


def test_an_uncertain_model_has_log_score_and_coverage(found):
    row = found["bpmf"].to_dict(10)
    calibration = found["bpmf"].report.calibration
    assert row["log_score"] == found["bpmf"].report["log_score"]
    assert row["coverage"] == calibration["coverage_90"]
    assert (row["coverage_low"], row["coverage_high"]) == calibration.intervals["coverage_90"]


def test_lists_stand_beside_errors(found):
    report, row = found["als"].report, found["als"].to_dict(10)
    for name, measure in (("recall", "recall"), ("catalogue_coverage", "coverage"), ("popularity_lift",) * 2):
        assert row[name] == report[f"{measure}@10"]
        assert (row[f"{name}_low"], row[f"{name}_high"]) == report.intervals[f"{measure}@10"]
    assert row["found"] == [group.to_dict() for group in report.found["items"]]
    assert found["bad"].to_dict(10)["found"] == []
    measured = ["als", "bpmf", "mean"]
    table = found.lists_table()
    assert sorted(row[0] for row in table.rows) == measured
    values = [found[row[0]].value("ndcg@10") for row in table.rows]
    assert values == sorted(values, reverse=True)
    assert table.rows[0][2] == "best"
    assert sorted(found.found_table().columns[-3:]) == measured


def test_what_is_best_for_what(found, split):
    ratings, lists = found.verdicts
    reports = {entry.model: entry.report for entry in found if entry.report is not None}
    expected = find_best(reports, k=10, resamples=RESAMPLES)
    assert [verdict.to_dict() for verdict in found.verdicts] == [verdict.to_dict() for verdict in expected]
    assert ratings.best == found.best.model
    assert lists.value == max(report["ndcg@10"] for report in reports.values())
    said = found.to_dict()
    assert said["verdicts"] == [ratings.to_dict(), lists.to_dict()]
    assert said["lists"]["users"] == reports["als"].lists.users
    bare = compare_models(split, {"mean": GlobalMean()}, ranking=False, bootstrap=0, apart=False)
    assert bare.verdicts == ()
    assert bare.lists_table() is bare.found_table() is bare.to_dict()["lists"] is None


def test_lists_of_some_users(split):
    models = {"mean": GlobalMean(), "popular": Popular()}
    found = compare_models(split, models, max_users=20, bootstrap=0, apart=False)
    assert {entry.report.lists.users for entry in found} == {20}
    assert "Lists of 20 users drawn at random" in found.lists_table().title


def test_a_failing_model_says_why_and_the_others_go_on(found):
    assert "n_factors is -1" in found["bad"].error
    assert found["broken"].error == "RuntimeError: the wheels came off"
    assert "takes all of them for choices" in found["choices"].error
    assert [entry.model for entry in found if entry.error is None] == ["mean", "als", "bpmf"]
    assert found["bad"].report is found["bad"].cost is None
    assert "the wheels came off" in str(found)


def test_the_best_comes_first_and_failures_last(found):
    values = [entry.value("rmse") for entry in found.ranked[:3]]
    assert values == sorted(values)
    assert found.best is found.ranked[0]
    assert {entry.model for entry in found.ranked[3:]} == {"bad", "choices", "broken"}
    assert found.best.behind["rmse"].difference == 0


def test_differences_are_paired(found):
    best, other = found.best, found["mean"]
    expected = compare_reports(other.report, best.report, resamples=RESAMPLES)["rmse"]
    assert other.behind["rmse"].difference == pytest.approx(expected.difference, rel=1e-9)
    assert other.behind["rmse"].interval == pytest.approx(expected.interval, rel=1e-9)


def test_of_lists_more_is_better(found):
    values = {entry.model: entry.value("ndcg@10") for entry in found if entry.report is not None}
    best = max(values, key=values.get)
    for model, value in values.items():
        assert found[model].behind["ndcg@10"].difference == pytest.approx(values[best] - value)


def test_the_trace_of_chains_is_their_mean_and_ends_with_all_together(found):
    *way, end = found["bpmf"].trace
    assert [moment.step for moment in way] == list(range(1, 8))
    seconds = [moment.seconds for moment in found["bpmf"].trace]
    assert seconds == sorted(seconds)
    assert seconds[-1] == found["bpmf"].cost.seconds
    assert (end.step, end.rmse) == (7, found["bpmf"].value("rmse"))  # nothing is cold here
    assert abs(way[-1].rmse - end.rmse) < 0.2


def test_what_says_nothing_on_the_way_has_its_end(found):
    (end,) = found["als"].trace
    assert end.step > 1
    (end,) = found["mean"].trace
    assert end.step is None
    assert end.rmse == found["mean"].value("rmse")


def test_the_end_of_a_trace_is_of_what_is_known():
    ratings = tastes(30, 40, rng=generator(5))[0]
    split = random_split(ratings, 0.5, seed=0)
    # Half of the items are cold.
    train = split.train.take(np.flatnonzero(split.train.item_rows % 2 == 0))
    found = compare_models(Split(train, split.test), {"bias": DampedBias()}, ranking=False, bootstrap=0, apart=False)
    assert found.parts.cold > 10
    test = split.test
    users = train.users.rows_of(test.users.ids)[test.user_rows]
    items = train.items.rows_of(test.items.ids)[test.item_rows]
    known = test.take(np.flatnonzero((users >= 0) & (items >= 0)))
    expected = evaluate(DampedBias().fit(train), known, ranking=False, bootstrap=0)["rmse"]
    (end,) = found["bias"].trace
    assert end.rmse == pytest.approx(expected)
    assert end.rmse != pytest.approx(found["bias"].value("rmse"), rel=1e-4)


def test_errors_on_ratings_that_a_model_holds_out_itself_are_not_of_the_test(split):
    model = ALS(n_factors=2, early_stopping=True, seed=0)
    found = compare_models(split, {"als": model}, ranking=False, bootstrap=0, apart=False)
    assert len(found["als"].trace) == 1


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.extra is None and name != "rbm"])
def test_only_searches_tell_errors_without_being_given_ratings_to_tell_them_of(split, name):
    """What a model tells of ratings that it holds out itself must not be drawn as errors of the test ratings."""
    model = short_model(name, **MODELS[name].settings_for(split.train.kind))
    if unsuitable(model, split.train) is not None:
        pytest.skip("does not suit stars")
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(split.train, observer=told.append)
    own = {event.phase for event in told if HELD_OUT in event.stats}
    assert all(phase.startswith(OWN_HELD_OUT) for phase in own), own


@pytest.fixture(scope="module")
def begun(split):
    """Some that begin from others, and some that cannot."""
    models = {
        "descended": PMF(n_factors=2, regularization=0.05, epochs=5, seed=0),
        "believed": VB(n_factors=2, passes=20, tolerance=0.0, seed=0),
        "first": VB(n_factors=2, passes=1, seed=0),
        "first from believed": VB(n_factors=2, passes=1, seed=0),
        "sampled": short_bpmf(),
        "bad": VB(n_factors=-1),
        "from bad": short_bpmf(),
        "from mean": VB(n_factors=2, seed=0),
        "mean": GlobalMean(),
        "begun mean": GlobalMean(),
    }
    starts = {
        **{"believed": "descended", "first from believed": "believed", "sampled": "first from believed"},
        **{"from bad": "bad", "from mean": "mean", "begun mean": "believed"},
    }
    return compare_models(split, models, starts=starts, ranking=False, bootstrap=0, apart=False)


def test_models_begin_from_others(begun, split):
    descended = PMF(n_factors=2, regularization=0.05, epochs=5, seed=0).fit(split.train)
    believed = VB(n_factors=2, passes=20, tolerance=0.0, seed=0).fit(split.train, start=descended)
    first = VB(n_factors=2, passes=1, seed=0).fit(split.train, start=believed)
    with pytest.warns(ConvergenceWarning):
        sampled = short_bpmf().fit(split.train, start=first)
    for name, model in {"believed": believed, "first from believed": first, "sampled": sampled}.items():
        expected = evaluate(model, split, ranking=False, bootstrap=0)["rmse"]
        assert begun[name].value("rmse") == pytest.approx(expected, rel=1e-6)
    assert begun["first from believed"].value("rmse") < begun["first"].value("rmse") - 0.01
    assert {entry.model: entry.start for entry in begun}["sampled"] == "first from believed"
    assert begun["sampled"].to_dict(10)["start"] == "first from believed"
    assert begun["first"].to_dict(10)["start"] is None


def test_steps_are_of_the_model_and_seconds_of_its_start_too(begun):
    *way, _ = begun["sampled"].trace
    assert [moment.step for moment in way] == list(range(1, 8))
    # Four fits before the first draw: the first of the sweeps comes after what the start alone took.
    assert len(begun["first from believed"].trace) == 2
    assert begun["first from believed"].cost.seconds > begun["first from believed"].trace[0].seconds


def test_what_cannot_begin_from_another_is_a_row(begun):
    assert begun["from bad"].error.startswith("it starts from bad: n_factors is -1")
    assert "GlobalMean cannot start from another model" in begun["begun mean"].error
    assert "start is a GlobalMean, which has no factors" in begun["from mean"].error
    assert begun["mean"].error is None


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        ({"als": "nobody"}, "no model 'nobody' takes part; expected some of als, bpmf"),
        ({"nobody": "als"}, "no model 'nobody' takes part"),
        ({"als": "bpmf", "bpmf": "als"}, "bpmf starts from als starts from bpmf: that is a circle"),
        ({"als": "als"}, "als starts from als: that is a circle"),
        (["als"], "expected names of models by names"),
    ],
)
def test_starts_that_cannot_be_are_refused(split, starts, said):
    with pytest.raises(InvalidParameterError, match=said):
        compare_models(split, {"als": ALS(), "bpmf": short_bpmf()}, starts=starts, apart=False)


def test_warnings_are_kept(found):
    assert any("draws" in warning for warning in found["bpmf"].warnings)
    assert found["mean"].warnings == ()


def test_json_is_whole(found):
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["model"] for row in said["rows"]] == [entry.model for entry in found.ranked]
    assert len({frozenset(row) for row in said["rows"]}) == 1
    assert {"rmse", "rmse_low", "rmse_high", "log_score", "coverage", "ndcg", "seconds"} < said["rows"][0].keys()
    assert {"processor_seconds", "memory_mb", "groups", "trace", "error"} < said["rows"][0].keys()
    assert said["split"] == {
        "kind": "stars",
        "training_ratings": 623,
        "test_ratings": 155,
        "history_ratings": 0,
        "users": 60,
        "items": 40,
        "cold": 0,
    }
    assert said["rows"][0]["trace"][0].keys() == {"step", "seconds", "rmse"}
    assert said["rows"][-1]["groups"] == said["rows"][-1]["trace"] == []


def test_tables(found):
    table = str(found.table())
    assert table.splitlines()[1].split()[:2] == ["model", "RMSE"]
    assert f"{found['als'].value('rmse'):.4f} (" in table
    assert "MB" not in table  # not known of one process for all
    groups = found.groups_table()
    assert groups.columns[3:] == tuple(entry.model for entry in found.ranked[:3])
    assert sum(int(row[2]) for row in groups.rows) == found.parts.test_ratings
    frame = found.to_polars()
    assert frame["model"].to_list() == [entry.model for entry in found.ranked]
    assert frame.filter(frame["model"] == "als")["rmse"].item() == found["als"].value("rmse")
    assert found.trace_to_polars().height == 8 + 1 + 1
    rows = found.groups_to_polars()
    assert set(rows["model"]) == {"mean", "als", "bpmf"}
    with pytest.raises(InvalidParameterError, match="expected one of mean, als"):
        found["nobody"]


def test_apart_is_the_same_with_memory(apart, found):
    alone = apart["als"]
    assert alone.report.to_dict() == found["als"].report.to_dict()
    assert alone.trace[0].rmse == found["als"].trace[0].rmse
    cost = alone.cost
    assert cost.seconds > 0
    assert cost.processor_seconds > 0
    if cost.memory_mb is not None:
        assert 0 <= cost.memory_mb < cost.process_mb


def test_a_killed_process_is_a_row(apart):
    assert "was killed (SIGKILL)" in apart["killed"].error
    assert apart["gone"].error == "its process ended with the code 3: double free or corruption"
    assert apart.best.model == "als"


def test_a_class_that_another_process_cannot_import_is_a_row(split):
    class Local(GlobalMean):
        pass

    found = compare_models(split, {"local": Local()}, bootstrap=0, ranking=False)
    assert "cannot be sent to another process" in found["local"].error
    assert found.best is None
    assert "local" in str(found.table())


def test_an_interrupt_ends_what_runs_and_keeps_what_there_is(split):
    def interrupt(event):
        if event.phase.startswith("bpmf"):
            raise KeyboardInterrupt

    models = {"mean": GlobalMean(), "bpmf": short_bpmf(), "bias": DampedBias()}
    found = compare_models(split, models, ranking=False, bootstrap=0, apart=False, observer=interrupt)
    assert found.is_interrupted
    assert found["mean"].error is None
    assert found["bpmf"].error == INTERRUPTED
    assert found["bias"].error == NOT_BEGUN


def test_progress_names_the_model(split):
    events = []
    compare_models(split, {"small": short_bpmf()}, ranking=False, bootstrap=0, apart=False, observer=events.append)
    assert (events[0].phase, events[0].step, events[0].total) == ("models", 0, 1)
    assert (events[-1].phase, events[-1].step) == ("models", 1)
    assert any(event.phase == "small: sampling" for event in events)


@pytest.mark.parametrize(("kind", "measure"), [("yes-no", "log_loss"), ("counts", "ndcg@5"), ("one-class", "ndcg@5")])
def test_kinds_have_their_own_measures(kind, measure):
    models = {"popular": Popular(), "bias": DampedBias(), "choices": ImplicitALS(n_factors=2, seed=0)}
    found = compare_models(of_kind(kind), models, k=5, bootstrap=RESAMPLES, apart=False)
    assert found.parts.kind == kind
    assert found.measure == measure
    assert found.best is not None
    is_of_choices = measure.startswith("ndcg")
    assert (found["choices"].error is None) == is_of_choices
    assert (found["bias"].error is None) == (not is_of_choices)
    assert all(entry.value("rmse") is None for entry in found)
    assert all(bool(entry.trace) == (not is_of_choices) for entry in found if entry.error is None)
    assert found.group_measure == ("found@5" if is_of_choices else "log_loss")
    assert found.groups_table().rows
    if not is_of_choices:
        assert found["popular"].report.lists == found["bias"].report.lists


def test_suitable_models():
    stars, choices = tastes(30, 20, rng=generator(2))[0], of_kind("counts")
    others = {"implicit-als", "logistic", "ease", "blend", "profile", "autorec", "sparse-fc"}
    assert set(suitable_models(stars, seed=3)) == set(MODELS) - others
    assert set(suitable_models(choices)) >= {"popular", "implicit-als", "logistic", "ease", "blend"}
    assert not {"als", "bpmf", "mean"} & set(suitable_models(choices))
    answers = suitable_models(of_kind("yes-no"), seed=3, threads=1)
    assert answers["bpmf"].likelihood == answers["sphere"].likelihood == "logistic"
    assert "implicit-als" not in answers
    assert (answers["als"].seed, answers["als"].threads) == (3, 1)
    assert "bpmf would suit" in unsuitable(ImplicitALS(), stars)


def test_ratings_are_split_with_the_seed():
    ratings = tastes(30, 20, rng=generator(2))[0]
    found = compare_models(ratings, {"bias": DampedBias()}, share=0.3, seed=7, ranking=False, bootstrap=0, apart=False)
    split = random_split(ratings, 0.3, seed=7)
    expected = evaluate(DampedBias().fit(split.train), split, ranking=False, bootstrap=0)
    assert found["bias"].value("rmse") == expected["rmse"]
    assert found["bias"].behind["rmse"].interval is None


@pytest.mark.parametrize(
    ("models", "said"),
    [({}, "expected recommenders by name"), ({"als": ALS}, "models has"), ([ALS()], "expected recommenders by name")],
)
def test_what_is_no_model_is_refused(split, models, said):
    with pytest.raises(InvalidParameterError, match=said):
        compare_models(split, models)


def test_what_is_no_data_is_refused():
    with pytest.raises(InvalidParameterError, match="expected Ratings or a Split"):
        compare_models("ratings.csv")


@pytest.mark.parametrize("n_factors", [10**6, 10**9, 10**30])
def test_more_factors_than_the_machine_can_hold_are_not_tried(split, n_factors):
    """With a million of them the inverse of one matrix alone would take days."""
    models = {"wide": ALS(n_factors=n_factors), "mean": GlobalMean()}
    found = compare_models(split, models, bootstrap=0, ranking=False, apart=False)
    assert found["wide"].error.startswith(f"n_factors is {n_factors}, for which 60 users and 40 items would take")
    assert found["wide"].error.endswith("expected fewer factors, such as 32")
    assert found["mean"].error is None


def test_memory_that_runs_out_is_put_down_to_the_factors(split, monkeypatch):
    def run_out(*_arguments):
        raise MemoryError

    monkeypatch.setattr(ALS, "infer", run_out)
    found = compare_models(split, {"als": ALS(n_factors=7)}, bootstrap=0, ranking=False, apart=False)
    assert found["als"].error == "there is not enough memory for n_factors=7; expected fewer factors"


def test_parameters_are_checked_before_the_split_and_before_any_fit(split, monkeypatch):
    order = []
    monkeypatch.setattr(GlobalMean, "infer", lambda *_: order.append("fit"))
    monkeypatch.setattr(ALS, "check", lambda self: order.append("check"))
    monkeypatch.setattr(
        "tastespace.selection.compare_models.random_split", lambda *_, **__: order.append("split") or split
    )
    compare_models(split.train, {"mean": GlobalMean(), "als": ALS()}, bootstrap=0, ranking=False, apart=False)
    assert order.index("check") < order.index("split") < order.index("fit")


@pytest.mark.parametrize("name", ["", "  "])
def test_a_model_without_a_name_is_refused(split, name):
    with pytest.raises(InvalidParameterError, match="a text that is not empty"):
        compare_models(split, {name: GlobalMean()})


@pytest.mark.parametrize(
    "error",
    [
        MissingExtraError("The data set movielens-demo", "demo"),
        DataError("no rating", file="ratings.csv", line=3, text="u,i,x", expected="a number"),
        UnknownIdError("the model knows no item 'i9'"),
        InvalidParameterError("k is 0"),
    ],
)
def test_errors_of_a_trial_reach_the_process_that_started_it(error):
    """What cannot be unpickled breaks the pool of processes, and nobody learns what was wrong."""
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
