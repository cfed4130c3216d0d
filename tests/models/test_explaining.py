"""Why this item: contributions against a direct formula, and what they add up to."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, DampedBias, GlobalMean, Ratings, load, save
from tastespace.errors import DataWarning, InvalidParameterError, UnknownIdError
from tastespace.models.base import attribution
from tastespace.models.base.posterior import Pairs
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

RATINGS = tastes(40, 30, density=0.4, rng=generator(8))[0]
SETTINGS = [
    {"weighting": "plain"},
    {"weighting": "weighted"},
    {"weighting": "blended"},
    {"weighting": "plain", "biases": False},
]


def fitted(**parameters):
    return ALS(n_factors=3, regularization=0.3, precision="float64", seed=1, threads=1, **parameters).fit(RATINGS)


def direct(model, user_row, item_row):
    """V_i' A^-1 V_j e_j for each rating j: how a solved system answers, written down."""
    posterior = model.posterior_
    rated = RATINGS.by_user.take(np.array([user_row], np.int32))
    prior = posterior.penalty.prior("users", 3, rated.counts, np.float64)
    scale = 1.0 if prior.scale is None else float(prior.scale[0])
    if posterior.items.bias is None:
        vectors, bias, precision = posterior.items.factors, np.zeros(RATINGS.n_items), scale * prior.precision
    else:
        vectors = np.hstack([posterior.items.factors, np.ones((RATINGS.n_items, 1))])
        bias, precision = posterior.items.bias, np.zeros((4, 4))
        precision[:3, :3], precision[3, 3] = scale * prior.precision, scale * prior.bias_precision
    seen = vectors[rated.columns]
    residuals = rated.values - posterior.mean - bias[rated.columns]
    return (vectors[item_row] @ np.linalg.inv(seen.T @ seen + precision) @ seen.T) * residuals


@pytest.mark.parametrize("parameters", SETTINGS)
def test_contributions_are_those_of_the_formula(parameters):
    model = fitted(**parameters)
    explanation = model.explain(5, [0, 7, 29])
    for position, row in enumerate(RATINGS.items.rows_of([0, 7, 29])):
        expected = direct(model, int(RATINGS.users.rows_of([5])[0]), row)
        assert_allclose(explanation.contributions[position], expected, atol=2e-5)
        # A broken twin: whoever forgot the prior would be noticed.
        assert np.abs(2 * expected - explanation.contributions[position]).max() > 1e-3


@pytest.mark.parametrize("parameters", SETTINGS)
def test_they_add_up_from_a_new_user_to_the_user(parameters):
    model = fitted(**parameters)
    items = RATINGS.items.ids
    explanation = model.explain(5, items, n=3)
    unclipped = believed(model, [-1]).mean(Pairs.of_one(0, np.arange(30, dtype=np.int32)))
    assert_allclose(explanation.base, unclipped, atol=1e-6)
    total = explanation.base + explanation.contributions.sum(axis=1)
    assert_allclose(total, explanation.scores, atol=3e-5)
    assert_allclose(explanation.remainder, 0, atol=3e-5)
    shown = np.array([explanation.of(position)["contribution"].sum() for position in range(30)])
    assert_allclose(shown + explanation.others, explanation.contributions.sum(axis=1), atol=1e-5)
    ranking = model.recommend([5], 30, exclude=None)
    assert_allclose(explanation.scores[ranking.item_rows[0]], ranking.scores[0], atol=1e-3)


def test_biases_add_up_too():
    explanation = DampedBias(seed=0).fit(RATINGS).explain(5, [0, 1])
    assert_allclose(explanation.remainder, 0, atol=1e-5)
    assert_allclose(explanation.contributions[0], explanation.contributions[1], atol=1e-6)  # a bias is for all items
    assert np.abs(explanation.contributions).max() > 0.01


def test_a_model_that_does_not_listen_has_nothing_to_say():
    explanation = GlobalMean(seed=0).fit(RATINGS).explain(5, [0])
    assert not explanation.contributions.any()


def test_the_largest_come_first_and_n_are_shown():
    explanation = fitted().explain(5, [3, 4], n=4)
    for position in range(2):
        table = explanation.of(position)
        assert table.columns == ["item", "rating", "contribution"]
        sizes = table["contribution"].abs().to_list()
        assert sizes == sorted(sizes, reverse=True)
        assert table.height == 4
        assert sizes[0] == np.abs(explanation.contributions[position]).max()
    frame = explanation.to_polars()
    assert frame.columns == ["item", "score", "base", "rated", "rating", "contribution"]
    assert frame["item"].to_list() == [3] * 4 + [4] * 4
    assert explanation.to_pandas().shape == (8, 6)
    with pytest.raises(InvalidParameterError, match="position is 2; expected one from 0 to 1"):
        explanation.of(2)


def test_a_history_counts_and_a_newer_rating_replaces_the_older():
    model = fitted()
    rated = RATINGS.by_user.take(RATINGS.users.rows_of([5]))
    item = RATINGS.items.at(rated.columns)[0]
    explanation = model.explain(5, [3], history={item: 4.5})
    assert explanation.rated_ids.to_list() == RATINGS.items.at(rated.columns).to_list()
    assert explanation.ratings[0] == 4.5
    stranger = model.explain(None, [3], history={0: 5.0, 1: 1.0})
    assert (stranger.user_id, sorted(stranger.rated_ids)) == ("you", [0, 1])
    assert not stranger.cold


def test_what_was_rated_high_and_alike_pushes_up():
    """In a world of two tastes, what pushes a film is of its kind."""
    users, items = np.meshgrid(np.arange(30), np.arange(20), indexing="ij")
    values = np.where(users % 2 == items % 2, 5.0, 1.0)
    keep = generator(1).random(values.shape) < 0.6
    ratings = Ratings.from_arrays(users[keep], items[keep], values[keep])
    model = ALS(n_factors=2, regularization=0.05, biases=False, seed=0).fit(ratings)
    explanation = model.explain("new", [2, 3], history={0: 5.0, 1: 1.0})
    assert (explanation.contributions[0] > 0.3).all()
    assert (explanation.contributions[1] < -0.3).all()


def test_blocks_change_nothing(monkeypatch):
    model = fitted()
    whole = model.explain(5, [3, 4])
    monkeypatch.setattr(attribution, "BLOCK_RATINGS", 1)
    assert_array_equal(model.explain(5, [3, 4]).contributions, whole.contributions)


def test_a_user_without_ratings():
    explanation = fitted().explain("nobody", [3, 4])
    assert explanation.cold
    assert_array_equal(explanation.scores, explanation.base)
    assert explanation.of(0).height == 0
    assert explanation.to_polars().height == 0
    assert explanation.others.tolist() == [0, 0]
    assert "no ratings to explain by" in repr(explanation)


def test_what_a_person_reads():
    titles = pl.Series([f"Film {item}" for item in RATINGS.items.ids])
    model = ALS(n_factors=3, seed=1).fit(RATINGS.with_items(titles))
    explanation = model.explain(5, [3, 4, 5, 6], n=2)
    text = repr(explanation)
    assert text.startswith("Explanation of 4 items for user 5\nFilm 3 [3]: ")
    assert "other ratings" in text
    assert "… and 1 more" in text
    assert text.count("because Film") == 6
    assert explanation.to_polars().columns[:2] == ["item", "title"]
    assert "rated_title" in explanation.to_polars().columns


def test_questions_that_make_no_sense(tmp_path):
    model = fitted()
    with pytest.raises(UnknownIdError, match="nowhere"):
        model.explain(5, ["nowhere"])
    with pytest.raises(InvalidParameterError, match="n is 0"):
        model.explain(5, [3], n=0)
    with pytest.raises(InvalidParameterError, match="explain got neither users nor a history"):
        model.explain(None, [3])
    with pytest.raises(InvalidParameterError, match="a history of 2 users; expected user_id, one of them"):
        model.explain(None, [3], history=Ratings.from_arrays(["a", "b"], [0, 1], [3.0, 3.0]))
    save(model, tmp_path / "m", with_ratings=False)
    loaded = load(tmp_path / "m")
    with pytest.raises(InvalidParameterError, match="saved without its ratings.*expected a history"):
        loaded.explain(5, [3])
    with pytest.warns(DataWarning, match="only the history counts"):
        assert loaded.explain(5, [3], history={1: 3.0}).rated_ids.to_list() == [1]
    assert loaded.explain("nobody", [3]).cold
