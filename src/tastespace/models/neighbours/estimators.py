"""The recommenders of this family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tastespace import threads
from tastespace.data.ratings import Ratings
from tastespace.models.biases import Baseline, damped_biases
from tastespace.models.neighbours.items import ItemNeighbours
from tastespace.models.neighbours.rule import Rule, Similarity
from tastespace.models.neighbours.users import UserNeighbours
from tastespace.models.parameters import number, whole_number
from tastespace.models.recommender import Recommender
from tastespace.progress import Observer

BIAS_SWEEPS = 20  # alternating steps for the biases; they have long settled by then


@dataclass(kw_only=True)
class ItemKNN(Recommender):
    """A user rates an item as he rated the items most similar to it.

    rating = mean + user bias + item bias + average of what these leave of his ratings of the `n_neighbours` most
    similar items, weighted by similarity. `similarity` is "cosine" (the default), "pearson" or "adjusted-cosine" (see
    `tastespace.models.neighbours.rule`), times n / (n + `shrinkage`) for n common raters. Neighbours have a similarity
    above `min_similarity` and at least `min_common` common raters. `damping` pulls the average to zero, as one more
    neighbour of that similarity would that was rated just as the biases say.

    The biases are those of `DampedBias`. Of each item, the `n_candidates` most similar ones are kept.
    """

    n_neighbours: int = 20
    similarity: Similarity = "cosine"
    shrinkage: float = 25.0
    damping: float = 0.1
    min_similarity: float = 0.0
    min_common: int = 1
    n_candidates: int = 400
    user_damping: float = 5.0
    item_damping: float = 5.0

    posterior_class = ItemNeighbours
    is_its_ratings = True

    def check(self) -> None:
        super().check()
        _rule(self).check()
        whole_number("n_candidates", self.n_candidates, least=1)
        number("user_damping", self.user_damping, least=0)
        number("item_damping", self.item_damping, least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> ItemNeighbours:
        baseline = _baseline(self, observed)
        return ItemNeighbours.find(
            baseline, observed.by_user, _rule(self), self.n_candidates, threads.resolve(self.threads), observer
        )


@dataclass(kw_only=True)
class UserKNN(Recommender):
    """A user rates an item as the users most similar to him rated it.

    rating = mean + user bias + item bias + average of what these leave of the ratings that the item got from the
    `n_neighbours` users most similar to him, weighted by similarity. `similarity`, `shrinkage`, `damping`,
    `min_similarity` and `min_common` (here: items that both rated) are as in `ItemKNN`.

    Nothing is learned but biases. Whoever asks, old or new, is compared with all training users at that moment.
    """

    n_neighbours: int = 40
    similarity: Similarity = "cosine"
    shrinkage: float = 25.0
    damping: float = 0.1
    min_similarity: float = 0.0
    min_common: int = 1
    user_damping: float = 5.0
    item_damping: float = 5.0

    posterior_class = UserNeighbours
    is_its_ratings = True

    def check(self) -> None:
        super().check()
        _rule(self).check()
        number("user_damping", self.user_damping, least=0)
        number("item_damping", self.item_damping, least=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> UserNeighbours:
        return UserNeighbours(_baseline(self, observed), observed.by_user, _rule(self))


def _rule(model: ItemKNN | UserKNN) -> Rule:
    return Rule(
        similarity=model.similarity,
        n_neighbours=model.n_neighbours,
        shrinkage=model.shrinkage,
        min_common=model.min_common,
        min_similarity=model.min_similarity,
        damping=model.damping,
    )


def _baseline(model: ItemKNN | UserKNN, observed: Ratings) -> Baseline:
    _, items = damped_biases(observed, model.user_damping, model.item_damping, BIAS_SWEEPS)
    return Baseline(observed.mean, items.astype(np.float32), float(model.user_damping))
