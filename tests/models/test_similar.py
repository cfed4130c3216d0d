"""What is like what: cosines against a direct computation, filters, and models that cannot say."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, BPMF, DampedBias, GlobalMean, ItemKNN, Joint, Popular, Ratings, UserKNN
from tastespace.errors import ConvergenceWarning, InvalidParameterError, UnknownIdError
from tastespace.models.base.similarity import directions
from tastespace.models.base.top_n import Prepared
from tastespace.models.baselines.baselines import BiasBelief, BiasPosterior
from tastespace.models.factorization.gibbs.item_draws import ItemDraws
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = tastes(40, 30, density=0.4, rng=generator(8))[0].with_items(
    None, pl.DataFrame({"genres": [["even"] if row % 2 == 0 else ["odd"] for row in range(30)]})
)


@pytest.fixture(scope="module")
def model():
    return ALS(n_factors=3, regularization=0.1, seed=1, threads=1).fit(RATINGS)


def cosines(one, other):
    return (one @ other.T) / np.linalg.norm(one, axis=1)[:, None] / np.linalg.norm(other, axis=1)


def test_items_against_all_cosines(model):
    factors = model.posterior_.items.factors.astype(np.float64)
    expected = cosines(factors, factors)
    np.fill_diagonal(expected, -np.inf)
    counts = np.bincount(RATINGS.item_rows, minlength=30)
    for shrinkage, options in ((0, {"shrinkage": 0}), (5, {"shrinkage": 5.0}), (20, {})):
        trust = counts / (counts + shrinkage)
        shrunk = np.where(np.isfinite(expected), expected * np.outer(trust, trust), -np.inf)
        found = model.similar_items(RATINGS.items.ids, 5, **options)
        for row in range(30):
            best = np.argsort(-shrunk[row])[:5]
            assert found.rows[row].tolist() == best.tolist()
            assert_allclose(found.similarities[row], shrunk[row, best], atol=1e-5)
        assert not found.cold.any()


def test_rare_items_do_not_win_by_chance():
    """Two genres and many items that few have rated: of an item with many ratings, the neighbors are others like it."""
    rng = np.random.default_rng(3)
    n_known, n_rare = 20, 400
    users, items = np.nonzero(rng.random((150, n_known)) < 0.6)
    rare_users, rare_items = rng.integers(150, size=2 * n_rare), n_known + np.arange(2 * n_rare) % n_rare
    likes = np.clip(np.where((users + items) % 2 == 0, 4.0, 2.0) + rng.normal(0, 1.0, len(users)), 1, 5)
    rare_likes = np.where((rare_users + rare_items) % 2 == 0, 5.0, 1.0)
    observed = Ratings.from_arrays(
        np.concatenate([users, rare_users]), np.concatenate([items, rare_items]), np.concatenate([likes, rare_likes])
    )
    model = ALS(n_factors=8, regularization=0.02, seed=0).fit(observed)

    def rare(**options):
        return (model.similar_items(np.arange(n_known), 5, **options).to_polars()["similar"] >= n_known).mean()

    assert rare() < 0.05
    assert rare(shrinkage=0) > 0.5  # the broken twin


def test_alternatives_and_complements_are_distinguished():
    """Cameras are chosen with their bags by the same users, who like cameras and dislike bags, or the other way."""
    rng = np.random.default_rng(0)
    n_users, n_items = 600, 24  # items 0-5 and 6-11 are shop one's cameras and bags, 12-17 and 18-23 shop two's
    shop = np.arange(n_users) % 2
    at_home = (np.arange(n_items) // 12) == shop[:, None]
    chosen = rng.random((n_users, n_items)) < np.where(at_home, 0.6, 0.03)
    users, items = np.nonzero(chosen)
    likes_cameras, is_camera = (np.arange(n_users) // 2) % 2 == 0, items // 6 % 2 == 0
    stars = np.clip(3 + np.where(likes_cameras[users] == is_camera, 1.5, -1.5) + rng.normal(0, 0.5, len(users)), 1, 5)
    observed = Ratings.from_arrays(users, items, stars.round(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Short: two directions of taste are found soon.
        model = Joint(n_factors=4, chains=1, warmup=20, draws=20, seed=0, weight=1.0).fit(observed)
    with_it = model.similar_items([0], 5, kind="alternatives").to_polars()["similar"]
    beside = model.similar_items([0], 5, kind="complements").to_polars()["similar"]
    assert set(with_it) <= set(range(1, 6))
    assert set(beside) <= set(range(6, 12))


def test_a_kind_of_similarity_needs_both_sides(model):
    with pytest.raises(InvalidParameterError, match="does not distinguish choices and tastes"):
        model.similar_items([1], kind="complements")
    with pytest.raises(InvalidParameterError, match="kind is 'twins'; expected None, 'alternatives' or 'complements'"):
        model.similar_items([1], kind="twins")
    with pytest.raises(InvalidParameterError, match="shrinkage"):
        model.similar_items([1], shrinkage=-1)


def test_a_bias_is_no_part_of_likeness(model):
    """A broken twin: cosines of the whole item vectors, biases and all, are others."""
    vectors = model.posterior_.item_vectors.astype(np.float64)
    wrong = cosines(vectors, vectors)
    np.fill_diagonal(wrong, -np.inf)
    found = model.similar_items(RATINGS.items.ids, 5)
    assert (found.rows != np.argsort(-wrong, axis=1)[:, :5]).any()


def test_users_against_all_cosines(model):
    factors = model.posterior_.users.factors.astype(np.float64)
    expected = cosines(factors, factors)
    np.fill_diagonal(expected, -np.inf)
    found = model.similar_users([3, 7], 4)
    for position, row in enumerate(RATINGS.users.rows_of([3, 7])):
        best = np.argsort(-expected[row])[:4]
        assert found.rows[position].tolist() == best.tolist()
        assert_allclose(found.similarities[position], expected[row, best], atol=1e-5)


def test_a_new_user_with_the_ratings_of_a_user_is_most_similar_to_them(model):
    row = RATINGS.users.rows_of([7])
    rated = RATINGS.by_user.take(row)
    history = dict(zip(RATINGS.items.at(rated.columns).to_list(), rated.values.tolist(), strict=True))
    found = model.similar_users(history=history, n=2)
    assert found.ids.to_list() == ["you"]
    assert found.of(0)["user"][0] == 7
    assert found.of(0)["similarity"][0] > 0.999


def test_a_user_without_ratings_is_similar_to_none(model):
    found = model.similar_users(["nobody", 3, 3], 4)
    assert found.cold.tolist() == [True, False, False]
    assert [table.height for table in found] == [0, 4, 4]
    assert_array_equal(found.rows[1], found.rows[2])
    assert "cold: nothing to compare by" in repr(found)


def test_filters(model):
    everything = model.similar_items([4], 30)
    assert everything.of(0).height == 29
    best = everything.of(0)["item"].to_list()
    even = model.similar_items([4], 30, where="genre = even")
    assert even.of(0)["item"].to_list() == [item for item in best if RATINGS.items.rows_of([item])[0] % 2 == 0]
    assert model.similar_items([4], 2, exclude=best[:3]).of(0)["item"].to_list() == best[3:5]
    assert model.similar_items([4], 2, exclude=[best[0], "unknown"]).of(0)["item"][0] == best[1]
    only = model.similar_items(4, 9, only=pl.DataFrame({"item": [best[7], best[2], 4]}))
    assert only.of(0)["item"].to_list() == [best[2], best[7]]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"item_ids": ["nowhere"]}, UnknownIdError, "knows no item 'nowhere'"),
        ({"n": 0}, InvalidParameterError, "n is 0"),
        ({"exclude": "seen"}, InvalidParameterError, "exclude is 'seen'; expected items"),
        ({"only": ["nowhere"]}, UnknownIdError, "nowhere"),
        ({"where": "colour = red"}, InvalidParameterError, "not an attribute of the items"),
        (
            {"exclude": pl.DataFrame({"user": [1], "item": [1]})},
            InvalidParameterError,
            "column of users; expected items",
        ),
    ],
)
def test_questions_that_make_no_sense(model, parameters, error, message):
    with pytest.raises(error, match=message):
        model.similar_items(**{"item_ids": [1], **parameters})


def test_a_user_must_be_given(model):
    with pytest.raises(InvalidParameterError, match="similar_users got neither users nor a history"):
        model.similar_users()


@pytest.mark.parametrize("kind", [GlobalMean, Popular, DampedBias])
def test_models_without_tastes_say_so(kind):
    fitted = kind(seed=0).fit(RATINGS)
    with pytest.raises(
        InvalidParameterError, match="how similar items are; expected one that learns tastes, such as als"
    ):
        fitted.similar_items([1])
    with pytest.raises(InvalidParameterError, match="how similar users are"):
        fitted.similar_users([1])


def test_what_a_person_reads(model):
    titled = ALS(n_factors=3, regularization=0.1, seed=1).fit(
        RATINGS.with_items(pl.Series([f"Film {item}" for item in RATINGS.items.ids]))
    )
    found = titled.similar_items([4, 5, 6, 7], 2)
    assert repr(found).startswith("Similar to 4 items\nitem Film 4 [4]\n    1  ")
    assert "… and 1 more" in repr(found)
    assert found.to_polars().columns == ["item", "title", "rank", "similar", "similar_title", "similarity"]
    assert found.to_pandas().shape == (8, 6)
    assert found.of(1).columns == ["rank", "item", "title", "similarity"]
    assert model.similar_items([4]).to_polars().columns == ["item", "rank", "similar", "similarity"]
    assert model.similar_users([4]).to_polars().columns == ["user", "rank", "similar", "similarity"]
    with pytest.raises(InvalidParameterError, match="position is 4"):
        found.of(4)


def test_a_place_at_the_origin_is_like_nothing():
    assert_array_equal(directions(np.array([[0, 0], [3, 4]], np.float32)), np.array([[0, 0], [0.6, 0.8]], np.float32))


# Two pairs of users and of items; item 12 and user 3 share nothing with any other, nor do 13 and 4.
LONELY = Ratings.from_arrays([1, 1, 2, 2, 3, 4], [10, 11, 10, 11, 12, 13], [5, 4, 1, 2, 3, 3.0])


def test_items_without_neighbours_are_like_nothing():
    found = ItemKNN().fit(LONELY).similar_items([12, 10], 3)
    assert found.cold.tolist() == [True, False]
    assert [table["item"].to_list() for table in found] == [[], [11]]  # 12 and 13 are no padding
    assert (found.of(1)["similarity"] > 0).all()
    assert found.rows.tolist() == [[-1, -1, -1], [1, -1, -1]]
    assert np.isneginf(found.similarities[found.rows < 0]).all()


def test_what_a_filter_leaves_out_makes_nothing_cold():
    found = ItemKNN().fit(LONELY).similar_items([10], 3, exclude=[11])
    assert found.of(0).height == 0
    assert not found.cold.any()


def test_users_without_anything_in_common_are_not_similar():
    found = UserKNN().fit(LONELY).similar_users([3, 1], 3)
    assert found.cold.tolist() == [True, False]
    assert [table["user"].to_list() for table in found] == [[], [2]]


def test_what_lies_at_the_origin_is_like_nothing(model):
    """Items and users that were never rated, or never rate: nothing is known of their direction."""
    posterior = model.posterior_
    items, users = posterior.items.factors.copy(), posterior.users.factors.copy()
    items[[2, 5]], users[[2, 5]] = 0, 0
    changed = replace(
        posterior, items=replace(posterior.items, factors=items), users=replace(posterior.users, factors=users)
    )
    fitted = ALS(threads=1).restore(RATINGS, changed, 1, RATINGS.range)
    for found, ids in (
        (fitted.similar_items(RATINGS.items.ids, 30), RATINGS.items.ids),
        (fitted.similar_users(RATINGS.users.ids, 40), RATINGS.users.ids),
    ):
        assert np.flatnonzero(found.cold).tolist() == [2, 5]
        assert [found.of(place).height for place in (2, 5)] == [0, 0]
        others = found.rows[~found.cold]
        assert not np.isin(others, [2, 5]).any()
        assert ((others >= 0).sum(axis=1) == len(ids) - 3).all()
    first = RATINGS.items.ids[0]
    only = fitted.similar_items([first], 9, only=RATINGS.items.at(np.array([2, 3])))
    assert only.rows[0][only.rows[0] >= 0].tolist() == [3]


class Opinionated(BiasPosterior):
    """A posterior without embeddings that says itself what is similar: neighbours in number."""

    def item_similarities(self, item_rows, threads):
        distance = np.abs(item_rows[:, None] - np.arange(len(self.item_bias)))
        return (1 / (1 + distance)).astype(np.float32)

    def believe(self, people, threads):
        return OpinionatedBelief(self, super().believe(people, threads).bias)


class OpinionatedBelief(BiasBelief):
    def user_similarities(self, rows):
        distance = np.abs(rows[:, None] - np.arange(len(self.posterior.user_bias)))
        return (1 / (1 + distance)).astype(np.float32)


def test_models_that_compare_in_a_way_of_their_own(monkeypatch):
    plain = DampedBias(seed=0).fit(Ratings.from_arrays(np.arange(100) % 10, np.arange(100) // 10, np.arange(100.0)))
    base = plain.posterior_
    posterior = Opinionated(base.mean, base.user_bias, base.item_bias, base.item_appeal, base.user_damping)
    fitted = DampedBias().restore(plain.ratings_, posterior, 0, (0.0, 99.0))
    import tastespace.models.base.similarity as similarity

    for block in (similarity.BLOCK_SCORES, 1):
        monkeypatch.setattr(similarity, "BLOCK_SCORES", block)
        found = fitted.similar_items([3, 0], 3, exclude=[5])
        assert found.rows.tolist() == [[2, 4, 1], [1, 2, 3]]
        assert_allclose(found.similarities[0], [1 / 2, 1 / 2, 1 / 3])
        assert fitted.similar_users([0], 2).rows.tolist() == [[1, 2]]
    # All are asked about at once; the best is 9, and then what is far from what is chosen.
    diverse = fitted.recommend(["x", "y"], 3, diversity=1.0, exclude=None)
    assert diverse.item_rows.tolist() == [[9, 0, 5], [9, 0, 5]]


def test_similar_users_are_those_of_all_draws(monkeypatch):
    """Many users are folded in by the draws that are compared alone, which changes nothing."""
    ratings = tastes(60, 40, rng=generator(4))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BPMF(n_factors=2, warmup=5, draws=20, seed=0).fit(ratings)
    monkeypatch.setattr(type(model.posterior_), "people_at_once", 8)
    few = model.similar_users(ratings.users.ids, 5)
    monkeypatch.setattr(ItemDraws, "thinned", lambda self, places: None)
    model._prepared = Prepared(model.posterior_, ratings)  # nothing that was computed before
    all_of_them = model.similar_users(ratings.users.ids, 5)
    assert few.to_polars().equals(all_of_them.to_polars())
