"""A point estimate of factors and biases, and how a new user is placed among the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, Queries
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.als.sweep import Penalty, Strengths, Weighting
from tastespace.models.factorization.rows import Factors, RatingBlock, RowPrior, score_pairs, solve_rows

if TYPE_CHECKING:
    from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior

PATH, LEARNED = "learning:path", "learning:precisions"  # arrays of a posterior of empirical Bayes


@dataclass(frozen=True, eq=False)
class PointPosterior(Posterior):
    """A point estimate: rating = mean + user bias + item bias + user . item (no biases: None)."""

    mean: float
    users: Factors
    items: Factors
    penalty: Penalty
    losses: DoubleArray  # after each sweep of the final fit

    def known(self, user_rows: IntArray) -> Factors:
        """The users as fitted in training; row -1 is a new user."""
        found = self.users.each(lambda part: part[np.maximum(user_rows, 0)])
        return found.where(user_rows >= 0, found.each(np.zeros_like))

    def fold_in(self, history: CSR, threads: int) -> Factors:
        """The same update that training makes for a user: a training user with their own ratings stays in place."""
        side = RatingBlock.of(history, self.items.factors.dtype, self.mean)
        return solve_rows(side, self.items, self.user_prior(history), name="user", threads=threads).points

    def user_prior(self, history: CSR) -> RowPrior:
        """The prior of users, which depends on their numbers of ratings."""
        factors = self.items.factors
        return self.penalty.prior("users", factors.shape[1], history.counts, factors.dtype)

    def believe(self, people: People, threads: int) -> PointBelief:
        points = self.known(people.rows)
        if people.is_new.any():
            points = self.fold_in(people.history, threads).where(people.is_new, points)
        return PointBelief(self, points, threads)

    def predict(self, points: Factors, rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        """Expected ratings of pairs of users at these points and items."""
        return score_pairs(points, rows, self.items, item_rows, self.mean, threads)

    @property
    def is_latent(self) -> bool:
        """Whether scores are latent and ratings are derived from them."""
        return False

    @property
    def item_vectors(self) -> FloatMatrix:
        if self.items.bias is None:
            return contiguous(self.items.factors, np.float32)
        return np.hstack([self.items.factors, self.items.bias[:, None]]).astype(np.float32)

    @property
    def embeddings(self) -> FloatMatrix:
        return contiguous(self.items.factors, np.float32)

    def item_points(self) -> ItemPoints:
        factors = self.items.factors.astype(np.float64)
        bias = np.zeros(len(factors)) if self.items.bias is None else self.items.bias.astype(np.float64)
        return ItemPoints(factors, bias)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "mean": np.array([self.mean]),
            "strengths": np.array(astuple(self.penalty.strengths)),
            "weighting": np.array(astuple(self.penalty.weighting)),
            "losses": self.losses,
            "user_factors": self.users.factors,
            "item_factors": self.items.factors,
        }
        if self.users.bias is not None and self.items.bias is not None:
            arrays |= {"user_bias": self.users.bias, "item_bias": self.items.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PointPosterior:
        return cls(
            mean=float(arrays["mean"][0]),
            users=Factors(arrays["user_factors"], arrays.get("user_bias")),
            items=Factors(arrays["item_factors"], arrays.get("item_bias")),
            penalty=Penalty(
                Strengths(*(float(value) for value in arrays["strengths"])),
                Weighting(*(float(value) for value in arrays["weighting"])),
            ),
            losses=arrays["losses"],
        )


@dataclass(frozen=True, eq=False)
class PointBelief(Belief):
    """Users as points."""

    posterior: PointPosterior
    points: Factors
    threads: int

    def __len__(self) -> int:
        return len(self.points.factors)

    def mean(self, pairs: Pairs) -> FloatArray:
        return self.posterior.predict(self.points, pairs.rows, pairs.items, self.threads)

    @property
    def is_latent(self) -> bool:
        return self.posterior.is_latent

    @property
    def queries(self) -> Queries:
        factors, bias = self.points.factors, self.points.bias
        ones = np.ones((len(factors), 0 if self.posterior.items.bias is None else 1), np.float32)
        offsets = ((np.zeros(len(factors), np.float32) if bias is None else bias) + self.posterior.mean).astype(
            np.float32
        )
        return Queries(np.hstack([factors, ones]).astype(np.float32), offsets, lambda: self.posterior.item_vectors)

    @property
    def embeddings(self) -> FloatMatrix:
        return contiguous(self.points.factors, np.float32)


class EitherPosterior:
    """Reads back a point estimate, or the draws of empirical Bayes, whichever was saved."""

    point: ClassVar[type[PointPosterior]] = PointPosterior

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PointPosterior | EmpiricalPosterior:
        if LEARNED not in arrays:
            return cls.point.from_arrays(arrays)
        from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior

        return EmpiricalPosterior.from_arrays(arrays)
