"""Yes and no out of choices: what a user chose is yes, and items drawn for them are no.

A likelihood of yes and no then has something to tell them from. While a model is fitted every user has draws of their
own: of many who chose the same thing, as first-time buyers do, all would otherwise turn down the same few items. Where
a user is folded in, what is drawn depends on the model and on what they chose, and on nothing else: two with the same
choices are believed to be the same, whether they were there in training or not, and nothing of it has to be kept.

An item can be drawn twice, and is then no twice: over all draws, a cell counts as much as the law says (`negatives`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tastespace.arrays import FloatArray, contiguous
from tastespace.data.csr import CSR
from tastespace.data.ratings import Ratings
from tastespace.models.base.posterior import PredictiveDistribution
from tastespace.models.factorization.implicit.negatives import Chances, even, popularity
from tastespace.models.factorization.likelihoods import LIKELIHOODS, base
from tastespace.settings import kind_of

if TYPE_CHECKING:
    from tastespace.models.factorization.gibbs.item_draws import ItemDraws
    from tastespace.models.factorization.likelihoods.binary import Binary


NegativesLaw = Literal["uniform", "popularity"]
NEGATIVES_LAWS: tuple[NegativesLaw, ...] = get_args(NegativesLaw)
INNER = {6: "probit", 7: "logistic"}  # kinds of noise of an artifact, and the likelihood of yes and no


@dataclass(frozen=True, eq=False)
class SampledNegatives(base.ServedLikelihood):
    """A likelihood of yes and no for choices: items are drawn for users, so many a choice, by chances."""

    inner: Binary  # with the law of the negatives, and how many there are
    chances: Chances  # of items
    key: int  # of the model: 63 bits

    is_linear: ClassVar[bool] = False

    @classmethod
    def of(cls, inner: Binary, item_counts: NDArray[Any], key: int) -> SampledNegatives:
        """What is drawn where items were chosen so often."""
        values = popularity(item_counts) if inner.negatives == "popularity" else even(len(item_counts))
        return cls(inner, Chances(values), key)

    def for_items(self, item_counts: NDArray[Any]) -> SampledNegatives:
        """The same for the items there are now."""
        return self.of(self.inner, item_counts, self.key)

    @property
    def takes_choices(self) -> bool:
        return True

    @property
    def sampled(self) -> SampledNegatives | None:
        return self

    @property
    def learned(self) -> base.Likelihood[Any] | None:
        return self.inner

    def completed(self, ratings: CSR, *, by_row: bool = False) -> CSR:
        """Choices of each user as yes (1), and behind them what was drawn for them, as no (0).

        What is drawn goes by what they chose, or by their row: then those who chose the same have other draws.
        """
        chosen = chosen_only(ratings)
        yes = np.ones(len(chosen.columns), np.float32)
        places = base.keys_of(CSR(chosen.offsets, chosen.columns, yes))
        if by_row:
            places += np.arange(len(places), dtype=np.uint64)  # streams of neighbouring places differ
        no = self.chances.draw(chosen, self.inner.n_negatives * chosen.counts, self.key, places)
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

    def fold_in(self, draws: ItemDraws, ratings: CSR, roots: FloatArray | None, threads: int) -> base.Folded:
        return self.inner.fold_in(draws, self.completed(ratings), roots, threads)

    def predictive(self, draws: ItemDraws, scores: base.ScoreDraws, units: base.Units) -> PredictiveDistribution:
        return self.inner.predictive(draws, scores, units)

    def information(self, draws: ItemDraws, scores: Callable[[], base.ScoreDraws], units: base.Units) -> base.Answers:
        return self.inner.information(draws, scores, units)

    def arrays(self, draws: ItemDraws) -> dict[str, NDArray[Any]]:
        (kind,) = (number for number, name in INNER.items() if name == self.inner.name)
        law = NEGATIVES_LAWS.index(self.inner.negatives or "uniform")
        return {
            **self.inner.arrays(draws),
            "noise": np.array([kind], np.uint8),
            "negatives": np.array([law, self.inner.n_negatives, self.key], np.int64),
            "negatives_chances": self.chances.values,
        }

    @classmethod
    def from_arrays(cls, arrays: base.Arrays) -> tuple[base.ServedLikelihood, base.Arrays]:
        law, n_negatives, key = (int(figure) for figure in arrays["negatives"])
        inner, noise = kind_of(LIKELIHOODS[INNER[int(arrays["noise"][0])]]).from_arrays(arrays)
        chances = Chances(contiguous(arrays["negatives_chances"], np.float64))
        return cls(replace(inner, negatives=NEGATIVES_LAWS[law], n_negatives=n_negatives), chances, key), noise


def chosen_only(ratings: CSR) -> CSR:
    """Leave out what was chosen no times: explanations ask what would be if something had not been chosen."""
    is_chosen = ratings.values > 0
    return ratings if is_chosen.all() else ratings.masked(is_chosen)
