"""EASE has the least-squares optimum with a zero diagonal, whichever way it is computed, and answers from it alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from tastespace import EASE, Popular, Ratings, evaluate, load, random_split, save
from tastespace.data.csr import CSR
from tastespace.errors import ArtifactError, DataError, DataWarning, InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import People, abilities_of
from tastespace.models.linear import ease
from tastespace.models.linear.ease import LinearPosterior, is_by_users, item_weights
from tastespace.progress import silent
from tastespace.randomness import generator

WIDE, TALL = (6, 14), (20, 9)  # fewer users than items, and more: the two ways of computing


def drawn(shape, seed=0, density=0.4):
    """What users have, every user and every item occurring; values are counts."""
    rng, (n_users, n_items) = generator(seed), shape
    has = rng.random(shape) < density
    has[np.arange(n_users), rng.integers(0, n_items, n_users)] = True
    has[rng.integers(0, n_users, n_items), np.arange(n_items)] = True
    users, items = np.nonzero(has)
    return Ratings.from_arrays(users, items, rng.integers(1, 9, len(users)))


def dense(ratings):
    matrix = np.zeros((ratings.n_users, ratings.n_items))
    matrix[ratings.user_rows, ratings.item_rows] = 1
    return matrix


def by_regressions(matrix, regularization):
    """Each item regressed on the others alone, one ridge regression a column: no constraint, no inverse of it all."""
    n_items = matrix.shape[1]
    weights = np.zeros((n_items, n_items))
    for item in range(n_items):
        others = np.delete(np.arange(n_items), item)
        rest = matrix[:, others]
        normal = rest.T @ rest + regularization * np.eye(n_items - 1)
        weights[others, item] = np.linalg.solve(normal, rest.T @ matrix[:, item])
    return weights


def weights_of(ratings, regularization=3.0):
    return item_weights(ratings.by_user, ratings.n_items, regularization, silent)


# The weights


@pytest.mark.parametrize("regularization", [0.01, 3.0, 1000.0])
@pytest.mark.parametrize("shape", [WIDE, TALL, (1, 5), (5, 1), (1, 1), (7, 10), (8, 10)])
def test_the_weights_are_those_of_a_ridge_regression_on_the_other_items(shape, regularization):
    ratings = drawn(shape, seed=shape[0])
    found = weights_of(ratings, regularization).matrix
    assert found.dtype == np.float32
    assert_array_equal(np.diagonal(found), 0)
    assert_allclose(found, by_regressions(dense(ratings), regularization), rtol=1e-5, atol=1e-6)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 500), st.floats(0, 2), st.integers(0, 1000))
@examples(max_examples=60)
def test_both_ways_give_the_same_weights(n_users, n_items, regularization, item_share, seed):
    ratings = drawn((n_users, n_items), seed)
    matrices = ease._matrix(ratings.by_user, n_items), ease._matrix(ratings.by_item, n_users)
    held_back = regularization + item_share * dense(ratings).sum(0)
    units = np.sqrt(held_back / regularization)
    found = [way(*matrices, regularization, units, silent) for way in (ease._by_items, ease._by_users)]
    assert_allclose(found[0].matrix, found[1].matrix, rtol=1e-5, atol=1e-7)
    assert_allclose(found[0].unexplained, found[1].unexplained, rtol=1e-5)
    inverse_gram = np.linalg.inv(dense(ratings).T @ dense(ratings) + np.diag(held_back))
    assert_allclose(found[0].unexplained, regularization * np.diagonal(inverse_gram), rtol=1e-5)


def test_no_other_weights_without_a_diagonal_have_a_smaller_loss(rng):
    matrix = dense(drawn(TALL))
    weights = weights_of(drawn(TALL)).matrix.astype(np.float64)

    def loss(candidate):
        return np.sum((matrix - matrix @ candidate) ** 2) + 3.0 * np.sum(candidate**2)

    for _ in range(50):
        step = 0.01 * rng.standard_normal(weights.shape)
        np.fill_diagonal(step, 0)
        assert loss(weights + step) > loss(weights)
    # A twin with a plausible mistake: divided by the wrong diagonal, P_ii instead of P_jj.
    precisions = np.linalg.inv(matrix.T @ matrix + 3.0 * np.eye(len(weights)))
    broken = -precisions / np.diagonal(precisions)[:, None]
    np.fill_diagonal(broken, 0)
    assert loss(broken) > loss(weights) + 1e-3


@pytest.mark.parametrize("shape", [(30, 90), (90, 40)])
def test_blocks_change_nothing(shape, monkeypatch):
    ratings = drawn(shape, density=0.1)
    whole = weights_of(ratings)
    monkeypatch.setattr(ease, "BLOCK_NUMBERS", 7 * shape[1])
    monkeypatch.setattr(ease, "BLOCK_PRODUCTS", 5 * shape[1])
    monkeypatch.setattr(ease, "BLOCK_ROWS", 16)
    events = []
    parts = item_weights(ratings.by_user, ratings.n_items, 3.0, events.append)
    assert_allclose(parts.matrix, whole.matrix, rtol=1e-5, atol=1e-8)
    assert_allclose(parts.matrix, by_regressions(dense(ratings), 3.0), rtol=1e-4, atol=1e-6)
    last = {event.phase: (event.step, event.total) for event in events}
    n_inverted = min(shape)
    assert last == {
        "occurring together": (n_inverted, n_inverted),
        "inverting": (2, 2),
        "weights": (shape[1], shape[1]),
    }
    assert len(events) > 10


def test_users_are_inverted_only_where_they_are_fewer():
    assert is_by_users(7, 10)
    assert not is_by_users(8, 10)
    assert not is_by_users(20, 10)


def test_the_inverse_is_made_in_place():
    matrix = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    expected = np.linalg.inv(matrix)
    ease.invert(matrix, silent)
    assert_allclose(matrix, expected, rtol=1e-12)


def test_items_without_users_and_users_without_items():
    """They are in the vocabulary of ratings that were masked."""
    for shape in (WIDE, TALL):
        ratings = drawn(shape)
        masked = ratings.masked((ratings.item_rows != 3) & (ratings.user_rows != 2))
        model = EASE(regularization=3.0).fit(masked)
        weights = model.posterior_.weights
        assert_array_equal(weights.matrix[3], 0)
        assert_array_equal(weights.matrix[:, 3], 0)
        assert weights.unexplained[3] == pytest.approx(1)
        assert_allclose(weights.matrix, by_regressions(dense(masked), 3.0), rtol=1e-5, atol=1e-6)
        assert_allclose(model.recommend([2], shape[1], exclude=None).scores, 0, atol=1e-9)
        assert model.similar_items([masked.items.ids[3]]).cold.tolist() == [True]


def test_values_do_not_count_and_a_pair_counts_once():
    ratings = drawn(TALL)
    ones = replace(ratings, values=np.ones(len(ratings), np.float32))
    assert_array_equal(weights_of(ratings).matrix, weights_of(ones).matrix)
    pairs = [*ratings.user_ids(), ratings.user_ids()[0]], [*ratings.item_ids(), ratings.item_ids()[0]]
    twice = Ratings.from_arrays(*pairs, np.ones(len(ratings) + 1))
    assert_array_equal(weights_of(twice).matrix, weights_of(ones).matrix)


# Answers


@pytest.fixture(params=[WIDE, TALL], ids=["wide", "tall"])
def ratings(request):
    return drawn(request.param, seed=5)


@pytest.fixture
def model(ratings):
    return EASE(regularization=3.0, seed=0).fit(ratings)


def test_lists_are_those_of_the_matrix_product(model, ratings):
    matrix = dense(ratings)
    scores = matrix @ by_regressions(matrix, 3.0)
    ranking = model.recommend(ratings.users.ids, ratings.n_items)
    for row in range(ratings.n_users):
        unseen = np.flatnonzero(matrix[row] == 0)
        found = ranking.item_rows[row][: len(unseen)]
        assert set(found) == set(unseen)
        assert_allclose(ranking.scores[row][: len(unseen)], scores[row, found], rtol=1e-4, atol=1e-6)
    everything = model.recommend(ratings.users.ids, ratings.n_items, exclude=None)
    assert_allclose(everything.scores, np.take_along_axis(scores, everything.item_rows, 1), rtol=1e-4, atol=1e-6)


def test_predictions_are_scores_and_are_not_clipped(model, ratings):
    matrix = dense(ratings)
    users, items = (part.reshape(-1) for part in np.indices(matrix.shape))
    prediction = model.predict(ratings.users.ids.gather(users), ratings.items.ids.gather(items))
    assert_allclose(prediction.mean, (matrix @ by_regressions(matrix, 3.0)).reshape(-1), rtol=1e-4, atol=1e-6)
    low = model.rating_range_[0]
    assert low == ratings.range[0]
    assert (prediction.mean < low).any()
    assert not prediction.is_uncertain


def test_a_history_is_as_good_as_training(model, ratings):
    """The same bytes: what is believed about a user is what they have."""
    known = model.recommend(ratings.users.ids, ratings.n_items)
    names = pl.Series([f"stranger {user}" for user in ratings.user_ids()])
    history = Ratings.from_arrays(names, ratings.item_ids(), np.full(len(ratings), 7.0))
    strangers = model.recommend([f"stranger {user}" for user in ratings.users.ids], ratings.n_items, history=history)
    assert_array_equal(strangers.item_rows, known.item_rows)
    assert_array_equal(strangers.scores, known.scores)
    assert not strangers.cold.any()
    asked = model.predict(names, ratings.item_ids(), history=history).mean
    assert_array_equal(asked, model.predict(ratings.user_ids(), ratings.item_ids()).mean)


def test_news_of_a_training_user_count_beside_what_he_has(model, ratings):
    user, matrix = ratings.users.ids[0], dense(ratings)
    new = int(np.flatnonzero(matrix[0] == 0)[0])
    matrix[0, new] = 1
    ranking = model.recommend([user], ratings.n_items, history={ratings.items.ids[new]: 1.0}, exclude=None)
    expected = matrix[0] @ model.posterior_.weights.matrix
    assert_allclose(ranking.scores[0], expected[ranking.item_rows[0]], rtol=1e-5, atol=1e-6)


def test_new_users_have_scores_of_zero_and_see_popular_items_first(model, ratings):
    prediction = model.predict(["nobody", ratings.users.ids[0]], [ratings.items.ids[0], "nothing"])
    assert_allclose(prediction.mean, 0, atol=1e-9)
    assert prediction.cold.all()
    ranking = model.recommend(["nobody"], ratings.n_items)
    assert_allclose(ranking.scores, 0, atol=1e-9)
    by_count = np.argsort(-ratings.by_item.counts, kind="stable")
    assert by_count.tolist() != sorted(by_count)  # the order of rows would not do
    assert_array_equal(ranking.item_rows[0], by_count)


def test_ties_do_not_move_scores_that_say_something(model, ratings):
    users = ratings.users.ids
    for rows, scores in model.scores(users):
        seen = np.isneginf(scores)
        expected = dense(ratings)[rows] @ model.posterior_.weights.matrix
        assert_allclose(scores[~seen], expected[~seen], atol=1e-6)


def test_the_range_follows_updates():
    few = Ratings.from_arrays([0, 0, 1], [0, 1, 1], [1, 2, 1]).with_kind("counts")
    updated = EASE(regularization=1.0).fit(few).update(Ratings.from_arrays([1], [0], [70]))
    assert updated.rating_range_ == (1, 70)


def test_pairs_in_blocks(model, ratings, monkeypatch):
    users, items = np.indices((ratings.n_users, ratings.n_items)).reshape(2, -1)
    whole = model.predict(users, items).mean
    monkeypatch.setattr(ease, "BLOCK_WEIGHTS", 3)
    assert_array_equal(model.predict(users, items).mean, whole)


def test_explanations_are_the_weights(model, ratings):
    user, items = ratings.users.ids[1], ratings.items.ids
    explanation = model.explain(user, items, n=2)
    has = np.flatnonzero(dense(ratings)[1])
    assert explanation.rated_ids.to_list() == ratings.items.at(has.astype(np.int32)).to_list()
    assert_allclose(explanation.contributions, model.posterior_.weights.matrix[has].T, atol=1e-7)
    assert_allclose(explanation.base, 0, atol=1e-9)
    assert_allclose(explanation.remainder, 0, atol=1e-6)
    assert_allclose(explanation.scores, model.predict([user] * len(items), items).mean, atol=1e-7)


def test_similar_items_are_those_of_high_partial_correlation(model, ratings):
    matrix = dense(ratings)
    precisions = np.linalg.inv(matrix.T @ matrix + 3.0 * np.eye(ratings.n_items))
    sizes = np.sqrt(np.diagonal(precisions))
    expected = -precisions / np.outer(sizes, sizes)
    np.fill_diagonal(expected, 1)
    found = model.posterior_.item_similarities(np.arange(ratings.n_items, dtype=np.int32), 1)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert_allclose(found, found.T, rtol=1e-4, atol=1e-6)
    np.fill_diagonal(expected, -np.inf)
    best = model.similar_items(ratings.items.ids, 1)  # of items with the same users either may come first
    assert_allclose(best.similarities[:, 0], expected.max(axis=1), rtol=1e-4)


def test_what_it_can_be_asked():
    fitted = EASE().fit(drawn(TALL)).posterior_
    assert fitted.believe(People.without_ratings(), 1).scores(np.zeros(1, np.int32)).shape == (1, fitted.n_items)
    assert not fitted.keeps_users
    abilities = abilities_of(fitted)
    assert abilities["similar_items"]
    assert not abilities["similar_users"]
    assert not abilities["index"]


# Refusals


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_what_says_no_is_refused_by_name(value):
    wrong = Ratings.from_arrays(["ann", "bob", "bob"], ["tea", "tea", "jam"], [1.0, 150.0, value])
    with pytest.raises(
        DataError, match=rf"1 of 3 values are not above 0.*{value:g} of user 'bob' and item 'jam'.*EASE"
    ):
        EASE().fit(wrong)
    model = EASE(regularization=1.0).fit(Ratings.from_arrays(["ann", "bob", "bob"], ["tea", "tea", "jam"], [1, 1, 1]))
    with pytest.raises(DataError, match="not above 0"):
        model.update(Ratings.from_arrays(["ann"], ["jam"], [value]))
    ask = [
        lambda: model.recommend(history={"tea": 1.0, "jam": value}),
        lambda: model.predict(["new"], ["tea"], history={"jam": value}),
        lambda: model.explain(None, ["tea"], history={"jam": value}),
        lambda: next(model.scores(["new"], history={"jam": value})),
    ]
    for question in ask:
        with pytest.raises(InvalidParameterError, match=rf"history has item 'jam' with {value:g}; expected"):
            question()


def test_counts_of_any_size_are_welcome():
    model = EASE(regularization=1.0).fit(drawn(TALL))
    assert not model.recommend(history={0: 1e6, 1: 0.5}).cold[0]
    assert model.update(Ratings.from_arrays([0], [0], [1e6])).news_.how == "fitted again"


@pytest.mark.parametrize(
    ("name", "value"),
    [("regularization", 0), ("regularization", -1), ("regularization", "much"), ("regularization", float("nan"))]
    + [("most_items", 0), ("most_items", 2.5)],
)
def test_senseless_parameters_are_refused_by_name(name, value):
    with pytest.raises(InvalidParameterError, match=f"{name} is"):
        EASE(**{name: value}).fit(drawn(TALL))


def test_too_many_items_are_refused_with_figures_before_any_work():
    users, items = [0, 0, 0, 0, 1, 1, 2], [0, 1, 2, 3, 0, 1, 0]
    ratings = Ratings.from_arrays(users, items, np.ones(7))
    with pytest.raises(InvalidParameterError) as told:
        EASE(most_items=3).fit(ratings)
    message = str(told.value)
    assert "4 items" in message
    assert "most_items allows 3 " in message
    assert "the 2 with at least 2 users" in message
    assert "most_items=4" in message
    EASE(most_items=4).fit(ratings)
    many = Ratings.from_arrays(np.zeros(20_001), np.arange(20_001), np.ones(20_001))
    with pytest.raises(InvalidParameterError, match=r"20,001 items.*3\.2 GB.*allows 20,000 \(3\.2 GB\).*the 0 with"):
        EASE().fit(many)


@pytest.mark.parametrize("shape", [WIDE, TALL])
def test_next_to_no_regularization_says_so(shape):
    twins = np.zeros(shape, bool)
    twins[:, :2] = True
    users, items = np.nonzero(twins)
    ratings = Ratings.from_arrays([*users, 0], [*items, 2], np.ones(len(users) + 1))
    has = CSR(ratings.by_user.offsets, ratings.by_user.columns, ratings.by_user.values)
    with pytest.raises(NonFiniteStateError, match="larger regularization"):
        item_weights(has, shape[1], 1e-17, silent)


# Artifact


def test_weights_are_stored_in_single_precision_and_mapped(model, ratings, tmp_path):
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    kept = loaded.posterior_.weights.matrix
    assert kept.dtype == np.float32
    assert not kept.flags.owndata
    assert not kept.flags.writeable
    assert_array_equal(kept, model.posterior_.weights.matrix)
    size = (tmp_path / "model" / "posterior.safetensors").stat().st_size
    assert 4 * ratings.n_items**2 <= size < 4 * ratings.n_items**2 + 4 * ratings.n_items + 1000
    data = json.loads((tmp_path / "model" / "manifest.json").read_text())["data"]
    assert (data["minimum"], data["maximum"]) == ratings.range


def test_without_its_ratings_it_knows_items_only(model, ratings, tmp_path):
    save(model, tmp_path / "model", with_ratings=False)
    loaded = load(tmp_path / "model")
    assert not loaded.posterior_.keeps_users
    assert loaded.recommend([0]).cold[0]
    history = {0: 1.0, 1: 2.0}
    assert_array_equal(loaded.recommend(history=history).scores, model.recommend(history=history).scores)
    assert_array_equal(loaded.similar_items([0]).rows, model.similar_items([0]).rows)


def test_parts_that_do_not_fit_are_damage(model, ratings, tmp_path):
    whole = model.posterior_.arrays()
    with pytest.raises(ValueError, match="the weights are"):
        LinearPosterior.from_arrays({**whole, "unexplained": whole["unexplained"][1:]})
    fewer = {"weights": whole["weights"][1:, 1:], "unexplained": whole["unexplained"][1:]}
    model.posterior_ = LinearPosterior.from_arrays(fewer)
    save(model, tmp_path / "model")
    with pytest.raises(ArtifactError, match="damaged.*item row"):
        load(tmp_path / "model")


# Quality


def test_it_finds_what_the_like_minded_choose(rng):
    """Two crowds, each with its half of the items and now and then one of the other's."""
    n_users, n_items = 200, 60
    is_own = np.arange(n_users)[:, None] % 2 == np.arange(n_items) % 2
    users, items = np.nonzero(rng.random((n_users, n_items)) < np.where(is_own, 0.3, 0.03))
    choices = Ratings.from_arrays(users, items, np.ones(len(users)))
    shares = []
    for model in (EASE(), Popular()):
        found = model.fit(choices).recommend(range(n_users), 10).item_ids.to_numpy().reshape(n_users, 10)
        shares.append(is_own[np.arange(n_users)[:, None], found].mean())
    assert shares[0] > 0.98
    assert shares[1] < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "recall", "ndcg"),
    [("hetrec-lastfm-2k/plays.parquet", 0.2768, 0.3638), ("citeulike-a.parquet", 0.3251, 0.3369)],
)
def test_quality_on_real_choices(file, recall, ndcg, datasets):
    table = pl.read_parquet(datasets / file)
    choices = Ratings.from_arrays(table["user"], table["item"], np.ones(table.height))
    split = random_split(choices, 0.2, seed=0)
    options = {"k": (20, 100), "groups": False, "bootstrap": 0}
    found = evaluate(EASE().fit(split.train), split, **options)
    assert found["recall@20"] == pytest.approx(recall, abs=0.002)
    assert found["ndcg@100"] == pytest.approx(ndcg, abs=0.002)
    assert found["ndcg@100"] > 1.5 * evaluate(Popular().fit(split.train), split, **options)["ndcg@100"]


def test_blas_has_one_thread_while_fitting(monkeypatch):
    """With more, the order of sums would depend on how many there are."""
    seen = []

    def watched(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return item_weights(*arguments)

    monkeypatch.setattr(ease, "item_weights", watched)
    with threadpool_limits(2, user_api="blas"):
        EASE(regularization=3.0).fit(drawn(TALL))
    assert seen
    assert set(seen) == {1}


def test_what_to_take_instead_is_a_model_of_choices():
    ratings = drawn(TALL)
    model = EASE(regularization=3.0).fit(ratings)
    for ask in (
        lambda: EASE(most_items=2).fit(ratings),
        lambda: model.ask(),
        lambda: model.recommend([0], policy="cautious"),
        lambda: model.predict([0], [0]).interval(),
    ):
        with pytest.raises(InvalidParameterError, match="ImplicitALS"):
            ask()


def test_zero_is_a_star_like_any_other():
    """A pair with the lowest star was chosen all the same, and all others are no reason to refuse."""
    users, items, stars = [1, 1, 2, 2, 3, 3, 3], [1, 2, 1, 3, 1, 2, 3], [8, 0, 7, 9, 10, 6, 8]
    observed = Ratings.from_arrays(users, items, stars)
    with pytest.warns(DataWarning, match="1 of 7 stars are 0, the lowest: for EASE .* and count as 6"):
        model = EASE(regularization=1.0).fit(observed)
    same = EASE(regularization=1.0).fit(Ratings.from_arrays(users, items, [1] * 7))
    assert np.array_equal(model.posterior_.weights.matrix, same.posterior_.weights.matrix)
    assert model.predict([1, 2], [3, 2]).mean.tolist() == same.predict([1, 2], [3, 2]).mean.tolist()
    assert model.ratings_.kind == "stars"
    report = evaluate(model, Ratings.from_arrays([2], [2], [0]), relevant="all", bootstrap=0)
    assert report["recall@5"] == 1
    with pytest.raises(DataError, match="7 of 7 values are not above 0"):
        EASE().fit(Ratings.from_arrays(users, items, [0] * 7))
