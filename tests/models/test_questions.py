"""What to ask: gains against the covariances written out, what may be asked, and that answers help."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr

from tastespace import ALS, Popular, Ratings, load, save
from tastespace.errors import ConvergenceWarning, InvalidParameterError, NotFittedError, UnknownIdError
from tastespace.models import BPMF
from tastespace.models.base.active_learning import RATED
from tastespace.models.factorization.gibbs import information
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import gaussian, tastes

RATINGS = tastes(60, 40, density=0.3, rng=generator(8))[0].with_items(
    None, pl.DataFrame({"genres": [["even"] if row % 2 == 0 else ["odd"] for row in range(40)]})
)
COUNTS = RATINGS.by_item.counts


def in_stars(ratings):
    """Rounded to one of five."""
    return replace(ratings, values=np.clip(np.round(ratings.values), 1, 5))


def fitted(ratings, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short chains are enough here
        return BPMF(**{"n_factors": 3, "warmup": 10, "draws": 6, "thin": 1, "seed": 1, "threads": 1, **parameters}).fit(
            ratings
        )


@pytest.fixture(scope="module")
def model():
    return fitted(RATINGS)


def vectors_of(model):
    """x of all items, draw by draw; in double."""
    draws = model.posterior_.draws
    vectors = draws.items.astype(np.float64).transpose(1, 0, 2)
    if draws.has_biases:
        vectors[:, :, -1] = 1
    return vectors


def covariances_of(model, rated):
    """Of a user's factors and bias given which items they have rated, draw by draw, from the precisions."""
    draws, vectors = model.posterior_.draws, vectors_of(model)
    covariances = []
    for draw, alpha in enumerate(draws.alpha):
        width, n_factors = vectors.shape[2], draws.n_factors
        precision = np.zeros((width, width))
        precision[:n_factors, :n_factors] = draws.users.precisions[draw]
        if draws.has_biases:
            precision[-1, -1] = draws.users.bias_precisions[draw]
        own = vectors[draw, rated]
        covariances.append(np.linalg.inv(precision + alpha * own.T @ own))
    return np.array(covariances)


def variances(model, rated, targets, weights):
    """The mean variance of the targets' scores in units of ratings."""
    vectors, covariances = vectors_of(model)[:, targets], covariances_of(model, rated)
    each = np.einsum("stw,swx,stx->st", vectors, covariances, vectors)
    return model.posterior_.draws.scale**2 * np.mean(each @ weights)


def popular_targets(seen=()):
    items = np.setdiff1d(np.arange(RATINGS.n_items), seen)
    return items, COUNTS[items] / COUNTS[items].sum()


@pytest.mark.parametrize("parameters", [{}, {"biases": False}, {"n_factors": 1}])
def test_the_formula_against_the_variance_before_and_after(parameters):
    """The rating itself plays no part: the variance after each answer is that of somebody who has given it."""
    model = fitted(RATINGS, **parameters)
    targets, weights = popular_targets()
    before = variances(model, np.array([], int), targets, weights)
    gains = np.array([before - variances(model, np.array([item]), targets, weights) for item in range(40)])
    asked = model.ask(n=4)
    assert_allclose(asked.sd[0], np.sqrt(before), rtol=1e-4)
    assert asked.item_rows[0, 0] == np.argmax(gains)
    assert_allclose(asked.reductions[0, 0], gains.max() / before, rtol=1e-3)
    for k in range(1, 5):
        chosen = asked.item_rows[0, :k]
        assert_allclose(asked.sds[0, k - 1], np.sqrt(variances(model, chosen, targets, weights)), rtol=1e-3)
        others = np.setdiff1d(np.arange(40), chosen)
        after = [variances(model, np.append(chosen, item), targets, weights) for item in others]
        if k < 4:
            assert asked.item_rows[0, k] == others[np.argmin(after)]


def chances_of(kind, draws, scores):
    """Of each level at scores (S x M), for which the cut-points of the draw count; levels x S x M."""
    if kind == "logistic":
        yes = 1 / (1 + np.exp(-(draws.likelihood.offset + scores)))
        return np.stack([1 - yes, yes])
    below = [ndtr(cut[:, None] - scores) for cut in draws.likelihood.arrays(draws)["cuts"].T]
    return np.diff([np.zeros_like(scores), *below, np.ones_like(scores)], axis=0)


def told_by(model, kind):
    """What a stranger's rating of each item tells and means, S x M: variance around the score, slope of the rating."""
    draws, posterior = model.posterior_.draws, model.posterior_
    if kind == "uneven":
        (belief, *_), *_ = believed(model, [-1]).blocks(np.array([0]))
        precision = draws.alpha * belief.precision[0] * draws.noise["item_precision"]
        return 1 / precision.T.astype(float), np.full(precision.T.shape, draws.scale)
    factors, biases = draws.items[:, :, : draws.n_factors], draws.items[:, :, -1]
    scores = np.einsum("msd,sd->sm", factors, draws.users.means) + biases.T + draws.users.bias_means[:, None]
    step = 1e-4
    middle = chances_of(kind, draws, scores)
    slopes = (chances_of(kind, draws, scores + step) - chances_of(kind, draws, scores - step)) / (2 * step)
    return 1 / np.sum(slopes**2 / middle, axis=0), np.einsum("lsm,l->sm", slopes, posterior.levels)


@pytest.mark.parametrize("kind", ["uneven", "ordinal", "probit", "logistic"])
def test_other_noise_tells_what_it_tells(kind):
    """The same formula, with the information in a rating of each item and the slope of the expected rating."""
    likelihood = {"likelihood": "heteroscedastic"} if kind == "uneven" else {"likelihood": kind}
    ratings = RATINGS.at_least(3.5) if kind in ("probit", "logistic") else in_stars(RATINGS)
    model = fitted(ratings, **likelihood)
    noise, slope = told_by(model, kind)
    vectors, priors = vectors_of(model), [np.linalg.inv(each) for each in covariances_of(model, [])]
    targets, weights = popular_targets()

    def left(rated):
        precisions = [
            prior + np.einsum("jw,jx,j->wx", own[rated], own[rated], 1 / errors[rated])
            for prior, own, errors in zip(priors, vectors, noise, strict=True)
        ]
        each = np.einsum("stw,swx,stx->st", vectors, np.linalg.inv(precisions), vectors)
        return np.mean((slope**2 * each)[:, targets] @ weights)

    asked = model.ask(n=3)
    assert_allclose(asked.sd[0], np.sqrt(left([])), rtol=1e-3)
    assert asked.item_rows[0, 0] == np.argmin([left([item]) for item in range(40)])
    for k in range(1, 4):
        assert_allclose(asked.sds[0, k - 1], np.sqrt(left(asked.item_rows[0, :k])), rtol=1e-3)
    # Broken twin: a response known as well as a latent one, or noise that is the same for all.
    noise = np.full_like(noise, np.mean(1 / model.posterior_.draws.alpha))
    assert abs(left(asked.item_rows[0, :3]) / asked.sds[0, 2] ** 2 - 1) > 0.01


def test_plausible_mistakes_would_be_noticed():
    """Broken twins: a rating without noise, and a covariance that forgets the bias."""
    model = fitted(RATINGS, likelihood="gaussian:precision=1")
    targets, weights = popular_targets()
    vectors, covariances = vectors_of(model), covariances_of(model, [])
    noise, scale = 1 / model.posterior_.draws.alpha[:, None], model.posterior_.draws.scale

    def largest(vectors, noise):
        shared = np.einsum("sjw,swx,stx->sjt", vectors, covariances, vectors[:, targets])
        own = np.einsum("sjw,swx,sjx->sj", vectors, covariances, vectors)
        return scale**2 * np.max(np.mean((shared**2 @ weights) / (own + noise), axis=0))

    asked = model.ask()
    found = asked.reductions[0, 0] * asked.sd[0] ** 2
    assert_allclose(found, largest(vectors, noise), rtol=3e-4)
    without_bias = vectors.copy()
    without_bias[:, :, -1] = 0
    for wrong in (largest(vectors, 0 * noise), largest(without_bias, noise)):
        assert abs(found / wrong - 1) > 0.003  # ten times the tolerance above


def test_the_best_of_the_list_can_be_the_goal(model):
    history = {3: 4.0, 11: 1.5}
    best = model.recommend(history=history, n=50).item_rows[0]
    best = best[best >= 0]
    rated = RATINGS.items.rows_of([3, 11])
    asked = model.ask(history=history, n=1, goal="list")
    weights = np.full(len(best), 1 / len(best))
    before = variances(model, rated, best, weights)
    after = [variances(model, np.append(rated, item), best, weights) for item in best]
    assert_allclose(asked.sd[0], np.sqrt(before), rtol=1e-4)
    assert asked.item_rows[0, 0] == best[np.argmin(after)]
    assert_allclose(asked.sds[0, 0], np.sqrt(min(after)), rtol=1e-3)


def test_in_small_blocks_the_same_is_found(model, monkeypatch):
    whole = model.ask(n=6)
    monkeypatch.setattr(information, "BLOCK_ITEMS", 7)
    monkeypatch.setattr(information, "BLOCK_NUMBERS", 50)
    parts = model.ask(n=6)
    assert_array_equal(parts.item_rows, whole.item_rows)
    assert_allclose(parts.reductions, whole.reductions, rtol=1e-4)


def test_the_same_question_every_time_alone_and_among_others(model):
    users = [*RATINGS.users.ids[:5], "nobody", RATINGS.users.ids[0]]
    together = model.ask(users, 3)
    for position, user in enumerate(users):
        alone = model.ask([user], 3)
        assert_array_equal(alone.item_rows[0], together.item_rows[position])
        assert_array_equal(alone.reductions[0], together.reductions[position])
    assert together.cold.tolist() == [False] * 5 + [True, False]


def test_new_users(model):
    nobody = model.ask()
    assert nobody.user_ids.to_list() == ["you"]
    assert nobody.cold.tolist() == [True]
    assert nobody.of(0).height == 5
    for same in (model.ask(history={}), model.ask(["nobody"])):
        assert_array_equal(same.item_rows, nobody.item_rows)
        assert_array_equal(same.sds, nobody.sds)
    first = nobody.of(0)["item"][0]
    then = model.ask(history={first: 4.0}, n=4)
    assert first not in then.of(0)["item"].to_list()
    assert not then.cold[0]
    assert then.sd[0] < nobody.sd[0]


def test_what_a_user_has_rated_is_not_asked_again(model):
    user = RATINGS.users.ids[7]
    seen = RATINGS.by_user.take(RATINGS.users.rows_of([user])).columns
    everything = model.ask([user], 40)
    assert sorted([*everything.of(0)["item"], *RATINGS.items.at(seen)]) == sorted(RATINGS.items.ids)
    assert everything.item_rows.shape == (1, 40)
    assert (everything.item_rows[0, 40 - len(seen) :] == -1).all()
    assert model.ask([user], 40, exclude=None).of(0).height == 40


def test_each_answer_takes_something_away(model):
    asked = model.ask(n=40)
    assert (asked.reductions > 0).all()
    assert_allclose(np.diff(asked.sds[0] ** 2), -asked.reductions[0, 1:] * asked.sd[0] ** 2, atol=1e-5)
    # Greedy: what was not asked could only become less telling.
    assert (np.diff(asked.reductions[0]) <= 1e-6).all()


def test_rules_say_what_may_be_asked(model):
    order = model.ask(n=40).of(0)["item"].to_list()
    assert model.ask(n=1, exclude=order[:1]).of(0)["item"][0] != order[0]
    assert set(model.ask(n=40, where="genre = odd").of(0)["item"]) == set(RATINGS.items.at(np.arange(1, 40, 2)))
    assert sorted(model.ask(n=9, only=order[4:7]).of(0)["item"]) == sorted(order[4:7])
    own = pl.DataFrame({"user": ["a", "a", "b"], "item": [order[3], order[9], order[2]]})
    found = model.ask(["a", "b", "c"], only=own)
    assert [sorted(table["item"]) for table in found] == [sorted([order[3], order[9]]), [order[2]], []]
    assert "nothing left to ask" in repr(found)


def test_rules_say_what_is_to_be_known(model):
    nothing = np.array([], int)
    rows = np.array([3, 8, 20, 31])
    listed = model.ask(only=RATINGS.items.at(rows.astype(np.int32)), n=2)
    alike = np.full(4, 1 / 4)
    assert_allclose(listed.sd[0], np.sqrt(variances(model, nothing, rows, alike)), rtol=1e-4)
    after = [variances(model, np.array([row]), rows, alike) for row in rows]
    assert listed.item_rows[0, 0] == rows[np.argmin(after)]
    # A condition is no list of things they know: there items count as often as they are rated.
    odd = np.arange(1, 40, 2)
    weights = COUNTS[odd] / COUNTS[odd].sum()
    assert_allclose(model.ask(where="genre = odd").sd[0], np.sqrt(variances(model, nothing, odd, weights)), rtol=1e-4)
    assert COUNTS[odd].std() > 0
    own = pl.DataFrame({"user": ["a"] * 4, "item": RATINGS.items.at(rows.astype(np.int32))})
    assert_allclose(model.ask(["a"], 2, only=own).sds, listed.sds, rtol=1e-5)
    for goal in ("ratings", "list"):  # all of a short list are the best of it
        assert_allclose(model.ask(["a"], 2, only=own, goal=goal).sds, listed.sds, rtol=1e-4)


def test_what_is_rated_is_known_even_if_it_may_be_asked_again(model):
    user = RATINGS.users.ids[7]
    assert_allclose(model.ask([user], 2).sd, model.ask([user], 2, exclude=None).sd)


def test_among_the_most_rated(model):
    most = np.argsort(-COUNTS, kind="stable")[:6]
    assert sorted(model.ask(n=40, among=6).item_rows[0, :6]) == sorted(most)
    odd = most[most % 2 == 1]
    allowed = model.ask(n=40, among=len(odd), where="genre = odd")
    assert sorted(allowed.of(0)["item"]) == sorted(RATINGS.items.at(odd.astype(np.int32)))
    assert_array_equal(model.ask(among=None).item_rows, model.ask(among=40).item_rows)
    assert RATINGS.n_items <= RATED, "the tests above take all items as targets"


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n": 0}, InvalidParameterError, "n is 0"),
        ({"among": 0}, InvalidParameterError, "among is 0"),
        ({"goal": "money"}, InvalidParameterError, "goal is 'money'; expected one of 'ratings', 'list'"),
        ({"only": ["nowhere"]}, UnknownIdError, "nowhere"),
        ({"where": "colour = red"}, InvalidParameterError, "not an attribute of the items"),
    ],
)
def test_questions_that_make_no_sense(model, parameters, error, message):
    with pytest.raises(error, match=message):
        model.ask(**parameters)


@pytest.mark.parametrize("kind", [ALS, Popular])
def test_a_model_that_gives_a_point_refuses(kind):
    with pytest.raises(NotFittedError):
        kind().ask()
    with pytest.raises(InvalidParameterError, match=f"{kind.__name__} provides no uncertainty, .* such as BPMF"):
        kind(seed=0).fit(RATINGS).ask()


def test_a_model_without_its_ratings(model, tmp_path):
    save(model, tmp_path / "model", with_ratings=False)
    loaded = load(tmp_path / "model")
    with pytest.raises(InvalidParameterError, match="saved without its ratings"):
        loaded.ask()
    with pytest.raises(InvalidParameterError, match="saved without its ratings"):
        loaded.ask(goal="list")
    assert loaded.ask(only=RATINGS.items.ids[:3], among=None).of(0).height == 3
    asked = loaded.ask(goal="list", among=None)
    assert_array_equal(np.sort(asked.item_rows), np.sort(model.ask(goal="list", among=None).item_rows))


def test_tables(model):
    found = model.ask(["a", RATINGS.users.ids[0]], 2)
    assert found.to_polars().columns == ["user", "cold", "rank", "item", "reduction", "sd"]
    assert found.to_polars().height == 4
    assert len(found) == 2
    assert "user a (a new user, who gets the default questions), sd" in repr(found)
    with pytest.raises(InvalidParameterError, match="position is 2"):
        found.of(2)
    titled = fitted(RATINGS.with_items(pl.Series([f"Film {row}" for row in range(40)]), None)).ask(n=2)
    assert titled.of(0).columns == ["rank", "item", "title", "reduction", "sd"]
    assert "Film" in repr(titled)
    assert titled.to_pandas()["title"].str.startswith("Film").all()


@pytest.mark.statistical
def test_asked_answers_help_more_than_random_ones():
    """On ratings of the model's own kind: the error on all items after four answers of people kept from training."""
    ratings, truth = gaussian(600, 60, n_factors=3, density=0.4, rng=generator(3))
    model = fitted(ratings.take(np.flatnonzero(ratings.user_rows < 400)), warmup=30, draws=20, chains=1)
    rng, scores = generator(4), truth.matrix()[400:]
    asked = ratings.items.rows_of(model.ask(n=4).of(0)["item"])
    everything = ratings.items.ids
    errors = []
    for user in scores:
        answers = np.clip(user + truth.noise * rng.standard_normal(60), *model.rating_range_)
        for rows in (asked, rng.choice(60, 4, replace=False).astype(np.int32)):
            history = dict(zip(everything.gather(rows), answers[rows].tolist(), strict=True))
            belief = model.predict(["new"] * 60, everything, history=history)
            errors.append(np.mean((belief.mean - user) ** 2))
    by_way = np.array(errors).reshape(-1, 2)
    # One-sided, once in a million: 4.75 standard errors of the paired difference.
    difference = by_way[:, 1] - by_way[:, 0]
    assert difference.mean() > 4.75 * difference.std() / np.sqrt(len(difference))


def test_asking_is_for_any_ids():
    ratings = Ratings.from_arrays(["you", "you", "b", "b", "c"], ["x", "y", "x", "z", "y"], [1, 5, 2, 4, 3])
    model = fitted(ratings, n_factors=1)
    assert model.ask().user_ids.to_list() == ["you'"]
    assert sorted(model.ask(["you"]).of(0)["item"]) == ["z"]
