"""BPMF with other likelihoods, as a person meets it: levels, yes and no, erratic raters, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import BPMF, Ordinal, artifact
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.data.splits import random_split
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.likelihoods import base
from tastespace.models.factorization.likelihoods.base import keys_of
from tastespace.randomness import generator
from tastespace.testing import toys

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
SHORT = {"n_factors": 2, "chains": 1, "warmup": 30, "draws": 30, "thin": 1, "seed": 1, "threads": 1}
KINDS = {
    "ordinal": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
    "uneven": {"likelihood": "heteroscedastic"},
}


@pytest.fixture(scope="module")
def numbers():
    return toys.tastes(60, 40, density=0.5, rng=generator(3))[0]


def of_kind(numbers, kind):
    if kind == "ordinal":
        return replace(numbers, values=np.clip(np.round(2 * numbers.values) / 2, 1, 5).astype(np.float32))
    if kind in ("probit", "logistic"):
        return replace(numbers, values=(numbers.values > 3).astype(np.float32))
    return numbers


@pytest.fixture(scope="module")
def fitted(numbers):
    return {kind: BPMF(**SHORT, **options).fit(of_kind(numbers, kind)) for kind, options in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_ratings_with_all_uncertainty(kind, fitted, numbers):
    model, ratings = fitted[kind], of_kind(numbers, kind)
    prediction = model.predict(ratings.user_ids(), ratings.item_ids())
    low, high = ratings.range
    assert prediction.mean.min() >= low
    assert prediction.mean.max() <= high
    assert np.corrcoef(prediction.mean, ratings.values)[0, 1] > 0.6
    assert (prediction.belief_sd > 0).all()
    assert (prediction.rating_sd > prediction.belief_sd).all()
    interval = prediction.interval(0.9)
    assert np.mean((interval[:, 0] <= ratings.values) & (ratings.values <= interval[:, 1])) > 0.85
    if kind in ("ordinal", "probit", "logistic"):
        chances = prediction.level_probabilities()
        np.testing.assert_allclose(chances.sum(1), 1)
        levels = np.unique(ratings.values)
        np.testing.assert_allclose(chances @ levels, prediction.mean, atol=2e-3)
        np.testing.assert_allclose(prediction.probability_at_least(levels[-1]), chances[:, -1], atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_answers_the_same(kind, fitted, tmp_path):
    artifact.save(fitted[kind], tmp_path / "model")
    loaded = artifact.load(tmp_path / "model")
    one, other = fitted[kind].predict([0, 3, 9], [1, 2, 3]), loaded.predict([0, 3, 9], [1, 2, 3])
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.rating_sd, other.rating_sd)
    assert fitted[kind].recommend([0], 3).item_ids.to_list() == loaded.recommend([0], 3).item_ids.to_list()


@pytest.mark.parametrize("kind", KINDS)
def test_same_bytes_whatever_the_threads(kind, numbers):
    ratings = of_kind(numbers, kind)
    options = SHORT | {"chains": 2, "warmup": 5, "draws": 5} | KINDS[kind]
    one, two = (BPMF(**options | {"threads": threads}).fit(ratings) for threads in (1, 2))
    for name, array in one.posterior_.arrays().items():
        np.testing.assert_array_equal(array, two.posterior_.arrays()[name], err_msg=name)
    np.testing.assert_array_equal(one.predict([0, 1], [2, 3]).mean, two.predict([0, 1], [2, 3]).mean)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_ratings_give_the_same_answer_in_any_company(kind, fitted, numbers):
    model, ratings = fitted[kind], of_kind(numbers, kind)
    alone = model.predict([5] * 4, [0, 1, 2, 3]).mean
    users = np.repeat([1, 5, 7], 4)
    together = model.predict(users, np.tile([0, 1, 2, 3], 3)).mean[4:8]
    np.testing.assert_array_equal(alone, together)
    mine = ratings.user_rows == 5
    history = dict(zip(ratings.item_ids().filter(mine), ratings.values[mine].tolist(), strict=True))
    backwards = dict(reversed(history.items()))
    np.testing.assert_array_equal(model.predict(["new"] * 4, [0, 1, 2, 3], history=history).mean, alone)
    np.testing.assert_array_equal(model.predict(["new"] * 4, [0, 1, 2, 3], history=backwards).mean, alone)


@pytest.mark.parametrize("kind", KINDS)
def test_every_policy_and_questions_work(kind, fitted):
    model = fitted[kind]
    for policy in ("mean", "cautious", "curious", "likely", "thompson"):
        ranking = model.recommend([0, 1], 5, policy=policy)
        assert (ranking.item_rows >= 0).all()
        low, high = model.rating_range_
        assert ranking.scores.min() >= low
        assert ranking.scores.max() <= high
    by_mean = model.recommend([0], 10)
    assert (np.diff(by_mean.scores[0]) <= 0).all()
    assert len(model.ask(n=3).item_ids) == 3


def test_news_move_the_belief_about_levels(fitted):
    model = fitted["ordinal"]
    liked = model.predict(["new"], [0], history={0: 5.0, 1: 5.0, 2: 5.0}).mean[0]
    disliked = model.predict(["new"], [0], history={0: 1.0, 1: 1.0, 2: 1.0}).mean[0]
    assert liked > disliked + 0.5


def test_keys_depend_on_ratings_and_not_on_their_order():
    offsets = np.array([0, 2, 4, 4, 6, 8])
    columns = np.array([1, 2, 2, 1, 1, 2, 1, 2], np.int32)
    values = np.array([3, 4, 4, 3, 4, 3, 3, 4.5], np.float32)
    keys = keys_of(CSR(offsets, columns, values))
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 4


# Levels


def test_levels_at_any_distances_are_found_again():
    rng = generator(5)
    score = rng.standard_normal((80, 1)) + rng.standard_normal(50)
    levels = np.array([1.0, 2.0, 5.0, 10.0])
    cuts = np.array([-1.0, 0.5, 1.5])
    values = levels[np.searchsorted(cuts, score + rng.standard_normal(score.shape))]
    users, items = np.indices(score.shape)
    ratings = Ratings.from_arrays(users.reshape(-1), items.reshape(-1), values.reshape(-1))
    split = random_split(ratings, 0.2, seed=0)
    model = BPMF(**SHORT | {"draws": 50}, likelihood="ordinal").fit(split.train)
    drawn = model.posterior_.draws.noise["cuts"]
    # 3 200 ratings say where the cut-points are to some 0.05, and their common place less well.
    np.testing.assert_allclose(np.diff(drawn.mean(0)), np.diff(cuts), atol=0.2)
    prediction = model.predict(split.test.user_ids(), split.test.item_ids())
    assert prediction.levels.tolist() == levels.tolist()
    shares = prediction.level_probabilities().mean(0)
    found = [np.mean(split.test.values == level) for level in levels]
    np.testing.assert_allclose(shares, found, atol=0.06)  # three standard errors of 800 ratings


def test_a_declared_but_unused_level_has_a_chance():
    ratings = Ratings.from_arrays(np.arange(200) % 20, np.arange(200) // 20, 2.0 + np.arange(200) % 3)
    model = BPMF(**SHORT, likelihood=Ordinal(levels=[1, 2, 3, 4, 5])).fit(ratings)
    chances = model.predict([0], [0]).level_probabilities()
    assert chances.shape == (1, 5)
    assert 0 < chances[0, 0] < 0.2
    assert model.rating_range_ == (1.0, 5.0)


# Erratic users


def at_random(side, n, seed):
    """Ratings of which those by n users, or of n items, are drawn at random; a model of them, and who or which."""
    rng = generator(seed)
    ratings, _ = toys.tastes(100, 60, density=0.6, noise=0.4, rng=rng)
    vocabulary, rows = {"users": (ratings.users, ratings.user_rows), "items": (ratings.items, ratings.item_rows)}[side]
    chosen = rng.choice(len(vocabulary), n, replace=False)
    values = np.where(np.isin(rows, chosen), rng.uniform(1, 5, len(ratings)), ratings.values).astype(np.float32)
    model = BPMF(**SHORT, likelihood="heteroscedastic").fit(replace(ratings, values=values))
    return model, chosen, set(vocabulary.at(chosen).to_list())


def test_raters_at_random_are_found():
    model, erratic, ids = at_random("users", 10, seed=2)
    found = model.erratic_users(10)
    assert len(set(found.ids.to_list()) & ids) >= 9
    assert (np.diff(found.noise_sd) <= 0).all()
    assert (found.low <= found.noise_sd).all()
    assert (found.noise_sd <= found.high).all()
    assert found.probability[:9].min() > 0.95
    assert found.to_polars().columns == ["user", "ratings", "noise_sd", "low", "high", "probability"]
    # Their ratings are predicted with less certainty than those of others.
    sds = model.predict(model.ratings_.users.ids, np.zeros(100, int)).rating_sd
    assert sds[erratic].mean() > 1.3 * np.delete(sds, erratic).mean()
    assert len(model.divisive_items(5)) == 5
    assert "noisiest users" in repr(found)


def test_what_divides_opinion_is_found():
    model, _, ids = at_random("items", 6, seed=4)
    assert set(model.divisive_items(6).ids.to_list()) == ids


# Bad input


def test_who_is_erratic_is_not_known_to_every_model(fitted):
    with pytest.raises(InvalidParameterError, match="heteroscedastic"):
        fitted["ordinal"].erratic_users()
    with pytest.raises(InvalidParameterError, match="n is 0"):
        fitted["uneven"].erratic_users(0)


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        ({"likelihood": "probit"}, [1.0, 2.0, 3.0, 1.0], "ratings are 1, 2, 3; expected 0 .no. and 1 .yes."),
        ({"likelihood": "logistic"}, [0.0, 1.0, -1.0, 1.0], "ratings are -1, 0, 1"),
        ({"likelihood": "logistic"}, [1.0, 1.0, 1.0, 1.0], "all ratings are yes"),
        ({"likelihood": "probit"}, [0.0, 0.0, 0.0, 0.0], "all ratings are no"),
        ({"likelihood": "ordinal"}, [3.0, 3.0, 3.0, 3.0], "all ratings are 3; expected at least two levels"),
        (
            {"likelihood": Ordinal(levels=[1, 2, 3])},
            [1.0, 2.0, 2.5, 7.0],
            "2 of 4 ratings are not declared levels, such as 2.5; expected one of 1, 2, 3",
        ),
        ({"likelihood": Ordinal(levels=[3, 2, 1])}, [1.0, 2.0, 3.0, 1.0], "levels .* ascending"),
        ({"likelihood": Ordinal(levels=[1])}, [1.0, 1.0, 1.0, 1.0], "2 to 101 numbers"),
        ({"likelihood": Ordinal(levels=[True, 2])}, [1.0, 2.0, 1.0, 1.0], "ascending"),
        ({"likelihood": Ordinal(levels="1,2")}, [1.0, 2.0, 1.0, 1.0], "ascending"),
        (
            {"likelihood": "gaussian:levels=1,2"},
            [1.0, 2.0, 1.0, 1.0],
            "'levels=1,2'; expected key=value, with a key among precision",
        ),
        ({"likelihood": "poisson"}, [1.0, 2.0, 1.0, 1.0], "likelihood is 'poisson'"),
        ({"likelihood": "gaussian:precision=loud"}, [1.0, 2.0, 1.0, 1.0], "precision is 'loud'"),
        ({"likelihood": "ordinal:noise=loud"}, [1.0, 2.0, 1.0, 1.0], "key among levels"),
        ({"likelihood": "probit:precision=2"}, [1.0, 0.0, 1.0, 1.0], "key among offset, negatives"),
        ({"likelihood": "probit", "weights": "evidence"}, [1.0, 0.0, 1.0, 1.0], "expected weights='equal'"),
        ({"likelihood": "heteroscedastic", "weights": "evidence"}, [1.0, 2.0, 1.0, 1.0], "expected weights='equal'"),
    ],
)
def test_what_does_not_go_together_is_refused(options, values, message):
    ratings = Ratings.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], values)
    with pytest.raises(InvalidParameterError, match=message):
        BPMF(**SHORT, **options).fit(ratings)


@pytest.mark.parametrize(("kind", "rating"), [("probit", 0.3), ("logistic", 4.0), ("ordinal", 2.4), ("ordinal", 9.0)])
@pytest.mark.filterwarnings("ignore:the history has ratings")
def test_a_history_of_other_levels_is_refused(kind, rating, fitted):
    with pytest.raises(InvalidParameterError, match=f"rating of {rating:g}; expected one of the model's levels"):
        fitted[kind].recommend(history={3: rating})


def test_levels_beyond_single_precision_are_refused():
    ratings = Ratings.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 1.0, 2.0])
    for levels in ([1.0, 1.00000000001, 2.0], [1.0, 2.0, 1e300]):
        with pytest.raises(InvalidParameterError, match="single precision"):
            BPMF(**SHORT, likelihood=Ordinal(levels=levels)).fit(ratings)


def test_levels_close_to_one_another_are_distinguished():
    levels = [99.001, 99.002, 99.003, 99.004, 99.005]
    values = np.array(levels)[np.arange(100) % 5]
    model = BPMF(**SHORT, likelihood=Ordinal(levels=levels)).fit(
        Ratings.from_arrays(np.arange(100) % 10, np.arange(100) // 10, values)
    )
    assert model.predict([0], [0]).level_probabilities().shape == (1, 5)


@pytest.mark.parametrize("kind", ["probit", "logistic", "ordinal"])
def test_a_user_who_always_says_yes_is_believed(kind):
    """Latent responses move slowly there: a fold-in must not stop on the way."""
    rng = generator(6)
    likes = rng.logistic(size=(60, 200)) < 3 * rng.standard_normal((60, 1))
    likes[0] = True
    users, items = np.indices(likes.shape)
    ratings = Ratings.from_arrays(users.reshape(-1), items.reshape(-1), likes.reshape(-1).astype(np.float64))
    model = BPMF(**SHORT, likelihood=kind).fit(ratings)
    few = model.predict(np.zeros(200, int), np.arange(200)).mean
    steps, base.STEPS = base.STEPS, 400
    try:
        many = model.predict(np.zeros(200, int), np.arange(200)).mean
    finally:
        base.STEPS = steps
    assert many.min() > 0.9
    # From the population's mean six steps end at 2 to 4 % of no; where they lead is 0.2 to 0.4 %.
    assert abs(few.mean() - many.mean()) < 0.006


def test_draws_saved_before_there_were_likelihoods_are_read(numbers):
    model = BPMF(**SHORT).fit(numbers)
    arrays = dict(model.posterior_.arrays())
    del arrays["noise"]
    arrays["units"] = arrays["units"][:4]
    old = DrawsPosterior.from_arrays(arrays)
    assert old.units.usual == pytest.approx(numbers.mean)
    assert not old.is_latent


def test_numbers_are_no_levels(numbers):
    with pytest.raises(InvalidParameterError, match="more than 101 different values"):
        BPMF(**SHORT, likelihood="ordinal").fit(numbers)
