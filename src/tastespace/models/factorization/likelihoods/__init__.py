"""Likelihoods, the distributions of ratings given scores, in training and in serving: one class and one file each.

Begin with `base`, then `gaussian`. Likelihoods depend on the rows, the distributions and, for implicit feedback, the
cells and negatives of `implicit/`, but not on recommenders; nothing outside checks which likelihood it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tastespace.errors import ArtifactError
from tastespace.settings import kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tastespace.models.factorization.likelihoods.base import ServedLikelihood

_HERE = "tastespace.models.factorization"
LIKELIHOODS = {
    "gaussian": f"{_HERE}.likelihoods.gaussian:Gaussian",
    "heteroscedastic": f"{_HERE}.likelihoods.heteroscedastic:HeteroscedasticGaussian",
    "ordinal": f"{_HERE}.likelihoods.ordinal:Ordinal",
    "probit": f"{_HERE}.likelihoods.probit:Probit",
    "logistic": f"{_HERE}.likelihoods.logistic:Logistic",
}
# By the number in the array "noise" of an artifact.
KINDS = {
    0: LIKELIHOODS["gaussian"],
    1: LIKELIHOODS["heteroscedastic"],
    2: LIKELIHOODS["ordinal"],
    3: LIKELIHOODS["logistic"],
    4: f"{_HERE}.likelihoods.confidence_cells:ConfidenceCells",
    5: f"{_HERE}.likelihoods.logistic:LogisticPanel",
    6: f"{_HERE}.likelihoods.sampled_negatives:SampledNegatives",
    7: f"{_HERE}.likelihoods.sampled_negatives:SampledNegatives",
    8: f"{_HERE}.vb.posterior:UncertainItems",
    12: f"{_HERE}.empirical_bayes.posterior:WeightedUsers",
}


def likelihood_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[ServedLikelihood, Mapping[str, NDArray[Any]]]:
    """Restore a likelihood from its `arrays`: the likelihood, and the arrays beside its draws."""
    kind = int(arrays["noise"][0]) if "noise" in arrays else 0  # The first saved models had only one.
    if kind not in KINDS:
        raise ArtifactError(
            f"the noise of the model is of kind {kind}, which this version does not know; expected one up to "
            f"{max(KINDS)}: load it with a newer tastespace"
        )
    found: tuple[ServedLikelihood, Mapping[str, NDArray[Any]]] = kind_of(KINDS[kind]).from_arrays(arrays)
    return found
