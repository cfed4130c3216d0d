"""Updates of kept draws with new ratings: draws of new items, and states from which chains continue.

A kept draw s has the items, the populations and the noise. The users who rated a new item are drawn given the items of
s that were learned, and the new item given these users:

    u_i ~ p(u | items of s, ratings of learned items),   v_j ~ p(v | u, population of items of s, ratings of j)

both by the step of a Gibbs sweep, with the noise of s. So a new item is as uncertain as its ratings leave it, while
their information about learned items is left to a restart. An item without ratings is drawn from the population: with
features, around the mean that they shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.inference.transition import ACTIVE, Trace
from tastespace.models.factorization.gibbs.generative_model import FactorModel
from tastespace.models.factorization.gibbs.item_draws import ItemDraws
from tastespace.models.factorization.gibbs.posterior import DrawsPosterior
from tastespace.models.factorization.gibbs.sweep import GibbsState
from tastespace.models.factorization.likelihoods.base import APPROACH, Likelihood, Noise, likelihood_of
from tastespace.models.factorization.likelihoods.sampled_negatives import chosen_only
from tastespace.models.factorization.priors.normal_wishart import Population, prior_of
from tastespace.models.factorization.priors.von_mises_fisher import SpherePopulation
from tastespace.models.factorization.rows import NORMAL_ROWS, Axis, Factors, GivenRows, RatingBlock, RowMoves
from tastespace.models.factorization.sphere.moves import SphereMoves
from tastespace.randomness import derive

RESTART_THIN = 1  # of the draws after a restart: as many as before, for half of the sweeps


def check_parameters(posterior: DrawsPosterior, parameters: Mapping[str, Any]) -> None:
    """Raise an error for parameters that differ from those of the fit."""
    draws, trace = posterior.draws, posterior.trace
    assert trace is not None
    biases = "on-sphere" if draws.sphere is not None and draws.sphere.has_joint_bias else draws.has_biases
    found: dict[str, Any] = {"biases": biases, "chains": trace.chains}
    if parameters["n_factors"] != "auto":
        found["n_factors"] = draws.n_factors
    _check_prior(trace, parameters)
    if draws.sphere is not None:
        if parameters["radius"] != "auto":
            found["radius"] = draws.sphere.radius
        found["item_prior"] = "von-mises-fisher" if draws.new_items.means.any() else "uniform"
    fitted, asked = _learned(draws), likelihood_of(parameters["likelihood"])
    if not fitted.matches(asked):
        found["likelihood"] = str(fitted)
    for name, value in found.items():
        if parameters[name] != value:
            raise InvalidParameterError(
                f"{name} is {parameters[name]!r}, and the model was fitted with {value!r}; set it back to update, or "
                "fit again"
            )


def _check_prior(trace: Trace, parameters: Mapping[str, Any]) -> None:
    """Check the prior; the trace shows whether columns shrink."""
    shrank, shrinks = ACTIVE in trace.quantities, prior_of(parameters["prior"], parameters["n_factors"]).shrinks
    if shrank != shrinks:
        before = "with a prior that shrinks factors" if shrank else "with a prior that shrinks no factors"
        raise InvalidParameterError(
            f"prior is {parameters['prior']!r} and n_factors {parameters['n_factors']!r}, and the model was fitted "
            f"{before}; set them back to update, or fit again"
        )


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the users and new items that an update draws, beside their ratings."""

    user_attributes: Any  # one sparse row each; None for none
    histories: CSR  # of the users: what their bag is made of
    item_attributes: Any

    @classmethod
    def of(cls, observed: Ratings, user_rows: IntArray, histories: CSR, item_rows: IntArray) -> Known:
        users, items = observed.user_features, observed.item_features
        return cls(
            None if users is None or not users.n_columns else users.matrix[user_rows],
            histories,
            None if items is None or not items.n_columns else items.matrix[item_rows],
        )

    def users_at(self, draws: ItemDraws, s: int) -> FloatMatrix | None:
        """What features add to the means of users in one draw."""
        kept = draws.user_features
        if kept is None:
            return None
        histories = chosen_only(self.histories) if draws.likelihood.takes_choices else self.histories
        return kept.shifts_at(s, self.user_attributes, histories)

    def items_at(self, draws: ItemDraws, s: int) -> FloatMatrix | None:
        """The same of items; the coefficients of their bag are not kept."""
        kept, attributes = draws.item_features, self.item_attributes
        if kept is None or attributes is None:
            return None
        return kept.shifts_at(s, attributes, CSR.empty(attributes.shape[0]))


@dataclass(frozen=True, eq=False)
class KeptDraw:
    """A kept draw as a Gibbs sweep takes it. The noise is fixed: nothing is learned about alpha or cut-points."""

    items: Factors
    user_population: Population
    item_population: Population
    item_moves: RowMoves
    likelihood: Likelihood[Any]
    noise: Noise

    @classmethod
    def of(
        cls, draws: ItemDraws, s: int, n_users: int, n_items: int, dtype: Any, known: Known | None = None
    ) -> KeptDraw:
        """Draw s with its first `n_items` items, for `n_users` users; `known` has the features of the rows drawn."""
        rows, n_factors, sphere, learned = draws.items[:n_items, s], draws.n_factors, draws.sphere, _learned(draws)
        bias = contiguous(rows[:, n_factors], dtype) if draws.has_biases else None
        of_users: Population = draws.users.at(s, None if known is None else known.users_at(draws, s))
        of_items: Population = draws.new_items.at(s, None if known is None else known.items_at(draws, s))
        if sphere is not None:
            of_items = SpherePopulation.with_mean(sphere, of_items.mean, of_items.bias_mean, of_items.bias_precision)
        return cls(
            Factors(contiguous(rows[:, :n_factors], dtype), bias),
            of_users,
            of_items,
            NORMAL_ROWS if sphere is None else SphereMoves(sphere),
            *learned.at(draws, s, n_users, n_items),
        )

    def rows_given(
        self, axis: Axis, side: RatingBlock, other: Factors, noise: Noise, rng: Generator, threads: int
    ) -> tuple[Factors, Noise]:
        """Rows of one side drawn given the other, and the noise updated by them.

        With constant Gaussian noise that is one step. With latent variables of the rows it takes a few, from near the
        mode, as for a fold-in.
        """
        likelihood, is_user = self.likelihood, axis == "user"
        population = self.user_population if is_user else self.item_population
        moves = NORMAL_ROWS if is_user else self.item_moves
        rows = population.draw_rows(len(side.offsets) - 1, other.factors.dtype, rng)
        if not len(side.columns):
            return rows, noise
        given = GivenRows(axis, side, rows, other, threads)
        for step in range(APPROACH + 1):
            near = likelihood.approach(given, noise)
            if near is None:
                break
            if step < APPROACH:
                rows = moves.solved(near, population.prior(other.factors.dtype))
            else:
                rows, _ = moves.drawn(near, population, rng)
            given = replace(given, rows=rows)
        for _ in range(likelihood.row_steps):
            rows, squares = moves.drawn(likelihood.augment(given, noise, rng), population, rng)
            given, noise = replace(given, rows=rows), likelihood.learn(given, squares, noise, rng)
        return rows, noise


def _learned(draws: ItemDraws) -> Likelihood[Any]:
    """The likelihood with which chains can continue."""
    learned = draws.likelihood.learned
    assert learned is not None
    return learned


def with_new_items(
    posterior: DrawsPosterior, observed: Ratings, n_learned: int, dtype: Any, seed: int, threads: int
) -> DrawsPosterior:
    """The posterior with draws of all items of the ratings; those beyond the first `n_learned` are drawn again.

    Unless all of them have draws, and still no ratings.
    """
    draws = posterior.draws
    if observed.n_items == len(draws.items) and not (observed.item_rows >= n_learned).any():
        return posterior
    n_draws, width = draws.items.shape[1:]
    of_items, of_raters, raters = _new_ratings(observed, n_learned)
    new_rows = np.arange(n_learned, observed.n_items, dtype=np.int32)
    known = Known.of(observed, raters, of_raters, new_rows)
    by_item, by_rater = (RatingBlock.of(part, dtype, draws.offset, draws.scale) for part in (of_items, of_raters))
    items: FloatArray = np.empty((observed.n_items, n_draws, width), np.float32)
    items[:n_learned] = draws.items[:n_learned]
    noises = []
    # Rounded as when they are saved, for the same answers.
    stored = np.float16 if posterior.is_half_stored else np.float32
    for s in range(n_draws):
        kept, rng = KeptDraw.of(draws, s, len(of_raters), n_learned, dtype, known), derive(seed, "update", s)
        noise = kept.likelihood.renew("user", len(of_raters), kept.noise, rng)
        users, noise = kept.rows_given("user", by_rater, kept.items, noise, rng, threads)
        noise = kept.likelihood.renew("item", len(of_items), noise, rng)
        rows, noise = kept.rows_given("item", by_item, users, noise, rng, threads)
        items[n_learned:, s, : draws.n_factors] = rows.factors.astype(stored)
        if rows.bias is not None:
            items[n_learned:, s, draws.n_factors] = rows.bias.astype(stored)
        noises.append(noise)
    noise_of_draws = _learned(draws).with_items(draws, n_learned, noises)
    return replace(posterior, draws=replace(draws, items=items, noise=noise_of_draws))


def _new_ratings(observed: Ratings, n_learned: int) -> tuple[CSR, CSR, IntArray]:
    """The ratings of new items, all other ratings by the users who rated them, and the rows of these users.

    The first by new item, with positions among the raters as columns; the second by rater, ascending, of learned items.
    """
    by_item = observed.by_item.take(np.arange(n_learned, observed.n_items, dtype=np.int32))
    raters, places = np.unique(by_item.columns, return_inverse=True)
    all_of_raters = observed.by_user.take(raters)
    of_items = CSR(by_item.offsets, contiguous(places, np.int32), by_item.values)
    return of_items, all_of_raters.masked(all_of_raters.columns < n_learned), raters


def with_noise_of_users(posterior: DrawsPosterior, ratings: CSR, is_touched: BoolArray, threads: int) -> DrawsPosterior:
    """The posterior with updated noise of users who are new or have new ratings."""
    draws = posterior.draws
    noise = _learned(draws).with_users(draws, ratings, is_touched, threads)
    return posterior if noise is draws.noise else replace(posterior, draws=replace(draws, noise=noise))


def warm_states(
    posterior: DrawsPosterior, observed: Ratings, model: FactorModel, rng: Generator, threads: int
) -> list[GibbsState]:
    """The states from which chains continue: the last kept draw of each, with users drawn given its items.

    Mean and scale of the ratings may have changed slightly: the state is a start, and need not be exact.
    """
    assert posterior.trace is not None
    draws, chains = posterior.draws, posterior.trace.chains
    side = RatingBlock.of(observed.by_user, model.dtype, draws.offset, draws.scale)
    every = np.arange(observed.n_users, dtype=np.int32)
    known = replace(Known.of(observed, every, observed.by_user, every[:0]), item_attributes=None)
    per_chain = draws.items.shape[1] // chains
    states = []
    for chain in range(chains):
        last = per_chain * (chain + 1) - 1
        kept = KeptDraw.of(draws, last, observed.n_users, observed.n_items, model.dtype, known)
        users, noise = kept.rows_given("user", side, kept.items, kept.noise, rng, threads)
        noise = model.likelihood.restart(noise)
        # Coefficients are drawn again: those of the items' bag are not kept.
        of_users, of_items = draws.users.at(last), kept.item_population
        states.append(GibbsState(users, kept.items, of_users, of_items, noise))
    return states
