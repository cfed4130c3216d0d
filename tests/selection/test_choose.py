"""The chooser: judged by held-out choices alone, within its budget, and said in words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import BPMF, Blend, Joint, Ratings, choose, load, save
from tastespace.data.splits import Split
from tastespace.errors import DataError, InvalidParameterError, TastespaceWarning
from tastespace.models import MODELS
from tastespace.randomness import generator
from tastespace.report.model_story import model_story
from tastespace.selection.choose import CLOSE, candidates_for, list_values, split_of
from tastespace.testing.toys import tastes

QUICK = {"n_factors": 3}  # what leaves implicit-als, logistic and blend


def world(n_users=80, n_items=30, seed=0):
    rng = generator(seed)
    logits = -1 + 2 * rng.standard_normal((n_users, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(rng.random(logits.shape) < 1 / (1 + np.exp(-logits)))
    return Ratings.from_arrays(users, items, np.ceil(np.exp(5 * rng.random(len(users)) ** 2))).with_kind("counts")


@pytest.fixture(scope="module")
def ratings():
    return world()


@pytest.fixture(scope="module")
def choice(ratings):
    return choose(ratings, seed=0, threads=1)


def test_the_best_on_held_out_choices_is_taken(choice, ratings):
    values = {tried.name: tried.value for tried in choice}
    assert {tried.model for tried in choice} == {"implicit-als", "popular", "ease", "blend", "logistic"}
    assert choice.taken.value == max(values.values())
    split = split_of(ratings, 0)
    assert (choice.held_out, choice.users) == (len(split.test), split.test.n_users)
    found = list_values(MODELS["popular"]().fit(split.train), split).mean()
    assert found == pytest.approx(values["popular"])


def test_what_its_trial_found_is_kept(choice, ratings):
    model = choice.recommender()
    open_ones = {name for name, value in model.get_params().items() if value == "auto"}
    assert open_ones <= {"feature_regularization"}  # of features that these ratings do not have
    split = split_of(ratings, 0)
    again = list_values(choice.recommender().fit(split.train), split).mean()
    assert again == pytest.approx(choice.taken.value, abs=0.03)


def test_it_is_the_same_every_time(choice, ratings):
    again = choose(ratings, seed=0, threads=2)
    assert [(tried.name, tried.value) for tried in again] == [(tried.name, tried.value) for tried in choice]
    assert {**again.parameters, "threads": 1} == choice.parameters


def test_models_far_behind_are_tried_once_and_others_with_all_their_settings(choice, ratings):
    candidates = candidates_for(ratings, {})
    first = {tried.model: tried.value for tried in reversed(choice.entries)}
    close = {name for name, value in first.items() if value >= CLOSE * max(first.values())}
    assert 0 < len(close) < len(first)
    for name in first:
        n = sum(tried.model == name and tried.half_life is None for tried in choice)
        assert n == (len(candidates[name]) if name in close else 1)


def test_progress_has_the_budget_and_the_best_so_far(ratings, choice):
    events = []
    choose(ratings, budget=100, seed=0, threads=1, fixed=QUICK, observer=events.append)
    each = [event for event in events if event.phase == "choosing a model"]
    assert [event.step for event in each] == list(range(len(each)))
    assert all(event.stats["budget"] == 100 for event in each)
    assert "NDCG@100" not in each[0].stats
    best = [event.stats["NDCG@100"] for event in each[1:]]
    assert 0 < best[0] <= best[-1] <= choice.taken.value + 0.1
    spent = [event.stats["seconds"] for event in each]
    assert spent == sorted(spent)


def test_words(choice):
    said = str(choice)
    assert said.startswith(f"Models tried on {choice.held_out} choices of {choice.users} users, held out from training")
    assert f"taken: {choice.taken.name}, because the values are counts: as declared; its NDCG@100 on" in said
    assert " of popular" in said.splitlines()[-1]
    assert choice["popular"].value == choice.to_polars().row(by_predicate=pl.col("name") == "popular")[1]
    assert json.loads(json.dumps(choice.to_dict()))["tried"][0]["value"] == choice.taken.value


def test_ratings_that_are_held_out_decide_alone():
    """Items of the test part that the training part lacks count, and are never found."""
    train = Ratings.from_arrays([0, 0, 1, 1, 2], [0, 1, 1, 2, 0], np.ones(5))
    test = Ratings.from_arrays([0, 2, 2], [2, 1, 9], np.ones(3))
    values = list_values(MODELS["popular"]().fit(train), Split(train, test))
    ideal = 1 + 1 / np.log2(3)
    assert values.tolist() == pytest.approx([1.0, 1 / ideal])


def test_the_split_is_of_users_with_enough(ratings):
    split = split_of(ratings, 0)
    assert len(split.train) + len(split.test) == len(ratings)
    counts = np.bincount(ratings.user_rows, minlength=ratings.n_users)
    assert len(split.test) == np.minimum(np.floor(0.2 * counts + 0.5), counts - 1).clip(0).sum()
    assert split.train.n_users == ratings.n_users


@pytest.mark.parametrize(
    ("values", "model", "words"),
    [
        ([1, 2, 3, 4, 5, 5, 4, 3], Joint, "the values are stars: values from 1 to 5"),
        ([0, 1, 1, 0, 1, 1, 0, 1], BPMF, "the values are yes-no: all values are 0 or 1"),
    ],
)
def test_stars_and_answers_need_no_trial(values, model, words):
    found = choose(Ratings.from_arrays(np.arange(8) // 4, np.arange(8) % 4, values))
    assert type(found.recommender()) is model
    assert not found.entries
    assert str(found).startswith(f"taken: {found.taken.model}, because {words}")


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_what_joint_found_by_itself_is_kept(tmp_path):
    stars = tastes(30, 20, rng=generator(1))[0]
    short = {"n_factors": 2, "warmup": 5, "draws": 5}
    fitted = choose(stars.with_kind("stars"), fixed=short, seed=0, threads=1).fit(stars)
    assert fitted.choice_["found"].keys() == {"weight", "regularization"}
    assert fitted.choice_["found"]["regularization"] == fitted.regularization_
    save(fitted, tmp_path / "m")
    assert load(tmp_path / "m").choice_ == fitted.choice_


def test_a_budget_of_nothing(ratings):
    found = choose(ratings, budget=0)
    assert (found.taken.model, len(found)) == ("implicit-als", 0)
    assert found.reason.endswith("with a budget of 0 s nothing else was tried")


def test_a_budget_that_ends_before_the_first_trial(ratings):
    found = choose(ratings, budget=1e-9)
    assert found.taken.model == "implicit-als"
    assert "none of 0 trials came to an end; the budget of 1e-09 s ended before" in found.reason


def test_a_trial_that_takes_too_long_does_not_count(ratings):
    """The watch looks at the clock whenever the fit reports."""
    found = choose(ratings, fixed={"n_factors": 3, "sweeps": 100_000, "tolerance": 0.0}, budget=0.5, threads=1)
    assert all(tried.value is None for tried in found)
    assert "not finished within the budget of 0.5 s" in found.entries[0].error
    assert found.taken.model == "implicit-als"


@pytest.mark.parametrize("budget", [-1, "much", float("nan"), float("inf")])
def test_budgets_that_are_none(ratings, budget):
    with pytest.raises(InvalidParameterError, match="budget is"):
        choose(ratings, budget=budget)


class Interrupting:
    """An observer that is interrupted when the trial of a model reports."""

    def __init__(self, name):
        self.name = name

    def __call__(self, event):
        if event.phase.startswith(f"{self.name}: "):
            raise KeyboardInterrupt


def test_an_interrupt_takes_the_best_so_far(ratings):
    with pytest.warns(TastespaceWarning, match="interrupted: implicit-als, the best so far, is taken; interrupt again"):
        found = choose(ratings, fixed=QUICK, seed=0, threads=1, observer=Interrupting("blend"))
    assert [tried.model for tried in found] == ["implicit-als"]
    assert found.taken.model == "implicit-als"
    assert found.reason.endswith("it was interrupted, and the best so far was taken")


def test_an_interrupt_before_anything_was_measured_is_one(ratings):
    with pytest.raises(KeyboardInterrupt):
        choose(ratings, observer=Interrupting("implicit-als"))


def test_given_parameters_stay(ratings):
    found = choose(ratings, fixed={"n_factors": 2, "biases": True}, seed=4, threads=1)
    assert {tried.model for tried in found} <= {"implicit-als", "logistic", "blend"}
    assert (found.parameters["n_factors"], found.parameters["seed"]) == (2, 4)
    assert all("n_factors" not in tried.settings for tried in found)


def test_parameters_that_the_guess_lacks(ratings):
    with pytest.raises(InvalidParameterError, match="ImplicitALS has no parameter 'draws'"):
        choose(ratings, fixed={"draws": 5})


def test_candidates_are_declared_by_models(ratings):
    found = candidates_for(ratings, {})
    assert {"growth": "none", "strength": "auto", "regularization": "auto"} in found["implicit-als"]
    assert found["blend"][0] == found["implicit-als"][0] == {}
    assert candidates_for(ratings.with_kind("stars"), {}) == {}
    assert not any("growth" in settings for settings in candidates_for(ratings.with_kind("one-class"), {})["blend"])
    assert MODELS["ease"].candidates(replace(ratings)) != []


@pytest.mark.parametrize(
    ("users", "items"), [([0] * 6, range(6)), (range(6), [0] * 6), ([0, 0], [0, 1]), ([0], [0])], ids=str
)
def test_too_little_to_hold_anything_out(users, items):
    users, items = list(users), list(items)
    observed = Ratings.from_arrays(users, items, np.ones(len(users))).with_kind("one-class")
    found = choose(observed)
    assert found.reason.endswith("there are too few choices to hold some out and try other models")
    assert len(found.fit(observed).recommend(users[0], 1, exclude=None).item_rows) == 1


def test_one_item_that_everybody_has():
    n = 150
    observed = Ratings.from_arrays(np.repeat(np.arange(n), 2), np.tile([0, 1], n), np.full(2 * n, 3.0))
    found = ts.fit(observed.with_kind("counts"), seed=0, threads=1)
    assert found.choice_["model"] == MODELS.name_of(type(found))


# Times


def drifting(seed=0, *, with_times=True):
    """Tastes change: everybody liked another kind of items before."""
    rng, n_users, days = generator(seed), 150, np.linspace(0, 1000, 40)
    kinds = np.stack([rng.permutation(4)[:2] for _ in range(n_users)])  # before and after
    kind = np.where(days < rng.uniform(400, 800, n_users)[:, None], kinds[:, :1], kinds[:, 1:])
    items = 50 * kind + rng.integers(0, 50, kind.shape)
    seconds = np.tile((86400 * days).astype(np.int64), n_users)
    frame = pl.DataFrame({"user": np.repeat(np.arange(n_users), len(days)), "item": items.ravel(), "time": seconds})
    frame = frame.with_columns(pl.from_epoch("time", "s"))
    return Ratings.from_frame(frame if with_times else frame.drop("time"), kind="counts")


def test_the_latest_are_held_out_where_there_are_times():
    observed = drifting()
    split = split_of(observed, 0)
    for user in split.test.users.ids[:10]:
        mine = split.train.times[split.train.user_rows == split.train.users.rows_of([user])[0]]
        held = split.test.times[split.test.user_rows == split.test.users.rows_of([user])[0]]
        assert held.min() >= mine.max()


def test_choices_may_fade():
    observed = drifting()
    found = choose(observed, fixed=QUICK, seed=0, threads=1, half_lives=[200.0, 1e6])
    by_half_life = {tried.half_life: tried.value for tried in found if tried.half_life is not None}
    assert set(by_half_life) == {200.0, 1e6}
    assert by_half_life[200.0] > by_half_life[1e6]
    assert found.taken.half_life == 200.0
    assert "half_life=200" in found.taken.name
    model = found.fit(observed)
    assert model.ratings_.values.tolist() == observed.decayed(200.0).values.tolist()
    assert model.choice_["half_life"] == 200.0


def test_without_times_nothing_fades():
    found = choose(drifting(with_times=False), fixed=QUICK, seed=0, threads=1)
    assert all(tried.half_life is None for tried in found)
    told = choose(drifting(), fixed=QUICK, seed=0, threads=1, half_lives=())
    assert all(tried.half_life is None for tried in told)


# A fit in one line


def test_fit_of_a_file_a_frame_and_ratings(ratings, tmp_path):
    frame = ratings.to_polars()
    frame.write_csv(tmp_path / "plays.csv")
    for data in (tmp_path / "plays.csv", str(tmp_path / "plays.csv"), frame, frame.to_pandas()):
        fitted = ts.fit(data, budget=0, seed=1, threads=1)
        assert fitted.is_fitted
        assert fitted.choice_["because"].startswith("the values are counts: whole numbers up to ")
    with pytest.raises(DataError, match="no such file"):
        ts.fit(tmp_path / "nowhere.csv")


def test_the_choice_travels_with_the_artifact(ratings, tmp_path):
    fitted = ts.choose(ratings, fixed=QUICK, seed=0, threads=1).fit(ratings)
    save(fitted, tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["choice"]["because"] == fitted.choice_["because"]
    assert load(tmp_path / "m").choice_ == json.loads(json.dumps(fitted.choice_))
    assert model_story(fitted, manifest)["choice"]["because"] == fitted.choice_["because"]
    more = fitted.update(Ratings.from_arrays([0], [1], [2.0]).with_kind("counts"))
    assert more.choice_ == fitted.choice_
    named = Blend(n_factors=2, seed=0).fit(ratings)
    save(named, tmp_path / "named")
    assert "choice" not in json.loads((tmp_path / "named" / "manifest.json").read_text())
    assert load(tmp_path / "named").choice_ is None


def test_only_ratings_are_chosen_for():
    with pytest.raises(InvalidParameterError, match="choose got list; expected Ratings, a frame"):
        choose([1, 2])
