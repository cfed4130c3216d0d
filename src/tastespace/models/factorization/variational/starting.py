"""Where variational Bayes starts from: points, which have no doubt about them yet."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.arrays import AnyFloats
from tastespace.inference.drivers import ascend, never
from tastespace.models.factorization.als import AlternatingLeastSquares
from tastespace.models.factorization.gibbs import START_SD, START_STRENGTH, START_SWEEPS
from tastespace.models.factorization.penalty import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.rows import Points, Side
from tastespace.models.starting import Start
from tastespace.progress import silent


def starting_points(
    by_user: Side,
    by_item: Side,
    n_factors: int,
    *,
    biases: bool,
    is_als: bool,
    given: Start | None = None,
    rng: Generator,
    threads: int,
) -> tuple[Points, Points]:
    """Users and items: small random factors without biases, a few sweeps of alternating least squares, or the items of
    another model with users where these put them."""
    if given is not None or is_als:
        ascent = _least_squares(by_user, by_item, n_factors, biases=biases, threads=threads)
        if given is not None:
            start = ascent.from_items(_items_of(given, by_item, n_factors, biases, rng))
        else:
            start, _ = ascend(
                ascent, ascent.init(rng), rng, steps=START_SWEEPS, stop=never, phase="starting", observer=silent
            )
        return start.users, start.items
    dtype = by_user.targets.dtype
    users, items = (_random(side, n_factors, biases, dtype, rng) for side in (by_user, by_item))
    return users, items


def _random(side: Side, n_factors: int, biases: bool, dtype: Any, rng: Generator) -> Points:
    n = len(side.offsets) - 1
    factors = (START_SD * rng.standard_normal((n, n_factors))).astype(dtype)
    return Points(factors, np.zeros(n, dtype) if biases else None)


def _items_of(given: Start, by_item: Side, n_factors: int, biases: bool, rng: Generator) -> Points:
    """In the unit of the ratings here."""
    unit, dtype = by_item.scale, by_item.targets.dtype
    factors: AnyFloats = (given.factors(n_factors, START_SD * sqrt(unit), rng) / sqrt(unit)).astype(dtype)
    return Points(factors, (given.points.bias / unit).astype(dtype) if biases else None)


def _least_squares(
    by_user: Side, by_item: Side, n_factors: int, *, biases: bool, threads: int
) -> AlternatingLeastSquares:
    penalty, dtype = Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"]), by_user.targets.dtype
    return AlternatingLeastSquares(
        by_user=by_user,
        by_item=by_item,
        user_prior=penalty.prior("users", n_factors, np.diff(by_user.offsets), dtype),
        item_prior=penalty.prior("items", n_factors, np.diff(by_item.offsets), dtype),
        has_biases=biases,
        start_sd=START_SD,
        threads=threads,
    )
