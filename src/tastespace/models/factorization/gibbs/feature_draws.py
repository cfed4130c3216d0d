"""The coefficients of features that are kept with draws: they shift the prior means of users, and of new items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import DoubleArray, FloatArray, FloatMatrix, contiguous
from tastespace.data.csr import CSR
from tastespace.errors import InvalidParameterError
from tastespace.models.base.results import FeatureImportance
from tastespace.models.factorization.priors.design import BAG, Group, bag_of


@dataclass(frozen=True, eq=False)
class FeatureDraws:
    """The coefficients of one side, S draws of F features with W numbers each.

    Those of the items' bag are not kept: items that have one have their own draws.
    """

    coefficients: FloatArray  # F x S x W
    group_precisions: DoubleArray  # S x groups
    groups: tuple[Group, ...]
    shares: DoubleArray  # S x groups: of the variance of the training rows that each group explains

    @property
    def n_attributes(self) -> int:
        """The number of features that are not the bag."""
        return next((group.start for group in self.groups if group.name == BAG), len(self.coefficients))

    def shifts(self, attributes: Any, history: CSR) -> FloatArray:
        """What features add to the means of some rows: n x S x W.

        `attributes` are the features of each row, without the bag; None for none. `history` is what the bag is made of.
        """
        n_features, n_draws, width = self.coefficients.shape
        n_rows = len(history)
        dense = self.coefficients.reshape(n_features, n_draws * width)
        total = np.zeros((n_rows, n_draws * width), np.float32)
        if attributes is not None and self.n_attributes:
            total += attributes.astype(np.float32) @ dense[: self.n_attributes]
        if n_features > self.n_attributes:
            n_others = n_features - self.n_attributes
            learned = np.where(history.columns < n_others, history.columns, -1)
            bag = bag_of(CSR(history.offsets, contiguous(learned, np.int32), history.values), n_others)
            total += bag.astype(np.float32) @ dense[self.n_attributes :]
        return total.reshape(n_rows, n_draws, width)

    def shifts_at(self, draw: int, attributes: Any, history: CSR) -> FloatMatrix:
        """The same in one draw: n x W."""
        one = replace(self, coefficients=self.coefficients[:, draw : draw + 1])
        return one.shifts(attributes, history)[:, 0]

    def arrays(self, side: str, stored: Any) -> dict[str, NDArray[Any]]:
        """The arrays for an artifact, the coefficients in this type."""
        return {
            f"{side}_coefficients": contiguous(self.coefficients, stored),
            f"{side}_group_precisions": self.group_precisions,
            f"{side}_group_shares": self.shares,
            f"{side}_group_starts": np.array([[group.start, group.stop] for group in self.groups], np.int64),
            f"{side}_group_names": np.frombuffer("\0".join(group.name for group in self.groups).encode(), np.uint8),
        }

    @classmethod
    def found_in(cls, side: str, arrays: Mapping[str, NDArray[Any]]) -> FeatureDraws | None:
        """The saved coefficients of a side, or None."""
        if f"{side}_coefficients" not in arrays:
            return None
        names = bytes(arrays[f"{side}_group_names"]).decode().split("\0")
        starts = arrays[f"{side}_group_starts"].tolist()
        return cls(
            contiguous(arrays[f"{side}_coefficients"], np.float32),
            contiguous(arrays[f"{side}_group_precisions"], np.float64),
            tuple(Group(name, *ends) for name, ends in zip(names, starts, strict=True)),
            contiguous(arrays[f"{side}_group_shares"], np.float64),
        )


def importance_of(of_users: FeatureDraws | None, of_items: FeatureDraws | None) -> FeatureImportance:
    """What each group of both sides explains."""
    sides = [("user", of_users), ("item", of_items)]
    rows = [
        (side, group.name, len(group), kept.shares[:, place], kept.group_precisions[:, place])
        for side, kept in sides
        if kept is not None
        for place, group in enumerate(kept.groups)
    ]
    if not rows:
        raise InvalidParameterError(
            "feature_importance needs features, and this model was fitted without; expected a fit on "
            "ratings.with_item_features(...) or with_user_features(...)"
        )
    rows.sort(key=lambda row: -float(row[3].mean()))
    shares = np.array([row[3] for row in rows])
    low, high = np.quantile(shares, [0.05, 0.95], axis=1)
    return FeatureImportance(
        side=[row[0] for row in rows],
        group=[row[1] for row in rows],
        n_features=[row[2] for row in rows],
        share=shares.mean(axis=1).astype(np.float32),
        low=low.astype(np.float32),
        high=high.astype(np.float32),
        precision=np.array([row[4].mean() for row in rows], np.float32),
    )
