"""Weights of words: counts of texts as rows in which rare words count more, of length 1."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from tastespace.arrays import FloatArray

Weighting = Literal["log-tfidf", "tfidf", "counts", "boolean"]


def rarity(counts: Any) -> FloatArray:
    """The weight of each word: the logarithm of one over its share of the texts, and one."""
    n_texts, n_words = counts.shape
    n_with = np.bincount(counts.indices, minlength=n_words)
    return np.asarray(np.log((1 + n_texts) / (1 + n_with)) + 1, np.float32)


def weighted(counts: Any, weighting: Weighting, rarities: FloatArray) -> Any:
    """Counts as weights: relative frequencies that add up to 1, zeros and ones, or tf-idf rows of length 1."""
    matrix = counts.copy()
    if weighting == "boolean":
        matrix.data[:] = 1
        return matrix
    if weighting == "counts":
        totals = np.asarray(matrix.sum(axis=1)).reshape(-1)
        return _scaled(matrix, totals)
    if weighting == "log-tfidf":
        matrix.data = 1 + np.log(matrix.data)
    matrix.data *= rarities[matrix.indices]
    return _scaled(matrix, np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)))


def _scaled(matrix: Any, sizes: Any) -> Any:
    """Rows divided by their sizes; empty ones stay empty."""
    return (sp.diags_array(1 / np.where(sizes > 0, sizes, 1)) @ matrix).tocsr().astype(np.float32)
