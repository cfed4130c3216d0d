"""The number of factors that was found, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tastespace.inference.trace import ACTIVE, Trace
from tastespace.models.factorization.shrinkage.search import RankSearch, most_frequent


@dataclass(frozen=True, eq=False)
class FoundRank:
    """What chains and the search before them say."""

    n_factors: int  # of use: most often, over all sweeps after the warm-up
    columns: int  # that the draws have
    posterior: Mapping[int, float]  # share of these sweeps by number; one with probability 1 where nothing shrinks
    search: RankSearch | None  # how many columns to take

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = {
            "n_factors": self.n_factors,
            "columns": self.columns,
            "posterior": {str(number): share for number, share in self.posterior.items()},
        }
        if self.search is not None:
            found["search"] = {"columns": self.search.columns.tolist(), "active": self.search.active.tolist()}
        return found


def found_rank(columns: int, trace: Trace | None) -> FoundRank:
    """From what was watched of chains whose draws have so many columns."""
    if trace is None or ACTIVE not in trace.quantities:
        return FoundRank(columns, columns, {columns: 1.0}, None)
    counted = np.rint(trace.quantities[ACTIVE][:, trace.warmup :]).astype(np.int64)
    values, times = np.unique(counted, return_counts=True)
    shares = {int(value): float(n) / counted.size for value, n in zip(values, times, strict=True)}
    return FoundRank(max(1, most_frequent(counted)), columns, shares, RankSearch.found_in(trace))
