"""Lists for real life: whatever is asked for together, nothing forbidden is shown, and the best that is allowed is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import diversity as reference

from tastespace import ALS, Popular, Ratings, load, save
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import ConvergenceWarning, DataError, InvalidParameterError, UnknownIdError
from tastespace.evaluation.metrics import catalogue
from tastespace.index.structures.exact import Exact
from tastespace.models import MODELS
from tastespace.models.base.posterior import Pairs, Queries, score_blocks
from tastespace.models.base.query import filters_of
from tastespace.models.base.similarity import CoRatedItems, directions
from tastespace.models.base.top_n import Damping, pool_size, standing_of
from tastespace.models.factorization.rows import Factors
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

N_USERS, N_ITEMS = 25, 40
GENRES = ["Comedy", "War", "Drama"]


def described_ratings():
    ratings, _ = tastes(N_USERS, N_ITEMS, density=0.2, rng=generator(11))
    rng = generator(12)
    genres = [[genre for genre in GENRES if rng.random() < 0.4] or None for _ in range(N_ITEMS)]
    years = [None if rng.random() < 0.1 else int(rng.integers(1980, 2000)) for _ in range(N_ITEMS)]
    titles = pl.Series([f"Film {item}" for item in ratings.items.ids])
    # Models of choices refuse what is not above 0.
    positive = replace(ratings, values=np.maximum(ratings.values, 0.5))
    return positive.with_items(titles, pl.DataFrame({"genres": genres, "year": years}))


RATINGS = described_ratings()


@cache
def fitted(name):
    parameters = {"n_factors": 3, "regularization": 0.1} if name == "als" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Any posterior will do here.
        return MODELS[name](seed=1, threads=1, **parameters).fit(RATINGS)


def all_scores(model, users, history=None):
    """Every user's score of every item, computed without any search."""
    belief = model.about(users, history=history).belief
    blocks = [block for _, block in score_blocks(belief, len(belief), N_ITEMS)]
    return np.concatenate(blocks).astype(np.float64)


def expected_ratings(model, users, history, scores):
    """What lists show of every item."""
    belief, n_users = model.about(users, history=history).belief, len(scores)
    if not belief.is_latent:
        return scores
    pairs = Pairs(*np.indices((n_users, N_ITEMS), np.int32).reshape(2, -1))
    return belief.listed(pairs).reshape(n_users, N_ITEMS).astype(np.float64)


def damped(scores, counts, strength):
    return scores - strength * scores.std(axis=1, keepdims=True) * standing_of(counts).astype(np.float64)


# Any request against what a person would do with pencil and paper

WHERES = {
    None: lambda row: True,
    "genre = Comedy and year >= 1990": lambda row: has(row, "Comedy") and (year(row) or 0) >= 1990,
    "not genre in (War, Comedy)": lambda row: not (has(row, "War") or has(row, "Comedy")),
    "title contains 1 or ratings > 6": lambda row: "1" in f"{RATINGS.items.ids[row]}" or COUNTS[row] > 6,
    "year > 3000": lambda row: False,
}
COUNTS = RATINGS.by_item.counts


def has(row, genre):
    genres = RATINGS.item_attributes["genres"][row]
    return genres is not None and genre in genres


def year(row):
    return RATINGS.item_attributes["year"][row]


USERS = [*range(N_USERS), "cold", "new"]
users = st.lists(st.sampled_from(USERS), min_size=1, max_size=4, unique_by=str)
items = st.lists(st.integers(0, N_ITEMS - 1), max_size=15)


@st.composite
def requests(draw):
    asked = [str(user) for user in draw(users)]
    history = None
    if draw(st.booleans()):
        rated = draw(st.lists(st.tuples(st.sampled_from(USERS), st.integers(0, N_ITEMS - 1)), min_size=1, max_size=12))
        rated.append((asked[0], 0))
        columns = [str(user) for user, _ in rated], [item for _, item in rated]
        history = Ratings.from_arrays(*columns, [3.0] * len(rated))
    # Up to fifteen items of each user asked about, and some of a user who is not.
    tables = st.tuples(*[items] * (len(asked) + 1)).map(
        lambda lists: frame([(user, row) for user, rows in zip([*asked, "7"], lists, strict=True) for row in rows])
    )
    exclude = draw(st.just("seen") | st.none() | items | tables | items.map(lambda rows: [*rows, "unknown"]))
    only = draw(st.none() | items | tables)
    where = draw(st.sampled_from(list(WHERES)))
    return asked, history, exclude, draw(st.booleans()), only, where


def frame(pairs):
    return pl.DataFrame(
        {"userId": [str(user) for user, _ in pairs], "movieId": [item for _, item in pairs]},
        schema={"userId": pl.String, "movieId": pl.Int64},
    )


def may_see(user, item, seen, exclude, include_seen, only, where):
    """Item is an id; everything is looked up the slow way."""
    if exclude is not None and not include_seen and item in seen:
        return False
    if isinstance(exclude, list) and item in exclude:
        return False
    if isinstance(exclude, pl.DataFrame) and (user, item) in exclude.rows():
        return False
    if isinstance(only, list) and item not in only:
        return False
    if isinstance(only, pl.DataFrame) and (user, item) not in only.rows():
        return False
    return WHERES[where](int(RATINGS.items.rows_of([item])[0]))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.extra is None and name != "rbm"])
@given(requests(), st.integers(1, 12), st.sampled_from([0, 0.3, 1]), st.sampled_from([0, 0.2, 5.0]))
@settings(max_examples=60)
def test_nothing_forbidden_is_shown_and_the_best_allowed_is(name, request_, n, diversity, damping):
    model = fitted(name)
    asked, history, exclude, include_seen, only, where = request_
    ranking = model.recommend(
        asked,
        n,
        history=history,
        exclude=exclude,
        include_seen=include_seen,
        only=only,
        where=where,
        diversity=diversity,
        popularity_damping=damping,
    )
    scores = all_scores(model, asked, history)
    # Where ratings are not straight in scores, lists are by the former, and damping is of the latter.
    expected = expected_ratings(model, asked, history, scores)
    values = damped(scores, COUNTS, damping) if damping else expected
    seen = model.about(asked, history=history).people.history
    for position, user in enumerate(asked):
        own = set(RATINGS.items.at(seen.columns[seen.offsets[position] : seen.offsets[position + 1]]))
        rules = own, exclude, include_seen, only, where
        allowed = [row for row, item in enumerate(RATINGS.items.ids) if may_see(user, item, *rules)]
        shown = ranking.item_rows[position]
        shown = shown[shown >= 0]
        assert set(shown) <= set(allowed)
        assert len(set(shown)) == len(shown) == min(n, len(allowed))
        assert (ranking.item_rows[position][len(shown) :] == -1).all()
        assert_allclose(ranking.scores[position][: len(shown)], expected[position, shown], rtol=1e-4, atol=1e-4)
        if not diversity:
            best = -np.sort(-values[position, allowed])[:n]
            assert_allclose(values[position, shown], best, rtol=1e-4, atol=1e-4)
        elif len(shown):
            # The first stays first, and the rest comes from the pool, which here is all that is allowed.
            assert_allclose(values[position, shown[0]], values[position, allowed].max(), rtol=1e-4, atol=1e-4)


def test_the_property_test_sees_a_mistake(monkeypatch):
    """A broken twin: rules that forget what a user has seen."""
    from tastespace.models.base import query

    def forgetful(*arguments, exclude="seen", **rest):
        return filters_of(*arguments, exclude=None if isinstance(exclude, str) else exclude, **rest)

    monkeypatch.setattr(query, "filters_of", forgetful)
    ranking = fitted("als").recommend(range(N_USERS), N_ITEMS)
    seen = RATINGS.by_user.take(RATINGS.users.rows_of(range(N_USERS)))
    shown = {(position, int(row)) for position, rows in enumerate(ranking.item_rows) for row in rows}
    assert set(zip(seen.rows().tolist(), seen.columns.tolist(), strict=True)) <= shown


# Frames


def test_frames_of_any_make_and_names():
    pandas = pytest.importorskip("pandas")
    model = fitted("als")
    first, second = model.recommend([3, 4]).item_ids.to_list()[::10]
    table = pl.DataFrame({"user": [3, 4, 99], "item": [first, second, 0], "why": ["a", "b", "c"]})
    expected = model.recommend([3, 4], exclude=table)
    assert expected.of(0)["item"][0] == model.recommend([3]).item_ids[1]
    assert first not in expected.of(0)["item"].to_list()
    same = [
        table.rename({"user": "User ID", "item": "movie_id"}),
        table.cast({"user": pl.String, "item": pl.String}),
        pandas.DataFrame(table.to_dict(as_series=False)),
        Ratings.from_arrays(table["user"], table["item"], [1, 1, 1]),
        table.lazy(),
        table.to_arrow(),
    ]
    for exclude in same:
        assert_array_equal(model.recommend([3, 4], exclude=exclude).item_rows, expected.item_rows)


@pytest.mark.parametrize("parameter", ["exclude", "only"])
def test_a_table_of_items_is_a_list_of_them(parameter):
    pandas = pytest.importorskip("pandas")
    model, chosen = fitted("als"), [1, 5, 7, 20]
    expected = model.recommend([3], **{parameter: chosen}).item_rows
    tables = (
        pl.DataFrame({"item": chosen}),
        pl.Series(chosen),
        pandas.DataFrame({"movieId": chosen}),
        pandas.Series(chosen),
    )
    for table in (*tables, np.array(chosen), tuple(chosen), {*chosen}):
        assert_array_equal(model.recommend([3], **{parameter: table}).item_rows, expected)


def test_users_without_a_row_may_choose_from_nothing():
    model = fitted("als")
    ranking = model.recommend([3, "cold", 4], only=pl.DataFrame({"user": [3, 3, 5], "item": [2, 6, 7]}), exclude=None)
    assert [table.height for table in ranking] == [2, 0, 0]
    assert sorted(ranking.of(0)["item"]) == [2, 6]


def test_one_user_given_twice_gets_their_list_twice():
    table = pl.DataFrame({"user": [3, 3, 4], "item": [2, 6, 7]})
    ranking = fitted("als").recommend([4, 3, 4], only=table, exclude=None)
    assert [sorted(entry["item"]) for entry in ranking] == [[7], [2, 6], [7]]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"exclude": "tea"}, InvalidParameterError, r"exclude is 'tea'.*write exclude=\['tea'\]"),
        ({"exclude": pl.DataFrame({"user": [1]})}, InvalidParameterError, "columns user; expected one called item"),
        ({"only": pl.DataFrame({"colour": [1]})}, InvalidParameterError, "only is a table with the columns colour"),
        ({"only": pl.DataFrame({"user": [1], "item": ["nowhere"]})}, UnknownIdError, "nowhere"),
        ({"exclude": pl.DataFrame({"user": [1, None], "item": [1, 2]})}, DataError, "exclude, column 'user'.*missing"),
        ({"where": "yeer > 3"}, InvalidParameterError, "did you mean year"),
        ({"diversity": 1.5}, InvalidParameterError, "diversity is 1.5; expected a number from 0 to 1"),
        ({"diversity": float("nan")}, InvalidParameterError, "diversity is nan"),
        ({"diversity": "much"}, InvalidParameterError, "diversity is 'much'"),
        ({"popularity_damping": -1}, InvalidParameterError, "popularity_damping is -1"),
        ({"popularity_damping": float("inf")}, InvalidParameterError, "popularity_damping is inf"),
        ({"popularity_damping": float("nan")}, InvalidParameterError, "popularity_damping is nan"),
        ({"popularity_damping": 1e45}, InvalidParameterError, r"popularity_damping is 1e\+45; .* from 0 to 1000"),
        (
            {"exclude": {1: [2]}},
            InvalidParameterError,
            "exclude is of type dict; .* table with the columns user and item",
        ),
        ({"only": {1: [2]}}, InvalidParameterError, "only is of type dict; .* table with the columns user and item"),
    ],
)
def test_requests_that_make_no_sense(parameters, error, message):
    with pytest.raises(error, match=message):
        fitted("als").recommend([1], **parameters)


def test_a_value_that_no_item_has_brings_a_warning_that_points_here():
    with pytest.warns(UserWarning, match="no item has the genres 'Comdy'; did you mean 'Comedy'") as caught:
        assert fitted("als").recommend([1], where="genre = Comdy").of(0).height == 0
    assert caught[0].filename == __file__


def test_rules_stay_sparse_for_many_users():
    """An allow-list of a hundred thousand users takes memory for its own pairs, not for all."""
    n_users, n_items = 100_000, 50_000
    rng = generator(3)
    trained = Ratings.from_arrays(np.zeros(n_items, int), np.arange(n_items), np.ones(n_items))
    vocabulary = Vocabulary(pl.Series(np.arange(n_users)))
    seen = trained.by_user.take(np.full(n_users, -1, np.int32))
    table = pl.DataFrame({"user": rng.integers(0, n_users, 300_000), "item": rng.integers(0, n_items, 300_000)})
    rules = filters_of(trained, vocabulary, seen, exclude=table.head(100_000), only=table)
    kept = set(table.rows()) - set(table.head(100_000).rows())
    assert len(rules.own.columns) == len(kept)
    assert set(zip(rules.own.rows().tolist(), rules.own.columns.tolist(), strict=True)) == kept


@pytest.mark.parametrize("name", ["als", "item-knn"])
def test_threads_change_nothing(name):
    one = fitted(name)
    two = replace(one, threads=2).restore(RATINGS, one.posterior_, one.seed_, one.rating_range_)
    table = pl.DataFrame({"user": np.repeat(np.arange(N_USERS), 20), "item": np.arange(20 * N_USERS) % N_ITEMS})
    for wishes in ({}, {"diversity": 0.4}, {"popularity_damping": 0.4}, {"only": table, "diversity": 0.4}):
        lists = [model.recommend(range(N_USERS), 6, where="ratings > 2", **wishes) for model in (one, two)]
        assert_array_equal(lists[0].item_rows, lists[1].item_rows)
        assert_array_equal(lists[0].scores, lists[1].scores)
    assert_array_equal(one.similar_items(range(9)).similarities, two.similar_items(range(9)).similarities)
    assert_array_equal(one.explain(3, range(9)).contributions, two.explain(3, range(9)).contributions)


def test_seen_items_with_a_list_of_those_that_are_not_wanted():
    model, everybody = fitted("als"), range(N_USERS)
    everything = model.recommend(everybody, N_ITEMS, exclude=None)
    assert_array_equal(model.recommend(everybody, N_ITEMS, include_seen=True).item_rows, everything.item_rows)
    less = model.recommend(everybody, N_ITEMS, exclude=[1, 2], include_seen=True)
    for one, other in zip(less, everything, strict=True):
        assert one["item"].to_list() == [item for item in other["item"] if item not in (1, 2)]
    pairs = pl.DataFrame({"user": [3], "item": [2]})
    own = model.recommend([3, 4], N_ITEMS, exclude=pairs, include_seen=True)
    assert [table.height for table in own] == [N_ITEMS - 1, N_ITEMS]


# Scores


@pytest.mark.parametrize("strength", [None, 0.3])
def test_what_all_users_are_asked_by_is_made_once(strength, monkeypatch):
    import tastespace.models.base.posterior as module

    model, calls = fitted("als"), []
    belief = believed(model)
    searched = belief.queries
    if strength is not None:
        searched = Damping(model.posterior_.item_vectors, COUNTS).of(belief, strength)
    whole = next(score_blocks(searched, N_USERS, N_ITEMS))[1]
    counting = Queries(searched.vectors, searched.offsets, lambda: calls.append("items") or searched.items())
    monkeypatch.setattr(module, "BLOCK_SCORES", 4 * N_ITEMS)
    blocks = list(score_blocks(counting, N_USERS, N_ITEMS))
    assert len(blocks) == 7
    assert calls == ["items"]
    assert_allclose(np.concatenate([block for _, block in blocks]), whole, rtol=1e-5)


# Diversity


@pytest.mark.parametrize("diversity", [0.1, 0.5, 0.9, 1.0])
def test_lists_of_different_things_equal_the_reference(diversity):
    model = fitted("als")
    everything = model.recommend(range(N_USERS), N_ITEMS)
    places = directions(model.posterior_.embeddings).astype(np.float64)
    ranking = model.recommend(range(N_USERS), 8, diversity=diversity)
    for position in range(N_USERS):
        pool = everything.item_rows[position]
        pool = pool[pool >= 0][: pool_size(8, N_ITEMS)]
        similarities = places[pool] @ places[pool].T
        expected = reference.choose(everything.scores[position][: len(pool)], similarities, 8, diversity)
        assert ranking.item_rows[position].tolist() == pool[expected].tolist()


def test_no_diversity_is_the_plain_list_to_the_last_bit():
    model = fitted("als")
    plain, zero = model.recommend(range(N_USERS)), model.recommend(range(N_USERS), diversity=0)
    assert_array_equal(plain.item_rows, zero.item_rows)
    assert_array_equal(plain.scores, zero.scores)


def test_the_more_diversity_the_less_alike():
    model = fitted("als")
    places = directions(model.posterior_.embeddings)

    def alike(diversity):
        rows = model.recommend(range(N_USERS), 6, diversity=diversity).item_rows
        return np.mean([(places[row] @ places[row].T)[np.triu_indices(6, 1)].mean() for row in rows])

    assert alike(0.9) < alike(0.4) < alike(0)


def test_a_pool_is_large_enough_and_never_larger_than_the_catalogue():
    assert [pool_size(5, 1000), pool_size(30, 1000), pool_size(30, 50)] == [100, 300, 50]


def co_rating():
    """The cosine of every two items by who rated them, written down plainly."""
    rated = np.zeros((N_USERS, N_ITEMS))
    rated[RATINGS.user_rows, RATINGS.item_rows] = 1
    return rated.T @ rated / np.sqrt(np.outer(rated.sum(axis=0), rated.sum(axis=0)))


@pytest.mark.parametrize("name", ["mean", "bias", "item-mean", "popular", "user-knn"])
def test_models_that_do_not_know_what_is_alike_go_by_who_rated_what(name):
    model, similarities = fitted(name), co_rating()
    everything = model.recommend(range(N_USERS), N_ITEMS)
    ranking = model.recommend(range(N_USERS), 8, diversity=0.6)
    for position in range(N_USERS):
        pool = everything.item_rows[position][everything.item_rows[position] >= 0]
        scores = everything.scores[position][: len(pool)].astype(np.float64)
        relevance = (scores - scores.min()) / (np.ptp(scores) or 1)
        chosen = [int(np.flatnonzero(pool == item)[0]) for item in ranking.item_rows[position]]
        assert chosen[0] == 0
        assert len(set(chosen)) == 8
        # Many are equally good here, and rounding chooses among those: none that was left would have been better.
        for step in range(1, 8):
            nearest = similarities[np.ix_(pool, pool[chosen[:step]])].max(axis=1)
            values = 0.4 * relevance - 0.6 * nearest
            left = np.setdiff1d(np.arange(len(pool)), chosen[:step])
            assert values[chosen[step]] > values[left].max() - 1e-5


def test_co_rating_is_what_the_measure_of_diversity_goes_by():
    lists = CoRatedItems(RATINGS.by_item, N_USERS)
    pairs = np.array([[0, 1], [3, 2], [5, 5], [39, 7]], np.int32)
    alike = lists.among(pairs, 1)(np.zeros(4, int))[:, 1]
    assert_allclose(alike, 1 - catalogue.diversity(pairs, RATINGS.by_item), atol=1e-6)
    assert_allclose(alike[:2], co_rating()[[0, 3], [1, 2]], atol=1e-6)


def test_diversity_needs_tastes_or_ratings(tmp_path):
    save(fitted("popular"), tmp_path / "m", with_ratings=False)
    with pytest.raises(InvalidParameterError, match="how similar items are.*saved without.*expected diversity=0"):
        load(tmp_path / "m").recommend([1], diversity=0.5)


@pytest.mark.parametrize("name", ["als", "item-knn", "user-knn"])
def test_blocks_of_users_change_nothing(name, monkeypatch):
    import tastespace.models.base.similarity as module

    model = fitted(name)
    whole = model.recommend(range(N_USERS), 5, diversity=0.5, popularity_damping=0.1)
    monkeypatch.setattr(module, "BLOCK_NUMBERS", 1)
    assert_array_equal(
        model.recommend(range(N_USERS), 5, diversity=0.5, popularity_damping=0.1).item_rows, whole.item_rows
    )
    for user in range(N_USERS):
        alone = model.recommend([user], 5, diversity=0.5, popularity_damping=0.1)
        assert_array_equal(alone.item_rows[0], whole.item_rows[user])


# Popularity


def test_damping_has_no_unit():
    """Scores that are stretched and shifted as a whole give the same order."""
    model = fitted("als")
    posterior = model.posterior_
    stretched = replace(
        posterior,
        mean=16 * posterior.mean + 7,
        users=Factors(16 * posterior.users.factors, 16 * posterior.users.bias),
        items=Factors(posterior.items.factors, 16 * posterior.items.bias),
    )
    other = ALS().restore(RATINGS, stretched, 1, RATINGS.range)
    expected = model.recommend(range(N_USERS), popularity_damping=0.3)
    ranking = other.recommend(range(N_USERS), popularity_damping=0.3)
    assert_array_equal(ranking.item_rows, expected.item_rows)
    assert_allclose(ranking.scores, 16 * expected.scores + 7, rtol=1e-5)


def test_the_more_damping_the_less_popular():
    model = fitted("als")
    popularity = [
        np.log(COUNTS[model.recommend(range(N_USERS), 5, popularity_damping=strength).item_rows]).mean()
        for strength in (0, 0.3, 3)
    ]
    assert popularity == sorted(popularity, reverse=True)
    assert popularity[2] < popularity[0] - 0.3


def test_standing_is_centred_and_scaled():
    standing = standing_of(np.array([0, 1, 10, 100]))
    assert abs(standing.mean()) < 1e-6
    assert abs(standing.std() - 1) < 1e-6
    assert (np.diff(standing) > 0).all()
    assert_allclose(standing_of(np.array([0, 1, 3])), [-np.sqrt(1.5), 0, np.sqrt(1.5)], atol=1e-6)  # 0, ln 2, 2 ln 2
    assert standing_of(np.array([5, 5])).tolist() == [0, 0]


def test_damping_with_an_index_of_ones_own():
    """As long as the index fetches all that could matter, the list is the exact one."""
    model = fitted("als")
    index = Exact(threads=1).build(model.posterior_.item_vectors)
    exact = model.recommend(range(N_USERS), 4, popularity_damping=0.3)
    fetched = model.recommend(range(N_USERS), 4, popularity_damping=0.3, index=index)
    assert_array_equal(exact.item_rows, fetched.item_rows)
    diverse = model.recommend(range(N_USERS), 4, popularity_damping=0.3, diversity=0.3, index=index)
    assert_array_equal(
        diverse.item_rows, model.recommend(range(N_USERS), 4, popularity_damping=0.3, diversity=0.3).item_rows
    )


def test_damping_needs_the_ratings(tmp_path):
    save(fitted("als"), tmp_path / "m", with_ratings=False)
    model = load(tmp_path / "m")
    with pytest.raises(InvalidParameterError, match="saved without its ratings.*popularity_damping=0"):
        model.recommend([1], popularity_damping=0.5)
    with pytest.raises(InvalidParameterError, match="saved without its ratings"):
        model.recommend([1], where="ratings > 3")
    assert model.recommend([1], where="year > 1990", diversity=0.5).of(0).height == 9


def test_popular_items_go_last_under_heavy_damping():
    ranking = Popular(seed=0).fit(RATINGS).recommend(["cold"], N_ITEMS, popularity_damping=1000)
    assert (np.diff(COUNTS[ranking.item_rows[0]]) >= 0).all()
    assert (np.diff(ranking.scores[0]) >= 0).all()  # what is shown is what the model says
