"""Yes and no out of choices: what a user chose is yes, and items drawn for him are no.

A likelihood of yes and no then has something to tell them from. While a model is fitted every user has draws of his
own: of many who chose the same thing, as first-time buyers do, all would otherwise turn down the same few items. Where
somebody is folded in, what is drawn depends on the model and on what he chose, and on nothing else: two with the same
choices are believed to be the same, whether they were there in training or not, and nothing of it has to be kept.

An item can be drawn twice, and is then no twice: over all draws, a cell counts as much as the law says (`negatives`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.models.factorization.implicit.negatives import Chances, even, popularity
from tastespace.models.factorization.likelihoods.confidence_cells import OfChoices, chosen_only
from tastespace.models.factorization.likelihoods.kept_noise import Folded, LevelNoise, LogisticNoise, keys_of

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws


NegativesLaw = Literal["uniform", "popularity"]
NEGATIVES_LAWS: tuple[NegativesLaw, ...] = get_args(NegativesLaw)
LEVELS_KIND, LOGISTIC_KIND = 6, 7  # among the kinds of noise of an artifact


@dataclass(frozen=True, eq=False)
class SampledNegatives:
    """What is drawn for users: how many items a choice, and by which chances."""

    law: NegativesLaw
    per_choice: int
    chances: Chances  # of items
    key: int  # of the model: 63 bits

    @classmethod
    def of(cls, law: NegativesLaw, per_choice: int, item_counts: NDArray[Any], key: int) -> SampledNegatives:
        """For items that were chosen so often."""
        values = popularity(item_counts) if law == "popularity" else even(len(item_counts))
        return cls(law, per_choice, Chances(values), key)

    def for_items(self, item_counts: NDArray[Any]) -> SampledNegatives:
        """The same for the items there are now."""
        return self.of(self.law, self.per_choice, item_counts, self.key)

    @property
    def share(self) -> float:
        """Of yes, where hardly any item is chosen."""
        return 1 / (1 + self.per_choice)

    def completed(self, ratings: CSR, *, by_row: bool = False) -> CSR:
        """Choices of each user as yes (1), and behind them what was drawn for him, as no (0).

        By what he chose, or by his row: then those who chose the same have other draws.
        """
        chosen = chosen_only(ratings)
        yes = np.ones(len(chosen.columns), np.float32)
        places = keys_of(CSR(chosen.offsets, chosen.columns, yes))
        if by_row:
            places += np.arange(len(places), dtype=np.uint64)  # streams of neighbouring places differ
        no = self.chances.draw(chosen, self.per_choice * chosen.counts, self.key, places)
        return CSR.group(
            np.concatenate([chosen.rows(), no.rows()]),
            np.concatenate([chosen.columns, no.columns]),
            np.concatenate([yes, no.values]),
            len(chosen),
        )

    def yes_and_no(self, observed: Ratings) -> Ratings:
        """All choices as such ratings, of the same users and items."""
        both = self.completed(observed.by_user, by_row=True)
        return replace(
            observed,
            user_rows=both.rows(),
            item_rows=both.columns,
            values=both.values,
            times=None,
            declared_kind="yes-no",
        )

    def kept(self, noise: object) -> LevelNoise | LogisticNoise:
        """A noise of yes and no that takes choices."""
        if isinstance(noise, LevelNoise):
            return LevelsOfChoices(noise.cuts, noise.edges, self)
        assert isinstance(noise, LogisticNoise)
        return LogisticOfChoices(noise.offset, self)

    def arrays(self) -> dict[str, NDArray[Any]]:
        figures = [NEGATIVES_LAWS.index(self.law), self.per_choice, self.key]
        return {"negatives": np.array(figures, np.int64), "negatives_chances": self.chances.values}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> SampledNegatives:
        law, per_choice, key = (int(figure) for figure in arrays["negatives"])
        chances = Chances(contiguous(arrays["negatives_chances"], np.float64))
        return cls(NEGATIVES_LAWS[law], per_choice, chances, key)


@dataclass(frozen=True, eq=False)
class LevelsOfChoices(OfChoices, LevelNoise):
    """Yes and no by a normal response, from choices."""

    negatives: SampledNegatives

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        return super().fold_in(draws, self.negatives.completed(ratings), roots, threads)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().arrays(), **self.negatives.arrays(), "noise": np.array([LEVELS_KIND], np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LevelsOfChoices:
        cuts, edges = (contiguous(arrays[name], np.float64) for name in ("cuts", "edges"))
        return cls(cuts, edges, SampledNegatives.from_arrays(arrays))


@dataclass(frozen=True, eq=False)
class LogisticOfChoices(OfChoices, LogisticNoise):
    """Yes and no by a logistic link, from choices."""

    negatives: SampledNegatives

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> Folded:
        return super().fold_in(draws, self.negatives.completed(ratings), roots, threads)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().arrays(), **self.negatives.arrays(), "noise": np.array([LOGISTIC_KIND], np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LogisticOfChoices:
        return cls(float(arrays["logistic_offset"][0]), SampledNegatives.from_arrays(arrays))


def negatives_of(noise: object) -> SampledNegatives | None:
    """By which a noise folds users in; None where it takes yes and no, or other ratings, as they are."""
    return noise.negatives if isinstance(noise, LevelsOfChoices | LogisticOfChoices) else None
