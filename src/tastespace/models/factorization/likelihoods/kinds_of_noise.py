"""All kinds of noise that an artifact can have been saved with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import contiguous
from tastespace.errors import ArtifactError
from tastespace.models.factorization.likelihoods import logistic_kept, sampled_negatives
from tastespace.models.factorization.likelihoods.confidence_cells import KIND, KeptChoices
from tastespace.models.factorization.likelihoods.kept_noise import (
    EvenNoise,
    KeptNoise,
    LevelNoise,
    LogisticNoise,
    UnevenKept,
)
from tastespace.models.factorization.likelihoods.uncertain_items import KIND as UNCERTAIN_KIND
from tastespace.models.factorization.likelihoods.uncertain_items import UncertainItems
from tastespace.models.factorization.likelihoods.weighted_users import KIND as WEIGHTED_KIND
from tastespace.models.factorization.likelihoods.weighted_users import WeightedUsers

Arrays = Mapping[str, NDArray[Any]]


def noise_from_arrays(arrays: Arrays) -> KeptNoise:
    """What the `arrays` of one gave."""
    kind = int(arrays["noise"][0]) if "noise" in arrays else 0  # There was but one when the first were saved.
    if kind not in KINDS:
        raise ArtifactError(
            f"the noise of the model is of kind {kind}, which this version does not know; expected one up to "
            f"{max(KINDS)}: load it with a newer tastespace"
        )
    return KINDS[kind](arrays)


def _uneven(arrays: Arrays) -> KeptNoise:
    return UnevenKept(
        contiguous(arrays["item_precision"], np.float32),
        contiguous(arrays["concentrations"], np.float64),
        contiguous(arrays["user_noise"], np.float32),
        contiguous(arrays["item_noise"], np.float32),
    )


def _levels(arrays: Arrays) -> KeptNoise:
    return LevelNoise(*(contiguous(arrays[name], np.float64) for name in ("cuts", "edges")))


KINDS: dict[int, Callable[[Arrays], KeptNoise]] = {
    0: lambda _: EvenNoise(),
    1: _uneven,
    2: _levels,
    3: lambda arrays: LogisticNoise(float(arrays["logistic_offset"][0])),
    KIND: KeptChoices.from_arrays,
    logistic_kept.KIND: logistic_kept.KeptLogistic.from_arrays,
    sampled_negatives.LEVELS_KIND: sampled_negatives.LevelsOfChoices.from_arrays,
    sampled_negatives.LOGISTIC_KIND: sampled_negatives.LogisticOfChoices.from_arrays,
    UNCERTAIN_KIND: UncertainItems.from_arrays,
    WEIGHTED_KIND: WeightedUsers.from_arrays,
}
