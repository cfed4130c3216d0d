"""BPMF: beliefs are the closed form, bytes do not depend on threads, odd data get sensible answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference.small_story import sampler_of
from scipy import stats

from tastespace import BPMF, Gaussian, Ratings, load, save
from tastespace.data import csr
from tastespace.data.csr import CSR
from tastespace.data.kinds import levels_of
from tastespace.errors import ConvergenceWarning, InvalidParameterError, NonFiniteStateError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.factorization.gibbs.posterior import evidence
from tastespace.models.factorization.gibbs.sweep import GibbsSweep
from tastespace.models.factorization.likelihoods.base import Noise
from tastespace.models.factorization.priors import PriorSettings
from tastespace.models.factorization.priors.normal_wishart import NormalPopulation
from tastespace.models.factorization.rows import NORMAL_ROWS, Factors, GivenRows, RatingBlock, row_noise
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import gaussian

SMALL = {"n_factors": 3, "chains": 2, "warmup": 20, "draws": 20, "thin": 1, "seed": 1}
pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")


@pytest.fixture(scope="module")
def ratings():
    return gaussian(40, 30, rng=generator(3))[0]


@pytest.fixture(scope="module")
def fitted(ratings):
    return BPMF(**SMALL).fit(ratings)


def closed_form(draws, items, values, s):
    """Mean and covariance of (u, c) of a user with these ratings under draw s: Bayesian linear regression."""
    population, n_factors = draws.users, draws.n_factors
    width = n_factors + draws.has_biases
    rows = draws.items[items, s].astype(np.float64)
    design, targets = rows[:, :n_factors], (values - draws.offset) / draws.scale
    prior = np.zeros((width, width))
    prior[:n_factors, :n_factors] = population.precisions[s]
    mean = np.concatenate([population.means[s], [population.bias_means[s]] if draws.has_biases else []])
    if draws.has_biases:
        design, targets = np.hstack([design, np.ones((len(items), 1))]), targets - rows[:, n_factors]
        prior[-1, -1] = population.bias_precisions[s]
    precision = prior + draws.alpha[s] * design.T @ design
    covariance = np.linalg.inv(precision)
    return covariance @ (prior @ mean + draws.alpha[s] * design.T @ targets), covariance, prior, mean, design, targets


def history(*rated):
    items, values = (np.array(part) for part in zip(*rated, strict=True)) if rated else (np.zeros(0), np.zeros(0))
    return CSR(np.array([0, len(rated)]), items.astype(np.int32), values.astype(np.float32))


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("rated", [[], [(3, 4.5)], [(i, 2.0 + i / 10) for i in range(12)]])
def test_a_belief_is_bayesian_linear_regression(ratings, biases, rated):
    posterior = BPMF(**SMALL, biases=biases).fit(ratings).posterior_
    draws, people = posterior.draws, People.new_users(history(*rated))
    belief = next(posterior.believe(people, 1).blocks(np.array([0])))[0]
    items, values = np.array([i for i, _ in rated], int), np.array([r for _, r in rated])
    for s in (0, 7, 39):
        mean, covariance, *_ = closed_form(draws, items, values, s)
        assert_allclose(belief.means[0, s], mean, atol=2e-4)
        assert_allclose(belief.roots[0, s] @ belief.roots[0, s].T, covariance, atol=2e-4 * np.abs(covariance).max())


def test_evidence_is_the_marginal_likelihood(fitted):
    draws, items, values = fitted.posterior_.draws, np.array([0, 4, 9, 11]), np.array([1.0, 5.0, 3.0, 4.0])
    found = evidence(draws, history(*zip(items, values, strict=True)), 1)[0]
    expected = []
    for s in range(draws.items.shape[1]):
        _, _, prior, mean, design, targets = closed_form(draws, items, values, s)
        covariance = design @ np.linalg.inv(prior) @ design.T + np.eye(len(items)) / draws.alpha[s]
        expected.append(stats.multivariate_normal(design @ mean, covariance).logpdf(targets))
    # The same but for a constant; in single precision.
    assert_allclose(found - found.mean(), np.array(expected) - np.mean(expected), atol=2e-3)


def test_draws_that_explain_the_news_count_more(ratings, fitted):
    weighed = BPMF(**SMALL, weights="evidence").fit(ratings)
    news = {0: 5.0, 1: 1.0, 2: 4.0}
    belief = weighed.posterior_.believe(People.new_users(history(*news.items())), 1)
    some = next(belief.blocks(np.array([0])))[0]
    prediction = weighed.predict(["new"], [5], history=news)
    assert_allclose(prediction.effective_draws, 1 / np.sum(some.weights**2, axis=1), rtol=1e-4)
    assert 1 <= prediction.effective_draws[0] < 40
    assert "effective_draws" in prediction.to_polars().columns
    explained = weighed.explain(0, [2]).scores
    assert_allclose(explained, weighed.predict([0], [2]).mean, rtol=1e-4)
    assert_allclose(some.weights.sum(1), 1, rtol=1e-5)
    # A training user brings no news: all draws count alike, as without weights.
    users, items = ratings.user_ids()[:50], ratings.item_ids()[:50]
    assert_allclose(weighed.predict(users, items).mean, fitted.predict(users, items).mean, rtol=1e-6)
    assert (
        weighed.predict(["new"] * 30, range(30), history=news).mean
        != fitted.predict(["new"] * 30, range(30), history=news).mean
    ).any()


@pytest.mark.parametrize("chains", [1, 3])  # two threads in the kernels; two chains at a time
def test_the_same_bytes_with_one_thread_and_two(ratings, tmp_path, chains):
    models = [BPMF(**SMALL | {"chains": chains}, threads=n).fit(ratings) for n in (1, 2)]
    for n, model in enumerate(models):
        save(model, tmp_path / str(n))
    for name in ("posterior.safetensors", "ratings.safetensors"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()
    lists = [model.recommend([0, 1, 2], policy="thompson").to_polars() for model in models]
    assert lists[0].equals(lists[1])


def test_chains_differ_and_seeds_differ(ratings, fitted):
    trace = fitted.posterior_.trace
    assert trace.predictions.shape == (2, 40, 100)
    assert (trace.predictions[0] != trace.predictions[1]).any()
    other = BPMF(**SMALL | {"seed": 2}).fit(ratings)
    assert (other.posterior_.draws.items != fitted.posterior_.draws.items).any()


def test_watching_changes_nothing(ratings, fitted):
    watched = BPMF(**SMALL).fit(ratings, held_out=ratings)
    assert_array_equal(watched.posterior_.draws.items, fitted.posterior_.draws.items)
    rmse = watched.posterior_.trace.quantities["held-out rmse"]
    assert rmse.shape == (2, 40)
    # Running means over the draws: the last is that of the averaged predictions, better than one draw's.
    assert (rmse[:, -1] < rmse[:, 20]).all()


def test_progress_says_how_far_and_how_good(ratings):
    events = []
    BPMF(**SMALL).fit(ratings, held_out=ratings, observer=events.append)
    assert [event.step for event in events] == list(range(1, 81))
    assert events[-1].total == 80
    assert list(events[-1].stats) == ["noise sd", "held-out rmse"]


def test_a_prediction_comes_with_all_its_uncertainty(ratings, fitted):
    prediction = fitted.predict([0, 0, "stranger", 0], [1, 2, 1, "unheard of"])
    assert_array_equal(prediction.cold, [False, False, True, True])
    assert (prediction.rating_sd > prediction.belief_sd).all()
    # What is less known is less sure, on the whole: a stranger, and an item never seen.
    users, items = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    known = fitted.predict(users, items).belief_sd.mean()
    assert fitted.predict(["stranger"] * 30, range(30)).belief_sd.mean() > known
    assert fitted.predict(range(20), ["unheard of"] * 20).belief_sd.mean() > known
    low, high = prediction.interval(0.8).T
    assert ((low <= prediction.mean) & (prediction.mean <= high)).all()
    assert (np.diff(prediction.quantiles(0.05, 0.5, 0.95), axis=1) >= 0).all()
    chances = [prediction.probability_at_least(t) for t in (2.0, 3.0, 4.0)]
    assert (chances[0] >= chances[1]).all()
    assert (chances[1] >= chances[2]).all()
    assert {"belief_sd", "rating_sd", "low", "high"} <= set(prediction.to_polars().columns)


def test_an_unheard_of_item_has_the_spread_of_the_population(fitted):
    """Monte Carlo over the population of items, with users from their belief: the closed form must agree."""
    draws, rng = fitted.posterior_.draws, generator(5)
    prediction, n = fitted.predict([0], ["unheard of"]), 4000
    belief = next(believed(fitted, [0]).blocks(np.array([0])))[0]
    scores = []
    for s in range(draws.items.shape[1]):
        users = belief.means[0, s] + rng.standard_normal((n, 4)) @ belief.roots[0, s].T
        root = np.linalg.cholesky(np.linalg.inv(draws.new_items.precisions[s]))
        items = draws.new_items.means[s] + rng.standard_normal((n, 3)) @ root.T
        bias = draws.new_items.bias_means[s] + rng.standard_normal(n) / draws.new_items.bias_precisions[s] ** 0.5
        scores.append(np.einsum("nd,nd->n", users[:, :3], items) + users[:, 3] + bias)
    simulated = draws.offset + draws.scale * np.concatenate(scores)
    assert prediction.mean[0] == pytest.approx(simulated.mean(), abs=5 * simulated.std() / len(simulated) ** 0.5)
    assert prediction.belief_sd[0] == pytest.approx(simulated.std(), rel=0.02)


def test_more_ratings_make_surer(fitted):
    sds = [
        fitted.predict(["new"] * 30, range(30), history={item: 3.0 for item in range(n)} or None).belief_sd.mean()
        for n in (0, 3, 12, 30)
    ]
    assert sds == sorted(sds, reverse=True)


@pytest.mark.parametrize(
    ("users", "items", "values"),
    [
        ([0, 1, 2, 3], [0, 1, 0, 2], [3.0] * 4),
        ([0, 0, 0], [0, 1, 2], [1.0, 5.0, 3.0]),
        ([0, 1, 2], [0, 0, 0], [1.0, 5.0, 3.0]),
        ([0], [0], [4.0]),
    ],
    ids=["all equal", "one user", "one item", "one rating"],
)
def test_hardly_any_data_give_sensible_prior_answers(users, items, values):
    """With more factors than ratings. The prior decides: near the mean, and not sure at all."""
    model = BPMF(n_factors=16, seed=0).fit(Ratings.from_arrays(users, items, values))
    prediction = model.predict([0, "x", 0, "x"], [0, 0, "y", "y"])
    assert np.isfinite(prediction.mean).all()
    assert (prediction.mean >= min(values)).all()
    assert (prediction.mean <= max(values)).all()
    assert np.isfinite(prediction.rating_sd).all()
    assert (prediction.rating_sd > 0).all()
    # Before they are cut to the range: of the size of the ratings, and unsure by a few of their standard deviations.
    spread = float(np.std(values)) or 1.0
    assert (np.abs(prediction.rating.mixture.mean() - np.mean(values)) < 2 * spread).all()
    assert (prediction.belief_sd > 0).all()
    assert (prediction.belief_sd < 5 * spread).all()
    ranking = model.recommend([0, "x"], 3, exclude=None, top_n=True)
    assert (np.abs(ranking.scores[ranking.item_rows >= 0] - np.mean(values)) < 2 * spread).all()
    assert np.isfinite(ranking.uncertainty.top_n_probability[ranking.item_rows >= 0]).all()


def test_the_scale_of_the_ratings_does_not_matter(ratings):
    """Ratings times eight (which rounds nothing): predictions and uncertainty times eight."""
    wide = replace(ratings, values=ratings.values * 8)
    small, large = (
        BPMF(**SMALL, precision="float64").fit(part).predict([0, 1, 2], [3, 4, 5]) for part in (ratings, wide)
    )
    assert_allclose(large.mean, 8 * small.mean, rtol=1e-3)
    assert_allclose(large.rating_sd, 8 * small.rating_sd, rtol=1e-3)


def test_a_fixed_noise_is_in_rating_units(ratings):
    model = BPMF(**SMALL, likelihood="gaussian:precision=4").fit(ratings)
    assert_allclose(model.posterior_.trace.quantities["noise sd"], 0.5, rtol=1e-6)
    prediction = model.predict([0], [0])
    assert prediction.rating_sd[0] ** 2 - prediction.belief_sd[0] ** 2 == pytest.approx(0.25, rel=1e-3)


def test_half_precision_takes_half_the_room_and_answers_nearly_the_same(ratings, fitted, tmp_path):
    save(fitted, tmp_path / "whole")
    save(BPMF(**SMALL, storage="float16").fit(ratings), tmp_path / "half")
    half, users, items = load(tmp_path / "half"), ratings.user_ids(), ratings.item_ids()
    assert_allclose(half.predict(users, items).mean, fitted.predict(users, items).mean, atol=5e-3)
    sizes = [(tmp_path / name / "posterior.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[0] - sizes[1] == 2 * fitted.posterior_.draws.items.size


def test_saved_without_ratings_it_knows_only_what_a_history_says(ratings, fitted, tmp_path):
    save(fitted, tmp_path / "model", with_ratings=False)
    model = load(tmp_path / "model")
    assert not (tmp_path / "model" / "ratings.safetensors").exists()
    prediction = model.predict([0], [1])
    assert prediction.cold[0]
    assert_allclose(prediction.mean, fitted.predict(["stranger"], [1]).mean, rtol=1e-6)
    row = ratings.by_user.take(np.array([0]))
    own = dict(zip(ratings.items.at(row.columns).to_list(), row.values.tolist(), strict=True))
    with pytest.raises(InvalidParameterError, match="without its ratings"):
        model.similar_users([0])
    with pytest.warns(UserWarning, match="only the history counts"):
        again = model.predict([0], [1], history=own)
    assert_allclose(again.mean, fitted.predict([0], [1]).mean, rtol=1e-5)


def test_a_chain_that_explodes_says_where(ratings):
    transition = sampler_of(BPMF(**SMALL).story(ratings), ratings, GibbsSweep)
    state = transition.init(generator(0))
    for alpha in (float("inf"), float("nan")):
        with pytest.raises(NonFiniteStateError, match="precision of the noise"):
            transition.step(replace(state, noise=Noise(alpha)), generator(0))
    exploded = replace(state, users=Factors(state.users.factors * np.float32(1e30), state.users.bias))
    with pytest.raises(NonFiniteStateError, match="item"):
        transition.step(exploded, generator(0))


def test_too_short_a_run_is_reported(ratings):
    with pytest.warns(ConvergenceWarning, match="draws|warm"):
        BPMF(**SMALL | {"warmup": 0, "draws": 4}).fit(ratings)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("chains", 0),
        ("warmup", -1),
        ("draws", 0),
        ("draws", 1.5),
        ("thin", 0),
        ("inner_sweeps", 0),
        ("start", "anywhere"),
        ("weights", "none"),
        ("storage", "float8"),
        ("precision", Gaussian(precision=0)),
        ("precision", Gaussian(precision="guessed")),
        ("precision", Gaussian(precision=1e-300)),
        ("precision", Gaussian(precision=1e38)),
        ("rate", Gaussian(rate=1e300)),
        ("biases", 1),
        ("prior_scale", -1.0),
        ("prior_degrees", -2.0),
    ],
)
def test_parameters_that_make_no_sense_are_refused(ratings, parameter, value):
    with pytest.raises(InvalidParameterError, match=parameter):
        BPMF(**{"likelihood" if isinstance(value, Gaussian) else parameter: value}).fit(ratings)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 5], [1, 2, 3, 5]),
        ([0.5, 5, 4.5, 4.5], [0.5, 4.5, 5]),
        ([3, 3], None),
        ([], None),
        ([0.123, 0.5, 0.97, 0.31], None),
        (list(range(101)), list(range(101))),
        (list(range(102)), None),
        ([0, 1, 1000], None),
    ],
)
def test_levels_are_recognised(values, expected):
    found = levels_of(np.array(values, np.float32))
    assert (found is None) if expected is None else found.tolist() == expected


def test_no_users_get_no_answers(fitted):
    assert len(fitted.recommend([])) == 0
    assert len(fitted.predict([], [])) == 0
    assert list(fitted.scores([])) == []


def test_ratings_of_any_size(ratings):
    for factor in (1e-20, 1e20):
        scaled = replace(ratings, values=(ratings.values.astype(np.float64) * factor).astype(np.float32))
        prediction = BPMF(**SMALL).fit(scaled).predict([0, 1], [2, 3])
        assert np.isfinite(prediction.rating_sd).all()
        assert (prediction.rating_sd > 0).all()


def test_likeness_does_not_depend_on_the_coordinates(fitted):
    """Factors can be turned and stretched, users the other way, and no rating changes: nor may similarity."""
    posterior, rng = fitted.posterior_, generator(6)
    draws, n = posterior.draws, 3
    items, users, new_items = draws.items.copy(), draws.users, draws.new_items
    turned = {
        side: [np.empty_like(part.means), np.empty_like(part.precisions)]
        for side, part in (("users", users), ("new_items", new_items))
    }
    for s in range(items.shape[1]):
        matrix = rng.standard_normal((n, n)) + 2 * np.eye(n)
        inverse = np.linalg.inv(matrix)
        items[:, s, :n] = items[:, s, :n] @ matrix.T
        turned["new_items"][0][s] = matrix @ new_items.means[s]
        turned["new_items"][1][s] = inverse.T @ new_items.precisions[s] @ inverse
        turned["users"][0][s] = inverse.T @ users.means[s]
        turned["users"][1][s] = matrix @ users.precisions[s] @ matrix.T
    moved = {
        side: replace(getattr(draws, side), means=means, precisions=precisions)
        for side, (means, precisions) in turned.items()
    }
    other = replace(posterior, draws=replace(draws, items=items, **moved))
    everybody = np.arange(40, dtype=np.int32)
    people = People.known(everybody, fitted.ratings_.by_user)
    for embedded in (lambda p: p.embeddings, lambda p: p.believe(people, 1).embeddings):
        before, after = embedded(posterior), embedded(other)
        assert_allclose(
            after @ after.T, before @ before.T, rtol=0.02, atol=0.02 * float(np.abs(before @ before.T).max())
        )
    assert_allclose(
        other.believe(people, 1).mean(Pairs(everybody, everybody % 30)),
        posterior.believe(people, 1).mean(Pairs(everybody, everybody % 30)),
        atol=2e-3,
    )


# Blocks of rows


def test_the_noise_of_a_block_is_made_without_the_others(monkeypatch):
    """By a generator of its own, keyed by the chain, and how many blocks came before."""
    monkeypatch.setattr(csr, "BLOCK_ROWS", 4)
    rng = generator(3)
    first, second = (row_noise(rng, 10, 2, np.float32, has_bias=True) for _ in range(2))
    assert not np.isclose(first[0], second[0]).any()
    alone = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(3 + 1,)))  # block 1 of the second sweep
    np.testing.assert_array_equal(second[0][4:8], alone.standard_normal((4, 2), np.float32))
    np.testing.assert_array_equal(second[1][4:8], alone.standard_normal(4, np.float32))


def test_sums_over_rows_are_taken_block_by_block(monkeypatch):
    monkeypatch.setattr(csr, "BLOCK_ROWS", 4)
    points = Factors(generator(1).standard_normal((11, 3)), generator(2).standard_normal(11))
    moments = points.moments
    np.testing.assert_allclose(moments.gram, points.factors.T @ points.factors, rtol=1e-12)
    np.testing.assert_allclose(moments.total, points.factors.sum(axis=0), rtol=1e-12)
    blocks = [Factors(points.factors[place : place + 4], points.bias[place : place + 4]).moments for place in (0, 4, 8)]
    np.testing.assert_array_equal(moments.gram, blocks[0].gram + blocks[1].gram + blocks[2].gram)
    assert moments.bias_squares == blocks[0].bias_squares + blocks[1].bias_squares + blocks[2].bias_squares


@pytest.mark.parametrize("likelihood", ["gaussian", "heteroscedastic"])
def test_many_blocks_are_the_same_for_any_number_of_threads(ratings, likelihood, monkeypatch):
    whole = BPMF(**SMALL, likelihood=likelihood).fit(ratings)
    monkeypatch.setattr(csr, "BLOCK_ROWS", 7)
    one, two = (BPMF(**{**SMALL, "threads": n}, likelihood=likelihood).fit(ratings) for n in (1, 2))
    np.testing.assert_array_equal(one.posterior_.draws.items, two.posterior_.draws.items)
    assert (one.posterior_.draws.items != whole.posterior_.draws.items).any()  # blocks have noise of their own


@dataclass(frozen=True, eq=False)
class OwnMeans(NormalPopulation):
    """Rows with a mean each, as features would have it."""

    own: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def row_means(self):
        return self.own


def test_rows_may_have_means_of_their_own():
    """One override; with the mean of all in its place the draws would be elsewhere."""
    own, precision = generator(3).standard_normal((5000, 2)), np.array([[400.0, 30.0], [30.0, 100.0]])
    population = OwnMeans(np.zeros(2), precision, own=own)
    side = RatingBlock(np.zeros(5001, np.int64), np.zeros(0, np.int32), np.zeros(0))
    given = GivenRows("user", side, Factors(own), Factors(np.zeros((1, 2))))
    drawn, _ = NORMAL_ROWS.drawn(given, population, generator(4))
    for points in (drawn, population.draw_rows(5000, np.float64, generator(5))):
        apart = points.factors - own
        assert_allclose(apart.mean(0), 0, atol=6 * np.sqrt(np.diag(np.linalg.inv(precision)) / 5000).max())
        assert_allclose(np.cov(apart.T) @ precision, np.eye(2), atol=0.15)
    plain = NormalPopulation(np.zeros(2), precision)
    assert np.abs(NORMAL_ROWS.drawn(given, plain, generator(4))[0].factors - own).mean() > 0.5


@dataclass(frozen=True)
class Narrow(PriorSettings):
    """Items nearer to one another than the default has them."""

    name = "narrow"

    def bind(self, model, observed):
        return replace(model, item_prior=replace(model.item_prior, scale=100 * model.item_prior.scale))


def test_a_prior_of_another_class_is_used(fitted, ratings):
    """A new prior is one class: nothing else has to know it."""

    def spread(model):
        return model.posterior_.draws.items[..., :3].std()

    model = BPMF(**SMALL, prior=Narrow()).fit(ratings)
    assert spread(model) < 0.75 * spread(fitted)
    with pytest.raises(InvalidParameterError, match="prior is 'narrow', which shrinks no factors"):
        BPMF(n_factors="auto", prior=Narrow()).check()
