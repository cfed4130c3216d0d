"""The draws that are kept of chains, and the quantities watched while they run.

Draws of the items are kept, with everything that is needed to fold in a user; a few unrated pairs and the held-out
ratings are watched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.inference.drivers import Chain, Schedule
from tastespace.inference.transition import Stats, Trace
from tastespace.models.factorization.gibbs.feature_draws import FeatureDraws
from tastespace.models.factorization.gibbs.sweep import GibbsState
from tastespace.models.factorization.likelihoods.base import Arrays, Noise, ServedLikelihood
from tastespace.models.factorization.priors.features import FeaturePopulation, FeaturePrior
from tastespace.models.factorization.priors.normal_wishart import FactorPrior, NormalPopulation, Population, Sphere
from tastespace.models.factorization.rows import score_pairs

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.generative_model import FactorModel


@dataclass(frozen=True, eq=False)
class UserDraws:
    """Users as normals over (factors, bias), one per draw, in units of the ratings' standard deviation.

    W is the number of factors, plus one if there are biases.
    """

    means: FloatArray  # B x S x W
    roots: FloatArray  # B x S x W x W: T, upper triangular
    weights: FloatMatrix  # B x S: the weight of each draw for a user; rows sum to 1
    precision: FloatMatrix | None = None  # B x S: the precision of the users' own noise, if they have one


@dataclass(frozen=True, eq=False)
class Populations:
    """The hyper-parameters of one side, one per draw."""

    means: DoubleArray  # S x D
    precisions: DoubleArray  # S x D x D
    bias_means: DoubleArray  # S
    bias_precisions: DoubleArray  # S: 0 without biases

    @classmethod
    def of(cls, drawn: Sequence[Population]) -> Populations:
        names = ("mean", "precision", "bias_mean", "bias_precision")
        return cls(*(np.array([getattr(population, name) for population in drawn]) for name in names))

    @classmethod
    def of_rows(cls, rows: FloatMatrix, has_biases: bool) -> Populations:
        """One draw: the normal with the moments of these rows of factors (and, last, biases)."""
        factors = rows[:, : rows.shape[1] - has_biases].astype(np.float64)
        mean = factors.mean(axis=0)
        covariance = (factors - mean).T @ (factors - mean) / max(len(rows), 1)
        # A direction without variance would have no finite precision.
        covariance += 1e-6 * max(float(np.trace(covariance)) / len(mean), 1e-12) * np.eye(len(mean))
        bias = rows[:, -1].astype(np.float64) if has_biases else np.zeros(len(rows))
        bias_precision = 1 / max(float(bias.var()), 1e-12) if has_biases else 0.0
        return cls(mean[None], np.linalg.inv(covariance)[None], np.array([bias.mean()]), np.array([bias_precision]))

    def take(self, draws: IntArray) -> Populations:
        """Those of some draws."""
        return Populations(*(contiguous(getattr(self, part.name)[draws], np.float64) for part in fields(self)))

    def mean_row(self, draw: int, has_biases: bool) -> FloatArray:
        """The expected row of a draw: factors and, last, the bias."""
        mean = self.means[draw]
        return (np.append(mean, self.bias_means[draw]) if has_biases else mean).astype(np.float32)

    def root(self, draw: int, has_biases: bool) -> FloatMatrix:
        """Upper triangular T with covariance T T^T of such a row."""
        n = self.means.shape[1]
        root = np.zeros((n + has_biases, n + has_biases), np.float32)
        root[:n, :n] = np.linalg.inv(np.linalg.cholesky(self.precisions[draw])).T
        if has_biases:
            root[n, n] = self.bias_precisions[draw] ** -0.5
        return root

    def at(self, draw: int, shifts: FloatMatrix | None = None) -> NormalPopulation:
        """The population of one draw; `shifts` are what features add to the mean of each row (and, last, bias)."""
        of_bias = float(self.bias_means[draw]), float(self.bias_precisions[draw])
        parts = self.means[draw], self.precisions[draw], *of_bias
        if shifts is None:
            return NormalPopulation(*parts)
        return FeaturePopulation(*parts, shifts=shifts.astype(np.float64))

    # As the kernels take them.
    @cached_property
    def precision(self) -> FloatArray:
        return contiguous(self.precisions, np.float32)

    @cached_property
    def linear(self) -> FloatMatrix:
        return contiguous(np.einsum("sij,sj->si", self.precisions, self.means), np.float32)

    @cached_property
    def bias_linear(self) -> DoubleArray:
        return self.bias_precisions * self.bias_means

    @cached_property
    def log_determinant(self) -> DoubleArray:
        """The log determinant of the precision of factors and bias together."""
        precisions = self.bias_precisions
        of_bias = np.log(precisions, out=np.zeros_like(precisions), where=precisions > 0)
        return np.asarray(np.linalg.slogdet(self.precisions)[1] + of_bias)

    @cached_property
    def constant(self) -> DoubleArray:
        """The part of twice the prior's energy that does not depend on the row."""
        of_factors = np.einsum("si,sij,sj->s", self.means, self.precisions, self.means)
        return np.asarray(of_factors + self.bias_precisions * self.bias_means**2)

    def arrays(self, side: str) -> dict[str, NDArray[Any]]:
        return {f"{side}_{part.name}": getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_arrays(cls, side: str, arrays: Mapping[str, NDArray[Any]]) -> Populations:
        return cls(*(contiguous(arrays[f"{side}_{part.name}"], np.float64) for part in fields(cls)))


@dataclass(frozen=True, eq=False)
class Hyper:
    """The parts of a state that are kept besides the items."""

    user_population: Population
    item_population: Population
    noise: Noise


class Keeper:
    """Keeps the draws of the items of one chain, in blocks of draws."""

    def __init__(self, block: FloatArray, stored: Any, model: FactorModel, *, grows: bool = False) -> None:
        self.model = model
        self.blocks = [block]  # items x draws x width each
        self.stored = stored  # the type in which they are saved; rounded now, for the same answers
        self.grows, self.n = grows, 0

    def __call__(self, state: GibbsState, draw: int) -> Hyper:
        """Keep the items of a state."""
        n_factors = state.items.factors.shape[1]
        place = self._place(draw)
        place[:, :n_factors] = state.items.factors.astype(self.stored)
        if state.items.bias is not None:
            place[:, n_factors] = state.items.bias.astype(self.stored)
        users, items, model = state.users, state.items, self.model
        of_users, of_items = state.user_population, state.item_population
        if isinstance(model.user_prior, FeaturePrior) and isinstance(of_users, FeaturePopulation):
            of_users = model.user_prior.kept(of_users, users, items, with_bag=True)
        if isinstance(model.item_prior, FeaturePrior) and isinstance(of_items, FeaturePopulation):
            # Items that have a bag have draws of their own.
            of_items = model.item_prior.kept(of_items, items, users, with_bag=False)
        return Hyper(of_users, of_items, state.noise.lean())

    def saved(self) -> list[NDArray[Any]]:
        """The draws so far."""
        return [block.astype(self.stored, copy=False) for block in self.filled()]

    def restore(self, remembered: list[NDArray[Any]]) -> None:
        for draws in remembered:
            for place in range(draws.shape[1]):
                self._place(self.n)[:] = draws[:, place]

    def _place(self, draw: int) -> FloatArray:
        """The position of a draw: the next one, or an existing one."""
        block, place = divmod(draw, self.blocks[0].shape[1])
        if self.grows and block == len(self.blocks):
            self.blocks.append(np.empty_like(self.blocks[0]))
        self.n = draw + 1
        room: FloatArray = self.blocks[block][:, place]
        return room

    def filled(self) -> list[FloatArray]:
        """The draws so far, in single precision, without a copy."""
        size = self.blocks[0].shape[1]
        return [block[:, : self.n - size * number] for number, block in enumerate(self.blocks)]


class KeptItems:
    """The draws of the items of all chains. If their number is known, they take no more memory than the final array."""

    def __init__(self, schedule: Schedule, n_items: int, model: FactorModel, stored: Any) -> None:
        width = model.n_factors + model.has_biases
        self.whole: FloatArray | None = None
        if schedule.until is None:
            n = schedule.draws
            self.whole = whole = np.empty((n_items, schedule.chains * n, width), np.float32)
            self.keepers = [Keeper(whole[:, n * k : n * (k + 1)], stored, model) for k in range(schedule.chains)]
        else:
            shape = (n_items, schedule.until.block, width)
            self.keepers = [
                Keeper(np.empty(shape, np.float32), stored, model, grows=True) for _ in range(schedule.chains)
            ]

    def items(self) -> FloatArray:
        """All draws, one chain after another."""
        if self.whole is not None:
            return self.whole
        return np.concatenate([block for keeper in self.keepers for block in keeper.filled()], axis=1)


@dataclass(frozen=True, eq=False)
class ItemDraws:
    """The kept draws, by which users are folded in: S draws of M items with W numbers each."""

    items: FloatArray  # M x S x W: factors and, last, the bias, if there is one
    users: Populations
    new_items: Populations  # the distribution of new items
    alpha: DoubleArray  # S
    has_biases: bool
    offset: float
    scale: float
    likelihood: ServedLikelihood
    noise: Arrays = field(default_factory=dict)  # noise of each draw, as the likelihood needs it
    sphere: Sphere | None = None  # radius of the sphere of the items, if they are on one
    user_features: FeatureDraws | None = None  # coefficients of the users' features, if they have any
    item_features: FeatureDraws | None = None
    new_users: Populations | None = None  # of users without ratings, if users have bags: theirs are not known
    new_user_features: FeatureDraws | None = None
    user_means: FloatArray | None = None  # of the users who are folded in, B x S x W; None if all have the same

    @classmethod
    def of(cls, items: FloatArray, hyper: Sequence[Hyper], model: FactorModel) -> ItemDraws:
        new = [getattr(draw.user_population, "new", None) for draw in hyper]
        new_users = [population for population in new if population is not None]
        return cls(
            items=items,
            users=Populations.of([draw.user_population for draw in hyper]),
            new_items=Populations.of([draw.item_population for draw in hyper]),
            alpha=np.array([draw.noise.alpha for draw in hyper]),
            has_biases=model.has_biases,
            offset=model.offset,
            scale=model.scale,
            likelihood=model.likelihood,
            noise=model.likelihood.stack([draw.noise for draw in hyper], model.scale),
            sphere=model.item_moves.sphere,
            user_features=_feature_draws([draw.user_population for draw in hyper], model.user_prior),
            item_features=_feature_draws([draw.item_population for draw in hyper], model.item_prior),
            new_users=Populations.of(new_users) if new_users else None,
            new_user_features=_feature_draws(new_users, model.user_prior) if new_users else None,
        )

    @property
    def n_factors(self) -> int:
        return int(self.items.shape[2]) - self.has_biases

    def for_users(self, attributes: Any, history: CSR) -> ItemDraws:
        """The draws with the prior means of these users: what their attributes and their bag shift."""
        if self.user_features is None:
            return self
        shifts = self.user_features.shifts(attributes, history)
        return replace(self, user_means=self.mean_user + shifts)

    def place_new_users(self, means: FloatArray, roots: FloatArray | None, attributes: Any, ratings: CSR) -> None:
        """Set what is believed of those of some users who have no ratings: their bag is missing, and not empty."""
        unknown = np.flatnonzero(ratings.counts == 0)
        if self.new_users is None or self.new_user_features is None or not len(unknown):
            return
        known = None if attributes is None else attributes[unknown]
        shifts = self.new_user_features.shifts(known, CSR.empty(len(unknown)))
        means[unknown] = _mean_rows(self.new_users, self.has_biases) + shifts
        if roots is not None:
            roots[unknown] = self._new_user_roots

    @cached_property
    def _new_user_roots(self) -> FloatArray:
        assert self.new_users is not None
        return np.stack([self.new_users.root(s, self.has_biases) for s in range(len(self.new_users.means))])

    def thinned(self, places: IntArray) -> ItemDraws | None:
        """Only these draws, in which users are the same as in all; None if the likelihood keeps more of each draw."""
        if self.noise or self.user_features is not None:
            return None
        populations = {side: getattr(self, side).take(places) for side in ("users", "new_items")}
        items = contiguous(self.items[:, places], np.float32)
        return replace(self, items=items, alpha=contiguous(self.alpha[places], np.float64), **populations)

    @cached_property
    def mean_user(self) -> FloatMatrix:
        """The expected user without features; S x W."""
        return _mean_rows(self.users, self.has_biases)

    def user_linear(self, means: FloatArray) -> FloatArray:
        """Precision times mean of each user, as the kernel takes it, for means that differ between users."""
        n_factors = self.n_factors
        linear = np.empty_like(means)
        by_draw = means[:, :, :n_factors].swapaxes(0, 1) @ self.users.precision
        linear[:, :, :n_factors] = by_draw.swapaxes(0, 1)
        if self.has_biases:
            linear[:, :, n_factors] = means[:, :, n_factors] * self.users.bias_precisions
        return linear

    @cached_property
    def unknown_item(self) -> FloatMatrix:
        """The expected new item; S x W."""
        return _mean_rows(self.new_items, self.has_biases)

    def unrated_items(self, observed: Ratings) -> FloatArray | None:
        """The items of the ratings that these draws lack, where their features put them; n x S x W.

        None if the draws know no features of items.
        """
        if self.item_features is None:
            return None
        rows, features = np.arange(len(self.items), observed.n_items), observed.item_features
        attributes = features.matrix[rows] if features is not None and features.n_columns else None
        shifts = self.item_features.shifts(attributes, CSR.empty(len(rows)))
        return (self.unknown_item + shifts).astype(np.float32)

    @cached_property
    def unknown_item_roots(self) -> DoubleArray:
        """Roots of the covariance of such an item's factors: covariance = root^T root; S x D x D."""
        return np.linalg.inv(np.linalg.cholesky(self.new_items.precisions))

    def unknown_item_variance(self, users: UserDraws, row: int) -> DoubleArray:
        """The variance that not knowing an item adds to its score for a user, one figure per draw.

        E[(u.(v - mean))^2] over u and v: mean and covariance of u through the covariance of v.
        """
        n_factors = self.n_factors
        through_mean = np.einsum("sij,sj->si", self.unknown_item_roots, users.means[row, :, :n_factors])
        through_root = self.unknown_item_roots @ users.roots[row, :, :n_factors].astype(np.float64)
        variance = np.sum(through_mean**2, axis=1) + np.sum(through_root**2, axis=(1, 2))
        return np.asarray(variance + (1 / self.new_items.bias_precisions if self.has_biases else 0.0))


def _mean_rows(populations: Populations, has_biases: bool) -> FloatMatrix:
    """The expected row of each draw."""
    means = populations.means
    return contiguous(np.hstack([means, populations.bias_means[:, None]]) if has_biases else means, np.float32)


def _feature_draws(drawn: Sequence[Population], prior: FactorPrior) -> FeatureDraws | None:
    """The kept coefficients of a side, if it has features."""
    if not isinstance(prior, FeaturePrior):
        return None
    kept = [population for population in drawn if isinstance(population, FeaturePopulation)]
    coefficients = np.stack([population.coefficients for population in kept], axis=1)
    return FeatureDraws(
        contiguous(coefficients, np.float32),
        np.array([population.group_precisions for population in kept]),
        prior.design.groups,
        np.array([population.shares for population in kept]),
    )


PAIRS = 100
TRIES = 20  # tries for each pair: if almost everything is rated, a rated one is used


@dataclass(frozen=True, eq=False)
class Watched:
    """The watched pairs of all chains of a run."""

    pairs: tuple[IntArray, IntArray]  # users and items
    held_out: tuple[IntArray, IntArray, FloatArray]  # users, items and values
    model: FactorModel
    rating_range: tuple[float, float]

    @classmethod
    def of(cls, observed: Ratings, held_out: Ratings | None, model: FactorModel, rng: Generator) -> Watched:
        """Users and items in proportion to their ratings, paired at random; unrated pairs if possible."""
        return cls(_unrated_pairs(observed, rng), aligned(observed, held_out), model, observed.range)

    def predict(self, state: GibbsState, user_rows: IntArray, item_rows: IntArray) -> FloatArray:
        """Expected ratings of a state."""
        scores = score_pairs(state.users, user_rows, state.items, item_rows, 0.0, 1)
        expected = self.model.likelihood.expected(scores, state.noise)
        return np.asarray(self.model.offset + self.model.scale * expected, np.float32)


@dataclass(eq=False)
class Watch:
    """Watches one chain."""

    watched: Watched
    warmup: int
    predictions: list[FloatArray] = field(default_factory=list)
    total: DoubleArray | None = None  # of the predictions of held-out ratings since warm-up
    n: int = 0

    def __call__(self, state: GibbsState, step: int) -> Stats:
        watched, (users, items, values) = self.watched, self.watched.held_out
        self.predictions.append(watched.predict(state, *watched.pairs))
        if not len(values):
            return {}
        now = watched.predict(state, users, items).astype(np.float64)
        if step <= self.warmup:
            mean = now
        else:
            self.total = now if self.total is None else self.total + now
            self.n += 1
            mean = self.total / self.n
        errors = np.clip(mean, *watched.rating_range) - values
        return {"held-out rmse": sqrt(float(np.mean(errors**2)))}

    def saved(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"predictions": np.stack(self.predictions), "total": self.total, "n": self.n}

    def restore(self, remembered: Mapping[str, Any]) -> None:
        self.predictions = list(remembered["predictions"])
        self.total, self.n = remembered["total"], remembered["n"]


def trace_of(
    chains: Sequence[Chain[Any, Hyper]], watches: Sequence[Watch], schedule: Schedule, sweeps: int | None = None
) -> Trace:
    """The trace of all chains, up to `sweeps` sweeps or of all."""
    names = list(chains[0].trace[0])
    return Trace(
        warmup=schedule.warmup,
        thin=schedule.thin,
        quantities={
            name: np.array([[stats[name] for stats in chain.trace[:sweeps]] for chain in chains]) for name in names
        },
        predictions=np.stack([np.stack(watch.predictions[:sweeps]) for watch in watches]).astype(np.float32),
        wanted_error=None if schedule.until is None else schedule.until.error,
    )


def _unrated_pairs(observed: Ratings, rng: Generator) -> tuple[IntArray, IntArray]:
    def drawn(side: CSR) -> IntArray:
        places = rng.integers(side.n_entries, size=PAIRS * TRIES)
        return np.searchsorted(np.cumsum(side.side_counts), places, side="right").astype(np.int32)

    user_rows, item_rows = drawn(observed.by_user), drawn(observed.by_item)
    is_rated = observed.by_user.contains(user_rows, item_rows).reshape(PAIRS, TRIES)
    # The first unrated one; where there is none, the first.
    wanted = np.arange(PAIRS) * TRIES + np.argmin(is_rated, axis=1)
    return user_rows[wanted], item_rows[wanted]


def aligned(observed: Ratings, held_out: Ratings | None) -> tuple[IntArray, IntArray, FloatArray]:
    """The held-out ratings of known users and items, in the rows of the training ratings."""
    if held_out is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    users = observed.users.rows_of(held_out.users.ids)[held_out.user_rows]
    items = observed.items.rows_of(held_out.items.ids)[held_out.item_rows]
    known = (users >= 0) & (items >= 0)
    return users[known], items[known], held_out.values[known]
