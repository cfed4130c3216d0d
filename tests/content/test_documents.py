"""Features of documents: words, weights, vectors, and that they are a transformer as in scikit-learn."""

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra content")
pytest.importorskip("snowballstemmer", reason="needs the extra content")

from sklearn.base import clone

from tastespace.content.documents import PRESETS, DocumentFeatures
from tastespace.content.reductions import Neighbors, unit
from tastespace.content.weights import rarity, weighted
from tastespace.content.words import Cleaning, Codes, corpus_of
from tastespace.errors import DataError, InvalidParameterError, NotFittedError

SUBJECTS = {
    "money": "bank interest rate currency dollar inflation market central reserve loan",
    "grain": "wheat corn harvest crop tonne export farmer soybean barley acre",
    "ships": "vessel port cargo tanker crew harbor sailor strike dock freight",
}


def texts_of(n=120, length=12, seed=0):
    """Texts about three subjects, and the subject of each."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, n)
    words = [texts.split() for texts in SUBJECTS.values()]
    common = ["people", "year", "report", "think", "plan", "time"]
    return [" ".join([*rng.choice(words[kind], length), *rng.choice(common, 4)]) for kind in kinds], kinds


@pytest.fixture(scope="module")
def texts():
    return texts_of()


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("plain", ["cats", "roaming", "ladies"]),
        ("stem", ["cat", "roam", "ladi"]),
        ("lemma", ["cat", "roam", "lady"]),
        ("lemma-stem", ["cat", "roam", "ladi"]),
    ],
)
def test_words_are_brought_to_a_base_form(form, expected):
    """The example of the source, without its misprints: stop words are left out."""
    corpus = corpus_of(["The cats were ROAMING; the ladies of 1987 ..."], Codes(Cleaning(form, "en", "auto")))
    assert corpus.words == expected


def test_other_languages_and_scripts():
    clean = Cleaning("stem", "de", ["und"])
    assert corpus_of(["Die Häuser und Straßen"], Codes(clean)).words == ["die", "haus", "strass"]
    assert corpus_of(["Война и мир"], Codes(Cleaning("plain", "ru", None))).words == ["война", "мир"]
    with pytest.raises(InvalidParameterError, match="'xx', which cannot be stemmed; expected one of ar, da"):
        Cleaning("stem", "xx", None)
    with pytest.raises(InvalidParameterError, match="cannot be lemmatized"):
        Cleaning("lemma", "xx", None)


def test_a_long_text_is_read_in_pieces_between_words():
    text = "wheat harvest " * 200_000
    corpus = corpus_of([text, "harvest"], Codes(Cleaning("plain", "en", None)))
    assert corpus.words == ["wheat", "harvest"]
    assert corpus.counts().toarray().tolist() == [[200_000, 200_000], [0, 1]]


def test_weights_by_hand():
    corpus = corpus_of(["oil oil gas", "oil tin"], Codes(Cleaning("plain", "en", None)))
    counts, idf = corpus.counts(), np.log(3 / np.array([3, 2, 2])) + 1
    np.testing.assert_allclose(rarity(counts), idf, rtol=1e-6)
    np.testing.assert_allclose(weighted(counts, "counts", rarity(counts)).toarray()[0], [2 / 3, 1 / 3, 0], rtol=1e-6)
    np.testing.assert_array_equal(weighted(counts, "boolean", rarity(counts)).toarray()[0], [1, 1, 0])
    expected = np.array([(1 + np.log(2)) * idf[0], idf[1], 0])
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(weighted(counts, "log-tfidf", rarity(counts)).toarray()[0], expected, rtol=1e-6)


def test_neighbors_add_the_weighted_mean_of_others():
    vectors = unit(np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [-1.0, 0.0]]))
    found = Neighbors(vectors, 2, 0.5).transform(vectors[:1])
    mean = (0.8 * vectors[1] + 0.6 * vectors[2]) / 1.4  # never itself
    np.testing.assert_allclose(found[0], unit((vectors[0] + 0.5 * mean)[None])[0], rtol=1e-5)


def test_texts_of_one_subject_are_nearest(texts):
    documents, kinds = texts
    features = DocumentFeatures(n_vectors=16).fit(documents)
    others, their_kinds = texts_of(60, seed=1)
    found = features.transform(others) @ features.transform(documents).T
    top = np.argsort(-found, axis=1)[:, :10]
    assert (kinds[top] == their_kinds[:, None]).mean() > 0.95
    query = features.transform(["Harvests of corn"])[0]
    assert (kinds[np.argsort(-features.transform(documents) @ query)[:10]] == 1).all()
    np.testing.assert_allclose(np.linalg.norm(features.transform(others), axis=1), 1, rtol=1e-5)


def test_it_is_a_transformer(texts):
    documents, _ = texts
    features = DocumentFeatures(n_vectors=8, seed=3)
    other = clone(features)
    assert other.get_params() == features.get_params()
    learned = features.fit_transform(documents)
    np.testing.assert_allclose(learned, features.transform(documents), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(learned, other.fit(documents).fit_transform(documents))
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.transform(documents[:5]), features.transform(documents[:5]))
    copy.deepcopy(features)
    assert list(features.get_feature_names_out())[:2] == ["text0", "text1"]
    assert features.n_features_ == 8


def test_words_as_features_are_sparse(texts):
    documents, _ = texts
    features = DocumentFeatures.preset("tfidf")
    rows = features.fit_transform(documents)
    assert rows.shape == (len(documents), len(features.vocabulary_))
    assert "wheat" in features.get_feature_names_out()


def test_what_is_learned_is_restored_from_arrays(texts):
    documents, _ = texts
    features = DocumentFeatures(n_vectors=8).fit(documents)
    again = DocumentFeatures(**features.get_params()).restore(features.state(), features.vocabulary_)
    np.testing.assert_array_equal(again.transform(documents[:9]), features.transform(documents[:9]))
    with pytest.raises(ValueError, match="words"):
        DocumentFeatures().restore(features.state(), features.vocabulary_[:-1])


def test_texts_that_say_nothing_are_zeros(texts):
    documents, _ = texts
    features = DocumentFeatures(n_vectors=8).fit([*documents, "", "the of and"])
    assert not features.transform(["", "xylophone zygote", "1987 12.5 %"]).any()


@pytest.mark.parametrize("preset", ["word2vec", "counts-low-dimension", "boolean-rbm"])
def test_presets_without_torch(texts, preset):
    if preset == "word2vec":
        pytest.importorskip("gensim", reason="word2vec needs gensim")
    documents, _ = texts
    sizes = {"word2vec": {"n_vectors": 12}, "counts-low-dimension": {"n_vectors": 4}, "boolean-rbm": {"n_features": 4}}
    features = DocumentFeatures.preset(preset, **sizes[preset], epochs=2)
    found = features.fit_transform(documents)
    assert found.shape[1] == next(iter(sizes[preset].values()))
    again = DocumentFeatures(**features.get_params()).restore(features.state(), features.vocabulary_)
    np.testing.assert_array_equal(again.transform(documents[:9]), features.transform(documents[:9]))


@pytest.mark.deep
@pytest.mark.parametrize("preset", ["word2vec-sae", "tfidf-sae"])
def test_presets_with_an_autoencoder(texts, preset):
    pytest.importorskip("gensim", reason="word2vec needs gensim")
    documents, _ = texts
    features = DocumentFeatures.preset(preset, n_vectors=12, n_features=4, hidden=8, epochs=3)
    found = features.fit_transform(documents)
    assert found.shape == (len(documents), 4)
    again = DocumentFeatures(**features.get_params()).restore(features.state(), features.vocabulary_)
    np.testing.assert_array_equal(again.transform(documents[:9]), features.transform(documents[:9]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"words": "stems"}, "words is 'stems'; expected one of 'stem', 'lemma'"),
        ({"vectors": "bert"}, "vectors is 'bert'; expected one of"),
        ({"n_vectors": 0}, "n_vectors is 0; expected a whole number of at least 1"),
        ({"vectors": "words"}, "expected n_neighbors=0"),
        ({"stop_words": "none"}, "stop_words is 'none'; expected 'auto', None, or a list"),
        ({"network": "transformer"}, "network is 'transformer'"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        DocumentFeatures(**parameters).fit(["some words"])


def test_invalid_texts():
    with pytest.raises(NotFittedError, match="call fit first"):
        DocumentFeatures().transform(["some"])
    with pytest.raises(InvalidParameterError, match="expected a list of texts"):
        DocumentFeatures().fit("one text")
    with pytest.raises(InvalidParameterError, match="an entry of the type int"):
        DocumentFeatures().fit(["one", 2])
    with pytest.raises(DataError, match="there are no texts"):
        DocumentFeatures().fit([])
    with pytest.raises(DataError, match="none of the 2 texts has a word that counts"):
        DocumentFeatures().fit(["12", "the"])
    with pytest.raises(InvalidParameterError, match="preset is 'best'"):
        DocumentFeatures.preset("best")
    assert set(PRESETS) >= {"word2vec-sae", "counts-low-dimension", "boolean-rbm", "tfidf-sae"}
