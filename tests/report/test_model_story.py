"""What a model says of itself: values that JSON knows, and of each model what it has."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import ALS, BPMF, VB, DampedBias, ImplicitALS, Ordinal, Ratings, artifact
from tastespace.errors import TastespaceError
from tastespace.inference.diagnostics import diagnose
from tastespace.randomness import generator
from tastespace.report.model_story import NOISIEST, common_values, model_outline, model_story, plain
from tastespace.testing.toys import counts, gaussian

OUTLINE = {"class", "range", "levels", "takes_choices", "scores_are_ratings", "can", "attributes"}
STORY = OUTLINE | {"model", "parameters", "data", "seen", "measures", "choice", "chains", "course", "noise", "index"}
QUICK = {"n_factors": 2, "warmup": 10, "draws": 60, "seed": 1, "threads": 1}


def stars(n_users: int = 40, n_items: int = 30) -> Ratings:
    raw, _ = gaussian(n_users, n_items, density=0.5, rng=generator(1))
    return Ratings.from_arrays(raw.user_ids(), raw.item_ids(), raw.values.round().clip(1, 5))


def told(model, folder, **measures):
    """Saved and loaded, as whoever shows it does; the story has been through JSON."""
    artifact.save(model, folder, measures=measures)
    story = model_story(artifact.load(folder), artifact.read_manifest(folder))
    assert story.keys() == STORY
    assert json.loads(json.dumps(story, allow_nan=False)) == story  # Only what JSON knows, and nothing is lost.
    return story


def test_chains_of_a_sampler_are_reported_sweep_by_sweep(tmp_path):
    model = BPMF(**QUICK, chains=2).fit(stars())
    story = told(model, tmp_path / "model")
    assert (story["class"], story["model"], story["takes_choices"]) == ("BPMF", "bpmf", False)
    assert story["can"] == {"uncertainty": True, "choices": False, "ask": True, "map": True}
    chains, trace = story["chains"], model.posterior_.trace
    assert chains["warmup"] == 10
    assert "noise sd" in chains["quantities"]
    for values in chains["quantities"].values():
        assert np.shape(values) == (2, trace.sweeps)
    np.testing.assert_allclose(chains["quantities"]["noise sd"], trace.quantities["noise sd"], rtol=1e-5)
    diagnosis = diagnose(trace)
    assert [row["quantity"] for row in chains["rows"]] == diagnosis.to_polars()["quantity"].to_list()
    assert (chains["schedule"], chains["meaning"]) == (diagnosis.schedule(), diagnosis.meaning())
    assert chains["warning"] == diagnosis.trouble
    assert story["course"] is None
    # Where noise is the same for all, nobody is named.
    assert story["noise"]["sd"] == pytest.approx(trace.quantities["noise sd"][:, 10:].mean(), rel=1e-5)
    assert (story["noise"]["users"], story["noise"]["items"]) == (None, None)


@pytest.fixture(scope="module")
def uneven() -> BPMF:
    ratings = stars()
    ratings = ratings.with_items(pl.Series("title", [f"Film {row}" for row in range(ratings.n_items)]), None)
    return BPMF(**QUICK, chains=1, likelihood="heteroscedastic").fit(ratings)


def test_uneven_noise_names_the_noisiest(uneven, tmp_path):
    noise, model = told(uneven, tmp_path / "model")["noise"], uneven
    for side, found, n in (
        ("users", model.erratic_users(40), 40),
        ("items", model.divisive_items(30), 30),
    ):
        assert sum(noise[side]["counts"]) == n
        assert len(noise[side]["edges"]) == len(noise[side]["counts"]) + 1
        assert noise[side]["edges"][-1] == pytest.approx(found.noise_sd[0], rel=1e-5)
        named = noise[side]["noisiest"]
        assert [row["id"] for row in named] == [str(one) for one in found.ids[:NOISIEST]]
        sds = [row["noise_sd"] for row in named]
        assert sds == sorted(sds, reverse=True)
    assert noise["items"]["noisiest"][0]["title"].startswith("Film ")


def test_a_model_without_its_ratings_tells_nothing_of_its_users(uneven, tmp_path):
    artifact.save(uneven, tmp_path / "model", with_ratings=False)
    story = model_story(artifact.load(tmp_path / "model"), artifact.read_manifest(tmp_path / "model"))
    json.dumps(story, allow_nan=False)
    assert story["levels"] == [1, 2, 3, 4, 5]  # The model has them.
    assert (story["noise"]["users"], story["noise"]["items"]) == (None, None)
    assert story["noise"]["sd"] > 0
    bare = DampedBias().fit(stars())
    artifact.save(bare, tmp_path / "bare", with_ratings=False)
    assert model_outline(artifact.load(tmp_path / "bare"))["levels"] is None  # Nobody does.


def test_a_model_of_points_tells_its_loss(tmp_path):
    model = ALS(n_factors=2, regularization=0.1, seed=1, threads=1).fit(stars())
    story = told(model, tmp_path / "model")
    assert story["course"]["name"] == "loss"
    losses = story["course"]["values"]
    assert len(losses) > 1
    assert losses[-1] < losses[0]
    assert (story["chains"], story["noise"]) == (None, None)
    assert story["can"] == {"uncertainty": False, "choices": False, "ask": False, "map": True}
    assert story["parameters"]["n_factors"] == 2
    assert "threads" not in story["parameters"]


def test_variational_bayes_tells_its_bound(tmp_path):
    story = told(VB(n_factors=2, seed=1, threads=1).fit(stars()), tmp_path / "model")
    assert story["course"]["name"] == "bound on the log evidence"
    bounds = story["course"]["values"]
    assert bounds[-1] > bounds[0]
    assert story["chains"] is None
    assert story["can"]["uncertainty"]


def test_choices(tmp_path):
    ratings = counts(40, 30, rng=generator(2))[0].with_kind("counts")
    story = told(ImplicitALS(n_factors=2, seed=1, threads=1).fit(ratings), tmp_path / "model")
    assert story["takes_choices"]
    assert story["course"]["name"] == "loss"
    assert story["levels"] == sorted(set(ratings.values.tolist()))
    assert (story["chains"], story["noise"]) == (None, None)


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
def test_a_model_of_choices_and_ratings_says_so_and_why_it_was_chosen(tmp_path):
    story = told(ts.fit(stars(), seed=1, threads=1), tmp_path / "model")
    assert story["class"] == "Joint"
    assert story["can"] == {"uncertainty": True, "choices": True, "ask": True, "map": True}
    assert story["choice"]["model"] == "joint"
    assert story["choice"]["because"].startswith("the values are stars")


def test_a_baseline_has_little_to_say(tmp_path):
    story = told(DampedBias().fit(stars()), tmp_path / "model")
    assert story["can"] == {"uncertainty": False, "choices": False, "ask": False, "map": False}
    assert [story[name] for name in ("chains", "course", "noise", "index")] == [None] * 4
    assert story["measures"] == {}
    assert (story["data"]["n_users"], story["data"]["n_items"]) == (40, 30)
    assert f"{story['data']['n_ratings']:,}" in story["seen"]


def test_levels_are_those_that_there_are():
    assert model_outline(DampedBias().fit(stars()))["levels"] == [1, 2, 3, 4, 5]
    assert model_outline(DampedBias().fit(stars()))["range"] == [1, 5]
    many = gaussian(40, 30, density=0.5, rng=generator(1))[0]  # Each value is another.
    assert model_outline(DampedBias().fit(many))["levels"] is None


def test_unused_levels_are_those_of_the_model():
    """Nobody gave 3 stars, but the model was told that there are."""
    raw = stars()
    without = raw.masked(raw.values != 3)
    model = BPMF(**QUICK, chains=1, likelihood=Ordinal(levels=[1, 2, 3, 4, 5])).fit(without)
    assert model_outline(model)["levels"] == [1, 2, 3, 4, 5]


def test_attributes_of_all_types():
    n = 30
    about = pl.DataFrame(
        {
            "year": pl.Series([None if item % 4 == 0 else 1950 + item for item in range(n)], dtype=pl.Int64),
            "score": pl.Series([item / 7 for item in range(n)]),
            "unknown": pl.Series([None] * n, dtype=pl.Float64),
            "genres": [["Drama", "Comedy"] if item % 3 == 0 else ["Drama"] for item in range(n)],
            "country": ["FR" if item % 3 else None for item in range(n)],
            "nothing": pl.Series([None] * n, dtype=pl.String),
        }
    )
    model = DampedBias().fit(stars().with_items(None, about))
    outline = model_outline(model)
    assert outline.keys() == OUTLINE
    assert outline["attributes"] == {
        "year": {"least": 1951, "most": 1979},
        "score": {"least": 0, "most": pytest.approx(29 / 7, rel=1e-5)},
        "genres": {"values": ["Drama", "Comedy"]},
        "country": {"values": ["FR"]},
        "nothing": {"values": []},
    }
    json.dumps(outline, allow_nan=False)


def test_common_values_come_first_and_then_by_name():
    assert common_values(pl.Series(["b", "a", "c", "c", None])) == ["c", "a", "b"]
    assert common_values(pl.Series(["b", "a", "c", "c", None]), 2) == ["c", "a"]
    assert common_values(pl.Series([["x", "y"], [], None, ["y", None]])) == ["y", "x"]


def test_measures_are_those_of_the_manifest(tmp_path):
    kept = {"holdout": {"rmse": 0.8512345678, "coverage": float("nan"), "n": 12, "kind": "random"}}
    model = DampedBias().fit(stars())
    manifest = {"model": "bias", "parameters": {}, "data": {}, "measures": kept}
    story = model_story(model, manifest)
    assert story["measures"] == {"holdout": {"rmse": 0.851235, "coverage": None, "n": 12, "kind": "random"}}
    assert told(model, tmp_path / "model", holdout={"rmse": 0.5})["measures"] == {"holdout": {"rmse": 0.5}}
    assert model_story(model, {**manifest, "measures": None})["measures"] == {}  # of an old artifact


def test_an_index_tells_why_it_was_chosen(tmp_path):
    manifest = {"model": "bias", "parameters": {}, "data": {}}
    entry = {"chosen": "hnsw", "target": 0.95, "curve": [{"recall": np.float32(0.5)}], "seed": 1}
    story = model_story(DampedBias().fit(stars()), {**manifest, "index": entry})
    assert story["index"] == {"chosen": "hnsw", "target": 0.95, "curve": [{"recall": 0.5}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([1.0, np.nan, -np.inf]), [1.0, None, None]),
        (pl.Series([1, None]), [1, None]),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.float32(0.1), 0.1),
        ((1, "a", None, True), [1, "a", None, True]),
        ({1: {"a": 1 / 3}}, {"1": {"a": 0.333333}}),
        (np.zeros((2, 0)), [[], []]),
    ],
)
def test_plain_values(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def test_a_model_that_is_not_fitted_has_no_story():
    with pytest.raises(TastespaceError, match="fit"):
        model_outline(ALS())
