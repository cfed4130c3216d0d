"""Features of users and items in models of implicit feedback: rows are regularized towards what features tell."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize

import tastespace as ts
from tastespace import Blend, ImplicitALS, LogisticMF, Ratings
from tastespace.models.factorization.implicit.cells import AlternatingChoices, Confidence, ImplicitState, Ridge, errors
from tastespace.models.factorization.implicit.feature_means import Coefficients, FeatureMeans
from tastespace.models.factorization.priors.coefficients import SOLVERS, Drawn
from tastespace.models.factorization.priors.design import Design, Group
from tastespace.randomness import generator

ALS = {
    "n_factors": 4,
    "feature_regularization": 1.0,
    "regularization": 2.0,
    "strength": 4.0,
    "sweeps": 40,
    "tolerance": 0.0,
    "seed": 1,
}
LOGISTIC = {"n_factors": 4, "feature_regularization": 1.0, "epochs": 60, "seed": 1}
MODELS = [(ImplicitALS, ALS), (ImplicitALS, {**ALS, "biases": True}), (LogisticMF, LOGISTIC)]


def camps(n_users=120, n_items=60, seed=3):
    """Items of two kinds and users of two jobs: a user chooses mostly what their job goes with."""
    rng = generator(seed)
    likes = (np.arange(n_users)[:, None] % 2) == (np.arange(n_items) % 2)
    chosen = rng.random((n_users, n_items)) < np.where(likes, 0.4, 0.04)
    chosen[:2, :] |= likes[:2]  # every item has a user, and every user an item
    chosen[:, :2] |= likes[:, :2]
    users, items = np.nonzero(chosen)
    return Ratings.from_arrays(users, items)


def kinds(items):
    return {int(item): {"kind": "ab"[int(item) % 2], "length": float(int(item) * 7 % 11)} for item in items}


def jobs(users):
    return {int(user): {"job": "xy"[int(user) % 2]} for user in users}


WHOLE = camps()
IS_KNOWN = (WHOLE.item_ids().to_numpy() < 48) & (WHOLE.user_ids().to_numpy() < 100)
TRAIN = WHOLE.take(np.flatnonzero(IS_KNOWN)).with_item_features(kinds(range(48))).with_user_features(jobs(range(100)))


@pytest.fixture(scope="module", params=MODELS, ids=["als", "als with biases", "logistic"])
def fitted(request):
    model, settings = request.param
    return model(**settings).fit(TRAIN)


def share_of_camp(found, user):
    """The share of a list that goes with the job of a user."""
    return float(np.mean(found.item_ids.to_numpy().astype(int) % 2 == user % 2))


# The regression


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_least_of_a_ridge_regression(solver):
    rng = generator(2)
    matrix = np.where(rng.random((60, 9)) < 0.4, rng.standard_normal((60, 9)), 0)
    target, precision = rng.standard_normal((60, 3)), rng.gamma(2.0, size=9)
    design = Design(scipy.sparse.csr_array(matrix), (Group("all", 0, 9),))
    for beta in (2.0, np.inf):
        at = Drawn(np.zeros(3), np.zeros((9, 3)))
        for _ in range(60):  # A few passes are nearer to it than before; the other two are there at once.
            at = SOLVERS[solver](design, precision, np.full(3, beta)).least(target, at)
        whole = np.column_stack([matrix, np.ones(60)]) if np.isfinite(beta) else matrix
        penalty = np.diag(np.append(precision, beta) if np.isfinite(beta) else precision)
        exact = np.linalg.solve(whole.T @ whole + penalty, whole.T @ target)
        np.testing.assert_allclose(at.coefficients, exact[:9], atol=1e-5)
        np.testing.assert_allclose(at.mean, exact[9] if np.isfinite(beta) else 0, atol=1e-5)


def test_coefficients_are_the_least_of_their_energy():
    """The energy as the module writes it, minimised by something else; rows without choices take no part."""
    rng = generator(4)
    ratings = TRAIN.masked(TRAIN.item_rows != 5)  # an item that nobody has chosen
    ridge = rng.gamma(2.0, size=ratings.n_items).astype(np.float32)
    side = FeatureMeans.of(ratings.item_features, ratings.by_item, ratings.n_users, ridge, 0.7, 1)
    rows = rng.standard_normal((ratings.n_items, 2)).astype(np.float32)
    found = side.found(rows, side.start(2))
    features, unit = ratings.item_features.matrix.toarray().astype(float), ridge[np.arange(len(ridge)) != 5].mean()
    of_groups = {
        group.name: (features[:, group.columns] ** 2).sum() / len(rows) for group in ratings.item_features.groups
    }
    penalties = np.concatenate([np.full(len(g), 0.7 * of_groups[g.name]) for g in ratings.item_features.groups])

    def energy(x):
        mean, b = x[:2], x[2:].reshape(-1, 2)
        apart = rows - mean - features @ b
        counted = np.arange(len(rows)) != 5
        own = np.sum(ridge[counted, None] * apart[counted] ** 2)
        return own + unit * (np.sum(mean**2) + np.sum(penalties[:, None] * b**2))

    at = np.concatenate([found.mean, found.of_features.ravel()])
    best = minimize(energy, at, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(at, best.x, atol=1e-4)
    assert side.held_back(rows, found) == pytest.approx(energy(at), rel=1e-5)
    np.testing.assert_allclose(side.placed(rows, found)[5], side.means(found)[5])


@pytest.mark.parametrize("solver", ["conjugate", "cholesky"])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("what", ["attributes", "bags"])
def test_the_loss_never_rises(solver, biases, what):
    ratings = TRAIN if what == "attributes" else TRAIN.with_item_features("bag").with_user_features("bag")
    how = {"n_factors": 4, "has_biases": biases, "solver": solver, "steps": 3, "threads": 1}
    sweep = AlternatingChoices(ratings, Confidence(4.0), Ridge(2.0, is_weighted=True), **how)
    state, rng = sweep.init(generator(0)), generator(1)
    losses = []
    for _ in range(15):
        state, stats = sweep.step(state, rng)
        losses.append(stats["loss"])
    assert (np.diff(losses) < 1e-5 * losses[0]).all()
    assert losses[-1] < 0.9 * losses[0]


def test_the_gradient_is_zero_where_it_stops():
    """In every direction of all that is learned: both sides and both coefficients."""
    how = {"n_factors": 2, "has_biases": True, "solver": "cholesky", "steps": 3, "threads": 1}
    sweep = AlternatingChoices(TRAIN, Confidence(4.0), Ridge(2.0, is_weighted=False), **how)
    state = sweep.init(generator(0))
    for _ in range(800):
        state = sweep.moved(state)
    rng = generator(5)
    least = sweep.loss(state)
    for _ in range(20):
        for part in ("users", "items", "of_users", "of_items"):
            now = getattr(state, part)
            for step in (1e-2, -1e-2):
                if isinstance(now, Coefficients):
                    mean, b = (rng.standard_normal(each.shape) for each in (now.mean, now.of_features))
                    moved = Coefficients(now.mean + step * mean, now.of_features + step * b)
                else:
                    moved = (now + np.float32(step) * rng.standard_normal(now.shape)).astype(np.float32)
                other = ImplicitState(**{**vars(state), part: moved})
                assert sweep.loss(other) > least


# What it is good for


def test_items_that_nobody_has_chosen_are_recommended_to_those_whom_they_suit(fitted):
    grown = fitted.with_items(kinds(range(48, 60)))
    assert grown.news_.how == "new items placed"
    for user in (0, 1, 2, 3):
        found = grown.recommend([user], 6, only=list(range(48, 60)))
        assert share_of_camp(found, user) == 1
    # All else is as it was.
    before, after = (model.recommend([0, 1], 10, only=list(range(48))) for model in (fitted, grown))
    np.testing.assert_array_equal(before.item_ids.to_numpy(), after.item_ids.to_numpy())
    np.testing.assert_allclose(before.scores, after.scores, rtol=1e-6)


def test_new_items_are_in_the_default_list(fitted):
    """Not last, as they would be if nobody had wanted them."""
    grown = fitted.with_items(kinds(range(48, 60)))
    places = []
    for user in range(0, 20):
        order = grown.recommend([user], 60, include_seen=True).item_ids.to_numpy().astype(int)
        mine = np.flatnonzero((order >= 48) & (order % 2 == user % 2))
        others = np.flatnonzero((order < 48) & (order % 2 != user % 2))
        places.append(mine.mean() < others.mean())
    assert np.mean(places) > 0.9


def test_users_who_have_chosen_nothing_get_what_suits_them(fitted):
    for user in (100, 101, 102, 103):
        found = fitted.recommend([user], 10, user_features=jobs([user]))
        assert share_of_camp(found, user) >= 0.9


def test_training_users_are_folded_in_as_they_were_trained():
    """Features and bag of a history: someone new with both is believed like the one who was trained on."""
    model = ImplicitALS(**ALS, solver="cholesky").fit(TRAIN.with_user_features("bag"))
    history = {int(item): 1.0 for item in TRAIN.item_ids().filter(TRAIN.user_rows == 7)}
    known = model.recommend([7], 10)
    new = model.recommend(["new"], 10, history=history, user_features=jobs([7])[7])
    np.testing.assert_array_equal(known.item_rows, new.item_rows)
    np.testing.assert_allclose(known.scores, new.scores, rtol=1e-5)
    other = model.recommend(["new"], 10, history=history, user_features=jobs([8])[8])
    assert np.abs(other.scores - new.scores).max() > 1e-3


def test_an_unchosen_item_of_training_is_no_item_that_was_refused():
    """It is placed by its features, in training too, and no user is held back by it."""
    known = TRAIN.item_ids().to_numpy() < 46
    rest = TRAIN.masked(np.flatnonzero(known))  # the same items, two of which nobody has chosen
    with_cold, without = (ImplicitALS(**ALS).fit(ratings) for ratings in (rest, TRAIN.take(np.flatnonzero(known))))
    warm = list(range(46))
    first, second = (model.recommend([0], 20, only=warm, uncertainty=False) for model in (with_cold, without))
    np.testing.assert_array_equal(first.item_ids.to_numpy(), second.item_ids.to_numpy())
    np.testing.assert_allclose(first.scores, second.scores, atol=2e-3)
    placed = without.with_items(kinds([46, 47]))
    np.testing.assert_allclose(
        with_cold.predict([0, 0], [46, 47]).mean, placed.predict([0, 0], [46, 47]).mean, atol=5e-3
    )


def test_saved_models_answer_the_same(tmp_path, fitted):
    grown = fitted.with_items(kinds(range(48, 60)))
    ts.save(grown, tmp_path / "model")
    loaded = ts.load(tmp_path / "model")
    asked = {"user_features": jobs([200, 201]), "history": None}
    one, two = (model.recommend([200, 201], 60, **asked) for model in (grown, loaded))
    np.testing.assert_array_equal(one.item_rows, two.item_rows)
    np.testing.assert_array_equal(one.scores, two.scores)
    again = loaded.with_items({70: {"kind": "a", "length": 1.0}})
    assert again.recommend([0], 1, only=[70]).item_ids.to_list() == [70]


def test_an_update_with_choices_learns_again(fitted):
    updated = fitted.update(Ratings.from_arrays([0, 1], [45, 44]))
    assert updated.news_.how == "fitted again"
    assert updated.feature_importance().to_polars().height == 3


def test_what_explains_has_the_larger_share(fitted):
    found = fitted.feature_importance().to_polars()
    shares = {(side, group): share for side, group, share in found.select("side", "group", "share").iter_rows()}
    assert shares["item", "kind"] > 0.2 > 3 * shares["item", "length"]
    assert shares["user", "job"] > 0.2


def test_explanations_are_what_the_choices_do_beside_features():
    model = ImplicitALS(**ALS, solver="cholesky").fit(TRAIN.with_user_features("bag"))
    history = {0: 1.0, 2: 1.0, 4: 1.0}
    found = model.explain("new", [6, 8], history=history).to_polars()
    told = found.filter(rated=0).sort("item")["contribution"].to_numpy()
    # Without a choice the bag is another one, too.
    whole, rest = (model.predict(["new"] * 2, [6, 8], history=h).mean for h in (history, {2: 1.0, 4: 1.0}))
    np.testing.assert_allclose(told, whole - rest, rtol=1e-4)
    assert (np.abs(told) > 0.01).all()


def test_no_features_no_change():
    """The same bytes with a strength that nothing uses."""
    plain = TRAIN.with_item_features(None).with_user_features(None)
    one, two = (
        ImplicitALS(**{**ALS, "feature_regularization": s}).fit(plain).posterior_.draws.items for s in (1.0, 50.0)
    )
    np.testing.assert_array_equal(one, two)


def test_cells_of_rows_without_choices_are_in_no_sum():
    how = {"n_factors": 2, "has_biases": True, "solver": "cholesky", "steps": 3, "threads": 1}
    rest = TRAIN.masked(TRAIN.item_rows != 5)
    sweep = AlternatingChoices(rest, Confidence(4.0), Ridge(2.0, is_weighted=False), **how)
    state = sweep.moved(sweep.init(generator(0)))
    chosen = sweep.by_user
    scores = state.users[:, :2].astype(float) @ state.items[:, :2].T + state.users[:, 2:] + state.items[:, 2]
    target = np.zeros_like(scores)
    target[rest.user_rows, rest.item_rows] = 1
    confidence = np.ones_like(scores)
    confidence[rest.user_rows, rest.item_rows] += Confidence(4.0).beyond_one(rest.values)
    cells = confidence * (target - scores) ** 2
    whole = errors(chosen, state.users, state.items, True, 1, sweep.are_counted)
    assert whole == pytest.approx(np.delete(cells, 5, axis=1).sum(), rel=1e-4)
    assert whole != pytest.approx(cells.sum(), rel=1e-4)


def test_rows_without_choices_do_not_change_the_penalty():
    """A catalogue of many items that nobody has chosen yet says nothing about the others."""
    known = TRAIN.item_ids().to_numpy() < 24
    half = TRAIN.masked(np.flatnonzero(known)).with_item_features("bag")
    whole = TRAIN.take(np.flatnonzero(known)).with_item_features("bag")
    one, two = (ImplicitALS(**ALS).fit(ratings).feature_importance().to_polars() for ratings in (half, whole))
    bags = [found.filter(group="bag", side="item")["precision"][0] for found in (one, two)]
    assert bags[0] == bags[1] == pytest.approx(1.0)


def test_same_bytes_for_any_number_of_threads():
    ratings = TRAIN.with_item_features("bag").with_user_features("bag")
    for model, settings in MODELS[1:]:
        one, two = (model(**settings, threads=n).fit(ratings).posterior_.draws for n in (1, 2))
        np.testing.assert_array_equal(one.items, two.items)
        np.testing.assert_array_equal(one.user_features.coefficients, two.user_features.coefficients)


def test_blends_place_new_items_too():
    model = Blend(**{**ALS, "sweeps": 10}, weight=0.5).fit(TRAIN)
    grown = model.with_items(kinds(range(48, 60)))
    for user in (0, 1):
        assert share_of_camp(grown.recommend([user], 6, only=list(range(48, 60))), user) == 1
