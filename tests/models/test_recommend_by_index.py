"""Lists through an index are those of the exact path: under every policy, with every filter, for any user."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, BPMF, EASE, ImplicitALS, Joint, Ratings, load, save
from tastespace.artifact import save_index
from tastespace.errors import InvalidParameterError
from tastespace.evaluation.retrieval import tune_index
from tastespace.index.reduction import Reduced
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.structures.kd_forest import KdForest
from tastespace.index.structures.kmeans_tree import KMeansTree
from tastespace.index.trials import StoredIndex
from tastespace.models.composed import choice
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
POLICIES = ("mean", "cautious", "curious", "likely", "thompson")
N_ITEMS = 150  # fewer than a policy looks at: nothing is lost before it puts them in order


def ratings_of(n_users, n_items, density):
    drawn = tastes(n_users, n_items, density=density, rng=generator(5))[0]
    return Ratings.from_arrays(drawn.user_ids(), drawn.item_ids(), np.clip(np.round(drawn.values), 1, 5))


@pytest.fixture(scope="module")
def fitted():
    return BPMF(n_factors=3, warmup=15, draws=10, thin=1, chains=2, seed=1).fit(ratings_of(60, N_ITEMS, 0.2))


@pytest.fixture(scope="module")
def large():
    return BPMF(n_factors=3, warmup=15, draws=10, thin=1, chains=2, seed=1).fit(ratings_of(80, 2500, 0.06))


def all_cells(model):
    return InvertedFile(n_cells=9, probes=9).build(model.posterior_.item_vectors)


HISTORY = pl.DataFrame({"user": ["new", "new", "other"], "item": [3, 7, 11], "rating": [5.0, 1.0, 4.0]})
REQUESTS = [
    {},
    {"history": HISTORY, "user_ids": ["new", "other", 3, "nobody"]},
    {"exclude": [1, 2, 3, 4]},
    {"exclude": None},
    {"only": list(range(40))},
    {"only": [5, 6, 7]},
    {"only": pl.DataFrame({"user": [0, 0, 1], "item": [4, 9, 9]})},
    {"n": 500},
    {"diversity": 0.5},
    {"popularity_damping": 0.5, "n": 4},
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_the_same_as_without(fitted, policy, request_):
    asked = {"user_ids": [0, 1, 5], "n": 6, "policy": policy, "top_n": True} | request_
    expected = fitted.recommend(**asked, index=None)
    found = fitted.recommend(**asked, index=all_cells(fitted))
    assert_array_equal(found.item_rows, expected.item_rows)
    assert_allclose(found.scores, expected.scores, rtol=1e-4)
    for name in ("belief_sd", "low", "high", "top_n_probability"):
        # Sums over fewer items are made in another order: a draw's edge can fall the other way once in a hundred.
        mine, others = getattr(found.uncertainty, name), getattr(expected.uncertainty, name)
        assert_allclose(mine, others, rtol=1e-4, atol=0.011 if name == "top_n_probability" else 1e-4)


def joint(n_users, n_items, density):
    """Of a catalogue too large for matrices, which has vectors that candidates are found by."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "MOST_ROWS", 40)
        model = Joint(n_factors=3, warmup=15, draws=10, thin=1, weight=0.5, regularization=10.0, seed=1)
        return model.fit(ratings_of(n_users, n_items, density))


@pytest.fixture(scope="module")
def fitted_joint():
    return joint(60, N_ITEMS, 0.2)


@pytest.mark.parametrize("policy", ["best", *POLICIES])
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_candidates_of_joint_are_found_by_an_index(fitted_joint, policy, request_):
    asked = {"user_ids": [0, 1, 5], "n": 6, "policy": policy} | request_
    expected = fitted_joint.recommend(**asked, index=None)
    found = fitted_joint.recommend(**asked, index=all_cells(fitted_joint))
    assert_array_equal(found.item_rows, expected.item_rows)
    assert_allclose(found.scores, expected.scores, rtol=1e-4)
    assert_allclose(found.uncertainty.chosen_probability, expected.uncertainty.chosen_probability, rtol=1e-3)


def test_of_many_items_joint_finds_nearly_all_of_the_best():
    model = joint(80, 2500, 0.06)
    users = list(range(80))
    index = InvertedFile(n_cells=40, probes=40).build(model.posterior_.item_vectors)
    for policy in ("best", "cautious", "curious", "thompson"):
        expected, found = (model.recommend(users, policy=policy, index=which) for which in (None, index))
        pairs = zip(found.item_rows, expected.item_rows, strict=True)
        assert np.mean([len(set(mine) & set(others)) / 10 for mine, others in pairs]) > 0.99
        assert found.found_by == f"the best 200 by {index.description}; put in order one by one"
        assert expected.found_by == "every item was looked at"


def test_the_vectors_of_joint_give_the_propensities(fitted_joint):
    users = np.arange(60, dtype=np.int32)
    belief = believed(fitted_joint)
    queries, bounds = belief.chosen.queries_of_choices, belief.chosen.bounds(users)
    products = queries.vectors @ fitted_joint.posterior_.item_vectors.T
    bounds[belief.history.rows(), belief.history.columns] = np.nan  # An index does not know what a user has.
    popular = 0.3 * fitted_joint.posterior_.choice.shares / (belief.history.counts[:, None] + 0.3)
    above = bounds > popular * (1 + 1e-4)
    assert above.mean() > 0.2
    assert_allclose(products[above], bounds[above], rtol=1e-3)
    assert (products[~above & ~np.isnan(bounds)] < (popular * (1 + 1e-4))[~above & ~np.isnan(bounds)]).all()


def test_an_index_for_joint_is_tuned_kept_and_used(fitted_joint, tmp_path):
    tuned = tune_index(fitted_joint, seconds=2, structures=["inverted-file"])
    kept = replace(tuned, index=all_cells(fitted_joint))
    save(fitted_joint, tmp_path / "model")
    save_index(tmp_path / "model", kept)
    loaded = load(tmp_path / "model")
    assert loaded.recommend([0]).found_by.startswith("the best 150 by inverted file of 9 cells")
    assert_array_equal(loaded.recommend([0, 1]).item_rows, fitted_joint.recommend([0, 1]).item_rows)
    # The policy "rating" asks the rating side, which the index knows nothing of.
    assert loaded.recommend([0], policy="rating").found_by == "every item was looked at"


def test_joint_says_why_there_is_no_index(fitted):
    model = Joint(n_factors=3, warmup=5, draws=5, thin=1, weight=0.5, regularization=10.0, seed=1).fit(fitted.ratings_)
    with pytest.raises(InvalidParameterError, match="Joint has no item vectors: it has 150 items.*expected no index"):
        tune_index(model)
    by_liking = joint(60, N_ITEMS, 0.2)
    found = by_liking.posterior_.found._replace(weight=float("inf"))
    by_liking.posterior_ = replace(by_liking.posterior_, found=found)
    with pytest.raises(InvalidParameterError, match="Joint has no item vectors where liking alone decides"):
        tune_index(by_liking)


RULES = ["at-most:k=1,of=kind", "boost:where=kind = even,strength=2", "bury:where=kind = even", "pin:item=7,place=2"]


@pytest.mark.parametrize("model", ["bpmf", "joint"])
@pytest.mark.parametrize("policy", ["best", "cautious"])
@pytest.mark.parametrize("rules", [[rule] for rule in [*RULES, "min-ratings:n=10"]] + [RULES[:1] + RULES[3:]], ids=str)
def test_rules_hold_with_an_index(fitted, fitted_joint, model, policy, rules):
    recommender = copy(fitted if model == "bpmf" else fitted_joint)
    items = recommender.ratings_.items.ids
    kinds = pl.DataFrame({"item": items, "kind": ["even" if item % 2 == 0 else f"odd {item}" for item in items]})
    recommender.restore(
        recommender.ratings_.with_items(attributes=kinds), recommender.posterior_, 1, recommender.rating_range_
    )
    asked = {"user_ids": [0, 1, 5], "n": 6, "policy": policy, "rules": rules}
    expected = recommender.recommend(**asked, index=None)
    found = recommender.recommend(**asked, index=all_cells(recommender))
    assert_array_equal(found.item_rows, expected.item_rows)
    assert_allclose(found.scores, expected.scores, rtol=1e-4)
    assert found.remarks == expected.remarks
    assert len(found.remarks) == len(rules)


@pytest.mark.parametrize("policy", POLICIES)
def test_of_many_items_nearly_all_of_the_best_are_found(large, policy):
    users = list(range(60))
    queries = believed(large, range(80)).queries.vectors
    index = Reduced(inner=InvertedFile(n_cells=40, probes=20), n_coordinates=8, candidates=50)
    index.build(large.posterior_.item_vectors, queries)
    asked = {"user_ids": users, "n": 10, "policy": policy, "uncertainty": False}
    expected, found = large.recommend(**asked, index=None), large.recommend(**asked, index=index)
    pairs = zip(found.item_rows, expected.item_rows, strict=True)
    recall = np.mean([len(set(mine) & set(others)) / 10 for mine, others in pairs])
    assert recall > 0.99


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_never_what_must_not_be_shown(large, data):
    rng = generator(data.draw(st.integers(0, 10_000)))
    policy = data.draw(st.sampled_from(POLICIES))
    share = data.draw(st.sampled_from([0.002, 0.05, 0.5, 1.0]))
    only = np.flatnonzero(rng.random(2500) < share)
    excluded = rng.choice(2500, 400, replace=False)
    name = data.draw(st.sampled_from(list(STRUCTURES)))
    if name not in BUILT:
        BUILT[name] = STRUCTURES[name]().build(large.posterior_.item_vectors)
    index = BUILT[name]
    history = {int(item): 4.0 for item in rng.choice(2500, 20, replace=False)}
    users, asked_history = ([0, 1], None) if data.draw(st.booleans()) else (None, history)
    ranking = large.recommend(
        users, 10, history=asked_history, policy=policy, only=only, exclude=excluded, index=index, uncertainty=False
    )
    by_user = large.ratings_.by_user
    for position, row in enumerate(ranking.item_rows):
        seen = set(history) if users is None else set(by_user.columns[slice(*by_user.offsets[position : position + 2])])
        seen = {large.ratings_.items.rows_of([item])[0] for item in seen} if users is None else seen
        shown = large.ratings_.items.at(row[row >= 0]).to_list()
        assert set(shown) <= set(only) - set(excluded)
        assert not set(row[row >= 0]) & seen
        assert len(set(shown)) == len(shown)


STRUCTURES = {
    "inverted file": lambda: InvertedFile(n_cells=40, probes=5),
    "k-means tree": lambda: KMeansTree(budget=300),
    "k-d forest": lambda: KdForest(budget=300),
    "reduced": lambda: Reduced(inner=KMeansTree(budget=300), n_coordinates=8, candidates=30),
    "growing": lambda: InvertedFile(n_cells=40, probes=5, rebuild_at=0.2),
}
BUILT: dict[str, Any] = {}


def test_an_own_list_is_looked_at_as_a_whole_also_with_damping(large):
    """It is longer than what would be fetched and put in order."""
    own = pl.DataFrame({"user": [0] * 350, "item": list(range(350))})
    asked = {"user_ids": [0], "n": 5, "only": own, "popularity_damping": 3.0, "uncertainty": False}
    index = InvertedFile(n_cells=40, probes=40).build(large.posterior_.item_vectors)
    assert_array_equal(large.recommend(**asked, index=index).item_rows, large.recommend(**asked, index=None).item_rows)


@pytest.mark.parametrize(
    ("model", "policy", "searches"),
    [("als", "best", [6]), ("bpmf", "rating", [6]), ("bpmf", "cautious", [150])],
)
def test_no_more_searches_than_it_takes(fitted, model, policy, searches):
    recommender = ALS(n_factors=3, regularization=0.1, seed=0).fit(fitted.ratings_) if model == "als" else fitted
    index, asked = all_cells(recommender), []
    search = index.search
    index.search = lambda queries, k, **filters: asked.append(k) or search(queries, k, **filters)
    recommender.recommend([0], 6, policy=policy, index=index)
    assert asked == searches


def test_what_was_removed_stays_away_after_an_update(fitted):
    """Also where the index was built again since, and has gaps."""
    vectors = fitted.posterior_.item_vectors
    best = fitted.recommend([30], 20, exclude=None, index=None).item_rows[0]
    news = pl.DataFrame({"user": list(range(20)), "item": [999] * 20, "rating": [5.0] * 20})
    for rebuild_at in (None, 0.01):
        index = InvertedFile(n_cells=9, probes=9, rebuild_at=rebuild_at).build(vectors)
        index.remove(best[:10])
        fitted.index_ = StoredIndex(index, None, (), None)
        try:
            updated = fitted.update(news, sweeps=0)
        finally:
            fitted.index_ = None
        found = updated.recommend([30], 10, exclude=None)
        expected = updated.recommend([30], 30, exclude=None, index=None).item_rows[0]
        assert_array_equal(found.item_rows[0], [row for row in expected if row not in best[:10]][:10])


def test_it_says_how_lists_were_found(fitted):
    index = all_cells(fitted)
    assert fitted.recommend([0]).found_by == "every item was looked at"
    assert fitted.recommend([0], index=index).found_by == "by inverted file of 9 cells, 9 of them looked into"
    few = fitted.recommend([0], only=[1, 2, 3], index=index)
    assert few.found_by == "by a look at each of the 3 items allowed"
    cautious = fitted.recommend([0], policy="cautious", index=index)
    assert (
        cautious.found_by == "the best 150 by inverted file of 9 cells, 9 of them looked into; put in order one by one"
    )
    drawn = fitted.recommend([0], policy="thompson", index=index)
    assert drawn.found_by == "every item of one draw was looked at"
    own = fitted.recommend([0], only=pl.DataFrame({"user": [0], "item": [4]}), index=index)
    assert own.found_by == "every item of the user's own list was looked at"


def test_the_index_of_the_model_is_used_by_default(fitted):
    index = all_cells(fitted)
    fitted.index_ = StoredIndex(index, None, (), None)
    try:
        assert fitted.recommend([0]).found_by.startswith("by inverted file")
        assert fitted.recommend([0], index=None).found_by == "every item was looked at"
    finally:
        fitted.index_ = None


def test_a_kept_scan_is_the_scan_of_the_model_and_threads_are_the_models(fitted, monkeypatch):
    vectors = fitted.posterior_.item_vectors
    again, kept = copy(fitted), Exact().build(vectors)
    again.restore(fitted.ratings_, fitted.posterior_, fitted.seed_, fitted.rating_range_)
    again.index_ = StoredIndex(kept, None, (), None)
    assert again.recommend([0]).found_by == "every item was looked at"
    assert "scan" not in vars(again._prepared)  # not made twice
    nested = Reduced(inner=InvertedFile(n_cells=9), n_coordinates=5).build(vectors)
    again.index_, again.threads = StoredIndex(nested, None, (), None), 3
    searched = []
    search = Reduced.search

    def noting(index, *given, **more):
        searched.append(index)
        return search(index, *given, **more)

    monkeypatch.setattr(Reduced, "search", noting)
    again.recommend([0], uncertainty=False)
    (used,) = searched
    assert used.threads == used.inner.threads == 3
    assert nested.threads is nested.inner.threads is None  # A request changes nothing that others use.


def test_an_index_grows_with_new_items_and_is_dropped_when_old_ones_move(fitted):
    news = pl.DataFrame({"user": list(range(20)), "item": [999] * 20, "rating": [5.0] * 20})
    fitted.index_ = StoredIndex(all_cells(fitted), None, (), None)
    try:
        updated = fitted.update(news, sweeps=0)
        twice = updated.update(news.with_columns(item=pl.lit(1000)), sweeps=0)
        moved = fitted.update(news, sweeps=2)
    finally:
        fitted.index_ = None
    for model, n_new in ((updated, 1), (twice, 2)):
        asked = {"user_ids": list(range(20, 50)), "n": 10}
        expected, found = model.recommend(**asked, index=None), model.recommend(**asked)
        assert_array_equal(found.item_rows, expected.item_rows)
        assert found.found_by.endswith(f"; {n_new} added since, 0 removed")
        assert (found.item_rows >= N_ITEMS).any()  # what everybody gives five stars to
    assert updated.index_.index.n_added_ == 1
    assert moved.index_ is None


def test_an_index_of_other_items_is_refused(fitted):
    other = Exact().build(np.zeros((7, 80), np.float32))
    with pytest.raises(
        InvalidParameterError, match="the index has 7 items, and the model 150; expected an index built"
    ):
        fitted.recommend([0], index=other)
    with pytest.raises(InvalidParameterError, match="index is 'fast'; expected 'auto', None, or a built index"):
        fitted.recommend([0], index="fast")
    for wrong in (InvertedFile(), InvertedFile, 5, True, []):
        with pytest.raises(InvalidParameterError, match="expected 'auto', None, or an index that is built"):
            fitted.recommend([0], index=wrong)
    with pytest.raises(InvalidParameterError, match="this model has no item vectors, so that no index can search them"):
        EASE(seed=0).fit(ratings_of(30, 20, 0.3)).recommend([0], index=other)


@pytest.mark.parametrize("model", [ALS(n_factors=4, regularization=0.1, seed=0), ImplicitALS(n_factors=4, seed=0)])
def test_every_model_with_inner_products(model):
    fitted = model.fit(ratings_of(60, N_ITEMS, 0.2))
    expected, found = fitted.recommend([0, 1, 2], 5), fitted.recommend([0, 1, 2], 5, index=all_cells(fitted))
    assert_array_equal(found.item_rows, expected.item_rows)


def test_a_draw_of_a_user_is_searched_where_items_are_certain():
    fitted = ImplicitALS(n_factors=4, seed=0).fit(ratings_of(60, N_ITEMS, 0.2))
    asked = {"user_ids": [0, 1, 2], "n": 5, "policy": "thompson"}
    expected, found = fitted.recommend(**asked, index=None), fitted.recommend(**asked, index=all_cells(fitted))
    assert_array_equal(found.item_rows, expected.item_rows)
    assert found.found_by.startswith("by inverted file")
    other = fitted.recommend(**asked | {"policy": "thompson:request=1"}, index=all_cells(fitted))
    assert not np.array_equal(other.item_rows, found.item_rows)


@pytest.mark.parametrize("n", [1, 4])
def test_queries_of_draws_give_the_scores_of_draws(fitted, n):
    posterior = fitted.posterior_
    belief = believed(fitted, [3, 5]).uncertainty
    scores = belief.draw_scores(1, n, generator(9))
    queries, offsets = belief.draw_queries(1, n, generator(9))
    assert_allclose(queries @ posterior.item_vectors.T + offsets[:, None], scores, rtol=1e-4, atol=1e-5)
    some = np.array([7, 3, 100], np.int32)
    assert_allclose(belief.draw_scores(1, n, generator(9), some), scores[:, some], rtol=1e-5)
