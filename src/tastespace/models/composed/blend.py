"""What people choose next, by weights between items and by tastes together: a blend of two scores.

    score_ij = (1 - weight) C_ij + weight s_ij

C is the propensity of the linear model of `tastespace.models.composed.choice` (EASE, whose regularization grows with
the popularity of an item, and which falls back to popularity for users with few choices), s the preference of
`ImplicitALS`. The first knows which items go together, one pair at a time; the second which kinds of items. Each finds
things that the other does not, and on all data sets that were tried their sum was better than either.

Counts have heavy tails: a thousand plays are no thousand times as good a sign as one. In the linear model a pair counts

    f_ij = 1 + clip((log2(1 + count_ij) - m_i) / sd, -2, 2) / 4        m_i: the user's mean, shrunk to that of all

which is 1 where all counts are the same; in the factorization it is `growth` that says what counts are worth.

`weight` and the regularization of the linear model are found on held-out training choices, a fifth of those of some
users: the values with the largest NDCG@100. What the linear model predicts without them is known in closed form; the
factors are learned once without them, with the settings with which they are then learned from everything, so that both
scores keep their scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, blocks
from tastespace.data.csr import CSR
from tastespace.data.features import Features
from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.base import posterior as base
from tastespace.models.composed.choice import ChoiceModel, PairWeights, gram_of, inverse_of, propensities, without
from tastespace.models.composed.joint import HeldOut, described_users
from tastespace.models.factorization.gibbs.posterior import DrawsBelief, DrawsPosterior
from tastespace.models.factorization.implicit.implicit_als import ImplicitALS
from tastespace.parameters import check_number
from tastespace.progress import Observer, Progress, silent
from tastespace.settings import takes_old_parameters

REGULARIZATIONS = (10.0, 30.0, 100.0, 300.0, 1000.0)
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
ROUGH_WEIGHTS = (0.0, 0.2, 0.5, 0.8)  # beside which the regularization is found
USUAL_REGULARIZATION, USUAL_WEIGHT = 100.0, 0.35  # where there is nothing to judge by
FEWEST_HELD_OUT = 50  # choices; with fewer, what is best is chance
POPULAR_ITEMS = 3000  # among which the regularization is found
LIST_LENGTH = 100  # of the lists that settings are judged by


def ndcg(scores: FloatMatrix, wanted: BoolArray) -> DoubleArray:
    """NDCG@100 of each user: of the wanted items, at least one each, in the order of scores; -inf is not listed."""
    n = min(LIST_LENGTH, scores.shape[1])
    top = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable"), 1)
    discounts = 1 / np.log2(np.arange(2, n + 2))
    ideal = np.cumsum(discounts)[np.minimum(wanted.sum(axis=1), n) - 1]
    hits = np.take_along_axis(wanted, top, 1) & np.isfinite(np.take_along_axis(scores, top, 1))
    return np.asarray(hits @ discounts / ideal)


def in_logarithms(history: CSR) -> CSR:
    """What was chosen, with log2(1 + count); a count of 0 says that something was not chosen."""
    chosen = history if not len(history.values) or history.values.min() > 0 else history.masked(history.values > 0)
    return CSR(chosen.offsets, chosen.columns, np.log2(1 + chosen.values).astype(np.float32))


@dataclass(frozen=True, eq=False)
class LinearSide:
    """The linear model before its regularization is known."""

    pairs: PairWeights
    shares: FloatArray  # of the users, who have each item
    weights: Any  # F, users x items, sparse
    features: Features | None = None  # of the items

    @classmethod
    def of(cls, observed: Ratings) -> LinearSide:
        history = in_logarithms(observed.by_user)
        values = history.values.astype(np.float64)
        pairs = PairWeights(float(values.mean()), float(values.std()) if np.ptp(values) else 0.0)
        shares = (observed.by_item.counts / max(observed.n_users, 1)).astype(np.float32)
        return cls(pairs, shares, pairs.weigh(history, observed.n_items), observed.item_features)

    def weigh(self, history: CSR) -> Any:
        return self.pairs.weigh(in_logarithms(history), len(self.shares))

    def fitted(self, regularization: float, observer: Observer) -> ChoiceModel:
        fitted = ChoiceModel(self.pairs, self.shares, inverse_of(self.weights, regularization, observer))
        return fitted.describing(self.features)


@dataclass(frozen=True, eq=False)
class Search:
    """Held-out choices of some users, and what is made of the rest of theirs."""

    side: LinearSide
    whole: CSR  # all choices of these users
    rest: CSR  # those that are not held out
    held: CSR  # those that are
    factors: FloatMatrix | None  # scores of the factorization, of these users and all items

    @property
    def tells_nothing(self) -> bool:
        return len(self.held.columns) < FEWEST_HELD_OUT

    def regularization(self, weights: tuple[float, ...]) -> float:
        """The best of the linear model, together with any of the weights, on a catalogue of the most popular items."""
        if self.tells_nothing:
            return USUAL_REGULARIZATION
        popular = np.sort(np.argsort(-self.side.shares, kind="stable")[:POPULAR_ITEMS])
        every = self.side.weights[:, popular].tocsr()
        whole, rest = (self.side.weigh(part)[:, popular].tocsr() for part in (self.whole, self.rest))
        gram = gram_of(every)

        @cache
        def value(place: int) -> float:
            if not 0 <= place < len(REGULARIZATIONS):
                return -inf
            known = None if gram is None else gram.copy()
            linear = without(inverse_of(every, REGULARIZATIONS[place], silent, known), whole, rest)
            return max(self._values(linear, weights, popular))

        place = REGULARIZATIONS.index(USUAL_REGULARIZATION)  # Values rise to one best and fall: uphill from the middle.
        while (uphill := max((place, place - 1, place + 1), key=value)) != place:
            place = uphill
        return REGULARIZATIONS[place]

    def weight(self, fitted: ChoiceModel) -> float:
        """The best of the weights of the factorization beside this linear model."""
        if self.tells_nothing or self.factors is None:
            return USUAL_WEIGHT
        linear = without(fitted.inverse, self.side.weigh(self.whole), self.side.weigh(self.rest))
        return WEIGHTS[int(np.argmax(self._values(linear, WEIGHTS, slice(None))))]

    def _values(self, linear: FloatMatrix, weights: tuple[float, ...], items: Any) -> list[float]:
        """What lists are worth with each weight, of some items."""
        shape = len(self.rest), len(self.side.shares)
        seen, wanted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        seen[self.rest.rows(), self.rest.columns] = wanted[self.held.rows(), self.held.columns] = True
        seen, wanted = seen[:, items], wanted[:, items]
        has = wanted.any(axis=1)
        if not has.any():
            return [0.0] * len(weights)
        propensity = propensities(linear, self.rest.counts, self.side.shares[items])
        factors = None if self.factors is None else self.factors[:, items]
        values = []
        for weight in weights:
            scores = propensity.copy() if factors is None else combined(propensity, factors, weight)
            scores[seen] = -np.inf
            values.append(float(ndcg(scores[has], wanted[has]).mean()))
        return values


def combined(linear: NDArray[Any], factors: NDArray[Any], weight: float) -> NDArray[Any]:
    """The score, from those of both sides."""
    return np.asarray(np.float32(1 - weight) * linear + np.float32(weight) * factors)


@dataclass(frozen=True, eq=False)
class BlendPosterior(base.Posterior):
    """What both sides concluded, and what the factorization counts beside the linear model."""

    linear: ChoiceModel
    factors: DrawsPosterior
    regularization: float  # of the linear model
    weight: float

    keeps_users = False

    def believe(self, people: base.People, threads: int) -> BlendBelief:
        return BlendBelief(self, self.factors.believe(people, threads), in_logarithms(people.history))

    @property
    def embeddings(self) -> FloatMatrix:
        return self.factors.embeddings

    @property
    def item_similarities(self) -> Callable[[IntArray, int], FloatMatrix] | None:  # type: ignore[override]
        """What is chosen by the same users; None where only tastes count, and items go by these."""
        return None if self.weight == 1 else self.linear.item_similarities

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "found": np.array([self.regularization, self.weight]),
            **{f"linear/{name}": array for name, array in self.linear.arrays().items()},
            **{f"factors/{name}": array for name, array in self.factors.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        parts: dict[str, dict[str, NDArray[Any]]] = {"linear": {}, "factors": {}}
        for name, array in arrays.items():
            part, _, own = name.rpartition("/")
            if part:
                parts[part][own] = array
        sides = ChoiceModel.from_arrays(parts["linear"]), DrawsPosterior.from_arrays(parts["factors"])
        return cls(*sides, *(float(value) for value in arrays["found"]))


@dataclass(eq=False)
class BlendBelief(base.Belief):
    """What is believed of users: by what they have chosen, and by their tastes."""

    posterior: BlendPosterior
    factors: DrawsBelief
    history: CSR
    _latest: tuple[IntArray, FloatMatrix] | None = field(default=None, repr=False)

    is_latent = True  # Scores of many at once are rounded by their company; those of the best are shown pair by pair.

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def embeddings(self) -> FloatMatrix:
        return self.factors.embeddings

    def scores(self, rows: IntArray) -> FloatMatrix:
        return combined(self._propensities(rows), self.factors.scores(rows), self.posterior.weight)

    def mean(self, pairs: base.Pairs) -> FloatArray:
        """The score of each pair; an item never seen has that of the factorization, a new item's."""
        rows, places = np.unique(pairs.rows, return_inverse=True)
        linear = np.zeros(len(pairs), np.float32)
        for some in blocks(len(rows), self.posterior.linear.n_items, base.BLOCK_SCORES):
            here = np.flatnonzero((places >= some.start) & (places < some.stop) & (pairs.items >= 0))
            linear[here] = self._propensities(rows[some])[places[here] - some.start, pairs.items[here]]
        return combined(linear, self.factors.mean(pairs), self.posterior.weight)

    def _propensities(self, rows: IntArray) -> FloatMatrix:
        """C, one row a person; the latest are kept, since those listed are asked about again."""
        latest = self._latest  # Read once: several threads may ask.
        if latest is None or not np.array_equal(latest[0], rows):
            latest = self._latest = rows, self.posterior.linear.propensities(self.history.take(rows))
        return latest[1]


@takes_old_parameters
@dataclass(kw_only=True)
class Blend(ImplicitALS):
    """Clicks, plays and purchases by weights between items and by tastes together: for the best lists.

    score = (1 - `weight`) * propensity by weights between items (`EASE`, on logarithms of counts) + `weight` *
    preference by factors (`ImplicitALS`). With "auto", `weight` and `linear_regularization`, that of the weights
    between items, are found on held-out training choices; a weight of 0 is the linear side alone, 1 that of factors.
    `weight_` and `linear_regularization_` are what was found. All other parameters are those of `ImplicitALS`.

    Scores are no probabilities: only their order means something. Where a user is new, what more people have comes
    first. Catalogues and numbers of users that are both beyond 20 000 are approximated on the linear side, so that the
    memory that it takes stays bounded.
    """

    n_factors: int = 128
    weight: float | Literal["auto"] = "auto"
    linear_regularization: float | Literal["auto"] = "auto"

    posterior_class: ClassVar[type[base.Posterior]] = BlendPosterior  # type: ignore[assignment]
    scores_are_ratings: ClassVar[bool] = False

    def check(self) -> None:
        super().check()
        if self.weight != "auto":
            check_number("weight", self.weight, least=0)
            if self.weight > 1:
                raise InvalidParameterError(f"weight is {self.weight!r}; expected a number from 0 to 1, or 'auto'")
        if self.linear_regularization != "auto":
            check_number("linear_regularization", self.linear_regularization, above=0)

    @classmethod
    def candidates(cls, observed: Ratings) -> list[dict[str, Any]]:
        if observed.kind not in CHOICES:
            return []
        again = {"strength": "auto", "regularization": "auto", "weight": "auto"}
        once = [{"growth": "none", **again}] if observed.kind == "counts" else []
        return [{}, *({"n_factors": n, "weight": "auto"} for n in (64, 256)), *once]

    def infer(  # type: ignore[override]
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> BlendPosterior:
        self.check_ratings(observed)
        settings = self.find_settings(observed, rng, observer)
        side, regularization, weight = LinearSide.of(observed), self.linear_regularization, self.weight
        search = None
        if "auto" in (regularization, weight):
            observer(Progress("blending", 0, 3))
            # Which choices are held out does not depend on the seed: it decides a setting, and no draw.
            rng_of_split = np.random.default_rng([len(observed), observed.n_users, observed.n_items])
            held = HeldOut.of(replace(observed, values=np.ones_like(observed.values)), rng_of_split)
            others = observed.masked(~held.is_held)
            rest, factors = others.by_user.take(held.rows), None
            if weight != 0 and len(held.rows):
                learned = self.infer_factors(others, settings, np.random.default_rng(0), silent)
                people = replace(base.People.new_users(rest), features=described_users(observed, held.rows))
                belief = learned.believe(people, threads.resolve(self.threads))
                factors = np.vstack([block for _, block in base.score_blocks(belief, len(people), observed.n_items)])
            search = Search(side, observed.by_user.take(held.rows), rest, held.held, factors)
            observer(Progress("blending", 1, 3))
        if regularization == "auto":
            assert search is not None
            regularization = search.regularization(ROUGH_WEIGHTS if weight == "auto" else (float(weight),))
        linear = side.fitted(float(regularization), silent)
        if weight == "auto":
            assert search is not None
            observer(Progress("blending", 2, 3))
            weight = search.weight(linear)
        if search is not None:
            observer(Progress("blending", 3, 3))
        factors_posterior = self.infer_factors(observed, settings, rng, observer)
        return BlendPosterior(linear, factors_posterior, float(regularization), float(weight))

    def placed(self, posterior: BlendPosterior, observed: Ratings) -> BlendPosterior | None:  # type: ignore[override]
        factors = super().placed(posterior.factors, observed)
        if factors is None:
            return None
        linear = posterior.linear.with_items(observed.n_items, posterior.regularization, observed.item_features)
        return replace(posterior, factors=factors, linear=linear)

    @property
    def factors_posterior(self) -> DrawsPosterior:
        return self._blended.factors

    @property
    def weight_(self) -> float:
        """What was given, or found."""
        return self._blended.weight

    @property
    def linear_regularization_(self) -> float:
        """What was given, or found."""
        return self._blended.regularization

    @property
    def prediction_range(self) -> tuple[float, float]:
        """Scores are no ratings."""
        return -inf, inf

    @property
    def _blended(self) -> BlendPosterior:
        self.require_fitted()
        posterior = self.posterior_
        assert isinstance(posterior, BlendPosterior)
        return posterior
