"""From what was said of each rating to the calibration of a model, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, IntArray
from tastespace.evaluation.calibration import SHARES, Calibration, Tenth
from tastespace.evaluation.groups import Grouping
from tastespace.evaluation.outcomes import Outcomes
from tastespace.evaluation.predicted import Loss, Predicted
from tastespace.evaluation.rating import squared_errors
from tastespace.evaluation.resampling import Interval, Sums

PIT_PARTS = 20
TENTHS = tuple(f"{10 * place}-{10 * place + 10} %" for place in range(10))
RESAMPLED = (*(f"coverage_{share}" for share in SHARES.values()), "pit_mean", "pit_spread")  # what has intervals
PREFIX = "calibration"  # of the names under which sums are resampled


@dataclass(frozen=True, eq=False)
class Assessment:
    """Calibration in the making: sums to be resampled first, and then the whole with its intervals."""

    outcomes: Outcomes
    said: Predicted  # coverage, widths and PIT
    errors: Predicted  # by tenths
    tenths: NDArray[np.int64]  # of each test rating, how sure the model was: 0 is most
    groupings: Sequence[Grouping]

    @classmethod
    def of(
        cls,
        outcomes: Outcomes,
        users: IntArray,  # of each test rating, its user's position among the test users
        n_users: int,
        predicted: FloatArray,
        true: FloatArray,
        groupings: Sequence[Grouping],
    ) -> Assessment:
        wrong = {
            "belief_sd": Loss(outcomes.belief_sd.astype(np.float64) ** 2, is_root=True),
            "rating_sd": Loss(outcomes.rating_sd.astype(np.float64) ** 2, is_root=True),
            "rmse": Loss(squared_errors(predicted, true), is_root=True),
        }
        return cls(
            outcomes=outcomes,
            said=Predicted.of(users, n_users, predicted, true, {}, _losses(outcomes)),
            errors=Predicted.of(users, n_users, predicted, true, {}, wrong),
            tenths=tenths(outcomes.belief_sd),
            groupings=groupings,
        )

    def sums(self) -> dict[str, Sums]:
        """All that is resampled."""
        found = {f"{PREFIX}, {name}": measure for name, measure in self.said.sums().items()}
        for grouping in self.groupings:
            found |= grouping.sums(self.said)
        found = {name: measure for name, measure in found.items() if name.endswith(RESAMPLED)}
        found |= {_part(place): measure for place, measure in enumerate(self._pit_sums())}
        for place in range(len(TENTHS)):
            found[_tenth(place, "rmse")] = self.errors.sums(self.tenths == place)["rmse"]
            found[_tenth(place, "rmse_so_far")] = self.errors.sums(self.tenths <= place)["rmse"]
        return found

    def calibration(self, intervals: Mapping[str, Interval]) -> Calibration:
        """The whole; `intervals` has those of `sums` by the same names."""
        levels = self.outcomes.levels
        parts = np.bincount(_parts(self.outcomes.pit), minlength=PIT_PARTS) / len(self.outcomes.pit)
        spans = [intervals[_part(place)] for place in range(PIT_PARTS) if _part(place) in intervals]
        names = {name: f"{PREFIX}, {name}" for name in RESAMPLED}
        return Calibration(
            n=len(self.outcomes.pit),
            measures=self.said.values() | {"pit_distance": distance_from_uniform(self.outcomes.pit)},
            intervals={name: intervals[key] for name, key in names.items() if key in intervals},
            pit=tuple(parts.tolist()),
            pit_intervals=tuple(spans),
            confidence=tuple(self._tenth(place, intervals) for place in range(len(TENTHS))),
            groups={grouping.side: grouping.groups(self.said, intervals) for grouping in self.groupings},
            levels=None if levels is None else tuple(levels.tolist()),
            off_levels=int(np.count_nonzero(~self.outcomes.is_level)),
        )

    def _tenth(self, place: int, intervals: Mapping[str, Interval]) -> Tenth:
        here = self.tenths == place
        n = int(np.count_nonzero(here))
        if not n:
            return Tenth(TENTHS[place], 0)
        measures = self.errors.values(here)
        measures["rmse_so_far"] = self.errors.losses["rmse"].over(self.tenths <= place)
        keys = {name: _tenth(place, name) for name in ("rmse", "rmse_so_far")}
        return Tenth(
            TENTHS[place], n, measures, {name: intervals[key] for name, key in keys.items() if key in intervals}
        )

    def _pit_sums(self) -> list[Sums]:
        """The share of ratings in each part from 0 to 1, as sums by user."""
        n_users = self.said.n_users
        keys = self.said.users.astype(np.int64) * PIT_PARTS + _parts(self.outcomes.pit)
        counts = np.bincount(keys, minlength=n_users * PIT_PARTS).reshape(n_users, PIT_PARTS).astype(np.float64)
        return [Sums(np.ascontiguousarray(column), counts.sum(axis=1)) for column in counts.T]


def tenths(belief_sd: NDArray[Any]) -> NDArray[np.int64]:
    """Which tenth of all each belongs to, the smallest first; equal ones belong together, where their middle is."""
    _, places, counts = np.unique(belief_sd, return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    return np.minimum((len(TENTHS) * middles / max(len(belief_sd), 1)).astype(np.int64), len(TENTHS) - 1)[places]


def distance_from_uniform(values: DoubleArray) -> float:
    """The largest difference between the distribution function of values and the uniform one: Kolmogorov's distance."""
    ordered, n = np.sort(values), len(values)
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))


def _losses(outcomes: Outcomes) -> dict[str, Loss]:
    """What the measures are means of."""
    found: dict[str, Loss] = {}
    for name, values in (
        ("coverage", outcomes.is_covered),
        ("expected", outcomes.expected),
        ("width", outcomes.widths),
    ):
        found |= {f"{name}_{share}": Loss(values[:, place]) for place, share in enumerate(SHARES.values())}
    found["pit_mean"] = Loss(outcomes.pit)
    # A uniform variable has the variance 1/12.
    found["pit_spread"] = Loss(12 * (outcomes.pit - 0.5) ** 2, is_root=True)
    return found


def _parts(pit: DoubleArray) -> NDArray[np.int64]:
    return np.minimum((pit * PIT_PARTS).astype(np.int64), PIT_PARTS - 1)


def _part(place: int) -> str:
    return f"{PREFIX}, PIT {place}"


def _tenth(place: int, name: str) -> str:
    return f"{PREFIX}, {TENTHS[place]}, {name}"
