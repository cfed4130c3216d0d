"""Updates: ratings are merged by id, users count at once, new items have the right draws, and what was seen is told."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tastespace import ALS, BPMF, DampedBias, Ratings, load, save
from tastespace.data.compressed import Compressed
from tastespace.errors import DataError, DataWarning, InvalidParameterError, NotFittedError
from tastespace.models import MODELS
from tastespace.models.factorization.gibbs import GibbsSweep
from tastespace.models.factorization.likelihoods import GaussianNoise, Noise
from tastespace.models.factorization.priors import Population
from tastespace.models.factorization.rows import Points, Side
from tastespace.models.factorization.updating import KeptDraw, rows_given, warm_states
from tastespace.models.updating import RESTART_SHARE, RESTART_SWEEPS, Seen, merge
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")

N_USERS, N_ITEMS, N_NEW = 60, 40, 3
SMALL = {"n_factors": 2, "chains": 2, "warmup": 10, "draws": 10, "thin": 1, "seed": 1}
KINDS = {
    "gaussian": {},
    "no biases": {"biases": False},
    "double": {"precision": "float64"},
    "uneven": {"noise": "per-user-and-item"},
    "ordinal": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
}


def world(kind="gaussian"):
    """Ratings of all items, such as a kind of model takes; the first users are those who know the last items."""
    ratings, truth = tastes(N_USERS, N_ITEMS, rng=generator(3))
    if kind == "ordinal":
        values = np.clip(np.round(ratings.values), 1, 5)
    elif kind in ("probit", "logistic"):
        values = ratings.values > 3
    else:
        values = np.clip(ratings.values, 0.5, 5.5)
    return replace(ratings, values=values.astype(np.float32)), truth


def parts(kind="gaussian"):
    """Old ratings, and later ones: some of the old items and of new users, and all of the last items."""
    ratings, _ = world(kind)
    is_late = (ratings.item_ids().to_numpy() >= N_ITEMS - N_NEW) | (ratings.user_ids().to_numpy() >= N_USERS - 2)
    return ratings.take(np.flatnonzero(~is_late)), ratings.take(np.flatnonzero(is_late))


def fitted(kind="gaussian", **more):
    return BPMF(**SMALL | KINDS[kind] | more).fit(parts(kind)[0])


def small_news(ratings, n=5):
    """A few ratings of pairs that nobody has rated yet, in the range."""
    rated = set(zip(ratings.user_ids().to_list(), ratings.item_ids().to_list(), strict=True))
    pairs = [(user, item) for user in ratings.users.ids for item in ratings.items.ids if (user, item) not in rated][:n]
    values = np.resize([2.0, 4.0, 3.0], len(pairs))
    return Ratings.from_arrays([user for user, _ in pairs], [item for _, item in pairs], values)


def silently(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


@pytest.fixture(scope="module")
def model():
    return silently(fitted)


@pytest.fixture(scope="module")
def late():
    return parts()[1]


# Merging


def merged(old, new):
    return merge(old, new, Seen.of(old))


def test_rows_keep_their_places_and_the_later_rating_wins():
    old = Ratings.from_arrays(["a", "b", "a"], [10, 20, 30], [1.0, 2.0, 3.0])
    new = Ratings.from_arrays(["c", "a", "b", "b"], [10, 30, 20, 40], [5.0, 4.0, 2.0, 1.0])
    found = merged(old, new)
    assert found.ratings.users.ids.to_list() == ["a", "b", "c"]
    assert found.ratings.items.ids.to_list() == [10, 20, 30, 40]
    table = found.ratings.to_polars().rows()
    assert table == [("a", 10, 1.0), ("a", 30, 4.0), ("b", 20, 2.0), ("b", 40, 1.0), ("c", 10, 5.0)]
    news = found.news
    assert (news.ratings, news.replaced, news.unchanged) == (3, 1, 1)
    assert (news.new_users, news.new_items, news.by_new_users, news.of_new_items) == (1, 1, 1, 1)
    assert found.is_touched.tolist() == [True, True, True]
    assert merged(old, new.take(np.array([2]))).is_touched.tolist() == [False, False]


def test_titles_and_attributes_are_kept_and_completed():
    old = Ratings.from_arrays([0, 0], [1, 2], [1.0, 2.0])
    old = old.with_items(pl.Series(["One", None]), pl.DataFrame({"genres": [["x"], ["y"]], "year": [1999, None]}))
    new = Ratings.from_arrays([0, 0, 0], [3, 2, 1], [3.0, 2.0, 1.0])
    named = new.with_items(pl.Series(["Three", "Two", "Uno"]), pl.DataFrame({"year": [2003, 2002, 2001]}))
    found = merged(old, named).ratings
    assert found.item_titles.to_list() == ["One", "Two", "Three"]
    assert found.item_attributes.to_dict(as_series=False) == {
        "genres": [["x"], ["y"], None],
        "year": [1999, None, 2003],
    }
    assert merged(old, new).ratings.item_titles.to_list() == ["One", None, None]
    assert merged(old, new).ratings.item_attributes["year"].to_list() == [1999, None, None]
    assert merged(new, old).ratings.item_titles.to_list() == [None, None, "One"]
    assert merged(new, old).ratings.item_attributes["genres"].to_list() == [None, ["y"], ["x"]]
    with pytest.raises(DataError, match="attributes"):
        merged(old, new.with_items(None, pl.DataFrame({"genres": [1, 2, 3]})))


def test_ids_of_another_kind_find_their_twins():
    old = Ratings.from_arrays([1, 2], [1, 2], [1.0, 2.0])
    new = Ratings.from_arrays(["1", "2"], ["2", "1"], [3.0, 4.0])
    assert merged(old, new).ratings.users.ids.to_list() == [1, 2]
    with pytest.warns(DataWarning, match="user ids were integers.*'ann'"):
        found = merged(old, Ratings.from_arrays(["2", "ann"], [1, 1], [3.0, 4.0])).ratings
    assert found.users.ids.to_list() == ["1", "2", "ann"]
    assert found.users.rows_of([2, "ann"]).tolist() == [1, 2]


def test_times_are_kept_where_they_are_known():
    old = Ratings.from_arrays([0, 0], [1, 2], [1.0, 2.0], [2_000_000_000, 2_000_000_001])
    new = Ratings.from_arrays([0], [1], [3.0], [2_000_000_009])
    assert merged(old, new).ratings.times.astype(int).tolist() == [2_000_000_009, 2_000_000_001]
    untimed = merged(old, replace(new, times=None)).ratings.times
    assert np.isnat(untimed).tolist() == [True, False]
    assert merged(replace(old, times=None), replace(new, times=None)).ratings.times is None


# What an update does


@pytest.mark.parametrize("name", MODELS)
def test_an_update_with_nothing_new_changes_no_prediction(name):
    old = parts()[0]
    make = MODELS[name]
    before = make(**SMALL).fit(old) if name == "bpmf" else make(seed=1).fit(old)
    after = before.update(old.take(np.arange(30)))
    assert after.news_.how == "nothing new"
    assert (after.news_.ratings, after.news_.unchanged, after.seen_.updates) == (0, 30, 1)
    users, items = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    assert_array_equal(after.predict(users, items).mean, before.predict(users, items).mean)
    assert_array_equal(after.recommend(range(20)).item_ids, before.recommend(range(20)).item_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_users_count_at_once_as_by_a_history(kind):
    """The same bytes: known users with news, and new ones; old items."""
    before, (_, news) = silently(lambda: fitted(kind)), parts(kind)
    news = news.take(np.flatnonzero(news.item_ids().to_numpy() < N_ITEMS - N_NEW))
    assert (news.user_ids() >= N_USERS - 2).all()
    known = Ratings.from_arrays([0, 1], [before.ratings_.items.ids[0]] * 2, before.ratings_.values[:2])
    both = Ratings.from_arrays(
        [*news.user_ids(), *known.user_ids()],
        [*news.item_ids(), *known.item_ids()],
        [*news.values, *known.values],
    )
    after = silently(lambda: before.update(both, sweeps=0))
    users = np.repeat([0, 1, 5, N_USERS - 2, N_USERS - 1], 20)
    items = np.tile(before.ratings_.items.ids.to_numpy()[:20], 5)
    asked, told = after.predict(users, items), before.predict(users, items, history=both)
    assert_array_equal(asked.mean, told.mean)
    assert_array_equal(asked.belief_sd, told.belief_sd)
    assert not asked.cold.any()
    own = set(both.item_ids().filter(both.user_ids() == N_USERS - 1))
    assert not own & set(after.recommend([N_USERS - 1]).item_ids)


def test_the_old_model_is_untouched(model, late):
    before = model.predict([0, 1], [2, 3]).mean, model.seen_, len(model.ratings_), model.posterior_
    silently(lambda: model.update(late, sweeps=1))
    assert_array_equal(model.predict([0, 1], [2, 3]).mean, before[0])
    assert (model.seen_, len(model.ratings_), model.posterior_) == before[1:]
    assert model.news_ is None


def test_parameters_and_seed_stay(model, late):
    after = silently(lambda: model.update(late, sweeps=0))
    assert after.get_params() == model.get_params()
    assert after.seed_ == model.seed_
    unseeded = BPMF(**SMALL | {"seed": None}).fit(parts()[0])
    again = [silently(lambda: unseeded.update(late)).posterior_.draws.items for _ in range(2)]
    assert_array_equal(*again)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sweeps", [0, 3])
def test_new_items_are_known_as_far_as_their_ratings_go(kind, sweeps):
    """Those who have not rated them are predicted as the truth has it, far better than by the old model."""
    _, truth = world(kind)
    before, (old, news) = silently(lambda: fitted(kind, draws=40)), parts(kind)
    after = silently(lambda: before.update(news, sweeps=sweeps))
    assert after.posterior_.draws.items.shape == (N_ITEMS, 80, after.posterior_.draws.items.shape[2])
    assert after.news_.new_items == N_NEW
    assert after.news_.how == ("warm restart" if sweeps else "kept draws")
    rated = set(zip(news.user_ids().to_list(), news.item_ids().to_list(), strict=True))
    pairs = [
        (user, item) for user in old.users.ids for item in range(N_ITEMS - N_NEW, N_ITEMS) if (user, item) not in rated
    ]
    users, items = (np.array(side) for side in zip(*pairs, strict=True))
    prediction = after.predict(users, items)
    assert not prediction.cold.any()
    assert np.corrcoef(prediction.mean, truth[users, items])[0, 1] > 0.6
    unknown = before.predict(users, items)
    assert unknown.cold.all()
    assert prediction.belief_sd.mean() < unknown.belief_sd.mean()
    assert len(after.recommend([0], N_ITEMS, exclude=None).item_ids) == N_ITEMS


@pytest.mark.parametrize("sweeps", [0, 2])
@pytest.mark.parametrize("kind", ["gaussian", "uneven", "ordinal", "logistic"])
def test_the_same_bytes_with_one_thread_and_two(kind, sweeps, tmp_path):
    news = parts(kind)[1]
    for n in (1, 2):
        after = silently(lambda n=n: fitted(kind, threads=n).update(news, sweeps=sweeps))
        save(after, tmp_path / str(n))
    for name in ("posterior.safetensors", "ratings.safetensors", "manifest.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_two_updates_are_as_one(model, late):
    """New items are drawn anew from all their ratings, given the items that were learned: nothing builds up."""
    order = np.argsort(late.user_rows, kind="stable")
    first, second = late.take(order[:40]), late.take(order[40:])
    whole = silently(lambda: model.update(late.take(order), sweeps=0))
    in_turn = silently(lambda: model.update(first, sweeps=0).update(second, sweeps=0))
    assert_array_equal(in_turn.posterior_.draws.items, whole.posterior_.draws.items)
    assert replace(in_turn.seen_, updates=1) == whole.seen_
    assert in_turn.seen_.updates == 2


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_is_the_same_and_goes_on_alike(kind, tmp_path):
    news = parts(kind)[1]
    first, second = news.take(np.arange(30)), news.take(np.arange(30, len(news)))
    here = silently(lambda: fitted(kind).update(first, sweeps=0))
    save(here, tmp_path / "model")
    there = load(tmp_path / "model")
    assert there.seen_ == here.seen_
    assert there.seen_.updates == 1
    assert there.seen_.added == 30
    for sweeps in (0, 1):
        one, other = (silently(lambda m=m, n=sweeps: m.update(second, sweeps=n)) for m in (here, there))
        assert_array_equal(one.posterior_.draws.items, other.posterior_.draws.items)
        assert one.seen_ == other.seen_
        users, items = np.arange(20), np.arange(20)
        assert_array_equal(one.predict(users, items).mean, other.predict(users, items).mean)


def test_half_stored_draws_answer_as_they_will_after_loading(late, tmp_path):
    after = silently(lambda: fitted(storage="float16").update(late, sweeps=0))
    save(after, tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").posterior_.draws.items, after.posterior_.draws.items)


# When chains go on


def test_a_restart_begins_where_the_chains_ended(model):
    draws, ratings = model.posterior_.draws, model.ratings_
    story = model.story(ratings)
    states = warm_states(model.posterior_, ratings, story, generator(0), 1)
    assert len(states) == 2
    for state, s in zip(states, (9, 19), strict=True):
        assert_array_equal(state.items.factors, draws.items[:, s, :2])
        assert_array_equal(state.items.bias, draws.items[:, s, 2])
        assert state.alpha == draws.alpha[s]
        assert_array_equal(state.user_population.precision, draws.users.precisions[s])
        assert_array_equal(state.item_population.mean, draws.new_items.means[s])
        # The users go with these items: they explain the ratings about as well as the noise allows.
        scores = np.einsum("nd,nd->n", state.users.factors[ratings.user_rows], state.items.factors[ratings.item_rows])
        scores += state.users.bias[ratings.user_rows] + state.items.bias[ratings.item_rows]
        errors = (ratings.values - draws.offset) / draws.scale - scores
        assert np.mean(errors**2) < 2 / state.alpha


def test_a_restart_never_begins_afresh(model, late, monkeypatch):
    def init(self, rng):
        raise AssertionError("a chain began from nothing")

    monkeypatch.setattr(GibbsSweep, "init", init)
    assert silently(lambda: model.update(late, sweeps=1)).news_.how == "warm restart"
    with pytest.raises(AssertionError, match="from nothing"):
        silently(fitted)


def test_draws_until_they_are_enough_restart_as_well(late):
    after = silently(lambda: fitted(draws="auto").update(late, sweeps=1))
    trace = after.posterior_.trace
    assert trace.warmup == 1
    assert after.posterior_.draws.items.shape[1] == 2 * (trace.sweeps - 1)


def test_few_news_keep_the_draws_and_many_restart(model, late):
    few = small_news(model.ratings_)
    after = model.update(few)
    assert after.news_.how == "kept draws"
    assert after.posterior_.draws is model.posterior_.draws
    n = len(model.ratings_)
    assert after.seen_ == Seen(n, N_USERS - 2, N_ITEMS - N_NEW, added=5, updates=1)
    assert len(late) > RESTART_SHARE * n
    restarted = silently(lambda: model.update(late))
    assert (restarted.news_.how, restarted.news_.sweeps) == ("warm restart", RESTART_SWEEPS)
    assert restarted.seen_ == replace(Seen.of(restarted.ratings_), updates=1)
    assert restarted.posterior_.trace.warmup == RESTART_SWEEPS
    assert restarted.posterior_.trace.sweeps == RESTART_SWEEPS + 10
    assert "none added since; 1 update" in str(restarted.seen_)


def test_what_was_added_adds_up_until_a_restart(model):
    news = small_news(model.ratings_, 40)
    assert 40 > RESTART_SHARE * len(model.ratings_) > 20
    after = model.update(news.take(np.arange(20)))
    assert after.news_.how == "kept draws"
    assert silently(lambda: after.update(news.take(np.arange(20, 40)))).news_.how == "warm restart"


def test_stale_draws_that_were_asked_for_bring_a_warning(model, late):
    with pytest.warns(DataWarning, match=r"added since are \d+%.*sweeps='auto'"):
        after = model.update(late, sweeps=0)
    assert after.news_.how == "kept draws"
    assert after.seen_.of_new_items == np.count_nonzero(late.item_ids().to_numpy() >= N_ITEMS - N_NEW)
    assert after.seen_.by_new_users == np.count_nonzero(late.user_ids().to_numpy() >= N_USERS - 2)


def test_a_forced_restart_needs_no_news(model):
    same = model.ratings_.take(np.arange(3))
    after = silently(lambda: model.update(same, sweeps=2))
    assert after.news_.how == "warm restart"
    assert (after.posterior_.draws.items != model.posterior_.draws.items).any()
    another = silently(lambda: after.update(same, sweeps=2))
    assert (after.posterior_.draws.items != another.posterior_.draws.items).any()


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_a_restart_ends_where_a_full_fit_does(kind):
    """Predictions of unrated pairs: apart by what two runs of the sampler are apart, and nearer than the old model."""
    news = parts(kind)[1]
    before = silently(lambda: fitted(kind, draws=200, warmup=50))
    after = silently(lambda: before.update(news, sweeps=RESTART_SWEEPS))
    refits = [silently(lambda s=s: BPMF(**SMALL | KINDS[kind] | {"draws": 200, "warmup": 50, "seed": s}).fit(
        after.ratings_)) for s in (1, 2)]  # fmt: skip
    users, items = np.repeat(np.arange(N_USERS), N_ITEMS), np.tile(np.arange(N_ITEMS), N_USERS)
    means = [model.predict(users, items).mean for model in (*refits, after, before)]
    apart = [float(np.sqrt(np.mean((mean - means[0]) ** 2))) for mean in means]
    assert apart[2] < 1.5 * apart[1]
    assert apart[3] > 2 * apart[1]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "bpmf"])
def test_models_without_draws_are_fitted_again(name, late):
    before = MODELS[name](seed=3).fit(parts()[0])
    after = before.update(late)
    assert after.news_.how == "fitted again"
    assert after.seen_ == replace(Seen.of(after.ratings_), updates=1)
    again = MODELS[name](seed=3).fit(after.ratings_)
    users, items = np.arange(40), np.arange(40)
    assert_array_equal(after.predict(users, items).mean, again.predict(users, items).mean)
    with pytest.raises(InvalidParameterError, match="no chains to go on with"):
        before.update(late, sweeps=0)


def test_noise_of_users_and_items_keeps_up():
    news = parts("uneven")[1]
    before = silently(lambda: fitted("uneven"))
    after = silently(lambda: before.update(news, sweeps=0))
    kept = after.posterior_.draws.noise
    assert len(kept.user_noise) == N_USERS
    assert kept.item_noise.shape == (N_ITEMS, 4)
    assert kept.item_precision.shape == (N_ITEMS, 20)
    assert np.isfinite(kept.user_noise).all()
    assert (kept.item_precision > 0).all()
    touched = set(after.ratings_.users.rows_of(news.users.ids))
    moved = np.flatnonzero((kept.user_noise[: N_USERS - 2] != before.posterior_.draws.noise.user_noise).any(axis=1))
    assert set(moved) <= touched
    assert len(moved) > 10
    assert len(after.erratic_users(N_USERS)) == N_USERS
    assert len(after.divisive_items(N_ITEMS)) == N_ITEMS


# The draws of new items are from the right distribution


ALPHA = 3.0
# False alarms: 25 figures of normal errors beyond 5.5 standard deviations, less than once in a million runs.
BEYOND = 5.5


def conditional(users, bias, values, population, alpha):
    """Mean and covariance of (v, d) given the users who rated the item: Bayesian linear regression."""
    design = np.column_stack([users, np.ones(len(users))])
    prior = np.zeros((3, 3))
    prior[:2, :2], prior[2, 2] = population.precision, population.bias_precision
    mean = np.append(population.mean, population.bias_mean)
    covariance = np.linalg.inv(prior + alpha * design.T @ design)
    return covariance @ (prior @ mean + alpha * design.T @ (values - bias)), covariance


def worst(drawn, mean, covariance):
    """How many standard errors the moments of draws (n x W) are from those expected, at worst."""
    n, white = len(drawn), (drawn - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    second = white.T @ white / n
    errors = np.sqrt(np.where(np.eye(len(mean)) > 0, 2 / n, 1 / n))
    return max(np.abs(white.mean(0) * n**0.5).max(), np.abs((second - np.eye(len(mean))) / errors).max())


@pytest.mark.statistical
def test_new_items_have_the_moments_of_their_conditional():
    """Twenty thousand items with the same raters and ratings are as many draws of one."""
    rng, n = generator(7), 20_000
    users, bias, values = rng.standard_normal((4, 2)), rng.standard_normal(4), rng.standard_normal(4)
    population = Population(np.array([0.3, -0.2]), np.array([[2.0, 0.5], [0.5, 1.5]]), 0.1, 4.0)
    side = Side.of(
        Compressed(4 * np.arange(n + 1), np.tile(np.arange(4, dtype=np.int32), n), np.tile(values, n)), np.float64, 0.0
    )
    rows, _ = rows_given(
        "item", side, Points(users, bias), population, GaussianNoise(ALPHA), Noise(ALPHA), generator(8), 1
    )
    drawn = np.column_stack([rows.factors, rows.bias])
    assert worst(drawn, *conditional(users, bias, values, population, ALPHA)) < BEYOND
    # A broken twin that ignores the precision of the noise would be noticed.
    assert worst(drawn, *conditional(users, bias, values, population, 1.0)) > 3 * BEYOND


def repeated(model, n):
    """The model with its last draw n times over, so that draws of a new item are independent."""
    draws = model.posterior_.draws
    last = np.full(n, draws.items.shape[1] - 1)

    def of(side):
        return replace(
            side,
            means=side.means[last],
            precisions=side.precisions[last],
            bias_means=side.bias_means[last],
            bias_precisions=side.bias_precisions[last],
        )

    draws = replace(
        draws,
        items=np.ascontiguousarray(draws.items[:, last]),
        users=of(draws.users),
        new_items=of(draws.new_items),
        alpha=draws.alpha[last],
    )
    again = BPMF(**model.get_params())
    return again.restore(
        model.ratings_, replace(model.posterior_, draws=draws), model.seed_, model.rating_range_, model.seen_
    )


@pytest.mark.statistical
def test_raters_of_a_new_item_are_drawn_and_not_guessed(model):
    """The whole way, against a twin by the book; taking the raters' means for them would be noticed."""
    n, raters, values = 4000, [0, 1, 2, 3, 4, 5], [1.0, 5.0, 2.0, 4.0, 3.0, 5.0]
    news = Ratings.from_arrays(raters, ["new"] * len(raters), values)
    with pytest.warns(DataWarning, match="item ids were integers"):
        after = repeated(model, n).update(news, sweeps=0)
    drawn = after.posterior_.draws.items[-1].astype(np.float64)
    assert drawn.shape == (n, 3)
    draws, rng = model.posterior_.draws, generator(11)
    kept = KeptDraw.of(model.posterior_, 19, N_ITEMS - N_NEW, np.float64)
    belief = next(model.posterior_.known(np.arange(6, dtype=np.int32)).blocks(np.arange(6)))[1]
    standard = (np.array(values) - draws.offset) / draws.scale
    moments = []
    for spread in (1.0, 0.0):
        found = []
        for _ in range(n if spread else 1):
            noise = spread * rng.standard_normal((6, 3))
            people = belief.means[:, 19] + np.einsum("bij,bj->bi", belief.roots[:, 19], noise)
            found.append(conditional(people[:, :2], people[:, 2], standard, kept.item_population, draws.alpha[19]))
        means, covariances = (np.stack(part) for part in zip(*found, strict=True))
        between = np.cov(means.T) if spread else 0.0
        moments.append((means.mean(0), covariances.mean(0) + between))
    (mean, covariance), (_, too_sure) = moments
    errors = np.sqrt(2 * np.diag(covariance) / n)  # of the difference of two means of n draws
    assert (np.abs(drawn.mean(0) - mean) < BEYOND * errors).all()
    # Tails are heavier than normal where the raters are unsure: 20 % is some six standard errors of a variance.
    assert_allclose(drawn.var(0), np.diag(covariance), rtol=0.2)
    assert (drawn.var(0) > 1.2 * np.diag(too_sure)).any()


@pytest.mark.statistical
def test_an_item_without_ratings_is_drawn_from_the_population(model):
    news = Ratings.from_arrays([0, 0], [0, "new"], [3.0, 3.0]).masked(np.array([True, False]))
    with pytest.warns(DataWarning, match="item ids were integers"):
        after = repeated(model, 4000).update(news, sweeps=0)
    population = KeptDraw.of(model.posterior_, 19, 1, np.float64).item_population
    covariance = np.zeros((3, 3))
    covariance[:2, :2], covariance[2, 2] = np.linalg.inv(population.precision), 1 / population.bias_precision
    drawn = after.posterior_.draws.items[-1].astype(np.float64)
    assert worst(drawn, np.append(population.mean, population.bias_mean), covariance) < BEYOND


# Bad input


@pytest.mark.parametrize(
    ("news", "error", "told"),
    [
        ({0: 5.0}, DataError, "names no users"),
        (pl.DataFrame({"item": [0], "rating": [5.0]}), DataError, "no column for the user"),
        (pl.DataFrame({"who": [0], "what": [1], "how": [5.0]}), DataError, "no column for the user.*among who, what"),
        (pl.DataFrame({"user": [], "item": [], "rating": []}), DataError, "no ratings"),
        (pl.DataFrame({"user": [0], "item": [1], "rating": [float("nan")]}), DataError, "not a rating"),
        (pl.DataFrame({"user": [0], "item": [1], "rating": [None]}), DataError, "not a rating"),
        (pl.DataFrame({"user": [None], "item": [1], "rating": [3.0]}), DataError, "user"),
        (pl.DataFrame({"user": [7], "item": [1], "rating": [9.0]}), DataError, "7 rated item 1 with 9; expected .*5.5"),
        (pl.LazyFrame({"user": [7], "item": [1], "rating": [-1.0]}), DataError, "user 7 rated item 1 with -1"),
        ("ratings.csv", InvalidParameterError, "update got str"),
        (None, InvalidParameterError, "update got NoneType"),
        ([(0, 1, 3.0)], InvalidParameterError, "update got list"),
    ],
)  # fmt: skip
def test_bad_news_are_refused(model, news, error, told):
    with pytest.raises(error, match=told):
        model.update(news)


def test_no_ratings_at_all_are_refused(model):
    with pytest.raises(DataError, match="no new ratings"):
        model.update(model.ratings_.masked(np.zeros(len(model.ratings_), bool)))


def test_tables_of_any_kind_are_taken(model):
    pandas = pytest.importorskip("pandas")
    table = small_news(model.ratings_).to_polars()
    expected = model.update(small_news(model.ratings_)).ratings_.fingerprint()
    for news in (table, table.lazy(), pandas.DataFrame(table.to_dict(as_series=False))):
        assert model.update(news).ratings_.fingerprint() == expected


@pytest.mark.parametrize(("kind", "value"), [("ordinal", 2.5), ("probit", 2.0), ("logistic", 0.5)])
def test_what_is_no_level_is_refused(kind, value):
    before = silently(lambda: fitted(kind))
    with pytest.raises(DataError, match=f"user 0 rated item 1 with {value:g}; expected one of its levels"):
        before.update(Ratings.from_arrays([0], [1], [value]))


def test_a_declared_level_may_come_late():
    ratings = parts("ordinal")[0]
    ratings = replace(ratings, values=np.clip(ratings.values, 2, 5))
    before = silently(lambda: BPMF(**SMALL, likelihood="ordinal", levels=[1, 2, 3, 4, 5]).fit(ratings))
    assert before.ratings_.range == (2, 5)
    after = silently(lambda: before.update(Ratings.from_arrays(["x"] * 9, range(9), [1.0] * 9), sweeps=0))
    assert after.rating_range_ == (1, 5)
    assert after.predict(["x"], [0]).mean[0] < before.predict(["x"], [0]).mean[0]


def test_a_level_that_nobody_uses_any_longer_stays_one():
    ratings = parts("ordinal")[0]
    lowest = np.flatnonzero(ratings.values == 1)
    raised = replace(ratings.take(lowest), values=np.full(len(lowest), 2, np.float32))
    after = silently(lambda: fitted("ordinal").update(raised, sweeps=2))
    assert after.news_.replaced == len(lowest)
    assert after.posterior_.units.levels.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("sweeps", [-1, 1.5, True, "many", None])
def test_sweeps_that_make_no_sense_are_refused(model, late, sweeps):
    with pytest.raises(InvalidParameterError, match="sweeps is .*or 'auto'"):
        model.update(late, sweeps=sweeps)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_factors", 3), ("chains", 3), ("biases", False), ("likelihood", "ordinal"), ("noise", "per-user-and-item")],
)
def test_parameters_changed_since_the_fit_are_refused(late, name, value):
    before = silently(fitted)
    before.set_params(**{name: value})
    with pytest.raises(InvalidParameterError, match=f"{name} is .*fitted with"):
        before.update(late)


def test_without_its_ratings_a_model_cannot_be_updated(model, late, tmp_path):
    for before in (model, DampedBias().fit(parts()[0]), ALS(n_factors=2, seed=0).fit(parts()[0])):
        save(before, tmp_path / "model", with_ratings=False)
        bare = load(tmp_path / "model")
        assert bare.seen_ == before.seen_
        with pytest.raises(InvalidParameterError, match="saved without its ratings"):
            bare.update(late)


def test_an_unfitted_model_cannot_be_updated(late):
    with pytest.raises(NotFittedError):
        BPMF().update(late)
