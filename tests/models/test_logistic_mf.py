"""LogisticMF: loss and beliefs against all cells written out, what predictions mean, bad input, real data."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit

from tastespace import LogisticMF, Ratings, evaluate, random_split
from tastespace.data.csr import CSR
from tastespace.errors import DataError, InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.factorization.implicit.cells import Confidence
from tastespace.models.factorization.implicit.logistic_mf import LogisticDescent
from tastespace.models.factorization.implicit.negatives import LAWS, Unchosen
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tests.models.fresh_negatives import off_by, world


def choices(n_users=30, n_items=24, seed=3):
    """Two camps: a user chooses mostly what their camp likes, some of it often."""
    rng = generator(seed)
    likes = (np.arange(n_users)[:, None] % 2) == (np.arange(n_items) % 2)
    chosen = rng.random((n_users, n_items)) < np.where(likes, 0.45, 0.05)
    chosen[np.arange(n_users), np.arange(n_users) % n_items] = True
    users, items = np.nonzero(chosen)
    return Ratings.from_arrays(users, items, 1 + rng.poisson(3.0, len(users)))


RATINGS = choices()
SMALL = {"n_factors": 3, "regularization": 0.8, "n_negatives": 4, "seed": 1, "threads": 1}


def all_weights(ratings, law, per_choice):
    """Of all cells as if nothing had been chosen, written out."""
    n_users, n_items, n = ratings.n_users, ratings.n_items, len(ratings)
    if law == "weighted":
        return np.full((n_users, n_items), per_choice * n / (n_users * n_items - n))
    of_items = ratings.by_item.counts ** (0.75 if law == "popularity" else 0.0)
    return per_choice * ratings.by_user.counts[:, None] * of_items / of_items.sum()


def is_chosen(ratings):
    chosen = np.zeros((ratings.n_users, ratings.n_items), bool)
    chosen[ratings.user_rows, ratings.item_rows] = True
    return chosen


def loss_of(ratings, users, items, law, per_choice, ridge, offset, weights=None):
    """E over all cells; rows are factors and, last, biases."""
    scores = offset + users[:, :-1] @ items[:, :-1].T + users[:, -1:] + items[:, -1]
    chosen = is_chosen(ratings)
    counted = np.zeros(chosen.shape)
    counted[ratings.user_rows, ratings.item_rows] = 1 if weights is None else weights
    cells = counted * np.logaddexp(0, -scores) + all_weights(ratings, law, per_choice) * ~chosen * np.logaddexp(
        0, scores
    )
    return cells.sum() + 0.5 * ridge * ((users**2).sum() + (items**2).sum())


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_the_loss_is_that_over_all_cells(law):
    """On average over what is drawn; choices with weights."""
    confidence = Confidence(0.7, "log")
    unchosen = Unchosen.of(law, 4, RATINGS.by_user.counts, RATINGS.by_item.counts)
    settings = {"ridge": 0.8, "rate": 0.1, "n_factors": 3, "has_biases": True, "threads": 1}
    transition = LogisticDescent(RATINGS, confidence, unchosen, **settings)
    state = transition.init(generator(0))
    for _ in range(5):
        state, _ = transition.step(state, generator(1))
    losses = [transition.moved(transition.by_user, state.users, state.items, key)[1] for key in range(800)]
    weights = 1 + 0.7 * np.log1p(RATINGS.values)
    assert transition.offset == pytest.approx(np.log(weights.sum() / (4 * len(RATINGS))), rel=1e-5)
    points = (state.users.points().astype(float), state.items.points().astype(float))
    exact = loss_of(RATINGS, *points, law, 4, 0.8, transition.offset, weights)
    assert abs(np.mean(losses) - exact) < 5 * np.std(losses) / np.sqrt(800)
    wrong = loss_of(RATINGS, *points, law, 4, 0.8, transition.offset)
    assert abs(np.mean(losses) - wrong) > 5 * np.std(losses) / np.sqrt(800)


def test_it_gets_near_the_least_loss():
    """Of all users and items together, as another optimiser finds it with all cells at hand."""
    model = LogisticMF(**{**SMALL, "epochs": 400, "learning_rate": 0.1}).fit(RATINGS)
    draws = model.posterior_.draws
    items = draws.items[:, 0].astype(float)
    users = draws.likelihood.fold_in(draws, RATINGS.by_user, None, 1).means[:, 0].astype(float)
    reached = loss_of(RATINGS, users, items, "weighted", 4, 0.8, draws.likelihood.offset)

    def loss(x):
        rows = x.reshape(-1, 4)
        return loss_of(RATINGS, rows[:30], rows[30:], "weighted", 4, 0.8, draws.likelihood.offset)

    best = minimize(loss, np.vstack([users, items]).reshape(-1), method="L-BFGS-B", options={"maxiter": 40})
    assert reached < 1.03 * best.fun
    losses = draws.likelihood.losses
    assert len(losses) == 400
    assert losses[-50:].mean() < losses[100:150].mean() < losses[:10].mean()


@pytest.mark.parametrize("law", LAWS)
def test_a_user_is_the_least_of_their_energy_and_its_curvature(law):
    model = LogisticMF(**SMALL, negatives=law, strength=0.5, growth="linear").fit(RATINGS)
    draws, user = model.posterior_.draws, 7
    items, offset = draws.items[:, 0].astype(float), draws.likelihood.offset
    weights = all_weights(RATINGS, law, 4)[user]
    mine = is_chosen(RATINGS)[user]
    counted = np.zeros(RATINGS.n_items)
    here = RATINGS.user_rows == user
    counted[RATINGS.item_rows[here]] = 1 + 0.5 * RATINGS.values[here]

    def energy(x):
        scores = offset + items[:, :-1] @ x[:-1] + x[-1] + items[:, -1]
        cells = counted * np.logaddexp(0, -scores) + weights * ~mine * np.logaddexp(0, scores)
        return cells.sum() + 0.4 * (x**2).sum()

    best = minimize(energy, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    roots = np.empty((1, 1, 4, 4), np.float32)
    folded = draws.likelihood.fold_in(draws, RATINGS.by_user.take(np.array([user], np.int32)), roots, 1)
    assert_allclose(folded.means[0, 0], best, atol=5e-4)
    scores = offset + items[:, :-1] @ best[:-1] + best[-1] + items[:, -1]
    points = np.hstack([items[:, :-1], np.ones((len(items), 1))])
    bend = (counted + weights * ~mine) * expit(scores) * expit(-scores)
    precision = 0.8 * np.eye(4) + (points * bend[:, None]).T @ points
    root = roots[0, 0].astype(float)
    assert_allclose(np.linalg.inv(root @ root.T), precision, rtol=2e-3, atol=2e-3)


def test_predictions_are_chances_of_the_score():
    model = LogisticMF(**SMALL).fit(RATINGS)
    posterior = model.posterior_
    assert posterior.rating_range == (0.0, 1.0)
    prediction = model.predict([0, 1, 2], [3, 4, 5])
    belief = believed(model, [0, 1, 2])
    rows, items = np.arange(3, dtype=np.int32), RATINGS.items.rows_of([3, 4, 5])
    scores, sds = belief.summary(Pairs(rows, items))
    # The mean over a normal belief, by drawing from it.
    drawn = expit(
        posterior.draws.likelihood.offset + scores[:, None] + sds[:, None] * generator(0).standard_normal((3, 200_000))
    )
    assert_allclose(prediction.mean, drawn.mean(axis=1), atol=3e-3)
    assert_allclose(prediction.belief_sd, drawn.std(axis=1), atol=3e-3)
    assert_allclose(prediction.level_probabilities()[:, 1], prediction.mean, rtol=1e-5)


# What predictions mean


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_chances_come_true_among_fresh_negatives(law):
    """Held-out choices among negatives of the same law; another number of them would show."""
    apart, rng = world(), generator(9)
    model = LogisticMF(n_factors=2, regularization=1.0, negatives=law, n_negatives=5, epochs=80, seed=1)
    model.fit(apart.ratings)
    assert off_by(model, apart.pairs(law, 5, rng)) < 0.02
    assert off_by(model, apart.pairs(law, 2, rng)) > 0.04


@pytest.mark.statistical
def test_chances_of_one_law_are_not_those_of_another():
    apart, rng = world(), generator(9)
    model = LogisticMF(n_factors=2, regularization=1.0, negatives="popularity", n_negatives=5, epochs=80, seed=1)
    model.fit(apart.ratings)
    assert off_by(model, apart.pairs("uniform", 5, rng)) > 1.5 * off_by(model, apart.pairs("popularity", 5, rng))


def test_with_popularity_an_item_gets_less_credit_for_being_known():
    rng = generator(2)
    popular = rng.random((60, 40)) < np.linspace(0.05, 0.7, 40)
    popular[0] = True
    users, items = np.nonzero(popular)
    ratings = Ratings.from_arrays(users, items, np.ones(len(users)))
    slopes = []
    for law in ("uniform", "popularity"):
        model = LogisticMF(n_factors=2, negatives=law, n_negatives=5, seed=1).fit(ratings)
        chances = model.predict(["nobody"] * 40, list(range(40))).mean
        slopes.append(np.polyfit(np.arange(40), np.log(chances / (1 - chances)), 1)[0])
    assert 0 < slopes[1] < 0.7 * slopes[0]


def test_a_user_without_history_is_like_any_other():
    model = LogisticMF(**SMALL).fit(RATINGS)
    new_user = believed(model, [-1])
    (belief, *_), *_ = new_user.blocks(np.zeros(1, np.int32))
    users = model.posterior_.draws.users
    assert_allclose(belief.means[0, 0], users.mean_row(0, True))
    assert_allclose(belief.roots[0, 0], users.root(0, True))


def test_the_more_is_known_the_less_is_left_open():
    """Of all users together: one whose chances go to an extreme may still be less sure of the score."""
    model = LogisticMF(**SMALL, negatives="uniform").fit(RATINGS)
    by_user, sds = RATINGS.by_user, []
    for most in (1, 4, 24):
        counts = np.minimum(by_user.counts, most)
        is_kept = np.arange(len(by_user.columns)) - by_user.offsets[by_user.rows()] < most
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        history = CSR(offsets, by_user.columns[is_kept], by_user.values[is_kept])
        folded = model.posterior_.believe(People.new_users(history), 1)
        users, items = (part.reshape(-1).astype(np.int32) for part in np.indices((30, RATINGS.n_items)))
        sds.append(folded.summary(Pairs(users, items))[1].mean())
    assert sds[0] > 1.1 * sds[1] > 1.1**2 * sds[2]


def test_camps_are_distinguished_for_any_user():
    """By a training user, by a new user, by policies, and by what to ask."""
    model = LogisticMF(n_factors=2, regularization=1.0, n_negatives=5, epochs=80, seed=1).fit(choices(80, 40))
    for policy in ("mean", "cautious", "curious", "likely", "thompson"):
        listed = model.recommend([0, 1], 5, policy=policy)
        assert np.mean(listed.item_ids.to_numpy().reshape(2, 5) % 2 == [[0], [1]]) >= 0.8, policy
    even = model.recommend(history={0: 1.0, 2: 5.0, 4: 1.0}, n=5)
    assert np.mean(even.item_ids.to_numpy() % 2 == 0) >= 0.8
    questions = model.ask(n=2)
    assert (np.diff(questions.of(0)["sd"].to_numpy()) < 0).all()
    explained = model.explain(None, [6, 8, 10, 12], history={0: 1.0, 2: 1.0, 4: 1.0, 1: 1.0, 3: 1.0})
    by_item = dict(zip(explained.rated_ids, explained.contributions.mean(axis=0), strict=True))
    assert np.mean([by_item[0], by_item[2], by_item[4]]) > 0 > np.mean([by_item[1], by_item[3]])


def test_counts_matter_only_with_a_strength():
    often = Ratings.from_arrays(RATINGS.user_ids(), RATINGS.item_ids(), RATINGS.values**2)
    for strength, is_same in ((0.0, True), (1.0, False)):
        one, two = (LogisticMF(**SMALL, strength=strength).fit(ratings) for ratings in (RATINGS, often))
        assert np.array_equal(one.posterior_.draws.items, two.posterior_.draws.items) == is_same
        folded = [one.recommend(history={0: count, 3: 1.0}).scores for count in (1.0, 50.0)]
        assert np.array_equal(*folded) == is_same


def test_an_update_fits_again_with_what_is_new():
    model = LogisticMF(**SMALL).fit(RATINGS)
    later = model.update(pl.DataFrame({"user": [0, 99], "item": [77, 0], "rating": [2.0, 1.0]}))
    assert later.news_.how == "fitted again"
    assert not later.predict([99], [77]).cold[0]
    assert model.predict([99], [77]).cold[0]
    with pytest.raises(DataError, match="not above 0"):
        model.update(pl.DataFrame({"user": [0], "item": [1], "rating": [0.0]}))


def test_losses_are_reported_along_the_way():
    events = []
    model = LogisticMF(**SMALL, epochs=7).fit(RATINGS, observer=events.append)
    assert [event.step for event in events] == list(range(1, 8))
    assert_array_equal([event.stats["loss"] for event in events], model.posterior_.draws.likelihood.losses)


def test_without_biases():
    model = LogisticMF(**SMALL, biases=False).fit(RATINGS)
    assert model.posterior_.draws.items.shape == (RATINGS.n_items, 1, 3)
    assert np.isfinite(model.predict([0, "x"], [1, 1]).mean).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("regularization", 0.0),
        ("negatives", "none"),
        ("n_negatives", 0),
        ("n_negatives", 2.5),
        ("n_negatives", 10**6),
        ("strength", -1.0),
        ("growth", "square"),
        ("biases", "yes"),
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
    ],
)
def test_senseless_parameters_are_refused_by_name(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        LogisticMF(**{name: value}).fit(RATINGS)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_what_is_no_choice_is_refused(value):
    with pytest.raises(DataError, match="LogisticMF"):
        LogisticMF(**SMALL).fit(Ratings.from_arrays([1, 1, 2], [1, 2, 1], [200.0, value, 1.0]))


def test_only_lists_are_measured():
    split = random_split(RATINGS, 0.2, seed=0)
    report = evaluate(LogisticMF(**SMALL).fit(split.train), split).to_dict()
    assert "rmse" not in report
    assert any(name.startswith("ndcg") for name in report)


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "least"), [("hetrec-lastfm-2k/plays.parquet", 0.35), ("citeulike-a.parquet", 0.25)])
def test_quality_on_real_data(datasets, folder, least):
    """NDCG@100 with the defaults, on a fifth of the choices of each user."""
    frame = pl.read_parquet(datasets / folder)
    users, items = frame[:, 0].to_numpy(), frame[:, 1].to_numpy()
    shuffled = generator(0).permutation(len(users))
    order = shuffled[np.argsort(users[shuffled], kind="stable")]  # by user, at random within
    _, counts = np.unique(users, return_counts=True)
    places = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_test = np.zeros(len(users), bool)
    is_test[order[places < np.repeat(counts // 5, counts)]] = True
    train, test = (Ratings.from_arrays(users[some], items[some], np.ones(some.sum())) for some in (~is_test, is_test))
    report = evaluate(LogisticMF(seed=0).fit(train), test, k=100, groups=False, bootstrap=0)
    assert report.to_dict()["ndcg@100"] > least


def test_a_fit_that_left_the_numbers_is_no_fit():
    with pytest.raises(NonFiniteStateError, match=r"take a smaller learning_rate \(now 1e\+30\)"):
        LogisticMF(n_factors=2, learning_rate=1e30, epochs=4, seed=0).fit(RATINGS)
