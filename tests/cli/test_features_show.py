"""`tastespace features show`: what is known in a model, and what it explains."""

import json

import numpy as np
import pytest
from cli.program import tastespace

import tastespace as ts


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 1500), rng.integers(0, 50, 1500)
    values = np.where(users % 2 == items % 2, 4, 2) + rng.integers(0, 2, 1500)
    return ts.Ratings.from_arrays(users, items, values)


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_show_lists_groups_with_what_they_explain(ratings, tmp_path):
    known = {item: {"genre": "ab"[item % 2], "noise": float(item * 7 % 11)} for item in range(50)}
    model = ts.BPMF(n_factors=2, warmup=20, draws=40, chains=1, seed=0).fit(ratings.with_item_features(known))
    ts.save(model, tmp_path / "model")
    done = tastespace("features", "show", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert "item features  genre: category, 2 columns" in done.stdout
    assert "explains" in done.stdout
    content = json.loads(tastespace("features", "show", tmp_path / "model", "--json").stdout)
    assert content["features"]["item"]["groups"][0]["name"] == "genre"
    assert content["importance"] is not None


def test_models_without_features_say_so(ratings, tmp_path):
    ts.save(ts.DampedBias().fit(ratings), tmp_path / "model")
    done = tastespace("features", "show", tmp_path / "model")
    assert done.returncode == 1
    assert "was fitted without features" in done.stderr
    described = ts.DampedBias().fit(ratings.with_item_features({item: {"x": item} for item in range(50)}))
    ts.save(described, tmp_path / "described")
    done = tastespace("features", "show", tmp_path / "described")
    assert "DampedBias does not say how much they explain" in done.stdout
