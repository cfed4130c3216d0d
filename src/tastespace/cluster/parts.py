"""Ratings in parts: whole blocks of users and of items for each node, and how nodes exchange what they computed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import OffsetArray
from tastespace.data.csr import CSR, row_blocks
from tastespace.data.kinds import MOST_LEVELS, Kind
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import InvalidParameterError
from tastespace.inference.drivers import current_chain

Arrays = list[NDArray[Any]]
# What a row costs beside its ratings: solving its system, in units of the work of one rating (measured, 32 factors).
COST_OF_ROW = 20


class Meeting(Protocol):
    """Where nodes exchange arrays."""

    def exchange(self, key: Hashable, own: Arrays) -> list[Arrays]:
        """The arrays of all nodes, in their order; waits until each has called it with this key."""


class Exchange:
    """The exchanges of one node: numbered within a chain, so that chains may run side by side."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting, self._lock = meeting, Lock()
        self._count: dict[int, int] = {}
        self.waited, self.sent, self.received = 0.0, 0, 0  # seconds of all chains, and bytes

    @property
    def seconds(self) -> float:
        """The time spent exchanging and waiting; of chains side by side the mean."""
        return self.waited / max(1, len(self._count.keys() - {-1}))

    def gather(self, *own: NDArray[Any]) -> Arrays:
        """The arrays of all nodes, one after another along the first dimension."""
        chain = current_chain()
        with self._lock:
            number = self._count[chain] = self._count.get(chain, 0) + 1
        began = perf_counter()
        found = self._meeting.exchange((chain, number), list(own))
        seconds, sent = perf_counter() - began, sum(array.nbytes for array in own)
        with self._lock:
            self.waited += seconds
            self.sent += sent
            self.received += sum(array.nbytes for arrays in found for array in arrays) - sent
        return [np.concatenate(pieces) for pieces in zip(*found, strict=True)]


@dataclass(frozen=True, eq=False)
class NodePart:
    """The rows of one side that are on this node."""

    rows: slice
    counts: OffsetArray
    exchange: Exchange

    def gather(self, *own: NDArray[Any]) -> Arrays:
        return self.exchange.gather(*own)


@dataclass(frozen=True, eq=False)
class Share:
    """What a node gets of one side: its rows, and the number of ratings of all rows."""

    first: int
    offsets: OffsetArray
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    counts: OffsetArray

    def grouped(self, exchange: Exchange) -> CSR:
        """The rows as a model sees them."""
        rows = slice(self.first, self.first + len(self.offsets) - 1)
        return CSR(self.offsets, self.columns, self.values, part=NodePart(rows, self.counts, exchange))


@dataclass(frozen=True)
class Facts:
    """What a model asks of all ratings, beside its rows."""

    n_ratings: int
    mean: float
    standard_deviation: float
    rating_range: tuple[float, float]
    kind: Kind
    values: tuple[float, ...]  # in use: all, or more than any model takes for levels

    @classmethod
    def of(cls, ratings: Ratings) -> Facts:
        found = pl.Series(ratings.values).unique(maintain_order=True).head(MOST_LEVELS + 1).sort()
        moments = ratings.mean, ratings.standard_deviation
        return cls(len(ratings), *moments, ratings.range, ratings.kind, tuple(found.to_list()))


class RatingsInParts(Ratings):
    """The ratings as a node sees them: its rows of both sides, and what is asked of all.

    `values` are the values in use, each once. Neither the rows of single ratings nor ids are here.
    """

    def __init__(self, users: Share, items: Share, facts: Facts, exchange: Exchange) -> None:
        nothing = np.zeros(0, np.int32)
        people, things = (
            Vocabulary(pl.Series(side, np.arange(len(share.counts))))
            for side, share in (("user", users), ("item", items))
        )
        values = np.array(facts.values, np.float32)
        super().__init__(people, things, nothing, nothing.copy(), values, declared_kind=facts.kind)
        self.__dict__.update(
            by_user=users.grouped(exchange),
            mean=facts.mean,
            standard_deviation=facts.standard_deviation,
            range=facts.rating_range,
            _facts=facts,
            _items=items.grouped(exchange),
        )

    @property
    def by_item(self) -> CSR:
        """Grouped by item; kept, unlike on one machine, where it can be made of the other."""
        grouped: CSR = self.__dict__["_items"]
        return grouped

    def __len__(self) -> int:
        facts: Facts = self.__dict__["_facts"]
        return facts.n_ratings


def shares_of(side: CSR, n_nodes: int) -> list[Share]:
    """Whole blocks of rows for each node, of about the same cost."""
    counts, blocks = side.counts, row_blocks(len(side))
    if len(blocks) < n_nodes:
        raise InvalidParameterError(
            f"{len(side):,} rows are {len(blocks)} blocks, for {n_nodes} nodes; expected a block of "
            f"{blocks[0].stop if blocks else 0:,} rows for each: take fewer nodes, one machine is faster here"
        )
    costs = np.array([float(counts[block].sum()) + COST_OF_ROW * (block.stop - block.start) for block in blocks])
    shares = []
    for first, last in _divided(costs, n_nodes):
        rows = slice(blocks[first].start, blocks[last - 1].stop)
        entries = slice(int(side.offsets[rows.start]), int(side.offsets[rows.stop]))
        offsets = side.offsets[rows.start : rows.stop + 1] - side.offsets[rows.start]
        shares.append(Share(rows.start, offsets, side.columns[entries], side.values[entries], counts))
    return shares


def _divided(costs: NDArray[np.float64], n: int) -> Sequence[tuple[int, int]]:
    """Runs of blocks of about the same cost, none empty."""
    ends, total = [0], np.cumsum(costs)
    for place in range(1, n):
        nearest = int(np.argmin(np.abs(total - total[-1] * place / n))) + 1
        ends.append(min(max(nearest, ends[-1] + 1), len(costs) - (n - place)))
    ends.append(len(costs))
    return list(zip(ends[:-1], ends[1:], strict=True))
