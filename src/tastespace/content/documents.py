"""Features of documents: texts in, vectors out, for the texts it was fitted on and for any other, such as a query.

    text -> words (`words.py`) -> weighted counts (`weights.py`) -> vectors (`reductions.py`) -> perhaps a network

The default is latent semantic analysis of logarithmic tf-idf, averaged over neighbors; it needs no PyTorch. `PRESETS`
has other pipelines by name, those of Somani and Gupta (2017) among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace import randomness, threads
from tastespace.arrays import FloatMatrix, IntArray
from tastespace.content.reductions import LSA, Neighbors, WordVectors, unit
from tastespace.content.weights import Weighting, rarity, weighted
from tastespace.content.words import Cleaning, Codes, Corpus, Form, corpus_of
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError, NotFittedError
from tastespace.networks.autoencoder import Autoencoder, train_autoencoder
from tastespace.networks.rbm import RBM, train_rbm
from tastespace.parameters import check_int, check_number, check_option
from tastespace.progress import Observer, silent

try:
    from sklearn.base import BaseEstimator, TransformerMixin
except ImportError as error:
    raise MissingExtraError("features of documents", "content") from error

Vectors = Literal["lsa", "word2vec", "words"]
Network = Literal["autoencoder", "rbm"]
# Pipelines by name. Those of Somani and Gupta (2017), chapter 7, are the last four; they report that the last three of
# these found hardly any relevant document.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "lsa": {"n_neighbors": 0},
    "tfidf": {"weighting": "tfidf", "vectors": "words", "n_neighbors": 0},
    "word2vec": {"vectors": "word2vec", "n_vectors": 256, "n_neighbors": 0, "words": "lemma-stem"},
    "word2vec-sae": {
        **{"words": "lemma-stem", "vectors": "word2vec", "n_vectors": 256, "n_neighbors": 0},
        **{"network": "autoencoder"},
    },
    "counts-low-dimension": {
        **{"words": "lemma-stem", "weighting": "counts", "vectors": "lsa", "n_vectors": 16, "n_neighbors": 0},
    },
    "boolean-rbm": {
        **{"words": "lemma-stem", "weighting": "boolean", "vectors": "words", "n_neighbors": 0, "network": "rbm"},
    },
    "tfidf-sae": {
        **{"words": "lemma-stem", "weighting": "tfidf", "vectors": "words", "n_neighbors": 0},
        **{"network": "autoencoder"},
    },
}
FEW = 100  # texts from which a word must be in two of them, and may be in too many
MOST_WORDS = 100_000


class DocumentFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns texts into vectors whose inner product is a similarity; a transformer as in scikit-learn.

    `words` says how words are brought to a base form, in the language `language` (a code such as en); `stop_words` are
    left out ("auto": usual English words), and so are words in fewer than `min_documents` texts (None: 2, or 1 where
    there are fewer than 100 texts) and in more than the share `max_share`. `weighting` is how counts become weights.

    `vectors` is "lsa" or "word2vec" with `n_vectors` dimensions, or "words": the weights themselves, sparse. Each
    vector gets `neighbor_weight` times the mean of the `n_neighbors` most similar training vectors (0: none). A
    `network` makes `n_features` of the vectors: an autoencoder (with `hidden` units in the layers below the code,
    `dropout` and batch normalization; PyTorch) or an RBM.
    """

    def __init__(
        self,
        *,
        words: Form = "stem",
        language: str = "en",
        stop_words: Sequence[str] | str | None = "auto",
        min_documents: int | None = None,
        max_share: float = 0.5,
        weighting: Weighting = "log-tfidf",
        vectors: Vectors = "lsa",
        n_vectors: int = 96,
        n_neighbors: int = 20,
        neighbor_weight: float = 1.0,
        network: Network | None = None,
        n_features: int = 16,
        hidden: int = 64,
        dropout: float = 0.2,
        epochs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.words = words
        self.language = language
        self.stop_words = stop_words
        self.min_documents = min_documents
        self.max_share = max_share
        self.weighting = weighting
        self.vectors = vectors
        self.n_vectors = n_vectors
        self.n_neighbors = n_neighbors
        self.neighbor_weight = neighbor_weight
        self.network = network
        self.n_features = n_features
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.seed = seed

    kind = "text"
    _codes: Codes | None = None  # word forms that were met since it was fitted

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> DocumentFeatures:
        """A pipeline by its name in `PRESETS`; parameters go before its own."""
        check_option("preset", name, tuple(PRESETS))
        return cls(**{**PRESETS[name], **parameters})

    def check(self) -> None:
        """Refuse invalid parameters."""
        for name, options in (("words", Form), ("weighting", Weighting), ("vectors", Vectors)):
            check_option(name, getattr(self, name), get_args(options))
        check_option("network", self.network, (None, *get_args(Network)))
        if self.min_documents is not None:
            check_int("min_documents", self.min_documents, least=1)
        check_number("max_share", self.max_share, above=0)
        for name, least in (("n_vectors", 1), ("n_neighbors", 0), ("n_features", 1), ("hidden", 1), ("seed", 0)):
            check_int(name, getattr(self, name), least=least)
        check_number("neighbor_weight", self.neighbor_weight, least=0)
        check_number("dropout", self.dropout, least=0, below=1)
        if self.epochs is not None:
            check_int("epochs", self.epochs, least=1)
        if self.vectors == "words" and self.n_neighbors:
            raise InvalidParameterError(
                f"vectors='words' with n_neighbors={self.n_neighbors}; expected n_neighbors=0, or vectors='lsa'"
            )

    # Fitting

    def fit(self, texts: Sequence[str], y: Any = None, *, observer: Observer = silent) -> Self:
        """Learn vocabulary, weights and vectors from texts; `y` is not used."""
        self.fit_transform(texts, observer=observer)
        return self

    def fit_transform(self, texts: Sequence[str], y: Any = None, *, observer: Observer = silent) -> Any:
        """Learn from texts, and return their features: one row per text, zeros for one without a known word."""
        self.check()
        corpus = corpus_of(_listed(texts), Codes(self._cleaning()), observer)
        corpus = corpus.only(self._kept(corpus))
        if not len(corpus.codes):
            raise DataError(
                f"none of the {len(corpus):,} texts has a word that counts", expected="texts of letters, in words"
            )
        counts = corpus.counts()
        self.vocabulary_, self._codes = corpus.words, None
        self.rarity_ = rarity(counts)
        rows = self._weighted(counts)
        self.reduction_ = self._fitted_reduction(rows, corpus)
        vectors = self._reduced(rows)
        self.neighbors_ = Neighbors(vectors, self.n_neighbors, self.neighbor_weight) if self.n_neighbors else None
        if self.neighbors_ is not None:
            vectors = self.neighbors_.transform(vectors)
        self.network_ = self._fitted_network(vectors, observer)
        return self._encoded(vectors)

    def _cleaning(self) -> Cleaning:
        return Cleaning(self.words, self.language, self.stop_words)

    def _kept(self, corpus: Corpus) -> NDArray[np.bool_]:
        """The words that are in enough texts, and not in nearly all."""
        n_with = np.bincount(corpus.counts().indices, minlength=len(corpus.words))
        is_small = len(corpus) < FEW
        least = self.min_documents or (1 if is_small else 2)
        kept = n_with >= least
        if not is_small:
            kept &= n_with <= self.max_share * len(corpus)
        if kept.sum() > MOST_WORDS:
            kept[np.argsort(np.where(kept, -n_with, 0), kind="stable")[MOST_WORDS:]] = False
        return kept

    def _weighted(self, counts: Any) -> Any:
        """Weights of words; word2vec takes means over the words of a text, for which they add up to 1."""
        return weighted(counts, "counts" if self.vectors == "word2vec" else self.weighting, self.rarity_)

    def _fitted_reduction(self, rows: Any, corpus: Corpus) -> LSA | WordVectors | None:
        if self.vectors == "lsa":
            return LSA.fit(rows, self.n_vectors, self.seed)
        if self.vectors == "word2vec":
            return WordVectors.fit(corpus, self.n_vectors, self.seed, 10)
        return None

    def _fitted_network(self, vectors: Any, observer: Observer) -> Autoencoder | RBM | None:
        rng = randomness.generator(self.seed)
        if self.network == "autoencoder":
            return train_autoencoder(
                _inputs(vectors),
                [self.hidden, self.n_features],
                rng=rng,
                activation="relu",
                code_activation="identity",
                dropout=self.dropout,
                batch_norm=True,
                epochs=self.epochs or 100,
                observer=observer,
            )
        if self.network == "rbm":
            return train_rbm(_inputs(vectors), self.n_features, rng=rng, epochs=self.epochs or 30, observer=observer)
        return None

    # Answering

    def transform(self, texts: Sequence[str], *, observer: Observer = silent) -> Any:
        """The features of texts: one row each, zeros for one without a known word."""
        return self._encoded(self._smoothed(self._reduced(self._rows(texts, observer))))

    def _rows(self, texts: Sequence[str], observer: Observer) -> Any:
        if not hasattr(self, "vocabulary_"):
            raise NotFittedError("these features were not fitted; call fit first")
        if self._codes is None:
            self._codes = Codes(self._cleaning(), self.vocabulary_)
        return self._weighted(corpus_of(_listed(texts), self._codes, observer).counts())

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the word forms that were met."""
        return {**super().__getstate__(), "_codes": None}

    def _reduced(self, rows: Any) -> Any:
        return rows if self.reduction_ is None else self.reduction_.transform(rows)

    def _smoothed(self, vectors: Any) -> Any:
        return vectors if self.neighbors_ is None else self.neighbors_.transform(vectors)

    def _encoded(self, vectors: Any) -> Any:
        """The vectors at length 1, or the code of the network; texts that say nothing stay zeros."""
        if self.network_ is None:
            return vectors if self.vectors == "words" else unit(vectors)
        sizes = np.asarray(abs(vectors).sum(axis=1)).reshape(-1)
        with threads.one_blas_thread():
            codes = self.network_.encode(_inputs(vectors))
        return unit(np.where(sizes[:, None] > 0, codes, 0))

    @property
    def n_features_(self) -> int:
        """The number of columns of what `transform` returns."""
        if self.network_ is not None:
            return self.network_.n_features
        if self.reduction_ is None:
            return len(self.vocabulary_)
        return int(next(iter(self.reduction_.arrays().values())).shape[1])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns: the words themselves, or numbers."""
        if self.vectors == "words" and self.network is None:
            return np.array(self.vocabulary_, dtype=object)
        return np.array([f"text{number}" for number in range(self.n_features_)], dtype=object)

    # Storing

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was learned but the vocabulary, as arrays by name."""
        arrays: dict[str, NDArray[Any]] = {"rarity": self.rarity_}
        if self.reduction_ is not None:
            arrays |= {f"reduction.{name}": array for name, array in self.reduction_.arrays().items()}
        if self.neighbors_ is not None:
            arrays["neighbors"] = self.neighbors_.vectors
        if self.network_ is not None:
            arrays |= {f"network.{name}": array for name, array in self.network_.arrays().items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], vocabulary: list[str]) -> Self:
        """Take what was learned from arrays; a mismatch is a ValueError or a KeyError."""
        self.check()
        self.vocabulary_, self._codes = vocabulary, None
        self.rarity_ = arrays["rarity"]
        parts: dict[str, dict[str, NDArray[Any]]] = {"reduction": {}, "network": {}}
        for name, array in arrays.items():
            part, _, own = name.partition(".")
            if own:
                parts[part][own] = array
        kinds: dict[str, Any] = {"lsa": LSA, "word2vec": WordVectors, "autoencoder": Autoencoder, "rbm": RBM}
        self.reduction_ = kinds[self.vectors].from_arrays(parts["reduction"]) if self.vectors in kinds else None
        self.network_ = None if self.network is None else kinds[self.network].from_arrays(parts["network"])
        width = len(next(iter(self.reduction_.arrays().values()))) if self.reduction_ is not None else len(vocabulary)
        if not len(vocabulary) == len(self.rarity_) == width:
            raise ValueError(f"the features are of {width} words, and there are {len(vocabulary)}")
        self.neighbors_ = None
        if self.n_neighbors:
            self.neighbors_ = Neighbors(arrays["neighbors"], self.n_neighbors, self.neighbor_weight)
        return self


class _SparseRows:
    """A sparse matrix as the rows that a network takes, a few at a time."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        self.shape: tuple[int, int] = matrix.shape

    def take(self, rows: IntArray) -> FloatMatrix:
        return np.asarray(self._matrix[rows].toarray(), np.float32)


def _inputs(vectors: Any) -> Any:
    return vectors if isinstance(vectors, np.ndarray) else _SparseRows(vectors)


def _listed(texts: Any) -> list[str]:
    """Texts as a list; anything else is refused in words."""
    if isinstance(texts, str):
        raise InvalidParameterError(f"texts is the text {texts[:40]!r}; expected a list of texts")
    listed = ["" if text is None else text for text in texts]
    wrong = next((text for text in listed if not isinstance(text, str)), None)
    if wrong is not None:
        raise InvalidParameterError(f"texts has an entry of the type {type(wrong).__name__}; expected texts")
    if not listed:
        raise DataError("there are no texts", expected="at least one")
    return listed
