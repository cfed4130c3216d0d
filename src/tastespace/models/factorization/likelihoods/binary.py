"""Yes (1) and no (0): the base class of binary likelihoods, for any link between scores and probabilities.

    P(1) = link(offset + score)

The offset is a constant: the score of the average rating. With `negatives` the ratings are choices, and sampled
negatives are no (see `sampled_negatives`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.data.kinds import distinct
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.likelihoods.base import Likelihood, Noise, Observations, Units
from tastespace.models.factorization.likelihoods.ordinal import listed, standardised
from tastespace.models.factorization.likelihoods.sampled_negatives import NEGATIVES_LAWS, NegativesLaw, SampledNegatives
from tastespace.models.factorization.rows import GivenRows, RatingBlock
from tastespace.models.implicit_feedback import require_choices
from tastespace.parameters import check_int, check_number, check_option

EDGE = np.array([0.5])  # the edge between no and yes
LEVELS = (0.0, 1.0)


@dataclass(frozen=True)
class Binary(Likelihood[Noise]):
    """The base class of both links: only scores are learned."""

    offset: float | None = None
    negatives: NegativesLaw | None = None
    n_negatives: int = 10

    is_linear: ClassVar[bool] = False
    is_binary: ClassVar[bool] = True

    @abstractmethod
    def chance(self, scores: AnyFloats) -> AnyFloats:
        """The probability of yes."""

    @abstractmethod
    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        """The log probability of yes; that of no has the negative score."""

    @abstractmethod
    def score_of(self, share: float) -> float:
        """The score at which this share says yes."""

    def check(self) -> None:
        if self.offset is not None:
            check_number("offset", self.offset)
        check_int("n_negatives", self.n_negatives, least=1)
        if self.negatives is not None:
            check_option("negatives", self.negatives, list(NEGATIVES_LAWS))
        elif self.n_negatives != type(self).n_negatives:
            raise InvalidParameterError(
                f"n_negatives is {self.n_negatives}, and negatives is None; expected negatives='uniform' or "
                "'popularity', by which they are sampled"
            )

    @property
    def takes_choices(self) -> bool:
        return self.negatives is not None

    def sample_negatives(self, observed: Ratings, model: str, rng: Generator) -> SampledNegatives | None:
        if self.negatives is None:
            return None
        require_choices(observed, model)
        counts, key = observed.by_item.counts, int(rng.integers(1 << 63))
        return SampledNegatives.of(replace(self, offset=self._offset), counts, key)

    def bind(self, observed: Ratings) -> tuple[Likelihood[Noise], float, float]:
        """Bind to ratings; with `negatives` the likelihood is that of yes and no, whatever is drawn."""
        if self.negatives is not None or self.offset is not None:
            return replace(self, offset=self._offset), 0.0, 1.0
        found = distinct(observed.values)
        if found is None or not np.isin(found, LEVELS).all():
            some = "many different numbers" if found is None else listed(found)
            raise InvalidParameterError(
                f"likelihood is {self.name!r}, and ratings are {some}; expected 0 (no) and 1 (yes): see "
                "Ratings.at_least, or choose likelihood='ordinal' for levels"
            )
        if len(found) < 2:
            kind = "yes (1)" if found[0] == 1 else "no (0)"
            raise InvalidParameterError(
                f"likelihood is {self.name!r}, and all ratings are {kind}; expected both: clicks, plays and purchases "
                "say nothing about what was not liked; ImplicitALS (--model implicit-als) ranks "
                f"them, and negatives='uniform' (likelihood='{self.name}:negatives=uniform') samples what was not "
                "chosen"
            )
        return replace(self, offset=self.score_of(observed.mean)), 0.0, 1.0

    @property
    def _offset(self) -> float:
        """The offset of scores; with sampled negatives that of the share of choices."""
        if self.offset is not None:
            return self.offset
        assert self.negatives is not None
        return self.score_of(1 / (1 + self.n_negatives))

    def matches(self, asked: Likelihood[Any]) -> bool:
        return (
            isinstance(asked, Binary)
            and super().matches(asked)
            and (asked.negatives, asked.n_negatives) == (self.negatives, self.n_negatives)
        )

    def units(self, observed: Ratings) -> Units:
        return Units.of_levels(LEVELS, observed.mean)

    def init(self, observed: Observations) -> Noise:
        return Noise(1.0)

    def start(self, side: RatingBlock) -> RatingBlock:
        return standardised(side)

    def sample(self, n_users: int, n_items: int, rng: Generator) -> Noise:
        return Noise(1.0)

    def restart(self, noise: Noise) -> Noise:
        # Nothing is learned: in a draw the offset may be a cut-point, in the model it is a constant.
        return Noise(1.0)

    def simulate(self, scores: DoubleArray, where: Ratings, noise: Noise, rng: Generator) -> DoubleArray:
        return np.asarray(rng.random(len(scores)) < self.expected(scores, noise), np.float64)

    def expected(self, scores: AnyFloats, noise: Noise) -> AnyFloats:
        return self.chance(self._offset + scores)

    def log_density(self, users: GivenRows, squares: DoubleArray | None, noise: Noise) -> float:
        scores = users.scores(self._offset).astype(np.float64)
        logs = self.log_chance(np.where(users.side.targets > EDGE, scores, -scores))
        return users.side.total(lambda entries: logs[entries])
