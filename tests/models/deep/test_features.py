"""Features learned from ratings, from Python and on the command line."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cli.program import tastespace

from tastespace import BPMF, Ratings, deep, read
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

FEW = {"n_features": 3, "n_hidden": 6, "epochs": 3, "n_factors": 2, "seed": 1}


@pytest.fixture(scope="module")
def ratings():
    return tastes(40, 30, rng=generator(3))[0]


@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("method", ["rbm", "dbn"])
def test_one_row_each(side, method, ratings):
    found = deep.features(ratings, side=side, method=method, **FEW)
    ids = getattr(ratings, side).ids
    assert found.columns == [side[:-1], f"{method}_of_ratings"]
    assert found[side[:-1]].to_list() == ids.to_list()
    vectors = found[f"{method}_of_ratings"].to_numpy()
    assert vectors.shape == (len(ids), 3)
    again = deep.features(ratings, side=side, method=method, **FEW)
    np.testing.assert_array_equal(again.to_series(1).to_numpy(), vectors)


def test_features_of_the_pattern_do_not_see_values(ratings):
    """Those of ratings do, so the test can fail."""
    other = replace(ratings, values=ratings.values[::-1].copy())
    for of, is_same in (("pattern", True), ("ratings", False)):
        one, two = (deep.features(part, of=of, **FEW).to_series(1).to_numpy() for part in (ratings, other))
        assert np.array_equal(one, two) == is_same


def test_features_of_items_tell_which_have_the_same_raters():
    """Items of one half are rated by one half of the users: features of the pattern separate them."""
    rng = generator(2)
    users, items = np.divmod(np.arange(60 * 40), 40)
    kept = (users % 2 == items % 2) & (rng.random(len(users)) < 0.8)
    board = Ratings.from_arrays(users[kept], items[kept], rng.integers(1, 6, kept.sum()))
    ways = {"method": "rbm", "of": "pattern", "n_features": 4, "epochs": 60, "seed": 1}
    found = deep.features(board, side="items", **ways)
    vectors, parity = found.to_series(1).to_numpy(), found["item"].to_numpy() % 2
    apart = np.abs(vectors[:, None] - vectors[None]).sum(axis=2)
    same = parity[:, None] == parity
    assert apart[same].mean() < 0.5 * apart[~same].mean()


def error_and_coverage(train, test):
    """Test RMSE, and how many test ratings 90 % intervals hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BPMF(n_factors=10, warmup=40, draws=60, seed=0).fit(train)
    found = model.predict(test.user_ids(), test.item_ids())
    held = found.rating.contains(test.values, [0.9]).mean()
    return float(np.sqrt(np.mean((found.mean - test.values) ** 2))), float(held)


@pytest.mark.slow
def test_a_prior_may_know_the_pattern_and_not_the_values_of_the_same_ratings(datasets):
    """Features of the pattern lower the error, and intervals hold what they say. Features of the ratings themselves are
    counted twice: the error is larger, and intervals are too narrow."""
    train, test = (read(datasets / "ml-100k" / f"u1.{part}") for part in ("base", "test"))
    plain, held = error_and_coverage(train, test)
    assert 0.89 <= held <= 0.91
    found = {}
    for of in ("pattern", "ratings"):
        ways = {"of": of, "n_features": 32, "epochs": 30, "n_factors": 10, "seed": 0}
        known = train.with_user_features(deep.features(train, **ways))
        found[of] = error_and_coverage(known.with_item_features(deep.features(train, side="items", **ways)), test)
    assert found["pattern"][0] < plain - 0.005
    assert 0.89 <= found["pattern"][1] <= 0.91
    assert found["ratings"][0] > plain + 0.01
    assert found["ratings"][1] < 0.88


def test_senseless_parameters_are_refused(ratings):
    for name, value in (("side", "films"), ("of", "values"), ("method", "sums"), ("n_features", 0)):
        with pytest.raises(InvalidParameterError, match="side|of|features"):
            deep.features(ratings, **{name: value})


def test_on_the_command_line(ratings, tmp_path):
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    few = ("--n-features", "3", "--epochs", "2", "--seed", "1")
    out = tmp_path / "users.parquet"
    done = tastespace("features", "fit", tmp_path / "ratings.csv", "--out", out, "--of", "pattern", *few)
    assert done.returncode == 0, done.stderr
    assert "40 users with 3 features each" in done.stdout
    assert pl.read_parquet(out).columns == ["user", "rbm_of_pattern"]
    known = ("--model", "als", "--out", tmp_path / "model", "--user-features", out)
    fitted = tastespace("fit", tmp_path / "ratings.csv", *known)
    assert fitted.returncode == 0, fitted.stderr
    done = tastespace("features", "fit", tmp_path / "ratings.csv", "-o", out, "--side", "items", *few, "--json")
    assert json.loads(done.stdout)["n"] == 30
    done = tastespace("features", "fit", tmp_path / "ratings.csv", "--out", tmp_path / "users.csv", *few)
    assert done.returncode != 0
    assert "ends in .parquet" in done.stderr
