"""Successive halving: settings are tried on some of the users first, and only good ones on more of them.

A rung is a part of the users, and each has three times those of the one below, the last all of them. A setting climbs
from one to the next if it is among the best third of all that have been there. Each rung is a fit of its own.

Users, and not sweeps, because every model has users, whereas some have no sweeps, and because a few sweeps say how fast
a setting learns, not how good it is in the end. Users are all there or not at all, so that a user is known as well as
he is in the whole; items are known less well below the top, which is why the best is chosen among those at the top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split
from tastespace.data.vocabulary import Vocabulary
from tastespace.randomness import derive

GROWTH = 3  # how many times the users of one rung the next one has
LEAST_HELD_OUT = 200  # ratings: with fewer a rung tells more of luck than of settings


@dataclass(frozen=True, eq=False)
class Rung:
    """A part of the users, with what is fitted to and what is held out of it."""

    step: int  # users, in parts of as many as the lowest rung has: 1, 3, 9
    share: float  # of the users
    split: Split


def rungs_of(split: Split, most: int, seed: int) -> tuple[Rung, ...]:
    """At most so many rungs, each part of the users within the next; fewer where too little would be held out."""
    affordable = 1
    while affordable < most and len(split.test) / GROWTH**affordable >= LEAST_HELD_OUT:
        affordable += 1
    order = derive(seed, "users of a rung").permutation(split.train.n_users)
    found = []
    for place in range(affordable):
        share = GROWTH ** (place + 1 - affordable)
        users = order[: max(1, round(share * split.train.n_users))]
        found.append(Rung(GROWTH**place, float(share), split if share == 1 else _part(split, users)))
    return tuple(found)


def _part(split: Split, user_rows: NDArray[np.int64]) -> Split:
    """What these users have on either side."""
    users = Vocabulary(split.train.users.at(np.sort(user_rows)))
    return Split(_of_users(split.train, users), _of_users(split.test, users))


def _of_users(ratings: Ratings, users: Vocabulary) -> Ratings:
    return ratings.take(np.flatnonzero(users.rows_of(ratings.users.ids)[ratings.user_rows] >= 0))
