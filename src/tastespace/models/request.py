"""One request to a fitted model: who is meant, and what is believed about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace import randomness
from tastespace.arrays import BoolArray, IntArray
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.errors import InvalidParameterError
from tastespace.models.asking import Asked, History, require_levels
from tastespace.models.posterior import Posterior, Remembers, Reweighs


@dataclass(frozen=True, eq=False)
class Request:
    """What every answer about users starts from."""

    trained: Ratings
    posterior: Posterior[Any]
    seed: int  # of the model
    users: pl.Series  # in the order they were asked about; one may be there twice
    asked: Asked  # the same users, each once: those that a belief is about
    threads: int

    @property
    def positions(self) -> IntArray:
        """Where each of the users is among those asked about."""
        return self.asked.users.rows_of(self.users)

    @cached_property
    def belief(self) -> Any:
        """As training left it, or folded in where there is news."""
        asked, posterior = self.asked, self.posterior
        if not asked.has_history.any():
            return posterior.known(asked.rows, self.threads)
        require_levels(posterior, asked)
        known = posterior.known(asked.rows, self.threads)
        folded = posterior.fold_in(asked.seen, self.threads)
        if isinstance(posterior, Reweighs):
            folded = posterior.reweighed(folded, asked.before)
        return posterior.choose(asked.has_history, folded, known)

    @property
    def cold(self) -> BoolArray:
        """Who has nothing to go by: also those whose ratings the model would need, and was saved without."""
        if isinstance(self.posterior, Remembers) and not len(self.trained):
            return np.asarray(self.asked.seen.counts == 0)
        return self.asked.cold

    def rng_of(self, *purpose: object) -> Callable[[int], Generator]:
        """Random numbers of each user: the same for the same model, user and purpose."""
        known = self.trained.users.at(self.asked.rows)  # by their own ids: typed at a terminal, 7 is a text
        return lambda user: randomness.derive(self.seed, *purpose, known[user] or self.asked.users.ids[user])


def users_meant(trained: Ratings, user_ids: Ids | None, history: History | None, verb: str) -> pl.Series:
    """Those asked about; or else those of the history."""
    if user_ids is None:
        if history is None:
            raise InvalidParameterError(f"{verb} got neither users nor a history; expected at least one")
        user_ids = history.users.ids if isinstance(history, Ratings) else [stranger(trained)]
    return id_series(listed(user_ids), "user")


def stranger(trained: Ratings) -> str:
    """A name for somebody whom the training ratings do not know."""
    name = "you"
    while trained.users.rows_of([name])[0] >= 0:
        name += "'"
    return name
