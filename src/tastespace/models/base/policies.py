"""Policies: how a belief becomes a ranking, by expectation or with regard to uncertainty.

best       the order of the model: by the expected rating, or for `Joint` by choosing and liking
rating     the expected rating
cautious   mean - c sd, a lower bound: prefers items that are certain to be good
curious    mean + c sd, an upper bound: prefers items that may be very good, and are informative
likely     P(rating >= at_least), or P(liked)
thompson   one draw from the posterior, another one for every request

Where a model also has a belief about choices, the score is C P(liked)^weight, with P(liked) = P(rating >= liked_from).
Then "cautious" and "curious" take P(rating -+ c sd >= liked_from) in its place, "thompson" that of one draw, and
"likely" orders by P(liked) alone. Candidates are the best by score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.kinds import level_names
from tastespace.errors import InvalidParameterError
from tastespace.models.base.posterior import Belief, Pairs, ScoreUncertainty
from tastespace.models.base.query import Filters
from tastespace.parameters import check_int, check_number
from tastespace.settings import Settings, settings_of

MOST_SDS = 1e6  # far beyond any effect, and within single precision
RngOf = Callable[[int], Generator]  # for a user of the belief


@dataclass(frozen=True, eq=False)
class Candidates:
    """Users (rows of a belief), and for each of them the items to score."""

    users: IntArray
    items: IntArray  # users x items; -1 for none
    are_all: bool = False  # all items, in order

    @classmethod
    def of(cls, items: IntArray) -> Candidates:
        """All items for all users of a belief, one row each."""
        return cls(np.arange(len(items), dtype=np.int32), items)

    def pairs(self) -> Pairs:
        """The pairs, one per user and item."""
        there = self.items >= 0
        return Pairs(np.repeat(self.users, there.sum(axis=1)), self.items[there])

    def shaped(self, values: NDArray[Any], nothing: float = -np.inf) -> FloatMatrix:
        """Values of the pairs in rows; minus infinity, or another value, where there is no item."""
        scores = np.full((*self.items.shape, *values.shape[1:]), nothing, np.float32)
        scores[self.items >= 0] = values
        return scores


@dataclass(frozen=True)
class Best(Settings):
    """The order of the model, best first: the default."""

    name: ClassVar[str] = "best"


@dataclass(frozen=True)
class Rating(Settings):
    """Best first by the expected rating; "mean" is another name for it."""

    name: ClassVar[str] = "rating"


Mean = Rating  # its former name


@dataclass(frozen=True)
class Cautious(Settings):
    """By mean - c times the standard deviation of the belief."""

    name: ClassVar[str] = "cautious"
    c: float = 1.0
    sign: ClassVar = -1

    def check(self) -> None:
        check_number("c", self.c, least=0, below=MOST_SDS)

    def scores(self, belief: Belief, uncertainty: ScoreUncertainty, some: Candidates, rng_of: RngOf) -> FloatMatrix:
        if (chosen := belief.chosen) is not None:
            pairs = some.pairs()
            return some.shaped(chosen.scored(pairs, chosen.liked(pairs, self.sign * self.c)))
        mean, sd = uncertainty.summary(some.pairs())
        return some.shaped(mean + np.float32(self.sign * self.c) * sd)


@dataclass(frozen=True)
class Curious(Cautious):
    """By mean + c times the standard deviation of the belief."""

    name: ClassVar[str] = "curious"
    sign: ClassVar = 1


@dataclass(frozen=True)
class Likely(Settings):
    """By the probability that a rating is at least this high; None for the threshold from which the user likes an item.

    This threshold is the mean of their own ratings, shrunk to that of all (`tastespace.data.kinds.liked_from`).
    """

    name: ClassVar[str] = "likely"
    at_least: float | None = None

    def check(self) -> None:
        if self.at_least is not None:
            check_number("at_least", self.at_least)

    def scores(self, belief: Belief, uncertainty: ScoreUncertainty, some: Candidates, rng_of: RngOf) -> FloatMatrix:
        if (chosen := belief.chosen) is not None and self.at_least is None:
            pairs = some.pairs()
            # Ties are broken by the score.
            return some.shaped(chosen.liked(pairs) + 1e-6 * belief.listed(pairs))
        low, high = uncertainty.rating_range
        if self.at_least is not None and (self.at_least > high or (self.at_least <= low < high)):
            raise InvalidParameterError(
                f"at_least is {self.at_least:g}, but ratings go from {low:g} to {high:g}; expected above {low:g}, at "
                f"most {high:g}"
            )
        thresholds = uncertainty.liked_from if self.at_least is None else np.full(len(belief), self.at_least)
        scores = np.full(some.items.shape, -np.inf, np.float32)
        for place, user in enumerate(some.users):  # One at a time: this takes the whole distribution of every rating.
            there = np.flatnonzero(some.items[place] >= 0)
            items = some.items[place, there]
            predictive = belief.predictive(Pairs.of_one(int(user), items))
            # A belief with uncertain scores has predictive distributions.
            assert predictive is not None
            assert predictive.belief is not None
            chances = predictive.rating.at_least(thresholds[user]).astype(np.float32)
            # Ranks, not probabilities: ties, as near 0 and 1, are broken by the mean.
            order = np.lexsort((items, -predictive.belief.mean(), -chances))
            scores[place, there[order]] = np.arange(len(items), 0, -1)
        return scores


@dataclass(frozen=True)
class Thompson(Settings):
    """By one draw from the posterior: the same for the same model, user and `request`, another for the next request."""

    name: ClassVar[str] = "thompson"
    request: int = 0

    def check(self) -> None:
        check_int("request", self.request, least=0)

    def scores(self, belief: Belief, uncertainty: ScoreUncertainty, some: Candidates, rng_of: RngOf) -> FloatMatrix:
        scores = np.full(some.items.shape, -np.inf, np.float32)
        for place, user in enumerate(some.users):
            there = np.flatnonzero(some.items[place] >= 0)
            if belief.chosen is not None:
                pairs = Pairs.of_one(int(user), some.items[place, there])
                drawn = belief.chosen.drawn_liked(int(user), pairs.items, rng_of(int(user)))
                scores[place, there] = belief.chosen.scored(pairs, drawn)
                continue
            items = None if some.are_all else some.items[place, there]
            scores[place, there] = uncertainty.draw_scores(int(user), 1, rng_of(int(user)), items)[0]
        return scores


Policy = Best | Rating | Cautious | Curious | Likely | Thompson
POLICIES: dict[str, type[Policy]] = {
    **{kind.name: kind for kind in (Best, Rating, Cautious, Curious, Likely, Thompson)},
    "mean": Rating,
}


@dataclass(frozen=True, eq=False)
class PolicyScores:
    """The scores of a policy, as a function for the search for the best items."""

    policy: Cautious | Curious | Likely | Thompson
    belief: Belief
    uncertainty: ScoreUncertainty
    n_items: int
    rng_of: RngOf

    def scores(self, rows: IntArray) -> FloatMatrix:
        every = np.broadcast_to(np.arange(self.n_items, dtype=np.int32), (len(rows), self.n_items))
        return self.of(Candidates(rows, every, are_all=True))

    def of(self, some: Candidates) -> FloatMatrix:
        """The scores of some items of each user; minus infinity where there is none."""
        return self.policy.scores(self.belief, self.uncertainty, some, self.rng_of)


def policy_of(asked: Policy | str) -> Policy:
    """Return a policy, given itself, a name, or a name with its parameter, such as ``cautious:c=2``."""
    found: Policy = settings_of(asked, POLICIES, "policy", Policy)
    return found


DRAWS = 100  # from the posterior, per user: a probability has a standard error of at most 0.05
COVERAGE = 0.9  # of the intervals


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The uncertainty of the entries of lists, users x n each; NaN where there is no item."""

    belief_sd: FloatMatrix  # of the expected rating
    rating_sd: FloatMatrix  # of a single rating
    low: FloatMatrix  # a rating lies between low and high with a probability of 90 %
    high: FloatMatrix
    # That the item is one of the user's true best n by rating, out of all that were allowed; None if not requested.
    top_n_probability: FloatMatrix | None = None
    # Where a model has a belief about choices: the expected rating, the probability of being among the next choices,
    # and that of a rating of at least `liked_from`, one threshold per user.
    expected_rating: FloatMatrix | None = None
    chosen_probability: FloatMatrix | None = None
    liked_probability: FloatMatrix | None = None
    liked_from: DoubleArray | None = None
    base_rate: float | None = None  # of choices, averaged over all items
    levels: DoubleArray | None = None  # the possible ratings, ascending; None for a continuous scale
    level_probabilities: FloatArray | None = None  # users x n x levels

    NAMES: ClassVar = (
        *("chosen_probability", "expected_rating", "liked_probability"),
        *("belief_sd", "rating_sd", "low", "high", "top_n_probability"),
    )

    def take(self, users: Any) -> Uncertainty:
        """The uncertainty of some users."""
        parts = {name: getattr(self, name) for name in (*self.NAMES, "liked_from", "level_probabilities")}
        return replace(self, **{name: part[users] for name, part in parts.items() if part is not None})

    def columns(self, levels: bool) -> dict[str, Any]:
        """The figures of all entries by name; also those of each level, if there are any."""
        there = {name: getattr(self, name) for name in self.NAMES}
        columns = {name: figures.reshape(-1) for name, figures in there.items() if figures is not None}
        if levels and (chances := self.level_probabilities) is not None:
            columns |= level_columns(self.levels, chances.reshape(-1, chances.shape[-1]))
        return columns


def level_columns(levels: DoubleArray | None, probabilities: NDArray[Any]) -> dict[str, Any]:
    """The probability of each level, one column each: `p_1`, `p_2` and so on."""
    return {f"p_{name}": probabilities[:, place] for place, name in enumerate(level_names(levels))}


def uncertainty_of(belief: Belief, item_rows: IntArray) -> Uncertainty | None:
    """The uncertainty of each user's items (one row each, -1 for none); None for a model that provides none."""
    some = Candidates.of(item_rows)
    pairs = some.pairs()
    predictive = belief.predictive(pairs)
    if predictive is None or predictive.belief is None or belief.uncertainty is None:
        return None
    rating, below, above = predictive.rating, (1 - COVERAGE) / 2, (1 + COVERAGE) / 2
    figures = [predictive.belief.sd(), rating.sd(), rating.quantile(below), rating.quantile(above)]
    belief_sd, rating_sd, low, high = (some.shaped(figure, np.nan) for figure in figures)
    levels = None if rating.levels is None else some.shaped(rating.level_probabilities(), np.nan)
    found = Uncertainty(belief_sd, rating_sd, low, high, levels=rating.levels, level_probabilities=levels)
    if (chosen := belief.chosen) is None:
        return found
    expected = np.clip(predictive.belief.mean(), *belief.uncertainty.rating_range)  # as in `predict`
    return replace(
        found,
        expected_rating=some.shaped(expected, np.nan),
        chosen_probability=some.shaped(chosen.probabilities(pairs), np.nan),
        liked_probability=some.shaped(rating.at_least(chosen.liked_from[pairs.rows]), np.nan),
        liked_from=chosen.liked_from,
        base_rate=chosen.base_rate,
    )


def top_n_probabilities(
    uncertainty: ScoreUncertainty, item_rows: IntArray, n: int, filters: Filters, rng_of: RngOf
) -> FloatMatrix:
    """How often each item is among the best n of a draw, out of all that the filters allow."""
    probabilities = np.full(item_rows.shape, np.nan, np.float32)
    for user, row in enumerate(item_rows):
        listed = np.flatnonzero(row >= 0)
        if not len(listed):
            continue
        scores = uncertainty.draw_scores(user, DRAWS, rng_of(user))
        filters.forbid_to(scores, user)
        shares = np.empty(len(listed), np.float32)
        _native.top_shares(scores, contiguous(row[listed], np.int32), min(n, scores.shape[1]), shares)
        probabilities[user, listed] = shares
    return probabilities
