"""The recommenders of this family."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.choices import OneClass
from tastespace.models.linear.ease import bytes_needed, item_weights
from tastespace.models.linear.posterior import LinearPosterior
from tastespace.models.parameters import number, whole_number
from tastespace.progress import Observer


@dataclass(kw_only=True)
class EASE(OneClass):
    """What goes with the things that a user has: weights from every item to every other, in closed form (Steck 2019).

    For clicks, plays and purchases. Every rating counts as 1, whatever its value: of stars, it only counts that an item
    has been rated. Zeros and negative numbers, which say no, are refused.

    score = sum of the weights from the items that a user has. It is no rating and no probability: only the order
    means something, and `predict` does not clip it. Where it is 0, as with everything for somebody of whom nothing is
    known, what more people have comes first.

    `regularisation` pulls the weights to zero; where an item has many more users than that, it is hardly felt. Weights
    take 4 bytes for each pair of items, and twice as much while fitting. A catalogue of more than `most_items` is
    refused before it fills the memory.

    There is nothing random in it: neither `seed` nor `threads` changes anything. LAPACK works with one thread, so that
    the weights are the same to the last bit wherever it has the same instructions.
    """

    regularisation: float = 100.0
    most_items: int = 20_000

    posterior_class = LinearPosterior
    scores_are_ratings = False

    def check(self) -> None:
        super().check()
        number("regularisation", self.regularisation, above=0)
        whole_number("most_items", self.most_items, least=1)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> LinearPosterior:
        self.require_choices(observed)
        self._require_room(observed)
        with threads.one_blas_thread():
            weights = item_weights(observed.by_user, observed.n_items, float(self.regularisation), observer)
        shares = observed.by_item.counts / max(observed.n_users, 1)
        return LinearPosterior(weights, shares.astype(np.float32))

    @property
    def prediction_range(self) -> tuple[float, float]:
        """Scores are no ratings."""
        return -inf, inf

    def _require_room(self, observed: Ratings) -> None:
        n_items = observed.n_items
        if n_items <= self.most_items:
            return
        counts = np.sort(observed.by_item.counts)[::-1]
        least = int(counts[self.most_items]) + 1  # more users than the first item that is too many
        n_left = int(np.count_nonzero(counts >= least))
        raise InvalidParameterError(
            f"EASE got {n_items:,} items, and needs 8 bytes for each pair of them: "
            f"{bytes_needed(n_items) / 1e9:,.1f} GB; most_items allows {self.most_items:,} "
            f"({bytes_needed(self.most_items) / 1e9:,.1f} GB). Expected fewer items, such as the {n_left:,} with at "
            f"least {least:,} users; or most_items={n_items} if there is so much memory; or another model, such as "
            "ImplicitALS (implicit-als)"
        )
