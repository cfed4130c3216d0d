"""Ratings as plain tuples, for tests to compare."""

from __future__ import annotations

from tastespace import Ratings


def triples(ratings: Ratings) -> list[tuple[int | str, int | str, float]]:
    """User, item and rating of each, in order."""
    return list(zip(ratings.user_ids().to_list(), ratings.item_ids().to_list(), ratings.values.tolist(), strict=True))
