"""Cut-points between levels: their prior, and a Metropolis-Hastings step given scores.

    P(level l | score s) = Phi(k_l - s) - Phi(k_{l-1} - s)
    k_1 ~ N(0, 2^2),   log(k_{l+1} - k_l) ~ N(-1/2, 1)

Latent responses are integrated out: given those of a million ratings a cut-point can hardly move. The proposal
is a t distribution around the mode, which Newton's method finds; it depends on scores and levels but not on the current
cut-points, so that the ratio is that of an independence sampler. The log likelihood is a sum of a smooth function of
the score over the ratings of each level: scores are spread once over a fine grid with the weights of cubic
interpolation, and every evaluation is a sum over the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log, pi

import numpy as np
import scipy
from numpy.random import Generator

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray
from tastespace.errors import NonFiniteStateError
from tastespace.models.factorization.rows import RatingBlock

FIRST_CUT_SD = 2.0
LOG_GAP_MEAN, LOG_GAP_SD = -0.5, 1.0
STEP = 1 / 32  # of the grid: the error of the sum over a million ratings is below 0.01 for scores of order 1
MOST_NODES = 1 << 14
NEWTON_STEPS, LEAST_SIZE, ENOUGH = 50, 1e-4, 1e-6
DEGREES = 8.0  # of the proposal's tails
LEAST_LOG = -700.0  # smaller probabilities count as e^-700


@dataclass(frozen=True, eq=False)
class ScoreGrid:
    """The scores of each level, spread over a grid: sums over ratings are sums over its nodes."""

    nodes: DoubleArray  # m
    weights: DoubleArray  # K x m

    @classmethod
    def of(cls, side: RatingBlock, scores: AnyFloats, edges: AnyFloats, threads: int) -> ScoreGrid:
        """The grid of these scores of the ratings of a side, filled block by block."""
        own = np.array([[scores.min(), scores.max()]] if len(scores) else [], np.float64).reshape(-1, 2)
        ends = side.gathered(own)
        low, high = (float(ends[:, 0].min()), float(ends[:, 1].max())) if len(ends) else (0.0, 0.0)
        n_nodes = int((high - low) / STEP) + 5 if np.isfinite(high - low) else MOST_NODES + 1
        if n_nodes > MOST_NODES:
            raise NonFiniteStateError(
                f"scores reach from {low:g} to {high:g}; expected some units of the noise, whose standard deviation is "
                "1: try start='random' or precision='float64'"
            )
        filled, first = [], low - 2 * STEP
        for _, entries in side.blocks():
            weights = np.empty((len(edges) + 1, n_nodes))
            if _native.bin_scores(scores[entries], side.targets[entries], edges, first, STEP, weights, threads) >= 0:
                raise NonFiniteStateError("a score became NaN; expected finite numbers: try precision='float64'")
            filled.append(weights)
        weights = side.gathered(np.array(filled).reshape(-1, len(edges) + 1, n_nodes)).sum(axis=0)
        nodes: DoubleArray = first + STEP * np.arange(n_nodes, dtype=np.float64)
        return cls(nodes, weights)

    @property
    def counts(self) -> DoubleArray:
        """The number of ratings of each level."""
        return np.asarray(self.weights.sum(1))

    def log_likelihood(self, cuts: DoubleArray) -> float:
        return float(np.sum(self.weights * log_probabilities(self.nodes, cuts)))

    def derivatives(self, cuts: DoubleArray) -> tuple[float, DoubleArray, DoubleArray]:
        """Derivatives of the log likelihood in the cut-points: value, gradient, and the tridiagonal Hessian."""
        log_p = log_probabilities(self.nodes, cuts)
        apart = cuts[:, None] - self.nodes
        log_phi = -0.5 * apart**2 - 0.5 * log(2 * pi)
        below, above = np.exp(log_phi - log_p[:-1]), np.exp(log_phi - log_p[1:])  # phi(k_l) / P of the level each side
        gradient = np.sum(self.weights[:-1] * below - self.weights[1:] * above, axis=1)
        diagonal = -self.weights[:-1] * below * (below + apart) - self.weights[1:] * above * (above - apart)
        beside = np.sum(self.weights[1:-1] * above[:-1] * below[1:], axis=1)
        hessian = np.diag(diagonal.sum(1)) + np.diag(beside, 1) + np.diag(beside, -1)
        return float(np.sum(self.weights * log_p)), gradient, hessian


@dataclass(frozen=True, eq=False)
class Proposal:
    """A t distribution in the coordinates (first cut, log gaps)."""

    mode: DoubleArray
    root: DoubleArray  # root root^T is the scale

    def draw(self, rng: Generator) -> DoubleArray:
        spread = (rng.chisquare(DEGREES) / DEGREES) ** 0.5
        return np.asarray(self.mode + self.root @ rng.standard_normal(len(self.mode)) / spread)

    def log_density(self, place: DoubleArray) -> float:
        n = len(place)
        apart = np.linalg.solve(self.root, place - self.mode)
        constant = lgamma((DEGREES + n) / 2) - lgamma(DEGREES / 2) - n / 2 * log(DEGREES * pi)
        constant -= float(np.log(np.diag(self.root)).sum())
        return constant - (DEGREES + n) / 2 * log(1 + float(apart @ apart) / DEGREES)


def draw_cuts(grid: ScoreGrid, cuts: DoubleArray, rng: Generator) -> DoubleArray:
    """One Metropolis-Hastings step: new cut-points, or the same."""
    proposal = propose(grid)
    here, there = coordinates(cuts), proposal.draw(rng)
    ratio = log_posterior(grid, there) - log_posterior(grid, here)
    ratio += proposal.log_density(here) - proposal.log_density(there)
    return cuts_at(there) if log(max(rng.random(), 1e-300)) < ratio else cuts


def sample_cuts(n_cuts: int, rng: Generator) -> DoubleArray:
    """Cut-points from the prior."""
    first = FIRST_CUT_SD * rng.standard_normal()
    return cuts_at(np.append(first, LOG_GAP_MEAN + LOG_GAP_SD * rng.standard_normal(n_cuts - 1)))


def likely_cuts(counts: DoubleArray, mean: float, variance: float) -> DoubleArray:
    """The cut-points that match the shares of the levels if scores were normal; unused levels get some width."""
    shares = np.cumsum(counts + 0.5) / (counts.sum() + 0.5 * len(counts))
    return np.asarray(mean + (1 + variance) ** 0.5 * scipy.special.ndtri(shares[:-1]))


def log_prior(place: DoubleArray) -> float:
    """The log prior density of (first cut, log gaps)."""
    normal = -0.5 * (place[0] / FIRST_CUT_SD) ** 2 - log(FIRST_CUT_SD)
    gaps = -0.5 * float(np.sum(((place[1:] - LOG_GAP_MEAN) / LOG_GAP_SD) ** 2)) - (len(place) - 1) * log(LOG_GAP_SD)
    return float(normal) + gaps - len(place) / 2 * log(2 * pi)


def log_posterior(grid: ScoreGrid, place: DoubleArray) -> float:
    """The log posterior in the coordinates (first cut, log gaps), up to a constant."""
    return grid.log_likelihood(cuts_at(place)) + log_prior(place)


def coordinates(cuts: DoubleArray) -> DoubleArray:
    """The coordinates of cut-points: first cut and log gaps."""
    return np.append(cuts[0], np.log(np.diff(cuts)))


def cuts_at(place: DoubleArray) -> DoubleArray:
    return np.asarray(np.cumsum(np.append(place[0], np.exp(place[1:]))))


def log_probabilities(scores: DoubleArray, cuts: DoubleArray) -> DoubleArray:
    """log P(level | score), K x scores."""
    low = np.append(-np.inf, cuts)[:, None] - scores
    high = np.append(cuts, np.inf)[:, None] - scores
    turned = low > 0  # The lower tail has more digits than the upper one.
    low, high = np.where(turned, -high, low), np.where(turned, -low, high)
    log_low, log_high = scipy.special.log_ndtr(low), scipy.special.log_ndtr(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = log_high + np.log(-np.expm1(log_low - log_high))
    return np.asarray(np.fmax(between, LEAST_LOG))  # NaN if both ends are beyond the precision


def propose(grid: ScoreGrid) -> Proposal:
    """The proposal: Newton's method from the cut-points that match the shares, and the curvature at its end."""
    of_nodes = grid.weights.sum(0)
    total = float(of_nodes.sum()) or 1.0
    mean = float(of_nodes @ grid.nodes) / total
    variance = float(of_nodes @ (grid.nodes - mean) ** 2) / total
    here = _hill(grid, coordinates(likely_cuts(grid.counts, mean, variance)))
    for _ in range(NEWTON_STEPS):
        move, size = np.linalg.solve(here.curvature, here.gradient), 1.0
        while not (there := _hill(grid, here.place + size * move)).height > here.height and size > LEAST_SIZE:
            size /= 2
        gained = there.height - here.height
        here = there if gained > 0 else here
        if gained < ENOUGH:
            break
    # root root^T = curvature^-1, lower triangular: the inverse of the Cholesky factor of the mirrored matrix, mirrored.
    try:
        mirrored = np.linalg.cholesky(here.curvature[::-1, ::-1])
    except np.linalg.LinAlgError:
        raise NonFiniteStateError(
            f"the cut-points have no finite spread, with scores from {grid.nodes[0]:g} to {grid.nodes[-1]:g}; expected "
            "some units of the noise, whose standard deviation is 1: try start='random' or precision='float64'"
        ) from None
    return Proposal(here.place, np.linalg.inv(mirrored)[::-1, ::-1].T)


@dataclass(frozen=True, eq=False)
class _Hill:
    """The log posterior at a place, its gradient, and a positive definite curvature."""

    place: DoubleArray
    height: float
    gradient: DoubleArray
    curvature: DoubleArray


def _hill(grid: ScoreGrid, place: DoubleArray) -> _Hill:
    """The curvature is the negative Hessian, without the terms of the coordinates if they make it indefinite."""
    n, gaps = len(place), np.exp(place[1:])
    height, gradient, hessian = grid.derivatives(cuts_at(place))
    jacobian = np.tril(np.concatenate([[1.0], gaps])[None].repeat(n, axis=0))
    jacobian[:, 0] = 1
    centre, precision = np.full(n, LOG_GAP_MEAN), np.full(n, LOG_GAP_SD**-2)
    centre[0], precision[0] = 0.0, FIRST_CUT_SD**-2
    slope = jacobian.T @ gradient - precision * (place - centre)
    curvature = -jacobian.T @ hessian @ jacobian + np.diag(precision)
    bends = np.zeros(n)
    bends[1:] = gaps * np.cumsum(gradient[::-1])[::-1][1:]
    curved = curvature - np.diag(bends)
    try:
        np.linalg.cholesky(curved)
    except np.linalg.LinAlgError:
        curved = curvature
    return _Hill(place, height + log_prior(place), slope, curved)
