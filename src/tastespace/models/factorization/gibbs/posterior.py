"""The posterior of Bayesian matrix factorization: draws of the items are kept, users are folded in.

A draw is the items' factors and biases, the population of users, and the noise. All that is asked of a user follows
from these and from his ratings, so that the posterior grows with the catalogue and not with the audience.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.inference.trace import Trace
from tastespace.models.base.posterior import Inquiry, PredictiveDistribution
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.gibbs.information import influences, most_informative
from tastespace.models.factorization.gibbs.item_draws import Belief, ItemDraws, Populations, UserBeliefs
from tastespace.models.factorization.likelihoods.confidence_cells import OfChoices
from tastespace.models.factorization.likelihoods.kept_noise import Answers, ScoreDraws, Units
from tastespace.models.factorization.likelihoods.kinds_of_noise import noise_from_arrays
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.rows import Factors, score_pairs

PLACES = 16  # draws that likeness goes by: more tell hardly more, and all would make every user a long vector


@dataclass(frozen=True, eq=False)
class DrawsPosterior:
    """What BPMF concluded. Ratings by user are the recommender's; they are lent to it, not saved with it."""

    draws: ItemDraws
    units: Units
    weighs_by_evidence: bool
    is_half_stored: bool  # items are written as float16
    trace: Trace | None  # of chains, if there were any
    ratings: CSR | None = None

    @property
    def usual_rating(self) -> float:
        return self.units.usual

    @property
    def rating_range(self) -> tuple[float, float]:
        return self.units.low, self.units.high

    @property
    def levels(self) -> DoubleArray | None:
        return self.units.levels

    @property
    def history_levels(self) -> DoubleArray | None:
        return None if isinstance(self.draws.noise, OfChoices) else self.units.levels

    @property
    def is_latent(self) -> bool:
        """Whether scores are no ratings, which follow from them."""
        return not self.draws.noise.is_linear

    @property
    def remembers(self) -> bool:
        return self.ratings is not None and len(self.ratings.columns) > 0

    def remembering(self, ratings: CSR) -> Self:
        """The same posterior with the training ratings at hand."""
        return replace(self, ratings=ratings)

    def known(self, user_rows: IntArray, threads: int = 1) -> UserBeliefs:
        ratings = _empty(int(max(user_rows.max(initial=-1) + 1, 0))) if self.ratings is None else self.ratings
        return UserBeliefs(self.draws, ratings.take(user_rows), threads)

    def fold_in(self, history: CSR, threads: int) -> UserBeliefs:
        """Of users the draws have seen nothing of, unless `reweighed` says otherwise."""
        return UserBeliefs(self.draws, history, threads, _empty(len(history)) if self.weighs_by_evidence else None)

    def reweighed(self, folded: UserBeliefs, trained: CSR) -> UserBeliefs:
        return replace(folded, trained=trained) if self.weighs_by_evidence else folded

    def choose(self, which: BoolArray, one: UserBeliefs, other: UserBeliefs) -> UserBeliefs:
        rows = np.where(which, 0, len(which)) + np.arange(len(which), dtype=np.int32)
        ratings = _joined(one.ratings, other.ratings).take(rows.astype(np.int32))
        trained = None
        if one.trained is not None or other.trained is not None:
            # Who has no news has nothing that the draws have not seen.
            seen = [belief.ratings if belief.trained is None else belief.trained for belief in (one, other)]
            trained = _joined(*seen).take(rows.astype(np.int32))
        return UserBeliefs(self.draws, ratings, max(one.threads, other.threads), trained)

    def predict(self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        if self.is_latent:
            return self.outlook(belief, belief_rows, item_rows, threads).belief.mean().astype(np.float32)
        rows, places = np.unique(belief_rows, return_inverse=True)
        mean = np.empty(len(belief_rows), np.float32)
        for first in range(0, len(rows), belief.block):
            some = rows[first : first + belief.block]
            pairs = np.flatnonzero((places >= first) & (places < first + len(some)))
            queries, offsets = self._queries(belief, some)
            users = Factors(queries, offsets)
            inside = (places[pairs] - first).astype(np.int32)
            scores = score_pairs(users, inside, Factors(self._stacked), item_rows[pairs], 0.0, threads)
            cold = np.flatnonzero(item_rows[pairs] < 0)
            scores[cold] += queries[inside[cold]] @ self.draws.unknown_item.reshape(-1)
            mean[pairs] = scores
        return mean

    def outlook(
        self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> PredictiveDistribution:
        """What pairs would be rated, with all uncertainty."""
        foreseen = self._foreseen(belief, belief_rows, item_rows, threads)
        return self.draws.noise.outlook(self.draws, foreseen, self.units)

    def _foreseen(self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int) -> ScoreDraws:
        """The scores of pairs."""
        draws, n_draws = self.draws, self.draws.items.shape[1]
        means = np.empty((len(belief_rows), n_draws), np.float32)
        sds, weights = np.empty_like(means), np.empty_like(means) if self.weighs_by_evidence else None
        precision: FloatMatrix | None = None
        for some, pairs, inside in by_block(belief, belief_rows):
            items = item_rows[pairs]
            of_means, of_sds = np.empty((len(pairs), n_draws), np.float32), np.empty((len(pairs), n_draws), np.float32)
            _native.belief_pairs(
                *(inside, contiguous(items, np.int32), draws.items, some.means, some.roots, draws.unknown_item),
                *(of_means, of_sds),
                biases=draws.has_biases,
                threads=threads,
            )
            is_unknown = items < 0
            for row in np.unique(inside[is_unknown]) if is_unknown.any() else ():
                here = (inside == row) & is_unknown
                of_sds[here] = np.sqrt(of_sds[here] ** 2 + draws.unknown_item_variance(some, int(row)))
            means[pairs], sds[pairs] = of_means, of_sds
            if weights is not None:
                weights[pairs] = some.weights[inside]
            if some.precision is not None:
                precision = np.empty_like(means) if precision is None else precision
                precision[pairs] = some.precision[inside]
        return ScoreDraws(means, sds, weights, precision, item_rows)

    def summary(
        self, belief: UserBeliefs, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> tuple[FloatArray, FloatArray]:
        draws = self.draws
        mean, sd = np.empty(len(belief_rows), np.float32), np.empty(len(belief_rows), np.float32)
        for some, pairs, inside in by_block(belief, belief_rows):
            items = item_rows[pairs]
            of_mean, of_sd = np.empty(len(pairs), np.float32), np.empty(len(pairs), np.float32)
            _native.belief_summary(
                *(inside, contiguous(items, np.int32), draws.items, some.means, some.roots, draws.unknown_item),
                *(some.weights, of_mean, of_sd),
                biases=draws.has_biases,
                threads=threads,
            )
            mean[pairs], sd[pairs] = of_mean, of_sd
        return (draws.offset + draws.scale * mean).astype(np.float32), (draws.scale * sd).astype(np.float32)

    def draw_scores(
        self, belief: UserBeliefs, belief_row: int, n: int, rng: Generator, items: IntArray | None = None
    ) -> FloatMatrix:
        draws = self.draws
        chosen, vectors, biases = self._drawn(belief, belief_row, n, rng)
        rows = np.arange(len(draws.items), dtype=np.int32) if items is None else contiguous(items, np.int32)
        scores = np.empty((n, len(rows)), np.float32)
        meeting, users = contiguous(chosen, np.int32), contiguous(vectors, np.float32)
        _native.drawn_scores(draws.items, rows, meeting, users, scores, threads=belief.threads)
        scores += biases[:, None]
        scores *= np.float32(draws.scale)
        scores += np.float32(draws.offset)
        return scores

    @property
    def items_are_certain(self) -> bool:
        return int(self.draws.items.shape[1]) == 1

    def draw_queries(
        self, belief: UserBeliefs, belief_row: int, n: int, rng: Generator
    ) -> tuple[FloatMatrix, FloatArray]:
        """Where an item vector has the item's other draws, such a query is 0."""
        draws, (_, n_draws, width) = self.draws, self.draws.items.shape
        chosen, vectors, biases = self._drawn(belief, belief_row, n, rng)
        queries = np.zeros((n, n_draws, width), np.float32)
        queries[np.arange(n), chosen] = np.float32(draws.scale) * vectors
        return queries.reshape(n, -1), (draws.offset + draws.scale * biases).astype(np.float32)

    def _drawn(
        self, belief: UserBeliefs, belief_row: int, n: int, rng: Generator
    ) -> tuple[NDArray[np.intp], FloatMatrix, FloatArray]:
        """A user in n draws: which draws of the items, the vectors that these are multiplied by, and the biases."""
        draws, n_draws = self.draws, self.draws.items.shape[1]
        (users, some), *_ = belief.blocks(np.array([belief_row]))
        row, n_factors = belief_row - users.start, draws.n_factors
        # Every draw as often as it counts, as far as n allows: systematic sampling.
        edges = (np.arange(n) + rng.random()) / n
        chosen = np.minimum(np.searchsorted(np.cumsum(some.weights[row], dtype=np.float64), edges), n_draws - 1)
        means, roots = some.means[row], some.roots[row]
        if n == n_draws and not self.weighs_by_evidence:
            chosen = np.arange(n)  # each once, as they lie in memory
        else:
            means, roots = means[chosen], roots[chosen]
        noise = rng.standard_normal((n, draws.items.shape[2]), np.float32)
        people = means + np.einsum("sij,sj->si", roots, noise)
        if not draws.has_biases:
            return chosen, people, np.zeros(n, np.float32)
        return chosen, np.hstack([people[:, :n_factors], np.ones((n, 1), np.float32)]), people[:, n_factors]

    def query_vectors(self, belief: UserBeliefs) -> FloatMatrix:
        return self._all_queries(belief)[0]

    def item_vectors(self) -> FloatMatrix:
        return self._stacked

    def offsets(self, belief: UserBeliefs) -> FloatArray:
        return self._all_queries(belief)[1]

    def inquire(
        self,
        belief: UserBeliefs,
        belief_row: int,
        askable: IntArray,
        targets: IntArray,
        importance: DoubleArray,
        n: int,
    ) -> Inquiry:
        (users, some), *_ = belief.blocks(np.array([belief_row]))
        row, answers = belief_row - users.start, self._answers(belief, belief_row)
        return most_informative(self.draws, some, row, askable, targets, importance, n, answers)

    def influences(self, belief: UserBeliefs, item_rows: IntArray) -> FloatMatrix:
        (_, some), *_ = belief.blocks(np.array([0]))
        rated = contiguous(belief.ratings.columns[: belief.ratings.offsets[1]], np.int32)
        return influences(self.draws, some, 0, item_rows, rated, self._answers(belief, 0))

    def _answers(self, belief: UserBeliefs, belief_row: int) -> Callable[[IntArray], Answers]:
        """What ratings of items by a user tell."""

        def answers(items: IntArray) -> Answers:
            rows = np.full(len(items), belief_row, np.int32)
            return self.draws.noise.answers(
                self.draws, lambda: self._foreseen(belief, rows, items, belief.threads), self.units
            )

        return answers

    def item_points(self) -> ItemPoints:
        """Those of the last draw: an average over draws would be of coordinates that each has for itself."""
        draws = self.draws
        last = draws.items[:, -1].astype(np.float64)
        bias = draws.scale * last[:, draws.n_factors] if draws.has_biases else np.zeros(len(last))
        return ItemPoints(sqrt(draws.scale) * last[:, : draws.n_factors], bias)

    def item_places(self) -> FloatMatrix:
        places = _seen_by(self.draws.items[:, self._places, : self.draws.n_factors], self.draws.users, self._places)
        return places.reshape(len(places), len(self._places) * self.draws.n_factors)

    def user_places(self, belief: UserBeliefs) -> FloatMatrix:
        n_factors = self.draws.n_factors
        places = np.empty((len(belief), len(self._places), n_factors), np.float32)
        for first in range(0, len(belief), belief.block):
            last = min(first + belief.block, len(belief))
            means = belief.means(first, last)[0][:, self._places, :n_factors]
            places[first:last] = _seen_by(means, self.draws.new_items, self._places)
        return places.reshape(len(belief), len(self._places) * n_factors)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        draws, units = self.draws, self.units
        flags = [draws.has_biases, self.weighs_by_evidence, self.is_half_stored]
        return {
            "items": contiguous(draws.items, np.float16 if self.is_half_stored else np.float32),
            "alpha": draws.alpha,
            "units": np.array([draws.offset, draws.scale, units.low, units.high, units.usual]),
            "flags": np.array(flags, np.uint8),
            "levels": np.zeros(0) if units.levels is None else units.levels,
            **draws.noise.arrays(),
            **draws.users.arrays("user"),
            **draws.new_items.arrays("item"),
            **({} if draws.sphere is None else draws.sphere.arrays()),
            **({} if self.trace is None else self.trace.arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        has_biases, weighs_by_evidence, is_half_stored = (bool(flag) for flag in arrays["flags"])
        offset, scale, low, high, *more = (float(value) for value in arrays["units"])
        usual = more[0] if more else offset  # as it was when the first were saved
        draws = ItemDraws(
            items=contiguous(arrays["items"], np.float32),
            users=Populations.from_arrays("user", arrays),
            new_items=Populations.from_arrays("item", arrays),
            alpha=contiguous(arrays["alpha"], np.float64),
            has_biases=has_biases,
            offset=offset,
            scale=scale,
            noise=noise_from_arrays(arrays),
            sphere=Sphere.found_in(arrays),
        )
        levels = arrays["levels"] if len(arrays["levels"]) else None
        units = Units(low, high, levels, usual)
        return cls(draws, units, weighs_by_evidence, is_half_stored, Trace.found_in(arrays))

    @cached_property
    def _stacked(self) -> FloatMatrix:
        """All draws of an item as one long vector: the mean over draws of inner products is one of these."""
        return self.draws.items.reshape(len(self.draws.items), -1)

    @cached_property
    def _places(self) -> IntArray:
        """Draws that likeness goes by, evenly spread over the chains."""
        n_draws = self.draws.items.shape[1]
        return np.unique(np.linspace(0, n_draws - 1, min(PLACES, n_draws)).round().astype(np.int32))

    def _all_queries(self, belief: UserBeliefs) -> tuple[FloatMatrix, FloatArray]:
        """Those of everybody asked about, kept with the belief: vectors and offsets are asked for in turn."""
        if belief.queries is None:
            belief.queries = self._queries(belief, np.arange(len(belief), dtype=np.int32))
        return belief.queries

    def _queries(self, belief: UserBeliefs, rows: IntArray) -> tuple[FloatMatrix, FloatArray]:
        """The long vectors of some users, and what is added to all their scores; in rating units."""
        _, n_draws, width = self.draws.items.shape
        queries = np.empty((len(rows), n_draws, width), np.float32)
        offsets = np.empty(len(rows), np.float32)
        blocks = rows // belief.block
        for number in np.unique(blocks):
            first = int(number) * belief.block
            means, weights = belief.means(first, min(first + belief.block, len(belief)))
            here = np.flatnonzero(blocks == number)
            mine, weight = means[rows[here] - first], weights[rows[here] - first]
            if self.draws.has_biases:
                offsets[here] = np.einsum("bs,bs->b", mine[:, :, -1], weight)
                mine = np.concatenate([mine[:, :, :-1], np.ones((*mine.shape[:2], 1), np.float32)], axis=2)
            else:
                offsets[here] = 0
            queries[here] = mine * (weight * np.float32(self.draws.scale))[:, :, None]
        total = self.draws.offset + self.draws.scale * offsets
        return queries.reshape(len(rows), n_draws * width), total.astype(np.float32)


def by_block(belief: UserBeliefs, belief_rows: IntArray) -> Iterator[tuple[Belief, NDArray[np.intp], IntArray]]:
    """Pairs by blocks of users: what is believed of a block, which pairs are its, and their rows inside it."""
    for users, some in belief.blocks(belief_rows):
        pairs = np.flatnonzero((belief_rows >= users.start) & (belief_rows < users.stop))
        yield some, pairs, (belief_rows[pairs] - users.start).astype(np.int32)


def _seen_by(factors: FloatArray, others: Populations, draws: IntArray) -> FloatArray:
    """Factors in coordinates in which the other side's population is round; n x places x D.

    Inner products are then covariances of scores over that population: alike are items that the same people like.
    The factors' own coordinates are a matter of chance, and stretched differently in every draw.
    """
    roots = np.linalg.cholesky(np.linalg.inv(others.precisions[draws]))
    return contiguous(np.einsum("nsd,sde->nse", factors, roots.astype(np.float32)), np.float32)


def _empty(n: int) -> CSR:
    return CSR(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))


def _joined(one: CSR, other: CSR) -> CSR:
    """The rows of one, and after them those of the other."""
    return CSR(
        np.concatenate([one.offsets, one.offsets[-1] + other.offsets[1:]]),
        np.concatenate([one.columns, other.columns]),
        np.concatenate([one.values, other.values]),
    )
