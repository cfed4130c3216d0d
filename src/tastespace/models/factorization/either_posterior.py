"""The posterior of a model that answers with a point, or with draws, as its regularisation has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, is_empirical
from tastespace.models.factorization.form_posterior import FormPosterior
from tastespace.models.factorization.point import PointPosterior


class EitherPosterior:
    """Reads back what was saved of either."""

    point: ClassVar[type[PointPosterior]] = PointPosterior

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PointPosterior | EmpiricalPosterior:
        return EmpiricalPosterior.from_arrays(arrays) if is_empirical(arrays) else cls.point.from_arrays(arrays)


class EitherFormPosterior(EitherPosterior):
    """The same, with points of several forms."""

    point = FormPosterior
