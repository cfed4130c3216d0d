"""Who rates erratically, and what divides opinion: noise by user and by item, noisiest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from tastespace.arrays import FloatArray, FloatMatrix, OffsetArray
from tastespace.models.base.results import Table


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Noisiness(Table):
    """How far the ratings of users, or of items, fall from what tastes say, noisiest first.

    `noise_sd` is the standard deviation of a rating around its expectation, in rating units, of a user for an average
    item, or of an item by an average user: the posterior mean, with a 90 % interval from `low` to `high`. `probability`
    is that of more noise than average.
    """

    side: Literal["user", "item"]
    ids: pl.Series
    titles: pl.Series | None
    n_ratings: OffsetArray
    noise_sd: FloatArray
    low: FloatArray
    high: FloatArray
    probability: FloatArray

    @classmethod
    def of(
        cls,
        side: Literal["user", "item"],
        ids: pl.Series,
        titles: pl.Series | None,
        counts: OffsetArray,
        summary: FloatMatrix,  # rows x 4: mean, low, high, probability
        n: int,
    ) -> Noisiness:
        """The n noisiest; of equal ones the first."""
        order = np.argsort(-summary[:, 0], kind="stable")[:n]
        mean, low, high, probability = summary[order].T
        return cls(
            side=side,
            ids=ids.gather(order),
            titles=None if titles is None else titles.gather(order),
            n_ratings=counts[order],
            noise_sd=mean,
            low=low,
            high=high,
            probability=probability,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def heading(self) -> str:
        return f"The {len(self)} noisiest {self.side}{'s' if len(self) != 1 else ''}"

    def to_polars(self) -> pl.DataFrame:
        """One row each, noisiest first."""
        columns: dict[str, Any] = {self.side: self.ids}
        if self.titles is not None:
            columns["title"] = self.titles
        columns |= {"ratings": self.n_ratings, "noise_sd": self.noise_sd, "low": self.low, "high": self.high}
        return pl.DataFrame(columns | {"probability": self.probability})
