"""Binary likelihoods for implicit feedback: what a user chose is yes, and items sampled for them are no.

In training every user has their own samples: many users with the same choices, such as first-time buyers, would
otherwise all reject the same few items. In a fold-in the samples depend only on the model and on what the user chose:
two users with the same choices get the same belief, in training or not, and no samples have to be kept.

An item can be drawn twice, and then counts twice: in expectation, a cell has the weight of the law (`negatives`).
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
    """A binary likelihood for choices: negatives are sampled for users in proportion to their choices."""

    inner: Binary  # with the law and the number of the negatives
    chances: Chances  # of items
    key: int  # of the model: 63 bits

    is_linear: ClassVar[bool] = False

    @classmethod
    def of(cls, inner: Binary, item_counts: NDArray[Any], key: int) -> SampledNegatives:
        """Sampled negatives for items with these numbers of choices."""
        values = popularity(item_counts) if inner.negatives == "popularity" else even(len(item_counts))
        return cls(inner, Chances(values), key)

    def for_items(self, item_counts: NDArray[Any]) -> SampledNegatives:
        """The same for the current items."""
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
        """Choices of each user as yes (1), followed by their sampled negatives as no (0).

        Samples depend on what they chose, or on their row: then users with the same choices have different samples.
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
        """All choices as ratings of yes and no, of the same users and items."""
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
    """Leave out choices with a count of 0, which explanations use for removed choices."""
    is_chosen = ratings.values > 0
    return ratings if is_chosen.all() else ratings.masked(is_chosen)
