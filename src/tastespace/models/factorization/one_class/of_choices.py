"""What beliefs from choices have in common: a history holds counts above 0, and 0 is what was not chosen."""

from __future__ import annotations

import numpy as np

from tastespace.data.compressed import Compressed
from tastespace.models.factorization.one_class.negatives import offsets_of


class OfChoices:
    """Mark of a kept noise that folds users in from what they chose."""


def chosen_only(ratings: Compressed) -> Compressed:
    """Less what was chosen no times: explanations ask what would be if something had not been chosen."""
    is_chosen = ratings.values > 0
    if is_chosen.all():
        return ratings
    counts = np.bincount(ratings.rows()[is_chosen], minlength=len(ratings))
    return Compressed(offsets_of(counts), ratings.columns[is_chosen], ratings.values[is_chosen])
