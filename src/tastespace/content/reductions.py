"""From sparse rows of words to short vectors: latent semantic analysis, word vectors, and a mean over neighbors.

Each is fitted on the rows of the training texts, maps rows to vectors of length 1 (or 0 where nothing is known), and is
kept as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import FloatMatrix, contiguous
from tastespace.content.words import Corpus
from tastespace.errors import DataError, MissingExtraError
from tastespace.index.index import Index
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.inverted_file import InvertedFile

Arrays = Mapping[str, NDArray[Any]]
EXACT = 50_000  # vectors up to which all of them are scanned
AT_ONCE = 4096  # rows looked up at once


def unit(vectors: Any) -> FloatMatrix:
    """Rows of length 1; those of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def index_of(vectors: FloatMatrix) -> Index:
    """The index that finds the nearest of these vectors: a scan, and cells from where that takes long."""
    index = Exact() if len(vectors) <= EXACT else InvertedFile(probes=24)
    return index.build(vectors)


@dataclass(frozen=True, eq=False)
class LSA:
    """Latent semantic analysis: the leading singular vectors of the weighted rows (Deerwester et al. 1990)."""

    components: FloatMatrix  # words x vectors

    @classmethod
    def fit(cls, rows: Any, n_vectors: int, seed: int) -> LSA:
        """The leading vectors; fewer where there are fewer texts or words."""
        from sklearn.utils.extmath import randomized_svd

        most = min(n_vectors, *(size for size in rows.shape))
        with threads.one_thread():
            _, _, components = randomized_svd(rows, most, n_iter=4, random_state=seed % 2**32)
        return cls(contiguous(components.T, np.float32))

    def transform(self, rows: Any) -> FloatMatrix:
        with threads.one_blas_thread():
            return unit(rows @ self.components)

    def arrays(self) -> Arrays:
        return {"components": self.components}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LSA:
        return cls(arrays["components"])


@dataclass(frozen=True, eq=False)
class WordVectors:
    """word2vec, trained on the texts: a text is the mean of the vectors of its words (Mikolov et al. 2013)."""

    vectors: FloatMatrix  # words x vectors

    @classmethod
    def fit(cls, corpus: Corpus, n_vectors: int, seed: int, epochs: int) -> WordVectors:
        try:
            from gensim.models import Word2Vec
        except ImportError as error:
            raise MissingExtraError("word2vec", "content") from error

        model = Word2Vec(
            corpus.sentences(),
            vector_size=n_vectors,
            min_count=1,
            epochs=epochs,
            seed=seed % 2**32,
            workers=1,  # With more the result would depend on their race.
        )
        rows = [model.wv.key_to_index[word] for word in corpus.words]
        return cls(contiguous(model.wv.vectors[rows], np.float32))

    def transform(self, rows: Any) -> FloatMatrix:
        """The weighted means of the vectors of words; rows that add up to 1."""
        return np.asarray(rows @ self.vectors, np.float32)

    def arrays(self) -> Arrays:
        return {"vectors": self.vectors}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> WordVectors:
        return cls(arrays["vectors"])


class Neighbors:
    """Adds to each vector the mean of the training vectors nearest to it, weighted by similarity.

        y = x + weight * sum_k s_k x_k / sum_k s_k,   s_k = max(x . x_k, 0)

    over the `n_neighbors` nearest training vectors x_k other than x itself. What texts about one subject have in common
    is in all of their neighborhoods, and what is particular to one of them is not.
    """

    SAME = 1 - 1e-5  # similarity from which a training vector is the vector itself

    def __init__(self, vectors: FloatMatrix, n_neighbors: int, weight: float) -> None:
        if not len(vectors):
            raise DataError("there are no texts", expected="at least one")
        self.vectors, self.n_neighbors, self.weight = vectors, n_neighbors, weight
        self._index = index_of(vectors)

    def transform(self, vectors: FloatMatrix) -> FloatMatrix:
        smoothed = np.empty_like(vectors)
        for start in range(0, len(vectors), AT_ONCE):
            part = vectors[start : start + AT_ONCE]
            found = self._index.search(part, min(self.n_neighbors + 1, len(self.vectors)))
            weights = np.where((found.items >= 0) & (found.scores < self.SAME), np.maximum(found.scores, 0), 0)
            weights[np.cumsum(weights > 0, axis=1) > self.n_neighbors] = 0
            means = np.einsum("nk,nkd->nd", weights, self.vectors[np.maximum(found.items, 0)])
            totals = weights.sum(axis=1, keepdims=True)
            smoothed[start : start + AT_ONCE] = part + self.weight * means / np.where(totals > 0, totals, 1)
        return unit(smoothed)
