"""Ratings with a known right answer.

The drawn ones come with the `Truth` behind them. Its score of a pair is s_ij = offset + c_i + d_j + u_i . v_j, and a
rating is drawn from it: a normal around it (`gaussian`), yes or no with probability 1 / (1 + exp(-s_ij)) or Phi(s_ij)
(`yes_no`), a level between two cut-points (`ordinal`), or a Poisson number with mean exp(s_ij) (`counts`).

Ids are the positions in the truth: users and items are the integers from 0 on, and stay so when ratings are split.

Ratings of groups of users who use the scale differently, with the truth behind them.

An opinion is x = bias of the user and item + u . v + noise, scaled to a standard deviation of 1. The rating is f(x)
rounded to half stars, with an increasing f for each group: one group rates in extremes, one stays in the middle, one is
generous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, contiguous
from tastespace.data.ratings import Ratings
from tastespace.data.shapes import Shape
from tastespace.data.synthetic import BlockPool, draw_pairs, numbered
from tastespace.errors import InvalidParameterError

Observed = Literal["random", "skewed"]
Pairs = tuple[NDArray[Any], NDArray[Any]]


def checkerboard(size: int = 12) -> Ratings:
    """Even users like even items, odd users odd ones.

    User i has not rated item i, which they would like, nor the items i + 1 and i + 3, which they would not: so their
    best unseen item is i, exactly.
    """
    users, items = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    observed = ~np.isin((items - users) % size, [0, 1, 3])
    likes = (users % 2) == (items % 2)
    return Ratings.from_arrays(users[observed], items[observed], np.where(likes, 5.0, 1.0)[observed])


def tastes(
    n_users: int, n_items: int, *, n_factors: int = 2, density: float = 0.3, noise: float = 0.3, rng: Generator
) -> tuple[Ratings, DoubleArray]:
    """Ratings drawn from a factor model, and the true expected rating of every pair (small sizes only)."""
    users = rng.standard_normal((n_users, n_factors))
    items = rng.standard_normal((n_items, n_factors))
    truth = 3 + 0.4 * rng.standard_normal((n_users, 1)) + 0.4 * rng.standard_normal(n_items) + 0.7 * users @ items.T
    observed = rng.random((n_users, n_items)) < density
    observed[np.arange(n_users), rng.integers(0, n_items, n_users)] = True  # no user without a rating
    observed[rng.integers(0, n_users, n_items), np.arange(n_items)] = True
    user_rows, item_rows = np.nonzero(observed)
    values = truth[observed] + noise * rng.standard_normal(len(user_rows))
    return Ratings.from_arrays(user_rows, item_rows, values), truth


def _logistic(score: DoubleArray) -> DoubleArray:
    return 1 / (1 + np.exp(-score))


def _probit(score: DoubleArray) -> DoubleArray:
    return np.asarray(scipy.special.ndtr(score))


@dataclass(frozen=True, eq=False)
class Truth:
    """The parameters that ratings were drawn from."""

    offset: float
    users: DoubleArray  # n_users x n_factors
    items: DoubleArray  # n_items x n_factors
    user_biases: DoubleArray  # n_users
    item_biases: DoubleArray  # n_items
    noise: float = 0.0  # standard deviation of a rating around its score; 0 if it is not normal
    link: Callable[[DoubleArray], DoubleArray] = np.asarray  # from the score to the expected rating

    def score(self, user_ids: Any, item_ids: Any) -> DoubleArray:
        """The score of each pair."""
        i, j = np.asarray(user_ids), np.asarray(item_ids)
        products = np.einsum("nd,nd->n", self.users[i], self.items[j])
        total: DoubleArray = self.offset + self.user_biases[i] + self.item_biases[j] + products
        return total

    def expected(self, user_ids: Any, item_ids: Any) -> DoubleArray:
        """The expected rating of each pair."""
        return self.link(self.score(user_ids, item_ids))

    def matrix(self) -> DoubleArray:
        """The expected rating of every pair, users x items; for small sizes."""
        users, items = np.indices((len(self.users), len(self.items))).reshape(2, -1)
        return self.expected(users, items).reshape(len(self.users), len(self.items))


@dataclass(frozen=True, eq=False)
class OrdinalTruth(Truth):
    """A truth of levels: one plus the number of cut-points below the score plus a standard normal."""

    cut_points: DoubleArray = field(kw_only=True)  # ascending, one less than levels

    def probabilities(self, user_ids: Any, item_ids: Any) -> DoubleArray:
        """The probability of each level, from 1 on: one row per pair."""
        below = _probit(self.cut_points - self.score(user_ids, item_ids)[:, None])
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def expected(self, user_ids: Any, item_ids: Any) -> DoubleArray:
        probabilities = self.probabilities(user_ids, item_ids)
        return probabilities @ np.arange(1.0, probabilities.shape[1] + 1)


def gaussian(
    n_users: int,
    n_items: int,
    *,
    n_factors: int = 2,
    density: float = 0.3,
    observed: Observed = "random",
    offset: float = 3.0,
    biases: float = 0.4,
    spread: float = 0.7,
    noise: float = 0.5,
    rng: Generator,
) -> tuple[Ratings, Truth]:
    """Ratings of any size with normal noise.

    `biases` and `spread` are the standard deviations of the biases and of the inner products; `observed` pairs are
    uniform, or as uneven as real ones ("skewed").
    """
    truth = replace(_truth(n_users, n_items, n_factors, biases, spread, rng), offset=offset, noise=noise)
    pairs = observed_pairs(n_users, n_items, density, observed, rng)
    return _ratings(truth, pairs, truth.score(*pairs) + noise * rng.standard_normal(len(pairs[0]))), truth


def yes_no(
    n_users: int,
    n_items: int,
    *,
    n_factors: int = 2,
    density: float = 0.3,
    observed: Observed = "random",
    link: Literal["logistic", "probit"] = "logistic",
    offset: float = 0.0,
    biases: float = 0.5,
    spread: float = 1.0,
    rng: Generator,
) -> tuple[Ratings, Truth]:
    """Ratings of 0 and 1; the truth expects the probability of 1."""
    links = {"logistic": _logistic, "probit": _probit}
    if link not in links:
        raise InvalidParameterError(f"link is {link!r}; expected logistic or probit")
    truth = replace(_truth(n_users, n_items, n_factors, biases, spread, rng), offset=offset, link=links[link])
    pairs = observed_pairs(n_users, n_items, density, observed, rng)
    return _ratings(truth, pairs, rng.random(len(pairs[0])) < truth.expected(*pairs)), truth


def ordinal(
    n_users: int,
    n_items: int,
    *,
    n_factors: int = 2,
    density: float = 0.3,
    observed: Observed = "random",
    cut_points: tuple[float, ...] = (-1.5, -0.6, 0.3, 1.2),
    biases: float = 0.5,
    spread: float = 0.8,
    rng: Generator,
) -> tuple[Ratings, OrdinalTruth]:
    """Ratings of 1, 2, 3 ... from an ordered probit model."""
    cuts = np.asarray(cut_points, np.float64)
    if cuts.ndim != 1 or not len(cuts) or not (np.diff(cuts) > 0).all():
        raise InvalidParameterError(f"cut_points is {cut_points!r}; expected ascending numbers")
    plain = _truth(n_users, n_items, n_factors, biases, spread, rng)
    truth = OrdinalTruth(**vars(replace(plain, noise=1.0)), cut_points=cuts)
    pairs = observed_pairs(n_users, n_items, density, observed, rng)
    latent = truth.score(*pairs) + rng.standard_normal(len(pairs[0]))
    return _ratings(truth, pairs, 1 + np.searchsorted(cuts, latent)), truth


def counts(
    n_users: int,
    n_items: int,
    *,
    n_factors: int = 2,
    mean: float = 0.5,
    biases: float = 0.5,
    spread: float = 0.7,
    rng: Generator,
) -> tuple[Ratings, Truth]:
    """Poisson counts, of which only those above 0 are ratings.

    So the observed pairs are as informative as the values. `mean` is over all pairs, the unrecorded ones included; a
    user or item may end up without a rating, but keeps its row. Small sizes only.
    """
    truth = _truth(n_users, n_items, n_factors, biases, spread, rng)
    truth = replace(truth, link=lambda score: np.asarray(np.exp(score)))
    truth = replace(truth, offset=float(np.log(mean / truth.matrix().mean())))
    drawn = rng.poisson(truth.matrix())
    users, items = np.nonzero(drawn)
    return _ratings(truth, (users, items), drawn[drawn > 0]), truth


def observed_pairs(n_users: int, n_items: int, density: float, observed: Observed, rng: Generator) -> Pairs:
    """Distinct pairs, about a share `density` of all, independent of the ratings; all users and items occur."""
    if observed not in ("random", "skewed"):
        raise InvalidParameterError(f"observed is {observed!r}; expected random or skewed")
    if not 0 < density <= 1:
        raise InvalidParameterError(f"density is {density!r}; expected a share above 0 and up to 1")
    n_pairs = round(density * n_users * n_items)
    if observed == "skewed":
        shape = Shape(n_users, n_items, max(n_pairs, n_users, n_items), activity=0.5, popularity=0.6)
        return draw_pairs(shape, BlockPool(rng))
    chosen = rng.choice(n_users * n_items, n_pairs, replace=False)
    missing_users = np.setdiff1d(np.arange(n_users), chosen // n_items)
    missing_items = np.setdiff1d(np.arange(n_items), chosen % n_items)
    for_users = missing_users * n_items + rng.integers(0, n_items, len(missing_users))
    for_items = rng.integers(0, n_users, len(missing_items)) * n_items + missing_items
    users, items = np.divmod(np.unique(np.concatenate([chosen, for_users, for_items])), n_items)
    return users, items


def _truth(n_users: int, n_items: int, n_factors: int, biases: float, spread: float, rng: Generator) -> Truth:
    scale = (spread / max(n_factors, 1) ** 0.5) ** 0.5  # the same on both sides, for products of this spread
    return Truth(
        offset=0.0,
        users=scale * rng.standard_normal((n_users, n_factors)),
        items=scale * rng.standard_normal((n_items, n_factors)),
        user_biases=biases * rng.standard_normal(n_users),
        item_biases=biases * rng.standard_normal(n_items),
    )


def _ratings(truth: Truth, pairs: Pairs, values: NDArray[Any]) -> Ratings:
    """Ratings whose rows are the positions in the truth."""
    users, items = numbered(len(truth.users), "user"), numbered(len(truth.items), "item")
    rows = [contiguous(side, np.int32) for side in pairs]
    return Ratings(users, items, rows[0], rows[1], contiguous(values, np.float32))


MAX_OPINION = 2.2  # an opinion that gets the highest rating in every group


SHAPES: dict[str, Callable[[DoubleArray], DoubleArray]] = {
    "extreme": lambda x: np.sign(x) * np.abs(x) ** 0.4,
    "moderate": lambda x: np.sign(x) * np.abs(x) ** 2.2,
    "generous": lambda x: np.asarray(2 * ((x + 1) / 2) ** 0.4 - 1),
}


@dataclass(frozen=True, eq=False)
class Distorted:
    """Ratings, the group of each user, and what each group means by each level."""

    ratings: Ratings  # ids are the positions of users and items
    groups: NDArray[np.integer[Any]]  # of each user: a position in SHAPES
    levels: DoubleArray
    curves: DoubleArray  # groups x levels: the mean opinion behind a rating


def distorted(
    n_users: int = 240, n_items: int = 150, *, density: float = 0.35, noise: float = 0.15, rng: Generator
) -> Distorted:
    """Ratings from 1 to 5 in halves; a third of the users has each shape."""
    users, items = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    opinions = 0.9 * users @ items.T / 3**0.5 + 0.5 * rng.standard_normal(n_items)
    opinions += 0.1 * rng.standard_normal((n_users, 1))
    opinions /= opinions.std()
    rows, columns = np.nonzero(rng.random(opinions.shape) < density)
    given = opinions[rows, columns] + noise * rng.standard_normal(len(rows))
    groups = np.arange(n_users) % len(SHAPES)
    within = np.clip(given / MAX_OPINION, -1, 1)
    shaped = np.select([groups[rows] == place for place in range(len(SHAPES))], [f(within) for f in SHAPES.values()])
    values = np.round(2 * (3 + 2 * shaped)) / 2
    levels, places = np.unique(values, return_inverse=True)
    cells = groups[rows] * len(levels) + places
    size = len(SHAPES) * len(levels)
    means = np.bincount(cells, given, size) / np.maximum(np.bincount(cells, minlength=size), 1)
    curves = means.reshape(len(SHAPES), len(levels))
    return Distorted(Ratings.from_arrays(rows, columns, values), groups, levels, curves)


def misfit(curve: DoubleArray, truth: DoubleArray) -> float:
    """The largest distance between two curves, shifted and stretched onto each other, as a share of the scale."""
    slope, shift = np.polyfit(curve, truth, 1)
    return float(np.abs(slope * curve + shift - truth).max() / np.ptp(truth))
