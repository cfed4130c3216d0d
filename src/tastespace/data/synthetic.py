"""Synthetic ratings of a given shape: any number, as unevenly spread as real ones, no pair twice.

Who rated what: a user draws distinct items one after the other, in proportion to their weights. Popular items run out
for each user, so weights are not yet counts: they are fitted to the counts that the shape wants. Drawing without
replacement is a race: item j arrives at an exponential time with rate w_j, and a user with n ratings takes the first n.
By the time t a user has taken item j with probability 1 - exp(-w_j t), and has n items at the t for which these sum
to n.

How: rating = centre + c_i + d_j + u_i . v_j + noise, all Gaussian, moved to the nearest level.

Everything is drawn in blocks of users with a generator each, so that threads cannot change a byte.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace import threads as cores
from tastespace.arrays import BoolArray, DoubleArray, FloatArray, IntArray, OffsetArray, TimeArray, contiguous
from tastespace.data.csr import offsets_of
from tastespace.data.ratings import Ratings
from tastespace.data.shapes import STARS, Shape, shape_named
from tastespace.data.vocabulary import Vocabulary
from tastespace.errors import InvalidParameterError, check_int
from tastespace.randomness import generator

BLOCK = 1 << 20  # ratings, about: large enough to keep numpy busy, small enough for several in memory
MIN_WEIGHT = 1e-100  # keeps items with vanishing weights drawable
KNOTS = 200  # Weights are fitted for this many different counts; others are interpolated.
ROUNDS = 25  # of that fit
DEAR = 3  # Races among all items are cheaper than draws where these are more than a third of the items.

# Standard deviations in quarters of the range of levels, which are stars where they go from 1 to 5. Together with the
# usual noise they give about the errors of MovieLens 1M: 1.06 for the mean, 0.89 for biases, 0.83 for ALS (there 1.12,
# 0.91, 0.84).
USER_BIAS, ITEM_BIAS, FACTORS = 0.42, 0.5, 0.45
CENTRE = 0.65  # of the way from the lowest level to the highest
FIRST_DAY, LAST_DAY = np.datetime64("2000-01-01", "s"), np.datetime64("2007-01-01", "s")
STAY = 0.2  # of that span: how long a user stays, on average


def synthetic(
    shape: str | Shape = "ml-1m",
    *,
    scale: float = 1.0,
    n_factors: int = 8,
    noise: float = 0.8,
    times: bool = False,
    seed: int = 0,
    threads: int | None = None,
) -> Ratings:
    """Random ratings with the size and unevenness of real data, to try things out at any scale.

    `shape` is a `Shape`, or the name of one: netflix, ml-100k, ml-1m, ml-20m; `scale=0.1` is a tenth of it. Tastes
    have `n_factors` dimensions, `noise` is in stars. With `times`, users come one after the other and each stays for
    a while. Ids are the integers from 0 on. The ratings of a user are contiguous.
    """
    chosen = shape_named(shape).scaled(scale)
    check_int("n_factors", n_factors, least=1)
    if isinstance(noise, bool) or not isinstance(noise, Real) or not 0 <= float(noise) < np.inf:
        raise InvalidParameterError(f"noise is {noise!r}; expected a number of at least 0")
    pool = BlockPool(generator(seed), cores.resolve(threads))
    user_rows, item_rows = draw_pairs(chosen, pool)
    values = _draw_values(chosen, user_rows, item_rows, int(n_factors), float(noise), pool)
    stamps = _draw_times(chosen.n_users, user_rows, pool) if times else None
    users, items = numbered(chosen.n_users, "user"), numbered(chosen.n_items, "item")
    return Ratings(users, items, user_rows, item_rows, values, stamps)


def numbered(n: int, name: str) -> Vocabulary:
    """A vocabulary of the ids 0 .. n - 1, which are the rows."""
    return Vocabulary(pl.Series(name, np.arange(n, dtype=np.int64)))


@dataclass(frozen=True, eq=False)
class BlockPool:
    """Threads that fill blocks of an array; each block has its own generator, so the schedule does not matter."""

    rng: Generator
    threads: int = 1

    def fill(self, work: Callable[[slice, Generator], None], blocks: list[slice]) -> None:
        with ThreadPoolExecutor(self.threads) as threads:
            list(threads.map(work, blocks, self.rng.spawn(len(blocks))))  # raises what a worker has raised


def draw_pairs(shape: Shape, pool: BlockPool) -> tuple[IntArray, IntArray]:
    """Distinct pairs as user rows and item rows, grouped by user.

    Every user and every item occurs, if there are enough ratings for that.
    """
    counts = shape.user_counts(pool.rng)
    race = Race.fitted(shape.item_counts(pool.rng), counts)
    offsets = offsets_of(counts)
    item_rows = np.empty(shape.n_ratings, np.int32)

    def work(users: slice, rng: Generator) -> None:
        item_rows[offsets[users.start] : offsets[users.stop]] = race.run(counts[users], rng)

    starts = np.unique(np.searchsorted(offsets[:-1], np.arange(0, shape.n_ratings, BLOCK))).tolist()
    pool.fill(work, [slice(*ends) for ends in pairwise([*starts, shape.n_users])])
    if shape.n_ratings >= shape.n_items:
        _fill_gaps(item_rows, shape.n_items, pool.rng)
    return np.repeat(np.arange(shape.n_users, dtype=np.int32), counts), item_rows


@dataclass(frozen=True, eq=False)
class Race:
    """Items with weights, among which users draw distinct ones."""

    weights: DoubleArray  # one per item, their sum 1
    sizes: DoubleArray  # ascending numbers of distinct items ...
    draws: DoubleArray  # ... and the mean number of draws, repetitions included, that they take

    @classmethod
    def fitted(cls, wanted: DoubleArray, user_counts: NDArray[Any]) -> Race:
        """The weights with which these users give each item its wanted number of ratings."""
        knots, sizes_of_knots = _binned(wanted)
        users, sizes_of_users = _binned(user_counts[user_counts > 0])
        weights = knots / (knots @ sizes_of_knots)
        for _ in range(ROUNDS):
            sizes, draws = _progress(weights, sizes_of_knots)
            moments = np.interp(users, sizes, draws)
            expected = -np.expm1(-np.outer(weights, moments)) @ sizes_of_users
            weights = weights * knots / expected
            weights = np.maximum(weights / (weights @ sizes_of_knots), MIN_WEIGHT)
        each = np.exp(np.interp(np.log(wanted), np.log(knots), np.log(weights)))
        return cls(each / each.sum(), *_progress(weights, sizes_of_knots))

    def run(self, counts: OffsetArray, rng: Generator) -> IntArray:
        """`counts` distinct items for each user, ascending, one user after the other."""
        n_items = len(self.weights)
        dear = np.interp(counts, self.sizes, self.draws) > n_items / DEAR
        owners = np.repeat(np.arange(len(counts)), np.where(dear, 0, counts))
        parts = [_distinct(owners, n_items, lambda n: self._draw(n, rng))]
        for user in np.flatnonzero(dear):
            arrivals = rng.standard_exponential(n_items)
            arrivals /= self.weights
            first = np.argpartition(arrivals, counts[user] - 1)[: counts[user]]
            parts.append(first + user * n_items)
        keys = np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]
        return contiguous(keys % n_items, np.int32)

    @cached_property
    def _table(self) -> tuple[DoubleArray, IntArray]:
        """Walker's table: column j belongs to item j up to a height, and above it to another item."""
        heights = self.weights * len(self.weights)
        others = np.arange(len(heights), dtype=np.int32)
        small, large = np.flatnonzero(heights < 1).tolist(), np.flatnonzero(heights >= 1).tolist()
        left = heights.tolist()
        while small and large:
            below, above = small.pop(), large[-1]
            others[below] = above
            left[above] -= 1 - left[below]
            if left[above] < 1:
                small.append(large.pop())
        remaining = np.array(left)
        remaining[small + large] = 1.0  # what rounding has left over
        return remaining, others

    def _draw(self, n: int, rng: Generator) -> IntArray:
        """n items, repetitions included."""
        heights, others = self._table
        place = rng.random(n)
        place *= len(heights)
        column = place.astype(np.int32)
        place -= column
        return np.where(place < heights.take(column), column, others.take(column))


def _binned(sizes: NDArray[Any]) -> tuple[DoubleArray, DoubleArray]:
    """A few representative sizes, ascending, and how many each represents."""
    low, high = float(sizes.min()), float(sizes.max())
    edges = np.geomspace(low, high, KNOTS + 1)[1:-1]
    place = np.searchsorted(edges, sizes, side="right")
    numbers = np.bincount(place, minlength=KNOTS)
    means = np.bincount(place, weights=sizes, minlength=KNOTS)[numbers > 0] / numbers[numbers > 0]
    return means, numbers[numbers > 0].astype(np.float64)


def _progress(weights: DoubleArray, numbers: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """The expected number of distinct items after each number of draws."""
    draws = np.geomspace(0.1, 30 / weights.min(), 300)
    return -np.expm1(-np.outer(draws, weights)) @ numbers, draws


def _distinct(owners: OffsetArray, n_items: int, draw: Callable[[int], IntArray]) -> OffsetArray:
    """An item for each owner, none twice for one owner, as ascending keys owner * n_items + item.

    Repetitions are drawn again until there are none, which is drawing without replacement.
    """
    keys: OffsetArray = np.sort(owners * n_items + draw(len(owners)))
    repeated = np.zeros(len(keys), bool)
    repeated[1:] = keys[1:] == keys[:-1]
    lacking, keys, added = keys[repeated] // n_items, keys[~repeated], np.empty(0, np.int64)
    while len(lacking):
        new: OffsetArray = np.sort(lacking * n_items + draw(len(lacking)))
        known = _among(new, keys) | _among(new, added)
        known[1:] |= new[1:] == new[:-1]
        lacking, added = new[known] // n_items, np.sort(np.concatenate([added, new[~known]]))
    return np.sort(np.concatenate([keys, added]))


def _among(few: OffsetArray, many: OffsetArray) -> BoolArray:
    """Which of a few ascending keys are among the others."""
    if not len(many):
        return np.zeros(len(few), bool)
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return np.asarray(many[place] == few)


def _fill_gaps(item_rows: IntArray, n_items: int, rng: Generator) -> None:
    """Give each item without ratings one that another item can spare. No user has such an item, so no pair repeats."""
    n = len(item_rows)
    first = np.full(n_items, -1)
    for start in range((n - 1) // BLOCK * BLOCK, -1, -BLOCK):
        part = item_rows[start : start + BLOCK]
        first[part[::-1]] = np.arange(start + len(part) - 1, start - 1, -1)  # the last of equal ones wins
    empty = np.flatnonzero(first < 0)
    if not len(empty):
        return
    kept = np.sort(first[first >= 0])
    spare = rng.choice(n - len(kept), len(empty), replace=False)
    # The spare-th position that is not kept: shifted by the number of kept ones before it.
    item_rows[spare + np.searchsorted(kept - np.arange(len(kept)), spare, side="right")] = empty


def _draw_values(
    shape: Shape, user_rows: IntArray, item_rows: IntArray, n_factors: int, noise: float, pool: BlockPool
) -> FloatArray:
    levels = np.array(STARS if shape.levels is None else shape.levels, np.float32)
    middles = (levels[1:] + levels[:-1]) / 2
    height = float(levels[-1] - levels[0])
    centre, unit = float(levels[0]) + CENTRE * height, height / 4
    scale = (unit * FACTORS / n_factors**0.5) ** 0.5

    def normal(*size: int, sd: float) -> FloatArray:
        return pool.rng.standard_normal(size, np.float32) * np.float32(sd)

    users, items = normal(shape.n_users, n_factors, sd=scale), normal(shape.n_items, n_factors, sd=scale)
    user_bias, item_bias = normal(shape.n_users, sd=unit * USER_BIAS), normal(shape.n_items, sd=unit * ITEM_BIAS)
    values = np.empty(len(user_rows), np.float32)

    def work(where: slice, rng: Generator) -> None:
        part = values[where]
        _native.score_pairs(user_rows[where], item_rows[where], users, items, user_bias, item_bias, centre, part)
        part += rng.standard_normal(len(part), np.float32) * np.float32(unit * noise)
        if shape.levels is not None:
            part[:] = levels[np.searchsorted(middles, part)]

    pool.fill(work, _blocks(len(values)))
    return values


def _draw_times(n_users: int, user_rows: IntArray, pool: BlockPool) -> TimeArray:
    """Users arrive throughout the span, and each rates at random moments until they leave."""
    span = int((LAST_DAY - FIRST_DAY).astype(np.int64))
    come = pool.rng.random(n_users) * span
    stay = np.minimum(pool.rng.standard_exponential(n_users) * STAY * span, span - come)
    seconds = np.empty(len(user_rows), np.int64)

    def work(where: slice, rng: Generator) -> None:
        users = user_rows[where]
        seconds[where] = come.take(users) + rng.random(len(users)) * stay.take(users)

    pool.fill(work, _blocks(len(seconds)))
    seconds += FIRST_DAY.astype(np.int64)
    return seconds.view("datetime64[s]")


def _blocks(n: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
