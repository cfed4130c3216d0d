"""How a belief becomes a ranking: by what is expected, or by how sure it is.

mean       the expected rating
cautious   mean - c sd: rather something that is surely good
curious    mean + c sd: rather something that may turn out very good, and teaches more
likely     P(rating >= at_least)
thompson   one draw from the posterior: what could well be the truth, another one for every request
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.models.base.parameters import check_int, check_number
from tastespace.models.base.posterior import Belief, Pairs, ScoreUncertainty
from tastespace.settings import Settings, settings_of

MOST_SDS = 1e6  # far beyond what makes a difference, and what single precision can hold
RngOf = Callable[[int], Generator]  # of a user of the belief


@dataclass(frozen=True, eq=False)
class Candidates:
    """Users (rows of a belief), and for each of them the items that are to be scored."""

    users: IntArray
    items: IntArray  # users x items; -1 for none
    are_all: bool = False  # every item there is, in order

    def pairs(self) -> Pairs:
        """One a user and item."""
        there = self.items >= 0
        return Pairs(np.repeat(self.users, there.sum(axis=1)), self.items[there])

    def shaped(self, values: FloatArray) -> FloatMatrix:
        """Values of the pairs in rows; minus infinity where there is no item."""
        scores = np.full(self.items.shape, -np.inf, np.float32)
        scores[self.items >= 0] = values
        return scores


@dataclass(frozen=True)
class Mean(Settings):
    """Best first by the expected rating: the default."""

    name: ClassVar[str] = "mean"


@dataclass(frozen=True)
class Cautious(Settings):
    """By mean - c times the standard deviation of the belief."""

    name: ClassVar[str] = "cautious"
    c: float = 1.0
    sign: ClassVar = -1

    def check(self) -> None:
        check_number("c", self.c, least=0, below=MOST_SDS)

    def scores(self, belief: Belief, uncertainty: ScoreUncertainty, some: Candidates, rng_of: RngOf) -> FloatMatrix:
        mean, sd = uncertainty.summary(some.pairs())
        return some.shaped(mean + np.float32(self.sign * self.c) * sd)


@dataclass(frozen=True)
class Curious(Cautious):
    """By mean + c times the standard deviation of the belief."""

    name: ClassVar[str] = "curious"
    sign: ClassVar = 1


@dataclass(frozen=True)
class Likely(Settings):
    """By the probability that a rating is at least so high; None for the mean of the training ratings."""

    name: ClassVar[str] = "likely"
    at_least: float | None = None

    def check(self) -> None:
        if self.at_least is not None:
            check_number("at_least", self.at_least)

    def scores(self, belief: Belief, uncertainty: ScoreUncertainty, some: Candidates, rng_of: RngOf) -> FloatMatrix:
        threshold = uncertainty.usual_rating if self.at_least is None else self.at_least
        low, high = uncertainty.rating_range
        if threshold > high or (threshold <= low < high):
            raise InvalidParameterError(
                f"at_least is {threshold:g}, and ratings go from {low:g} to {high:g}; expected above {low:g}, at most "
                f"{high:g}"
            )
        scores = np.full(some.items.shape, -np.inf, np.float32)
        for place, user in enumerate(some.users):  # One at a time: the whole distribution of every rating is looked at.
            there = np.flatnonzero(some.items[place] >= 0)
            items = some.items[place, there]
            predictive = belief.predictive(Pairs.of_one(int(user), items))
            assert predictive is not None  # Whoever knows how uncertain scores are knows it of ratings.
            chances = predictive.rating.at_least(threshold).astype(np.float32)
            # Positions, not probabilities: where these are alike, as near 0 and 1, the mean decides.
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
            items = None if some.are_all else some.items[place, there]
            scores[place, there] = uncertainty.draw_scores(int(user), 1, rng_of(int(user)), items)[0]
        return scores


Policy = Mean | Cautious | Curious | Likely | Thompson
POLICIES: dict[str, type[Policy]] = {kind.name: kind for kind in (Mean, Cautious, Curious, Likely, Thompson)}


@dataclass(frozen=True, eq=False)
class PolicyScores:
    """The scores of a policy, as the search for the best items takes them."""

    policy: Cautious | Curious | Likely | Thompson
    belief: Belief
    uncertainty: ScoreUncertainty
    n_items: int
    rng_of: RngOf

    def scores(self, rows: IntArray) -> FloatMatrix:
        every = np.broadcast_to(np.arange(self.n_items, dtype=np.int32), (len(rows), self.n_items))
        return self.of(Candidates(rows, every, are_all=True))

    def of(self, some: Candidates) -> FloatMatrix:
        """Of some items of each user; minus infinity where there is none."""
        return self.policy.scores(self.belief, self.uncertainty, some, self.rng_of)


def policy_of(asked: Policy | str) -> Policy:
    """Return the policy meant: itself, a name, or a name with its parameter, such as ``cautious:c=2``."""
    found: Policy = settings_of(asked, POLICIES, "policy", Policy)
    return found
