"""Priors of factors: one class and one file each.

Begin with `normal_wishart`. Priors depend on the rows and their moments, not on models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tastespace.settings import Settings

if TYPE_CHECKING:
    from tastespace.data.ratings import Ratings
    from tastespace.models.factorization.gibbs.generative_model import FactorModel

PRIORS = {
    "normal-wishart": "tastespace.models.factorization.priors.normal_wishart:NormalWishart",
    "shrinkage": "tastespace.models.factorization.priors.shrinkage:Shrinkage",
}
KINDS_OF_SHRINKAGE = ("ard", "cumulative")  # the other names


@dataclass(frozen=True)
class PriorSettings(Settings, ABC):
    """Base of the settings of priors."""

    shrinks: ClassVar[bool] = False  # unused factors

    @abstractmethod
    def bind(self, model: FactorModel, observed: Ratings) -> FactorModel:
        """The model with this prior; given is one with normal-Wishart priors of both sides."""
