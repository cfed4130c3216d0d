"""Python as people write it: frames, names and titles go in, and a wrong word is answered with the right one."""

from __future__ import annotations

import sys
import types

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import tastespace as ts
from tastespace.errors import UnknownParameterError
from tastespace.progress import Progress, shown, silent
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

TITLES = ["Alien (1979)", "Aliens (1986)", "Heat (1995)", "Heat (1986)", *(f"Film {n} (2000)" for n in range(26))]


@pytest.fixture(scope="module")
def ratings():
    made = tastes(40, 30, density=0.5, rng=generator(3))[0]
    return made.with_items(pl.Series("title", TITLES), None)


@pytest.fixture(scope="module")
def model(ratings):
    return ts.ALS(n_factors=3, regularization=0.1, seed=0).fit(ratings)


def test_anything_that_holds_ratings_can_be_fitted(ratings, tmp_path):
    frame = ratings.to_polars().select("user", "item", "rating")
    frame.write_csv(tmp_path / "ratings.csv")
    matrix = sparse.coo_matrix((ratings.values, (ratings.user_rows, ratings.item_rows))).tocsr()
    expected = ts.DampedBias().fit(ratings).predict(ratings.users.ids[0], ratings.items.ids).mean
    for given in (frame, frame.lazy(), frame.to_pandas(), tmp_path / "ratings.csv", str(tmp_path / "ratings.csv")):
        fitted = ts.DampedBias().fit(given)
        np.testing.assert_allclose(fitted.predict(ratings.users.ids[0], ratings.items.ids).mean, expected, rtol=1e-5)
    assert ts.DampedBias().fit(matrix).ratings_.n_items == ratings.n_items
    assert ts.fit(sparse.csr_matrix(np.ones((3, 3))), budget=0, seed=0).is_fitted
    with pytest.raises(ts.InvalidParameterError, match="fit got list; expected Ratings, a frame"):
        ts.DampedBias().fit([1, 2, 3])


def test_lists_are_found_by_user_and_by_position(model):
    ranking = model.recommend([5, 2, 5], n=3)
    assert ranking[2].equals(model.recommend(2, n=3).at(0))
    assert ranking["2"].equals(ranking.at(1))
    assert ranking[5].equals(ranking.at(0))
    with pytest.raises(ts.UnknownIdError, match=r"there is no list of user 1; expected one of 5, 2.*at\(0\)"):
        ranking[1]
    assert len(list(model.recommend(users=pl.Series([1, 2]), n=2))) == 2


def test_one_user_and_many_items_and_the_other_way_round(model, ratings):
    items = ratings.items.ids.head(4)
    one = model.predict(2, items)
    assert one.user_ids.to_list() == [2] * 4
    assert model.predict([2, 3], items[0]).item_ids.to_list() == [items[0]] * 2
    assert model.predict(2, items[1]).item() == float(model.predict(2, items[1])) == pytest.approx(one.mean[1])
    with pytest.raises(ts.InvalidParameterError, match="there are 4 predictions; expected one"):
        one.item()
    frame = pl.DataFrame({"item": items, "user": [2, 2, 3, 3]})
    for pairs in (frame, frame.to_pandas()):
        found = model.predict(pairs)
        assert (found.user_ids.to_list(), found.item_ids.to_list()) == ([2, 2, 3, 3], items.to_list())
    with pytest.raises(ts.InvalidParameterError, match="predict got int and no items; expected users and items, or a"):
        model.predict(2)
    with pytest.raises(ts.InvalidParameterError, match="2 users and 3 items"):
        model.predict([1, 2], items[:3])


def test_items_have_titles_and_ids_win(model, ratings):
    alien, heat = ratings.items.ids[0], ratings.items.ids[2:4].to_list()
    assert model.predict(2, ["Alien (1979)", " ALIEN", alien]).item_ids.to_list() == [alien] * 3
    assert model.similar_items("aliens")[ratings.items.ids[1]].equals(model.similar_items(ratings.items.ids[1]).at(0))
    assert model.explain(2, "Alien").item_ids.to_list() == [alien]
    by_title = model.recommend(history={"Alien": 5.0}, exclude=["Aliens"], n=30)
    by_id = model.recommend(history={alien: 5.0}, exclude=[ratings.items.ids[1]], n=30)
    assert by_title.item_ids.equals(by_id.item_ids)
    with pytest.raises(ts.UnknownIdError, match=rf"title of 2 items.*{heat[0]} \(Heat \(1995\)\), {heat[1]} \("):
        model.similar_items("Heat")
    with pytest.raises(ts.UnknownIdError, match=r"no item 'ilm 1'.*such as \d+ \(Film 1"):
        model.similar_items("ilm 1")
    # An id that is the title of another item is an id.
    named = ts.Ratings.from_arrays([1, 1, 2], ["a", "b", "a"], [1, 2, 3])
    named = named.with_items(pl.Series("title", ["b", "c"]), None)
    assert ts.DampedBias().fit(named).predict(1, ["b", "c"]).item_ids.to_list() == ["b", "b"]


def test_a_new_user_is_said_to_be_new(model):
    assert "user nobody (a new user, who gets the default list)" in repr(model.recommend("nobody"))
    assert "new user" not in repr(model.recommend(2))


def test_a_wrong_word_is_answered_with_the_right_one(model, ratings):
    calls = {
        "ALS has no parameter 'random_state' (did you mean seed?)": lambda: ts.ALS(random_state=1),
        "VB has no parameter 'n_jobs' (did you mean threads?)": lambda: ts.VB(n_jobs=1),
        "Popular has no parameter 'n_factors'; expected": lambda: ts.Popular(n_factors=1),
        "ItemKNN has no parameter 'neighbors'": lambda: ts.ItemKNN(neighbors=1),
        "recommend has no parameter 'N' (did you mean n?)": lambda: model.recommend(1, N=5),
        "random_split has no parameter 'test_size' (did you mean share?)": lambda: ts.random_split(
            ratings, test_size=1
        ),
        "evaluate has no parameter 'metric' (did you mean metrics?)": lambda: ts.evaluate(
            model, ratings, metric="rmse"
        ),
        "recommend got user_ids twice": lambda: model.recommend(user_ids=[1], users=[1]),
    }
    for message, call in calls.items():
        with pytest.raises((UnknownParameterError, ts.InvalidParameterError)) as raised:
            call()
        assert message in str(raised.value)
    assert issubclass(UnknownParameterError, TypeError)


def test_words_of_papers_are_spellings_of_parameters():
    model = ts.ImplicitALS(alpha=3.0, max_iter=5, cg_steps=2)
    assert (model.strength, model.sweeps, model.steps) == (model.alpha, model.max_iter, model.cg_steps) == (3.0, 5, 2)
    assert model.set_params(alpha=4.0).strength == 4.0
    assert ts.PMF(max_iter=3).epochs == 3
    assert ts.ItemKNN(n_neighbors=7).n_neighbours == 7
    with pytest.raises(ts.InvalidParameterError, match="has got strength twice: also as alpha"):
        ts.ImplicitALS(alpha=3.0, strength=2.0)


def test_measures_are_chosen_by_name(model, ratings):
    split = ts.random_split(ratings, 0.3, seed=0)
    fitted = ts.ALS(n_factors=3, regularization=0.1, seed=0).fit(split.train)
    whole = ts.evaluate(fitted, split, k=5, bootstrap=0)
    assert whole["ndcg"] == whole["ndcg@5"]
    some = ts.evaluate(fitted, split, ["rmse", "ndcg"], k=[3, 5], bootstrap=0)
    assert some.measures.keys() == {"rmse", "ndcg@3", "ndcg@5"}
    assert some["ndcg@5"] == whole["ndcg@5"]
    assert ts.evaluate(fitted, split, "mae").measures.keys() == {"mae"}
    with pytest.raises(KeyError, match="no measure 'ndcg'; expected one of ndcg@3, ndcg@5"):
        some["ndcg"]
    with pytest.raises(ts.InvalidParameterError, match=r"no measure 'rmsee' \(did you mean rmse\?\)"):
        ts.evaluate(fitted, split, ["rmsee"])
    frame = split.test.to_polars().select("user", "item", "rating")
    assert ts.evaluate(fitted, frame, ["rmse"], bootstrap=0)["rmse"] == pytest.approx(whole["rmse"], rel=1e-5)


def test_cross_validation_has_every_rating_once(ratings):
    model = ts.DampedBias()
    found = ts.cross_validate(model, ratings, cv=4, ranking=False)
    assert not model.is_fitted
    assert sum(report.n for report in found.reports) == len(ratings)
    expected = [report["rmse"] for report in found.reports]
    assert found["rmse"].mean == pytest.approx(np.mean(expected))
    assert found["rmse"].sd == pytest.approx(np.std(expected, ddof=1))
    assert found.to_polars().filter(measure="rmse")["fold_2"].item() == expected[1]
    assert "DampedBias over 4 folds" in str(found)
    again = ts.cross_validate(model, ratings.to_polars(), cv=ts.k_fold(ratings, 4), metrics=["mae"])
    assert [entry.measure for entry in again] == ["mae"]
    assert again["mae"].values == found["mae"].values
    with pytest.raises(ts.InvalidParameterError, match="cv has no splits"):
        ts.cross_validate(model, ratings, cv=[])


def test_vectors_times_vectors_are_scores(ratings):
    with pytest.warns(ts.ConvergenceWarning):
        model = ts.BPMF(n_factors=3, warmup=10, draws=12, seed=0).fit(ratings)
    users = ratings.users.ids.head(6)
    scores = np.stack([model.predict(user, ratings.items.ids).unclipped for user in users])
    errors = []
    for dimensions in (2, 8, 200):
        items, some = model.item_vectors(dimensions=dimensions), model.user_vectors(users, dimensions)
        found = some.vectors @ items.vectors.T + some.offsets[:, None]
        everyone = model.user_vectors(dimensions=dimensions)
        assert everyone.ids.equals(ratings.users.ids)
        np.testing.assert_allclose(everyone.vectors[:6], some.vectors, atol=1e-5)
        errors.append(np.sqrt(np.mean((found - scores) ** 2)))
        exact = np.stack([model.predict(user, ratings.items.ids).unclipped for user in ratings.users.ids])
        of_all = everyone.vectors @ items.vectors.T + everyone.offsets[:, None] - exact
        assert items.error == pytest.approx(np.sqrt(np.mean(of_all**2)), rel=0.01, abs=1e-5)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5
    assert items.to_polars().columns == ["item", "title", "vector"]
    new = model.user_vectors(history={"Alien": 5.0}, dimensions=200)
    expected = model.predict(["you"], ratings.items.ids, history={"Alien": 5.0}).unclipped
    np.testing.assert_allclose(new.vectors @ items.vectors.T + new.offsets, expected[None], atol=1e-4)
    with pytest.raises(ts.InvalidParameterError, match="has no item vectors"):
        ts.ItemKNN().fit(ratings).item_vectors()
    with pytest.raises(ts.InvalidParameterError, match="dimensions is 0"):
        model.item_vectors(dimensions=0)


def test_results_are_shown_in_notebooks(model, ratings):
    assert "fitted on" in model._repr_html_()
    assert "not fitted yet" in ts.ALS()._repr_html_()
    assert "regularization" in model._repr_html_()
    folds = ts.cross_validate(ts.DampedBias(), ratings, cv=2, ranking=False)
    for shown_there in (model.recommend(2), model.predict(2, "Alien"), folds):
        assert "<table" in shown_there._repr_html_()


def test_progress_is_shown_in_a_notebook_and_nowhere_else(monkeypatch):
    assert shown(silent) is silent
    written = []

    class Handle:
        def update(self, text):
            written.append(text)

    display = types.ModuleType("IPython.display")
    display.Pretty = str
    display.display = lambda text, display_id: written.append(text) or Handle()
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    observe = shown(silent)
    observe(Progress("sweeps", 1, 3, {"rmse": 0.9}))
    observe(Progress("sweeps", 2, 3))  # too soon
    observe(Progress("sweeps", 3, 3))
    assert written == ["sweeps: 1 of 3, rmse 0.9", "sweeps: 3 of 3"]
    assert shown(print) is print
    shell.get_ipython = lambda: types.SimpleNamespace(config={})  # a prompt
    assert shown(silent) is silent


def test_a_model_can_be_diagnosed_as_it_is(ratings, model):
    with pytest.warns(ts.ConvergenceWarning):
        sampled = ts.BPMF(n_factors=2, warmup=2, draws=4, seed=0).fit(ratings)
    assert str(ts.diagnose(sampled)) == str(ts.diagnose(sampled.posterior_.trace))
    with pytest.raises(ts.InvalidParameterError, match="expected a fitted model that samples"):
        ts.diagnose(model)
