"""What inference concluded, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.arrays import BoolArray, FloatArray, FloatMatrix, IntArray
from tastespace.data.compressed import Compressed
from tastespace.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

Belief = TypeVar("Belief")
AskedBelief = TypeVar("AskedBelief", contravariant=True)


class Posterior(Protocol[Belief]):
    """Beliefs about users, and the ratings that follow from them.

    A belief is one object for several users (rows 0..n-1 of the belief). A training user, one with new
    ratings and a stranger are asked about in the same way.
    """

    def known(self, user_rows: IntArray) -> Belief:
        """What is believed about users of the training ratings; row -1 is somebody never seen."""
        ...

    def fold_in(self, history: Compressed, threads: int) -> Belief:
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


@runtime_checkable
class InnerProduct(Protocol[AskedBelief]):
    """Capability of a posterior: score = query . item vector + offset, so its items can be indexed."""

    def query_vectors(self, belief: AskedBelief) -> FloatMatrix: ...

    def item_vectors(self) -> FloatMatrix: ...

    def offsets(self, belief: AskedBelief) -> FloatArray: ...


@runtime_checkable
class Scored(Protocol[AskedBelief]):
    """Capability of a posterior whose scores are no inner products: all items of a few users at a time."""

    def scores(self, belief: AskedBelief, belief_rows: IntArray, threads: int) -> FloatMatrix:
        """What `recommend` orders by, one row a user and one column an item; the caller may write into it."""
        ...


@runtime_checkable
class Places(Protocol[AskedBelief]):
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
class ComparesItems(Protocol):
    """Capability of a posterior without places that knows in a way of its own how alike two items are."""

    def item_similarities(self, item_rows: IntArray, threads: int) -> FloatMatrix:
        """From -1 to 1, one row an item asked about and one column an item; the caller may write into it.

        0 is nothing in common: such an item is not listed as similar.
        """
        ...


@runtime_checkable
class ComparesUsers(Protocol[AskedBelief]):
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
    """

    user_ids: pl.Series
    item_ids: pl.Series
    titles: pl.Series | None
    mean: FloatArray
    cold: BoolArray

    columns: ClassVar[tuple[str, ...]] = ("mean", "cold")

    def __len__(self) -> int:
        return len(self.mean)

    def to_polars(self) -> pl.DataFrame:
        """One row a pair."""
        start: dict[str, Any] = {"user": self.user_ids, "item": self.item_ids}
        if self.titles is not None:
            start["title"] = self.titles
        return pl.DataFrame(start | {name: getattr(self, name) for name in self.columns})

    def to_pandas(self) -> pd.DataFrame:
        """The same table as a pandas frame."""
        return to_pandas(self.to_polars())

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=10, tbl_hide_dataframe_shape=True):
            cold = int(np.count_nonzero(self.cold))
            return f"Prediction of {len(self)} rating{'s' if len(self) != 1 else ''} ({cold} cold)\n{self.to_polars()}"
