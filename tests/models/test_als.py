"""ALS: the loss is the definition and never rises, the search finds a good strength, the answers are good."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, DampedBias, Ratings, evaluate, random_split, read
from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.models.factorization.als.als import WEIGHTINGS
from tastespace.models.factorization.als.sweep import AlternatingLeastSquares, Penalty, Strengths, Weighting
from tastespace.models.factorization.held_out_search import Validation, search_strengths
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, solve_rows
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

STRENGTHS = Strengths(users=0.3, items=0.7, user_bias=0.2, item_bias=0.5)


@pytest.fixture
def ratings():
    return tastes(50, 35, rng=generator(1))[0]


def brute_force_loss(ratings, state, penalty):
    """The definition of the loss, straight from its formula."""
    users, items = state.users, state.items
    factors = np.einsum(
        "nd,nd->n", users.factors[ratings.user_rows].astype(float), items.factors[ratings.item_rows].astype(float)
    )
    predicted = ratings.mean + factors
    if users.bias is not None:
        predicted = predicted + users.bias[ratings.user_rows] + items.bias[ratings.item_rows]
    loss = 0.5 * np.sum((ratings.values.astype(float) - predicted) ** 2)
    strengths = penalty.strengths
    for points, counts, factor_strength, bias_strength in (
        (users, ratings.by_user.counts, strengths.users, strengths.user_bias),
        (items, ratings.by_item.counts, strengths.items, strengths.item_bias),
    ):
        weight = penalty.weighting.per_rating * np.maximum(counts, 1) + penalty.weighting.base
        loss += 0.5 * factor_strength * np.sum(weight * (points.factors.astype(float) ** 2).sum(1))
        if points.bias is not None:
            loss += 0.5 * bias_strength * np.sum(weight * points.bias.astype(float) ** 2)
    return loss


def bound(ratings, weighting="weighted", biases=True, dtype=np.float64):
    penalty = Penalty(STRENGTHS, WEIGHTINGS[weighting])
    return AlternatingLeastSquares.bind(ratings, 4, penalty, biases=biases, dtype=dtype, threads=2), penalty


@pytest.mark.parametrize(("weighting", "biases"), list(itertools.product(WEIGHTINGS, [True, False])))
@pytest.mark.parametrize(("dtype", "slack"), [(np.float64, 1e-9), (np.float32, 1e-6)])
def test_the_loss_is_its_definition_and_never_rises(ratings, weighting, biases, dtype, slack):
    transition, penalty = bound(ratings, weighting, biases, dtype)
    rng = generator(0)
    state = transition.init(rng)
    before = np.inf
    for _ in range(12):
        state, stats = transition.step(state, rng)
        assert_allclose(stats["loss"], brute_force_loss(ratings, state, penalty), rtol=max(slack, 1e-9) * 10)
        assert stats["loss"] <= before * (1 + slack)
        before = stats["loss"]


def test_a_wrong_loss_would_be_noticed(ratings):
    """Broken twin: without the items' penalty the figure is not the loss."""
    transition, penalty = bound(ratings)
    state, stats = transition.step(transition.init(generator(0)), generator(0))
    without = stats["loss"] - brute_force_loss(ratings, state, Penalty(STRENGTHS, Weighting(0.0, 0.0)))
    assert without > 1e-3 * stats["loss"]


def test_converged_users_and_items_are_stationary(ratings):
    """Finite differences of the loss vanish at the end: in every coordinate looked at, of every block."""
    transition, penalty = bound(ratings, "blended")
    rng = generator(0)
    state = transition.init(rng)
    for _ in range(2000):
        state, _ = transition.step(state, rng)
    step = 1e-5
    for points in (state.users, state.items):
        for array in (points.factors, points.bias):
            for index in [tuple(rng.integers(0, size) for size in array.shape) for _ in range(5)]:
                kept = array[index]
                losses = []
                for change in (step, -step):
                    array[index] = kept + change
                    losses.append(brute_force_loss(ratings, state, penalty))
                array[index] = kept
                assert abs(losses[0] - losses[1]) / (2 * step) < 2e-3


def test_the_step_is_pure(ratings):
    transition, _ = bound(ratings)
    state = transition.init(generator(0))
    kept = state.users.factors.copy()
    one, _ = transition.step(state, generator(0))
    two, _ = transition.step(state, generator(0))
    np.testing.assert_array_equal(state.users.factors, kept)
    np.testing.assert_array_equal(one.users.factors, two.users.factors)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_number_of_numpys_is_a_number(ratings, kind):
    """It once made the penalty, and with it what the kernel wrote to, of another type than the ratings."""
    plain, given = (ALS(n_factors=4, regularization=value, seed=0).fit(ratings) for value in (0.5, kind(0.5)))
    assert_array_equal(given.posterior_.items.factors, plain.posterior_.items.factors)


def test_single_and_double_precision_agree(ratings):
    single, double = (
        ALS(n_factors=5, regularization=0.1, seed=1, precision=precision).fit(ratings)
        for precision in ("float32", "float64")
    )
    pairs = ratings.user_ids(), ratings.item_ids()
    assert_allclose(single.predict(*pairs).mean, double.predict(*pairs).mean, atol=2e-3)


def test_the_search_holds_out_its_share_over_the_same_rows(ratings):
    validation = Validation.split(ratings, 0.2, generator(0))
    assert len(validation.held_out) == int(0.2 * len(ratings))
    assert len(validation.train) + len(validation.held_out) == len(ratings)
    pairs = {
        (user, item)
        for part in (validation.train, validation.held_out)
        for user, item in zip(part.user_rows, part.item_rows, strict=True)
    }
    assert len(pairs) == len(ratings)
    assert validation.train.n_users == ratings.n_users


def test_the_search_beats_bad_strengths(rng):
    split = random_split(tastes(300, 200, n_factors=3, density=0.2, noise=0.5, rng=rng)[0], 0.2, seed=0)
    errors = {
        strength: evaluate(ALS(n_factors=8, regularization=strength, seed=0).fit(split.train), split.test)["rmse"]
        for strength in ("auto", 0.0005, 2.0)
    }
    assert errors["auto"] < 0.97 * min(errors[0.0005], errors[2.0])
    best_of_grid = min(
        evaluate(ALS(n_factors=8, regularization=strength, seed=0).fit(split.train), split.test)["rmse"]
        for strength in (0.003, 0.006, 0.0125, 0.025, 0.05, 0.1)
    )
    assert errors["auto"] < 1.02 * best_of_grid


def test_the_search_follows_the_scale_of_the_ratings(ratings):
    """Ratings ten times as large have strengths ten times as large, and the same predictions, ten times as large."""
    larger = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids(), 10 * ratings.values)
    one, ten = ALS(n_factors=3, seed=0).fit(ratings), ALS(n_factors=3, seed=0).fit(larger)
    small, large = one.posterior_.penalty.strengths, ten.posterior_.penalty.strengths
    assert_allclose([large.users, large.items], [10 * small.users, 10 * small.items], rtol=1e-4)
    assert_allclose([large.user_bias, large.item_bias], [small.user_bias, small.item_bias], rtol=1e-4)
    pairs = ratings.user_ids(), ratings.item_ids()
    assert_allclose(ten.predict(*pairs).mean, 10 * one.predict(*pairs).mean, rtol=1e-3)


def test_separate_strengths_override_the_shared_one(ratings):
    own = {"user_regularization": 0.5, "item_bias_regularization": 3.0}
    fixed = ALS(regularization=0.1, n_factors=3, seed=0, **own).fit(ratings).posterior_.penalty.strengths
    assert fixed == Strengths(users=0.5, items=0.1, user_bias=0.1, item_bias=3.0)
    searched = ALS(n_factors=3, seed=0, **own).fit(ratings).posterior_.penalty.strengths
    assert (searched.users, searched.item_bias) == (0.5, 3.0)
    assert searched.items != 0.5


def test_an_item_without_ratings_gets_the_priors_answer(rng):
    side = RatingBlock(np.array([0, 0, 2], np.int64), np.array([0, 1], np.int32), np.ones(2))
    other = Factors(rng.standard_normal((2, 3)), rng.standard_normal(2))
    solved = solve_rows(side, other, RowPrior(np.eye(3), np.full((1, 3), 0.5), 2.0, 1.0), name="item")
    assert_allclose(solved.points.factors[0], 0.5)
    assert_allclose(solved.points.bias[0], 0.5)


def test_a_broken_state_names_its_block():
    side = RatingBlock(np.array([0, 1], np.int64), np.array([0], np.int32), np.ones(1))
    with pytest.raises(NonFiniteStateError, match="user update failed at row 0"):
        solve_rows(side, Factors(np.full((1, 2), np.nan)), RowPrior(np.eye(2), np.zeros((1, 2))), name="user")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_factors": 0},
        {"n_factors": 2.5},
        {"regularization": 0},
        {"regularization": -1.0},
        {"regularization": "lots"},
        {"regularization": float("nan")},
        {"user_regularization": 0.0},
        {"weighting": "heavy"},
        {"precision": "float16"},
        {"sweeps": 0},
        {"tolerance": -1},
        {"validation_share": 1.0},
        {"biases": "yes"},
        {"early_stopping": "yes"},
    ],
    ids=str,
)
def test_senseless_parameters_are_named(wrong, ratings):
    with pytest.raises(InvalidParameterError, match=f"{next(iter(wrong))} is .*expected"):
        ALS(**wrong).fit(ratings)


def test_precision_sweeps_tolerance_and_seed_are_obeyed(ratings):
    fixed = {"n_factors": 3, "regularization": 0.05}
    assert ALS(precision="float64", seed=0, **fixed).fit(ratings).posterior_.items.factors.dtype == np.float64
    assert ALS(precision="float32", seed=0, **fixed).fit(ratings).posterior_.items.factors.dtype == np.float32
    assert len(ALS(sweeps=4, tolerance=0.0, seed=0, **fixed).fit(ratings).posterior_.losses) == 4
    loose, tight = (
        len(ALS(tolerance=t, sweeps=200, **fixed, seed=0).fit(ratings).posterior_.losses) for t in (0.1, 1e-6)
    )
    assert loose < tight < 200
    one, two = (ALS(seed=seed, sweeps=2, **fixed).fit(ratings).posterior_.items.factors for seed in (1, 2))
    assert not np.allclose(one, two)


def test_early_stopping_finds_the_sweep_that_predicts_best(rng):
    """With far too weak a penalty every further sweep overfits: a few are better than many."""
    split = random_split(tastes(200, 150, n_factors=2, density=0.3, noise=1.5, rng=rng)[0], 0.2, seed=0)
    weak = {"n_factors": 12, "regularization": 0.2, "weighting": "weighted", "tolerance": 0.0, "seed": 0}
    events = []
    stopped = ALS(early_stopping=True, **weak).fit(split.train, observer=events.append)
    endless = ALS(**weak).fit(split.train)
    assert len(stopped.posterior_.losses) < len(endless.posterior_.losses) == 30
    assert evaluate(stopped, split)["rmse"] < evaluate(endless, split)["rmse"]
    held_out = [event.stats["held-out rmse"] for event in events if event.phase == "finding when to stop"]
    assert len(stopped.posterior_.losses) == 1 + int(np.argmin(held_out))


def test_nothing_is_searched_when_all_strengths_are_given(ratings):
    events = []
    own = {f"{block}_regularization": 0.1 for block in ("user", "item", "user_bias", "item_bias")}
    ALS(n_factors=2, seed=0, **own).fit(ratings, observer=events.append)
    assert {event.phase for event in events} == {"sweep"}


class Landscape:
    """A validation whose error is a known function of the strengths, with its least value at a known place."""

    train = tastes(10, 10, rng=generator(0))[0]

    def __init__(self, best):
        self.best, self.starts = best, []

    def error(self, strengths):
        return 1 + sum(
            weight * np.log(getattr(strengths, block) / getattr(self.best, block)) ** 2
            for block, weight in (("users", 1.0), ("user_bias", 0.1), ("item_bias", 0.1))
        )

    def measured(self, strengths):
        landscape = self

        class Measured:
            def init(self, rng):
                return None

            def step(self, state, rng):
                landscape.starts.append(state)
                return strengths, {"held-out rmse": landscape.error(strengths)}

        return Measured()


def test_the_search_climbs_down_every_slope():
    sd = Landscape.train.standard_deviation
    landscape = Landscape(Strengths(0.123 * sd, 0.123 * sd, 0.04, 0.4))
    found = search_strengths(
        landscape.train,
        lambda penalty: landscape.measured(penalty.strengths),
        weighting=WEIGHTINGS["blended"],
        biases=True,
        sweeps=3,
        rng=generator(0),
        observer=silent,
    )
    assert abs(np.log(found.setting.users / landscape.best.users)) < np.log(1.09)  # the fine step
    assert found.setting.user_bias < 0.6 * found.setting.users / sd  # one step weaker
    assert found.setting.item_bias > 1.6 * found.setting.users / sd  # one step stronger
    assert landscape.starts.count(None) == 1  # all but the first trial start where another ended


def test_the_share_held_out_is_the_one_asked_for(ratings, monkeypatch):
    sizes = []
    split = Validation.split.__func__

    def remember(cls, observed, share, rng):
        sizes.append(int(share * len(observed)))
        return split(cls, observed, share, rng)

    monkeypatch.setattr(Validation, "split", classmethod(remember))
    ALS(n_factors=2, seed=0, validation_share=0.25).fit(ratings)
    assert sizes == [len(ratings) // 4]


def test_progress_is_reported(ratings):
    events = []
    ALS(n_factors=2, seed=0).fit(ratings, observer=events.append)
    assert {event.phase for event in events} == {"searching regularization", "sweep"}
    assert all(np.isfinite(list(event.stats.values())).all() for event in events)


@pytest.mark.filterwarnings("ignore:.*ratings have no time")
@pytest.mark.parametrize(
    ("name", "ceiling"),
    [("ml-100k/u.data", 0.897), pytest.param("ml-1m/ratings.parquet", 0.850, marks=pytest.mark.slow)],
)
def test_defaults_predict_well_on_real_ratings(name, ceiling, datasets):
    """90:10 seed 0, D = 32, defaults; RMSE over all test ratings, cold ones included."""
    split = random_split(read(datasets / name), 0.1, seed=0)
    assert evaluate(ALS(seed=0).fit(split.train), split.test)["rmse"] <= ceiling


def test_better_than_biases_alone(datasets):
    split = random_split(read(datasets / "ml-100k/u.data"), 0.1, seed=0)
    bias = evaluate(DampedBias().fit(split.train), split.test)["rmse"]
    assert evaluate(ALS(seed=0).fit(split.train), split.test)["rmse"] < bias - 0.02
