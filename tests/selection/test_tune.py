"""A search: the same every time, judged by held-out ratings alone, and resumed as if nothing had happened."""

from __future__ import annotations

import json
import logging
import shutil
import sys

import numpy as np
import pytest

from tastespace import ALS, DampedBias, Ratings, TuneResult, evaluate, random_split, tune
from tastespace.errors import (
    CheckpointError,
    CheckpointWarning,
    InvalidParameterError,
    MissingExtraError,
    NonFiniteStateError,
)
from tastespace.models import MODELS
from tastespace.randomness import generator
from tastespace.selection.search import rungs_of
from tastespace.selection.tune import Goal
from tastespace.storage import LOCK, Lock
from tastespace.testing.toys import tastes

optuna = pytest.importorskip("optuna", reason="needs optuna: pip install 'tastespace[tune]'")

JOURNAL = "tune.journal"


@pytest.fixture(scope="module")
def ratings():
    return tastes(200, 60, density=0.5, noise=0.8, rng=generator(3))[0]


def searched(ratings, **options):
    return tune(ratings, "bias", **{"trials": 14, "share": 0.4, "threads": 1, **options})


@pytest.fixture(scope="module")
def found(ratings):
    return searched(ratings)


def outline(result):
    return [(trial.number, trial.settings, trial.value, trial.users) for trial in result.trials]


def test_the_best_is_what_the_held_out_ratings_say(found, ratings):
    split = random_split(ratings, 0.4, seed=0)
    complete = [trial for trial in found.trials if trial.is_complete]
    for trial in complete:
        # Dampings have no unit, so that a fit on a part is told the same as one on all ratings.
        model = DampedBias(**trial.settings).fit(split.train)
        assert trial.value == evaluate(model, split, ranking=False, bootstrap=0)["rmse"]
    assert found.defaults == evaluate(DampedBias().fit(split.train), split, ranking=False, bootstrap=0)["rmse"]
    best = min(complete, key=lambda trial: trial.value)
    assert found.best == best
    assert found.value == best.value < found.defaults
    assert found.settings == best.settings
    assert found.recommender() == DampedBias(**best.settings, seed=0, threads=1)


def test_most_settings_are_tried_on_some_of_the_users_only(found):
    assert found.shares == pytest.approx((1 / 9, 1 / 3, 1))
    shares = [trial.users for trial in found.trials]
    assert len(found.trials) == 14
    assert shares.count(1) < shares.count(min(shares))
    assert {round(9 * share) for share in shares} <= {1, 3, 9}
    # Nobody who was dropped on the first rung was better there than the best third.
    assert [trial.number for trial in found.trials] == list(range(1, 15))


def test_the_same_seed_gives_the_same_table_whatever_the_threads(found, ratings):
    again = searched(ratings, threads=2)
    assert outline(again) == outline(found)
    assert str(again.table()) == str(found.table())
    assert outline(searched(ratings, seed=1)) != outline(found)


def test_a_single_rung_is_all_users_at_once(ratings):
    result = searched(ratings, trials=3, rungs=1)
    assert result.shares == (1,)
    assert all(trial.is_complete for trial in result.trials)


def test_rungs_hold_users_whole_and_one_another(ratings):
    split = random_split(ratings, 0.4, seed=0)
    rungs = rungs_of(split, 3, 0)
    assert [rung.step for rung in rungs] == [1, 3, 9]
    assert [rung.split.train.n_users for rung in rungs] == [22, 67, 200]
    whole = dict(zip(split.train.users.ids, split.train.by_user.counts, strict=True))
    for below, above in zip(rungs, rungs[1:], strict=False):
        assert set(below.split.train.users.ids) < set(above.split.train.users.ids)
    for rung in rungs:
        train = rung.split.train
        assert dict(zip(train.users.ids, train.by_user.counts, strict=True)).items() <= whole.items()
        assert set(rung.split.test.users.ids) <= set(train.users.ids)
    assert len(rungs_of(split, 9, 0)) == 3  # a fourth would have fewer than 200 held-out ratings
    assert len(rungs_of(random_split(ratings, 0.02, seed=0), 3, 0)) == 1


def test_a_model_that_is_better_left_alone(ratings):
    result = searched(ratings, trials=2, ranges={"user_damping": (90, 100), "item_damping": (90, 100)})
    assert result.best is None
    assert result.settings == {}
    assert result.value == result.defaults
    assert result.recommender() == DampedBias(seed=0, threads=1)
    assert str(result.table()).splitlines()[2].split()[0] == "defaults"


def test_larger_may_be_better(ratings):
    result = searched(ratings, trials=6, measure="kendall_tau", rungs=1)
    values = [trial.value for trial in result.ranked]
    assert values == sorted(values, reverse=True)
    split = random_split(ratings, 0.4, seed=0)
    model = DampedBias(**result.ranked[0].settings).fit(split.train)
    assert values[0] == evaluate(model, split, ranking=False, bootstrap=0)["kendall_tau"]
    assert result.value == max(result.defaults, *values)


def test_yes_and_no_and_choices_have_measures_of_their_own(ratings):
    answers = searched(ratings.at_least(3), trials=1)
    assert answers.goal == Goal("log_loss")
    liked = ratings.take(np.flatnonzero(ratings.values >= 3)).with_kind("one-class")
    ones = Ratings.from_arrays(liked.user_rows, liked.item_rows, np.ones(len(liked))).with_kind("one-class")
    choices = tune(ones, "ease", trials=2, share=0.3, measure=None)
    assert choices.goal == Goal("ndcg@10")
    # The regularization is held against the number of users: for all of them it is more than for a part.
    lowest, highest = 1 * 200 / 1000, 10_000 * 200 / 1000
    assert all(lowest <= trial.settings["regularization"] <= highest for trial in choices.trials)


def test_fixed_parameters_are_passed_to_all(ratings):
    result = tune(
        *(ratings, "als"),
        trials=2,
        rungs=1,
        threads=1,
        fixed={"n_factors": 2, "sweeps": 3},
        ranges={"regularization": (0.02, 0.2)},
    )
    assert list(result.trials[0].settings) == ["regularization", "user_bias_regularization"]
    assert all(0.02 <= trial.settings["regularization"] <= 0.2 for trial in result.trials)
    assert result.recommender().get_params().items() >= {"n_factors": 2, "sweeps": 3}.items()
    assert isinstance(result.recommender(), ALS)
    assert result.changed().items() >= {"n_factors": 2, "sweeps": 3}.items()


def test_nothing_leaks_from_optuna(ratings, capfd):
    before = optuna.logging.get_verbosity()
    searched(ratings, trials=2)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("optuna").level == before


def test_progress_has_the_best_so_far(ratings):
    events = []
    result = searched(ratings, trials=3, observer=events.append)
    told = [event for event in events if event.phase == "trials"]
    assert [(event.step, event.total) for event in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert told[0].stats["rmse"] == result.defaults
    assert told[-1].stats["rmse"] == result.value


class Interrupting:
    """Interrupts during a fit of the fourth trial."""

    def __init__(self):
        self.n_trials = 0

    def __call__(self, event):
        self.n_trials += event.phase == "trials"
        if event.phase == "fitting" and self.n_trials > 3:
            raise KeyboardInterrupt


def search_als(ratings, **options):
    return tune(ratings, "als", **{"trials": 6, "share": 0.4, "threads": 1, "fixed": {"sweeps": 3}, **options})


def test_an_interrupted_search_ends_as_one_that_was_not(ratings, tmp_path):
    whole = search_als(ratings)
    part = search_als(ratings, folder=tmp_path / "kept", observer=Interrupting())
    assert part.ended_by == "interrupt"
    assert outline(part) == outline(whole)[:3]
    resumed = search_als(ratings, folder=tmp_path / "kept", resume=True)
    assert (resumed.ended_by, outline(resumed)) == ("trials", outline(whole))
    assert str(resumed.table()) == str(whole.table())
    # More trials go on; fewer than there are change nothing.
    more = search_als(ratings, folder=tmp_path / "kept", resume=True, trials=7)
    assert outline(more)[:6] == outline(whole)
    assert outline(more) == outline(search_als(ratings, trials=7))
    assert outline(search_als(ratings, folder=tmp_path / "kept", resume=True, trials=1)) == outline(more)


def test_a_search_killed_while_it_wrote_goes_on(ratings, found, tmp_path):
    searched(ratings, folder=tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join(lines[:9]) + lines[9][:40])
    with pytest.warns(CheckpointWarning, match="the last line .* was not finished and is left out"):
        resumed = searched(ratings, folder=tmp_path, resume=True)
    assert outline(resumed) == outline(found)


def test_one_killed_before_anything_was_measured_starts_again(ratings, found, tmp_path):
    searched(ratings, trials=1, folder=tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    for kept in range(3):  # nothing, the study, what run it is
        (tmp_path / JOURNAL).write_bytes(b"".join(lines[:kept]))
        assert outline(searched(ratings, folder=tmp_path, resume=True)) == outline(found)


def test_the_journal_is_one_of_optuna(ratings, found, tmp_path):
    searched(ratings, folder=tmp_path)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / JOURNAL))
    study = optuna.load_study(study_name="tastespace", storage=optuna.storages.journal.JournalStorage(backend))
    assert len(study.trials) == 14
    assert study.best_value == min(trial.value for trial in found.trials if trial.is_complete)


def test_another_search_is_not_resumed(ratings, tmp_path):
    searched(ratings, trials=1, folder=tmp_path)
    with pytest.raises(CheckpointError, match="holds a search already; resume it"):
        searched(ratings, folder=tmp_path)
    with pytest.raises(CheckpointError, match="another search .seed: 0 there, 1 here."):
        searched(ratings, folder=tmp_path, resume=True, seed=1)
    with pytest.raises(CheckpointError, match="another search .ratings: "):
        searched(ratings.take(np.arange(2_000)), folder=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="model: bias there, item-mean here"):
        tune(ratings, "item-mean", folder=tmp_path, resume=True)


def test_folders_that_cannot_be_meant(ratings, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(CheckpointError, match="is a file; expected a folder"):
        searched(ratings, folder=file)
    with pytest.raises(InvalidParameterError, match="resume is True without a folder"):
        searched(ratings, resume=True)
    with pytest.warns(CheckpointWarning, match="there is no search in .* yet"):
        searched(ratings, trials=1, folder=tmp_path / "new", resume=True)


def test_one_search_at_a_time(ratings, tmp_path):
    lock = Lock(tmp_path / LOCK)
    with pytest.raises(CheckpointError, match="another search is writing to"):
        searched(ratings, trials=1, folder=tmp_path)
    lock.release()
    searched(ratings, trials=1, folder=tmp_path)


@pytest.mark.parametrize("damage", ["garbage\n", '{"op_code": 99}\n', '{"op_code":4,"worker_id":"x"}\n', "[]\n"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_damaged_journal_is_named(ratings, tmp_path, damage, place):
    searched(ratings, trials=1, folder=tmp_path)
    content = (tmp_path / JOURNAL).read_text()
    (tmp_path / JOURNAL).write_text(damage + content if place == "first" else content + damage)
    with pytest.raises(CheckpointError, match=f"{JOURNAL} is damaged .*delete it and start again"):
        searched(ratings, folder=tmp_path, resume=True)
    assert shutil.rmtree(tmp_path) is None  # nothing is held open


def test_the_time_that_is_up_leaves_no_half_trial(ratings, tmp_path):
    result = searched(ratings, seconds=1e-9, folder=tmp_path)
    assert (result.ended_by, result.trials, result.settings) == ("time", (), {})
    assert "defaults" in str(result.table())
    assert result.to_polars().height == 0
    assert len(searched(ratings, seconds=1000, trials=2, folder=tmp_path, resume=True).trials) == 2


class Fragile(DampedBias):
    """Fails where a damping is small."""

    def infer(self, observed, rng, observer, held_out=None):
        if self.user_damping < 5:
            raise NonFiniteStateError("too little damping")
        return super().infer(observed, rng, observer, held_out)


def test_settings_with_which_a_fit_fails_are_a_row(ratings, monkeypatch, tmp_path):
    monkeypatch.setitem(MODELS, "bias", Fragile)
    result = searched(ratings, folder=tmp_path)
    failed = [trial for trial in result.trials if trial.error is not None]
    assert failed
    assert all(trial.settings["user_damping"] < 5 and trial.value is None for trial in failed)
    assert result.ranked[-len(failed) :] == sorted(failed, key=lambda trial: trial.number)
    assert {trial.error for trial in failed} == {"too little damping"}
    assert outline(searched(ratings, folder=tmp_path, resume=True)) == outline(result)
    assert json.loads(json.dumps(result.to_dict()))["trials"][failed[0].number - 1]["value"] is None


def test_warnings_of_fits_are_kept_not_shown(ratings):
    """Chains that are too short are a warning of every fit."""
    result = tune(
        *(ratings, "bpmf"),
        trials=1,
        rungs=1,
        threads=1,
        fixed={"chains": 1, "warmup": 1, "draws": 3, "thin": 1},
        ranges={"n_factors": (1, 2)},
    )
    assert result.trials[0].warnings
    assert list(result.trials[0].settings) == ["n_factors"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials is 0; expected a whole number of at least 1"),
        ({"seconds": 0}, "seconds is 0; expected a number above 0"),
        ({"share": 1.5}, "share is 1.5"),
        ({"rungs": 0}, "rungs is 0"),
        ({"measure": "colour"}, "the measure is 'colour'; expected one of rmse"),
        ({"measure": "ndcg"}, "the measure is 'ndcg'; expected one of .*ndcg@10"),
        ({"measure": "rmse@10"}, "the measure is 'rmse@10'"),
        ({"measure": "ndcg@0"}, "the measure is 'ndcg@0'"),
        (
            {"measure": "log_loss"},
            "log_loss is not measured for DampedBias on stars ratings; expected one of rmse, mae",
        ),
        ({"fixed": {"colour": 1}}, "DampedBias has no parameter 'colour'"),
        ({"fixed": {"sweeps": 0}}, "sweeps is 0"),
    ],
)
def test_bad_input(ratings, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        searched(ratings, **options)


def test_bad_ratings_and_models(ratings):
    with pytest.raises(InvalidParameterError, match="tune got list; expected Ratings"):
        tune([1], "bias")
    with pytest.raises(InvalidParameterError, match="there is no model 'alx'; expected one of mean"):
        tune(ratings, "alx")
    with pytest.raises(InvalidParameterError, match="the model mean has nothing to tune"):
        tune(ratings, "mean")


def test_without_the_extra(ratings, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"Tuning needs .* pip install 'tastespace\[tune\]'"):
        searched(ratings)


def test_as_tables_and_json(found):
    frame = found.to_polars()
    assert frame.columns == ["number", "user_damping", "item_damping", "value", "users", "seconds", "error"]
    assert frame["value"][0] == found.value
    said = json.loads(json.dumps(found.to_dict()))
    assert (said["model"], said["measure"], said["settings"]) == ("bias", "rmse", found.settings)
    assert len(said["trials"]) == 14
    assert said["held_out"] == int(0.4 * said["ratings"])
    assert isinstance(found, TuneResult)
    assert repr(found).startswith("<TuneResult of bias: RMSE 1.")
    assert found.table(3).note == "and 11 more"
    assert len(found.table(3).rows) == 4
