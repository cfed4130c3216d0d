"""What kept draws know of the noise: how users are folded in by them, and what ratings follow from scores.

Gaussian    a normal in closed form; ratings are normal around the score
uneven      the same, with a precision of each user and item; the user's is drawn with his factors
levels      latent responses between cut-points; the chance of every level follows
yes or no   the same with two levels, or a logistic link

Where something latent has to be drawn, a fold-in is a few Gibbs steps given a kept draw, and what is believed is the
normal of the last one. Their randomness depends on the user's ratings alone: who has the same, gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.distributions.latent_levels import (
    LatentScores,
    logistic_information,
    ordinal_information,
    ordinal_slope,
)
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.errors import NonFiniteStateError
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods.base import Likelihood, Noise
from tastespace.models.factorization.likelihoods.binary import EDGE, Logistic, Probit
from tastespace.models.factorization.likelihoods.heteroscedastic import UnevenNoise, UnevenPrecision
from tastespace.models.factorization.likelihoods.ordinal import CutPoints, OrderedProbit
from tastespace.randomness import generator

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


# Gibbs steps of a fold-in with latent variables, and before them Newton steps to the mode: from the population's mean
# latent responses would creep where nearly all ratings agree (docs/design/likelihoods.md).
STEPS, APPROACH = 6, 6
BLOCK_ROWS = 4096  # whose noise is summarised together


@dataclass(frozen=True, eq=False)
class Folded:
    """Users given each draw: a normal over (factors, bias), and the user's own precision where there is one."""

    means: FloatArray  # B x S x W
    precision: FloatMatrix | None = None  # B x S


@dataclass(frozen=True, eq=False)
class ScoreDraws:
    """Scores of pairs given each draw, in units of the model; n x S each."""

    means: FloatMatrix
    sds: FloatMatrix
    weights: FloatMatrix | None  # of the draws; None for equal
    precision: FloatMatrix | None  # of the user's noise
    item_rows: IntArray  # -1 for an item never seen


@dataclass(frozen=True, eq=False)
class Answers:
    """What a rating of each of n items would tell about its score, near where the draws put it; n x S each."""

    variance: NDArray[Any]  # of the answer around the score, in units of the model
    slope: NDArray[Any]  # of the expected rating: ratings a unit of the score


class KeptNoise(Protocol):
    """The noise of all kept draws."""

    @property
    def is_linear(self) -> bool:
        """Whether the expected rating is offset + scale * score."""
        ...

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        """Users with these ratings; fills the roots, if there are any."""
        ...

    def outlook(self, draws: ItemDraws, foreseen: ScoreDraws, units: Units) -> PredictiveDistribution:
        """What pairs would be rated."""
        ...

    def answers(self, draws: ItemDraws, foresee: Callable[[], ScoreDraws], units: Units) -> Answers:
        """What ratings of pairs would tell; scores are foreseen only where it depends on them."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]: ...


@dataclass(frozen=True, eq=False)
class Units:
    """Of the ratings: their range, and their levels, if they have any."""

    low: float
    high: float
    levels: DoubleArray | None
    usual: float  # mean of the training ratings


@dataclass(frozen=True, eq=False)
class EvenNoise:
    """Gaussian noise, the same for all."""

    is_linear = True

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        return Folded(fold_in_normal(draws, ratings, roots, threads))

    def outlook(self, draws: ItemDraws, foreseen: ScoreDraws, units: Units) -> PredictiveDistribution:
        return _normal(draws, foreseen, units, 1 / np.sqrt(draws.alpha))

    def answers(self, draws: ItemDraws, foresee: Callable[[], ScoreDraws], units: Units) -> Answers:
        return Answers(1 / draws.alpha[None], np.full((1, 1), draws.scale))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([0], np.uint8)}


@dataclass(frozen=True, eq=False)
class UnevenKept:
    """Gaussian noise with a precision of each user and item."""

    item_precision: FloatMatrix  # M x S
    concentrations: DoubleArray  # S x 2: of users, of items
    user_noise: FloatMatrix  # N x 4: see `noise_summary`
    item_noise: FloatMatrix  # M x 4

    is_linear = True

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        means = _means(draws, ratings)
        precision = np.empty(means.shape[:2], np.float32)
        latent = {
            "kind": "uneven",
            "item_precision": self.item_precision,
            "concentration": contiguous(self.concentrations[:, 0], np.float64),
            "out_precision": precision,
        }
        return Folded(fold_in_latent(draws, ratings, roots, threads, latent), precision)

    def outlook(self, draws: ItemDraws, foreseen: ScoreDraws, units: Units) -> PredictiveDistribution:
        return _normal(draws, foreseen, units, 1 / np.sqrt(self._precision(draws, foreseen)))

    def answers(self, draws: ItemDraws, foresee: Callable[[], ScoreDraws], units: Units) -> Answers:
        return Answers(1 / self._precision(draws, foresee()), np.full((1, 1), draws.scale))

    def _precision(self, draws: ItemDraws, foreseen: ScoreDraws) -> NDArray[Any]:
        """Of the noise of pairs; n x S."""
        if not len(foreseen.item_rows):  # Of nobody: a filter left nothing.
            return np.empty(foreseen.means.shape)
        assert foreseen.precision is not None
        is_known = (foreseen.item_rows >= 0)[:, None]
        of_items = np.where(is_known, self.item_precision[np.maximum(foreseen.item_rows, 0)], self._unknown_item)
        return np.asarray(draws.alpha * foreseen.precision * of_items)

    @cached_property
    def _unknown_item(self) -> DoubleArray:
        """Of an item never seen, a draw each: from its population, and always the same."""
        concentration = self.concentrations[:, 1]
        return np.asarray(generator(0).gamma(concentration) / concentration)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "noise": np.array([1], np.uint8),
            "item_precision": self.item_precision,
            "concentrations": self.concentrations,
            "user_noise": self.user_noise,
            "item_noise": self.item_noise,
        }


@dataclass(frozen=True, eq=False)
class LevelNoise:
    """Cut-points between levels."""

    cuts: DoubleArray  # S x (K - 1)
    edges: DoubleArray  # K - 1: what tells the level of a rating

    is_linear = False

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        latent = {
            "kind": "levels",
            "approach": APPROACH,
            "cuts": self.cuts,
            "edges": contiguous(self.edges, np.float32),
        }
        return Folded(fold_in_latent(draws, ratings, roots, threads, latent, is_standard=False))

    def outlook(self, draws: ItemDraws, foreseen: ScoreDraws, units: Units) -> PredictiveDistribution:
        return _of_levels(foreseen.means, self.cuts, foreseen, units)

    def answers(self, draws: ItemDraws, foresee: Callable[[], ScoreDraws], units: Units) -> Answers:
        assert units.levels is not None
        scores = foresee().means
        return Answers(1 / ordinal_information(scores, self.cuts), ordinal_slope(scores, self.cuts, units.levels))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([2], np.uint8), "cuts": self.cuts, "edges": self.edges}


@dataclass(frozen=True, eq=False)
class LogisticNoise:
    """Yes or no by a logistic link."""

    offset: float

    is_linear = False

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        latent = {
            "kind": "logistic",
            "approach": APPROACH,
            "edges": EDGE.astype(np.float32),
            "latent_offset": self.offset,
        }
        return Folded(fold_in_latent(draws, ratings, roots, threads, latent, is_standard=False))

    def outlook(self, draws: ItemDraws, foreseen: ScoreDraws, units: Units) -> PredictiveDistribution:
        return _of_levels(self.offset + foreseen.means, None, foreseen, units)

    def answers(self, draws: ItemDraws, foresee: Callable[[], ScoreDraws], units: Units) -> Answers:
        assert units.levels is not None
        information = logistic_information(self.offset + foresee().means)
        return Answers(1 / information, float(np.ptp(units.levels)) * information)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([3], np.uint8), "logistic_offset": np.array([self.offset])}


def kept_noise(likelihood: Likelihood, noises: Sequence[Noise], scale: float) -> KeptNoise:
    """Of draws of this likelihood; `scale` makes standard deviations those of ratings."""
    if isinstance(likelihood, OrderedProbit):
        return LevelNoise(np.stack([noise.cuts for noise in noises if isinstance(noise, CutPoints)]), likelihood.edges)
    if isinstance(likelihood, Probit):
        # A cut at 0 of responses around offset + score is one at -offset of responses around the score.
        return LevelNoise(np.full((len(noises), 1), -likelihood.offset), EDGE)
    if isinstance(likelihood, Logistic):
        return LogisticNoise(likelihood.offset)
    return kept_uneven(noises, scale) if isinstance(likelihood, UnevenNoise) else EvenNoise()


def kept_uneven(noises: Sequence[Noise], scale: float) -> UnevenKept:
    """Of draws with uneven precisions."""
    drawn = [noise for noise in noises if isinstance(noise, UnevenPrecision)]
    alpha = np.array([noise.alpha for noise in drawn])
    items = [noise.items for noise in drawn]
    return UnevenKept(
        item_precision=contiguous(np.stack(items, axis=1), np.float32),
        concentrations=np.array([(noise.user_concentration, noise.item_concentration) for noise in drawn]),
        user_noise=_summary_by_block([noise.users for noise in drawn], alpha, scale),
        item_noise=_summary_by_block(items, alpha, scale),
    )


def _summary_by_block(drawn: Sequence[AnyFloats], alpha: DoubleArray, scale: float) -> FloatMatrix:
    """`noise_summary` of factors draw by draw, in bounded memory."""
    firsts = range(0, len(drawn[0]), BLOCK_ROWS)
    blocks = (np.stack([factors[first : first + BLOCK_ROWS] for factors in drawn], axis=1) for first in firsts)
    return np.concatenate([noise_summary(block, alpha, scale) for block in blocks])


def noise_summary(factors: AnyFloats, alpha: DoubleArray, scale: float) -> FloatMatrix:
    """Of each row of factors (rows x S): the noise's standard deviation in its ratings of something average, its mean,
    5 % and 95 % quantiles over draws, and the probability that it is above the average one."""
    sds = scale / np.sqrt(factors.astype(np.float64) * alpha)
    low, high = np.quantile(sds, [0.05, 0.95], axis=1)
    return np.stack([sds.mean(1), low, high, (factors < 1).mean(1)], axis=1).astype(np.float32)


def keys_of(ratings: CSR) -> NDArray[np.uint64]:
    """A number for each user that depends on his ratings, and not on their order."""
    values = contiguous(ratings.values, np.float32).view(np.uint32).astype(np.uint64)
    mixed = _mixed(_mixed(ratings.columns.astype(np.uint64)) ^ values)
    # Sums from the start on: differences of these are sums of rows, empty ones too; they wrap around, and may.
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return _mixed(total[ratings.offsets[1:]] - total[ratings.offsets[:-1]])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random, of numbers that do not (splitmix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def fold_in_normal(
    draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int, **outputs: DoubleArray
) -> FloatArray:
    """The means of users with even noise; fills the roots, and `energy` and `log_determinant` where they are given."""
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


def _of_levels(
    means: FloatMatrix, cuts: DoubleArray | None, foreseen: ScoreDraws, units: Units
) -> PredictiveDistribution:
    """Levels by latent scores; without cuts by the logistic link."""
    assert units.levels is not None
    scores = LatentScores(means, foreseen.sds, cuts, units.levels, foreseen.weights)
    return PredictiveDistribution(belief=scores, rating=scores.ratings)


def _normal(draws: ItemDraws, foreseen: ScoreDraws, units: Units, noise_sd: NDArray[Any]) -> PredictiveDistribution:
    """Normal ratings around normal beliefs; `noise_sd` in units of the model, n x S or S."""
    means = draws.offset + draws.scale * foreseen.means
    sds = draws.scale * foreseen.sds
    noise = (draws.scale * noise_sd).astype(np.float32)
    mixture = NormalMixture(means, np.hypot(sds, noise), foreseen.weights)
    return PredictiveDistribution(
        belief=NormalMixture(means, sds, foreseen.weights),
        rating=NormalRatings(mixture, units.low, units.high, units.levels),
    )
