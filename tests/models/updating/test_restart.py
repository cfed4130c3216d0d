"""When many ratings are new, chains go on from where they ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models.updating.world import KINDS, N_ITEMS, N_NEW, N_USERS, SMALL, fitted, parts, silently, small_news, updated
from numpy.testing import assert_array_equal

from tastespace import BPMF
from tastespace.errors import DataWarning
from tastespace.models.base.update import RESTART_SHARE, RESTART_SWEEPS, TrainingSummary
from tastespace.models.factorization.gibbs.sweep import GibbsSweep
from tastespace.models.factorization.gibbs.update import warm_states
from tastespace.randomness import generator


def test_a_restart_begins_where_the_chains_ended(model):
    draws, ratings = model.posterior_.draws, model.ratings_
    story = model.story(ratings)
    states = warm_states(model.posterior_, ratings, story, generator(0), 1)
    assert len(states) == 2
    for state, s in zip(states, (9, 19), strict=True):
        assert_array_equal(state.items.factors, draws.items[:, s, :2])
        assert_array_equal(state.items.bias, draws.items[:, s, 2])
        assert state.noise.alpha == draws.alpha[s]
        assert_array_equal(state.user_population.precision, draws.users.precisions[s])
        assert_array_equal(state.item_population.mean, draws.new_items.means[s])
        # The users go with these items: they explain the ratings about as well as the noise allows.
        scores = np.einsum("nd,nd->n", state.users.factors[ratings.user_rows], state.items.factors[ratings.item_rows])
        scores += state.users.bias[ratings.user_rows] + state.items.bias[ratings.item_rows]
        errors = (ratings.values - draws.offset) / draws.scale - scores
        assert np.mean(errors**2) < 2 / state.noise.alpha


def test_a_restart_never_begins_afresh(model, late, monkeypatch):
    def init(self, rng):
        raise AssertionError("a chain began from nothing")

    monkeypatch.setattr(GibbsSweep, "init", init)
    assert updated(model, late, sweeps=1).news_.how == "warm restart"
    with pytest.raises(AssertionError, match="from nothing"):
        BPMF(**SMALL).fit(model.ratings_)


def test_draws_until_they_are_enough_restart_as_well(late):
    after = updated(fitted("gaussian", draws="auto"), late, sweeps=1)
    trace = after.posterior_.trace
    assert trace.warmup == 1
    assert after.posterior_.draws.items.shape[1] == 2 * (trace.sweeps - 1)


def test_few_news_keep_the_draws_and_many_restart(model, late):
    few = small_news(model.ratings_)
    after = model.update(few)
    assert after.news_.how == "kept draws"
    assert after.posterior_.draws is model.posterior_.draws
    n = len(model.ratings_)
    assert after.seen_ == TrainingSummary(n, N_USERS - 2, N_ITEMS - N_NEW, added=5, updates=1)
    assert len(late) > RESTART_SHARE * n
    restarted = updated(model, late)
    assert (restarted.news_.how, restarted.news_.sweeps) == ("warm restart", RESTART_SWEEPS)
    assert restarted.seen_ == replace(TrainingSummary.of(restarted.ratings_), updates=1)
    assert restarted.posterior_.trace.warmup == RESTART_SWEEPS
    assert restarted.posterior_.trace.sweeps == RESTART_SWEEPS + 10
    assert "none added since; 1 update" in str(restarted.seen_)


def test_what_was_added_adds_up_until_a_restart(model):
    news = small_news(model.ratings_, 40)
    assert 40 > RESTART_SHARE * len(model.ratings_) > 20
    after = model.update(news.take(np.arange(20)))
    assert after.news_.how == "kept draws"
    assert updated(after, news.take(np.arange(20, 40))).news_.how == "warm restart"


def test_stale_draws_that_were_asked_for_bring_a_warning(model, late):
    with pytest.warns(DataWarning, match=r"added since are \d+%.*sweeps='auto'"):
        after = model.update(late, sweeps=0)
    assert after.news_.how == "kept draws"
    assert after.seen_.of_new_items == np.count_nonzero(late.item_ids().to_numpy() >= N_ITEMS - N_NEW)
    assert after.seen_.by_new_users == np.count_nonzero(late.user_ids().to_numpy() >= N_USERS - 2)


def test_a_forced_restart_needs_no_news(model):
    same = model.ratings_.take(np.arange(3))
    after = updated(model, same, sweeps=2)
    assert after.news_.how == "warm restart"
    assert (after.posterior_.draws.items != model.posterior_.draws.items).any()
    another = updated(after, same, sweeps=2)
    assert (after.posterior_.draws.items != another.posterior_.draws.items).any()


def test_a_level_no_longer_used_stays_one():
    ratings = parts("ordinal")[0]
    lowest = np.flatnonzero(ratings.values == 1)
    raised = replace(ratings.take(lowest), values=np.full(len(lowest), 2, np.float32))
    after = updated(fitted("ordinal"), raised, sweeps=2)
    assert after.news_.replaced == len(lowest)
    assert after.posterior_.units.levels.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", pytest.param("ordinal", marks=pytest.mark.slow)])
def test_a_restart_ends_where_a_full_fit_does(kind):
    """Predictions of unrated pairs: apart by what two runs of the sampler are apart, and nearer than the old model."""
    news = parts(kind)[1]
    longer = {"draws": 100, "warmup": 30}
    before = fitted(kind, **longer)
    after = updated(before, news, sweeps=RESTART_SWEEPS)
    refits = [
        silently(lambda seed=seed: BPMF(**SMALL | KINDS[kind] | longer | {"seed": seed}).fit(after.ratings_))
        for seed in (1, 2)
    ]
    users, items = np.repeat(np.arange(N_USERS), N_ITEMS), np.tile(np.arange(N_ITEMS), N_USERS)
    means = [model.predict(users, items).mean for model in (*refits, after, before)]
    apart = [float(np.sqrt(np.mean((mean - means[0]) ** 2))) for mean in means]
    assert apart[2] < 1.5 * apart[1]
    assert apart[3] > 2 * apart[1]
