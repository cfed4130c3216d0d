"""Content models: search, similar items, features for ratings, and what is stored."""

import json

import numpy as np
import polars as pl
import pytest

pytest.importorskip("sklearn", reason="needs the extra content")
pytest.importorskip("snowballstemmer", reason="needs the extra content")

from content.test_documents import texts_of

import tastespace as ts
from tastespace.content.documents import DocumentFeatures
from tastespace.content.model import ContentModel
from tastespace.content.reading import Documents
from tastespace.content.storing import load, save
from tastespace.errors import ArtifactError, DataWarning, InvalidParameterError, NotFittedError, UnknownIdError


@pytest.fixture(scope="module")
def documents():
    texts, _ = texts_of(40)
    ids = pl.Series("item", range(100, 141))
    return Documents(ids, pl.Series("title", [None] * 41, pl.String), [*texts, "12"])


@pytest.fixture(scope="module")
def model(documents):
    return ContentModel(DocumentFeatures(n_vectors=8)).fit(documents)


def test_search_finds_what_fits(documents, model):
    found = model.search("a harvest of wheat", 5)
    assert len(found) == 5
    _, kinds = texts_of(40)
    assert (kinds[found.rows] == 1).all()
    assert (np.diff(found.similarities) <= 0).all()
    content = found.to_dict()
    assert content["query"] == "a harvest of wheat"
    assert content["items"][0].keys() == {"rank", "item", "title", "similarity", "excerpt"}
    assert content["items"][0]["item"] == str(found.items[0])
    assert found.to_polars().columns == ["rank", "item", "title", "similarity", "excerpt"]
    first = found.items[0]
    assert first not in model.search("a harvest of wheat", 5, exclude=[first]).items
    np.testing.assert_allclose(model.similarities("a harvest of wheat")[found.rows], found.similarities, rtol=1e-5)


def test_similar_items_leave_out_the_item_and_those_without_features(documents, model):
    found = model.similar(100, 50)
    assert len(found) == 39
    assert not {100, 140} & set(found.items)
    assert model.similar("100", 3).items.to_list() == found.items[:3].to_list()
    assert model.similar(140).remarks == ("nothing is known of its content: its text has no word that counts",)
    with pytest.raises(UnknownIdError, match="knows no item 'x'"):
        model.similar("x")


def test_unknown_words_say_so(model):
    found = model.search("xylophone")
    assert not len(found)
    assert "no word of the query is in the texts" in found.remarks[0]


def test_features_of_items_are_what_a_recommender_takes(documents, model, tmp_path):
    frame = model.feature_frame()
    assert frame["item"].to_list() == list(range(100, 141))
    assert frame["content"][40] is None
    frame.write_parquet(tmp_path / "features.parquet")
    rng = np.random.default_rng(0)
    ratings = ts.Ratings.from_arrays(rng.integers(0, 9, 200), rng.integers(100, 135, 200), rng.integers(1, 6, 200))
    with pytest.warns(DataWarning, match="6 of 41 items in .* have no ratings"):
        known = ratings.with_item_features(str(tmp_path / "features.parquet")).item_features
    (group,) = known.groups
    assert (group.name, group.kind) == ("content", "vector")
    new = model.feature_frame(Documents(pl.Series("item", [1]), pl.Series("title", ["Wheat"]), ["harvest"]))
    np.testing.assert_allclose(np.linalg.norm(new["content"].to_list()[0]), 1, rtol=1e-5)


def test_saved_and_loaded_it_answers_the_same(documents, model, tmp_path):
    save(model, tmp_path / "content")
    again = load(tmp_path / "content")
    assert again.search("wheat").to_dict() == model.search("wheat").to_dict()
    assert again.features.get_params() == model.features.get_params()
    save(again, tmp_path / "content")  # replaces
    load(tmp_path / "content", verify=True)
    assert not [entry for entry in tmp_path.rglob("*") if entry.suffix in (".pkl", ".pickle", ".joblib")]


def test_damage_is_told(model, tmp_path):
    save(model, tmp_path / "content")
    for name in ("features.safetensors", "vectors.safetensors", "items.parquet", "words.parquet"):
        content = (tmp_path / "content" / name).read_bytes()
        (tmp_path / "content" / name).write_bytes(content[:-9] + b"123456789")
        with pytest.raises(ArtifactError, match="another checksum"):
            load(tmp_path / "content", verify=True)
        (tmp_path / "content" / name).write_bytes(content)
    load(tmp_path / "content", verify=True)
    file = tmp_path / "content" / "manifest.json"
    manifest = json.loads(file.read_text())
    for change in ({"format": "other"}, {"format_version": 9}, {"files": []}, {"n_items": 7}):
        file.write_text(json.dumps(manifest | change))
        with pytest.raises(ArtifactError, match=r"is not|format version 9|damaged|another checksum"):
            load(tmp_path / "content")
    with pytest.raises(ArtifactError, match="there is no content model"):
        load(tmp_path / "none")


def test_other_folders_are_never_replaced(model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="is not a content model; expected a new name"):
        save(model, tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "mine"


def test_misuse(documents):
    with pytest.raises(NotFittedError):
        ContentModel(DocumentFeatures()).search("wheat")
    with pytest.raises(InvalidParameterError, match="no index takes; expected vectors='lsa'"):
        ContentModel(DocumentFeatures.preset("tfidf")).fit(documents)
    with pytest.raises(InvalidParameterError, match="expected what read_documents returns"):
        ContentModel(DocumentFeatures()).fit(["text"])
