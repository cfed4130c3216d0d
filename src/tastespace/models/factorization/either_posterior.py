"""The posterior of a model that answers with a point, or with draws, as its regularisation has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, is_empirical
from tastespace.models.factorization.point import PointPosterior


class EitherPosterior:
    """Reads back what was saved of either."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PointPosterior | EmpiricalPosterior:
        return EmpiricalPosterior.from_arrays(arrays) if is_empirical(arrays) else PointPosterior.from_arrays(arrays)
