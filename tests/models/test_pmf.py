"""PMF: it ends where ALS ends, keeps the best epoch, says when it diverges, and needs no ratings in memory."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, PMF, DampedBias, Ratings, evaluate, load, random_split, read, save
from tastespace.data.streaming import RatingStream, Triples
from tastespace.data.writing import write
from tastespace.errors import DataError, DivergenceWarning, InvalidParameterError
from tastespace.models.factorization.adaptive import AdaptivePrior
from tastespace.models.factorization.als import AlternatingLeastSquares, Factors
from tastespace.models.factorization.best_epoch import KeepingBest, diverged, run
from tastespace.models.factorization.descent import Descent, Rate, Steps
from tastespace.models.factorization.forms import Form
from tastespace.models.factorization.penalty import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.pmf import HELD_OUT
from tastespace.models.factorization.rating_blocks import InPieces
from tastespace.models.factorization.sources import StreamedRatings, WholeRatings, triples_of
from tastespace.progress import silent
from tastespace.randomness import generator
from tastespace.testing.toys import tastes
from tests.reference.descent import Point, Problem, loss

STRENGTHS = Strengths(users=0.3, items=0.7, user_bias=0.2, item_bias=0.5)


@pytest.fixture
def ratings():
    return tastes(60, 40, rng=generator(1))[0]


def descent_on(source, *, form="centred", method="stochastic", rate=0.05, schedule="constant", **more):
    """A transition in double precision."""
    figures, counts = source.figures, source.counts
    made = Form.of(form, figures.mean, figures.standard_deviation, figures.range)
    options = {"weighting": "weighted", "strengths": STRENGTHS, "batch_size": 100, "decay": 0.0, "n_factors": 3} | more
    return Descent(
        supply=source.supply(made, np.float64, generator(0)),
        n_ratings=figures.n_ratings,
        user_counts=counts[0],
        item_counts=counts[1],
        n_factors=options["n_factors"],
        penalty=Penalty(options["strengths"], WEIGHTINGS[options["weighting"]]),
        form=made,
        steps=Steps(method, Rate(rate, schedule, options["decay"]), 0.9, options["batch_size"]),
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
    descent = descent_on(WholeRatings(ratings), weighting=weighting, strengths=strengths, n_factors=2, **options)
    als = AlternatingLeastSquares.bind(ratings, 2, descent.penalty, biases=True, dtype=np.float64, threads=1)
    return descent, als, descent.init(generator(3))


@pytest.mark.parametrize("weighting", ["plain", "weighted", "blended"])
def test_als_and_gradient_descent_reach_the_same_loss_from_the_same_start(easy, weighting):
    descent, als, state = both(easy, weighting, method="full-batch", rate=0.3, schedule="bold-driver")
    solved, rng = Factors(state.users, state.items), generator(3)
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
    solved, rng = Factors(state.users, state.items), generator(3)
    for _ in range(100):
        solved, stats = als.step(solved, rng)
    for _ in range(600):
        state, _ = descent.step(state, rng)
    reached = loss_of(easy, descent, state.users, state.items)
    assert stats["loss"] <= reached * (1 + 1e-6)
    assert_allclose(reached, stats["loss"], rtol=tolerance)


def test_the_other_weighting_would_be_noticed(easy):
    """Broken twin: subtracting all of the penalty at every visit is not plain regularisation."""
    descent, als, state = both(easy, "plain", rate=0.05, schedule="inverse", decay=1.0)
    wrong = dataclasses.replace(descent, penalty=Penalty(descent.penalty.strengths, WEIGHTINGS["weighted"]))
    solved, rng = Factors(state.users, state.items), generator(3)
    for _ in range(100):
        solved, stats = als.step(solved, rng)
    for _ in range(200):
        state, _ = wrong.step(state, rng)
    assert loss_of(easy, descent, state.users, state.items) > 1.5 * stats["loss"]


@pytest.mark.parametrize("form", ["centred", "raw", "sigmoid"])
def test_the_loss_of_a_full_batch_is_its_definition(ratings, form):
    descent = descent_on(WholeRatings(ratings), form=form, method="full-batch", rate=0.0)
    state = descent.init(generator(3))
    _, stats = descent.step(state, generator(0))
    assert_allclose(stats["loss"], loss_of(ratings, descent, state.users, state.items), rtol=1e-10)


def test_momentum_is_what_it_says(ratings):
    """velocity = momentum velocity - rate mean gradient, one batch after the other."""
    descent = descent_on(WholeRatings(ratings), method="full-batch", rate=0.1)
    rng = generator(3)
    first = descent.init(rng)
    blocks, stages = next(descent.supply.epoch(rng)), np.arange(16, dtype=np.int32)
    second, _ = descent.step(first, rng)
    third, _ = descent.step(second, rng)
    slopes, _, _ = descent.gradient(blocks, second, stages)
    means = slopes.bias / ratings.by_user.counts
    expected = 0.9 * (second.users.bias - first.users.bias) - 0.1 * means
    assert_allclose(third.users.bias - second.users.bias, expected, rtol=1e-10)


def test_a_bold_driver_finds_a_rate_and_never_keeps_a_worse_epoch(ratings):
    """5 is far too fast: epochs are taken back until it is not, and those that are kept lower the loss."""
    descent = descent_on(WholeRatings(ratings), method="full-batch", rate=5.0, schedule="bold-driver")
    rng = generator(3)
    state, kept, taken_back = descent.init(rng), [], 0
    for _ in range(200):
        begin = loss_of(ratings, descent, state.users, state.items)
        state, stats = descent.step(state, rng)
        assert_allclose(stats["loss"], begin, rtol=1e-9)  # a full batch sees the loss of where it begins
        taken_back += bool(stats["taken back"])
        kept += [] if stats["taken back"] else [begin]
    assert taken_back > 3
    assert np.all(np.diff(kept) <= 1e-9 * kept[0])
    assert kept[-1] < 0.8 * kept[0]


# Stopping


def test_the_best_epoch_is_kept(ratings):
    """Weak penalties and many epochs overfit: what is kept is the epoch with the least held-out error."""
    told = []
    model = PMF(
        n_factors=8,
        regularisation=0.001,
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
    options = {"regularisation": 0.001, "weighting": "weighted", "learning_rate": 0.05, "schedule": "constant"}
    PMF(n_factors=8, patience=3, seed=1, **options).fit(ratings, observer=told.append)
    errors = [event.stats[HELD_OUT] for event in told if event.phase == "finding when to stop"]
    assert len(errors) < 100
    assert int(np.argmin(errors)) == len(errors) - 4
    assert sum(event.phase == "epoch" for event in told) == len(errors) - 3  # as many on all ratings as were best


def test_without_early_stopping_all_epochs_are_done(ratings):
    model = PMF(n_factors=4, regularisation=0.05, early_stopping=False, epochs=7, seed=1).fit(ratings)
    assert len(model.posterior_.losses) == 7
    assert len(model.posterior_.held_out_errors) == 0


def test_held_out_ratings_are_watched_and_change_nothing(ratings):
    parts, told = random_split(ratings, 0.2, seed=1), []
    options = {"n_factors": 3, "regularisation": 0.05, "epochs": 20, "seed": 1}
    watched = PMF(**options).fit(parts.train, held_out=parts.test, observer=told.append)
    alone = PMF(**options).fit(parts.train)
    assert all(np.isfinite(event.stats[HELD_OUT]) for event in told if event.phase == "epoch")
    assert_array_equal(watched.posterior_.items.factors, alone.posterior_.items.factors)


# Divergence


@pytest.mark.parametrize("refit", [True, False])
def test_a_rate_that_is_too_large_stops_says_so_and_keeps_the_best(ratings, refit):
    model = PMF(n_factors=3, regularisation=0.05, learning_rate=30.0, refit=refit, seed=1)
    with pytest.warns(DivergenceWarning, match=r"diverged in epoch \d+: .* kept.* smaller learning_rate \(now 30\)"):
        model.fit(ratings)
    assert np.isfinite(model.predict(ratings.user_ids(), ratings.item_ids()).mean).all()
    for name, array in model.posterior_.arrays().items():
        assert np.isfinite(array).all() or name in ("losses", "held_out_errors")  # which tell of it


def test_what_grows_slowly_is_noticed_and_earlier_epochs_are_kept(ratings):
    """A rate that rises until it is too large: the epochs before that are good, and one of them is kept."""

    class Rising(Rate):
        def at(self, visits, boldness):
            return self.first * 1.6 ** (visits / 26)

    descent = descent_on(WholeRatings(ratings))
    descent = dataclasses.replace(descent, steps=dataclasses.replace(descent.steps, rate=Rising(0.02, "constant", 0.0)))
    keeping = KeepingBest(descent, "loss", {})
    ran = run(
        keeping,
        keeping.init(generator(1)),
        generator(2),
        epochs=100,
        stop=lambda trace: False,
        phase="",
        observer=silent,
    )
    assert ran.has_diverged
    assert len(ran.trace) < 100
    losses = [stats["loss"] for stats in ran.trace]
    assert 0 < ran.best_epoch == 1 + int(np.nanargmin(losses)) < len(losses)
    assert np.isfinite(ran.last.best.users.factors).all()


def test_what_counts_as_divergence():
    assert not diverged([])
    assert not diverged([{"loss": 5.0}, {"loss": 1.0}, {"loss": 4.0}])  # back where it began at most
    assert diverged([{"loss": 5.0}, {"loss": 1.0}, {"loss": 6.0}])
    assert diverged([{"loss": 5.0}, {"loss": float("nan")}])
    assert not diverged([{"loss": 5.0}, {"loss": float("nan"), "taken back": 1.0}])


def test_a_bold_driver_recovers_from_a_rate_that_is_too_large(ratings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PMF(n_factors=3, regularisation=0.05, learning_rate=30.0, schedule="bold-driver", seed=1)
        model.set_params(patience=50).fit(ratings)
    assert model.posterior_.losses[-1] < 0.5 * len(ratings) * ratings.standard_deviation**2


# Answers


@pytest.mark.parametrize("form", ["centred", "raw", "sigmoid"])
@pytest.mark.parametrize("method", ["stochastic", "mini-batch", "full-batch"])
def test_every_way_predicts_better_than_biases(form, method):
    parts = random_split(tastes(150, 80, noise=0.3, rng=generator(5))[0], 0.2, seed=0)
    # Patient: the start is a saddle, which so few ratings take some epochs to leave.
    options = {"batch_size": 1000, "regularisation": 0.01, "patience": 50, "seed": 0}
    ours = PMF(n_factors=4, form=form, method=method, **options).fit(parts.train)
    biases = DampedBias(seed=0).fit(parts.train)
    assert rmse(ours, parts) < 0.75 * rmse(biases, parts)


def rmse(model, parts):
    return evaluate(model, parts)["rmse"]


def test_auto_is_as_good_as_the_search_of_als():
    parts = random_split(tastes(200, 120, noise=0.3, rng=generator(5))[0], 0.2, seed=0)
    ours, als = PMF(n_factors=4, seed=0).fit(parts.train), ALS(n_factors=4, seed=0).fit(parts.train)
    assert rmse(ours, parts) < 1.05 * rmse(als, parts)


@pytest.mark.parametrize("form", ["centred", "sigmoid"])
def test_ratings_of_another_scale_give_the_same_answers(ratings, form):
    """Learning rates and strengths have units."""
    model = PMF(n_factors=3, form=form, precision="float64", epochs=30, seed=1)
    other = dataclasses.replace(ratings, values=(20 * ratings.values - 7).astype(np.float32))
    one = model.fit(ratings).predict(ratings.user_ids(), ratings.item_ids()).mean
    two = PMF(**model.get_params()).fit(other).predict(ratings.user_ids(), ratings.item_ids()).mean
    assert_allclose(two, 20 * one - 7, atol=0.02)


def test_a_fold_in_through_the_sigmoid_is_the_minimum(ratings):
    """No small change of a user lowers his loss."""
    model = PMF(n_factors=3, form="sigmoid", regularisation=0.05, precision="float64", seed=1).fit(ratings)
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
    model = PMF(n_factors=3, form="sigmoid", regularisation=0.02, epochs=30, seed=1).fit(ratings)
    belief = model.posterior_.known(np.arange(3, dtype=np.int32))
    users, items = np.repeat(np.arange(3), 40).astype(np.int32), np.tile(np.arange(40), 3).astype(np.int32)
    predicted = model.posterior_.predict(belief, users, items, 1)
    assert ratings.range[0] <= predicted.min() < predicted.max() <= ratings.range[1]


@pytest.mark.parametrize("form", ["centred", "sigmoid"])
def test_an_update_is_a_fit_on_all_ratings(ratings, form):
    parts = random_split(ratings, 0.1, seed=3)
    model = PMF(n_factors=3, form=form, regularisation=0.02, epochs=30, seed=1).fit(parts.train)
    updated = model.update(parts.test)
    assert len(updated.ratings_) == len(ratings)
    assert not np.array_equal(updated.posterior_.items.factors[:5], model.posterior_.items.factors[:5])


# Adaptive priors


def test_adaptive_strengths_have_the_highest_density():
    """Given everything else, any other strengths and noise have a lower joint density."""
    start = Strengths(0.3, 0.4, 0.2, 0.1)
    prior = AdaptivePrior(start, 500, 30, 20, 4, has_biases=True)
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
        now = prior.strengths(now, 800.0, (squares.users, squares.user_bias), (squares.items, squares.item_bias))
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
    model = PMF(n_factors=4, regularisation="adaptive", early_stopping=False, epochs=300, seed=1).fit(noise)
    start = PMF(n_factors=4, regularisation="adaptive", early_stopping=False, epochs=1, seed=1).fit(noise)
    for block, strength in dataclasses.asdict(model.posterior_.penalty.strengths).items():
        assert 0 < strength < 2.001 * getattr(start.posterior_.penalty.strengths, block)


def test_adaptive_strengths_follow_the_data(ratings):
    """Strong tastes ask for a weak penalty."""
    strong = tastes(80, 60, density=0.6, noise=0.05, rng=generator(1))[0]
    weak = tastes(80, 60, density=0.6, noise=3.0, rng=generator(1))[0]
    found = [
        PMF(n_factors=2, regularisation="adaptive", early_stopping=False, seed=1).fit(observed).posterior_.penalty
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
    source = StreamedRatings(RatingStream.scan(file, rows_at_once=50))
    streamed = descent_on(source, method=method)
    whole = triples_of(ratings)

    def read(piece):
        here = slice(50 * piece, 50 * (piece + 1))
        return Triples(*(column[here] for column in whole))

    in_memory = dataclasses.replace(
        streamed, supply=InPieces(read, source.stream.n_pieces, streamed.supply.deal, streamed.supply.target)
    )
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


def test_one_piece_is_nearly_the_fit_in_memory(ratings, file):
    """The same model, shuffled otherwise: answers agree."""
    options = {"n_factors": 2, "regularisation": 0.02, "early_stopping": False, "epochs": 100, "seed": 1}
    streamed, fitted = PMF(**options).fit_parquet(file), PMF(**options).fit(ratings)
    users, items = ratings.user_ids(), ratings.item_ids()
    ours, theirs = streamed.predict(users, items).mean, fitted.predict(users, items).mean
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.05


def test_a_streamed_model_answers_saves_and_does_not_depend_on_threads(ratings, file, tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.models.factorization.descent.WORTH_THREADS", 0)
    options = {"n_factors": 2, "regularisation": 0.01, "learning_rate": 0.05, "seed": 1, "epochs": 12}
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
    with pytest.raises(InvalidParameterError, match="rows_at_once"):
        PMF().fit_parquet(file, rows_at_once=0)


# Parameters


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("method", ["stochastic", "mini-batch", "full-batch"])
def test_same_bytes_whatever_the_threads(ratings, method, threads, monkeypatch):
    monkeypatch.setattr("tastespace.models.factorization.descent.WORTH_THREADS", 0)
    options = {"n_factors": 5, "method": method, "batch_size": 100, "epochs": 5, "seed": 2}
    one, many = PMF(threads=1, **options).fit(ratings), PMF(threads=threads, **options).fit(ratings)
    for name, array in one.posterior_.arrays().items():
        assert_array_equal(array, many.posterior_.arrays()[name])


def test_separate_strengths_override_the_common_one(ratings):
    model = PMF(n_factors=2, regularisation=0.05, item_regularisation=0.2, user_bias_regularisation=0.3, seed=1)
    assert model.fit(ratings).posterior_.penalty.strengths == Strengths(0.05, 0.2, 0.3, 0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("form", "cubed"),
        ("method", "magic"),
        ("schedule", "whenever"),
        ("regularisation", 0.0),
        ("regularisation", "often"),
        ("item_bias_regularisation", -1.0),
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
