"""Training and test parts of ratings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.randomness import generator


@dataclass(frozen=True, eq=False)
class Split:
    """Two parts of the same ratings. Each has the vocabulary of its own ids alone; the test part is matched
    by id, and ids that the training part lacks are cold and stay."""

    train: Ratings
    test: Ratings


def random_split(ratings: Ratings, share: float = 0.1, *, seed: int = 0) -> Split:
    """A share of the ratings, at random, as the test part.

    Exactly ``numpy.random.default_rng(seed).permutation(n)`` over the ratings in file order, the first
    ``int(share * n)`` being the test part; both parts keep the file order.
    """
    n = len(ratings)
    if not 0 < share < 1:
        raise InvalidParameterError(f"share is {share!r}; expected a number between 0 and 1, both excluded")
    n_test = int(share * n)
    if n_test == 0:
        raise InvalidParameterError(f"a share of {share:g} of {n} ratings is no rating; expected a larger share")
    order = generator(seed).permutation(n)
    return Split(train=ratings.take(np.sort(order[n_test:])), test=ratings.take(np.sort(order[:n_test])))
