"""All kinds of noise that an artifact can have been saved with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import contiguous
from tastespace.errors import ArtifactError
from tastespace.models.factorization.empirical_bayes import weighted_users
from tastespace.models.factorization.kept_noise import EvenNoise, KeptNoise, LevelNoise, LogisticNoise, UnevenKept
from tastespace.models.factorization.one_class import logistic_kept, sampled_negatives
from tastespace.models.factorization.one_class.kept import KIND, KeptChoices
from tastespace.models.factorization.variational import uncertain_items

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
    uncertain_items.KIND: uncertain_items.UncertainItems.from_arrays,
    weighted_users.KIND: weighted_users.WeightedUsers.from_arrays,
}
