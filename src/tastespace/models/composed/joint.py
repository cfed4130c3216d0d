"""What people choose and how they like it, in one belief: lists of things that a user would pick, and be glad of.

Ratings are missing not at random: people rate what they chose. A list in the order of the expected rating shows what
few would ever pick. The order here is

    score_ij = C_ij * P(r_ij >= m_i) ^ weight

C is the propensity to choose an item (`tastespace.models.composed.choice`), the probability that of the rating if it is
chosen, from BPMF, and m_i what the user rates on average, shrunk to the mean of all. `weight` and the regularization of
the choice side are found on held-out training ratings: a fifth of the ratings of some users, until 12 000 of those held
out were liked. The values with the largest sum of NDCG@10 and recall@20 of liked items are taken; but where one side
alone is within a standard error of that, `weight` is 0 or infinity. The regularization is found among the most popular
items, and compared with smaller ones among all items. What is served has learned from all ratings. What the choice side
predicts without some of them is known in closed form; the rating side of the search is a short chain that is thrown
away.

How likely a choice is: of the unseen items of those users, the share that turned out to be held out, as an increasing
function of C (isotonic regression). It means "among the next n_i / 4 choices" of a user with n_i ratings, and is best
read beside its average over all items, the base rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace import threads
from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray, blocks
from tastespace.data.csr import CSR
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.distributions.normal_mixture import NormalMixture, average
from tastespace.errors import DataError, InvalidParameterError
from tastespace.inference.checkpoints import RunCheckpoints
from tastespace.inference.transition import Trace
from tastespace.models.base import posterior as base
from tastespace.models.base.resuming import Start
from tastespace.models.base.update import Merged, TrainingSummary
from tastespace.models.composed.choice import (
    LEAST_PROPENSITY,
    MOST_ROWS,
    ChoiceModel,
    LowRank,
    PairWeights,
    gram_of,
    inverse_of,
    propensities,
    without,
)
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.gibbs.posterior import DrawsBelief, DrawsPosterior
from tastespace.parameters import check_number
from tastespace.progress import Observer, Progress, silent
from tastespace.settings import takes_old_parameters

REGULARIZATIONS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, inf)
MOST_COMPARED = 10_000  # items with which a smaller regularization is compared: a matrix of 0.4 GB
ROUGH_WEIGHTS = (0.0, 0.5, 2.0, inf)  # beside which the regularization is found
USUAL_REGULARIZATION, USUAL_WEIGHT = 300.0, 0.5  # where there is nothing to judge by
HELD_OUT_SHARE = 0.2  # of the ratings of a user
LIKED_PAIRS = 12_000  # held out, or those of all users: with 3 000, what is best is too much a matter of chance
MOST_SCORES = 1 << 24  # of users and items in the search: 64 MB
FEWEST_LIKED = 50  # with fewer, what is best is chance
POPULAR_ITEMS = 1500  # among which the regularization is found
SHORT_CHAIN = {"chains": 1, "warmup": 10, "draws": 10, "thin": 1}  # of the rating side of the search: longer ones agree
LEAST_LIKED = 1e-3  # probability of liking something: so that one item that is disliked for sure is still an item
BLOCK_DRAWS = 1 << 20  # scores of pairs in draws that are looked at together: 4 MB
ANCHORS = 24  # items of each user whose probability is computed, to tell that of all others by their scores


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Users of whom a part of their ratings is held out."""

    rows: IntArray  # of the users
    whole: CSR  # all ratings of each
    rest: CSR  # those that are not held out
    is_held: BoolArray  # a flag a rating of all: what the search must not learn from
    held: CSR  # those that are held out

    @classmethod
    def of(cls, observed: Ratings, rng: Generator) -> HeldOut:
        by_user, pairs = observed.by_user, PairWeights.of(observed)
        n_held = np.round(HELD_OUT_SHARE * by_user.counts).astype(np.int64)
        able = rng.permutation(np.flatnonzero(n_held > 0)).astype(np.int32)
        order = np.argsort(by_user.rows() + rng.random(len(by_user.columns)))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(by_user.offsets[:-1], by_user.counts)
        is_held = place < np.repeat(n_held, by_user.counts)
        left = by_user.masked(~is_held)
        liked = by_user.values >= pairs.liked_from(left)[by_user.rows()]
        n_liked = np.bincount(by_user.rows()[is_held & liked], minlength=len(by_user))
        enough = int(np.searchsorted(np.cumsum(n_liked[able]), LIKED_PAIRS)) + 1
        rows = np.sort(able[: min(enough, max(1, MOST_SCORES // observed.n_items))])
        is_chosen = np.zeros(len(by_user), np.bool_)
        is_chosen[rows] = True
        is_held &= is_chosen[by_user.rows()]
        held = by_user.masked(is_held)
        # The same flags in the order of the ratings themselves.
        position = np.argsort(observed.user_rows.astype(np.int64) * observed.n_items + observed.item_rows)
        flags = np.empty(len(is_held), np.bool_)
        flags[position] = is_held
        return cls(rows, by_user.take(rows), by_user.masked(~is_held).take(rows), flags, held.take(rows))


def described_users(observed: Ratings, rows: IntArray) -> Any:
    """The features of some users, one sparse row each; None if there are none."""
    features = observed.user_features
    return features.matrix[rows] if features is not None and features.n_columns else None


class Found(NamedTuple):
    """What a search found."""

    regularization: float
    weight: float


@dataclass(frozen=True, eq=False)
class LikedProbabilities:
    """How likely a user would like each item, as a function of the item's score: Phi(a + b score).

    a and b of each user are fitted to the probabilities of a few items, spread over the catalogue. This is for finding
    candidates among all items; those found are put in order by their own probabilities.
    """

    intercepts: DoubleArray
    slopes: DoubleArray

    @classmethod
    def of(cls, belief: DrawsBelief, rows: IntArray, thresholds: DoubleArray) -> LikedProbabilities:
        from scipy.special import ndtri

        draws = belief.posterior.draws
        anchors = np.unique(np.linspace(0, len(draws.items) - 1, ANCHORS).round().astype(np.int32))
        pairs = base.Pairs(np.repeat(rows, len(anchors)), np.tile(anchors, len(rows)))
        of_draws = belief.score_draws(pairs)
        liked = belief.predictive_of(of_draws).rating.at_least(np.repeat(thresholds, len(anchors)))
        liked = np.clip(liked, LEAST_LIKED, 1 - LEAST_LIKED).reshape(len(rows), -1)
        x = draws.offset + draws.scale * average(of_draws.means, of_draws.weights).reshape(liked.shape)
        y, w = ndtri(liked), liked * (1 - liked)
        w = w / w.sum(axis=1, keepdims=True)
        mean_x, mean_y = (w * x).sum(axis=1), (w * y).sum(axis=1)
        spread = (w * (x - mean_x[:, None]) ** 2).sum(axis=1)
        slopes = (w * (x - mean_x[:, None]) * y).sum(axis=1) / np.maximum(spread, 1e-12)
        slopes = np.maximum(slopes, 0)
        return cls(mean_y - slopes * mean_x, slopes)

    def take(self, rows: Any) -> LikedProbabilities:
        return LikedProbabilities(self.intercepts[rows], self.slopes[rows])

    def log(self, scores: FloatMatrix) -> FloatMatrix:
        from scipy.special import log_ndtr

        found = log_ndtr((self.intercepts[:, None] + self.slopes[:, None] * scores).astype(np.float32))
        return np.maximum(found, np.float32(np.log(LEAST_LIKED)), out=found)


def combined(log_choice: NDArray[Any], log_liked: NDArray[Any], weight: float) -> NDArray[Any]:
    """The logarithm of the score; where only liking counts, choices settle what is equal."""
    if weight == inf:
        return np.asarray(log_liked + log_choice.dtype.type(1e-4) * log_choice)
    return np.asarray(log_choice + log_choice.dtype.type(weight) * log_liked)


@dataclass(frozen=True, eq=False)
class ChoiceCurve:
    """How likely something is chosen by its propensity: increasing, between points of a step function."""

    logs: DoubleArray  # of propensities, ascending
    probabilities: DoubleArray
    base_rate: float  # of all unseen items

    @classmethod
    def of(cls, log_choice: FloatMatrix, rest: CSR, held: CSR) -> ChoiceCurve:
        from scipy.optimize import isotonic_regression

        unseen = np.ones(log_choice.shape, np.bool_)
        unseen[rest.rows(), rest.columns] = False
        x, chosen = np.sort(log_choice[unseen]), log_choice[held.rows(), held.columns]
        if not len(x):
            return cls.nothing(0.0)
        # What rises begins where something was held out, so that only the counts up to the next of these matter.
        starts, n_chosen = np.unique(np.append(x[:1], chosen), return_counts=True)
        n_chosen[0] -= 1
        edges = np.searchsorted(x, starts)
        sizes = np.diff(np.append(edges, len(x)))
        fitted = isotonic_regression(n_chosen / sizes, weights=sizes)
        first = edges[fitted.blocks[:-1]]
        centers = np.add.reduceat(x, first, dtype=np.float64) / np.diff(np.append(first, len(x)))
        return cls(centers, fitted.x[fitted.blocks[:-1]], len(chosen) / len(x))

    @classmethod
    def nothing(cls, base_rate: float) -> ChoiceCurve:
        """Where no ratings could be held out: the propensity itself."""
        logs = np.linspace(np.log(1e-6), 0, 200)
        return cls(logs, np.exp(logs), base_rate)

    def of_logs(self, logs: NDArray[Any]) -> FloatArray:
        return np.asarray(np.interp(logs, self.logs, self.probabilities), np.float32)


def _mean_share(observed: Ratings) -> float:
    """The share of users who have rated an item, averaged over the items."""
    return len(observed) / max(observed.n_users * observed.n_items, 1)


@dataclass(frozen=True, eq=False)
class Search:
    """What is found by held-out ratings: how strongly choices are regularized, and what liking counts beside them."""

    observed: Ratings
    held: HeldOut
    log_liked: FloatMatrix  # of the users and all items
    n_threads: int

    @classmethod
    def of(cls, observed: Ratings, held: HeldOut, rating: DrawsBelief) -> Search:
        rows, thresholds = np.arange(len(held.rows), dtype=np.int32), PairWeights.of(observed).liked_from(held.rest)
        scores = np.vstack([block for _, block in base.score_blocks(rating, len(rows), observed.n_items)])
        log_liked = LikedProbabilities.of(rating, rows, thresholds).log(scores)
        return cls(observed, held, log_liked, rating.threads)

    @cached_property
    def wanted(self) -> BoolArray:
        """Which items each user is held out to have liked."""
        held, wanted = self.held.held, np.zeros(self.log_liked.shape, np.bool_)
        thresholds = PairWeights.of(self.observed).liked_from(self.held.rest)
        wanted[held.rows(), held.columns] = held.values >= thresholds[held.rows()]
        return wanted

    @property
    def tells_nothing(self) -> bool:
        return int(np.count_nonzero(self.wanted)) < FEWEST_LIKED

    def regularization(self, weights: Sequence[float], gram: FloatMatrix | None) -> float:
        """The best of the choice side, together with any of the weights, on a catalogue of the most popular items."""
        counts = self.observed.by_item.counts
        popular = np.sort(np.argsort(-counts, kind="stable")[:POPULAR_ITEMS])
        pairs, n = PairWeights.of(self.observed), self.observed.n_items
        every, whole, rest = (
            pairs.weigh(part, n)[:, popular].tocsr()
            for part in (self.observed.by_user, self.held.whole, self.held.rest)
        )
        shares = (counts[popular] / self.observed.n_users).astype(np.float32)
        gram = gram_of(every) if gram is None else gram[np.ix_(popular, popular)]

        @cache
        def value(place: int) -> float:
            if not 0 <= place < len(REGULARIZATIONS):
                return -inf
            known = None if gram is None else gram.copy()
            linear = without(inverse_of(every, REGULARIZATIONS[place], silent, known), whole, rest)
            log_choice = np.log(propensities(linear, self.held.rest.counts, shares))
            return max(float(each.mean()) for each in self._values(log_choice, weights, popular))

        place = REGULARIZATIONS.index(USUAL_REGULARIZATION)  # Values rise to one best and fall: uphill from the middle.
        while True:
            near = (place, place - 1, place + 1)
            uphill = near[int(np.argmax(list(threads.mapped(value, near, self.n_threads))))]
            if uphill == place:
                return REGULARIZATIONS[place]
            place = uphill

    def weight(self, log_choice: FloatMatrix) -> float:
        """The best of the weights, by what the choice side makes of the rest of each user's ratings.

        Where one side alone is within a standard error of the best, nothing says that the other one helps.
        """
        if self.tells_nothing:
            return USUAL_WEIGHT
        values = np.stack(self._values(log_choice, WEIGHTS, slice(None), self.n_threads))
        best = int(np.argmax(values.mean(axis=1)))
        for alone in (0, len(WEIGHTS) - 1):
            lost = values[best] - values[alone]
            if lost.mean() <= lost.std() / len(lost) ** 0.5:
                return WEIGHTS[alone]
        return WEIGHTS[best]

    def value(self, log_choice: FloatMatrix, weights: Sequence[float]) -> float:
        """What lists are worth with the best of the weights."""
        return max(float(each.mean()) for each in self._values(log_choice, weights, slice(None), self.n_threads))

    def _values(
        self, log_choice: FloatMatrix, weights: Sequence[float], items: Any, n_threads: int = 1
    ) -> list[DoubleArray]:
        """What lists of some items are worth with each weight, to each user."""
        rest, wanted, log_liked = self.held.rest, self.wanted[:, items], self.log_liked[:, items]
        seen = np.zeros(self.log_liked.shape, np.bool_)
        seen[rest.rows(), rest.columns] = True
        seen = seen[:, items]

        def values(weight: float) -> DoubleArray:
            scores = combined(log_choice, log_liked, weight)
            scores[seen] = -np.inf
            return list_values(scores, wanted)

        return list(threads.mapped(values, weights, n_threads))


def list_values(scores: FloatMatrix, wanted: BoolArray) -> DoubleArray:
    """NDCG@10 + recall@20 of the wanted items, for each of the users who have any."""
    n = min(20, scores.shape[1])
    top = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable"), 1)
    hits, n_wanted = np.take_along_axis(wanted, top, 1), wanted.sum(axis=1)
    has = n_wanted > 0
    discounts = 1 / np.log2(np.arange(2, 12))[:n]
    ideal = np.cumsum(discounts)[np.minimum(n_wanted[has], len(discounts)) - 1]
    ndcg = (hits[has, : len(discounts)] * discounts).sum(axis=1) / ideal
    return np.asarray(ndcg + hits[has].sum(axis=1) / n_wanted[has])


@dataclass(frozen=True, eq=False)
class JointPosterior(base.Posterior):
    """What was concluded of ratings and of choices, and how they are combined."""

    rating: DrawsPosterior
    choice: ChoiceModel
    curve: ChoiceCurve
    found: Found

    keeps_users = False

    @property
    def people_at_once(self) -> int:
        return self.rating.people_at_once

    @property
    def rated(self) -> DrawsPosterior:
        return self.rating

    def believe(self, people: base.People, threads: int) -> JointBelief:
        return JointBelief(self, self.rating.believe(people, threads), people.history)

    @property
    def rating_range(self) -> tuple[float, float]:
        return self.rating.rating_range

    @property
    def levels(self) -> DoubleArray | None:
        return self.rating.levels

    @property
    def history_levels(self) -> DoubleArray | None:
        return self.rating.history_levels

    @property
    def embeddings(self) -> FloatMatrix:
        return self.rating.embeddings

    @property
    def item_vectors(self) -> FloatMatrix | None:
        """Those of the choice side, by which an index finds candidates, if it has any."""
        has_some = self.found.weight < inf and isinstance(self.choice.inverse, LowRank)
        return self.choice.vectors() if has_some else None

    @property
    def no_index(self) -> str:
        if self.found.weight == inf:
            return "has no item vectors where liking alone decides; expected a model that scores by inner products"
        return (
            f"has no item vectors: it has {self.choice.n_items:,} items, and looks at the weights between all of them, "
            "which is exact and fast enough; expected no index, or a model that scores by inner products, such as BPMF "
            f"(Joint itself with more than {MOST_ROWS:,} users and items)"
        )

    @property
    def trace(self) -> Trace | None:
        """The chains of the rating side."""
        return self.rating.trace

    @property
    def item_similarities(self) -> Callable[[IntArray, int], FloatMatrix] | None:  # type: ignore[override]
        """What is chosen by the same users; None where choosing counts for nothing, and items go by taste."""
        return None if self.found.weight == inf else self.choice.item_similarities

    @property
    def item_points(self) -> Any:  # type: ignore[override]
        return self.rating.item_points

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {
            "found": np.array(self.found),
            "curve": np.stack([self.curve.logs, self.curve.probabilities]),
            "base_rate": np.array([self.curve.base_rate]),
            **{f"rating/{name}": array for name, array in self.rating.arrays().items()},
            **{f"choice/{name}": array for name, array in self.choice.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        def part(name: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}

        logs, probabilities = arrays["curve"]
        curve = ChoiceCurve(logs, probabilities, float(arrays["base_rate"][0]))
        found = Found(*(float(value) for value in arrays["found"]))
        return cls(DrawsPosterior.from_arrays(part("rating")), ChoiceModel.from_arrays(part("choice")), curve, found)


@dataclass(eq=False)
class JointBelief(base.Belief):
    """What is believed of users: how they would rate, and what they would choose."""

    posterior: JointPosterior
    rating: DrawsBelief
    history: CSR
    _latest: tuple[IntArray, FloatMatrix] | None = field(default=None, repr=False)
    _usual: tuple[int, LikedProbabilities] | None = field(default=None, repr=False)

    is_latent = True  # Items are found by an approximation of the score.

    def __len__(self) -> int:
        return len(self.rating)

    def mean(self, pairs: base.Pairs) -> FloatArray:
        return self.rating.mean(pairs)

    def predictive(self, pairs: base.Pairs) -> base.PredictiveDistribution:
        return self.rating.predictive(pairs)

    @property
    def rated(self) -> DrawsBelief:
        return self.rating

    @property
    def chosen(self) -> Self:
        return self

    @cached_property
    def liked_from(self) -> DoubleArray:
        return self.posterior.choice.pairs.liked_from(self.history)

    @property
    def base_rate(self) -> float:
        return self.posterior.curve.base_rate

    def scores(self, rows: IntArray) -> FloatMatrix:
        """The logarithm of the score, with probabilities of liking as `LikedProbabilities` tells them."""
        log_choice, weight = np.log(self._propensities(rows)), self.posterior.found.weight
        if weight == 0:
            return log_choice
        log_liked = LikedProbabilities.of(self.rating, rows, self.liked_from[rows]).log(self.rating.scores(rows))
        return np.asarray(combined(log_choice, log_liked, weight), np.float32)

    def listed(self, pairs: base.Pairs) -> FloatArray:
        """The score: C P(liked)^weight."""
        return self.scored(pairs, self.liked(pairs))

    def scored(self, pairs: base.Pairs, liked: DoubleArray) -> FloatArray:
        """The score of pairs, given how likely each is to be liked."""
        log_liked = np.log(np.maximum(liked, LEAST_LIKED)).astype(np.float32)
        return np.asarray(np.exp(combined(self._log_choices(pairs), log_liked, self.posterior.found.weight)))

    @property
    def bounds(self) -> Callable[[IntArray], FloatMatrix] | None:
        """C, since no probability of liking is more than 1."""
        return None if self.posterior.found.weight == inf else lambda rows: self._propensities(rows).copy()

    def probabilities(self, pairs: base.Pairs) -> FloatArray:
        return self.posterior.curve.of_logs(self._log_choices(pairs))

    def choice_contributions(self, row: int, items: IntArray) -> FloatMatrix:
        return self.posterior.choice.contributions(self.history.take(np.array([row], np.int32)), items)

    def liked(self, pairs: base.Pairs, sds: float = 0.0) -> DoubleArray:
        found, n_draws = np.empty(len(pairs)), self.rating.posterior.draws.items.shape[1]
        for some in blocks(len(pairs), n_draws, BLOCK_DRAWS):
            rows = pairs.rows[some]
            scores = self.rating.score_draws(base.Pairs(rows, pairs.items[some]))
            if sds:
                sd = NormalMixture(scores.means, scores.sds, scores.weights).sd()
                scores = replace(scores, means=scores.means + (sds * sd[:, None]).astype(np.float32))
            found[some] = self.rating.predictive_of(scores).rating.at_least(self.liked_from[rows])
        return found

    def drawn_liked(self, row: int, items: IntArray, rng: Generator) -> DoubleArray:
        first = row - row % self.rating.block  # Those who are held together are looked at together.
        kept = self._usual
        if kept is None or kept[0] != first:
            rows = np.arange(first, min(first + self.rating.block, len(self)), dtype=np.int32)
            kept = self._usual = first, LikedProbabilities.of(self.rating, rows, self.liked_from[rows])
        usual = kept[1].take(slice(row - first, row - first + 1))
        return np.asarray(np.exp(usual.log(self.rating.draw_scores(row, 1, rng, items)))[0], np.float64)

    @cached_property
    def queries_of_choices(self) -> base.Queries | None:
        choice = self.posterior.choice
        if self.posterior.found.weight == inf or not isinstance(choice.inverse, LowRank):
            return None
        return base.Queries(choice.queries(self.history), np.zeros(len(self), np.float32), choice.vectors)

    def _log_choices(self, pairs: base.Pairs) -> FloatArray:
        """log C of pairs; that of an item never seen is the least there is."""
        rows, places = np.unique(pairs.rows, return_inverse=True)
        found, choice = np.full(len(pairs), LEAST_PROPENSITY, np.float32), self.posterior.choice
        is_low_rank = isinstance(choice.inverse, LowRank)  # Then items are looked at one by one.
        for some in blocks(len(rows), 1 if is_low_rank else choice.n_items, base.BLOCK_SCORES):
            here = np.flatnonzero((places >= some.start) & (places < some.stop) & (pairs.items >= 0))
            which, items, people = places[here] - some.start, pairs.items[here], rows[some].astype(np.int32)
            if is_low_rank:
                found[here] = choice.propensities_of(self.history.take(people), which, items)
            else:
                found[here] = self._propensities(people)[which, items]
        return np.log(found)

    def _propensities(self, rows: IntArray) -> FloatMatrix:
        """C, one row a person; the latest are kept, since those listed are asked about again."""
        latest = self._latest  # Read once: several threads may ask.
        if latest is not None:
            known, found = latest
            if np.array_equal(rows, known):
                return found
            if np.isin(rows, known).all():
                return found[np.searchsorted(known, rows)]
        found = self.posterior.choice.propensities(self.history.take(rows))
        self._latest = rows, found
        return found

    def prepare(self) -> None:
        self.rating.prepare()

    @property
    def uncertainty(self) -> DrawsBelief:
        return self.rating

    @property
    def information(self) -> DrawsBelief:
        return self.rating

    @property
    def influence(self) -> DrawsBelief:
        return self.rating

    @property
    def embeddings(self) -> FloatMatrix:
        return self.rating.embeddings


@takes_old_parameters
@dataclass(kw_only=True)
class Joint(BPMF):
    """Lists of what a user would choose and like: the default for star ratings.

    Two beliefs in one order: which items a user would choose, from the pairs that were rated, and how they would rate
    them, from `BPMF`. Predictions, intervals and all parameters of the rating side are those of `BPMF`.

    score = propensity to choose * P(rating at least the user's own mean) ^ `weight`. With "auto", `weight` and
    `regularization` of the choice side are found on held-out training ratings; a weight of 0 is the choice side alone,
    and infinity the rating side alone.
    """

    weight: float | Literal["auto"] = "auto"
    regularization: float | Literal["auto"] = "auto"

    posterior_class: ClassVar[type[base.Posterior]] = JointPosterior
    scores_are_ratings: ClassVar[bool] = False

    def suits(self, kind: Kind) -> bool:
        return kind not in CHOICES

    def check(self) -> None:
        super().check()
        if self.takes_negatives:
            raise InvalidParameterError(
                "the likelihood is one of choices, and Joint has a choice side of its own; expected a likelihood of "
                "ratings, such as 'gaussian'"
            )
        if self.weight not in ("auto", inf):
            check_number("weight", self.weight, least=0)
        if self.regularization != "auto":
            check_number("regularization", self.regularization, above=0)

    def infer(
        self,
        observed: Ratings,
        rng: Generator,
        observer: Observer,
        held_out: Ratings | None = None,
        given: Start | None = None,
        checkpoints: RunCheckpoints | None = None,
    ) -> JointPosterior:
        if observed.declared_kind in CHOICES:
            raise DataError(
                f"the values are {observed.declared_kind}, which say what was chosen and not how it was liked; for "
                "Joint expected ratings, or choose a model of choices, such as ease or implicit-als"
            )
        rating = self.infer_ratings(observed, rng, observer, held_out, given, checkpoints)
        return self._joined(rating, observed, observer)

    @property
    def rating_posterior(self) -> DrawsPosterior:
        return self._joint.rating

    @property
    def weight_(self) -> float:
        """What was given, or found."""
        return self._joint.found.weight

    @property
    def regularization_(self) -> float:
        """What was given, or found."""
        return self._joint.found.regularization

    @property
    def _joint(self) -> JointPosterior:
        self.require_fitted()
        posterior = self.posterior_
        assert isinstance(posterior, JointPosterior)
        return posterior

    def kept_up(self, posterior: JointPosterior, merged: Merged, seen: TrainingSummary, seed: int) -> JointPosterior:  # type: ignore[override]
        rating, observed = super().kept_up(posterior.rating, merged, seen, seed), merged.ratings
        if merged.news.ratings:
            return self._again(posterior, rating, observed)
        how = posterior.found.regularization, observed.item_features
        return replace(posterior, rating=rating, choice=posterior.choice.with_items(observed.n_items, *how))

    def restarted(  # type: ignore[override]
        self,
        posterior: JointPosterior,
        observed: Ratings,
        seen: TrainingSummary,
        sweeps: int,
        seed: int,
        observer: Observer,
    ) -> JointPosterior:
        rating = super().restarted(posterior.rating, observed, seen, sweeps, seed, observer)
        return self._again(posterior, rating, observed)

    def _again(self, before: JointPosterior, rating: DrawsPosterior, observed: Ratings) -> JointPosterior:
        """The choice side of all ratings there are now, with the settings that were found before."""
        return replace(before, rating=rating, choice=ChoiceModel.of(observed, before.found.regularization, silent))

    def _joined(self, rating: DrawsPosterior, observed: Ratings, observer: Observer) -> JointPosterior:
        """With a choice side, and how the two are combined."""
        # Which ratings are held out does not depend on the seed: it decides a setting, and no draw.
        rng = np.random.default_rng([len(observed), observed.n_users, observed.n_items])
        observer(Progress("choosing the order of lists", 0, 3))
        held = HeldOut.of(observed, rng)
        found = None
        if len(held.rows) and "auto" in (self.weight, self.regularization):
            short, others = self._plain().set_params(**SHORT_CHAIN), observed.masked(~held.is_held)
            learned = short.infer_ratings(others, rng, silent, is_final=False)
            people = replace(base.People.new_users(held.rest), features=described_users(observed, held.rows))
            found = Search.of(observed, held, learned.believe(people, threads.resolve(self.threads)))
        observer(Progress("choosing the order of lists", 1, 3))
        regularization, weight, curve = USUAL_REGULARIZATION, USUAL_WEIGHT, ChoiceCurve.nothing(_mean_share(observed))
        weights = ROUGH_WEIGHTS if self.weight == "auto" else (float(self.weight),)
        gram: FloatMatrix | None = None  # known from the search, if there is one
        smaller: tuple[float, ...] = ()
        if self.regularization != "auto":
            regularization = float(self.regularization)
        elif found is not None and not found.tells_nothing:
            pairs = PairWeights.of(observed)
            gram = gram_of(pairs.weigh(observed.by_user, observed.n_items), silent, threads.resolve(self.threads))
            regularization = found.regularization(weights, gram)
            if POPULAR_ITEMS < observed.n_items <= MOST_COMPARED:
                smaller = REGULARIZATIONS[: REGULARIZATIONS.index(regularization)]
        observer(Progress("choosing the order of lists", 2, 3))
        choice, log_choice = self._choices(observed, regularization, held, gram)
        for other in reversed(smaller):  # Items that are not so popular have fewer ratings, and may want less of it.
            less = self._choices(observed, other, held, gram)
            assert found is not None  # They were found by it.
            if found.value(less[1], weights) <= found.value(log_choice, weights):
                break
            regularization, (choice, log_choice) = other, less
        if len(held.rows):
            curve = ChoiceCurve.of(log_choice, held.rest, held.held)
            weight = weight if found is None else found.weight(log_choice)
        weight = weight if self.weight == "auto" else float(self.weight)
        observer(Progress("choosing the order of lists", 3, 3))
        return JointPosterior(rating, choice, curve, Found(regularization, weight))

    def _choices(
        self, observed: Ratings, regularization: float, held: HeldOut, gram: FloatMatrix | None
    ) -> tuple[ChoiceModel, FloatMatrix]:
        """The choice side, and log C of users without what was held out."""
        choice = ChoiceModel.of(observed, regularization, silent, None if gram is None else gram.copy())
        whole, rest = (choice.pairs.weigh(part, choice.n_items) for part in (held.whole, held.rest))
        linear = without(choice.inverse, whole, rest, threads.resolve(self.threads))
        return choice, np.log(propensities(linear, held.rest.counts, choice.shares))

    def _plain(self) -> BPMF:
        """The rating side alone."""
        return BPMF(**{name: value for name, value in self.get_params().items() if name in BPMF.__dataclass_fields__})
