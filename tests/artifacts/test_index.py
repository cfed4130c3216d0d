"""An index beside a model: kept whole or not at all, mapped when it is loaded, left out where it does not fit."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import polars as pl
import pytest
from artifacts.editing import write_manifest
from numpy.testing import assert_array_equal

from tastespace import ALS, BPMF, ItemKNN, artifact, load, save, storage
from tastespace.artifact import index as stored_index
from tastespace.artifact import save_index, saving
from tastespace.errors import ArtifactError, InvalidParameterError, NonFiniteStateError, TastespaceWarning
from tastespace.index.reduction import Reduced
from tastespace.index.structures import graph
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.graph import Graph
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.trials import StoredIndex, Target, Trial
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

RATINGS = tastes(30, 80, rng=generator(0))[0]


def fitted(seed=0, n_factors=2, ratings=RATINGS):
    return ALS(n_factors=n_factors, regularization=0.1, seed=seed).fit(ratings)


def stored(model, probes=3):
    return stored_as(model, InvertedFile(n_cells=7, probes=probes, seed=4))


def stored_as(model, unbuilt):
    index = unbuilt.build(model.posterior_.item_vectors)
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
    del manifest["index"], manifest["files"]["index.safetensors"], manifest["sha256"]["index.safetensors"]
    earlier = json.loads(before["manifest.json"])
    assert manifest["sha256"].pop("manifest.json") != earlier["sha256"].pop("manifest.json")
    assert manifest == earlier
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]  # nothing is left over


def test_arrays_are_mapped_not_read(saved, model):
    save_index(saved, stored(model))
    base = load(saved).index_.index.built_.panels
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
    save_index(saved, StoredIndex(Exact().build(model.posterior_.item_vectors), kept.chosen, (), kept.target))
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
    places = {
        "link": (storage, "link"),
        "index": (storage, "write_arrays"),
        "manifest": (saving, "write_manifest"),
        "move": (storage, "_exchange"),
    }

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*places[when], fail)
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


def loaded_without(path, match):
    """The model, of which the index was left out with one warning, in one line that says what to do."""
    with pytest.warns(TastespaceWarning, match=match) as caught:
        model = load(path)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith(f"{path} is used without its index")
    assert f"run 'tastespace index {path}' again" in message
    assert "\n" not in message
    assert caught[0].filename == __file__
    assert model.index_ is None
    assert_array_equal(model.recommend([0]).item_ids, fitted().recommend([0]).item_ids)
    return model


def replaced(path, model):
    """Another index takes the place of a bad one, without a warning."""
    with pytest.warns(TastespaceWarning):
        load(path)
    assert load(path, with_index=False).index_ is None
    save_index(path, stored(model, probes=5))
    assert load(path).index_.index.probes == 5


def change_entry(path, change):
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest["index"])
    write_manifest(path, manifest)


def hide_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(graph, "_library", graph._library.__wrapped__)


def cut(file):
    file.write_bytes(file.read_bytes()[:-8])


def garble(file):
    file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda file: file.unlink(), r"the file index\.safetensors is missing"),
        (cut, r"index\.safetensors has \d+ bytes; expected \d+"),
        (garble, "damaged"),
    ],
    ids=["missing", "cut", "garbled"],
)
def test_a_file_that_is_damaged_leaves_the_model(saved, model, damage, match):
    save_index(saved, stored(model))
    damage(saved / "index.safetensors")
    loaded_without(saved, match)
    replaced(saved, model)


def test_a_file_that_may_not_be_read_leaves_the_model(saved, model, monkeypatch):
    save_index(saved, stored(model))
    read = storage.read_arrays

    def refuse(path):
        if path.name == "index.safetensors":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(storage, "read_arrays", refuse)
    loaded_without(saved, r"its file cannot be read \(Permission denied\); check")


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        pytest.param(
            lambda entry: entry["description"].update(structure="of tomorrow"),
            "there is no structure 'of tomorrow'; this version knows exact, ",
            id="unknown structure",
        ),
        pytest.param(
            lambda entry: entry["description"]["parameters"].update(
                inner={"structure": "of tomorrow", "parameters": {}}
            ),
            "there is no structure 'of tomorrow'",
            id="unknown structure inside",
        ),
        pytest.param(
            lambda entry: entry["description"]["parameters"].update(wings=2), "newer .*wings", id="unknown parameter"
        ),
        pytest.param(lambda entry: entry.pop("chosen"), "it lacks 'chosen'", id="no choice"),
        pytest.param(lambda entry: entry["chosen"].pop("accuracy"), "accuracy", id="no accuracy"),
        pytest.param(lambda entry: entry.update(curve=3), "damaged", id="no curve"),
    ],
)
def test_a_strange_entry_leaves_the_model(saved, model, damage, match):
    save_index(saved, stored(model))
    change_entry(saved, damage)
    loaded_without(saved, match)
    replaced(saved, model)


def test_numbers_that_are_none_leave_the_model(saved, model, monkeypatch):
    """A search in damaged content may meet infinities."""
    save_index(saved, stored(model))

    def restore(self, arrays, vectors):
        raise NonFiniteStateError("an item has infinite or missing coordinates")

    monkeypatch.setattr(InvertedFile, "restore", restore)
    loaded_without(saved, "infinite or missing coordinates")


def test_an_index_that_needs_an_extra_leaves_the_model(saved, model, monkeypatch):
    pytest.importorskip("faiss")
    save_index(saved, stored_as(model, Graph(neighbours=4)))
    hide_faiss(monkeypatch)
    loaded_without(saved, r"an index that is a graph needs .* pip install 'tastespace\[graph\]', or run")
    replaced(saved, model)


@pytest.mark.parametrize("kind", ["reduced", "graph", "inverted-file", "growing"])
def test_an_index_of_another_model_of_the_same_shape_is_left_out(tmp_path, saved, model, kind):
    """Some structures keep no vectors of their own: nothing but the fingerprint tells."""
    if kind == "graph":
        pytest.importorskip("faiss")
    index = {
        "reduced": lambda: Reduced(inner=InvertedFile(n_cells=3), n_coordinates=2),
        "graph": lambda: Graph(neighbours=4),
        "inverted-file": lambda: InvertedFile(n_cells=3),
        "growing": lambda: Reduced(n_coordinates=2, rebuild_at=0.2),
    }[kind]
    other = fitted(ratings=tastes(30, 80, rng=generator(9))[0])
    save(other, tmp_path / "other")
    save_index(tmp_path / "other", stored_as(other, index()))
    save_index(saved, stored_as(model, index()))
    assert load(saved).index_ is not None
    entry = artifact.read_manifest(tmp_path / "other")["index"]
    change_entry(saved, lambda own: own.update(entry))
    shutil.copyfile(tmp_path / "other" / "index.safetensors", saved / "index.safetensors")
    manifest = artifact.read_manifest(saved)
    manifest["files"]["index.safetensors"] = (saved / "index.safetensors").stat().st_size
    manifest["sha256"]["index.safetensors"] = storage.digest_of(saved / "index.safetensors")
    write_manifest(saved, manifest)
    loaded_without(saved, "the index is of other item vectors than the model's")


def test_an_entry_of_old_does_not_say_which_vectors(saved, model):
    save_index(saved, stored(model))
    assert artifact.read_manifest(saved)["index"]["vectors"]["shape"] == [80, 3]
    change_entry(saved, lambda entry: entry.pop("vectors"))
    assert load(saved).index_.index.probes == 3


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")
@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_vectors_of_a_file_are_those_of_memory(tmp_path, storage):
    """Also where the file has fewer digits, an index that was saved with a model is of what is loaded."""
    model = BPMF(n_factors=2, warmup=2, draws=3, thin=1, seed=0, storage=storage).fit(RATINGS)
    model.index_ = stored(model)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").index_ is not None


def test_a_change_of_any_sampled_row_is_seen():
    vectors = generator(3).standard_normal((2500, 4)).astype(np.float32)
    before = stored_index._fingerprint(vectors)
    assert before == stored_index._fingerprint(np.asfortranarray(vectors))
    for row in (0, 5, 1250, 2495):
        other = vectors.copy()
        other[row, 2] += 1e-3
        assert stored_index._fingerprint(other) != before
    assert stored_index._fingerprint(vectors[:, :3]) != before
    assert stored_index._fingerprint(vectors[:0]) == stored_index._fingerprint(vectors[:0])
    small = vectors[:7].copy()
    small[6, 0] += 1e-3  # of few, all count
    assert stored_index._fingerprint(small) != stored_index._fingerprint(vectors[:7])


def test_an_index_of_a_model_without_vectors_is_left_out(tmp_path, saved, model):
    save_index(saved, stored(model))
    save(ItemKNN().fit(RATINGS), tmp_path / "knn")
    entry = artifact.read_manifest(saved)["index"]
    manifest = artifact.read_manifest(tmp_path / "knn") | {"index": entry}
    shutil.copyfile(saved / "index.safetensors", tmp_path / "knn" / "index.safetensors")
    manifest["files"]["index.safetensors"] = (saved / "index.safetensors").stat().st_size
    manifest["sha256"]["index.safetensors"] = storage.digest_of(saved / "index.safetensors")
    write_manifest(tmp_path / "knn", manifest)
    with pytest.warns(TastespaceWarning, match="ItemKNN has no item vectors"):
        assert load(tmp_path / "knn").index_ is None


def test_there_must_be_a_model(tmp_path, model):
    with pytest.raises(ArtifactError, match="there is no artifact"):
        save_index(tmp_path / "nothing", stored(model))
