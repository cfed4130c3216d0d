"""PMF: it ends where ALS ends, keeps the best epoch, says when it diverges, and needs no ratings in memory."""

from __future__ import annotations

import dataclasses
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, PMF, DampedBias, Ratings, evaluate, load, random_split, read, save
from tastespace.data.formats.streaming import RatingStream, Triples
from tastespace.data.formats.writers import write
from tastespace.errors import ConvergenceWarning, DataError, DivergenceWarning, InvalidParameterError
from tastespace.inference.transition import HELD_OUT
from tastespace.models.base.posterior import Pairs
from tastespace.models.factorization.als.sweep import WEIGHTINGS, ALSState, AlternatingLeastSquares, Penalty, Strengths
from tastespace.models.factorization.sgd.best_epoch import KeepingBest, diverged, run
from tastespace.models.factorization.sgd.blocks import Source, triples_of
from tastespace.models.factorization.sgd.descent import AdaptivePrior, Descent, Steps
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes
from tests.pairwise import pairwise
from tests.reference.descent import Point, Problem, loss

STRENGTHS = Strengths(users=0.3, items=0.7, user_bias=0.2, item_bias=0.5)


@pytest.fixture
def ratings():
    return tastes(60, 40, rng=generator(1))[0]


def descent_on(source, *, form="centred", method="stochastic", rate=0.05, schedule="constant", **more):
    """A transition in double precision."""
    made = source.form(form)
    options = {"weighting": "weighted", "strengths": STRENGTHS, "batch_size": 100, "decay": 0.0, "n_factors": 3} | more
    return Descent(
        source=source,
        epochs=source.epochs(made, np.float64, generator(0)),
        n_factors=options["n_factors"],
        penalty=Penalty(options["strengths"], WEIGHTINGS[options["weighting"]]),
        form=made,
        steps=Steps(method, rate, schedule, options["decay"], 0.9, options["batch_size"]),
        has_biases=True,
        dtype=np.float64,
        threads=2,
    )


def as_twin(ratings, transition):
    """The problem as the twin takes it."""
    weighting = transition.penalty.weighting
    return Problem(
        ratings.user_rows,
        ratings.item_rows,
        transition.form.targets(ratings.values, np.float64),
        weighting.of(ratings.by_user.counts),
        weighting.of(ratings.by_item.counts),
        dataclasses.astuple(transition.penalty.strengths),
        transition.form.offset,
        transition.form.is_squashed,
    )


def loss_of(ratings, transition, users, items):
    return loss(as_twin(ratings, transition), Point(users.factors, items.factors, users.bias, items.bias))


# The loss


@pytest.fixture
def easy():
    """As many factors as there are, and enough ratings: one minimum, up to a rotation."""
    return tastes(60, 40, density=0.5, rng=generator(1))[0]


def both(ratings, weighting, **options):
    """A descent and ALS of the same loss, and one start for both."""
    unit = {"plain": 1.0, "weighted": 0.1, "blended": 0.01}[weighting]
    strengths = Strengths(3.0 * unit, 0.7 * unit, 0.2 * unit, 0.5 * unit)
    descent = descent_on(Source.of(ratings), weighting=weighting, strengths=strengths, n_factors=2, **options)
    als = AlternatingLeastSquares.bind(ratings, 2, descent.penalty, biases=True, dtype=np.float64, threads=1)
    return descent, als, descent.init(generator(3))


@pytest.mark.parametrize("weighting", ["plain", "weighted", "blended"])
def test_als_and_gradient_descent_reach_the_same_loss_from_the_same_start(easy, weighting):
    descent, als, state = both(easy, weighting, method="full-batch", rate=0.3, schedule="bold-driver")
    solved, rng = ALSState(state.users, state.items), generator(3)
    for _ in range(100):
        solved, stats = als.step(solved, rng)
    for _ in range(300):
        state, _ = descent.step(state, rng)
    reached = loss_of(easy, descent, state.users, state.items)
    assert_allclose(reached, stats["loss"], rtol=1e-6)
    assert_allclose(reached, loss_of(easy, descent, solved.users, solved.items), rtol=1e-6)


@pytest.mark.parametrize(("weighting", "tolerance"), [("plain", 1e-2), ("weighted", 1e-3)])
def test_single_ratings_end_near_there_too(easy, weighting, tolerance):
    descent, als, state = both(easy, weighting, rate=0.05, schedule="inverse", decay=1.0)
    solved, rng = ALSState(state.users, state.items), generator(3)
    for _ in range(100):
        solved, stats = als.step(solved, rng)
    for _ in range(600):
        state, _ = descent.step(state, rng)
    reached = loss_of(easy, descent, state.users, state.items)
    assert stats["loss"] <= reached * (1 + 1e-6)
    assert_allclose(reached, stats["loss"], rtol=tolerance)


def test_the_other_weighting_would_be_noticed(easy):
    """Broken twin: subtracting all of the penalty at every visit is not plain regularization."""
    descent, als, state = both(easy, "plain", rate=0.05, schedule="inverse", decay=1.0)
    wrong = dataclasses.replace(descent, penalty=Penalty(descent.penalty.strengths, WEIGHTINGS["weighted"]))
    solved, rng = ALSState(state.users, state.items), generator(3)
    for _ in range(100):
        solved, stats = als.step(solved, rng)
    for _ in range(200):
        state, _ = wrong.step(state, rng)
    assert loss_of(easy, descent, state.users, state.items) > 1.5 * stats["loss"]


@pytest.mark.parametrize("form", ["centred", "raw", "sigmoid"])
def test_the_loss_of_a_full_batch_is_its_definition(ratings, form):
    descent = descent_on(Source.of(ratings), form=form, method="full-batch", rate=0.0)
    state = descent.init(generator(3))
    _, stats = descent.step(state, generator(0))
    assert_allclose(stats["loss"], loss_of(ratings, descent, state.users, state.items), rtol=1e-10)


def test_momentum_is_what_it_says(ratings):
    """velocity = momentum velocity - rate mean gradient, one batch after the other."""
    descent = descent_on(Source.of(ratings), method="full-batch", rate=0.1)
    rng = generator(3)
    first = descent.init(rng)
    blocks, stages = next(descent.epochs(rng)), np.arange(16, dtype=np.int32)
    second, _ = descent.step(first, rng)
    third, _ = descent.step(second, rng)
    slopes, _, _ = descent.gradient(blocks, second, stages)
    means = slopes.bias / ratings.by_user.counts
    expected = 0.9 * (second.users.bias - first.users.bias) - 0.1 * means
    assert_allclose(third.users.bias - second.users.bias, expected, rtol=1e-10)


WAYS = [("stochastic", 1), ("mini-batch", 100), ("mini-batch", 10**6), ("full-batch", 1)]


@pytest.mark.parametrize(("method", "batch_size"), WAYS)
def test_a_bold_driver_finds_a_rate_and_never_keeps_a_worse_epoch(ratings, method, batch_size):
    """5 is far too fast: epochs are taken back until it is not, and those that are kept lower the loss."""
    more = {"rate": 5.0, "schedule": "bold-driver", "batch_size": batch_size}
    descent, rng = descent_on(Source.of(ratings), method=method, **more), generator(3)
    state, taken_back = descent.init(rng), 0
    losses = [loss_of(ratings, descent, state.users, state.items)]
    assert_allclose(state.loss, losses[0], rtol=1e-9)
    for _ in range(200):
        state, stats = descent.step(state, rng)
        losses.append(loss_of(ratings, descent, state.users, state.items))
        if stats["taken back"]:
            taken_back += 1
            assert losses[-1] == losses[-2] or taken_back == 1
            assert not stats["loss"] <= losses[-2] * (1 - 1e-9)
        else:
            assert_allclose(stats["loss"], losses[-1], rtol=1e-9)  # where it ended, not what was met on the way
    assert 2 < taken_back < 100
    assert np.all(np.diff(losses) <= 1e-9 * losses[0])  # the first epoch is judged by the start
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(("method", "batch_size"), WAYS)
def test_a_bold_driver_gets_as_far_as_a_constant_rate(ratings, method, batch_size):
    """It does not stay where an epoch that was bad, and was noticed late, has left it."""
    reached = []
    for schedule in ("constant", "bold-driver"):
        more = {"rate": 0.02, "schedule": schedule, "batch_size": batch_size}
        descent, rng = descent_on(Source.of(ratings), method=method, **more), generator(3)
        state = descent.init(rng)
        for _ in range(150):
            state, _ = descent.step(state, rng)
        reached.append(loss_of(ratings, descent, state.users, state.items))
    assert reached[1] < 1.02 * reached[0]


def test_a_driver_who_never_gets_anywhere_says_so(ratings):
    """From 1e300 on, no number of halvings that anybody waits for is enough."""
    model = PMF(n_factors=3, regularization=0.05, learning_rate=1e300, schedule="bold-driver", epochs=20, seed=1)
    said = r"never lowered the loss: each of \d+ .* Take a smaller learning_rate \(now 1e\+300\)$"
    with pytest.warns(DivergenceWarning, match=said):
        model.fit(ratings)


# Stopping


def test_the_best_epoch_is_kept(ratings):
    """Weak penalties and many epochs overfit: what is kept is the epoch with the least held-out error."""
    told = []
    model = PMF(
        n_factors=8,
        regularization=0.001,
        weighting="weighted",
        schedule="constant",
        learning_rate=0.05,
        refit=False,
        seed=1,
    )
    model.set_params(epochs=60, patience=60, threads=1).fit(ratings, observer=told.append)
    errors = [event.stats[HELD_OUT] for event in told if event.phase == "finding when to stop"]
    assert len(errors) == 60
    best = int(np.argmin(errors))
    assert best < 50
    assert_array_equal(model.posterior_.held_out_errors, errors)
    shorter = PMF(**{**model.get_params(), "epochs": best + 1}).fit(ratings)
    assert_array_equal(model.posterior_.items.factors, shorter.posterior_.items.factors)
    longer = PMF(**{**model.get_params(), "epochs": best + 5}).fit(ratings)
    assert_array_equal(model.posterior_.items.factors, longer.posterior_.items.factors)


def test_patience_ends_it(ratings):
    told = []
    options = {"regularization": 0.001, "weighting": "weighted", "learning_rate": 0.05, "schedule": "constant"}
    PMF(n_factors=8, patience=3, seed=1, **options).fit(ratings, observer=told.append)
    errors = [event.stats[HELD_OUT] for event in told if event.phase == "finding when to stop"]
    assert len(errors) < 100
    assert int(np.argmin(errors)) == len(errors) - 4
    assert sum(event.phase == "epoch" for event in told) == len(errors) - 3  # as many on all ratings as were best


def test_without_early_stopping_all_epochs_are_done(ratings):
    model = PMF(n_factors=4, regularization=0.05, early_stopping=False, epochs=7, seed=1).fit(ratings)
    assert len(model.posterior_.losses) == 7
    assert len(model.posterior_.held_out_errors) == 0


def test_held_out_ratings_are_watched_and_change_nothing(ratings):
    parts, told = random_split(ratings, 0.2, seed=1), []
    options = {"n_factors": 3, "regularization": 0.05, "epochs": 20, "seed": 1}
    watched = PMF(**options).fit(parts.train, held_out=parts.test, observer=told.append)
    alone = PMF(**options).fit(parts.train)
    assert all(np.isfinite(event.stats[HELD_OUT]) for event in told if event.phase == "epoch")
    assert_array_equal(watched.posterior_.items.factors, alone.posterior_.items.factors)


# Divergence


ENDINGS = [{}, {"refit": False}, {"early_stopping": False}, {"early_stopping": False, "epochs": 1}]


@pytest.mark.parametrize(("way", "rate", "ending"), pairwise(WAYS, [30.0, 1e30, 1e300], ENDINGS), ids=str)
def test_a_rate_that_is_too_large_stops_says_so_and_keeps_the_best(ratings, way, rate, ending):
    method, batch_size = way
    options = {"n_factors": 3, "regularization": 0.05, "method": method, "batch_size": batch_size, "seed": 1}
    model = PMF(learning_rate=rate, **options, **ending)
    message = rf"diverged in epoch \d+: .* kept.* smaller learning_rate \(now {re.escape(format(rate, 'g'))}\)"
    with pytest.warns(DivergenceWarning, match=message):
        model.fit(ratings)
    for name, array in model.posterior_.arrays().items():
        assert np.isfinite(array).all() or name in ("losses", "held_out_errors")  # which tell of it
    predicted = model.predict(ratings.user_ids(), ratings.item_ids()).mean
    # The start predicts the mean; users come last, and put right what they can.
    assert np.sqrt(np.mean((predicted - ratings.values) ** 2)) < 1.001 * ratings.standard_deviation


def keeping_loss(descent):
    measures = {"here": lambda state: descent.loss(state, generator(0))}
    return KeepingBest(descent, "here", measures, descent.is_sound)


def run_for(keeping, descent, epochs):
    return run(
        keeping,
        generator(1),
        loss=lambda state: descent.loss(state, generator(0)),
        epochs=epochs,
        stop=lambda trace: False,
        phase="",
        observer=silent,
    )


@pytest.mark.parametrize(("method", "batch_size", "first"), [(*WAYS[0], 0.02), (*WAYS[1], 0.01), (*WAYS[3], 0.05)])
def test_what_grows_slowly_is_noticed_and_earlier_epochs_are_kept(ratings, method, batch_size, first):
    """A rate that rises until it is too large: the epochs before that are good, and the best of them is kept."""

    class Rising(Steps):
        def rate(self, visits, boldness):
            return self.first_rate * 1.6 ** (visits / 26)

    descent = descent_on(Source.of(ratings), method=method, batch_size=batch_size)
    descent = dataclasses.replace(descent, steps=Rising(**vars(descent.steps) | {"first_rate": first}))
    ran = run_for(keeping_loss(descent), descent, 100)
    assert ran.has_diverged
    assert len(ran.trace) < 100
    measured = [stats["here"] for stats in ran.trace]
    assert 0 < ran.last.best_epoch == 1 + int(np.nanargmin(measured)) < len(measured)
    # The figure is that of the very state that is kept.
    best = ran.last.best
    assert_allclose(loss_of(ratings, descent, best.users, best.items), min(measured), rtol=1e-9)
    assert min(measured) < ran.last.first_loss


@dataclasses.dataclass(frozen=True)
class Number:
    value: float
    loss: float = 1.0


@dataclasses.dataclass(frozen=True)
class Walk:
    """Goes where it is told; the loss of a step is that of where it began."""

    values: list

    def init(self, rng):
        return Number(self.values[0])

    def step(self, state, rng):
        return Number(self.values[self.values.index(state.value) + 1]), {"loss": state.value}


@pytest.mark.parametrize(
    ("values", "best", "has_diverged"),
    [
        ([1.0, 0.5, 0.7, 0.6], 1, False),
        ([1.0, 1.1, 1.2], 0, False),  # the start was the best
        ([1.0, 0.9, float("inf")], 1, True),  # and the last step has not seen it
        ([1.0, 100.0], 0, True),
        ([1.0, -float("inf")], 0, True),  # a fine figure of a state that is not sound
    ],
)
def test_the_start_counts_and_figures_belong_to_states(values, best, has_diverged):
    walk = Walk(values)
    keeping = KeepingBest(
        walk, "value", {"value": lambda state: state.value}, lambda state, _: np.isfinite(state.value)
    )
    ran = run(
        keeping,
        generator(0),
        loss=lambda state: state.value,
        epochs=len(values) - 1,
        stop=lambda trace: False,
        phase="",
        observer=silent,
    )
    assert (ran.last.best_epoch, ran.last.best.value) == (best, values[best])
    assert ran.has_diverged == has_diverged


def test_a_state_with_a_penalty_above_the_loss_of_the_start_is_never_kept(ratings):
    descent = descent_on(Source.of(ratings))
    start = descent.init(generator(1))
    assert descent.is_sound(start, start.loss)
    for size in (1e3, 1e200, np.inf, np.nan):
        far = dataclasses.replace(start.items, factors=start.items.factors * size)
        assert not descent.is_sound(dataclasses.replace(start, items=far), start.loss)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("method", "batch_size"), WAYS)
def test_a_rate_that_is_far_too_small_is_reported(ratings, method, batch_size, ending):
    options = {"n_factors": 2, "regularization": 0.05, "epochs": 4, "seed": 0, "method": method, **ending}
    said = r"hardly moved.* after \d epochs?\. Take a larger learning_rate \(now 1e-30\)"
    with pytest.warns(ConvergenceWarning, match=said):
        model = PMF(**options, batch_size=batch_size, learning_rate=1e-30).fit(ratings)
    assert np.isfinite(model.predict([0], [0]).mean).all()


def test_what_leaves_nothing_to_learn_is_not_put_down_to_the_rate():
    equal = Ratings.from_arrays(np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10), np.full(100, 4.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        PMF(n_factors=2, regularization=0.05, epochs=4, learning_rate=1e-9, seed=0).fit(equal)


def test_what_counts_as_divergence():
    assert not diverged(5.0, [])
    assert not diverged(5.0, [{"loss": 1.0}, {"loss": 4.0}])  # back where it began at most
    assert diverged(5.0, [{"loss": 1.0}, {"loss": 6.0}])
    assert diverged(5.0, [{"loss": 16.0}])
    assert diverged(5.0, [{"loss": float("nan")}])
    assert not diverged(5.0, [{"loss": float("nan"), "taken back": 1.0}])


def test_a_bold_driver_recovers_from_a_rate_that_is_too_large(ratings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PMF(n_factors=3, regularization=0.05, learning_rate=30.0, schedule="bold-driver", seed=1)
        model.set_params(patience=50).fit(ratings)
    assert model.posterior_.losses[-1] < 0.5 * len(ratings) * ratings.standard_deviation**2


# Answers


@pytest.mark.parametrize("form", ["centred", "raw", "sigmoid"])
@pytest.mark.parametrize("method", ["stochastic", "mini-batch", "full-batch"])
def test_every_way_predicts_better_than_biases(form, method):
    parts = random_split(tastes(150, 80, noise=0.3, rng=generator(5))[0], 0.2, seed=0)
    options = {"batch_size": 1000, "regularization": 0.01, "seed": 0}
    ours = PMF(n_factors=4, form=form, method=method, **options).fit(parts.train)
    biases = DampedBias(seed=0).fit(parts.train)
    assert rmse(ours, parts) < 0.75 * rmse(biases, parts)


def rmse(model, parts):
    return evaluate(model, parts)["rmse"]


def low_rank(n_users, n_items, *, rank=3, density, seed):
    """Tastes alone: without biases, nothing improves until the factors have left their start."""
    rng = generator(seed)
    truth = 3 + rng.standard_normal((n_users, rank)) @ rng.standard_normal((rank, n_items)) / np.sqrt(rank)
    users, items = np.nonzero(rng.random(truth.shape) < density)
    return Ratings.from_arrays(users, items, truth[users, items] + 0.3 * rng.standard_normal(len(users)))


@pytest.mark.parametrize("seed", range(6))
def test_defaults_are_about_as_good_as_als_on_little_data(seed):
    """It does not stop on the plateau where it starts."""
    for ratings in (low_rank(60, 50, density=0.5, seed=seed), tastes(60, 50, rng=generator(seed))[0]):
        parts = random_split(ratings, 0.2, seed=seed)
        ours, als = PMF(seed=seed).fit(parts.train), ALS(seed=seed).fit(parts.train)
        assert rmse(ours, parts) < 1.1 * rmse(als, parts)


@pytest.mark.parametrize("method", ["stochastic", "mini-batch", "full-batch"])
def test_few_ratings_a_row_are_learned_from(method):
    """Where the first strength is too strong for any factors at all, and there are nine ratings a row."""
    parts = random_split(low_rank(200, 300, density=0.05, seed=3), 0.2, seed=0)
    ours = PMF(method=method, seed=3).fit(parts.train)
    mean = np.sqrt(np.mean((parts.test.values - parts.train.mean) ** 2))
    assert rmse(ours, parts) < 0.88 * mean


def test_patience_and_epochs_are_longer_where_an_epoch_is_short(ratings):
    """Of an average row with ten visits and with a thousand; a full batch is one step however large."""
    descent = descent_on(Source.of(ratings), rate=0.02)
    many = dataclasses.replace(
        descent, source=dataclasses.replace(descent.source, n_ratings=100 * descent.source.n_ratings)
    )
    assert descent.usual_patience * descent.travel >= 30
    assert (many.usual_patience, many.usual_epochs) == (10, 200)
    assert descent.usual_patience < descent.usual_epochs / 4
    slow = descent_on(Source.of(ratings), rate=1e-9)
    assert slow.usual_epochs == 1000  # and not for ever
    for batches in ({"method": "full-batch"}, {"method": "mini-batch", "batch_size": 10**6}):
        assert descent_on(Source.of(ratings), rate=0.2, **batches).usual_patience == 50


def test_the_search_keeps_to_its_budget_and_takes_what_it_found(ratings, monkeypatch):
    monkeypatch.setattr("tastespace.models.factorization.sgd.pmf.MAX_TRIALS", 3)
    told = []
    model = PMF(n_factors=4, seed=1).fit(ratings, observer=told.append)
    tried = [event.stats for event in told if event.phase == "searching regularization"]
    assert len(tried) == 3
    best = min(tried, key=lambda stats: stats[HELD_OUT])
    assert best is tried[2]  # the last of the budget, and not thrown away
    assert model.posterior_.penalty.strengths.users == best["strength"]


def test_auto_is_as_good_as_the_search_of_als():
    parts = random_split(tastes(200, 120, noise=0.3, rng=generator(5))[0], 0.2, seed=0)
    ours, als = PMF(n_factors=4, seed=0).fit(parts.train), ALS(n_factors=4, seed=0).fit(parts.train)
    assert rmse(ours, parts) < 1.05 * rmse(als, parts)


@pytest.mark.parametrize("biases", [True, False])
def test_without_a_mean_new_users_and_unknown_items_are_average(biases):
    """Raw: zeros would predict the lowest rating."""
    ratings = tastes(60, 40, density=0.5, rng=generator(1))[0]
    rest = ratings.masked((ratings.user_rows != 7) & (ratings.item_rows != 5))  # known by name alone
    model = PMF(n_factors=3, form="raw", biases=biases, regularization=0.02, seed=1).fit(rest)
    spread, items = ratings.standard_deviation, ratings.items.ids.to_list()
    item_means = np.array([ratings.values[ratings.item_rows == row].mean() for row in range(40)])
    for user in ("new", ratings.users.ids[7]):
        predicted = model.predict([user] * 40, items).mean
        assert abs(predicted.mean() - ratings.mean) < 0.3 * spread
        assert np.sqrt(np.mean((predicted - item_means) ** 2)) < 0.35 * spread
        listed = model.recommend([user], 40, exclude=None)
        scores = dict(zip(listed.item_ids.to_list(), listed.scores[0], strict=True))
        assert_allclose([scores[item] for item in items], predicted, atol=1e-3)
    for item in ("unheard of", items[5]):
        predicted = model.predict(ratings.users.ids, [item] * 60).mean
        assert abs(predicted.mean() - ratings.mean) < 0.3 * spread
    assert abs(model.predict(["new"], ["unheard of"]).mean[0] - ratings.mean) < 0.3 * spread
    nothing_yet = model.posterior_.fold_in(ratings.by_user.take(np.array([-1], np.int32)), 1)
    assert_array_equal(nothing_yet.factors, model.posterior_.users.average.factors)


@pytest.mark.parametrize("form", ["centred", "sigmoid"])
def test_ratings_of_another_scale_give_the_same_answers(ratings, form):
    """Learning rates and strengths have units."""
    model = PMF(n_factors=3, form=form, precision="float64", epochs=30, seed=1)
    other = dataclasses.replace(ratings, values=(20 * ratings.values - 7).astype(np.float32))
    one = model.fit(ratings).predict(ratings.user_ids(), ratings.item_ids()).mean
    two = PMF(**model.get_params()).fit(other).predict(ratings.user_ids(), ratings.item_ids()).mean
    assert_allclose(two, 20 * one - 7, atol=0.02)


def test_a_fold_in_through_the_sigmoid_is_the_minimum(ratings):
    """No small change of a user lowers their loss."""
    model = PMF(n_factors=3, form="sigmoid", regularization=0.05, precision="float64", seed=1).fit(ratings)
    posterior = model.posterior_
    weighting = posterior.penalty.weighting
    problem = Problem(
        ratings.user_rows,
        ratings.item_rows,
        posterior.form.targets(ratings.values, np.float64),
        weighting.of(ratings.by_user.counts),
        weighting.of(ratings.by_item.counts),
        dataclasses.astuple(posterior.penalty.strengths),
        posterior.form.offset,
        is_squashed=True,
    )
    here = Point(posterior.users.factors, posterior.items.factors, posterior.users.bias, posterior.items.bias)
    least = loss(problem, here)
    rng = generator(2)
    for size in (0.001, 0.01, 0.1):
        there = here.copy()
        there.users += size * rng.standard_normal(there.users.shape)
        there.user_bias += size * rng.standard_normal(there.user_bias.shape)
        assert loss(problem, there) > least


def test_sigmoid_predictions_stay_in_the_range_unclipped(ratings):
    model = PMF(n_factors=3, form="sigmoid", regularization=0.02, epochs=30, seed=1).fit(ratings)
    belief = believed(model, range(3))
    users, items = np.repeat(np.arange(3), 40).astype(np.int32), np.tile(np.arange(40), 3).astype(np.int32)
    predicted = belief.mean(Pairs(users, items))
    assert ratings.range[0] <= predicted.min() < predicted.max() <= ratings.range[1]


@pytest.mark.parametrize("form", ["centred", "sigmoid"])
def test_an_update_is_a_fit_on_all_ratings(ratings, form):
    parts = random_split(ratings, 0.1, seed=3)
    model = PMF(n_factors=3, form=form, regularization=0.02, epochs=30, seed=1).fit(parts.train)
    updated = model.update(parts.test)
    assert len(updated.ratings_) == len(ratings)
    assert not np.array_equal(updated.posterior_.items.factors[:5], model.posterior_.items.factors[:5])


# Adaptive priors


def test_adaptive_strengths_have_the_highest_density():
    """Given everything else, any other strengths and noise have a lower joint density."""
    start = Strengths(0.3, 0.4, 0.2, 0.1)
    prior = AdaptivePrior(start, 500, Strengths(30 * 4, 20 * 4, 30, 20))
    squares = Strengths(50.0, 20.0, 3.0, 9.0)

    def log_density(logs, log_alpha):
        alpha, value = np.exp(log_alpha), 0.5 * 500 * log_alpha - 0.5 * np.exp(log_alpha) * 800.0
        for name, log in logs.items():
            n, l0, strength = getattr(prior.sizes, name), getattr(start, name), np.exp(log)
            value += 0.5 * n * (log_alpha + log) - 0.5 * alpha * strength * getattr(squares, name)
            value += 0.5 * n * log - 0.5 * n * strength / l0  # the Gamma prior of the strength
        return value

    now = start
    for _ in range(200):  # to the joint maximum, one after the other
        now = prior.strengths(now, 800.0, squares)
    logs = {name: np.log(value) for name, value in dataclasses.asdict(now).items()}
    log_alpha = np.log(prior.noise_precision(now, 800.0, squares))
    best = log_density(logs, log_alpha)
    for change in (-0.01, 0.01):
        assert log_density(logs, log_alpha + change) < best
        for name in logs:
            assert log_density({**logs, name: logs[name] + change}, log_alpha) < best


def test_adaptive_priors_do_not_collapse(ratings):
    """Noise alone: without the guard the factors shrink, the strengths grow, and so on without end."""
    noise = dataclasses.replace(ratings, values=generator(3).normal(3.0, 1.0, len(ratings)).astype(np.float32))
    model = PMF(n_factors=4, regularization="adaptive", early_stopping=False, epochs=300, seed=1).fit(noise)
    start = PMF(n_factors=4, regularization="adaptive", early_stopping=False, epochs=1, seed=1).fit(noise)
    for block, strength in dataclasses.asdict(model.posterior_.penalty.strengths).items():
        assert 0 < strength < 2.001 * getattr(start.posterior_.penalty.strengths, block)


def test_adaptive_strengths_follow_the_data(ratings):
    """Strong tastes ask for a weak penalty."""
    strong = tastes(80, 60, density=0.6, noise=0.05, rng=generator(1))[0]
    weak = tastes(80, 60, density=0.6, noise=3.0, rng=generator(1))[0]
    found = [
        PMF(n_factors=2, regularization="adaptive", early_stopping=False, seed=1).fit(observed).posterior_.penalty
        for observed in (strong, weak)
    ]
    assert found[0].strengths.users < 0.5 * found[1].strengths.users


# Streams


@pytest.fixture
def file(ratings, tmp_path):
    write(ratings, tmp_path / "ratings.parquet")
    return tmp_path / "ratings.parquet"


@pytest.mark.parametrize("method", ["stochastic", "mini-batch"])
def test_streaming_equals_the_same_blocks_in_memory(ratings, file, method):
    source = Source.of_stream(RatingStream.scan(file, rows_at_once=50))
    streamed = descent_on(source, method=method)
    whole = triples_of(ratings)

    def read(piece):
        here = slice(50 * piece, 50 * (piece + 1))
        return Triples(*(column[here] for column in whole))

    in_memory = descent_on(dataclasses.replace(source, read=read), method=method)
    states = []
    for descent in (streamed, in_memory):
        rng = generator(4)
        state = descent.init(rng)
        for _ in range(3):
            state, stats = descent.step(state, rng)
        states.append((state, stats["loss"]))
    assert states[0][1] == states[1][1]
    assert_array_equal(states[0][0].users.factors, states[1][0].users.factors)
    assert_array_equal(states[0][0].items.bias, states[1][0].items.bias)


@pytest.mark.parametrize("rows_at_once", [50, 10**6])
def test_a_full_batch_is_one_step_in_however_many_pieces_it_comes(ratings, file, rows_at_once):
    streamed = Source.of_stream(RatingStream.scan(file, rows_at_once=rows_at_once))
    reached = []
    for source in (streamed, Source.of(ratings)):
        descent = descent_on(source, method="full-batch", rate=0.2)
        state = descent.init(generator(4))
        for _ in range(20):
            state, stats = descent.step(state, generator(5))
        reached.append((state, stats["loss"], descent.loss(state, generator(6))))
    (ours, *our_losses), (theirs, *their_losses) = reached
    assert_allclose(ours.users.factors, theirs.users.factors, rtol=1e-9, atol=1e-12)
    assert_allclose(ours.items.factors, theirs.items.factors, rtol=1e-9, atol=1e-12)
    assert_allclose(ours.items.bias, theirs.items.bias, rtol=1e-9, atol=1e-12)
    assert_allclose(our_losses, their_losses, rtol=1e-10)


def test_a_streamed_model_cannot_be_updated_and_says_why(ratings, file):
    model = PMF(n_factors=2, regularization=0.05, epochs=3, seed=1).fit_parquet(file, rows_at_once=np.int64(300))
    with pytest.raises(InvalidParameterError, match="fitted on a file in pieces.*expected.* a fit on all ratings"):
        model.update(ratings)


def test_one_piece_is_nearly_the_fit_in_memory(ratings, file):
    """The same model, shuffled otherwise: answers agree."""
    options = {"n_factors": 2, "regularization": 0.02, "early_stopping": False, "epochs": 100, "seed": 1}
    streamed, fitted = PMF(**options).fit_parquet(file), PMF(**options).fit(ratings)
    users, items = ratings.user_ids(), ratings.item_ids()
    ours, theirs = streamed.predict(users, items).mean, fitted.predict(users, items).mean
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.05


def test_a_streamed_model_answers_saves_and_does_not_depend_on_threads(ratings, file, tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.models.factorization.sgd.descent.WORTH_THREADS", 0)
    options = {"n_factors": 2, "regularization": 0.01, "learning_rate": 0.05, "seed": 1, "epochs": 12}
    models = [PMF(**options, threads=threads).fit_parquet(file, rows_at_once=300) for threads in (1, 3)]
    for other in models[1:]:
        for name, array in models[0].posterior_.arrays().items():
            assert_array_equal(array, other.posterior_.arrays()[name])
    assert len(models[0].posterior_.held_out_errors)
    assert models[0].seen_.learned_ratings == len(ratings)
    biases = np.sqrt(np.mean((ratings.values - ratings.mean) ** 2))
    predicted = models[0].predict(ratings.user_ids(), ratings.item_ids()).mean
    assert np.sqrt(np.mean((predicted - ratings.values) ** 2)) < 0.7 * biases
    save(models[0], tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict([0, 1], [2, 3]).mean, models[0].predict([0, 1], [2, 3]).mean)
    assert again.recommend(["new"], 3, history=Ratings.from_arrays(["new"], [1], [5.0])).of(0).height == 3


def test_a_file_that_is_no_table_of_ratings_is_refused(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating\n1,2,3\n2,3,4\n")
    with pytest.raises(DataError, match="Parquet"):
        PMF().fit_parquet(tmp_path / "ratings.csv")
    with pytest.raises(DataError, match="no such file"):
        PMF().fit_parquet(tmp_path / "nothing.parquet")


def test_how_many_rows_at_once_makes_sense(file):
    for senseless in (0, True, 2.5, np.int64(-3)):
        with pytest.raises(InvalidParameterError, match="rows_at_once"):
            PMF().fit_parquet(file, rows_at_once=senseless)


# Parameters


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("method", ["stochastic", "mini-batch", "full-batch"])
def test_same_bytes_whatever_the_threads(ratings, method, threads, monkeypatch):
    monkeypatch.setattr("tastespace.models.factorization.sgd.descent.WORTH_THREADS", 0)
    options = {"n_factors": 5, "method": method, "batch_size": 100, "epochs": 5, "seed": 2}
    one, many = PMF(threads=1, **options).fit(ratings), PMF(threads=threads, **options).fit(ratings)
    for name, array in one.posterior_.arrays().items():
        assert_array_equal(array, many.posterior_.arrays()[name])


def test_separate_strengths_override_the_common_one(ratings):
    model = PMF(n_factors=2, regularization=0.05, item_regularization=0.2, user_bias_regularization=0.3, seed=1)
    assert model.fit(ratings).posterior_.penalty.strengths == Strengths(0.05, 0.2, 0.3, 0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("form", "cubed"),
        ("method", "magic"),
        ("schedule", "whenever"),
        ("regularization", 0.0),
        ("regularization", "often"),
        ("item_bias_regularization", -1.0),
        ("weighting", "heavy"),
        ("learning_rate", 0.0),
        ("decay", -0.1),
        ("momentum", 1.0),
        ("batch_size", 0),
        ("epochs", 0),
        ("patience", 0),
        ("early_stopping", "yes"),
        ("refit", 1),
        ("validation_share", 1.0),
        ("precision", "float16"),
        *((name, np.array([1.0, 2.0])) for name in ("epochs", "patience", "learning_rate", "regularization")),
        *((name, np.array([1, 2])) for name in ("n_factors", "item_regularization", "form", "momentum")),
    ],
)
def test_senseless_parameters_are_refused_by_name(ratings, name, value):
    with pytest.raises(InvalidParameterError, match=name):
        PMF(**{name: value}).fit(ratings)


@pytest.mark.filterwarnings("ignore:.*ratings have no time")
@pytest.mark.parametrize(
    ("name", "ceiling"),
    [("ml-100k/u.data", 0.90), pytest.param("ml-1m/ratings.parquet", 0.8475, marks=pytest.mark.slow)],
)
def test_defaults_predict_well_on_real_ratings(name, ceiling, datasets):
    """90:10 seed 0, D = 32, defaults; RMSE over all test ratings, cold ones included."""
    split = random_split(read(datasets / name), 0.1, seed=0)
    assert evaluate(PMF(seed=0).fit(split.train), split.test)["rmse"] <= ceiling


def test_empirical_bayes_is_that_of_als(ratings):
    """Both minimise the same loss, so that they have the same posterior, and the same draws of it."""
    both = [
        kind(n_factors=2, regularization="empirical-bayes:draws=60", seed=0, threads=1).fit(ratings)
        for kind in (PMF, ALS)
    ]
    assert both[0].regularization_ == both[1].regularization_
    assert_array_equal(*(model.predict([0, 1, 2], [3, 4, 5]).mean for model in both))
    assert both[0].predict([0], [1]).belief_sd is not None


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"form": "raw"}, "the form is raw, and regularization is 'empirical-bayes'"),
        ({"form": "sigmoid"}, "the form is sigmoid, and regularization is 'empirical-bayes'"),
        ({"user_regularization": 0.1}, "user_regularization is 0.1, and regularization is 'empirical-bayes'"),
    ],
)
def test_what_empirical_bayes_cannot_do_is_refused(ratings, parameters, complaint):
    with pytest.raises(InvalidParameterError, match=complaint):
        PMF(regularization="empirical-bayes", **parameters).fit(ratings)


def test_empirical_bayes_needs_the_ratings_in_memory(ratings, tmp_path):
    write(ratings, tmp_path / "ratings.parquet")
    with pytest.raises(InvalidParameterError, match="needs all ratings in memory"):
        PMF(regularization="empirical-bayes").fit_parquet(tmp_path / "ratings.parquet")


def test_strengths_are_reported(ratings):
    model = PMF(n_factors=2, regularization=0.05, epochs=3, seed=0).fit(ratings)
    assert dataclasses.astuple(model.regularization_) == (0.05,) * 4
