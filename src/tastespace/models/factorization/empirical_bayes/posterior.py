"""What empirical Bayes concluded: draws at the precisions that it learned, and how it came to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from numpy.typing import NDArray

from tastespace.arrays import DoubleArray
from tastespace.models.factorization.als.posterior import LEARNED, PATH
from tastespace.models.factorization.als.sweep import Strengths
from tastespace.models.factorization.empirical_bayes.sweep import Precisions
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior


@dataclass(frozen=True, eq=False)
class Learning:
    """The precisions, in units of the ratings: where they went, step by step, and what they were found to be."""

    path: DoubleArray  # steps x (users, items, user bias, item bias, noise)
    precisions: Precisions

    @property
    def strengths(self) -> Strengths:
        """What was learned, as the strengths of ALS."""
        return self.precisions.strengths

    def __str__(self) -> str:
        said = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in asdict(self.strengths).items())
        return f"regularisation learned in {len(self.path)} steps, as strengths of ALS: {said}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: the steps taken, the precisions, and the strengths that ALS would call them."""
        return {
            "steps": len(self.path),
            "precisions": asdict(self.precisions),
            "strengths": asdict(self.strengths),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {PATH: self.path, LEARNED: self.precisions.array()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Learning:
        return cls(arrays[PATH], Precisions(*(float(value) for value in arrays[LEARNED])))


@dataclass(frozen=True, eq=False, kw_only=True)
class EmpiricalPosterior(DrawsPosterior):
    """Draws at fixed precisions, and the learning of these."""

    learning: Learning

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {**super().arrays(), **self.learning.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        drawn = DrawsPosterior.from_arrays(arrays)
        return cls(
            drawn.draws,
            drawn.units,
            drawn.weighs_by_evidence,
            drawn.is_half_stored,
            drawn.trace,
            learning=Learning.from_arrays(arrays),
        )
