"""Models of clusters: co-clusters of both sides, mixtures of kinds of users."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from tastespace import PLSA, CoClusters, DampedBias, Ratings, UserMixture, random_split, write_co_clusters
from tastespace.errors import InvalidParameterError
from tastespace.models.composed.co_clusters import clustered
from tastespace.randomness import generator


@pytest.fixture(scope="module")
def planted():
    """Users of 4 kinds and items of 3, a mean for each pair of kinds, and noise with an sd of 0.5."""
    rng = generator(7)
    users, items = rng.integers(0, 4, 300), rng.integers(0, 3, 120)
    means = np.array([[4.5, 1.5, 3], [1.5, 4.5, 3], [3, 1.5, 4.5], [3, 4.5, 1.5]])
    there = rng.random((300, 120)) < 0.25
    rows, columns = np.nonzero(there)
    values = means[users[rows], items[columns]] + rng.normal(0, 0.5, len(rows))
    ratings = Ratings.from_arrays(rows, columns, np.clip(values, 1, 5).astype(np.float32))
    return random_split(ratings, 0.2, seed=1), users, items


def error(model, split):
    found = model.predict(split.test.user_ids(), split.test.item_ids()).mean
    return float(np.sqrt(np.mean((found - split.test.values) ** 2)))


@pytest.mark.parametrize(
    "model",
    [CoClusters(seed=0), UserMixture(n_clusters=8, shrinkage=2.0, seed=0), PLSA(n_clusters=8, shrinkage=2.0, seed=0)],
    ids=["co-clusters", "mixture", "plsa"],
)
def test_planted_clusters_are_found(model, planted):
    """The noise alone has an error of nearly 0.5, and what biases know leaves more."""
    split = planted[0]
    assert error(model.fit(split.train), split) < 0.62
    assert error(DampedBias(seed=0).fit(split.train), split) > 0.75


def test_clusters_are_those_that_were_planted(planted):
    split, users, items = planted
    model = CoClusters(seed=0, explained=0.9).fit(split.train)
    for name, truth, ids in (("users", users, split.train.users.ids), ("items", items, split.train.items.ids)):
        cells = model.clusters_[name].cells
        kinds = truth[ids.to_numpy()]
        agreed = sum(np.bincount(kinds[cells == cell]).max() for cell in range(cells.max() + 1))
        assert agreed / len(cells) > 0.95


def test_as_few_clusters_as_explain_the_share():
    rng = generator(1)
    points = np.repeat(rng.normal(0, 10, (5, 3)), 30, axis=0) + rng.normal(0, 0.01, (150, 3))
    cells, centers = clustered(points, 0.999, 50, rng)
    assert len(centers) == 5
    assert sorted(np.bincount(cells)) == [30] * 5
    np.testing.assert_allclose(centers[cells[0]], points[cells == cells[0]].mean(axis=0))
    assert len(clustered(points, 0.999, 3, rng)[1]) == 3
    assert len(clustered(np.ones((6, 3)), 0.5, 4, rng)[1]) == 1


def test_predictions_are_the_formula(planted):
    """Biases and the mean of residuals among near users and items of the block, written down with loops."""
    split = planted[0]
    model = CoClusters(seed=0, n_neighbors=5, refinement=3.0, shrinkage=4.0).fit(split.train)
    posterior, ratings = model.posterior_, split.train
    baseline = DampedBias(seed=0).fit(ratings)
    user_bias, item_bias = posterior.baseline.user_bias(ratings.by_user), posterior.baseline.item_bias
    left = np.full((ratings.n_users, ratings.n_items), np.nan)
    expected = ratings.mean + user_bias[ratings.user_rows] + item_bias[ratings.item_rows]
    left[ratings.user_rows, ratings.item_rows] = ratings.values - expected
    users, items = model.clusters_["users"], model.clusters_["items"]

    def near(side, row):
        others = np.flatnonzero(side.cells == side.cells[row])
        apart = ((side.points[others].astype(float) - side.points[row]) ** 2).sum(axis=1)
        return others[np.argsort(apart, kind="stable")[:5]]

    for user, item in [(0, 0), (17, 3), (200, 90)]:
        block = left[np.ix_(users.cells == users.cells[user], items.cells == items.cells[item])]
        block_mean = np.nansum(block) / ((~np.isnan(block)).sum() + 4.0)
        chosen = left[np.ix_(near(users, user), near(items, item))]
        refined = (np.nansum(chosen) + 3.0 * block_mean) / ((~np.isnan(chosen)).sum() + 3.0)
        plain = ratings.mean + user_bias[user] + item_bias[item]
        found = model.predict([ratings.users.ids[user]], [ratings.items.ids[item]]).unclipped[0]
        assert found == pytest.approx(plain + refined, abs=1e-4)
    assert baseline.ratings_ is ratings


def test_people_like_you_and_films_like_this(planted):
    split = planted[0]
    model = CoClusters(seed=0).fit(split.train)
    user, items = split.train.users.ids[0], split.train.items.ids.head(2)
    found = model.blocks(user, items)
    cells = model.clusters_
    mine = cells["users"].cells == cells["users"].cells[0]
    assert found.n_users == mine.sum()
    there = mine[split.train.user_rows] & (cells["items"].cells == cells["items"].cells[1])[split.train.item_rows]
    assert found.n_ratings[1] == there.sum()
    assert found.rating[1] == pytest.approx(split.train.values[there].mean(), rel=1e-5)
    assert f"of cluster {found.user_cluster} with {found.n_users} users" in repr(found)
    new = model.blocks("nobody", items, history={split.train.items.ids[3]: 5.0})
    assert len(new) == 2


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra plot")
def test_figures_of_both_sides(planted, tmp_path):
    model = CoClusters(seed=0).fit(planted[0].train)
    paths = write_co_clusters(model, tmp_path / "figures")
    assert [path.name for path in paths] == ["users.svg", "items.svg"]
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_co_clusters(model, tmp_path / "figures")] == before


@pytest.mark.parametrize("model", [UserMixture, PLSA])
def test_the_penalized_likelihood_never_falls(model, planted):
    fitted = model(n_clusters=6, shrinkage=1.0, tolerance=0.0, steps=30, seed=3).fit(planted[0].train)
    found = fitted.posterior_.objectives
    assert len(found) > 10
    assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()


def test_a_mixture_is_bayes_rule_for_the_kind_of_a_user(planted):
    kinds = UserMixture(n_clusters=3, seed=1).fit(planted[0].train).posterior_.kinds
    history = planted[0].train.by_user.take(np.array([5], np.int32))
    left = replace(history, values=history.values - 3)
    weights, likelihood = kinds.memberships(left)
    sd = np.sqrt(kinds.variance)
    densities = np.exp(kinds.log_shares) * np.prod(
        np.exp(-((left.values[:, None] - kinds.means[left.columns]) ** 2) / (2 * sd**2)) / (sd * np.sqrt(2 * np.pi)),
        axis=0,
    )
    np.testing.assert_allclose(weights[0], densities / densities.sum(), rtol=1e-6)
    assert likelihood[0] == pytest.approx(np.log(densities.sum()))


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        *((CoClusters, name, 0) for name in ("n_factors", "max_clusters", "n_neighbors", "shrinkage", "refinement")),
        *((CoClusters, "explained", value) for value in (0.0, 1.0)),
        *((UserMixture, name, 0) for name in ("n_clusters", "shrinkage", "steps")),
        (PLSA, "tolerance", -1.0),
    ],
)
def test_senseless_parameters_are_refused(model, name, value, planted):
    with pytest.raises(InvalidParameterError, match=name):
        model(**{name: value}).fit(planted[0].train)
