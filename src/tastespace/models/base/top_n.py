"""From beliefs to lists: the best items under the rules, and second thoughts about popularity and sameness."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from tastespace.arrays import FloatArray, FloatMatrix, IntArray
from tastespace.errors import InvalidParameterError
from tastespace.index.index import Index, Neighbours, few_allowed
from tastespace.index.structures.exact import Exact
from tastespace.models.base.candidates import Searchable, best_items, pair_scores
from tastespace.models.base.parameters import check_int
from tastespace.models.base.policies import Candidates, Likely, Mean, Policy, PolicyScores, RngOf, Thompson
from tastespace.models.base.posterior import DrawsQueries, InnerProduct, Latent, Posterior, Uncertain
from tastespace.models.base.prepared import Prepared
from tastespace.models.base.ranking import Rules
from tastespace.models.base.reranking import DampedScores, diversified, pool_size, sorted_by

MOST_DAMPING = 1000  # popularity alone decides long before; far beyond, the values would overflow


@dataclass(frozen=True)
class ListOptions:
    """How long the lists are to be, and in what order."""

    n: int
    policy: Policy = Mean()
    diversity: float = 0.0
    popularity_damping: float = 0.0

    def check(self) -> None:
        """Refuse what makes no sense."""
        check_int("n", self.n, least=1)
        _from_zero("popularity_damping", self.popularity_damping, MOST_DAMPING)
        _from_zero("diversity", self.diversity, 1)


@dataclass(frozen=True, eq=False)
class Lists:
    """Each user's items in their final order, with the scores that the model gives them."""

    found: Neighbours
    how: str  # they were found
    pool: IntArray | None  # the best by expected rating, more than are listed; None where every item was looked at


@dataclass(frozen=True, eq=False)
class Listing:
    """Everything that the lists of a request are made from."""

    posterior: Posterior[Any]
    belief: Any
    n_users: int
    n_items: int
    rules: Rules
    prepared: Prepared
    index: Index | None  # over the posterior's item vectors; None to look at every item
    rng_of: RngOf  # of a user of the belief: where a policy draws
    threads: int
    found: dict[int, Neighbours] = field(default_factory=dict)  # so many of the best: asked for more than once

    def lists(self, wishes: ListOptions, *, with_pool: bool = False) -> Lists:
        """As wished; with the pool, if one is wanted and an index was used."""
        self._check_index()
        n = min(wishes.n, max(self.n_items, 1))
        likeness = self.prepared.pool_likeness if wishes.diversity > 0 else None
        size = n if likeness is None else pool_size(n, self.n_items)
        by_policy = self._by_policy(wishes.policy)
        if wishes.popularity_damping > 0:
            found = self._damped(size, wishes, by_policy)
        elif by_policy is not None:
            found = self._by_values(by_policy, size)
            if isinstance(wishes.policy, Likely):
                found = by_position(found)
        else:
            found = self._by_mean(size)
        if likeness is not None:
            found = diversified(found, n, float(wishes.diversity), likeness, self.threads)
        if wishes.popularity_damping > 0 or by_policy is not None:
            found = Neighbours(found.items, self._shown(found))
        pool = self._candidates(n).items if with_pool and self._is_indexed else None
        return Lists(found, self._how(wishes, by_policy, size), pool)

    def _by_mean(self, size: int) -> Neighbours:
        """The best by expected rating."""
        if not self._is_latent:
            return self._best(self.posterior, size, self._searched)
        # Order by score is almost that by expected rating: the best of more than are wanted, put in order here.
        found = self._best(self.posterior, pool_size(size, self.n_items), self._searched)
        found = sorted_by(found, self._shown(found))
        return Neighbours(found.items[:, :size], found.scores[:, :size])

    def _by_values(self, by_policy: PolicyScores, size: int) -> Neighbours:
        """The best by what a policy goes by: of all items, or of those that an index finds."""
        if not self._is_indexed or self._looks_at_draws(by_policy.policy):
            return self._best(by_policy, size, None)
        if isinstance(by_policy.policy, Thompson):
            drawn = DrawnProduct.of(self.posterior, self.belief, self.n_users, self.rng_of)
            return self._best(drawn, size, self.index)
        candidates = self._candidates(size)
        some = Candidates(np.arange(self.n_users, dtype=np.int32), candidates.items)
        found = sorted_by(candidates, by_policy.of(self.belief, some, self.threads))
        return Neighbours(found.items[:, :size], found.scores[:, :size])

    def _looks_at_draws(self, policy: Policy) -> bool:
        """Whether the best of a draw are sought where items differ from draw to draw.

        Best in a draw is often an item that little is known of, and an index over all draws together misses it: of the
        true best 10 of a draw one found a third where items had under two ratings each, and nine tenths where they had
        five. So all items of the draw are looked at.
        """
        if not isinstance(policy, Thompson):
            return False
        return not (isinstance(self.posterior, DrawsQueries) and self.posterior.items_are_certain)

    def _candidates(self, size: int) -> Neighbours:
        """The best by expected rating, among which are nearly all of the best by any policy that minds the mean."""
        k = candidate_count(size, self.n_items)
        if k not in self.found:
            self.found[k] = self._best(self.posterior, k, self.index)
        return self.found[k]

    @property
    def _searched(self) -> Index | None:
        """What finds the best by expected rating; None where they are not found by an index at all."""
        return self._threaded(self.prepared.exact) if self.index is None else self.index

    @property
    def _is_indexed(self) -> bool:
        """Whether items are left out unseen: a user's own allow-list is always looked at as a whole."""
        return self.index is not None and self.rules.own is None

    @property
    def _is_latent(self) -> bool:
        return isinstance(self.posterior, Latent) and self.posterior.is_latent

    def _check_index(self) -> None:
        index = self.index
        if index is None or not isinstance(self.posterior, InnerProduct):
            return
        if index.n_items_ != self.n_items:
            raise InvalidParameterError(
                f"the index has {index.n_items_} items, and the model {self.n_items}; expected an index built over the "
                "item vectors of this model: build it anew after an update"
            )

    def _how(self, wishes: ListOptions, by_policy: PolicyScores | None, size: int) -> str:
        """In words."""
        if self.rules.own is not None:
            return "every item of the user's own list was looked at"
        if self.index is None or (by_policy is not None and wishes.popularity_damping):
            return "every item was looked at"
        if self._looks_at_draws(wishes.policy):
            return "every item of one draw was looked at"
        few = few_allowed(self.rules.allowed)
        by = self.index.description if few is None else f"a look at each of the {len(few)} items allowed"
        is_final = by_policy is None or isinstance(wishes.policy, Thompson)
        if is_final and not wishes.popularity_damping and not self._is_latent:
            return f"by {by}"
        n = candidate_count(size, self.n_items) if by_policy is not None else pool_size(size, self.n_items)
        return f"the best {n} by {by}; put in order one by one"

    def _shown(self, found: Neighbours) -> FloatMatrix:
        """What a list shows of items: their expected ratings."""
        if not self._is_latent:
            return self._scores(self.posterior, found)
        users, places = np.nonzero(found.items >= 0)
        shown = np.full(found.items.shape, -np.inf, np.float32)
        items = found.items[users, places]
        shown[users, places] = self.posterior.predict(self.belief, users.astype(np.int32), items, self.threads)
        return shown

    def _by_policy(self, policy: Policy) -> PolicyScores | None:
        """What the policy orders by; None for the mean, which has faster ways."""
        if isinstance(policy, Mean):
            return None
        if not isinstance(self.posterior, Uncertain):
            raise InvalidParameterError(
                f"the policy is {type(policy).__name__.lower()}, and this model does not know how sure it is; expected "
                "the policy mean, or a model with a posterior: BPMF (bpmf), or ImplicitALS (implicit-als) for choices"
            )
        return PolicyScores(policy, self.posterior, self.n_items, self.rng_of)

    def _damped(self, size: int, wishes: ListOptions, by_policy: PolicyScores | None) -> Neighbours:
        """The best after damping; their scores are the damped ones."""
        damping, strength = self.prepared.damping, float(wishes.popularity_damping)
        if by_policy is not None:
            return self._best(DampedScores(by_policy, damping.standing, strength), size, None)
        damped = damping.of(strength)
        if not self._is_indexed:
            return self._best(damped, size, self._threaded(damping.exact))
        # An index knows nothing of popularity: more of its best are fetched, and put in order here.
        found = self._best(self.posterior, max(size, pool_size(size, self.n_items)), self.index)
        found = sorted_by(found, self._scores(damped, found))
        return Neighbours(found.items[:, :size], found.scores[:, :size])

    def _best(self, searched: Searchable, k: int, index: Index | None) -> Neighbours:
        return best_items(
            searched,
            self.belief,
            self.n_users,
            k,
            n_items=self.n_items,
            excluded=self.rules.excluded,
            allowed=self.rules.allowed,
            own=self.rules.own,
            index=index,
            threads=self.threads,
        )

    def _threaded(self, exact: Exact | None) -> Exact | None:
        """The scan with as many threads as this request may use."""
        if exact is not None:
            exact.threads = self.threads
        return exact

    def _scores(self, scored: Searchable, found: Neighbours) -> FloatMatrix:
        """The scores of items that were found."""
        users, places = np.nonzero(found.items >= 0)
        scores = np.full(found.items.shape, -np.inf, np.float32)
        scores[users, places] = pair_scores(
            scored, self.belief, users.astype(np.int32), found.items[users, places], self.threads
        )
        return scores


@dataclass(frozen=True, eq=False)
class DrawnProduct:
    """The scores of one draw a user, as an index finds them."""

    inner: InnerProduct[Any]
    queries: FloatMatrix
    added: FloatArray

    @classmethod
    def of(cls, posterior: Any, belief: Any, n_users: int, rng_of: RngOf) -> DrawnProduct:
        width = posterior.item_vectors().shape[1]
        queries, added = np.empty((n_users, width), np.float32), np.empty(n_users, np.float32)
        for user in range(n_users):
            queries[user : user + 1], added[user : user + 1] = posterior.draw_queries(belief, user, 1, rng_of(user))
        return cls(posterior, queries, added)

    def query_vectors(self, belief: Any) -> FloatMatrix:
        return self.queries

    def item_vectors(self) -> FloatMatrix:
        return self.inner.item_vectors()

    def offsets(self, belief: Any) -> FloatArray:
        return self.added


def by_position(found: Neighbours) -> Neighbours:
    """The same items; their scores are positions from the end, whatever else was looked at."""
    positions = np.arange(found.items.shape[1], 0, -1, dtype=np.float32)
    return Neighbours(found.items, np.where(found.items >= 0, positions, -np.inf).astype(np.float32))


def candidate_count(n: int, n_items: int) -> int:
    """How many of the best by expected rating a policy chooses a list of n from: the best 200 of the mean have 99 % of
    the best 10 of mean - 2 sd."""
    return min(max(20 * n, 200), max(n_items, 1))


def _from_zero(name: str, value: Any, most: int) -> None:
    """The value is a number from 0 to `most`."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not 0 <= value <= most:
        raise InvalidParameterError(f"{name} is {value!r}; expected a number from 0 to {most}")
