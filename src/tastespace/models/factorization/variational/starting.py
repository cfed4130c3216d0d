"""Where variational Bayes starts from: points, which have no doubt about them yet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from tastespace.inference.drivers import ascend, never
from tastespace.models.factorization.als import AlternatingLeastSquares
from tastespace.models.factorization.gibbs import START_SD, START_STRENGTH, START_SWEEPS
from tastespace.models.factorization.penalty import WEIGHTINGS, Penalty, Strengths
from tastespace.models.factorization.rows import Points, Side
from tastespace.progress import silent


def starting_points(
    by_user: Side, by_item: Side, n_factors: int, *, biases: bool, is_als: bool, rng: Generator, threads: int
) -> tuple[Points, Points]:
    """Users and items: small random factors without biases, or a few sweeps of alternating least squares."""
    if is_als:
        return _least_squares(by_user, by_item, n_factors, biases=biases, rng=rng, threads=threads)
    dtype = by_user.targets.dtype
    users, items = (_random(side, n_factors, biases, dtype, rng) for side in (by_user, by_item))
    return users, items


def _random(side: Side, n_factors: int, biases: bool, dtype: Any, rng: Generator) -> Points:
    n = len(side.offsets) - 1
    factors = (START_SD * rng.standard_normal((n, n_factors))).astype(dtype)
    return Points(factors, np.zeros(n, dtype) if biases else None)


def _least_squares(
    by_user: Side, by_item: Side, n_factors: int, *, biases: bool, rng: Generator, threads: int
) -> tuple[Points, Points]:
    penalty, dtype = Penalty(Strengths.tied(START_STRENGTH), WEIGHTINGS["blended"]), by_user.targets.dtype
    ascent = AlternatingLeastSquares(
        by_user=by_user,
        by_item=by_item,
        user_prior=penalty.prior("users", n_factors, np.diff(by_user.offsets), dtype),
        item_prior=penalty.prior("items", n_factors, np.diff(by_item.offsets), dtype),
        has_biases=biases,
        start_sd=START_SD,
        threads=threads,
    )
    start, _ = ascend(ascent, ascent.init(rng), rng, steps=START_SWEEPS, stop=never, phase="starting", observer=silent)
    return start.users, start.items
