"""The index of a model that has got new items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tastespace.index.growing import Growing
from tastespace.index.trials import StoredIndex
from tastespace.models.posterior import InnerProduct, Posterior


def grown_index(stored: StoredIndex | None, before: Posterior[Any], after: Posterior[Any]) -> StoredIndex | None:
    """The same index with the new items beside it; None where the old ones have moved, and it would mislead."""
    if stored is None or not isinstance(before, InnerProduct) or not isinstance(after, InnerProduct):
        return None
    old, new = before.item_vectors(), after.item_vectors()
    is_growing = isinstance(stored.index, Growing)
    # New items are drawn anew whenever there are more of them: those that the index was built over must be the same.
    n_built = stored.index.n_built_ if isinstance(stored.index, Growing) else len(old)
    if old.shape[1] != new.shape[1] or not np.array_equal(new[:n_built], old[:n_built]):
        return None
    if len(new) == n_built and not is_growing:
        return stored
    return replace(stored, index=Growing.over(stored.index, new))
