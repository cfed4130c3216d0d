"""The base classes of likelihoods, which define ratings given scores, in training and in serving.

A `Likelihood` gives the Gibbs sweep responses that are normal around the scores. The Gaussian
one gives the ratings themselves; others augment them with latent variables, drawn again whenever rows are drawn. The
noise of kept draws is stored as arrays by name (`stack`), beside the draws of the items. A `ServedLikelihood` uses
these to fold in users, and to derive ratings from scores.

Users are folded in by kept draws: a normal in closed form, or a few Gibbs steps if there are latent variables.

The belief after such steps is the normal of the last one. Their randomness depends only on the user's ratings: two
users with the same ratings get the same answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.kinds import levels_of
from tastespace.data.ratings import Ratings
from tastespace.distributions.latent_levels import LatentScores
from tastespace.distributions.normal_mixture import NormalMixture, NormalRatings
from tastespace.errors import NonFiniteStateError
from tastespace.inference.transition import Stats
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods import LIKELIHOODS
from tastespace.models.factorization.rows import Axis, Factors, GivenRows, RatingBlock, row_scores
from tastespace.settings import Settings, settings_of

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws
    from tastespace.models.factorization.likelihoods.sampled_negatives import SampledNegatives


FIRST_PRECISION = 2.0  # the start of a chain: half of the ratings' variance is noise, as is usual
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Observations:
    """The ratings in both orientations; for a Gaussian model centred, in units of their standard deviation."""

    by_user: RatingBlock
    by_item: RatingBlock

    @classmethod
    def of(cls, ratings: Ratings, dtype: Any, offset: float, scale: float) -> Observations:
        """These ratings, in this type and in these units."""
        by_item = RatingBlock.of(ratings.by_item, dtype, offset, scale)
        # Grouped again on demand: a hundred million ratings are not kept twice for that.
        ratings.__dict__.pop("by_item", None)
        return cls(RatingBlock.of(ratings.by_user, dtype, offset, scale), by_item)

    def __len__(self) -> int:
        return self.by_user.n_entries


@dataclass(frozen=True, eq=False)
class Noise:
    """Parameters of the noise: its precision, and what else a likelihood adds."""

    alpha: float

    def lean(self) -> Self:
        """The noise as it is kept with a draw, with large arrays in single precision."""
        return self


N = TypeVar("N", bound=Noise)


@dataclass(frozen=True, eq=False)
class Folded:
    """Users given each draw: a normal over (factors, bias), and the user's own precision, if there is one."""

    means: FloatArray  # B x S x W
    precision: FloatMatrix | None = None  # B x S


@dataclass(frozen=True, eq=False)
class ScoreDraws:
    """Scores of pairs given each draw, in units of the model; n x S each."""

    means: FloatMatrix
    sds: FloatMatrix
    weights: FloatMatrix | None  # of the draws; None for equal
    precision: FloatMatrix | None  # of the user's noise
    item_rows: IntArray  # -1 for a new item


@dataclass(frozen=True, eq=False)
class Answers:
    """The information in a rating of each of n items about its score, near the score of each draw; n x S each."""

    variance: NDArray[Any]  # of the answer around the score, in units of the model
    slope: NDArray[Any]  # of the expected rating, per unit of the score


@dataclass(frozen=True, eq=False)
class Units:
    """The range of the ratings, and their levels, if they have any."""

    low: float
    high: float
    levels: DoubleArray | None
    usual: float  # mean of the training ratings

    @classmethod
    def of_levels(cls, levels: Sequence[float], usual: float) -> Units:
        """Units of ratings that are one of these levels."""
        return cls(float(levels[0]), float(levels[-1]), np.array(levels), usual)


class ServedLikelihood(ABC):
    """A likelihood with kept draws, which folds in users and derives ratings from scores."""

    is_linear: ClassVar[bool] = True  # the expected rating is offset + scale * score

    @property
    def takes_choices(self) -> bool:
        """Whether users are folded in from implicit feedback."""
        return False

    @property
    def sampled(self) -> SampledNegatives | None:
        """The sampled negatives of users, if there are any."""
        return None

    @property
    def learned(self) -> Likelihood[Any] | None:
        """The likelihood with which chains can continue, if there is one."""
        return None

    @abstractmethod
    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        """Fold in users with these ratings; fills the roots, if given."""

    @abstractmethod
    def predictive(self, draws: ItemDraws, scores: ScoreDraws, units: Units) -> PredictiveDistribution:
        """The predictive distribution of ratings of pairs with these scores."""

    @abstractmethod
    def information(self, draws: ItemDraws, scores: Callable[[], ScoreDraws], units: Units) -> Answers:
        """The information in ratings of pairs; scores are computed only if it depends on them."""

    @abstractmethod
    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        """The arrays for an artifact, with the kind of noise (see the folder's `KINDS`)."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Arrays) -> tuple[ServedLikelihood, Arrays]:
        """Restore from `arrays`: the likelihood, and the arrays beside its draws."""


class Likelihood(Settings, ServedLikelihood, Generic[N]):
    """The distribution of ratings given scores, both in the model's units (`FactorModel`)."""

    is_binary: ClassVar[bool] = False  # ratings are yes (1) and no (0)
    has_evidence: ClassVar[bool] = False  # p(ratings of a user | draw) has a closed form
    places_scores: ClassVar[bool] = False  # it locates scores, so that biases need no mean
    row_steps: ClassVar[int] = 6  # Gibbs steps until rows no longer depend on their start

    # Before training

    def bind(self, observed: Ratings) -> tuple[Likelihood[N], float, float]:
        """The likelihood with everything determined from the ratings; and their offset and scale, the model's units."""
        return self, 0.0, 1.0

    def units(self, observed: Ratings) -> Units:
        """Range and levels of ratings. Even those modelled as numbers may have levels."""
        return Units(*observed.range, levels_of(observed.values), observed.mean)

    def keep_levels(self, levels: DoubleArray | None) -> Likelihood[N]:
        """The likelihood for ratings in which some levels of the draws may no longer occur."""
        return self

    def sample_negatives(self, observed: Ratings, model: str, rng: Generator) -> SampledNegatives | None:
        """The sampled negatives, if ratings are choices; `model` is the name for messages."""
        return None

    # Training

    @abstractmethod
    def init(self, observed: Observations) -> N:
        """The noise at the start of a chain."""

    def start(self, side: RatingBlock) -> RatingBlock:
        """Responses for the least squares from which a chain may start."""
        return side

    @abstractmethod
    def sample(self, n_users: int, n_items: int, rng: Generator) -> N:
        """The noise from its prior."""

    def settle(self, users: GivenRows, noise: N, rng: Generator) -> N:
        """Draw parameters with latent responses integrated out, given the scores; rows are the users."""
        return noise

    @abstractmethod
    def augment(self, given: GivenRows, noise: N, rng: Generator) -> GivenRows:
        """The rows with responses in place of the given ratings."""

    def learn(self, given: GivenRows, squares: DoubleArray, noise: N, rng: Generator) -> N:
        """The noise given the squared errors (weighted, but not with the row's own precision) of the rows drawn."""
        return noise

    @abstractmethod
    def simulate(self, scores: DoubleArray, where: Ratings, noise: N, rng: Generator) -> DoubleArray:
        """Ratings of the same pairs, with these scores."""

    def expected(self, scores: AnyFloats, noise: N) -> AnyFloats:
        """The mean rating at each score."""
        return scores

    @abstractmethod
    def log_density(self, users: GivenRows, squares: DoubleArray | None, noise: N) -> float:
        """Density of the ratings given the scores, and of the noise. `squares` are those of the users, if known."""

    def figures(self, noise: N, unit: float) -> Stats:
        """The watched figures of the noise, in units of the ratings."""
        return {}

    # Kept draws

    @property
    def learned(self) -> Likelihood[N]:
        return self

    def stack(self, noises: Sequence[N], scale: float) -> Arrays:
        """The noise of kept draws as arrays; `scale` converts standard deviations to those of ratings."""
        return {}

    @abstractmethod
    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[Likelihood[Any], Noise]:
        """The likelihood of draw s, with all parameters fixed but those of single rows."""

    def restart(self, noise: Noise) -> Noise:
        """The noise of a kept draw, from which a chain continues."""
        return noise

    def renew(self, axis: Axis, n_rows: int, noise: N, rng: Generator) -> N:
        """The noise with that of `n_rows` new rows drawn from their population."""
        return noise

    def approach(self, given: GivenRows, noise: N) -> GivenRows | None:
        """Weighted responses whose squared errors are parabolas that touch the log likelihood at the scores.

        None if rows can be drawn from any start.
        """
        return None

    def with_items(self, draws: ItemDraws, n_learned: int, noises: Sequence[N]) -> Arrays:
        """The noise of the draws, with that of items beyond the first `n_learned` from these noises."""
        return draws.noise

    def with_users(self, draws: ItemDraws, ratings: CSR, is_touched: NDArray[np.bool_], threads: int) -> Arrays:
        """The noise of the draws, updated for users who are new or have new ratings."""
        return draws.noise

    def matches(self, asked: Likelihood[Any]) -> bool:
        """Whether draws of this likelihood can continue with another one's settings."""
        return type(asked) is type(self)


def likelihood_of(given: Any) -> Likelihood[Any]:
    """Return a validated likelihood from an object, a name or a text such as `ordinal:levels=1,2,3`."""
    found: Likelihood[Any] = settings_of(given, LIKELIHOODS, "likelihood", Likelihood)
    return found


def squared_errors(side: RatingBlock, rows: Factors, other: Factors) -> DoubleArray:
    """Sum the squared errors of each row, in double if the factors are."""
    standard = (side.targets.astype(np.float64) - side.offset) / side.scale
    errors = standard - row_scores(side, rows.masked(side.here), other).astype(np.float64)
    weights = 1.0 if side.column_weights is None else side.column_weights[side.columns].astype(np.float64)
    return side.gathered(row_sums(side, weights * errors**2))


def block_keys(side: RatingBlock, rng: Generator) -> Iterator[tuple[slice, int]]:
    """The ratings of each block of rows that is here, with the key of its random numbers."""
    keys = rng.integers(1 << 63, size=side.n_blocks).tolist()
    for place, (_, entries) in enumerate(side.blocks(), side.first_block):
        yield entries, keys[place]


def row_sums(side: RatingBlock, values: DoubleArray) -> DoubleArray:
    """Sum values of these ratings by row, 0 for rows without ratings."""
    of_rows = np.repeat(np.arange(len(side.offsets) - 1), np.diff(side.offsets))
    return np.bincount(of_rows, values, minlength=len(side.offsets) - 1).astype(np.float64)


def normal_predictive(
    draws: ItemDraws, scores: ScoreDraws, units: Units, noise_sd: NDArray[Any]
) -> PredictiveDistribution:
    """Normal ratings around normal beliefs; `noise_sd` in units of the model, n x S or S."""
    means = draws.offset + draws.scale * scores.means
    sds = draws.scale * scores.sds
    noise = (draws.scale * noise_sd).astype(np.float32)
    mixture = NormalMixture(means, np.hypot(sds, noise), scores.weights)
    return PredictiveDistribution(
        belief=NormalMixture(means, sds, scores.weights),
        rating=NormalRatings(mixture, units.low, units.high, units.levels),
    )


def level_predictive(
    means: FloatMatrix, cuts: DoubleArray | None, scores: ScoreDraws, units: Units
) -> PredictiveDistribution:
    """Levels from latent scores; without cuts by the logistic link."""
    assert units.levels is not None
    latent = LatentScores(means, scores.sds, cuts, units.levels, scores.weights)
    return PredictiveDistribution(belief=latent, rating=latent.ratings)


# Gibbs steps of a fold-in with latent variables, and before them Newton steps to the mode: from the population's mean
# latent responses would move slowly if nearly all ratings agree (docs/explanation/models/likelihoods.md).
STEPS, APPROACH = 6, 6


def keys_of(ratings: CSR) -> NDArray[np.uint64]:
    """Return a number for each user that depends on their ratings, but not on the order of these."""
    values = contiguous(ratings.values, np.float32).view(np.uint32).astype(np.uint64)
    mixed = _mixed(_mixed(ratings.columns.astype(np.uint64)) ^ values)
    # Cumulative sums, whose differences are sums of rows, empty ones too; overflow is harmless.
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return _mixed(total[ratings.offsets[1:]] - total[ratings.offsets[:-1]])


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def fold_in_normal(
    draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int, **outputs: DoubleArray
) -> FloatArray:
    """The means of users with one noise for all; fills the roots, and `energy` and `log_determinant` where given."""
    return _folded(_native.fold_in, draws, ratings, roots, threads, outputs, is_standard=True)


def fold_in_latent(
    draws: ItemDraws,
    ratings: CSR,
    roots: FloatArray | None,
    threads: int,
    latent: dict[str, Any],
    is_standard: bool = True,
) -> FloatArray:
    """The means of users by a few steps with latent variables; fills the roots."""
    latent = {**latent, "steps": STEPS, "keys": keys_of(ratings)}
    return _folded(_native.fold_in_latent, draws, ratings, roots, threads, latent, is_standard=is_standard)


def _folded(
    kernel: Callable[..., int],
    draws: ItemDraws,
    ratings: CSR,
    roots: FloatArray | None,
    threads: int,
    more: Mapping[str, Any],
    *,
    is_standard: bool,
) -> FloatArray:
    """The shared part of both ways of folding in; ratings in units of the model, or unchanged."""
    _, n_draws, width = draws.items.shape
    means: FloatArray = np.empty((len(ratings), n_draws, width), np.float32)
    linear = None
    if draws.user_means is not None:
        linear = draws.user_linear(draws.user_means)
        means[:] = draws.user_means  # where latent responses start
    values = contiguous(ratings.values, np.float32)
    if is_standard:
        values = (values - np.float32(draws.offset)) / np.float32(draws.scale)
    failed = kernel(
        offsets=contiguous(ratings.offsets, np.int64),
        columns=contiguous(ratings.columns, np.int32),
        targets=values,
        items=draws.items,
        prior_precision=draws.users.precision,
        prior_linear=draws.users.linear,
        alpha=draws.alpha,
        bias_precision=draws.users.bias_precisions if draws.has_biases else None,
        bias_linear=draws.users.bias_linear if draws.has_biases else None,
        row_linear=linear,
        means=means,
        roots=roots,
        threads=threads,
        **more,
    )
    if failed >= 0:
        raise NonFiniteStateError(
            f"the belief about user {failed} of the request has no finite spread; expected finite ratings, of the "
            "size of those that the model was fitted on"
        )
    return means
