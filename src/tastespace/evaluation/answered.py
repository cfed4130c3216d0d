"""What is measured of yes and no beyond the single prediction: by user, and whether yes comes as often as predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tastespace.evaluation.predicted import Predicted
from tastespace.evaluation.reliability import Reliability, reliability_sums
from tastespace.evaluation.resampling import Interval, Sums, jackknife
from tastespace.evaluation.yes_no import BY_USER, auc_by_group, auc_influence, yes_no_auc


@dataclass(frozen=True, eq=False)
class Answered:
    """Measures in the making: sums to be resampled first. Nothing if ratings are of another kind."""

    sums: dict[str, Sums] = field(default_factory=dict[str, Sums])  # of measures
    intervals: dict[str, Interval] = field(default_factory=dict[str, Interval])  # of what is no quotient of sums
    of_bins: dict[str, Sums] = field(default_factory=dict[str, Sums])
    predicted: Predicted | None = None  # what the bins are of

    @classmethod
    def of(cls, predicted: Predicted, *, by_user: bool, in_bins: bool) -> Answered:
        ratings, users, n_users = (predicted.predicted, predicted.true), predicted.users, predicted.n_users
        sums, intervals = {}, {}
        if by_user:
            sums[BY_USER] = Sums.of_values(auc_by_group(*ratings, users, n_users))
            value = yes_no_auc(*ratings)
            span = None if value != value else jackknife(value, auc_influence(*ratings, users, n_users))
            intervals = {} if span is None else {"yes_no_auc": span}
        of_bins = reliability_sums(*ratings, users, n_users) if in_bins else {}
        return cls(sums, intervals, of_bins, predicted if in_bins else None)

    @property
    def values(self) -> dict[str, float]:
        return {name: measure.value() for name, measure in self.sums.items()}

    def reliability(self, intervals: Mapping[str, Interval]) -> Reliability | None:
        """The whole; `intervals` has those of `of_bins` by the same names."""
        if self.predicted is None:
            return None
        return Reliability.of(self.predicted.predicted, self.predicted.true, intervals)
