"""The page about the format of artifacts names every array that a model saves, and every file and entry."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from tastespace import ALS, BPMF, Ratings, artifact, save
from tastespace.errors import ConvergenceWarning
from tastespace.models import MODELS
from tastespace.randomness import generator

PAGE = (Path(__file__).parents[2] / "docs/reference/file-format.md").read_text()
KINDS = {
    "constant noise": {},
    "noise of each": {"likelihood": "heteroscedastic"},
    "levels": {"likelihood": "ordinal"},
    "probit": {"likelihood": "probit"},
    "logistic": {"likelihood": "logistic"},
    "draws as it takes": {"draws": "auto"},
    "factors as it takes": {"n_factors": "auto"},
}


SHORT = {"vb": {"n_factors": 2, "passes": 3}, "joint": {"n_factors": 2, "warmup": 2, "draws": 3}}


def ratings(*, is_yes_or_no: bool = False) -> Ratings:
    rng = generator(0)
    users, items = rng.integers(0, 12, 150), rng.integers(0, 9, 150)
    values = rng.integers(1, 6, 150)
    return Ratings.from_arrays(users, items, values > 3 if is_yes_or_no else values)


def unnamed(arrays):
    """Quantities of a trace go by names of their own; sides of composed models are what their models save."""
    arrays = [re.sub("^(rating|factors|network)/", "", name).replace("linear/", "choice/") for name in arrays]
    arrays = [re.sub("^items/", "users/", name) for name in arrays]
    names = {"trace:quantity:…" if name.startswith("trace:quantity:") else name for name in arrays}
    return {name for name in names if f"`{name}`" not in PAGE}


@pytest.mark.parametrize("kind", KINDS)
def test_every_array_of_a_sampled_posterior_is_on_the_page(kind):
    parameters = {"n_factors": 2, "warmup": 2, "draws": 3, "seed": 0} | KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Any posterior will do here.
        model = BPMF(**parameters).fit(ratings(is_yes_or_no=kind in ("probit", "logistic")))
    arrays = model.posterior_.arrays()
    assert not unnamed(arrays)
    assert ("trace:wanted error" in arrays) == (kind == "draws as it takes")
    assert ("trace:rank search" in arrays) == (kind == "factors as it takes")
    if kind in ("levels", "probit", "logistic"):  # as the page says
        assert arrays["units"][:2].tolist() == [0, 1]
        assert np.all(arrays["alpha"] == 1)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if name != "bpmf" and model.extra is None])
def test_every_array_of_another_model_is_on_the_page(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MODELS[name](seed=0, **SHORT.get(name, {})).fit(ratings())
    assert not unnamed(model.posterior_.arrays())


def test_every_array_of_few_users_is_on_the_page():
    """The choice side of `joint`, where users are far fewer than items."""
    many = Ratings.from_arrays([0, 1, 2] * 20, range(60), [1.0, 3.0, 5.0] * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        arrays = MODELS["joint"](seed=0, **SHORT["joint"]).fit(many).posterior_.arrays()
    assert "choice/user_inverse" in arrays
    assert not unnamed(arrays)


def test_a_name_that_is_missing_is_noticed():
    assert unnamed({"items": 0, "array of tomorrow": 0}) == {"array of tomorrow"}


def test_files_and_entries_of_the_manifest_are_on_the_page(tmp_path):
    save(ALS(n_factors=2, regularization=0.1, seed=0).fit(ratings()), tmp_path / "model")
    assert all(f"`{file.name}`" in PAGE for file in (tmp_path / "model").iterdir())
    manifest = artifact.read_manifest(tmp_path / "model")
    assert all(f'"{name}"' in PAGE for name in (*manifest, *manifest["data"], *manifest["seen"]))
