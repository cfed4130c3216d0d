"""`fit` on several machines: each node runs the model's own inference on its part of the ratings.

All nodes compute the same: the rows that are theirs from their ratings, the rest from what they exchange. The first
gives the posterior back. A node that dies ends the run of all; it begins again on new nodes, with the same seed and so
the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, TypeVar

from tastespace import randomness
from tastespace.cluster.parts import Exchange, Facts, Meeting, RatingsInParts, Share, shares_of
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError, TastespaceError
from tastespace.models import Recommender
from tastespace.models.base.posterior import Posterior
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.likelihoods.base import likelihood_of
from tastespace.models.factorization.priors.normal_wishart import prior_of
from tastespace.models.factorization.priors.shrinkage import Shrinkage
from tastespace.parameters import check_int
from tastespace.progress import Observer, Progress, silent

R = TypeVar("R", bound=Recommender)
TRIES = 3  # times that a run begins, if nodes die


class NodeLostError(TastespaceError):
    """A node ended, or was ended, in the middle of a run."""


@dataclass(frozen=True)
class NodeSummary:
    """What one node did: seconds in all and waiting for others, and the bytes that it sent and received."""

    seconds: float
    waited: float
    sent: int
    received: int


@dataclass(frozen=True)
class ClusterSummary:
    """What a fit on a cluster took."""

    nodes: Sequence[NodeSummary]
    begun: int  # how often the run began: once, and once more for each time that nodes were lost

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"nodes": [asdict(node) for node in self.nodes], "begun": self.begun, "idle_share": self.idle_share}

    @property
    def idle_share(self) -> float:
        """The share of the nodes' time that was spent exchanging and waiting."""
        return sum(node.waited for node in self.nodes) / max(sum(node.seconds for node in self.nodes), 1e-9)

    def __str__(self) -> str:
        moved = sum(node.received for node in self.nodes) / 1e6
        again = "" if self.begun == 1 else f"; began {self.begun} times, because nodes were lost"
        return f"{len(self.nodes)} nodes: {self.idle_share:.0%} of the time idle, {moved:,.0f} MB moved{again}"


def fit(
    model: R, ratings: Ratings, *, cluster: str = "local:2", observer: Observer = silent
) -> tuple[R, ClusterSummary]:
    """Fit a model to ratings on several nodes; the model has the same bytes as after `model.fit(ratings)`.

    `cluster` is `local:N` for N nodes on this machine, `auto` for the Ray cluster that this machine belongs to, or
    `ray://HOST:PORT` for another one. Returns the model and a summary of what it took.

    `ALS` and `BPMF` can be fitted so, with some restrictions that a message names.
    """
    from tastespace.cluster.ray import nodes_of

    check_supported(model, ratings)
    seed = randomness.resolve(model.seed)
    with nodes_of(cluster) as nodes:
        users, items = shares_of(ratings.by_user, nodes.count), shares_of(ratings.by_item, nodes.count)
        facts = Facts.of(ratings)
        for begun in range(1, TRIES + 1):
            try:
                posterior, summaries = nodes.run(model, seed, list(zip(users, items, strict=True)), facts, observer)
                break
            except NodeLostError:
                if begun == TRIES:
                    raise
                observer(Progress(f"a node was lost: beginning again ({begun + 1} of {TRIES})", 0))
    model.restore(ratings, posterior, seed, posterior.rating_range or ratings.range)
    return model, ClusterSummary(summaries, begun)


def infer_part(
    model: Recommender, seed: int, share: tuple[Share, Share], facts: Facts, meeting: Meeting, observer: Observer
) -> tuple[Posterior, NodeSummary]:
    """What each node does."""
    exchange, began = Exchange(meeting), perf_counter()
    infer: Any = model.infer
    posterior = infer(RatingsInParts(*share, facts, exchange), randomness.generator(seed), observer, None)
    return posterior, NodeSummary(perf_counter() - began, exchange.seconds, exchange.sent, exchange.received)


def check_supported(model: Recommender, ratings: Ratings) -> None:
    """Refuse what cannot be fitted in parts, in words, before anything starts."""
    model.check()
    check_int("ratings", len(ratings), least=1)
    if type(model) is ALS:
        given = (model.user_regularization, model.item_regularization)
        biases = (model.user_bias_regularization, model.item_bias_regularization)
        if isinstance(model.n_factors, str) or model.early_stopping:
            _refuse("ALS", "n_factors='auto' and early_stopping", "a number of factors and of sweeps")
        is_known = not isinstance(model.regularization, str) or None not in (*given, *(biases if model.biases else ()))
        if not is_known or not isinstance(model.regularization, str | float | int):
            _refuse("ALS", "a search of the regularization", "a number, such as regularization=0.05")
    elif type(model) is BPMF:
        if isinstance(model.n_factors, str):
            _refuse("BPMF", "n_factors='auto'", "a number of factors")
        if isinstance(prior_of(model.prior, model.n_factors), Shrinkage):
            _refuse("BPMF", "priors that shrink columns", "prior='normal-wishart'")
        if likelihood_of(model.likelihood).takes_choices:
            _refuse("BPMF", "sampled negatives", "ratings")
        for side, features in (("user", ratings.user_features), ("item", ratings.item_features)):
            if features is not None:
                _refuse("BPMF", f"{side} features", f"ratings without them (ratings.with_{side}_features(None))")
    else:
        raise InvalidParameterError(
            f"{type(model).__name__} cannot be fitted on a cluster; expected ALS or BPMF: fit it on one machine"
        )


def _refuse(model: str, what: str, expected: str) -> None:
    raise InvalidParameterError(f"{model} with {what} cannot be fitted on a cluster; expected {expected}")
