"""What a fitted recommender makes once, when it is first needed, and keeps: indexes, attributes, likeness."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tastespace.data.attributes import Attributes
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import StoredIndex
from tastespace.models.base.posterior import InnerProduct, Posterior
from tastespace.models.base.reranking import Damping
from tastespace.models.base.similarity import (
    CoRatedItems,
    ItemLikeness,
    PoolLikeness,
    UserLikeness,
    compares_items,
    item_likeness,
    user_likeness,
)


class Prepared:
    """One of each; what a model cannot have is an error when it is asked for."""

    def __init__(self, posterior: Posterior[Any], ratings: Ratings) -> None:
        self._posterior, self._ratings = posterior, ratings

    @cached_property
    def exact(self) -> Exact | None:
        """The scan of all items; None for a posterior without item vectors."""
        if not isinstance(self._posterior, InnerProduct):
            return None
        return Exact().build(self._posterior.item_vectors())

    def take_exact(self, exact: Exact) -> None:
        """One that is there already, unless another was made before."""
        self.__dict__.setdefault("exact", exact)

    @cached_property
    def attributes(self) -> Attributes:
        return Attributes(self._ratings)

    @cached_property
    def damping(self) -> Damping:
        if not len(self._ratings):
            raise InvalidParameterError(
                "the model was saved without its ratings, so that nothing is known of popularity; expected "
                "popularity_damping=0, or a model saved with its ratings"
            )
        counts = np.bincount(self._ratings.item_rows, minlength=self._ratings.n_items)
        return Damping(self._posterior, counts)

    @cached_property
    def item_likeness(self) -> ItemLikeness:
        return item_likeness(self._posterior, self._ratings.n_items)

    @cached_property
    def pool_likeness(self) -> PoolLikeness:
        """What lists are made diverse by; a model that does not know what is alike goes by who rated what."""
        if compares_items(self._posterior):
            return self.item_likeness
        if not len(self._ratings):
            raise InvalidParameterError(
                "this model does not know how alike items are, and was saved without the ratings that could say; "
                "expected diversity=0, or a model saved with its ratings"
            )
        return CoRatedItems(self._ratings.by_item, self._ratings.n_users)

    @cached_property
    def user_likeness(self) -> UserLikeness:
        return user_likeness(self._posterior, self._ratings.n_users)


def grown_index(stored: StoredIndex | None, before: Posterior[Any], after: Posterior[Any]) -> StoredIndex | None:
    """The same index with the new items beside it; None where the old ones have moved, and it would mislead."""
    if stored is None or not isinstance(before, InnerProduct) or not isinstance(after, InnerProduct):
        return None
    old, new = before.item_vectors(), after.item_vectors()
    # New items are drawn anew whenever there are more of them: those that the index was built over must be the same.
    n_built = stored.index.n_built_
    if old.shape[1] != new.shape[1] or not np.array_equal(new[:n_built], old[:n_built]):
        return None
    if len(new) == n_built and not stored.index.can_change:
        return stored
    return replace(stored, index=stored.index.over(new))
