"""Items compared by who rated them, against the formula."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from tastespace.data.csr import CSR
from tastespace.models.base.similarity import RaterBits, n_words
from tastespace.randomness import generator


def test_many_users_and_an_item_without_ratings():
    """More than one word of 64 users; item 3 has no raters."""
    rng = generator(5)
    rated = rng.random((200, 4)) < [0.5, 0.1, 0.9, 0]
    users, items = np.nonzero(rated)
    raters = CSR.group(items.astype(np.int32), users.astype(np.int32), np.ones(len(users), np.float32), 4)
    bits = RaterBits.of(raters, 200)
    every = bits.cosines(np.arange(4)[:, None], np.arange(4))
    common, counts = rated.T.astype(float) @ rated, np.maximum(rated.sum(axis=0), 1)
    assert_allclose(every, common / np.sqrt(np.outer(counts, counts)), rtol=1e-6)
    assert every[3].tolist() == [0, 0, 0, 0]


def test_words_have_room_for_all_users():
    assert [n_words(n) for n in (0, 1, 64, 65)] == [0, 1, 1, 2]


def test_no_ratings_at_all():
    nothing = CSR(np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    assert RaterBits.of(nothing, 0).cosines(np.array([0]), np.array([1])).tolist() == [0]
