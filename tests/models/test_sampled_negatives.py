"""BPMF from choices: what is drawn for users, in training and when they are folded in; chances; updates; bad input."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from tastespace import BPMF, Logistic, Ratings
from tastespace.data.csr import CSR
from tastespace.errors import ConvergenceWarning, DataError, InvalidParameterError
from tastespace.models.factorization.likelihoods.sampled_negatives import SampledNegatives
from tastespace.models.registry import misfit
from tastespace.randomness import generator
from tests.models.fresh_negatives import off_by, world

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
SMALL = {"n_factors": 2, "warmup": 10, "draws": 10, "thin": 1, "seed": 1, "threads": 1}


def choices(n_users=30, n_items=25, seed=3):
    rng = generator(seed)
    likes = (np.arange(n_users)[:, None] % 2) == (np.arange(n_items) % 2)
    chosen = rng.random((n_users, n_items)) < np.where(likes, 0.4, 0.03)
    chosen[np.arange(n_users), np.arange(n_users) % n_items] = True
    users, items = np.nonzero(chosen)
    return Ratings.from_arrays(users, items, 1 + rng.poisson(2.0, len(users)))


RATINGS = choices()


def row(ratings, user):
    """The entries of a user, in order."""
    here = slice(ratings.offsets[user], ratings.offsets[user + 1])
    return sorted(zip(ratings.columns[here].tolist(), ratings.values[here].tolist(), strict=True))


def negatives(law="uniform", per_choice=4, key=9, ratings=RATINGS):
    return SampledNegatives.of(Logistic(negatives=law, n_negatives=per_choice), ratings.by_item.counts, key)


# What is drawn


def test_choices_are_yes_and_what_is_drawn_is_no():
    completed = negatives().completed(RATINGS.by_user)
    chosen = {(user, item) for user, item in zip(RATINGS.user_rows.tolist(), RATINGS.item_rows.tolist(), strict=True)}
    pairs = list(zip(completed.rows().tolist(), completed.columns.tolist(), strict=True))
    yes = completed.values == 1
    assert {pair for pair, is_yes in zip(pairs, yes, strict=True) if is_yes} == chosen
    assert not {pair for pair, is_yes in zip(pairs, yes, strict=True) if not is_yes} & chosen
    assert set(completed.values.tolist()) == {0.0, 1.0}
    # Four a choice, less those that had been chosen.
    drawn = np.bincount(completed.rows()[~yes], minlength=len(completed))
    assert (drawn <= 4 * RATINGS.by_user.counts).all()
    assert 0.6 < drawn.sum() / (4 * len(RATINGS)) < 1


def test_the_same_choices_draw_the_same_for_any_user_and_any_counts():
    by_user = RATINGS.by_user
    whole = negatives().completed(by_user)
    alone = negatives().completed(by_user.take(np.array([5], np.int32)))
    assert row(alone, 0) == row(whole, 5)
    mine = by_user.take(np.array([5], np.int32))
    order = generator(0).permutation(len(mine.columns))
    shuffled = CSR(mine.offsets, mine.columns[order], 7 * mine.values[order])
    assert row(negatives().completed(shuffled), 0) == row(whole, 5)
    assert row(negatives(key=10).completed(mine), 0) != row(whole, 5)


def test_what_was_chosen_no_times_was_not_chosen():
    mine = RATINGS.by_user.take(np.array([5], np.int32))
    values = mine.values.copy()
    values[0] = 0
    without = CSR(np.array([0, len(values) - 1]), mine.columns[1:], mine.values[1:])
    assert row(negatives().completed(CSR(mine.offsets, mine.columns, values)), 0) == row(
        negatives().completed(without), 0
    )


@pytest.mark.statistical
def test_popular_items_are_drawn_more_often():
    rng = generator(4)
    chosen = rng.random((4000, 30)) < np.linspace(0.01, 0.4, 30)
    users, items = np.nonzero(chosen)
    ratings = Ratings.from_arrays(users, items, np.ones(len(users)))
    for law, power in (("uniform", 0.0), ("popularity", 0.75)):
        completed = negatives(law, 3, ratings=ratings).completed(ratings.by_user)
        is_no = completed.values == 0
        drawn = np.bincount(completed.columns[is_no], minlength=30)
        # An item is drawn by its chance, for those who have not chosen it, three times a choice.
        counts, chances = ratings.by_user.counts, ratings.by_item.counts**power / (ratings.by_item.counts**power).sum()
        free = np.ones((ratings.n_users, 30))
        free[ratings.user_rows, ratings.item_rows] = 0
        expected = chances * (3 * counts @ free)
        assert (np.abs(drawn - expected) < 6 * np.sqrt(expected)).all()


# In a model


def test_those_who_chose_the_same_turn_down_different_things(monkeypatch):
    """While the chains run: otherwise a hundred first-time buyers would agree about ten items that they never saw."""
    seen = []
    original = BPMF._sampled

    def watched(self, model, observed, *args, **more):
        seen.append(observed)
        return original(self, model, observed, *args, **more)

    monkeypatch.setattr(BPMF, "_sampled", watched)
    clones = Ratings.from_arrays(
        np.r_[np.arange(100), np.repeat(np.arange(100, 130), 8)],
        np.r_[np.zeros(100, int), np.tile(np.arange(8), 30) * 3 + np.repeat(np.arange(30), 8) % 3],
        np.ones(340),
    )
    model = BPMF(**SMALL, likelihood=Logistic(negatives="uniform", n_negatives=3)).fit(clones)
    assert len(seen) == 1
    rows = clones.users.rows_of(range(100))
    assert len({tuple(row(seen[0].by_user, user)) for user in rows}) > 80
    # Folded in they are one and the same, again and again.
    folded = model.posterior_.draws.likelihood.sampled.completed(clones.by_user)
    assert len({tuple(row(folded, user)) for user in rows}) == 1
    assert len(set(model.predict(range(100), [3] * 100).mean)) == 1
    assert model.ratings_ is clones


def test_what_was_drawn_stays_in_lists_and_what_was_chosen_does_not():
    model = BPMF(**SMALL, likelihood=Logistic(negatives="uniform", n_negatives=5)).fit(RATINGS)
    completed = model.posterior_.draws.likelihood.sampled.completed(RATINGS.by_user)
    listed = model.recommend([0], RATINGS.n_items)
    shown = set(listed.item_rows[0][listed.item_rows[0] >= 0].tolist())
    mine = [(item, value) for item, value in row(completed, RATINGS.users.rows_of([0])[0])]
    assert shown == set(range(RATINGS.n_items)) - {item for item, value in mine if value == 1}
    assert shown & {item for item, value in mine if value == 0}


def test_a_new_user_with_a_history_is_what_training_would_have_made_of_them():
    model = BPMF(**SMALL, likelihood=Logistic(negatives="uniform")).fit(RATINGS)
    mine = RATINGS.by_user.take(RATINGS.users.rows_of([4]))
    history = dict(zip(RATINGS.items.at(mine.columns), mine.values.tolist(), strict=True))
    items = RATINGS.items.ids
    known = model.predict([4] * len(items), items).mean
    assert_array_equal(model.predict(["new"] * len(items), items, history=history).mean, known)


def test_camps_are_distinguished():
    model = BPMF(**{**SMALL, "warmup": 60, "draws": 40}, likelihood=Logistic(negatives="uniform", n_negatives=5)).fit(
        choices(60, 40)
    )
    listed = model.recommend([0, 1], 6).item_ids.to_numpy().reshape(2, 6)
    assert np.mean(listed % 2 == [[0], [1]]) >= 0.8
    stranger = model.recommend(history={0: 3.0, 2: 1.0, 4: 1.0, 8: 1.0}, n=6)
    assert np.mean(stranger.item_ids.to_numpy() % 2 == 0) >= 0.8
    explained = model.explain(None, [6, 10, 12, 14], history={0: 1.0, 2: 1.0, 4: 1.0, 1: 1.0})
    by_item = dict(zip(explained.rated_ids, explained.contributions.mean(axis=0), strict=True))
    assert np.mean([by_item[0], by_item[2], by_item[4]]) > by_item[1]
    assert model.ask(n=1).of(0).height == 1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("likelihood", "law"), [("logistic", "uniform"), ("logistic", "popularity"), ("probit", "uniform")]
)
def test_chances_come_true_among_fresh_negatives(likelihood, law):
    """Held-out choices among negatives of the same law; another number of them would show."""
    apart, rng = world(), generator(9)
    settings = {"n_factors": 2, "warmup": 40, "draws": 30, "chains": 1, "seed": 1}
    model = BPMF(likelihood=f"{likelihood}:negatives={law},n_negatives=5", **settings).fit(apart.ratings)
    assert off_by(model, apart.pairs(law, 5, rng)) < 0.02
    assert off_by(model, apart.pairs(law, 2, rng)) > 0.04


# Updates


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Any posterior will do here.
        return BPMF(**SMALL, likelihood=Logistic(negatives="popularity", n_negatives=3)).fit(RATINGS)


def test_an_update_keeps_the_draws_and_new_items_have_negatives(fitted):
    new = pl.DataFrame({"user": [0, 2, 77], "item": ["new", "new", "new"], "rating": [3.0, 1.0, 1.0]})
    new = new.with_columns(pl.col("user").cast(pl.String))
    old = Ratings.from_arrays(RATINGS.user_ids().cast(pl.String), RATINGS.item_ids().cast(pl.String), RATINGS.values)
    model = BPMF(**SMALL, likelihood=Logistic(negatives="popularity", n_negatives=3)).fit(old)
    later = model.update(new, sweeps=0)
    assert later.news_.how == "kept draws"
    assert_array_equal(later.posterior_.draws.items[: old.n_items], model.posterior_.draws.items)
    drawn, before = (each.posterior_.draws.likelihood.sampled for each in (later, model))
    assert len(drawn.chances.values) == old.n_items + 1
    assert drawn.key == before.key
    completed = drawn.completed(later.ratings_.by_user)
    assert np.count_nonzero((completed.columns == old.n_items) & (completed.values == 0)) > 0
    # Few have chosen it: nobody takes it for the best of all.
    chances = later.predict(["9"] * later.ratings_.n_items, later.ratings_.items.ids).mean
    assert chances[later.ratings_.items.rows_of(["new"])[0]] < np.quantile(chances, 0.9)


def test_a_restart_learns_from_all_choices(fitted):
    later = fitted.update(pl.DataFrame({"user": [1, 3], "item": [0, 2], "rating": [2.0, 1.0]}), sweeps=3)
    assert later.news_.how == "warm restart"
    assert later.posterior_.draws.likelihood.sampled is not None
    assert later.posterior_.units.usual < 0.6
    with pytest.raises(DataError, match="not above 0"):
        fitted.update(pl.DataFrame({"user": [1], "item": [0], "rating": [0.0]}))


@pytest.mark.parametrize(
    "likelihood",
    [Logistic(negatives="uniform", n_negatives=3), Logistic(), Logistic(negatives="popularity", n_negatives=5)],
)
def test_an_update_keeps_to_what_the_model_was_fitted_with(fitted, likelihood):
    new = pl.DataFrame({"user": [1], "item": [2], "rating": [1.0]})
    changed = fitted.update(new, sweeps=0)  # a model of its own
    changed.set_params(likelihood=likelihood)
    with pytest.raises(InvalidParameterError, match="fitted with .*negatives=popularity,n_negatives=3"):
        changed.update(pl.DataFrame({"user": [3], "item": [4], "rating": [1.0]}), sweeps=0)


# What does not fit


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InvalidParameterError, match="gaussian has 'negatives=uniform'"):
        BPMF(likelihood="gaussian:negatives=uniform").fit(RATINGS)
    with pytest.raises(InvalidParameterError, match="n_negatives is 3, and negatives is None"):
        BPMF(likelihood=Logistic(n_negatives=3)).fit(RATINGS)
    with pytest.raises(InvalidParameterError, match="negatives is 'weighted'"):
        BPMF(likelihood="logistic:negatives=weighted").fit(RATINGS)
    with pytest.raises(InvalidParameterError, match="n_negatives"):
        BPMF(likelihood=Logistic(negatives="uniform", n_negatives=0)).fit(RATINGS)


def test_yes_and_no_are_no_choices():
    wrong = Ratings.from_arrays([1, 1, 2], [1, 2, 1], [1.0, 0.0, 1.0])
    with pytest.raises(DataError, match="not above 0"):
        BPMF(**SMALL, likelihood=Logistic(negatives="uniform")).fit(wrong)


def test_all_yes_says_what_to_do():
    ones = Ratings.from_arrays([1, 1, 2], [1, 2, 1], [1.0, 1.0, 1.0])
    with pytest.raises(InvalidParameterError, match="negatives='uniform'"):
        BPMF(**SMALL, likelihood="logistic").fit(ones)
    assert BPMF(**SMALL, likelihood=Logistic(negatives="uniform")).fit(ones).predict([1], [2]).mean[0] > 0


def test_choices_suit_it():
    counts = Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 3], [1.0, 300.0, 1.0, 1.0])
    assert misfit(BPMF(likelihood="logistic:negatives=uniform"), counts) is None
    assert misfit(BPMF(), counts) is not None


def test_stars_do_not_suit_it():
    stars = Ratings.from_arrays([0, 0, 1, 1, 2], [0, 1, 0, 2, 1], [1.0, 5.0, 4.5, 2.0, 3.0])
    assert "takes all of them for choices" in misfit(BPMF(likelihood="logistic:negatives=uniform"), stars)
