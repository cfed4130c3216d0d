"""The shape of a set of ratings: how many users, items and ratings, and how unevenly they are spread.

Ratings per user: at least `least`, plus a log-normal number. Ratings per item: a gamma distribution, which for
a shape parameter below one is a power law with an exponential cut-off. Both have one free parameter besides their mean.
It is chosen so that the numbers have the wanted Gini coefficient, which is 0 if everyone has the same number of
ratings, and approaches 1 if a few have them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, OffsetArray
from tastespace.errors import InvalidParameterError, check_int

if TYPE_CHECKING:
    from tastespace.data.ratings import Ratings


STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
HALF_STARS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
MAX_ROWS = 2**31 - 1  # rows are 32-bit numbers
STEEPNESS = (1e-3, 10.0)  # from hardly any inequality to more than is allowed
STRETCH = 1.3
N_PLACES = 500
STEEPEST = 0.98  # Beyond this Gini coefficient a distribution is a few numbers and rounding errors.
FAVOURITE = 0.6  # The most popular films are rated by half of the users or a little more, in all sets of films.
MAX_LEVELS = 20  # as in a description: what has more distinct values is taken for continuous


@dataclass(frozen=True)
class Shape:
    """How many users, items and ratings, and how they are spread; what `synthetic` draws from.

    `activity` is the Gini coefficient of the ratings per user, as far as `least`, the minimum for everyone, leaves room
    for it. `popularity` is that of the ratings per item. Ratings are one of `levels`, or any number if that is None.
    """

    n_users: int
    n_items: int
    n_ratings: int
    activity: float = 0.6
    popularity: float = 0.7
    least: int = 1
    levels: tuple[float, ...] | None = STARS

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_ratings", "least"):
            check_int(name, getattr(self, name), least=1)
        for name in ("n_users", "n_items"):
            if (n := getattr(self, name)) > MAX_ROWS:
                raise InvalidParameterError(f"{name} is {n}; expected at most {MAX_ROWS}")
        if self.levels is not None:
            object.__setattr__(self, "levels", _ascending(self.levels))
        if self.n_ratings > self.n_users * self.n_items:
            raise InvalidParameterError(
                f"n_ratings is {self.n_ratings}; expected at most one per pair, {self.n_users} x {self.n_items}"
            )
        if self.least > 1 and self.n_ratings < self.least * self.n_users:
            raise InvalidParameterError(
                f"least is {self.least}, too many for {self.n_ratings} ratings by {self.n_users} users; expected "
                "more ratings, or fewer per user"
            )
        for name, value in (("activity", self.activity), ("popularity", self.popularity)):
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= STEEPEST:
                raise InvalidParameterError(f"{name} is {value!r}; expected a Gini coefficient from 0 to {STEEPEST}")

    @classmethod
    def of(cls, ratings: Ratings) -> Shape:
        """The shape of real ratings, to draw synthetic ones like them."""
        by_user = np.bincount(ratings.user_rows)
        by_item = np.bincount(ratings.item_rows)
        by_user, by_item = by_user[by_user > 0], by_item[by_item > 0]
        levels = np.unique(ratings.values)
        return cls(
            n_users=len(by_user),
            n_items=len(by_item),
            n_ratings=len(ratings),
            activity=min(gini(by_user), STEEPEST),
            popularity=min(gini(by_item), STEEPEST),
            least=int(by_user.min()),
            levels=tuple(float(level) for level in levels) if len(levels) <= MAX_LEVELS else None,
        )

    def scaled(self, scale: float) -> Shape:
        """The shape with `scale` times the ratings: users in proportion, items with its root.

        Smaller is therefore denser, and where one item would need more ratings than there are users, popularity
        is cut off.
        """
        if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
            raise InvalidParameterError(f"scale is {scale!r}; expected a number above 0")
        n_users = max(1, round(self.n_users * scale))
        n_items = max(1, round(self.n_items * math.sqrt(scale)))
        n_ratings = max(1, round(self.n_ratings * scale), self.least * n_users if self.least > 1 else 0)
        if n_ratings > n_users * n_items:
            smallest = (self.n_ratings / (self.n_users * self.n_items)) ** 2
            raise InvalidParameterError(
                f"scale is {scale:g}, which leaves {n_users} users and {n_items} items for {n_ratings} ratings; "
                f"expected more than about {smallest:.1g}"
            )
        return replace(self, n_users=n_users, n_items=n_items, n_ratings=n_ratings)

    def user_counts(self, rng: Generator) -> OffsetArray:
        """The ratings of each user; their sum is exact."""
        least = self.least if self.n_ratings >= self.least * self.n_users else 0
        spread = _Spread(self.n_ratings / self.n_users, least, self._most(self.n_items), _log_normal)
        return _whole(spread.portions(self.n_users, self.activity, rng), self.n_ratings)

    def item_counts(self, rng: Generator) -> DoubleArray:
        """The ratings that each item can expect."""
        least = 1 if self.n_ratings >= self.n_items else 0
        spread = _Spread(self.n_ratings / self.n_items, least, self._most(self.n_users), _gamma)
        return spread.portions(self.n_items, self.popularity, rng)

    def _most(self, n: int) -> int:
        """The maximum number of ratings of the most active user or the most popular item."""
        density = self.n_ratings / (self.n_users * self.n_items)
        return min(n, max(self.least, math.ceil(n * max(FAVOURITE, (1 + density) / 2))))


def shape_named(shape: str | Shape) -> Shape:
    """A predefined shape by its name; a shape is returned unchanged."""
    if isinstance(shape, Shape):
        return shape
    if shape not in SHAPES:
        raise InvalidParameterError(f"shape is {shape!r}; expected a Shape, or one of {', '.join(SHAPES)}")
    return SHAPES[shape]


def gini(counts: NDArray[Any]) -> float:
    """The Gini coefficient of counts: 0 if all are the same, towards 1 if one has everything."""
    ascending = np.sort(counts).astype(np.float64)
    n = len(ascending)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ascending / (n * ascending.sum()))


def _log_normal(steepness: float, places: DoubleArray) -> DoubleArray:
    """Quantiles of a log-normal distribution."""
    return np.asarray(np.exp(steepness * scipy.special.ndtri(places)))


def _gamma(steepness: float, places: DoubleArray) -> DoubleArray:
    """Quantiles of a gamma distribution whose coefficient of variation is the steepness."""
    return np.asarray(scipy.special.gammaincinv(steepness**-2, places))


@dataclass(frozen=True)
class _Spread:
    """Numbers with a given mean, between `least` and `most`, spread by a distribution."""

    mean: float
    least: int
    most: float
    quantiles: Callable[[float, DoubleArray], DoubleArray]

    def portions(self, n: int, inequality: float, rng: Generator) -> DoubleArray:
        """n numbers in random order, with about this Gini coefficient.

        Where `most` cuts the distribution off, which makes the numbers more equal, a steeper one makes up for it,
        within limits: real ratings never consist of a few full users or items and nothing between them and the rest.
        """
        steepness = replace(self, most=math.inf)._steepness(inequality, *STEEPNESS)
        steepness = self._steepness(inequality, steepness, STRETCH * steepness)
        # One number in each n-th part of the distribution: a stratified sample.
        places = (rng.permutation(n) + np.clip(rng.random(n), 1e-9, 1 - 1e-9)) / n
        return self._bounded(self.quantiles(steepness, places))

    def _steepness(self, inequality: float, low: float, high: float) -> float:
        """The steepness between these two that is closest to a Gini coefficient."""
        places = (np.arange(N_PLACES) + 0.5) / N_PLACES  # A few quantiles are enough.
        for _ in range(20):
            middle = math.sqrt(low * high)
            is_less = gini(self._bounded(self.quantiles(middle, places))) < inequality
            low, high = (middle, high) if is_less else (low, middle)
        return math.sqrt(low * high)

    def _bounded(self, sizes: DoubleArray) -> DoubleArray:
        """`least` plus a multiple of each size, up to `most`, so that the mean is met."""
        room, n = self.most - self.least, len(sizes)
        excess = n * (self.mean - self.least)
        if excess >= n * room:
            return np.full(n, float(self.most))
        sizes = np.maximum(sizes, 1e-280)  # Once the large ones are full, the smallest must be able to grow.
        if math.isinf(room):
            return np.asarray(self.least + sizes * (excess / sizes.sum()))
        # With the k largest full, the others get this multiple of their sizes; k is the first that leaves them room.
        ascending = np.sort(sizes)
        multiples = (excess - room * np.arange(n)) / np.cumsum(ascending)[::-1]
        multiple = multiples[np.argmax(multiples * ascending[::-1] <= room)]
        return np.asarray(np.minimum(self.least + multiple * sizes, self.most))


def _whole(portions: DoubleArray, total: int) -> OffsetArray:
    """Whole numbers next to the portions, with exactly this sum."""
    below = np.floor(portions)
    left = total - int(below.sum())
    parts = np.cumsum(portions - below)  # no fraction, nothing extra: full ones stay as they are
    if left:
        below += np.diff(np.round(parts * (left / parts[-1])), prepend=0.0)
    return below.astype(np.int64)


def _ascending(levels: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(float(level) for level in levels)
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or not np.isfinite(numbers).all() or not (np.diff(numbers) > 0).all():
        raise InvalidParameterError(f"levels is {levels!r}; expected ascending numbers, or None")
    return numbers


# Netflix: 1 to 17 653 ratings per user (median 96), 3 to 232 944 per item (median 561). The Gini coefficients of sets
# that are not available here follow from mean / median of the distributions above, as published.
SHAPES = {
    "netflix": Shape(480_189, 17_770, 100_480_507, activity=0.62, popularity=0.80),
    "ml-100k": Shape(943, 1_682, 100_000, activity=0.472, popularity=0.629, least=20),
    "ml-1m": Shape(6_040, 3_706, 1_000_209, activity=0.529, popularity=0.634, least=20),
    "ml-20m": Shape(138_493, 26_744, 20_000_263, activity=0.578, popularity=0.854, least=20, levels=HALF_STARS),
}
