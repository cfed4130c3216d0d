"""Users folded in by kept draws: a normal in closed form, or a few Gibbs steps where something latent is drawn.

What is believed after such steps is the normal of the last one. Their randomness depends on the user's ratings alone:
two users with the same ratings get the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.errors import NonFiniteStateError

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws

# Gibbs steps of a fold-in with latent variables, and before them Newton steps to the mode: from the population's mean
# latent responses would creep where nearly all ratings agree (docs/design/likelihoods.md).
STEPS, APPROACH = 6, 6


def keys_of(ratings: CSR) -> NDArray[np.uint64]:
    """Return a number for each user that depends on their ratings, and not on the order of these."""
    values = contiguous(ratings.values, np.float32).view(np.uint32).astype(np.uint64)
    mixed = _mixed(_mixed(ratings.columns.astype(np.uint64)) ^ values)
    # Sums from the start on: differences of these are sums of rows, empty ones too; they wrap around, and may.
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return _mixed(total[ratings.offsets[1:]] - total[ratings.offsets[:-1]])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Make numbers that look random of numbers that do not (splitmix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def fold_in_normal(
    draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int, **outputs: DoubleArray
) -> FloatArray:
    """The means of users with one noise for all; fills the roots, and `energy` and `log_determinant` where given."""
    means, arguments = _means(draws, ratings), _arguments(draws, ratings, roots, threads)
    arguments |= {"means": means, **outputs}
    return _checked(means, _native.fold_in(**arguments))


def fold_in_latent(
    draws: ItemDraws,
    ratings: CSR,
    roots: FloatArray | None,
    threads: int,
    latent: dict[str, Any],
    *,
    is_standard: bool = True,
) -> FloatArray:
    """The means of users by a few steps, of which `latent` says the kind; fills the roots."""
    means, arguments = _means(draws, ratings), _arguments(draws, ratings, roots, threads, is_standard)
    return _checked(
        means, _native.fold_in_latent(means=means, steps=STEPS, keys=keys_of(ratings), **arguments, **latent)
    )


def _means(draws: ItemDraws, ratings: CSR) -> FloatArray:
    _, n_draws, width = draws.items.shape
    return np.empty((len(ratings), n_draws, width), np.float32)


def _arguments(
    draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int, is_standard: bool = True
) -> dict[str, Any]:
    """What both ways of folding in take; ratings in units of the model, or as they are."""
    values = contiguous(ratings.values, np.float32)
    if is_standard:
        values = (values - np.float32(draws.offset)) / np.float32(draws.scale)
    return {
        "offsets": contiguous(ratings.offsets, np.int64),
        "columns": contiguous(ratings.columns, np.int32),
        "targets": values,
        "items": draws.items,
        "prior_precision": draws.users.precision,
        "prior_linear": draws.users.linear,
        "alpha": draws.alpha,
        "bias_precision": draws.users.bias_precision if draws.has_biases else None,
        "bias_linear": draws.users.bias_linear if draws.has_biases else None,
        "roots": roots,
        "threads": threads,
    }


def _checked(means: FloatArray, failed: int) -> FloatArray:
    if failed >= 0:
        raise NonFiniteStateError(
            f"the belief about user {failed} of the request has no finite spread; expected finite ratings, of the "
            "size of those that the model was fitted on"
        )
    return means
