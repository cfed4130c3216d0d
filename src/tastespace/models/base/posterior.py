"""What inference concluded, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import polars as pl
from numpy.random import Generator
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, DoubleArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.csr import CSR
from tastespace.data.kinds import level_names
from tastespace.distributions.rating_distribution import ExpectedRating, RatingDistribution
from tastespace.errors import InvalidParameterError
from tastespace.frames import to_pandas
from tastespace.models.base.parameters import check_number

if TYPE_CHECKING:
    import pandas as pd


# By capability and class. Not an attribute of either: `typing` would take it for something that objects must have.
_ANSWERS: dict[tuple[type, type], bool] = {}


class _AskedOnce(type(Protocol)):  # type: ignore[misc]
    """`typing` goes through all members at every question, which took a tenth of the time of a recommendation."""

    def __instancecheck__(cls, instance: Any) -> bool:
        question = (cls, type(instance))
        if question not in _ANSWERS:
            _ANSWERS[question] = super().__instancecheck__(instance)
        return _ANSWERS[question]


class Capability(Protocol, metaclass=_AskedOnce):
    """Base of protocols that objects are tested for; whatever an object has, its class declares."""


Belief = TypeVar("Belief")
AskedBelief = TypeVar("AskedBelief", contravariant=True)


class Posterior(Protocol[Belief]):
    """Beliefs about users, and the ratings that follow from them.

    A belief is one object for several users (rows 0..n-1 of the belief). A training user, one with new
    ratings and a stranger are asked about in the same way.
    """

    def known(self, user_rows: IntArray, threads: int = 1) -> Belief:
        """What is believed about users of the training ratings; row -1 is somebody never seen."""
        ...

    def fold_in(self, history: CSR, threads: int) -> Belief:
        """What is believed about users with these ratings (columns are item rows), without retraining."""
        ...

    def choose(self, which: BoolArray, one: Belief, other: Belief) -> Belief:
        """The one belief where `which`, the other elsewhere."""
        ...

    def predict(self, belief: Belief, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray:
        """Expected ratings of pairs; item row -1 is an item never seen."""
        ...

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """All that must be saved."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The same posterior from what was saved."""
        ...


@dataclass(frozen=True, eq=False)
class PredictiveDistribution:
    """What pairs of users and items would be rated: the expected rating, as far as it is known, and a rating."""

    belief: ExpectedRating
    rating: RatingDistribution


@runtime_checkable
class Uncertain(Capability, Protocol[AskedBelief]):
    """Capability of a posterior that knows how sure it is."""

    @property
    def usual_rating(self) -> float:
        """The mean of the training ratings: what a good item should reach, unless told otherwise."""
        ...

    @property
    def rating_range(self) -> tuple[float, float]:
        """The lowest and the highest rating."""
        ...

    def outlook(
        self, belief: AskedBelief, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> PredictiveDistribution:
        """Of each pair; item row -1 is an item never seen."""
        ...

    def summary(
        self, belief: AskedBelief, belief_rows: IntArray, item_rows: IntArray, threads: int
    ) -> tuple[FloatArray, FloatArray]:
        """The expected rating of each pair, and the standard deviation of the belief about it; items are known."""
        ...

    def draw_scores(
        self, belief: AskedBelief, belief_row: int, n: int, rng: Generator, items: IntArray | None = None
    ) -> FloatMatrix:
        """What items (None: all) would score for a user in n draws from the posterior, evenly over what is kept."""
        ...


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What to ask a user, one question after the other, and how much less uncertain the answers leave the targets."""

    items: IntArray
    reductions: DoubleArray  # of the targets' mean variance, a question each; in squared units of ratings
    variance: float  # before the first


@runtime_checkable
class Inquires(Capability, Protocol[AskedBelief]):
    """Capability of a posterior that knows beforehand how much an answer would tell."""

    def inquire(
        self,
        belief: AskedBelief,
        belief_row: int,
        askable: IntArray,
        targets: IntArray,
        importance: DoubleArray,
        n: int,
    ) -> Inquiry:
        """Up to n of the askable items, whose ratings lower the variance of the targets' scores most.

        `importance` is what each target counts, 1 together; of equally good questions the first is asked.
        """
        ...


@runtime_checkable
class Influenced(Capability, Protocol[AskedBelief]):
    """Capability of a posterior that knows at once what all ratings of a user did, without asking rating by rating."""

    def influences(self, belief: AskedBelief, item_rows: IntArray) -> FloatMatrix:
        """What a unit more of each rating of the one user would add to the expected ratings; items x ratings.

        Exact where these are linear in the ratings; else the effect of a small change.
        """
        ...


@runtime_checkable
class Remembers(Capability, Protocol):
    """Capability of a posterior that answers for training users from their ratings, which it does not keep itself."""

    @property
    def remembers(self) -> bool:
        """Whether there are any ratings at hand."""
        ...

    def remembering(self, ratings: CSR) -> Self:
        """The same posterior, with the training ratings by user at hand."""
        ...


@runtime_checkable
class Reweighs(Capability, Protocol[Belief]):
    """Capability of a posterior of draws: those that explain new ratings better can count more."""

    def reweighed(self, folded: Belief, trained: CSR) -> Belief:
        """The folded-in belief, given which of the users' ratings the draws have seen in training."""
        ...


@runtime_checkable
class InnerProduct(Capability, Protocol[AskedBelief]):
    """Capability of a posterior: score = query . item vector + offset, so its items can be indexed."""

    def query_vectors(self, belief: AskedBelief) -> FloatMatrix: ...

    def item_vectors(self) -> FloatMatrix: ...

    def offsets(self, belief: AskedBelief) -> FloatArray: ...


@runtime_checkable
class DrawsQueries(Capability, Protocol[AskedBelief]):
    """Capability of a posterior that has inner products and is uncertain: a draw of a user is a query, too."""

    @property
    def items_are_certain(self) -> bool:
        """Whether items are the same in every draw, so that an index over them finds the best of a draw."""
        ...

    def draw_queries(
        self, belief: AskedBelief, belief_row: int, n: int, rng: Generator
    ) -> tuple[FloatMatrix, FloatArray]:
        """The query vectors and offsets of n draws: those whose scores `draw_scores` gives with the same numbers."""
        ...


@runtime_checkable
class Scored(Capability, Protocol[AskedBelief]):
    """Capability of a posterior whose scores are no inner products: all items of a few users at a time."""

    def scores(self, belief: AskedBelief, belief_rows: IntArray, threads: int) -> FloatMatrix:
        """What `recommend` orders by, one row a user and one column an item; the caller may write into it."""
        ...


@runtime_checkable
class Latent(Capability, Protocol[AskedBelief]):
    """Capability of a posterior whose scores may be no ratings: these follow from them, and not as a straight line.

    Items are searched by score. What is shown, and decides between the best found, is the expected rating (`predict`).
    """

    @property
    def is_latent(self) -> bool: ...

    @property
    def levels(self) -> DoubleArray | None:
        """Those that ratings can be; None for numbers."""
        ...

    @property
    def history_levels(self) -> DoubleArray | None:
        """Those that ratings of a history can be; None for numbers, and for counts of choices."""
        ...

    def predict(self, belief: AskedBelief, belief_rows: IntArray, item_rows: IntArray, threads: int) -> FloatArray: ...


@runtime_checkable
class Embeddings(Capability, Protocol[AskedBelief]):
    """Capability of a posterior: users and items are points of a taste space, alike where they lie in one direction.

    A place has the factors only. A bias says how much is thought of a thing, not of what kind it is.
    """

    def item_places(self) -> FloatMatrix:
        """One row an item."""
        ...

    def user_places(self, belief: AskedBelief) -> FloatMatrix:
        """One row a user of the belief, in the same dimensions as the items."""
        ...


@runtime_checkable
class ComparesItems(Capability, Protocol):
    """Capability of a posterior without places that knows in a way of its own how alike two items are."""

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """From -1 to 1, one row an item asked about and one column an item; the caller may write into it.

        0 is nothing in common: such an item is not listed as similar.
        """
        ...


@runtime_checkable
class ComparesUsers(Capability, Protocol[AskedBelief]):
    """Capability of a posterior without places that knows in a way of its own how alike two users are."""

    def user_similarities(self, belief: AskedBelief, belief_rows: IntArray, threads: int) -> FloatMatrix:
        """From -1 to 1, one row a user of the belief and one column a training user; the caller may write into it.

        0 is nothing in common: such a user is not listed as similar.
        """
        ...


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted ratings of (user, item) pairs, within the rating range.

    `cold` pairs have a user without ratings or an item never seen: theirs is the prior's answer.

    A model with a posterior also says how sure it is: `belief_sd` is the uncertainty about the expected rating, which
    more ratings would make smaller, and `rating_sd` that of a single rating, moods and misclicks included. `rating`
    is its whole distribution. All three are None for a model that gives a point and no more.

    `unclipped` is the mean before it is brought into the range, which tells apart what lies beyond its ends: what lists
    are ordered by. None: the mean itself.
    """

    user_ids: pl.Series
    item_ids: pl.Series
    titles: pl.Series | None
    mean: FloatArray
    cold: BoolArray
    belief_sd: FloatArray | None = None
    rating_sd: FloatArray | None = None
    rating: RatingDistribution | None = None
    unclipped: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def effective_draws(self) -> DoubleArray | None:
        """Where draws are weighed by evidence: how many equal ones each prediction rests on."""
        return None if self.rating is None else self.rating.effective_draws

    @property
    def is_uncertain(self) -> bool:
        """Whether the model says how sure it is."""
        return self.rating is not None

    def quantiles(self, *probabilities: float) -> DoubleArray:
        """What a rating falls below with each probability, within the range: one column each."""
        if not probabilities:
            raise InvalidParameterError("quantiles got no probability; expected at least one, such as 0.5")
        for probability in probabilities:
            check_number("probability", probability, above=0, below=1)
        rating = self._known("quantiles")
        return np.stack([rating.quantile(probability) for probability in probabilities], axis=1)

    def interval(self, coverage: float = 0.9) -> DoubleArray:
        """Between which two values a rating lies with this probability, equally often below as above: n x 2."""
        check_number("coverage", coverage, above=0, below=1)
        return self.quantiles((1 - coverage) / 2, (1 + coverage) / 2)

    def probability_at_least(self, threshold: float) -> DoubleArray:
        """How likely each rating is to reach a threshold; between two levels the higher one has to be reached."""
        check_number("threshold", threshold)
        return self._known("probabilities").at_least(threshold)

    @property
    def levels(self) -> DoubleArray | None:
        """What ratings can be, ascending; None for a continuous scale, and for a model that gives a point."""
        return None if self.rating is None else self.rating.levels

    def level_probabilities(self) -> DoubleArray:
        """How likely each rating is to be each of the `levels`: one row a pair, 1 together, and one column a level."""
        rating = self._known("probabilities")
        if rating.levels is None:
            raise InvalidParameterError(
                "these ratings lie on a continuous scale and have no levels; expected ratings that are levels, such as "
                "stars; for probabilities use probability_at_least"
            )
        return rating.level_probabilities()

    def to_polars(self, coverage: float = 0.9, *, levels: bool = False) -> pl.DataFrame:
        """One row a pair; `low` and `high` are the interval that holds a rating so often.

        With `levels`, also how likely each level is, a column each: `p_1`, `p_2` and so on.
        """
        columns: dict[str, Any] = {"user": self.user_ids, "item": self.item_ids}
        if self.titles is not None:
            columns["title"] = self.titles
        columns["mean"] = self.mean
        if self.is_uncertain:
            low, high = self.interval(coverage).T
            columns |= {"belief_sd": self.belief_sd, "rating_sd": self.rating_sd, "low": low, "high": high}
            if self.effective_draws is not None:
                columns["effective_draws"] = self.effective_draws
        if levels:
            probabilities = self.level_probabilities()
            columns |= {f"p_{name}": probabilities[:, place] for place, name in enumerate(self.level_names)}
        return pl.DataFrame(columns | {"cold": self.cold})

    def to_pandas(self, coverage: float = 0.9, *, levels: bool = False) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars(coverage, levels=levels))

    @property
    def level_names(self) -> list[str]:
        """The levels as text, "1" and "1.5"; empty where there are none."""
        return level_names(self.levels)

    def _known(self, what: str) -> RatingDistribution:
        if self.rating is None:
            raise InvalidParameterError(
                f"this model predicts a point and gives no {what}; expected one with a posterior, such as BPMF, or "
                "ImplicitALS for choices"
            )
        return self.rating

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=10, tbl_hide_dataframe_shape=True):
            cold = int(np.count_nonzero(self.cold))
            return f"Prediction of {len(self)} rating{'s' if len(self) != 1 else ''} ({cold} cold)\n{self.to_polars()}"
