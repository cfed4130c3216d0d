"""Users once, asked about several times: what is believed of them is concluded once."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace import ALS, BPMF
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import gaussian


@pytest.fixture(scope="module")
def model():
    ratings, _ = gaussian(40, 30, density=0.5, rng=generator(1))
    return BPMF(n_factors=2, chains=1, warmup=20, draws=60, seed=1, threads=1).fit(ratings)


def test_what_is_asked_of_a_request_is_what_is_asked_of_the_users(model):
    users = model.ratings_.users.ids[:3].to_list()
    about = model.about(users)
    assert model.recommend(about, 4).to_polars().equals(model.recommend(users, 4).to_polars())
    assert model.ask(about, 3).to_polars().equals(model.ask(users, 3).to_polars())
    one = model.about(users[:1])
    items = model.ratings_.items.ids[:5].to_list()
    assert model.predict(one, items).to_polars().equals(model.predict(users[:1] * 5, items).to_polars())
    assert model.explain(one, items[:2]).to_polars().equals(model.explain(users[0], items[:2]).to_polars())


def test_the_belief_is_concluded_once(model, monkeypatch):
    about = model.about([0], history={1: 3.0})
    times = []
    believe = type(model.posterior_).believe
    monkeypatch.setattr(type(model.posterior_), "believe", lambda *given: times.append(1) or believe(*given))
    model.recommend(about, 2)
    model.predict(about, [2, 3])
    assert len(times) == 1


def test_a_history_instead_of_training_is_all_that_counts(model):
    history = {1: 3.0, 2: 1.0}
    instead = model.recommend(model.about([0], history=history, instead=True), 30)
    stranger = model.recommend(["nobody"], 30, history=history)
    assert (instead.item_rows == stranger.item_rows).all()
    np.testing.assert_array_equal(instead.scores, stranger.scores)
    beside = model.recommend([0], 30, history=history)
    assert not np.array_equal(beside.scores, instead.scores)


def test_nothing_instead_of_training_is_a_new_user(model):
    nothing = model.about([0], instead=True)
    assert nothing.cold.all()
    assert model.recommend(nothing, 3).to_polars()["item"].to_list() == (
        model.recommend(["nobody"], 3).to_polars()["item"].to_list()
    )


def test_all_of_training_instead_of_training_changes_nothing(model):
    row = model.ratings_.by_user.take(np.array([0]))
    items = model.ratings_.items.at(row.columns).to_list()
    history = dict(zip(items, row.values.tolist(), strict=True))
    user = model.ratings_.users.ids[0]
    instead = model.about([user], history=history, instead=True)
    assert (instead.people.trained.columns == row.columns).all()  # the draws have seen them
    np.testing.assert_allclose(model.recommend(instead, 5).scores, model.recommend([user], 5).scores, rtol=1e-5)


def test_a_history_may_repeat_itself_and_differ_from_training(model):
    """Of a pair the newest counts; what training had is known by item and value."""
    trained = model.ratings_
    users = trained.users.ids[:3].to_list()
    given, expected, before = [], {}, {}
    rng = generator(3)
    for place, user in enumerate(users):
        row = trained.by_user.take(np.array([place]))
        had = dict(zip(row.columns.tolist(), row.values.tolist(), strict=True))
        for item in rng.permutation(trained.n_items)[:20].tolist() * 2:
            value = had[item] if item in had and rng.random() < 0.5 else float(rng.integers(1, 6))
            given.append((user, trained.items.ids[item], value))
            expected[place, item] = value
        before |= {(place, item): value for item, value in had.items()}
    history = Ratings.from_arrays(*zip(*given, strict=True))
    people = model.about(users, history=history, instead=True).people

    def listed(part):
        return list(zip(part.rows().tolist(), part.columns.tolist(), part.values.tolist(), strict=True))

    assert listed(people.history) == [(*pair, np.float32(value)) for pair, value in sorted(expected.items())]
    still = [(*pair, value) for pair, value in sorted(expected.items()) if before.get(pair) == np.float32(value)]
    assert still
    assert listed(people.trained) == still


def test_what_makes_no_sense(model):
    other = ALS(n_factors=2, seed=1, regularization=0.1).fit(model.ratings_)
    with pytest.raises(InvalidParameterError, match="another model"):
        other.recommend(model.about([0]))
    with pytest.raises(InvalidParameterError, match="beside about"):
        model.recommend(model.about([0]), history={1: 2.0})
    with pytest.raises(InvalidParameterError, match="3 users and 2 items"):
        model.predict(model.about([0, 1, 2]), [1, 2])
