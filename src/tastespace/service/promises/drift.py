"""Drift: whether what happens still is what the model expects, by a test that is never wrong more often than stated.

If nothing changes, the order of the ratings says nothing about how well they were predicted: each surprise is as likely
to be the largest so far as any other. So the rank of each among those before it (a conformal p-value) is uniform, and
independent of the others, whatever the model and however well it is calibrated. A gambler who bets against that starts
with 1, and by Ville's inequality ever reaches 1 / a with a probability of at most a, however long the test runs, and
however often one looks. Two gamble: on larger surprises than before, and on ratings that are higher or lower than
expected; each has half of the stated rate.

Volkhonskiy et al., "Inductive conformal martingales for change-point detection" (2017); Vovk et al., "Retrain or not
retrain" (2021), whose simple jumper the gamblers follow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tastespace.randomness import generator

FALSE_ALARM_RATE = 0.01  # of a version, however long it answers
JUMP = 0.01  # share of the capital that is divided among the stakes again at each rating
MIN_RATINGS = 50  # to compare others with: before, nothing is bet


@dataclass(eq=False)
class Gambler:
    """Bets that the p-values to come are not uniform; the capital is a martingale if they are."""

    stakes: Sequence[float]  # f(p) = 1 + stake (p - 1/2); below 0 for small p-values
    _capitals: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._capitals = [1 / len(self.stakes)] * len(self.stakes)

    @property
    def capital(self) -> float:
        return sum(self._capitals)

    def bet(self, p_value: float) -> None:
        shared = JUMP * sum(self._capitals) / len(self.stakes)
        self._capitals = [
            max(((1 - JUMP) * capital + shared) * (1 + stake * (p_value - 0.5)), 1e-200)
            for capital, stake in zip(self._capitals, self.stakes, strict=True)
        ]


@dataclass(eq=False)
class Ranks:
    """The conformal p-value of each number among those before it: small for a large one."""

    _values: list[float] = field(default_factory=list)

    def p_value(self, value: float, noise: float) -> float:
        """Noise from 0 to 1 decides between equal numbers."""
        above = len(self._values) - bisect_right(self._values, value)
        equal = bisect_right(self._values, value) - bisect_left(self._values, value) + 1
        insort(self._values, value)
        return (above + noise * equal) / len(self._values)


@dataclass(frozen=True)
class Outcome:
    """How one rating, or several of a user at once, turned out."""

    surprise: float  # how far the rating was from what was expected, given how certain the model was
    direction: float  # the same with a sign: below 0 where it was lower
    at: datetime


@dataclass(eq=False)
class DriftTest:
    """The test of one version; outcomes are added in the order of the ratings."""

    seed: int = 0
    n: int = 0
    flagged_at: datetime | None = None
    flagged_after: int | None = None  # outcomes
    flagged_by: str | None = None
    evidence: float = 1.0  # the highest capital so far

    def __post_init__(self) -> None:
        self._rng = generator(self.seed)
        self._tests = {
            "errors are larger": (Ranks(), Gambler((-1.6, -0.8, 0.0))),
            "ratings are lower or higher": (Ranks(), Gambler((-1.6, -0.8, 0.0, 0.8, 1.6))),
        }

    def add(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self.n += 1
            values, noise = (outcome.surprise, outcome.direction), self._rng.random(2).tolist()
            for (what, (ranks, gambler)), value, uniform in zip(self._tests.items(), values, noise, strict=True):
                p_value = ranks.p_value(value, uniform)
                if self.n <= MIN_RATINGS:
                    continue
                gambler.bet(p_value)
                self.evidence = max(self.evidence, gambler.capital)
                if self.flagged_at is None and gambler.capital >= len(self._tests) / FALSE_ALARM_RATE:
                    self.flagged_at, self.flagged_after, self.flagged_by = outcome.at, self.n, what

    def to_dict(self) -> dict[str, Any]:
        return {
            "flagged": self.flagged_at is not None,
            "since": None if self.flagged_at is None else self.flagged_at.isoformat(),
            "after": self.flagged_after,
            "because": self.flagged_by,
            "tested": self.n,
            "evidence": round(self.evidence, 3),
            "threshold": len(self._tests) / FALSE_ALARM_RATE,
            "false_alarm_rate": FALSE_ALARM_RATE,
        }
