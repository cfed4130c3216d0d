"""The kernels that average over neighbours, in their one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tastespace import _native
from tastespace.arrays import FloatArray, FloatMatrix, IntArray, OffsetArray
from tastespace.data.compressed import Compressed
from tastespace.models.neighbours.rule import Rule


@dataclass(frozen=True, eq=False)
class Targets:
    """The items that each of some users is asked about; item row -1 is one never seen."""

    offsets: OffsetArray  # users + 1
    items: IntArray

    def part(self, first: int, last: int) -> Targets:
        """Those of some users only."""
        offsets = self.offsets[first : last + 1]
        return Targets(offsets - offsets[0], self.items[offsets[0] : offsets[-1]])


def average_over_items(
    targets: Targets, neighbours: Compressed, residuals: Compressed, rule: Rule, threads: int
) -> FloatArray:
    """For each target: the residuals that its user gave to the items most similar to it, averaged.

    `neighbours` are the similar items of each item, best first; `residuals` one row a user.
    """
    out = np.empty(len(targets.items), np.float32)
    _native.average_over_items(
        targets.offsets,
        targets.items,
        neighbours.offsets,
        neighbours.columns,
        neighbours.values,
        residuals.offsets,
        residuals.columns,
        residuals.values,
        rule.n_neighbours,
        rule.damping,
        out,
        threads,
    )
    return out


def average_over_items_of_all(
    neighbours: Compressed, followers: Compressed, residuals: Compressed, rule: Rule, threads: int
) -> FloatMatrix:
    """The same for every item, one row a user of the residuals; `followers` is `neighbours` transposed."""
    out = np.empty((len(residuals), len(neighbours)), np.float32)
    _native.average_over_items_of_all(
        neighbours.offsets,
        neighbours.columns,
        neighbours.values,
        followers.offsets,
        followers.columns,
        followers.values,
        residuals.offsets,
        residuals.columns,
        residuals.values,
        rule.n_neighbours,
        rule.damping,
        out,
        threads,
    )
    return out


def average_over_users(
    targets: Targets, similarities: FloatMatrix, raters: Compressed, rule: Rule, threads: int
) -> FloatArray:
    """For each target: the residuals that it got from the users most similar to its user, averaged.

    `similarities` has one row a user of the targets and one column a rater; `raters` the residuals of each item.
    """
    out = np.empty(len(targets.items), np.float32)
    _native.average_over_users(
        targets.offsets,
        targets.items,
        similarities,
        raters.offsets,
        raters.columns,
        raters.values,
        rule.n_neighbours,
        rule.min_similarity,
        rule.damping,
        out,
        threads,
    )
    return out


def average_over_users_of_all(
    similarities: FloatMatrix, residuals: Compressed, n_items: int, rule: Rule, threads: int
) -> FloatMatrix:
    """The same for every item, one row a user of the similarities; `residuals` are those of each rater."""
    out = np.empty((len(similarities), n_items), np.float32)
    _native.average_over_users_of_all(
        similarities,
        residuals.offsets,
        residuals.columns,
        residuals.values,
        rule.n_neighbours,
        rule.min_similarity,
        rule.damping,
        out,
        threads,
    )
    return out
