"""Ratings that are levels: a latent response, normal around the score, falls between two cut-points.

    r = level l  iff  k_{l-1} < z <= k_l,   z ~ N(score, 1)

The cut-points are learned. Responses are drawn again whenever rows are drawn, in the order of those rows (Albert
and Chib 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.kinds import MOST_LEVELS, distinct, strange
from tastespace.data.ratings import Ratings
from tastespace.distributions.latent_levels import ordinal_information, ordinal_slope
from tastespace.errors import InvalidParameterError
from tastespace.inference.transition import Stats
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods import base, cut_points
from tastespace.models.factorization.rows import GivenRows, RatingBlock
from tastespace.parameters import check_ascending

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws

LEAST_CURVATURE, LEAST_CHANCE = 1e-4, 1e-280


@dataclass(frozen=True, eq=False)
class CutPoints(base.Noise):
    """The cut-points between levels; alpha is 1."""

    cuts: DoubleArray


@dataclass(frozen=True)
class Ordinal(base.Likelihood[CutPoints]):
    """Ratings are levels, such as stars, between learned cut-points.

    `levels` are all possible levels, ascending, at any distances; None for those in use.
    """

    levels: tuple[float, ...] | None = None

    name: ClassVar[str] = "ordinal"
    is_linear: ClassVar[bool] = False
    places_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.levels, list):  # so that it can be compared and hashed
            object.__setattr__(self, "levels", tuple(self.levels))

    def check(self) -> None:
        if self.levels is not None:
            check_ascending("levels", self.levels, least=2, most=MOST_LEVELS)

    def bind(self, observed: Ratings) -> tuple[base.Likelihood[CutPoints], float, float]:
        return Ordinal(tuple(_levels_of(observed.values, self.levels).tolist())), 0.0, 1.0

    def units(self, observed: Ratings) -> base.Units:
        return base.Units.of_levels(self._known, observed.mean)

    def keep_levels(self, levels: DoubleArray | None) -> base.Likelihood[CutPoints]:
        # A level that is no longer used stays: its cut-points exist.
        return self if levels is None else Ordinal(tuple(levels.tolist()))

    def matches(self, asked: base.Likelihood[Any]) -> bool:
        # Draws of probit are saved as those of two levels.
        return asked.name == self.name or (len(self._known) == 2 and asked.name == "probit" and not asked.takes_choices)

    @property
    def _known(self) -> tuple[float, ...]:
        assert self.levels is not None
        return self.levels

    @property
    def edges(self) -> DoubleArray:
        """The edges between levels, by which ratings are assigned to them."""
        levels = np.array(self._known)
        return np.asarray((levels[1:] + levels[:-1]) / 2)

    def init(self, observed: base.Observations) -> CutPoints:
        side, n_levels = observed.by_user, len(self._known)
        own = np.bincount(np.searchsorted(self.edges, side.targets), minlength=n_levels)
        counts = side.gathered(own[None]).sum(axis=0).astype(np.float64)
        return CutPoints(1.0, cut_points.likely_cuts(counts, 0.0, 1.0))

    def start(self, side: RatingBlock) -> RatingBlock:
        return standardised(side)

    def sample(self, n_users: int, n_items: int, rng: Generator) -> CutPoints:
        return CutPoints(1.0, cut_points.sample_cuts(len(self._known) - 1, rng))

    def settle(self, users: GivenRows, noise: CutPoints, rng: Generator) -> CutPoints:
        return replace(noise, cuts=cut_points.draw_cuts(self._grid(users), noise.cuts, rng))

    def _grid(self, users: GivenRows) -> cut_points.ScoreGrid:
        scores = users.scores()
        return cut_points.ScoreGrid.of(users.side, scores, self.edges.astype(scores.dtype), users.threads)

    def augment(self, given: GivenRows, noise: CutPoints, rng: Generator) -> GivenRows:
        return latent(given, self.edges, noise.cuts, 0.0, rng)

    def simulate(self, scores: DoubleArray, where: Ratings, noise: CutPoints, rng: Generator) -> DoubleArray:
        responses = scores + rng.standard_normal(len(scores))
        return np.asarray(np.array(self._known)[np.searchsorted(noise.cuts, responses)])

    def expected(self, scores: AnyFloats, noise: CutPoints) -> AnyFloats:
        """The expected rating: the lowest level, plus for each cut-point the step times the probability to pass it."""
        total = np.full(len(scores), self._known[0])
        for cut, step in zip(noise.cuts, np.diff(self._known), strict=True):
            total += step * scipy.special.ndtr(scores - cut)
        return total.astype(scores.dtype)

    def log_density(self, users: GivenRows, squares: DoubleArray | None, noise: CutPoints) -> float:
        return self._grid(users).log_likelihood(noise.cuts) + cut_points.log_prior(cut_points.coordinates(noise.cuts))

    def figures(self, noise: CutPoints, unit: float) -> Stats:
        return {f"cut {place}": float(cut) for place, cut in enumerate(noise.cuts, 1)}

    def stack(self, noises: Sequence[CutPoints], scale: float) -> base.Arrays:
        return {"cuts": np.stack([noise.cuts for noise in noises])}  # S x (K - 1)

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[base.Likelihood[Any], base.Noise]:
        return self, CutPoints(1.0, draws.noise["cuts"][s])

    def approach(self, given: GivenRows, noise: CutPoints) -> GivenRows | None:
        scores = given.scores().astype(np.float64)
        ends = np.concatenate([[-np.inf], noise.cuts, [np.inf]])
        level = np.searchsorted(self.edges, given.side.targets)
        slope, curvature = _between(ends[level] - scores, ends[level + 1] - scores)
        return parabolas(given, scores, slope, curvature, 0.0)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        return fold_in_levels(draws, ratings, draws.noise["cuts"], self.edges, roots, threads)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return base.level_predictive(scores.means, draws.noise["cuts"], scores, units)

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        return level_information(scores().means, draws.noise["cuts"], units)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([2], np.uint8), "cuts": draws.noise["cuts"], "edges": self.edges}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        return cls(tuple(arrays["levels"].tolist())), {"cuts": contiguous(arrays["cuts"], np.float64)}


def latent(given: GivenRows, edges: DoubleArray, cuts: DoubleArray, offset: float, rng: Generator) -> GivenRows:
    """The same rows with latent responses for ratings, drawn from normals between cut-points."""
    scores, targets = given.scores(offset), given.side.targets
    edges_of_scores = edges.astype(scores.dtype)
    for entries, key in base.block_keys(given.side, rng):
        own = scores[entries]
        _native.draw_truncated(own, targets[entries], edges_of_scores, cuts, key, own, given.threads)
    return given.responding(scores, offset)


def standardised(side: RatingBlock) -> RatingBlock:
    """Levels as numbers, scaled to the noise of latent responses."""
    targets, n = side.targets.astype(np.float64), side.n_entries
    mean = side.total(lambda entries: targets[entries]) / n
    sd = sqrt(side.total(lambda entries: (targets[entries] - mean) ** 2) / n)
    return replace(side, offset=mean, scale=(sd or 1.0) / base.FIRST_PRECISION**0.5)


def fold_in_levels(
    draws: ItemDraws, ratings: CSR, cuts: DoubleArray, edges: DoubleArray, roots: FloatArray | None, threads: int
) -> base.Folded:
    """Users folded in by latent responses between the cut-points of each draw."""
    how = {"kind": "levels", "approach": base.APPROACH, "cuts": cuts, "edges": contiguous(edges, np.float32)}
    return base.Folded(base.fold_in_latent(draws, ratings, roots, threads, how, is_standard=False))


def level_information(scores: FloatArray, cuts: DoubleArray, units: base.Units) -> base.Answers:
    """The information in levels at these scores."""
    assert units.levels is not None
    return base.Answers(1 / ordinal_information(scores, cuts), ordinal_slope(scores, cuts, units.levels))


def parabolas(
    given: GivenRows, scores: DoubleArray, slope: DoubleArray, curvature: DoubleArray, offset: float
) -> GivenRows:
    """Weighted responses with this slope and curvature of the log likelihood at the scores."""
    dtype = given.other.factors.dtype
    return given.responding((scores + slope / curvature).astype(dtype), offset, curvature.astype(dtype))


def _between(low: DoubleArray, high: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """Slope and curvature of log(Phi(high) - Phi(low)), which falls on both sides; ends are above the score."""
    is_turned = low > 0  # the lower tail has more digits
    from_, to = np.where(is_turned, -high, low), np.where(is_turned, -low, high)
    chance = scipy.special.ndtr(to) - scipy.special.ndtr(from_)
    is_told = chance > LEAST_CHANCE
    safe = np.where(is_told, chance, 1)
    at_low, at_high = _density(low), _density(high)
    slope = np.where(is_told, (at_low - at_high) / safe, np.where(low > 0, low, high))  # else monotone to the end
    bend = (_times(high, at_high) - _times(low, at_low)) / safe
    return slope, np.where(is_told, np.clip(slope**2 + bend, LEAST_CURVATURE, 1), 1.0)


def _density(standard: NDArray[Any]) -> DoubleArray:
    return np.asarray(np.exp(-0.5 * standard**2) / np.sqrt(2 * np.pi))


def _times(end: DoubleArray, density: DoubleArray) -> DoubleArray:
    """The product, which is 0 at an infinite end."""
    return np.where(np.isinf(end), 0.0, np.where(np.isinf(end), 0.0, end) * density)


def _levels_of(values: NDArray[Any], declared: Sequence[float] | None) -> DoubleArray:
    """The levels of ratings; an error if the ratings are not levels."""
    found = distinct(values)
    if declared is None and found is None:
        raise InvalidParameterError(
            f"likelihood is 'ordinal', and ratings have more than {MOST_LEVELS} different values; expected levels, "
            "such as stars: choose likelihood='gaussian' for numbers"
        )
    levels = found if declared is None else np.array(declared, np.float64)
    assert levels is not None
    if len(levels) < 2:
        raise InvalidParameterError(
            f"likelihood is 'ordinal', and all ratings are {values[0]:g}; expected at least two levels: declare them "
            "with Ordinal(levels=[...]) if there are more than were used"
        )
    if declared is not None:
        with np.errstate(over="ignore"):
            single = levels.astype(np.float32)
        if not (np.isfinite(single).all() and (np.diff(single) > 0).all()):
            raise InvalidParameterError(
                f"levels are {listed(levels)}; expected numbers that differ in single precision, as ratings are kept"
            )
        places = np.flatnonzero(strange(values, levels))
        if len(places):
            raise InvalidParameterError(
                f"{len(places)} of {len(values)} ratings are not declared levels, such as "
                f"{values[places[0]]:g}; expected one of {listed(levels)}: declare all levels, or none to have those "
                "in use"
            )
    return levels


def listed(levels: DoubleArray) -> str:
    """Levels as text for a message."""
    shown = [f"{level:g}" for level in levels]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:6], "...", *shown[-3:]])
