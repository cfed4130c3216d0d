"""The posterior of variational Bayes: one draw of the items, with their uncertainty.

Items are uncertain, and so are the users and ratings that follow from them.

Under Q a user x = (u, c) and an item (v, d) are independent normals. With the user's mean and covariance ubar, Phi, the
item's vbar, Psi, and z = (v, 1), w = (u, 1):

    Var(u.v + c + d) = zbar^T Phi zbar + E[w]^T Psi E[w] + tr(Phi_uu Psi_vv) = zbar^T Phi zbar + <E[w w^T], Psi>

The first part is the uncertainty of the user, the second, one inner product of packed matrices, that of the item. Given
the user, items are independent, so that all scores of a draw are drawn without a root of any Psi.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, OffsetArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import NonFiniteStateError
from tastespace.models.base.posterior import Pairs, People
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.gibbs.item_draws import Populations
from tastespace.models.factorization.gibbs.posterior import DrawsBelief, DrawsPosterior
from tastespace.models.factorization.likelihoods.base import Answers, Arrays, Folded, ScoreDraws, ServedLikelihood
from tastespace.models.factorization.likelihoods.gaussian import Gaussian
from tastespace.models.factorization.priors.features import joined
from tastespace.models.factorization.rows import Factors, RatingBlock, score_pairs
from tastespace.models.factorization.vb.populations import ExpectedPrior
from tastespace.models.factorization.vb.rows import Family, RowBeliefs, Shape, arguments_of, packed, records_of
from tastespace.threads import one_blas_thread

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


LEAST_VARIANCE = 1e-9  # in units of the ratings', so that the precision is finite
MEAN, COVARIANCE = "stranger_mean", "stranger_covariance"  # names of arrays in artifacts


@dataclass(frozen=True, eq=False)
class NewRow:
    """The belief about a row without ratings: a random one of the rows with ratings, with its uncertainty."""

    mean: DoubleArray  # W
    covariance: DoubleArray  # W x W; factors and bias are independent

    @classmethod
    def among(cls, rows: RowBeliefs, counts: OffsetArray) -> NewRow:
        """The moments over rows with ratings; `counts` are the ratings of each row."""
        moments = replace(rows, records=rows.records[counts > 0]).moments
        n, n_factors, width = max(moments.n, 1), rows.shape.n_factors, rows.shape.width
        mean, second = np.zeros(width), np.zeros((width, width))
        mean[:n_factors], second[:n_factors, :n_factors] = moments.total / n, moments.gram / n
        if moments.has_bias:
            mean[n_factors], second[n_factors, n_factors] = moments.bias_total / n, moments.bias_squares / n
        covariance = second - np.outer(mean, mean) + LEAST_VARIANCE * np.eye(width)
        covariance[:n_factors, n_factors:] = covariance[n_factors:, :n_factors] = 0
        return cls(mean, covariance)

    @cached_property
    def root(self) -> DoubleArray:
        """Upper triangular T with T T^T the covariance."""
        return np.asarray(np.linalg.inv(np.linalg.cholesky(np.linalg.inv(self.covariance))).T)

    def population(self, n_factors: int) -> Populations:
        """The moments as the population of new items."""
        has_bias = len(self.mean) > n_factors
        return Populations(
            means=self.mean[None, :n_factors],
            precisions=np.asarray(np.linalg.inv(self.covariance[:n_factors, :n_factors])[None], np.float64),
            bias_means=np.array([self.mean[-1] if has_bias else 0.0]),
            bias_precisions=np.array([1 / self.covariance[-1, -1] if has_bias else 0.0]),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {MEAN: self.mean, COVARIANCE: self.covariance}

    @classmethod
    def found_in(cls, arrays: Mapping[str, NDArray[Any]]) -> NewRow | None:
        """The saved belief; None if new users follow the prior."""
        return cls(*(contiguous(arrays[name], np.float64) for name in (MEAN, COVARIANCE))) if MEAN in arrays else None


LARGEST = 1e15  # of a user's mean, in units of the ratings': variances have its square, in single precision


@dataclass(frozen=True, eq=False, kw_only=True)
class UncertainItems(Gaussian):
    """Gaussian noise, and covariances of the items: users are folded in by the second moments of these."""

    items: FloatMatrix  # M x W: means
    covariances: FloatMatrix  # M x W (W + 1) / 2: upper triangles, row by row; M x W for the factorized family
    has_biases: bool
    bounds: DoubleArray  # on the log evidence, after each pass
    new_user: NewRow | None = None  # a user without ratings; None for the prior

    @property
    def family(self) -> Family:
        return "full" if self.covariances.shape[1] > self.items.shape[1] else "diagonal"

    @cached_property
    def centre(self) -> DoubleArray:
        """The centre of the items, which records are relative to."""
        return np.asarray(self.items.mean(axis=0, dtype=np.float64))

    @cached_property
    def records(self) -> FloatMatrix:
        """The records of the items, with full second moments in both families: given these, a user's mean is exact."""
        shape = Shape(self.items.shape[1] - self.has_biases, self.has_biases, "full")
        covariances = self.covariances
        if self.family == "diagonal":
            covariances = np.zeros((len(self.items), shape.covariance), np.float32)
            rows, columns = np.triu_indices(shape.width)
            covariances[:, rows == columns] = self.covariances
        means = (self.items - self.centre).astype(np.float32)
        return contiguous(records_of(shape, means, covariances), np.float32)

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        users, (n_users, width) = draws.users, (len(ratings), self.items.shape[1])
        prior = ExpectedPrior(
            precision=users.precisions[0],
            linear=users.precisions[0] @ users.means[0],
            bias_precision=float(users.bias_precisions[0]),
            bias_linear=float(users.bias_linear[0]),
        )
        side = RatingBlock.of(ratings, np.float32, draws.offset, draws.scale)
        means = np.empty((n_users, width), np.float32)
        centres = np.zeros(width), self.centre
        expected = None if draws.user_means is None else draws.user_means[:, 0]
        arguments = arguments_of(side, self.records, prior, float(draws.alpha[0]), self.has_biases, centres, expected)
        arguments |= {
            "diagonal": self.family == "diagonal",
            "means": means,
            "roots": None if roots is None else roots.reshape(n_users, width, width),
            "threads": threads,
        }
        failed = _native.variational_rows(**arguments)
        if failed < 0 and not (np.abs(means) < LARGEST).all():
            failed = int(np.argmin((np.abs(means) < LARGEST).all(axis=1)))
        if failed >= 0:
            raise NonFiniteStateError(
                f"the belief about user {failed} of the request has no finite spread; expected finite ratings, of the "
                "size of those that the model was fitted on"
            )
        if self.new_user is not None:
            new_users = ratings.counts == 0
            means[new_users] = self.new_user.mean
            if roots is not None:
                roots[new_users] = self._new_user_root(self.new_user)
        return Folded(means[:, None, :])

    def _new_user_root(self, new_user: NewRow) -> DoubleArray:
        return new_user.root if self.family == "full" else np.sqrt(np.diag(np.diag(new_user.covariance)))

    def variance_seen_by(self, weights: FloatMatrix, rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        """<E[w w^T], Psi> of pairs, in units of the model; 0 for a new item, which has no Psi."""
        variance = score_pairs(Factors(weights), rows, Factors(self.covariances), item_rows, 0.0, threads)
        return np.maximum(variance, 0)  # rounding may make it negative

    def weights_of(self, means: FloatMatrix, covariances: FloatArray | None) -> FloatMatrix:
        """E[w w^T] of users, packed like covariances, with off-diagonal elements doubled; n x packed."""
        n_factors = self.items.shape[1] - self.has_biases
        known = means.copy()
        if self.has_biases:
            known[:, n_factors] = 1
        if self.family == "diagonal":
            squares = known**2
            if covariances is not None:
                squares[:, :n_factors] += np.diagonal(covariances, axis1=1, axis2=2)[:, :n_factors]
            return contiguous(squares, np.float32)
        second = known[:, :, None] * known[:, None, :]
        if covariances is not None:
            second[:, :n_factors, :n_factors] += covariances[:, :n_factors, :n_factors]
        doubled = 2 - np.eye(second.shape[1], dtype=np.float32)
        return contiguous(packed(second * doubled), np.float32)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        return {
            "noise": np.array([8], np.uint8),
            "item_covariances": self.covariances,
            "bounds": self.bounds,
            **({} if self.new_user is None else self.new_user.arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> tuple[ServedLikelihood, Arrays]:
        uncertain = cls(
            items=contiguous(arrays["items"][:, 0], np.float32),
            covariances=contiguous(arrays["item_covariances"], np.float32),
            has_biases=bool(arrays["flags"][0]),
            bounds=contiguous(arrays["bounds"], np.float64),
            new_user=NewRow.found_in(arrays),
        )
        return uncertain, {}


@dataclass(frozen=True, eq=False)
class VariationalPosterior(DrawsPosterior):
    """The posterior of VB: one draw of the items, with their uncertainty.

    Users are recomputed from their ratings. A query drawn for a user is multiplied by the expected items.
    """

    @property
    def uncertain(self) -> UncertainItems:
        likelihood = self.draws.likelihood
        assert isinstance(likelihood, UncertainItems)
        return likelihood

    @property
    def bounds(self) -> DoubleArray:
        """The bounds on the log evidence of the ratings, after each pass."""
        return self.uncertain.bounds

    @property
    def items_are_certain(self) -> bool:
        return False

    def believe(self, people: People, threads: int) -> VariationalBelief:
        return VariationalBelief(self, people.history, threads, self.seen_of(people), people.features)

    def with_items(self, observed: Ratings) -> VariationalPosterior | None:
        """With the items of the ratings that it lacks: around what features tell, as items without ratings are.

        None if it was learned without features of items.
        """
        draws, uncertain = self.draws, self.uncertain
        new = draws.unrated_items(observed)
        if new is None:
            return None
        population = draws.new_items
        if uncertain.family == "full":
            precision = joined(population.precisions[0], float(population.bias_precisions[0]))
            covariance = packed(np.linalg.inv(precision))
        else:
            covariance = 1 / np.append(np.diag(population.precisions[0]), population.bias_precisions)[: new.shape[2]]
        added = np.tile(covariance.astype(np.float32), (len(new), 1))
        items = np.concatenate([draws.items, new])
        covariances = np.concatenate([uncertain.covariances, added])
        likelihood = replace(uncertain, items=items[:, 0], covariances=covariances)
        return replace(self, draws=replace(draws, items=items, likelihood=likelihood))

    def item_points(self) -> ItemPoints:
        """Item factors around the mean, even if ratings are not centred: ratings of the average user become biases."""
        points, new_user = super().item_points(), self.uncertain.new_user
        if new_user is None:
            return points
        scale, n_factors = self.draws.scale, self.draws.n_factors
        usual = np.sqrt(scale) * points.factors @ new_user.mean[:n_factors] + points.bias
        usual += scale * new_user.mean[n_factors:].sum()
        return ItemPoints(points.factors, usual - (self.units.usual - self.draws.offset))


@dataclass(eq=False)
class VariationalBelief(DrawsBelief):
    """Users given the expected items; the uncertainty of the items is added."""

    posterior: VariationalPosterior

    def score_draws(self, pairs: Pairs) -> ScoreDraws:
        expected = super().score_draws(pairs)
        return replace(expected, sds=np.sqrt(expected.sds**2 + self._variance_of_items(pairs)[:, None]))

    def summary(self, pairs: Pairs) -> tuple[FloatArray, FloatArray]:
        mean, sd = super().summary(pairs)
        return mean, np.hypot(sd, np.float32(self.posterior.draws.scale) * np.sqrt(self._variance_of_items(pairs)))

    def _variance_of_items(self, pairs: Pairs) -> FloatArray:
        """The part of the scores' variance that comes from the items."""
        variance, uncertain = np.empty(len(pairs.rows), np.float32), self.posterior.uncertain
        for some, which, inside in self.blocks(pairs.rows):
            users, places = np.unique(inside, return_inverse=True)
            roots = some.roots[users, 0]
            weights = uncertain.weights_of(some.means[users, 0], roots @ roots.transpose(0, 2, 1))
            items = contiguous(pairs.items[which], np.int32)
            variance[which] = uncertain.variance_seen_by(weights, places.astype(np.int32), items, self.threads)
        return variance

    def draw_scores(self, row: int, n: int, rng: Generator, items: IntArray | None = None) -> FloatMatrix:
        draws, uncertain = self.posterior.draws, self.posterior.uncertain
        _, vectors, biases = self.draw_users(row, n, rng)
        meant = slice(None) if items is None else items
        with one_blas_thread():
            expected = vectors @ uncertain.items[meant].T + biases[:, None]
            variance = uncertain.weights_of(vectors, None) @ uncertain.covariances[meant].T
        noise = rng.standard_normal(expected.shape, np.float32)
        scores = expected + np.sqrt(np.maximum(variance, 0)) * noise
        return np.asarray(draws.offset + draws.scale * scores, np.float32)

    def inquiry_answers(self, row: int, items: IntArray) -> Answers:
        """The information in ratings, in which the uncertainty of an item counts as noise."""
        of_items = self._variance_of_items(Pairs.of_one(row, items)).astype(np.float64)
        draws = self.posterior.draws
        return Answers(1 / draws.alpha[0] + of_items[:, None], np.full((1, 1), draws.scale))
