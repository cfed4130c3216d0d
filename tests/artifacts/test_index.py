"""An index beside a model: kept whole or not at all, mapped when it is loaded, refused where it does not fit."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from tastespace import ALS, ItemKNN, artifact, load, save
from tastespace.artifact import save_index
from tastespace.errors import ArtifactError, InvalidParameterError
from tastespace.index.exact import Exact
from tastespace.index.inverted_file import InvertedFile
from tastespace.index.trials import StoredIndex, Target, Trial
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = tastes(30, 80, rng=generator(0))[0]


def fitted(seed=0, n_factors=2, ratings=RATINGS):
    return ALS(n_factors=n_factors, regularisation=0.1, seed=seed).fit(ratings)


def stored(model, probes=3):
    vectors = model.posterior_.item_vectors()
    index = InvertedFile(n_cells=7, probes=probes, seed=4).build(vectors)
    trial = Trial("inverted-file", index.description, {"n_cells": 7}, 0.9, 1.0, 12, 11, 5.0, 3.0, 10.0, 0.1, 99)
    return StoredIndex(index, trial, (trial,), Target(0.9))


@pytest.fixture
def model():
    return fitted()


@pytest.fixture
def saved(tmp_path, model):
    save(model, tmp_path / "model", measures={"holdout": {"rmse": 0.5}})
    return tmp_path / "model"


def queries(n=5, n_dimensions=3):
    return generator(1).standard_normal((n, n_dimensions)).astype(np.float32)


def test_what_is_loaded_finds_what_was_found(saved, model):
    assert load(saved).index_ is None
    kept = stored(model)
    save_index(saved, kept)
    again = load(saved)
    assert isinstance(again.index_, StoredIndex)
    assert again.index_.chosen == kept.chosen
    assert again.index_.curve == kept.curve
    assert again.index_.target == kept.target
    expected = kept.index.search(queries(), 6)
    found = again.index_.index.search(queries(), 6)
    assert_array_equal(found.items, expected.items)
    assert_array_equal(found.scores, expected.scores)


def test_the_model_beside_it_is_the_same(saved, model):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    save_index(saved, stored(model))
    after = {file.name: file.read_bytes() for file in saved.iterdir()}
    assert after.keys() - before.keys() == {"index.safetensors"}
    assert all(after[name] == before[name] for name in before if name != "manifest.json")
    manifest = artifact.read_manifest(saved)
    assert manifest["measures"] == {"holdout": {"rmse": 0.5}}
    assert manifest["files"]["index.safetensors"] == len(after["index.safetensors"])
    assert manifest["index"]["description"]["structure"] == "inverted-file"
    del manifest["index"], manifest["files"]["index.safetensors"]
    assert manifest == json.loads(before["manifest.json"])
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]  # nothing is left over


def test_arrays_are_mapped_not_read(saved, model):
    save_index(saved, stored(model))
    base = load(saved).index_.index.panels_
    while not isinstance(base, np.memmap):
        assert base.base is not None, "the array has memory of its own"
        base = base.base


def test_another_index_takes_its_place(saved, model):
    save_index(saved, stored(model, probes=3))
    save_index(saved, stored(model, probes=5))
    assert load(saved).index_.index.probes == 5
    assert artifact.read_manifest(saved)["index"]["description"]["parameters"]["probes"] == 5


def test_the_exact_scan_can_be_kept(saved, model):
    kept = stored(model)
    save_index(saved, StoredIndex(Exact().build(model.posterior_.item_vectors()), kept.chosen, (), kept.target))
    assert isinstance(load(saved).index_.index, Exact)


def test_a_model_is_saved_with_its_index(tmp_path, saved, model):
    save_index(saved, stored(model))
    save(load(saved), tmp_path / "copy", with_ratings=False)
    assert load(tmp_path / "copy").index_.chosen == stored(model).chosen
    assert_array_equal(
        load(tmp_path / "copy").index_.index.search(queries(), 4).items,
        load(saved).index_.index.search(queries(), 4).items,
    )


def test_an_update_has_no_index(saved, model):
    save_index(saved, stored(model))
    other = load(saved).update(pl.DataFrame({"user": [0], "item": [0], "rating": [3.0]}))
    assert other.index_ is None


def test_saving_over_a_model_takes_its_index_away(saved, model):
    save_index(saved, stored(model))
    save(fitted(seed=1), saved)
    assert load(saved).index_ is None
    assert not (saved / "index.safetensors").exists()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: fitted(ratings=tastes(30, 60, rng=generator(0))[0]), id="fewer items"),
        pytest.param(lambda: fitted(n_factors=3), id="more factors"),
        pytest.param(lambda: fitted(ratings=tastes(30, 80, rng=generator(9))[0]), id="other vectors"),
    ],
)
def test_an_index_of_another_model_is_refused_and_the_artifact_stays(saved, other):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(InvalidParameterError, match="does not fit the model: the index is of"):
        save_index(saved, stored(other()))
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_a_recommender_with_the_index_of_another_is_not_saved(tmp_path, model):
    model.index_ = stored(fitted(n_factors=3))
    with pytest.raises(InvalidParameterError, match="does not fit the model"):
        save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["link", "index", "manifest", "move"])
def test_what_goes_wrong_leaves_the_artifact_as_it_was(saved, model, monkeypatch, when):
    """Wherever writing stops, the old index and the model are there."""
    save_index(saved, stored(model, probes=3))
    names = {"link": "_link", "index": "_write_arrays", "manifest": "_write_manifest", "move": "_move"}

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifact, names[when], fail)
    with pytest.raises(ArtifactError, match="cannot write the artifact .*No space left"):
        save_index(saved, stored(model, probes=5))
    monkeypatch.undo()
    assert load(saved).index_.index.probes == 3
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_without_hard_links_files_are_copied(saved, model, monkeypatch):
    def fail(source, place):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    save_index(saved, stored(model))
    assert load(saved).index_ is not None


def test_damage_is_told(saved, model):
    save_index(saved, stored(model))
    whole = saved.parent / "whole"
    shutil.copytree(saved, whole)
    (saved / "index.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"index\.safetensors is missing"):
        load(saved)
    shutil.copyfile(whole / "users.parquet", saved / "index.safetensors")
    with pytest.raises(ArtifactError, match=r"index\.safetensors has \d+ bytes; expected"):
        load(saved)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda entry: entry["description"].update(structure="of tomorrow"), id="unknown structure"),
        pytest.param(lambda entry: entry["description"]["parameters"].update(wings=2), id="unknown parameter"),
        pytest.param(lambda entry: entry.pop("chosen"), id="no choice"),
        pytest.param(lambda entry: entry["chosen"].pop("accuracy"), id="no accuracy"),
        pytest.param(lambda entry: entry.update(curve=3), id="no curve"),
    ],
)
def test_a_strange_entry_is_damage(saved, model, damage):
    save_index(saved, stored(model))
    manifest = json.loads((saved / "manifest.json").read_text())
    damage(manifest["index"])
    (saved / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="damaged"):
        load(saved)


def test_an_index_of_a_model_without_vectors_is_damage(tmp_path, saved, model):
    save_index(saved, stored(model))
    save(ItemKNN().fit(RATINGS), tmp_path / "knn")
    entry = artifact.read_manifest(saved)["index"]
    manifest = artifact.read_manifest(tmp_path / "knn") | {"index": entry}
    shutil.copyfile(saved / "index.safetensors", tmp_path / "knn" / "index.safetensors")
    (tmp_path / "knn" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="ItemKNN has no item vectors"):
        load(tmp_path / "knn")


def test_there_must_be_a_model(tmp_path, model):
    with pytest.raises(ArtifactError, match="there is no artifact"):
        save_index(tmp_path / "nothing", stored(model))
