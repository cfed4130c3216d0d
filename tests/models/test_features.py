"""Features of users and items in BPMF: what goes into them, and what comes of them in answers."""

from __future__ import annotations

import numpy as np
import pytest

import tastespace as ts
from tastespace import BPMF, Ratings, random_split
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.gibbs.posterior import evidence
from tastespace.models.factorization.priors.design import Design, bag_of, met_rows
from tastespace.models.factorization.priors.features import FeaturePrior
from tastespace.randomness import generator
from tastespace.testing.toys import gaussian, ordinal, yes_no

pytestmark = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")

SHORT = {"n_factors": 3, "chains": 2, "warmup": 10, "draws": 10, "thin": 1, "seed": 1}


@pytest.fixture(scope="module")
def split():
    ratings, _ = gaussian(80, 40, n_factors=2, density=0.3, rng=generator(3))
    described = ratings.with_item_features(
        {str(item): {"kind": "ab"[k % 2]} for k, item in enumerate(ratings.items.ids)}
    )
    described = described.with_item_features("bag").with_user_features("bag")
    return random_split(described, 0.2, seed=0)


@pytest.fixture(scope="module")
def fitted(split):
    return BPMF(**SHORT).fit(split.train)


def pairs_in_bags(design, n_others, transposed=False):
    """The pairs that the bag of a design knows."""
    rows, columns = design.matrix[:, design.n_attributes :].nonzero()
    assert design.n_features - design.n_attributes == n_others
    return set(zip(columns, rows, strict=True) if transposed else zip(rows, columns, strict=True))


def test_pairs_in_bags_are(split):
    """Those of training and no others; the check fails for a pair that is planted."""
    train, test = split.train, split.test
    model = BPMF(**SHORT).story(train)
    trained = set(zip(train.user_rows.tolist(), train.item_rows.tolist(), strict=True))
    users, items = train.users.rows_of(test.users.ids), train.items.rows_of(test.items.ids)
    held_out = set(zip(users[test.user_rows].tolist(), items[test.item_rows].tolist(), strict=True))
    of_users = pairs_in_bags(model.user_prior.design, train.n_items)
    of_items = pairs_in_bags(model.item_prior.design, train.n_users, transposed=True)
    assert of_users == of_items == trained
    assert not held_out & of_users
    user, item = next(iter(held_out))
    planted = CSR.group(
        np.append(train.user_rows, np.int32(user)),
        np.append(train.item_rows, np.int32(item)),
        np.append(train.values, np.float32(1)),
        train.n_users,
    )
    leaking = pairs_in_bags(Design.of(train.user_features, planted, train.n_items), train.n_items)
    assert leaking & held_out == {(user, item)}


def test_bags_have_the_pattern_and_not_the_ratings():
    pairs = CSR(
        np.array([0, 2, 2, 6]), np.array([0, 2, 1, 2, 3, -1], np.int32), np.array([5, 1, 2, 3, 4, 5], np.float32)
    )
    bag = bag_of(pairs, 5).toarray()
    expected = np.zeros((3, 5))
    expected[0, [0, 2]] = 2**-0.5
    expected[2, [1, 2, 3]] = 3**-0.5  # -1 is no item of the vocabulary, and counts for nothing
    np.testing.assert_allclose(bag, expected)


def test_training_users_are_folded_in_as_the_sampler_draws_them(split, fitted):
    """Their prior mean comes from the bag of their history: a user like them with the same history is believed the
    same."""
    train = split.train
    user = train.users.ids[0]
    mine = train.user_rows == 0
    history = dict(zip(train.item_ids().filter(mine), train.values[mine].tolist(), strict=True))
    known = fitted.recommend([user], 5)
    new = fitted.recommend(["someone new"], 5, history=history)
    np.testing.assert_array_equal(known.item_rows, new.item_rows)
    np.testing.assert_allclose(known.scores, new.scores, rtol=1e-5)


def test_users_are_normal_around_means_of_their_own(split, fitted):
    """The belief about a user, written once more: prior mean mu + B^T x, precision Lambda + alpha V^T V."""
    draws, train = fitted.posterior_.draws, split.train
    rows = train.user_rows == 3
    items, values = train.item_rows[rows], train.values[rows]
    belief = fitted.about([train.users.ids[3]]).belief
    means, _ = belief.means(0, 1)
    s, width = 4, draws.n_factors + 1
    bag = np.zeros(train.n_items)
    bag[items] = len(items) ** -0.5
    mean = np.append(draws.users.means[s], draws.users.bias_means[s])
    mean = mean + bag @ draws.user_features.coefficients[:, s]
    precision = np.zeros((width, width))
    precision[:-1, :-1], precision[-1, -1] = draws.users.precisions[s], draws.users.bias_precisions[s]
    others = draws.items[items, s].astype(np.float64)
    target = (values - draws.offset) / draws.scale - others[:, -1]
    others[:, -1] = 1
    left = precision + draws.alpha[s] * others.T @ others
    expected = np.linalg.solve(left, precision @ mean + draws.alpha[s] * others.T @ target)
    np.testing.assert_allclose(means[0, s], expected, rtol=1e-3, atol=1e-4)


def test_evidence_counts_the_prior_of_each_user(split, fitted):
    """log p(ratings | draw) by the book, up to a constant for all draws of a user."""
    draws, train = fitted.posterior_.draws, split.train
    history = train.by_user.take(np.array([5], np.int32))
    found = evidence(draws.for_users(None, history), history, 1)[0]
    expected = []
    for s in range(4):
        others = np.column_stack([draws.items[history.columns, s, :-1], np.ones(len(history.columns))]).astype(float)
        shift = len(history.columns) ** -0.5 * draws.user_features.coefficients[history.columns, s].sum(axis=0)
        mean = np.append(draws.users.means[s], draws.users.bias_means[s]) + shift
        covariance = np.zeros((draws.n_factors + 1,) * 2)
        covariance[:-1, :-1] = np.linalg.inv(draws.users.precisions[s])
        covariance[-1, -1] = 1 / draws.users.bias_precisions[s]
        spread = others @ covariance @ others.T + np.eye(len(others)) / draws.alpha[s]
        target = (history.values - draws.offset) / draws.scale - draws.items[history.columns, s, -1] - others @ mean
        expected.append(-(np.linalg.slogdet(spread)[1] + target @ np.linalg.solve(spread, target)) / 2)
    np.testing.assert_allclose(np.diff(found[:4]), np.diff(expected), rtol=1e-2, atol=1e-2)


def test_saved_models_answer_the_same(tmp_path, split, fitted):
    ts.save(fitted, tmp_path / "model")
    loaded = ts.load(tmp_path / "model")
    users, items = split.test.user_ids(), split.test.item_ids()
    np.testing.assert_array_equal(fitted.predict(users, items).mean, loaded.predict(users, items).mean)
    kept = loaded.posterior_.draws.item_features
    assert [group.name for group in kept.groups] == ["kind", "bag"]
    assert kept.coefficients.shape[0] == kept.n_attributes == 2  # items that have a bag have draws of their own


@pytest.mark.parametrize("likelihood", ["heteroscedastic", "ordinal", "logistic", "probit", "probit:negatives=uniform"])
def test_every_likelihood_takes_features(likelihood):
    if likelihood == "ordinal":
        ratings = ordinal(60, 30, n_factors=2, density=0.3, rng=generator(4))[0]
    elif likelihood in ("logistic", "probit"):
        ratings = yes_no(60, 30, n_factors=2, density=0.3, rng=generator(4))[0]
    else:
        ratings = gaussian(60, 30, n_factors=2, density=0.3, rng=generator(4))[0]
    if "negatives" in likelihood:
        ratings = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids())
    ratings = ratings.with_user_features("bag").with_item_features("bag")
    model = BPMF(**SHORT, likelihood=likelihood).fit(ratings)
    assert np.isfinite(model.recommend(ratings.users.ids[:3], 3).scores).all()
    bag = model.posterior_.draws.user_features
    assert bag.coefficients.shape == (ratings.n_items, 20, 4)


def test_negatives_are_in_no_bag():
    ratings = gaussian(60, 30, n_factors=2, density=0.3, rng=generator(4))[0]
    chosen = Ratings.from_arrays(ratings.user_ids(), ratings.item_ids()).with_user_features("bag")
    both = chosen.take(np.arange(len(chosen)))
    values = np.where(np.arange(len(chosen)) % 3 > 0, 1, 0).astype(np.float32)
    model = BPMF(**SHORT, likelihood="probit:negatives=uniform")
    design = model.story(ts.Ratings.from_arrays(both.user_ids(), both.item_ids(), values).with_user_features("bag"))
    assert design.user_prior.design.matrix.nnz == int((values > 0).sum())


def test_same_bytes_for_any_number_of_threads(split):
    one, two = (BPMF(**SHORT, threads=n).fit(split.train).posterior_ for n in (1, 2))
    np.testing.assert_array_equal(one.draws.items, two.draws.items)
    np.testing.assert_array_equal(one.draws.user_features.coefficients, two.draws.user_features.coefficients)


def test_features_need_a_prior_that_they_can_shift(split):
    with pytest.raises(InvalidParameterError, match="prior='normal-wishart'"):
        BPMF(**{**SHORT, "n_factors": "auto"}).fit(split.train)
    model = BPMF(**SHORT).story(split.train)
    assert isinstance(model.item_prior, FeaturePrior)


def test_users_of_items_on_a_sphere_may_have_features(split):
    model = ts.SphereBPMF(**SHORT)
    with pytest.raises(InvalidParameterError, match="lie on a sphere"):
        model.fit(split.train)
    fitted = model.fit(split.train.with_item_features(None))
    assert fitted.feature_importance().to_polars()["side"].to_list() == ["user"]
    user = split.train.users.ids[0]
    mine = split.train.user_rows == 0
    history = dict(zip(split.train.item_ids().filter(mine), split.train.values[mine].tolist(), strict=True))
    known, new = fitted.recommend([user], 5), fitted.recommend(["someone new"], 5, history=history)
    np.testing.assert_array_equal(known.item_rows, new.item_rows)


def planted(n_users=200, n_items=120, seed=5):
    """Items of two kinds, which users like more or less; one user in two has a job that tells which. And noise."""
    rng = generator(seed)
    kinds, jobs = rng.integers(0, 2, n_items), rng.integers(0, 2, n_users)
    likes = np.where(jobs == 1, 1.0, -1.0) + 0.2 * rng.standard_normal(n_users)
    where = rng.random((n_users, n_items)) < 0.25
    users, items = np.nonzero(where)
    values = 3 + likes[users] * np.where(kinds[items] == 1, 0.8, -0.8) + 0.4 * rng.standard_normal(len(users))
    ratings = Ratings.from_arrays(users, items, values.astype(np.float32))
    kinds_of = {int(item): {"kind": "ab"[kinds[int(item)]], "chance": float(rng.random())} for item in range(n_items)}
    jobs_of = {int(user): {"job": "xy"[jobs[int(user)]]} for user in range(n_users)}
    return ratings, kinds_of, jobs_of, kinds, likes


@pytest.fixture(scope="module")
def described():
    """A model that knows 100 of 120 items, and 180 of 200 users."""
    ratings, kinds, jobs, *truth = planted()
    is_known = (ratings.item_ids().to_numpy() < 100) & (ratings.user_ids().to_numpy() < 180)
    train = ratings.take(np.flatnonzero(is_known))
    known = {item: cells for item, cells in kinds.items() if item < 100}
    people = {user: cells for user, cells in jobs.items() if user < 180}
    train = train.with_item_features(known).with_user_features(people)
    model = BPMF(n_factors=2, chains=2, warmup=40, draws=40, thin=1, seed=1).fit(train)
    return model, ratings, kinds, jobs, truth


def test_items_that_nobody_has_rated_are_predicted_by_their_features(described):
    model, ratings, kinds, _, _ = described
    new = {item: cells for item, cells in kinds.items() if item >= 100}
    extended = model.with_items(new)
    is_cold = (ratings.item_ids().to_numpy() >= 100) & (ratings.user_ids().to_numpy() < 180)
    test = ratings.take(np.flatnonzero(is_cold))
    found = extended.predict(test.user_ids(), test.item_ids())
    without = model.predict(test.user_ids(), test.item_ids())

    def error(predicted):
        return float(np.sqrt(np.mean((predicted.mean - test.values) ** 2)))

    assert error(found) < 0.5 < 0.7 < error(without)
    low, high = found.interval(0.9).T
    assert 0.85 <= np.mean((low <= test.values) & (test.values <= high)) <= 0.97
    # They are in lists, and warm items are what they were.
    assert np.isin(extended.recommend([0], 120, exclude=None).item_ids.to_numpy(), range(100, 120)).sum() == 20
    warm = ratings.take(np.flatnonzero(~is_cold)[:50])
    warm = warm.take(np.flatnonzero((warm.item_ids().to_numpy() < 100) & (warm.user_ids().to_numpy() < 180)))
    np.testing.assert_allclose(
        extended.predict(warm.user_ids(), warm.item_ids()).mean,
        model.predict(warm.user_ids(), warm.item_ids()).mean,
        rtol=1e-4,
    )


def test_policies_treat_cold_items_by_what_is_unknown_of_them(described):
    """Curious lists show them, cautious ones do not, and the expected rating is in between."""
    model, _, kinds, *_ = described
    extended = model.with_items({item: cells for item, cells in kinds.items() if item >= 100})

    def share(policy):
        found = extended.recommend(list(range(60)), 20, policy=policy, include_seen=True)
        return float(np.mean(found.item_ids.to_numpy() >= 100))

    of_all = 20 / 120
    assert share("cautious") < 0.02 < share("best") < of_all < share("curious")


def test_new_users_are_predicted_by_their_features(described):
    model, ratings, _, jobs, _ = described
    is_cold = (ratings.item_ids().to_numpy() < 100) & (ratings.user_ids().to_numpy() >= 180)
    test = ratings.take(np.flatnonzero(is_cold))
    told = {user: cells for user, cells in jobs.items() if user >= 180}
    found = model.predict(test.user_ids(), test.item_ids(), user_features=told)
    without = model.predict(test.user_ids(), test.item_ids())
    assert np.sqrt(np.mean((found.mean - test.values) ** 2)) < 0.55
    assert np.sqrt(np.mean((without.mean - test.values) ** 2)) > 0.7
    one = model.recommend(["someone"], 5, user_features={"job": "x"})
    other = model.recommend(["someone"], 5, user_features={"job": "y"})
    assert not set(one.item_ids.to_list()) & set(other.item_ids.to_list())


def chosen_by_taste():
    """Users rate what they like, so that liked items are rated often; and what is known of the items."""
    rng = generator(3)
    likes, kinds = rng.standard_normal(400), rng.standard_normal(240)
    agree = np.outer(likes, kinds) + 0.8 * kinds
    users, items = np.nonzero(rng.random(agree.shape) < 0.3 / (1 + np.exp(-2 * agree)))
    values = 3 + 0.7 * agree[users, items] + 0.4 * rng.standard_normal(len(users))
    known = {item: {"about": float(kinds[item] + 2 * rng.standard_normal())} for item in range(len(kinds))}
    return Ratings.from_arrays(users, items, values.astype(np.float32)), known


def test_rows_are_met_as_often_as_they_are_rated():
    assert met_rows(np.full(7, 3)).tolist() == list(range(7))
    assert met_rows(np.array([0, 1000, 0, 1000])).tolist() == [1, 3]
    many = np.bincount(met_rows(np.repeat([1, 3], 500)), minlength=1000)
    assert many.sum() == 800
    assert many[:500].sum() == 200
    assert met_rows(np.zeros(3, int)).tolist() == [2]


@pytest.mark.parametrize("bags", [False, True])
def test_new_items_are_like_those_that_ratings_are_of(bags, monkeypatch):
    """Ratings are mostly of popular items, which are better than what is known of them tells."""
    ratings, known = chosen_by_taste()
    is_new = ratings.item_ids().to_numpy() % 5 == 0
    train, test = (ratings.take(np.flatnonzero(some)) for some in (~is_new, is_new))
    train = train.with_item_features({item: cells for item, cells in known.items() if item % 5})
    if bags:
        train = train.with_user_features("bag").with_item_features("bag")
    new = {item: cells for item, cells in known.items() if item % 5 == 0}

    def found():
        model = BPMF(n_factors=2, chains=2, warmup=60, draws=60, thin=1, seed=1).fit(train).with_items(new)
        predicted = model.predict(test.user_ids(), test.item_ids())
        low, high = predicted.interval(0.9).T
        return float(np.mean(predicted.mean - test.values)), np.mean((low <= test.values) & (test.values <= high))

    error, held = found()
    assert abs(error) < 0.25
    assert 0.85 <= held <= 0.95
    monkeypatch.setattr(FeaturePrior, "draw_new", lambda self, rows, drawn, met, rng: drawn.bagless or drawn)
    error, held = found()
    assert error < -0.3


def test_who_and_what_has_no_bag_is_as_uncertain_as_it_should_be(tmp_path):
    """Bags tell a lot; those of new users and items are missing, and not empty."""
    ratings, _ = chosen_by_taste()
    is_new_user, is_new_item = (ids.to_numpy() % 5 == 0 for ids in (ratings.user_ids(), ratings.item_ids()))
    train = ratings.take(np.flatnonzero(~is_new_user & ~is_new_item))
    train = train.with_user_features("bag").with_item_features("bag")
    model = BPMF(n_factors=2, chains=2, warmup=60, draws=60, thin=1, seed=1).fit(train)
    ts.save(model, tmp_path / "model")
    loaded = ts.load(tmp_path / "model")
    for some in (is_new_user & ~is_new_item, ~is_new_user & is_new_item):
        test = ratings.take(np.flatnonzero(some))
        found = model.predict(test.user_ids(), test.item_ids())
        np.testing.assert_array_equal(loaded.predict(test.user_ids(), test.item_ids()).mean, found.mean)
        low, high = found.interval(0.9).T
        assert 0.84 <= np.mean((low <= test.values) & (test.values <= high)) <= 0.96


def test_features_that_explain_have_the_larger_share(described):
    found = described[0].feature_importance().to_polars()
    shares = {(side, group): share for side, group, share in found.select("side", "group", "share").iter_rows()}
    assert shares["item", "kind"] > 0.7
    assert shares["item", "chance"] < 0.05
    assert shares["user", "job"] > 0.7
    assert (found["low"] <= found["share"]).all()


def test_features_of_users_that_the_model_does_not_know_are_refused(split, fitted, described):
    with pytest.raises(InvalidParameterError, match="without features of users"):
        fitted.recommend(["a"], 5, user_features={"job": "x"})
    plain = BPMF(**SHORT).fit(random_split(gaussian(30, 20, n_factors=2, density=0.3, rng=generator(1))[0], 0.1).train)
    with pytest.raises(InvalidParameterError, match="fitted without"):
        plain.feature_importance()
    with pytest.warns(UserWarning, match="none of the requested users"):
        described[0].recommend(["a"], 5, user_features={"b": {"job": "x"}})
