"""ImplicitALS: loss and rows against all cells written out, both solvers, weights, what is believed, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ImplicitALS, Ratings, load, save
from tastespace.errors import ArtifactError, DataError, InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.base.update import merge
from tastespace.models.factorization.implicit.cells import (
    AlternatingChoices,
    Chosen,
    Confidence,
    ImplicitState,
    Others,
    Ridge,
    descend,
    solve,
)
from tastespace.models.factorization.likelihoods import likelihood_from_arrays
from tastespace.randomness import generator
from tastespace.testing.conformance import believed

N_USERS, N_ITEMS = 30, 25


def choices(n_users=N_USERS, n_items=N_ITEMS, seed=3):
    """Two camps: a user chooses mostly what their camp likes, some of it often."""
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
    return AlternatingChoices(ratings, confidence, ridge, has_biases=biases, solver=solver, **settings), confidence


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
    state = ImplicitState(*(rng.standard_normal((n, 3 + biases), np.float32) for n in (N_USERS, N_ITEMS)))
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
    found = solve(sweep.by_user, others, sweep.ridges[0], 1)
    start = np.zeros_like(found)
    gone = descend(sweep.by_user, others, sweep.ridges[0], start, 40, 1)
    points = items.astype(float)
    targets = chosen - (points[:, -1] if biases else 0)
    if biases:
        points = np.hstack([points[:, :-1], np.ones((N_ITEMS, 1))])
    for user in range(N_USERS):
        matrix = points.T @ (weights[user][:, None] * points) + sweep.ridges[0][user] * np.eye(3 + biases)
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


def gradients(parts, is_weighted):
    """Of the loss over all cells by users and by items, biases last, in double precision."""
    weights, chosen = cells(RATINGS, Confidence(4.0))
    users, items = (part.astype(np.float64) for part in parts)
    pull = weights * (chosen - scores(ImplicitState(users, items), True))
    found = []
    for rows, others, pulled, axis in ((users, items, pull, 1), (items, users, pull.T, 0)):
        ridge = 0.7 * weights.mean(axis) if is_weighted else np.full(len(rows), 0.7)
        points = np.hstack([others[:, :-1], np.ones((len(others), 1))])
        found.append(ridge[:, None] * rows - pulled @ points)
    return found


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_gradient_is_zero_where_it_stops(is_weighted):
    """All of it; and it is none of zero where the loss rises, nor one of another loss."""
    sweep, _ = bound(biases=True, solver="cholesky", is_weighted=is_weighted)
    rng = generator(1)
    somewhere = ImplicitState(*(rng.standard_normal((n, 4), np.float32) for n in (N_USERS, N_ITEMS)))
    slopes = gradients((somewhere.users, somewhere.items), is_weighted)
    for side, row, column in [(0, 7, 3), (0, 2, 0), (1, 11, 3), (1, 4, 1)]:
        ends = []
        for step in (0.05, -0.05):
            moved = [somewhere.users.copy(), somewhere.items.copy()]
            moved[side][row, column] += step
            ends.append(sweep.loss(ImplicitState(*moved)))
        assert (ends[0] - ends[1]) / 0.1 == pytest.approx(slopes[side][row, column], rel=0.01, abs=0.1)
    state = sweep.init(generator(5))
    for _ in range(700):
        state = sweep.moved(state)
    left = gradients((state.users, state.items), is_weighted)
    assert max(np.abs(part).max() for part in left) < 1e-6 * max(np.abs(part).max() for part in slopes)


def test_confidence_grows_with_counts():
    counts = np.array([1.0, 3.0, 1000.0])
    assert_allclose(Confidence(2.0, "linear").beyond_one(counts), 2 * counts)
    assert_allclose(Confidence(2.0, "log").beyond_one(counts), 2 * np.log(1 + counts), rtol=1e-6)
    assert_allclose(Confidence(2.0, "none").beyond_one(counts), [2, 2, 2])


def fitted(ratings=RATINGS, **parameters):
    return ImplicitALS(
        **{
            "n_factors": 4,
            "regularization": 1.0,
            "strength": 10.0,
            "weighting": "plain",
            "seed": 1,
            "threads": 1,
            **parameters,
        }
    ).fit(ratings)


@pytest.mark.parametrize("parameters", [{}, {"biases": True}, {"weighting": "weighted", "solver": "cholesky"}])
def test_a_camp_gets_what_it_likes(parameters):
    model = fitted(n_factors=2, **parameters)
    found = model.recommend(RATINGS.users.ids, 3)
    users = found.user_ids.to_numpy().astype(int)
    liked = found.item_ids.to_numpy().astype(int).reshape(len(users), 3)
    assert np.mean(liked % 2 == users[:, None] % 2) > 0.85  # by chance 0.5
    assert found.scores.max() < 1.5


def test_a_new_user_with_choices_is_where_training_would_put_them():
    """What they chose counts at once; often counts more than once."""
    model = fitted(growth="linear")
    noise = model.posterior_.draws.likelihood
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
    posterior, noise = model.posterior_, model.posterior_.draws.likelihood
    user = 3
    (belief, *_), *_ = believed(model, [user]).blocks(np.array([0]))
    points = posterior.draws.items[:, 0].astype(float)
    if biases:
        points = np.hstack([points[:, :-1], np.ones((N_ITEMS, 1))])
    weights, _ = cells(RATINGS, Confidence(10.0))
    precision = points.T @ (weights[user][:, None] * points) + np.eye(4 + biases)
    root = belief.roots[0, 0].astype(float)
    assert_allclose(root @ root.T, noise.variance * np.linalg.inv(precision), rtol=1e-3, atol=1e-6)
    assert_array_equal(np.tril(root, -1), 0)


def test_a_user_without_choices_is_an_average_user():
    """And varies as it does, so that a first choice does not make all certain."""
    model = fitted()
    posterior, noise = model.posterior_, model.posterior_.draws.likelihood
    rows = believed(model).means(0, N_USERS)[0][:, 0]
    points = posterior.draws.items[:, 0]
    new_user = model.predict(["nobody"] * N_ITEMS, RATINGS.items.ids)
    assert new_user.cold.all()
    assert_allclose(new_user.mean, np.clip((rows @ points.T).mean(0), 0, 1), atol=2e-3)
    assert_allclose(new_user.belief_sd, (rows @ points.T).std(0), rtol=0.02, atol=2e-3)
    # sigma^2 is matched: over all items, a user who is held back by nothing but the unchosen varies as the audience.
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
def test_without_its_only_choice_a_user_is_like_any_other(biases):
    told = fitted(biases=biases).explain(None, [4], history={0: 3})
    assert_allclose(told.base + told.contributions[:, 0], told.scores, atol=1e-4)


@pytest.mark.parametrize("solver", ["conjugate", "cholesky"])
def test_more_factors_than_items_and_hardly_any_ridge(solver):
    """All that holds the rows up then is the ridge."""
    model = fitted(n_factors=64, regularization=0.01, strength=40.0, solver=solver)
    assert np.isfinite(model.recommend([1, 2], 3).scores).all()


def test_policies_order_by_what_they_say():
    model, user = fitted(), 1
    items = RATINGS.items.ids
    told = model.predict([user] * len(items), items)
    seen = np.isin(np.arange(len(items)), RATINGS.item_rows[RATINGS.user_rows == user])
    mean, sd = told.mean.astype(float), told.belief_sd.astype(float)
    likely = told.probability_at_least(float(believed(model, [-1]).liked_from[0]))
    orders = {"mean": mean, "cautious:c=3": mean - 3 * sd, "curious:c=3": mean + 3 * sd, "likely": likely}
    lists = {}
    for policy, order in orders.items():
        lists[policy] = model.recommend([user], 5, policy=policy).item_ids.to_list()
        best = np.sort(np.where(seen, -np.inf, order))[::-1][:5]
        assert_allclose(order[model.ratings_.items.rows_of(lists[policy])], best, atol=1e-5)
    assert lists["cautious:c=3"] != lists["curious:c=3"]
    first, again, next_one = (model.recommend([user], 5, policy=f"thompson:request={k}").item_ids for k in (0, 0, 1))
    assert first.to_list() == again.to_list()
    assert first.to_list() != next_one.to_list()


def test_draws_of_scores_are_as_sure_as_the_belief():
    """What P(top n) and thompson are made of."""
    model, user = fitted(), 1
    items = RATINGS.items.ids
    told = model.predict([user] * len(items), items)
    drawn = believed(model, [0, user]).draw_scores(1, 4000, generator(0))
    assert_allclose(np.clip(drawn.mean(axis=0), 0, 1), told.mean, atol=0.1 * told.belief_sd.max())
    assert_allclose(drawn.std(axis=0), told.belief_sd, rtol=0.1)
    allowed = np.setdiff1d(np.arange(len(items)), RATINGS.item_rows[RATINGS.user_rows == user])
    edge = np.sort(drawn[:, allowed], axis=1)[:, -3]
    ranking = model.recommend([user], 3, top_n=True)
    expected = np.mean(drawn[:, ranking.item_rows[0]] >= edge[:, None], axis=0)
    assert_allclose(ranking.uncertainty.top_n_probability[0], expected, atol=0.15)


def test_a_question_tells_what_it_says_it_will():
    model = fitted()
    asked = model.ask(n=3)
    assert (np.diff([asked.sd[0], *asked.sds[0]]) < 0).all()
    first, second = asked.item_ids.to_list()[:2]
    after = model.ask(n=1, history=[first])
    assert asked.sds[0, 0] < 0.98 * asked.sd[0]
    assert after.sd[0] < asked.sd[0]
    assert first not in after.item_ids.to_list()
    # Of all first questions this one lowers it most.
    others = [item for item in RATINGS.items.ids.to_list() if item not in (first, second)][:5]
    assert all(model.ask(n=1, only=[other, first]).item_ids[0] == first for other in others)


def test_saved_and_loaded(tmp_path):
    model = fitted(biases=True, weighting="weighted", growth="none")
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    one, two = model.recommend([1, 2], 5, policy="cautious"), again.recommend([1, 2], 5, policy="cautious")
    assert_array_equal(one.item_rows, two.item_rows)
    assert_array_equal(one.scores, two.scores)
    assert_array_equal(again.posterior_.draws.likelihood.losses, model.posterior_.draws.likelihood.losses)


def test_a_kind_of_noise_of_the_future_is_refused():
    arrays = dict(fitted().posterior_.arrays())
    with pytest.raises(ArtifactError, match="newer"):
        likelihood_from_arrays({**arrays, "noise": np.array([99], np.uint8)})


@pytest.mark.parametrize(("kind", "count"), [("counts", 53.0), ("stars", 50.0)])
def test_an_update_is_a_fit_to_all_of_it(kind, count):
    """Counts are added to those there were; what was declared to be something else is replaced."""
    known = RATINGS.take(np.argsort(RATINGS.item_rows, kind="stable")).with_kind(kind)
    values = known.values.copy()
    place = int(np.flatnonzero((known.user_ids() == 0) & (known.item_ids() == 0))[0])
    values[place] = 3
    model = fitted(replace(known, values=values))
    later = model.update(pl.DataFrame({"user": [0, 99], "item": [0, 77], "rating": [50.0, 2.0]}))
    assert later.news_.how == "fitted again"
    assert later.ratings_.n_items == N_ITEMS + 1
    merged = later.ratings_
    here = (merged.user_ids() == 0) & (merged.item_ids() == 0)
    assert merged.values[here.to_numpy()].tolist() == [count]
    assert merged.values.sum() == values.sum() + 52 - (0 if kind == "counts" else 3)
    whole = fitted(merged)
    assert_array_equal(later.posterior_.item_vectors, whole.posterior_.item_vectors)
    assert_array_equal(later.recommend([99, 0], 3).scores, whole.recommend([99, 0], 3).scores)
    assert (later.predict([99], [77]).mean > model.predict([99], [77]).mean).all()


def test_a_history_adds_to_counts_as_an_update_does():
    model = fitted(RATINGS.with_kind("counts"))
    user = 0
    item, other = RATINGS.items.ids[int(RATINGS.item_rows[0])], 24
    news = {item: 30.0, other: 1.0}
    told = model.explain(user, [other], history=news, n=99)
    assert dict(zip(told.rated_ids, told.ratings, strict=True))[item] == RATINGS.values[0] + 30
    items = RATINGS.items.ids
    twice = model.predict([user] * 25, items, history={item: 30.0}).mean
    merged = merge(model.ratings_, Ratings.from_arrays([user], [item], [30.0]), model.seen_).ratings
    people = People.new_users(merged.by_user.take(np.array([0], np.int32)))
    belief = model.posterior_.believe(people, 1)
    rows = np.arange(25, dtype=np.int32)
    assert_allclose(twice, np.clip(belief.mean(Pairs.of_one(0, rows)), *model.rating_range_), atol=1e-6)


def test_where_all_were_ones_a_history_is_ones():
    """Five stars, or five plays, say no more than one to a model that was fitted on what was chosen."""
    model = fitted(RATINGS.with_kind("one-class"))
    items = RATINGS.items.ids
    expected = model.predict(["me"] * 25, items, history={1: 1.0, 3: 1.0}).mean
    for history in ({1: 5.0, 3: 2.0}, [1, 3], np.array([3, 1, 1]), pl.DataFrame({"item": [1, 3]})):
        assert_array_equal(model.predict(["me"] * 25, items, history=history).mean, expected)
    with pytest.raises(InvalidParameterError, match="values above 0"):
        model.predict(["me"], [1], history={1: 0.0})
    counted = fitted(RATINGS.with_kind("counts"))
    assert_array_equal(
        counted.predict(["me"] * 25, items, history=[1, 3, 1]).mean,
        counted.predict(["me"] * 25, items, history={1: 2.0, 3: 1.0}).mean,
    )


@pytest.mark.parametrize("solver", ["conjugate", "cholesky"])
def test_counts_without_end_are_refused(solver):
    wild = Ratings.from_arrays([0, 0, 1, 1], [0, 1, 0, 2], [1.0, 2.0, 1e38, 3.0]).with_kind("counts")
    tame = ImplicitALS(n_factors=2, regularization=1, strength=40, solver=solver, seed=0)  # whole numbers are numbers
    assert np.isfinite(tame.fit(wild).predict([0, 1], [1, 0]).mean).all()
    with pytest.raises(DataError, match=r"a count of 1e\+38 has a confidence of inf .*smaller counts, growth='log'"):
        tame.set_params(growth="linear").fit(wild)
    model = fitted(growth="linear")
    with pytest.raises(DataError, match="a count of 1e\\+30 has a confidence"):
        model.recommend(history={1: 1e30})


def test_a_loss_that_is_no_number_is_no_result(monkeypatch):
    sweep, _ = bound()
    state = sweep.init(generator(0))
    state.users[0, 0] = np.inf
    monkeypatch.setattr(AlternatingChoices, "moved", lambda self, state: state)
    with pytest.raises(NonFiniteStateError, match="the loss after a sweep is"):
        sweep.step(state, generator(0))


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
        ("regularization", 0.0),
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
    """No warning: a user may play a song more often than anyone has."""
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


def test_intervals_of_lists_hold_scores_of_any_size():
    """A score has no range: cut to that of 0 to 1, an interval would lie beside what it is about."""
    listed = fitted(strength=40.0, regularization=0.1).recommend(RATINGS.users.ids, N_ITEMS)
    is_item = listed.item_rows >= 0
    scores, low, high = (
        figures[is_item] for figures in (listed.scores, listed.uncertainty.low, listed.uncertainty.high)
    )
    assert scores.min() < 0
    assert ((low < scores) & (scores < high)).all()
