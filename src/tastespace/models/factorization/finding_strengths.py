"""What recommenders say of the strengths of their penalties, given, found or learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tastespace import threads
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.empirical_bayes.inferring import EmpiricalFactorization
from tastespace.models.factorization.empirical_bayes.posterior import EmpiricalPosterior, Learning
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes
from tastespace.models.factorization.penalty import WEIGHTINGS, Strengths
from tastespace.models.factorization.point import PointPosterior
from tastespace.models.recommender import Recommender


class FindsStrengths(Recommender):
    """A factorization with a penalty on each block, that of `ALS`."""

    regularisation: Any
    user_regularisation: float | None
    item_regularisation: float | None
    user_bias_regularisation: float | None
    item_bias_regularisation: float | None
    weighting: Any
    biases: bool
    precision: Any

    @property
    def _factors(self) -> PointPosterior | EmpiricalPosterior:
        """What has the factors: a point, or draws."""
        posterior = self.posterior_
        assert isinstance(posterior, PointPosterior | EmpiricalPosterior)
        return posterior

    @property
    def regularisation_(self) -> Strengths:
        """The strengths that were found, or given, or learned; `as_grid` makes a grid of them."""
        self.require_fitted()
        found = self._factors
        return found.learning.strengths if isinstance(found, EmpiricalPosterior) else found.penalty.strengths

    @property
    def learning_(self) -> Learning:
        """How empirical Bayes came to its precisions; another regularisation learns none."""
        self.require_fitted()
        found = self._factors
        if not isinstance(found, EmpiricalPosterior):
            raise InvalidParameterError(
                f"this {type(self).__name__} has learned no precisions: its regularisation is "
                f"{self.regularisation!r}; expected one fitted with regularisation='empirical-bayes'"
            )
        return found.learning

    def _all_given(self) -> bool:
        """Whether every block has a strength of its own."""
        own = [self.user_regularisation, self.item_regularisation]
        if self.biases:
            own += [self.user_bias_regularisation, self.item_bias_regularisation]
        return None not in own

    def _overridden(self, strengths: Strengths) -> Strengths:
        """The separate strengths where they are given, these where not."""
        own = {
            "users": self.user_regularisation,
            "items": self.item_regularisation,
            "user_bias": self.user_bias_regularisation,
            "item_bias": self.item_bias_regularisation,
        }
        return replace(strengths, **{block: float(value) for block, value in own.items() if value is not None})

    def _learner(self, settings: EmpiricalBayes, n_factors: int) -> EmpiricalFactorization:
        """What learns the precisions of this factorization."""
        return EmpiricalFactorization(
            settings,
            WEIGHTINGS[self.weighting],
            n_factors,
            self.biases,
            np.float32 if self.precision == "float32" else np.float64,
            threads.resolve(self.threads),
        )

    def _check_empirical(self) -> None:
        """Empirical Bayes learns all strengths."""
        for name in ("user", "item", "user_bias", "item_bias"):
            if (value := getattr(self, f"{name}_regularisation")) is not None:
                raise InvalidParameterError(
                    f"{name}_regularisation is {value:g}, and regularisation is 'empirical-bayes', which learns all "
                    "strengths; expected None, or a regularisation that is a number or 'auto'"
                )
