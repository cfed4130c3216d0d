"""Where factors come from: one class and one file each.

Begin with `normal_wishart`. Priors know the moments of rows, and no family of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tastespace.settings import Settings

PRIORS = {
    "normal-wishart": "tastespace.models.factorization.priors.normal_wishart:NormalWishart",
    "shrinkage": "tastespace.models.factorization.priors.shrinkage:Shrinkage",
}
KINDS_OF_SHRINKAGE = ("ard", "cumulative")  # which are names of their own


@dataclass(frozen=True)
class PriorSettings(Settings):
    """Base of the settings of priors."""

    shrinks: ClassVar[bool] = False  # factors that are of no use
