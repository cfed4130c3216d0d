"""`"auto"` of ImplicitALS: its measure against lists written out, and that it finds what lists need."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace import ImplicitALS, Ratings
from tastespace.errors import NotFittedError
from tastespace.models.factorization.held_out_search import Trial, Validation
from tastespace.models.factorization.implicit import search as module
from tastespace.models.factorization.implicit.cells import ImplicitState
from tastespace.models.factorization.implicit.search import (
    FEATURE_STRENGTHS,
    RIDGES,
    STRENGTHS,
    Judge,
    Settings,
    least_as_good,
    unit_of,
)
from tastespace.randomness import generator
from tastespace.testing.conformance import believed


def choices(n_users=80, n_items=60, noise=0.05, seed=3):
    """Four camps, and what people choose by chance."""
    rng = generator(seed)
    likes = (np.arange(n_users)[:, None] % 4) == (np.arange(n_items) % 4)
    users, items = np.nonzero(rng.random((n_users, n_items)) < np.where(likes, 0.5, noise))
    return Ratings.from_arrays(users, items, np.ones(len(users)))


RATINGS = choices()


@pytest.mark.parametrize("has_biases", [False, True])
def test_the_measure_is_the_ndcg_of_whole_lists(has_biases):
    rng = generator(1)
    validation = Validation.split(RATINGS, 0.2, rng)
    state = ImplicitState(*(rng.standard_normal((n, 4), np.float32) for n in (RATINGS.n_users, RATINGS.n_items)))
    found = []
    for user in range(RATINGS.n_users):
        wanted = validation.held_out.item_rows[validation.held_out.user_rows == user]
        if not len(wanted):
            continue
        scores = state.items @ state.users[user]
        if has_biases:
            scores = state.items[:, :3] @ state.users[user, :3] + state.items[:, 3]
        seen = validation.train.item_rows[validation.train.user_rows == user]
        order = [item for item in np.argsort(-scores, kind="stable") if item not in set(seen)]
        gains = [1 / np.log2(2 + place) for place, item in enumerate(order) if item in set(wanted)]
        found.append(sum(gains) / sum(1 / np.log2(2 + place) for place in range(len(wanted))))
    judged = Judge.of(validation, rng).ndcgs(state, has_biases).mean()
    assert_allclose(judged, np.mean(found), rtol=1e-6)


def test_a_model_without_an_opinion_is_in_the_middle():
    """All scores are the same: no place is better than another, and not all are the first."""
    validation = Validation.split(RATINGS, 0.2, generator(1))
    nothing = ImplicitState(*(np.zeros((n, 2), np.float32) for n in (RATINGS.n_users, RATINGS.n_items)))
    assert 0.1 < Judge.of(validation, generator(1)).ndcgs(nothing, False).mean() < 0.4


def test_many_users_are_judged_by_some(monkeypatch):
    validation = Validation.split(RATINGS, 0.2, generator(1))
    monkeypatch.setattr(module, "MAX_SCORES", 10 * RATINGS.n_items)
    assert len(Judge.of(validation, generator(1)).users) == 10


def settings_of(model):
    return model.strength_, model.regularization_


def test_what_is_found_is_among_or_between_what_is_tried():
    told = []
    model = ImplicitALS(n_factors=4, seed=1, threads=1).fit(RATINGS, observer=told.append)
    strength, ridge = settings_of(model)
    assert STRENGTHS[0] / 2 <= strength <= STRENGTHS[-1] * 2
    assert RIDGES[0] / 2 <= ridge / unit_of(RATINGS) <= RIDGES[-1] * 2
    searched = [one for one in told if one.phase.startswith("finding")]
    assert len(searched) == searched[-1].total == 4 * 5 + 4
    best = max(one.stats["held-out ndcg"] for one in searched)
    assert {"strength": strength, "regularization": ridge, "held-out ndcg": best} in [one.stats for one in searched]


def test_what_is_given_is_taken():
    told = []
    model = ImplicitALS(n_factors=4, strength=3.0, seed=1).fit(RATINGS, observer=told.append)
    assert settings_of(model)[0] == 3.0
    assert len([one for one in told if one.phase.startswith("finding")]) == 5 + 2
    told.clear()
    model = ImplicitALS(n_factors=4, strength=3.0, regularization=0.5, seed=1).fit(RATINGS, observer=told.append)
    assert settings_of(model) == (3.0, 0.5)
    assert not [one for one in told if one.phase.startswith("finding")]


def test_features_are_regularized_least_where_it_makes_no_difference():
    """Within a standard error of the best the smallest is taken; where lists get worse it is not."""
    rng = generator(4)
    values = rng.random(400)

    def trial(of_features, lost):
        noise = rng.standard_normal(400)
        fit = values - lost - 0.1 * (noise - noise.mean())
        return Trial(Settings(1.0, 1.0, of_features), -float(fit.mean()), fit)

    assert least_as_good([trial(10.0, 0.0), trial(1.0, 0.1), trial(3.0, -1e-4), trial(100.0, -2e-3)]).of_features == 3.0
    assert least_as_good([trial(10.0, 0.1), trial(1.0, 0.2), trial(3.0, 0.15), trial(100.0, 0.0)]).of_features == 100.0
    described = RATINGS.with_item_features({int(i): {"kind": "ab"[int(i) % 2]} for i in RATINGS.items.ids})
    told = []
    ImplicitALS(n_factors=4, seed=1, threads=1).fit(described, observer=told.append)
    searched = [one for one in told if one.phase.startswith("finding")]
    assert len(searched) == searched[-1].total == 4 * 5 + 4 + len(FEATURE_STRENGTHS) - 1
    assert {one.stats["feature regularization"] for one in searched} == set(FEATURE_STRENGTHS)
    told.clear()
    ImplicitALS(n_factors=4, strength=3.0, regularization=0.5, feature_regularization=2.0).fit(
        described, observer=told.append
    )
    assert not [one for one in told if one.phase.startswith("finding")]


def test_before_a_fit_nothing_is_found():
    with pytest.raises(NotFittedError, match="fit"):
        _ = ImplicitALS().strength_


def test_too_few_choices_to_hold_any_out():
    few = Ratings.from_arrays([1, 1, 2, 3], ["a", "b", "b", "c"], [1, 1, 1, 1])
    strength, ridge = settings_of(ImplicitALS(n_factors=2, seed=0).fit(few))
    assert strength in STRENGTHS
    assert ridge / unit_of(few) == pytest.approx(RIDGES[2])


def test_it_finds_better_lists_than_the_extremes():
    """On choices that were not seen."""
    everything = choices(200, 80, noise=0.05, seed=5)
    part = Validation.split(everything, 0.2, generator(2))

    def ndcg(**settings):
        model = ImplicitALS(n_factors=16, seed=1, threads=1, **settings).fit(part.train)
        rows = np.arange(part.train.n_users, dtype=np.int32)
        means = believed(model, rows).means(0, len(rows))[0][:, 0]
        return (
            Judge.of(part, generator(0)).ndcgs(ImplicitState(means, model.posterior_.draws.items[:, 0]), False).mean()
        )

    found = ndcg()
    assert found > ndcg(strength=64.0, regularization=1e-3) + 0.02
    assert found > ndcg(strength=1.0, regularization=1e3) + 0.02
