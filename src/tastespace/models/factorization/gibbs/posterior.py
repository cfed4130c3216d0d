"""The posterior of Bayesian matrix factorization: draws of the items are kept, users are folded in.

A draw is the items' factors and biases, the population of users, and the noise. All answers about a user follow from
these and from their ratings, so that the posterior grows with the catalogue and not with the number of users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.kinds import liked_from
from tastespace.inference.transition import Trace
from tastespace.models.base import posterior as base
from tastespace.models.base.resuming import ItemPoints
from tastespace.models.factorization.gibbs.feature_draws import FeatureDraws
from tastespace.models.factorization.gibbs.information import influences, most_informative
from tastespace.models.factorization.gibbs.item_draws import ItemDraws, Populations, UserDraws
from tastespace.models.factorization.likelihoods import likelihood_from_arrays
from tastespace.models.factorization.likelihoods.base import Answers, ScoreDraws, Units, fold_in_normal
from tastespace.models.factorization.likelihoods.sampled_negatives import chosen_only
from tastespace.models.factorization.priors.normal_wishart import Sphere
from tastespace.models.factorization.rows import Factors, score_pairs

# Beliefs held at once take 16 MB, whatever the number of users. That memory is reused. With four times as much, the
# system reclaims what is not in use, and getting it again takes longer than filling it.
BLOCK_BYTES = 1 << 24
ROUGH_DRAWS = 5  # by which the variance within draws is estimated roughly, for all items
PLACES = 16  # draws used for similarity: more hardly change it, and all would make every user a long vector


@dataclass(frozen=True, eq=False)
class DrawsPosterior(base.Posterior):
    """The posterior of BPMF. Users are folded in by their ratings, which the recommender keeps, at query time."""

    draws: ItemDraws
    units: Units
    weighs_by_evidence: bool = False
    is_half_stored: bool = False  # items are written as float16
    trace: Trace | None = None  # of chains, if there were any

    keeps_users = False

    @property
    def rating_range(self) -> tuple[float, float]:
        return self.units.low, self.units.high

    @property
    def levels(self) -> DoubleArray | None:
        return self.units.levels

    @property
    def history_levels(self) -> DoubleArray | None:
        return self.units.levels if self.is_latent and not self.draws.likelihood.takes_choices else None

    @property
    def is_latent(self) -> bool:
        """Whether scores are latent and ratings are derived from them."""
        return not self.draws.likelihood.is_linear

    @property
    def items_are_certain(self) -> bool:
        """Whether items are the same in every draw."""
        return int(self.draws.items.shape[1]) == 1

    @property
    def people_at_once(self) -> int:
        _, n_draws, width = self.draws.items.shape
        n = max(1, BLOCK_BYTES // int(4 * n_draws * width * (width + 1)))
        return n if n < 8 else n - n % 8  # Eight share the registers of a scan.

    def believe(self, people: base.People, threads: int) -> DrawsBelief:
        return DrawsBelief(self, people.history, threads, self.seen_of(people), people.features)

    def seen_of(self, people: base.People) -> CSR | None:
        """The training ratings of people, if draws are weighted by how well they explain new ratings; else None."""
        if not self.weighs_by_evidence or not people.is_new.any():
            return None
        return CSR.empty(len(people)) if people.trained is None else people.trained

    @property
    def item_vectors(self) -> FloatMatrix:
        """All draws of an item as one long vector, whose inner product is the mean over draws."""
        return self.draws.items.reshape(len(self.draws.items), -1)

    @property
    def embeddings(self) -> FloatMatrix:
        found = _seen_by(self.draws.items[:, self.places, : self.draws.n_factors], self.draws.users, self.places)
        return found.reshape(len(found), len(self.places) * self.draws.n_factors)

    @property
    def places(self) -> IntArray:
        """The draws used for similarity, evenly spread over the chains."""
        n_draws = self.draws.items.shape[1]
        return np.unique(np.linspace(0, n_draws - 1, min(PLACES, n_draws)).round().astype(np.int32))

    def rough_summaries(
        self, panels: FloatArray
    ) -> Callable[[DrawsBelief, IntArray], tuple[FloatMatrix, FloatMatrix]] | None:
        """Exact means and variances between draws; variances within draws estimated from a few draws.

        The latter take most of the time, and differ little from draw to draw.
        """
        draws, (n_items, n_draws, _) = self.draws, self.draws.items.shape
        if n_draws < 2 * ROUGH_DRAWS:
            return None
        every = slice(n_draws // ROUGH_DRAWS // 2, None, n_draws // ROUGH_DRAWS)
        items, unknown = (contiguous(part, np.float32) for part in (draws.items[:, every], draws.unknown_item[every]))
        each = np.arange(n_items, dtype=np.int32)

        def summaries(belief: DrawsBelief, rows: IntArray) -> tuple[FloatMatrix, FloatMatrix]:
            mean, variance = (np.empty((len(rows), n_items), np.float32) for _ in range(2))
            for some, which, inside in belief.blocks(rows):
                means, weights = some.means[inside], some.weights[inside]
                queries, offsets = means.copy(), np.zeros(weights.shape, np.float32)
                if draws.has_biases:
                    queries[:, :, -1], offsets = 1, contiguous(means[:, :, -1], np.float32)
                first, second = (np.empty((len(which), n_items), np.float32) for _ in range(2))
                moments = panels, queries, n_items, offsets, weights, first, second
                _native.scan_moments(*moments, threads=belief.threads)
                mean[which], variance[which] = first, second - first**2
                means, roots = (contiguous(part[inside, every], np.float32) for part in (some.means, some.roots))
                of_means, of_sds = (np.empty((n_items, items.shape[1]), np.float32) for _ in range(2))
                for place, row in enumerate(which):
                    who = np.full(n_items, place, np.int32)
                    _native.belief_pairs(
                        *(who, each, items, means, roots, unknown, of_means, of_sds),
                        biases=draws.has_biases,
                        threads=belief.threads,
                    )
                    variance[row] += np.mean(of_sds**2, axis=1)
            sd = np.sqrt(np.maximum(variance, 0, out=variance))
            return np.float32(draws.offset) + np.float32(draws.scale) * mean, np.float32(draws.scale) * sd

        return summaries

    def item_points(self) -> ItemPoints:
        """The items of the last draw: coordinates differ between draws, so an average would be meaningless."""
        draws = self.draws
        last = draws.items[:, -1].astype(np.float64)
        bias = draws.scale * last[:, draws.n_factors] if draws.has_biases else np.zeros(len(last))
        return ItemPoints(sqrt(draws.scale) * last[:, : draws.n_factors], bias)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        draws, units = self.draws, self.units
        stored = np.float16 if self.is_half_stored else np.float32
        flags = [draws.has_biases, self.weighs_by_evidence, self.is_half_stored]
        return {
            "items": contiguous(draws.items, stored),
            "alpha": draws.alpha,
            "units": np.array([draws.offset, draws.scale, units.low, units.high, units.usual]),
            "flags": np.array(flags, np.uint8),
            "levels": np.zeros(0) if units.levels is None else units.levels,
            **draws.likelihood.arrays(draws),
            **draws.users.arrays("user"),
            **draws.new_items.arrays("item"),
            **({} if draws.sphere is None else draws.sphere.arrays()),
            **({} if draws.user_features is None else draws.user_features.arrays("user", stored)),
            **({} if draws.item_features is None else draws.item_features.arrays("item", stored)),
            **({} if draws.new_users is None else draws.new_users.arrays("stranger")),
            **({} if draws.new_user_features is None else draws.new_user_features.arrays("stranger", stored)),
            **({} if self.trace is None else self.trace.arrays()),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        has_biases, weighs_by_evidence, is_half_stored = (bool(flag) for flag in arrays["flags"])
        offset, scale, low, high, *more = (float(value) for value in arrays["units"])
        usual = more[0] if more else offset  # the default of the first saved models
        likelihood, noise = likelihood_from_arrays(arrays)
        draws = ItemDraws(
            items=contiguous(arrays["items"], np.float32),
            users=Populations.from_arrays("user", arrays),
            new_items=Populations.from_arrays("item", arrays),
            alpha=contiguous(arrays["alpha"], np.float64),
            has_biases=has_biases,
            offset=offset,
            scale=scale,
            likelihood=likelihood,
            noise=noise,
            sphere=Sphere.found_in(arrays),
            user_features=FeatureDraws.found_in("user", arrays),
            item_features=FeatureDraws.found_in("item", arrays),
            new_users=Populations.from_arrays("stranger", arrays) if "stranger_means" in arrays else None,
            new_user_features=FeatureDraws.found_in("stranger", arrays),
        )
        levels = arrays["levels"] if len(arrays["levels"]) else None
        units = Units(low, high, levels, usual)
        return cls(draws, units, weighs_by_evidence, is_half_stored, Trace.found_in(arrays))


@dataclass(eq=False)
class DrawsBelief(base.Belief):
    """Users folded in by every draw, block by block on demand; the latest block is kept."""

    posterior: DrawsPosterior
    ratings: CSR  # of each user, by item row
    threads: int
    trained: CSR | None = None  # the ratings that the draws have seen; None if all draws count the same
    features: Any = None  # of each user, without the bag: one sparse row each; None if there are none
    _queries: tuple[FloatMatrix, FloatArray] | None = field(default=None, repr=False)
    _latest: tuple[int, UserDraws] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ratings.offsets) - 1

    @property
    def block(self) -> int:
        """The number of users held at once."""
        return self.posterior.people_at_once

    def prepare(self) -> None:
        if 0 < len(self) <= self.block:
            self.block_at(0)

    def means(self, first: int, last: int) -> tuple[FloatArray, FloatMatrix]:
        """The means alone, which take less memory, and the weights of users first..last."""
        latest = self._latest
        if latest is not None and latest[0] <= first and last <= latest[0] + len(latest[1].means):
            start, users = latest
            return users.means[first - start : last - start], users.weights[first - start : last - start]
        draws, ratings = self._draws_for(first, last), _part(self.ratings, first, last)
        folded = draws.likelihood.fold_in(draws, ratings, None, self.threads)
        self._place_new_users(folded.means, None, first, last, ratings)
        return folded.means, self._weights(draws, first, last, ratings)

    def _draws_for(self, first: int, last: int) -> ItemDraws:
        """The draws, with the prior means of these users."""
        draws = self.posterior.draws
        if draws.user_features is None:
            return draws
        history = _part(self.ratings, first, last)
        if draws.likelihood.takes_choices:
            history = chosen_only(history)
        return draws.for_users(None if self.features is None else self.features[first:last], history)

    def _place_new_users(self, means: FloatArray, roots: FloatArray | None, first: int, last: int, own: CSR) -> None:
        if self.posterior.draws.new_users is None:
            return
        features = None if self.features is None else self.features[first:last]
        self.posterior.draws.place_new_users(means, roots, features, own)

    def blocks(self, rows: IntArray) -> Iterator[tuple[UserDraws, NDArray[np.intp], IntArray]]:
        """Pairs by blocks of users: the belief about a block, its pairs, and their rows inside it."""
        block = self.block
        for number in np.unique(rows // block):
            which = np.flatnonzero(rows // block == number)
            yield self.block_at(int(number) * block), which, (rows[which] - int(number) * block).astype(np.int32)

    def block_of(self, row: int) -> tuple[UserDraws, int]:
        """The belief about the block of one user, and the row inside it."""
        first = row - row % self.block
        return self.block_at(first), row - first

    def block_at(self, first: int) -> UserDraws:
        """The belief about the block that starts with a user."""
        latest = self._latest
        if latest is not None and latest[0] == first:
            return latest[1]
        last = min(first + self.block, len(self))
        draws, ratings = self._draws_for(first, last), _part(self.ratings, first, last)
        _, n_draws, width = draws.items.shape
        roots = np.empty((last - first, n_draws, width, width), np.float32)
        folded = draws.likelihood.fold_in(draws, ratings, roots, self.threads)
        self._place_new_users(folded.means, roots, first, last, ratings)
        users = UserDraws(folded.means, roots, self._weights(draws, first, last, ratings), folded.precision)
        self._latest = (first, users)
        return users

    def _weights(self, draws: ItemDraws, first: int, last: int, ratings: CSR) -> FloatMatrix:
        n_draws = draws.items.shape[1]
        if self.trained is None:
            return np.full((last - first, n_draws), 1 / n_draws, np.float32)
        # Ratings that the draws have not seen weight them: p(all ratings | draw) / p(those seen | draw).
        news = evidence(draws, ratings, self.threads)
        news -= evidence(draws, _part(self.trained, first, last), self.threads)
        weights = np.exp(news - news.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)

    chosen = None  # Only ratings matter here.

    @property
    def is_latent(self) -> bool:
        return self.posterior.is_latent

    @property
    def uncertainty(self) -> Self:
        return self

    @property
    def information(self) -> Self:
        return self

    @property
    def influence(self) -> Self:
        return self

    def mean(self, pairs: base.Pairs) -> FloatArray:
        if self.is_latent:
            belief = self.predictive(pairs).belief
            assert belief is not None
            return belief.mean().astype(np.float32)
        posterior, block = self.posterior, self.block
        rows, places = np.unique(pairs.rows, return_inverse=True)
        mean = np.empty(len(pairs.rows), np.float32)
        for first in range(0, len(rows), block):
            some = rows[first : first + block]
            chosen = np.flatnonzero((places >= first) & (places < first + len(some)))
            queries, offsets = self._queries_of(some)
            inside, items = (places[chosen] - first).astype(np.int32), pairs.items[chosen]
            users, vectors = Factors(queries, offsets), Factors(posterior.item_vectors)
            scores = score_pairs(users, inside, vectors, items, 0.0, self.threads)
            cold = np.flatnonzero(items < 0)
            scores[cold] += queries[inside[cold]] @ posterior.draws.unknown_item.reshape(-1)
            mean[chosen] = scores
        return mean

    def predictive(self, pairs: base.Pairs) -> base.PredictiveDistribution:
        """What pairs would be rated, with all uncertainty."""
        return self.predictive_of(self.score_draws(pairs))

    def predictive_of(self, scores: ScoreDraws) -> base.PredictiveDistribution:
        """The predictive distribution of ratings of pairs with these scores."""
        return self.posterior.draws.likelihood.predictive(self.posterior.draws, scores, self.posterior.units)

    def score_draws(self, pairs: base.Pairs) -> ScoreDraws:
        """The scores of pairs, given each draw."""
        draws, n_draws = self.posterior.draws, self.posterior.draws.items.shape[1]
        means = np.empty((len(pairs.rows), n_draws), np.float32)
        sds, weights = np.empty_like(means), np.empty_like(means) if self.posterior.weighs_by_evidence else None
        precision: FloatMatrix | None = None
        for some, which, inside in self.blocks(pairs.rows):
            items = contiguous(pairs.items[which], np.int32)
            of_means, of_sds = np.empty((len(which), n_draws), np.float32), np.empty((len(which), n_draws), np.float32)
            _native.belief_pairs(
                *(inside, items, draws.items, some.means, some.roots, draws.unknown_item, of_means, of_sds),
                biases=draws.has_biases,
                threads=self.threads,
            )
            is_unknown = items < 0
            for row in np.unique(inside[is_unknown]) if is_unknown.any() else ():
                here = (inside == row) & is_unknown
                of_sds[here] = np.sqrt(of_sds[here] ** 2 + draws.unknown_item_variance(some, int(row)))
            means[which], sds[which] = of_means, of_sds
            if weights is not None:
                weights[which] = some.weights[inside]
            if some.precision is not None:
                precision = np.empty_like(means) if precision is None else precision
                precision[which] = some.precision[inside]
        return ScoreDraws(means, sds, weights, precision, pairs.items)

    # Uncertainty of scores

    @property
    def liked_from(self) -> DoubleArray:
        usual, takes_choices = self.posterior.units.usual, self.posterior.draws.likelihood.takes_choices
        # A choice has no rating: for all users it is the usual score of what was chosen.
        return np.full(len(self), usual) if takes_choices else liked_from(self.ratings, usual)

    @property
    def rating_range(self) -> tuple[float, float]:
        return self.posterior.rating_range

    @property
    def items_are_certain(self) -> bool:
        return self.posterior.items_are_certain

    def summary(self, pairs: base.Pairs) -> tuple[FloatArray, FloatArray]:
        draws = self.posterior.draws
        mean, sd = np.empty(len(pairs.rows), np.float32), np.empty(len(pairs.rows), np.float32)
        for some, which, inside in self.blocks(pairs.rows):
            items = contiguous(pairs.items[which], np.int32)
            of_mean, of_sd = np.empty(len(which), np.float32), np.empty(len(which), np.float32)
            _native.belief_summary(
                *(inside, items, draws.items, some.means, some.roots, draws.unknown_item, some.weights, of_mean, of_sd),
                biases=draws.has_biases,
                threads=self.threads,
            )
            mean[which], sd[which] = of_mean, of_sd
        return (draws.offset + draws.scale * mean).astype(np.float32), (draws.scale * sd).astype(np.float32)

    def draw_scores(self, row: int, n: int, rng: Generator, items: IntArray | None = None) -> FloatMatrix:
        draws = self.posterior.draws
        chosen, vectors, biases = self.draw_users(row, n, rng)
        rows = np.arange(len(draws.items), dtype=np.int32) if items is None else contiguous(items, np.int32)
        scores = np.empty((n, len(rows)), np.float32)
        meeting, users = contiguous(chosen, np.int32), contiguous(vectors, np.float32)
        _native.drawn_scores(draws.items, rows, meeting, users, scores, threads=self.threads)
        scores += biases[:, None]
        scores *= np.float32(draws.scale)
        scores += np.float32(draws.offset)
        return scores

    def draw_queries(self, row: int, n: int, rng: Generator) -> tuple[FloatMatrix, FloatArray]:
        """Queries for single draws, which are 0 where an item vector has the item's other draws."""
        draws, (_, n_draws, width) = self.posterior.draws, self.posterior.draws.items.shape
        chosen, vectors, biases = self.draw_users(row, n, rng)
        queries = np.zeros((n, n_draws, width), np.float32)
        queries[np.arange(n), chosen] = np.float32(draws.scale) * vectors
        return queries.reshape(n, -1), (draws.offset + draws.scale * biases).astype(np.float32)

    def draw_users(self, row: int, n: int, rng: Generator) -> tuple[NDArray[np.intp], FloatMatrix, FloatArray]:
        """A user in n draws: which draws of the items, the vectors that these are multiplied by, and the biases."""
        draws, n_draws = self.posterior.draws, self.posterior.draws.items.shape[1]
        some, inside = self.block_of(row)
        # Every draw in proportion to its weight, as far as n allows: systematic sampling.
        edges = (np.arange(n) + rng.random()) / n
        chosen = np.minimum(np.searchsorted(np.cumsum(some.weights[inside], dtype=np.float64), edges), n_draws - 1)
        means, roots = some.means[inside], some.roots[inside]
        if n == n_draws and not self.posterior.weighs_by_evidence:
            chosen = np.arange(n)  # each once, in memory order
        else:
            means, roots = means[chosen], roots[chosen]
        noise = rng.standard_normal((n, draws.items.shape[2]), np.float32)
        people = means + np.einsum("sij,sj->si", roots, noise)
        if not draws.has_biases:
            return chosen, people, np.zeros(n, np.float32)
        return chosen, np.hstack([people[:, :-1], np.ones((n, 1), np.float32)]), people[:, -1]

    # As vectors and points

    @property
    def queries(self) -> base.Queries:
        """The queries of all users, computed once."""
        found = self._queries
        if found is None:
            found = self._queries = self._queries_of(np.arange(len(self), dtype=np.int32))
        return base.Queries(*found, lambda: self.posterior.item_vectors)

    def _queries_of(self, rows: IntArray) -> tuple[FloatMatrix, FloatArray]:
        """The long vectors of some users, and the constants of their scores; in rating units."""
        draws, block, n_users = self.posterior.draws, self.block, len(self)
        _, n_draws, width = draws.items.shape
        queries, offsets = np.empty((len(rows), n_draws, width), np.float32), np.empty(len(rows), np.float32)
        blocks = rows // block
        for number in np.unique(blocks):
            first = int(number) * block
            means, weights = self.means(first, min(first + block, n_users))
            here = np.flatnonzero(blocks == number)
            mine, weight = means[rows[here] - first], weights[rows[here] - first]
            if draws.has_biases:
                offsets[here] = np.einsum("bs,bs->b", mine[:, :, -1], weight)
                mine = np.concatenate([mine[:, :, :-1], np.ones((*mine.shape[:2], 1), np.float32)], axis=2)
            else:
                offsets[here] = 0
            queries[here] = mine * (weight * np.float32(draws.scale))[:, :, None]
        total = draws.offset + draws.scale * offsets
        return queries.reshape(len(rows), n_draws * width), total.astype(np.float32)

    @property
    def embeddings(self) -> FloatMatrix:
        draws, places, block = self.posterior.draws, self.posterior.places, self.block
        found = np.empty((len(self), len(places), draws.n_factors), np.float32)
        # Of many users only what is needed: these draws are a few of all.
        few = draws.thinned(places) if len(self) > block else None
        for first in range(0, len(self), block):
            last = min(first + block, len(self))
            if few is None:
                means = self.means(first, last)[0][:, places]
            else:
                means = few.likelihood.fold_in(few, _part(self.ratings, first, last), None, self.threads).means
            found[first:last] = _seen_by(means[:, :, : draws.n_factors], draws.new_items, places)
        return found.reshape(len(self), len(places) * draws.n_factors)

    # Information in future and past ratings

    def inquire(self, row: int, askable: IntArray, targets: IntArray, importance: DoubleArray, n: int) -> base.Inquiry:
        (some, inside), draws = self.block_of(row), self.posterior.draws
        return most_informative(
            draws, some, inside, askable, targets, importance, n, lambda items: self.inquiry_answers(row, items)
        )

    def influences(self, item_rows: IntArray) -> FloatMatrix:
        ratings, (some, inside) = self.ratings, self.block_of(0)
        rated = contiguous(ratings.columns[: ratings.offsets[1]], np.int32)
        return influences(self.posterior.draws, some, inside, item_rows, rated, lambda items: self.answers(0, items))

    def inquiry_answers(self, row: int, items: IntArray) -> Answers:
        """The information in future ratings of items by a user."""
        return self.answers(row, items)

    def answers(self, row: int, items: IntArray) -> Answers:
        """The information in ratings of items by a user."""
        pairs = base.Pairs.of_one(row, items)
        draws = self.posterior.draws
        return draws.likelihood.information(draws, lambda: self.score_draws(pairs), self.posterior.units)


def _seen_by(factors: FloatArray, others: Populations, draws: IntArray) -> FloatArray:
    """Factors in coordinates in which the other side's population is isotropic; n x draws x D.

    Inner products are then covariances of scores over that population: items are similar that the same people like.
    The factors' own coordinates are arbitrary, and scaled differently in every draw.
    """
    roots = np.linalg.cholesky(np.linalg.inv(others.precisions[draws]))
    return contiguous(np.einsum("nsd,sde->nse", factors, roots.astype(np.float32)), np.float32)


def evidence(draws: ItemDraws, ratings: CSR, threads: int) -> DoubleArray:
    """log p(ratings of a user | draw), users x draws, up to a constant. For constant noise."""
    shape = (len(ratings), draws.items.shape[1])
    energy, log_determinant = np.empty(shape), np.empty(shape)
    fold_in_normal(draws, ratings, None, threads, energy=energy, log_determinant=log_determinant)
    counts, constant = ratings.counts[:, None], draws.users.constant
    if draws.user_means is not None:
        linear = draws.user_linear(draws.user_means)
        constant = np.einsum("bsw,bsw->bs", linear.astype(np.float64), draws.user_means)
    prior: DoubleArray = counts * np.log(draws.alpha) + draws.users.log_determinant - constant
    return np.asarray((prior - log_determinant) / 2 - energy)


def _part(ratings: CSR, first: int, last: int) -> CSR:
    start, end = int(ratings.offsets[first]), int(ratings.offsets[last])
    return CSR(ratings.offsets[first : last + 1] - start, ratings.columns[start:end], ratings.values[start:end])
