"""Heteroscedastic noise: some users rate erratically, some items are divisive.

    r ~ N(score, 1 / (alpha a_i b_j)),   a_i ~ Gamma(k, k),   b_j ~ Gamma(l, l)

a_i and b_j are 1 on average; their concentrations, k and l, are learned on a grid (log-uniform). Squared errors
weighted with the other side's precisions come with the draw of each side's rows, so that the noise needs no further
pass. A user's own precision is drawn with their factors when they are folded in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, pi, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.data.csr import CSR, row_blocks
from tastespace.data.ratings import Ratings
from tastespace.distributions.conjugate import Gamma
from tastespace.inference.transition import Stats
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.likelihoods import base
from tastespace.models.factorization.likelihoods.gaussian import NormalNoise
from tastespace.models.factorization.rows import Axis, GivenRows, sum_of_rows
from tastespace.randomness import generator

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws

# From very different (half of the precisions beyond a factor of 5) to all equal (within 10 %).
CONCENTRATIONS = np.geomspace(0.5, 100.0, 60)
FIRST_CONCENTRATION = 10.0
BLOCK_ROWS = 4096  # whose noise is summarised together


@dataclass(frozen=True, eq=False)
class RowPrecisions(base.Noise):
    """alpha, and the factors of users and items."""

    users: AnyFloats  # a, one per user
    items: AnyFloats  # b, one per item
    user_concentration: float  # k
    item_concentration: float  # l

    def lean(self) -> Self:
        return replace(self, users=self.users.astype(np.float32), items=self.items.astype(np.float32))


@dataclass(frozen=True)
class HeteroscedasticGaussian(NormalNoise[RowPrecisions]):
    """Ratings are numbers with normal noise that differs between users and between items.

    `precision` is "learned", or 1 / variance of a rating of an average user and item. `shape` and `rate` are those of
    its gamma prior, for ratings of standard deviation 1.
    """

    name: ClassVar[str] = "heteroscedastic"

    def init(self, observed: base.Observations) -> RowPrecisions:
        users, items = (np.ones(side.n_rows) for side in (observed.by_user, observed.by_item))
        return RowPrecisions(self.first_alpha(), users, items, FIRST_CONCENTRATION, FIRST_CONCENTRATION)

    def sample(self, n_users: int, n_items: int, rng: Generator) -> RowPrecisions:
        alpha = self.first_alpha(rng)
        of_users, of_items = (float(rng.choice(CONCENTRATIONS)) for _ in range(2))
        users, items = rng.gamma(of_users, size=n_users) / of_users, rng.gamma(of_items, size=n_items) / of_items
        return RowPrecisions(alpha, users, items, of_users, of_items)

    def settle(self, users: GivenRows, noise: RowPrecisions, rng: Generator) -> RowPrecisions:
        """Draw the concentrations, and the common scale of alpha and factors, which the errors do not identify."""
        of_users, of_items = draw_concentration(noise.users, rng), draw_concentration(noise.items, rng)
        noise, prior = replace(noise, user_concentration=of_users, item_concentration=of_items), self.prior
        if prior is None:
            return noise
        factor = share(prior, noise.alpha, noise.users, of_users, rng)
        noise = replace(noise, alpha=noise.alpha * factor, users=noise.users / factor)
        factor = share(prior, noise.alpha, noise.items, of_items, rng)
        return replace(noise, alpha=noise.alpha * factor, items=noise.items / factor)

    def augment(self, given: GivenRows, noise: RowPrecisions, rng: Generator) -> GivenRows:
        dtype = given.other.factors.dtype
        own, others = (noise.users, noise.items) if given.axis == "user" else (noise.items, noise.users)
        side = replace(given.side, column_weights=others.astype(dtype))
        return replace(given, side=side, alpha=noise.alpha, row_precision=own.astype(dtype))

    def learn(self, given: GivenRows, squares: DoubleArray, noise: RowPrecisions, rng: Generator) -> RowPrecisions:
        counts = given.side.side_counts.astype(np.float64)
        if given.axis == "item":
            return replace(noise, items=draw_precisions(noise.item_concentration, counts, noise.alpha * squares, rng))
        users = draw_precisions(noise.user_concentration, counts, noise.alpha * squares, rng)
        if self.prior is None:
            return replace(noise, users=users)
        alpha = self.prior.posterior(given.side.n_entries, sum_of_rows(users * squares)).draw(rng)
        return replace(noise, users=users, alpha=alpha)

    def simulate(self, scores: DoubleArray, where: Ratings, noise: RowPrecisions, rng: Generator) -> DoubleArray:
        precision = noise.alpha * noise.users[where.user_rows] * noise.items[where.item_rows]
        return np.asarray(scores + rng.standard_normal(len(scores)) / np.sqrt(precision))

    def log_density(self, users: GivenRows, squares: DoubleArray | None, noise: RowPrecisions) -> float:
        side = users.side
        if squares is None:
            squares = base.squared_errors(replace(side, column_weights=noise.items), users.rows, users.other)
        n_rated = side.side_counts.astype(np.float64)
        of_items = np.bincount(side.columns, minlength=len(noise.items))
        n_raters = side.gathered(of_items[None]).sum(axis=0).astype(np.float64)
        # Sums, not matrix products: those depend on the threads of their library.
        normal = side.n_entries * log(noise.alpha / (2 * pi)) + sum_of_rows(n_rated * np.log(noise.users))
        normal += sum_of_rows(n_raters * np.log(noise.items)) - noise.alpha * sum_of_rows(noise.users * squares)
        prior = 0.0 if self.prior is None else self.prior.log_density(noise.alpha)
        prior += log_density_of(noise.users, noise.user_concentration)
        return prior + log_density_of(noise.items, noise.item_concentration) + normal / 2

    def figures(self, noise: RowPrecisions, unit: float) -> Stats:
        return {
            **super().figures(noise, unit),
            "user noise spread": 1 / sqrt(noise.user_concentration),
            "item noise spread": 1 / sqrt(noise.item_concentration),
        }

    def stack(self, noises: Sequence[RowPrecisions], scale: float) -> base.Arrays:
        alpha = np.array([noise.alpha for noise in noises])
        items = [noise.items for noise in noises]
        return {
            "item_precision": contiguous(np.stack(items, axis=1), np.float32),  # M x S
            "concentrations": np.array([(noise.user_concentration, noise.item_concentration) for noise in noises]),
            "user_noise": _summary_by_block([noise.users for noise in noises], alpha, scale),  # N x 4
            "item_noise": _summary_by_block(items, alpha, scale),  # M x 4
        }

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[base.Likelihood[Any], base.Noise]:
        alpha = float(draws.alpha[s])
        of_users, of_items = (float(concentration) for concentration in draws.noise["concentrations"][s])
        items: DoubleArray = draws.noise["item_precision"][:n_items, s].astype(np.float64)
        noise = RowPrecisions(alpha, np.ones(n_users), items, of_users, of_items)
        return HeteroscedasticGaussian(alpha), noise

    def renew(self, axis: Axis, n_rows: int, noise: RowPrecisions, rng: Generator) -> RowPrecisions:
        concentration = noise.user_concentration if axis == "user" else noise.item_concentration
        drawn = rng.gamma(concentration, size=n_rows) / concentration
        return replace(noise, users=drawn) if axis == "user" else replace(noise, items=drawn)

    def with_items(self, draws: ItemDraws, n_learned: int, noises: Sequence[RowPrecisions]) -> base.Arrays:
        precision = contiguous(np.stack([noise.items for noise in noises], axis=1), np.float32)
        summary = noise_summary(precision, draws.alpha, draws.scale)
        return {
            **draws.noise,
            "item_precision": np.concatenate([draws.noise["item_precision"][:n_learned], precision]),
            "item_noise": np.concatenate([draws.noise["item_noise"][:n_learned], summary]),
        }

    def with_users(self, draws: ItemDraws, ratings: CSR, is_touched: NDArray[np.bool_], threads: int) -> base.Arrays:
        known = draws.noise["user_noise"]
        noise: FloatMatrix = np.empty((len(ratings), known.shape[1]), np.float32)
        noise[: len(known)] = known
        users = np.flatnonzero(is_touched | (np.arange(len(ratings)) >= len(known))).astype(np.int32)
        for first in range(0, len(users), BLOCK_ROWS):
            some = users[first : first + BLOCK_ROWS]
            precision = self.fold_in(draws, ratings.take(some), None, threads).precision
            assert precision is not None
            noise[some] = noise_summary(precision, draws.alpha, draws.scale)
        return {**draws.noise, "user_noise": noise}

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        precision = np.empty((len(ratings), len(draws.alpha)), np.float32)
        latent = {
            "kind": "uneven",
            "item_precision": draws.noise["item_precision"],
            "concentration": contiguous(draws.noise["concentrations"][:, 0], np.float64),
            "out_precision": precision,
        }
        return base.Folded(base.fold_in_latent(draws, ratings, roots, threads, latent), precision)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return base.normal_predictive(draws, scores, units, 1 / np.sqrt(_pair_precision(draws, scores)))

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        return base.Answers(1 / _pair_precision(draws, scores()), np.full((1, 1), draws.scale))

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([1], np.uint8), **draws.noise}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        names = ("item_precision", "user_noise", "item_noise")
        noise: dict[str, NDArray[Any]] = {name: contiguous(arrays[name], np.float32) for name in names}
        return cls(), {**noise, "concentrations": contiguous(arrays["concentrations"], np.float64)}


def _pair_precision(draws: ItemDraws, scores: base.ScoreDraws) -> NDArray[Any]:
    """The precision of the noise of pairs; n x S."""
    if not len(scores.item_rows):  # No pairs: a filter left nothing.
        return np.empty(scores.means.shape)
    assert scores.precision is not None
    # A new item has one from the population, one per draw, and always the same.
    concentration = draws.noise["concentrations"][:, 1]
    unknown = generator(0).gamma(concentration) / concentration
    is_known = (scores.item_rows >= 0)[:, None]
    of_items = np.where(is_known, draws.noise["item_precision"][np.maximum(scores.item_rows, 0)], unknown)
    return np.asarray(draws.alpha * scores.precision * of_items)


def _summary_by_block(drawn: Sequence[AnyFloats], alpha: DoubleArray, scale: float) -> FloatMatrix:
    """Compute `noise_summary` of factors draw by draw, in bounded memory."""
    firsts = range(0, len(drawn[0]), BLOCK_ROWS)
    blocks = (np.stack([factors[first : first + BLOCK_ROWS] for factors in drawn], axis=1) for first in firsts)
    return np.concatenate([noise_summary(block, alpha, scale) for block in blocks])


def noise_summary(factors: AnyFloats, alpha: DoubleArray, scale: float) -> FloatMatrix:
    """Summarise each row of factors (rows x S): the noise's standard deviation in ratings of something average (mean,
    5 % and 95 % quantiles over draws), and the probability that it is above the average one."""
    sds = scale / np.sqrt(factors.astype(np.float64) * alpha)
    low, high = np.quantile(sds, [0.05, 0.95], axis=1)
    return np.stack([sds.mean(1), low, high, (factors < 1).mean(1)], axis=1).astype(np.float32)


def draw_precisions(concentration: float, counts: DoubleArray, squares: DoubleArray, rng: Generator) -> DoubleArray:
    """Draw factors of rows given their squared errors in units of alpha: Gamma(k + n/2, k + squares/2)."""
    drawn = np.empty(len(counts))
    blocks = row_blocks(len(counts))
    for block, own in zip(blocks, rng.spawn(len(blocks)), strict=True):
        drawn[block] = own.gamma(concentration + counts[block] / 2) / (concentration + squares[block] / 2)
    return drawn


def draw_concentration(factors: AnyFloats, rng: Generator) -> float:
    """Draw the concentration of the factors of a side, given them: one point of the grid."""
    k = CONCENTRATIONS
    log_weights = len(factors) * (k * np.log(k) - scipy.special.gammaln(k)) + k * (
        sum_of_rows(np.log(factors)) - sum_of_rows(factors)
    )
    weights = np.exp(log_weights - log_weights.max())
    edges = np.cumsum(weights)
    return float(k[min(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")), len(k) - 1)])


def share(precision: Gamma, alpha: float, factors: AnyFloats, concentration: float, rng: Generator) -> float:
    """Draw a factor c for alpha c and factors / c, which leaves all precisions unchanged: 1, or a new one.

    Without it, alpha and n factors given one another would take about n steps to move together. The density of c along
    that line is c^(a - 1 - n k) exp(-b alpha c - k sum / c): proposed without the middle term, which hardly matters,
    and accepted by it (a, b: shape and rate of alpha's prior).
    """
    shape = len(factors) * concentration - precision.shape
    if shape <= 0:
        return 1.0
    proposed = concentration * sum_of_rows(factors) / float(rng.gamma(shape))
    accepted = log(max(rng.random(), 1e-300)) < -precision.rate * alpha * (proposed - 1)
    return proposed if accepted else 1.0


def log_density_of(factors: AnyFloats, concentration: float) -> float:
    """The log density of all factors of a side; the grid of concentrations is uniform."""
    k = concentration
    constant = len(factors) * (k * log(k) - float(scipy.special.gammaln(k)))
    return constant + sum_of_rows((k - 1) * np.log(factors) - k * factors)
