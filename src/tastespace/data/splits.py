"""Training and test parts of ratings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import BoolArray
from tastespace.data.csr import offsets_of
from tastespace.data.ratings import Ratings
from tastespace.data.tables import moment_of
from tastespace.errors import DataError, InvalidParameterError, check_int
from tastespace.randomness import generator
from tastespace.settings import suggests


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test parts of the same ratings.

    Each has a vocabulary of its own ids; the test part is matched by id, and ids that are not in the training part are
    cold and stay.

    `history` are ratings of users who are not in training: they are folded in by these when the model is queried.
    """

    train: Ratings
    test: Ratings
    history: Ratings | None = None


@suggests
def random_split(ratings: Ratings, share: float = 0.1, *, seed: int = 0) -> Split:
    """A share of the ratings, at random, as the test part.

    Exactly ``numpy.random.default_rng(seed).permutation(n)`` over the ratings in file order, the first
    ``int(share * n)`` being the test part; both parts keep the file order.
    """
    n_test = _count_of(share, len(ratings), "ratings")
    order = generator(seed).permutation(len(ratings))
    return _split(ratings, order[:n_test])


@suggests
def k_fold(ratings: Ratings, k: int = 5, *, seed: int = 0) -> Iterator[Split]:
    """k splits for cross-validation, whose test parts together are all ratings, each once."""
    if isinstance(k, bool) or not isinstance(k, Integral) or not 2 <= k <= len(ratings):
        raise InvalidParameterError(f"k is {k!r}; expected a whole number from 2 to the {len(ratings)} ratings")
    order = generator(seed).permutation(len(ratings))
    return (_split(ratings, fold) for fold in np.array_split(order, int(k)))


@suggests
def leave_one_out(ratings: Ratings, *, seed: int = 0) -> Split:
    """One rating of each user, at random, as the test part; users with a single rating keep it for training."""
    return _last_of_each_user(ratings, generator(seed).random(len(ratings)), 1)


@suggests
def last_per_user(ratings: Ratings, k: int = 1) -> Split:
    """The last k ratings of each user as the test part; at least one of each user stays for training.

    Ratings of the same second count in file order. What others rated later is in the training part: to test without
    looking ahead use `time_split`.
    """
    check_int("k", k, least=1)
    return _last_of_each_user(ratings, ratings.known_times("to split by time").astype(np.int64), int(k))


@suggests
def time_split(ratings: Ratings, share: float | None = None, *, at: Any = None) -> Split:
    """The ratings from one moment on as the test part: the last `share` of them, or those from the date `at`.

    Ratings of the same second are never separated, so the share may be missed by a few.
    """
    times = ratings.known_times("to split by time")
    if (share is None) == (at is None):
        raise InvalidParameterError("time_split got both or neither of share and at; expected one of them")
    if share is not None:
        moment = np.sort(times)[len(ratings) - _count_of(share, len(ratings), "ratings")]
    else:
        moment = moment_of("at", at)
    test = np.flatnonzero(times >= moment)
    if not 0 < len(test) < len(ratings):
        raise InvalidParameterError(
            f"{'no' if len(test) == 0 else 'every'} rating is from {moment} on; expected a moment between "
            f"{times.min()} and {times.max()}"
        )
    return _split(ratings, test)


@suggests
def held_out_users(ratings: Ratings, share: float = 0.1, *, given: float = 0.5, seed: int = 0) -> Split:
    """A share of the users, with all their ratings, kept from training.

    A share `given` of the ratings of each, at random, is the history by which they are folded in; or this number of
    ratings, if it is an integer. The rest is the test part. Users whose history or test part would be empty are in
    training.
    """
    is_count = isinstance(given, Integral) and not isinstance(given, bool)
    if is_count and given < 1:
        raise InvalidParameterError(f"given is {given!r}; expected at least 1 rating, or a share between 0 and 1")
    if not is_count:
        _check_share("given", given)
    rng = generator(seed)
    order = rng.random(len(ratings))
    counts = np.bincount(ratings.user_rows, minlength=ratings.n_users)
    n_given = np.full(len(counts), int(given)) if is_count else (given * counts).astype(np.int64)
    able = np.flatnonzero((n_given >= 1) & (n_given < counts))
    chosen = rng.permutation(able)[: _count_of(share, ratings.n_users, "users")]
    if not len(chosen):
        raise DataError("no user has ratings for both a history and a test", expected="users with several ratings")
    is_out: BoolArray = np.isin(ratings.user_rows, chosen)
    is_history = is_out & (rank_within_user(ratings, order) < n_given[ratings.user_rows])
    return Split(train=ratings.take(~is_out), test=ratings.take(is_out & ~is_history), history=ratings.take(is_history))


@suggests
def held_out_items(ratings: Ratings, share: float = 0.1, *, seed: int = 0) -> Split:
    """A share of the items, at random, with all their ratings as the test part.

    Of the test items the training part knows nothing; models with item features get to know those (and nothing else)
    when they are evaluated on the split. Users all of whose ratings are of test items are new in the test part.
    """
    chosen = generator(seed).permutation(ratings.n_items)[: _count_of(share, ratings.n_items, "items")]
    is_test = np.isin(ratings.item_rows, chosen)
    if not is_test.any() or is_test.all():
        raise DataError("no ratings would be in training or test", expected="more items, or another share")
    return _split(ratings, np.flatnonzero(is_test))


def _split(ratings: Ratings, test: NDArray[Any]) -> Split:
    is_test: BoolArray = np.zeros(len(ratings), np.bool_)
    is_test[test] = True
    return Split(train=ratings.take(~is_test), test=ratings.take(is_test))


def _last_of_each_user(ratings: Ratings, key: NDArray[Any], k: int) -> Split:
    """The k ratings of each user with the largest key, but never all of them."""
    counts = np.bincount(ratings.user_rows, minlength=ratings.n_users)
    n_test = np.minimum(k, counts - 1)
    rank = rank_within_user(ratings, key)
    test = np.flatnonzero(rank >= (counts - n_test)[ratings.user_rows])
    if not len(test):
        raise DataError("every user has a single rating", expected="users with at least two")
    return _split(ratings, test)


def rank_within_user(ratings: Ratings, key: NDArray[Any]) -> NDArray[np.int64]:
    """The rank of each rating among those of its user by this key, from 0; ties in file order."""
    order = np.lexsort((key, ratings.user_rows))
    starts = offsets_of(np.bincount(ratings.user_rows, minlength=ratings.n_users))
    rank = np.empty(len(ratings), np.int64)
    rank[order] = np.arange(len(ratings)) - starts[ratings.user_rows[order]]
    return rank


def _check_share(name: str, share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
        raise InvalidParameterError(f"{name} is {share!r}; expected a number between 0 and 1, both excluded")


def _count_of(share: float, n: int, what: str) -> int:
    _check_share("share", share)
    if int(share * n) == 0:
        raise InvalidParameterError(
            f"a share of {share:g} of {n} {what} is no {what.rstrip('s')}; expected a larger share"
        )
    return int(share * n)
