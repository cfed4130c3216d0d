"""From beliefs to lists: the best items under the filters, in the order of a policy, less popular or more diverse.

The best are found by an index over the item vectors, or by looking at every item, in blocks.

Popularity damping moves down what most users know anyway:

    value_ij = score_ij - strength * spread_i * standing_j

`standing_j` is log(1 + number of ratings of item j), less its mean over the items, divided by its standard deviation.
`spread_i` is the standard deviation of the scores of user i over all items. The strength therefore has no unit: with
1, an item one standard deviation more popular than usual loses one standard deviation of the user's own scores. Scores
that are shifted or stretched as a whole give the same order.

Where scores are inner products with item vectors v_j, spread_i^2 = q_i' C q_i with C the covariance of the v_j, and the
value is again an inner product: of (q_i, -strength * spread_i) and (v_j, standing_j). So the best are found exactly, by
the same scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, IntArray, row_blocks
from tastespace.data.attributes import Attributes
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Index
from tastespace.index.reduction import Shortened
from tastespace.index.search import Neighbours, Scan, few_allowed
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import StoredIndex
from tastespace.models.base import posterior as posteriors
from tastespace.models.base import similarity
from tastespace.models.base.policies import (
    Best,
    Candidates,
    Cautious,
    Likely,
    Policy,
    PolicyScores,
    Rating,
    RngOf,
    Thompson,
)
from tastespace.models.base.query import Filters
from tastespace.models.base.rules import Effects, ListedScores, Rules, Values
from tastespace.parameters import check_int

CANDIDATES = 20  # from which each place of a list is chosen, where not all items are looked at
MOST_DAMPING = 1000  # popularity alone decides long before; far beyond, the values would overflow
LOOKED_AT = 2  # times the length of a list: items with the largest bounds on their scores
MORE = 4  # times as many items are looked at where rules have left gaps
ROUNDING = 1e-5  # that a value may be above its bound, as a share of the largest bound
SHORTENED_BY = 500  # training users by whose vectors those of items are shortened
SAMPLED = 500  # items that stand for all where vectors are longer than that


@dataclass(frozen=True)
class ListOptions:
    """How long the lists are to be, and in what order."""

    n: int
    policy: Policy = Best()
    diversity: float = 0.0
    popularity_damping: float = 0.0
    rules: Rules | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if type(self.n) is not int or self.n < 1:  # Everything else costs a look.
            check_int("n", self.n, least=1)
        for name, most in (("popularity_damping", MOST_DAMPING), ("diversity", 1)):
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= most:
                raise InvalidParameterError(f"{name} is {value!r}; expected a number from 0 to {most}")


@dataclass(eq=False)
class Prepared:
    """What a fitted recommender makes once, when it is first needed, and keeps for all requests."""

    _posterior: posteriors.Posterior
    _ratings: Ratings

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy makes its own."""
        return Prepared, (self._posterior, self._ratings)

    @cached_property
    def n_cores(self) -> int:
        return threads.available()

    @cached_property
    def people_at_once(self) -> int:
        """How many people are looked at together, at most."""
        return self._posterior.people_at_once or posteriors.BLOCK_SCORES

    @cached_property
    def rated(self) -> Prepared:
        """The same of what was concluded of ratings alone."""
        posterior = self._posterior.rated
        return self if posterior is self._posterior else Prepared(posterior, self._ratings)

    @cached_property
    def scan(self) -> Scan | None:
        """All items; None for a posterior without item vectors."""
        return None if self._vectors is None else Scan.of(self._vectors)

    @property
    def _vectors(self) -> FloatMatrix | None:
        """What scores are inner products with: not what candidates for choices are found by."""
        return self._posterior.item_vectors if self._posterior.rated is self._posterior else None

    def shortened(self, dimensions: int) -> Shortened | None:
        """Short vectors of the items; None for a posterior without item vectors. Made once for each length."""
        if self._vectors is None:
            return None
        made: dict[int, Shortened] = self.__dict__.setdefault("_shortened", {})
        if dimensions not in made:
            rows = np.unique(np.linspace(0, max(self._ratings.n_users - 1, 0), SHORTENED_BY).astype(np.int32))
            people = posteriors.People.known(rows, self._ratings.by_user)
            queries = self._posterior.believe(people, 1).queries if self._ratings.n_users else None
            made[dimensions] = Shortened.of(self._vectors, None if queries is None else queries.vectors, dimensions)
        return made[dimensions]

    @cached_property
    def rough_summaries(self) -> Callable[[Any, IntArray], tuple[FloatMatrix, FloatMatrix]] | None:
        """Expected ratings of all items, and their sds roughly; None where exact ones are as quick."""
        return None if self.scan is None else self._posterior.rough_summaries(self.scan.panels)

    @cached_property
    def attributes(self) -> Attributes:
        return Attributes(self._ratings)

    @cached_property
    def damping(self) -> Damping:
        if not len(self._ratings):
            raise InvalidParameterError(
                "the model was saved without its ratings, so that nothing is known of popularity; expected "
                "popularity_damping=0, or a model saved with its ratings"
            )
        counts = np.bincount(self._ratings.item_rows, minlength=self._ratings.n_items)
        return Damping(self._vectors, counts)

    @cached_property
    def items(self) -> similarity.ItemSimilarity:
        return similarity.ItemSimilarity(self._posterior, self._ratings)

    @cached_property
    def lists(self) -> similarity.ComparesLists:
        """What lists are made diverse by; a model that does not know what is similar goes by who rated what."""
        if self.items.plain is not None:
            return self.items.plain
        if not len(self._ratings):
            raise InvalidParameterError(
                "this model does not know how similar items are, and was saved without the ratings that could say; "
                "expected diversity=0, or a model saved with its ratings"
            )
        return similarity.CoRatedItems(self._ratings.by_item, self._ratings.n_users)

    @cached_property
    def users(self) -> similarity.Directions:
        """The training users of a taste space."""
        everyone = posteriors.People.known(np.arange(self._ratings.n_users, dtype=np.int32), self._ratings.by_user)
        embeddings = self._posterior.believe(everyone, 1).embeddings
        assert embeddings is not None  # Whoever asks has seen that there are some.
        return similarity.Directions(embeddings)


@dataclass(frozen=True, eq=False)
class TopN:
    """Everything that the lists of a request are made from."""

    belief: posteriors.Belief
    filters: Filters
    prepared: Prepared
    n_items: int
    index: Index | None  # over the posterior's item vectors; None to look at every item
    rng_of: RngOf  # of a user of the belief: where a policy draws
    threads: int
    scan: Exact | None = None  # of all items, where there is one already
    candidates: dict[int, Neighbours] = field(default_factory=dict)  # so many of the best: asked for more than once
    effects: Effects = field(default_factory=Effects)  # of the rules on these lists

    def lists(self, options: ListOptions) -> tuple[Neighbours, str]:
        """Each user's items in their final order, with the scores that the model gives them; and how that was."""
        if self.index is not None and self._queries is not None and self.index.n_items_ != self.n_items:
            raise InvalidParameterError(
                f"the index has {self.index.n_items_} items, and the model {self.n_items}; expected an index built "
                "over the item vectors of this model: build it again after an update"
            )
        if isinstance(options.policy, Rating) and self.belief.rated is not self.belief:
            belief, prepared = self.belief.rated, self.prepared.rated  # An index is one of choices.
            return replace(self, belief=belief, prepared=prepared, index=None, scan=None).lists(options)
        if (rules := options.rules) is not None:
            found = self._ruled(options, rules)
            return found, self._how(options, self._by_policy(options.policy), found.items.shape[1])
        n = min(options.n, max(self.n_items, 1))
        found, by_policy, size = self._ordered(n, options)
        if options.popularity_damping > 0 or by_policy is not None:
            found = Neighbours(found.items, self._shown(found))
        return found, self._how(options, by_policy, size)

    @property
    def _queries(self) -> posteriors.Queries | None:
        """What an index is asked."""
        return self.belief.queries if self.belief.chosen is None else self.belief.chosen.queries_of_choices

    def _ruled(self, options: ListOptions, rules: Rules) -> Neighbours:
        """The lists under rules, from so many of the best that they are full."""
        n = min(options.n, max(self.n_items, 1))
        if rules.lift is not None:
            plain, moved = (self._ordered(n, some)[0] for some in (replace(options, rules=None), options))
            rules.count_moved(plain, moved, self.effects)
        to_fill: Values = {}
        size = min(2 * n, self.n_items) if rules.limits or rules.pins else n
        while True:
            effects = Effects()
            items, is_full = rules.choose(self._ordered(size, options)[0].items, n, self.filters, effects, to_fill)
            if is_full or size >= self.n_items:
                self.effects.update(effects)
                return Neighbours(items, self._shown(Neighbours(items, np.zeros(items.shape, np.float32))))
            to_fill, size = rules.values_to_fill(self.filters), min(MORE * size, self.n_items)

    def _ordered(self, n: int, options: ListOptions) -> tuple[Neighbours, PolicyScores | None, int]:
        """The first n of each user in their order; the policy, if it is no plain mean; and how many were looked at."""
        compared = self.prepared.lists if options.diversity > 0 else None
        size = n if compared is None else pool_size(n, self.n_items)
        by_policy = self._by_policy(options.policy)
        if options.rules is not None and (lift := options.rules.lift) is not None:
            found = self._lifted(size, options, by_policy, lift)
        elif options.popularity_damping > 0:
            found = self._damped(size, options, by_policy)
        elif by_policy is not None:
            found = self._by_values(by_policy, size, options.n)
            if isinstance(options.policy, Likely):  # Positions from the end, whatever else was looked at.
                places = np.arange(found.items.shape[1], 0, -1, dtype=np.float32)
                found = Neighbours(found.items, np.where(found.items >= 0, places, np.float32(-np.inf)))
        else:
            found = self._by_mean(size)
        if compared is not None:
            found = similarity.diversify(found, n, float(options.diversity), compared, self.threads)
        return found, by_policy, size

    def _by_mean(self, size: int) -> Neighbours:
        """The best by expected rating, or what else the model orders by."""
        if (found := self._by_bounds(size, self._listed)) is not None:
            return found
        if not self.belief.is_latent:
            return self._best(self.belief, size, self._searched)
        if self._is_indexed and self.belief.chosen is not None:
            found = self._best_by_score(size)
            return best_by(self._shown(found), found, size)
        # Order by score is almost that by expected rating: the best of more than are wanted, put in order here.
        count = pool_size if self.belief.chosen is None else candidate_count
        found = self._best(self.belief, count(size, self.n_items), self._searched)
        return best_by(self._shown(found), found, size)

    def _listed(self, some: Candidates) -> FloatMatrix:
        return some.shaped(self.belief.listed(some.pairs()))

    def _by_values(self, by_policy: PolicyScores, size: int, n: int) -> Neighbours:
        """The best by what a policy goes by: of all items, or of those that are among the best by score.

        How many of these are looked at goes by the length n of the lists, not by how many more rules ask for.
        """
        policy, chosen = by_policy.policy, self.belief.chosen
        if self._looks_at_draws(policy):
            return self._best(by_policy, size, None)
        if isinstance(policy, Thompson) and chosen is None and self._is_indexed:
            return self._best(self._drawn_queries(by_policy), size, self.index)
        if not isinstance(policy, Likely) and (found := self._by_bounds(size, by_policy.of)) is not None:
            return found
        if isinstance(policy, Likely) or self._is_indexed or chosen is not None:
            candidates = self._best_by_score(max(n, -(-size // CANDIDATES)))
        elif isinstance(policy, Cautious) and self.prepared.rough_summaries is not None:
            # What is uncertain may be far from the best by score.
            roughly = RoughScores(self.belief, self.prepared.rough_summaries, policy.sign * policy.c)
            candidates = self._best(roughly, candidate_count(size, self.n_items), None)
        else:
            return self._best(by_policy, size, None)
        return best_by(by_policy.of(Candidates.of(candidates.items)), candidates, size)

    def _by_bounds(
        self, n: int, values_of: Callable[[Candidates], FloatMatrix], lift: FloatArray | None = None
    ) -> Neighbours | None:
        """The best n of all items by values that are at most a bound; None where there are no bounds.

        First those with the largest bounds are looked at. The n-th best value of these is a limit: what has a smaller
        bound is not among the best, and the rest is looked at. `lift` is how much items move up, in spreads of a
        user's scores; the spread is that of scores as they are for finding items.
        """
        bounds_of = None if self.belief.chosen is None else self.belief.chosen.bounds
        if bounds_of is None or self.filters.own is not None or (self.index is not None and lift is None):
            return None
        n_first, best = min(LOOKED_AT * n, self.n_items), Neighbours.none(len(self.belief), n)
        width = max(self.n_items, posteriors.BLOCK_SCORES // self.prepared.people_at_once)
        for rows in row_blocks(len(self.belief), width, posteriors.BLOCK_SCORES):
            bounds, raised = bounds_of(rows), np.zeros((len(rows), self.n_items), np.float32)
            if lift is not None:
                raised += np.exp(self.belief.scores(rows)).std(axis=1, keepdims=True) * lift
                bounds += raised
            rounding = ROUNDING * np.abs(bounds).max(axis=1)
            self.filters.forbid(bounds, rows)
            first = similarity.top_k(bounds, n_first)[0]
            looked_at = Neighbours(first, values_of(Candidates(rows, first)) + np.take_along_axis(raised, first, 1))
            limits = -np.partition(-looked_at.scores, n - 1, axis=1)[:, n - 1] - rounding
            n_more = np.count_nonzero((bounds >= limits[:, None]) & (bounds > -np.inf), axis=1) - n_first
            if len(who := np.flatnonzero(n_more > 0)):
                more = similarity.top_k(bounds[who], n_first + int(n_more.max()))[0][:, n_first:]
                more[np.arange(more.shape[1]) >= n_more[who, None]] = -1
                others = Neighbours.none(len(rows), more.shape[1])
                others.items[who] = more
                others.scores[who] = values_of(Candidates(rows[who], more)) + np.take_along_axis(raised[who], more, 1)
                items, values = (looked_at.items, others.items), (looked_at.scores, others.scores)
                looked_at = Neighbours(np.hstack(items), np.hstack(values))
            found = best_by(looked_at.scores, looked_at, n)
            best.items[rows], best.scores[rows] = found.items, found.scores
        return best

    def _drawn_queries(self, by_policy: PolicyScores) -> posteriors.Queries:
        """The scores of one draw a user, as an index finds them."""
        expected = self.belief.queries
        assert expected is not None  # There is an index, and so there are item vectors.
        drawn = posteriors.Queries(np.empty_like(expected.vectors), np.empty_like(expected.offsets), expected.items)
        for user in range(len(self.belief)):
            vectors, offsets = by_policy.uncertainty.draw_queries(user, 1, self.rng_of(user))
            drawn.vectors[user], drawn.offsets[user] = vectors[0], offsets[0]
        return drawn

    def _looks_at_draws(self, policy: Policy) -> bool:
        """Whether the best of a draw are sought where items differ from draw to draw.

        Best in a draw is often an item that little is known of, and an index over all draws together misses it: of the
        true best 10 of a draw one found a third where items had under two ratings each, and nine tenths where they had
        five. So all items of the draw are looked at.
        """
        uncertainty, is_drawn = self.belief.uncertainty, isinstance(policy, Thompson) and self.belief.chosen is None
        return is_drawn and not (uncertainty is not None and uncertainty.items_are_certain)

    def _best_by_score(self, size: int) -> Neighbours:
        """The best by score, or what is most likely chosen, among which are nearly all of the best by a policy."""
        k = candidate_count(size, self.n_items)
        if k not in self.candidates:
            scored: posteriors.Scored = self.belief
            if (chosen := self.belief.chosen) is not None and self._is_indexed:
                scored = self._queries or scored
            elif chosen is not None and chosen.bounds is not None:
                scored = Bounds(chosen.bounds)
            self.candidates[k] = self._best(scored, k, self._searched)
        return self.candidates[k]

    @property
    def _searched(self) -> Index | Scan | None:
        """What finds the best items by score, if there is something."""
        if self.index is not None or self.belief.chosen is not None:
            return self.index
        return self.scan or threaded(self.prepared.scan, self.threads)

    @property
    def _is_indexed(self) -> bool:
        """Whether items are left out unseen: a user's own allow-list is always looked at as a whole."""
        return self.index is not None and self.filters.own is None

    def _how(self, options: ListOptions, by_policy: PolicyScores | None, size: int) -> str:
        """How the lists were found, in words."""
        if self.filters.own is not None:
            return "every item of the user's own list was looked at"
        is_lifted = options.rules is not None and options.rules.lift is not None
        has_more = by_policy is not None or self.belief.chosen is not None
        if is_lifted or (has_more and options.popularity_damping):
            return "every item was looked at"
        if self.index is None and isinstance(options.policy, Likely):
            by = "score" if self.belief.chosen is None else "how likely they are chosen"
            return f"the best {candidate_count(size, self.n_items)} by {by}; put in order one by one"
        if self.index is None:
            return "every item was looked at"
        if self._looks_at_draws(options.policy):
            return "every item of one draw was looked at"
        few = few_allowed(self.filters.allowed)
        by = self.index.description if few is None else f"a look at each of the {len(few)} items allowed"
        is_final = by_policy is None or (isinstance(options.policy, Thompson) and self.belief.chosen is None)
        if is_final and not options.popularity_damping and not self.belief.is_latent:
            return f"by {by}"
        n = candidate_count(size, self.n_items) if has_more else pool_size(size, self.n_items)
        return f"the best {n} by {by}; put in order one by one"

    def _shown(self, found: Neighbours) -> FloatMatrix:
        """What a list shows of items: their expected ratings, or what else the model orders by."""
        score = self.belief.listed if self.belief.is_latent else lambda pairs: pair_scores(self.belief, pairs)
        return _of_found(found, score)

    def _by_policy(self, policy: Policy) -> PolicyScores | None:
        """What the policy orders by; None for the mean, which has faster ways."""
        if isinstance(policy, Best | Rating):
            return None
        if self.belief.uncertainty is None:
            raise InvalidParameterError(
                f"the policy is {type(policy).__name__.lower()}, and this model provides no uncertainty; expected the "
                "policy best, or a model with a posterior: BPMF (bpmf), or ImplicitALS (implicit-als) for choices"
            )
        return PolicyScores(policy, self.belief, self.belief.uncertainty, self.n_items, self.rng_of)

    def _lifted(self, size: int, options: ListOptions, by_policy: PolicyScores | None, lift: FloatArray) -> Neighbours:
        """The best of all items where some move up or down by rules, and the popular ones down."""
        down, strength = -lift, float(options.popularity_damping)
        if strength:
            down = down + np.float32(strength) * self.prepared.damping.standing
        found = None
        if not isinstance(options.policy, Likely):
            found = self._by_bounds(size, self._listed if by_policy is None else by_policy.of, -down)
        latent = ListedScores(self.belief, self.n_items) if self.belief.is_latent else self.belief
        return found or self._best(DampedScores(by_policy or latent, down, 1.0), size, None)

    def _damped(self, size: int, options: ListOptions, by_policy: PolicyScores | None) -> Neighbours:
        """The best after damping; their scores are the damped ones."""
        damping, strength = self.prepared.damping, float(options.popularity_damping)
        if self.belief.chosen is not None:  # As with rules that move items: by the scores that lists show.
            return self._lifted(size, options, by_policy, np.zeros(self.n_items, np.float32))
        if by_policy is not None:
            return self._best(DampedScores(by_policy, damping.standing, strength), size, None)
        damped = damping.of(self.belief, strength)
        if not self._is_indexed or self.belief.chosen is not None:
            return self._best(damped, size, threaded(damping.scan, self.threads))
        # An index knows nothing of popularity: more of its best are fetched, and put in order here.
        found = self._best(self.belief, max(size, pool_size(size, self.n_items)), self.index)
        return best_by(_of_found(found, lambda pairs: pair_scores(damped, pairs)), found, size)

    def _best(self, scored: posteriors.Scored, k: int, index: Index | Scan | None) -> Neighbours:
        return best_items(scored, len(self.belief), self.n_items, k, self.filters, index)


def threaded(scan: Scan | None, threads: int) -> Scan | None:
    """The scan with as many threads as a request may use."""
    return None if scan is None else replace(scan, threads=threads)


def best_items(
    scored: posteriors.Scored, n_people: int, n_items: int, k: int, filters: Filters, index: Index | Scan | None
) -> Neighbours:
    """The k best items of each person that the filters allow; scores include the person's offset."""
    if filters.own is not None:
        return _best_of_own(scored, filters.own, k)
    if index is not None:
        queries = scored.queries if isinstance(scored, posteriors.Belief) else scored
        if not isinstance(queries, posteriors.Queries):
            raise InvalidParameterError(
                "this model has no item vectors, so that no index can search them; expected None"
            )
        found = index.search(queries.vectors, k, excluded=filters.excluded, allowed=filters.allowed)
        return Neighbours(found.items, found.scores + queries.offsets[:, None])
    best = Neighbours.none(n_people, k)
    for rows, block in posteriors.score_blocks(scored, n_people, n_items):
        filters.forbid(block, rows)
        best.items[rows], best.scores[rows] = similarity.top_k(block, k)
    return best


def _best_of_own(scored: posteriors.Scored, own: CSR, k: int) -> Neighbours:
    """The same where each person chooses from items of their own, which are looked at one by one."""
    users, columns = own.rows(), own.columns
    scores = pair_scores(scored, posteriors.Pairs(users, columns))
    order = np.lexsort((columns, -scores, users))  # of equal scores the lower item, as everywhere
    place = np.arange(len(order)) - np.repeat(own.offsets[:-1], own.counts)
    order, users, place = order[place < k], users[place < k], place[place < k]
    found = Neighbours.none(len(own), k)
    found.items[users, place], found.scores[users, place] = columns[order], scores[order]
    return found


def pair_scores(scored: posteriors.Scored, pairs: posteriors.Pairs) -> FloatArray:
    """What items are ordered by, for pairs whose rows ascend; in bounded memory."""
    if isinstance(scored, posteriors.Belief):
        scored = scored.queries or scored
    if isinstance(scored, posteriors.Queries):
        return scored.of_pairs(pairs)
    scores, step, start = np.empty(len(pairs), np.float32), 1, 0
    while start < len(scores):
        rows = np.unique(pairs.rows[start : start + step]).astype(np.int32)
        end = int(np.searchsorted(pairs.rows, rows[-1], side="right"))
        block = scored.scores(rows)
        scores[start:end] = block[np.searchsorted(rows, pairs.rows[start:end]), pairs.items[start:end]]
        step, start = max(1, posteriors.BLOCK_SCORES // max(block.shape[1], 1)), end
    return scores


def _of_found(found: Neighbours, score: Callable[[posteriors.Pairs], FloatArray]) -> FloatMatrix:
    """Scores of items that were found, in their places."""
    some = Candidates.of(found.items)
    return some.shaped(score(some.pairs()))


def best_by(values: FloatMatrix, found: Neighbours, n: int) -> Neighbours:
    """The first n of each list in the order of other values, best first; of equal ones the lower item."""
    values = np.where(found.items < 0, -np.inf, values).astype(np.float32)
    order = np.lexsort((found.items, -values), axis=1)[:, :n]
    return Neighbours(np.take_along_axis(found.items, order, 1), np.take_along_axis(values, order, 1))


def candidate_count(n: int, n_items: int) -> int:
    """How many of the best by expected rating a policy chooses a list of n from: the best 200 of the mean have 99 % of
    the best 10 of mean - 2 sd."""
    return min(max(CANDIDATES * n, 200), max(n_items, 1))


def pool_size(n: int, n_items: int) -> int:
    """From how many of the best a list of n is chosen."""
    return min(max(10 * n, 100), n_items)


def standing_of(counts: NDArray[Any]) -> FloatArray:
    """How popular each item is, among all: 0 on average, with a standard deviation of 1 (0 if all are equal)."""
    popularity = np.log1p(counts.astype(np.float64))
    spread = popularity.std()
    return np.asarray((popularity - popularity.mean()) / (spread if spread > 0 else 1.0), np.float32)


@dataclass(frozen=True, eq=False)
class RoughScores:
    """Expected ratings and so many sds, roughly."""

    belief: posteriors.Belief
    summaries: Callable[[Any, IntArray], tuple[FloatMatrix, FloatMatrix]]
    sds: float

    def scores(self, rows: IntArray) -> FloatMatrix:
        mean, sd = self.summaries(self.belief, rows)
        return mean + np.float32(self.sds) * sd


@dataclass(frozen=True)
class Bounds:
    """What scores are at most, in their place."""

    scores: Callable[[IntArray], FloatMatrix]


@dataclass(frozen=True, eq=False)
class DampedScores:
    """Scores of any kind, damped."""

    inner: posteriors.Scored
    standing: FloatArray
    strength: float

    def scores(self, rows: IntArray) -> FloatMatrix:
        scores = self.inner.scores(rows)
        spread = scores.std(axis=1, dtype=np.float64)
        return np.asarray(scores - self.strength * spread[:, None] * self.standing, np.float32)


class Damping:
    """All that damping needs and that is the same for every request; `vectors` are those of the items, if any."""

    def __init__(self, vectors: FloatMatrix | None, counts: NDArray[Any]) -> None:
        self.standing = standing_of(counts)
        self.root: DoubleArray | None = None  # of the covariance of the item vectors: root^T root
        self.scan: Scan | None = None
        if vectors is not None:
            self.root = _covariance_root(vectors)
            self.scan = Scan.of(self._longer(vectors))

    def of(self, belief: posteriors.Belief, strength: float) -> posteriors.Scored:
        """The belief's scores, damped so much: where they are inner products, with one more coordinate."""
        queries = belief.queries
        if queries is None or self.root is None:
            return DampedScores(belief, self.standing, strength)
        # Not by BLAS, which may add in another order when a user is asked about alone.
        products = np.einsum("nd,cd->nc", queries.vectors.astype(np.float64), self.root)
        spread = np.sqrt(np.sum(products**2, axis=1))
        vectors = np.hstack([queries.vectors, -strength * spread[:, None]]).astype(np.float32)
        return posteriors.Queries(vectors, queries.offsets, lambda: self._longer(queries.items()))

    def _longer(self, vectors: FloatMatrix) -> FloatMatrix:
        return np.hstack([vectors, self.standing[:, None]]).astype(np.float32)


def _covariance_root(vectors: FloatMatrix) -> DoubleArray:
    """A matrix whose product with itself is the covariance of the vectors: as few rows as will do.

    Very long vectors (draws, stacked) would make a very large covariance: there, every so many-th item stands for all.
    """
    if vectors.shape[1] > SAMPLED:
        vectors = vectors[:: max(1, len(vectors) // SAMPLED)]
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    centred /= max(len(vectors), 1) ** 0.5
    return np.asarray(centred if len(centred) <= centred.shape[1] else np.linalg.qr(centred, mode="r"))


def grown_index(
    stored: StoredIndex | None, before: posteriors.Posterior, after: posteriors.Posterior
) -> StoredIndex | None:
    """The same index with the new items beside it; None where the old ones have moved, and it would mislead."""
    old, new = before.item_vectors, after.item_vectors
    if stored is None or old is None or new is None:
        return None
    # New items are drawn again whenever there are more of them: those that the index was built over must be the same.
    n_built = stored.index.n_built_
    if old.shape[1] != new.shape[1] or not np.array_equal(new[:n_built], old[:n_built]):
        return None
    if len(new) == n_built and not stored.index.can_change:
        return stored
    return replace(stored, index=stored.index.over(new))
