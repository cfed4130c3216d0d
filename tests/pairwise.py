"""Tables in which every two values of every two parameters meet, in place of all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows, one value of each axis, so few that no greedy choice of the next covers more pairs; always the same."""
    sizes = [range(len(axis)) for axis in axes]
    missing = {
        (one, other, a, b)
        for one, other in combinations(range(len(axes)), 2)
        for a, b in product(sizes[one], sizes[other])
    }
    rows = []
    while missing:
        best = max(product(*sizes), key=lambda row: len(_pairs(row) & missing))
        missing -= _pairs(best)
        rows.append(tuple(axis[place] for axis, place in zip(axes, best, strict=True)))
    return rows


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(one, other, row[one], row[other]) for one, other in combinations(range(len(row)), 2)}
