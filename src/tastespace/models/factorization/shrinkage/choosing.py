"""Which shrinking prior is meant by a parameter, for these ratings.

How narrow is next to nothing? With users of the variance 1, noise of the variance s2, and each of N x M pairs rated
with the same probability, a column of the items is found among |O| ratings only if its variance is above

    s2 sqrt(N M) / |O| =: s2 t

(the threshold of a spiked random matrix). Noise has about half of the variance of ratings, s2 = 1/2. All that follows
is in units of t, which depends on who rated what, and not on the ratings.

ARD: the gamma prior is worth as many rows at zero as the normal-Wishart prior of the same side has. That holds back
what ratings hardly show, and next to nothing holds columns open: those without use vanish. One counts whose variance is
above t / 5.

Cumulative shrinkage: the spike is t / 4. The slab must not become narrower than the spike: with n rows and the rate
n spike / 2 its variance is the mean square and a spike, less what holds it back. A column then becomes a spike where
its mean square is below about 1.8 spikes, and that is near the threshold.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any, Literal

from tastespace.data.ratings import Ratings
from tastespace.errors import InvalidParameterError
from tastespace.models.factorization.priors import NormalWishartPrior
from tastespace.models.factorization.shrinkage.columns import RelevancePrior, UnitPrior
from tastespace.models.factorization.shrinkage.cumulative import CumulativePrior
from tastespace.models.factorization.story import FactorModel
from tastespace.models.parameters import whole_number

PriorName = Literal["auto", "normal-wishart", "cumulative", "ard"]
Shrinkage = Literal["cumulative", "ard"]
# On held-out parts of training ratings ARD predicts as well as the best normal-Wishart prior, cumulative shrinkage does
# not quite; and it finds planted ranks at least as well (docs/design/rank-by-shrinkage.md).
DEFAULT_SHRINKAGE: Shrinkage = "ard"
MOST_FACTORS = 64  # to begin with

LEAST_SHARE, SPIKE_SHARE = 0.2, 0.25  # of t
LARGEST_UNIT = 0.2  # t where there are hardly any ratings, in units of their variance
SLAB_SHAPE, EXPECTED_SLABS = 2.0, 10.0
RELEVANCE_SHAPE, RELEVANCE_FLOOR = 1.0, 1e-4  # the floor in t


def shrinkage_of(prior: PriorName, n_factors: int | str) -> Shrinkage | None:
    """What shrinks columns, if something does."""
    if prior == "normal-wishart" or (prior == "auto" and n_factors != "auto"):
        return None
    return DEFAULT_SHRINKAGE if prior == "auto" else prior


def check_prior(prior: PriorName, n_factors: Any) -> None:
    """A prior that shrinks nothing finds no number of factors."""
    if prior == "normal-wishart" and n_factors == "auto":
        raise InvalidParameterError(
            "n_factors is 'auto', and prior is 'normal-wishart', which shrinks no factors; expected prior='auto', "
            "'cumulative' or 'ard', or a number of factors"
        )


def check_most_factors(most_factors: Any, n_factors: Any) -> None:
    """The most of what is given says nothing."""
    whole_number("most_factors", most_factors, least=1)
    if n_factors != "auto" and most_factors != MOST_FACTORS:
        raise InvalidParameterError(
            f"most_factors is {most_factors}, and n_factors is {n_factors!r}; expected n_factors='auto', or no "
            "most_factors"
        )


def unit_of(observed: Ratings) -> float:
    """t."""
    return min(sqrt(observed.n_users * observed.n_items) / max(len(observed), 1), LARGEST_UNIT)


def shrinking(model: FactorModel, shrinkage: Shrinkage, observed: Ratings) -> FactorModel:
    """The model with columns that shrink: of its items or, where these lie on a sphere, of its users."""
    unit, sphere, n_factors = unit_of(observed), model.item_moves.sphere, model.n_factors
    of_users, of_items = model.user_prior, model.item_prior
    settling = of_users, of_items
    assert isinstance(of_users, NormalWishartPrior)
    if isinstance(of_items, NormalWishartPrior):
        prior = shrinking_prior(shrinkage, unit, observed.n_items, n_factors, of_items)
        return replace(
            model, user_prior=UnitPrior(of_users.strength, of_users.bias), item_prior=prior, settling=settling
        )
    assert sphere is not None
    # A coordinate of an item has the variance radius^2 / D.
    unit *= (n_factors + sphere.has_joint_bias) / sphere.radius**2
    prior = shrinking_prior(shrinkage, unit, observed.n_users, n_factors, of_users)
    return replace(model, user_prior=prior, settling=settling)


def shrinking_prior(
    shrinkage: Shrinkage, unit: float, n_rows: int, n_factors: int, like: NormalWishartPrior
) -> CumulativePrior | RelevancePrior:
    """That of a side with so many rows, held back as by another prior; means and biases are as that has them."""
    held_back = 0.0 if like.degrees is None else (like.degrees - n_factors) / 2
    if shrinkage == "cumulative":
        spike = SPIKE_SHARE * unit
        return CumulativePrior(
            spike, SLAB_SHAPE + held_back, n_rows * spike / 2, EXPECTED_SLABS, like.strength, like.bias
        )
    floor = RELEVANCE_FLOOR * n_rows * unit / 2
    return RelevancePrior(RELEVANCE_SHAPE + held_back, floor, LEAST_SHARE * unit, like.strength, like.bias)
