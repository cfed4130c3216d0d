"""ImplicitALS: loss and rows against all cells written out, both solvers, weights, what is believed, bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ImplicitALS, Ratings, load, save
from tastespace.errors import ArtifactError, DataError, InvalidParameterError
from tastespace.models.factorization.kinds_of_noise import noise_from_arrays
from tastespace.models.factorization.one_class.alternating import AlternatingChoices, Factors, Ridge
from tastespace.models.factorization.one_class.cells import Chosen, Others, descend, solve
from tastespace.models.factorization.one_class.confidence import Confidence
from tastespace.randomness import generator

N_USERS, N_ITEMS = 30, 25


def choices(n_users=N_USERS, n_items=N_ITEMS, seed=3):
    """Two camps: a user chooses mostly what his camp likes, some of it often."""
    rng = generator(seed)
    likes = (np.arange(n_users)[:, None] % 2) == (np.arange(n_items) % 2)
    chosen = rng.random((n_users, n_items)) < np.where(likes, 0.5, 0.05)
    chosen[np.arange(n_users), np.arange(n_users) % n_items] = True
    chosen[np.arange(n_items) % n_users, np.arange(n_items)] = True
    users, items = np.nonzero(chosen)
    return Ratings.from_arrays(users, items, 1 + rng.poisson(3.0, len(users)))


RATINGS = choices()


def cells(ratings, confidence):
    """Confidence and preference of every cell."""
    weights, chosen = np.ones((ratings.n_users, ratings.n_items)), np.zeros((ratings.n_users, ratings.n_items))
    weights[ratings.user_rows, ratings.item_rows] += confidence.beyond_one(ratings.values)
    chosen[ratings.user_rows, ratings.item_rows] = 1
    return weights, chosen


def bound(ratings=RATINGS, *, biases=False, is_weighted=False, growth="log", solver="conjugate", **more):
    settings = {"n_factors": 3, "steps": 3, "threads": 1, **more}
    confidence, ridge = Confidence(4.0, growth), Ridge(0.7, is_weighted)
    return AlternatingChoices.bind(ratings, confidence, ridge, biases=biases, solver=solver, **settings), confidence


def scores(state, biases):
    if not biases:
        return state.users.astype(float) @ state.items.T
    factors = state.users[:, :-1].astype(float) @ state.items[:, :-1].T
    return factors + state.users[:, -1:] + state.items[:, -1]


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("growth", ["log", "linear", "none"])
def test_the_loss_is_what_it_is_over_all_cells(biases, is_weighted, growth):
    sweep, confidence = bound(biases=biases, is_weighted=is_weighted, growth=growth)
    rng = generator(1)
    state = Factors(*(rng.standard_normal((n, 3 + biases), np.float32) for n in (N_USERS, N_ITEMS)))
    weights, chosen = cells(RATINGS, confidence)
    loss = np.sum(weights * (chosen - scores(state, biases)) ** 2)
    held = [np.full(n, 0.7) for n in (N_USERS, N_ITEMS)]
    if is_weighted:
        held = [0.7 * weights.mean(axis) for axis in (1, 0)]
    for rows, ridge in zip((state.users, state.items), held, strict=True):
        loss += np.sum(ridge[:, None] * rows.astype(float) ** 2)
    assert_allclose(sweep.loss(state), loss / 2, rtol=1e-5)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_both_solvers_find_the_least_energy_of_each_row(biases, is_weighted):
    """By plain weighted least squares over all cells, the unchosen included."""
    sweep, confidence = bound(biases=biases, is_weighted=is_weighted)
    items = generator(2).standard_normal((N_ITEMS, 3 + biases), np.float32)
    weights, chosen = cells(RATINGS, confidence)
    others = Others.of(items, biases, 1)
    found = solve(sweep.by_user, others, sweep.user_ridge, 1)
    start = np.zeros_like(found)
    gone = descend(sweep.by_user, others, sweep.user_ridge, start, 40, 1)
    points = items.astype(float)
    targets = chosen - (points[:, -1] if biases else 0)
    if biases:
        points = np.hstack([points[:, :-1], np.ones((N_ITEMS, 1))])
    for user in range(N_USERS):
        matrix = points.T @ (weights[user][:, None] * points) + sweep.user_ridge[user] * np.eye(3 + biases)
        expected = np.linalg.solve(matrix, points.T @ (weights[user] * targets[user]))
        assert_allclose(found[user], expected, rtol=1e-3, atol=1e-4)
        assert_allclose(gone[user], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("solver", ["conjugate", "cholesky"])
def test_the_loss_never_rises(solver, biases):
    sweep, _ = bound(solver=solver, biases=biases, is_weighted=True)
    state = sweep.init(generator(5))
    losses = [sweep.loss(state)]
    for _ in range(12):
        state, figures = sweep.step(state, generator(0))
        losses.append(figures["loss"])
    assert (np.diff(losses) < 1e-6 * losses[0]).all()
    assert losses[-1] < 0.8 * losses[0]


def test_the_gradient_is_zero_where_it_stops():
    """Of the loss over all cells, by finite differences."""
    sweep, _ = bound(biases=True, solver="cholesky")
    state = sweep.init(generator(5))
    for _ in range(200):
        state = sweep.moved(state)
    base = [part.astype(np.float64) for part in (state.users, state.items)]
    weights, chosen = cells(RATINGS, Confidence(4.0))

    def loss(parts):
        errors = np.sum(weights * (chosen - scores(Factors(*parts), True)) ** 2)
        return 0.5 * (errors + 0.7 * sum(np.sum(part**2) for part in parts))

    for side, row, column in [(0, 0, 0), (0, 7, 3), (1, 2, 1), (1, 11, 3)]:
        step, ends = 1e-4, []
        for sign in (1, -1):
            moved = [part.copy() for part in base]
            moved[side][row, column] += sign * step
            ends.append(loss(moved))
        assert abs(ends[0] - ends[1]) / (2 * step) < 2e-2


def test_confidence_grows_with_counts():
    counts = np.array([1.0, 3.0, 1000.0])
    assert_allclose(Confidence(2.0, "linear").beyond_one(counts), 2 * counts)
    assert_allclose(Confidence(2.0, "log").beyond_one(counts), 2 * np.log(1 + counts), rtol=1e-6)
    assert_allclose(Confidence(2.0, "none").beyond_one(counts), [2, 2, 2])


def fitted(**parameters):
    return ImplicitALS(
        **{
            "n_factors": 4,
            "regularisation": 1.0,
            "strength": 10.0,
            "weighting": "plain",
            "seed": 1,
            "threads": 1,
            **parameters,
        }
    ).fit(RATINGS)


@pytest.mark.parametrize("parameters", [{}, {"biases": True}, {"weighting": "weighted", "solver": "cholesky"}])
def test_a_camp_gets_what_it_likes(parameters):
    model = fitted(n_factors=2, **parameters)
    found = model.recommend(RATINGS.users.ids, 3)
    users = found.user_ids.to_numpy().astype(int)
    liked = found.item_ids.to_numpy().astype(int).reshape(len(users), 3)
    assert np.mean(liked % 2 == users[:, None] % 2) > 0.85  # by chance 0.5
    assert found.scores.max() < 1.5


def test_a_stranger_with_choices_is_where_training_would_put_him():
    """What he chose counts at once; often counts more than once."""
    model = fitted(growth="linear")
    noise = model.posterior_.draws.noise
    items = RATINGS.items.rows_of([0, 2])
    seen = model.predict(["new", "new"], [4, 5], history={0: 1, 2: 7}).mean
    weights, chosen = np.ones(N_ITEMS), np.zeros(N_ITEMS)
    weights[items] += [10 * 1, 10 * 7]
    chosen[items] = 1
    points = model.posterior_.draws.items[:, 0].astype(float)
    row = np.linalg.solve(points.T @ (weights[:, None] * points) + np.eye(4), points.T @ (weights * chosen))
    assert_allclose(seen, np.clip(points[RATINGS.items.rows_of([4, 5])] @ row, 0, 1), rtol=1e-3, atol=1e-4)
    assert noise.ridge == Ridge(1.0, False)


@pytest.mark.parametrize("biases", [False, True])
def test_what_is_believed_is_the_energy_read_as_a_normal(biases):
    model = fitted(biases=biases)
    posterior, noise = model.posterior_, model.posterior_.draws.noise
    user = 3
    (_, belief), *_ = posterior.known(np.array([user], np.int32)).blocks(np.array([0]))
    points = posterior.draws.items[:, 0].astype(float)
    if biases:
        points = np.hstack([points[:, :-1], np.ones((N_ITEMS, 1))])
    weights, _ = cells(RATINGS, Confidence(10.0))
    precision = points.T @ (weights[user][:, None] * points) + np.eye(4 + biases)
    root = belief.roots[0, 0].astype(float)
    assert_allclose(root @ root.T, noise.variance * np.linalg.inv(precision), rtol=1e-3, atol=1e-6)
    assert_array_equal(np.tril(root, -1), 0)


def test_who_chose_nothing_is_anybody_of_the_audience():
    """And varies as it does, so that a first choice does not make all certain."""
    model = fitted()
    posterior, noise = model.posterior_, model.posterior_.draws.noise
    everybody = posterior.known(np.arange(N_USERS, dtype=np.int32))
    rows = everybody.means(0, N_USERS)[0][:, 0]
    points = posterior.draws.items[:, 0]
    stranger = model.predict(["nobody"] * N_ITEMS, RATINGS.items.ids)
    assert stranger.cold.all()
    assert_allclose(stranger.mean, np.clip((rows @ points.T).mean(0), 0, 1), atol=2e-3)
    assert_allclose(stranger.belief_sd, (rows @ points.T).std(0), rtol=0.02, atol=2e-3)
    # sigma^2 is matched: over all items, somebody who is held back by nothing but the unchosen varies as the audience.
    gram = points.T.astype(float) @ points
    free = noise.variance * np.trace(np.linalg.solve(gram + np.eye(4), gram))
    assert_allclose(free, np.sum((rows @ points.T).var(0)), rtol=0.02)


def test_choices_make_it_surer():
    model = fitted()
    items = RATINGS.items.ids.to_list()
    sds = [
        model.predict(["new"] * N_ITEMS, items, history={item: 1 for item in items[:n]}).belief_sd.mean()
        for n in (1, 4, 12)
    ]
    assert sds[0] > sds[1] > sds[2]


def test_an_explanation_is_what_the_choices_do():
    """A contribution is what the score would lose without the choice, exactly."""
    model = fitted()
    history = {0: 3, 2: 1, 7: 5}
    told = model.explain(None, [4, 5], history=history)
    whole = told.scores
    for place, item in enumerate(told.rated_ids.to_list()):
        without = {other: count for other, count in history.items() if other != item}
        lost = whole - model.explain(None, [4, 5], history=without).scores
        assert_allclose(told.contributions[:, place], lost, atol=1e-4)
    assert np.abs(told.contributions).max() > 0.01


@pytest.mark.parametrize("biases", [False, True])
def test_without_its_only_choice_somebody_is_anybody(biases):
    told = fitted(biases=biases).explain(None, [4], history={0: 3})
    assert_allclose(told.base + told.contributions[:, 0], told.scores, atol=1e-4)


@pytest.mark.parametrize("solver", ["conjugate", "cholesky"])
def test_more_factors_than_items_and_hardly_any_ridge(solver):
    """All that holds the rows up then is the ridge."""
    model = fitted(n_factors=64, regularisation=0.01, strength=40.0, solver=solver)
    assert np.isfinite(model.recommend([1, 2], 3).scores).all()


def test_policies_and_questions_work():
    model = fitted()
    mean = model.recommend([1, 2], 5).scores
    for policy in ("cautious", "curious", "likely", "thompson"):
        assert np.isfinite(model.recommend([1, 2], 5, policy=policy).scores).all()
    assert np.isfinite(mean).all()
    asked = model.ask(n=3)
    assert (np.diff(asked.sds[0]) < 0).all()
    assert asked.sds[0, 0] < asked.sd[0]


def test_saved_and_loaded(tmp_path):
    model = fitted(biases=True, weighting="weighted", growth="none")
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    one, two = model.recommend([1, 2], 5, policy="cautious"), again.recommend([1, 2], 5, policy="cautious")
    assert_array_equal(one.item_rows, two.item_rows)
    assert_array_equal(one.scores, two.scores)
    assert_array_equal(again.posterior_.draws.noise.losses, model.posterior_.draws.noise.losses)


def test_a_kind_of_noise_of_the_future_is_refused():
    arrays = dict(fitted().posterior_.arrays())
    with pytest.raises(ArtifactError, match="newer"):
        noise_from_arrays({**arrays, "noise": np.array([99], np.uint8)})


def test_updates_fit_again():
    model = fitted()
    later = model.update(pl.DataFrame({"user": [0, 99], "item": [1, 77], "rating": [50.0, 2.0]}))
    assert later.news_.how == "fitted again"
    assert later.ratings_.n_items == N_ITEMS + 1
    assert np.isfinite(later.recommend([99], 3).scores).all()


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0"), (-2.0, "-2")])
def test_what_is_no_count_is_refused(value, shown):
    wrong = Ratings.from_arrays([1, 2], ["a", "b"], [1.0, value])
    for go in (lambda: fitted().update(wrong), lambda: ImplicitALS().fit(wrong)):
        with pytest.raises(DataError, match=f"1 of 2 values are not above 0, such as {shown} of user 2 and item 'b'"):
            go()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("regularisation", 0.0),
        ("strength", 0.0),
        ("growth", "square"),
        ("weighting", "blended"),
        ("biases", 2),
        ("solver", "lu"),
        ("steps", 0),
        ("sweeps", 0),
        ("tolerance", -1.0),
    ],
)
def test_senseless_parameters_are_refused_by_name(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        ImplicitALS(**{name: value}).fit(RATINGS)


def test_a_history_may_count_further_than_training():
    """No warning: somebody may play a song more often than anybody has."""
    assert np.isfinite(fitted().recommend(history={0: 100_000.0}, n=3).scores).all()


def test_huge_counts_are_no_trouble():
    ratings = Ratings.from_arrays([1, 1, 2, 2, 3], [1, 2, 1, 3, 3], [1, 3e5, 2e5, 1, 5])
    model = ImplicitALS(n_factors=8, growth="linear", seed=0).fit(ratings)
    found = model.recommend([1, 2, 3], 2)
    assert np.isfinite(found.scores[found.item_rows >= 0]).all()


def test_weights_of_a_row():
    chosen = Chosen.of(RATINGS.by_user, Confidence(2.0, "none"))
    assert_allclose(chosen.total_weights(), 2 * RATINGS.by_user.counts)
    assert_allclose(Ridge(3.0, True).of(chosen, N_ITEMS), 3 * (1 + 2 * RATINGS.by_user.counts / N_ITEMS), rtol=1e-6)
