"""The neighbourhood models equal a dense computation of their formula, and a small case worked out by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import neighbours as reference

from tastespace import ItemKNN, Ratings, UserKNN, evaluate, load, random_split, save
from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.models.base.posterior import Pairs, People, abilities_of
from tastespace.models.neighbors import knn
from tastespace.models.neighbors.knn import ItemNeighbours, UserNeighbours
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

SIMILARITIES = ["cosine", "pearson", "adjusted-cosine"]


def dense(ratings):
    matrix = np.full((ratings.n_users, ratings.n_items), np.nan)
    matrix[ratings.user_rows, ratings.item_rows] = ratings.values
    return matrix


def drawn(seed, n_users=9, n_items=8, density=0.5):
    """Ratings in which every user and every item occurs."""
    rng = np.random.default_rng(seed)
    observed = rng.random((n_users, n_items)) < density
    observed[np.arange(n_users), rng.integers(0, n_items, n_users)] = True
    observed[rng.integers(0, n_users, n_items), np.arange(n_items)] = True
    knn, items = np.nonzero(observed)
    return Ratings.from_arrays(knn, items, rng.integers(1, 6, len(knn)))


def expected_ratings(model, ratings):
    """All ratings by the formula, from dense matrices."""
    matrix = dense(ratings)
    mean, user_bias, item_bias = reference.biases(matrix, model.user_damping, model.item_damping, 20)
    baseline = mean + user_bias[:, None] + item_bias
    residuals = matrix - baseline
    is_items = isinstance(model, ItemKNN)
    compared = residuals
    if model.similarity == "adjusted-cosine":
        compared = matrix - np.nanmean(matrix, axis=1 if is_items else 0, keepdims=True)
    rows = compared.T if is_items else compared
    rule = {"shrinkage": model.shrinkage, "min_common": model.min_common}
    alike = reference.similarities(rows, rows, common_norms=model.similarity != "cosine", **rule)
    rule = {"n_neighbours": model.n_neighbours, "least": model.min_similarity, "damping": model.damping}
    if is_items:
        return baseline + reference.average_over_items(alike, residuals, n_candidates=model.n_candidates, **rule)
    return baseline + reference.average_over_users(alike, residuals, **rule)


def all_scores(model, ratings):
    rows = np.arange(ratings.n_users, dtype=np.int32)
    return believed(model, rows).scores(np.arange(len(rows), dtype=np.int32))


def all_pairs(model, ratings):
    rows = np.arange(ratings.n_users, dtype=np.int32)
    user_rows, item_rows = np.repeat(rows, ratings.n_items), np.tile(np.arange(ratings.n_items), ratings.n_users)
    predicted = believed(model, rows).mean(Pairs(user_rows, item_rows.astype(np.int32)))
    return predicted.reshape(ratings.n_users, ratings.n_items)


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
@pytest.mark.parametrize("similarity", SIMILARITIES)
@examples(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_neighbours=st.integers(1, 9),
    shrinkage=st.sampled_from([0.0, 3.0]),
    damping=st.sampled_from([0.0, 0.2]),
    min_similarity=st.sampled_from([0.0, 0.15]),
    min_common=st.integers(1, 3),
    width=st.integers(1, 9),
)
def test_equals_the_formula(
    model_class, similarity, seed, n_neighbours, shrinkage, damping, min_similarity, min_common, width
):
    model = model_class(
        n_neighbours=n_neighbours,
        similarity=similarity,
        shrinkage=shrinkage,
        damping=damping,
        min_similarity=min_similarity,
        min_common=min_common,
        user_damping=2.0,
        item_damping=3.0,
        threads=1,
    )
    if model_class is ItemKNN:
        model.n_candidates = width
    ratings = drawn(seed)
    expected = expected_ratings(model, ratings)
    model.fit(ratings)
    # Whole-number ratings tie: two neighbours equally similar but for rounding may be swapped, which shows.
    close = np.isclose(all_scores(model, ratings), expected, atol=2e-4)
    assert close.mean() > 0.9
    assert_allclose(all_scores(model, ratings), all_pairs(model, ratings), atol=1e-5)


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_equals_the_formula_everywhere_where_nothing_ties(model_class, similarity):
    ratings, _ = tastes(25, 20, density=0.5, rng=np.random.default_rng(5))
    model = model_class(n_neighbours=4, similarity=similarity, shrinkage=2.0, threads=1).fit(ratings)
    assert_allclose(all_scores(model, ratings), expected_ratings(model, ratings), atol=1e-4)
    # The broken twin: one neighbour more.
    model.n_neighbours = 5
    assert np.abs(all_scores(model, ratings) - expected_ratings(model, ratings)).max() > 0.01


# Two like-minded users and one of the opposite mind. Very large damping of the biases leaves the mean, 3, alone.
BY_HAND = Ratings.from_arrays(list("aaabbbcc"), list("xyzxyzxy"), [5, 4, 1, 5, 4, 1, 1, 3])
PLAIN = {"user_damping": 1e9, "item_damping": 1e9, "damping": 0.0, "shrinkage": 0.0}


def test_item_neighbours_by_hand():
    """Residuals: x (2, 2, -2), y (1, 1, 0), z (-2, -2, none). What c gave to x and y decides about z."""
    model = ItemKNN(**PLAIN, min_similarity=0.0).fit(BY_HAND)
    alike = model.posterior_.item_similarities(np.arange(3, dtype=np.int32), 1)
    assert_allclose(alike[0, 1], (2 + 2) / np.sqrt(12 * 2), atol=1e-6)
    assert (alike[2, :2] == 0).all()  # z has only negative similarities, so that it has no neighbours
    assert_allclose(model.predict(["c", "a"], ["z", "y"]).mean, [3.0, 5.0], atol=1e-5)
    shrunk = ItemKNN(**(PLAIN | {"shrinkage": 3.0})).fit(BY_HAND)
    assert_allclose(
        shrunk.posterior_.item_similarities(np.array([0], np.int32), 1)[0, 1], 0.5 * 4 / np.sqrt(24), atol=1e-6
    )


def test_user_neighbours_by_hand():
    """Residuals: a and b (2, 1, -2), c (-2, 0, none), d (2, none, none): a and b are as similar to d as c is not."""
    model = UserKNN(**PLAIN).fit(BY_HAND)
    history = {"x": 5.0}
    people = People.new_users(BY_HAND.by_user.take(np.array([0, 2], np.int32)))
    alike = model.posterior_.believe(people, 1).user_similarities(np.array([0, 1], np.int32))
    assert_allclose(alike[0], [1, 1, -4 / np.sqrt(9 * 4)], atol=1e-6)
    assert_allclose(alike[1], [-4 / 6, -4 / 6, 1], atol=1e-6)
    assert_allclose(model.predict(["d", "d"], ["y", "z"], history=history).mean, [4.0, 1.0], atol=1e-5)
    # Two neighbours of similarity 2/3 each against a damping of 4/3: half of the residual is left.
    damped = UserKNN(**(PLAIN | {"damping": 4 / 3})).fit(BY_HAND)
    assert_allclose(damped.predict(["d"], ["z"], history=history).mean, [2.0], atol=1e-5)


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_training_user_and_a_new_user_with_their_ratings_get_the_same_bytes(model_class, similarity):
    ratings, _ = tastes(30, 20, rng=np.random.default_rng(1))
    model = model_class(similarity=similarity, threads=1).fit(ratings)
    rows = np.arange(ratings.n_users, dtype=np.int32)
    known = believed(model)
    folded = model.posterior_.believe(People.new_users(copy.deepcopy(ratings.by_user)), 2)
    assert_array_equal(known.scores(rows), folded.scores(rows))
    pairs = Pairs(rows, np.zeros(len(rows), np.int32))
    assert_array_equal(known.mean(pairs), folded.mean(pairs))


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
def test_without_neighbours_the_baseline_answers(model_class):
    """No common raters at all: two worlds of one user and one item each."""
    ratings = Ratings.from_arrays(["a", "b"], ["x", "y"], [5.0, 1.0])
    model = model_class().fit(ratings)
    mean, user_bias, item_bias = reference.biases(dense(ratings), 5.0, 5.0, 20)
    baseline = mean + user_bias[:, None] + item_bias
    assert_allclose(model.predict(["a", "b"], ["y", "x"]).mean, [baseline[0, 1], baseline[1, 0]], atol=1e-6)
    assert_allclose(model.recommend(["nobody"], 2).scores[0], np.sort(mean + item_bias)[::-1], atol=1e-6)
    unknown = model.predict(["a", "nobody"], ["nothing", "nothing"])
    assert_allclose(unknown.mean, [mean + user_bias[0], mean], atol=1e-6)
    assert unknown.cold.all()


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
@pytest.mark.parametrize("dampings", [(0.0, 0.0), (5.0, 5.0)])
def test_constant_ratings_stay_constant(model_class, dampings):
    knn, items = np.meshgrid(np.arange(6), np.arange(5))
    ratings = Ratings.from_arrays(knn.reshape(-1), items.reshape(-1), np.full(30, 3.7))
    model = model_class(user_damping=dampings[0], item_damping=dampings[1], damping=0.0, shrinkage=0.0).fit(ratings)
    assert_allclose(model.recommend([0, 3], 5, exclude=None).scores, 3.7, atol=1e-5)


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
def test_more_neighbours_than_there_are(model_class):
    ratings = drawn(3)
    few, many = (model_class(n_neighbours=n).fit(ratings) for n in (9, 10**12))
    assert_array_equal(all_scores(few, ratings), all_scores(many, ratings))
    if model_class is ItemKNN:
        wide = ItemKNN(n_neighbours=9, n_candidates=10**12).fit(ratings)
        assert_array_equal(all_scores(wide, ratings), all_scores(few, ratings))


def test_a_user_with_one_rating_and_an_item_with_one_rater():
    """The item that only c rated is judged by c's other items; the user who rated one item is judged by it."""
    knn, items = list("aaabbbccd"), ["x", "y", "z", "x", "y", "z", "x", "rare", "x"]
    ratings = Ratings.from_arrays(knn, items, [5.0, 5, 1, 4, 5, 2, 1, 5, 5])
    for model_class in (ItemKNN, UserKNN):
        model = model_class(shrinkage=0.0).fit(ratings)
        expected = expected_ratings(model, ratings)
        assert_allclose(all_scores(model, ratings), expected, atol=1e-5)
        assert np.isfinite(expected).all()
        rare = ratings.items.rows_of(["rare"])[0]
        assert abs(expected[:, rare] - expected[:, rare].mean()).max() > 0.01  # not the same for everybody


def test_few_candidates_are_the_best_ones():
    ratings, _ = tastes(40, 30, density=0.6, rng=np.random.default_rng(2))
    everything = ItemKNN(n_candidates=100).fit(ratings).posterior_.neighbours
    few = ItemKNN(n_candidates=3).fit(ratings).posterior_.neighbours
    assert few.counts.max() == 3
    for item in range(30):
        start, stop = few.offsets[item], few.offsets[item + 1]
        first = everything.offsets[item]
        assert_array_equal(few.columns[start:stop], everything.columns[first : first + stop - start])
        assert item not in everything.columns[first : everything.offsets[item + 1]]
        assert (np.diff(few.values[start:stop]) <= 0).all()


def test_blocks_change_nothing(monkeypatch):
    ratings, _ = tastes(40, 30, rng=np.random.default_rng(2))
    item, user = ItemKNN(seed=0).fit(ratings), UserKNN(seed=0).fit(ratings)
    whole = [all_scores(item, ratings), all_scores(user, ratings), all_pairs(user, ratings)]
    monkeypatch.setattr(knn, "BLOCK_NEIGHBOURS", 7 * 29)
    monkeypatch.setattr(knn, "BLOCK_SIMILARITIES", 7 * 40)
    events = []
    item, user = ItemKNN(seed=0).fit(ratings, observer=events.append), UserKNN(seed=0).fit(ratings)
    parts = [all_scores(item, ratings), all_scores(user, ratings), all_pairs(user, ratings)]
    for one, other in zip(whole, parts, strict=True):
        assert_array_equal(one, other)
    assert [event.step for event in events] == [7, 14, 21, 28, 30]
    assert {event.total for event in events} == {30}


def test_pairs_in_any_order_and_for_some_users_only():
    ratings, _ = tastes(20, 15, rng=np.random.default_rng(4))
    for model in (ItemKNN().fit(ratings), UserKNN().fit(ratings)):
        belief = believed(model, range(20))
        rows, items = np.array([7, 3, 7, 19, 3, 7], np.int32), np.array([1, -1, 14, 0, 2, 1], np.int32)
        predicted = belief.mean(Pairs(rows, items))
        every = all_pairs(model, ratings)
        assert_array_equal(np.delete(predicted, 1), every[np.delete(rows, 1), np.delete(items, 1)])
        assert_allclose(predicted[1], model.posterior_.baseline.mean + belief.bias[3], atol=1e-6)
        nobody = belief.mean(Pairs(rows[:0], items[:0]))
        assert nobody.shape == (0,)


def test_news_of_a_training_user_count():
    """A user who liked what their neighbours liked, and now says the opposite, gets another answer."""
    ratings, _ = tastes(30, 20, density=0.5, rng=np.random.default_rng(6))
    for model in (ItemKNN(shrinkage=0.0).fit(ratings), UserKNN(shrinkage=0.0).fit(ratings)):
        seen = ratings.by_user.take(np.array([0], np.int32)).columns
        history = {ratings.items.at(seen)[k]: 6.0 - float(ratings.by_user.values[k]) for k in range(len(seen))}
        unseen = [entry for entry in ratings.items.ids if entry not in history]
        before = model.predict([0] * len(unseen), unseen).mean
        after = model.predict([0] * len(unseen), unseen, history=history).mean
        assert np.abs(after - before).max() > 0.5


def test_how_alike():
    ratings, _ = tastes(30, 20, rng=np.random.default_rng(3))
    model = UserKNN(threads=2).fit(ratings)
    item, user = ItemKNN().fit(ratings).posterior_, model.posterior_
    assert abilities_of(item)["similar_items"]
    assert not abilities_of(item)["similar_users"]
    assert abilities_of(user)["similar_users"]
    assert not abilities_of(user)["similar_items"]
    rows = np.array([4, 4, 9], np.int32)
    alike = item.item_similarities(rows, 1)
    assert alike.shape == (3, 20)
    assert_array_equal(alike[[0, 1, 2], rows], 1)
    assert_array_equal(alike[0], alike[1])
    kept = item.neighbours.take(rows[:1])
    assert_array_equal(alike[0, kept.columns], kept.values)
    assert np.count_nonzero(alike[0]) == len(kept.columns) + 1
    matrix = believed(model).user_similarities(np.arange(30, dtype=np.int32))
    assert_allclose(matrix, matrix.T, atol=1e-6)
    assert (np.argmax(matrix, axis=1) == np.arange(30)).all()
    assert np.abs(matrix).max() <= 1


@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
@pytest.mark.parametrize(
    "wrong",
    [
        {"n_neighbours": 0},
        {"n_neighbours": 2.5},
        {"similarity": "jaccard"},
        {"shrinkage": -1.0},
        {"damping": -0.1},
        {"damping": float("nan")},
        {"min_similarity": 1.0},
        {"min_similarity": -0.5},
        {"min_common": 0},
        {"user_damping": -1.0},
        {"item_damping": "x"},
    ],
    ids=str,
)
def test_senseless_parameters_are_named(model_class, wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        model_class(**wrong).fit(BY_HAND)


def test_senseless_numbers_of_candidates_are_refused():
    with pytest.raises(InvalidParameterError, match="n_candidates"):
        ItemKNN(n_candidates=0).fit(BY_HAND)


DAMAGE = {
    "offsets": lambda array: np.flip(array),
    "columns": lambda array: array + 1000,
    "values": lambda array: array[1:],
    "item_bias": lambda array: array[:-1],
    "neighbour_offsets": lambda array: array[1:],
    "neighbours": lambda array: array - 1000,
    "similarities": lambda array: array[1:],
    "rule": lambda array: array[1:],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_parts_that_do_not_fit_are_refused(name):
    ratings, _ = tastes(20, 15, rng=np.random.default_rng(4))
    for model_class, posterior_class in ((ItemKNN, ItemNeighbours), (UserKNN, UserNeighbours)):
        arrays = dict(model_class().fit(ratings).posterior_.arrays())
        if name not in arrays:
            continue
        arrays[name] = DAMAGE[name](arrays[name])
        with pytest.raises((ValueError, IndexError)):
            posterior_class.from_arrays(arrays)


def test_a_damaged_artifact_says_so(tmp_path, monkeypatch):
    model = ItemKNN().fit(drawn(1))
    arrays = dict(model.posterior_.arrays())
    arrays["neighbours"] = arrays["neighbours"] + np.int32(50)
    monkeypatch.setattr(ItemNeighbours, "arrays", lambda self: arrays)
    save(model, tmp_path / "model")
    with pytest.raises(ArtifactError, match="damaged"):
        load(tmp_path / "model")


@pytest.mark.statistical
@pytest.mark.parametrize("model_class", [ItemKNN, UserKNN])
def test_learns_tastes(model_class):
    """Far better than without neighbours (measured: 0.48 and 0.50 against 1.03)."""
    ratings, truth = tastes(300, 200, density=0.4, noise=0.3, rng=np.random.default_rng(8))
    truth = truth[np.ix_(ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy())]  # rows are by appearance
    model = model_class(threads=2).fit(ratings)
    lonely = model_class(threads=2, min_similarity=0.99999).fit(ratings)
    unseen = np.isnan(dense(ratings))
    errors = [np.sqrt(np.mean((all_scores(one, ratings) - truth)[unseen] ** 2)) for one in (model, lonely)]
    assert errors[0] < 0.55 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize(("model_class", "limit"), [(ItemKNN, 0.886), (UserKNN, 0.899)])
def test_quality_on_movielens(model_class, limit, datasets):
    """Measured: 0.8842 and 0.8964."""
    columns = np.loadtxt(datasets / "ml-100k" / "u.data", dtype=int).T
    split = random_split(Ratings.from_arrays(*columns[:3]), 0.1, seed=0)
    assert evaluate(model_class(seed=0).fit(split.train), split.test)["rmse"] < limit
