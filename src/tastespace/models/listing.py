"""From beliefs to lists: the best items under the rules, and second thoughts about popularity and sameness."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tastespace.arrays import FloatMatrix
from tastespace.errors import InvalidParameterError
from tastespace.index.exact import Exact
from tastespace.index.index import Index, Neighbours
from tastespace.models.damping import DampedScores, sorted_by
from tastespace.models.diversity import diversified, pool_size
from tastespace.models.parameters import whole_number
from tastespace.models.policies import Mean, Policy, PolicyScores, RngOf
from tastespace.models.posterior import Latent, Posterior, Uncertain
from tastespace.models.prepared import Prepared
from tastespace.models.searching import Searchable, best_items, pair_scores
from tastespace.ranking import Rules

MOST_DAMPING = 1000  # popularity alone decides long before; far beyond, the values would overflow


@dataclass(frozen=True)
class Wishes:
    """How long the lists are to be, and in what order."""

    n: int
    policy: Policy = Mean()
    diversity: float = 0.0
    popularity_damping: float = 0.0

    def check(self) -> None:
        """Refuse what makes no sense."""
        whole_number("n", self.n, least=1)
        _from_zero("popularity_damping", self.popularity_damping, MOST_DAMPING)
        _from_zero("diversity", self.diversity, 1)


@dataclass(frozen=True, eq=False)
class Listing:
    """Everything that the lists of a request are made from."""

    posterior: Posterior[Any]
    belief: Any
    n_users: int
    n_items: int
    rules: Rules
    prepared: Prepared
    index: Index | None  # the caller's own
    rng_of: RngOf  # of a user of the belief: where a policy draws
    threads: int

    def lists(self, wishes: Wishes) -> Neighbours:
        """Each user's items in their final order, with the scores that the model gives them."""
        n = min(wishes.n, max(self.n_items, 1))
        likeness = self.prepared.pool_likeness if wishes.diversity > 0 else None
        size = n if likeness is None else pool_size(n, self.n_items)
        by_policy = self._by_policy(wishes.policy)
        if wishes.popularity_damping > 0:
            found = self._damped(size, wishes, by_policy)
        elif by_policy is not None:
            found = self._best(by_policy, size, None)
        else:
            found = self._by_mean(size)
        if likeness is not None:
            found = diversified(found, n, float(wishes.diversity), likeness, self.threads)
        if wishes.popularity_damping > 0 or by_policy is not None:
            return Neighbours(found.items, self._shown(found))
        return found

    def _by_mean(self, size: int) -> Neighbours:
        """The best by expected rating."""
        index = self._threaded(self.prepared.exact) if self.index is None else self.index
        if not self._is_latent:
            return self._best(self.posterior, size, index)
        # Order by score is almost that by expected rating: the best of more than are wanted, put in order here.
        found = self._best(self.posterior, pool_size(size, self.n_items), index)
        found = sorted_by(found, self._shown(found))
        return Neighbours(found.items[:, :size], found.scores[:, :size])

    @property
    def _is_latent(self) -> bool:
        return isinstance(self.posterior, Latent) and self.posterior.is_latent

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
        if self.index is not None:
            raise InvalidParameterError(
                f"the policy is {type(policy).__name__.lower()}, which looks at every item; expected index=None"
            )
        return PolicyScores(policy, self.posterior, self.n_items, self.rng_of)

    def _damped(self, size: int, wishes: Wishes, by_policy: PolicyScores | None) -> Neighbours:
        """The best after damping; their scores are the damped ones."""
        damping, strength = self.prepared.damping, float(wishes.popularity_damping)
        if by_policy is not None:
            return self._best(DampedScores(by_policy, damping.standing, strength), size, None)
        damped = damping.of(strength)
        if self.index is None:
            return self._best(damped, size, self._threaded(damping.exact))
        # The caller's index knows nothing of popularity: more of its best are fetched, and put in order here.
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


def _from_zero(name: str, value: Any, most: int) -> None:
    """The value is a number from 0 to `most`."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not 0 <= value <= most:
        raise InvalidParameterError(f"{name} is {value!r}; expected a number from 0 to {most}")
