"""The taste map: principal components are those of the textbook, neighbours stay together, and users lie by tastes."""

from __future__ import annotations

import importlib.util

import numpy as np
import polars as pl
import pytest

from tastespace import ALS, BPMF, EASE, GlobalMean, Popular, Ratings
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.randomness import generator
from tastespace.report.taste_map import DRAWS, map_content, place_content, taste_map, user_place
from tastespace.testing.toys import gaussian

CLUSTERS, USERS, ITEMS = 4, 20, 18  # kinds of taste, users and items of each
needs_tsne = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs the extra plot")


def kinds_of_taste() -> Ratings:
    """Users and items of four kinds, their ids modulo 4: each user gives 5 stars to items of their own kind and
    1 or 2 to the others, to 28 of 72 items altogether."""
    rng = generator(11)
    rows = [
        (user, int(item), 5.0 if user % CLUSTERS == item % CLUSTERS else float(rng.integers(1, 3)))
        for user in range(CLUSTERS * USERS)
        for item in rng.choice(CLUSTERS * ITEMS, 28, replace=False)
    ]
    users, items, values = zip(*rows, strict=True)
    return Ratings.from_arrays(users, items, values)


@pytest.fixture(scope="module")
def planted() -> BPMF:
    return BPMF(n_factors=4, chains=1, warmup=40, draws=60, seed=1, threads=1).fit(kinds_of_taste())


@pytest.fixture(scope="module")
def points() -> ALS:
    """A model of points, whose items have five dimensions."""
    return ALS(n_factors=5, regularization=0.02, seed=1, threads=1).fit(gaussian(80, 50, rng=generator(4))[0])


def kinds(model) -> np.ndarray:
    """Of the items, in the order of their rows."""
    return model.ratings_.items.ids.to_numpy() % CLUSTERS


def nearest_are_alike(places: np.ndarray, kind: np.ndarray, n: int = 5) -> float:
    """How many of the n nearest neighbours of an item are of its kind; by chance about a quarter."""
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :n]
    return float((kind[nearest] == kind[:, None]).mean())


def test_principal_components_are_those_of_the_singular_values(points):
    shown = taste_map(points, "pca")
    centred = points.posterior_.embeddings.astype(np.float64)
    centred = centred - centred.mean(axis=0)
    left, values, directions = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * values[:2]
    # The sign is that which makes the largest share of a direction positive.
    expected *= [np.sign(row[np.abs(row).argmax()]) for row in directions[:2]]
    expected /= np.linalg.norm(expected, axis=1).max()
    np.testing.assert_allclose(shown.places, expected, atol=1e-5)
    assert shown.explained == pytest.approx((values[:2] ** 2).sum() / (values**2).sum(), rel=1e-9)
    assert 0.4 < shown.explained < 1
    assert shown.item_rows.tolist() == list(range(50))


def test_the_farthest_item_is_at_a_distance_of_one(planted):
    shown = taste_map(planted)
    assert shown.places.dtype == np.float32
    assert np.linalg.norm(shown.places, axis=1).max() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(shown.places.mean(axis=0), 0, atol=1e-6)


def test_two_dimensions_explain_all_of_two():
    ratings = gaussian(40, 30, rng=generator(4))[0]
    assert taste_map(ALS(n_factors=2, regularization=0.02, seed=1, threads=1).fit(ratings)).explained == pytest.approx(
        1
    )
    line = taste_map(ALS(n_factors=1, regularization=0.02, seed=1, threads=1).fit(ratings))
    assert line.places.shape == (30, 2)
    assert not line.places[:, 1].any()
    assert line.explained == pytest.approx(1)


@pytest.mark.parametrize("method", ["pca", pytest.param("tsne", marks=needs_tsne)])
def test_the_same_bytes_every_time(planted, method):
    one, other = (taste_map(planted, method) for _ in range(2))
    assert one.places.tobytes() == other.places.tobytes()
    assert one.usual.tobytes() == other.usual.tobytes()
    assert one.explained == other.explained
    places = [user_place(one, planted.about([3])) for _ in range(2)]
    assert places[0].draws.tobytes() == places[1].draws.tobytes()


@needs_tsne
def test_neighbours_stay_together_in_t_sne(planted):
    """Four kinds of 18 items: by chance 24 % of the neighbours of an item are of its kind."""
    shown = taste_map(planted, "tsne")
    assert shown.method == "tsne"
    assert shown.explained is None
    assert nearest_are_alike(shown.places, kinds(planted)) > 0.95
    shuffled = generator(1).permutation(kinds(planted))
    assert nearest_are_alike(shown.places, shuffled) < 0.4  # So the measure can tell.


@needs_tsne
def test_t_sne_of_a_handful(points):
    """Fewer items than the usual number of neighbours."""
    shown = taste_map(points, "tsne", max_items=4)
    assert shown.places.shape == (4, 2)
    assert np.isfinite(shown.places).all()


def test_only_the_most_rated_are_shown(planted):
    counts = np.bincount(planted.ratings_.item_rows)
    shown = taste_map(planted, max_items=10)
    assert len(shown.item_rows) == len(shown.places) == len(shown.usual) == 10
    assert (np.diff(shown.item_rows) > 0).all()
    left_out = np.setdiff1d(np.arange(len(counts)), shown.item_rows)
    assert counts[shown.item_rows].min() >= counts[left_out].max()
    content = map_content(planted, shown)
    assert content["total"] == CLUSTERS * ITEMS
    assert content["ratings"] == counts[shown.item_rows].tolist()
    assert content["items"] == [str(planted.ratings_.items.ids[int(row)]) for row in shown.item_rows]
    assert user_place(shown, planted.about([3])).draws.shape == (DRAWS, 2)


@pytest.mark.parametrize("method", ["pca", pytest.param("tsne", marks=needs_tsne)])
def test_a_user_is_among_the_items_of_their_kind(planted, method):
    shown, kind = taste_map(planted, method), kinds(planted)
    middles = np.stack([shown.places[kind == one].mean(axis=0) for one in range(CLUSTERS)])
    for user in range(12):
        place = user_place(shown, planted.about([user]))
        nearest = np.linalg.norm(middles - place.middle, axis=1).argmin()
        assert nearest == user % CLUSTERS, (user, place.middle)
        np.testing.assert_allclose(place.middle, place.draws.mean(axis=0, dtype=np.float64), atol=1e-6)


def test_a_history_says_where_a_new_user_is(planted):
    shown, kind = taste_map(planted), kinds(planted)
    for one in range(CLUSTERS):
        history = {item: 5.0 if item % CLUSTERS == one else 1.0 for item in range(24)}
        place = user_place(shown, planted.about(["new"], history=history))
        middles = np.stack([shown.places[kind == other].mean(axis=0) for other in range(CLUSTERS)])
        assert np.linalg.norm(middles - place.middle, axis=1).argmin() == one


def test_the_place_of_a_new_user_is_less_certain(planted):
    """The spread is the trace of the covariance of the draws."""

    def spread(request) -> float:
        return float(np.trace(np.cov(user_place(shown, request).draws.T)))

    shown = taste_map(planted)
    known = [spread(planted.about([user])) for user in range(8)]
    assert spread(planted.about(["nobody"])) > 3 * max(known)
    little = spread(planted.about(["new"], history={0: 5.0}))
    assert max(known) < little < spread(planted.about(["nobody"]))


def test_a_model_of_points_has_no_draws(points):
    shown = taste_map(points)
    place = user_place(shown, points.about([0]))
    assert place.draws is None
    content = place_content(place)
    assert content["draws"] is None
    assert content["middle"] == pytest.approx(place.middle.tolist(), abs=1e-4)
    # The middle of the twenty that gain most on what anybody would give.
    own = points.predict([0] * 50, points.ratings_.items.ids).unclipped
    own = points.predict([0] * 50, points.ratings_.items.ids).mean if own is None else own
    best = np.argsort(-(own - shown.usual))[:20]
    np.testing.assert_allclose(place.middle, shown.places[best].mean(axis=0), atol=1e-5)


def test_draws_are_sent_as_pairs_of_numbers(planted):
    content = place_content(user_place(taste_map(planted), planted.about([0])))
    assert len(content["draws"]) == DRAWS
    assert all(len(place) == 2 and all(isinstance(number, float) for number in place) for place in content["draws"])


@pytest.mark.parametrize("model", [Popular(), GlobalMean(), EASE(threads=1)])
def test_a_model_without_tastes_has_no_map(model):
    name = type(model).__name__
    choices = Ratings.from_arrays([0, 0, 1, 1, 2], [0, 1, 1, 2, 3], [1.0, 2, 1, 3, 1]).with_kind("counts")
    with pytest.raises(InvalidParameterError, match=f"{name} has no taste space .*expected a model with factors"):
        taste_map(model.fit(choices))


def test_two_items_make_no_map(points):
    with pytest.raises(InvalidParameterError, match="there are 2 items; expected at least 3 for a map"):
        taste_map(points, max_items=2)
    few = Ratings.from_arrays([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [1.0, 5, 2, 4, 3])
    with pytest.raises(InvalidParameterError, match="there are 2 items"):
        taste_map(ALS(n_factors=1, regularization=0.1, seed=1, threads=1).fit(few))


def test_an_unknown_method_is_reported(points):
    with pytest.raises(InvalidParameterError, match="the method is 'umap'; expected one of pca, tsne"):
        taste_map(points, "umap")


def test_a_model_that_is_not_fitted_has_no_map():
    with pytest.raises(TastespaceError, match="fit"):
        taste_map(ALS())


def test_items_that_are_all_alike_lie_in_the_middle():
    """Everybody gives 3: no dimension has any variance."""
    users, items = np.divmod(np.arange(40), 5)
    model = ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(
        Ratings.from_arrays(users, items, 3.0 + 0 * items)
    )
    shown = taste_map(model)
    assert not shown.places.any()
    assert shown.explained is None
    assert user_place(shown, model.about([0])).middle.tolist() == [0, 0]


def test_what_items_can_be_coloured_by(points):
    n = 50
    about = pl.DataFrame(
        {
            "year": pl.Series([1950 + item if item % 10 else None for item in range(n)], dtype=pl.Int64),
            "genres": [["Drama", "Comedy"] if item % 3 else (["Drama"] if item % 2 else None) for item in range(n)],
            "country": ["FR" if item < 30 else None for item in range(n)],
        }
    )
    titled = points.ratings_.with_items(pl.Series("title", [f"Film {item}" for item in range(n)]), about)
    model = ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(titled)
    content = map_content(model, taste_map(model))
    assert content["titles"][3] == "Film 3"
    attributes = content["attributes"]
    assert attributes["year"]["numbers"] == about["year"].to_list()
    assert attributes["genres"]["values"] == ["Drama", "Comedy"]
    assert attributes["genres"]["of"][:4] == [[], [0, 1], [0, 1], [0]]
    assert attributes["country"] == {"values": ["FR"], "of": [[0]] * 30 + [[]] * 20}
    for name in ("items", "titles", "x", "y", "ratings"):
        assert len(content[name]) == n, name
