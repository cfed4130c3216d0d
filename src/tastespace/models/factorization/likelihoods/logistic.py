"""Yes and no by the logistic function: P(1) = 1 / (1 + exp(-(offset + score))).

A latent weight makes it normal: given w ~ PG(1, score), (r - 1/2) / w is normal around the score with precision w
(Polya-Gamma: Polson, Scott and Windle 2013).

The module also has the serving of logistic factorization of implicit feedback.

Given the items, the energy of a user is convex, and the belief about them is

    x = (u, c) ~ N(x*, H^-1),   x* the least of E in their row,   H its second derivatives there (Laplace)

    H = l + sum_k b_k p_k (1 - p_k) z_k z_k^T + sum_j w_j p_j (1 - p_j) z_j z_j^T,   z = (v, 1)

over what they chose (k) and what they did not (j), which a panel represents. So before any choices the belief is the
prior of training, N(0, 1/l), and it narrows with every choice. A user about whom nothing is known is drawn from the
population of users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import AnyFloats, DoubleArray, FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.distributions.latent_levels import logistic_information
from tastespace.errors import NonFiniteStateError
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.implicit.cells import GROWTHS, Confidence
from tastespace.models.factorization.implicit.negatives import Panel
from tastespace.models.factorization.likelihoods import base
from tastespace.models.factorization.likelihoods.binary import EDGE, Binary
from tastespace.models.factorization.likelihoods.ordinal import LEAST_CURVATURE, parabolas
from tastespace.models.factorization.likelihoods.sampled_negatives import chosen_only
from tastespace.models.factorization.rows import GivenRows

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


@dataclass(frozen=True)
class Logistic(Binary):
    """Ratings are yes (1) and no (0), with the logistic function as link.

    `offset` is the score of the average rating; None to find it. With `negatives` ratings are choices, which are yes,
    and no are items sampled for each user, `n_negatives` per choice: any ("uniform"), or by (number of choices) ** 0.75
    ("popularity"). A prediction is then the probability that a pair is a choice and not drawn.
    """

    name: ClassVar[str] = "logistic"

    def chance(self, scores: AnyFloats) -> AnyFloats:
        return np.asarray(scipy.special.expit(scores))

    def log_chance(self, scores: DoubleArray) -> DoubleArray:
        return np.asarray(scipy.special.log_expit(scores))

    def score_of(self, share: float) -> float:
        return float(scipy.special.logit(share))

    def augment(self, given: GivenRows, noise: base.Noise, rng: Generator) -> GivenRows:
        weights = given.scores(self._offset)
        for entries, key in base.block_keys(given.side, rng):
            own = weights[entries]
            _native.draw_polya_gamma(own, key, own, given.threads)
        return given.responding((given.side.targets - weights.dtype.type(0.5)) / weights, self._offset, weights)

    def at(self, draws: ItemDraws, s: int, n_users: int, n_items: int) -> tuple[base.Likelihood[Any], base.Noise]:
        return self, base.Noise(1.0)

    def approach(self, given: GivenRows, noise: base.Noise) -> GivenRows | None:
        scores = given.scores(self._offset).astype(np.float64)
        is_yes = given.side.targets > EDGE
        chance, half = scipy.special.expit(scores), np.maximum(0.5 * np.abs(scores), 1e-4)
        # On the wrong side of 0 the curvature of a lower bound, since the true one is negligible.
        curvature = np.where((scores > 0) == is_yes, chance * (1 - chance), np.tanh(half) / (4 * half))
        curvature = np.maximum(curvature, LEAST_CURVATURE)
        return parabolas(given, scores, is_yes - chance, curvature, self._offset)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        offset, edges = self._offset, EDGE.astype(np.float32)
        how = {"kind": "logistic", "approach": base.APPROACH, "edges": edges, "latent_offset": offset}
        return base.Folded(base.fold_in_latent(draws, ratings, roots, threads, how, is_standard=False))

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return base.level_predictive(self._offset + scores.means, None, scores, units)

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        assert units.levels is not None
        information = logistic_information(self._offset + scores().means)
        return base.Answers(1 / information, float(np.ptp(units.levels)) * information)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {"noise": np.array([3], np.uint8), "logistic_offset": np.array([self._offset])}

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        return cls(float(arrays["logistic_offset"][0])), {}


STEPS = 30  # maximum number of Newton steps; it takes about five


@dataclass(frozen=True)
class NegativeWeight:
    """The total weight of what a user did not choose: in proportion to their choices, or the same for all users."""

    a_choice: float
    anyway: float

    def of(self, counts: NDArray[Any]) -> FloatArray:
        """The weights of users with these numbers of choices."""
        return (self.a_choice * counts + self.anyway).astype(np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class LogisticPanel(Logistic):
    """Choices by a logistic link, with a panel of items that represents what was not chosen."""

    confidence: Confidence
    ridge: float  # l
    weight: NegativeWeight
    panel: Panel
    losses: DoubleArray  # of each epoch

    @property
    def takes_choices(self) -> bool:
        return True

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        chosen, (_, _, width) = chosen_only(ratings), draws.items.shape
        means, linear = np.zeros((len(chosen), width), np.float32), None
        if draws.user_means is not None:
            means[:] = draws.user_means[:, 0]
            linear = np.float32(self.ridge) * means
        failed = _native.fold_in_choices(
            offsets=contiguous(chosen.offsets, np.int64),
            columns=contiguous(chosen.columns, np.int32),
            weights=1 + self.confidence.beyond_one(chosen.values),
            shown=self.panel.items,
            shown_weights=self.panel.weights,
            row_weights=self.weight.of(chosen.counts),
            items=contiguous(draws.items[:, 0], np.float32),
            prior_precision=(self.ridge * np.eye(draws.n_factors)).astype(np.float32),
            prior_linear=np.zeros(draws.n_factors, np.float32),
            bias_precision=self.ridge if draws.has_biases else None,
            offset=self._offset,
            steps=STEPS,
            means=means,
            roots=None if roots is None else roots.reshape(len(chosen), width, width),
            row_linear=linear,
            threads=threads,
        )
        if failed >= 0:
            raise NonFiniteStateError(
                f"the belief about user {failed} of the request has no finite spread; expected finite items, and "
                "counts of the size of those that the model was fitted on"
            )
        nothing = np.flatnonzero(chosen.counts == 0)
        expected = draws.user_means
        means[nothing] = draws.users.mean_row(0, draws.has_biases) if expected is None else expected[nothing, 0]
        if roots is not None:
            roots[nothing, 0] = draws.users.root(0, draws.has_biases)
        return base.Folded(means[:, None, :])

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        confidence, weight = self.confidence, self.weight
        figures = [confidence.strength, GROWTHS.index(confidence.growth), self.ridge, weight.a_choice, weight.anyway]
        return {
            "noise": np.array([5], np.uint8),
            "logistic_offset": np.array([self._offset]),
            "logistic": np.array(figures, np.float64),
            "panel": self.panel.items,
            "panel_weights": self.panel.weights,
            "losses": self.losses,
        }

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        strength, growth, ridge, a_choice, anyway = (float(figure) for figure in arrays["logistic"])
        panel = cls(
            float(arrays["logistic_offset"][0]),
            confidence=Confidence(strength, GROWTHS[int(growth)]),
            ridge=ridge,
            weight=NegativeWeight(a_choice, anyway),
            panel=Panel(contiguous(arrays["panel"], np.int32), contiguous(arrays["panel_weights"], np.float32)),
            losses=np.asarray(arrays["losses"], np.float64),
        )
        return panel, {}
